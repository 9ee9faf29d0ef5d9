"""Turns of a model, and reports, under a guard."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from itertools import islice
from typing import Any

import pytest
from conftest import POLICY

from unfazed import CallExhausted, CallRefused, Guard, ModelCall, Policy, RunError, ToolError


def guard(policy: str = POLICY, **settings: Any) -> Guard:
    return Guard(Policy.from_yaml(policy), targets=["main", "spare"], **settings)


def test_the_next_target_answers() -> None:
    calls = []

    async def model(call: ModelCall[str]) -> str:
        calls.append((call.target, call.attempt, call.request))
        if call.target == "main":
            raise ToolError("overloaded", status=503)
        return "hello"

    assert asyncio.run(guard().turn("hi").call(model)) == "hello"
    assert calls == [("main", 1, "hi"), ("main", 2, "hi"), ("main", 3, "hi"), ("spare", 1, "hi")]


def test_the_same_in_a_thread() -> None:
    def model(call: ModelCall[str]) -> str:
        if call.target == "main":
            raise ToolError("no key", status=401)
        return call.target

    assert guard().turn("hi").call_sync(model) == "spare"


def test_a_turn_may_have_targets_of_its_own() -> None:
    assert guard().turn("hi", targets=["spare"]).call_sync(lambda call: call.target) == "spare"


def test_a_turn_that_nobody_answers_is_exhausted_and_the_next_run_begins() -> None:
    guarded = guard()

    def model(call: ModelCall[str]) -> str:
        raise ToolError("no key", status=401)

    with pytest.raises(CallExhausted) as caught:
        guarded.turn("hi").call_sync(model)
    error = caught.value
    assert (error.error_class, error.reason) == ("auth_error", "never_retry")
    assert "model spare failed" in error.message
    assert isinstance(error.last, ToolError)
    assert any(rule.startswith("on_exhausted = fail (builtin:default:") for rule in error.because)
    assert guarded.turn("hi").call_sync(lambda call: call.target) == "main"


def test_tokens_count_against_the_budget() -> None:
    guarded = guard("version: 1\nlimits: {run: {tokens: 100000}}\n")
    guarded.tool("search", parameters={})
    used = {"input": 90_000, "output": 9_000}
    shown = [guarded.turn("hi").call_sync(lambda call: call.tools, usage=lambda _: used) for _ in range(2)]
    # What is left is enough for the final turn, which has no tools.
    assert shown == [["search"], []]


def test_a_request_that_is_too_large_is_offered_to_the_model_with_room() -> None:
    policy = "version: 1\nmodels: {main: {context_window: 1000}, spare: {context_window: 100000}}\n"
    assert guard(policy).turn("hi", tokens=20_000).call_sync(lambda call: call.target) == "spare"


def test_a_cancelled_turn_is_withdrawn() -> None:
    guarded = guard()

    async def main() -> None:
        begun = asyncio.Event()

        async def model(call: ModelCall[str]) -> None:
            begun.set()
            await asyncio.Event().wait()

        task = asyncio.create_task(guarded.turn("hi").call(model))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert not guarded._run._tickets
    assert guarded.turn("hi").call_sync(lambda call: call.target) == "main"


def test_what_is_repeated_is_said_to_the_model_once() -> None:
    guarded = guard()
    for _ in range(3):
        guarded.tool("search").call_sync({"query": "rust"}, lambda query: "nothing")
    seen = [guarded.turn("hi").call_sync(lambda call: call.guidance) for _ in range(2)]
    assert [len(guidance) for guidance in seen] == [1, 0]
    assert seen[0][0].startswith("`search` was called 3 times with the same arguments.")


def test_a_report_is_repaired_and_held_against_its_schema() -> None:
    guarded = guard("version: 1\noutput: {schema: {type: object, required: [total]}}\n")
    with pytest.raises(CallRefused, match="`total` is missing") as caught:
        asyncio.run(guarded.output("{}"))
    assert caught.value.error_class == "invalid_output"
    assert guarded.output_sync("{'total': 12,}") == {"total": 12}


def test_a_report_is_refused_no_more_than_the_policy_says() -> None:
    guarded = guard("version: 1\noutput: {schema: {type: object, required: [total]}, retry: {max_attempts: 2}}\n")
    with pytest.raises(CallRefused):
        guarded.output_sync("{}")
    with pytest.raises(CallExhausted) as caught:
        guarded.output_sync("{}")
    assert caught.value.reason == "attempts"


TWO_TURNS = "version: 1\nturn: {max_turns: 2}\n"


def test_the_final_turn_reads_that_it_is_and_the_next_run_does_not() -> None:
    guarded = guard(TWO_TURNS)
    guarded.tool("search", parameters={})
    seen = [guarded.turn("hi").call_sync(lambda call: (call.tools, call.guidance)) for _ in range(3)]
    assert [tools for tools, _ in seen] == [["search"], [], ["search"]]
    assert [len(guidance) for _, guidance in seen] == [0, 1, 0]
    assert seen[1][1][0].startswith("This is the final turn (turn 2 of 2).")


def test_a_turn_after_the_final_one_waits_for_those_that_are_open() -> None:
    guarded, free, begun = guard("version: 1\nturn: {max_turns: 3}\n"), threading.Event(), threading.Event()

    def slow(_: ModelCall[str]) -> str:
        begun.set()
        assert free.wait(10)
        return "slow"

    with ThreadPoolExecutor(20) as threads:
        first = threads.submit(lambda: guarded.turn("hi").call_sync(slow))
        assert begun.wait(10)
        others = [threads.submit(lambda: guarded.turn("hi").call_sync(lambda call: "quick")) for _ in range(15)]
        done = [other.result(10) for other in islice(as_completed(others, 10), 2)]
        free.set()
        assert (first.result(10), done) == ("slow", ["quick"] * 2)
        assert [other.result(10) for other in others] == ["quick"] * 15


async def _many_turns() -> list[str]:
    guarded = guard("version: 1\nturn: {max_turns: 3}\n")

    async def slow(_: ModelCall[str]) -> str:
        await asyncio.sleep(0.02)
        return "done"

    return await asyncio.gather(*(guarded.turn("hi").call(slow) for _ in range(20)))


def test_many_turns_at_once_are_more_than_one_run() -> None:
    assert asyncio.run(_many_turns()) == ["done"] * 20


def test_a_model_that_calls_tools_after_the_final_turn_has_no_next_run() -> None:
    one = guard("version: 1\nturn: {max_turns: 2}\n")
    ran = 0

    def tool() -> str:
        nonlocal ran
        ran += 1
        return "found"

    with pytest.raises(RunError) as caught:
        for _ in range(60):
            one.turn({}).call_sync(lambda call: "look again")
            with suppress(CallRefused):
                one.tool("look").call_sync({}, tool)
    assert (ran, caught.value.reason) == (1, "final_turn_over")
    one.turn({}).call_sync(lambda call: "another conversation")


def test_a_turn_within_a_call_of_a_tool_does_not_wait_for_it() -> None:
    guarded = guard("version: 1\nturn: {max_turns: 1}\ntools: {search: {approval: always}}\n")

    def ask(query: str) -> str:
        guarded.turn(query).call_sync(lambda call: "found")
        with pytest.raises(RunError) as caught:
            guarded.turn(query).call_sync(lambda call: "found")
        return caught.value.reason

    search = guarded.tool("search", parameters={}, approved=True)
    assert search.call_sync({"query": "rust"}, ask) == "final_turn_over"


def test_each_attempt_of_the_final_turn_reads_it() -> None:
    guarded, seen = guard("version: 1\nturn: {max_turns: 1}\nmodels: {'*': {retry: {max_attempts: 2}}}\n"), []

    def model(call: ModelCall[str]) -> str:
        seen.append(call.guidance)
        if call.target == "main":
            raise ToolError("no key", status=401)
        return "done"

    assert guarded.turn("hi").call_sync(model) == "done"
    assert [guidance[0][:22] for guidance in seen] == ["This is the final turn"] * 2


def test_what_is_left_to_say_ends_with_its_run() -> None:
    guarded = guard("version: 1\noutput: {schema: {type: object}}\n")
    for _ in range(3):
        guarded.tool("search").call_sync({"query": "rust"}, lambda query: "nothing")
    guarded.output_sync("{}")
    assert guarded.turn("hi").call_sync(lambda call: call.guidance) == []
    # Nor does the next run read it of a turn that ended with the last one.
    guarded = guard(TWO_TURNS)
    for _ in range(3):
        guarded.turn("hi").call_sync(lambda call: None)
    assert guarded.take_guidance() == []


def test_calls_of_one_reply_have_something_to_say_too() -> None:
    guarded = guard()
    assert guarded.call_all_sync([("search", {"query": "rust"}, lambda query: "nothing")] * 4) == ["nothing"] * 4
    assert len(guarded.take_guidance()) == 1


def test_a_turn_for_which_nothing_is_left_says_so() -> None:
    with pytest.raises(CallRefused, match="too large for what the budget of the run has left") as caught:
        guard("version: 1\nlimits: {run: {tokens: 20}}\n").turn("hi").call_sync(lambda call: None)
    assert caught.value.because == ["limits.run.tokens = 20 (policy.yaml:2:24)"]
