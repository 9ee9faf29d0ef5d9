"""The reference of the package is what the package says of itself."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import unfazed

PAGE = Path(__file__).parents[3] / "docs/python-reference.md"
#: A comment of a field, and the field.
FIELD = re.compile(r"((?: *#: .*\n)+) *(?:self\.)?(\w+)(?: ?[:=])")

#: The classes that programs make things of.
MADE = (unfazed.Engine, unfazed.Guard, unfazed.ToolError)


def test_the_reference_is_complete_and_true() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert [line for line in text.splitlines() if line.startswith("| `")] == list(rows())


def rows() -> Iterator[str]:
    """A line for each public name, and for each thing that it has."""
    for name in unfazed.__all__:
        thing = getattr(unfazed, name)
        yield row(name, thing, inspect.getdoc(thing) or "")
        if inspect.isclass(thing):
            yield from members(name, thing)


def members(name: str, kind: type[Any]) -> Iterator[str]:
    is_compiled = kind.__module__ == "unfazed"
    if not is_compiled:
        yield from (row(f"{name}.{field}", None, said) for field, said in fields(kind))
    # What is compiled has no order of its own.
    for member in sorted(vars(kind)) if is_compiled else vars(kind):
        thing = getattr(kind, member)
        is_said = callable(thing) or isinstance(thing, property) or inspect.isgetsetdescriptor(thing)
        if is_said and not member.startswith("_") and (said := inspect.getdoc(thing)):
            yield row(f"{name}.{member}", thing, said.partition("\n\n")[0])


def fields(kind: type[Any]) -> Iterator[tuple[str, str]]:
    for comment, field in FIELD.findall(inspect.getsource(kind)):
        yield field, " ".join(line.strip().removeprefix("#: ") for line in comment.splitlines())


def row(name: str, thing: Any, said: str) -> str:
    is_made = not inspect.isclass(thing) or thing in MADE
    return f"| `{name}{parameters(thing) if callable(thing) and is_made else ''}` | {' '.join(said.split())} |"


def parameters(thing: Any) -> str:
    """The parameters, without their types."""
    signed = inspect.signature(thing).parameters.values()
    plain = [one.replace(annotation=inspect.Parameter.empty) for one in signed if one.name != "self"]
    return re.sub(r"=(<[^>]*>|Ellipsis)", "=…", str(inspect.Signature(plain)))
