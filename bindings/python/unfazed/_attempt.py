"""What a guarded function may know of its attempt, and how long it may take."""

from __future__ import annotations

import asyncio
import inspect
import types
from collections.abc import Awaitable, Callable, Generator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

#: What an attempt is of, as a directive has it: `attempt`, `max_attempts`, `timeout` in nanoseconds, `idempotency_key`.
AttemptWork = dict[str, Any]


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


#: The attempt that runs here, from `set` to `reset`. Few ask for it, so it is made for those who do.
current_work: ContextVar[AttemptWork | None] = ContextVar("unfazed_attempt", default=None)


def current_attempt() -> CallAttempt | None:
    """The attempt of the guarded call that runs here; `None`: none does."""
    work = current_work.get()
    if work is None:
        return None
    return CallAttempt(work["attempt"], work.get("max_attempts"), seconds(work), work.get("idempotency_key"))


def seconds(work: AttemptWork) -> float | None:
    """The longest that an attempt may take; `None`: unlimited."""
    timeout = work.get("timeout")
    return None if timeout is None else timeout / 1e9


def is_awaited(value: Any) -> bool:
    """Whether what a function has returned is yet to be awaited."""
    return type(value) is types.CoroutineType or inspect.isawaitable(value)


def ended_at_once(value: Any) -> Any:
    """What a function has returned that is not awaited. Raises `TypeError` if it has to be."""
    if inspect.iscoroutine(value):
        value.close()
        raise TypeError("the function is `async`; await `call` instead of using `call_sync`")
    return value


class AttemptTimedOut(Exception):
    """The attempt had no answer within its time."""


class AttemptDropped(Exception):
    """Nobody needs the attempt any more."""


def call_in(loop: asyncio.AbstractEventLoop, fn: Callable[..., object], *args: Any) -> bool:
    """Calls `fn` in the loop, from any thread. `False`: the loop is closed, and nobody waits in it any more."""
    try:
        loop.call_soon_threadsafe(fn, *args)
    except RuntimeError:
        if loop.is_closed():
            return False
        raise
    return True


class AttemptScope:
    """Ends what is awaited when its time is over, or when nobody needs it. A cancellation from outside stays one.

    It is of the task that makes it, and counts from then on.
    """

    def __init__(self, timeout: float | None) -> None:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a guarded call is awaited in a task of asyncio")
        self._task: asyncio.Task[Any] = task
        self._loop = asyncio.get_running_loop()
        self._why: type[Exception] | None = None
        self._is_over = False
        # Python 3.10 does not count cancellations.
        self._counts = hasattr(task, "uncancel")
        self._before: int = task.cancelling() if self._counts else 0
        self._is_shared = False
        self._timer = None if timeout is None else self._loop.call_later(timeout, self._end, AttemptTimedOut)

    def drop(self) -> None:
        """Nobody needs it any more; from any thread."""
        call_in(self._loop, self._end, AttemptDropped)

    def close(self) -> None:
        """The attempt is over, however it ended."""
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()
        self._others_cancel()

    def cause(self) -> type[Exception] | None:
        """Why what was awaited has been cancelled; `None`: others have asked for it."""
        return None if self._why is None or self._others_cancel() else self._why

    def _others_cancel(self) -> bool:
        """Takes the own cancellation back, whatever became of it: what others have asked for in the meantime is theirs."""
        # As `asyncio.timeout` does. What is not taken back stays in the task, for whatever it awaits next.
        if self._why is not None and self._counts:
            self._counts = False
            self._is_shared = self._task.uncancel() > self._before
        return self._is_shared

    def _end(self, why: type[Exception]) -> None:
        if self._why is None and not self._is_over:
            self._why = why
            self._task.cancel()


@types.coroutine
def within(
    timeout: float | None, awaitable: Awaitable[Any], watch: Callable[[AttemptScope], bool]
) -> Generator[Any, Any, Any]:
    """What an awaitable comes to. Raises `AttemptTimedOut` or `AttemptDropped` if it ended so.

    Most tools of tests and caches answer at once, and need neither a timer nor anybody who watches: both are there from the
    first suspension on. `watch` says `False` if nobody needs the attempt any more.
    """
    steps: Any = awaitable if type(awaitable) is types.CoroutineType else _awaited(awaitable)
    try:
        waits_for = steps.send(None)
    except StopIteration as ended:
        return ended.value
    scope = AttemptScope(timeout)
    try:
        if not watch(scope):
            steps.close()
            raise AttemptDropped
        return (yield from _rest(steps, waits_for))
    except asyncio.CancelledError:
        cause = scope.cause()
        if cause is None:
            raise
        raise cause from None
    finally:
        scope.close()


async def _awaited(awaitable: Awaitable[Any]) -> Any:
    return await awaitable


def _rest(steps: Any, waits_for: Any) -> Generator[Any, Any, Any]:
    """The rest of a coroutine that waits: as `yield from`, which would begin with its first step."""
    while True:
        try:
            sent = yield waits_for
        except GeneratorExit:
            steps.close()
            raise
        except BaseException as error:
            step, given = steps.throw, error
        else:
            step, given = steps.send, sent
        try:
            waits_for = step(given)
        except StopIteration as ended:
            return ended.value
