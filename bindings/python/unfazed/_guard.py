"""Guards: a policy around the calls of a program that has a loop of its own."""

from __future__ import annotations

import asyncio
import contextvars
import os
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Any, ParamSpec, TypeVar, overload

from unfazed._carry import carry_out, carry_out_sync
from unfazed._channel import ProposalTicket
from unfazed._failure import clean
from unfazed._raised import CallRefused
from unfazed._run import GuardRun
from unfazed._series import CallArguments, ReportSeries, ToolSeries
from unfazed._tool import ToolDecorator, ToolGuard, as_json
from unfazed._turn import TurnGuard
from unfazed._unfazed import Policy

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
#: Exceptions that are no failures.
ExceptionTypes = tuple[type[BaseException], ...]
#: In seconds since 1970: nanoseconds of 64 bits end with the year 2554.
_LATEST = 2**64 // 10**9


@dataclass(frozen=True)
class InterruptedCall:
    """A tool that was running when its process ended."""

    tool: str
    #: The id of the call.
    call: str
    #: Its arguments; `None`: the host had kept them to itself.
    arguments: Any
    #: The key it was run with: by it a service can say what became of it.
    idempotency_key: str


class Guard:
    """A policy around calls: those of a guard are one run, with one memory of breakers, budgets and repetitions.

    Any number of them may be in flight, in tasks of any loops and in threads. No lock is held while a function runs or a
    wait lasts.
    """

    def __init__(
        self,
        policy: Policy,
        tools: Iterable[dict[str, Any]] = (),
        targets: str | Sequence[str] = ("default",),
        *,
        log: str | os.PathLike[str] | None = None,
        resume: bool = False,
        run: str | None = None,
        seed: int = 0,
        deadline: float | None = None,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        """A guard under `policy`.

        `tools` are `name`, `description`, `parameters` (a JSON Schema, by which arguments are validated) and `effect`;
        other tools may have any arguments. `targets` are the models, in order. `log` is a file, or a folder for one: a
        session log that `unfazed replay` reads. With `resume` a log that is there is continued, under the policy that has
        decided in it: what was in flight is withdrawn, and `interrupted` has the tools that were running. `run` is the id in
        logs and idempotency keys, `seed` that of jittered delays. No attempt starts after `deadline`, in seconds since
        1970 (UTC). `clock` says the time, in nanoseconds since 1970 (UTC).

        Raises `ValueError` if one of them cannot be that of a run, the tools do not fit the policy, or the log is of
        another one, and `OSError` if the log cannot be made, or another guard writes it.
        """
        if not (names := _names(targets)):
            raise ValueError("`targets` has no model, and turns need one; leave it out if there is only one")
        if not (isinstance(seed, int) and 0 <= seed < 2**64):
            raise ValueError(f"`seed` is a whole number of 64 bits, from 0, not {seed!r}")
        if resume and log is None:
            raise ValueError("`resume` continues the session of a log; name its file in `log`")
        started: dict[str, Any] = {"run": clean(run or str(uuid.uuid4())), "seed": seed, "targets": names}
        if deadline is not None:
            started["deadline"] = _nanoseconds(deadline)
        self._run = GuardRun(policy, list(tools), started, clock, log, resume=resume)
        #: The tools that were running when the process ended whose session is continued: it is unknown what they did, and
        #: they do not run again by themselves.
        self.interrupted = [InterruptedCall(**call) for call in self._run.interrupted]

    @overload
    def tool(
        self,
        name: str,
        *,
        effect: str | None = None,
        parameters: dict[str, Any] | None = None,
        description: str | None = None,
        approved: bool = False,
        passes: ExceptionTypes = (),
    ) -> ToolGuard: ...
    @overload
    def tool(
        self,
        name: None = None,
        *,
        effect: str | None = None,
        parameters: dict[str, Any] | None = None,
        description: str | None = None,
        approved: bool = False,
        passes: ExceptionTypes = (),
    ) -> ToolDecorator: ...
    @overload
    def tool(self, name: Callable[P, T], /) -> Callable[P, T]: ...
    def tool(
        self,
        name: str | Callable[..., Any] | None = None,
        *,
        effect: str | None = None,
        parameters: dict[str, Any] | None = None,
        description: str | None = None,
        approved: bool = False,
        passes: ExceptionTypes = (),
    ) -> ToolGuard | ToolDecorator | Callable[..., Any]:
        """The guard of a tool, or a decorator that makes a tool of a function: of its name, if there is no `name`. A
        function in the place of the name is decorated at once: `@guard.tool`.

        `effect` is what a run does to the world: `read_only`, `idempotent`, `non_idempotent`, `unknown`. `parameters` is
        a JSON Schema of the arguments, `description` what the tool does. `approved` is for calls that a person has agreed
        to: without it those of `approval: always` are refused. Exceptions of `passes` reach the caller as they are.

        Raises `ValueError` if the tool does not fit the policy.
        """
        if name is not None and not isinstance(name, str):
            return ToolDecorator(self._run, {}, (), approved=False)(name)
        passes = exception_types(passes)
        name = name and clean(name)
        description = description and clean(description)
        given = {"name": name, "effect": effect, "parameters": parameters, "description": description}
        declared = {field: value for field, value in given.items() if value is not None}
        decorator = ToolDecorator(self._run, declared, passes, approved=approved)
        if name is None:
            return decorator
        if len(declared) > 1:
            self._run.declare(declared)
        return ToolGuard(self._run, name, decorator, passes, approved=approved)

    def turn(
        self,
        request: R,
        *,
        targets: str | Sequence[str] = (),
        tokens: int | None = None,
        deadline: float | None = None,
        passes: ExceptionTypes = (),
    ) -> TurnGuard[R]:
        """The guard of one turn of a model.

        `targets` are the models that it may call, all of the guard without it. `tokens` is how large the request is:
        models are passed over whose windows are too small. No attempt starts after `deadline`, in seconds since 1970
        (UTC). Exceptions of `passes` reach the caller as they are.
        """
        proposal: dict[str, Any] = {"targets": _names(targets)}
        if tokens is not None:
            if tokens < 0:
                raise ValueError(f"`tokens` is how large the request is, not {tokens}")
            proposal["measure"] = {"messages": 1, "message_tokens": tokens, "tool_tokens": 0}
        if deadline is not None:
            proposal["deadline"] = _nanoseconds(deadline)
        return TurnGuard(self._run, request, proposal, exception_types(passes))

    async def call_all(
        self, calls: Sequence[tuple[str, CallArguments, Callable[..., Any]]], *, passes: ExceptionTypes = ()
    ) -> list[Any]:
        """Makes the calls of one reply of a model, each a name, arguments and a function, at the same time.

        Returns what each came to, in their order: what its function returned, or a `CallError`. Their order of ending does
        not matter to the state of the run.

        Raises `RunError` if the run takes no call, or is lost before all have ended. Cancelled, it withdraws them.
        """
        if not calls:
            return []
        series, ticket = self._proposed(calls, passes)
        tasks = [asyncio.ensure_future(carry_out(self._run, ticket, one, index)) for index, one in enumerate(series)]
        try:
            await asyncio.gather(*tasks)
        except BaseException:
            # A task that is cancelled before its first step does nothing, not even that.
            self._run.withdraw(ticket)
            raise
        finally:
            for task in tasks:
                task.cancel()
        return self._values(series, ticket)

    def call_all_sync(
        self, calls: Sequence[tuple[str, CallArguments, Callable[..., Any]]], *, passes: ExceptionTypes = ()
    ) -> list[Any]:
        """The same, each call in a thread of its own, with the context of this one."""
        if not calls:
            return []
        series, ticket = self._proposed(calls, passes)
        with ThreadPoolExecutor(len(series)) as threads:
            running = [
                threads.submit(contextvars.copy_context().run, carry_out_sync, self._run, ticket, one, index)
                for index, one in enumerate(series)
            ]
        for one_running in running:
            one_running.result()
        return self._values(series, ticket)

    def _proposed(
        self, calls: Sequence[tuple[str, CallArguments, Callable[..., Any]]], passes: ExceptionTypes
    ) -> tuple[list[ToolSeries], ProposalTicket]:
        guards = [self.tool(name, passes=passes) for name, _, _ in calls]
        series = [guard._series(args, fn) for guard, (_, args, fn) in zip(guards, calls, strict=True)]
        proposed = [self._run.call(clean(name), as_json(args)) for name, args, _ in calls]
        return series, self._run.propose({"event": "tools_proposed", "calls": proposed}, len(calls))

    async def output(self, report: str) -> Any:
        """Delivers the report, as the model wrote it: JSON that is broken is repaired, and it is held against `output` of
        the policy. Once it is accepted, the run ends with it. Without `output` any text will do.

        Raises `CallRefused` with what the model is to change, `CallExhausted` if that was the last attempt, and `RunError`
        if the run takes no report.
        """
        ticket = self._run.propose({"event": "output_proposed", "output": clean(report)})
        await carry_out(self._run, ticket, ReportSeries())
        return self._accepted(ticket, report)

    def output_sync(self, report: str) -> Any:
        """The same in this thread."""
        ticket = self._run.propose({"event": "output_proposed", "output": clean(report)})
        carry_out_sync(self._run, ticket, ReportSeries())
        return self._accepted(ticket, report)

    def take_guidance(self) -> list[str]:
        """What the model is to read with its next request, besides the results of its calls: what it repeats, and what was
        wrong with its report. Each text is given once; a turn of this guard takes them for its `guidance`.
        """
        return self._run.take_guidance()

    @property
    def run(self) -> str:
        """The id in logs and idempotency keys."""
        return self._run.run

    def digest(self) -> str:
        """The digest of the state: the same wherever the same events led."""
        return self._run.digest()

    def close(self) -> None:
        """Takes no call any more, and closes the log. Calls in flight end with a `RunError`."""
        self._run.close()

    def __enter__(self) -> Guard:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    async def __aenter__(self) -> Guard:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _values(self, series: list[ToolSeries], ticket: ProposalTicket) -> list[Any]:
        for channel in ticket.channels:
            if channel.error is not None:
                raise channel.error
        values = [
            one.value if one.has_value else channel.failure(one.last)
            for one, channel in zip(series, ticket.channels, strict=True)
        ]
        self._run.guide(ticket)
        return values

    def _accepted(self, ticket: ProposalTicket, report: str) -> Any:
        channel = ticket.channels[0]
        if channel.error is None and (channel.settled or {}).get("result") == "accepted":
            return report if channel.accepted is None else channel.accepted
        failure = channel.failure(None)
        if isinstance(failure, CallRefused) and failure.error_class is None:
            failure.error_class = "invalid_output"
        raise failure


def _names(targets: str | Sequence[str]) -> list[str]:
    """The names of models. One alone may be a text: taken for a sequence, it would be one of letters."""
    return [targets] if isinstance(targets, str) else list(targets)


def _nanoseconds(deadline: float) -> int:
    """A deadline as events have it."""
    if not 0 <= deadline < _LATEST:
        raise ValueError(f"`deadline` is a time in seconds since 1970 (UTC), such as `time.time() + 60`, not {deadline!r}")
    return round(deadline * 1e9)


def exception_types(passes: Any) -> ExceptionTypes:
    """Exceptions that are no failures. One class alone is taken as what it means."""
    given = passes if isinstance(passes, tuple) else (passes,)
    if not all(isinstance(one, type) and issubclass(one, BaseException) for one in given):
        raise TypeError(f"`passes` is a tuple of classes of exceptions, such as `(KeyError,)`, not {passes!r}")
    return given
