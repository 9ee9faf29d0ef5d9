#!/usr/bin/env python3
"""What `unfazed serve` costs beside a bare relay of hyper, LiteLLM and Portkey over the same upstream, in one run.

    benches/gateway.py UNFAZED BARE_GATEWAY [--peers FOLDER] [--minutes N] [--write] [--check]

Both are release builds: `cargo build --release`, and the same in `benches/bare_gateway`, which is upstream, bare relay and client.
With `--peers`, LiteLLM (PyPI) and Portkey (npm) are measured too; they are installed into that folder unless they are there. The
processor time is user and system time of all threads of the gateway, as the scheduler counts it; rounds alternate between
the gateways, and the median counts. `--minutes` asks an upstream for so long that fails in each way there is. `--write` writes the table
into docs/performance.md. `--check` fails if a budget is exceeded; what requests came to is always checked.
"""

import argparse
import json
import os
import platform
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PAGE = os.path.join(ROOT, "docs", "performance.md")
BEGIN, END = "<!-- written by benches/gateway.py -->\n", "<!-- end of benches/gateway.py -->\n"
ROUNDS, AT_ONCE, STREAMS = 5, 100, 1000
BUDGET = {"times the CPU of a request": 4.0, "times the CPU of a stream": 2.5, "MiB idle": 20.0, "ms to start": 50.0}
POLICY = """version: 1
models:
  "*":
    retry: {max_attempts: 3, attempt_timeout: 1m, backoff: {kind: constant, delay: 20ms}}
  faulty:
    retry: {attempt_timeout: 3s}
    timeouts: {idle: 1s}
    cooldown: 0s
"""
CHAT = {
    "temperature": 0.2, "max_tokens": 512,
    "messages": [
        {"role": "system", "content": "You are a careful assistant. " * 20},
        {"role": "user", "content": "What is the weather like in Basel, and do I need an umbrella? " * 8},
    ],
}


def kinds():
    """What is asked: its body without and with a stream, by its name."""
    return {
        f"{model}-{'stream' if stream else 'whole'}": json.dumps({"model": model, "stream": stream, **CHAT})
        for model in ["good", "slow", "faulty", "other"] for stream in [False, True]
    }


class Gateway:
    """A gateway that runs."""

    def __init__(self, name, command, port=None, path="/healthz", headers=(), env=None, calls=1.0):
        self.name, self.headers, self.calls = name, list(headers), calls
        started = time.perf_counter()
        out = subprocess.PIPE if port is None else subprocess.DEVNULL
        self.process = subprocess.Popen(
            command, stdout=out, stderr=subprocess.DEVNULL, text=True, env={**os.environ, **(env or {})})
        self.address = self.process.stdout.readline().strip() if port is None else f"127.0.0.1:{port}"
        while self.get(path) is None and time.perf_counter() - started < 120:
            assert self.process.poll() is None, f"{name} ended with {self.process.poll()}"
            time.sleep(0.001)
        self.start = (time.perf_counter() - started) * 1e3

    def get(self, path):
        try:
            with urllib.request.urlopen(f"http://{self.address}{path}", timeout=5) as answer:
                return answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.read().decode()
        except OSError:
            return None

    def processor_time(self):
        """Microseconds of all its threads."""
        folder, total = f"/proc/{self.process.pid}/task", 0
        for thread in os.listdir(folder):
            with open(f"{folder}/{thread}/schedstat") as file:
                total += int(file.read().split()[0])
        return total / 1e3

    def memory(self):
        """MiB: what it has written, which is its own, and all that it has in memory."""
        with open(f"/proc/{self.process.pid}/smaps_rollup") as file:
            text = file.read()
        return [int(re.search(rf"^{field}:\s+(\d+)", text, re.M)[1]) / 1024 for field in ["Private_Dirty", "Rss"]]

    def files(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def end(self):
        self.process.terminate()
        self.process.wait(30)


class Bench:
    """Gateways over one upstream."""

    def __init__(self, unfazed, bare, peers):
        self.bare, self.unfazed, self.peers = os.path.abspath(bare), os.path.abspath(unfazed), peers
        self.folder = tempfile.mkdtemp()
        self.upstream = Gateway("upstream", [self.bare, "upstream"], path="/counts")
        for name, body in kinds().items():
            self.file(name, body)
        base = f"http://{self.upstream.address}"
        models = "".join(
            f'  {name}: {{api: openai, base_url: "{base}/v1", model: {name}, api_key: {{env: BENCH_KEY}}}}\n'
            for name in ["good", "slow", "faulty"])
        other = f'  other: {{api: anthropic, base_url: "{base}/v1", model: good, max_tokens: 512, api_key: {{env: BENCH_KEY}}}}\n'
        routes = "".join(f"  {name}: {name}\n" for name in ["good", "slow", "faulty", "other"])
        self.file("policy.yaml", POLICY)
        self.file("gateway.yaml", f"version: 1\npolicy: policy.yaml\nmodels:\n{models}{other}routes:\n{routes}")

    def file(self, name, text):
        with open(os.path.join(self.folder, name), "w") as file:
            file.write(text)

    def ours(self):
        port = free_port()
        command = [self.unfazed, "serve", os.path.join(self.folder, "gateway.yaml"), "--addr", f"127.0.0.1:{port}"]
        return Gateway("unfazed serve", command, port, env={"BENCH_KEY": "key"})

    def relay(self):
        return Gateway("bare relay", [self.bare, "relay", self.upstream.address], path="/counts")

    def litellm(self):
        home = os.path.join(self.peers, "lite")
        if not os.path.exists(f"{home}/bin/litellm"):
            subprocess.run([sys.executable, "-m", "venv", home], check=True)
            subprocess.run([f"{home}/bin/pip", "install", "-q", "litellm[proxy]"], check=True)
        base, port = f"http://{self.upstream.address}", free_port()
        model = lambda name, of, base: {
            "model_name": name, "litellm_params": {"model": of, "api_base": base, "api_key": "key", "max_retries": 0}}
        self.file("lite.yaml", json.dumps({"model_list": [
            model("good", "openai/good", base + "/v1"), model("other", "anthropic/good", base)]}))
        command = [f"{home}/bin/litellm", "--config", f"{self.folder}/lite.yaml", "--host", "127.0.0.1", "--port", str(port)]
        return Gateway("LiteLLM " + version(f"{home}/bin/pip"), command, port, "/health/liveliness",
                       ["authorization: Bearer sk-of-the-bench"], {"LITELLM_MASTER_KEY": "sk-of-the-bench"}, calls=0.04)

    def portkey(self):
        home = os.path.join(self.peers, "portkey")
        package = f"{home}/node_modules/@portkey-ai/gateway"
        if not os.path.exists(package):
            os.makedirs(home, exist_ok=True)
            subprocess.run(["npm", "install", "--no-audit", "--no-fund", "@portkey-ai/gateway"], cwd=home, check=True)
        with open(f"{package}/package.json") as file:
            name = "Portkey " + json.load(file)["version"]
        port = free_port()
        command = ["node", f"{package}/build/start-server.js", f"--port={port}", "--headless"]
        headers = ["x-portkey-provider: openai", "authorization: Bearer key",
                   f"x-portkey-custom-host: http://{self.upstream.address}/v1"]
        return Gateway(name, command, port, "/", headers, calls=0.2)

    def load(self, gateway, body, at_once, requests, seconds=600):
        """A client that asks; its result is read by `result`."""
        headers = gateway.headers
        if body.startswith("other"):
            headers = [header.replace(": openai", ": anthropic") for header in headers]
        return subprocess.Popen(
            [self.bare, "load", gateway.address, "/v1/chat/completions", os.path.join(self.folder, body), str(at_once),
             str(requests), str(int(seconds)), *headers], stdout=subprocess.PIPE, text=True)

    def cost(self, gateway, body, at_once, requests):
        """What so many requests take, each answered."""
        requests = max(at_once, int(requests * gateway.calls))
        before = gateway.processor_time()
        result = finished(self.load(gateway, body, at_once, requests))
        if result["ends"] != {"answer": requests}:
            # What a peer cannot do is said; ours can do all of it.
            assert gateway.calls < 1, (gateway.name, body, result)
            print(f"{gateway.name} does not answer {body}: {result['ends']}", file=sys.stderr)
            return None
        return {"cpu": (gateway.processor_time() - before) / requests, **result}

    def counts(self):
        return json.loads(self.upstream.get("/counts"))


def finished(load):
    out, _ = load.communicate()
    assert load.returncode == 0
    return json.loads(out)


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def version(pip):
    shown = subprocess.run([pip, "show", "litellm"], capture_output=True, text=True, check=True).stdout
    return re.search(r"Version: (\S+)", shown)[1]


# What is measured of each: the body, how many at once, and how many requests there are in a round.
CASES = {
    "a request": ("good-whole", 1, 2000), f"a request, {AT_ONCE} at once": ("good-whole", AT_ONCE, 5000),
    "a stream": ("good-stream", 1, 60), f"a stream, {AT_ONCE} at once": ("good-stream", AT_ONCE, 1000),
    "a converted request": ("other-whole", 1, 1000),
}


def compare(bench, said):
    """Measures all gateways: their processor time, their latency, memory and start."""
    makers = [bench.relay, bench.ours] + ([bench.litellm, bench.portkey] if bench.peers else [])
    starts = {}
    for maker in makers:
        for _ in range(ROUNDS if maker in makers[:2] else 1):
            gateway = maker()
            starts.setdefault(gateway.name, []).append(gateway.start)
            gateway.end()
    gateways = [maker() for maker in makers]
    time.sleep(3)
    idle = {gateway.name: gateway.memory() for gateway in gateways}
    figures = {}
    for case, (body, at_once, requests) in CASES.items():
        rounds = {}
        able = [gateway for gateway in gateways if body != "other-whole" or gateway.name != "bare relay"]
        able = [gateway for gateway in able if bench.cost(gateway, body, at_once, requests / 4)]
        for _ in range(ROUNDS):
            for gateway in able:
                rounds.setdefault(gateway.name, []).append(bench.cost(gateway, body, at_once, requests))
        for name, measured in rounds.items():
            figures[case, name] = {key: statistics.median(one[key] for one in measured) for key in ["cpu", "p50", "p99"]}
            print(case, name, figures[case, name], file=sys.stderr, flush=True)
    names = [gateway.name for gateway in gateways]
    row = lambda what, cell: said(f"| {what} | " + " | ".join(cell(name) for name in names) + " |")
    said("| | " + " | ".join(f"**{name}**" if name == "unfazed serve" else name for name in names) + " |")
    said("|---|" + "---:|" * len(names))
    cell = lambda case, show: lambda name: show(figures[case, name]) if (case, name) in figures else "–"
    for case in CASES:
        row(f"{case}: processor time", cell(case, lambda f: micros(f["cpu"])))
        row(f"{case}: p50, p99", cell(case, lambda f: f"{micros(f['p50'])}, {micros(f['p99'])}"))
    loaded = {gateway.name: gateway.memory() for gateway in gateways}
    memory = lambda of: lambda name: "{:.1f}, {:.1f} MiB".format(*of[name])
    row("memory idle: its own, all", memory(idle))
    row("memory after load: its own, all", memory(loaded))
    row("start until it answers", lambda name: micros(statistics.median(starts[name]) * 1e3))
    for gateway in gateways:
        gateway.end()
    over = {}
    for case in CASES:
        if (case, "bare relay") in figures:
            ratio = figures[case, "unfazed serve"]["cpu"] / figures[case, "bare relay"]["cpu"]
            over[case] = (ratio, "times the CPU of a " + ("stream" if "stream" in case else "request"))
    over["idle"] = (idle["unfazed serve"][0], "MiB idle")
    over["start"] = (statistics.median(starts["unfazed serve"]), "ms to start")
    return over


def micros(figure):
    return f"{figure:.0f} µs" if figure < 1e4 else f"{figure / 1e3:.0f} ms" if figure < 1e6 else f"{figure / 1e6:.1f} s"


def streams(bench, gateway, said):
    """So many streams that are open at once."""
    asked = finished(bench.load(gateway, "good-stream", 1, 1))
    load = bench.load(gateway, "slow-stream", STREAMS, STREAMS)
    most = 0
    while load.poll() is None:
        most = max(most, gateway.memory()[0])
        time.sleep(0.2)
    result, open_at_once = finished(load), bench.counts()["most"]
    assert asked["ends"] == {"answer": 1} and result["ends"] == {"answer": STREAMS}, result
    assert open_at_once >= STREAMS, open_at_once
    said(f"{STREAMS:,} streams of {20} chunks were open at once, and all came to their end, the last after {result['seconds']:.1f} s; "
         f"`unfazed serve` had at most {most:.0f} MiB of its own meanwhile.")


def attempts(gateway):
    """How many attempts its metrics count."""
    found = re.findall(r"^ai_agent_llm_latency_ms_count\{[^}]*\} (\d+)", gateway.get("/metrics"), re.M)
    return sum(map(int, found))


def requests(gateway):
    return json.loads(gateway.get("/status.json"))["requests"]


def settled(read, expected):
    """What is read once it is as expected, or at last."""
    until = time.monotonic() + 40
    while (found := read()) != expected and time.monotonic() < until:
        time.sleep(0.1)
    return found


def faults(bench, gateway, minutes, said):
    """An upstream that fails in each way there is. What is left of it afterwards: nothing."""
    asked, counted, before = bench.counts()["asked"], attempts(gateway), requests(gateway)
    loads = [bench.load(gateway, f"faulty-{kind}", 24, 10**9, minutes * 60) for kind in ["whole", "stream"]]
    samples = []
    while any(load.poll() is None for load in loads):
        samples.append((gateway.memory()[0], gateway.files()))
        time.sleep(min(2, minutes * 6))
    ends = {}
    for load in loads:
        for end, count in finished(load)["ends"].items():
            ends[end] = ends.get(end, 0) + count
    print(ends, samples[:: max(1, len(samples) // 20)], file=sys.stderr)
    unclassed = {end: count for end, count in ends.items() if end not in ("answer", "cut") and not end.startswith("error ")}
    assert not unclassed, ends
    # Nothing is open any more, here or there, and everybody has counted the same.
    assert settled(lambda: requests(gateway)["in_flight"], 0) == 0
    assert settled(lambda: bench.counts()["open"], 0) == 0
    after = requests(gateway)
    ended = {key: after[key] - before[key] for key in ["answered", "given_up", "refused", "cancelled"]}
    assert ended["refused"] == ended["cancelled"] == 0 and ended["answered"] == ends["answer"], (ended, ends)
    assert sum(ended.values()) == sum(ends.values()), (ended, ends)
    passed = bench.counts()["asked"] - asked
    assert passed == attempts(gateway) - counted, (passed, attempts(gateway) - counted)
    fifth = len(samples) // 5
    early, late = (statistics.median(own for own, _ in part) for part in [samples[fifth : 2 * fifth], samples[-fifth:]])
    # A leak of 1 KiB a request is more.
    assert late - early < max(4.0, sum(ends.values()) / 1024 * 0.5), (early, late)
    shown = ", ".join(f"{count:,} {end}" for end, count in sorted(ends.items()))
    said(f"{minutes:g} minutes of refusals, broken connections, cut streams, streams that stand still and servers that do not answer: "
         f"{passed:,} attempts for {sum(ends.values()):,} requests, which ended so: {shown}. `/metrics` counts the same attempts as the "
         f"upstream. Its own memory was {early:.1f} MiB early and {late:.1f} MiB late, with at most {max(one[1] for one in samples)} open files.")


def machine():
    with open("/proc/cpuinfo") as file:
        model = re.search(r"model name\s*: (.*)", file.read())
    date = time.strftime("%Y-%m-%d", time.gmtime())
    return f"Measured on {os.cpu_count()} cores of {model[1] if model else platform.machine()}, Linux {platform.release()}, {date}."


def write(lines):
    with open(PAGE) as file:
        before, rest = file.read().split(BEGIN)
    with open(PAGE, "w") as file:
        file.write(before + BEGIN + "\n" + "\n".join(lines) + "\n\n" + END + rest.split(END)[1])


def main():
    reads = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reads.add_argument("unfazed")
    reads.add_argument("bare")
    reads.add_argument("--peers")
    reads.add_argument("--minutes", type=float, default=0)
    for option in ["--write", "--check"]:
        reads.add_argument(option, action="store_true")
    given = reads.parse_args()
    bench, lines = Bench(given.unfazed, given.bare, given.peers and os.path.abspath(given.peers)), []

    def said(line):
        lines.append(line)
        print(line, flush=True)

    said(machine() + "\n")
    over = compare(bench, said)
    gateway = bench.ours()
    said("")
    streams(bench, gateway, said)
    if given.minutes:
        said("")
        faults(bench, gateway, given.minutes, said)
        # Whoever has kept a place of the thousand would be missed now.
        streams(bench, gateway, lambda _: None)
    gateway.end()
    bench.upstream.end()
    failed = False
    for what, (figure, budget) in over.items():
        failed |= figure > BUDGET[budget]
        print(f"{what}: {figure:.2f} {budget}, at most {BUDGET[budget]:g}", file=sys.stderr)
    if given.write:
        write(lines)
    sys.exit(given.check and failed)


main()
