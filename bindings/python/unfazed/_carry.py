"""Carries out what is asked for about a call, in a task of asyncio or in a thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

from unfazed._attempt import (
    AttemptDropped,
    AttemptScope,
    AttemptTimedOut,
    call_in,
    current_work,
    ended_at_once,
    is_awaited,
    seconds,
    within,
)
from unfazed._channel import CallChannel, Directive, ProposalTicket
from unfazed._failure import timed_out
from unfazed._run import OVER, GuardRun
from unfazed._series import Answer, CallSeries, Event, ToolSeries


async def carry_out(run: GuardRun, ticket: ProposalTicket, series: CallSeries, index: int = 0) -> None:
    """Does all that is asked for until the call is over. Cancelled, it withdraws the call."""
    channel = ticket.channels[index]

    def withdraw() -> None:
        run.withdraw(ticket, index if len(ticket.channels) > 1 else None)

    try:
        while (work := run.next_work(channel)) is not OVER:
            if work is None:
                await _sleep(run, channel, None, None, withdraw)
            elif work["directive"] == "wait":
                await _sleep(run, channel, work["work"], work["delay"] / 1e9, withdraw)
                if (fired := _fired(channel, work)) is not None:
                    run.answer(fired, ticket)
            elif (event := await _perform(run, channel, series, work)) is not None:
                run.answer(event, ticket)
    except BaseException:
        withdraw()
        raise


def carry_out_sync(run: GuardRun, ticket: ProposalTicket, series: CallSeries, index: int = 0) -> None:
    """The same in this thread."""
    channel = ticket.channels[index]
    try:
        while (work := run.next_work(channel)) is not OVER:
            if work is None:
                _block(run, channel, None, None)
                continue
            event = _perform_sync(run, channel, series, work)
            if event is not None:
                run.answer(event, ticket)
    except BaseException:
        run.withdraw(ticket, index if len(ticket.channels) > 1 else None)
        raise


async def _perform(run: GuardRun, channel: CallChannel, series: CallSeries, work: Directive) -> Answer | None:
    """The answer to a piece of work; `None`: nobody needs it any more."""
    if not _is_attempt(series, work):
        return series.other(work)

    def watch(scope: AttemptScope) -> bool:
        return run.watch(channel, scope.drop, work["work"])

    entered = current_work.set(work)
    try:
        value = series.invoke(work)
        if is_awaited(value):
            value = await within(seconds(work), value, watch)
    except AttemptDropped:
        return None
    except AttemptTimedOut:
        return series.failed(work, timed_out(seconds(work) or 0), None)
    except series.passes:
        raise
    except Exception as error:
        return series.failed(work, series.facts(error), error)
    finally:
        current_work.reset(entered)
        run.unwatch(channel)
    return series.succeeded(work, value)


def _perform_sync(run: GuardRun, channel: CallChannel, series: CallSeries, work: Directive) -> Answer | None:
    if work["directive"] == "wait":
        _block(run, channel, work["work"], work["delay"] / 1e9)
        return _fired(channel, work)
    if not _is_attempt(series, work):
        return series.other(work)
    entered = current_work.set(work)
    try:
        value: Any = series.invoke(work)
    except series.passes:
        raise
    except Exception as error:
        return series.failed(work, series.facts(error), error)
    finally:
        current_work.reset(entered)
    return series.succeeded(work, ended_at_once(value))


def _is_attempt(series: CallSeries, work: Directive) -> bool:
    return work["directive"] == series.asks and (not isinstance(series, ToolSeries) or series.is_own(work))


def _fired(channel: CallChannel, work: Directive) -> Event | None:
    return {"event": "timer_fired", "work": work["work"]} if channel.needs(work["work"]) else None


async def _sleep(
    run: GuardRun, channel: CallChannel, work: int | None, seconds: float | None, withdraw: Callable[[], None]
) -> None:
    """Waits so long, or until nobody needs that wait; without a length, until something comes.

    In a loop that was closed nobody waits: the call is withdrawn when it is its turn, so that others get its place.
    """
    loop = asyncio.get_running_loop()
    over: asyncio.Future[None] = loop.create_future()

    def wake() -> None:
        if (work is None or not channel.needs(work)) and not call_in(loop, _end, over):
            withdraw()

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
