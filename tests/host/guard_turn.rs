//! Guards around calls of models: their records, windows that are too small, histories that providers refuse.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::oneshot;
use unfazed::engine::{Failure, Outcome};
use unfazed::host::guard::CallError;
use unfazed::host::{AttemptStatus, Guard, GuardConfig, MetricId, ModelAttempt, ModelFacts, Price};
use unfazed::policy::{ErrorClass, Policy};
use unfazed::session::{Message, ToolCall, Usage};

const POLICY: &str = "
version: 1
models:
  '*': {retry: {max_attempts: 2, retry_on: [overloaded], backoff: {kind: constant, delay: 1s, jitter: none}}}
  small: {context_window: 10000, output_reserve: 1000}
";

fn policy(text: &str) -> Policy {
    Policy::from_yaml("policy.yaml", text).unwrap_or_else(|report| panic!("{report}"))
}

/// A guard over these models, and the records of their calls.
fn guard(text: &str, targets: &[&str]) -> (Guard, Arc<Mutex<Vec<ModelAttempt>>>) {
    let records = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&records);
    let price = Price { input: 2_000_000, output: 10_000_000, ..Price::default() };
    let facts = ModelFacts { provider: "openai".into(), model: "gpt-x".into(), price: Some(price) };
    let guard = Guard::new(
        GuardConfig::new(policy(text))
            .targets(targets.iter().copied())
            .run("r")
            .facts("spare", facts)
            .on_attempt(move |attempt| sink.lock().unwrap().push(attempt.clone())),
    );
    (guard, records)
}

/// Takes its time, and fails if the model is `main`.
async fn asked(target: String) -> Result<Usage, Failure> {
    tokio::time::sleep(Duration::from_millis(300)).await;
    if target == "main" {
        return Err(Failure { status: Some(529), message: "busy".into(), ..Failure::default() });
    }
    Ok(Usage { input: 1_000, output: 50, ..Usage::default() })
}

/// The model a request of so many tokens is sent to first.
async fn first_asked(guard: &Guard, tokens: u64) -> String {
    guard.turn(()).tokens(tokens).call(|target, ()| async { Ok::<_, Failure>(target) }).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_guard_learns_the_window_from_a_refusal() {
    let (guard, _) = guard(POLICY, &["small", "spare"]);
    assert_eq!(first_asked(&guard, 7_500).await, "small");
    let refuse = |target: String, ()| async move {
        if target == "spare" {
            return Ok(());
        }
        let message = "This model's maximum context length is 8192 tokens, and you requested 9000 tokens";
        Err(Failure {
            status: Some(400),
            ..Failure::from_json(&json!({"error": {"code": "context_length_exceeded", "message": message}}))
        })
    };
    guard.turn(()).call(refuse).await.unwrap();
    assert_eq!(first_asked(&guard, 7_500).await, "spare");
    assert_eq!(first_asked(&guard, 4_000).await, "small");
}

#[tokio::test(start_paused = true)]
async fn a_guard_learns_what_providers_count() {
    let twice = Usage { input: 4_000, output: 1, ..Usage::default() };
    for (learn, then) in [("true", "spare"), ("false", "small")] {
        let (guard, _) =
            guard(&format!("{POLICY}context: {{tokens: {{learn: {learn}}}}}\n"), &["small", "spare"]);
        let turn = guard.turn(()).tokens(2_000);
        turn.call_with_usage(|()| Some(twice), |_, ()| async { Ok::<_, Failure>(()) }).await.unwrap();
        assert_eq!(first_asked(&guard, 5_000).await, then);
    }
}

/// Counts how often a task is woken.
#[derive(Default)]
struct WakeCount(AtomicUsize);

impl Wake for WakeCount {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

// tokio hands a task that wakes itself to another thread, which costs more than all that a guard does.
#[tokio::test(start_paused = true)]
async fn a_turn_does_not_wake_itself() {
    let (guard, _) = guard(POLICY, &["spare"]);
    let (answer, answered) = oneshot::channel();
    let mut answered = Some(answered);
    let count = Arc::new(WakeCount::default());
    let waker = Waker::from(Arc::clone(&count));
    let turn = guard.turn(());
    let turn = turn.call(|_, ()| {
        let answered = answered.take().unwrap();
        async move { answered.await.map_err(|_| Failure::default()) }
    });
    let mut turn = pin!(turn);
    assert!(turn.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    answer.send("hello").unwrap();
    assert_eq!(count.0.load(Ordering::Relaxed), 1);
    let Poll::Ready(ended) = turn.as_mut().poll(&mut Context::from_waker(&waker)) else { panic!("it waits") };
    assert_eq!((ended.unwrap(), count.0.load(Ordering::Relaxed)), ("hello", 1));
}

#[tokio::test(start_paused = true)]
async fn every_call_of_a_model_has_a_record() {
    let (guard, records) = guard(POLICY, &["main", "spare"]);
    let turn = guard.turn(());
    turn.call_with_usage(|usage| Some(*usage), |target, ()| asked(target)).await.unwrap();
    insta::assert_json_snapshot!(*records.lock().unwrap());
}

#[tokio::test(start_paused = true)]
async fn the_last_record_says_why_no_attempt_follows() {
    let (guard, records) = guard(POLICY, &["main"]);
    guard.turn(()).call(|target, ()| asked(target)).await.unwrap_err();
    let records = serde_json::to_value(&*records.lock().unwrap()).unwrap();
    assert_eq!((&records[1]["action"], &records[1]["reason"]), (&json!("abort"), &json!("attempts")));
    assert_eq!(records[1]["next_target"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn turns_are_counted_and_a_call_that_is_dropped_was_cancelled() {
    let (guard, records) = guard(POLICY, &["spare"]);
    guard.turn(()).call(|target, ()| asked(target)).await.unwrap();
    let turn = guard.turn(());
    let dropped = tokio::time::timeout(Duration::from_millis(100), turn.call(|target, ()| asked(target)));
    dropped.await.unwrap_err();
    let records: Vec<_> = records
        .lock()
        .unwrap()
        .iter()
        .map(|record| (record.turn, record.status, record.latency_ms))
        .collect();
    assert_eq!(records, [(1, AttemptStatus::Success, 300), (2, AttemptStatus::Cancelled, 100)]);
}

#[tokio::test(start_paused = true)]
async fn calls_of_models_are_counted_as_in_a_run() {
    let (guard, _) = guard(POLICY, &["main", "spare"]);
    let turn = guard.turn(());
    turn.call_with_usage(|usage| Some(*usage), |target, ()| asked(target)).await.unwrap();
    let counters = guard.metrics().counters;
    let count = |name, target: &str| {
        let of = |counter: &&_| {
            let counter: &unfazed::host::CounterSnapshot = counter;
            counter.name == name && counter.labels["target"] == target
        };
        counters.iter().filter(of).map(|counter| counter.value).sum::<u64>()
    };
    assert_eq!((count(MetricId::LlmRequests, "main"), count(MetricId::LlmRequests, "spare")), (2, 1));
    assert_eq!((count(MetricId::LlmErrors, "main"), count(MetricId::LlmRetries, "main")), (2, 2));
    // 1000 tokens at 2 dollars a million, and 50 at 10.
    assert_eq!(count(MetricId::LlmCost, "spare"), 2_500_000_000);
}

#[tokio::test(start_paused = true)]
async fn a_model_whose_window_is_too_small_is_passed_over() {
    let (guard, records) = guard(POLICY, &["small", "spare"]);
    for (tokens, target) in [(8_500, "small"), (8_900, "spare")] {
        let answer =
            guard.turn(()).tokens(tokens).call(|target, ()| async { Ok::<_, Failure>(target) }).await;
        assert_eq!(answer.unwrap(), target);
    }
    assert_eq!(records.lock().unwrap().len(), 2, "who is passed over is not called");
    let metrics = guard.metrics();
    let passed: Vec<_> = metrics.counters.iter().filter(|c| c.name == MetricId::ContextGuardEvents).collect();
    assert_eq!((passed.len(), passed[0].value, &*passed[0].labels["target"]), (1, 1, "small"));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_too_large_for_every_model_is_the_final_turn() {
    let (guard, _) = guard(POLICY, &["small"]);
    let tool = guard.tool("search");
    tool.call((), |(), _| async { Ok::<_, Failure>(()) }).await.unwrap();
    let turn = guard.turn(()).tokens(20_000);
    let call =
        turn.call_as(
            |()| None,
            |call, ()| async move {
                Err::<(), _>(Failure::of(ErrorClass::ContextOverflow, call.guidance.concat()))
            },
        );
    let Err(CallError::Exhausted(end)) = call.await else { panic!("it fits") };
    let told = &end.exhausted.attempts[0].message;
    assert!(told.contains("the context window is full"), "{told}");
    assert_eq!(guard.outcome().map(|outcome| matches!(outcome, Outcome::Failed { .. })), Some(true));
}

#[tokio::test(start_paused = true)]
async fn a_request_reaches_every_model_as_the_host_wrote_it() {
    let thinking = json!({"type": "thinking", "thinking": "The chart first.", "signature": "EqQB"});
    let image =
        json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBO"}});
    let body = json!({"max_tokens": 500, "messages": [
        {"role": "user", "content": [{"type": "text", "text": "What is in it?"}, image]},
        {"role": "assistant", "content": [thinking, {"type": "tool_use", "id": "c1", "name": "zoom", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": [image]}]},
    ]});
    let ((guard, _), sent) = (guard(POLICY, &["main", "spare"]), Mutex::new(Vec::new()));
    let turn = guard.turn(body.clone());
    let answer = turn.call(|target, request: Value| {
        sent.lock().unwrap().push(request);
        asked(target)
    });
    answer.await.unwrap();
    assert_eq!(sent.into_inner().unwrap(), vec![body; 3], "twice to the first, once to the next");
}

/// A request of a host with more in it than a conversation.
#[derive(Clone)]
struct WithImages {
    messages: Vec<Message>,
    images: Vec<u8>,
}

#[tokio::test(start_paused = true)]
async fn a_repair_of_the_history_leaves_all_else_in_the_request_as_it_is() {
    let (guard, _) = guard("version: 1\nhistory: {check: before_call, orphan_calls: inject}\n", &["main"]);
    let mut messages = broken();
    let Message::Assistant { extra, .. } = &mut messages[1] else { panic!("a call") };
    extra.insert("reasoning_content".into(), json!("First the flight."));
    let request = WithImages { messages: messages.clone(), images: vec![137, 80, 78, 71] };
    let turn = guard.turn(request.clone()).history(|request| &mut request.messages);
    let mut sent = turn.call(|_, request| async { Ok::<_, Failure>(request) }).await.unwrap();
    assert_eq!(sent.images, request.images);
    let inserted = sent.messages.remove(2);
    assert!(matches!(inserted, Message::Tool { call, .. } if call == "c1"));
    sent.messages.truncate(messages.len());
    assert_eq!(sent.messages, messages);
}

/// A conversation with a call that has no result.
fn broken() -> Vec<Message> {
    let call = ToolCall { id: "c1".into(), name: "search".into(), arguments: r#"{"q": "Oslo"}"#.into() };
    let calls =
        Message::Assistant { text: "I look.".into(), calls: vec![call], extra: serde_json::Map::new() };
    vec![Message::user("Find a flight."), calls, Message::user("And?")]
}

/// What each call is sent, when the provider takes only histories without a call.
async fn sent(text: &str) -> (Vec<Vec<String>>, Vec<Option<ErrorClass>>) {
    sent_to(text, Failure::of(ErrorClass::OrphanToolCall, "tool_use without tool_result")).await
}

/// The same, and it refuses the others so.
async fn sent_to(text: &str, refusal: Failure) -> (Vec<Vec<String>>, Vec<Option<ErrorClass>>) {
    let (guard, records) = guard(text, &["main"]);
    let sent = Mutex::new(Vec::new());
    let turn = guard.turn(broken()).history(|request| request);
    let _ = turn
        .call(|_, messages: Vec<Message>| {
            let texts = messages.iter().map(|message| message.text().to_owned());
            sent.lock().unwrap().push(texts.collect::<Vec<_>>());
            let calls =
                |message: &Message| matches!(message, Message::Assistant { calls, .. } if !calls.is_empty());
            let refused = messages.iter().any(calls);
            let failure = refusal.clone();
            async move { if refused { Err(failure) } else { Ok(()) } }
        })
        .await;
    let classes = records.lock().unwrap().iter().map(|record| record.error_type).collect();
    (sent.into_inner().unwrap(), classes)
}

#[tokio::test(start_paused = true)]
async fn a_history_that_providers_refuse_is_repaired_before_the_call() {
    let (sent, classes) = sent("version: 1\nhistory: {check: before_call, orphan_calls: prune}\n").await;
    insta::assert_json_snapshot!(sent);
    assert_eq!(classes, [None]);
}

#[tokio::test(start_paused = true)]
async fn after_a_refusal_the_repaired_history_is_sent_at_once_and_not_counted() {
    let once = "version: 1\nhistory: {check: after_error, orphan_calls: prune}\nmodels: {main: {retry: {max_attempts: 1}}}\n";
    let (sent, classes) = sent(once).await;
    assert_eq!((sent.len(), classes), (2, vec![Some(ErrorClass::OrphanToolCall), None]));
    assert_eq!(sent[0], ["Find a flight.", "I look.", "And?"]);
    assert_eq!(sent[1].len(), 4, "{sent:?}");
}

#[tokio::test(start_paused = true)]
async fn a_history_with_a_call_that_a_provider_cannot_read_is_repaired_too() {
    let once = "version: 1\nhistory: {check: after_error, orphan_calls: prune}\nmodels: {main: {retry: {max_attempts: 1}}}\n";
    let refusal = Failure {
        status: Some(400),
        message: "function arguments: not valid json".into(),
        ..Failure::default()
    };
    let (_, classes) = sent_to(once, refusal).await;
    assert_eq!(classes, [Some(ErrorClass::MalformedToolCall), None]);
}

#[tokio::test(start_paused = true)]
async fn a_policy_may_leave_the_history_alone() {
    let (sent, classes) = sent("version: 1\nhistory: {check: never}\n").await;
    assert_eq!((sent.len(), classes), (1, vec![Some(ErrorClass::OrphanToolCall)]));
}

#[tokio::test]
async fn a_host_may_have_its_own_conversation_repaired() {
    let (guard, _) = guard("version: 1\nhistory: {check: before_call, orphan_calls: inject}\n", &["main"]);
    let mut messages = broken();
    let told = guard.repair_history(&mut messages).unwrap();
    assert_eq!((told.injected_count, told.pruned_count, told.model), (1, 0, None));
    assert!(
        matches!(&messages[2], Message::Tool { call, text, .. } if call == "c1" && text.contains("search"))
    );
    assert_eq!(guard.repair_history(&mut messages), None);
}
