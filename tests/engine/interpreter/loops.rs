//! A model that repeats itself: what is remembered of it.

use serde_json::json;
use unfazed::engine::{LoopStage, Note, State};

use super::drive::Host;

const RULES: &str = "
version: 1
tools: {'*': {breaker: {failures: never}, loop_guard: {same_call: {nudge: 2, block: 4}, same_result: {nudge: never}}}}
";

fn stages(host: &Host) -> Vec<(LoopStage, u32)> {
    let stages = host.notes.iter().filter_map(|note| match note {
        Note::LoopGuard(told) => Some((told.stage, told.count)),
        _ => None,
    });
    stages.collect()
}

#[test]
fn a_run_that_is_resumed_goes_on_counting() {
    let mut host = Host::calls(RULES, &["fetch"]);
    for call in 0..3 {
        host.propose(&[("x", "fetch", json!({"n": 1}))]);
        host.tool_succeeds(json!(call));
    }
    let written = serde_json::to_vec(&host.state).unwrap();
    let digest = host.state.digest();
    host.state = serde_json::from_slice::<State>(&written).unwrap();
    assert_eq!(host.state.digest(), digest);
    host.propose(&[("x", "fetch", json!({"n": 1}))]);
    assert!(host.idle(), "the fourth does not run");
    assert_eq!(stages(&host), [(LoopStage::Nudge, 2), (LoopStage::Nudge, 3), (LoopStage::Block, 4)]);
}

#[test]
fn equal_calls_of_one_reply_count_in_their_order_and_are_told_once() {
    let mut host = Host::calls(RULES, &["fetch"]);
    let calls: Vec<_> = ["a", "b", "c", "d", "e"].map(|id| (id, "fetch", json!({"n": 1}))).to_vec();
    host.propose(&calls);
    while let Some(run) = host.next_tool() {
        host.tell(run.finished(unfazed::engine::ToolOutcome::Ok { data: json!(1) }));
    }
    assert_eq!(stages(&host), [(LoopStage::Nudge, 2), (LoopStage::Block, 4), (LoopStage::Block, 5)]);
    let told = host.told().into_iter().filter(|text| text.contains("Repeating it")).count();
    assert_eq!(told, 1);
}

#[test]
fn a_thousand_names_that_a_model_makes_up_are_not_all_remembered() {
    let mut host = Host::calls(RULES, &["fetch"]);
    for call in 0..1000 {
        host.propose(&[("x", &format!("tool_{call}"), json!({"n": call}))]);
        host.notes.clear();
        host.because.clear();
    }
    assert!(serde_json::to_vec(&host.state).unwrap().len() < 20_000);
}
