"""Lets the types of the official SDKs judge what `unfazed serve` sends to a model that speaks another dialect than the client.

    python3 -m venv venv && venv/bin/pip install openai==3.54.0 anthropic==2.14.0 google-genai==3.6.1 botocore==1.44.8
    venv/bin/python tests/converted/gateway.py target/release/unfazed

A client of each dialect has a conversation with calls, results, pictures and documents, and says one option after the other, whole and
streamed, and has others with little in them. Its requests are held against the types, too. No option may keep a request from a model: what a dialect does not have is left out.
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "dialects"))
from asked import asked  # noqa: E402
from dialects import CHAT, CONVERSE, FIVE, GEMINI, MESSAGES, RESPONSES, judged, streams  # noqa: E402
from edges import EDGES, ELSEWHERE  # noqa: E402
from played import KEY, Request, serving  # noqa: E402

CLIENTS = [CHAT, RESPONSES, MESSAGES, GEMINI]
# `dialects.py` says why the types have no such fields: Anthropic's older version has them.
BEYOND = {"messages": {"temperature", "top_p", "top_k"}}


@contextlib.contextmanager
def gateway(unfazed, address):
    """The address of a gateway that has a route to a model of each dialect."""
    models = {dialect.name: dialect.entry(f"{address}/{dialect.name}") for dialect in FIVE}
    for model in models.values():
        # What clients say is judged, and not what the file says.
        model.pop("extra", None)
        model.pop("ask_window", None)
    routes = {dialect.name: dialect.name for dialect in FIVE}
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "gateway.yaml"), "w", encoding="utf-8") as file:
            json.dump({"version": 1, "models": models, "routes": routes}, file)
        environment = {"PATH": os.environ["PATH"], "HOME": folder, "JUDGE_KEY": KEY}
        command = [unfazed, "serve", "gateway.yaml", "--addr", "127.0.0.1:0"]
        with subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True) as server:
            try:
                yield server.stderr.readline().removeprefix("serves  ").strip()
            finally:
                server.terminate()


def path_of(client, model, streamed):
    paths = {"chat": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages"}
    verb = "streamGenerateContent?alt=sse" if streamed else "generateContent"
    return paths.get(client.name, f"/v1beta/models/{model}:{verb}")


def ask(base, path, body):
    """The status of the answer, and the answer."""
    headers = {"content-type": "application/json", "anthropic-version": "2023-06-01"}
    request = urllib.request.Request(base + path, data=json.dumps(body).encode(), headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def bodies(client, model):
    """What a client asks of a model, and how it is called in a message."""
    for options, body in asked(client.name, documents=model is not CONVERSE):
        yield json.dumps(options), body
    for body in [*EDGES[client.name], *(ELSEWHERE[client.name] if model is not CONVERSE else [])]:
        yield json.dumps(body)[:300], dict(body)


def wrong(base, seen, client, model, streamed):
    """What is wrong with each request of a client for a model."""
    for called, body in bodies(client, model):
        if client is not GEMINI:
            body |= {"model": model.name, "stream": streamed}
        path, found = path_of(client, model.name, streamed), []
        # The settings of what is harmful are Gemini's alone, and in no request of the command.
        own = Request(path, {}, {name: value for name, value in body.items() if name != "safetySettings"})
        found += [f"the client sends {why}" for why in judged(client, own, BEYOND.get(client.name, frozenset()))]
        seen.clear()
        status, answer = ask(base, path, body)
        if status != 200 or len(seen) != 1:
            found.append(f"{status} after {len(seen)} requests: {answer[:300]}")
        for request in seen:
            found += judged(model, request, BEYOND.get(model.name, frozenset()))
            calls, results = model.pairs(request.body)
            # A conversation with options has two calls at least.
            if calls != results or (body.get("tools") and "hello 2" in json.dumps(body) and len(calls) < 2):
                found.append(f"the calls are {calls}, and the results {results}")
        yield [f"{client.name} to {model.name}, streamed {streamed}, {called}: {why}" for why in found]


def main():
    unfazed = os.path.abspath(sys.argv[1])
    seen, models = [], {dialect.name: dialect for dialect in FIVE}

    def reply(request):
        seen.append(request)
        return (200, *models[request.path.split("/")[1]].answer(3, streams(request)))

    plays = [(client, model, streamed) for client in CLIENTS for model in FIVE if client is not model for streamed in (True, False)]
    with serving(reply) as address, gateway(unfazed, address) as base:
        results = [found for play in plays for found in wrong(base, seen, *play)]
    found = [why for found in results for why in found]
    if found:
        sys.exit("\n".join(found))
    print(f"{len(results)} converted requests are judged by the SDKs' types")


if __name__ == "__main__":
    main()
