#!/usr/bin/env python3
"""What `unfazed mcp` costs beside a bare relay of rmcp over the same server, in one run.

    benches/relay.py UNFAZED BARE_RELAY

Both are release builds: `cargo build --release`, and the same in `benches/bare_relay`. It prints the processor time (user and
system) of each relay for a call, one at a time and 100 at once, with the median of all rounds of which each measures both; the
memory that `unfazed mcp` has for itself, and with the pages of its binary, which all its processes share and which depend on
what the kernel read ahead; and the instructions from its start to the end of a handshake and a shutdown, by callgrind, without its
server. It fails if a budget is exceeded.
"""

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

UNFAZED, BARE = (os.path.abspath(path) for path in sys.argv[1:3])
ROUNDS, CALLS, AT_ONCE = 7, 3000, 100
BUDGET = {"CPU a call over bare": 60.0, "MiB": 25.0, "M instructions of the start": 12.0}
TICK = 1e6 / os.sysconf("SC_CLK_TCK")
# A policy that does something at each call, and lets 100 of one tool run at once.
POLICY = """version: 1
limits: {deadline: 2m}
tools:
  "*":
    retry: {attempt_timeout: 30s}
    breaker: {failures: 200, open_for: 30s}
    result: {max: 30000 chars}
    loop_guard: {enabled: false}
"""
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}


def line(message):
    return json.dumps({"jsonrpc": "2.0", **message}) + "\n"


def call(ident):
    return line({"id": ident, "method": "tools/call", "params": {"name": "echo", "arguments": {"text": f"call {ident}"}}})


class Relay:
    """A relay that runs, and its client."""

    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.last = 0
        self.write(line({"id": "hello", "method": "initialize", "params": HELLO}))
        self.read()
        self.write(line({"method": "notifications/initialized"}))

    def write(self, text):
        self.process.stdin.write(text)
        self.process.stdin.flush()

    def read(self):
        answer = json.loads(self.process.stdout.readline())
        assert "result" in answer and not answer["result"].get("isError"), answer
        return answer

    def processor_time(self):
        """Microseconds, user and system, of the relay itself."""
        with open(f"/proc/{self.process.pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) * TICK

    def calls(self, at_once):
        """The time of a call."""
        before = self.processor_time()
        for _ in range(CALLS // at_once):
            idents = range(self.last, self.last + at_once)
            self.last += at_once
            self.write("".join(map(call, idents)))
            answered = sorted(self.read()["id"] for _ in idents)
            assert answered == list(idents), answered
        return (self.processor_time() - before) / CALLS

    def memory(self, field):
        """What the kernel says of its memory, in MiB."""
        with open(f"/proc/{self.process.pid}/status") as file:
            return int(re.search(rf"{field}:\s+(\d+)", file.read())[1]) / 1024

    def end(self):
        self.process.stdin.close()
        assert self.process.wait(10) == 0


def instructions(command, folder):
    counted = subprocess.run(
        ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out", *command],
        input=line({"id": 1, "method": "initialize", "params": HELLO}), capture_output=True, text=True, check=True,
    )
    assert '"id":1' in counted.stdout, counted.stdout
    return int(re.search(r"Collected : (\d+)", counted.stderr)[1]) / 1e6


def main():
    folder = tempfile.mkdtemp()
    policy = os.path.join(folder, "policy.yaml")
    with open(policy, "w") as file:
        file.write(POLICY)
    ours = [UNFAZED, "mcp", "--policy", policy, "--", BARE, "serve"]
    relays = {"unfazed mcp": Relay(ours), "bare relay": Relay([BARE, "relay", BARE, "serve"])}
    failed = False

    def show(what, figure, budget):
        nonlocal failed
        failed |= figure > BUDGET[budget]
        print(f"{what}: {figure:.1f} {budget}, at most {BUDGET[budget]:.0f}")

    for relay in relays.values():
        relay.calls(1)
    for at_once in [1, AT_ONCE]:
        taken = {name: [] for name in relays}
        for _ in range(ROUNDS):
            for name, relay in relays.items():
                taken[name].append(relay.calls(at_once))
        for name, times in taken.items():
            print(f"{at_once} at once, {name}: {statistics.median(times):.1f} us ({min(times):.1f} to {max(times):.1f})")
        over = [ours - bare for ours, bare in zip(*taken.values())]
        show(f"{at_once} at once", statistics.median(over), "CPU a call over bare")
    for name, relay in relays.items():
        print(f"{name}: {relay.memory('VmHWM'):.1f} MiB with the pages of its binary")
    show("memory of its own", relays["unfazed mcp"].memory("RssAnon"), "MiB")
    for relay in relays.values():
        relay.end()
    show("start", instructions(ours, folder), "M instructions of the start")
    sys.exit(failed)


main()
