#!/usr/bin/env python3
"""Runs the benches whose figures stand in docs/performance.md and prints its tables, all of one run on one machine.

    benches/table.py            prints them
    benches/table.py --write    writes them into docs/performance.md

It takes about ten minutes, most of them for the compiler. Nothing else should run meanwhile. callgrind counts the
instructions (benches/instructions.sh); the times are medians, as criterion has them.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/performance.md"
BEGIN, END = "<!-- written by benches/table.py -->", "<!-- end -->"

# No more than the benches need: the command would be built, too.
FEATURES = ["--no-default-features", "--features", "host,yaml-value"]

# Which benches are run, and what of them.
BENCHES = {
    "guard": "^(success|one retry)/",
    "tokens": "^(count/(prose|code|json)|turn/(one new message after|2000 messages))",
    "context": "^reduce",
    "policy": "^policy/load",
    "session": "^(append|rewrite|title)",
    "text": "^repair/(arguments|one brace)",
}

# What stands around a call: its name, in the bench, and for callgrind.
AROUND = [
    ("nothing", "bare", "bare"),
    ("**unfazed**, a small policy", "unfazed", "unfazed"),
    ("**unfazed**, the built-in policy", "unfazed, default policy", "unfazed-default"),
    ("backon, constant delay", "backon constant", "backon-constant"),
    ("backon, exponential with jitter", "backon exponential", "backon-exponential"),
    ("tower's retry", "tower", "tower"),
    ("tokio-retry", "tokio-retry", "tokio-retry"),
    ("failsafe (a breaker, no retry)", "failsafe", "failsafe"),
]

# What is done, how long it takes here, what else does it, how long it takes there.
WORK = [
    ("prepare a turn: 1 new message after 2,000", "turn/one new message after 2000",
     "tiktoken-rs, the whole conversation again", "turn/2000 messages, tiktoken-rs"),
    ("prepare a turn: 1 new message after 100,000", "turn/one new message after 100000", None, None),
    *((f"plan a reduction of 100,000 messages: {name}", f"reduce 100 000 messages/{step}", None, None)
      for name, step in (("shorten results", "results"), ("leave out the oldest", "drop"), ("sum them up", "digest"),
                         ("cut to fit", "truncate"))),
    *((f"count the tokens of 100 KB of {name}", f"count/{kind}, counter", "tiktoken-rs", f"count/{kind}, tiktoken-rs alone")
      for name, kind in (("prose", "prose"), ("a program", "code"), ("JSON", "json"))),
    ("estimate the tokens of 100 KB of prose", "count/prose, estimate", "tiktoken-rs", "count/prose, tiktoken-rs alone"),
    *((f"load {title}", f"policy/load {name}", f"serde_yaml, and jsonschema {how}",
       f"policy/load {name}, serde_yaml and jsonschema{suffix}")
      for title, name in (("the quickstart's policy", "the quickstart's policy"),
                          ("a policy of 10000 selectors", "10000 selectors"))
      for how, suffix in (("with a schema compiled before", ""), ("with its schema compiled", " compiled for it"))),
    *((f"append an event to a session", "append/an event", f"a file of {size} written anew", f"rewrite/an event, {size}")
      for size in ("1 MB", "10 MB")),
    ("change the title of an empty session", "title of a session empty", None, None),
    *((f"change the title of a session of 1 GB", "title of a session of 1 GB", f"a file of {size} written anew",
       f"rewrite/title, {size}") for size in ("1 MB", "10 MB")),
    *((f"repair JSON: {name}", f"repair/{name}", "jsonrepair", f"repair/{name}, jsonrepair")
      for name in ("arguments of 1 KB", "arguments of 100 KB", "one brace missing after 100 KB")),
]


def main():
    write = sys.argv[1:] == ["--write"]
    if sys.argv[1:] and not write:
        sys.exit("usage: benches/table.py [--write]")
    instructions = counted()
    with tempfile.TemporaryDirectory() as home:
        for bench, only in BENCHES.items():
            run(["cargo", "bench", "--locked", *FEATURES, "--bench", bench, "--", only], stdout=sys.stderr,
                env={**os.environ, "CRITERION_HOME": home})
        times = medians(Path(home))
    tables = "\n\n".join([machine(), calls(times, instructions), work(times)])
    if not write:
        print(tables)
        return
    page = PAGE.read_text()
    before, rest = page.split(BEGIN)
    after = rest.split(END)[1]
    PAGE.write_text(f"{before}{BEGIN}\n\n{tables}\n\n{END}{after}")


def run(command, **how):
    return subprocess.run(command, cwd=ROOT, check=True, text=True, **how)


def counted():
    """Instructions by case and number of failures."""
    lines = run(["benches/instructions.sh"], stdout=subprocess.PIPE).stdout.splitlines()
    return {(case, int(number)): int(count) for case, number, count in (line.split() for line in lines)}


def medians(home):
    """Nanoseconds by the full name of the bench."""
    found = {}
    for file in home.glob("**/new/benchmark.json"):
        name = json.loads(file.read_text())["full_id"]
        found[name] = json.loads(file.with_name("estimates.json").read_text())["median"]["point_estimate"]
    return found


def machine():
    cpu = next(line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name"))
    memory = int(next(line.split()[1] for line in open("/proc/meminfo") if line.startswith("MemTotal"))) / 2**20
    kernel = run(["uname", "-sr"], stdout=subprocess.PIPE).stdout.strip()
    rustc = run(["rustc", "--version"], stdout=subprocess.PIPE).stdout.strip()
    return f"Measured on {os.cpu_count()} cores of {cpu}, {memory:.0f} GB, {kernel}, {rustc}."


def calls(times, instructions):
    def count(case, failures):
        return f"{instructions[case, failures]:,}" if (case, failures) in instructions else "–"

    def time(group, name):
        return shown(times[f"{group}/{name}"]) if f"{group}/{name}" in times else "–"

    rows = ["| around the call | it succeeds | instructions | it fails once | instructions | each further failure |",
            "|---|---:|---:|---:|---:|---:|"]
    for title, bench, case in AROUND:
        further = "–"
        if (case, 2) in instructions:
            further = f"{instructions[case, 2] - instructions[case, 1]:,}"
        cells = [title, time("success", bench), count(case, 0), time("one retry", bench), count(case, 1), further]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def work(times):
    rows = ["| what is done | unfazed | beside | takes | times as long |", "|---|---:|---|---:|---:|"]
    for title, ours, peer, theirs in WORK:
        if peer is None:
            rows.append(f"| {title} | {shown(times[ours])} | | | |")
            continue
        factor = times[theirs] / times[ours]
        rows.append(f"| {title} | {shown(times[ours])} | {peer} | {shown(times[theirs])} | {rounded(factor)} |")
    return "\n".join(rows)


def shown(nanos):
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if nanos >= size:
            return f"{rounded(nanos / size)} {unit}"
    return f"{rounded(nanos)} ns"


def rounded(number):
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


if __name__ == "__main__":
    main()
