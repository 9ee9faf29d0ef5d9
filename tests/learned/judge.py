"""Lets the types of the official SDKs judge requests whose form a refusal has changed, and those of the last turn.

    python3 -m venv venv && venv/bin/pip install openai==3.54.0 anthropic==2.14.0 google-genai==3.6.1 botocore==1.44.8
    venv/bin/python tests/learned/judge.py target/release/unfazed

A model of each dialect refuses options, roles, ids, pictures, reasoning and the demand for a call, each in the words of its provider,
until none of it is sent. Each refused thing may be sent once. Then it calls tools and reports in the last turn, which demands that, or
answers there, where it may call none. Nothing is refused in other runs, so that what the last turn demands is seen. One of them has an
answer that pauses.
"""

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "dialects"))
import refusals  # noqa: E402
from dialects import AZURE, CHAT, CONVERSE, GEMINI, MESSAGES, RESPONSES, THINKING, Dialect, judged, refusing, streams  # noqa: E402
from played import ATTACHED, run, serving  # noqa: E402

TURNS = 3
SCHEMA = {"type": "object", "properties": {"said": {"type": "string"}}, "required": ["said"], "additionalProperties": False}
REPORT = {"tool": "final_report", "schema": SCHEMA}
NAMED = {"name": "final_report"}


def paused(number, streamed, reports=False):
    """Answers of Claude, which stops between the steps of its own tools first: the client sends what there is of the answer back."""
    if number > 1:
        return MESSAGES.answer(number - 1, streamed, reports)
    kind, data = MESSAGES.answer(TURNS, streamed)
    return kind, data.replace(b'"end_turn"', b'"pause_turn"')


PAUSED = replace(MESSAGES, name="paused", answer=paused)


@dataclass
class Play:
    dialect: Dialect
    # What the agent's file says of the model beside.
    more: dict
    # How the last turn demands the report; `None`: it cannot.
    demand: dict | None
    refused: list
    streamed: bool = True
    reports: bool = True
    # What was refused, in the order of the requests.
    said: list = field(default_factory=list)


# Fields that the types do not have. Compatible servers of chat completions take back what their models thought; Anthropic's version of
# 2026-10-21, whose types these are, has no temperature, and that of 2023-06-01, which is asked for, has one.
BEYOND = {"chat": {"reasoning_content"}, "messages": {"temperature"}}
PLAIN = {"extra": {"temperature": 0.5}}
SET = {"inferenceConfig": {"topP": 0.5, "temperature": 0.5}}
GENERATION = {"presencePenalty": 1, "seed": 1, "thinkingConfig": {"includeThoughts": True}}
CHOICE = {"type": "function", "function": NAMED}
ANY = {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["final_report"]}}
PLAYS = [
    (CHAT, {"extra": {"stop": ["x"], "seed": 1}}, CHOICE, refusals.CHAT),
    (CHAT, {"model": "deepseek-chat"}, CHOICE, refusals.DEEPSEEK),
    (AZURE, {"extra": {"parallel_tool_calls": True}}, CHOICE, refusals.AZURE),
    (RESPONSES, {"extra": {"reasoning": {"effort": "low", "summary": "auto"}, "top_p": 0.5}}, {"type": "function", **NAMED}, refusals.RESPONSES),
    (RESPONSES, {"auto_previous_response_id": True}, {"type": "function", **NAMED}, refusals.CONTINUED),
    (MESSAGES, {"extra": THINKING}, None, refusals.THINKING),
    (MESSAGES, PLAIN, {"type": "tool", **NAMED}, refusals.MESSAGES),
    (PAUSED, {}, None, []),
    (GEMINI, {"extra": {"generationConfig": GENERATION}}, ANY, refusals.GEMINI),
    (CONVERSE, {"extra": {"additionalModelRequestFields": THINKING}}, None, refusals.CONVERSE_THINKING),
    (CONVERSE, {"extra": SET}, {"tool": NAMED}, refusals.CONVERSE),
    (CONVERSE, {"model": "us.amazon.nova-pro-v1:0", "extra": {}}, {"tool": NAMED}, refusals.NOVA),
]


def demanded(body):
    """How a request says which tool is to be called."""
    of_bedrock = body.get("toolConfig", {}).get("toolChoice")
    return body.get("tool_choice") or of_bedrock or (body.get("toolConfig") if "contents" in body else None)


def played(unfazed, play):
    """The requests of a run."""
    seen, answered = [], []

    def reply(request):
        seen.append(request)
        for refusal in play.refused:
            if refusal.sends(request.body):
                play.said.append(refusal.name)
                return refusing(400, play.dialect.error(refusal.says, refusal.param, refusal.code))
        answered.append(request)
        return (200, *play.dialect.answer(len(answered), streams(request), play.reports))

    with serving(reply) as address:
        model = play.dialect.entry(address, stream=play.streamed, **play.more)
        agent = {"system": "Be brief.", "models": {"m": model}, "tools": {"echo": {"kind": "builtin"}}}
        policy = {"turn": {"max_turns": TURNS}, **({"output": REPORT} if play.reports else {})}
        ended, _ = run(unfazed, agent, policy, ATTACHED)
    if ended.returncode or len(answered) != TURNS + (play.dialect is PAUSED):
        sys.exit(f"{name(play)}: the run ended with {ended.returncode} after {len(seen)} requests, refused {play.said}\n{ended.stdout}{ended.stderr}")
    return seen


def name(play):
    return f"{play.dialect.name} with {play.more}, streamed {play.streamed}, reports {play.reports}, refuses {bool(play.refused)}"


def wrong(unfazed, play):
    """How many requests were judged, and what is wrong with them."""
    seen, found = played(unfazed, play), []
    for request in seen:
        found += judged(play.dialect, request, BEYOND.get(play.dialect.name, frozenset()))
    due = [refusal.name for refusal in play.refused if play.streamed or not refusal.name.startswith("stream")]
    if sorted(play.said) != sorted(due):
        found.append(f"refused are {play.said}, and each of {due} had to be once")
    last, is_refused = demanded(seen[-1].body), any(refusal.name == "a demand" for refusal in play.refused)
    if play.reports and last != (None if is_refused else play.demand):
        found.append(f"the last turn demands {last}")
    return len(seen), [f"{name(play)}: {why}" for why in found]


def main():
    unfazed = os.path.abspath(sys.argv[1])
    plays = [Play(*play, streamed) for play in PLAYS for streamed in (True, False)]
    plays += [Play(*play[:3], []) for play in PLAYS] + [Play(*play[:3], [], reports=False) for play in PLAYS]
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda play: wrong(unfazed, play), plays))
    found = [why for _, wrong in results for why in wrong]
    if found:
        sys.exit("\n".join(found))
    print(f"{sum(judged for judged, _ in results)} requests of {len(plays)} runs are judged by the SDKs' types")


if __name__ == "__main__":
    main()
