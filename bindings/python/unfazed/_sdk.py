"""Clients of model providers under a guard: those of openai and anthropic are generated alike."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, TypeVar

from unfazed._guard import Guard
from unfazed._turn import ModelCall, ReplyUsage

C = TypeVar("C")

# What asks a model for a reply; the rest passes as it is.
_TURNS = ("/chat/completions", "/responses", "/completions", "/messages")


def guarded_client(client: C, guard: Guard, models: Mapping[str, str]) -> C:
    """A copy of a client that retries nothing by itself, and whose calls of models are turns of the guard."""
    copy: Any = client.copy(max_retries=0)  # type: ignore[attr-defined]
    send = copy.request

    def asked(call: ModelCall[Any]) -> Any:
        cast_to, options, settings = call.request
        body = dict(options.json_data)
        if call.target != "default":
            body["model"] = models.get(call.target, call.target)
        return send(cast_to, options.model_copy(update={"json_data": body, "max_retries": 0}), **settings)

    def is_turn(options: Any) -> bool:
        body = options.json_data
        is_asked = options.method.lower() == "post" and options.url.partition("?")[0].endswith(_TURNS)
        return is_asked and isinstance(body, dict) and "model" in body

    if inspect.iscoroutinefunction(send):

        async def request(cast_to: Any, options: Any, **settings: Any) -> Any:
            if not is_turn(options):
                return await send(cast_to, options, **settings)
            return await guard.turn((cast_to, options, settings)).call(asked, usage=usage_of)

        copy.request = request
        return copy  # type: ignore[no-any-return]

    def request_sync(cast_to: Any, options: Any, **settings: Any) -> Any:
        if not is_turn(options):
            return send(cast_to, options, **settings)
        return guard.turn((cast_to, options, settings)).call_sync(asked, usage=usage_of)

    copy.request = request_sync
    return copy  # type: ignore[no-any-return]


def usage_of(reply: Any) -> ReplyUsage | None:
    """The tokens of a reply that is whole; of a stream they are not known yet."""
    usage = getattr(reply, "usage", None)
    counts = [
        next((count for name in names if isinstance(count := getattr(usage, name, None), int)), None)
        for names in (("input_tokens", "prompt_tokens"), ("output_tokens", "completion_tokens"))
    ]
    if counts[0] is None or counts[1] is None:
        return None
    return {"input": counts[0], "output": counts[1]}
