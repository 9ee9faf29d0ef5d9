"""Lets the types of OpenAI's and Anthropic's SDKs judge what `unfazed run` sends: chat completions, Responses and messages.

    python3 -m venv venv && venv/bin/pip install openai==3.54.0 anthropic==2.14.0
    venv/bin/python tests/openai/judge.py target/release/unfazed

A server plays a model that thinks, calls a tool and answers, whole and streamed; its last turn is to bring a report, or is without
tools. Its own answers are held against the types too, so that what is judged is what follows from true ones.
"""

import base64
import copy
import json
import os
import subprocess
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import chat
import messages
import responses
from typed import answer, problems

DIALECTS = {"openai": chat, "responses": responses, "anthropic": messages}
TURNS = 3
ATTACHED = {"photo.png": b"\x89PNG\r\n\x1a\nphoto", "report.pdf": b"%PDF-1.7 report"}
AGENT = """version: 1
system: Be brief.
task: Say hello.
policy: policy.yaml
models:
  m: {{api: {api}, base_url: "{base}", stream: {stream}, {model}}}
tools:
  echo: {{kind: builtin}}
"""
POLICY = f"version: 1\nturn: {{max_turns: {TURNS}}}\n"
REPORT = """output:
  tool: final_report
  schema: {type: object, properties: {said: {type: string}}, required: [said], additionalProperties: false}
"""


class Model(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        server = self.server
        server.seen.append(body)
        number = min(len(server.seen), TURNS)
        kind, data = answer(server.dialect, number, server.reports, body.get("stream", False))
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


def play(unfazed, api, streamed, reports):
    server = HTTPServer(("127.0.0.1", 0), Model)
    server.seen, server.dialect, server.reports = [], DIALECTS[api], reports
    threading.Thread(target=server.serve_forever, daemon=True).start()
    base = f"http://127.0.0.1:{server.server_port}" + ("" if api == "anthropic" else "/v1")
    with tempfile.TemporaryDirectory() as folder:
        agent = AGENT.format(api=api, base=base, stream=str(streamed).lower(), model=DIALECTS[api].MODEL)
        for name, text in (("agent.yaml", agent), ("policy.yaml", POLICY + REPORT * reports)):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)
        for name, content in ATTACHED.items():
            with open(os.path.join(folder, name), "wb") as file:
                file.write(content)
        run = subprocess.run(
            [unfazed, "run", "agent.yaml", "--attach", "photo.png", "--attach", "report.pdf", "Say hello."],
            cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
        )
    server.shutdown()
    if run.returncode != 0 or len(server.seen) != TURNS:
        sys.exit(f"{api}: the run ended with {run.returncode} after {len(server.seen)} requests\n{run.stdout}{run.stderr}")
    return server.seen


def judge_last(api, dialect, request):
    """The last request has all that was said before."""
    missing = [name for name, content in ATTACHED.items() if base64.b64encode(content).decode() not in json.dumps(request)]
    if missing:
        sys.exit(f"{api}: the model is not shown {missing}: {json.dumps(request)}")
    found, expected = dialect.sent_back(request)
    if found != expected:
        sys.exit(f"{api}: what goes back is\n{json.dumps(found)}\nand not\n{json.dumps(expected)}")


def judge_breaks(api, dialect, request):
    """A judge has to find what is wrong with a broken request."""
    for breaks in dialect.BREAKS:
        broken = copy.deepcopy(request)
        breaks(broken)
        if not problems(dialect, broken):
            sys.exit(f"{api}: a broken request is not found: {json.dumps(broken)}")


def main():
    unfazed = os.path.abspath(sys.argv[1])
    wrong = 0
    for api, dialect in DIALECTS.items():
        judged = 0
        for streamed, reports in ((True, True), (True, False), (False, True), (False, False)):
            for request in play(unfazed, api, streamed, reports):
                judged += 1
                found = problems(dialect, request)
                if found:
                    wrong += 1
                    print(f"{api}: {json.dumps(request)}", *found, sep="\n  ")
            judge_last(api, dialect, request)
            if reports and not found:
                judge_breaks(api, dialect, request)
        print(f"{api}: {judged} requests are judged by the SDK's types")
    sys.exit(f"{wrong} requests are wrong" if wrong else 0)


if __name__ == "__main__":
    main()
