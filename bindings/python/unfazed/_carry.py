"""Carries out what is asked for about a call, in a task of asyncio or in a thread."""

from __future__ import annotations

import asyncio
import inspect
import threading
from typing import Any

from unfazed._attempt import AttemptDropped, AttemptScope, AttemptTimedOut, attempt_of, enter, leave
from unfazed._channel import CallChannel, Directive, ProposalTicket
from unfazed._failure import timed_out
from unfazed._run import GuardRun
from unfazed._series import CallSeries, Event, ToolSeries


async def carry_out(run: GuardRun, ticket: ProposalTicket, series: CallSeries, index: int = 0) -> None:
    """Does all that is asked for until the call is over. Cancelled, it withdraws the call."""
    channel = ticket.channels[index]
    try:
        while not channel.is_over:
            work = run.next_work(channel)
            if work is None:
                await _sleep(run, channel, None, None)
                continue
            event = await _perform(run, channel, series, work)
            if event is not None:
                run.answer(event, ticket)
    except BaseException:
        run.withdraw(ticket, index if len(ticket.channels) > 1 else None)
        raise


def carry_out_sync(run: GuardRun, ticket: ProposalTicket, series: CallSeries, index: int = 0) -> None:
    """The same in this thread."""
    channel = ticket.channels[index]
    try:
        while not channel.is_over:
            work = run.next_work(channel)
            if work is None:
                _block(run, channel, None, None)
                continue
            event = _perform_sync(run, channel, series, work)
            if event is not None:
                run.answer(event, ticket)
    except BaseException:
        run.withdraw(ticket, index if len(ticket.channels) > 1 else None)
        raise


async def _perform(run: GuardRun, channel: CallChannel, series: CallSeries, work: Directive) -> Event | None:
    """The answer to a piece of work; `None`: nobody needs it any more."""
    if work["directive"] == "wait":
        await _sleep(run, channel, work["work"], work["delay"] / 1e9)
        return _fired(channel, work)
    if not _is_attempt(series, work):
        return series.other(work)
    attempt = attempt_of(work)
    scope = AttemptScope(attempt.timeout)
    if not run.watch(channel, scope.drop, work["work"]):
        return None
    entered = enter(attempt)
    try:
        value = series.invoke(work)
        if inspect.isawaitable(value):
            value = await scope.wait_for(value)
    except AttemptDropped:
        return None
    except AttemptTimedOut:
        return series.failed(work, timed_out(attempt.timeout or 0), None)
    except series.passes:
        raise
    except Exception as error:
        return series.failed(work, series.facts(error), error)
    finally:
        leave(entered)
        run.unwatch(channel)
    return series.succeeded(work, value)


def _perform_sync(run: GuardRun, channel: CallChannel, series: CallSeries, work: Directive) -> Event | None:
    if work["directive"] == "wait":
        _block(run, channel, work["work"], work["delay"] / 1e9)
        return _fired(channel, work)
    if not _is_attempt(series, work):
        return series.other(work)
    entered = enter(attempt_of(work))
    try:
        value: Any = series.invoke(work)
    except series.passes:
        raise
    except Exception as error:
        return series.failed(work, series.facts(error), error)
    finally:
        leave(entered)
    if inspect.iscoroutine(value):
        value.close()
        raise TypeError("the function is `async`; await `call` instead of using `call_sync`")
    return series.succeeded(work, value)


def _is_attempt(series: CallSeries, work: Directive) -> bool:
    is_own = not isinstance(series, ToolSeries) or work["directive"] != "run_tool" or series.is_own(work)
    return work["directive"] == series.asks and is_own


def _fired(channel: CallChannel, work: Directive) -> Event | None:
    return {"event": "timer_fired", "work": work["work"]} if channel.needs(work["work"]) else None


async def _sleep(run: GuardRun, channel: CallChannel, work: int | None, seconds: float | None) -> None:
    """Waits so long, or until nobody needs that wait; without a length, until something comes."""
    loop = asyncio.get_running_loop()
    over: asyncio.Future[None] = loop.create_future()

    def wake() -> None:
        if work is None or not channel.needs(work):
            loop.call_soon_threadsafe(_end, over)

    if not run.watch(channel, wake, work):
        return
    timer = None if seconds is None else loop.call_later(seconds, _end, over)
    try:
        await over
    finally:
        run.unwatch(channel)
        if timer is not None:
            timer.cancel()


def _end(over: asyncio.Future[None]) -> None:
    if not over.done():
        over.set_result(None)


def _block(run: GuardRun, channel: CallChannel, work: int | None, seconds: float | None) -> None:
    over = threading.Event()

    def wake() -> None:
        if work is None or not channel.needs(work):
            over.set()

    if run.watch(channel, wake, work):
        try:
            over.wait(seconds)
        finally:
            run.unwatch(channel)
