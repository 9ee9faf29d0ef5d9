from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from conftest import POLICY

from unfazed import Engine, Policy

SEARCH = {"name": "search", "parameters": {"type": "object", "required": ["query"]}}


def directives(engine: Engine, event: dict[str, Any], now: int = 1) -> list[str]:
    return [directive["directive"] for directive in engine.step(event, now)]


def test_events_and_directives_are_those_of_step() -> None:
    engine = Engine(Policy.from_yaml(POLICY), [SEARCH])
    assert directives(engine, {"event": "run_started", "run": "r"}) == []
    call = {"id": "call_1", "name": "search", "arguments": '{"query": "rust"}'}
    (run,) = engine.step({"event": "tools_proposed", "calls": [call]}, 2)
    assert (run["directive"], run["arguments"], run["idempotency_key"]) == ("run_tool", {"query": "rust"}, "r-1-0")
    outcome = {"outcome": "failed", "failure": {"status": 503, "message": "busy"}, "effect": "unknown"}
    decided = engine.step({"event": "tool_finished", "work": run["work"], "outcome": outcome}, 3)
    wait = decided[-1]
    assert (wait["directive"], wait["error_type"]) == ("wait", "overloaded")
    assert {"file": "policy.yaml", "line": 4, "column": 53} in [reason["place"] for reason in wait["because"]]


def test_what_is_no_event_changes_nothing() -> None:
    engine = Engine(Policy.from_yaml(POLICY))
    with pytest.raises(ValueError, match="there is no run yet"):
        engine.step({"event": "cancelled", "reason": "x"}, 1)
    engine.step({"event": "run_started", "run": "r"}, 1)
    before = engine.digest()
    with pytest.raises(ValueError, match="tool_finsihed"):
        engine.step({"event": "tool_finsihed"}, 2)
    with pytest.raises(ValueError, match="is not over"):
        engine.step({"event": "run_started", "run": "s"}, 2)
    assert engine.digest() == before


def test_what_is_nested_without_end_is_refused_and_does_not_crash() -> None:
    engine = Engine(Policy.from_yaml(POLICY))
    engine.step({"event": "run_started", "run": "r"}, 1)
    deep: list[Any] = []
    deep.append(deep)
    with pytest.raises(OverflowError, match="deeper than 100 levels"):
        engine.step({"event": "cancelled", "reason": deep}, 2)


@pytest.mark.parametrize("number", [10**30, -(2**63) - 1, float("nan"), float("-inf")])
def test_a_number_that_would_become_another_one_is_refused(number: float) -> None:
    engine = Engine(Policy.from_yaml(POLICY), [SEARCH])
    engine.step({"event": "run_started", "run": "r"}, 1)
    call = {"id": "call_1", "name": "search", "arguments": '{"query": "rust"}'}
    proposed = engine.step({"event": "tools_proposed", "calls": [call]}, 2)
    (work,) = [directive["work"] for directive in proposed if directive["directive"] == "run_tool"]
    finished: Any = {"event": "tool_finished", "work": work, "outcome": {"outcome": "ok", "data": [number]}}
    with pytest.raises(ValueError, match="give it as a text"):
        engine.step(finished, 3)
    finished["outcome"]["data"] = [2**64 - 1]
    answered = engine.step(finished, 3)
    assert [directive["message"]["text"] for directive in answered if directive["directive"] == "append"] == [
        f"[{2**64 - 1}]"
    ]


def test_tools_have_to_fit_and_may_change() -> None:
    policy = Policy.from_yaml(POLICY)
    with pytest.raises(ValueError, match="search"):
        Engine(policy, [SEARCH, SEARCH])
    engine = Engine(policy)
    engine.step({"event": "run_started", "run": "r"}, 1)
    call = {"id": "call_1", "name": "search", "arguments": "{}"}
    assert "refused" in directives(engine, {"event": "tools_proposed", "calls": [call]}, 2)
    engine.set_tools([SEARCH], 3)
    call["arguments"] = '{"query": "rust"}'
    assert "run_tool" in directives(engine, {"event": "tools_proposed", "calls": [call]}, 4)


def test_a_conversation_is_measured_repaired_and_made_smaller_by_the_engine() -> None:
    """What `unfazed step` answers by itself; each splice has its places before the first of them is made."""
    policy = "version: 1\nmodels: {m: {context_window: 8192}}\ncontext: {reduce: [{kind: drop, keep_last: 1}]}\n"
    engine = Engine(Policy.from_yaml(policy), [SEARCH])
    lost = {"role": "assistant", "calls": [{"id": "lost", "name": "search", "arguments": '{"query": "x"}'}]}
    talk: list[dict[str, Any]] = [{"role": "user", "text": "Look. " * 1000}, {"role": "assistant", "text": "Well. " * 1000}]
    started = {
        "event": "run_started",
        "run": "r",
        "drive": "turns",
        "targets": ["m"],
        "history": [*talk * 4, lost],
        "task": "And?",
    }
    due, messages, asked = engine.step(started, 1), list[dict[str, Any]](), list[str]()
    while due:
        directive = due.pop(0)
        if directive["directive"] == "append":
            messages.append(directive["message"])
        elif directive["directive"] == "splice":
            for piece in reversed(directive["splices"]):
                messages[piece["at"] : piece["at"] + piece["remove"]] = piece.get("insert", [])
        elif (event := engine.answer(directive, messages)) is not None:
            asked.append(event["event"])
            due += engine.step(event, 2)
        elif directive["directive"] == "call_model":
            break
    assert {"turn_prepared", "history_repaired", "context_reduced"} <= set(asked)
    assert messages[-1] == {"role": "user", "text": "And?"}
    assert sum(len(message.get("text", "")) for message in messages) < 20_000
    # Of another kind of work the engine knows no answer, and what is no directive is none.
    assert engine.answer(directive, messages) is None
    assert engine.answer({"directive": "append", "message": talk[0]}, messages) is None
    with pytest.raises(ValueError, match="directive"):
        engine.answer({}, messages)


def test_a_session_has_several_runs_and_its_record_is_decided_again(tmp_path: Path, command: str, policy_file: Path) -> None:
    engine = Engine(Policy.load(policy_file), [SEARCH], record=True)
    engine.step({"event": "run_started", "run": "r"}, 1)
    assert directives(engine, {"event": "output_proposed", "output": "It is done."}, 2)[-1] == "finish"
    assert engine.is_over
    engine.step({"event": "run_started", "run": "r"}, 3)
    assert (engine.is_over, engine.seq) == (False, 3)
    log = tmp_path / "session.jsonl"
    log.write_text(engine.take_records())
    assert engine.take_records() == ""
    replay = subprocess.run([command, "replay", log, "--policy", policy_file], capture_output=True, text=True)
    assert (replay.returncode, replay.stderr) == (0, "")
    assert "3 decisions, byte for byte" in replay.stdout


def test_fields_that_no_event_has_are_refused_and_nothing_has_changed() -> None:
    engine = Engine(Policy.from_yaml("version: 1"), [SEARCH])
    with pytest.raises(ValueError, match=r"`sead` is not allowed; .*did you mean `seed`"):
        engine.step({"event": "run_started", "run": "r", "sead": 3}, 1)
    engine.step({"event": "run_started", "run": "r"}, 1)
    call = {"id": "call_1", "name": "search", "argumens": "{}"}
    with pytest.raises(ValueError, match="`/calls/0`: `argumens` is not allowed"):
        engine.step({"event": "tools_proposed", "calls": [call]}, 2)
    assert engine.seq == 1
