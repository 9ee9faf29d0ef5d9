"""Agents of pydantic-ai under a guard."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from conftest import CUT, POLICY
from faulty_server import Answer, FaultyServer
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, ModelRetry, RunContext, Tool
from pydantic_ai.exceptions import ModelHTTPError, ToolFailed, UnexpectedModelBehavior
from pydantic_ai.messages import BinaryContent, ModelResponse, TextPart, ToolCallPart, ToolReturn
from pydantic_ai.models.function import FunctionModel

from unfazed import CallExhausted, Guard, Policy
from unfazed.pydantic_ai import GuardCapability

SLOW = {"error": {"message": "slow down", "code": "rate_limit_exceeded"}}
QUOTA = {"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}


class ScriptedModel:
    """A model that says one thing after the other; an exception of the script is raised."""

    def __init__(self, *script: Any) -> None:
        self.script, self.asked = list(script), 0
        self.model = FunctionModel(self._reply)

    def _reply(self, messages: Any, info: Any) -> ModelResponse:
        self.asked += 1
        said = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if isinstance(said, Exception):
            raise said
        if not info.function_tools:
            # It was shown no tools: this is the final turn.
            said = "done"
        if isinstance(said, str):
            return ModelResponse(parts=[TextPart(said)])
        return ModelResponse(parts=[ToolCallPart(name, args) for name, args in said])


def agent_of(server: FaultyServer, model: ScriptedModel, guard: Guard, **models: Any) -> Agent[None, str]:
    agent = Agent(model.model, capabilities=[GuardCapability(guard, models=models)])

    @agent.tool_plain
    async def search(query: str) -> str:
        async with httpx.AsyncClient() as client:
            answer = await client.post(f"{server.url}/search", json={"query": query})
            return str(answer.raise_for_status().json())

    @agent.tool_plain
    def send_mail(to: str) -> str:
        return str(httpx.post(f"{server.url}/mail", json={"to": to}).raise_for_status().json())

    @agent.tool_plain
    def ask_again() -> str:
        raise ModelRetry("say it in other words")

    return agent


def results(run: Any) -> list[str]:
    parts = [part for message in run.all_messages() for part in message.parts]
    return [str(part.content) for part in parts if part.part_kind in ("tool-return", "retry-prompt")]


def guard(**settings: Any) -> Guard:
    return Guard(Policy.from_yaml(POLICY), **settings)


def test_a_mail_whose_answer_is_lost_is_sent_once(server: FaultyServer) -> None:
    server.answers("/mail", Answer(lost=True))
    run = agent_of(server, ScriptedModel([("send_mail", {"to": "ada"})], "done"), guard()).run_sync("go")
    assert len(server.asked("/mail")) == 1
    assert "It may have had side effects" in results(run)[0]
    assert run.output == "done"


def test_a_search_is_made_again(server: FaultyServer) -> None:
    server.answers("/search", Answer(503, "busy"), Answer(200, "found"))
    run = agent_of(server, ScriptedModel([("search", {"query": "rust"})], "done"), guard()).run_sync("go")
    assert len(server.asked("/search")) == 2
    assert results(run) == ["found"]


def test_twelve_equal_calls_run_four_times(server: FaultyServer) -> None:
    server.answers("/search", Answer(200, "nothing"))
    long = Guard(Policy.from_yaml(POLICY + "turn: {max_turns: 50}\n"))
    agent_of(server, ScriptedModel(*[[("search", {"query": "rust"})]] * 12, "done"), long).run_sync("go")
    assert len(server.asked("/search")) == 4


def test_what_a_tool_says_to_its_agent_is_no_failure(server: FaultyServer) -> None:
    guarded = guard()
    run = agent_of(server, ScriptedModel([("ask_again", {})], "done"), guarded).run_sync("go")
    assert results(run) == ["say it in other words"]
    assert not guarded._run._tickets


@pytest.mark.parametrize("tool", ["ask_again", "hang"])
def test_the_agent_has_its_own_limit_of_retries(tool: str) -> None:
    tried: list[int] = []
    agent = Agent(
        ScriptedModel([(tool, {"at": 1})], [(tool, {"at": 2})], [(tool, {"at": 3})], "done").model,
        capabilities=[GuardCapability(guard())],
        retries=2,
        # Long enough for a tool to begin on a busy machine.
        tool_timeout=0.5 if tool == "hang" else 60,
    )

    @agent.tool
    def ask_again(ctx: RunContext[None], at: int) -> str:
        tried.append(ctx.retry)
        raise ModelRetry("say it in other words")

    @agent.tool
    async def hang(ctx: RunContext[None], at: int) -> None:
        tried.append(ctx.retry)
        await asyncio.sleep(60)

    with pytest.raises(UnexpectedModelBehavior, match="exceeded max retries count of 2") as caught:
        agent.run_sync("go")
    assert isinstance(caught.value.__cause__, ModelRetry)
    assert tried == [0, 1, 2]


def test_a_tool_that_failed_says_so_in_its_own_words() -> None:
    def look() -> str:
        raise ToolFailed("the shop is closed")

    agent = Agent(ScriptedModel([("look", {})], "done").model, tools=[look], capabilities=[GuardCapability(guard())])
    assert results(agent.run_sync("go")) == ["the shop is closed"]


def test_an_agent_that_a_tool_runs_may_fail() -> None:
    def deny() -> str:
        raise ModelRetry("no")

    inner = Agent(ScriptedModel([("deny", {})]).model, tools=[deny], retries=1)

    async def delegate() -> str:
        return (await inner.run("go")).output

    outer = Agent(ScriptedModel([("delegate", {})], "done").model, tools=[delegate], capabilities=[GuardCapability(guard())])
    assert "`delegate` failed (execution_error)" in results(outer.run_sync("go"))[0]


@pytest.mark.parametrize("is_approved", [True, False])
def test_a_call_that_a_person_has_approved_runs(is_approved: bool) -> None:
    guarded = Guard(Policy.from_yaml("version: 1\ntools: {pay: {approval: always}}\n"))
    pay = Tool(lambda: "paid", name="pay", requires_approval=is_approved)
    agent = Agent(
        ScriptedModel([("pay", {})], "done").model,
        tools=[pay],
        output_type=[str, DeferredToolRequests],
        capabilities=[GuardCapability(guarded)],
    )
    run: Any = agent.run_sync("go")
    if is_approved:
        (asked,) = run.output.approvals
        agreed = DeferredToolResults(approvals={asked.tool_call_id: True})
        run = agent.run_sync(message_history=run.all_messages(), deferred_tool_results=agreed)
    assert ("paid" in results(run)) == is_approved


def test_a_limit_is_waited_for_and_a_quota_is_not(server: FaultyServer) -> None:
    slow = ScriptedModel(ModelHTTPError(429, "m", SLOW), "hello")
    assert agent_of(server, slow, guard()).run_sync("go").output == "hello"
    assert slow.asked == 2
    used_up = ScriptedModel(ModelHTTPError(429, "m", QUOTA))
    with pytest.raises(CallExhausted) as caught:
        agent_of(server, used_up, guard()).run_sync("go")
    assert (used_up.asked, caught.value.error_class) == (1, "quota_exceeded")


def test_the_next_model_answers(server: FaultyServer) -> None:
    main, spare = ScriptedModel(ModelHTTPError(529, "m", {"error": "busy"})), ScriptedModel("hello")
    guarded = guard(targets=["main", "spare"])
    agent = agent_of(server, main, guarded, spare=spare.model)
    assert agent.run_sync("go").output == "hello"
    assert (main.asked, spare.asked) == (3, 1)


def test_a_result_is_cut_as_the_policy_says(server: FaultyServer) -> None:
    server.answers("/search", Answer(200, "x" * 1000), Answer(200, "found"))
    script = ScriptedModel([("search", {"query": "a"})], [("search", {"query": "b"})], "done")
    long, short = results(agent_of(server, script, Guard(Policy.from_yaml(CUT))).run_sync("go"))
    assert len(long) <= 200
    assert "of 1000 chars shown" in long
    assert short == "found"


def test_what_is_no_text_stays_what_it_is_unless_it_is_too_long() -> None:
    @dataclass
    class Hits:
        found: list[str]

    image = BinaryContent(b"x" * 1000, media_type="image/png")
    values = [Hits(["a"]), Hits(["x" * 1000]), image, ToolReturn("x" * 1000, metadata="kept")]
    agent = Agent(
        ScriptedModel([("look", {"at": n}) for n in range(4)], "done").model,
        capabilities=[GuardCapability(Guard(Policy.from_yaml(CUT.replace("search:", "look:"))))],
    )

    @agent.tool_plain
    def look(at: int) -> Any:
        return values[at]

    run = agent.run_sync("go")
    parts = [part for message in run.all_messages() for part in message.parts if part.part_kind == "tool-return"]
    short, long, seen, told = parts
    assert (short.content, seen.content) == (values[0], image)
    assert isinstance(long.content, str)
    assert isinstance(told.content, str)
    assert max(len(long.content), len(told.content)) <= 200
    assert told.metadata == "kept"
