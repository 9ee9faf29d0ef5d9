"""The run that the calls of a guard are: it proposes them to the engine, and gives each what comes of it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

from unfazed._attempt import AttemptScope
from unfazed._channel import CallChannel, Directive, ProposalTicket
from unfazed._failure import clean
from unfazed._log import SessionLog, is_read_closely, logger, report
from unfazed._raised import RunError
from unfazed._series import Answer
from unfazed._unfazed import GuardEngine, PlainEntry, Policy

#: The work of a call that is over.
OVER: Directive = {}
#: What was decided, and who is to be woken for it.
Told = tuple[list[Directive], list[Callable[[], object]]]


class GuardRun:
    """The state of a guard, behind one lock: held for a step, and never while something is called or awaited."""

    def __init__(
        self,
        policy: Policy,
        tools: list[dict[str, Any]],
        started: dict[str, Any],
        clock: Callable[[], int],
        log: str | os.PathLike[str] | None,
        *,
        resume: bool,
    ) -> None:
        self.policy = policy
        self._clock = clock
        self._engine = GuardEngine(policy, tools, record=log is not None)
        self._tools = {tool["name"]: tool for tool in tools}
        self._started = started
        # Made last: what cannot be used leaves no file.
        self._log = None if log is None else SessionLog(log, started["run"], resume=resume)
        self._lock = threading.Lock()
        self._tickets: dict[int, ProposalTicket] = {}
        #: Calls in flight that cost no step, and wait for something.
        self._plain: set[AttemptScope] = set()
        self._plain_terms: dict[str, tuple[int | None, int | None] | None] = {}
        self._calls = 0
        self._is_running = False
        #: Whether a tool was called after the final turn.
        self._is_ignored = False
        self._lost: RunError | None = None
        self._guidance: list[str] = []
        self._runs_ended = 0
        #: What to call once nothing is open.
        self._idle: list[Callable[[], object]] = []
        #: The tools that were running when the session ended that is continued.
        self.interrupted: list[dict[str, Any]] = []
        if resume and self._log is not None:
            try:
                self._resume(self._log)
            except BaseException:
                self._log.close()
                raise

    @property
    def run(self) -> str:
        """The id in logs and idempotency keys."""
        run: str = self._started["run"]
        return run

    def _resume(self, log: SessionLog) -> None:
        """Takes up the session of the log, if there is one in it, and withdraws what was in flight."""
        engine, session = GuardEngine.resume(self.policy, log.read())
        log.cut(session["whole"])
        if session["whole"] == 0:
            return
        self._engine, self._calls, self.interrupted = engine, session["calls"], session["interrupted"]
        self._started = {**self._started, "run": session["run"]}
        self._is_running = session["is_running"]
        given, self._tools = self._tools, {tool["name"]: tool for tool in session["tools"]}
        for tool in given.values():
            self._set_tool(tool)
        for proposal in session["open"]:
            self._take({"event": "proposal_withdrawn", "proposal": proposal}, None)

    def declare(self, tool: dict[str, Any]) -> None:
        """The host has this tool from now on; what is not said of it stays what it was."""
        with self._lock:
            known = self._tools.get(tool["name"], {})
            self._set_tool({"parameters": {}, **known, **tool})
        before, now = known.get("effect"), tool.get("effect")
        if before and now and before != now:
            logger.warning(
                "the effect of %s was %s, and is %s from now on: it is one for all its calls", tool["name"], before, now
            )

    def call(self, name: str, arguments: str | None, call_id: str | None = None) -> dict[str, Any]:
        """A call as it is proposed. `arguments` is a JSON text; `None`: the host keeps them to itself."""
        with self._lock:
            if name not in self._tools:
                self._set_tool({"name": name, "parameters": {}})
            self._calls += 1
            call = {"id": clean(call_id or f"call_{self._calls}"), "name": name}
        return {**call, "arguments": "", "opaque": True} if arguments is None else {**call, "arguments": arguments}

    def propose(self, event: dict[str, Any], calls: int = 1) -> ProposalTicket:
        """Proposes something. Raises `RunError` if the run takes nothing any more."""
        with self._lock:
            ticket = self._opened(calls)
            ticket.is_turn = event["event"] == "turn_proposed"
            self._is_ignored |= not ticket.is_turn and self._engine.had_final_turn
            told = self._decided(lambda now, closely: self._engine.step(event, now, closely), ticket)
        self._tell(*told)
        return ticket

    def propose_call(self, name: str, arguments: str | None, call_id: str | None) -> ProposalTicket:
        """Proposes one call, as `propose` and `call` would."""
        with self._lock:
            if name not in self._tools:
                self._set_tool({"name": name, "parameters": {}})
            self._calls += 1
            call = call_id or f"call_{self._calls}"
            ticket = self._opened(1)
            self._is_ignored |= self._engine.had_final_turn
            told = self._decided(lambda now, closely: self._engine.propose_call(call, name, arguments, now, closely), ticket)
        self._tell(*told)
        return ticket

    def answer(self, answer: Answer, ticket: ProposalTicket) -> None:
        """Answers a piece of work that is for that proposal."""
        with self._lock:
            if isinstance(answer, int):
                told = self._decided(lambda now, closely: self._engine.tool_done(answer, now, closely), ticket)
            else:
                told = self._take(answer, ticket)
        self._tell(*told)

    def plain_terms(self, tool: str) -> tuple[int | None, int | None] | None:
        """`max_attempts` and `timeout` of the calls of a tool that may cost no step; `None`: each costs some."""
        if tool not in self._plain_terms:
            self._plain_terms[tool] = self._engine.plain_terms(tool)
        return self._plain_terms[tool]

    def enter(self, tool: str, arguments: object) -> PlainEntry | None:
        """Begins a call without a step. `None`: it has to be proposed."""
        # Who reads the log closely reads of each call.
        return None if self._lost is not None or is_read_closely() else self._engine.enter(tool, arguments)

    def leave(self, tool: str, *, succeeded: bool) -> None:
        """Ends such a call. Raises what has ended the run meanwhile."""
        with self._lock:
            if self._lost is not None:
                raise self._lost
            directives = self._engine.leave(tool, succeeded, self._clock(), is_read_closely())
            told = None if directives is None else self._delivered(directives, None)
        if told is not None:
            self._tell(*told)

    def adopt(self, tool: str, entry: PlainEntry, outcome: dict[str, Any]) -> ProposalTicket:
        """Makes a proposal of such a call, of which the first attempt has failed."""
        with self._lock:
            if self._lost is not None:
                raise self._lost
            if not self._is_running:
                self._start()
            adopted = self._engine.adopt(tool, entry, outcome, self._clock(), is_read_closely())
            ticket = self._ticket(adopted[0], 1)
            told = self._delivered(adopted[1], ticket)
        self._tell(*told)
        return ticket

    def watch_plain(self, scope: AttemptScope) -> bool:
        """Ends what such a call waits for when the guard is closed. `False`: it is."""
        with self._lock:
            if self._lost is None:
                self._plain.add(scope)
            return self._lost is None

    def unwatch_plain(self, scope: AttemptScope) -> None:
        with self._lock:
            self._plain.discard(scope)

    def lost(self) -> RunError | None:
        """What has ended the guard."""
        return self._lost

    def withdraw(self, ticket: ProposalTicket, call: int | None = None) -> None:
        """The host needs the proposal, or one call of it, no more."""
        # Whoever is woken for a loss is woken under the lock, and has nothing to withdraw.
        if self._lost is not None:
            return
        with self._lock:
            if self._lost is not None or not self._is_running or ticket.proposal not in self._tickets:
                return
            event: dict[str, Any] = {"event": "proposal_withdrawn", "proposal": ticket.proposal}
            told = self._take(event if call is None else {**event, "call": call}, ticket)
        self._tell(*told)

    def next_work(self, channel: CallChannel) -> Directive | None:
        """The next piece of work of a call that is still needed. `None`: there is none yet. `OVER`: nothing follows, and all
        that was decided about the call is in the channel.
        """
        # Under the lock: what settles a call is in the midst of what else is decided with it.
        with self._lock:
            if channel.is_over:
                return OVER
            while channel.work:
                work = channel.work.pop(0)
                if channel.needs(work["work"]):
                    return work
            return None

    def watch(self, channel: CallChannel, wake: Callable[[], None], work: int | None) -> bool:
        """Calls `wake` when something comes. `False`: it has come already, or that work is dropped."""
        with self._lock:
            ready = channel.is_over or (bool(channel.work) if work is None else not channel.needs(work))
            channel.watch(None if ready else wake)
            return not ready

    def unwatch(self, channel: CallChannel) -> None:
        channel.watch(None)

    def end_after_final_turn(self, wake: Callable[[], object]) -> bool | None:
        """Ends a run that has had its final turn. `None`: turns are open, and `wake` is called when none is. `False`: calls
        of tools are, and one of them may be what waits for this; or the model has called a tool since, and would do so in
        the next run: it learns once that this one is over."""
        with self._lock:
            if not self._is_running:
                return True
            if self._is_ignored:
                self._is_ignored = False
                return False
            if not all(ticket.is_turn for ticket in self._tickets.values()):
                return False
            if self._tickets:
                self._idle.append(wake)
                return None
            told = self._take({"event": "cancelled", "reason": "the final turn is over"}, None)
        self._tell(*told)
        return True

    def guide(self, ticket: ProposalTicket) -> None:
        """Keeps what was said about a proposal for the next request of the model, if its run goes on."""
        if not any(channel.guidance for channel in ticket.channels):
            return
        with self._lock:
            # What is said of the proposal is said to each of its calls.
            said = dict.fromkeys(text for channel in ticket.channels for text in channel.take_guidance())
            if ticket.runs_before == self._runs_ended:
                self._guidance.extend(said)

    def said(self, channel: CallChannel) -> Sequence[str]:
        """What was said about a call so far, for a request that is made now."""
        with self._lock:
            return channel.take_guidance()

    def take_guidance(self) -> list[str]:
        with self._lock:
            taken, self._guidance = self._guidance, []
            return taken

    def digest(self) -> str:
        with self._lock:
            return self._engine.digest()

    def close(self) -> None:
        """Takes nothing any more, and closes the log. What is open ends with a `RunError`."""
        with self._lock:
            woken = self._lose(RunError("the guard is closed", "closed"))
            if self._log is not None:
                self._log.close()
        self._tell([], woken)

    def _start(self) -> None:
        self._take({"event": "run_started", **self._started}, None)
        self._is_running = True

    def _set_tool(self, tool: dict[str, Any]) -> None:
        if self._tools.get(tool["name"]) == tool:
            return
        tools = {**self._tools, tool["name"]: tool}
        self._record(self._engine.set_tools(list(tools.values()), self._clock()))
        self._tools = tools

    def _opened(self, calls: int) -> ProposalTicket:
        """The ticket of what the next event proposes."""
        if not self._is_running:
            self._start()
        return self._ticket(self._engine.seq + 1, calls)

    def _ticket(self, proposal: int, calls: int) -> ProposalTicket:
        ticket = self._tickets[proposal] = ProposalTicket(proposal, calls)
        ticket.runs_before = self._runs_ended
        return ticket

    def _take(self, event: dict[str, Any], cause: ProposalTicket | None) -> Told:
        return self._decided(lambda now, closely: self._engine.step(event, now, closely), cause)

    def _decided(self, step: Callable[[int, bool], list[Directive]], cause: ProposalTicket | None) -> Told:
        """Takes a step, writes it down, and gives each directive to the proposal that it is about."""
        try:
            if self._lost is not None:
                raise self._lost
            return self._delivered(self._record(step(self._clock(), is_read_closely())), cause)
        except BaseException:
            if cause is not None and not cause.is_taken:
                self._tickets.pop(cause.proposal, None)
            raise

    def _delivered(self, directives: list[Directive], cause: ProposalTicket | None) -> Told:
        if cause is not None:
            cause.is_taken = True
        woken: list[Callable[[], object]] = []
        for directive in directives:
            for channel in self._deliver(directive, cause):
                if (wake := channel.wakes()) is not None:
                    woken.append(wake)
        return directives, woken + self._no_longer_busy()

    def _record(self, directives: list[Directive]) -> list[Directive]:
        if self._log is not None:
            try:
                self._log.write(self._engine.take_records())
            except (OSError, ValueError) as error:
                lost = RunError(f"the session cannot be written to {self._log.path}: {error}", "log")
                for wake in self._lose(lost):
                    wake()
                raise lost from error
        return directives

    def _deliver(self, directive: Directive, cause: ProposalTicket | None) -> list[CallChannel]:
        name = directive["directive"]
        if name == "finish":
            self._is_running = False
            # What the model of this run has not read is not for that of the next one.
            self._runs_ended += 1
            self._guidance.clear()
        of = directive.get("of")
        proposal = of["proposal"] if of else directive.get("proposal") if name == "proposal_refused" else None
        ticket = cause if proposal is None else self._tickets.get(proposal)
        if ticket is None:
            return []
        concerned = ticket.put(directive)
        if name in ("settled", "proposal_refused"):
            self._tickets.pop(ticket.proposal, None)
        return concerned

    def _no_longer_busy(self) -> list[Callable[[], object]]:
        """Those who wait until nothing is open, if nothing is."""
        if self._tickets:
            return []
        idle, self._idle = self._idle, []
        return idle

    def _lose(self, error: RunError) -> list[Callable[[], object]]:
        """Nothing follows: whoever waits is to learn of it."""
        self._lost, self._is_running = self._lost or error, False
        channels = [channel for ticket in self._tickets.values() for channel in ticket.channels]
        self._tickets.clear()
        for channel in channels:
            channel.error = error
        return [
            *(wake for channel in channels if (wake := channel.wakes()) is not None),
            *(scope.drop for scope in self._plain),
            *self._no_longer_busy(),
        ]

    def _tell(self, directives: list[Directive], woken: list[Callable[[], object]]) -> None:
        """What is done without the lock: handlers of logs, and loops, are others' code."""
        for wake in woken:
            wake()
        if directives:
            report(directives, self._started["run"])
