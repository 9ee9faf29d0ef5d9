"""Lets npm's `@copilotkit/aimock` play and break the models of all providers, and holds what `unfazed run` makes of it against what was played.

    npm install --prefix npm @copilotkit/aimock@1.43.0
    python3 tests/aimock/judge.py npm/node_modules/.bin/llmock target/release/unfazed

It is the only partner with Bedrock's binary frames and Azure's deployments. Each scenario is played by itself, with every provider,
streamed or whole. It holds if the run ends as it should, says what the model said, and has made as many requests as it should; if
each request is one that the partner took for the conversation that it is; and if the results of tools were in the last one. The quickstart's
agent is played too: what is done about all that goes wrong is what is done with the scripted model.
"""

import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import order_desk  # noqa: E402
from partner import call, serve  # noqa: E402

POLICY = """version: 1
models:
  "*":
    retry:
      max_attempts: 4
      backoff: {kind: constant, delay: 20ms, jitter: none}
      server_delay: {mode: floor, max: 2s, above_max: give_up}
      attempt_timeout: 8s
    timeouts: {first_token: 2s, idle: 2s}
tools:
  "*": {retry: {backoff: {kind: constant, delay: 0s}}}
"""

AGENT = """version: 1
task: What does the lamp cost?
system: Be brief.
policy: policy.yaml
models:
  m: {{api: {api}, base_url: "{base}", api_key: {{env: JUDGE_KEY}}, stream: {stream}, {more}}}
tools:
  echo: {{kind: builtin}}
"""

# The name of each API, what stands behind the address, and its further keys.
PROVIDERS = {
    "openai": ("/v1", "model: gpt-4o, ask_window: false"),
    "azure": ("", "model: my-gpt, api_version: '2024-10-21'"),
    "responses": ("/v1", "model: gpt-5, ask_window: false"),
    "anthropic": ("", "model: claude-sonnet-4-5, ask_window: false"),
    "gemini": ("", "model: gemini-2.5-pro, ask_window: false"),
    "bedrock": ("", 'model: "anthropic.claude-sonnet-4-5-20250929-v1:0", region: us-east-1'),
}

# Streamed, and whole. What breaks before an answer begins is the same on both.
WAYS = (True, False)
PRICE = "The lamp costs 12.50."
CALLS = {"toolCalls": [{"name": "echo", "arguments": '{"text": "lamp: 12.50"}'}, {"name": "echo", "arguments": '{"text": "shade"}'}]}
FIRST, LATER = {"hasToolResult": False}, {"hasToolResult": True}


def fixture(response, match=FIRST, **more):
    return {"match": match, "response": response, **more}


def once(response, at=0, **more):
    return fixture(response, {**FIRST, "sequenceIndex": at}, **more)


def error(status, kind, message="no"):
    return {"error": {"message": message, "type": kind}, "status": status}


SAID = fixture({"content": PRICE})


def scenarios():
    """Name, fixtures, whether the run ends well, how many requests there are, and which ways it is played: streamed, whole."""
    yield "an answer", [SAID], True, 1, WAYS
    yield "calls, their results, and an answer", [fixture(CALLS), fixture({"content": PRICE}, LATER)], True, 2, WAYS
    yield "thoughts, calls, and an answer", [fixture({**CALLS, "content": "Let me look.", "reasoning": "First the price."}), fixture({"content": PRICE}, LATER)], True, 2, WAYS
    yield "a rate limit", [once(error(429, "rate_limit_error", "slow down")), SAID], True, 2, WAYS[:1]
    yield "an outage of two requests", [once(error(503, "overloaded_error"), 0), once(error(500, "api_error"), 1), SAID], True, 3, WAYS[1:]
    yield "an outage that does not end", [fixture(error(503, "overloaded_error"))], False, 4, WAYS[:1]
    yield "a key that is refused", [fixture(error(401, "authentication_error"))], False, 1, WAYS[1:]
    yield "a request that is refused", [fixture(error(400, "invalid_request_error", "the tools are wrong"))], False, 1, WAYS[:1]
    yield "a stream that is cut", [once({"content": PRICE}, truncateAfterChunks=2, chunkSize=4), SAID], True, 2, WAYS[:1]
    yield "a body that is no JSON", [once({"content": PRICE}, chaos={"malformedRate": 1}), SAID], True, 2, WAYS
    yield "a connection that is lost", [once({"content": PRICE}, chaos={"disconnectRate": 1}), SAID], True, 2, WAYS[:1]
    yield "a request that is dropped", [once({"content": PRICE}, chaos={"dropRate": 1}), SAID], True, 2, WAYS[1:]
    yield "a limit out of chaos", [once({"content": PRICE}, chaos={"rateLimitRate": 1}), SAID], True, 2, WAYS[:1]


def start(aimock, folder):
    # It wants a fixture to begin with.
    first = os.path.join(folder, "first.json")
    with open(first, "w", encoding="utf-8") as file:
        json.dump({"fixtures": [SAID]}, file)
    aimock = os.path.realpath(aimock)
    return serve(lambda port: ["node", aimock, "-h", "127.0.0.1", "-p", str(port), "-f", first, "--log-level", "silent"], "/__aimock/health")


def play(unfazed, base, provider, streamed, fixtures):
    call(base, "POST", "/__aimock/reset")
    call(base, "POST", "/__aimock/fixtures", {"fixtures": fixtures})
    path, more = PROVIDERS[provider]
    with tempfile.TemporaryDirectory() as folder:
        agent = AGENT.format(api=provider, base=base + path, stream=str(streamed).lower(), more=more)
        for name, text in (("policy.yaml", POLICY), ("agent.yaml", agent)):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)
        run = subprocess.run(
            [unfazed, "run", "agent.yaml", "--format", "json"],
            cwd=folder,
            env={"PATH": os.environ["PATH"], "HOME": folder, "JUDGE_KEY": "sk-judge", "NO_COLOR": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )
    journal = call(base, "GET", "/__aimock/journal")
    return run, journal


def wrong_with(run, entries, fixtures, ends, expected):
    """What does not hold."""
    if (run.returncode == 0) != ends:
        yield f"the run ended with {run.returncode}"
    if ends and PRICE not in run.stdout:
        yield "the run does not say what the model said"
    results = [json.loads(line).get("outcome") for line in run.stdout.splitlines()[-1:]]
    if "First the price." in json.dumps(results):
        yield "what the model thought is a part of what it said"
    if len(entries) != expected:
        yield f"{len(entries)} requests were made and not {expected}"
    if ends and any(entry["match"] == LATER for entry in fixtures):
        # As the partner read it, whatever the dialect.
        last = json.dumps([entry.get("body") for entry in entries[-1:]])
        missing = [part for part in ("lamp: 12.50", "shade", "Be brief.") if part not in last]
        if missing:
            yield f"the last request has no {missing}: {last[:900]}"


def desk(unfazed, base, provider, streamed, story):
    """What is wrong with the quickstart's agent."""
    answers = [error(429, "rate_limit_error", "slow down")]
    for text, made in order_desk.STORY:
        calls = {"toolCalls": [{"name": made[0], "arguments": json.dumps(made[1])}]} if made else {}
        answers.append({**({"content": text} if text else {}), **calls})
    call(base, "POST", "/__aimock/reset")
    call(base, "POST", "/__aimock/fixtures", {"fixtures": [fixture(answer, {"sequenceIndex": at}) for at, answer in enumerate(answers)]})
    path, more = PROVIDERS[provider]
    clerk = f'{{api: {provider}, base_url: "{base}{path}", api_key: {{env: JUDGE_KEY}}, stream: {str(streamed).lower()}, {more}}}'
    yield from order_desk.differs(story, *order_desk.play(unfazed, clerk))
    entries = call(base, "GET", "/__aimock/journal")
    if len(entries) != order_desk.REQUESTS:
        yield f"{len(entries)} requests were made and not {order_desk.REQUESTS}"
    last = json.dumps([entry.get("body") for entry in entries[-1:]])
    for part in ("connection refused", "switched off", "unit_price", "The report was not accepted"):
        if part not in last:
            yield f"the last request has no {part}: {last[:900]}"


def judge(aimock, unfazed, providers, story):
    """All scenarios of some providers, by a partner of their own."""
    played, desks, told = 0, 0, []
    with tempfile.TemporaryDirectory() as folder:
        server, base = start(aimock, folder)
        try:
            for provider in providers:
                for streamed in WAYS:
                    desks += 1
                    wrong = list(desk(unfazed, base, provider, streamed, story))
                    if wrong:
                        told += [f"FAILED {provider}, {'streamed' if streamed else 'whole'}: the quickstart's agent", *(f"  {why}" for why in wrong)]
                for name, fixtures, ends, expected, ways in scenarios():
                    for streamed in ways:
                        played += 1
                        run, entries = play(unfazed, base, provider, streamed, fixtures)
                        wrong = list(wrong_with(run, entries, fixtures, ends, expected))
                        if wrong:
                            told.append(f"FAILED {provider}, {'streamed' if streamed else 'whole'}: {name}")
                            told += [f"  {why}" for why in wrong]
                            told.append("  " + run.stderr.strip()[-600:])
        finally:
            server.terminate()
            server.wait()
    return played, desks, told


def main():
    aimock, unfazed = sys.argv[1], os.path.abspath(sys.argv[2])
    providers = sys.argv[3:] or list(PROVIDERS)
    halves = [half for half in (providers[::2], providers[1::2]) if half]
    story, _ = order_desk.play(unfazed)
    with ThreadPoolExecutor() as pool:
        results = list(pool.map(lambda half: judge(aimock, unfazed, half, story), halves))
    told = [line for _, _, lines in results for line in lines]
    played, desks = (sum(result[at] for result in results) for at in (0, 1))
    wrong = sum(line.startswith("FAILED") for line in told)
    print("\n".join(told + [f"aimock: {played} scenarios and {desks} times the quickstart's agent, {wrong} with errors"]))
    sys.exit(1 if told else 0)


if __name__ == "__main__":
    main()
