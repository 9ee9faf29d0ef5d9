"""Hooks of the Claude Agent SDK under a guard."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from claude_agent_sdk import CanUseTool, HookMatcher, PermissionResult, PermissionResultDeny, ToolPermissionContext

from unfazed._carry import carry_out
from unfazed._channel import Directive, ProposalTicket
from unfazed._guard import Guard
from unfazed._raised import CallError, RunError, ToolError, UnfazedError
from unfazed._series import ToolSeries
from unfazed._tool import as_json

__all__ = ["GuardHooks"]

# Claude Code runs the tool, once and as long as it takes: a hook can do neither again nor anything about its time. What the
# model has written wrong it may correct, as often as the policy says.
_ONCE = {"retry": {"retry_on": ["invalid_args", "malformed_tool_call"], "attempt_timeout": "unlimited"}}


class GuardHooks:
    """Calls of tools of Claude Code, under a guard.

    Before a tool runs, its arguments are validated, repeated calls and those of an open breaker are denied, and those that
    a person has to approve are asked about. Afterwards the guard learns how it ended, and the model reads what the policy
    says of that.

    Hooks cannot run a tool again, choose a model, change a conversation or wait for a model: rules of the policy about
    attempts, backoff and timeouts of tools, and all about `models`, have no effect here.
    """

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        # Models of other providers give several calls of a reply one id.
        self._open: dict[str, list[_OpenCall]] = {}

    def hooks(self, *, timeout: float | None = None) -> dict[Any, list[HookMatcher]]:
        """What `hooks` of `ClaudeAgentOptions` takes. `timeout` is the longest that a hook may take, in seconds, such as one
        whose call waits for another one of a tool that runs once at a time; Claude Code's own is 60.
        """
        named: dict[str, Callable[..., Any]] = {
            "PreToolUse": self.before,
            "PostToolUse": self.after,
            "PostToolUseFailure": self.after,
            "Stop": self.stopped,
            "SubagentStop": self.stopped,
        }
        return {event: [HookMatcher(hooks=[hook], timeout=timeout)] for event, hook in named.items()}

    def can_use_tool(self, ask: CanUseTool) -> CanUseTool:
        """The function that is asked for permissions, so that the guard learns of calls that nobody permits."""

        async def asked(tool: str, given: dict[str, Any], context: ToolPermissionContext) -> PermissionResult:
            result = await ask(tool, given, context)
            if isinstance(result, PermissionResultDeny):
                call = self._taken(str(context.tool_use_id), tool)
                if call is not None:
                    call.withdraw()
            return result

        return asked

    async def before(self, given: Any, tool_use_id: str | None, context: Any) -> dict[str, Any]:
        """`PreToolUse`: whether the tool may run."""
        call_id, args = str(given["tool_use_id"]), given["tool_input"]
        try:
            call = _OpenCall(self._guard, (given["tool_name"], args, call_id), given.get("agent_id"))
        except UnfazedError as error:
            return _denied(error)
        self._open.setdefault(call_id, []).append(call)
        try:
            await call.begun()
        except UnfazedError as error:
            self._forget(call)
            return _denied(error)
        except BaseException:
            # A hook that took too long is cancelled: what it waited for is for the next call.
            self._forget(call)
            call.withdraw()
            raise
        said: dict[str, Any] = {}
        if call.is_asked:
            said.update(permissionDecision="ask", permissionDecisionReason="The policy wants a person to agree.")
        if call.arguments != args:
            # Repaired as the policy says. Nothing is allowed by that: permissions stay Claude Code's.
            said.update(updatedInput=call.arguments)
        return _said("PreToolUse", said)

    async def after(self, given: Any, tool_use_id: str | None, context: Any) -> dict[str, Any]:
        """`PostToolUse` and `PostToolUseFailure`: how it ended."""
        call = self._taken(str(given["tool_use_id"]), given["tool_name"])
        if call is None:
            return {}
        event = given["hook_event_name"]
        if given.get("is_interrupt"):
            call.withdraw()
            return {}
        try:
            said = await call.ended(ToolError(given["error"], effect="started") if "error" in given else None)
        except UnfazedError as error:
            said = [str(error)]
        return _said(event, {"additionalContext": "\n".join(said)} if said else {})

    async def stopped(self, given: Any, tool_use_id: str | None, context: Any) -> dict[str, Any]:
        """`Stop` and `SubagentStop`: calls that were not permitted do not run any more."""
        agent = given.get("agent_id")
        for call in [call for calls in self._open.values() for call in calls if call.agent == agent]:
            self._forget(call)
            call.withdraw()
        return {}

    def _taken(self, call_id: str, tool: str) -> _OpenCall | None:
        """Takes the oldest open call of that id, of that tool if there is one."""
        calls = self._open.get(call_id, [])
        call = next((call for call in calls if call.tool == tool), calls[0] if calls else None)
        if call is not None:
            self._forget(call)
        return call

    def _forget(self, call: _OpenCall) -> None:
        calls = self._open.get(call.call_id, [])
        if call in calls:
            calls.remove(call)
        if not calls:
            self._open.pop(call.call_id, None)


class _OpenCall(ToolSeries):
    """A call of a tool that Claude Code runs between two hooks."""

    def __init__(self, guard: Guard, call: tuple[str, dict[str, Any], str], agent: str | None) -> None:
        name, args, call_id = call
        run = guard._run
        super().__init__(name, (_not_called, args), (), shows=None, approved=True, policy=run.policy)
        self.tool, self.call_id, self.agent, self.is_asked = name, call_id, agent, False
        self.arguments: Any = args
        self._guard_run = run
        self._has_started = asyncio.get_running_loop().create_future()
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        proposed = {**run.call(name, as_json(args), call_id), "policy": _ONCE}
        self._ticket: ProposalTicket = run.propose({"event": "tools_proposed", "calls": [proposed]})
        self._task = asyncio.ensure_future(carry_out(run, self._ticket, self))

    async def begun(self) -> None:
        """Returns when the tool may run. Raises `CallError` if it may not."""
        await asyncio.wait([self._has_started, self._task], return_when=asyncio.FIRST_COMPLETED)
        if self._has_started.done():
            return
        if self._task.cancelled():
            raise RunError("the call was withdrawn", "withdrawn")
        self._task.result()
        raise self._failure()

    async def ended(self, error: ToolError | None) -> list[str]:
        """The tool has ended; what the model is to read of it, besides its result."""
        if not self._ended.done():
            if error is None:
                self._ended.set_result(None)
            else:
                self._ended.set_exception(error)
        await self._task
        guidance = [*self._guard_run.take_guidance(), *self._ticket.channels[0].guidance]
        return guidance if error is None else [str(self._failure()), *guidance]

    def withdraw(self) -> None:
        """Nobody runs it."""
        self._task.cancel()
        # A task that is cancelled before its first step does nothing, not even that.
        self._guard_run.withdraw(self._ticket)

    def invoke(self, work: Directive) -> Any:
        self.arguments = work["arguments"]
        if not self._has_started.done():
            self._has_started.set_result(None)
        return self._ended

    def _answer(self, ask: Directive) -> str:
        # Claude Code asks the person: `PreToolUse` says so.
        self.is_asked = ask["question"] == "run"
        return "approve" if self.is_asked else "none"

    def _failure(self) -> CallError | UnfazedError:
        return self._ticket.channels[0].failure(self.last)


def _denied(error: UnfazedError) -> dict[str, Any]:
    return _said("PreToolUse", {"permissionDecision": "deny", "permissionDecisionReason": str(error)})


def _said(event: str, said: dict[str, Any]) -> dict[str, Any]:
    return {"hookSpecificOutput": {"hookEventName": event, **said}} if said else {}


def _not_called(**_: Any) -> None:
    """The tool is Claude Code's."""
