"""Clients of openai and anthropic under a guard."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import anthropic
import openai
import pytest
from anthropic.types import Usage as AnthropicUsage
from conftest import POLICY
from faulty_server import Answer, FaultyServer
from openai.types import CompletionUsage

import unfazed.anthropic
import unfazed.openai
from unfazed import CallExhausted, Guard, ModelCall, Policy
from unfazed._usage import counted
from unfazed._wanted import CHAT, RESPONSES, RequestForm, as_wanted, within_time
from unfazed._wanted import MESSAGES as MESSAGES_FORM

REPLY = {
    "id": "c1",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "hello"}}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
}
MESSAGE = {
    "id": "m1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [{"type": "text", "text": "hello"}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 3, "output_tokens": 2},
}
QUOTA = {"error": {"message": "You exceeded your current quota", "type": "insufficient_quota", "code": "insufficient_quota"}}
OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
COMPLETIONS, MESSAGES = "/v1/chat/completions", "/v1/messages"


def guard(**settings: Any) -> Guard:
    return Guard(Policy.from_yaml(POLICY), **settings)


def ask_openai(server: FaultyServer, guarded: Guard, *, is_async: bool, **settings: Any) -> Any:
    where: dict[str, Any] = {"base_url": f"{server.url}/v1", "api_key": "k"}
    said: dict[str, Any] = {"model": "gpt-5", "messages": [{"role": "user", "content": "hi"}]}
    if not is_async:
        client = unfazed.openai.wrap(openai.OpenAI(**where), guarded, **settings)
        return client.chat.completions.create(**said)

    async def main() -> Any:
        async with openai.AsyncOpenAI(**where) as inner:
            client = unfazed.openai.wrap(inner, guarded, **settings)
            return await client.chat.completions.create(**said)

    return asyncio.run(main())


def ask_anthropic(server: FaultyServer, guarded: Guard, *, is_async: bool) -> Any:
    where: dict[str, Any] = {"base_url": server.url, "api_key": "k"}
    said: dict[str, Any] = {"model": "claude", "max_tokens": 5, "messages": [{"role": "user", "content": "hi"}]}
    if not is_async:
        return unfazed.anthropic.wrap(anthropic.Anthropic(**where), guarded).messages.create(**said)

    async def main() -> Any:
        async with anthropic.AsyncAnthropic(**where) as inner:
            return await unfazed.anthropic.wrap(inner, guarded).messages.create(**said)

    return asyncio.run(main())


@pytest.fixture(params=[False, True], ids=["sync", "async"])
def is_async(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def test_openai_is_asked_as_often_as_the_policy_says(server: FaultyServer, is_async: bool) -> None:
    server.answers(COMPLETIONS, Answer(503, {"error": {"message": "busy"}}))
    with pytest.raises(CallExhausted) as caught:
        ask_openai(server, guard(), is_async=is_async)
    # Three attempts, and none of them is nine: the client retries nothing.
    assert len(server.requests) == 3
    assert isinstance(caught.value.last, openai.APIStatusError)


def test_openai_answers_after_a_failure(server: FaultyServer, is_async: bool) -> None:
    server.answers(COMPLETIONS, Answer(503, {"error": {"message": "busy"}}), Answer(200, REPLY))
    reply = ask_openai(server, guard(), is_async=is_async)
    assert reply.choices[0].message.content == "hello"
    assert [request.body["model"] for request in server.requests] == ["gpt-5", "gpt-5"]


def test_openai_asks_the_next_model(server: FaultyServer, is_async: bool) -> None:
    server.answers(COMPLETIONS, Answer(401, {"error": {"message": "no key"}}), Answer(200, REPLY))
    ask_openai(server, guard(targets=["main", "gpt-5-mini"]), is_async=is_async, models={"main": "gpt-5"})
    assert [request.body["model"] for request in server.requests] == ["gpt-5", "gpt-5-mini"]


def test_a_quota_that_is_used_up_is_asked_once(server: FaultyServer, is_async: bool) -> None:
    server.answers(COMPLETIONS, Answer(429, QUOTA))
    with pytest.raises(CallExhausted):
        ask_openai(server, guard(), is_async=is_async)
    assert len(server.requests) == 1


def test_retry_after_is_obeyed(server: FaultyServer, is_async: bool) -> None:
    slow = Answer(429, {"error": {"message": "slow down"}}, {"retry-after-ms": "150"})
    server.answers(COMPLETIONS, slow, Answer(200, REPLY))
    ask_openai(server, guard(), is_async=is_async)
    first, second = server.requests
    assert second.at - first.at >= 0.150


def test_other_requests_pass(server: FaultyServer) -> None:
    server.answers("/v1/embeddings", Answer(503, {"error": {"message": "busy"}}))
    client = unfazed.openai.wrap(openai.OpenAI(base_url=f"{server.url}/v1", api_key="k"), guard())
    with pytest.raises(openai.InternalServerError):
        client.embeddings.create(model="m", input="x")
    assert len(server.requests) == 1


def test_anthropic_answers_after_a_failure(server: FaultyServer, is_async: bool) -> None:
    server.answers(MESSAGES, Answer(529, OVERLOADED), Answer(200, MESSAGE))
    assert ask_anthropic(server, guard(), is_async=is_async).content[0].text == "hello"
    assert len(server.requests) == 2


def test_anthropic_is_asked_as_often_as_the_policy_says(server: FaultyServer, is_async: bool) -> None:
    server.answers(MESSAGES, Answer(529, OVERLOADED, {"x-should-retry": "true"}))
    with pytest.raises(CallExhausted) as caught:
        ask_anthropic(server, guard(), is_async=is_async)
    assert len(server.requests) == 3
    assert caught.value.error_class == "overloaded"


LIMITED = """version: 1
tools: {"*": {loop_guard: {same_call: {nudge: 1, block: never, final_turn: never}}}}
models: {"*": {retry: {max_attempts: 1, attempt_timeout: 7s}}}
"""
SEARCH_SCHEMA: Any = {"type": "object", "properties": {"query": {"type": "string"}}}


def nudged(server: FaultyServer) -> Guard:
    """A guard that has something to say with the next turn."""
    guarded = Guard(Policy.from_yaml(LIMITED))
    for _ in range(2):
        guarded.tool("search").call_sync({"query": "a"}, lambda query: "found", call_id=str(len(server.requests)))
    return guarded


def test_openai_reads_what_the_policy_says(server: FaultyServer) -> None:
    server.answers(COMPLETIONS, Answer(200, REPLY))
    function: Any = {"name": "search", "parameters": SEARCH_SCHEMA}
    client = unfazed.openai.wrap(openai.OpenAI(base_url=f"{server.url}/v1", api_key="k"), nudged(server))
    said: Any = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    client.chat.completions.create(**said, tools=[{"type": "function", "function": function}])
    (request,) = server.requests
    assert request.body["messages"][-1]["role"] == "user"
    assert "search" in request.body["messages"][-1]["content"]
    assert request.body["tools"][0]["function"] == function


def test_responses_read_it_behind_their_input(server: FaultyServer) -> None:
    body = {"id": "r", "object": "response", "output": [], "usage": {"input_tokens": 3, "output_tokens": 1}}
    server.answers("/v1/responses", Answer(200, body))
    client = unfazed.openai.wrap(openai.OpenAI(base_url=f"{server.url}/v1", api_key="k"), nudged(server))
    client.responses.create(model="m", input="hi")
    (request,) = server.requests
    assert request.body["input"][0] == {"role": "user", "content": "hi"}
    assert "search" in request.body["input"][1]["content"]


def test_anthropic_reads_what_the_policy_says(server: FaultyServer) -> None:
    server.answers(MESSAGES, Answer(200, MESSAGE))
    client = unfazed.anthropic.wrap(anthropic.Anthropic(base_url=server.url, api_key="k"), nudged(server))
    said: Any = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    client.messages.create(**said, max_tokens=5000, tools=[{"name": "search", "input_schema": SEARCH_SCHEMA}])
    (request,) = server.requests
    assert "search" in request.body["messages"][-1]["content"]
    assert request.body["max_tokens"] == 5000


def test_a_tool_that_may_not_be_called_is_not_shown() -> None:
    tools = [{"type": "function", "function": {"name": name}} for name in ("search", "send")]
    call = ModelCall("default", None, 1, ["send"], "required", None, [], 3.0)
    wanted = as_wanted({"tools": [*tools, {"type": "web_search"}]}, call, CHAT)
    assert wanted == {"tools": [tools[1], {"type": "web_search"}], "tool_choice": "required"}
    none = replace(call, tools=[], tool_choice={"tool": "send"})
    assert as_wanted({"tools": tools, "tool_choice": "auto", "model": "m"}, none, CHAT) == {"model": "m"}
    forced = as_wanted({"tools": [{"name": "send", "input_schema": {}}]}, replace(none, tools=["send"]), MESSAGES_FORM)
    assert forced["tool_choice"] == {"type": "tool", "name": "send"}


@pytest.mark.parametrize(
    "form, given, due",
    [
        (CHAT, {}, {"max_completion_tokens": 900}),
        (CHAT, {"max_tokens": 5000}, {"max_tokens": 900}),
        (RESPONSES, {"max_output_tokens": 5}, {"max_output_tokens": 5}),
        (MESSAGES_FORM, {"max_tokens": 5000}, {"max_tokens": 900}),
    ],
)
def test_a_reply_has_no_more_tokens_than_the_policy_says(form: RequestForm, given: Any, due: Any) -> None:
    assert as_wanted(given, ModelCall("default", None, 1, [], "auto", 900, [], None), form) == due


@pytest.mark.parametrize("given, due", [(None, 3.0), (5.0, 3.0), (2, 2), (openai.NOT_GIVEN, 3.0)])
def test_a_client_has_the_time_of_the_policy(given: Any, due: float) -> None:
    assert within_time(given, ModelCall("default", None, 1, [], "auto", None, [], 3.0)) == due


def test_the_steps_of_a_request_keep_their_times() -> None:
    given = openai.Timeout(9, connect=1)
    assert within_time(given, ModelCall("default", None, 1, [], "auto", None, [], 3.0)) is given


@pytest.mark.parametrize(
    "usage, counts",
    [
        (CompletionUsage(prompt_tokens=9, completion_tokens=2, total_tokens=11), {"input": 9, "output": 2}),
        (
            CompletionUsage.model_validate(
                {
                    "prompt_tokens": 9,
                    "completion_tokens": 2,
                    "total_tokens": 11,
                    "prompt_tokens_details": {"cached_tokens": 7},
                }
            ),
            {"input": 9, "output": 2, "cache_read": 7},
        ),
        (
            AnthropicUsage(input_tokens=9, output_tokens=2, cache_read_input_tokens=5, cache_creation_input_tokens=3),
            {"input": 17, "output": 2, "cache_read": 5, "cache_write": 3},
        ),
        (None, None),
    ],
)
def test_tokens_of_a_cache_are_among_the_input(usage: Any, counts: Any) -> None:
    assert counted(usage) == counts


#: Enough for one turn, and a last one.
BUDGET = "version: 1\nlimits: {run: {tokens: 10000}}\n"


def large(reply: dict[str, Any]) -> dict[str, Any]:
    usage = {name: 6000 if "input" in name or "prompt" in name else 10 for name in reply["usage"]}
    return {**reply, "usage": usage}


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
@pytest.mark.parametrize("asks", ["plainly", "raw", "parsed"])
def test_tokens_count_in_raw_answers_too(server: FaultyServer, provider: str, asks: str) -> None:
    server.answers(COMPLETIONS, Answer(200, large(REPLY)))
    server.answers(MESSAGES, Answer(200, large(MESSAGE)))
    guarded = Guard(Policy.from_yaml(BUDGET))
    where: dict[str, Any] = {"api_key": "k"}
    said: dict[str, Any] = {"model": "m", "max_tokens": 50, "messages": [{"role": "user", "content": "hi"}]}
    if provider == "openai":
        resource: Any = unfazed.openai.wrap(openai.OpenAI(base_url=f"{server.url}/v1", **where), guarded).chat.completions
    else:
        resource = unfazed.anthropic.wrap(anthropic.Anthropic(base_url=server.url, **where), guarded).messages
    create = resource.create if asks == "plainly" else resource.with_raw_response.create
    reply = create(**said)
    if asks == "parsed":
        # What the caller reads is still there.
        assert reply.parse().usage is not None
    create(**said)
    read = [request.body["messages"][-1]["content"] for request in server.requests]
    # What is left is enough for a last one.
    assert [text.startswith("This is the final turn") for text in read] == [False, True]


def test_an_answer_that_nobody_has_read_is_the_callers_to_read(server: FaultyServer) -> None:
    server.answers(COMPLETIONS, Answer(200, REPLY))
    client = unfazed.openai.wrap(openai.OpenAI(base_url=f"{server.url}/v1", api_key="k"), guard())
    said: Any = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    with client.chat.completions.with_streaming_response.create(**said) as answer:
        assert answer.parse().choices[0].message.content == "hello"
    tokens = {"prompt_tokens": 7, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}}
    assert counted(tokens) == {"input": 7, "output": 2, "cache_read": 4}
    assert counted({"input_tokens": 3, "output_tokens": 1, "cache_read_input_tokens": 4}) == {
        "input": 7,
        "output": 1,
        "cache_read": 4,
    }
