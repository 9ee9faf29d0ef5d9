"""The guard of one tool."""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Awaitable, Callable
from typing import Any, ParamSpec, TypeVar, cast, overload

from unfazed._carry import carry_out, carry_out_sync
from unfazed._channel import ProposalTicket
from unfazed._failure import clean
from unfazed._plain import call_plainly, call_plainly_sync
from unfazed._run import GuardRun
from unfazed._series import HIDDEN, CallArguments, ToolSeries, as_data
from unfazed._unfazed import PlainEntry, json_text

P = ParamSpec("P")
T = TypeVar("T")


class ToolGuard:
    """The policy around the calls of one tool, and a decorator. It has no state of its own."""

    def __init__(
        self,
        run: GuardRun,
        name: str,
        decorator: ToolDecorator,
        passes: tuple[type[BaseException], ...],
        *,
        approved: bool,
    ) -> None:
        self._run, self._name, self._decorator = run, name, decorator
        self._passes, self._approved = passes, approved
        self._is_plain = run.plain_terms(name) is not None

    def __call__(self, fn: Callable[P, T]) -> Callable[P, T]:
        """The function under the policy. It raises what `call` raises."""
        return self._decorator(fn)

    @overload
    async def call(self, args: CallArguments, fn: Callable[..., Awaitable[T]], *, call_id: str | None = None) -> T: ...
    @overload
    async def call(self, args: CallArguments, fn: Callable[..., T], *, call_id: str | None = None) -> T: ...
    async def call(self, args: CallArguments, fn: Callable[..., Any], *, call_id: str | None = None) -> Any:
        """Calls `fn` with the arguments, by name, as often as the policy says, and returns what it returns.

        A function that is not `async` is called in the loop: put what blocks into `asyncio.to_thread`. Arguments that are
        a text are repaired where the policy says so; those that no JSON text can have are not looked at.

        Raises `CallRefused` if it did not run, `CallExhausted` if no further attempt is made, `RunError` if the run takes
        no call. Cancelled, it withdraws the call: what had begun may have had side effects, and does not run again.
        """
        entered = self._entered(args, call_id)
        if entered is not None:
            series = self._series(args, fn)
            adopted = await call_plainly(self._run, self._name, entered, series)
            return series.value if adopted is None else self._value(series, adopted)
        series, ticket = self._begin(args, fn, call_id, shows=None)
        await carry_out(self._run, ticket, series)
        return self._value(series, ticket)

    def call_sync(self, args: CallArguments, fn: Callable[..., T], *, call_id: str | None = None) -> T:
        """The same in this thread. A function that blocks is not interrupted: it finds the longest that it may take in
        `current_attempt().timeout`.
        """
        entered = self._entered(args, call_id)
        if entered is not None:
            series = self._series(args, fn)
            adopted = call_plainly_sync(self._run, self._name, entered, series)
            return cast(T, series.value if adopted is None else self._value(series, adopted))
        series, ticket = self._begin(args, fn, call_id, shows=None)
        carry_out_sync(self._run, ticket, series)
        return cast(T, self._value(series, ticket))

    async def call_text(self, args: CallArguments, fn: Callable[..., Any], *, call_id: str | None = None) -> str:
        """Calls `fn` as `call` does, and returns what the model is to read of the result: a text, cut as `result.max` of
        the policy says. Of what `fn` returns that is no JSON it reads what `str` makes of it.

        Raises what `call` raises.
        """
        series, ticket = self._begin(args, fn, call_id, shows=as_data)
        await carry_out(self._run, ticket, series)
        self._value(series, ticket)
        return ticket.channels[0].text

    def call_text_sync(self, args: CallArguments, fn: Callable[..., Any], *, call_id: str | None = None) -> str:
        """The same in this thread."""
        series, ticket = self._begin(args, fn, call_id, shows=as_data)
        carry_out_sync(self._run, ticket, series)
        self._value(series, ticket)
        return ticket.channels[0].text

    async def _call_cut(
        self, args: CallArguments, fn: Callable[..., Any], shows: Callable[[Any], Any], *, call_id: str | None
    ) -> tuple[Any, str | None]:
        """Calls `fn` as `call` does, for an agent that makes a message of what it returns: that, and the text that the model
        reads in its place if the policy cuts it. `shows` is what the model would read of it, or `HIDDEN`.
        """
        series, ticket = self._begin(args, fn, call_id, shows=shows)
        await carry_out(self._run, ticket, series)
        return self._cut(series, ticket, shows)

    def _call_cut_sync(
        self, args: CallArguments, fn: Callable[..., Any], shows: Callable[[Any], Any], *, call_id: str | None
    ) -> tuple[Any, str | None]:
        """The same in this thread."""
        series, ticket = self._begin(args, fn, call_id, shows=shows)
        carry_out_sync(self._run, ticket, series)
        return self._cut(series, ticket, shows)

    def _cut(self, series: ToolSeries, ticket: ProposalTicket, shows: Callable[[Any], Any]) -> tuple[Any, str | None]:
        value, text = self._value(series, ticket), ticket.channels[0].text
        data = shows(value)
        return value, None if data is HIDDEN or _is_whole(text, as_data(data)) else text

    def _entered(self, args: CallArguments, call_id: str | None) -> PlainEntry | None:
        """A call that is begun without a step; `None`: it has to be proposed."""
        if not self._is_plain or call_id is not None or isinstance(args, str):
            return None
        return self._run.enter(self._name, args)

    def _begin(
        self, args: CallArguments, fn: Callable[..., Any], call_id: str | None, *, shows: Callable[[Any], Any] | None
    ) -> tuple[ToolSeries, ProposalTicket]:
        series = self._series(args, fn, shows=shows)
        return series, self._run.propose_call(self._name, as_json(args), call_id and clean(call_id))

    def _series(
        self, args: CallArguments, fn: Callable[..., Any], *, shows: Callable[[Any], Any] | None = None
    ) -> ToolSeries:
        call, policy = (fn, args), self._run.policy
        return ToolSeries(self._name, call, self._passes, shows=shows, approved=self._approved, policy=policy)

    def _value(self, series: ToolSeries, ticket: ProposalTicket) -> Any:
        channel = ticket.channels[0]
        if series.has_value and channel.error is None:
            self._run.guide(ticket)
            return series.value
        failure = channel.failure(series.last)
        self._run.guide(ticket)
        raise failure from series.last


class ToolDecorator:
    """Makes a guarded tool of a function: of its name, if no other one is said."""

    def __init__(
        self,
        run: GuardRun,
        declared: dict[str, Any],
        passes: tuple[type[BaseException], ...],
        *,
        approved: bool,
    ) -> None:
        self._run, self._declared, self._passes, self._approved = run, declared, passes, approved

    def __call__(self, fn: Callable[P, T]) -> Callable[P, T]:
        """The function under the policy. It raises what `ToolGuard.call` raises.

        Raises `TypeError` if it is no function.
        """
        if isinstance(fn, (classmethod, staticmethod)):
            raise TypeError(f"put `@{type(fn).__name__}` above the decorator of the guard, which makes tools of functions")
        if not callable(fn):
            raise TypeError(f"a tool is made of a function, not of {fn!r}")
        name = clean(self._declared.get("name") or _name_of(fn))
        description = self._declared.get("description") or inspect.getdoc(fn) or ""
        self._run.declare({**self._declared, "name": name, "description": description})
        guard = ToolGuard(self._run, name, self, self._passes, approved=self._approved)
        signature = inspect.signature(fn)

        def bound(args: Any, kwargs: Any) -> dict[str, Any]:
            return _arguments(signature.bind(*args, **kwargs))

        if inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(type(fn).__call__):

            @functools.wraps(fn)
            async def guarded(*args: P.args, **kwargs: P.kwargs) -> Any:
                return await guard.call(bound(args, kwargs), lambda **_: fn(*args, **kwargs))

            return cast(Callable[P, T], guarded)

        @functools.wraps(fn)
        def guarded_sync(*args: P.args, **kwargs: P.kwargs) -> T:
            return guard.call_sync(bound(args, kwargs), lambda **_: fn(*args, **kwargs))

        return guarded_sync


def _name_of(fn: Any) -> str:
    """The name of a function; an object that is called has that of its class."""
    inner = fn.func if isinstance(fn, functools.partial) else fn
    return str(getattr(inner, "__name__", type(inner).__name__))


def _arguments(bound: inspect.BoundArguments) -> dict[str, Any]:
    """The arguments by name, as a model would give them: what `**kwargs` takes is beside the others, and `self` of a method
    is no argument.
    """
    arguments: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        if bound.signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
            arguments.update(value)
        elif arguments or name not in ("self", "cls"):
            arguments[name] = value
    return arguments


def _is_whole(text: str, data: Any) -> bool:
    """Whether a text has all of what a tool has returned."""
    if isinstance(data, str):
        return text == data
    try:
        return bool(json.loads(text) == data)
    except ValueError:
        return False


def as_json(args: CallArguments) -> str | None:
    """The arguments as JSON; `None`: they are no JSON, and the engine does not look at them."""
    if args is None:
        return None
    if isinstance(args, str):
        return clean(args)
    text = json_text(args)
    if text is not None:
        return text
    try:
        # What is read again is plain: numbers that are enums, keys that are numbers.
        return json_text(json.loads(json.dumps(args, allow_nan=False)))
    except (TypeError, ValueError, RecursionError):
        return None
