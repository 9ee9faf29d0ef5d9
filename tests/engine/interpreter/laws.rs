//! What holds whatever goes wrong, in the smallest cases in which it once did not.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use unfazed::engine::{Event, Note, Outcome, PlannerDecision, ToolOutcome, Work};
use unfazed::policy::ErrorClass;
use unfazed::session::StopReason;

use super::drive::{Host, failed};

const REPORT: &str = "
version: 1
turn: {max_turns: 2, text_only: reject}
tools: {'*': {retry: {max_attempts: 2, retry_on: [invalid_args], backoff: {kind: constant, delay: 0s}}}}
output: {on_exhausted: fail, retry: {max_attempts: 3, retry_on: [invalid_output]}}
";

fn attempts(host: &Host) -> Vec<u32> {
    host.feedback().iter().map(|feedback| feedback.attempt).collect()
}

#[test]
fn a_model_that_never_reports_runs_out_of_attempts_in_the_last_turn() {
    let mut host = Host::turns(REPORT, &["a"]);
    for id in ["1", "2", "3", "4"] {
        assert_eq!(host.outcome(), None);
        host.model_calls(&[(id, "a", json!({"n": 1}))]);
        if id == "1" {
            host.tool_succeeds(json!("found"));
        }
    }
    let Some(Outcome::Failed { exhausted, .. }) = host.outcome() else { panic!("{:?}", host.outcome()) };
    assert_eq!((exhausted.action.as_str(), exhausted.attempts.len()), ("output", 3));
}

#[test]
fn without_a_report_the_last_turn_is_for_an_answer_and_runs_no_tool() {
    let mut host = Host::turns("version: 1\nturn: {max_turns: 1}", &["a"]);
    host.model_calls(&[("1", "a", json!({"n": 1}))]);
    assert!(host.idle());
    assert!(host.last_told().contains("final turn"), "{}", host.last_told());
    assert!(matches!(host.outcome(), Some(Outcome::Failed { .. })), "{:?}", host.outcome());
}

#[test]
fn corrections_that_are_used_up_are_refused_without_another_attempt() {
    let mut host = Host::calls(REPORT, &["a"]);
    host.propose(&[
        ("1", "a", json!({})),
        ("2", "a", json!({})),
        ("3", "a", json!({})),
        ("4", "a", json!({})),
    ]);
    assert_eq!(attempts(&host), [1, 2]);
    let exhausted = host.exhausted().unwrap();
    assert_eq!((exhausted.reason, exhausted.attempts.len()), (StopReason::Attempts, 2));
}

#[test]
fn tighter_rules_for_one_call_end_only_that_call() {
    let policy = "
version: 1
tools:
  '*':
    retry: {max_attempts: 3, retry_on: [invalid_args], backoff: {kind: constant, delay: 0s}}
    calls: [{when: 'args.n > 5', retry: {max_attempts: 1}}]
    validate: [{name: small, check: args.n < 3, message: too large}]
";
    let mut host = Host::calls(policy, &["a"]);
    for n in [3, 4, 9, 9, 3] {
        host.propose(&[("1", "a", json!({"n": n}))]);
    }
    assert_eq!(attempts(&host), [1, 2, 3], "the calls in between had no attempt left");
}

#[test]
fn reports_that_are_used_up_are_refused_without_another_attempt() {
    let policy = REPORT.replace("on_exhausted: fail", "on_exhausted: tell_model");
    let mut host = Host::calls(&policy, &[]);
    for _ in 0..5 {
        host.tell(Event::OutputProposed { output: "3".into() });
    }
    assert_eq!(attempts(&host), [1, 2, 3]);
    assert_eq!(host.exhausted().map(|e| e.attempts.len()), Some(3));
}

#[test]
fn the_reason_a_report_is_given_up_for_is_the_one_that_stopped_it() {
    let policy = REPORT.replace("[invalid_output]", "[invalid_output], never_retry: [invalid_output]");
    let mut host = Host::calls(&policy, &[]);
    host.tell(Event::OutputProposed { output: "3".into() });
    assert_eq!(host.exhausted().map(|e| e.reason), Some(StopReason::NeverRetry));
    assert_eq!(host.feedback(), []);
}

#[test]
fn the_first_report_that_is_accepted_is_the_report() {
    let mut host = Host::turns(REPORT, &[]);
    host.model_calls(&[("1", "final_report", json!({"n": 1})), ("2", "final_report", json!(3))]);
    assert_eq!(host.outcome(), Some(&Outcome::Reported { output: json!({"n": 1}) }));
    assert_eq!(host.feedback(), []);
}

#[test]
fn a_probe_whose_arguments_the_tool_refuses_is_given_back() {
    let policy = "
version: 1
tools: {'*': {effect: read_only, breaker: {failures: 1, open_for: 0s}, retry: {max_attempts: 1}}}
";
    let mut host = Host::calls(policy, &["a"]);
    for (id, class) in [("1", ErrorClass::ExecutionError), ("2", ErrorClass::InvalidArgs)] {
        host.propose(&[(id, "a", json!({"n": 1}))]);
        host.tool_fails(class);
    }
    host.propose(&[("3", "a", json!({"n": 1}))]);
    host.tool_succeeds(json!("well again"));
}

#[test]
fn calls_are_proposed_while_the_planner_is_asked_about_the_report() {
    let policy = REPORT.replace("on_exhausted: fail", "on_exhausted: ask_planner");
    let mut host = Host::calls(&policy, &["a"]);
    for _ in 0..3 {
        host.tell(Event::OutputProposed { output: "3".into() });
    }
    let consult = match host.work() {
        Work::Consult(consult) => consult,
        other => panic!("expected a question to the planner, found {other:?}"),
    };
    host.propose(&[("1", "a", json!({"n": 1}))]);
    host.tool_succeeds(json!("well"));
    host.tell(consult.decided(PlannerDecision::FinalTurn));
    assert!(host.state.open_proposals().next().is_none(), "both are settled");
}

/// Generous: what is quadratic takes minutes.
const SOON: Duration = Duration::from_secs(30);

#[test]
fn ten_thousand_calls_that_wait_for_each_other_take_no_longer() {
    let mut host = Host::calls("version: 1\nturn: {calls: {max: unlimited}}\n", &["a"]);
    let ids: Vec<String> = (0..10_000).map(|id| id.to_string()).collect();
    let calls: Vec<(&str, &str, Value)> =
        (0..).zip(&ids).map(|(n, id)| (id.as_str(), "a", json!({"n": n}))).collect();
    let before = Instant::now();
    host.propose(&calls);
    let mut runs = 0;
    while let Some(run) = host.next_tool() {
        host.tell(run.finished(ToolOutcome::Ok { data: json!(1) }));
        runs += 1;
    }
    assert_eq!(runs, 10_000);
    assert!(before.elapsed() < SOON);
}

#[test]
fn ten_thousand_calls_in_one_reply_take_no_longer_than_ten_thousand_calls() {
    let policy = "
version: 1
tools: {'*': {breaker: {failures: never}, loop_guard: {enabled: false}}}
turn: {calls: {parallel: unlimited, max: unlimited}}
session:
  slices: {log: {initial: []}}
  reducers: {remember: {on: tool_succeeded, slice: log, do: {kind: append, value: event.call}}}
";
    for arguments in [json!({"n": 1}), json!({}), json!("{")] {
        let mut host = Host::calls(policy, &["a"]);
        let ids: Vec<String> = (0..10_000).map(|id| id.to_string()).collect();
        let calls: Vec<(&str, &str, Value)> =
            ids.iter().map(|id| (id.as_str(), "a", arguments.clone())).collect();
        let before = Instant::now();
        host.propose(&calls);
        let mut runs = Vec::new();
        while !host.idle() {
            runs.push(host.run_tool());
        }
        // The worst order: nothing is settled before the last has ended.
        for run in runs.into_iter().rev() {
            let outcome = if run.call.ends_with('7') {
                failed(ErrorClass::ExecutionError)
            } else {
                ToolOutcome::Ok { data: json!(1) }
            };
            host.tell(run.finished(outcome));
        }
        let told = host.notes.iter().filter(|note| matches!(note, Note::Append { .. })).count();
        assert_eq!(told, 10_001);
        assert!(before.elapsed() < SOON);
    }
}
