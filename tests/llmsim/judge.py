"""Lets crates.io's `llmsim` play the model of the quickstart's agent, and holds what `unfazed run` does against what it does with the scripted model.

    cargo install llmsim@0.6.0 --locked
    python3 tests/llmsim/judge.py llmsim target/release/unfazed

It speaks chat completions, and messages that are whole: as a stream of messages its script is text alone, its Responses take no call
back, and it has none of the other dialects.
"""

import json
import os
import sys
import tempfile

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import order_desk  # noqa: E402
from partner import call, serve  # noqa: E402

CONFIG = """[response]
script_path = "{script}"
[latency]
profile = "instant"
"""
# What stands behind the address, the model, and which ways it is played: streamed, whole.
PROVIDERS = {
    "openai": ("/openai/v1", "gpt-4o", (True, False)),
    "anthropic": ("/anthropic", "claude-sonnet-4-5", (False,)),
}


def turns():
    """The script: an error first, and nothing once it is at its end."""
    yield {"type": "error", "kind": "rate_limit"}
    for text, made in order_desk.STORY:
        calls = [{"name": made[0], "arguments": made[1]}] if made else []
        kind = "mixed" if text and calls else "tool_calls" if calls else "assistant"
        yield {"type": kind, **({"text": text} if text else {}), **({"calls": calls} if calls else {})}


def play(llmsim, unfazed, provider, streamed, story):
    """What is wrong. A server plays its script once."""
    path, model, _ = PROVIDERS[provider]
    with tempfile.TemporaryDirectory() as folder:
        script, config = (os.path.join(folder, name) for name in ("script.json", "config.toml"))
        with open(script, "w", encoding="utf-8") as file:
            json.dump({"on_exhausted": "error", "turns": list(turns())}, file)
        with open(config, "w", encoding="utf-8") as file:
            file.write(CONFIG.format(script=script))
        server, base = serve(lambda port: [llmsim, "serve", "--config", config, "--host", "127.0.0.1", "--port", str(port)], "/llmsim/stats")
        try:
            clerk = f'{{api: {provider}, base_url: "{base}{path}", model: {model}, stream: {str(streamed).lower()}, ask_window: false}}'
            yield from order_desk.differs(story, *order_desk.play(unfazed, clerk))
            requests = call(base, "GET", "/llmsim/stats")["total_requests"]
        finally:
            server.terminate()
            server.wait()
    if requests != order_desk.REQUESTS:
        yield f"{requests} requests were made and not {order_desk.REQUESTS}"


def main():
    llmsim, unfazed = sys.argv[1], os.path.abspath(sys.argv[2])
    story, _ = order_desk.play(unfazed)
    played = wrong = 0
    for provider, (_, _, ways) in PROVIDERS.items():
        for streamed in ways:
            played += 1
            found = list(play(llmsim, unfazed, provider, streamed, story))
            if found:
                wrong += 1
                print(f"FAILED {provider}, {'streamed' if streamed else 'whole'}", *found, sep="\n  ")
    print(f"llmsim: {played} times the quickstart's agent, {wrong} with errors")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
