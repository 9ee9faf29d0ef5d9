//! A guard is a run: its limits, its final turn, its report, its log.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use serde_json::{Value, json};
use unfazed::engine::{
    Directives, EffectState, Envelope, Failure, FinishReason, Interpreter, LogHeader, ModelReply, Outcome,
    State, ToolCatalogue, ToolSpec,
};
use unfazed::host::guard::{CallError, CallRefused, OutputError, ToolGuard};
use unfazed::host::{
    Guard, GuardConfig, InterruptedCall, Journal, JournalError, MetricId, NoopObserver, ToolError,
};
use unfazed::policy::{ErrorClass, Policy};
use unfazed::replay::{DecisionParts, ReplayEnding, replay};
use unfazed::session::{Message, StopReason};
use unfazed::store::{FsyncMode, JsonlStore, Recorder, ResumedSession, SessionId, Store, resume};
use unfazed::time::Instant;

fn policy(text: &str) -> Policy {
    Policy::from_yaml("policy.yaml", &format!("version: 1\n{text}"))
        .unwrap_or_else(|report| panic!("{report}"))
}

fn guard(text: &str) -> Guard {
    Guard::new(policy(text))
}

async fn ok(tool: &ToolGuard) -> Result<(), CallError<ToolError>> {
    tool.call((), |(), _| std::future::ready(Ok(()))).await
}

async fn refused(tool: &ToolGuard) -> CallRefused {
    match ok(tool).await {
        Err(CallError::Refused(refusal)) => *refusal,
        other => panic!("{other:?}"),
    }
}

async fn turn(guard: &Guard) -> Result<(), CallError<Failure>> {
    guard.turn(()).call(|_, ()| std::future::ready(Ok(()))).await
}

#[tokio::test(start_paused = true)]
async fn in_the_final_turn_no_tool_runs_and_the_next_turn_is_of_the_next_run() {
    let guard = guard("turn: {max_turns: 2}\n");
    let tool = guard.tool("look");
    turn(&guard).await.unwrap();
    ok(&tool).await.unwrap();
    turn(&guard).await.unwrap();
    turn(&guard).await.unwrap();
    ok(&tool).await.unwrap();
    assert_eq!(guard.state(|state| state.turn), 1);
}

/// Else a model that never stops would have one run after the other, and no limit would end it.
#[tokio::test(start_paused = true)]
async fn a_model_that_calls_tools_after_the_final_turn_has_no_next_run() {
    let guard = guard("turn: {max_turns: 2}\n");
    let tool = guard.tool("look");
    let mut ran = 0;
    let ended = loop {
        if let Err(error) = turn(&guard).await {
            break error;
        }
        match ok(&tool).await {
            Ok(()) => ran += 1,
            Err(CallError::Refused(refusal)) => {
                assert!(refusal.final_turn && refusal.message.contains("turn 2 of 2"), "{refusal:?}");
            }
            Err(other) => panic!("{other:?}"),
        }
    };
    assert_eq!(ran, 1);
    assert!(ended.to_string().contains("the final turn was taken"), "{ended}");
    // What comes next is another conversation.
    turn(&guard).await.unwrap();
    ok(&tool).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_turn_after_the_final_one_waits_for_the_turns_that_are_open() {
    let guard = guard("turn: {max_turns: 2}\n");
    let start = tokio::time::Instant::now();
    let ended = async |begins: u64, seconds: u64| {
        tokio::time::sleep(Duration::from_secs(begins)).await;
        let turn = guard.turn(());
        let slow = turn.call(|_, ()| async {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            Ok::<_, Failure>(())
        });
        slow.await.unwrap();
        start.elapsed().as_secs()
    };
    let (slow, last, next, another) = tokio::join!(ended(0, 10), ended(0, 1), ended(2, 1), ended(2, 3));
    assert_eq!((slow, last), (10, 1), "the second is the final turn");
    assert_eq!((next, another), (11, 13), "they wait for the first, and none is lost");
    assert_eq!(guard.state(|state| state.turn), 2, "they are the turns of a second run");
}

#[tokio::test(start_paused = true)]
async fn a_turn_within_a_call_is_refused_after_the_final_turn_and_not_waited_for() {
    let guard = guard("turn: {max_turns: 1}\n");
    let (tool, inner, args) = (guard.tool("ask"), &guard, json!({"what": "a price"}));
    let call = tool.call(&args, |_, _| async move {
        turn(inner).await.unwrap();
        match turn(inner).await {
            Err(CallError::Run(error)) => Ok::<_, ToolError>(error.to_string()),
            other => panic!("{other:?}"),
        }
    });
    let told = call.await.unwrap();
    assert!(told.contains("the final turn was taken"), "{told}");
    turn(&guard).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn who_has_agreed_to_a_call_has_not_agreed_to_a_second_run() {
    let rules =
        "tools: {send: {effect: non_idempotent, approval: always, on_uncertain_effect: {kind: ask}}}\n";
    let (tool, runs) = (guard(rules).tool("send").approved(), Cell::new(0));
    let call = tool.call((), |(), _| {
        runs.set(runs.get() + 1);
        async { Err::<(), _>(ToolError::network("connection reset").effect(EffectState::Unknown)) }
    });
    assert!(matches!(call.await, Err(CallError::Exhausted(_))));
    assert_eq!(runs.get(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_call_is_never_run_to_find_out_whether_it_has_acted() {
    let rules = "tools: {book: {effect: non_idempotent, on_uncertain_effect: {kind: verify, tool: look, arguments: {}, acted: 'false'}}, look: {effect: read_only}}\n";
    let (tool, runs) = (guard(rules).tool("book"), Cell::new(0));
    let call = tool.call((), |(), _| {
        runs.set(runs.get() + 1);
        async { Err::<(), _>(ToolError::network("connection reset").effect(EffectState::Unknown)) }
    });
    assert!(matches!(call.await, Err(CallError::Exhausted(_))));
    assert_eq!(runs.get(), 1);
}

#[tokio::test]
async fn long_arguments_are_read_elsewhere_and_decided_about_as_others() {
    let tool = guard("tools: {note: {result: {max: 100 chars}}}\n").tool("note");
    let long = format!("{{'text': '{}',}}", "x".repeat(40_000));
    let read = tool.call_text(&long, |args, _| async move {
        Ok::<_, ToolError>(json!(args["text"].as_str().map(str::len)))
    });
    assert_eq!(read.await.unwrap(), "40000");
}

#[tokio::test(start_paused = true)]
async fn what_the_final_turn_says_is_in_a_request_whose_history_is_known() {
    let guard = guard("turn: {max_turns: 1}\n");
    let asked = guard.turn(vec![Message::user("hello")]).history(|request| request);
    let texts = asked.call_as(
        |_| None,
        |call, request| async move {
            assert_eq!((call.turn, call.tools.len()), (1, 0));
            let texts: Vec<String> = request.iter().map(|message| message.text().to_owned()).collect();
            Ok::<_, Failure>((texts, call.guidance))
        },
    );
    let (texts, guidance) = texts.await.unwrap();
    assert_eq!((texts.len(), &texts[1..]), (2, &*guidance));
    assert!(texts[1].contains("This is the final turn"), "{texts:?}");
}

#[tokio::test(start_paused = true)]
async fn the_budgets_of_a_run_hold_for_its_calls() {
    let guard = guard("limits: {run: {tool_calls: 2}}\n");
    let tool = guard.tool("look");
    ok(&tool).await.unwrap();
    ok(&tool).await.unwrap();
    let refusal = refused(&tool).await;
    assert!(refusal.final_turn && refusal.class == ErrorClass::ToolUnavailable, "{refusal:?}");
}

#[tokio::test(start_paused = true)]
async fn a_report_is_repaired_corrected_and_ends_the_run() {
    let rules = "output: {schema: {type: object, properties: {total: {type: integer}}, required: [total]}, retry: {max_attempts: 2}}\n";
    let guard = guard(rules);
    let wrong = guard.output("{total: 'many'}").await.unwrap_err();
    let OutputError::Refused(refusal) = &wrong else { panic!("{wrong:?}") };
    assert!(refusal.message.contains("integer"), "{}", refusal.message);
    assert_eq!(guard.output("{total: 12,}").await.unwrap(), json!({"total": 12}));
    assert!(matches!(guard.outcome(), Some(Outcome::Reported { output }) if output == json!({"total": 12})));
    for last in [false, true] {
        let error = guard.output("{}").await.unwrap_err();
        assert_eq!(matches!(error, OutputError::Exhausted(_)), last, "{error:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_tool_is_called_with_what_a_model_wrote() {
    let guard = guard(
        "tools: {price: {result: {max: 120 chars}, retry: {max_attempts: 2}, validate: [{name: item, check: has(args.item), message: name an item}]}}\n",
    );
    let tool = guard.tool("price");
    let run = |args: Arc<Value>, _: unfazed::host::guard::CallContext<'_>| async move {
        Ok::<_, ToolError>(json!({"of": args["item"], "text": "x".repeat(1000)}))
    };
    let read = tool.call_text("{'item': 42,}", run).await.unwrap();
    assert!(read.starts_with(r#"{"of":42,"text":"x"#) && read.ends_with(r#"x… (1000 chars)"}"#), "{read}");
    assert!(read.chars().count() <= 120, "{read}");
    let error = tool.call_text("{}", run).await.unwrap_err();
    let CallError::Refused(refusal) = &error else { panic!("{error:?}") };
    assert!(refusal.message.contains("name an item"), "{refusal:?}");
    let error = tool.call_text("price of 42", run).await.unwrap_err();
    let CallError::Exhausted(end) = error else { panic!("{error:?}") };
    let classes: Vec<_> = end.exhausted.attempts.iter().map(|attempt| attempt.error_type).collect();
    assert_eq!(classes, [ErrorClass::InvalidArgs, ErrorClass::MalformedToolCall]);
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_is_looked_at_is_repaired_or_asked_for_again() {
    let rules = policy("models: {'*': {retry: {backoff: {kind: constant, delay: 1s}}}}\n");
    let look =
        ToolSpec { name: "look".into(), description: String::new(), parameters: json!({}), effect: None };
    let guard = Guard::new(GuardConfig::new(rules).tools(ToolCatalogue::new(vec![look]).unwrap()));
    let tries = Cell::new(0);
    let asked = guard.turn(());
    let reply = asked.reply(|_, ()| {
        tries.set(tries.get() + 1);
        let text = if tries.get() == 1 {
            ""
        } else {
            r#"<tool_call>{"name": "look", "arguments": {"n": 1}}</tool_call>"#
        };
        let reply = ModelReply { text: text.into(), finish: FinishReason::Stop, ..ModelReply::default() };
        async move { Ok::<_, Failure>(reply) }
    });
    let reply = reply.await.unwrap();
    assert_eq!((tries.get(), reply.calls.len()), (2, 1), "the first is empty");
    assert_eq!((&*reply.calls[0].call.name, &*reply.text), ("look", ""));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_breaks_off_is_not_begun_again_where_the_policy_says_so() {
    for (rule, tries, reason) in [("retry", 3, StopReason::Attempts), ("fail", 1, StopReason::AfterPartial)] {
        let guard = guard(&format!(
            "turn: {{after_partial: {rule}}}\nmodels: {{'*': {{retry: {{max_attempts: 3}}}}}}\n"
        ));
        let made = Cell::new(0);
        let turn = guard.turn(());
        let answer = turn.call_as(
            |()| None,
            |call, ()| {
                made.set(made.get() + 1);
                async move {
                    call.received(100);
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    Err::<(), _>(Failure::of(ErrorClass::NetworkError, "connection reset"))
                }
            },
        );
        let Err(CallError::Exhausted(end)) = answer.await else { panic!("it answers") };
        assert_eq!((made.get(), end.exhausted.reason), (tries, reason), "{rule}");
    }
}

#[tokio::test(start_paused = true)]
async fn reducers_are_given_what_they_are_given_in_a_run() {
    let rules = "
tools: {look: {retry: {max_attempts: 2, backoff: {kind: constant, delay: 0s}}, effect: read_only}}
session:
  slices: {calls: {initial: ''}, turns: {initial: 0}}
  reducers:
    call: {on: tool_failed, slice: calls, do: {kind: set, value: event.call}}
    turn: {on: model_responded, slice: turns, do: {kind: set, value: event.turn}}
";
    let guard = guard(rules);
    let tool = guard.tool("look");
    let failed = tool.call((), |(), _| async { Err::<(), _>(ToolError::network("reset")) });
    failed.await.unwrap_err();
    turn(&guard).await.unwrap();
    for (name, expected) in [("calls", json!("call_1")), ("turns", json!(1))] {
        assert_eq!(guard.slices(|slices| slices.get(name).cloned()), Some(expected), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_of_no_length_counts_as_one() {
    for feedback in [true, false] {
        let guard = guard(&format!(
            "tools: {{look: {{effect: read_only, retry: {{emit_feedback: {feedback}, backoff: {{kind: constant, delay: 0s}}}}}}}}\n"
        ));
        let (tool, left) = (guard.tool("look"), Cell::new(2_u32));
        let call = tool.call((), |(), _| {
            let fails = left.replace(left.get().saturating_sub(1)) > 0;
            async move { if fails { Err(ToolError::network("reset")) } else { Ok(()) } }
        });
        call.await.unwrap();
        let histograms = guard.metrics().histograms;
        let delays = histograms.iter().find(|histogram| histogram.name == MetricId::RetryDelays).unwrap();
        assert_eq!((delays.count, delays.sum), (2, 0), "feedback: {feedback}");
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_approved_by_silence() {
    let guard = guard("turn: {approval: {unanswered: approve}}\ntools: {send: {approval: always}}\n");
    assert_eq!(refused(&guard.tool("send")).await.class, ErrorClass::PermissionDenied);
    ok(&guard.tool("send").approved()).await.unwrap();
}

/// A session on disk.
struct Scene {
    dir: tempfile::TempDir,
    id: SessionId,
    policy: Policy,
}

impl Scene {
    fn new(rules: &str) -> Self {
        Self { dir: tempfile::tempdir().unwrap(), id: "trip".parse().unwrap(), policy: policy(rules) }
    }

    fn store(&self) -> JsonlStore {
        JsonlStore::new(self.dir.path(), FsyncMode::Never)
    }

    async fn begin(&self) -> Guard {
        let header = LogHeader::new("trip", self.policy.digest(), Instant(1));
        let recorder = Recorder::new(self.store().create(&self.id, &header).await.unwrap()).await;
        Guard::new(
            GuardConfig::new(self.policy.clone()).run("trip").targets(["main", "spare"]).record(recorder),
        )
    }

    async fn go_on(&self) -> (Guard, Vec<InterruptedCall>) {
        let interpreter = Interpreter::new(self.policy.clone(), ToolCatalogue::default());
        let ResumedSession { past, log, .. } = resume(&self.store(), &self.id, &interpreter).await.unwrap();
        let config = GuardConfig::new(self.policy.clone()).run("trip").targets(["main", "spare"]);
        Guard::resume(config.record(Recorder::new(log).await), past).unwrap()
    }

    /// What a machine finds that starts again now.
    fn as_on_disk(&self) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for file in std::fs::read_dir(self.dir.path()).unwrap().map(Result::unwrap) {
            std::fs::copy(file.path(), dir.path().join(file.file_name())).unwrap();
        }
        Self { dir, id: self.id.clone(), policy: self.policy.clone() }
    }

    async fn decides_the_same(&self) {
        let records: Vec<_> = self.store().read(&self.id).await.unwrap().collect().await;
        let found = replay(&self.policy, DecisionParts::default(), records).unwrap();
        assert_eq!((found.ending, found.same), (ReplayEnding::Same, found.events));
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_guard_writes_down_is_decided_again_and_continued() {
    let scene = Scene::new(
        "tools: {'*': {effect: read_only, retry: {max_attempts: 3, backoff: {kind: constant, delay: 1s}}}}\n",
    );
    let guard = scene.begin().await;
    let (look, left, args) = (guard.tool("look"), Cell::new(1), json!({"n": 1}));
    let flaky = look.call(&args, |_, _| {
        let fails = left.replace(0) > 0;
        async move { if fails { Err(ToolError::network("reset")) } else { Ok(()) } }
    });
    flaky.await.unwrap();
    turn(&guard).await.unwrap();
    let tool = guard.tool("slow");
    let (mut keys, begun) = (Vec::new(), tokio::sync::Notify::new());
    let mut slow = Box::pin(tool.call((), |(), context| {
        keys.push(context.idempotency_key());
        begun.notify_one();
        std::future::pending::<Result<(), ToolError>>()
    }));
    tokio::select! {
        _ = &mut slow => unreachable!("it never ends"),
        () = begun.notified() => {}
    }
    // The process ends here.
    std::mem::forget(slow);
    let again = scene.as_on_disk();
    drop((tool, guard));
    let (guard, interrupted) = Box::pin(again.go_on()).await;
    assert_eq!(interrupted.len(), 1);
    assert_eq!((&*interrupted[0].tool, &interrupted[0].idempotency_key), ("slow", &keys[0]));
    let feedback = guard.latest_feedback().unwrap();
    assert_eq!(feedback.tool_name.as_deref(), Some("look"));
    let key = Cell::new(String::new());
    let slow = guard.tool("slow");
    let other = slow.call((), |(), context| {
        key.set(context.idempotency_key());
        std::future::ready(Ok::<_, ToolError>(()))
    });
    other.await.unwrap();
    assert_ne!(key.into_inner(), keys[0], "a key is used once");
    let log = std::fs::read_to_string(again.store().path(&again.id)).unwrap();
    for id in ["call_1", "call_2", "call_3"] {
        let proposals = log.lines().filter(|line| line.contains("tools_proposed"));
        let named = format!("\"id\":\"{id}\"");
        assert_eq!(proposals.filter(|line| line.contains(&named)).count(), 1, "{id}");
    }
    turn(&guard).await.unwrap();
    assert_eq!(guard.state(|state| state.turn), 2);
    guard.written().await.unwrap();
    drop(guard);
    again.decides_the_same().await;
}

#[tokio::test(start_paused = true)]
async fn calls_and_turns_that_are_made_side_by_side_are_decided_again() {
    let scene = Scene::new(
        "tools: {'*': {concurrency: 2, breaker: {failures: 3}, retry: {max_attempts: 2, backoff: {kind: constant, delay: 1s}}}}\n",
    );
    let guard = scene.begin().await;
    let tool = guard.tool("look");
    let call = async |n: u64| {
        let args = json!({ "n": n });
        let made = tool.call(&args, |_, _| async move {
            tokio::time::sleep(Duration::from_millis(100 + 37 * n % 91)).await;
            if n.is_multiple_of(3) { Err(ToolError::unavailable("busy")) } else { Ok(()) }
        });
        let _ = made.await;
    };
    let calls = futures_util::future::join_all((0..12).map(call));
    let dropped = tokio::time::timeout(Duration::from_millis(150), call(1));
    let (_, _, first, second) = tokio::join!(calls, dropped, turn(&guard), turn(&guard));
    first.unwrap();
    second.unwrap();
    assert_eq!(guard.state(|state| state.open_proposals().count()), 0);
    guard.written().await.unwrap();
    scene.decides_the_same().await;
}

#[tokio::test(start_paused = true)]
async fn more_calls_than_a_run_takes_at_once_wait() {
    let guard = Guard::new(
        GuardConfig::new(policy("tools: {look: {breaker: {failures: 5}}}\n")).record(NoopObserver),
    );
    let tool = guard.tool("look");
    let call = async |_: u32| {
        let made = tool.call((), |(), _| async {
            tokio::time::sleep(Duration::from_millis(10)).await;
            Ok::<_, ToolError>(())
        });
        made.await
    };
    let made = futures_util::future::join_all((0..1100).map(call)).await;
    assert!(made.iter().all(Result::is_ok));
}

#[tokio::test]
async fn a_guard_whose_session_cannot_be_written_takes_no_call() {
    struct Full;

    impl Journal for Full {
        fn event(&mut self, _: &Envelope) -> Result<(), JournalError> {
            Err(JournalError("no space left on device".into()))
        }

        fn directives(&mut self, _: &str, _: &Directives, _: &State) -> Result<(), JournalError> {
            Ok(())
        }
    }

    let guard = Guard::new(GuardConfig::new(policy("")).record(Full));
    let error = ok(&guard.tool("look")).await.unwrap_err();
    assert!(error.to_string().contains("no space left on device"), "{error}");
}
