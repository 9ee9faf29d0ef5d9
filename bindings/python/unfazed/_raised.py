"""What the package raises."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

from unfazed._unfazed import mistake_of_class

if TYPE_CHECKING:
    from unfazed._unfazed import Diagnostic

__all__ = [
    "CallError",
    "CallExhausted",
    "CallRefused",
    "PolicyError",
    "RunError",
    "ToolError",
    "UnfazedError",
]


class UnfazedError(Exception):
    """What the package raises; each of its exceptions is one. It may be pickled: other processes get it whole."""

    def __reduce__(self) -> tuple[Any, ...]:
        # By itself an exception is made anew of its `args`, which say less than its parameters.
        return _made_again, (type(self), self.args, self._state())

    def _state(self) -> dict[str, Any]:
        return self.__dict__


def _made_again(kind: type[UnfazedError], args: tuple[Any, ...], state: dict[str, Any]) -> UnfazedError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(state)
    return error


class PolicyError(UnfazedError, ValueError):
    """A policy has mistakes. `diagnostics` has each of them with its place."""

    def __init__(self, message: str, diagnostics: list[Diagnostic]) -> None:
        super().__init__(message, diagnostics)
        self.diagnostics = diagnostics

    def __str__(self) -> str:
        return str(self.args[0])


class RunError(UnfazedError):
    """The run takes no call, or its log cannot be written. `reason` is one of `docs/events.md`, or `log`."""

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message, reason)
        self.reason = reason

    def __str__(self) -> str:
        return str(self.args[0])


class CallError(UnfazedError):
    """A call did not succeed. `message` is what the model is to read of it, as the policy words it."""

    def __init__(self, message: str, error_class: str | None, because: list[str]) -> None:
        super().__init__(message)
        self.message = message
        #: The class of the error, such as `invalid_args`; `None` if there is none.
        self.error_class = error_class
        #: The rules that decided: `name = value (file:line:column)`.
        self.because = because


class CallRefused(CallError):
    """A call that did not run, or a report that was not accepted: the model may try again."""

    def __init__(
        self, message: str, error_class: str | None, because: list[str], delay: float, final_turn: str | None
    ) -> None:
        super().__init__(message, error_class, because)
        #: How long to wait before the model is called again, in seconds; mostly 0.
        self.delay = delay
        #: Why the next turn should be the last; `None` if it need not be.
        self.final_turn = final_turn


class CallExhausted(CallError):
    """A call of which no further attempt is made. The last exception is its `__cause__`, too."""

    def __init__(
        self,
        message: str,
        error_class: str | None,
        because: list[str],
        attempts: list[dict[str, Any]],
        reason: str,
        last: BaseException | None,
    ) -> None:
        super().__init__(message, error_class, because)
        #: Every attempt: its number, its `error_type`, its `message`, its `delay` in nanoseconds.
        self.attempts = attempts
        #: Why there is no further attempt, such as `attempts` or `not_retryable`.
        self.reason = reason
        #: The exception of the last attempt; `None` if it timed out or did not run, or could not be pickled.
        self.last = last

    def _state(self) -> dict[str, Any]:
        try:
            pickle.loads(pickle.dumps(self.last))
        except Exception:
            # Those of openai and httpx, for example, can be pickled, but not read again.
            return {**self.__dict__, "last": None}
        return self.__dict__


#: A year, in seconds: nobody waits that long.
_LONGEST = 366 * 86_400
#: How far a call may have got.
EFFECTS = ("not_started", "started", "committed", "unknown")


class ToolError(UnfazedError):
    """What a tool raises that knows more of its failure than an exception says.

    `error_class` is a class of the policy language, if it is certain. `effect` says how far the call got: `not_started`,
    `started`, `committed`, `unknown`. `retry_after` is the wait that a server asks for, in seconds.
    """

    def __init__(
        self,
        message: str,
        *,
        error_class: str | None = None,
        effect: str = "unknown",
        status: int | None = None,
        retry_after: float | None = None,
    ) -> None:
        """Raises `ValueError` if one of them cannot be that of an event."""
        super().__init__(message)
        if error_class is not None and (mistake := mistake_of_class(str(error_class))) is not None:
            raise ValueError(f"`error_class`: {mistake}")
        if effect not in EFFECTS:
            raise ValueError(f"`effect` is one of {', '.join(EFFECTS)}, not {effect!r}")
        if status is not None and not (isinstance(status, int) and 100 <= status <= 999):
            raise ValueError(f"`status` is a status of HTTP, from 100 to 999, not {status!r}")
        if retry_after is not None and not (0 <= retry_after <= _LONGEST):
            raise ValueError(f"`retry_after` is a number of seconds, from 0 to {_LONGEST}, not {retry_after!r}")
        self.message = message
        self.error_class = error_class
        self.effect = effect
        self.status = status
        self.retry_after = retry_after
