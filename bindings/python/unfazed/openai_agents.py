"""Agents of the OpenAI Agents SDK under a guard."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from agents import (
    FunctionTool,
    Model,
    ModelResponse,
    Tool,
    ToolOutputFileContent,
    ToolOutputImage,
    ToolOutputText,
)
from agents.exceptions import (
    InputGuardrailTripwireTriggered,
    ModelBehaviorError,
    OutputGuardrailTripwireTriggered,
    ToolInputGuardrailTripwireTriggered,
    ToolOutputGuardrailTripwireTriggered,
    UserError,
)
from agents.items import TResponseStreamEvent
from agents.models._retry_runtime import provider_managed_retries_disabled
from agents.tool_context import ToolContext

from unfazed._failure import text_of
from unfazed._guard import Guard
from unfazed._raised import CallError, ToolError
from unfazed._series import HIDDEN
from unfazed._turn import ModelCall, ReplyUsage
from unfazed._usage import counted

__all__ = ["GuardModel", "guarded_tools"]

# Mistakes of the program, and guardrails: no failures of a tool.
_PASSES = (
    UserError,
    InputGuardrailTripwireTriggered,
    OutputGuardrailTripwireTriggered,
    ToolInputGuardrailTripwireTriggered,
    ToolOutputGuardrailTripwireTriggered,
)
# What the SDK hands a model as it is.
_STRUCTURED = (ToolOutputText, ToolOutputImage, ToolOutputFileContent)


def guarded_tools(tools: Sequence[Tool], guard: Guard) -> list[Tool]:
    """The tools of an agent, of which those that are functions are called under the guard; hosted tools pass.

    A call that does not succeed is an output of the tool with the policy's message, whatever its `failure_error_function`
    would make of it. A tool that needs approval has it when it is called. What a tool raises of the SDK's own passes.
    """
    return [_guarded(tool, guard) if isinstance(tool, FunctionTool) else tool for tool in tools]


def _guarded(tool: FunctionTool, guard: Guard) -> FunctionTool:
    # A failure that is made a text would be a success.
    failing = replace(tool, _failure_error_function=None, _use_default_failure_error_function=False)
    guard.tool(tool.name, parameters=tool.params_json_schema, description=tool.description)

    async def invoke(context: ToolContext[Any], arguments: str) -> Any:
        async def run(**args: Any) -> Any:
            try:
                return await failing.on_invoke_tool(context, json.dumps(args))
            except ModelBehaviorError as error:
                # The types of the function say more than its schema.
                raise ToolError(str(error), error_class="invalid_args", effect="not_started") from error

        # A function may say which calls need approval: those that have it say so.
        approved = tool.needs_approval is True or context.is_tool_approved(tool.name, context.tool_call_id) is True
        guarded = guard.tool(tool.name, approved=approved, passes=_PASSES)
        try:
            result, text = await guarded._call_cut(arguments or "{}", run, _read, call_id=context.tool_call_id)
        except CallError as error:
            return error.message
        return result if text is None else text

    return replace(tool, on_invoke_tool=invoke)


def _read(result: Any) -> Any:
    """What a model reads of a result. Images and files are no text."""
    parts = result if isinstance(result, (list, tuple)) else [result]
    is_structured = any(isinstance(part, _STRUCTURED) or (isinstance(part, Mapping) and "type" in part) for part in parts)
    return HIDDEN if is_structured else text_of(result)


class GuardModel(Model):
    """A model whose responses are turns of a guard.

    The model reads what it repeats at the end of its input, and is shown the tools that it may call. Retries of the clients
    behind it are off; leave out `retry` of `ModelSettings`, which would repeat turns. Responses that are streamed pass as
    they are.
    """

    def __init__(self, model: Model, guard: Guard, *, models: Mapping[str, Model] | None = None) -> None:
        """`models` are the models of the guard's targets; without one, a target is `model`."""
        self._model, self._guard, self._models = model, guard, dict(models or {})

    async def get_response(
        self,
        system_instructions: str | None,
        input: Any,
        model_settings: Any,
        tools: list[Tool],
        output_schema: Any,
        handoffs: list[Any],
        tracing: Any,
        **ids: Any,
    ) -> ModelResponse:
        """Makes a turn of the model under the policy. It raises what `TurnGuard.call` raises."""
        for tool in tools:
            if isinstance(tool, FunctionTool):
                self._guard.tool(tool.name, parameters=tool.params_json_schema, description=tool.description)

        async def ask(call: ModelCall[Any]) -> ModelResponse:
            model = self._models.get(call.target, self._model)
            said = [{"role": "user", "content": text} for text in call.guidance]
            asked = [*_items(call.request), *said] if said else call.request
            shown = [tool for tool in tools if not isinstance(tool, FunctionTool) or tool.name in call.tools]
            chosen = model_settings
            if tools and not shown and not handoffs:
                # Providers refuse a choice of tools without any.
                chosen = replace(model_settings, tool_choice=None, parallel_tool_calls=None)
            if call.max_output is not None:
                most = chosen.max_tokens
                chosen = replace(chosen, max_tokens=call.max_output if most is None else min(most, call.max_output))
            with provider_managed_retries_disabled(True):
                return await model.get_response(
                    system_instructions, asked, chosen, shown, output_schema, handoffs, tracing, **ids
                )

        return await self._guard.turn(input, passes=(UserError,)).call(ask, usage=_usage)

    def stream_response(self, *args: Any, **settings: Any) -> AsyncIterator[TResponseStreamEvent]:
        """A response of the model that is streamed, without the policy."""
        return self._model.stream_response(*args, **settings)

    async def close(self) -> None:
        """Closes the models."""
        for model in (self._model, *self._models.values()):
            await model.close()


def _items(asked: Any) -> list[Any]:
    return [{"role": "user", "content": asked}] if isinstance(asked, str) else list(asked)


def _usage(response: ModelResponse) -> ReplyUsage | None:
    return counted(response.usage)
