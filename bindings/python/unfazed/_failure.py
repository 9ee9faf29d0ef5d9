"""What an exception says of a failure: facts. Which class of error it is, the policy's tables decide."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from unfazed._raised import ToolError
from unfazed._unfazed import failure_of_answer, failure_of_body

#: A longer text is cut: it goes into the log, and to the model.
MOST_CHARACTERS = 4000


class FailureFacts(NamedTuple):
    """A failure as events have it, and how far the call got."""

    failure: dict[str, Any]
    effect: str


# The request was not sent: nothing can have happened. Names are those of httpx, aiohttp, requests (urllib3) and botocore.
NEVER_SENT = {
    "ConnectError": "network_error",
    "ConnectTimeout": "timeout",
    "PoolTimeout": "timeout",
    "ConnectionRefusedError": "network_error",
    "gaierror": "network_error",
    "ClientConnectorError": "network_error",
    "NewConnectionError": "network_error",
    "EndpointConnectionError": "network_error",
    "ConnectTimeoutError": "timeout",
}
# It may have been sent.
LOST = {
    "TimeoutError": "timeout",
    "TimeoutException": "timeout",
    "APITimeoutError": "timeout",
    "ReadTimeoutError": "timeout",
    "Timeout": "timeout",
    "TransportError": "network_error",
    "APIConnectionError": "network_error",
    "ConnectionError": "network_error",
    "ClientConnectionError": "network_error",
    "ConnectionClosedError": "network_error",
    "HTTPClientError": "network_error",
}
# httpx2 is the transport of openai 3.
KNOWN_PACKAGES = {
    *("aiohttp", "anthropic", "asyncio", "botocore", "builtins", "concurrent", "httpcore", "httpcore2", "httpx", "httpx2"),
    *("openai", "requests", "socket", "urllib3"),
}


def tool_failure(error: BaseException) -> FailureFacts:
    """What is known of a tool that raised `error`. One that says nothing of itself is an error of the tool."""
    facts = model_failure(error)
    if facts.failure.keys() == {"message"}:
        facts.failure["class"] = "execution_error"
    return facts


def model_failure(error: BaseException) -> FailureFacts:
    """What is known of a call of a model that raised `error`."""
    if isinstance(error, ToolError):
        return _told(error)
    error = _original(error)
    answer = _answer(error)
    if answer is not None:
        status, headers, body = answer
        return FailureFacts(failure_of_answer(status, headers, body, time.time_ns()), "unknown")
    lost = _lost(error)
    if lost is not None:
        return lost
    said = _body(error)
    if said is not None:
        return FailureFacts(failure_of_body(said), "unknown")
    return FailureFacts({"message": _text(error)}, "unknown")


def timed_out(seconds: float) -> FailureFacts:
    """An attempt that had no answer within its time."""
    return FailureFacts({"class": "timeout", "message": f"no answer within {seconds:g}s"}, "unknown")


def _original(error: BaseException) -> BaseException:
    """What a client raised that litellm has made an exception of its own of: where no answer came, litellm invents one of
    status 500.
    """
    found: BaseException | None = error
    while found is not None and _package(found) == "litellm":
        found = found.__cause__ or found.__context__
    return error if found is None or _package(found) not in KNOWN_PACKAGES else found


def _package(error: BaseException) -> str:
    return type(error).__module__.partition(".")[0]


def _told(error: ToolError) -> FailureFacts:
    failure: dict[str, Any] = {"message": _text(error)}
    if error.error_class is not None:
        failure["class"] = error.error_class
    if error.status is not None:
        failure["status"] = error.status
    if error.retry_after is not None:
        failure["retry_after"] = {"wait": round(error.retry_after * 1e9)}
    return FailureFacts(failure, error.effect)


def _answer(error: BaseException) -> tuple[int, list[tuple[str, str]], bytes] | None:
    """The answer of a server that an exception carries: status, headers, body."""
    response = getattr(error, "response", None)
    if isinstance(response, Mapping):
        return _of_botocore(response)
    carrier = response if response is not None else error
    status = getattr(carrier, "status_code", None)
    if not isinstance(status, int) or not 100 <= status <= 65535:
        return None
    body = _content(response)
    if body is None:
        body = _body(error)
    return (
        status,
        _headers(getattr(carrier, "headers", None)),
        _text(error).encode() if body is None else body,
    )


def _of_botocore(response: Mapping[Any, Any]) -> tuple[int, list[tuple[str, str]], bytes] | None:
    meta, error = response.get("ResponseMetadata"), response.get("Error")
    if not isinstance(meta, Mapping) or not isinstance(meta.get("HTTPStatusCode"), int):
        return None
    said = error if isinstance(error, Mapping) else {}
    body = {"code": str(said.get("Code", "")), "message": str(said.get("Message", ""))}
    return meta["HTTPStatusCode"], _headers(meta.get("HTTPHeaders")), json.dumps(body).encode()


def _headers(headers: Any) -> list[tuple[str, str]]:
    items = headers.items() if hasattr(headers, "items") else ()
    return [(str(name), str(value)) for name, value in items]


def _content(response: Any) -> bytes | None:
    """The body of a response, if it has been read. Of one that is streamed and was not, only the exception knows."""
    try:
        content = getattr(response, "content", None)
    except Exception:
        # httpx raises here: the body was not read.
        return None
    return content if isinstance(content, bytes) and content else None


def _body(error: BaseException) -> bytes | None:
    """The body that SDKs have parsed: openai, anthropic and pydantic-ai call it `body`."""
    body = getattr(error, "body", None)
    if isinstance(body, bytes):
        return body or None
    if isinstance(body, str):
        return body.encode() or None
    if isinstance(body, (Mapping, list)) and body:
        return json.dumps(body, default=str).encode()
    return None


def _lost(error: BaseException) -> FailureFacts | None:
    """A connection that failed, or an answer that did not come."""
    inner = error.__cause__
    # SDKs wrap what their transport raised, and that knows more.
    if inner is not None and _package(error) in ("openai", "anthropic"):
        found = _lost(inner)
        if found is not None:
            return FailureFacts({**found.failure, "message": _text(error)}, found.effect)
    if isinstance(error, asyncio.TimeoutError):
        return FailureFacts({"class": "timeout", "message": _text(error)}, "unknown")
    for known, effect in ((NEVER_SENT, "not_started"), (LOST, "unknown")):
        for kind in type(error).__mro__:
            if kind.__name__ in known and kind.__module__.partition(".")[0] in KNOWN_PACKAGES:
                return FailureFacts({"class": known[kind.__name__], "message": _text(error)}, effect)
    return None


def _text(error: BaseException) -> str:
    text, kind = str(error), type(error).__name__
    said = text if isinstance(error, ToolError) else f"{kind}: {text}" if text else kind
    return said[:MOST_CHARACTERS]
