"""Threads that share a guard. The tests hold with and without Python's global lock; without it they find more."""

from __future__ import annotations

import sys
import sysconfig
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from unfazed import Guard, ModelCall, Policy, ToolError
from unfazed._carry import carry_out_sync
from unfazed._series import ReportSeries

POLICY = """version: 1
tools:
  "*": {loop_guard: {enabled: false}, breaker: {failures: never}, retry: {backoff: {kind: constant, delay: 1ms}}}
  search: {effect: read_only, retry: {max_attempts: 3}}
turn: {max_turns: 100000}
models:
  "*": {retry: {max_attempts: 3, backoff: {kind: constant, delay: 1ms}}}
"""
THREADS, ROUNDS = 8, 10


@pytest.fixture(autouse=True)
def often() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.skipif(not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="this Python has a global lock")
def test_the_module_leaves_the_global_lock_off() -> None:
    assert not sys._is_gil_enabled()  # type: ignore[attr-defined, unused-ignore]


def once_failing(name: str, failed: set[str]) -> Callable[..., str]:
    def function(*_: object, **__: object) -> str:
        if name not in failed:
            failed.add(name)
            raise ToolError("busy", status=503)
        return name

    return function


def rounds(guarded: Guard, thread: int, shared: dict[str, Any]) -> list[Any]:
    came: list[Any] = []
    for number in range(ROUNDS):
        name = f"{thread}.{number}"
        shared.pop(f"{thread}.{number - 1}", None)
        shared[name] = {"deep": [number]}
        search = guarded.tool("search")
        came.append(search.call_sync({"query": name}, once_failing(name, set())))
        came.append(search.call_text_sync(f'{{"query": "{name}"}}', lambda query: {"found": query}))
        came.append(len(guarded.tool("look").call_sync({"all": shared}, lambda all, name=name: name)))
        calls: Any = [("look", {"name": name, "n": n}, lambda name, n: n) for n in range(3)]
        came.append(guarded.call_all_sync(calls))
        model = once_failing(name, set())

        def ask(call: ModelCall[str], model: Callable[..., str] = model) -> str:
            return model(call)

        came.append(guarded.turn("hi").call_sync(ask))
    return came


def test_threads_that_share_a_guard_get_what_is_theirs_and_leave_one_state(tmp_path: Path) -> None:
    log, policy = tmp_path / "session.jsonl", Policy.from_yaml(POLICY)
    for place in (None, log):
        shared: dict[str, Any] = {}
        guarded = Guard(policy, targets=["main"], log=place)
        with ThreadPoolExecutor(THREADS) as threads:
            running = [threads.submit(rounds, guarded, thread, shared) for thread in range(THREADS)]
            for thread, done in enumerate(running):
                names = [f"{thread}.{number}" for number in range(ROUNDS)]
                assert done.result(60) == [
                    part for name in names for part in (name, f'{{"found":"{name}"}}', len(name), [0, 1, 2], name)
                ]
        assert not guarded._run._tickets
        digest = guarded.digest()
        guarded.close()
    with Guard(policy, targets=["main"], log=log, resume=True) as again:
        assert (again.digest(), again.interrupted) == (digest, [])


def test_a_guard_that_is_closed_amid_calls_of_threads_ends_them_all() -> None:
    guarded = Guard(Policy.from_yaml(POLICY.replace("1ms", "1h")), targets=["main"])
    begun = threading.Barrier(THREADS + 1, timeout=30)

    def call(thread: int) -> str:
        def busy(**_: object) -> str:
            begun.wait()
            raise ToolError("busy", status=503)

        with pytest.raises(Exception, match="closed") as caught:
            guarded.tool("search").call_sync({"query": str(thread)}, busy)
        return type(caught.value).__name__

    with ThreadPoolExecutor(THREADS) as threads:
        running = [threads.submit(call, thread) for thread in range(THREADS)]
        begun.wait()
        guarded.close()
        assert [done.result(30) for done in running] == ["RunError"] * THREADS


def test_a_call_ends_when_all_is_known_that_was_decided_about_it() -> None:
    """What settles it may be in the midst of a step of another thread, which has more to say."""
    run = Guard(Policy.from_yaml(POLICY), targets=["main"])._run
    ticket = run.propose({"event": "output_proposed", "output": "done"})
    assert ticket.channels[0].is_over
    lock, taken = run._lock, []

    class Watched:
        def __enter__(self) -> None:
            lock.acquire()
            taken.append(True)

        def __exit__(self, *_: object) -> None:
            lock.release()

    run._lock = Watched()  # type: ignore[assignment]
    carry_out_sync(run, ticket, ReportSeries())
    assert taken
