//! One change in the middle of a run, and what comes of the work that had begun.

use serde_json::json;
use unfazed::engine::{
    ApprovalAnswer, DriveMode, EffectState, Failure, ModelReply, Outcome, ProposedCall, ToolOutcome,
    TurnMeasure, Work,
};
use unfazed::policy::{ErrorClass, Policy};
use unfazed::session::{Message, ToolCall};

use super::host::Host;
use super::tape::Tape;

/// A run of a policy whose model has called these tools, and what is to be done then.
fn called(policy: &str, calls: &[(&str, &str)]) -> Host {
    let mut host = Host::start(&read(policy), DriveMode::Turns, &mut Tape::new(Vec::new()));
    host.changed = true;
    let prepare = host.open.pop().unwrap();
    let Work::PrepareTurn(turn) = prepare else { panic!("{prepare:?}") };
    host.tell(turn.prepared(TurnMeasure::default()));
    let call = host.open.pop().unwrap();
    let Work::CallModel(call) = call else { panic!("{call:?}") };
    let proposal = |(at, (name, arguments)): (usize, &(&str, &str))| {
        let id = format!("c{at}");
        ProposedCall::from(ToolCall { id, name: (*name).into(), arguments: (*arguments).into() })
    };
    let calls = calls.iter().enumerate().map(proposal).collect();
    host.tell(call.responded(ModelReply { calls, ..ModelReply::default() }));
    host
}

fn read(policy: &str) -> Policy {
    Policy::from_yaml("policy.yaml", policy).unwrap_or_else(|report| panic!("{report}"))
}

fn timeout(effect: EffectState) -> ToolOutcome {
    ToolOutcome::Failed { failure: Failure::of(ErrorClass::Timeout, "it took too long"), effect }
}

/// Answers the only work there is, a run of a tool.
fn ends(host: &mut Host, outcome: ToolOutcome) {
    let work = host.open.pop().unwrap();
    let Work::RunTool(run) = work else { panic!("{work:?}") };
    assert!(host.open.is_empty(), "{:?}", host.open);
    host.tell(run.finished(outcome));
}

/// The wait that is the only work there is, is over.
fn waits(host: &mut Host) {
    let work = host.open.pop().unwrap();
    let Work::Wait(wait) = work else { panic!("{work:?}") };
    assert!(host.open.is_empty(), "{:?}", host.open);
    host.now = wait.until;
    host.tell(wait.fired());
}

fn texts(host: &Host) -> Vec<&str> {
    host.conversation
        .iter()
        .filter(|message| matches!(message, Message::Tool { .. }))
        .map(Message::text)
        .collect()
}

const WAITS: &str = "version: 1
tools: {'*': {effect: read_only, retry: {max_attempts: 3, backoff: {kind: constant, delay: 1s, jitter: none}}}}
models: {'*': {retry: {max_attempts: 3, backoff: {kind: constant, delay: 1s, jitter: none}}}}
";

#[test]
fn a_report_that_comes_when_the_policy_has_none_any_more_is_a_call_of_no_tool() {
    let reports = format!("{WAITS}output: {{schema: {{type: object}}}}\n");
    for kill in [false, true] {
        let mut host = called(&reports, &[("alpha", r#"{"n": 1}"#), ("final_report", "{}")]);
        if kill {
            host.state = serde_json::from_str(&serde_json::to_string(&host.state).unwrap()).unwrap();
        }
        host.adopt(read(WAITS));
        ends(&mut host, ToolOutcome::Ok { data: json!("found") });
        assert!(matches!(host.open[..], [Work::PrepareTurn(_)]), "{:?}", host.open);
        assert_eq!(texts(&host)[0], "found");
        assert!(texts(&host)[1].starts_with("There is no tool `final_report`."), "{:?}", texts(&host));
    }
}

#[test]
fn a_report_that_was_accepted_is_delivered_though_the_policy_has_none_any_more() {
    let reports = format!("{WAITS}output: {{schema: {{type: object}}}}\n");
    let mut host = called(&reports, &[("final_report", "{}"), ("alpha", r#"{"n": 1}"#)]);
    host.adopt(read(WAITS));
    ends(&mut host, ToolOutcome::Ok { data: json!("found") });
    assert_eq!(host.state.outcome, Some(Outcome::Reported { output: json!({}) }));
}

#[test]
fn an_attempt_that_waits_is_not_made_if_the_new_policy_allows_fewer() {
    for tighter in
        ["max_attempts: 1", "retry_on: []", "never_retry: [timeout]", "enabled: false", "shadow: true"]
    {
        let mut host = called(WAITS, &[("alpha", r#"{"n": 1}"#)]);
        ends(&mut host, timeout(EffectState::NotStarted));
        host.adopt(read(&format!(
            "version: 1\ntools: {{'*': {{effect: read_only, retry: {{{tighter}}}}}}}\n"
        )));
        waits(&mut host);
        assert!(matches!(host.open[..], [Work::PrepareTurn(_)]), "{tighter}: {:?}", host.open);
        assert!(texts(&host)[0].contains("it took too long"), "{tighter}: {:?}", texts(&host));
    }
    let mut host = called(WAITS, &[("alpha", r#"{"n": 1}"#)]);
    ends(&mut host, timeout(EffectState::NotStarted));
    host.adopt(read(&WAITS.replace("max_attempts: 3", "max_attempts: 2")));
    waits(&mut host);
    assert!(matches!(&host.open[..], [Work::RunTool(run)] if run.attempt == 2), "{:?}", host.open);
}

#[test]
fn what_may_have_acted_is_not_run_again_if_the_new_policy_forbids_it() {
    let acts_once = WAITS.replace("effect: read_only", "effect: non_idempotent");
    for (left, runs) in [(EffectState::NotStarted, true), (EffectState::Unknown, false)] {
        let mut host = called(WAITS, &[("alpha", r#"{"n": 1}"#)]);
        ends(&mut host, timeout(left));
        host.adopt(read(&acts_once));
        waits(&mut host);
        assert_eq!(matches!(host.open[..], [Work::RunTool(_)]), runs, "{left:?}: {:?}", host.open);
    }
}

#[test]
fn nor_is_a_model_asked_again() {
    let mut host = called(WAITS, &[]);
    // A reply without anything in it is retried.
    assert!(matches!(host.open[..], [Work::Wait(_)]), "{:?}", host.open);
    host.adopt(read(&WAITS.replace("max_attempts: 3", "max_attempts: 1")));
    waits(&mut host);
    assert!(host.finished, "{:?}", host.open);
}

#[test]
fn before_another_attempt_a_person_is_asked_if_the_new_policy_says_so() {
    let asks = WAITS.replace("effect: read_only,", "effect: read_only, approval: always,");
    for (answer, runs) in
        [(ApprovalAnswer::Approve, true), (ApprovalAnswer::Refuse, false), (ApprovalAnswer::None, false)]
    {
        let mut host = called(WAITS, &[("alpha", r#"{"n": 1}"#)]);
        ends(&mut host, timeout(EffectState::NotStarted));
        host.adopt(read(&asks));
        waits(&mut host);
        let work = host.open.pop().unwrap();
        let Work::Ask(ask) = work else { panic!("{work:?}") };
        let event = host.answer_person(ask, answer);
        host.tell(event);
        assert_eq!(
            matches!(&host.open[..], [Work::RunTool(run)] if run.attempt == 2),
            runs,
            "{:?}",
            host.open
        );
        assert_eq!(matches!(host.open[..], [Work::PrepareTurn(_)]), !runs, "{:?}", host.open);
    }
}
