//! The final report: what is refused, what is reported, what is accepted.

use serde_json::json;
use unfazed::engine::{Note, Outcome};
use unfazed::policy::ErrorClass;
use unfazed::session::{FeedbackSource, StopReason};

use super::drive::Host;

const REPORT: &str = "
version: 1
turn: {text_only: reject}
output:
  schema: {type: object, properties: {total: {type: number}}, required: [total], additionalProperties: false}
  validate: [{name: positive, check: output.total >= 0, message: total must not be negative}]
  on_exhausted: fail
  retry: {max_attempts: 3, retry_on: [invalid_output, text_only], backoff: {kind: constant, delay: 0s}}
";

#[test]
fn plain_text_where_the_report_is_due_is_rejected_with_guidance() {
    let mut host = Host::turns(REPORT, &[]);
    host.model_says("the total is 3");
    let rejected = host.notes.iter().any(|note| {
        matches!(note, Note::RejectTurn { error_type: ErrorClass::TextOnly, message } if message.contains("final_report"))
    });
    assert!(rejected);
    let feedback = &host.feedback()[0];
    assert_eq!((feedback.source, feedback.attempt), (FeedbackSource::StructuredOutput, 1));
    assert_eq!(feedback.tool_name, None);
}

#[test]
fn a_report_that_breaks_its_schema_is_answered_with_what_is_wrong() {
    let mut host = Host::turns(REPORT, &[]);
    host.model_calls(&[("1", "final_report", json!({"totl": 3}))]);
    let told = host.last_told();
    assert!(told.contains("total"), "{told}");
    assert!(host.outcome().is_none());
}

#[test]
fn a_validator_is_held_against_a_report_that_holds_the_schema() {
    let mut host = Host::turns(REPORT, &[]);
    host.model_calls(&[("1", "final_report", json!({"total": -1}))]);
    assert!(host.last_told().contains("total must not be negative"), "{}", host.last_told());
    host.model_calls(&[("2", "final_report", json!({"total": 1}))]);
    assert_eq!(host.outcome(), Some(&Outcome::Reported { output: json!({"total": 1}) }));
}

#[test]
fn attempts_of_text_and_report_count_together_and_end_with_their_history() {
    let mut host = Host::turns(REPORT, &[]);
    host.model_says("soon");
    host.model_calls(&[("1", "final_report", json!({}))]);
    host.model_says("really soon");
    let Some(Outcome::Failed { exhausted, .. }) = host.outcome() else {
        panic!("not failed: {:?}", host.outcome())
    };
    assert_eq!(exhausted.reason, StopReason::Attempts);
    let classes: Vec<_> = exhausted.attempts.iter().map(|a| a.error_type).collect();
    assert_eq!(classes, [ErrorClass::TextOnly, ErrorClass::InvalidOutput, ErrorClass::TextOnly]);
}

#[test]
fn exhausted_attempts_may_lead_to_one_last_turn() {
    let policy = REPORT.replace("on_exhausted: fail", "on_exhausted: final_turn");
    let mut host = Host::turns(&policy, &["a"]);
    for _ in 0..3 {
        host.model_says("soon");
    }
    assert_eq!(host.model_call_tools(), ["final_report"]);
}

#[test]
fn a_text_is_taken_as_the_report_where_the_policy_says_so() {
    let policy = REPORT.replace("text_only: reject", "text_only: accept");
    let mut host = Host::turns(&policy, &[]);
    host.model_says("{\"total\": 5}");
    assert_eq!(host.outcome(), Some(&Outcome::Reported { output: json!({"total": 5}) }));
}

#[test]
fn a_host_with_its_own_loop_proposes_reports_itself() {
    let mut host = Host::calls(REPORT, &[]);
    host.tell(unfazed::engine::Event::OutputProposed { output: "{}".into() });
    assert_eq!(host.feedback().len(), 1);
    host.tell(unfazed::engine::Event::OutputProposed { output: "{\"total\": 5}".into() });
    assert_eq!(host.outcome(), Some(&Outcome::Reported { output: json!({"total": 5}) }));
}
