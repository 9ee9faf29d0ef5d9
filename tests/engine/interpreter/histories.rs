//! Histories that providers refuse: asked about once, and whatever comes in between.

use unfazed::engine::{CallModel, Event, Failure, Note, Outcome, RepairHistory, TurnMeasure, Work};
use unfazed::policy::{ErrorClass, OrphanCalls};
use unfazed::session::{HistoryRepair, HistorySplice, ToolCall};

use super::drive::Host;

const PRUNE: &str = "version: 1\nhistory: {orphan_calls: prune}\nturn: {on_stop: final_turn}";

fn repair_asked(host: &mut Host) -> RepairHistory {
    match host.work() {
        Work::RepairHistory(work) => work,
        other => panic!("expected a repair, found {other:?}"),
    }
}

fn refuse(host: &mut Host, call: CallModel) {
    host.tell(call.failed(Failure::of(ErrorClass::OrphanToolCall, "no result")));
}

/// A repair of one call.
fn found() -> HistoryRepair {
    let call = ToolCall { id: "x".into(), name: "a".into(), arguments: "{}".into() };
    let splices = vec![HistorySplice { at: 0, remove: 1, insert: Vec::new() }];
    HistoryRepair { splices, pruned: vec![call], ..HistoryRepair::default() }
}

fn pruned(host: &Host) -> usize {
    host.notes.iter().filter(|note| matches!(note, Note::OrphanToolCallsPruned(_))).count()
}

#[test]
fn a_refused_history_is_looked_at_once_in_a_turn() {
    let mut host = Host::turns(PRUNE, &["a"]);
    let call = host.model_call();
    refuse(&mut host, call);
    let work = repair_asked(&mut host);
    assert_eq!(work.orphan_calls, OrphanCalls::Prune);
    host.tell(work.repaired(found()));
    let call = host.model_call();
    assert_eq!(call.attempt, 1, "it is no second attempt");
    refuse(&mut host, call);
    assert_eq!(pruned(&host), 1);
    assert!(matches!(host.outcome(), Some(Outcome::Failed { .. })));
}

#[test]
fn faults_that_were_counted_are_repaired_before_the_call() {
    let mut host = Host::turns(PRUNE, &["a"]);
    let Work::PrepareTurn(turn) = host.work() else { panic!("a turn begins") };
    host.tell(turn.prepared(TurnMeasure { history_faults: 1, ..TurnMeasure::default() }));
    let work = repair_asked(&mut host);
    host.tell(work.repaired(found()));
    host.model_says("hello");
    assert_eq!(pruned(&host), 1);
    assert!(host.outcome().is_some());
}

#[test]
fn a_host_that_finds_nothing_goes_on() {
    let mut host = Host::turns(PRUNE, &["a"]);
    let Work::PrepareTurn(turn) = host.work() else { panic!("a turn begins") };
    host.tell(turn.prepared(TurnMeasure { history_faults: 9, ..TurnMeasure::default() }));
    let work = repair_asked(&mut host);
    host.tell(work.repaired(HistoryRepair::default()));
    host.model_says("hello");
    assert_eq!(pruned(&host), 0);
}

#[test]
fn who_asks_for_an_end_meanwhile_gets_a_last_turn() {
    let mut host = Host::turns(PRUNE, &["a"]);
    let call = host.model_call();
    refuse(&mut host, call);
    let work = repair_asked(&mut host);
    host.tell(Event::StopRequested { reason: "enough".into() });
    assert_eq!(host.outcome(), None, "the repair is in flight");
    host.tell(work.repaired(found()));
    host.model_says("hello");
    assert!(matches!(host.outcome(), Some(Outcome::Answered { .. })));
}

#[test]
fn who_ends_the_run_meanwhile_ends_it() {
    let mut host = Host::turns(PRUNE, &["a"]);
    let call = host.model_call();
    refuse(&mut host, call);
    host.tell(Event::Cancelled { reason: "enough".into() });
    assert!(matches!(host.outcome(), Some(Outcome::Stopped { .. })));
}

#[test]
fn an_error_of_another_class_asks_for_no_repair() {
    let mut host = Host::turns(PRUNE, &["a"]);
    host.model_fails(Failure::of(ErrorClass::InvalidRequest, "Invalid JSON format"));
    assert!(host.idle() && host.outcome().is_some());
}
