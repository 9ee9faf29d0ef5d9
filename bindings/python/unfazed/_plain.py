"""Calls that cost no step: where the policy leaves the first attempt to the host, and the run knows nothing of the tool."""

from __future__ import annotations

import inspect

from unfazed._attempt import (
    AttemptDropped,
    AttemptScope,
    AttemptTimedOut,
    AttemptWork,
    current_work,
    ended_at_once,
    is_awaited,
    within,
)
from unfazed._carry import carry_out, carry_out_sync
from unfazed._channel import ProposalTicket
from unfazed._failure import FailureFacts, timed_out
from unfazed._run import GuardRun
from unfazed._series import ToolSeries, failed_outcome
from unfazed._unfazed import PlainEntry


async def call_plainly(run: GuardRun, tool: str, entered: PlainEntry, series: ToolSeries) -> ProposalTicket | None:
    """Makes the first attempt of a call that was entered. If it fails, the run adopts the call, which
    is carried out; else its value is in `series`.
    """
    work, scopes = _first(run, tool, entered.idempotency_key), []
    failure: FailureFacts | Exception
    limit: int | None = work["timeout"]

    def watch(scope: AttemptScope) -> bool:
        scopes.append(scope)
        return run.watch_plain(scope)

    token = current_work.set(work)
    try:
        value = series.invoke(work)
        if is_awaited(value):
            value = await within(None if limit is None else limit / 1e9, value, watch)
    except AttemptDropped:
        raise run.lost() or AssertionError from None
    except AttemptTimedOut:
        failure = timed_out((limit or 0) / 1e9)
    except series.passes:
        run.leave(tool, succeeded=False)
        raise
    except Exception as error:
        failure, series.last = error, error
    except BaseException:
        run.leave(tool, succeeded=False)
        raise
    else:
        run.leave(tool, succeeded=True)
        series.value = value
        return None
    finally:
        current_work.reset(token)
        for scope in scopes:
            run.unwatch_plain(scope)
    ticket = _adopted(run, tool, entered, series, failure)
    await carry_out(run, ticket, series)
    return ticket


def call_plainly_sync(run: GuardRun, tool: str, entered: PlainEntry, series: ToolSeries) -> ProposalTicket | None:
    """The same in this thread."""
    work = _first(run, tool, entered.idempotency_key)
    failure: Exception
    token = current_work.set(work)
    try:
        value = series.invoke(work)
    except series.passes:
        run.leave(tool, succeeded=False)
        raise
    except Exception as error:
        failure, series.last = error, error
    except BaseException:
        run.leave(tool, succeeded=False)
        raise
    else:
        run.leave(tool, succeeded=not inspect.iscoroutine(value))
        series.value = ended_at_once(value)
        return None
    finally:
        current_work.reset(token)
    ticket = _adopted(run, tool, entered, series, failure)
    carry_out_sync(run, ticket, series)
    return ticket


def _first(run: GuardRun, tool: str, key: str) -> AttemptWork:
    max_attempts, timeout = run.plain_terms(tool) or (None, None)
    return {"attempt": 1, "max_attempts": max_attempts, "timeout": timeout, "idempotency_key": key}


def _adopted(
    run: GuardRun, tool: str, entry: PlainEntry, series: ToolSeries, failure: FailureFacts | Exception
) -> ProposalTicket:
    """Hands the call over to the run."""
    try:
        facts = failure if isinstance(failure, FailureFacts) else series.facts(failure)
        return run.adopt(tool, entry, failed_outcome(facts))
    except BaseException:
        # Its place is for the next call, whatever went wrong.
        run.leave(tool, succeeded=False)
        raise
