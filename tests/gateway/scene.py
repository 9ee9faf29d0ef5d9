"""Gateways to a scripted model: to one that fails before it answers, and to one that speaks another dialect.

`scene.py UNFAZED` serves both until its input ends, for clients in other languages: a line of JSON has their addresses.
"""

import contextlib
import json
import pathlib
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator

# What a client says decides what happens to it. `at first N.` fails twice, whoever says it, and then is answered.
SAID = """
version: 1
repeat_last: true
replies:
  - {match: {contains: give up}, times: 999, error: {status: 429, code: insufficient_quota, type: insufficient_quota, message: no money}}
  - {match: {contains: slow down}, times: 999, error: {status: 429, code: rate_limit_exceeded, type: rate_limit_error, message: too fast, headers: {retry-after: 7}}}
  - {match: {contains: who am I}, times: 999, error: {status: 401, code: invalid_api_key, type: authentication_error, message: no such key}}
  - {match: {contains: fall over}, times: 999, error: {status: 500, type: api_error, message: a bug}}
  - {match: {contains: too busy}, times: 999, error: {status: 529, type: overloaded_error, message: overloaded}}
  - {match: {contains: break off}, times: 999, fault: truncate, text: This is what would have come of it after a while.}
  - {match: {contains: as JSON}, times: 999, text: '{"city":"Oslo","degrees":7}', usage: {input: 4, output: 5}}
  - {match: {contains: in the picture}, times: 999, text: a dot, usage: {input: 4, output: 5}}
""" + "".join(
    f"  - {{match: {{contains: 'at first {number}.'}}, error: {{status: 429, message: wait, headers: {{retry-after-ms: 5}}}}}}\n"
    f"  - {{match: {{contains: 'at first {number}.'}}, fault: close}}\n"
    f"  - {{match: {{contains: 'at first {number}.'}}, text: hello at last, usage: {{input: 3, output: 2}}}}\n"
    for number in range(1, 100)
)
SCRIPT = SAID + """
  - {match: {last_tool: look}, times: 999, text: "found 42", usage: {input: 9, output: 3}}
  - {match: {contains: look at the lamp}, times: 999, text: I look., calls: [{name: look, arguments: {item: lamp}}], usage: {input: 3, output: 2}}
  - {error: {status: 503, message: busy}}
  - {fault: close}
  - {text: hello, usage: {input: 3, output: 2}}
"""
# A wait beyond `server_delay.max` is the client's own. `x-should-retry` is said by the gateway behind this one, which gives up at once.
POLICY = """
version: 1
models:
  '*':
    cooldown: 0s
    retry:
      max_attempts: 4
      backoff: {kind: constant, delay: 1ms, jitter: none}
      server_delay: {mode: floor, max: 1s, above_max: give_up, sources: [header]}
"""
FILE = """
version: 1
policy: policy.yaml
models: {demo: {api: scripted, script: model.yaml}}
routes: {'*': demo}
"""

# A model that calls a tool and then says what it found.
TOOL_SCRIPT = SAID + """
  - {match: {last_tool: look}, times: 999, text: "found 42", usage: {input: 9, output: 3}}
  - {text: I look., calls: [{name: look, arguments: {item: lamp}}], usage: {input: 3, output: 2}}
"""
# Behind such a server nothing is tried again.
ONCE = """
version: 1
models: {'*': {cooldown: 0s, retry: {max_attempts: 1}}}
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
    with (
        serving(command, script=TOOL_SCRIPT, policy=ONCE) as url,
        serving(command, file=CONVERTED.format(url=url)) as converted,
    ):
        yield converted


@contextlib.contextmanager
def serving(command: str, script: str = SCRIPT, file: str = FILE, policy: str = POLICY) -> Iterator[str]:
    """The address of a gateway that serves as long as the block runs, and ends well."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in {"model.yaml": script, "policy.yaml": policy, "gateway.yaml": file}.items():
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


def given_up(url: str) -> int:
    """How many requests a gateway has given up on: a client that repeats one adds to it."""
    with urllib.request.urlopen(f"{url}/status.json") as answer:
        return json.load(answer)["requests"]["given_up"]


if __name__ == "__main__":
    with serving(sys.argv[1]) as relayed, converting(sys.argv[1]) as converted:
        print(json.dumps({"relayed": relayed, "converted": converted}), flush=True)
        sys.stdin.read()
