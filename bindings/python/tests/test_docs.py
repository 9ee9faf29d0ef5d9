"""The pages about Python are true: what they show runs, and prints what they say."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parents[3] / "docs"
#: How often each page says what is printed.
PAGES = {
    "python.md": 4,
    "python-clients.md": 1,
    "python-langchain.md": 1,
    "python-pydantic-ai.md": 1,
    "python-openai-agents.md": 1,
    "python-litellm.md": 1,
    "python-claude-agent.md": 1,
    "python-reference.md": 0,
}
FENCED = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_every_page_is_tried() -> None:
    assert sorted(page.name for page in DOCS.glob("python*.md")) == sorted(PAGES)


@pytest.mark.parametrize(("page", "prints"), PAGES.items())
def test_a_page_prints_what_it_says(page: str, prints: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "page"}
    printed, compared = None, 0
    for kind, text in FENCED.findall((DOCS / page).read_text(encoding="utf-8")):
        if kind == "yaml":
            first, _, _ = text.partition("\n")
            (tmp_path / first.removeprefix("# ")).write_text(text)
        elif kind == "python":
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile(text, page, "exec"), names)
            printed = out.getvalue()
        elif kind == "text":
            assert printed == text
            printed, compared = None, compared + 1
    assert compared == prints
