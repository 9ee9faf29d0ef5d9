"""Lets the types of Google's SDK judge what `unfazed run` sends to Gemini.

    python3 -m venv venv && venv/bin/pip install google-genai==3.6.1
    venv/bin/python tests/google/judge.py target/release/unfazed

A server plays a model that thinks, calls tools and answers, whole and streamed. Its own answers are held against the types
too, so that what is judged is what follows from true ones.
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

from gemini import ANSWERS, answer, problems

ATTACHED = {"photo.png": b"\x89PNG\r\n\x1a\nphoto", "report.pdf": b"%PDF-1.7 report"}
AGENT = """version: 1
system: Be brief.
task: Say hello.
models:
  m: {{api: gemini, base_url: "{base}", model: gemini-3-pro, stream: {stream}, max_tokens: 500, ask_window: false, extra: {{generationConfig: {{thinkingConfig: {{includeThoughts: true}}}}}}}}
tools:
  echo: {{kind: builtin}}
"""


class Model(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.seen.append((self.path, body))
        kind, data = answer(len(self.server.seen), self.path.endswith(":streamGenerateContent?alt=sse"))
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


def play(unfazed, streamed):
    server = HTTPServer(("127.0.0.1", 0), Model)
    server.seen = []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "agent.yaml"), "w", encoding="utf-8") as file:
            base = f"http://127.0.0.1:{server.server_port}"
            file.write(AGENT.format(base=base, stream=str(streamed).lower()))
        for name, content in ATTACHED.items():
            with open(os.path.join(folder, name), "wb") as file:
                file.write(content)
        run = subprocess.run(
            [unfazed, "run", "agent.yaml", "--attach", "photo.png", "--attach", "report.pdf", "Say hello."],
            cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
        )
    server.shutdown()
    if run.returncode != 0 or len(server.seen) != len(ANSWERS):
        sys.exit(f"the run ended with {run.returncode} after {len(server.seen)} requests\n{run.stderr}")
    verb = "streamGenerateContent?alt=sse" if streamed else "generateContent"
    wrong = [path for path, _ in server.seen if path != f"/v1beta/models/gemini-3-pro:{verb}"]
    if wrong:
        sys.exit(f"wrong addresses: {wrong}")
    return [body for _, body in server.seen]


def main():
    unfazed = os.path.abspath(sys.argv[1])
    judged = wrong = 0
    for streamed in (True, False):
        for request in play(unfazed, streamed):
            judged += 1
            found = problems(request)
            if found:
                wrong += 1
                print(json.dumps(request), *found, sep="\n  ")
        sent = [content["parts"] for content in request["contents"] if content["role"] == "model"]
        if sent != ANSWERS[:2]:
            sys.exit(f"the parts do not go back as they came: {json.dumps(sent)}")
        results = [part["functionResponse"].get("id") for content in request["contents"] for part in content["parts"] if "functionResponse" in part]
        if results != [None, None, "own"]:
            sys.exit(f"the results do not have the ids of their calls: {results}")
    missing = [name for name, content in ATTACHED.items() if base64.b64encode(content).decode() not in json.dumps(request)]
    if missing:
        sys.exit(f"the model is not shown {missing}: {json.dumps(request)}")
    # A judge has to find what is wrong with a broken request.
    for breaks in (
        lambda body: body.update(messages=[]),
        lambda body: body["contents"][0].update(parts=7),
        lambda body: body["contents"][1]["parts"][0].update(txt="x"),
        lambda body: body["tools"][0]["functionDeclarations"][0].update(input_schema={}),
        lambda body: body["generationConfig"].update(maxOutputTokens="many"),
    ):
        broken = copy.deepcopy(request)
        breaks(broken)
        if not problems(broken):
            sys.exit(f"a broken request is not found: {json.dumps(broken)}")
    print(f"google-genai: {judged} requests, {wrong} with errors")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
