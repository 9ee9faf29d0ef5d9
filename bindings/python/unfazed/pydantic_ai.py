"""Agents of pydantic-ai under a guard."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic_ai import RunContext
from pydantic_ai.capabilities import AbstractCapability, WrapToolExecuteHandler
from pydantic_ai.exceptions import (
    ApprovalRequired,
    CallDeferred,
    ModelRetry,
    SkipToolExecution,
    ToolFailed,
    ToolFailedError,
    ToolRetryError,
    UnexpectedModelBehavior,
)
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ToolCallPart,
    ToolReturn,
    ToolReturnPart,
    UserPromptPart,
    tool_return_ta,
)
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from unfazed._guard import Guard
from unfazed._raised import CallError
from unfazed._series import HIDDEN
from unfazed._turn import ModelCall, ReplyUsage
from unfazed._usage import counted

__all__ = ["GuardCapability"]


class _RetriesUsedUp(Exception):
    """A tool has said `ModelRetry` more often than its agent allows."""

    def __init__(self, error: UnexpectedModelBehavior) -> None:
        super().__init__(error)
        self.error = error


# What a tool says to its agent is no failure. Of `ModelRetry` and `ToolFailed` the agent makes errors of its own.
_PASSES = (
    *(ApprovalRequired, CallDeferred, ModelRetry, SkipToolExecution, ToolFailed),
    *(ToolFailedError, ToolRetryError, _RetriesUsedUp),
)


class GuardCapability(AbstractCapability[Any]):
    """Calls of tools and turns of the model of an agent, under a guard.

    A call that does not succeed is a failed result of the tool with the policy's message; a turn that does not raises
    `CallExhausted`. Turns that are streamed pass as they are.
    """

    def __init__(self, guard: Guard, *, models: Mapping[str, Model] | None = None) -> None:
        """`models` are the models of the guard's targets; without one, a target is the model of the agent."""
        self._guard, self._models = guard, dict(models or {})

    async def wrap_tool_execute(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
        handler: WrapToolExecuteHandler,
    ) -> Any:
        """Runs a call of a tool under the policy."""
        guarded = self._guard.tool(
            call.tool_name,
            parameters=tool_def.parameters_json_schema,
            description=tool_def.description or "",
            approved=ctx.tool_call_approved,
            passes=_PASSES,
        )

        async def run(**_: Any) -> Any:
            try:
                return await handler(args)
            except UnexpectedModelBehavior as error:
                # That of an agent that the tool has run is a failure of the tool.
                if ctx.last_attempt and isinstance(error.__cause__, ModelRetry):
                    raise _RetriesUsedUp(error) from error
                raise

        try:
            result, text = await guarded._call_cut(call.args_as_json_str(), run, _read, call_id=call.tool_call_id)
        except CallError as error:
            raise ToolFailed(error.message) from error
        except _RetriesUsedUp as ended:
            raise ended.error from ended.error.__cause__
        if text is None:
            return result
        return replace(result, return_value=text) if isinstance(result, ToolReturn) else text

    def get_wrapper_model(self, model: Model) -> Model:
        """The model, whose requests are turns of the guard."""
        return _GuardModel(model, self._guard, self._models)


class _GuardModel(WrapperModel):
    """A model whose requests are turns of a guard."""

    def __init__(self, model: Model, guard: Guard, models: Mapping[str, Model]) -> None:
        super().__init__(model)
        self._guard, self._models = guard, models

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        for tool in model_request_parameters.function_tools:
            self._guard.tool(tool.name, parameters=tool.parameters_json_schema, description=tool.description or "")

        async def ask(call: ModelCall[list[ModelMessage]]) -> ModelResponse:
            model = self._models.get(call.target, self.wrapped)
            guidance = [UserPromptPart(text) for text in call.guidance]
            said: list[ModelMessage] = [*call.request, ModelRequest(parts=guidance)] if guidance else call.request
            shown = [tool for tool in model_request_parameters.function_tools if tool.name in call.tools]
            asked = replace(model_request_parameters, function_tools=shown)
            return await model.request(said, _settings(model_settings, call), asked)

        return await self._guard.turn(messages).call(ask, usage=_usage)


def _read(result: Any) -> Any:
    """What a model reads of a result. Files are no text, and what cannot be written is the agent's to say."""
    value = result.return_value if isinstance(result, ToolReturn) else result
    if isinstance(value, str):
        return value
    part = ToolReturnPart("", value, "")
    try:
        return HIDDEN if part.files else json.loads(tool_return_ta.dump_json(value))
    except ValueError:
        return HIDDEN


def _settings(given: ModelSettings | None, call: ModelCall[Any]) -> ModelSettings | None:
    if call.max_output is None:
        return given
    most = (given or {}).get("max_tokens")
    return {**(given or {}), "max_tokens": call.max_output if most is None else min(most, call.max_output)}


def _usage(response: ModelResponse) -> ReplyUsage | None:
    return counted(response.usage)
