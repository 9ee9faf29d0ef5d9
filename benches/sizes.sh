#!/usr/bin/env bash
# How large the binary is, how fast it starts and how fast it works under several release profiles: the table of
# docs/packaging.md.
#
#     benches/sizes.sh [LTO-UNITS-LEVEL…]      such as: benches/sizes.sh thin-16-3 fat-1-s
#
# What Cargo.toml says of single packages is in force in all of them; the last row of the table is the profile as it stands
# there. Each profile builds everything anew; nothing else should run meanwhile.
set -euo pipefail
cd "$(dirname "$0")/.."
target="${CARGO_TARGET_DIR:-$PWD/target}"
[ $# -gt 0 ] || set -- thin-16-3 fat-1-3 fat-1-s fat-1-z

echo '| `lto` | `codegen-units` | `opt-level` | binary | `unfazed --version` | `unfazed test tests/cases` |'
echo '|---|---|---|---:|---:|---:|'
for profile in "$@"; do
    IFS=- read -r lto units level <<<"$profile"
    CARGO_PROFILE_RELEASE_LTO=$lto CARGO_PROFILE_RELEASE_CODEGEN_UNITS=$units CARGO_PROFILE_RELEASE_OPT_LEVEL=$level \
        cargo build --release --locked --quiet
    python3 - "$target/release/unfazed" "$lto" "$units" "$level" <<'END'
import os, subprocess, sys, time

binary, lto, units, level = sys.argv[1:]

def best(times, *arguments):
    def once():
        began = time.perf_counter()
        subprocess.run([binary, *arguments], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return time.perf_counter() - began
    return f"{min(once() for _ in range(times)) * 1000:.1f} ms"

size = f"{os.path.getsize(binary) / 1e6:.1f} MB"
start = best(20, "--version")
cells = [f"`{lto}`", units, f"`{level}`", size, start, best(5, "test", "tests/cases")]
print(f"| {' | '.join(cells)} |", flush=True)
END
done
