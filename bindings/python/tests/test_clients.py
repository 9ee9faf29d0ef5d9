"""Clients of openai and anthropic under a guard."""

from __future__ import annotations

import asyncio
from typing import Any

import anthropic
import openai
import pytest
from conftest import POLICY
from faulty_server import Answer, FaultyServer

import unfazed.anthropic
import unfazed.openai
from unfazed import CallExhausted, Guard, Policy

CHAT = {
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
    server.answers(COMPLETIONS, Answer(503, {"error": {"message": "busy"}}), Answer(200, CHAT))
    reply = ask_openai(server, guard(), is_async=is_async)
    assert reply.choices[0].message.content == "hello"
    assert [request.body["model"] for request in server.requests] == ["gpt-5", "gpt-5"]


def test_openai_asks_the_next_model(server: FaultyServer, is_async: bool) -> None:
    server.answers(COMPLETIONS, Answer(401, {"error": {"message": "no key"}}), Answer(200, CHAT))
    ask_openai(server, guard(targets=["main", "gpt-5-mini"]), is_async=is_async, models={"main": "gpt-5"})
    assert [request.body["model"] for request in server.requests] == ["gpt-5", "gpt-5-mini"]


def test_a_quota_that_is_used_up_is_asked_once(server: FaultyServer, is_async: bool) -> None:
    server.answers(COMPLETIONS, Answer(429, QUOTA))
    with pytest.raises(CallExhausted):
        ask_openai(server, guard(), is_async=is_async)
    assert len(server.requests) == 1


def test_retry_after_is_obeyed(server: FaultyServer, is_async: bool) -> None:
    slow = Answer(429, {"error": {"message": "slow down"}}, {"retry-after-ms": "150"})
    server.answers(COMPLETIONS, slow, Answer(200, CHAT))
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
