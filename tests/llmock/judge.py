"""Lets PyPI's `llmock` break models, and judge what `unfazed run` makes of it.

    python3 -m venv venv && venv/bin/pip install llmock==0.2.2
    venv/bin/python tests/llmock/judge.py venv/bin/llmock target/release/unfazed

Each scenario is played by itself, with every provider, with streams and without where it makes a difference. It holds if
the judge finds no error in how the client behaved, the run ends as it should, and as many requests were made as should be.
The quickstart's agent is played too: what is done about all that goes wrong is what is done with the scripted model.
"""

import os
import subprocess
import sys
import tempfile

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import order_desk  # noqa: E402
from partner import call, serve  # noqa: E402

POLICY = """version: 1
models:
  "*":
    retry:
      max_attempts: 4
      backoff: {kind: exponential, base: 50ms, factor: 2, cap: 400ms, jitter: none}
      server_delay: {mode: floor, max: 1m, above_max: give_up}
      attempt_timeout: 8s
    timeouts: {first_token: 1s, idle: 500ms}
tools:
  "*": {retry: {backoff: {kind: constant, delay: 0s}}}
"""

AGENT = """version: 1
task: What is the price?
policy: policy.yaml
models:
  m: {{api: {api}, base_url: "{base}", model: {model}, stream: {stream}, ask_window: false, api_key: {{env: JUDGE_KEY}}}}
"""

TOOLS = """tools:
  echo: {kind: builtin}
"""

PROVIDERS = {
    "openai": ("gpt-4o-mini", "/v1"),
    "anthropic": ("claude-sonnet-4-5", "/anthropic"),
    "responses": ("gpt-4o-mini", "/v1"),
    "gemini": ("gemini-2.5-pro", "/gemini"),
}

GOOD, FAILED = 0, "failed"


def fail(status, times=1, **more):
    return {"type": "fail", "status": status, "times": times, **more}


def stream(kind, **more):
    return {"type": "stream_fault", "kind": kind, "after_chunks": 2, **more}


def scenarios():
    """Name, what goes wrong, how the run ends, how many requests there are, whether it needs a stream or tools."""
    yield "a wait that is asked for", [fail(429, 2, retry_after=0.4)], GOOD, 3, {}
    yield "a wait beyond the policy", [fail(429, None, retry_after=3600)], FAILED, 1, {}
    for status in (408, 500, 502, 503, 504, 529):
        yield f"status {status} twice", [fail(status, 2)], GOOD, 3, {}
    yield "an outage that does not end", [fail(503, None)], FAILED, 4, {}
    for status in (400, 401, 403, 404, 422):
        yield f"status {status}", [fail(status, None)], FAILED, 1, {}
    yield "a quota that is used up", [fail(429, None, code="insufficient_quota", message="You exceeded your current quota")], FAILED, 1, {"only": "openai"}
    for kind in ("disconnect", "truncate", "malformed"):
        yield f"a stream with {kind}", [stream(kind)], GOOD, 2, {"stream": True}
    yield "a stream that stalls", [stream("stall", stall_seconds=5)], GOOD, 2, {"stream": True}
    yield "a first token that is late", [{"type": "slow_first_token", "seconds": 5}], GOOD, 2, {"stream": True}
    yield "arguments that are no JSON", [{"type": "tool_fault", "kind": "malformed_arguments"}], GOOD, None, {"tools": True}
    yield "a tool nobody offered", [{"type": "tool_fault", "kind": "unknown_tool"}], GOOD, None, {"tools": True}


def start(llmock):
    return serve(lambda port: [llmock, "serve", "--host", "127.0.0.1", "--port", str(port), "--log-level", "warning"], "/_llmock/scenario")


def play(unfazed, base, provider, streamed, behaviors, tools):
    model, path = PROVIDERS[provider]
    call(base, "POST", "/_llmock/reset")
    call(base, "POST", "/_llmock/scenario", {"behaviors": behaviors})
    with tempfile.TemporaryDirectory() as folder:
        agent = AGENT.format(api=provider, base=base + path, model=model, stream=str(streamed).lower())
        for name, text in (("policy.yaml", POLICY), ("agent.yaml", agent + (TOOLS if tools else ""))):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)
        run = subprocess.run(
            [unfazed, "run", "agent.yaml", "--format", "json"],
            cwd=folder,
            env={**os.environ, "JUDGE_KEY": "sk-judge", "NO_COLOR": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
        )
    verdict = call(base, "GET", "/_llmock/verdict")
    requests = call(base, "GET", "/_llmock/requests")["count"]
    return run, verdict, requests


def desk(unfazed, base, provider, streamed, story):
    """What is wrong with the quickstart's agent."""
    model, path = PROVIDERS[provider]
    said = [{"type": "reply", "text": text or None, "tool_calls": [{"name": made[0], "arguments": made[1]}] if made else []} for text, made in order_desk.STORY]
    call(base, "POST", "/_llmock/reset")
    call(base, "POST", "/_llmock/scenario", {"behaviors": [fail(429, retry_after=0.4), *said]})
    clerk = f'{{api: {provider}, base_url: "{base}{path}", model: {model}, stream: {str(streamed).lower()}, ask_window: false, api_key: {{env: JUDGE_KEY}}}}'
    found = list(order_desk.differs(story, *order_desk.play(unfazed, clerk)))
    verdict = call(base, "GET", "/_llmock/verdict")
    found += [f"{one['code']}: {one['title']}" for one in verdict["findings"] if one["severity"] == "error"]
    requests = call(base, "GET", "/_llmock/requests")["count"]
    return found + [f"{requests} requests and not {order_desk.REQUESTS}"] * (requests != order_desk.REQUESTS)


def main():
    llmock, unfazed = sys.argv[1], os.path.abspath(sys.argv[2])
    providers = sys.argv[3:] or list(PROVIDERS)
    server, base = start(llmock)
    played = wrong = 0
    desks, (story, _) = 0, order_desk.play(unfazed)
    try:
        for provider in providers:
            for streamed in (True, False):
                desks += 1
                for problem in desk(unfazed, base, provider, streamed, story):
                    wrong += 1
                    print(f"FAILED {provider}, {'streamed' if streamed else 'whole'}: the quickstart's agent\n  {problem}")
            for name, behaviors, end, expected, needs in scenarios():
                if needs.get("only", provider) != provider:
                    continue
                for streamed in (True,) if needs.get("stream") else (True, False):
                    played += 1
                    run, verdict, requests = play(unfazed, base, provider, streamed, behaviors, needs.get("tools"))
                    errors = [f for f in verdict["findings"] if f["severity"] == "error"]
                    ended = run.returncode == 0 if end == GOOD else run.returncode not in (0, 2, 130)
                    counted = expected is None or requests == expected
                    if errors or not ended or not counted:
                        wrong += 1
                        print(f"FAILED {provider}, {'streamed' if streamed else 'whole'}: {name}")
                        print(f"  exit code {run.returncode}, {requests} requests (expected {expected})")
                        for error in errors:
                            print(f"  {error['code']}: {error['title']}")
                        print("  " + run.stderr.strip().replace("\n", "\n  ")[-600:])
                        print("  " + run.stdout.strip()[-600:])
    finally:
        server.terminate()
        server.wait()
    print(f"llmock: {played} scenarios and {desks} times the quickstart's agent, {wrong} with errors")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
