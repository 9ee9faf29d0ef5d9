"""Clients of model providers under a guard: those of openai and anthropic are generated alike."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, TypeVar

from unfazed._guard import Guard
from unfazed._turn import ModelCall
from unfazed._usage import usage_of
from unfazed._wanted import CHAT, MESSAGES, RESPONSES, RequestForm, as_wanted, declare_tools, within_time

C = TypeVar("C")

# What asks a model for a reply, with the form of the request; the rest passes as it is.
_TURNS: dict[str, RequestForm] = {
    "/chat/completions": CHAT,
    "/responses": RESPONSES,
    "/messages": MESSAGES,
    # A text has no place for tools and guidance.
    "/completions": RequestForm("", ("max_tokens",), None, {}),
}


def guarded_client(client: C, guard: Guard, models: Mapping[str, str]) -> C:
    """A copy of a client that retries nothing by itself, and whose calls of models are turns of the guard."""
    copy: Any = client.copy(max_retries=0)  # type: ignore[attr-defined]
    send = copy.request

    def asked(call: ModelCall[Any]) -> Any:
        form, cast_to, options, settings = call.request
        body = as_wanted(options.json_data, call, form)
        if call.target != "default":
            body["model"] = models.get(call.target, call.target)
        due = {"json_data": body, "max_retries": 0, "timeout": within_time(options.timeout, call)}
        return send(cast_to, options.model_copy(update=due), **settings)

    def turn_of(cast_to: Any, options: Any, settings: Any) -> Any:
        """The turn that a request is; `None`: it is none."""
        form, body = _form(options), options.json_data
        if form is None or not isinstance(body, dict) or "model" not in body:
            return None
        declare_tools(guard, body)
        return guard.turn((form, cast_to, options, settings))

    if inspect.iscoroutinefunction(send):

        async def request(cast_to: Any, options: Any, **settings: Any) -> Any:
            turn = turn_of(cast_to, options, settings)
            if turn is None:
                return await send(cast_to, options, **settings)
            return await turn.call(asked, usage=usage_of)

        copy.request = request
        return copy  # type: ignore[no-any-return]

    def request_sync(cast_to: Any, options: Any, **settings: Any) -> Any:
        turn = turn_of(cast_to, options, settings)
        return send(cast_to, options, **settings) if turn is None else turn.call_sync(asked, usage=usage_of)

    copy.request = request_sync
    return copy  # type: ignore[no-any-return]


def _form(options: Any) -> RequestForm | None:
    """The form of a request that asks a model for a reply."""
    path = options.url.partition("?")[0]
    if options.method.lower() != "post":
        return None
    return next((form for end, form in _TURNS.items() if path.endswith(end)), None)
