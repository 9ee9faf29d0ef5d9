//! The delays that are promised: the same on every machine, in every version. Recorded sessions are decided again
//! with them. An independent computation of this table needs only xxh3-64 and the finaliser of splitmix64, as the
//! documentation of `Seed` says.

use std::fmt::Write as _;

use unfazed::policy::{Policy, Seed};

const BACKOFFS: [&str; 12] = [
    "{kind: constant, delay: 1s}",
    "{kind: linear, base: 1s, step: 500ms, cap: 4s}",
    "{kind: exponential, base: 100ms, factor: 2, cap: 5s}",
    "{kind: exponential, base: 100ms, factor: 1.5}",
    "{kind: exponential, base: 7ms, factor: 3.333, cap: 366d}",
    "{kind: fibonacci, base: 200ms, cap: 10s}",
    "{kind: schedule, delays: [1s, 5s, 2s]}",
    "{kind: exponential, base: 500ms, factor: 2, cap: 30s, jitter: full}",
    "{kind: exponential, base: 500ms, factor: 2, cap: 30s, jitter: equal}",
    "{kind: exponential, base: 500ms, factor: 2, cap: 30s, jitter: plus_minus, spread: 0.2}",
    "{kind: exponential, base: 500ms, factor: 2, cap: 30s, jitter: decorrelated}",
    "{kind: linear, base: 3s, step: 1s, jitter: full}",
];
const CALLS: [(u64, &str, &str); 3] = [(0, "", ""), (42, "tool", "call_1"), (u64::MAX, "model", "turn-7")];
const ATTEMPTS: [u32; 10] = [1, 2, 3, 4, 5, 6, 7, 20, 100, u32::MAX];

#[test]
fn the_delays_never_change() {
    let mut table = String::from("nanoseconds after attempts 1 to 7, 20, 100 and 4294967295\n");
    for written in BACKOFFS {
        // Left out it would be that of the built-in policy.
        let jitter = if written.contains("jitter") { "}" } else { ", jitter: none}" };
        let backoff = written.replace('}', jitter);
        let text = format!("version: 1\nretry: {{backoff: {backoff}}}\n");
        let policy = Policy::from_yaml("golden.yaml", &text).unwrap().model("any");
        let backoff = &policy.retry.backoff.value;
        let seeds: &[_] = if written.contains("jitter") { &CALLS } else { &CALLS[..1] };
        for (run, scope, call) in seeds {
            let delays =
                ATTEMPTS.map(|attempt| backoff.delay(attempt, Seed::new(*run, scope, call)).0.to_string());
            writeln!(table, "{written} | {run} {scope:?} {call:?} | {}", delays.join(" ")).unwrap();
        }
    }
    insta::assert_snapshot!(table);
}
