#!/usr/bin/env python3
"""Claude Code as its SDK sees it: it asks the hooks about each call of a script, and runs it by HTTP if it may.

`FAKE_CLAUDE` is a JSON text: `url`, `calls` (each a `tool` and `args`) and `record`, the file for what became of each.
"""

from __future__ import annotations

import json
import os
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

numbers = iter(range(1, 1000))


def send(message: dict[str, Any]) -> None:
    print(json.dumps(message), flush=True)


def read() -> dict[str, Any]:
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    message: dict[str, Any] = json.loads(line)
    return message


def ask(request: dict[str, Any]) -> dict[str, Any]:
    name = f"r{next(numbers)}"
    send({"type": "control_request", "request_id": name, "request": request})
    while True:
        message = read()
        if message["type"] == "control_response" and message["response"]["request_id"] == name:
            response: dict[str, Any] = message["response"].get("response") or {}
            return response


def hook(hooks: dict[str, Any], event: str, **given: Any) -> dict[str, Any]:
    said: dict[str, Any] = {}
    for matcher in hooks.get(event) or ():
        for callback in matcher["hookCallbackIds"]:
            common = {"session_id": "s", "transcript_path": "", "cwd": "", "hook_event_name": event}
            request = {"subtype": "hook_callback", "callback_id": callback, "input": {**common, **given}}
            said.update(ask({**request, "tool_use_id": given.get("tool_use_id")}).get("hookSpecificOutput") or {})
    return said


def post(url: str, args: Any) -> tuple[str, str]:
    request = urllib.request.Request(url, json.dumps(args).encode(), {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request) as answer:
            return "tool_response", answer.read().decode()
    except (OSError, urllib.error.URLError) as error:
        return "error", str(error)


def one(script: dict[str, Any], hooks: dict[str, Any], number: int, call: dict[str, Any]) -> dict[str, Any]:
    about = {"tool_name": call["tool"], "tool_input": call["args"], "tool_use_id": f"t{number}"}
    before = hook(hooks, "PreToolUse", **about)
    decision = before.get("permissionDecision")
    about["tool_input"] = before.get("updatedInput", call["args"])
    if decision == "ask":
        request = {"subtype": "can_use_tool", "tool_name": call["tool"], "input": call["args"]}
        if ask({**request, "tool_use_id": f"t{number}", "permission_suggestions": []}).get("behavior") != "allow":
            decision = "deny"
    if decision == "deny":
        return {"before": before, "ran": False}
    kind, text = post(f"{script['url']}/{call['tool']}", about["tool_input"])
    event = "PostToolUse" if kind == "tool_response" else "PostToolUseFailure"
    return {"before": before, "ran": True, "after": hook(hooks, event, **about, **{kind: text})}


def main() -> None:
    if "-v" in sys.argv or "--version" in sys.argv:
        print("2.1.330 (Claude Code)")
        return
    script = json.loads(os.environ["FAKE_CLAUDE"])
    begun = read()
    hooks = begun["request"].get("hooks") or {}
    send(
        {
            "type": "control_response",
            "response": {"subtype": "success", "request_id": begun["request_id"], "response": {"commands": []}},
        }
    )
    while read()["type"] != "user":
        pass
    became = [one(script, hooks, number, call) for number, call in enumerate(script["calls"])]
    hook(hooks, "Stop", stop_hook_active=False)
    Path(script["record"]).write_text(json.dumps(became))
    result = {"duration_ms": 1, "duration_api_ms": 1, "is_error": False, "num_turns": 1, "session_id": "s", "result": "done"}
    send({"type": "result", "subtype": "success", **result})
    while True:
        read()


main()
