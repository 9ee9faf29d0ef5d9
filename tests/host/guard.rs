//! Guards: the policy around single calls, in tokio's paused time.

use std::cell::Cell;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use unfazed::engine::{EffectState, Failure, ModelReply, ToolCatalogue, ToolSpec};
use unfazed::host::guard::{CallError, GivenUp, ToolGuard};
use unfazed::host::{Guard, GuardConfig, MetricId, ToolError};
use unfazed::policy::{CallOverride, ErrorClass, Policy, Seed};
use unfazed::session::StopReason;
use unfazed::time::Nanos;

const POLICY: &str = "
version: 1
tools:
  '*':
    effect: read_only
    breaker: {failures: 3, open_for: 1m}
    retry:
      max_attempts: 3
      retry_on: [network_error, invalid_args, timeout]
      backoff: {kind: linear, base: 1s, step: 1s, jitter: none}
      correction_backoff: {kind: linear, base: 1s, step: 1s}
      attempt_timeout: 10s
";

fn policy(text: &str) -> Policy {
    Policy::from_yaml("policy.yaml", text).unwrap_or_else(|report| panic!("{report}"))
}

fn guard() -> ToolGuard {
    Guard::new(policy(POLICY)).tool("fetch")
}

/// Fails so often, then succeeds.
async fn flaky(left: &Cell<u32>) -> Result<&'static str, ToolError> {
    tokio::task::yield_now().await;
    match left.get() {
        0 => Ok("done"),
        n => {
            left.set(n - 1);
            Err(ToolError::network("reset"))
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_fails_is_made_again_after_the_backoff() {
    let (guard, left, start) = (guard(), Cell::new(2), Instant::now());
    assert_eq!(guard.call((), |(), _| flaky(&left)).await.unwrap(), "done");
    assert_eq!(start.elapsed().as_secs(), 3, "one second, then two");
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_attempts_has_their_history_and_the_last_error() {
    let guard = Guard::new(policy(POLICY));
    let left = Cell::new(9);
    let error = guard.tool("fetch").call((), |(), _| flaky(&left)).await.unwrap_err();
    let CallError::Exhausted(end) = error else { panic!("refused") };
    let GivenUp { exhausted, last, message, .. } = *end;
    assert_eq!(exhausted.attempts.len(), 3);
    assert_eq!(last, Some(ToolError::network("reset")));
    assert!(message.contains("fetch"), "{message}");
    let feedback: Vec<_> =
        guard.slices(|slices| slices.feedback().map(|f| (f.attempt, f.next_delay)).collect());
    assert_eq!(feedback, [(1, Nanos::from_secs(1)), (2, Nanos::from_secs(2)), (3, Nanos::ZERO)]);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_takes_too_long_is_dropped_and_counts_as_a_timeout() {
    let (guard, tries) = (guard(), Cell::new(0));
    let result = guard
        .call((), |(), _| {
            tries.set(tries.get() + 1);
            let first = tries.get() == 1;
            async move {
                if first {
                    std::future::pending::<()>().await;
                }
                Ok::<_, ToolError>("done")
            }
        })
        .await;
    assert_eq!(result.unwrap(), "done");
    assert_eq!(tries.get(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_idempotency_key_is_the_same_for_every_attempt_and_for_no_other_call() {
    let (guard, keys) = (guard(), Mutex::new(Vec::new()));
    for _ in 0..2 {
        let left = Cell::new(1);
        let call = guard.call((), |(), ctx| {
            keys.lock().unwrap().push(ctx.idempotency_key());
            flaky(&left)
        });
        call.await.unwrap();
    }
    let keys = keys.into_inner().unwrap();
    assert_eq!(keys[0], keys[1]);
    assert_ne!(keys[1], keys[2]);
}

fn fetch() -> ToolCatalogue {
    let parameters = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let spec = ToolSpec { name: "fetch".into(), description: String::new(), parameters, effect: None };
    ToolCatalogue::new([spec]).unwrap()
}

#[tokio::test(start_paused = true)]
async fn arguments_that_do_not_hold_never_reach_the_tool() {
    let guard = Guard::new(GuardConfig::new(policy(POLICY)).tools(fetch())).tool("fetch");
    let wrong = json!({"n": "one"});
    let run = |_: &Value, _: unfazed::host::guard::CallContext<'_>| async {
        panic!("it ran");
        #[expect(unreachable_code, reason = "gives the block its type")]
        Ok::<(), ToolError>(())
    };
    for attempt in 1..=3 {
        match guard.call(&wrong, run).await.unwrap_err() {
            CallError::Refused(refusal) => {
                assert_eq!(refusal.class, ErrorClass::InvalidArgs);
                assert!(refusal.message.contains("integer"), "{}", refusal.message);
                assert_eq!(refusal.delay, Duration::from_secs(attempt));
            }
            CallError::Exhausted(end) => {
                assert_eq!((attempt, end.exhausted.attempts.len()), (3, 3));
                assert_eq!(end.exhausted.reason, StopReason::Attempts);
            }
            CallError::Run(error) => panic!("{error}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_complains_about_its_arguments_is_not_run_with_them_again() {
    let (guard, runs) = (guard(), Cell::new(0));
    let args = json!({});
    let result = guard.call(&args, |_, _| {
        runs.set(runs.get() + 1);
        async { Err::<(), _>(ToolError::invalid_args("no such city")) }
    });
    assert!(
        matches!(result.await, Err(CallError::Refused(refusal)) if refusal.message.contains("no such city"))
    );
    assert_eq!(runs.get(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_breaker_opens_lets_one_probe_through_and_takes_a_dropped_probe_back() {
    let guard = guard();
    let left = Cell::new(3);
    guard.call((), |(), _| flaky(&left)).await.unwrap_err();
    let refused = guard.call((), |(), _| flaky(&left)).await.unwrap_err();
    assert!(matches!(refused, CallError::Refused(refusal) if refusal.class == ErrorClass::CircuitOpen));
    tokio::time::advance(Duration::from_secs(60)).await;
    {
        let mut probe = Box::pin(guard.call((), |(), _| std::future::pending::<Result<(), ToolError>>()));
        assert!(futures_util::poll!(&mut probe).is_pending());
        let second = guard.call((), |(), _| flaky(&left)).await.unwrap_err();
        assert!(matches!(second, CallError::Refused(_)), "one probe at a time");
    }
    assert_eq!(guard.call((), |(), _| flaky(&left)).await.unwrap(), "done");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_began_before_the_breaker_opened_does_not_close_it() {
    let guard = guard();
    let (end, ended) = tokio::sync::oneshot::channel::<()>();
    let ended = Cell::new(Some(ended));
    let mut late = Box::pin(guard.call((), |(), _| {
        let ended = ended.take();
        async move { ended.unwrap().await.map_err(|_| ToolError::network("gone")) }
    }));
    assert!(futures_util::poll!(&mut late).is_pending());
    let left = Cell::new(9);
    guard.call((), |(), _| flaky(&left)).await.unwrap_err();
    tokio::time::advance(Duration::from_secs(60)).await;
    let mut probe = Box::pin(guard.call((), |(), _| std::future::pending::<Result<(), ToolError>>()));
    assert!(futures_util::poll!(&mut probe).is_pending());
    end.send(()).unwrap();
    late.await.unwrap();
    let next = guard.call((), |(), _| flaky(&left)).await.unwrap_err();
    assert!(matches!(next, CallError::Refused(refusal) if refusal.class == ErrorClass::CircuitOpen));
}

#[tokio::test(start_paused = true)]
async fn no_more_calls_of_a_tool_run_at_once_than_the_policy_lets() {
    for failures in ["never", "5"] {
        let text =
            format!("version: 1\ntools: {{'*': {{concurrency: 2, breaker: {{failures: {failures}}}}}}}");
        let (guard, running, most) = (Guard::new(policy(&text)).tool("fetch"), Cell::new(0), Cell::new(0));
        let call = || {
            guard.call((), |(), _| async {
                running.set(running.get() + 1);
                most.set(most.get().max(running.get()));
                tokio::time::sleep(Duration::from_secs(1)).await;
                running.set(running.get() - 1);
                Ok::<(), ToolError>(())
            })
        };
        let start = Instant::now();
        futures_util::future::join_all([call(), call(), call(), call(), call()]).await;
        assert_eq!((most.get(), start.elapsed().as_secs()), (2, 3), "failures: {failures}");
    }
}

#[tokio::test(start_paused = true)]
async fn tighter_rules_for_one_call_end_only_its_corrections() {
    let text = "
version: 1
tools:
  fetch:
    validate: [{name: large, check: args.n > 100, message: n is too small}]
    retry: {max_attempts: 4}
    calls: [{when: args.n == 9, retry: {max_attempts: 1}}]
";
    let guard = Guard::new(GuardConfig::new(policy(text)).tools(fetch())).tool("fetch");
    let ends = [(3, false), (9, true), (3, false), (4, false), (3, true), (3, true)];
    for (n, exhausted) in ends {
        let error =
            guard.call(&json!({ "n": n }), |_, _| async { Ok::<(), ToolError>(()) }).await.unwrap_err();
        assert_eq!(matches!(error, CallError::Exhausted(_)), exhausted, "{n}: {error:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_breaker_counts_failures_in_a_row() {
    let guard = guard();
    for _ in 0..3 {
        let left = Cell::new(2);
        assert_eq!(guard.call((), |(), _| flaky(&left)).await.unwrap(), "done");
    }
}

#[tokio::test(start_paused = true)]
async fn a_success_counts_for_failures_that_came_after_its_start() {
    let guard = guard();
    let (long, left) = (Cell::new(0), Cell::new(9));
    let mut success = Box::pin(guard.call((), |(), _| flaky(&long)));
    assert!(futures_util::poll!(&mut success).is_pending());
    {
        let mut failing = Box::pin(guard.call((), |(), _| flaky(&left)));
        for _ in 0..2 {
            assert!(futures_util::poll!(&mut failing).is_pending());
        }
    }
    assert_eq!(left.get(), 8, "one failure");
    success.await.unwrap();
    left.set(2);
    assert_eq!(
        guard.call((), |(), _| flaky(&left)).await.unwrap(),
        "done",
        "two more are not three in a row"
    );
}

#[tokio::test(start_paused = true)]
async fn calls_that_go_well_are_counted_by_their_attempts() {
    let guard = Guard::new(policy(POLICY));
    for failures in [0, 0, 1, 0, 2] {
        let left = Cell::new(failures);
        guard.tool("fetch").call((), |(), _| flaky(&left)).await.unwrap();
    }
    for _ in 0..2 {
        let metrics = guard.metrics();
        let attempts = metrics.histograms.iter().find(|h| h.name == MetricId::RetryAttempts).unwrap();
        assert_eq!((&*attempts.labels["subject"], attempts.count, attempts.sum), ("tool fetch", 5, 8));
    }
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_may_have_acted_is_called_once() {
    let policy =
        policy("version: 1\ntools: {'*': {breaker: {failures: never}, retry: {retry_on: [network_error]}}}");
    let guard = Guard::new(policy).tool("send");
    let left = Cell::new(1);
    let error = guard.call((), |(), _| flaky(&left)).await.unwrap_err();
    assert!(matches!(error, CallError::Exhausted(end) if end.exhausted.reason == StopReason::MayHaveActed));
    let never_started =
        || async { Err::<(), _>(ToolError::network("refused").effect(EffectState::NotStarted)) };
    let runs = Cell::new(0);
    let error = guard.call((), |(), _| {
        runs.set(runs.get() + 1);
        never_started()
    });
    error.await.unwrap_err();
    assert_eq!(runs.get(), 4, "what certainly did not start may be tried again");
}

#[tokio::test(start_paused = true)]
async fn the_planner_has_the_last_word_on_single_calls() {
    let layer = CallOverride::new(json!({"retry": {"max_attempts": 1}})).unwrap();
    let guard = guard().with(layer);
    let left = Cell::new(1);
    let args = json!({});
    guard.call(&args, |_, _| flaky(&left)).await.unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn the_host_is_told_of_a_reducer_that_fails_and_no_further_attempt_is_made() {
    let text = format!(
        "{POLICY}
session:
  slices: {{count: {{initial: 0}}}}
  reducers:
    strict: {{on: retry_feedback, slice: count, do: {{kind: increment, value: '1'}}, check: slice < 1}}
"
    );
    let told = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&told);
    let guard = Guard::new(
        GuardConfig::new(policy(&text))
            .on_reducer_error(move |error| sink.lock().unwrap().push(error.reducer.clone())),
    );
    let left = Cell::new(2);
    let error = guard.tool("fetch").call((), |(), _| flaky(&left)).await.unwrap_err();
    assert!(matches!(&error, CallError::Exhausted(end) if end.exhausted.reason == StopReason::ReducerError));
    assert!(matches!(error, CallError::Exhausted(end) if end.message.contains("strict")));
    assert_eq!(*told.lock().unwrap(), ["strict"]);
    assert_eq!(left.get(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_turn_is_offered_to_the_next_model_when_the_first_gives_up() {
    let text = "
version: 1
models:
  '*': {retry: {max_attempts: 2, retry_on: [overloaded], backoff: {kind: constant, delay: 1s, jitter: none}}}
";
    let guard = Guard::new(GuardConfig::new(policy(text)).targets(["main", "spare"]));
    let asked = Mutex::new(Vec::new());
    let answer = guard
        .turn("hello")
        .call(|target, request| {
            asked.lock().unwrap().push(target.clone());
            async move {
                match target.as_str() {
                    "main" => Err(Failure { status: Some(529), ..Failure::default() }),
                    _ => Ok(format!("{request} from {target}")),
                }
            }
        })
        .await;
    assert_eq!(answer.unwrap(), "hello from spare");
    assert_eq!(*asked.lock().unwrap(), ["main", "main", "spare"]);
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_goes_past_the_deadline_is_none_for_a_model_that_need_not_be_waited_for() {
    let rules = "models: {'*': {retry: {retry_on: [overloaded], backoff: {kind: constant, delay: 5s, jitter: none}, deadline: 3s}}}";
    for (targets, limit) in [
        ("exhausted, wait: target", "deadline"),
        ("attempt, wait: round", "deadline"),
        ("attempt", "total_delay"),
        ("skip", "deadline"),
    ] {
        let rules = rules.replace("deadline", limit);
        let text = format!("version: 1\nturn: {{targets: {{fallback: {targets}}}}}\n{rules}\n");
        let guard = Guard::new(GuardConfig::new(policy(&text)).targets(["main", "spare"]));
        let start = Instant::now();
        let turn = guard.turn("hello");
        let call = turn.call(async |target, _| match target.as_str() {
            "main" => Err(Failure { status: Some(529), ..Failure::default() }),
            _ => Ok(target),
        });
        assert_eq!(call.await.unwrap(), "spare", "{text}");
        assert!(start.elapsed().is_zero(), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn models_that_are_left_for_good_use_up_attempts_that_count_together() {
    for (advance, asked) in [("exhausted", 4), ("attempt", 2), ("skip", 2)] {
        let rules = "models: {'*': {retry: {max_attempts: 2}}}";
        let text = format!("version: 1\nturn: {{targets: {{fallback: {advance}}}}}\n{rules}\n");
        let guard = Guard::new(GuardConfig::new(policy(&text)).targets(["a", "b", "c", "d"]));
        let calls = Mutex::new(0);
        let failed = guard
            .turn(())
            .call(|_, ()| {
                *calls.lock().unwrap() += 1;
                async { Err::<(), _>(Failure::of(ErrorClass::AuthError, "no such key")) }
            })
            .await;
        assert!(failed.is_err());
        assert_eq!(*calls.lock().unwrap(), asked, "{advance}");
    }
}

#[tokio::test(start_paused = true)]
async fn no_answer_follows_one_that_was_half_shown_if_the_policy_says_so() {
    let text = "version: 1\nturn: {after_partial: fail}\n";
    let guard = Guard::new(GuardConfig::new(policy(text)).targets(["main", "spare"]));
    for (received, asked, reason) in [(0, 32, StopReason::Attempts), (5, 1, StopReason::AfterPartial)] {
        let calls = Mutex::new(0);
        let failed = guard
            .turn(())
            .call(|_, ()| {
                *calls.lock().unwrap() += 1;
                let failure = Failure { received, ..Failure::of(ErrorClass::NetworkError, "reset") };
                async { Err::<(), _>(failure) }
            })
            .await;
        assert!(matches!(failed, Err(CallError::Exhausted(end)) if end.exhausted.reason == reason));
        assert_eq!(*calls.lock().unwrap(), asked);
    }
}

#[tokio::test(start_paused = true)]
async fn attempts_at_each_model_are_counted_when_they_end() {
    let text = "
version: 1
models:
  '*': {retry: {max_attempts: 3, retry_on: [overloaded], backoff: {kind: constant, delay: 1s, jitter: none}}}
";
    let guard = Guard::new(GuardConfig::new(policy(text)).targets(["main", "spare"]));
    let spare_fails = Cell::new(1);
    let turn = guard.turn("hello");
    let answer =
        turn.call(|target, _| {
            let fails = target == "main" || spare_fails.replace(0) > 0;
            async move {
                if fails { Err(Failure { status: Some(529), ..Failure::default() }) } else { Ok(target) }
            }
        });
    assert_eq!(answer.await.unwrap(), "spare");
    let histograms = guard.metrics().histograms;
    let counted = histograms.iter().filter(|h| h.name == MetricId::RetryAttempts);
    let counted: Vec<_> = counted.map(|h| (&*h.labels["subject"], h.count, h.sum)).collect();
    assert_eq!(counted, [("model main", 1, 3), ("model spare", 1, 2)]);
}

#[tokio::test(start_paused = true)]
async fn guards_can_be_used_from_many_tasks() {
    let guard = guard();
    let calls = (0..8).map(|n| {
        let guard = guard.clone();
        tokio::spawn(async move { guard.call((), move |(), _| async move { Ok::<_, ToolError>(n) }).await })
    });
    for (n, call) in calls.collect::<Vec<_>>().into_iter().enumerate() {
        assert_eq!(call.await.unwrap().unwrap(), n);
    }
}

#[tokio::test(start_paused = true)]
async fn a_breaker_of_a_turn_stays_open_while_another_call_of_that_turn_is_in_flight() {
    let guard = session(
        "version: 1\ntools: {a: {effect: read_only, breaker: {failures: 1, scope: turn}, retry: {max_attempts: 1}}}\n",
    );
    let (a, b) = (guard.tool("a"), guard.tool("b"));
    let mut slow = Box::pin(b.call((), |(), _| async {
        tokio::time::sleep(Duration::from_secs(10)).await;
        Ok::<_, ToolError>(())
    }));
    assert!(futures_util::poll!(&mut slow).is_pending());
    let failed = a.call((), |(), _| async { Err::<(), _>(ToolError::network("reset")) });
    assert!(matches!(failed.await, Err(CallError::Exhausted(_))));
    let other = async || a.call((), |(), _| async { Ok::<_, ToolError>(()) }).await;
    let refused = other().await;
    assert!(
        matches!(&refused, Err(CallError::Refused(refusal)) if refusal.class == ErrorClass::CircuitOpen),
        "{refused:?}"
    );
    slow.await.unwrap();
    other().await.expect("a turn begins with it");
}

/// The guard of a lock is not `Send`, so a future that held one across an await would not be either.
#[tokio::test(start_paused = true)]
async fn no_future_of_a_guard_holds_a_lock_across_an_await() {
    fn unlocked<F: Future + Send>(future: F) -> F {
        future
    }
    let guard = session("version: 1");
    let (tool, turn, args) = (guard.tool("look"), guard.turn(()), json!({"n": 1}));
    unlocked(tool.call((), |(), _| async { Ok::<_, ToolError>(()) })).await.unwrap();
    unlocked(tool.call(&args, |_, _| async { Ok::<_, ToolError>(()) })).await.unwrap();
    unlocked(tool.call_text("{}", |_, _| async { Ok::<_, ToolError>(json!(1)) })).await.unwrap();
    unlocked(turn.call(|_, ()| async { Ok::<_, Failure>(()) })).await.unwrap();
    let reply = ModelReply { text: "done".into(), ..ModelReply::default() };
    unlocked(turn.reply(|_, ()| async { Ok::<_, Failure>(reply.clone()) })).await.unwrap();
    unlocked(guard.output("done")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_jittered_delay_is_that_of_the_interpreter() {
    let rules = policy(
        "version: 1\ntools: {fetch: {effect: read_only, retry: {max_attempts: 4, backoff: {kind: constant, delay: 10s, jitter: full}}}}",
    );
    let tool = Guard::new(GuardConfig::new(rules.clone()).run("r").seed(7)).tool("fetch");
    let failed = tool.call((), |(), _| async { Err::<(), _>(ToolError::network("reset")) });
    let Err(CallError::Exhausted(end)) = failed.await else { panic!("it fails") };
    // The scope, and the idempotency key of the call.
    let (backoff, seed) = (&rules.tool("fetch").retry.backoff.value, Seed::new(7, "tool", "r-1-0"));
    let delays: Vec<_> = end.exhausted.attempts.iter().map(|attempt| attempt.delay).collect();
    assert_eq!(delays[..3], [1, 2, 3].map(|attempt| backoff.delay(attempt, seed)));
}

/// A guard with a session of its own.
fn session(text: &str) -> Guard {
    Guard::new(policy(text))
}

/// Calls the tool and says how often it ran, and why it was given up.
async fn runs(tool: &ToolGuard, class: ErrorClass) -> (u32, Option<StopReason>) {
    let runs = Cell::new(0);
    let result: Result<(), CallError<ErrorClass>> = tool
        .call((), |(), _| async {
            runs.set(runs.get() + 1);
            Err(class)
        })
        .await;
    let reason = match result {
        Err(CallError::Exhausted(given_up)) => Some(given_up.exhausted.reason),
        Ok(()) | Err(CallError::Refused(_) | CallError::Run(_)) => None,
    };
    (runs.get(), reason)
}

#[tokio::test(start_paused = true)]
async fn retries_of_all_calls_draw_on_a_budget() {
    let guard = session(
        "version: 1\nretry: {max_attempts: 3, budget: {kind: tokens, capacity: 3, pool: all}}\ntools: {\"*\": {effect: read_only, breaker: {failures: never}}}\n",
    );
    let (search, fetch) = (guard.tool("search"), guard.tool("fetch"));
    assert_eq!(runs(&search, ErrorClass::Timeout).await, (3, Some(StopReason::Attempts)));
    assert_eq!(runs(&fetch, ErrorClass::Timeout).await, (2, Some(StopReason::Budget)));
    let ok: Result<(), CallError<ErrorClass>> = search.call((), |(), _| async { Ok(()) }).await;
    assert!(ok.is_ok(), "a success gives a token back");
    assert_eq!(runs(&fetch, ErrorClass::Timeout).await, (2, Some(StopReason::Budget)));
    let model: Result<(), CallError<ErrorClass>> =
        guard.turn(()).call(|_, ()| async { Err(ErrorClass::RateLimit) }).await;
    let Err(CallError::Exhausted(given_up)) = model else { panic!("it succeeds") };
    assert_eq!(given_up.exhausted.reason, StopReason::Budget);
}

#[tokio::test(start_paused = true)]
async fn a_retry_that_a_reducer_objects_to_costs_nothing() {
    let guard = session(concat!(
        "version: 1\nretry: {budget: {kind: tokens, capacity: 1, pool: all}}\n",
        "tools: {\"*\": {effect: read_only, breaker: {failures: never}}, bad: {}}\n",
        "session:\n  slices: {n: {initial: 0}}\n  reducers:\n",
        "    objects: {on: retry_feedback, slice: n, do: {kind: increment, value: \"event.tool == 'bad' ? 'no' : 1\"}}\n",
    ));
    assert_eq!(runs(&guard.tool("bad"), ErrorClass::Timeout).await, (1, Some(StopReason::ReducerError)));
    assert_eq!(runs(&guard.tool("good"), ErrorClass::Timeout).await, (2, Some(StopReason::Budget)));
}

#[tokio::test(start_paused = true)]
async fn a_class_has_its_own_attempts() {
    let guard = session(
        "version: 1\nretry: {by_class: {rate_limit: {max_attempts: 5}}}\ntools: {\"*\": {effect: read_only, breaker: {failures: never}}}\n",
    );
    assert_eq!(runs(&guard.tool("a"), ErrorClass::RateLimit).await, (5, Some(StopReason::Attempts)));
    assert_eq!(runs(&guard.tool("a"), ErrorClass::Timeout).await, (4, Some(StopReason::Attempts)));
}

#[tokio::test(start_paused = true)]
async fn in_shadow_nothing_is_retried_and_nothing_written_down() {
    let guard = session("version: 1\nretry: {shadow: true}\ntools: {\"*\": {effect: read_only}}\n");
    assert_eq!(runs(&guard.tool("a"), ErrorClass::Timeout).await, (1, Some(StopReason::Shadow)));
    assert_eq!(guard.latest_feedback(), None);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_wants_agreement_runs_only_if_the_host_says_that_it_has_it() {
    let rules =
        "version: 1\ntools: {send: {approval: always}, pay: {calls: [{when: args.n > 5, approval: always}]}}";
    let guard = Guard::new(policy(rules));
    let run = async |guard: ToolGuard, args: Value| {
        let ran = |_: &Value, _: unfazed::host::guard::CallContext<'_>| async { Ok::<_, ToolError>("ran") };
        guard.call(&args, ran).await
    };
    let refused = run(guard.tool("send"), json!({})).await;
    let Err(CallError::Refused(refusal)) = refused else { panic!("{refused:?}") };
    assert_eq!(refusal.class, ErrorClass::PermissionDenied);
    assert!(refusal.message.contains("nobody agreed to it"), "{}", refusal.message);
    assert_eq!(run(guard.tool("send").approved(), json!({})).await.unwrap(), "ran");
    assert_eq!(run(guard.tool("pay"), json!({"n": 5})).await.unwrap(), "ran");
    assert!(matches!(run(guard.tool("pay"), json!({"n": 6})).await, Err(CallError::Refused(_))));
}
