"""What a guarded call costs beside one that tenacity repeats, what an import costs, and how large the wheel is.

    python -I bench.py [WHEEL]

It prints the figures, and ends with 1 if one is over its budget. Run it with a wheel that is optimised: that of the profile
`release`. Without `-I` Python would import the sources beside this file, which lack the extension.
"""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import tenacity

import unfazed

#: Microseconds of a call, milliseconds of an import, bytes of a wheel.
MOST_OF_A_CALL, MOST_OF_AN_IMPORT, MOST_OF_A_WHEEL = 20.0, 30.0, 8 << 20
POLICY = "version: 1\ntools: {search: {effect: read_only, retry: {max_attempts: 3}}}\n"
CALLS, ROUNDS, IMPORTS = 5_000, 7, 15


async def search(query: int = 0) -> int:
    return query


async def per_call(call: Callable[[int], Awaitable[object]]) -> float:
    """The microseconds of a call."""
    rounds, number = [], 0
    for _ in range(ROUNDS):
        # Of the processor, and of the best round: others share the machine.
        began = time.process_time()
        for _ in range(CALLS):
            number += 1
            await call(number)
        rounds.append((time.process_time() - began) / CALLS * 1e6)
    return min(rounds)


async def calls() -> dict[str, float]:
    guard = unfazed.Guard(unfazed.Policy.from_yaml(POLICY))
    tool = guard.tool("search", parameters={"type": "object", "properties": {"query": {"type": "integer"}}})

    @tenacity.retry(stop=tenacity.stop_after_attempt(3), wait=tenacity.wait_exponential())
    async def repeated(query: int) -> int:
        return await search(query)

    return {
        "bare": await per_call(search),
        "tenacity": await per_call(repeated),
        "unfazed, arguments kept": await per_call(lambda number: tool.call(None, search)),
        "unfazed, arguments validated": await per_call(lambda number: tool.call({"query": number}, search)),
    }


def of_children() -> float:
    """The milliseconds of the processor that processes begun here have taken."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (used.ru_utime + used.ru_stime) * 1e3


def of_import() -> float:
    """The milliseconds of `import unfazed`, without those of a Python that imports what it needs of its own."""
    own = "import asyncio, dataclasses, json, logging, pathlib, threading, uuid, inspect, typing"

    def took(code: str) -> float:
        began = of_children()
        subprocess.run([sys.executable, "-I", "-c", code], check=True)
        return of_children() - began

    return min(took(f"{own}, unfazed") for _ in range(IMPORTS)) - min(took(own) for _ in range(IMPORTS))


def main() -> None:
    found = asyncio.run(calls())
    for name, taken in found.items():
        print(f"{name:32} {taken:6.1f} us")
    imported = of_import()
    print(f"{'import':32} {imported:6.1f} ms")
    over = [name for name, taken in found.items() if name.startswith("unfazed") and taken > MOST_OF_A_CALL]
    over += ["import"] if imported > MOST_OF_AN_IMPORT else []
    if len(sys.argv) > 1:
        size = os.path.getsize(Path(sys.argv[1]))
        print(f"{'wheel':32} {size / (1 << 20):6.2f} MiB")
        over += ["wheel"] if size > MOST_OF_A_WHEEL else []
    if over:
        sys.exit(f"over budget: {', '.join(over)}")


if __name__ == "__main__":
    main()
