"""Calls of tools under a guard."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import logging
import pickle
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from conftest import POLICY
from faulty_server import Answer, FaultyServer

from unfazed import CallExhausted, CallRefused, Guard, Policy, PolicyError, RunError, ToolError, current_attempt

SEARCH = {"name": "search", "parameters": {"type": "object", "required": ["query"]}}


def guard(**settings: Any) -> Guard:
    return Guard(Policy.from_yaml(POLICY), [SEARCH], **settings)


def fails(times: int, then: Any = "found") -> Any:
    """A function that times out so often, and then returns."""
    left = [times]

    async def function(**_: Any) -> Any:
        left[0] -= 1
        if left[0] >= 0:
            raise TimeoutError("no answer")
        return then

    return function


def test_a_call_that_fails_is_made_again() -> None:
    seen = []

    async def search(query: str) -> str:
        seen.append(current_attempt())
        if len(seen) < 3:
            raise TimeoutError("no answer")
        return f"found {query}"

    found = asyncio.run(guard(run="r").tool("search").call({"query": "rust"}, search))
    assert found == "found rust"
    assert [(at.attempt, at.max_attempts, at.timeout, at.idempotency_key) for at in seen if at] == [
        (1, 3, 60.0, "r-1-0"),
        (2, 3, 60.0, "r-1-0"),
        (3, 3, 60.0, "r-1-0"),
    ]
    assert current_attempt() is None


def test_the_same_in_a_thread() -> None:
    calls = []

    def search(query: str) -> str:
        calls.append(query)
        if len(calls) < 2:
            raise ConnectionRefusedError
        return "found"

    assert guard().tool("search").call_sync({"query": "rust"}, search) == "found"
    assert calls == ["rust", "rust"]


def test_arguments_that_do_not_hold_are_refused_with_what_to_change() -> None:
    with pytest.raises(CallRefused) as caught:
        asyncio.run(guard().tool("search").call({"q": "rust"}, fails(0)))
    error = caught.value
    assert error.message.endswith("Change this and call it again:\n- `query` is missing")
    assert (error.error_class, error.delay, error.final_turn) == ("invalid_args", 0.0, None)
    assert "retry.max_attempts = 3 (policy.yaml:4:53)" in error.because


def test_arguments_that_a_model_wrote_are_repaired() -> None:
    async def search(query: str) -> str:
        return query

    assert asyncio.run(guard().tool("search").call("{'query': 'rust',}", search)) == "rust"


def test_objects_are_handed_on_as_they_are() -> None:
    lock = threading.Lock()

    async def function(value: Any) -> Any:
        return value

    assert asyncio.run(guard().tool("other").call({"value": lock}, function)) is lock


def test_an_exhausted_call_has_its_attempts_and_its_last_exception() -> None:
    with pytest.raises(CallExhausted) as caught:
        asyncio.run(guard().tool("search").call({"query": "rust"}, fails(9)))
    error = caught.value
    assert [(at["attempt"], at["error_type"]) for at in error.attempts] == [(n, "timeout") for n in (1, 2, 3)]
    assert (error.error_class, error.reason) == ("timeout", "attempts")
    assert isinstance(error.last, TimeoutError)
    assert error.__cause__ is error.last
    assert error.because[0] == "retry.max_attempts = 3 (policy.yaml:4:53)"
    assert error.because[1].startswith("on_exhausted = tell_model (builtin:default:")
    assert error.message.startswith("`search` failed 3 times, the last time with timeout: TimeoutError: no answer")


def test_what_may_have_had_side_effects_is_not_run_again() -> None:
    with pytest.raises(CallExhausted) as caught:
        asyncio.run(guard().tool("send_mail").call({"to": "ada"}, fails(1)))
    assert (caught.value.reason, len(caught.value.attempts)) == ("may_have_acted", 1)
    assert "effect = non_idempotent (policy.yaml:5:23)" in caught.value.because
    assert "may have had side effects" in caught.value.message


def test_a_tool_that_did_not_start_is_run_again() -> None:
    calls = []

    async def send_mail() -> str:
        calls.append(1)
        if len(calls) == 1:
            raise ToolError("no connection", error_class="network_error", effect="not_started")
        return "sent"

    assert asyncio.run(guard().tool("send_mail").call(None, send_mail)) == "sent"


def test_an_attempt_that_takes_too_long_is_cancelled_and_its_effect_unknown() -> None:
    policy = "version: 1\ntools: {send_mail: {effect: non_idempotent, retry: {attempt_timeout: 20ms}}}\n"
    cancelled = []

    async def send_mail() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(1)
            raise

    with pytest.raises(CallExhausted) as caught:
        asyncio.run(Guard(Policy.from_yaml(policy)).tool("send_mail").call(None, send_mail))
    assert (caught.value.error_class, caught.value.reason, caught.value.last) == ("timeout", "may_have_acted", None)
    assert cancelled == [1]


def test_no_attempt_starts_after_the_deadline() -> None:
    now = [1_800_000_000_000_000_000]

    async def search(query: str) -> None:
        now[0] += 2_000_000_000
        raise TimeoutError

    late = guard(clock=lambda: now[0], deadline=1_800_000_001.0)
    with pytest.raises(CallExhausted) as caught:
        asyncio.run(late.tool("search").call({"query": "rust"}, search))
    assert (caught.value.reason, len(caught.value.attempts)) == ("deadline", 1)


def test_a_cancelled_call_is_withdrawn() -> None:
    guarded = guard()

    async def main() -> None:
        begun = asyncio.Event()

        async def search(query: str) -> None:
            begun.set()
            await asyncio.Event().wait()

        task = asyncio.create_task(guarded.tool("search").call({"query": "rust"}, search))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        # Nothing of it is left: the next one runs.
        assert await guarded.tool("search").call({"query": "rust"}, fails(0)) == "found"

    asyncio.run(main())
    assert not guarded._run._tickets


def test_a_cancellation_is_not_taken_for_a_timeout() -> None:
    policy = "version: 1\ntools: {search: {effect: read_only, retry: {attempt_timeout: 1h}}}\n"

    async def main() -> None:
        async def search() -> None:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.Event().wait()

        with pytest.raises(asyncio.CancelledError):
            await Guard(Policy.from_yaml(policy)).tool("search").call(None, search)
        task = asyncio.current_task()
        assert task is not None
        if hasattr(task, "uncancel"):
            task.uncancel()

    asyncio.run(main())


def test_a_call_that_is_cancelled_while_it_waits_is_withdrawn() -> None:
    policy = "version: 1\ntools: {search: {effect: read_only, retry: {backoff: {kind: constant, delay: 1h}}}}\n"
    guarded = Guard(Policy.from_yaml(policy))

    async def main() -> None:
        failed = asyncio.Event()

        async def search() -> None:
            failed.set()
            raise TimeoutError

        task = asyncio.create_task(guarded.tool("search").call(None, search))
        await failed.wait()
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert not guarded._run._tickets


def test_exceptions_that_are_no_failures_reach_the_caller() -> None:
    class Interrupted(Exception):
        pass

    async def search(query: str) -> None:
        raise Interrupted

    guarded = guard()
    with pytest.raises(Interrupted):
        asyncio.run(guarded.tool("search", passes=(Interrupted,)).call({"query": "rust"}, search))
    assert not guarded._run._tickets


def test_a_decorated_function_stays_what_it_is() -> None:
    guarded = guard(run="r")
    calls = []

    @guarded.tool(effect="read_only")
    async def price(item: int, *, currency: str = "EUR") -> str:
        """What an item costs."""
        calls.append((item, currency))
        if len(calls) == 1:
            raise TimeoutError
        return f"12.50 {currency}"

    @guarded.tool("order", parameters={"type": "object", "properties": {"item": {"type": "integer"}}})
    def order_item(item: int) -> str:
        return "ordered"

    assert asyncio.run(price(42, currency="USD")) == "12.50 USD"
    assert calls == [(42, "USD"), (42, "USD")]
    assert list(inspect.signature(price).parameters) == ["item", "currency"]
    assert inspect.iscoroutinefunction(price)
    assert order_item(42) == "ordered"
    with pytest.raises(CallRefused, match="expected integer"):
        order_item("42 pieces")  # type: ignore[arg-type]


def test_a_text_for_the_model_is_cut_as_the_policy_says() -> None:
    policy = "version: 1\ntools: {read: {effect: read_only, result: {max: 100 chars}}}\n"
    text = asyncio.run(Guard(Policy.from_yaml(policy)).tool("read").call_text(None, fails(0, "x" * 1000)))
    assert text.startswith("xxx")
    assert len(text) < 400


def test_a_person_has_to_agree() -> None:
    policy = "version: 1\ntools: {pay: {approval: always}}\n"
    guarded = Guard(Policy.from_yaml(policy))
    with pytest.raises(CallRefused, match="nobody agreed"):
        asyncio.run(guarded.tool("pay").call(None, fails(0)))
    silent = Guard(Policy.from_yaml(policy + "turn: {approval: {unanswered: approve}}\n"))
    with pytest.raises(CallRefused, match="did not agree"):
        asyncio.run(silent.tool("pay").call(None, fails(0)))
    assert asyncio.run(guarded.tool("pay", approved=True).call(None, fails(0, "paid"))) == "paid"


def test_calls_wait_for_a_place_and_no_lock_is_held_meanwhile() -> None:
    policy = "version: 1\ntools: {search: {effect: read_only, concurrency: 1}}\n"
    guarded = Guard(Policy.from_yaml(policy))
    order = []

    async def main() -> None:
        begun, free = asyncio.Event(), asyncio.Event()

        async def first() -> None:
            begun.set()
            await free.wait()
            order.append("first")

        async def second() -> None:
            order.append("second")

        one = asyncio.create_task(guarded.tool("search").call(None, first))
        await begun.wait()
        two = asyncio.create_task(guarded.tool("search").call(None, second))
        # Another tool is not held up.
        await guarded.tool("other").call(None, fails(0))
        assert order == []
        free.set()
        await asyncio.gather(one, two)

    asyncio.run(main())
    assert order == ["first", "second"]


def test_threads_and_loops_share_a_guard() -> None:
    policy = "version: 1\ntools: {search: {effect: read_only, concurrency: 1}}\n"
    guarded = Guard(Policy.from_yaml(policy))
    begun, free = threading.Event(), threading.Event()
    done: list[Any] = []

    def first() -> None:
        begun.set()
        assert free.wait(10)

    thread = threading.Thread(target=lambda: done.append(guarded.tool("search").call_sync(None, first)))
    thread.start()
    assert begun.wait(10)

    async def main() -> Any:
        waiting = asyncio.create_task(guarded.tool("search").call(None, fails(0)))
        await guarded.tool("other").call(None, fails(0))
        free.set()
        return await waiting

    assert asyncio.run(main()) == "found"
    thread.join(10)
    assert done == [None]


def test_fifty_threads_each_end_once() -> None:
    guarded, made = guard(), []
    gate = threading.Barrier(50)

    def work(number: int) -> None:
        gate.wait(30)
        guarded.tool("other").call_sync({"number": number}, lambda number: made.append(number))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(made) == list(range(50))
    assert not guarded._run._tickets


def test_decisions_are_logged_with_their_rules(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="unfazed"), pytest.raises(CallExhausted):
        asyncio.run(guard(run="r").tool("search").call({"query": "rust"}, fails(9)))
    wait, _, exhausted = [record for record in caplog.records if record.levelno >= logging.INFO]
    assert wait.getMessage().startswith("wait tool search: TimeoutError: no answer [")
    assert "retry.max_attempts = 3 (policy.yaml:4:53)" in wait.getMessage()
    assert exhausted.levelno == logging.WARNING
    assert exhausted.__dict__["run"] == "r"
    assert exhausted.__dict__["directive"]["exhausted"]["reason"] == "attempts"


def test_a_closed_guard_takes_no_call() -> None:
    with guard() as guarded:
        pass
    with pytest.raises(RunError) as caught:
        guarded.tool("search").call_sync({"query": "rust"}, lambda query: query)
    assert caught.value.reason == "closed"


def test_a_wait_of_the_server_is_obeyed(server: FaultyServer) -> None:
    server.answers("/search", Answer(429, {"error": "slow down"}, {"retry-after-ms": "150"}), Answer(200, "found"))

    async def search(query: str) -> Any:
        async with httpx.AsyncClient() as client:
            answer = await client.post(f"{server.url}/search", timeout=current_attempt().timeout)  # type: ignore[union-attr]
            return answer.raise_for_status().json()

    began = time.monotonic()
    assert asyncio.run(guard().tool("search").call({"query": "rust"}, search)) == "found"
    first, second = server.asked("/search")
    assert second.at - first.at >= 0.150
    assert time.monotonic() - began < 10


async def swallows() -> str:
    """A tool that ends well though its attempt was cancelled."""
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.sleep(30)
    return "late"


def test_an_attempt_that_ends_well_after_its_time_leaves_no_cancellation_behind() -> None:
    hurry = Guard(Policy.from_yaml('version: 1\ntools: {"*": {retry: {attempt_timeout: 1ms}}}\n'))

    async def main() -> tuple[Any, int, int]:
        task = asyncio.current_task()
        assert task is not None
        before = task.cancelling() if hasattr(task, "cancelling") else 0
        found = await hurry.tool("x").call({}, swallows)
        after = task.cancelling() if hasattr(task, "cancelling") else 0
        await asyncio.sleep(0.001)
        return found, before, after

    assert asyncio.run(main()) == ("late", 0, 0)


def test_a_caller_whose_loop_was_closed_gives_its_place_to_others() -> None:
    one = Guard(Policy.from_yaml("version: 1\ntools: {x: {concurrency: 1}}\n"))
    holds, goes_on = threading.Event(), threading.Event()

    def slow() -> str:
        holds.set()
        goes_on.wait(10)
        return "first"

    first = threading.Thread(target=lambda: one.tool("x").call_sync({}, slow))
    first.start()
    holds.wait(10)
    loop = asyncio.new_event_loop()
    waiting = loop.create_task(one.tool("x").call({}, lambda: "second"))
    loop.run_until_complete(asyncio.sleep(0.01))
    loop.close()
    found: list[str] = []
    third = threading.Thread(target=lambda: found.append(one.tool("x").call_sync({}, lambda: "third")))
    third.start()
    goes_on.set()
    first.join(10)
    third.join(10)
    assert found == ["third"]
    # It is of a loop that is closed, and was never to end.
    waiting.get_coro().close()


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels - 1):
        value = [value]
    return value


@pytest.mark.parametrize(
    "result, text",
    [
        ({1, 2}, "{1, 2}"),
        (float("nan"), "nan"),
        ({"at": 1, "by": object}, "<class 'object'>"),
        ("\ud800", "?"),
        (2**64 - 1, "18446744073709551615"),
        (10**30, "1" + "0" * 30),
        ({"count": 10**30}, '{"count": 1' + "0" * 30),
        (nested(120), "[" * 120 + "]" * 120),
        (nested(1_000_000), "list, which cannot be written as a text"),
    ],
)
def test_a_result_that_is_no_json_is_read_as_text(result: Any, text: str) -> None:
    assert text in guard().tool("other").call_text_sync({}, lambda: result)


def test_tools_are_made_of_whatever_can_be_called() -> None:
    seen: list[dict[str, Any]] = []
    open_schema = {"type": "object", "required": ["query"], "additionalProperties": {"type": "integer"}}
    guarded = Guard(Policy.from_yaml(POLICY), [{"name": "look", "parameters": open_schema}])

    class Look:
        async def __call__(self, query: int, **more: int) -> str:
            seen.append(more)
            return f"{query}"

        @guarded.tool
        def method(self, query: str) -> str:
            return query

    assert asyncio.run(guarded.tool("look", effect="read_only")(Look())(1, page=2)) == "1"
    assert seen == [{"page": 2}]
    with pytest.raises(CallRefused):
        asyncio.run(guarded.tool("look")(Look())(1, page="two"))  # type: ignore[arg-type]
    assert Look().method("a") == "a"

    def found(query: str, page: int = 1) -> str:
        return f"{query} {page}"

    assert guarded.tool()(functools.partial(found, page=3))("b") == "b 3"


def test_a_tool_keeps_what_is_said_of_it_once() -> None:
    attempts = []
    kept = Guard(Policy.from_yaml("version: 1\nretry: {backoff: {kind: constant, delay: 1ms}}\n"))
    kept.tool("look", effect="read_only")

    def fails() -> str:
        attempts.append(1)
        raise TimeoutError

    # As adapters do with each turn.
    guarded = kept.tool("look", parameters={"type": "object"}, description="Looks.")
    with pytest.raises(CallExhausted):
        guarded.call_sync({}, fails)
    assert len(attempts) > 1


def test_mistakes_in_tools_and_targets_are_found() -> None:
    with pytest.raises(
        ValueError, match=r"the tool `x` cannot be used: .*`effects` is not allowed; .* did you mean `effect`\?"
    ):
        guard_of({"name": "x", "parameters": {}, "effects": "read_only"})
    with pytest.raises(ValueError, match="the tool `y` cannot be used: `parameters` is missing"):
        guard_of({"name": "x", "parameters": {}}, {"name": "y"})
    with pytest.raises(ValueError, match=r"tool 1 of the list cannot be used: .*did you mean `name`"):
        guard_of({"nme": "x", "parameters": {}})
    with pytest.raises(ValueError, match="the tool `x` cannot be used: /effect: "):
        guard().tool("x", effect="readonly")
    assert Guard(Policy.from_yaml(POLICY), targets="main").turn(None).call_sync(lambda call: call.target) == "main"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"targets": []}, "`targets` has no model"),
        ({"seed": -1}, "`seed` is a whole number"),
        ({"seed": 2**64}, "`seed` is a whole number"),
        ({"deadline": -1.0}, "`deadline` is a time in seconds since 1970"),
        ({"deadline": float("inf")}, "`deadline` is a time in seconds since 1970"),
        ({"deadline": float("nan")}, "`deadline` is a time in seconds since 1970"),
        ({"run": "../x", "log": "."}, "the run '../x' would write outside of the folder"),
        ({"run": "/x", "log": "."}, "the run '/x' would write outside of the folder"),
    ],
)
def test_a_guard_that_could_not_be_used_is_not_made(
    settings: dict[str, Any], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    monkeypatch.chdir(folder)
    with pytest.raises(ValueError, match=said):
        guard(**settings)
    assert list(tmp_path.rglob("*.jsonl")) == []


def test_a_turn_that_could_not_be_made_is_not_made() -> None:
    for settings, said in (({"tokens": -1}, "tokens"), ({"deadline": float("inf")}, "deadline")):
        with pytest.raises(ValueError, match=said):
            guard().turn("hi", **settings)


def test_what_is_no_tool_or_no_exception_is_said_with_what_to_do() -> None:
    guarded: Any = guard()
    function: Any = fail_at_once
    with pytest.raises(TypeError, match="put `@classmethod` above the decorator of the guard"):
        guarded.tool(effect="read_only")(classmethod(function))
    with pytest.raises(TypeError, match="put `@staticmethod` above the decorator of the guard"):
        guarded.tool(staticmethod(fail_at_once))
    with pytest.raises(TypeError, match="made of a function"):
        guarded.tool(3)
    for passes in ([KeyError], (3,)):
        with pytest.raises(TypeError, match="such as `\\(KeyError,\\)`"):
            guarded.tool("x", passes=passes)
        with pytest.raises(TypeError, match="such as `\\(KeyError,\\)`"):
            guarded.turn("x", passes=passes)
    with pytest.raises(KeyError):
        guarded.tool("x", passes=KeyError).call_sync(None, fail_at_once)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        ({"error_class": "tiemout"}, "`error_class`: there is no class `tiemout` .did you mean `timeout`"),
        ({"effect": "maybe"}, "`effect` is one of not_started, started, committed, unknown, not 'maybe'"),
        ({"status": 99_999}, "`status` is a status of HTTP, from 100 to 999, not 99999"),
        ({"status": "503"}, "`status` is a status of HTTP"),
        ({"retry_after": float("inf")}, "`retry_after` is a number of seconds, from 0 to"),
        ({"retry_after": float("nan")}, "`retry_after` is a number of seconds"),
        ({"retry_after": -1}, "`retry_after` is a number of seconds"),
    ],
)
def test_an_error_of_a_tool_says_what_can_be(error: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        ToolError("busy", **error)


def test_names_ids_and_reports_that_cannot_be_written_down_are_taken() -> None:
    guarded, half = guard(run="r\ud800"), "\ud800"
    assert guarded.tool(half, description=half).call_text_sync("{}", lambda: "found", call_id=half) == "found"
    assert guarded.call_all_sync([(half, {}, lambda: "found")]) == ["found"]
    assert guarded.tool("echo").call_sync(f'{{"word": "{half}"}}', lambda word: word) == "?"
    assert guarded.output_sync(half) == half


def guard_of(*tools: dict[str, Any]) -> Guard:
    return Guard(Policy.from_yaml(POLICY), tools)


def test_the_calls_of_one_reply_in_threads() -> None:
    both = threading.Barrier(2, timeout=10)

    def meet(name: str) -> str:
        both.wait()
        return name

    calls: Any = [("meet", {"name": "a"}, meet), ("meet", {"name": "b"}, meet), ("fail", {}, fail_at_once)]
    a, b, failed = guard().call_all_sync(calls)
    assert (a, b) == ("a", "b")
    assert isinstance(failed, CallExhausted)


def test_calls_of_one_reply_that_the_run_does_not_take_are_raised() -> None:
    closed = guard()
    closed.close()
    with pytest.raises(RunError, match="closed"):
        closed.call_all_sync([("other", {}, fail_at_once)])
    policy = "version: 1\ntools: {'*': {loop_guard: {enabled: false}}}\n"
    held, most = Guard(Policy.from_yaml(policy)), 1024

    async def main() -> None:
        goes_on = asyncio.Event()
        open_calls = [asyncio.create_task(held.tool("wait").call("{}", goes_on.wait)) for _ in range(most)]
        await asyncio.sleep(0)
        calls: Any = [("other", {"n": n}, fails(0)) for n in range(2)]
        with pytest.raises(RunError, match="open"):
            await held.call_all(calls)
        # Nor do those that the guard loses while they run.
        for call in open_calls:
            call.cancel()
        await asyncio.gather(*open_calls, return_exceptions=True)
        lost = asyncio.create_task(held.call_all([("wait", {}, goes_on.wait), ("other", {}, fails(0))]))
        await asyncio.sleep(0.01)
        held.close()
        with pytest.raises(RunError, match="closed"):
            await lost

    asyncio.run(main())


def fail_at_once() -> None:
    raise KeyError("price")


def test_errors_reach_other_processes_whole() -> None:
    with pytest.raises(CallExhausted) as caught:
        guard().tool("x").call_sync({}, fail_at_once)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.reason, again.because) == (str(caught.value), caught.value.reason, caught.value.because)
    assert isinstance(again.last, KeyError)
    unreadable = httpx.HTTPStatusError("x", request=httpx.Request("GET", "http://x"), response=httpx.Response(500))
    caught.value.last = unreadable
    assert pickle.loads(pickle.dumps(caught.value)).last is None
    with pytest.raises(CallRefused) as refused:
        guard().tool("search").call_sync({"q": 1}, fail_at_once)
    assert pickle.loads(pickle.dumps(refused.value)).error_class == "invalid_args"
    with pytest.raises(PolicyError) as wrong:
        Policy.from_yaml("version: 1\nretri: {}\n")
    (found,) = pickle.loads(pickle.dumps(wrong.value)).diagnostics
    assert str(found) == str(wrong.value.diagnostics[0])
    for error in (RunError("closed", "closed"), ToolError("busy", status=503)):
        assert vars(pickle.loads(pickle.dumps(error))) == vars(error)


def test_calls_that_are_cancelled_before_their_first_step_are_withdrawn() -> None:
    guarded = guard()

    async def main() -> None:
        calls = asyncio.create_task(guarded.call_all([("other", None, fails(0)), ("another", None, fails(0))]))
        await asyncio.sleep(0)
        calls.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calls

    asyncio.run(main())
    assert not guarded._run._tickets
