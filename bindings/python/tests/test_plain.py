"""Calls that cost no step: those that succeed at once, of a tool that the run knows nothing of."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Iterator
from typing import Any

import pytest

from unfazed import CallExhausted, CallRefused, Guard, Policy, RunError, ToolError, ToolGuard, current_attempt

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
    # Nor do arguments that nothing is to be said about.
    tool.call_sync({"query": "rust"}, lambda query: query)
    assert steps(guarded) == before


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


class Silent(Exception):
    """One whose answer cannot be had."""

    @property
    def response(self) -> Any:
        raise RuntimeError("no response set")


def of_body(body: Any) -> Exception:
    error = Exception("busy")
    error.body = body  # type: ignore[attr-defined]
    return error


ITSELF: dict[str, Any] = {}
ITSELF["self"] = ITSELF


def retyped() -> ToolError:
    error = ToolError("busy")
    error.error_class = "typo"
    return error


@pytest.mark.parametrize(
    "error", [Silent("busy"), of_body(ITSELF), of_body({("a", "b"): 1}), of_body(b"\xff"), retyped()], ids=repr
)
@pytest.mark.parametrize("is_async", [False, True])
def test_a_failure_that_cannot_be_read_leaves_its_place_to_the_next_call(error: Exception, is_async: bool) -> None:
    tool = begun(guard("version: 1\ntools: {'*': {concurrency: 1, retry: {max_attempts: 1}}}\n"))

    def fails(**_: Any) -> None:
        raise error

    async def fails_later(**_: Any) -> None:
        raise error

    for _ in range(2):
        with pytest.raises((CallExhausted, ValueError)):
            asyncio.run(tool.call(None, fails_later)) if is_async else tool.call_sync(None, fails)

    async def main() -> Any:
        return await asyncio.wait_for(tool.call(None, lambda: "found"), 10)

    assert asyncio.run(main()) == "found"


def test_what_nobody_reads_of_a_call_is_the_hosts_own() -> None:
    guarded = guard()

    @guarded.tool(effect="read_only")
    def same(value: Any) -> Any:
        return value

    for value in (2**89 - 1, "caf\udce9.txt", deep(100)):
        assert same(value) == value


def deep(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


PARAMETERS = {"type": "object", "properties": {"n": {"type": "integer", "maximum": 9}}, "required": ["n"]}
#: Rules under which calls are made that need no step.
RULES = (
    "{}",
    "{retry: {max_attempts: 2, backoff: {kind: constant, delay: 0s}}, breaker: {failures: 3, open_for: 3s}}",
    "{loop_guard: {count: cumulative, same_call: {nudge: 2, block: 3}}, retry: {max_attempts: 1}}",
    "{loop_guard: {same_error: {nudge: 1, block: 2}}, effect: non_idempotent, retry: {max_attempts: 1}}",
    "{loop_guard: {enabled: false}, validate: [{name: odd, check: 'args.n % 2 == 1', message: n is even}]}",
    "{breaker: {failures: 2, count: {kind: cumulative}}, retry: {max_attempts: 1}}",
)
#: Arguments and results: alike, invalid, and of other kinds than a plain dict.
ARGUMENTS: tuple[Any, ...] = ({"n": 1}, {"n": 1}, {"n": 3}, {"n": 3.0}, {"n": 2}, {"n": "1"}, {"n": 2**70}, {}, None)


def decided(rules: str, seed: int) -> tuple[list[Any], int]:
    """What a guard says of each of some calls, and how many steps they cost it."""
    chance, now = random.Random(seed), [0]
    policy = f"version: 1\ntools:\n  search: {rules}\n"
    guarded = Guard(Policy.from_yaml(policy), run="r", seed=7, clock=lambda: now[0])
    tool, said = guarded.tool("search", parameters=PARAMETERS), []
    for _ in range(chance.randint(5, 30)):
        now[0] += chance.choice((0, 1, 2)) * 1_000_000_000
        failures = (None, None, None, TimeoutError("late"), ValueError("wrong"))
        ends: Iterator[Exception | None] = iter([chance.choice(failures) for _ in range(9)])
        keys: list[Any] = []

        def search(ends: Iterator[Exception | None] = ends, keys: list[Any] = keys, **_: Any) -> str:
            attempt = current_attempt()
            keys.append(attempt and (attempt.attempt, attempt.max_attempts, attempt.timeout, attempt.idempotency_key))
            if (end := next(ends)) is not None:
                raise end
            return "found"

        try:
            came: Any = tool.call_sync(chance.choice(ARGUMENTS), search)
        except CallExhausted as error:
            came = (error.reason, error.message, error.because, len(error.attempts))
        except CallRefused as error:
            came = (error.error_class, error.message, error.because, error.delay, error.final_turn)
        said.append((came, keys, guarded.take_guidance()))
    return said, steps(guarded)


@pytest.mark.parametrize("rules", RULES)
def test_a_call_without_a_step_is_decided_as_with_one(rules: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seeds = range(60)
    plain = [decided(rules, seed) for seed in seeds]
    # Who reads the log closely reads of each call, so each costs steps.
    monkeypatch.setattr("unfazed._run.is_read_closely", lambda: True)
    stepped = [decided(rules, seed) for seed in seeds]
    assert [said for said, _ in plain] == [said for said, _ in stepped]
    assert sum(count for _, count in plain) < sum(count for _, count in stepped)


def test_equal_calls_are_noticed_that_cost_no_step_before() -> None:
    guarded = guard("version: 1\ntools: {'*': {loop_guard: {same_call: {nudge: 3, block: 5}}}}\n")
    tool = begun(guarded)
    ran, refused, warned = 0, 0, []
    for number in range(1, 8):
        try:
            tool.call_sync({"query": "rust"}, lambda query: query)
            ran += 1
        except CallRefused as error:
            assert error.error_class == "repeated_call"
            refused += 1
        warned += [number] * len(guarded.take_guidance())
    assert (ran, refused) == (4, 3)
    assert 3 in warned


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ({"a": [1, 2.5, None, True, "é\n"], "b": {"c": ()}}, '{"a":[1,2.5,null,true,"é\\n"],"b":{"c":[]}}'),
        ({"n": 2**64 - 1}, '{"n":18446744073709551615}'),
        # Python's own encoder.
        ({1: "one"}, '{"1":"one"}'),
        # What the engine does not look at.
        ({"n": 2**64}, None),
        ({"path": "caf\udce9.txt"}, None),
        ({"deep": deep(64)}, None),
        ({"deep": deep(5000)}, None),
        ({"n": float("nan")}, None),
        ({"lock": object()}, None),
    ],
)
def test_arguments_become_json(args: Any, text: str | None) -> None:
    from unfazed._tool import as_json

    assert as_json(args) == text
