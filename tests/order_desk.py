"""The agent of `examples/quickstart`, played by a partner in the place of the scripted model."""

import json
import os
import shutil
import subprocess
import tempfile

QUICKSTART = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "examples", "quickstart")
SCRIPTED = "{api: scripted, script: model.yaml}"
NOTE = "The exchange service was down; this is the house's rate."

# What the script says (`examples/quickstart/model.yaml`), behind the rate limit that it begins with: a text, and a call.
STORY = [
    ("Let me look up the price.", ("lookup_price", {"item": "desk lamp", "quantity": "twelve"})),
    ("", ("lookup_price", {"item": "desk lamp", "quantity": 12})),
    ("The price is in dollars. I need the rate.", ("exchange_rate", {"currency": "USD"})),
    ("Once more.", ("exchange_rate", {"currency": "USD"})),
    ("Then I take the house's own rate.", ("fixed_rate", {"currency": "USD"})),
    ("", ("calc", {"expression": "12 * 24.50 * 0.92"})),
    ("The order costs 270.48 euros.", None),
    ("", ("final_report", {"total_eur": "270.48 EUR", "rate": "monthly"})),
    ("", ("final_report", {"total_eur": 270.48, "rate": "fixed", "note": NOTE})),
]
REQUESTS = len(STORY) + 1

# Of what a run does, that which does not depend on who the model is.
TOLD = {
    "turn_retry": ("action", "error_type"),
    "run_tool": ("tool", "attempt", "arguments"),
    "refused": ("tool", "error_type"),
    "tool_ended": ("tool", "attempts", "error_type"),
    "breaker": ("tool", "state"),
    "reject_turn": ("error_type",),
    "output_refused": ("attempt", "max_attempts"),
    "finish": ("outcome",),
}


def play(unfazed, model=SCRIPTED, key="sk-judge"):
    """What is told of a run with that model, and the run."""
    with tempfile.TemporaryDirectory() as folder:
        desk = os.path.join(folder, "desk")
        shutil.copytree(QUICKSTART, desk, ignore=shutil.ignore_patterns(".unfazed"))
        agent = os.path.join(desk, "agent.yaml")
        with open(agent, encoding="utf-8") as file:
            text = file.read()
        assert SCRIPTED in text, text
        with open(agent, "w", encoding="utf-8") as file:
            file.write(text.replace(SCRIPTED, model))
        run = subprocess.run(
            [unfazed, "run", "agent.yaml", "--format", "json"],
            cwd=desk,
            env={"PATH": os.environ["PATH"], "HOME": folder, "JUDGE_KEY": key, "NO_COLOR": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=90,
        )
    lines = [json.loads(line) for line in run.stdout.splitlines()]
    said = [(line["directive"], *(line.get(field) for field in TOLD[line["directive"]])) for line in lines if line.get("directive") in TOLD]
    return said, run


def differs(expected, said, run):
    """Where two runs part."""
    if run.returncode != 0:
        yield f"the run ended with {run.returncode}: {run.stderr.strip()[-600:]}"
    for at in range(max(len(expected), len(said))):
        if expected[at : at + 1] != said[at : at + 1]:
            yield f"step {at}: {said[at : at + 1]} and not {expected[at : at + 1]}"
            return
