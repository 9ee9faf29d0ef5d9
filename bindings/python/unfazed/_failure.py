"""What an exception says of a failure: facts. Which class of error it is, the policy's tables decide."""

from __future__ import annotations

import asyncio
import errno
import json
import time
from collections.abc import Container, Iterator, Mapping
from typing import Any, NamedTuple

from unfazed._raised import ToolError
from unfazed._unfazed import failure_of_answer, failure_of_body

#: A longer text is cut: it goes into the log, and to the model.
MOST_CHARACTERS = 4000


class FailureFacts(NamedTuple):
    """A failure as events have it, and how far the call got."""

    failure: dict[str, Any]
    effect: str


# The request was not sent: nothing can have happened. Names are those of httpx, aiohttp, urllib3, botocore and ssl.
NEVER_SENT = {
    "ConnectError": "network_error",
    "ConnectTimeout": "timeout",
    "PoolTimeout": "timeout",
    "ConnectionRefusedError": "network_error",
    "gaierror": "network_error",
    "ClientConnectorError": "network_error",
    "NewConnectionError": "network_error",
    "NameResolutionError": "network_error",
    "EndpointConnectionError": "network_error",
    "ConnectTimeoutError": "timeout",
    "SSLCertVerificationError": "network_error",
}
# Nor was that of a mistake of the program, which is no failure of the network.
NEVER_SENDABLE = {"UnsupportedProtocol", "LocalProtocolError", "InvalidURL", "InvalidSchema", "MissingSchema"}
# There was no way to the other machine: the system says so when a connection is made.
NO_WAY = {errno.ENETUNREACH, errno.EADDRNOTAVAIL}
# It says these of a connection that was open, too.
UNREACHABLE = {errno.EHOSTUNREACH, errno.EHOSTDOWN, errno.ENETDOWN}
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
    "ClientPayloadError": "network_error",
    "ChunkedEncodingError": "network_error",
    "ConnectionClosedError": "network_error",
    "HTTPClientError": "network_error",
    "IncompleteRead": "network_error",
    "ProtocolError": "network_error",
    "SSLError": "network_error",
    "URLError": "network_error",
}
# httpx2 is the transport of openai 3.
KNOWN_PACKAGES = {
    *(
        "aiohttp",
        "anthropic",
        "asyncio",
        "botocore",
        "builtins",
        "concurrent",
        "http",
        "httpcore",
        "httpcore2",
        "httpx",
        "httpx2",
    ),
    *("openai", "requests", "socket", "ssl", "urllib", "urllib3"),
}
# How many errors deep the cause of one is looked for.
MOST_CAUSES = 10


def tool_failure(error: BaseException) -> FailureFacts:
    """What is known of a tool that raised `error`. One that says nothing of itself is an error of the tool."""
    facts = model_failure(error)
    if facts.failure.keys() == {"message"}:
        facts.failure["class"] = "execution_error"
    return facts


def model_failure(error: BaseException) -> FailureFacts:
    """What is known of a call of a model that raised `error`."""
    try:
        return _told(error) if isinstance(error, ToolError) else _found(_original(error))
    except Exception:
        # Exceptions are of others, and so is what asking them runs: what it says of itself is what there is.
        return FailureFacts({"message": _text(error)}, "unknown")


def _found(error: BaseException) -> FailureFacts:
    answer = _answer(error)
    if answer is not None:
        status, headers, body = answer
        return FailureFacts(_with_message(failure_of_answer(status, headers, body, time.time_ns()), error, body), "unknown")
    lost = _lost(error)
    if lost is not None:
        return lost
    said = _body(error)
    if said is not None:
        return FailureFacts(_with_message(failure_of_body(said), error, said), "unknown")
    return FailureFacts({"message": _text(error)}, "unknown")


def _with_message(failure: dict[str, Any], error: BaseException, body: bytes) -> dict[str, Any]:
    """The failure, with what the exception says if its body has no message in a field that is known, or else the body."""
    if not failure.get("message"):
        said = _text(error) if text_of(error) else clean(body.decode(errors="replace"))[:MOST_CHARACTERS]
        failure["message"] = said or _text(error)
    return failure


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


def _got(value: object, name: str) -> Any:
    """What an object of others has by that name; `None`: it has nothing, or cannot say so."""
    try:
        return getattr(value, name, None)
    except Exception:
        # A property is code: httpx raises here if the body of a streamed answer was not read.
        return None


def _package(error: object) -> str:
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
    response = _got(error, "response")
    if isinstance(response, Mapping):
        return _of_botocore(response)
    carrier = response if response is not None else error
    status = _status(carrier)
    if status is None:
        return None
    body = _content(response)
    if body is None:
        body = _body(error)
    return (
        status,
        _headers(_got(carrier, "headers")),
        _text(error).encode() if body is None else body,
    )


def _status(carrier: Any) -> int | None:
    """The status that an answer or an exception has: aiohttp calls it `status`, urllib `code`."""
    names = ("status_code", "status") if _package(carrier) == "aiohttp" else ("status_code",)
    names = ("code",) if _package(carrier) == "urllib" else names
    found = (_got(carrier, name) for name in names)
    return next((status for status in found if isinstance(status, int) and 100 <= status <= 65535), None)


def _of_botocore(response: Mapping[Any, Any]) -> tuple[int, list[tuple[str, str]], bytes] | None:
    meta = response.get("ResponseMetadata")
    if not isinstance(meta, Mapping) or not isinstance(meta.get("HTTPStatusCode"), int):
        return None
    return meta["HTTPStatusCode"], _headers(meta.get("HTTPHeaders")), _body_of_botocore(response)


def _body_of_botocore(response: Mapping[Any, Any]) -> bytes:
    error = response.get("Error")
    said = error if isinstance(error, Mapping) else {}
    return json.dumps({"code": str(said.get("Code", "")), "message": str(said.get("Message", ""))}).encode()


def _headers(headers: Any) -> list[tuple[str, str]]:
    items = headers.items() if hasattr(headers, "items") else ()
    return [(text_of(name), text_of(value)) for name, value in items]


def _content(response: Any) -> bytes | None:
    """The body of a response, if it has been read. Of one that is streamed and was not, only the exception knows."""
    content = _got(response, "content")
    return content if isinstance(content, bytes) and content else None


def _body(error: BaseException) -> bytes | None:
    """The body that SDKs have parsed: openai, anthropic and pydantic-ai call it `body`."""
    body, response = _got(error, "body"), _got(error, "response")
    if isinstance(body, bytes):
        return body or None
    if isinstance(body, str):
        return clean(body).encode() or None
    if isinstance(body, (Mapping, list)) and body:
        return _written(body).encode()
    if isinstance(response, Mapping) and response.get("Error"):
        return _body_of_botocore(response)
    return None


def _written(body: Any) -> str:
    try:
        return json.dumps(body, default=text_of)
    except (TypeError, ValueError, RecursionError):
        # Keys that are no text, or a body with itself in it.
        return text_of(body)


def _lost(error: BaseException) -> FailureFacts | None:
    """A connection that failed, or an answer that did not come."""
    if isinstance(error, asyncio.TimeoutError):
        return FailureFacts({"class": "timeout", "message": _text(error)}, "unknown")
    causes = list(_causes(error))
    if any(_is_of(cause, NEVER_SENDABLE) for cause in causes):
        return FailureFacts({"message": _text(error)}, "not_started")
    if _had_no_way(causes):
        return FailureFacts({"class": "network_error", "message": _text(error)}, "not_started")
    for known, effect in ((NEVER_SENT, "not_started"), (LOST, "unknown")):
        for cause in causes:
            if (name := _is_of(cause, known)) is not None:
                return FailureFacts({"class": known[name], "message": _text(error)}, effect)
    if any(isinstance(cause, OSError) and cause.errno in UNREACHABLE for cause in causes):
        return FailureFacts({"class": "network_error", "message": _text(error)}, "unknown")
    return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    """An error, and what its libraries made it of: they know more of what became of the request. What happened to be handled
    when it was raised is no cause.
    """
    found: BaseException | None = error
    for _ in range(MOST_CAUSES):
        if found is None:
            return
        yield found
        # urllib3 and urllib have a `reason`, requests has it among its arguments, SDKs raise from it.
        links = (_got(found, "reason"), *found.args[:1], found.__cause__)
        is_wrapped = _package(found) in KNOWN_PACKAGES
        found = next((link for link in links if isinstance(link, BaseException)), None) if is_wrapped else None


def _had_no_way(causes: list[BaseException]) -> bool:
    """Whether the system found no way to the other machine. A client has an error of its own for that."""
    is_plain = all(_package(cause) in ("builtins", "socket", "urllib") for cause in causes)
    return is_plain and any(isinstance(cause, OSError) and cause.errno in NO_WAY for cause in causes)


def _is_of(error: BaseException, known: Container[str]) -> str | None:
    """The name by which an error is known; `None`: it is not."""
    kinds = (kind for kind in type(error).__mro__ if kind.__module__.partition(".")[0] in KNOWN_PACKAGES)
    return next((kind.__name__ for kind in kinds if kind.__name__ in known), None)


def _text(error: BaseException) -> str:
    text, kind = text_of(error), type(error).__name__
    said = text if isinstance(error, ToolError) else f"{kind}: {text}" if text else kind
    return said[:MOST_CHARACTERS]


def text_of(value: object) -> str:
    """What `str` makes of something that is of others, as a text that can be written down."""
    try:
        return clean(str(value))
    except Exception:
        # An error that cannot say what it is has still happened.
        return ""


def clean(text: str) -> str:
    """A text that can be written down. Halves of characters, which Python lets into texts, cannot be."""
    return text if text.isascii() else text.encode(errors="replace").decode()
