"""Exceptions become facts; the class is what the policy's tables make of them."""

from __future__ import annotations

import asyncio
import email.message
import errno
import http.client
import socket
import ssl
import urllib.error
from typing import Any

import aiohttp
import anthropic
import botocore.exceptions  # type: ignore[import-untyped]
import httpx
import openai
import pytest
import requests
import urllib3
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


class Refused(Exception):
    """An answer of a server."""

    def __init__(self, said: str, body: object) -> None:
        super().__init__(said)
        self.status_code, self.body = 503, body


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (Refused("no room in hall 3", {"hall": 3}), "Refused: no room in hall 3"),
        (Refused("", {"hall": 3}), '{"hall": 3}'),
        (Refused("", {"hall": "x" * 100_000}), ('{"hall": "' + "x" * 100_000)[:MOST_CHARACTERS]),
        (Refused("no room", {"message": "come back"}), "come back"),
    ],
    ids=["said", "body", "cut", "known"],
)
def test_an_answer_without_a_field_that_is_known_has_a_message(error: Exception, message: str) -> None:
    assert tool_failure(error).failure == {"status": 503, "message": message}


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


def chained(outer: BaseException, inner: BaseException) -> BaseException:
    outer.__cause__ = inner
    return outer


REFUSED = urllib3.exceptions.NewConnectionError(None, "refused")  # type: ignore[arg-type]
UNKNOWN_HOST = requests.ConnectionError(urllib3.exceptions.MaxRetryError(None, "/", REFUSED))  # type: ignore[arg-type]
ABORTED = requests.ConnectionError(urllib3.exceptions.ProtocolError("aborted", http.client.RemoteDisconnected("gone")))


@pytest.mark.parametrize(
    "error",
    [
        UNKNOWN_HOST,
        urllib.error.URLError(ConnectionRefusedError()),
        urllib.error.URLError(socket.gaierror(-2, "unknown host")),
        OSError(errno.ENETUNREACH, "no way"),
        ssl.SSLCertVerificationError("expired"),
        requests.exceptions.SSLError(ssl.SSLCertVerificationError("expired")),
        chained(httpx.ConnectError("refused"), OSError(errno.ECONNREFUSED, "refused")),
    ],
)
def test_what_was_never_sent_has_done_nothing(error: BaseException) -> None:
    facts = tool_failure(error)
    assert (facts.failure["class"], facts.effect) == ("network_error", "not_started")


@pytest.mark.parametrize(
    "error",
    [
        ABORTED,
        requests.exceptions.ChunkedEncodingError(urllib3.exceptions.IncompleteRead(1, 2)),
        aiohttp.ClientPayloadError("cut"),
        aiohttp.ServerDisconnectedError(),
        http.client.IncompleteRead(b"x"),
        ssl.SSLError("bad record"),
        OSError(errno.EHOSTUNREACH, "no way any more"),
        ConnectionResetError(),
    ],
)
def test_what_may_have_been_sent_may_have_had_side_effects(error: BaseException) -> None:
    facts = tool_failure(error)
    assert (facts.failure["class"], facts.effect) == ("network_error", "unknown")


@pytest.mark.parametrize(
    "error", [httpx.UnsupportedProtocol("no scheme"), httpx.InvalidURL("no"), requests.exceptions.MissingSchema("no")]
)
def test_a_mistake_of_the_program_is_no_failure_of_the_network(error: BaseException) -> None:
    facts = tool_failure(error)
    assert (facts.failure["class"], facts.effect) == ("execution_error", "not_started")


def test_what_happened_to_be_handled_is_no_cause() -> None:
    try:
        try:
            raise ConnectionRefusedError
        except ConnectionRefusedError:
            raise httpx.ReadError("cut")  # noqa: B904
    except httpx.ReadError as error:
        assert model_failure(error).effect == "unknown"


def test_aiohttp_and_urllib() -> None:
    info: Any = None
    slow = aiohttp.ClientResponseError(info, (), status=429, message="slow down", headers={"Retry-After": "7"})  # type: ignore[arg-type]
    assert model_failure(slow).failure["retry_after"] == {"wait": 7_000_000_000}
    assert of_a_turn(slow) == "rate_limit"
    headers = email.message.Message()
    headers["Retry-After"] = "3"
    refused = urllib.error.HTTPError("http://x", 503, "busy", headers, None)
    assert model_failure(refused).failure["retry_after"] == {"wait": 3_000_000_000}
    assert model_failure(refused).failure["status"] == 503


def test_botocore_without_an_answer_of_http() -> None:
    said = {"Error": {"Code": "ThrottlingException", "Message": "Too many requests"}}
    error = botocore.exceptions.ClientError(said, "Converse")
    assert model_failure(error).failure["code"] == "ThrottlingException"
    assert of_a_turn(error) == "rate_limit"


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize("error", [Mute(), ValueError("half \ud800 a character"), ToolError("\ud800")])
def test_an_error_that_cannot_be_written_down_is_a_failure_all_the_same(error: Exception) -> None:
    def fail() -> None:
        raise error

    with pytest.raises(CallExhausted) as caught:
        Guard(Policy.from_yaml(POLICY)).tool("x").call_sync({}, fail)
    assert caught.value.last is error
    caught.value.message.encode()


def test_a_way_that_is_lost_after_the_request_was_sent_proves_nothing() -> None:
    unreachable = OSError(errno.EHOSTUNREACH, "No route to host")
    read, connect = httpx.ReadError("No route to host"), httpx.ConnectError("No route to host")
    read.__cause__ = connect.__cause__ = unreachable
    lost = aiohttp.ClientOSError(errno.EHOSTUNREACH, "No route to host")
    found = [tool_failure(error) for error in (read, lost, connect, unreachable)]
    assert [facts.failure["class"] for facts in found] == ["network_error"] * 4
    assert [facts.effect for facts in found] == ["unknown", "unknown", "not_started", "unknown"]
