//! What a host with its own loop proposes: calls, turns and reports, one by one and side by side.

use serde_json::json;
use unfazed::engine::{
    Directive, DirectiveKind, Directives, Envelope, Event, Failure, HostSkill, Interpreter, ModelReply, Note,
    Outcome, PlannerDecision, ProposalFault, ProposalId, ProposalResult, State, ToolCatalogue, ToolOutcome,
    TurnMeasure, TurnProposal, Work,
};
use unfazed::policy::{ErrorClass, Policy};
use unfazed::session::{FinalReason, HistoryRepair, Message, StopReason};
use unfazed::time::{Instant, Nanos};

use super::drive::{Host, failed, proposals};

const PLAIN: &str = "version: 1\n";

fn call(tool: &str) -> Event {
    Event::ToolsProposed { calls: proposals(&[("call_1", tool, json!({"n": 1}))]), turn: None }
}

fn turn() -> Event {
    Event::TurnProposed(TurnProposal::default())
}

fn calls_of(turn: ProposalId, tools: &[&str]) -> Event {
    let calls: Vec<_> = tools.iter().map(|tool| ("call_1", *tool, json!({"n": 1}))).collect();
    Event::ToolsProposed { calls: proposals(&calls), turn: Some(turn) }
}

fn reported(total: u32) -> Event {
    Event::OutputProposed { output: json!({ "total": total }).to_string() }
}

const REPORT: &str = "
version: 1
output: {schema: {type: object, properties: {total: {type: integer}}, required: [total]}, retry: {max_attempts: 2}}
";

impl Host {
    /// The replies of models that are a part of the conversation.
    fn replies(&self) -> Vec<&Message> {
        let appended = self.notes.iter().filter_map(|note| match note {
            Note::Append { message } => Some(message),
            _ => None,
        });
        appended.filter(|message| matches!(message, Message::Assistant { .. })).collect()
    }

    /// Proposes a turn that is answered with a text.
    fn answered_turn(&mut self) -> ProposalId {
        let turn = self.offer(turn());
        self.model_says("well");
        turn
    }
}

#[test]
fn a_proposal_is_settled_while_another_one_is_under_way() {
    let mut host = Host::calls(PLAIN, &["slow", "quick"]);
    let slow = host.offer(call("slow"));
    let quick = host.offer(call("quick"));
    let slow_run = host.run_tool();
    host.tool_succeeds(json!(1));
    assert_eq!(host.settled(quick).unwrap().result, ProposalResult::Tools);
    assert_eq!(host.settled(slow), None);
    host.tell(slow_run.finished(ToolOutcome::Ok { data: json!(2) }));
    assert_eq!(host.settled(slow).unwrap().result, ProposalResult::Tools);
}

#[test]
fn the_concurrency_of_a_tool_holds_over_all_proposals() {
    let mut host = Host::calls("version: 1\ntools: {search: {concurrency: 1}}", &["search"]);
    let (first, second) = (host.offer(call("search")), host.offer(call("search")));
    let run = host.run_tool();
    assert!(host.idle(), "the second call waits for the first");
    host.tell(run.finished(ToolOutcome::Done));
    assert!(host.settled(first).is_some() && host.settled(second).is_none());
    host.tool_succeeds(json!(1));
    assert!(host.settled(second).is_some());
}

#[test]
fn a_retry_of_one_proposal_keeps_its_own_key() {
    let mut host = Host::calls("version: 1\ntools: {'*': {effect: idempotent}}", &["a", "b"]);
    host.tell(call("a"));
    host.tell(call("b"));
    let (a, b) = (host.run_tool(), host.run_tool());
    let (key_a, key_b) = (a.idempotency_key.clone(), b.idempotency_key.clone());
    assert_ne!(key_a, key_b);
    host.tell(a.finished(failed(ErrorClass::Timeout)));
    host.sleep();
    assert_eq!(host.run_tool().idempotency_key, key_a, "the batch proposed last has another number");
}

#[test]
fn what_cannot_be_taken_is_refused_by_a_note() {
    let mut host = Host::calls(REPORT, &["search"]);
    let none = host.offer(Event::ToolsProposed { calls: Vec::new(), turn: None });
    assert_eq!(host.refused(none), Some(ProposalFault::NoCalls));
    let targets = vec!["nobody".to_owned()];
    let unknown = host.offer(Event::TurnProposed(TurnProposal { targets, ..TurnProposal::default() }));
    assert_eq!(host.refused(unknown), Some(ProposalFault::UnknownTarget));
    let of_none = host.offer(calls_of(ProposalId(77), &["search"]));
    assert_eq!(host.refused(of_none), Some(ProposalFault::UnknownTurn));
    let many = (0..10_001).map(|_| ("c", "search", json!({"n": 1}))).collect::<Vec<_>>();
    let many = host.offer(Event::ToolsProposed { calls: proposals(&many), turn: None });
    assert_eq!(host.refused(many), Some(ProposalFault::TooManyCalls));
    host.tell(call("search"));
    let run = host.run_tool();
    let report = host.offer(reported(1));
    assert_eq!(host.settled(report).unwrap().result, ProposalResult::Accepted);
    let late = host.offer(call("search"));
    assert_eq!(host.refused(late), Some(ProposalFault::ReportAccepted));
    assert_eq!(host.outcome(), None, "a call is still in flight");
    host.tell(run.finished(ToolOutcome::Done));
    assert_eq!(host.outcome(), Some(&Outcome::Reported { output: json!({"total": 1}) }));
    let over = host.offer(call("search"));
    assert_eq!(host.refused(over), Some(ProposalFault::RunOver));
    let mut host = Host::turns(PLAIN, &["search"]);
    let other = host.offer(call("search"));
    assert_eq!(host.refused(other), Some(ProposalFault::InterpreterDrives));
}

#[test]
fn what_is_proposed_before_the_run_is_refused_too() {
    let interpreter = Interpreter::new(Policy::builtin(), ToolCatalogue::default());
    let envelope = Envelope { seq: 1, now: Instant(0), event: call("search") };
    let Directives(list) = interpreter.step(&mut State::new(), envelope);
    assert!(matches!(
        list.as_slice(),
        [Directive {
            order: DirectiveKind::Note(Note::ProposalRefused { reason: ProposalFault::NotStarted, .. }),
            ..
        }]
    ));
}

#[test]
fn a_host_that_can_repair_its_history_is_asked_to() {
    for can in [vec![], vec![HostSkill::Repair]] {
        let mut host = Host::calls(PLAIN, &[]);
        let measure = Some(TurnMeasure { messages: 3, history_faults: 1, ..TurnMeasure::default() });
        host.tell(Event::TurnProposed(TurnProposal { measure, can: can.clone(), ..TurnProposal::default() }));
        match (host.work(), can.is_empty()) {
            (Work::CallModel(_), true) => {}
            (Work::RepairHistory(repair), false) => {
                host.tell(repair.repaired(HistoryRepair::default()));
                host.model_says("well");
            }
            (work, _) => panic!("{work:?} of a host that can {can:?}"),
        }
    }
}

#[test]
fn no_more_than_so_many_proposals_are_open() {
    let mut host = Host::calls(PLAIN, &["search"]);
    for n in 0..1024 {
        let calls = proposals(&[("call_1", "search", json!({ "n": n }))]);
        host.tell(Event::ToolsProposed { calls, turn: None });
    }
    let beyond = host.offer(call("search"));
    assert_eq!(host.refused(beyond), Some(ProposalFault::TooManyOpen));
    host.tool_succeeds(json!(1));
    let now = host.offer(call("search"));
    assert_eq!(host.refused(now), None);
}

#[test]
fn a_turn_is_retried_and_falls_back_as_in_the_other_drive() {
    let policy = "version: 1\nturn: {targets: {fallback: exhausted}}\n\
                  models: {'*': {retry: {max_attempts: 2, backoff: {kind: constant, delay: 3s, jitter: none}}}}";
    let mut host = Host::calls_of(policy, &["search"], &["main", "spare"]);
    let proposal = host.offer(turn());
    host.model_fails(Failure::of(ErrorClass::NetworkError, "busy"));
    assert_eq!(host.sleep(), Nanos::from_secs(3));
    host.model_fails(Failure::of(ErrorClass::NetworkError, "busy"));
    let spare = host.model_call();
    assert_eq!((spare.target.as_str(), spare.turn), ("spare", 1));
    host.tell(spare.responded(ModelReply { text: "hello".into(), ..ModelReply::default() }));
    let settled = host.settled(proposal).unwrap();
    assert_eq!(settled.result, ProposalResult::Reply { target: "spare".into(), attempts: 1 });
    assert_eq!(host.replies()[0].text(), "hello");
}

#[test]
fn a_turn_without_an_answer_is_settled_and_the_policy_decides_about_the_run() {
    for (on_exhausted, result) in [("tell_model", ProposalResult::NoReply), ("fail", ProposalResult::Closed)]
    {
        let policy = format!(
            "version: 1\nmodels: {{'*': {{retry: {{max_attempts: 1}}, on_exhausted: {on_exhausted}}}}}"
        );
        let mut host = Host::calls(&policy, &[]);
        let proposal = host.offer(turn());
        host.model_fails(Failure::of(ErrorClass::Overloaded, "busy"));
        assert_eq!(host.settled(proposal).unwrap().result, result);
        assert_eq!(host.outcome().is_some(), on_exhausted == "fail");
    }
}

#[test]
fn a_reply_that_the_host_keeps_is_taken_as_it_is() {
    let mut host = Host::calls(PLAIN, &[]);
    let proposal = host.offer(turn());
    let call = host.model_call();
    host.tell(call.responded(ModelReply { opaque: true, ..ModelReply::default() }));
    assert!(matches!(host.settled(proposal).unwrap().result, ProposalResult::Reply { .. }));
    assert!(host.replies().is_empty());
    // One that is shown, and empty, is another attempt.
    host.tell(turn());
    let call = host.model_call();
    host.tell(call.responded(ModelReply::default()));
    assert!(matches!(host.work(), Work::CallModel(_) | Work::Wait(_)));
}

#[test]
fn results_that_the_host_keeps_are_no_equal_results() {
    let policy = "version: 1\ntools: {'*': {loop_guard: {same_call: {nudge: never, block: never, final_turn: never}, same_result: {nudge: 2}}}}";
    for (outcome, warned) in [(ToolOutcome::Done, false), (ToolOutcome::Ok { data: json!(1) }, true)] {
        let mut host = Host::calls(policy, &["search"]);
        for _ in 0..3 {
            host.tell(call("search"));
            let run = host.run_tool();
            host.tell(run.finished(outcome.clone()));
        }
        assert_eq!(host.notes.iter().any(|note| matches!(note, Note::LoopGuard(_))), warned);
    }
}

#[test]
fn the_last_turn_of_a_host_allows_only_the_report() {
    let policy = format!("{REPORT}turn: {{max_turns: 2}}\n");
    let mut host = Host::calls(&policy, &["search"]);
    let first = host.answered_turn();
    assert_eq!(host.settled(first).unwrap().final_turn, None);
    let last = host.offer(turn());
    assert_eq!(host.model_call_tools(), ["final_report"]);
    host.notes.clear();
    let call_in_last = host.offer(call("search"));
    assert!(host.notes.iter().any(|note| matches!(note, Note::Refused { .. })), "{:?}", host.notes);
    assert_eq!(host.settled(call_in_last).unwrap().final_turn, Some(FinalReason::MaxTurns));
    assert_eq!(host.settled(last), None);
}

#[test]
fn after_the_last_turn_there_is_another_one_only_for_the_report() {
    let mut host = Host::calls("version: 1\nturn: {max_turns: 1}", &[]);
    host.answered_turn();
    let beyond = host.offer(turn());
    assert_eq!(host.refused(beyond), Some(ProposalFault::FinalTurnOver));

    let policy = format!(
        "{REPORT}turn: {{max_turns: 1, text_only: accept}}\nmodels: {{'*': {{retry: {{max_attempts: 1}}}}}}\n"
    );
    let mut host = Host::calls(&policy, &[]);
    host.answered_turn();
    let again = host.offer(turn());
    assert_eq!(host.refused(again), None, "{:#?}", host.notes);
    host.model_says("not yet");
    let report = host.offer(Event::OutputProposed { output: "{}".into() });
    assert!(
        host.settled(report).is_some_and(|settled| settled.result == ProposalResult::Closed),
        "{:#?}",
        host.notes
    );
}

#[test]
fn a_planner_that_is_asked_about_the_final_turn_decides_about_the_proposal() {
    let policy = "version: 1\nturn: {max_turns: 1, text_only: accept}\n\
                  output: {schema: {type: object}, on_exhausted: ask_planner, retry: {max_attempts: 1}}";
    let mut host = Host::calls(policy, &[]);
    host.tell(turn());
    let call = host.model_call();
    host.tell(call.responded(ModelReply { opaque: true, ..ModelReply::default() }));
    let again = host.offer(turn());
    assert_eq!((host.settled(again), host.refused(again)), (None, None), "it is still open");
    let Work::Consult(consult) = host.work() else { panic!("nobody is asked: {:#?}", host.notes) };
    host.tell(consult.decided(PlannerDecision::TellModel));
    assert_eq!(host.settled(again).unwrap().result, ProposalResult::Closed);
    assert!(host.outcome().is_some());
}

#[test]
fn calls_of_a_turn_are_counted_together_however_they_are_proposed() {
    let mut host = Host::calls("version: 1\nturn: {calls: {max: 2}}", &["search"]);
    let turn = host.answered_turn();
    for _ in 0..2 {
        host.tell(calls_of(turn, &["search"]));
        host.tool_succeeds(json!(1));
    }
    host.tell(calls_of(turn, &["search"]));
    assert!(host.idle(), "the third call of the reply is one too many");
    let next = host.answered_turn();
    host.tell(calls_of(next, &["search"]));
    assert!(!host.idle());
}

#[test]
fn rounds_without_success_are_counted_by_turn() {
    let policy =
        "version: 1\nturn: {calls: {nudge_after_failed_rounds: 2}}\ntools: {'*': {retry: {max_attempts: 1}}}";
    let mut host = Host::calls(policy, &["search"]);
    for _ in 0..2 {
        let turn = host.answered_turn();
        for _ in 0..2 {
            host.tell(calls_of(turn, &["search"]));
            host.tool_fails(ErrorClass::ExecutionError);
        }
        assert!(!host.notes.iter().any(|note| matches!(note, Note::RoundsFailed { .. })));
    }
    host.tell(turn());
    assert!(
        host.notes.iter().any(|note| matches!(note, Note::RoundsFailed { rounds: 2, .. })),
        "{:#?}",
        host.notes
    );
}

#[test]
fn a_breaker_of_one_turn_counts_the_calls_of_a_turn() {
    let policy = "version: 1\ntools: {'*': {breaker: {failures: 2, scope: turn}, retry: {max_attempts: 1}}}";
    let mut host = Host::calls(policy, &["search"]);
    let turn = host.answered_turn();
    for _ in 0..2 {
        host.tell(calls_of(turn, &["search"]));
        host.tool_fails(ErrorClass::ExecutionError);
    }
    host.tell(calls_of(turn, &["search"]));
    assert!(host.idle(), "its breaker is open");
    let next = host.answered_turn();
    host.tell(calls_of(next, &["search"]));
    assert!(!host.idle(), "another turn begins");
}

#[test]
fn the_budgets_of_the_run_hold() {
    let mut host = Host::calls("version: 1\nlimits: {run: {tool_calls: 1, model_calls: 3}}", &["search"]);
    host.tell(call("search"));
    host.tool_succeeds(json!(1));
    let beyond = host.offer(call("search"));
    assert!(host.idle());
    assert_eq!(host.settled(beyond).unwrap().final_turn, Some(FinalReason::Budget));
    host.tell(turn());
    assert_eq!(host.model_call_tools(), Vec::<String>::new(), "the turn after it is the last");
}

#[test]
fn what_is_waited_for_and_told_is_in_the_end_of_the_proposal() {
    let policy = "version: 1\nturn: {guidance: {keep: false}}\n\
                  tools: {'*': {retry: {correction_backoff: {kind: constant, delay: 4s}}, loop_guard: {same_call: {nudge: 2}}}}";
    let mut host = Host::calls(policy, &["search"]);
    let calls = || proposals(&[("call_1", "search", json!({"n": "x"}))]);
    let first = host.offer(Event::ToolsProposed { calls: calls(), turn: None });
    assert_eq!(host.settled(first).unwrap().delay, Some(Nanos::from_secs(4)), "a correction waits");
    host.tell(Event::ToolsProposed { calls: calls(), turn: None });
    let third = host.offer(Event::ToolsProposed { calls: calls(), turn: None });
    assert_eq!(host.settled(third).unwrap().guidance.len(), 1, "{:?}", host.settled(third));
}

#[test]
fn a_call_that_is_withdrawn_leaves_the_others() {
    let mut host = Host::calls("version: 1\nturn: {calls: {parallel: 2}}", &["a", "b", "c"]);
    let calls = ["a", "b", "c"].map(|tool| (tool, tool, json!({"n": 1})));
    let batch = host.offer(Event::ToolsProposed { calls: proposals(&calls), turn: None });
    let (a, b) = (host.run_tool(), host.run_tool());
    host.tell(Event::ProposalWithdrawn { proposal: batch, call: Some(0) });
    assert!(host.notes.iter().any(|note| matches!(note, Note::Dropped { .. })));
    assert!(matches!(
        host.notes.iter().rev().find(|note| matches!(note, Note::ToolEnded { .. })),
        Some(Note::ToolEnded { tool, error_type: Some(ErrorClass::Cancelled), .. }) if tool == "a"
    ));
    host.tell(b.finished(ToolOutcome::Done));
    host.tool_succeeds(json!(1));
    assert_eq!(host.settled(batch).unwrap().result, ProposalResult::Tools);
    // What it answers now, nobody asked for.
    let before = host.state.clone();
    host.tell(a.finished(ToolOutcome::Done));
    assert_eq!(host.state.breaker("a"), before.breaker("a"));
    assert_eq!(host.settled(batch).unwrap().result, ProposalResult::Tools);
}

#[test]
fn a_proposal_that_is_withdrawn_runs_nothing_again() {
    let mut host = Host::calls("version: 1\ntools: {'*': {effect: idempotent}}", &["a"]);
    let waiting = host.offer(call("a"));
    host.tool_fails(ErrorClass::RateLimit);
    let wait = host.wait();
    host.tell(Event::ProposalWithdrawn { proposal: waiting, call: None });
    assert_eq!(host.settled(waiting).unwrap().result, ProposalResult::Withdrawn);
    assert_eq!(host.state.open_proposals().count(), 0);
    host.tell(wait.fired());
    assert!(host.idle(), "the wait was dropped");
    let turn = host.offer(turn());
    host.model_call();
    host.tell(Event::ProposalWithdrawn { proposal: turn, call: None });
    assert_eq!(host.settled(turn).unwrap().result, ProposalResult::Withdrawn);
    let gone = host.offer(Event::ProposalWithdrawn { proposal: turn, call: None });
    assert!(host.notes.iter().any(|note| matches!(note, Note::Warning { .. })), "{gone}");
}

#[test]
fn a_host_that_cannot_reduce_is_not_asked_to() {
    let policy = "version: 1\nmodels: {main: {context_window: 100}, spare: {context_window: 100000}}";
    let mut host = Host::calls_of(policy, &[], &["main", "spare"]);
    let measure = TurnMeasure { messages: 3, message_tokens: 500, ..TurnMeasure::default() };
    host.tell(Event::TurnProposed(TurnProposal { measure: Some(measure), ..TurnProposal::default() }));
    assert_eq!(host.model_call().target, "spare", "the model with too small a window is passed over");
}

/// A turn of which no attempt may start after so long.
fn turn_within(host: &Host, time: Nanos) -> Event {
    let deadline = Some(Instant(host.now.0 + time.0));
    Event::TurnProposed(TurnProposal { deadline, ..TurnProposal::default() })
}

#[test]
fn a_turn_whose_deadline_has_passed_calls_no_model() {
    let mut host = Host::calls("version: 1\nmodels: {'*': {on_exhausted: tell_model}}", &["search"]);
    let late = host.offer(turn_within(&host, Nanos::ZERO));
    assert_eq!(host.settled(late).unwrap().result, ProposalResult::NoReply);
    let reason = host.notes.iter().find_map(|note| match note {
        Note::Exhausted { exhausted, .. } => Some(exhausted.reason),
        _ => None,
    });
    assert_eq!(reason, Some(StopReason::Deadline));
    assert_eq!(host.outcome(), None, "the deadline is that of one turn");
    let in_time = host.offer(turn_within(&host, Nanos(1)));
    host.model_says("well");
    assert!(matches!(host.settled(in_time).unwrap().result, ProposalResult::Reply { .. }));
}

#[test]
fn a_turn_does_not_wait_past_its_deadline() {
    let policy =
        "version: 1\nmodels: {'*': {on_exhausted: tell_model, pace: {requests: {limit: 1, per: 1m}}}}";
    let mut host = Host::calls(policy, &[]);
    host.answered_turn();
    let soon = host.offer(turn_within(&host, Nanos(5_000_000_000)));
    assert_eq!(host.settled(soon).unwrap().result, ProposalResult::NoReply, "a minute is too long");
}
