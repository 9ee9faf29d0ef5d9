"""What comes of a proposal, for whoever carries it out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from unfazed._log import places
from unfazed._raised import CallExhausted, CallRefused, RunError

Directive = dict[str, Any]

_ENDS = {"final_turn", "warning", "finish"}
_WORK = {"run_tool", "call_model", "wait", "ask", "consult"}


class CallChannel:
    """What was decided about one call of a proposal. All of it is changed under the lock of the run."""

    # Most calls need one of each of these: what they do not need is not made.
    settled: Directive | None = None
    error: RunError | None = None
    #: The result of the call, as the model reads it.
    text = ""
    guidance: Sequence[str] = ()
    accepted: Any = None
    _dropped: frozenset[int] = frozenset()
    _ended: Directive | None = None
    _refused: Directive | None = None
    #: What was said of the end of the run: why there is no further turn.
    _ends: Sequence[Directive] = ()
    _exhausted: Directive | None = None
    _wake: Callable[[], None] | None = None

    def __init__(self) -> None:
        self.work: list[Directive] = []

    @property
    def is_over(self) -> bool:
        return self.settled is not None or self.error is not None

    def put(self, directive: Directive) -> None:
        """Takes note of a directive."""
        name = directive["directive"]
        if name in _WORK:
            self.work.append(directive)
        elif name == "settled":
            self.settled = directive
            if guidance := directive.get("guidance"):
                self.guidance = [*self.guidance, *guidance]
        elif name == "append":
            message = directive["message"]
            if message["role"] == "tool":
                self.text = message["text"]
            elif message["role"] == "user":
                self.guidance = [*self.guidance, message["text"]]
        elif name == "dropped":
            self._dropped |= {directive["work"]}
        elif name == "refused":
            self._refused = directive
        elif name in _ENDS:
            self._ends = [*self._ends, directive]
        elif name == "tool_ended":
            self._ended = directive
        elif name == "exhausted":
            self._exhausted = directive
        elif name == "output_accepted":
            self.accepted = directive["output"]
        elif name == "proposal_refused":
            self.error = RunError(directive["message"], directive["reason"])

    def needs(self, work: int) -> bool:
        """Whether somebody still waits for the answer to that work."""
        return work not in self._dropped and not self.is_over

    def take_guidance(self) -> Sequence[str]:
        """What the model is to read with its next request; each text is given once."""
        taken, self.guidance = self.guidance, ()
        return taken

    def watch(self, wake: Callable[[], None] | None) -> None:
        """Calls `wake` whenever something comes; `None`: no more."""
        self._wake = wake

    def wakes(self) -> Callable[[], None] | None:
        return self._wake

    def failure(self, last: BaseException | None) -> CallExhausted | CallRefused | RunError:
        """Why there is no value."""
        if self.error is not None:
            return self.error
        if self._exhausted is not None:
            return self._given_up(self._exhausted, last)
        refused, settled = self._refused or {}, self.settled or {}
        message = self.text or self._why_closed() or "\n".join(self.guidance) or "the run has ended before the call did"
        error_class = refused.get("error_type") or (self._ended or {}).get("error_type")
        delay = (settled.get("delay") or 0) / 1e9
        because = places(refused) or list(dict.fromkeys(rule for end in self._ends for rule in places(end)))
        return CallRefused(message, error_class, because, delay, settled.get("final_turn"))

    def _why_closed(self) -> str:
        """Why the run ended before the call did, as far as it was said."""
        if (self.settled or {}).get("result") != "closed":
            return ""
        return "\n".join(end["message"] for end in self._ends if end["directive"] == "warning")

    def _given_up(self, directive: Directive, last: BaseException | None) -> CallExhausted:
        exhausted = directive["exhausted"]
        attempts = exhausted["attempts"]
        final = attempts[-1] if attempts else {}
        message = self.text or f"{exhausted['action']} failed: {final.get('message', exhausted['reason'])}"
        because = places(directive)
        return CallExhausted(message, final.get("error_type"), because, attempts, exhausted["reason"], last)


class ProposalTicket:
    """An open proposal, with a channel for each of its calls."""

    #: Whether the run has taken it.
    is_taken = False
    #: How many runs of the guard had ended before.
    runs_before = 0
    #: It is a turn: nothing of the program runs within it that may propose something.
    is_turn = False

    def __init__(self, proposal: int, calls: int) -> None:
        self.proposal = proposal
        self.channels = [CallChannel() for _ in range(calls)]

    def put(self, directive: Directive) -> list[CallChannel]:
        """Gives a directive to the calls that it is about."""
        of = directive.get("of")
        call = of and of.get("call")
        if len(self.channels) == 1:
            concerned = self.channels
        elif call is not None:
            concerned = [self.channels[call]]
        elif directive["directive"] in ("settled", "proposal_refused"):
            concerned = self.channels
        else:
            concerned = self.channels[:1]
        for channel in concerned:
            channel.put(directive)
        return concerned
