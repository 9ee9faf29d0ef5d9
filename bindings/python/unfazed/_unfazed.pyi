"""The interpreter: policies, and a machine that takes events and gives directives. It has no clock and never waits."""

from os import PathLike
from typing import Any, final

@final
class Diagnostic:
    """A mistake, or a likely one, in a policy."""

    @property
    def file(self) -> str:
        """The file, as it was named."""
    @property
    def line(self) -> int:
        """The line, from 1."""
    @property
    def column(self) -> int:
        """The column, from 1, in characters."""
    @property
    def code(self) -> str:
        """The stable code, such as `P0101`; `unfazed rule CODE` explains it."""
    @property
    def severity(self) -> str:
        """`error` or `warning`."""
    @property
    def message(self) -> str:
        """What is wrong, in one line."""
    @property
    def help(self) -> list[str]:
        """What to do about it."""

@final
class Policy:
    """A policy that is loaded and checked. It does not change, and any number of guards may share it."""

    @staticmethod
    def load(*paths: str | PathLike[str], profile: str | None = None) -> Policy:
        """Loads the files in order, later ones above earlier ones, and those that they extend.

        Without a path it is the built-in policy. `profile` is the name of the profile that is chosen.

        Raises `PolicyError` with every mistake, and `OSError` if a file cannot be read.
        """
    @staticmethod
    def from_yaml(text: str, name: str = "policy.yaml", *, profile: str | None = None) -> Policy:
        """Loads a text. `name` is what its places are called.

        Raises `PolicyError` with every mistake.
        """
    def explain(self, *, tool: str | None = None, model: str | None = None) -> str:
        """Why the rules for a tool or a model, or without one for the turns, are what they are: each value with the
        file, line and column it comes from.

        Raises `ValueError` if both are named.
        """
    def check(self) -> list[Diagnostic]:
        """The likely mistakes, as `unfazed check` lists them."""
    @property
    def approves_unanswered(self) -> bool:
        """Whether a question that nobody answers counts as agreed to: `turn.approval.unanswered`."""
    @property
    def digest(self) -> str:
        """What tells this policy from every other one: 32 hexadecimal digits."""

@final
class Engine:
    """The interpreter of one session, for who drives it by hand: events in, directives out.

    Events and directives are those of `unfazed step` and of `docs/events.md`, as dicts. It decides, and does nothing:
    calls, waits and the clock are the caller's. Threads may share it; the order of their events is the caller's too.
    """

    def __new__(cls, policy: Policy, tools: list[dict[str, Any]] | None = None, *, record: bool = False) -> Engine:
        """`tools` are `name`, `description`, `parameters` (a JSON Schema) and `effect`. With `record`, `take_records`
        has the lines of a session log.

        Raises `ValueError` if the tools do not fit the policy.
        """
    def step(self, event: dict[str, Any], now: int) -> list[dict[str, Any]]:
        """Takes one event, and gives what is to be done about it. `now` is in nanoseconds since 1970 (UTC).

        The first event is `run_started`: `run` and, if they are known, `seed`, `targets`, `deadline` and the others; the
        policy and the tools are those of the engine. The next run of a session begins by another one.

        Raises `ValueError` if it is no event, or has a field that no event has, and `OverflowError` if it is
        nested deeper than 100 levels. Nothing has changed then.
        """
    def set_tools(self, tools: list[dict[str, Any]], now: int) -> list[dict[str, Any]]:
        """These are all the tools from now on. `now` is in nanoseconds since 1970 (UTC).

        Raises `ValueError` if they do not fit the policy.
        """
    def answer(
        self, directive: dict[str, Any], messages: list[dict[str, Any]], *, model: str | None = None
    ) -> dict[str, Any] | None:
        """The event that answers `prepare_turn` (how large the conversation is), `repair_history` (what makes it valid)
        or `reduce_context` (what makes it smaller); `None`: the directive needs more than the conversation.

        `messages` is the conversation, as events have it. Tokens are estimated, as the policy says for `model`; without
        it, for the first target. Nothing changes before `step` takes the event, and a `splice` says what to replace.

        Raises `ValueError` if it is no directive, or no conversation.
        """
    def take_records(self) -> str:
        """The lines of the session log since they were taken last. They belong into a file before what was decided is
        done.
        """
    def digest(self) -> str:
        """The digest of the state: the same wherever the same events led."""
    @property
    def seq(self) -> int:
        """The number of the last event."""
    @property
    def run(self) -> str:
        """The id of the run; empty before the first."""
    @property
    def is_over(self) -> bool:
        """Whether the run has ended."""
    @property
    def had_final_turn(self) -> bool:
        """Whether the final turn of the run is over."""

@final
class PlainEntry:
    """A call that was begun without a step."""

    @property
    def idempotency_key(self) -> str:
        """The same for each attempt of the call, and for no other call."""

@final
class GuardEngine:
    """The interpreter as a guard drives it; `_run.py` does. `now` is in nanoseconds since 1970 (UTC). If decisions are read
    `closely`, all directives are given, whole; else those, and of those the fields, that a guard reads.
    """

    def __new__(cls, policy: Policy, tools: list[dict[str, Any]], *, record: bool) -> GuardEngine: ...
    @staticmethod
    def resume(policy: Policy, log: bytes) -> tuple[GuardEngine, dict[str, Any]]:
        """The session of a log, which is recorded on: the id of its `run`, whether that `is_running`, the `tools` there
        were last, how many `calls` were proposed, the proposals that are `open`, the tools whose runs were `interrupted`,
        and how many bytes of the log are `whole`.

        Raises `ValueError` if another policy or another version of unfazed wrote it, or if it is damaged.
        """
    def step(self, event: dict[str, Any], now: int, closely: bool) -> list[dict[str, Any]]: ...
    def propose_call(self, id: str, name: str, arguments: str | None, now: int, closely: bool) -> list[dict[str, Any]]:
        """Proposes one call; without `arguments` the host keeps them to itself."""
    def tool_done(self, work: int, now: int, closely: bool) -> list[dict[str, Any]]:
        """A tool did what it should, and the host keeps what it returned."""
    def plain_terms(self, tool: str) -> tuple[int | None, int | None] | None:
        """`max_attempts` and `timeout`, in nanoseconds, of the calls of a tool that may cost no step; `None`: all cost
        some.
        """
    def enter(self, tool: str, arguments: object) -> PlainEntry | None:
        """Begins a call without a step. `None`: it has to be proposed, and nothing has changed."""
    def leave(self, tool: str, succeeded: bool, now: int, closely: bool) -> list[dict[str, Any]] | None:
        """Ends a call that was entered. `None`: there is nothing to say of it."""
    def adopt(
        self, tool: str, entry: PlainEntry, outcome: dict[str, Any], now: int, closely: bool
    ) -> tuple[int, list[dict[str, Any]]]:
        """Makes a proposal of a call that was entered, after its first attempt: the number of the proposal."""
    def set_tools(self, tools: list[dict[str, Any]], now: int) -> list[dict[str, Any]]: ...
    def take_records(self) -> str: ...
    def digest(self) -> str: ...
    @property
    def had_final_turn(self) -> bool: ...
    @property
    def seq(self) -> int: ...

def json_text(value: object) -> str | None:
    """The JSON text of a plain value; `None`: `json.dumps` has to look at it."""

def failure_of_answer(status: int, headers: list[tuple[str, str]], body: bytes, now: int) -> dict[str, Any]:
    """The failure that an answer with an error status stands for. `now` is in nanoseconds since 1970 (UTC)."""

def failure_of_body(body: bytes) -> dict[str, Any]:
    """What the body of an error says, of which neither status nor headers are known."""

def mistake_of_class(name: str) -> str | None:
    """What is wrong with the name of an error class; `None`: there is such a class."""
