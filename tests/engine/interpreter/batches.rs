//! Parallel calls: settled in the order of the model's list, whichever ends first.

use proptest::prelude::*;
use serde_json::json;
use unfazed::engine::{Note, Outcome, RunTool, ToolOutcome};
use unfazed::policy::ErrorClass;
use unfazed::session::Message;

use super::drive::{Host, failed};

const POLICY: &str = "
version: 1
tools:
  '*':
    effect: read_only
    retry: {max_attempts: 2, retry_on: [execution_error], backoff: {kind: constant, delay: 0s}}
    breaker: {failures: 4, open_for: unlimited}
session:
  slices: {log: {initial: []}}
  reducers:
    remember: {on: [tool_succeeded, tool_failed], slice: log, do: {kind: append, value: event.call}}
";

fn answers(host: &Host) -> Vec<String> {
    let answers = host.notes.iter().filter_map(|note| match note {
        Note::Append { message: Message::Tool { call, .. } } => Some(call.clone()),
        _ => None,
    });
    answers.collect()
}

#[test]
fn results_stand_in_the_order_of_the_calls() {
    let mut host = Host::calls(POLICY, &["a", "b"]);
    host.propose(&[("1", "a", json!({"n": 1})), ("2", "b", json!({"n": 2}))]);
    let (first, second) = (host.run_tool(), host.run_tool());
    host.tell(second.finished(ToolOutcome::Ok { data: json!("two") }));
    assert_eq!(answers(&host), Vec::<String>::new());
    host.tell(first.finished(ToolOutcome::Ok { data: json!("one") }));
    assert_eq!(answers(&host), ["1", "2"]);
}

#[test]
fn one_failing_call_does_not_hide_the_others() {
    let mut host = Host::calls(POLICY, &["a", "b"]);
    host.propose(&[("1", "nope", json!({})), ("2", "a", json!({})), ("3", "b", json!({"n": 1}))]);
    host.tool_succeeds(json!("three"));
    assert_eq!(answers(&host), ["1", "2", "3"]);
}

#[test]
fn a_run_that_is_stopped_leaves_no_call_without_a_result() {
    let mut host = Host::turns(POLICY, &["a", "b"]);
    host.model_calls(&[("1", "a", json!({"n": 1})), ("2", "b", json!({"n": 2}))]);
    host.tell(unfazed::engine::Event::Cancelled { reason: "stop".into() });
    assert_eq!(answers(&host), ["1", "2"]);
    assert!(matches!(host.outcome(), Some(Outcome::Stopped { .. })));
    let told = host.last_told();
    assert!(told.contains("may have"), "an interrupted call is not one that never ran: {told}");
}

#[test]
fn a_run_that_ends_in_the_middle_is_in_one_state_whichever_tool_was_quicker() {
    let policy = format!("{POLICY}turn: {{max_turns: 3}}\n").replace(
        "effect: read_only",
        "effect: read_only\n    on_exhausted: fail\n    breaker: {failures: never}",
    );
    let policy = policy.replace("    breaker: {failures: 4, open_for: unlimited}\n", "");
    let end = |quicker: bool| {
        let mut host = Host::turns(&policy, &["a", "b"]);
        host.model_calls(&[("1", "a", json!({"n": 1})), ("2", "b", json!({"n": 2}))]);
        let (first, second) = (host.run_tool(), host.run_tool());
        if quicker {
            host.tell(second.finished(ToolOutcome::Ok { data: json!("two") }));
        }
        host.tell(first.finished(failed(ErrorClass::ExecutionError)));
        let again = host.run_tool();
        host.tell(again.finished(failed(ErrorClass::ExecutionError)));
        assert!(matches!(host.outcome(), Some(Outcome::Failed { .. })));
        host.state.seq = 0;
        host.state.digest()
    };
    assert_eq!(end(true), end(false));
}

#[test]
fn what_a_reducer_has_against_a_result_is_shown_as_a_failure_is() {
    let result = "result: {max: 90 bytes, form: json}";
    let policy = POLICY
        .replace("slice: log, do", "check: size(slice) < 1, slice: log, do")
        .replace("effect: read_only", &format!("effect: read_only\n    {result}"));
    let mut host = Host::calls(&policy, &["a"]);
    host.propose(&[("1", "a", json!({"n": 1}))]);
    host.tool_succeeds(json!("one"));
    let told = host.last_told();
    assert!(told.len() <= 90 && told.contains("reducer_error"), "{told}");
}

proptest! {
    /// Runs end in any order, some fail and are repeated: the state at the end is the same, byte for byte.
    #[test]
    fn the_order_in_which_tools_end_does_not_change_the_state(
        fails in proptest::collection::vec(0u32..3, 4),
        picks in proptest::collection::vec(any::<prop::sample::Index>(), 32),
    ) {
        let in_order = finish(POLICY, &fails, |_, _| 0);
        let shuffled = finish(POLICY, &fails, |step, open| picks[step % picks.len()].index(open));
        prop_assert_eq!(in_order, shuffled);
    }

    /// The same where not all of them run at once, and a breaker opens while some wait.
    #[test]
    fn nor_does_it_if_there_is_not_room_for_all(
        fails in proptest::collection::vec(0u32..3, 6),
        parallel in 1u32..5,
        concurrency in 1u32..5,
        failures in 1u32..5,
        picks in proptest::collection::vec(any::<prop::sample::Index>(), 32),
    ) {
        let room = format!("{POLICY}turn: {{calls: {{parallel: {parallel}}}}}\n");
        let policy = room.replace("failures: 4", &format!("failures: {failures}"))
            .replace("effect: read_only", &format!("effect: read_only\n    concurrency: {concurrency}"));
        let in_order = finish(&policy, &fails, |_, _| 0);
        let shuffled = finish(&policy, &fails, |step, open| picks[step % picks.len()].index(open));
        prop_assert_eq!(in_order, shuffled);
    }
}

/// Lets calls end one after the other; `pick` says which of those in flight ends next.
fn finish(policy: &str, fails: &[u32], pick: impl Fn(usize, usize) -> usize) -> (String, Vec<String>) {
    let mut host = Host::calls(policy, &["a"]);
    let ids: Vec<String> = (0..fails.len()).map(|i| i.to_string()).collect();
    let calls: Vec<_> = ids.iter().map(|id| (id.as_str(), "a", json!({"n": 1}))).collect();
    host.propose(&calls);
    let mut open: Vec<RunTool> = Vec::new();
    for step in 0.. {
        while !host.idle() {
            open.push(host.run_tool());
        }
        if open.is_empty() {
            break;
        }
        // Any choice among those in flight, told by call id, so that both runs speak of the same calls.
        open.sort_by(|a, b| a.call.cmp(&b.call));
        let run = open.remove(pick(step, open.len()));
        let planned = fails[run.call.parse::<usize>().unwrap()];
        let outcome = if run.attempt <= planned {
            failed(ErrorClass::ExecutionError)
        } else {
            ToolOutcome::Ok { data: json!(run.call) }
        };
        host.tell(run.finished(outcome));
    }
    (host.state.digest(), answers(&host))
}
