"""The page about Python is true: what it shows runs, and prints what it says."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[3] / "docs/python.md"
FENCED = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_page_prints_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "page"}
    printed, compared = None, 0
    for kind, text in FENCED.findall(PAGE.read_text(encoding="utf-8")):
        if kind == "yaml":
            first, _, _ = text.partition("\n")
            (tmp_path / first.removeprefix("# ")).write_text(text)
        elif kind == "python":
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile(text, str(PAGE), "exec"), names)
            printed = out.getvalue()
        elif kind == "text":
            assert printed == text
            printed, compared = None, compared + 1
    assert compared == 10
