"""Lets the types of the official SDKs judge a conversation that two models lead by turns, each of the five dialects with each other one.

    python3 -m venv venv && venv/bin/pip install openai==3.54.0 anthropic==2.14.0 google-genai==3.6.1 botocore==1.44.8
    venv/bin/python tests/converted/judge.py target/release/unfazed

The first model thinks and calls two tools, and is down at its next turn; the second one gets the conversation, calls a tool and is down
then, so that the first one gets it back, in the last turn, without tools. The task has a picture and a document, and so have
the results of the tool. Each request is held against the types of its own dialect.
"""

import base64
import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "dialects"))
from dialects import AZURE, CHAT, CONVERSE, FIVE, GEMINI, MESSAGES, STRANGE, judged, overlooked, refusing, streams  # noqa: E402
from picture import PICTURE  # noqa: E402
from played import ATTACHED, run, serving  # noqa: E402

# Who is asked, and which answer it gives; `None`: it is down.
TURNS = [("first", 1), ("first", None), ("second", 2), ("second", None), ("first", 3)]
POLICY = {"models": {"*": {"retry": {"max_attempts": 1}}}, "turn": {"max_turns": 3, "targets": {"fallback": "exhausted"}}}
SERVER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "dialects", "picture.py")
# Thoughts that a compatible server wrote go back to it.
BEYOND = {"reasoning_content"}
# What all that is signed or sealed begins with.
SEALS = ("c2ln", "c2VhbGVk")


def play(unfazed, first, second, streamed):
    """The requests of both models, in their order."""
    seen = []

    def reply(request):
        role, answer = TURNS[min(len(seen), len(TURNS) - 1)]
        seen.append(request)
        if not request.path.startswith(f"/{role}/"):
            return refusing(500, {"error": {"message": f"{role} had to be asked"}})
        dialect = {"first": first, "second": second}[role]
        return (200, *dialect.answer(answer, streams(request))) if answer else refusing(503, dialect.error("down"))

    with serving(reply) as address:
        models = {role: dialect.entry(f"{address}/{role}", stream=streamed) for role, dialect in (("first", first), ("second", second))}
        agent = {"system": "Be brief.", "models": models, "mcp": {"p": {"command": [sys.executable, "-IS", SERVER], "prefix": ""}}}
        ended, _ = run(unfazed, agent, POLICY, ATTACHED)
    asked = [request.path.split("/")[1] for request in seen]
    if ended.returncode or asked != [role for role, _ in TURNS]:
        sys.exit(f"{first.name} and {second.name}: the run ended with {ended.returncode} after {asked}\n{ended.stdout}{ended.stderr}")
    return seen


def incomplete(dialect, request, calls):
    """What of the conversation is missing in a request, or should be."""
    called, answered = dialect.pairs(request.body)
    text = json.dumps(request.body)
    if len(called) != calls or called != answered or (dialect is not GEMINI and len(set(called)) != calls):
        yield f"the calls are {called}, and the results {answered}"
    said = ["Be brief.", "Say hello.", *(f"hello {number + 1}" for number in range(calls))]
    yield from (f"`{part}` is missing" for part in said if part not in text)
    # Documents have rules of their own at Bedrock, and Azure takes none.
    shown = {"photo.png": ATTACHED["photo.png"], "the tool's picture": PICTURE}
    if dialect not in (CONVERSE, AZURE):
        shown["report.pdf"] = ATTACHED["report.pdf"]
    yield from (f"{name} is missing" for name, content in shown.items() if base64.b64encode(content).decode() not in text)


def wrong(first, second, seen):
    """What is wrong with the requests of one conversation."""
    for dialect, request in zip((first, first, second, second, first), seen, strict=True):
        yield from judged(dialect, request, BEYOND if dialect is first else frozenset())
    yield from incomplete(first, seen[1], 2)
    yield from incomplete(second, seen[2], 2)
    yield from incomplete(second, seen[3], 3)
    yield from incomplete(first, seen[4], 3)
    foreign = json.dumps(seen[2].body)
    if first is not STRANGE and "Let me try." not in foreign:
        yield "the text of the reply is missing"
    yield from (f"what another model sealed is sent: {seal}" for seal in SEALS if seal in foreign)


def judge(unfazed, first, second, streamed):
    seen = play(unfazed, first, second, streamed)
    return seen, [f"{first.name} and {second.name}: {why}" for why in wrong(first, second, seen)]


def main():
    unfazed = os.path.abspath(sys.argv[1])
    # Each dialect is streamed and whole, as the first one and as the second.
    pairs = [(one, other, (at + to) % 2 == 0) for at, one in enumerate(FIVE) for to, other in enumerate(FIVE) if one is not other]
    plays = pairs + [(STRANGE, second, False) for second in (*FIVE[1:], AZURE)] + [(CHAT, AZURE, True), (AZURE, MESSAGES, True)]
    with ThreadPoolExecutor(2) as pool:
        played = list(pool.map(lambda play: judge(unfazed, *play), plays))
    found = [why for _, wrong in played for why in wrong]
    # A judge has to find what is wrong with a broken request.
    found += [why for (first, *_), (seen, _) in zip(pairs[::4], played[::4]) for why in overlooked(first, seen[1], BEYOND)]
    if found:
        sys.exit("\n".join(found))
    print(f"{sum(len(seen) for seen, _ in played)} requests of {len(plays)} pairs of models are judged by the SDKs' types")


if __name__ == "__main__":
    main()
