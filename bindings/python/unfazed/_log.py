"""The session log: the lines that the engine makes, in a file that `unfazed replay` reads."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import IO, Any

if sys.platform == "win32":

    def _lock(handle: int) -> None:
        """Windows has no lock that only writers look at."""

else:
    import fcntl

    def _lock(handle: int) -> None:
        """Raises `BlockingIOError` if somebody else has it."""
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


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

    def __init__(self, path: str | os.PathLike[str], run: str, *, resume: bool) -> None:
        """Begins the log at `path`, or as `RUN.jsonl` in it if that is a folder; or opens the one that is there.

        Raises `ValueError` if the id of the run leads out of the folder. Raises `FileExistsError` if there is one that is
        not to be resumed: a log is of one session, and is not written twice. Raises `BlockingIOError` if another guard
        writes it.
        """
        place = Path(path)
        self.path = _in_folder(place, run) if place.is_dir() else place
        handle = os.open(self.path, os.O_CREAT | os.O_RDWR | os.O_APPEND | (0 if resume else os.O_EXCL), 0o600)
        self._file: IO[bytes] = os.fdopen(handle, "r+b", buffering=0)
        try:
            _lock(handle)
        except BlockingIOError as error:
            self._file.close()
            raise BlockingIOError(error.errno, "another guard writes this log", str(self.path)) from None

    def read(self) -> bytes:
        """What is in it."""
        self._file.seek(0)
        return self._file.read()

    def cut(self, length: int) -> None:
        """Drops what is after so many bytes: a line that was not written to its end."""
        self._file.truncate(length)

    def write(self, lines: str) -> None:
        """Writes the lines, so that the system has them when it returns. Raises `OSError`."""
        rest = memoryview(lines.encode())
        while rest:
            rest = rest[self._file.write(rest) :]

    def close(self) -> None:
        self._file.close()


def _in_folder(folder: Path, run: str) -> Path:
    """The log of a run in a folder. An id may come from a request, and be a path to elsewhere."""
    name = f"{run}.jsonl"
    path = folder / name
    if (path.parent, path.name) != (folder, name):
        raise ValueError(f"the run {run!r} would write outside of the folder {folder}: give it an id that is no path")
    return path


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
