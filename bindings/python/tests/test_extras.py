"""What is asked for of SDKs is what is tested."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parent


def test_the_oldest_releases_that_are_taken_are_tested() -> None:
    extras = (
        (TESTS.parent / "pyproject.toml").read_text().partition("[project.optional-dependencies]\n")[2].partition("\n\n")[0]
    )
    taken = dict(re.findall(r'^[\w-]+ = \["([\w-]+)>=([\d.]+)"\]$', extras, re.MULTILINE))
    tested = dict(re.findall(r"^([\w-]+)==([\d.]+)$", (TESTS / "before.txt").read_text(), re.MULTILINE))
    assert len(taken) == len(extras.splitlines())
    assert taken.items() <= tested.items()
