"""Agents of the OpenAI Agents SDK under a guard, with the SDK's own model and a server."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest
from agents import (
    Agent,
    ModelSettings,
    OpenAIChatCompletionsModel,
    RunConfig,
    Runner,
    RunResult,
    ToolGuardrailFunctionOutput,
    ToolOutputImage,
    function_tool,
    tool_input_guardrail,
)
from agents.exceptions import ToolInputGuardrailTripwireTriggered, UserError
from agents.tool_context import ToolContext
from conftest import CUT
from faulty_server import Answer, FaultyServer
from openai import AsyncOpenAI
from test_litellm import BUSY, COMPLETIONS, QUOTA, guard, said

from unfazed import CallExhausted, Guard
from unfazed.openai_agents import GuardModel, guarded_tools


def tools_of(server: FaultyServer) -> list[Any]:
    @function_tool
    async def search(query: str) -> str:
        """Searches."""
        async with httpx.AsyncClient() as client:
            answer = await client.post(f"{server.url}/search", json={"query": query})
            return str(answer.raise_for_status().json())

    @function_tool
    def send_mail(to: str) -> str:
        """Sends a mail."""
        return str(httpx.post(f"{server.url}/mail", json={"to": to}).raise_for_status().json())

    return [search, send_mail]


def run(server: FaultyServer, guarded: Guard, tools: list[Any] | None = None, **models: str) -> RunResult:
    async def main() -> RunResult:
        # The client would retry twice by itself.
        async with AsyncOpenAI(base_url=f"{server.url}/v1", api_key="k", max_retries=2) as client:
            named = {name: OpenAIChatCompletionsModel(model, client) for name, model in models.items()}
            model = GuardModel(OpenAIChatCompletionsModel("gpt-5", client), guarded, models=named)
            agent = Agent(
                "desk",
                model=model,
                tools=guarded_tools(tools_of(server) if tools is None else tools, guarded),
                model_settings=ModelSettings(parallel_tool_calls=True),
                reset_tool_choice=False,
            )
            return await Runner.run(agent, "go", max_turns=30, run_config=RunConfig(tracing_disabled=True))

    return asyncio.run(main())


def outputs(server: FaultyServer) -> list[Any]:
    messages = server.asked(COMPLETIONS)[-1].body["messages"]
    return [message["content"] for message in messages if message["role"] == "tool"]


def test_a_mail_whose_answer_is_lost_is_sent_once(server: FaultyServer) -> None:
    server.answers("/mail", Answer(lost=True))
    server.answers(COMPLETIONS, said(None, ("send_mail", '{"to": "ada"}')), said("done"))
    assert run(server, guard()).final_output == "done"
    assert len(server.asked("/mail")) == 1
    assert "It may have had side effects" in outputs(server)[0]


def test_a_search_is_made_again_and_wrong_arguments_are_refused(server: FaultyServer) -> None:
    server.answers("/search", Answer(503, "busy"), Answer(200, "found"))
    asks = [said(None, ("search", args)) for args in ('{"q": "rust"}', "{'query': 'rust',}")]
    server.answers(COMPLETIONS, *asks, said("done"))
    run(server, guard())
    refused, found = outputs(server)
    assert "`query` is missing" in refused
    assert (found, len(server.asked("/search"))) == ("found", 2)


def test_four_calls_of_a_reply(server: FaultyServer) -> None:
    server.answers("/search", Answer(200, "found"))
    calls = [("search", json.dumps({"query": f"q{n}"})) for n in range(4)]
    server.answers(COMPLETIONS, said(None, *calls), said("done"))
    run(server, guard())
    assert outputs(server) == ["found"] * 4


def test_equal_calls_run_four_times_and_the_final_turn_shows_no_tools(server: FaultyServer) -> None:
    server.answers("/search", Answer(200, "nothing"))
    asks = [said(None, ("search", json.dumps({"query": "rust"}))) for _ in range(8)]
    # Without tools there is nothing to call.
    server.answers(COMPLETIONS, *asks, said("done"))
    assert run(server, guard()).final_output == "done"
    assert len(server.asked("/search")) == 4
    assert ["tools" in request.body for request in server.asked(COMPLETIONS)] == [True] * 8 + [False]
    assert "parallel_tool_calls" not in server.requests[-1].body


def test_a_model_that_fails_is_asked_as_often_as_the_policy_says_and_then_the_next_one(server: FaultyServer) -> None:
    server.answers(COMPLETIONS, BUSY, BUSY, BUSY, said("hello"))
    assert run(server, guard(targets=["main", "spare"]), spare="gpt-5-mini").final_output == "hello"
    assert [request.body["model"] for request in server.requests] == ["gpt-5"] * 3 + ["gpt-5-mini"]


def test_a_quota_that_is_used_up_is_asked_once(server: FaultyServer) -> None:
    server.answers(COMPLETIONS, Answer(429, QUOTA))
    with pytest.raises(CallExhausted) as caught:
        run(server, guard())
    assert (len(server.requests), caught.value.error_class) == (1, "quota_exceeded")


def test_types_that_say_more_than_the_schema_are_a_correction(server: FaultyServer) -> None:
    @function_tool(strict_mode=False)
    def pay(euros: int) -> str:
        """Pays."""
        return "paid"

    pay.params_json_schema = {"type": "object"}
    server.answers(COMPLETIONS, said(None, ("pay", '{"euros": "many"}')), said("done"))
    run(server, guard(), [pay])
    # The SDK keeps what is wrong to itself, unless its `OPENAI_AGENTS_DONT_LOG_TOOL_DATA` is off.
    assert "The arguments of `pay` were not accepted, and it did not run" in outputs(server)[0]


def test_guardrails_and_mistakes_of_the_program_are_no_failures(server: FaultyServer) -> None:
    @tool_input_guardrail
    def never(_: Any) -> ToolGuardrailFunctionOutput:
        return ToolGuardrailFunctionOutput.raise_exception()

    @function_tool
    def wrong() -> str:
        """Is wrong."""
        raise UserError("a mistake")

    for tool, raised in (
        (function_tool(lambda: "", name_override="tripped"), ToolInputGuardrailTripwireTriggered),
        (wrong, UserError),
    ):
        if tool is not wrong:
            tool.tool_input_guardrails = [never]
        server.answers(COMPLETIONS, said(None, (tool.name, "{}")), said("done"))
        guarded = guard()
        with pytest.raises(raised):
            run(server, guarded, [tool])
        assert not guarded._run._tickets


async def always(*_: Any) -> bool:
    return True


@pytest.mark.parametrize("needs_approval", [True, always])
def test_a_tool_that_needs_approval_has_it_when_it_is_called(server: FaultyServer, needs_approval: Any) -> None:
    @function_tool(needs_approval=needs_approval)
    def pay() -> str:
        """Pays."""
        return "paid"

    server.answers(COMPLETIONS, said(None, ("pay", "")), said("done"))
    guarded = guard("version: 1\ntools: {pay: {approval: always}}\n")
    result = run(server, guarded, [pay])
    (asked,) = result.interruptions
    assert not guarded._run._tickets

    async def resume() -> Any:
        state = result.to_state()
        state.approve(asked)
        async with AsyncOpenAI(base_url=f"{server.url}/v1", api_key="k") as client:
            agent = Agent("desk", model=OpenAIChatCompletionsModel("gpt-5", client), tools=guarded_tools([pay], guarded))
            result.last_agent.model = agent.model
            return await Runner.run(result.last_agent, state, run_config=RunConfig(tracing_disabled=True))

    assert asyncio.run(resume()).final_output == "done"
    assert outputs(server) == ["paid"]


def test_a_call_that_needs_no_approval_has_none(server: FaultyServer) -> None:
    async def never(*_: Any) -> bool:
        return False

    @function_tool(needs_approval=never)
    def pay() -> str:
        """Pays."""
        return "paid"

    server.answers(COMPLETIONS, said(None, ("pay", "")), said("done"))
    run(server, guard("version: 1\ntools: {pay: {approval: always}}\n"), [pay])
    assert "paid" not in outputs(server)


def test_the_final_turn_reads_that_it_is_and_the_next_run_does_not(server: FaultyServer) -> None:
    server.answers("/search", Answer(200, "found"))
    server.answers(COMPLETIONS, said(None, ("search", '{"query": "rust"}')), said("done"), said("hello"))
    guarded = guard("version: 1\nturn: {max_turns: 2}\n")
    for _ in range(2):
        run(server, guarded)
    read = [request.body["messages"][-1]["content"] for request in server.asked(COMPLETIONS)]
    assert [text.startswith("This is the final turn") for text in read] == [False, True, False]


def test_a_result_is_cut_as_the_policy_says_and_an_image_is_not(server: FaultyServer) -> None:
    @function_tool
    def look() -> ToolOutputImage:
        """Looks."""
        return ToolOutputImage(image_url="data:image/png;base64," + "x" * 1000)

    results: list[Any] = []

    async def main() -> None:
        guarded = guard(CUT.replace('"*": {', '"*": {result: {max: 200 chars}, ', 1))
        tools: list[Any] = guarded_tools([tools_of(server)[0], look], guarded)
        for tool, args in zip(tools, ('{"query": "a"}', "{}"), strict=True):
            context = ToolContext(None, tool_name=tool.name, tool_call_id=tool.name, tool_arguments=args)
            results.append(await tool.on_invoke_tool(context, args))

    server.answers("/search", Answer(200, "x" * 1000))
    asyncio.run(main())
    assert len(results[0]) <= 200
    assert "of 1000 chars shown" in results[0]
    assert isinstance(results[1], ToolOutputImage)
