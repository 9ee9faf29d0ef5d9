"""What the package promises, driven over a real server with faults, and decided again by the command."""

from __future__ import annotations

import asyncio
import itertools
import random
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest
from faulty_server import Answer, FaultyServer

from unfazed import CallError, CallExhausted, CallRefused, Guard, ModelCall, Policy, RunError

QUOTA = {"error": {"message": "You exceeded your current quota", "type": "insufficient_quota", "code": "insufficient_quota"}}


def poster(server: FaultyServer, path: str) -> Any:
    async def post(**arguments: Any) -> Any:
        async with httpx.AsyncClient() as client:
            answer = await client.post(f"{server.url}{path}", json=arguments)
            return answer.raise_for_status().json()

    return post


def replayed(command: str, log: Path, policy: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([command, "replay", log, "--policy", policy], capture_output=True, text=True)


def test_a_mail_whose_answer_is_lost_is_sent_once(server: FaultyServer, policy_file: Path) -> None:
    server.answers("/mail", Answer(lost=True))
    guard = Guard(Policy.load(policy_file))
    with pytest.raises(CallExhausted) as caught:
        asyncio.run(guard.tool("send_mail").call({"to": "ada"}, poster(server, "/mail")))
    assert len(server.asked("/mail")) == 1
    assert (caught.value.error_class, caught.value.reason) == ("network_error", "may_have_acted")


def test_twelve_equal_calls_run_four_times(server: FaultyServer, policy_file: Path) -> None:
    server.answers("/search", Answer(200, "nothing"))
    guard = Guard(Policy.load(policy_file))
    refused = 0
    for _ in range(12):
        try:
            asyncio.run(guard.tool("search").call({"query": "rust"}, poster(server, "/search")))
        except CallRefused as error:
            refused += 1
            assert "with the same arguments" in error.message
    assert (len(server.asked("/search")), refused) == (4, 8)


def test_a_quota_that_is_used_up_is_asked_once(server: FaultyServer, policy_file: Path) -> None:
    server.answers("/v1/chat/completions", Answer(429, QUOTA))
    guard = Guard(Policy.load(policy_file))

    async def model(call: ModelCall[Any]) -> Any:
        return await poster(server, "/v1/chat/completions")(**call.request)

    with pytest.raises(CallExhausted) as caught:
        asyncio.run(guard.turn({"messages": []}).call(model))
    assert len(server.requests) == 1
    assert caught.value.error_class == "quota_exceeded"


def test_retry_after_of_a_model_is_obeyed(server: FaultyServer, policy_file: Path) -> None:
    slow = Answer(429, {"error": {"message": "slow down"}}, {"retry-after-ms": "150"})
    server.answers("/v1/chat/completions", slow, Answer(200, "hello"))
    guard = Guard(Policy.load(policy_file))

    async def model(call: ModelCall[Any]) -> Any:
        return await poster(server, "/v1/chat/completions")(**call.request)

    assert asyncio.run(guard.turn({"messages": []}).call(model)) == "hello"
    first, second = server.requests
    assert second.at - first.at >= 0.150


async def fifty(guard: Guard, order: list[int]) -> list[Any]:
    """Fifty calls of one reply, which end in this order; every fifth one fails."""
    events = [asyncio.Event() for _ in order]
    begun = itertools.count()
    all_begun = asyncio.Event()

    def call(number: int) -> Any:
        async def function(number: int) -> int:
            if next(begun) == len(order) - 1:
                all_begun.set()
            await events[number].wait()
            if number % 5 == 0:
                raise KeyError(number)
            return number

        return ("work", {"number": number}, function)

    async def release() -> None:
        await all_begun.wait()
        for number in order:
            events[number].set()
            # The task that waits for it, and what it does next, run before the next one is let go.
            for _ in range(5):
                await asyncio.sleep(0)

    releasing = asyncio.create_task(release())
    ended = await guard.call_all([call(number) for number in range(len(order))])
    await releasing
    return ended


FIFTY = "version: 1\ntools: {work: {breaker: {failures: never}}}\nturn: {calls: {max: 64, parallel: 64}}\n"


def test_fifty_calls_of_a_reply_end_in_one_state_whatever_their_order() -> None:
    states, ended = set(), []
    for seed in range(4):
        order = list(range(50))
        random.Random(seed).shuffle(order)
        guard = Guard(Policy.from_yaml(FIFTY), run="r", clock=lambda: 1_800_000_000_000_000_000)
        ended = asyncio.run(fifty(guard, order))
        states.add(guard.digest())
    assert len(states) == 1
    assert [value for value in ended if isinstance(value, int)] == [n for n in range(50) if n % 5]
    assert sum(isinstance(value, CallExhausted) for value in ended) == 10


def test_fifty_calls_that_are_proposed_one_by_one_end_each_once() -> None:
    guard, made = Guard(Policy.from_yaml(FIFTY)), []

    async def main() -> list[int]:
        gate = asyncio.Event()

        async def work(number: int) -> int:
            await gate.wait()
            made.append(number)
            return number

        tasks = [asyncio.create_task(guard.tool("work").call({"number": n}, work)) for n in range(50)]
        await asyncio.sleep(0)
        gate.set()
        return await asyncio.gather(*tasks)

    assert asyncio.run(main()) == list(range(50))
    assert sorted(made) == list(range(50))


def session(server: FaultyServer, policy: Policy, log: Path) -> None:
    """Calls, turns and a report, with faults, written down."""
    server.answers("/search", Answer(503, "busy"), Answer(200, "found"))
    server.answers("/mail", Answer(lost=True))
    with Guard(policy, targets=["main"], log=log, run="r", seed=7) as guard:
        asyncio.run(guard.tool("search").call({"query": "rust"}, poster(server, "/search")))
        with pytest.raises(CallExhausted):
            asyncio.run(guard.tool("send_mail").call({"to": "ada"}, poster(server, "/mail")))
        guard.turn("hi").call_sync(lambda call: "hello")
        guard.output_sync("All is done.")


def test_a_log_is_replayed_byte_for_byte(server: FaultyServer, policy_file: Path, tmp_path: Path, command: str) -> None:
    log = tmp_path / "session.jsonl"
    session(server, Policy.load(policy_file), log)
    replay = replayed(command, log, policy_file)
    assert (replay.returncode, replay.stderr) == (0, "")
    assert "byte for byte" in replay.stdout
    assert log.stat().st_mode & 0o077 == 0


def test_another_policy_diverges_at_a_place(server: FaultyServer, policy_file: Path, tmp_path: Path, command: str) -> None:
    log = tmp_path / "session.jsonl"
    session(server, Policy.load(policy_file), log)
    other = tmp_path / "other.yaml"
    other.write_text(policy_file.read_text().replace("max_attempts: 3}}", "max_attempts: 1}}"))
    replay = replayed(command, log, other)
    assert "diverges  at event 3" in replay.stdout, replay.stdout
    # Long paths are broken into lines.
    assert "other.yaml:4:53" in "".join(replay.stdout.split()), replay.stdout


def test_a_log_is_not_written_over(policy_file: Path, tmp_path: Path) -> None:
    log = tmp_path / "session.jsonl"
    log.write_text("mine")
    with pytest.raises(FileExistsError):
        Guard(Policy.load(policy_file), log=log)
    assert log.read_text() == "mine"
    with Guard(Policy.load(policy_file), log=tmp_path, run="of-a-folder") as guard:
        guard.tool("search").call_sync(None, lambda: None)
    assert (tmp_path / "of-a-folder.jsonl").read_text().startswith('{"v":2,"kind":"session"')


def test_what_cannot_be_written_is_not_done(policy_file: Path, tmp_path: Path) -> None:
    guard = Guard(Policy.load(policy_file), log=tmp_path, run="r")
    guard._run._log._file.close()  # type: ignore[union-attr]
    calls: list[int] = []
    for _ in range(2):
        with pytest.raises(RunError, match="cannot be written") as caught:
            guard.tool("search").call_sync(None, lambda: calls.append(1))
        assert caught.value.reason == "log"
    assert calls == []


def test_mistakes_are_corrected_with_feedback_as_weakincentives_does(server: FaultyServer) -> None:
    server.answers("/weather", Answer(503, "busy"), Answer(200, "rain"))
    policy = Policy.from_yaml("version: 1\nextends: builtin:presets/weakincentives\n")
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}

    def guard() -> Guard:
        return Guard(policy, [{"name": "weather", "parameters": schema}])

    def wrong(one: Guard, arguments: dict[str, Any]) -> CallError:
        with pytest.raises(CallError) as caught:
            asyncio.run(one.tool("weather").call(arguments, poster(server, "/weather")))
        return caught.value

    one = guard()
    assert "`city` is missing" in wrong(one, {}).message
    assert "/city: expected string, found number 5" in wrong(one, {"city": 5}).message
    # Failures of transport are left to others.
    assert wrong(one, {"city": "Rome"}).error_class == "overloaded"
    assert asyncio.run(one.tool("weather").call({"city": "Rome"}, poster(server, "/weather"))) == "rain"
    two = guard()
    first, second, last = (wrong(two, {}) for _ in range(3))
    assert isinstance(first, CallRefused) and isinstance(second, CallRefused)
    assert (first.delay, second.delay) == (1.0, 2.0)
    assert isinstance(last, CallExhausted)
    assert len(server.asked("/weather")) == 2
