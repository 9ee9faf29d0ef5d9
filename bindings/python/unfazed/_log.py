"""The session log: the lines that the engine makes, in a file that `unfazed replay` reads."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import IO, Any

#: What goes wrong is a warning, a wait and the end of a run are for information, the rest is for those who look closely.
logger = logging.getLogger("unfazed")

# What is not in it, guards are given only when the log is read closely (`src/brief.rs`).
_LEVELS = {
    "exhausted": logging.WARNING,
    "proposal_refused": logging.WARNING,
    "refused": logging.WARNING,
    "turn_retry": logging.WARNING,
    "warning": logging.WARNING,
    "loop_guard": logging.WARNING,
    "wait": logging.INFO,
    "finish": logging.INFO,
}


class SessionLog:
    """A log that is written line by line. It is readable by its owner alone: what calls were about is in it."""

    def __init__(self, path: str | os.PathLike[str], run: str) -> None:
        """Begins the log at `path`, or as `RUN.jsonl` in it if that is a folder.

        Raises `FileExistsError` if there is one: a log is of one session, and is not written twice.
        """
        place = Path(path)
        self.path = place / f"{run}.jsonl" if place.is_dir() else place
        handle = os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND, 0o600)
        self._file: IO[str] = os.fdopen(handle, "w", encoding="utf-8", newline="\n")

    def write(self, lines: str) -> None:
        """Writes the lines, so that the system has them when it returns. Raises `OSError`."""
        self._file.write(lines)
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def is_read_closely() -> bool:
    """Whether somebody reads what is decided about each call."""
    return logger.isEnabledFor(logging.DEBUG)


def report(directives: list[dict[str, Any]], run: str) -> None:
    """Writes what was decided to `logging`. A record has the `directive` and the `run` it is of."""
    closely = is_read_closely()
    for directive in directives:
        name = directive["directive"]
        level = _LEVELS.get(name, logging.DEBUG)
        if closely or (level > logging.DEBUG and logger.isEnabledFor(level)):
            extra = {"directive": directive, "run": run}
            logger.log(level, "%s%s", name, _subject(directive), extra=extra)


def places(directive: dict[str, Any]) -> list[str]:
    """The rules that decided: `name = value (file:line:column)`."""
    found = []
    for reason in directive.get("because") or ():
        at = reason["place"]
        found.append(f"{reason['rule']} = {reason['value']} ({at['file']}:{at['line']}:{at['column']})")
    return found


def _subject(directive: dict[str, Any]) -> str:
    exhausted: dict[str, Any] = directive.get("exhausted") or {}
    of = directive.get("tool") or directive.get("subject") or directive.get("target") or exhausted.get("action")
    said = directive.get("log_message") or directive.get("message") or exhausted.get("reason")
    because = ", ".join(places(directive))
    parts = [f" {of}" if of else "", f": {said}" if isinstance(said, str) and said else ""]
    return "".join(parts) + (f" [{because}]" if because else "")
