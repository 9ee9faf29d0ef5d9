from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from faulty_server import FaultyServer

# litellm would ask GitHub for prices when it is imported.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

POLICY = """version: 1
tools:
  "*": {retry: {backoff: {kind: constant, delay: 1ms}}}
  search: {effect: read_only, retry: {max_attempts: 3}}
  send_mail: {effect: non_idempotent}
models:
  "*": {retry: {max_attempts: 3, backoff: {kind: constant, delay: 1ms}}}
"""
# A model reads no more than this of a search.
CUT = POLICY.replace("search: {", "search: {result: {max: 200 chars}, ")


@pytest.fixture
def server() -> Iterator[FaultyServer]:
    server = FaultyServer()
    yield server
    server.close()


@pytest.fixture
def command() -> str:
    """The command `unfazed`: the one of the variable, or that of the path. Without it the test fails."""
    found = os.environ.get("UNFAZED_COMMAND") or shutil.which("unfazed")
    assert found is not None, "set UNFAZED_COMMAND to the binary of unfazed"
    return found


@pytest.fixture
def policy_file(tmp_path: Path) -> Path:
    path = tmp_path / "policy.yaml"
    path.write_text(POLICY)
    return path
