"""Calls that cost no step: those that succeed at once, of a tool that the run knows nothing of."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from unfazed import CallExhausted, Guard, Policy, RunError, ToolGuard, current_attempt

POLICY = """version: 1
tools:
  "*": {effect: read_only, retry: {max_attempts: 3, backoff: {kind: constant, delay: 0s}}}
  twice: {concurrency: 2}
"""


def guard(policy: str = POLICY, **settings: Any) -> Guard:
    return Guard(Policy.from_yaml(policy), run="r", **settings)


def steps(guarded: Guard) -> int:
    return guarded._run._engine.seq


def begun(guarded: Guard, name: str = "search") -> ToolGuard:
    """A tool of a run that has begun: the first call of a guard begins it."""
    tool = guarded.tool(name)
    tool.call_sync(None, lambda: None)
    return tool


def test_a_call_that_succeeds_at_once_costs_no_step() -> None:
    guarded = guard()
    tool = begun(guarded)
    before = steps(guarded)
    assert tool.call_sync(None, lambda: "found") == "found"

    async def search() -> str:
        await asyncio.sleep(0)
        return "found"

    assert asyncio.run(tool.call(None, search)) == "found"
    assert steps(guarded) == before
    # Arguments that the loop guard compares cost two.
    tool.call_sync({"query": "rust"}, lambda query: query)
    assert steps(guarded) == before + 2


def test_a_call_that_fails_is_made_again_under_the_same_key() -> None:
    tool, seen = begun(guard()), []

    async def search() -> str:
        seen.append(current_attempt())
        if len(seen) % 3:
            raise TimeoutError
        return "found"

    def search_sync() -> str:
        seen.append(current_attempt())
        if len(seen) % 3:
            raise TimeoutError
        return "found"

    assert asyncio.run(tool.call(None, search)) == "found"
    assert tool.call_sync(None, search_sync) == "found"
    known = [(at.attempt, at.max_attempts, at.timeout, at.idempotency_key) for at in seen if at]
    first = [(n, 3, 60.0, "r-2-0") for n in (1, 2, 3)]
    assert known == [*first, *((n, most, timeout, "r-3-0") for n, most, timeout, _ in first)]
    assert current_attempt() is None


def test_a_failure_is_counted_as_any_other() -> None:
    def search() -> None:
        raise KeyError

    guarded = guard(
        POLICY.replace("max_attempts: 3", "max_attempts: 1").replace("read_only", "read_only, breaker: {failures: 2}")
    )
    tool = begun(guarded)
    for _ in range(2):
        with pytest.raises(CallExhausted) as caught:
            tool.call_sync(None, search)
        assert isinstance(caught.value.last, KeyError)
    with pytest.raises(Exception, match="search"):
        tool.call_sync(None, lambda: "the breaker is open")
    assert not guarded._run._tickets


def test_no_more_calls_run_at_once_than_the_policy_says() -> None:
    guarded, running, most = guard(), [0], [0]
    tool = begun(guarded, "twice")

    async def call() -> None:
        running[0] += 1
        most[0] = max(most[0], running[0])
        await asyncio.sleep(0.001)
        running[0] -= 1

    async def main() -> None:
        await asyncio.gather(*(tool.call(None, call) for _ in range(10)))

    asyncio.run(main())
    assert (most, running) == ([2], [0])
    before = steps(guarded)
    # The run knows nothing of the tool any more.
    tool.call_sync(None, lambda: None)
    assert steps(guarded) == before


def test_an_attempt_that_takes_too_long_is_cancelled() -> None:
    tool = begun(guard("version: 1\ntools: {'*': {retry: {max_attempts: 1, attempt_timeout: 20ms}}}\n"))
    with pytest.raises(CallExhausted) as caught:
        asyncio.run(tool.call(None, lambda: asyncio.sleep(60)))
    assert (caught.value.error_class, caught.value.last) == ("timeout", None)


def test_a_call_that_is_cancelled_makes_room() -> None:
    guarded = guard("version: 1\ntools: {'*': {concurrency: 1}}\n")
    tool = begun(guarded)

    async def main() -> None:
        task = asyncio.ensure_future(tool.call(None, lambda: asyncio.sleep(60)))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(tool.call(None, lambda: None), 10)

    asyncio.run(main())


def test_exceptions_that_are_no_failures_reach_the_caller() -> None:
    guarded = guard()
    begun(guarded)
    before = steps(guarded)

    def interrupted() -> None:
        raise InterruptedError

    tool = guarded.tool("search", passes=(InterruptedError,))
    with pytest.raises(InterruptedError):
        tool.call_sync(None, interrupted)
    assert steps(guarded) == before


def test_a_guard_that_is_closed_ends_it() -> None:
    guarded = guard()
    tool = begun(guarded)

    async def main() -> None:
        task = asyncio.ensure_future(tool.call(None, lambda: asyncio.sleep(60)))
        await asyncio.sleep(0)
        guarded.close()
        with pytest.raises(RunError, match="closed"):
            await task

    asyncio.run(main())
    with pytest.raises(RunError, match="closed"):
        tool.call_sync(None, lambda: None)


def test_an_async_function_is_not_called_in_a_thread() -> None:
    async def search() -> None: ...

    tool = begun(guard())
    with pytest.raises(TypeError, match="await `call`"):
        _ = tool.call_sync(None, search)


def test_who_reads_the_log_closely_reads_of_each_call(caplog: pytest.LogCaptureFixture) -> None:
    guarded = guard()
    tool = begun(guarded)
    with caplog.at_level(logging.DEBUG, logger="unfazed"):
        tool.call_sync(None, lambda: None)
    assert "tool_ended search" in [record.getMessage() for record in caplog.records]
    caplog.clear()
    with caplog.at_level(logging.INFO, logger="unfazed"):
        tool.call_sync({}, lambda: None)
    assert not caplog.records


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ({"a": [1, 2.5, None, True, "é\n"], "b": {"c": ()}}, '{"a":[1,2.5,null,true,"é\\n"],"b":{"c":[]}}'),
        # Python's own encoder.
        ({"n": 2**70}, '{"n": 1180591620717411303424}'),
        ({1: "one"}, '{"1": "one"}'),
        # What the engine does not look at.
        ({"n": float("nan")}, None),
        ({"lock": object()}, None),
    ],
)
def test_arguments_become_json(args: Any, text: str | None) -> None:
    from unfazed._tool import as_json

    assert as_json(args) == text
