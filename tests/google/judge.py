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

from google.genai import types
from pydantic import ValidationError

ATTACHED = {"photo.png": b"\x89PNG\r\n\x1a\nphoto", "report.pdf": b"%PDF-1.7 report"}
AGENT = """version: 1
system: Be brief.
task: Say hello.
models:
  m: {{api: gemini, base_url: "{base}", model: gemini-3-pro, stream: {stream}, max_tokens: 500, ask_window: false, extra: {{generationConfig: {{thinkingConfig: {{includeThoughts: true}}}}}}}}
tools:
  echo: {{kind: builtin}}
"""

FIELDS = {
    "contents": (types.Content, True),
    "systemInstruction": (types.Content, False),
    "tools": (types.Tool, True),
    "toolConfig": (types.ToolConfig, False),
    "generationConfig": (types.GenerationConfig, False),
}


def call(number, signature=None, **more):
    part = {"functionCall": {"name": "echo", "args": {"text": f"hello {number}"}, **more}}
    return {**part, "thoughtSignature": signature} if signature else part


ANSWERS = [
    [{"text": "hm", "thought": True}, {"text": "Let me try."}, call(1, "c2lnMQ=="), call(2)],
    [call(3, "c2lnMg==", id="own")],
    [{"text": "Hello.", "thoughtSignature": "c2lnMw=="}],
]


def answer(parts, end):
    candidate = {"content": {"role": "model", "parts": parts}, "index": 0}
    body = {"candidates": [candidate], "modelVersion": "gemini-3-pro", "responseId": "r"}
    if end:
        candidate["finishReason"] = "STOP"
        body["usageMetadata"] = {"promptTokenCount": 5, "candidatesTokenCount": 3, "thoughtsTokenCount": 2, "totalTokenCount": 10}
    types.GenerateContentResponse.model_validate(body)
    return body


def problems(request):
    found = [f"unknown field {field}" for field in request if field not in FIELDS]
    for field, (judge, several) in FIELDS.items():
        values = request.get(field, [] if several else None)
        for value in values if several else [values] * (values is not None):
            try:
                judge.model_validate(value)
            except ValidationError as error:
                found += [f"{field}.{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()[:9]]
    return found


class Model(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.seen.append((self.path, body))
        number = len(self.server.seen)
        parts = ANSWERS[min(number, len(ANSWERS)) - 1]
        if self.path.endswith(":streamGenerateContent?alt=sse"):
            chunks = [answer([part], at + 1 == len(parts)) for at, part in enumerate(parts)]
            kind, data = "text/event-stream", "".join(f"data: {json.dumps(chunk)}\r\n\r\n" for chunk in chunks)
        else:
            kind, data = "application/json", json.dumps(answer(parts, True))
        data = data.encode()
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
