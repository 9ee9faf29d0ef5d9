"""Requests to models as the policy wants them, in the forms of openai and anthropic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from unfazed._guard import Guard
from unfazed._turn import ModelCall

# Providers refuse these without any tools.
_TOOL_SETTINGS = ("tools", "tool_choice", "parallel_tool_calls")


class RequestForm(NamedTuple):
    """How a body says what the policy may change."""

    #: The field with the conversation.
    conversation: str
    #: The fields that may limit the tokens of a reply; the first is for a request that has none.
    limits: tuple[str, ...]
    #: What makes a model call some tool.
    required: Any
    #: What makes it call the tool of the name that is put in.
    named: dict[str, Any]


CHAT = RequestForm(
    "messages", ("max_completion_tokens", "max_tokens"), "required", {"type": "function", "function": {"name": ""}}
)
# litellm knows which of the two a provider takes.
LITELLM = CHAT._replace(limits=("max_tokens", "max_completion_tokens"))
RESPONSES = RequestForm("input", ("max_output_tokens",), "required", {"type": "function", "name": ""})
MESSAGES = RequestForm("messages", ("max_tokens",), {"type": "any"}, {"type": "tool", "name": ""})


def declare_tools(guard: Guard, body: Mapping[str, Any]) -> None:
    """Makes the tools of a request known to the guard."""
    for tool in body.get("tools") or ():
        if (function := _function(tool)) is not None:
            parameters = function.get("parameters") or function.get("input_schema") or {}
            guard.tool(function["name"], parameters=parameters, description=function.get("description") or "")


def as_wanted(body: Mapping[str, Any], call: ModelCall[Any], form: RequestForm) -> dict[str, Any]:
    """The body with the tools that may be called, what the model is to read in addition, and the tokens of its reply."""
    wanted = dict(body)
    if wanted.get("tools"):
        wanted["tools"] = [tool for tool in wanted["tools"] if _is_shown(tool, call.tools)]
        if not wanted["tools"]:
            wanted = {name: value for name, value in wanted.items() if name not in _TOOL_SETTINGS}
        elif (choice := _choice(call.tool_choice, form, wanted["tools"])) is not None:
            wanted["tool_choice"] = choice
    if call.guidance and form.conversation:
        said = wanted.get(form.conversation) or []
        said = [{"role": "user", "content": said}] if isinstance(said, str) else said
        wanted[form.conversation] = [*said, *({"role": "user", "content": text} for text in call.guidance)]
    if call.max_output is not None:
        given = next((name for name in form.limits if isinstance(wanted.get(name), int)), None)
        wanted[given or form.limits[0]] = call.max_output if given is None else min(wanted[given], call.max_output)
    return wanted


def within_time(given: Any, call: ModelCall[Any]) -> Any:
    """The timeout of a request: that of the policy, unless a shorter one is given, or one for each of its steps."""
    if call.timeout is None or hasattr(given, "connect"):
        return given
    return min(given, call.timeout) if isinstance(given, (int, float)) else call.timeout


def _function(tool: Any) -> Mapping[str, Any] | None:
    """What a tool of the host says of itself; `None`: it is a tool of the provider."""
    if not isinstance(tool, Mapping):
        return None
    inner = tool.get("function")
    function = inner if isinstance(inner, Mapping) else tool
    is_own = tool.get("type") == "function" or "input_schema" in tool
    return function if is_own and isinstance(function.get("name"), str) else None


def _is_shown(tool: Any, names: list[str]) -> bool:
    function = _function(tool)
    return function is None or function["name"] in names


def _choice(wanted: Any, form: RequestForm, tools: list[Any]) -> Any:
    if wanted == "required":
        return form.required
    name = wanted.get("tool") if isinstance(wanted, Mapping) else None
    known = [function["name"] for tool in tools if (function := _function(tool)) is not None]
    if name not in known:
        return None
    return {
        key: name if key == "name" else {"name": name} if key == "function" else value for key, value in form.named.items()
    }
