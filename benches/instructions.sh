#!/usr/bin/env bash
# Instructions of one tool call, by callgrind, counted inside the call alone.
# usage: benches/instructions.sh
set -euo pipefail
cd "$(dirname "$0")/.."
binary=$(cargo bench --bench instructions --no-run --message-format=json 2>/dev/null |
  sed -n 's/.*"executable":"\([^"]*instructions[^"]*\)".*/\1/p' | tail -n 1)
times=2000
one() {
  local total
  total=$(valgrind --tool=callgrind --toggle-collect='*cases*now*' --callgrind-out-file=/dev/null \
    "$binary" "$1" "$2" "$times" 2>&1 | sed -n 's/.*Collected : \([0-9]*\).*/\1/p')
  echo $((total / times))
}
printf '%-20s %10s %10s %16s\n' case success 'one retry' 'each more retry'
for case in bare unfazed unfazed-default backon-constant backon-exponential tower; do
  retry=$(one "$case" 1)
  printf '%-20s %10s %10s %16s\n' "$case" "$(one "$case" 0)" "$retry" "$(($(one "$case" 2) - retry))"
done
