//! Model turns: failures, waits, targets, and the final turn.

use serde_json::json;
use unfazed::engine::{Failure, FinishReason, ModelReply, Note, Outcome, ToolChoice, WaitHint};
use unfazed::policy::ErrorClass;
use unfazed::session::{StopReason, Usage};
use unfazed::time::Nanos;

use super::drive::Host;

const MODEL: &str = "
version: 1
models:
  '*':
    on_exhausted: fail
    retry:
      max_attempts: 3
      retry_on: [rate_limit, empty_response, network_error]
      never_retry: [auth_error]
      backoff: {kind: constant, delay: 10s, jitter: none}
      server_delay: {mode: replace, min: 0s, max: 1m, above_max: give_up}
";

fn limited(wait: WaitHint) -> Failure {
    Failure { retry_after: wait, ..Failure::of(ErrorClass::RateLimit, "slow down") }
}

#[test]
fn a_rate_limit_is_waited_for_as_long_as_the_server_says() {
    let mut host = Host::turns(MODEL, &["a"]);
    host.model_fails(limited(WaitHint::Wait(Nanos::from_secs(2))));
    let wait = host.wait();
    assert_eq!((wait.delay, wait.attempt, wait.max_attempts), (Nanos::from_secs(2), 2, Some(3)));
    host.tell(wait.fired());
    host.model_says("hello");
    assert_eq!(host.outcome(), Some(&Outcome::Answered { text: "hello".into() }));
}

#[test]
fn there_is_no_wait_after_the_last_attempt() {
    let mut host = Host::turns(MODEL, &[]);
    host.model_fails(limited(WaitHint::None));
    host.sleep();
    host.model_fails(limited(WaitHint::None));
    host.sleep();
    host.model_fails(limited(WaitHint::Wait(Nanos::from_secs(5))));
    assert!(host.idle());
    let Some(Outcome::Failed { exhausted, .. }) = host.outcome() else { panic!("not failed") };
    assert_eq!(exhausted.attempts.len(), 3);
}

#[test]
fn what_is_never_retried_ends_at_once() {
    let mut host = Host::turns(MODEL, &[]);
    host.model_fails(Failure::of(ErrorClass::AuthError, "wrong key"));
    assert!(host.idle());
    assert_eq!(host.exhausted().map(|e| e.reason), Some(StopReason::NeverRetry));
}

#[test]
fn an_empty_reply_is_asked_again_with_one_line_of_guidance() {
    let mut host = Host::turns(MODEL, &["a"]);
    host.model_says("  ");
    let before = host.told().len();
    host.sleep();
    host.model_says("");
    assert_eq!(host.told().len(), before, "the guidance is said once");
}

#[test]
fn a_reply_cut_at_the_token_limit_is_no_answer() {
    let mut host = Host::turns(MODEL, &[]);
    let call = host.model_call();
    let reply = ModelReply { text: "so it".into(), finish: FinishReason::Length, ..ModelReply::default() };
    host.tell(call.responded(reply));
    assert!(matches!(host.outcome(), Some(Outcome::Failed { .. })));
}

#[test]
fn a_window_that_is_full_before_the_reply_is_whole_is_an_overflow_of_the_context() {
    let mut host = Host::turns(MODEL, &["a"]);
    let reply = |text: &str, calls| ModelReply {
        text: text.into(),
        calls,
        finish: FinishReason::ContextWindow,
        ..ModelReply::default()
    };
    let call = host.model_call();
    host.tell(call.responded(reply("", super::drive::proposals(&[("1", "a", json!({"n": 1}))]))));
    host.tool_succeeds(json!(1));
    let call = host.model_call();
    host.tell(call.responded(reply("so it", Vec::new())));
    assert_eq!(host.exhausted().map(|e| e.attempts[0].error_type), Some(ErrorClass::ContextOverflow));
}

#[test]
fn nothing_follows_a_half_shown_answer_if_the_policy_says_so() {
    let policy = "{version: 1, turn: {after_partial: fail}}";
    for class in [ErrorClass::NetworkError, ErrorClass::AuthError] {
        let mut host = Host::turns(policy, &[]);
        host.model_fails(Failure { received: 5, ..Failure::of(class, "it broke") });
        assert!(host.idle());
        assert_eq!(host.exhausted().map(|e| e.reason), Some(StopReason::AfterPartial));
    }
}

#[test]
fn a_call_that_is_recovered_from_an_error_takes_the_place_of_what_was_streamed_before() {
    let mut host = Host::turns("version: 1", &["a"]);
    let message = r#"error parsing tool call: raw='{"n": 1,}', err=invalid character '}'"#;
    host.model_fails(Failure { received: 7, ..Failure::of(ErrorClass::MalformedToolCall, message) });
    let retracted = |note: &Note| matches!(note, Note::TurnRetracted { received: 7, attempt: 1, .. });
    assert_eq!(host.notes.iter().filter(|note| retracted(note)).count(), 1);
    host.tool_succeeds(json!(1));
}

#[test]
fn a_deadline_that_the_next_attempt_would_miss_stops_now() {
    let policy = "
version: 1
models:
  '*': {on_exhausted: fail, retry: {max_attempts: 9, retry_on: [network_error], deadline: 15s,
        backoff: {kind: constant, delay: 10s, jitter: none}}}
";
    let mut host = Host::turns(policy, &[]);
    host.model_fails(Failure::of(ErrorClass::NetworkError, "reset"));
    host.sleep();
    host.model_fails(Failure::of(ErrorClass::NetworkError, "reset"));
    assert!(host.idle());
    assert_eq!(host.exhausted().map(|e| e.reason), Some(StopReason::Deadline));
}

#[test]
fn tokens_are_added_up() {
    let mut host = Host::turns(MODEL, &["a"]);
    let call = host.model_call();
    let usage = Some(Usage { input: 10, output: 2, ..Usage::default() });
    let calls = super::drive::proposals(&[("1", "a", json!({"n": 1}))]);
    host.tell(call.responded(ModelReply { calls, usage, ..ModelReply::default() }));
    host.tool_succeeds(json!(1));
    let call = host.model_call();
    host.tell(call.responded(ModelReply { text: "x".into(), usage, ..ModelReply::default() }));
    assert_eq!(host.state.usage, Usage { input: 20, output: 4, ..Usage::default() });
}

#[test]
fn the_last_turn_allows_only_the_report() {
    let policy = "
version: 1
turn: {max_turns: 2, text_only: reject}
output: {schema: {type: object}}
";
    let mut host = Host::turns(policy, &["a"]);
    let call = host.model_call();
    assert_eq!(call.tools, ["a", "final_report"]);
    let calls = super::drive::proposals(&[("1", "a", json!({"n": 1}))]);
    host.tell(call.responded(ModelReply { calls, ..ModelReply::default() }));
    host.tool_succeeds(json!(1));
    let call = host.model_call();
    assert_eq!((call.turn, &call.tools[..]), (2, &["final_report".to_owned()][..]));
    assert_eq!(call.tool_choice, ToolChoice::Tool("final_report".into()));
    let calls = super::drive::proposals(&[("2", "a", json!({"n": 1}))]);
    host.tell(call.responded(ModelReply { calls, ..ModelReply::default() }));
    assert!(host.last_told().contains("final_report"), "{}", host.last_told());
}

#[test]
fn a_model_that_never_delivers_ends_the_run() {
    let reports = "output: {schema: {type: object, required: [x]}}\nturn: {max_turns: 3, text_only: reject}";
    for rest in [reports, "turn: {max_turns: 3}"] {
        let mut host = Host::turns(&format!("version: 1\n{rest}"), &["a"]);
        let mut calls = 0;
        while host.outcome().is_none() {
            host.model_calls(&[("1", "a", json!({"n": 1}))]);
            while let Some(run) = host.next_tool() {
                host.tell(run.finished(unfazed::engine::ToolOutcome::Ok { data: json!(1) }));
            }
            calls += 1;
            assert!(calls <= 3 + 2, "three turns, and two more attempts at the report in the last one");
        }
        assert!(matches!(host.outcome(), Some(Outcome::Failed { .. })));
    }
}

#[test]
fn a_failed_run_says_why() {
    let mut host = Host::turns(MODEL, &[]);
    host.model_fails(Failure::of(ErrorClass::AuthError, "wrong key"));
    let Some(Outcome::Failed { exhausted, .. }) = host.outcome() else { panic!("not failed") };
    assert_eq!(exhausted.reason, StopReason::NeverRetry);
}

/// A failure that the error table says the request itself is at fault for.
fn at_fault() -> Failure {
    Failure { status: Some(500), message: "cannot read this".into(), ..Failure::default() }
}

const AT_FAULT: &str = "
version: 1
errors: [{status: 500, message: cannot read this, class: network_error, request_at_fault: true}]
models: {'*': {on_exhausted: fail, retry: {retry_on: [network_error], max_attempts: 9}}}
";

#[test]
fn a_request_that_is_itself_at_fault_is_not_sent_again_as_it_is() {
    let mut host = Host::turns(AT_FAULT, &[]);
    host.model_fails(at_fault());
    assert!(host.idle());
    let exhausted = host.exhausted().unwrap();
    assert_eq!((exhausted.reason, exhausted.attempts.len()), (StopReason::RequestAtFault, 1));
    assert_eq!(exhausted.attempts[0].error_type, ErrorClass::NetworkError);
}

#[test]
fn another_failure_of_the_same_class_is_retried() {
    let mut host = Host::turns(AT_FAULT, &[]);
    host.model_fails(Failure::of(ErrorClass::NetworkError, "reset"));
    assert_eq!(host.wait().attempt, 2);
}
