"""Hooks of the Claude Agent SDK under a guard: the SDK itself, and a process that asks its hooks as Claude Code does."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, PermissionResultAllow, PermissionResultDeny
from conftest import POLICY
from faulty_server import Answer, FaultyServer

from unfazed import Guard, Policy
from unfazed.claude_agent import GuardHooks

SEARCH = {
    "name": "search",
    "parameters": {"type": "object", "required": ["query"], "properties": {"limit": {"type": "integer"}}},
}


class Session:
    """Sessions of a guard."""

    def __init__(self, server: FaultyServer, folder: Path, policy: str = POLICY) -> None:
        self.server, self.folder = server, folder
        self.guard = Guard(Policy.from_yaml(policy), [SEARCH], run="r")
        self.hooks = GuardHooks(self.guard)

    def run(self, *calls: tuple[str, dict[str, Any]], allows: bool = True) -> list[dict[str, Any]]:
        """Has Claude Code make these calls; what became of each."""
        record, command = self.folder / "record.json", self.folder / "claude"
        command.write_text(f'#!/bin/sh\nexec {sys.executable} {Path(__file__).parent / "fake_claude.py"} "$@"\n')
        command.chmod(0o700)
        script = {"url": self.server.url, "record": str(record), "calls": [{"tool": t, "args": a} for t, a in calls]}

        async def permit(*_: Any) -> PermissionResultAllow | PermissionResultDeny:
            return PermissionResultAllow() if allows else PermissionResultDeny(message="no")

        options = ClaudeAgentOptions(
            cli_path=command,
            env={"FAKE_CLAUDE": json.dumps(script)},
            hooks=self.hooks.hooks(),
            can_use_tool=self.hooks.can_use_tool(permit),
        )

        async def main() -> None:
            async with ClaudeSDKClient(options) as client:
                await client.query("go")
                async for _ in client.receive_response():
                    pass

        asyncio.run(main())
        became: list[dict[str, Any]] = json.loads(record.read_text())
        return became


@pytest.fixture
def session(server: FaultyServer, tmp_path: Path) -> Session:
    server.answers("/search", Answer(200, "found"))
    return Session(server, tmp_path)


def test_a_call_runs_and_the_guard_says_nothing(session: Session) -> None:
    assert session.run(("search", {"query": "rust"})) == [{"before": {}, "ran": True, "after": {}}]
    assert not session.guard._run._tickets


def test_wrong_arguments_are_denied_with_what_to_change(session: Session) -> None:
    (became,) = session.run(("search", {"q": "rust"}))
    assert not became["ran"]
    assert became["before"]["permissionDecision"] == "deny"
    assert "`query` is missing" in became["before"]["permissionDecisionReason"]
    assert not session.server.requests


def test_wrong_arguments_may_be_corrected_as_often_as_the_policy_says(server: FaultyServer, tmp_path: Path) -> None:
    server.answers("/search", Answer(200, "found"))
    policy = "version: 1\ntools: {search: {retry: {max_attempts: 3}}}\n"
    wrong = [("search", {"q": f"q{n}"}) for n in range(3)]
    *denied, ran = Session(server, tmp_path, policy).run(*wrong, ("search", {"query": "rust"}))
    said = [call["before"]["permissionDecisionReason"] for call in denied]
    assert ["Change this and call it again" in text for text in said] == [True, True, False]
    assert "failed 3 times" in said[2]
    assert ran["ran"]


def test_no_failure_has_claude_code_run_a_tool_again(server: FaultyServer, tmp_path: Path) -> None:
    server.answers("/search", Answer(503, "busy"))
    policy = "version: 1\ntools: {search: {effect: read_only, retry: {retry_on: [execution_error], max_attempts: 3}}}\n"
    (became,) = Session(server, tmp_path, policy).run(("search", {"query": "rust"}))
    assert len(server.requests) == 1
    assert became["after"]["additionalContext"].startswith("`search` failed (execution_error)")


def test_arguments_are_repaired(session: Session) -> None:
    (became,) = session.run(("search", {"query": "rust", "limit": "3"}))
    assert became["before"] == {"hookEventName": "PreToolUse", "updatedInput": {"query": "rust", "limit": 3}}
    assert session.server.requests[0].body["limit"] == 3


def test_twelve_equal_calls_run_four_times(session: Session) -> None:
    became = session.run(*[("search", {"query": "rust"})] * 12)
    assert [call["ran"] for call in became] == [True] * 4 + [False] * 8
    assert "with the same arguments" in became[-1]["before"]["permissionDecisionReason"]
    assert any("same arguments" in (call.get("after") or {}).get("additionalContext", "") for call in became[:4])


def test_a_failure_is_said_as_the_policy_words_it_and_not_repeated(session: Session) -> None:
    session.server.answers("/send_mail", Answer(lost=True))
    (became,) = session.run(("send_mail", {"to": "ada"}))
    assert len(session.server.asked("/send_mail")) == 1
    assert became["after"]["additionalContext"].startswith("`send_mail` failed (execution_error): Remote end closed")


def test_an_open_breaker_denies(server: FaultyServer, tmp_path: Path) -> None:
    server.answers("/search", Answer(503, "busy"))
    policy = "version: 1\ntools: {search: {breaker: {failures: 2}, loop_guard: {enabled: false}}}\n"
    became = Session(server, tmp_path, policy).run(*[("search", {"query": f"q{n}"}) for n in range(4)])
    assert [call["ran"] for call in became] == [True, True, False, False]


@pytest.mark.parametrize("allows", [True, False])
def test_a_person_is_asked(server: FaultyServer, tmp_path: Path, allows: bool) -> None:
    server.answers("/pay", Answer(200, "paid"))
    session = Session(server, tmp_path, "version: 1\ntools: {pay: {approval: always, concurrency: 1}}\n")
    became = session.run(("pay", {"euros": 1}), ("pay", {"euros": 2}), allows=allows)
    assert [call["before"]["permissionDecision"] for call in became] == ["ask", "ask"]
    assert [call["ran"] for call in became] == [allows, allows]
    # A call that nobody permits makes room for the next one.
    assert not session.guard._run._tickets


def test_a_guard_that_is_closed_denies(session: Session) -> None:
    session.guard.close()
    (became,) = session.run(("search", {"query": "rust"}))
    assert became["before"]["permissionDecisionReason"] == "the guard is closed"


ONE_AT_A_TIME = "version: 1\ntools: {search: {concurrency: 1}, pay: {concurrency: 1}}\n"


def about(call_id: str, tool: str = "search", **more: Any) -> dict[str, Any]:
    """What a hook is given of a call."""
    return {"tool_use_id": call_id, "tool_name": tool, "tool_input": {"query": call_id}, **more}


def after(call_id: str, tool: str = "search") -> dict[str, Any]:
    return about(call_id, tool, hook_event_name="PostToolUse", tool_response="found")


def test_a_hook_that_is_cancelled_leaves_its_place_to_the_next_call() -> None:
    guarded = Guard(Policy.from_yaml(ONE_AT_A_TIME))
    hooks = GuardHooks(guarded)

    async def main() -> None:
        assert await hooks.before(about("a"), "a", None) == {}
        waiting = asyncio.create_task(hooks.before(about("b"), "b", None))
        third = asyncio.create_task(hooks.before(about("c"), "c", None))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert await hooks.after(after("a"), "a", None) == {}
        # The place is not that of a call that nobody runs.
        assert await third == {}
        # What has not been permitted has nothing to end.
        assert await hooks.after(after("b"), "b", None) == {}
        await hooks.after(after("c"), "c", None)

    asyncio.run(asyncio.wait_for(main(), 10))
    assert not guarded._run._tickets


def test_calls_of_one_id_end_each() -> None:
    guarded = Guard(Policy.from_yaml(ONE_AT_A_TIME))
    hooks = GuardHooks(guarded)

    async def main() -> None:
        for tool in ("search", "pay"):
            assert await hooks.before(about("a", tool), "a", None) == {}
        second = asyncio.create_task(hooks.before(about("a"), "a", None))
        await asyncio.sleep(0)
        assert await hooks.after(after("a", "pay"), "a", None) == {}
        assert not second.done()
        assert await hooks.after(after("a"), "a", None) == {}
        assert await second == {}
        assert await hooks.after(after("a"), "a", None) == {}

    asyncio.run(asyncio.wait_for(main(), 10))
    assert not guarded._run._tickets
    assert not hooks._open


def test_a_call_that_waits_when_the_agent_stops_is_denied() -> None:
    guarded = Guard(Policy.from_yaml(ONE_AT_A_TIME))
    hooks = GuardHooks(guarded)

    async def main() -> None:
        await hooks.before(about("a"), "a", None)
        waiting = asyncio.create_task(hooks.before(about("b"), "b", None))
        await asyncio.sleep(0)
        await hooks.stopped({}, None, None)
        said = await waiting
        assert said["hookSpecificOutput"]["permissionDecision"] == "deny"

    asyncio.run(asyncio.wait_for(main(), 10))
    assert not guarded._run._tickets
