//! The same calls for callgrind, which counts instructions: repeatable on a busy machine.
//!
//! `benches/instructions.sh` builds this, runs each case under callgrind and prints the tables.

mod cases;

use cases::{
    backon_constant, backon_exponential, bare, decision, decision_seeded, failed, guard, now, retry,
    tower_retry, unfazed,
};
use std::hint::black_box;
use unfazed::engine::retry::Verdict;
use unfazed::policy::Seed;

fn main() {
    let mut args = std::env::args().skip(1);
    let (Some(case), Some(failures), Some(times)) = (args.next(), args.next(), args.next()) else { return };
    let failures: u32 = failures.parse().expect("how often the call fails");
    let times: u32 = times.parse().expect("how many calls");
    if case.starts_with("decide") {
        return decide(&case, failures, times);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let _inside = runtime.enter();
    let small = guard(cases::POLICY);
    let default = guard(cases::DEFAULTS);
    for _ in 0..times {
        let value = match case.as_str() {
            "bare" => now(bare(black_box(failures))),
            "unfazed" => now(unfazed(&small, black_box(failures))),
            "unfazed-default" => now(unfazed(&default, black_box(failures))),
            "backon-constant" => now(backon_constant(black_box(failures))),
            "backon-exponential" => now(backon_exponential(black_box(failures))),
            "tower" => now(tower_retry(black_box(failures))),
            other => panic!("no such case: {other}"),
        };
        black_box(value);
    }
}

/// Decides `times` times about the failure of the attempt `attempt`.
fn decide(name: &str, attempt: u32, times: u32) {
    let (small, default) = (retry(cases::POLICY), retry(cases::BUILTIN));
    let seed = Seed::new(0, "call", "1");
    for _ in 0..times {
        let (progress, case) = black_box(failed(attempt));
        let verdict = match name {
            "decide" => decision(black_box(&small), progress, case, black_box(seed)),
            "decide-default" => decision(black_box(&default), progress, case, black_box(seed)),
            "decide-default-seed" => decision_seeded(black_box(&default), progress, case, black_box(0)),
            other => panic!("no such case: {other}"),
        };
        assert!(
            matches!(verdict, Verdict::Retry { .. }),
            "a decision that ends early costs less: {verdict:?}"
        );
        black_box(verdict);
    }
}
