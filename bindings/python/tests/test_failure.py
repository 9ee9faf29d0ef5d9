"""Exceptions become facts; the class is what the policy's tables make of them."""

from __future__ import annotations

import asyncio
import socket

import anthropic
import botocore.exceptions  # type: ignore[import-untyped]
import httpx
import openai
import pytest
from conftest import POLICY
from faulty_server import Answer, FaultyServer

from unfazed import CallExhausted, Guard, Policy, ToolError
from unfazed._failure import MOST_CHARACTERS, model_failure, tool_failure

QUOTA = {"error": {"message": "You exceeded your current quota", "type": "insufficient_quota", "code": "insufficient_quota"}}


def raised(call: object) -> BaseException:
    assert callable(call)
    with pytest.raises(Exception) as caught:
        call()
    return caught.value


def of_a_turn(error: BaseException) -> str | None:
    """The class that the policy gives it."""
    guard = Guard(Policy.from_yaml('version: 1\nmodels: {"*": {retry: {max_attempts: 1}}}\n'))

    def fail(_: object) -> None:
        raise error

    with pytest.raises(CallExhausted) as caught:
        guard.turn(None).call_sync(fail)
    assert caught.value.last is error
    return caught.value.error_class


def test_httpx(server: FaultyServer) -> None:
    server.answers("/slow", Answer(429, {"error": {"message": "slow down"}}, {"retry-after": "7"}))

    def call() -> None:
        httpx.post(f"{server.url}/slow").raise_for_status()

    error = raised(call)
    failure = model_failure(error).failure
    assert failure["status"] == 429
    assert failure["message"] == "slow down"
    assert failure["retry_after"] == {"wait": 7_000_000_000}
    assert of_a_turn(error) == "rate_limit"


def test_a_body_that_is_streamed_and_was_not_read(server: FaultyServer) -> None:
    server.answers("/busy", Answer(503, "busy"))

    def call() -> None:
        with httpx.stream("POST", f"{server.url}/busy") as response:
            response.raise_for_status()

    assert model_failure(raised(call)).failure["status"] == 503


def test_openai(server: FaultyServer) -> None:
    server.answers("/v1/chat/completions", Answer(429, QUOTA))
    client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="k", max_retries=0)
    error = raised(lambda: client.chat.completions.create(model="m", messages=[]))
    assert isinstance(error, openai.RateLimitError)
    assert model_failure(error).failure["code"] == "insufficient_quota"
    assert of_a_turn(error) == "quota_exceeded"


def test_anthropic(server: FaultyServer) -> None:
    overloaded = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    server.answers("/v1/messages", Answer(529, overloaded, {"x-should-retry": "true"}))
    client = anthropic.Anthropic(base_url=server.url, api_key="k", max_retries=0)
    error = raised(lambda: client.messages.create(model="m", max_tokens=1, messages=[]))
    assert model_failure(error).failure["should_retry"] is True
    assert of_a_turn(error) == "overloaded"


def test_botocore() -> None:
    said = {
        "Error": {"Code": "ThrottlingException", "Message": "Too many requests"},
        "ResponseMetadata": {"HTTPStatusCode": 400, "HTTPHeaders": {"x-amzn-errortype": "ThrottlingException"}},
    }
    error = botocore.exceptions.ClientError(said, "Converse")
    assert of_a_turn(error) == "rate_limit"
    facts = model_failure(botocore.exceptions.EndpointConnectionError(endpoint_url="http://x"))
    assert (facts.failure["class"], facts.effect) == ("network_error", "not_started")


def test_a_connection_that_is_refused_has_done_nothing() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        facts = tool_failure(raised(lambda: httpx.post(url)))
        assert (facts.failure["class"], facts.effect) == ("network_error", "not_started")
        client = openai.OpenAI(base_url=url, api_key="k", max_retries=0)
        facts = tool_failure(raised(lambda: client.chat.completions.create(model="m", messages=[])))
        assert (facts.failure["class"], facts.effect) == ("network_error", "not_started")


def test_an_answer_that_is_lost_may_have_had_side_effects(server: FaultyServer) -> None:
    server.answers("/mail", Answer(lost=True))
    facts = tool_failure(raised(lambda: httpx.post(f"{server.url}/mail")))
    assert (facts.failure["class"], facts.effect) == ("network_error", "unknown")


@pytest.mark.parametrize("error", [TimeoutError("no answer"), asyncio.TimeoutError(), httpx.ReadTimeout("no answer")])
def test_a_timeout_is_certain(error: Exception) -> None:
    facts = tool_failure(error)
    assert (facts.failure["class"], facts.effect) == ("timeout", "unknown")


def test_an_error_of_a_tool_that_says_nothing_of_itself() -> None:
    facts = tool_failure(KeyError("price"))
    assert facts.failure == {"class": "execution_error", "message": "KeyError: 'price'"}
    assert len(tool_failure(ValueError("x" * 100_000)).failure["message"]) == MOST_CHARACTERS


def test_a_tool_that_knows_more_says_so() -> None:
    error = ToolError("busy", error_class="rate_limit", effect="not_started", retry_after=1.5)
    facts = tool_failure(error)
    assert facts.failure == {"class": "rate_limit", "message": "busy", "retry_after": {"wait": 1_500_000_000}}
    assert facts.effect == "not_started"


def test_a_guard_uses_the_policy(server: FaultyServer) -> None:
    server.answers("/search", Answer(503, {"error": "busy"}), Answer(200, {"hits": 3}))
    guard = Guard(Policy.from_yaml(POLICY))

    def search(query: str) -> object:
        return httpx.post(f"{server.url}/search", json={"query": query}).raise_for_status().json()

    assert guard.tool("search").call_sync({"query": "rust"}, search) == {"hits": 3}
    assert len(server.requests) == 2
