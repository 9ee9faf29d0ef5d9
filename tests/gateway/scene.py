"""A gateway to a scripted model that fails before it answers."""

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


@contextlib.contextmanager
def serving(command: str) -> Iterator[str]:
    """The address of a gateway that serves as long as the block runs, and ends well."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in {"model.yaml": SCRIPT, "policy.yaml": POLICY, "gateway.yaml": FILE}.items():
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
