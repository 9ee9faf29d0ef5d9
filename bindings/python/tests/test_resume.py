"""A guard that continues the session of a log."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import unfazed
from unfazed import CallExhausted, CallRefused, Guard, Policy

POLICY = """version: 1
tools:
  "*": {retry: {max_attempts: 1}, breaker: {failures: 3, open_for: 1h}}
  search: {effect: read_only}
"""
TOOLS = [{"name": "search", "parameters": {"type": "object", "properties": {"n": {"type": "integer"}}}}]


def guard(log: Path, policy: str = POLICY, **settings: Any) -> Guard:
    return Guard(Policy.from_yaml(policy), TOOLS, log=log, resume=True, clock=lambda: 1_000, **settings)


def fails(**_: Any) -> None:
    raise TimeoutError("late")


def some_calls(guarded: Guard, numbers: range) -> list[Any]:
    """What each of some calls came to: the third failure opens the breaker, and the same call comes too often."""
    came: list[Any] = []
    for number in numbers:
        try:
            tool = guarded.tool("search")
            came.append(tool.call_sync({"n": 1 if number < 4 else number}, fails if number % 2 else lambda n: n))
        except (CallExhausted, CallRefused) as error:
            came.append((error.error_class, error.message, error.because))
        came.append(guarded.take_guidance())
    return came


def test_a_session_is_continued_as_if_nothing_had_happened(tmp_path: Path) -> None:
    with guard(tmp_path / "whole.jsonl", run="r") as whole:
        expected, digest = some_calls(whole, range(12)), whole.digest()
    for cut in range(12):
        log = tmp_path / f"{cut}.jsonl"
        with guard(log, run="r") as before:
            came = some_calls(before, range(cut))
        with guard(log) as after:
            assert after.interrupted == []
            came += some_calls(after, range(cut, 12))
            # A log without a line has no run.
            assert (after.run == "r") is (cut > 0)
            if cut > 0:
                assert after.digest() == digest
        assert came == expected, f"cut after {cut}"
    assert log.read_bytes() == (tmp_path / "whole.jsonl").read_bytes()


def test_a_log_that_was_cut_anywhere_is_continued(tmp_path: Path) -> None:
    with guard(tmp_path / "whole.jsonl", run="r") as whole:
        some_calls(whole, range(3))
    text = (tmp_path / "whole.jsonl").read_bytes()
    lines = text.splitlines(keepends=True)
    for length in range(0, len(text), 97):
        log = tmp_path / "cut.jsonl"
        log.write_bytes(text[:length])
        with guard(log) as after:
            assert after.tool("search").call_sync({"n": 50}, lambda n: n) == 50
        kinds = [json.loads(line)["kind"] for line in log.read_bytes().splitlines()]
        assert kinds[0] == "session"
        assert kinds.count("session") == 1
    assert lines[0].startswith(b'{"v":2')


def test_what_was_running_is_withdrawn_and_named(tmp_path: Path) -> None:
    log, killed = tmp_path / "killed.jsonl", tmp_path / "copy.jsonl"

    async def main() -> None:
        with guard(log, run="r") as before:
            task = asyncio.ensure_future(before.tool("search").call({"n": 7}, lambda n: asyncio.sleep(60)))
            await asyncio.sleep(0)
            # As a process leaves it that is killed now.
            killed.write_bytes(log.read_bytes())
            task.cancel()

    asyncio.run(main())
    with guard(killed) as after:
        assert after.interrupted == [unfazed.InterruptedCall("search", "call_1", {"n": 7}, "r-1-0")]
        # Its place is free, and no key comes twice.
        seen: list[Any] = []
        after.tool("search").call_sync({"n": 8}, lambda n: seen.append(unfazed.current_attempt()))
        assert [at.idempotency_key for at in seen] == ["r-2-0"]
    with guard(killed) as again:
        assert again.interrupted == []
    events = [json.loads(line).get("event") for line in killed.read_text().splitlines()]
    assert events.count("proposal_withdrawn") == 1


def test_a_log_of_other_rules_is_not_continued(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    with guard(log) as before:
        some_calls(before, range(1))
    written = log.read_bytes()
    with pytest.raises(ValueError, match=r"line 3: the policy .* has decided"):
        guard(log, "version: 1\n")
    log.write_bytes(written.replace(b'"n\\":1', b'"n\\":2'))
    with pytest.raises(ValueError, match="checksum"):
        guard(log)
    assert log.read_bytes() != written


@pytest.mark.parametrize("text", ['{"keep": "me"}', "a note", "\x00\x01", '{"keep": "me"}\n', "{\n"])
def test_another_file_is_not_continued_and_not_lost(tmp_path: Path, text: str) -> None:
    other = tmp_path / "other"
    other.write_text(text)
    with pytest.raises(ValueError, match="line 1"):
        guard(other)
    assert other.read_text() == text


@pytest.mark.parametrize("begun", ["", "{", '{"v":2,"kind":"sess'])
def test_a_log_that_broke_off_in_its_first_line_is_begun_again(tmp_path: Path, begun: str) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text(begun)
    with guard(log) as again:
        some_calls(again, range(1))
    assert json.loads(log.read_text().splitlines()[0])["kind"] == "session"


def test_a_log_has_one_writer(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    with guard(log) as first:
        some_calls(first, range(1))
        with pytest.raises(BlockingIOError, match="another guard writes this log"):
            guard(log)
    guard(log).close()
    with pytest.raises(ValueError, match="name its file"):
        Guard(Policy.from_yaml(POLICY), resume=True)
