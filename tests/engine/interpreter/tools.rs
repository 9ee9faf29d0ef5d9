//! Tool calls: arguments that do not hold, runs that fail, and what is reported.

use serde_json::json;
use unfazed::engine::{DirectiveKind, EffectState, Failure, Note, ToolOutcome, WaitHint};
use unfazed::policy::{CallOverride, ErrorClass};
use unfazed::session::{FeedbackSource, StopReason};
use unfazed::time::Nanos;

use super::drive::{Host, failed, proposals};

const CORRECTIONS: &str = "
version: 1
tools:
  '*':
    retry:
      max_attempts: 3
      retry_on: [invalid_args, malformed_tool_call]
      correction_backoff: {kind: linear, base: 1s, step: 2s}
";

#[test]
fn invalid_arguments_are_corrected_by_the_model_up_to_max_attempts() {
    let mut host = Host::calls(CORRECTIONS, &["search"]);
    for id in ["a", "b", "c"] {
        host.propose(&[(id, "search", json!({"n": "one"}))]);
        assert!(host.idle(), "a call with wrong arguments does not run");
    }
    let feedback = host.feedback();
    let seen: Vec<_> =
        feedback.iter().map(|f| (f.attempt, f.max_attempts, f.error_type, f.next_delay)).collect();
    let class = ErrorClass::InvalidArgs;
    assert_eq!(
        seen,
        [
            (1, Some(3), class, Nanos::from_secs(1)),
            (2, Some(3), class, Nanos::from_secs(3)),
            (3, Some(3), class, Nanos::ZERO),
        ]
    );
    let first = &feedback[0];
    assert_eq!(first.source, FeedbackSource::Tool);
    assert_eq!(first.tool_name.as_deref(), Some("search"));
    assert_eq!(first.retry_scheduled_at, host.now.saturating_add(Nanos::from_secs(1)));
    assert_eq!(feedback[2].retry_scheduled_at, host.now);
    let exhausted = host.exhausted().expect("the third failure ends it");
    assert_eq!(exhausted.reason, StopReason::Attempts);
    let delays: Vec<_> = exhausted.attempts.iter().map(|a| a.delay).collect();
    assert_eq!(delays, [Nanos::from_secs(1), Nanos::from_secs(3), Nanos::ZERO]);
}

#[test]
fn the_model_is_told_what_to_change_without_times_or_ids() {
    let mut host = Host::calls(CORRECTIONS, &["search"]);
    host.propose(&[("call_77", "search", json!({"n": "one", "m": 1}))]);
    let told = host.last_told();
    assert!(told.contains('n') && told.contains("integer"), "{told}");
    assert!(!told.contains("call_77") && !told.contains("20"), "{told}");
}

#[test]
fn valid_arguments_begin_the_count_anew() {
    let mut host = Host::calls(CORRECTIONS, &["search"]);
    host.propose(&[("a", "search", json!({}))]);
    host.propose(&[("b", "search", json!({"n": 1}))]);
    host.tool_succeeds(json!("found"));
    host.propose(&[("c", "search", json!({}))]);
    assert_eq!(host.feedback().last().map(|f| f.attempt), Some(1));
}

#[test]
fn arguments_that_are_no_json_are_a_malformed_tool_call() {
    let mut host = Host::calls(CORRECTIONS, &["search"]);
    host.propose(&[("a", "search", json!("{\"n\": "))]);
    assert_eq!(host.feedback()[0].error_type, ErrorClass::MalformedToolCall);
}

#[test]
fn a_class_that_is_not_listed_is_one_call_and_no_feedback() {
    let policy = "version: 1\ntools: {'*': {effect: read_only, retry: {retry_on: [timeout]}}}";
    let mut host = Host::calls(policy, &["search"]);
    host.propose(&[("a", "search", json!({"n": 1}))]);
    host.tool_fails(ErrorClass::ExecutionError);
    assert!(host.idle());
    assert_eq!(host.feedback(), []);
    assert_eq!(host.exhausted().map(|e| e.reason), Some(StopReason::NotRetryable));
}

const READ_ONLY: &str = "
version: 1
tools:
  '*':
    effect: read_only
    breaker: {failures: never}
    retry:
      max_attempts: 3
      retry_on: [execution_error, rate_limit]
      backoff: {kind: exponential, base: 1s, factor: 3, jitter: none}
      server_delay: {mode: floor, min: 0s, max: 1m, above_max: give_up}
";

#[test]
fn a_run_that_fails_is_repeated_with_the_same_key_after_the_backoff() {
    let mut host = Host::calls(READ_ONLY, &["search"]);
    host.propose(&[("a", "search", json!({"n": 1}))]);
    let first = host.run_tool();
    let key = first.idempotency_key.clone();
    host.tell(first.finished(failed(ErrorClass::ExecutionError)));
    assert_eq!(host.sleep(), Nanos::from_secs(1));
    let second = host.run_tool();
    assert_eq!((second.attempt, &second.idempotency_key), (2, &key));
    host.tell(second.finished(failed(ErrorClass::ExecutionError)));
    assert_eq!(host.sleep(), Nanos::from_secs(3));
    host.tool_succeeds(json!({"hits": 2}));
    assert_eq!(host.last_told(), r#"{"hits":2}"#);
    assert!(host.idle());
}

#[test]
fn a_server_that_asks_for_more_than_the_policy_grants_ends_it_without_a_wait() {
    let mut host = Host::calls(READ_ONLY, &["search"]);
    host.propose(&[("a", "search", json!({"n": 1}))]);
    let run = host.run_tool();
    let mut failure = Failure::of(ErrorClass::RateLimit, "slow down");
    failure.retry_after = WaitHint::Wait(Nanos::from_secs(3600));
    host.tell(run.finished(ToolOutcome::Failed { failure, effect: EffectState::Started }));
    assert!(host.idle());
    let exhausted = host.exhausted().unwrap();
    assert_eq!(exhausted.reason, StopReason::ServerDelay);
    assert_eq!(exhausted.retry_after, Some(Nanos::from_secs(3600)));
}

#[test]
fn a_tool_that_may_have_acted_is_not_run_again() {
    let policy = "version: 1\ntools: {'*': {retry: {retry_on: [timeout]}}}";
    let mut host = Host::calls(policy, &["send_mail"]);
    host.propose(&[("a", "send_mail", json!({"n": 1}))]);
    host.tool_fails(ErrorClass::Timeout);
    assert!(host.idle());
    assert_eq!(host.exhausted().map(|e| e.reason), Some(StopReason::MayHaveActed));
    assert!(!host.last_told().contains("not executed"), "{}", host.last_told());
}

#[test]
fn a_tool_that_never_started_may_run_again_whatever_it_does() {
    let policy = "version: 1\ntools: {'*': {effect: non_idempotent, retry: {max_attempts: 2, \
                  retry_on: [tool_unavailable], backoff: {kind: constant, delay: 0s}}}}";
    let mut host = Host::calls(policy, &["send_mail"]);
    host.propose(&[("a", "send_mail", json!({"n": 1}))]);
    let run = host.run_tool();
    let failure = Failure::of(ErrorClass::ToolUnavailable, "not there");
    host.tell(run.finished(ToolOutcome::Failed { failure, effect: EffectState::NotStarted }));
    assert_eq!(host.run_tool().attempt, 2, "a zero delay runs it at once, without a wait");
}

#[test]
fn an_unknown_tool_is_answered_with_the_nearest_names() {
    let mut host = Host::calls("version: 1", &["search", "fetch", "store", "delete"]);
    host.propose(&[("a", "serch", json!({}))]);
    assert!(host.last_told().contains("search"), "{}", host.last_told());
    let refused = host.notes.iter().any(
        |note| matches!(note, Note::Refused { error_type: ErrorClass::ToolNotFound, tool, .. } if tool == "serch"),
    );
    assert!(refused);
}

#[test]
fn a_declared_rule_for_single_calls_wins_where_it_holds() {
    let policy = "
version: 1
tools:
  search:
    effect: read_only
    retry: {max_attempts: 3, retry_on: [timeout], backoff: {kind: constant, delay: 1s, jitter: none}}
    calls:
      - when: args.n > 10
        retry: {max_attempts: 1}
";
    let mut host = Host::calls(policy, &["search"]);
    host.propose(&[("a", "search", json!({"n": 11}))]);
    let run = host.run_tool();
    assert_eq!(run.max_attempts, Some(1));
    host.tell(run.finished(failed(ErrorClass::Timeout)));
    assert!(host.idle());
    host.propose(&[("b", "search", json!({"n": 10}))]);
    assert_eq!(host.run_tool().max_attempts, Some(3));
}

#[test]
fn the_planner_may_tighten_a_call_but_not_loosen_it() {
    let policy = "version: 1\nlimits: {max_attempts: 4}\ntools: {'*': {retry: {max_attempts: 3}}}";
    for (wanted, granted) in [(2, 2), (9, 4)] {
        let mut host = Host::calls(policy, &["search"]);
        let layer = CallOverride::new(json!({"retry": {"max_attempts": wanted}})).unwrap();
        let mut calls = proposals(&[("a", "search", json!({"n": 1}))]);
        calls[0].policy = Some(layer);
        host.tell(unfazed::engine::Event::ToolsProposed { calls, turn: None });
        assert_eq!(host.run_tool().max_attempts, Some(granted));
    }
}

#[test]
fn every_decision_names_the_line_that_made_it() {
    let mut host = Host::calls(READ_ONLY, &["search"]);
    host.propose(&[("a", "search", json!({"n": 1}))]);
    host.tool_fails(ErrorClass::ExecutionError);
    assert!(
        host.because.contains(&"retry.max_attempts=3 policy.yaml:8:21".to_owned()),
        "{:#?}",
        host.because
    );
}

#[test]
fn an_answer_nobody_asked_for_changes_nothing() {
    let mut host = Host::calls(READ_ONLY, &["search"]);
    host.propose(&[("a", "search", json!({"n": 1}))]);
    let run = host.run_tool();
    let twin: DirectiveKind =
        serde_json::from_value(serde_json::to_value(unfazed::engine::Work::RunTool(run)).unwrap()).unwrap();
    let DirectiveKind::Work(unfazed::engine::Work::RunTool(run)) = twin else { panic!("not a tool run") };
    let again = serde_json::to_value(&run).unwrap();
    host.tell(run.finished(ToolOutcome::Ok { data: json!(1) }));
    let after = host.state.digest();
    let run: unfazed::engine::RunTool = serde_json::from_value(again).unwrap();
    host.tell(run.finished(ToolOutcome::Ok { data: json!(2) }));
    assert_eq!(host.warnings().len(), 1);
    let mut state = host.state.clone();
    state.seq -= 1;
    assert_eq!(state.digest(), after);
}
