"""The guard of one turn of a model."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar, cast, overload

from unfazed._attempt import call_in
from unfazed._carry import carry_out, carry_out_sync
from unfazed._channel import Directive, ProposalTicket
from unfazed._raised import RunError
from unfazed._run import GuardRun
from unfazed._series import TurnSeries

R = TypeVar("R")
T = TypeVar("T")
#: The tokens of a reply: `input`, `output` and, if there are any, `cache_read`, `cache_write`.
ReplyUsage = dict[str, int]


@dataclass(frozen=True)
class ModelCall(Generic[R]):
    """A call of a model that is due."""

    #: The model, by its name among the targets of the guard.
    target: str
    #: The request, as the host gave it.
    request: R
    #: The attempt at this target, from 1.
    attempt: int
    #: The tools that the model may be shown.
    tools: list[str]
    #: `auto`, or what the policy wants instead.
    tool_choice: Any
    #: The most tokens of the reply; `None`: the policy says nothing.
    max_output: int | None
    #: What the model is to read with this request, in addition.
    guidance: list[str]
    #: The longest that it may take, in seconds; `None`: unlimited.
    timeout: float | None


class TurnGuard(Generic[R]):
    """The policy around one turn of a model: retries, waits, and fallback to the next target."""

    def __init__(
        self,
        run: GuardRun,
        request: R,
        proposal: dict[str, Any],
        passes: tuple[type[BaseException], ...],
    ) -> None:
        self._run, self._request, self._proposal, self._passes = run, request, proposal, passes

    @overload
    async def call(
        self,
        fn: Callable[[ModelCall[R]], Awaitable[T]],
        *,
        usage: Callable[[T], ReplyUsage | None] | None = None,
    ) -> T: ...
    @overload
    async def call(self, fn: Callable[[ModelCall[R]], T], *, usage: Callable[[T], ReplyUsage | None] | None = None) -> T: ...
    async def call(self, fn: Callable[[ModelCall[R]], Any], *, usage: Any = None) -> Any:
        """Calls `fn` with a `ModelCall` as often as the policy says, for one target after the other, and returns what it
        returns. `usage` says how many tokens a reply took: for budgets and costs.

        Raises `CallExhausted` with the attempts at the last target if none has answered, `CallRefused` if the run ends
        before, and `RunError` if it takes no turn. Cancelled, it withdraws the turn.
        """
        while self._is_over(ticket := self._proposed()):
            loop, idle = asyncio.get_running_loop(), asyncio.Event()
            ended = self._run.end_after_final_turn(partial(call_in, loop, idle.set))
            if ended is False:
                break
            if ended is None:
                await idle.wait()
        series = self._series(ticket, fn, usage)
        await carry_out(self._run, ticket, series)
        return self._value(series, ticket)

    def call_sync(self, fn: Callable[[ModelCall[R]], T], *, usage: Callable[[T], ReplyUsage | None] | None = None) -> T:
        """The same in this thread. A function that blocks is not interrupted: `timeout` of the call is for its client."""
        while self._is_over(ticket := self._proposed()):
            idle = threading.Event()
            ended = self._run.end_after_final_turn(idle.set)
            if ended is False:
                break
            if ended is None:
                idle.wait()
        series = self._series(ticket, fn, usage)
        carry_out_sync(self._run, ticket, series)
        return cast(T, self._value(series, ticket))

    def _proposed(self) -> ProposalTicket:
        return self._run.propose({"event": "turn_proposed", **self._proposal})

    def _is_over(self, ticket: ProposalTicket) -> bool:
        """Whether the run has had its final turn: this one is the first of the next run, once the others have ended."""
        error = ticket.channels[0].error
        return error is not None and error.reason == "final_turn_over"

    def _series(
        self,
        ticket: ProposalTicket,
        fn: Callable[[ModelCall[R]], Any],
        usage: Callable[[Any], ReplyUsage | None] | None,
    ) -> TurnSeries:
        channel = ticket.channels[0]
        guidance = self._run.take_guidance() if channel.error is None else []

        def ask(work: Directive) -> Any:
            # What was decided before the call is asked for belongs into its request: that the turn is the last.
            guidance.extend(self._run.said(channel))
            return fn(self._due(work, guidance))

        return TurnSeries(ask, usage, self._passes)

    def _due(self, work: Directive, guidance: Sequence[str]) -> ModelCall[R]:
        timeout = work.get("timeout")
        return ModelCall(
            work["target"],
            self._request,
            work["attempt"],
            work["tools"],
            work.get("tool_choice"),
            work.get("max_output"),
            [*guidance, *work.get("guidance", ())],
            None if timeout is None else timeout / 1e9,
        )

    def _value(self, series: TurnSeries, ticket: ProposalTicket) -> Any:
        channel = ticket.channels[0]
        result = (channel.settled or {}).get("result")
        is_reply = result == "reply" or (isinstance(result, dict) and "reply" in result)
        if series.has_value and is_reply:
            self._run.guide(ticket)
            return series.value
        failure = channel.failure(series.last)
        self._run.guide(ticket)
        raise failure from (None if isinstance(failure, RunError) else series.last)
