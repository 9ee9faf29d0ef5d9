"""What a guarded function may know of its attempt, and how long it may take."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextvars import ContextVar, Token
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class CallAttempt:
    """The attempt that runs."""

    #: The attempt, from 1.
    attempt: int
    #: The most attempts; `None`: unlimited.
    max_attempts: int | None
    #: The longest that it may take, in seconds; `None`: unlimited. An `async` one is cancelled then; a function that
    #: blocks hands it to its client.
    timeout: float | None
    #: The same for every attempt of this call, and for no other call; `None` for a turn.
    idempotency_key: str | None


_current: ContextVar[CallAttempt | None] = ContextVar("unfazed_attempt", default=None)


def current_attempt() -> CallAttempt | None:
    """The attempt of the guarded call that runs here; `None`: none does."""
    return _current.get()


def attempt_of(work: dict[str, Any]) -> CallAttempt:
    timeout = work.get("timeout")
    return CallAttempt(
        work["attempt"],
        work.get("max_attempts"),
        None if timeout is None else timeout / 1e9,
        work.get("idempotency_key"),
    )


class AttemptTimedOut(Exception):
    """The attempt had no answer within its time."""


class AttemptDropped(Exception):
    """Nobody needs the attempt any more."""


class AttemptScope:
    """Ends what is awaited when its time is over, or when nobody needs it. A cancellation from outside stays one."""

    def __init__(self, timeout: float | None) -> None:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a guarded call is awaited in a task of asyncio")
        self._task: asyncio.Task[Any] = task
        self._timeout = timeout
        self._loop = asyncio.get_running_loop()
        self._why: type[Exception] | None = None
        self._is_over = False
        # Python 3.10 does not count cancellations.
        self._counts = hasattr(task, "uncancel")
        self._before: int = task.cancelling() if self._counts else 0

    def drop(self) -> None:
        """Nobody needs it any more; from any thread."""
        self._loop.call_soon_threadsafe(self._end, AttemptDropped)

    async def wait_for(self, awaitable: Awaitable[T]) -> T:
        """Raises `AttemptTimedOut` or `AttemptDropped` if it ended so."""
        timer = None
        if self._timeout is not None:
            timer = self._loop.call_later(self._timeout, self._end, AttemptTimedOut)
        try:
            return await awaitable
        except asyncio.CancelledError:
            # As `asyncio.timeout` does: what others have asked for in the meantime is theirs.
            if self._why is None or self._others():
                raise
            raise self._why from None
        finally:
            self._is_over = True
            if timer is not None:
                timer.cancel()

    def _others(self) -> bool:
        return self._counts and self._task.uncancel() > self._before

    def _end(self, why: type[Exception]) -> None:
        if self._why is None and not self._is_over:
            self._why = why
            self._task.cancel()


def enter(attempt: CallAttempt) -> Token[CallAttempt | None]:
    """Makes an attempt the current one, until it is left."""
    return _current.set(attempt)


def leave(entered: Token[CallAttempt | None]) -> None:
    _current.reset(entered)
