"""Agents of LangChain under a guard."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from conftest import CUT, POLICY
from faulty_server import Answer, FaultyServer
from langchain.agents import create_agent
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import BaseTool, tool
from pydantic import Field

from unfazed import CallExhausted, Guard, Policy, ToolError
from unfazed.langchain import GuardMiddleware


class ScriptedModel(BaseChatModel):
    """A model that says one thing after the other; an exception of the script is raised. Without tools it calls none."""

    script: list[Any]
    asked: list[list[BaseMessage]] = Field(default_factory=list)
    is_bound: bool = False

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **settings: Any) -> Any:
        return self.model_copy(update={"is_bound": bool(tools)})

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        self.asked.append(messages)
        said = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if isinstance(said, Exception):
            raise said
        if isinstance(said, list) and not self.is_bound:
            said = "no tools"
        calls = [] if isinstance(said, str) else said
        message = AIMessage(
            said if isinstance(said, str) else "",
            tool_calls=[{"name": name, "args": args, "id": f"c{i}"} for i, (name, args) in enumerate(calls)],
        )
        return ChatResult(generations=[ChatGeneration(message=message)])


def tools_of(server: FaultyServer) -> list[BaseTool]:
    @tool
    def search(query: str) -> str:
        """Searches."""
        return str(httpx.post(f"{server.url}/search", json={"query": query}).raise_for_status().json())

    @tool
    def send_mail(to: str) -> str:
        """Sends a mail."""
        return str(httpx.post(f"{server.url}/mail", json={"to": to}).raise_for_status().json())

    return [search, send_mail]


def run(server: FaultyServer, script: list[Any], *, is_async: bool, policy: str = POLICY, **models: Any) -> list[Any]:
    middleware = GuardMiddleware(Guard(Policy.from_yaml(policy), targets=list(models) or ["default"]), models=models)
    model = ScriptedModel(script=script)
    agent = create_agent(model, tools_of(server), middleware=[middleware])
    asked: Any = {"messages": [("user", "go")]}
    settings: Any = {"recursion_limit": 100}
    ended = asyncio.run(agent.ainvoke(asked, settings)) if is_async else agent.invoke(asked, settings)
    messages: list[Any] = ended["messages"]
    return messages


@pytest.fixture(params=[False, True], ids=["sync", "async"])
def is_async(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def test_a_mail_whose_answer_is_lost_is_sent_once(server: FaultyServer, is_async: bool) -> None:
    server.answers("/mail", Answer(lost=True))
    messages = run(server, [[("send_mail", {"to": "ada"})], "done"], is_async=is_async)
    assert len(server.asked("/mail")) == 1
    (result,) = [message for message in messages if message.type == "tool"]
    assert result.status == "error"
    assert "It may have had side effects" in result.content


def test_a_search_is_made_again_and_wrong_arguments_are_refused(server: FaultyServer, is_async: bool) -> None:
    server.answers("/search", Answer(503, "busy"), Answer(200, "found"))
    script = [[("search", {"q": "rust"})], [("search", {"query": "rust"})], "done"]
    messages = run(server, script, is_async=is_async)
    assert len(server.asked("/search")) == 2
    refused, found = [message.content for message in messages if message.type == "tool"]
    assert "`query` is missing" in refused
    assert found == "found"


def test_twelve_equal_calls_run_four_times(server: FaultyServer, is_async: bool) -> None:
    server.answers("/search", Answer(200, "nothing"))
    run(
        server,
        [*[[("search", {"query": "rust"})]] * 12, "done"],
        is_async=is_async,
        policy=POLICY + "turn: {max_turns: 50}\n",
    )
    assert len(server.asked("/search")) == 4


def test_four_calls_of_a_reply(server: FaultyServer, is_async: bool) -> None:
    server.answers("/search", Answer(200, "found"))
    script = [[("search", {"query": f"q{n}"}) for n in range(4)], "done"]
    messages = run(server, script, is_async=is_async)
    assert [message.content for message in messages if message.type == "tool"] == ["found"] * 4


def test_a_model_that_fails_is_asked_again_and_then_the_next_one(server: FaultyServer, is_async: bool) -> None:
    main = ScriptedModel(script=[ToolError("busy", status=503)])
    spare = ScriptedModel(script=["hello"])
    messages = run(server, ["unused"], is_async=is_async, main=main, spare=spare)
    assert messages[-1].content == "hello"
    assert (len(main.asked), len(spare.asked)) == (3, 1)


def test_a_turn_that_nobody_answers_is_raised(server: FaultyServer, is_async: bool) -> None:
    with pytest.raises(CallExhausted, match="model default failed"):
        run(server, [ToolError("no key", status=401)], is_async=is_async)


def test_the_final_turn_shows_no_tools(server: FaultyServer, is_async: bool) -> None:
    server.answers("/search", Answer(200, "found"))
    script = [[("search", {"query": "a"})], [("search", {"query": "b"})]]
    messages = run(server, script, is_async=is_async, policy=POLICY + "turn: {max_turns: 2}\n")
    assert messages[-1].content == "no tools"


def test_a_model_that_retries_by_itself_is_said(caplog: pytest.LogCaptureFixture) -> None:
    class RetryingModel(ScriptedModel):
        max_retries: int = 2

    GuardMiddleware(Guard(Policy.from_yaml(POLICY)), models={"default": RetryingModel(script=[""])})
    assert "RetryingModel retries by itself; give it max_retries=0" in caplog.text


def test_a_result_is_cut_as_the_policy_says(server: FaultyServer, is_async: bool) -> None:
    server.answers("/search", Answer(200, "x" * 1000), Answer(200, "found"))
    script = [[("search", {"query": "a"})], [("search", {"query": "b"})], "done"]
    messages = run(server, script, is_async=is_async, policy=CUT)
    long, short = [message for message in messages if message.type == "tool"]
    assert len(long.content) <= 200
    assert "of 1000 chars shown" in long.content
    assert (short.content, short.status) == ("found", "success")


def test_the_final_turn_reads_that_it_is_and_the_next_run_does_not(server: FaultyServer) -> None:
    server.answers("/search", Answer(200, "found"))
    model = ScriptedModel(script=[[("search", {"query": "rust"})], "done", "hello"])
    middleware = GuardMiddleware(Guard(Policy.from_yaml(POLICY + "turn: {max_turns: 2}\n")))
    agent = create_agent(model, tools_of(server), middleware=[middleware])
    asked: Any = {"messages": [("user", "go")]}
    for _ in range(2):
        agent.invoke(asked)
    read = [str(messages[-1].content) for messages in model.asked]
    assert [text.startswith("This is the final turn") for text in read] == [False, True, False]


def test_agents_may_have_tools_of_one_name() -> None:
    @tool("look")
    def by_name(name: str) -> str:
        """Looks for a name."""
        return f"name {name}"

    @tool("look")
    def by_number(number: int) -> str:
        """Looks for a number."""
        return f"number {number}"

    middleware = GuardMiddleware(Guard(Policy.from_yaml(POLICY)))

    def answered(one: BaseTool, args: dict[str, Any]) -> Any:
        agent = create_agent(ScriptedModel(script=[[("look", args)], "done"]), [one], middleware=[middleware])
        asked: Any = {"messages": [("user", "go")]}
        (result,) = [message for message in agent.invoke(asked)["messages"] if message.type == "tool"]
        return result.content

    assert answered(by_name, {"name": "ada"}) == "name ada"
    assert answered(by_number, {"number": 3}) == "number 3"
    assert "`name` is missing" in answered(by_name, {"number": 3})
