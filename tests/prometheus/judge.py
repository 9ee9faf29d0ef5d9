"""Reads the metrics of a live run with Prometheus' own parser for Python.

    python judge.py UNFAZED AGENT

Scrapes after every line of the timeline, so that every state of the metrics is one that parses.
"""

import re
import subprocess
import sys
import urllib.error
import urllib.request

from prometheus_client.parser import text_string_to_metric_families

EXPECTED = {
    "validation_retry": "counter",
    "retry_delay_seconds": "histogram",
    "ai_agent_llm_requests": "counter",
    "ai_agent_llm_latency_ms": "histogram",
    "ai_agent_tool_invocations": "counter",
    "gen_ai_client_token_usage": "histogram",
}


def families(text):
    found = {}
    for family in text_string_to_metric_families(text):
        assert family.name not in found, f"{family.name} is there twice"
        assert family.type != "unknown" and family.documentation, f"{family.name} has no type or no help"
        found[family.name] = family
    return found


def main(unfazed, agent):
    run = subprocess.Popen(
        [unfazed, "run", agent, "--metrics-addr", "127.0.0.1:0"],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )
    url, scrapes, last = None, 0, {}
    for line in run.stderr:
        if match := re.match(r"metrics  (http://\S+)", line):
            url = match[1]
        if url is None:
            continue
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                last = families(answer.read().decode())
                scrapes += 1
        except (urllib.error.URLError, ConnectionError):
            pass  # The server ends with the run; its last lines come after that.
    assert run.wait() == 0, f"the run ended with {run.returncode}"
    for name, kind in EXPECTED.items():
        assert last[name].type == kind, f"{name} is a {last[name].type}"
    samples = sum(len(family.samples) for family in last.values())
    print(f"{scrapes} scrapes parse; the last has {len(last)} metrics with {samples} samples")


main(*sys.argv[1:])
