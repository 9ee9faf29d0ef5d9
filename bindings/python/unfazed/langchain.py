"""Agents of LangChain 1.x under a guard."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.errors import GraphBubbleUp
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command

from unfazed._guard import Guard
from unfazed._log import logger
from unfazed._raised import CallError, ToolError
from unfazed._series import HIDDEN
from unfazed._tool import ToolGuard
from unfazed._turn import ModelCall, ReplyUsage
from unfazed._wanted import within_time

__all__ = ["GuardMiddleware"]

ToolAnswer = ToolMessage | Command[Any]
# The fields of models that take a `timeout` with each call.
_TIMEOUTS = ("request_timeout", "default_request_timeout")


class GuardMiddleware(AgentMiddleware[Any, Any, Any]):
    """Calls of tools and turns of the model of an agent, under a guard.

    A call that does not succeed is a result of the tool with the policy's message; a turn that does not raises
    `CallExhausted`. Interrupts of LangGraph pass.
    """

    def __init__(self, guard: Guard, *, models: Mapping[str, BaseChatModel] | None = None) -> None:
        """`models` are the models of the guard's targets; without one, a target is the model of the agent."""
        super().__init__()
        self._guard, self._models = guard, dict(models or {})
        #: The tools that were declared last, by name, with their schemas: agents may have several of a name.
        self._schemas: dict[str, tuple[BaseTool, dict[str, Any]]] = {}
        for model in self._models.values():
            _look_for_retries(model)

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolAnswer]) -> ToolAnswer:
        """Runs a call of a tool under the policy."""
        call = request.tool_call
        guarded = self._tool(request)
        try:
            return _as_read(
                *guarded._call_cut_sync(
                    json.dumps(call["args"]),
                    lambda **args: _succeeded(handler(_with(request, args))),
                    _read,
                    call_id=call["id"],
                )
            )
        except CallError as error:
            return _failed(request, error)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolAnswer]]
    ) -> ToolAnswer:
        """The same for an agent that is awaited."""
        call = request.tool_call

        async def run(**args: Any) -> ToolAnswer:
            return _succeeded(await handler(_with(request, args)))

        try:
            guarded = self._tool(request)
            return _as_read(*await guarded._call_cut(json.dumps(call["args"]), run, _read, call_id=call["id"]))
        except CallError as error:
            return _failed(request, error)

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Makes a turn of the model under the policy."""
        self._prepare(request)
        turn = self._guard.turn(request, passes=(GraphBubbleUp,))
        return turn.call_sync(lambda call: handler(self._due(call)), usage=_usage)

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """The same for an agent that is awaited."""
        self._prepare(request)
        turn = self._guard.turn(request, passes=(GraphBubbleUp,))
        return await turn.call(lambda call: handler(self._due(call)), usage=_usage)

    def _tool(self, request: ToolCallRequest) -> ToolGuard:
        if request.tool is not None:
            self._declare(request.tool)
        return self._guard.tool(request.tool_call["name"], passes=(GraphBubbleUp,))

    def _prepare(self, request: ModelRequest[Any]) -> None:
        if not self._models:
            _look_for_retries(request.model)
        for tool in request.tools:
            if isinstance(tool, BaseTool):
                self._declare(tool)

    def _declare(self, tool: BaseTool) -> None:
        known = self._schemas.get(tool.name)
        if known is None or known[0] is not tool:
            known = self._schemas[tool.name] = (tool, convert_to_openai_tool(tool)["function"]["parameters"])
        self._guard.tool(tool.name, parameters=known[1], description=tool.description)

    def _due(self, call: ModelCall[ModelRequest[Any]]) -> ModelRequest[Any]:
        """The request as the policy wants it: another model, tools that may be called, guidance at the end."""
        request = call.request
        model = self._models.get(call.target, request.model)
        shown = [tool for tool in request.tools if not isinstance(tool, BaseTool) or tool.name in call.tools]
        said = [HumanMessage(text) for text in call.guidance]
        due: dict[str, Any] = {"model": model, "tools": shown, "messages": [*request.messages, *said]}
        if request.tools and not shown:
            # Providers refuse a choice of tools without any.
            due["tool_choice"] = None
        if settings := _settings(model, request.model_settings, call):
            due["model_settings"] = {**request.model_settings, **settings}
        return request.override(**due)


def _with(request: ToolCallRequest, args: dict[str, Any]) -> ToolCallRequest:
    return request.override(tool_call={**request.tool_call, "args": args})


def _succeeded(answer: ToolAnswer) -> ToolAnswer:
    """The answer of a tool. One that the agent has made of an exception is a failure."""
    if isinstance(answer, ToolMessage) and answer.status == "error":
        raise ToolError(str(answer.content), error_class="execution_error", effect="started")
    return answer


def _read(answer: ToolAnswer) -> Any:
    """What a model reads of an answer. Commands, and blocks of images and files, are no text."""
    return answer.content if isinstance(answer, ToolMessage) and isinstance(answer.content, str) else HIDDEN


def _as_read(answer: ToolAnswer, text: str | None) -> ToolAnswer:
    return answer.model_copy(update={"content": text}) if isinstance(answer, ToolMessage) and text is not None else answer


def _failed(request: ToolCallRequest, error: CallError) -> ToolMessage:
    call = request.tool_call
    return ToolMessage(error.message, tool_call_id=call["id"], name=call["name"], status="error")


def _settings(model: BaseChatModel, given: Mapping[str, Any], call: ModelCall[Any]) -> dict[str, Any]:
    """What the policy wants of the call, as far as the model takes it with each: those of openai and anthropic do."""
    fields = type(model).model_fields
    wanted: dict[str, Any] = {}
    if call.timeout is not None and not fields.keys().isdisjoint(_TIMEOUTS):
        wanted["timeout"] = within_time(given.get("timeout"), call)
    if call.max_output is not None and "max_tokens" in fields:
        most = given.get("max_tokens") or getattr(model, "max_tokens", None) or call.max_output
        wanted["max_tokens"] = min(most, call.max_output)
    return wanted


def _usage(response: ModelResponse[Any]) -> ReplyUsage | None:
    for message in response.result:
        if isinstance(message, AIMessage) and message.usage_metadata is not None:
            usage = message.usage_metadata
            details = usage.get("input_token_details") or {}
            cached = {"cache_read": details.get("cache_read"), "cache_write": details.get("cache_creation")}
            counts = {"input": usage["input_tokens"], "output": usage["output_tokens"]}
            return {**counts, **{name: count for name, count in cached.items() if count}}
    return None


def _look_for_retries(model: BaseChatModel) -> None:
    """Says so if a model retries by itself: each attempt of the policy would be several."""
    most = getattr(model, "max_retries", 0)
    if most != 0:
        logger.warning("%s retries by itself; give it max_retries=0", type(model).__name__)
