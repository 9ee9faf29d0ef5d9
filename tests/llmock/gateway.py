"""Lets PyPI's `llmock` break the models behind `unfazed serve`, and judge what the gateway makes of it.

    venv/bin/python tests/llmock/gateway.py venv/bin/llmock target/release/unfazed

The client never tries again. What it gets is a complete answer, an error with its status, or a stream that says that it broke.
Each model is asked in its own dialect and in that of chat completions, which is converted.
"""

import concurrent.futures
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

from judge import GOOD, POLICY, PROVIDERS, call, scenarios, start

FILE = "version: 1\npolicy: policy.yaml\nmodels:\n" + "".join(
    f'  {name}: {{{{api: {name}, base_url: "{{base}}{path}", model: {model}, api_key: {{{{env: JUDGE_KEY}}}}}}}}\n'
    for name, (model, path) in PROVIDERS.items()
)
# Every kind of answer that does not hold is asked for again.
RULES = POLICY.replace("    retry:\n", "    retry:\n      retry_on: {add: [invalid_args, tool_not_found, invalid_output]}\n", 1)
LOOK = {"type": "object", "properties": {"text": {"type": "string"}}}
# What a stream ends with that is whole, by dialect.
LAST = {"openai": "[DONE]", "anthropic": '"message_stop"', "responses": '"response.completed"', "gemini": '"finishReason"'}


def request_of(dialect, model, streamed, tools):
    """The address and the body of a request."""
    said = [{"role": "user", "content": "What is the price?"}]
    if dialect == "gemini":
        path = f"/v1beta/models/{model}:" + ("streamGenerateContent?alt=sse" if streamed else "generateContent")
        declared = [{"functionDeclarations": [{"name": "echo", "parameters": LOOK}]}]
        body = {"contents": [{"role": "user", "parts": [{"text": said[0]["content"]}]}], **({"tools": declared} if tools else {})}
        return path, body
    body = {"model": model, "stream": streamed}
    if dialect == "responses":
        declared = {"type": "function", "name": "echo", "parameters": LOOK}
        return "/v1/responses", {**body, "input": said, **({"tools": [declared]} if tools else {})}
    if dialect == "anthropic":
        declared = {"name": "echo", "input_schema": LOOK}
        return "/v1/messages", {**body, "max_tokens": 100, "messages": said, **({"tools": [declared]} if tools else {})}
    declared = {"type": "function", "function": {"name": "echo", "parameters": LOOK}}
    return "/v1/chat/completions", {**body, "messages": said, **({"tools": [declared]} if tools else {})}


def asked(url, dialect, model, streamed, tools):
    """How a request ended: `good`, `failed` with a status and a class, `cut` with an error event; or what is wrong."""
    path, body = request_of(dialect, model, streamed, tools)
    sent = urllib.request.Request(url + path, json.dumps(body).encode(), {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(sent, timeout=60) as answer:
            text = answer.read().decode()
    except urllib.error.HTTPError as error:
        said = json.loads(error.read())
        return "failed" if said.get("error", said) and error.headers["x-unfazed-why"] else f"an error without a reason: {said}"
    if not streamed:
        return "good" if "error" not in json.loads(text) or json.loads(text)["error"] is None else text
    events = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    if any('"error"' in event and "model_error" in event or '"error":{' in event for event in events):
        return "cut"
    return "good" if LAST[dialect] in events[-1] else f"a stream that ends unseen: {events[-1]}"


@contextlib.contextmanager
def serving(unfazed, base):
    with tempfile.TemporaryDirectory() as folder:
        files = {"gateway.yaml": FILE.format(base=base) + "routes: {" + ", ".join(f"{name}: {name}" for name in PROVIDERS) + "}\n", "policy.yaml": RULES}
        for name, text in files.items():
            (pathlib.Path(folder) / name).write_text(text, encoding="utf-8")
        command = [unfazed, "serve", "gateway.yaml", "--addr", "127.0.0.1:0"]
        env = {**os.environ, "JUDGE_KEY": "sk-judge", "NO_COLOR": "1"}
        with subprocess.Popen(command, cwd=folder, env=env, stderr=subprocess.PIPE, text=True) as gateway:
            try:
                yield gateway.stderr.readline().removeprefix("serves  ").strip()
            finally:
                gateway.terminate()


def play(llmock, unfazed, model, dialect, scene, streamed):
    """Whether a scene went as it should; what went wrong is printed. Each has a gateway of its own: one remembers for how long a provider asked to wait."""
    name, behaviors, end, expected, needs = scene
    call(llmock, "POST", "/_llmock/reset")
    call(llmock, "POST", "/_llmock/scenario", {"behaviors": behaviors})
    with serving(unfazed, llmock) as url:
        ended = asked(url, dialect, model, streamed, needs.get("tools"))
    verdict = call(llmock, "GET", "/_llmock/verdict")
    requests = call(llmock, "GET", "/_llmock/requests")["count"]
    errors = [finding for finding in verdict["findings"] if finding["severity"] == "error"]
    # What is out cannot be tried again: the client sees that it broke, which llmock does not see.
    if ended == "cut":
        errors = [error for error in errors if error["code"] != "truncated_stream_accepted"]
    wanted = ("cut", 1) if ended == "cut" and needs.get("stream") else ("good" if end == GOOD else "failed", expected)
    if not errors and ended == wanted[0] and wanted[1] in (None, requests):
        return True
    print(f"FAILED {model} in the dialect {dialect}, {'streamed' if streamed else 'whole'}: {name}")
    print(f"  {ended}, {requests} requests (expected {wanted})")
    for error in errors:
        print(f"  {error['code']}: {error['title']}")
    return False


def judged(command, unfazed, model):
    """Which scenes of a model went as they should, with a server of its own."""
    server, llmock = start(command)
    try:
        return [
            play(llmock, unfazed, model, dialect, scene, streamed)
            for dialect in dict.fromkeys([model, "openai"])
            for scene in scenarios()
            if scene[-1].get("only", model) == model
            for streamed in ((True,) if scene[-1].get("stream") else (True, False))
        ]
    finally:
        server.terminate()
        server.wait()


def main():
    command, unfazed = sys.argv[1], os.path.abspath(sys.argv[2])
    with concurrent.futures.ThreadPoolExecutor() as threads:
        played = sum(threads.map(lambda model: judged(command, unfazed, model), PROVIDERS), [])
    print(f"llmock: {len(played)} requests through the gateway, {played.count(False)} with errors")
    sys.exit(0 if all(played) else 1)


if __name__ == "__main__":
    main()
