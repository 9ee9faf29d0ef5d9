"""Gateways to a scripted model: to one that fails before it answers, and to one that speaks another dialect."""

import contextlib
import pathlib
import subprocess
import tempfile
from collections.abc import Iterator

SCRIPT = """
version: 1
repeat_last: true
replies:
  - {match: {contains: give up}, times: 9, error: {status: 429, code: insufficient_quota, type: insufficient_quota, message: no money}}
  - {error: {status: 503, message: busy}}
  - {fault: close}
  - {match: {contains: break off}, times: 3, fault: truncate, text: This is what would have come of it after a while.}
  - {text: hello, usage: {input: 3, output: 2}}
"""
POLICY = """
version: 1
models: {'*': {cooldown: 0s, retry: {max_attempts: 4, backoff: {kind: constant, delay: 1ms, jitter: none}}}}
"""
FILE = """
version: 1
policy: policy.yaml
models: {demo: {api: scripted, script: model.yaml}}
routes: {'*': demo}
"""

# A model that calls a tool and then says what it found.
TOOL_SCRIPT = """
version: 1
repeat_last: true
replies:
  - {match: {last_tool: look}, times: 99, text: "found 42", usage: {input: 9, output: 3}}
  - {text: I look., calls: [{name: look, arguments: {item: lamp}}], usage: {input: 3, output: 2}}
"""
# The same model again, behind servers that speak one dialect alone.
CONVERTED = """
version: 1
policy: policy.yaml
models:
  claude: {{api: anthropic, base_url: '{url}', model: demo}}
  gpt: {{api: openai, base_url: '{url}/v1', model: demo}}
  codex: {{api: responses, base_url: '{url}/v1', model: demo}}
  gemini: {{api: gemini, base_url: '{url}/v1beta', model: demo}}
routes: {{claude: claude, gpt: gpt, codex: codex, gemini: gemini}}
"""


@contextlib.contextmanager
def converting(command: str) -> Iterator[str]:
    """The address of a gateway whose `claude`, `gpt`, `codex` and `gemini` speak messages, chat completions, responses and `generateContent` alone."""
    with serving(command, script=TOOL_SCRIPT) as url, serving(command, file=CONVERTED.format(url=url)) as converted:
        yield converted


@contextlib.contextmanager
def serving(command: str, script: str = SCRIPT, file: str = FILE) -> Iterator[str]:
    """The address of a gateway that serves as long as the block runs, and ends well."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in {"model.yaml": script, "policy.yaml": POLICY, "gateway.yaml": file}.items():
            (pathlib.Path(folder) / name).write_text(text)
        with subprocess.Popen(
            [pathlib.Path(command).resolve(), "serve", "gateway.yaml", "--addr", "127.0.0.1:0"], cwd=folder, stderr=subprocess.PIPE, text=True
        ) as gateway:
            assert gateway.stderr
            try:
                yield gateway.stderr.readline().removeprefix("serves  ").strip()
            finally:
                gateway.terminate()
        assert gateway.returncode == 0, gateway.returncode
