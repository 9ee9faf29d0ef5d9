//! Circuit breakers: what opens them, the message to the model, how they close.

use serde_json::json;
use unfazed::engine::{BreakerPhase, Note};
use unfazed::policy::ErrorClass;
use unfazed::time::Nanos;

use super::drive::Host;

const THREE: &str = "
version: 1
tools:
  '*':
    effect: read_only
    retry: {max_attempts: 1}
    loop_guard: {enabled: false}
    breaker: {failures: 3, open_for: 1m, message: \"'{{ tool }}' failed {{ failures }} times\"}
";

fn fail(host: &mut Host, tool: &str, times: usize) {
    for _ in 0..times {
        host.propose(&[("x", tool, json!({"n": 1}))]);
        host.tool_fails(ErrorClass::ExecutionError);
    }
}

fn phases(host: &Host) -> Vec<BreakerPhase> {
    let phases = host.notes.iter().filter_map(|note| match note {
        Note::Breaker { state, .. } => Some(*state),
        _ => None,
    });
    phases.collect()
}

#[test]
fn the_third_failure_in_a_row_opens_it_and_the_fourth_call_does_not_run() {
    let mut host = Host::calls(THREE, &["fetch", "search"]);
    fail(&mut host, "fetch", 3);
    assert_eq!(phases(&host), [BreakerPhase::Open]);
    host.propose(&[("d", "fetch", json!({"n": 1}))]);
    assert!(host.idle());
    assert_eq!(host.last_told(), "'fetch' failed 3 times");
    host.propose(&[("e", "search", json!({"n": 1}))]);
    assert_eq!(host.run_tool().tool, "search", "other tools are not affected");
}

#[test]
fn a_success_begins_the_count_anew() {
    let mut host = Host::calls(THREE, &["fetch"]);
    fail(&mut host, "fetch", 2);
    host.propose(&[("c", "fetch", json!({"n": 1}))]);
    host.tool_succeeds(json!(1));
    fail(&mut host, "fetch", 2);
    assert_eq!(phases(&host), []);
}

#[test]
fn a_call_that_was_not_run_does_not_count() {
    let mut host = Host::calls(THREE, &["fetch"]);
    for _ in 0..5 {
        host.propose(&[("x", "fetch", json!({}))]);
    }
    assert_eq!(phases(&host), []);
}

#[test]
fn after_its_time_one_probe_runs_and_closes_it_or_opens_it_again() {
    use BreakerPhase::{Closed, HalfOpen, Open};
    let mut host = Host::calls(THREE, &["fetch"]);
    fail(&mut host, "fetch", 3);
    host.now = host.now.saturating_add(Nanos::from_secs(60));
    host.propose(&[("p", "fetch", json!({"n": 1})), ("q", "fetch", json!({"n": 2}))]);
    host.tool_fails(ErrorClass::ExecutionError);
    assert!(host.idle(), "the second call of the batch is no probe");
    host.now = host.now.saturating_add(Nanos::from_secs(60));
    host.propose(&[("r", "fetch", json!({"n": 1}))]);
    host.tool_succeeds(json!(1));
    assert_eq!(phases(&host), [Open, HalfOpen, Open, HalfOpen, Closed]);
}

#[test]
fn an_open_breaker_ends_the_attempts_of_the_call_that_opened_it() {
    let policy = "
version: 1
tools:
  '*':
    effect: read_only
    retry: {max_attempts: 9, retry_on: [execution_error], backoff: {kind: constant, delay: 0s}}
    breaker: {failures: 3, open_for: unlimited}
";
    let mut host = Host::calls(policy, &["fetch"]);
    host.propose(&[("a", "fetch", json!({"n": 1}))]);
    for _ in 0..3 {
        host.tool_fails(ErrorClass::ExecutionError);
    }
    assert!(host.idle());
    assert_eq!(host.exhausted().map(|e| e.reason), Some(unfazed::session::StopReason::CircuitOpen));
}

#[test]
fn the_next_run_of_a_session_goes_on_with_what_is_known_for_the_session() {
    let session = THREE.replace("failures: 3,", "failures: 3, scope: session,");
    for (policy, known) in [(&*session, Some(2)), (THREE, None)] {
        let mut host = Host::calls(policy, &["fetch"]);
        fail(&mut host, "fetch", 2);
        let next = host.state.next_run();
        assert_eq!(next.breaker("fetch").map(unfazed::engine::CircuitBreaker::failures), known);
        assert_eq!((next.seq, next.turn, next.is_over()), (host.state.seq, 0, false));
    }
}

#[test]
fn calls_of_one_reply_never_overshoot_whichever_ends_first() {
    let calls: Vec<String> = (0..8).map(|call| call.to_string()).collect();
    let calls: Vec<_> = calls.iter().map(|id| (id.as_str(), "fetch", json!({"n": id.len()}))).collect();
    for last_first in [false, true] {
        let mut host = Host::calls(THREE, &["fetch"]);
        fail(&mut host, "fetch", 1);
        host.propose(&calls);
        let mut runs: Vec<_> = std::iter::from_fn(|| host.next_tool()).collect();
        assert_eq!(runs.len(), 2, "one failure is known, and three open it");
        if last_first {
            runs.reverse();
        }
        for run in runs {
            host.tell(run.finished(super::drive::failed(ErrorClass::ExecutionError)));
        }
        assert!(host.idle(), "the others are refused");
        assert_eq!(phases(&host), [BreakerPhase::Open]);
    }
}
