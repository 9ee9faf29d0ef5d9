"""Calls of litellm under a guard, and a loop that is written by hand, as that of supyagent."""

from __future__ import annotations

import asyncio
import itertools
import socket
from typing import Any

import httpx
import litellm
import pytest
from conftest import POLICY
from faulty_server import Answer, FaultyServer

from unfazed import CallError, CallExhausted, Guard, Policy
from unfazed.litellm import GuardedCompletions

COMPLETIONS = "/v1/chat/completions"
QUOTA = {"error": {"message": "You exceeded your current quota", "type": "insufficient_quota", "code": "insufficient_quota"}}
CALLS = itertools.count()
BUSY = Answer(503, {"error": {"message": "busy"}})
SEARCH = {
    "type": "function",
    "function": {
        "name": "search",
        "description": "Searches.",
        "parameters": {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
    },
}


def said(text: str | None = "hello", *calls: tuple[str, str]) -> Answer:
    tools = [
        {"id": f"c{next(CALLS)}", "type": "function", "function": {"name": name, "arguments": args}} for name, args in calls
    ]
    message: dict[str, Any] = {"role": "assistant", "content": text, **({"tool_calls": tools} if tools else {})}
    choice = {"index": 0, "finish_reason": "tool_calls" if tools else "stop", "message": message}
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    body = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}
    return Answer(200, body)


def guard(policy: str = POLICY, **settings: Any) -> Guard:
    return Guard(Policy.from_yaml(policy), **settings)


def ask(url: str, guarded: Guard, *, is_async: bool, models: Any = None, **settings: Any) -> Any:
    client = GuardedCompletions(guarded, models=models)
    ask_model = client.acompletion if is_async else client.completion
    messages = [{"role": "user", "content": "hi"}]
    reply = ask_model("openai/gpt-5", messages, api_base=f"{url}/v1", api_key="k", **settings)
    return asyncio.run(reply) if is_async else reply


@pytest.fixture(params=[False, True], ids=["sync", "async"])
def is_async(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def test_it_is_asked_as_often_as_the_policy_says(server: FaultyServer, is_async: bool) -> None:
    server.answers(COMPLETIONS, BUSY)
    with pytest.raises(CallExhausted) as caught:
        ask(server.url, guard(), is_async=is_async)
    assert len(server.requests) == 3
    assert isinstance(caught.value.last, litellm.ServiceUnavailableError)


def test_retries_of_the_module_are_off(server: FaultyServer, is_async: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    server.answers(COMPLETIONS, BUSY)
    monkeypatch.setattr(litellm, "num_retries", 5)
    with pytest.raises(CallExhausted):
        ask(server.url, guard('version: 1\nmodels: {"*": {retry: {max_attempts: 1}}}\n'), is_async=is_async)
    assert len(server.requests) == 1


def test_the_next_model_answers(server: FaultyServer, is_async: bool) -> None:
    server.answers(COMPLETIONS, Answer(401, {"error": {"message": "no key"}}), said())
    models = {"main": "openai/gpt-5", "spare": "openai/gpt-5-mini"}
    reply = ask(server.url, guard(targets=["main", "spare"]), is_async=is_async, models=models)
    assert reply.choices[0].message.content == "hello"
    assert [request.body["model"] for request in server.requests] == ["gpt-5", "gpt-5-mini"]


def test_a_quota_that_is_used_up_is_asked_once(server: FaultyServer, is_async: bool) -> None:
    server.answers(COMPLETIONS, Answer(429, QUOTA))
    with pytest.raises(CallExhausted) as caught:
        ask(server.url, guard(), is_async=is_async)
    assert (len(server.requests), caught.value.error_class) == (1, "quota_exceeded")


def test_retry_after_is_obeyed(server: FaultyServer, is_async: bool) -> None:
    slow = Answer(429, {"error": {"message": "slow down"}}, {"retry-after-ms": "150"})
    server.answers(COMPLETIONS, slow, said())
    ask(server.url, guard(), is_async=is_async)
    first, second = server.requests
    assert second.at - first.at >= 0.150


def test_a_connection_that_fails_is_no_answer_of_a_server(is_async: bool) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(CallExhausted) as caught:
            ask(f"http://127.0.0.1:{taken.getsockname()[1]}", guard(), is_async=is_async)
    # litellm says that it is an internal error of the server.
    assert caught.value.error_class == "network_error"


def loop(server: FaultyServer, guarded: Guard) -> list[dict[str, Any]]:
    """A loop that is written by hand: the model is asked, its calls are made, until it calls none."""
    client = GuardedCompletions(guarded)

    def search(query: str) -> Any:
        return httpx.post(f"{server.url}/search", json={"query": query}).raise_for_status().json()

    messages: list[dict[str, Any]] = [{"role": "user", "content": "go"}]
    for _ in range(30):
        where = {"api_base": f"{server.url}/v1", "api_key": "k"}
        reply = client.completion("openai/gpt-5", messages, tools=[SEARCH], **where).choices[0].message
        messages.append(reply.model_dump(exclude_none=True))
        if not reply.tool_calls:
            break
        for call in reply.tool_calls:
            try:
                tool = guarded.tool(call.function.name)
                text = tool.call_text_sync(call.function.arguments, search, call_id=call.id)
            except CallError as error:
                text = error.message
            messages.append({"role": "tool", "tool_call_id": call.id, "content": text})
    return messages


def test_a_loop_written_by_hand(server: FaultyServer) -> None:
    server.answers("/search", Answer(503, "busy"), Answer(200, "found"))
    asks = [said(None, ("search", args)) for args in ('{"q": "rust"}', "{'query': 'rust',}")]
    server.answers(COMPLETIONS, *asks, BUSY, said("done"))
    messages = loop(server, guard())
    refused, found = [message["content"] for message in messages if message["role"] == "tool"]
    assert "`query` is missing" in refused
    assert (found, messages[-1]["content"]) == ("found", "done")
    assert (len(server.asked("/search")), len(server.asked(COMPLETIONS))) == (2, 4)
