"""Calls of litellm under a guard, for programs with a loop of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import litellm

from unfazed._guard import Guard
from unfazed._sdk import usage_of
from unfazed._turn import ModelCall

__all__ = ["GuardedCompletions"]

_TOOL_SETTINGS = ("tools", "tool_choice", "parallel_tool_calls")


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
        self._declare(settings)
        turn = self._guard.turn((model, messages, settings))
        return turn.call_sync(lambda call: litellm.completion(**self._due(call)), usage=usage_of)

    async def acompletion(self, model: str, messages: list[Any], **settings: Any) -> Any:
        """The same with `litellm.acompletion`."""
        self._declare(settings)
        turn = self._guard.turn((model, messages, settings))
        return await turn.call(lambda call: litellm.acompletion(**self._due(call)), usage=usage_of)

    def _declare(self, settings: Mapping[str, Any]) -> None:
        for tool in settings.get("tools") or ():
            function = tool.get("function") or {}
            if "name" in function:
                parameters, description = function.get("parameters") or {}, function.get("description") or ""
                self._guard.tool(function["name"], parameters=parameters, description=description)

    def _due(self, call: ModelCall[tuple[str, list[Any], dict[str, Any]]]) -> dict[str, Any]:
        """The request as the policy wants it."""
        model, messages, given = call.request
        settings = dict(given)
        if settings.get("tools"):
            settings["tools"] = [tool for tool in settings["tools"] if _is_shown(tool, call.tools)]
            if not settings["tools"]:
                # Providers refuse a choice of tools without any.
                settings = {name: value for name, value in settings.items() if name not in _TOOL_SETTINGS}
        if call.timeout is not None:
            settings.setdefault("timeout", call.timeout)
        if call.max_output is not None and "max_completion_tokens" not in settings:
            settings.setdefault("max_tokens", call.max_output)
        return {
            **settings,
            "model": model if call.target == "default" else self._models.get(call.target, call.target),
            "messages": [*messages, *({"role": "user", "content": text} for text in call.guidance)],
            "max_retries": 0,
            "num_retries": 0,
            # In `completion`, no retries of the call mean those of the module; a policy that says nothing means none.
            "retry_policy": litellm.RetryPolicy(),
        }


def _is_shown(tool: Mapping[str, Any], names: list[str]) -> bool:
    """Whether a model may be shown a tool. Those of providers are not the guard's."""
    function = tool.get("function") or {}
    return "name" not in function or function["name"] in names
