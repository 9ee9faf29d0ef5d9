"""Lets the types of OpenAI's SDK judge what `unfazed run` sends to the Responses API.

    python3 -m venv venv && venv/bin/pip install openai==3.54.0
    venv/bin/python tests/openai/judge.py target/release/unfazed

A server plays a model that reasons, calls a tool and answers, whole and streamed. Its own answers are held against the
types too, so that what is judged is what follows from true ones.
"""

import base64
import copy
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

from openai.types.responses import Response, ResponseStreamEvent
from openai.types.responses.response_create_params import ResponseCreateParams
from pydantic import TypeAdapter, ValidationError

ATTACHED = {"photo.png": b"\x89PNG\r\n\x1a\nphoto", "report.pdf": b"%PDF-1.7 report"}
AGENT = """version: 1
system: Be brief.
task: Say hello.
models:
  m: {{api: responses, base_url: "{base}", model: gpt-5, stream: {stream}, max_tokens: 500, ask_window: false, extra: {{reasoning: {{effort: low}}}}}}
tools:
  echo: {{kind: builtin}}
"""


def reasoning(number):
    return {"type": "reasoning", "id": f"rs_{number}", "summary": [], "encrypted_content": "c2VhbGVk"}


def message(number, phase, text):
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed", "phase": phase, "content": [part]}


def call(number):
    arguments = json.dumps({"text": f"hello {number}"})
    return {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "name": "echo", "arguments": arguments, "status": "completed"}


ANSWERS = [
    [reasoning(1), message(1, "commentary", "Let me try."), call(1), call(2)],
    [call(3)],
    [reasoning(2), message(2, "final_answer", "Hello.")],
]


def response(number, output, status="completed"):
    usage = {
        "input_tokens": 5, "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": 5, "output_tokens_details": {"reasoning_tokens": 2}, "total_tokens": 10,
    }
    return {
        "id": f"resp_{number}", "object": "response", "created_at": 0, "model": "gpt-5", "status": status,
        "output": output, "parallel_tool_calls": True, "tool_choice": "auto", "tools": [],
        "usage": usage if output else None,
    }


def events(number, output):
    yield {"type": "response.created", "response": response(number, [], "in_progress")}
    for at, item in enumerate(output):
        place = {"output_index": at, "item_id": item["id"]}
        begun = {**item, "status": "in_progress"}
        if item["type"] == "message":
            text = item["content"][0]["text"]
            place["content_index"] = 0
            yield {"type": "response.output_item.added", "output_index": at, "item": {**begun, "content": []}}
            for piece in (text[:4], text[4:]):
                yield {"type": "response.output_text.delta", **place, "delta": piece, "logprobs": []}
            yield {"type": "response.output_text.done", **place, "text": text, "logprobs": []}
        elif item["type"] == "function_call":
            yield {"type": "response.output_item.added", "output_index": at, "item": {**begun, "arguments": ""}}
            yield {"type": "response.function_call_arguments.delta", **place, "delta": item["arguments"]}
            yield {"type": "response.function_call_arguments.done", **place, "arguments": item["arguments"], "name": item["name"]}
        else:
            yield {"type": "response.output_item.added", "output_index": at, "item": begun}
        yield {"type": "response.output_item.done", "output_index": at, "item": item}
    yield {"type": "response.completed", "response": response(number, output)}


def consume(value):
    """Iterables are validated when they are read."""
    if isinstance(value, dict):
        for field in value.values():
            consume(field)
    elif isinstance(value, (list, tuple, Iterator)) or type(value).__name__ == "ValidatorIterator":
        for item in value:
            consume(item)


def problems(adapter, value):
    try:
        consume(adapter.validate_python(value, strict=True))
    except ValidationError as error:
        return [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()[:20]]
    return []


REQUEST, EVENT = TypeAdapter(ResponseCreateParams), TypeAdapter(ResponseStreamEvent)


class Model(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.seen.append(body)
        number = len(self.server.seen)
        output = ANSWERS[min(number, len(ANSWERS)) - 1]
        if body.get("stream"):
            stream = [{**event, "sequence_number": at} for at, event in enumerate(events(number, output))]
            for event in stream:
                EVENT.validate_python(event)
            kind, data = "text/event-stream", "".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in stream)
        else:
            kind, data = "application/json", json.dumps(Response.model_validate(response(number, output)).to_dict())
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
            base = f"http://127.0.0.1:{server.server_port}/v1"
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
    return server.seen


def main():
    unfazed = os.path.abspath(sys.argv[1])
    judged = wrong = 0
    for streamed in (True, False):
        for request in play(unfazed, streamed):
            judged += 1
            found = problems(REQUEST, request)
            if found:
                wrong += 1
                print(json.dumps(request), *found, sep="\n  ")
    missing = [name for name, content in ATTACHED.items() if base64.b64encode(content).decode() not in json.dumps(request)]
    if missing:
        sys.exit(f"the model is not shown {missing}: {json.dumps(request)}")
    # A judge has to find what is wrong with a broken request.
    for breaks in (
        lambda body: body["tools"][0].pop("strict"),
        lambda body: body["input"][-1].update(output=7),
        lambda body: body.update(store="no"),
        lambda body: body["input"][2].pop("summary"),
    ):
        broken = copy.deepcopy(request)
        breaks(broken)
        if not problems(REQUEST, broken):
            sys.exit(f"a broken request is not found: {json.dumps(broken)}")
    items = request["input"]
    if [item.get("id") for item in items[2:5]] != ["rs_1", "msg_1", "fc_1"]:
        sys.exit(f"the items do not go back as they came: {json.dumps(items)}")
    print(f"openai: {judged} requests, {wrong} with errors")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
