"""The attempts of one call: what is asked for, and how it is answered. Waiting is not its business."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from unfazed._channel import Directive
from unfazed._failure import FailureFacts, clean, model_failure, text_of, tool_failure
from unfazed._unfazed import Policy, json_text

Event = dict[str, Any]
#: The arguments of a call: as a dict, as the model wrote them, or `None`: there is nothing to look at.
CallArguments = Mapping[str, Any] | str | None
#: The answer to a piece of work. A number: the tool of that work did what it should, and the host keeps what it returned.
Answer = Event | int
#: What no model reads as a text: files, for example.
HIDDEN: Any = object()


class CallSeries:
    """What tools, turns and reports have in common."""

    #: The directive that asks for an attempt.
    asks = ""
    value: Any = None
    has_value = False
    last: BaseException | None = None

    def __init__(self, passes: tuple[type[BaseException], ...] = ()) -> None:
        #: Exceptions that are no failures, and reach the caller as they are.
        self.passes = passes

    def invoke(self, work: Directive) -> Any:
        """Calls the function of the host."""
        raise NotImplementedError

    def facts(self, error: BaseException) -> FailureFacts:
        """What an exception of that function says."""
        raise NotImplementedError

    def succeeded(self, work: Directive, value: Any) -> Answer:
        """The answer to an attempt that went well."""
        self.value, self.has_value, self.last = value, True, None
        return self._ended_well(work, value)

    def failed(self, work: Directive, facts: FailureFacts, error: BaseException | None) -> Event:
        """The answer to an attempt that failed."""
        self.last = error
        return self._ended_badly(work, facts)

    def other(self, work: Directive) -> Event | None:
        """The answer to work that is no attempt."""
        if work["directive"] == "consult":
            return {"event": "planner_decided", "work": work["work"], "decision": "tell_model"}
        return None

    def _ended_well(self, work: Directive, value: Any) -> Answer:
        raise NotImplementedError

    def _ended_badly(self, work: Directive, facts: FailureFacts) -> Event:
        raise NotImplementedError


class ToolSeries(CallSeries):
    """The attempts of a call of a tool."""

    asks = "run_tool"

    def __init__(
        self,
        name: str,
        call: tuple[Callable[..., Any], CallArguments],
        passes: tuple[type[BaseException], ...],
        *,
        shows: Callable[[Any], Any] | None,
        approved: bool,
        policy: Policy,
    ) -> None:
        """`call` is the function, and the arguments as the host has them. `shows` is what a model reads of what it
        returns, or `HIDDEN`; without it the host keeps that to itself.
        """
        self.passes = passes
        self._name, self._shows = name, shows
        self._function, self._given = call
        self._approved, self._policy = approved, policy

    def invoke(self, work: Directive) -> Any:
        if self._given is None:
            return self._function()
        # What the host has as objects stays what it is; what a model wrote is what the engine has read in it.
        args = work["arguments"] if isinstance(self._given, str) else self._given
        return self._function(**args) if isinstance(args, Mapping) else self._function(args)

    def facts(self, error: BaseException) -> FailureFacts:
        return tool_failure(error)

    def other(self, work: Directive) -> Event | None:
        if work["directive"] == "run_tool":
            # It is to find out whether the call has acted, and only the guard of that tool can run it.
            failure = {
                "class": "tool_unavailable",
                "message": "the guard of another tool cannot run this one",
            }
            return self._ended_badly(work, FailureFacts(failure, "not_started"))
        if work["directive"] == "ask":
            return {"event": "answered", "work": work["work"], "answer": self._answer(work)}
        return super().other(work)

    def _answer(self, ask: Directive) -> str:
        """There is nobody to ask, and nothing is approved by silence, whatever the policy makes of it."""
        if ask["question"] != "run":
            # Who has agreed to the call has not agreed to a second run of what may have had side effects.
            return "none"
        return "approve" if self._approved else "refuse" if self._policy.approves_unanswered else "none"

    def is_own(self, work: Directive) -> bool:
        return bool(work["tool"] == self._name)

    def _ended_well(self, work: Directive, value: Any) -> Answer:
        number: int = work["work"]
        data = HIDDEN if self._shows is None else self._shows(value)
        if data is HIDDEN:
            return number
        return {"event": "tool_finished", "work": number, "outcome": {"outcome": "ok", "data": as_data(data)}}

    def _ended_badly(self, work: Directive, facts: FailureFacts) -> Event:
        return {"event": "tool_finished", "work": work["work"], "outcome": failed_outcome(facts)}


def as_data(value: Any) -> Any:
    """What a tool has returned, as JSON. What is none is a text: the tool has run, and nothing is lost for its form."""
    if json_text(value) is not None:
        return value
    try:
        text = clean(json.dumps(value, ensure_ascii=False, allow_nan=False, default=text_of))
        data = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return text_of(value) or f"{type(value).__name__}, which cannot be written as a text"
    # Events have numbers of 64 bits and few levels.
    return text if json_text(data) is None else data


def failed_outcome(facts: FailureFacts) -> dict[str, Any]:
    """A run of a tool that failed, as events have it."""
    return {"outcome": "failed", "failure": facts.failure, "effect": facts.effect}


class TurnSeries(CallSeries):
    """The attempts of a turn of a model, over all its targets."""

    asks = "call_model"

    def __init__(
        self,
        function: Callable[[Directive], Any],
        usage: Callable[[Any], dict[str, int] | None] | None,
        passes: tuple[type[BaseException], ...],
    ) -> None:
        super().__init__(passes)
        self._function, self._usage = function, usage

    def invoke(self, work: Directive) -> Any:
        return self._function(work)

    def facts(self, error: BaseException) -> FailureFacts:
        return model_failure(error)

    def _ended_well(self, work: Directive, value: Any) -> Event:
        reply: dict[str, Any] = {"opaque": True}
        usage = None if self._usage is None else self._usage(value)
        if usage is not None:
            reply["usage"] = usage
        return {"event": "model_responded", "work": work["work"], "reply": reply}

    def _ended_badly(self, work: Directive, facts: FailureFacts) -> Event:
        return {"event": "model_failed", "work": work["work"], "failure": facts.failure}


class ReportSeries(CallSeries):
    """A report: nothing is attempted, it is accepted or not."""
