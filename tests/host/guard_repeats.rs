//! Guards and a model that repeats itself, results that are too large, and calls that come together.

use std::cell::Cell;
use std::collections::BTreeMap;

use futures_util::future::join_all;
use serde_json::{Value, json};
use unfazed::host::guard::{CallError, CallRefused, ToolGuard};
use unfazed::host::{Guard, LivePolicy, ToolError};
use unfazed::policy::{ErrorClass, Policy};

fn policy(text: &str) -> Policy {
    Policy::from_yaml("policy.yaml", text).unwrap_or_else(|report| panic!("{report}"))
}

fn guard(tools: &str) -> Guard {
    Guard::new(policy(&format!("version: 1\ntools: {tools}\n")))
}

async fn call(tool: &ToolGuard, args: &Value) -> Result<(), Box<CallRefused>> {
    match tool.call(args, |_, _| std::future::ready(Ok::<_, ToolError>(()))).await {
        Ok(()) => Ok(()),
        Err(CallError::Refused(refusal)) => Err(refusal),
        Err(other) => panic!("{other}"),
    }
}

/// Calls a tool that fails each time.
async fn fail(tool: &ToolGuard, args: &Value) -> String {
    match tool.call(args, |_, _| std::future::ready(Err::<(), _>(ToolError::failed("no such city")))).await {
        Err(CallError::Exhausted(end)) => end.message,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_call_made_again_and_again_is_told_then_refused_then_ends_the_turns() {
    let guard = guard("{}");
    let tool = guard.tool("fetch");
    let mut said = Vec::new();
    for n in 1..=9 {
        // Neither the order of keys nor how a number is written makes it another call.
        let args = if n % 2 == 0 { json!({"a": 1, "b": 2}) } else { json!({"b": 2.0, "a": 1.0}) };
        let came = match call(&tool, &args).await {
            Ok(()) => "ran",
            Err(refusal) => {
                assert_eq!(refusal.class, ErrorClass::RepeatedCall);
                assert!(refusal.message.contains("fetch"), "{}", refusal.message);
                if refusal.final_turn { "final turn" } else { "refused" }
            }
        };
        said.push(if guard.take_guidance().is_empty() { came } else { "ran, told" });
    }
    let refused = ["refused", "refused", "refused", "final turn", "final turn"];
    assert_eq!(said[..4], ["ran", "ran", "ran, told", "ran, told"]);
    assert_eq!(said[4..], refused);
    let counters = guard.metrics().counters;
    let decided = counters.iter().filter(|counter| counter.name.name() == "loop_guard_total");
    assert_eq!(decided.map(|counter| counter.value).sum::<u64>(), 7);
}

/// Calls that cost no step are counted too, and what there is to say about them is said at the same call.
#[tokio::test]
async fn a_call_with_arguments_costs_a_step_only_if_there_is_something_to_say() {
    let guard = guard("{}");
    let tool = guard.tool("fetch");
    call(&tool, &json!({"n": 0})).await.unwrap();
    let steps = || guard.state(|state| state.seq);
    let before = steps();
    let mut cost = Vec::new();
    for n in [1, 2, 2, 2, 3] {
        let seq = steps();
        call(&tool, &json!({ "n": n })).await.unwrap();
        cost.push(steps() - seq);
    }
    assert_eq!(cost, [0, 0, 0, 2, 0], "the third of equal calls is one to warn of");
    assert_eq!(guard.take_guidance().len(), 1);
    fail(&tool, &json!({"n": 4})).await;
    call(&tool, &json!({"n": 5})).await.unwrap();
    assert!(steps() > before + 2, "after a failure the run has something to remember");
}

#[tokio::test]
async fn a_cycle_is_seen_across_tools() {
    let guard = guard("{}");
    let (read, write) = (guard.tool("read"), guard.tool("write"));
    for round in 1..=3 {
        call(&read, &json!({"n": 1})).await.unwrap();
        call(&write, &json!({"n": 1})).await.unwrap();
        assert_eq!(!guard.take_guidance().is_empty(), round == 3, "round {round}");
    }
}

#[tokio::test]
async fn what_is_left_to_say_ends_with_its_run() {
    let guard = Guard::new(policy("version: 1\noutput: {schema: {type: object}}\n"));
    let tool = guard.tool("fetch");
    let repeat = async || {
        for _ in 0..3 {
            call(&tool, &json!({"n": 1})).await.unwrap();
        }
    };
    repeat().await;
    guard.output("{}").await.unwrap();
    assert_eq!(guard.take_guidance(), [""; 0], "its run has ended");
    repeat().await;
    guard.output("{}").await.unwrap();
    call(&tool, &json!({"n": 2})).await.unwrap();
    assert_eq!(guard.take_guidance(), [""; 0], "the next run has begun");
    repeat().await;
    assert_eq!(guard.take_guidance().len(), 1, "its own is read");
}

#[tokio::test]
async fn a_tool_that_is_asked_until_something_happens_is_not_counted() {
    let guard = guard("{poll: {loop_guard: {enabled: false}}}");
    let poll = guard.tool("poll");
    for _ in 0..20 {
        call(&poll, &json!({})).await.unwrap();
    }
    assert_eq!(guard.take_guidance(), [""; 0]);
}

#[tokio::test]
async fn calls_without_arguments_to_look_at_are_not_counted() {
    let guard = guard("{}");
    let tool = guard.tool("fetch");
    for _ in 0..20 {
        tool.call((), |(), _| std::future::ready(Ok::<_, ToolError>(()))).await.unwrap();
    }
    assert_eq!(guard.take_guidance(), [""; 0]);
}

#[tokio::test]
async fn the_same_failure_again_and_again_is_told_unless_a_success_comes_between() {
    let guard = guard("{fetch: {breaker: {failures: never}, retry: {max_attempts: 1}}}");
    let tool = guard.tool("fetch");
    for n in 0..2 {
        fail(&tool, &json!({"n": n})).await;
    }
    call(&tool, &json!({"n": 2})).await.unwrap();
    for n in 3..5 {
        fail(&tool, &json!({"n": n})).await;
        assert_eq!(guard.take_guidance(), [""; 0]);
    }
    fail(&tool, &json!({"n": 5})).await;
    assert!(guard.take_guidance().concat().contains("fetch"));
}

#[tokio::test]
async fn the_same_result_again_and_again_is_told() {
    let guard = guard("{fetch: {loop_guard: {same_call: {nudge: never, block: never, final_turn: never}}}}");
    let tool = guard.tool("fetch");
    for n in 1..=4 {
        let shown = tool.call_text("{n: 1}", |args, _| async move {
            assert_eq!(*args, json!({"n": 1}));
            Ok::<_, ToolError>(json!({"state": "running"}))
        });
        assert_eq!(shown.await.unwrap(), r#"{"state":"running"}"#);
        assert_eq!(!guard.take_guidance().is_empty(), n == 4, "result {n}");
    }
}

#[tokio::test]
async fn a_result_is_shown_as_far_as_the_policy_allows() {
    let guard =
        guard("{cut: {result: {max: 100 chars, overflow: spill}}, full: {result: {form: full}}, '*': {}}");
    let long = json!("x".repeat(1000));
    let shown = guard.tool("cut").show(None, &long);
    assert!((90..=100).contains(&shown.len()) && shown.contains("of 1000 chars shown]"), "{shown}");
    assert_eq!(guard.tool("full").show(None, &json!(7)), r#"{"ok":true,"data":7,"tool_name":"full"}"#);
    assert_eq!(guard.tool("any").show(None, &json!("two\nlines")), "two\nlines");
    // As in a run, which writes `null` into the conversation.
    assert_eq!(guard.tool("any").show(None, &Value::Null), "null");
}

#[tokio::test]
async fn failures_have_the_form_the_policy_says() {
    let guard = guard("{fetch: {retry: {max_attempts: 1}, result: {form: json}}}");
    let shown = fail(&guard.tool("fetch"), &json!({})).await;
    assert_eq!(shown, r#"{"error":"no such city","error_type":"execution_error"}"#);
}

#[tokio::test]
async fn a_failure_gets_no_further_than_a_result() {
    let guard = guard("{fetch: {retry: {max_attempts: 1}, result: {max: 20 chars}}}");
    let shown = fail(&guard.tool("fetch"), &json!({})).await;
    assert_eq!(shown.chars().count(), 20, "{shown}");
}

#[tokio::test]
async fn what_is_shown_follows_the_policy_in_force() {
    let live = LivePolicy::new(policy("version: 1"));
    let tool = Guard::new(live.clone()).tool("fetch");
    let long = json!("x".repeat(1000));
    assert_eq!(tool.show(None, &long).len(), 1000);
    live.replace(policy("version: 1\ntools: {fetch: {result: {max: 50 chars}}}"));
    assert!(tool.show(None, &long).len() <= 50);
}

/// Runs many calls at once. Returns how each came out, and the most that ran at the same time.
async fn together(tool: &ToolGuard, calls: u32, fails: bool) -> (BTreeMap<&'static str, u32>, u32) {
    let (running, most) = (Cell::new(0), Cell::new(0));
    let one = |n: u32| {
        let (running, most) = (&running, &most);
        async move {
            let args = json!({"n": n});
            let ran = tool.call(&args, |_, _| async move {
                running.set(running.get() + 1);
                most.set(most.get().max(running.get()));
                tokio::time::sleep(std::time::Duration::from_millis(u64::from(10 + n % 7))).await;
                running.set(running.get() - 1);
                if fails { Err(ToolError::failed("broken")) } else { Ok(()) }
            });
            match ran.await {
                Ok(()) => "went well",
                Err(CallError::Exhausted(_)) => "failed",
                Err(CallError::Refused(refusal)) => refusal.class.name(),
                Err(CallError::Run(error)) => panic!("{error}"),
            }
        }
    };
    let mut came = BTreeMap::new();
    for how in join_all((0..calls).map(one)).await {
        *came.entry(how).or_insert(0) += 1;
    }
    (came, most.get())
}

#[tokio::test(start_paused = true)]
async fn calls_that_come_together_do_not_overshoot_the_breaker() {
    let guard = guard("{fetch: {breaker: {failures: 3, open_for: 1m}, retry: {max_attempts: 1}}}");
    let (came, most) = together(&guard.tool("fetch"), 20, true).await;
    assert_eq!((came, most), (BTreeMap::from([("failed", 3), ("circuit_open", 17)]), 3));
}

#[tokio::test(start_paused = true)]
async fn calls_of_a_tool_that_works_all_run_and_no_more_at_once_than_may_fail() {
    let guard = guard("{fetch: {breaker: {failures: 3}}, free: {breaker: {failures: never}}}");
    let (came, most) = together(&guard.tool("fetch"), 20, false).await;
    assert_eq!((came, most), (BTreeMap::from([("went well", 20)]), 3));
    let (came, most) = together(&guard.tool("free"), 20, false).await;
    assert_eq!((came, most), (BTreeMap::from([("went well", 20)]), 20));
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_is_known_leaves_less_room() {
    let guard = guard("{fetch: {breaker: {failures: 3}, retry: {max_attempts: 1}}}");
    let tool = guard.tool("fetch");
    fail(&tool, &json!({})).await;
    let (came, most) = together(&tool, 20, true).await;
    assert_eq!((came, most), (BTreeMap::from([("failed", 2), ("circuit_open", 18)]), 2));
}

#[tokio::test(start_paused = true)]
async fn a_call_nobody_waits_for_any_more_gives_its_room_to_others() {
    let guard = guard("{fetch: {breaker: {failures: 1}}}");
    let tool = guard.tool("fetch");
    let hangs = || tool.call((), |(), _| std::future::pending::<Result<(), ToolError>>());
    let mut first = Box::pin(hangs());
    assert!(futures_util::poll!(&mut first).is_pending());
    let mut second = Box::pin(tool.call((), |(), _| std::future::ready(Ok::<_, ToolError>(()))));
    assert!(futures_util::poll!(&mut second).is_pending(), "it waits");
    drop(first);
    second.await.unwrap();
}
