#!/usr/bin/env bash
# Instructions of one tool call and of one retry decision, by callgrind, counted inside the call alone.
# usage: benches/instructions.sh
set -euo pipefail
cd "$(dirname "$0")/.."
binary=$(cargo bench --bench instructions --no-run --message-format=json 2>/dev/null |
  sed -n 's/.*"executable":"\([^"]*instructions[^"]*\)".*/\1/p' | tail -n 1)
times=2000
# of FUNCTION CASE NUMBER
of() {
  local total
  total=$(valgrind --tool=callgrind --toggle-collect="*cases*$1*" --callgrind-out-file=/dev/null \
    "$binary" "$2" "$3" "$times" 2>&1 | sed -n 's/.*Collected : \([0-9]*\).*/\1/p')
  echo $((total / times))
}
printf '%-20s %10s %10s %16s\n' case success 'one retry' 'each more retry'
for case in bare unfazed unfazed-default backon-constant backon-exponential tower; do
  retry=$(of now "$case" 1)
  printf '%-20s %10s %10s %16s\n' "$case" "$(of now "$case" 0)" "$retry" "$(($(of now "$case" 2) - retry))"
done
printf '\n%-20s %10s %10s\n' decision 'attempt 1' 'attempt 2'
for case in decide decide-default decide-default-seed; do
  printf '%-20s %10s %10s\n' "$case" "$(of decision "$case" 1)" "$(of decision "$case" 2)"
done
