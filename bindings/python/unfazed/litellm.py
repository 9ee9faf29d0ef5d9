"""Calls of litellm under a guard, for programs with a loop of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import litellm

from unfazed._guard import Guard
from unfazed._turn import ModelCall
from unfazed._usage import usage_of
from unfazed._wanted import LITELLM, as_wanted, declare_tools, within_time

__all__ = ["GuardedCompletions"]


class GuardedCompletions:
    """`litellm.completion` and `litellm.acompletion`, each call a turn of a guard.

    It asks the targets of the guard in order: each is the name of a model as litellm has it, or has one in `models`; the
    target `default` is the model of the call. Retries of litellm and of the clients behind it are off, those of
    `litellm.num_retries` too. A stream is a turn until it begins. The model is shown the tools that it may call, and reads
    what it repeats at the end of its messages.
    """

    def __init__(self, guard: Guard, *, models: Mapping[str, str] | None = None) -> None:
        """`models` are the models of the guard's targets."""
        self._guard, self._models = guard, dict(models or {})

    def completion(self, model: str, messages: list[Any], **settings: Any) -> Any:
        """Calls `litellm.completion` as often as the policy says. It raises what `TurnGuard.call` raises."""
        declare_tools(self._guard, settings)
        turn = self._guard.turn((model, messages, settings))
        return turn.call_sync(lambda call: litellm.completion(**self._due(call)), usage=usage_of)

    async def acompletion(self, model: str, messages: list[Any], **settings: Any) -> Any:
        """The same with `litellm.acompletion`."""
        declare_tools(self._guard, settings)
        turn = self._guard.turn((model, messages, settings))
        return await turn.call(lambda call: litellm.acompletion(**self._due(call)), usage=usage_of)

    def _due(self, call: ModelCall[tuple[str, list[Any], dict[str, Any]]]) -> dict[str, Any]:
        """The request as the policy wants it."""
        model, messages, settings = call.request
        wanted = as_wanted({**settings, "messages": messages}, call, LITELLM)
        if call.timeout is not None:
            wanted["timeout"] = within_time(wanted.get("timeout"), call)
        return {
            **wanted,
            "model": model if call.target == "default" else self._models.get(call.target, call.target),
            "max_retries": 0,
            "num_retries": 0,
            # In `completion`, no retries of the call mean those of the module; a policy that says nothing means none.
            "retry_policy": litellm.RetryPolicy(),
        }
