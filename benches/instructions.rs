//! The same calls for callgrind, which counts instructions: repeatable on a busy machine. Besides calls of tools: a retry
//! decision, an estimate of tokens, the repair of JSON, the class of an error and the load of a policy, which with them are
//! what `benches/instructions.baseline` holds.
//!
//! `benches/instructions.sh` builds this, runs each case under callgrind and prints the tables.

mod bodies;
mod broken;
mod cases;

use cases::{
    backon_constant, backon_exponential, bare, decision, decision_seeded, failed, failsafe, guard,
    guarded_by_failsafe, now, retry, tokio_retry, tower_retry, unfazed,
};
use std::hint::black_box;
use unfazed::context::{TokenCounter, TokenEstimator};
use unfazed::engine::retry::RetryVerdict;
use unfazed::engine::{Failure, ReplyHeaders};
use unfazed::policy::{ErrorClass, Policy, Seed};
use unfazed::time::Instant;

/// What most policies begin as.
const FIVE_LINES: &str = "version: 1\nretry: {max_attempts: 4}\ntools:\n  search:\n    effect: read_only\n";

fn main() {
    let mut args = std::env::args().skip(1);
    let (Some(case), Some(number), Some(times)) = (args.next(), args.next(), args.next()) else { return };
    let number: u32 = number.parse().expect("how often the call fails, or which attempt it is");
    let times: u32 = times.parse().expect("how many calls");
    match case.as_str() {
        "decide" | "decide-default" | "decide-default-seed" => decide(&case, number, times),
        "estimate" => estimate(times),
        "repair" => repair(times),
        "classify" => classify(number, times),
        "load" => load(number, times),
        _ => call(&case, number, times),
    }
}

/// Loads a policy of five lines: `number` of them before what is counted, as the first one builds what all share.
fn load(number: u32, times: u32) {
    let load = || Policy::from_yaml("bench.yaml", black_box(FIVE_LINES)).expect("it is valid");
    for _ in 0..number {
        drop(black_box(load()));
    }
    for _ in 0..times {
        drop(black_box(load_once(load)));
    }
}

#[inline(never)]
fn load_once(load: impl Fn() -> Policy) -> Policy {
    load()
}

/// Leaves blocks of each small size to the allocator. Whether it had one at hand depended on what was allocated before, which
/// is in the order of hash tables, and no two runs have the same: that alone made a tenth of a call.
fn fill_free_lists() {
    let sizes = (16..=1024).step_by(16);
    let blocks: Vec<Vec<u8>> = sizes.flat_map(|size| [size; 7]).map(Vec::with_capacity).collect();
    drop(black_box(blocks));
}

/// Calls `times` times what fails so often.
fn call(case: &str, failures: u32, times: u32) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let _inside = runtime.enter();
    let small = guard(cases::POLICY);
    let default = guard(cases::DEFAULTS);
    let breaker = failsafe();
    fill_free_lists();
    for _ in 0..times {
        let value = match case {
            "bare" => now(bare(black_box(failures))),
            "unfazed" => now(unfazed(&small, black_box(failures))),
            "unfazed-default" => now(unfazed(&default, black_box(failures))),
            "backon-constant" => now(backon_constant(black_box(failures))),
            "backon-exponential" => now(backon_exponential(black_box(failures))),
            "tower" => now(tower_retry(black_box(failures))),
            "tokio-retry" => now(tokio_retry(black_box(failures))),
            "failsafe" => now(guarded_by_failsafe(&breaker, black_box(failures))),
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
            _ => decision_seeded(black_box(&default), progress, case, black_box(0)),
        };
        assert!(
            matches!(verdict, RetryVerdict::Retry { .. }),
            "a decision that ends early costs less: {verdict:?}"
        );
        black_box(verdict);
    }
}

/// Estimates `times` times the tokens of 100 KB.
fn estimate(times: u32) {
    let estimator = TokenEstimator::from(&Policy::builtin().model("main").tokens);
    let text = "fn total(items: &[Item]) -> u64 { items.iter().map(|item| item.price).sum() }\n".repeat(1300);
    for _ in 0..times {
        black_box(estimate_once(&estimator, black_box(&text)));
    }
}

#[inline(never)]
fn estimate_once(estimator: &TokenEstimator, text: &str) -> u64 {
    estimator.count(text)
}

/// Repairs `times` times 100 KB with a bit of everything wrong.
fn repair(times: u32) {
    let text = broken::arguments(100_000);
    for _ in 0..times {
        assert!(repair_once(black_box(&text)));
    }
}

#[inline(never)]
fn repair_once(text: &str) -> bool {
    unfazed::text::repair::repair(text).is_ok()
}

/// Classifies `times` times one of the error bodies of 2 KB.
fn classify(body: u32, times: u32) {
    let (name, status, body, class) = bodies::BODIES[body as usize];
    let (policy, headers, body) = (Policy::builtin(), bodies::headers(), body());
    // What is built at the first use is not counted: the sum is divided by the calls.
    let first = Failure::from_answer(status, &headers, body.as_bytes(), Instant::default).classified(&policy);
    assert_eq!(first.class, class, "{name}");
    for _ in 0..times {
        black_box(classify_once(&policy, &headers, status, black_box(&body)));
    }
}

#[inline(never)]
fn classify_once(policy: &Policy, headers: &ReplyHeaders, status: u16, body: &str) -> ErrorClass {
    Failure::from_answer(status, headers, body.as_bytes(), Instant::default).classified(policy).class
}
