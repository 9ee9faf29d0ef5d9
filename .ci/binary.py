#!/usr/bin/env python3
"""Whether a release binary is as small and starts as fast as docs/packaging.md says: `.ci/binary.py UNFAZED`."""

import os
import subprocess
import sys
import time


def best(*command):
    """The shortest of twenty runs, in milliseconds."""

    def once():
        began = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return (time.perf_counter() - began) * 1000

    return min(once() for _ in range(20))


unfazed = sys.argv[1]
size = os.path.getsize(unfazed)
start, check = best(unfazed, "--version"), best(unfazed, "check", "examples/quickstart/policy.yaml")
print(f"{size // 1000} kB; starts in {start:.1f} ms, reads and checks a policy in {check:.1f} ms")
if size >= 60_000_000 or start >= 20:
    sys.exit("at most 60 MB and 20 ms are promised")
