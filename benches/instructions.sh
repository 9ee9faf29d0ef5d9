#!/usr/bin/env bash
# Instructions of one tool call, one retry decision, one estimate, one repair, one classification, one load of a policy and one
# stream of 20 chunks in each dialect, by callgrind, counted inside them alone.
# However busy a machine is, the same compiler gives the same numbers.
#
#     benches/instructions.sh            prints them, in lines of CASE NUMBER INSTRUCTIONS, those of the peers too
#     benches/instructions.sh --check    fails if one of ours is more than 5 % above benches/instructions.baseline, or a stream takes
#                                        more than 1.3 times what chat completions take; with another compiler than that
#                                        file was written with: NOT COMPARED
#     benches/instructions.sh --write    writes that file
#
# NUMBER is how often the call fails before it succeeds, which attempt is decided about, which error body of benches/bodies.rs is
# classified, how many policies the process has loaded before, or which dialect it is (`DIALECTS` of `fuzzing`).
set -euo pipefail
cd "$(dirname "$0")/.."
mode=${1:-}
baseline=benches/instructions.baseline
if [ "$mode" = --check ] && [ ! -e "$baseline" ]; then
    echo "$baseline is not there; benches/instructions.sh --write writes it" >&2
    exit 1
fi
compiler=$(rustc --version)
written_with=$([ ! -e "$baseline" ] || sed -n '1s/^# \(.*\); written by.*/\1/p' "$baseline")
if [ "$mode" = --check ] && [ "$compiler" != "$written_with" ]; then
    echo "NOT COMPARED: $baseline was written with ${written_with:-an unknown compiler}, and this is $compiler"
    echo "benches/instructions.sh --write writes it anew"
    exit 0
fi
command -v valgrind >/dev/null || { echo "callgrind counts; install valgrind" >&2; exit 1; }

# With what tests have built already: only our own code, that of the peers and the reader of AWS's frames are built anew, with
# optimisation; but not the command, which no bench needs and which takes as long as all the rest.
features=(--no-default-features --features bedrock,fuzzing,host,mcp,postgres,scripted,yaml-value)
optimised=()
for package in unfazed backon failsafe tokio-retry aws-smithy-eventstream aws-smithy-types crc32fast; do
    optimised+=(--config "profile.dev.package.$package.opt-level=3")
done
for setting in codegen-units=1 overflow-checks=false debug-assertions=false; do
    optimised+=(--config "profile.dev.package.unfazed.$setting")
done
built=$(CARGO_INCREMENTAL=0 cargo bench --locked --profile dev "${features[@]}" "${optimised[@]}" --bench instructions --bench decode --no-run --message-format=json)

# count FUNCTION CASE NUMBER TIMES [BENCH]
count() {
    local total bench=${5:-instructions} binary
    binary=$(sed -n "s/.*\"executable\":\"\([^\"]*\/$bench-[^\"]*\)\".*/\1/p" <<<"$built" | tail -n 1)
    total=$(valgrind --tool=callgrind --toggle-collect="*$bench*$1*" --callgrind-out-file=/dev/null \
        "$binary" "$2" "$3" "$4" 2>&1 | sed -n 's/.*Collected : \([0-9]*\).*/\1/p')
    [ "${total:-0}" -gt 0 ] || { echo "nothing was counted for $2 $3" >&2; return 1; }
    printf '%s %s %s\n' "$2" "$3" "$((total / $4))"
}

ours() {
    local case number
    for case in unfazed unfazed-default; do
        for number in 0 1 2; do count cases::now "$case" "$number" 500; done
    done
    for case in decide decide-default decide-default-seed; do
        for number in 1 2; do count cases::decision "$case" "$number" 500; done
    done
    count estimate_once estimate 0 20
    count repair_once repair 0 5
    for number in 0 1 2 3 4 5 6; do count classify_once classify "$number" 20; done
    for number in 0 1; do count load_once load "$number" 1; done
    for number in 0 1 2 3 4; do count decode_once decode "$number" 20 decode; done
}

peers() {
    local case number
    for case in bare backon-constant backon-exponential tower; do
        for number in 0 1 2; do count cases::now "$case" "$number" 500; done
    done
    for case in tokio-retry failsafe; do count cases::now "$case" 0 500; done
}

case "$mode" in
"") ours; peers ;;
--write)
    counted=$(ours)
    { echo "# $compiler; written by benches/instructions.sh --write"; echo "$counted"; } >"$baseline"
    ;;
--check)
    ours | awk -v name="$baseline" '
        NR == FNR && /^#/ { next }
        NR == FNR { before[$1 " " $2] = $3; next }
        {
            key = $1 " " $2
            if (!(key in before)) { print key ": not in " name; bad = 1; next }
            more = ($3 - before[key]) * 100 / before[key]
            printf "%-22s %9d -> %9d  %+.1f %%\n", key, before[key], $3, more
            if (more > 5) bad = 1
            if (more < -5) fewer = 1
            if ($1 == "decode") decode[$2] = $3
            delete before[key]
        }
        END {
            for (key in before) { print key ": not counted"; bad = 1 }
            for (number in decode) {
                if (decode[number] > 1.3 * decode[0]) { print "decode " number ": more than 1.3 times decode 0"; bad = 1 }
            }
            if (bad) {
                print "more than 5 % above " name "; if that is meant: benches/instructions.sh --write"
                exit 1
            }
            if (fewer) print "more than 5 % below " name ": benches/instructions.sh --write keeps what was gained"
        }' "$baseline" -
    ;;
*) echo "usage: benches/instructions.sh [--check | --write]" >&2; exit 2 ;;
esac
