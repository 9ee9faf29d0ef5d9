//! A guard decides as `step` does: the same calls, of which each attempt ends the same way, through the interpreter alone, a guard,
//! and a guard that is recorded.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};
use unfazed::engine::{
    ApprovalAnswer, DirectiveKind, DriveMode, EffectState, Envelope, Event, Failure, Interpreter, Note,
    PlannerDecision, ProposedCall, RunFacts, RunStarted, State, ToolCatalogue, ToolFacts, ToolOutcome,
    ToolSpec, Work,
};
use unfazed::host::guard::{CallError, ToolGuard};
use unfazed::host::{Guard, GuardConfig, NoopObserver, ToolError};
use unfazed::policy::{ErrorClass, Policy};
use unfazed::session::{Message, StopReason, ToolCall};
use unfazed::time::{Instant, Nanos};

/// One call: what is known of its arguments, how its attempts end, and how long after the call before it comes.
#[derive(Clone, Debug)]
struct Call {
    tool: &'static str,
    arguments: Option<Value>,
    ends: Vec<End>,
    after: u64,
}

/// How an attempt ends; it does well where no end is left.
type End = Option<(ErrorClass, EffectState)>;

/// What is seen of a call.
#[derive(Debug, PartialEq)]
struct Seen {
    /// When each attempt began, in nanoseconds since the first.
    attempts: Vec<u64>,
    came: Came,
}

/// How a call is made through a guard.
struct Made {
    /// How long each attempt takes, in tenths of a second.
    takes: u64,
    /// Whether the guard is recorded.
    recorded: bool,
}

#[derive(Debug, PartialEq)]
enum Came {
    Well,
    Refused { class: ErrorClass, text: String, delay: Nanos, last_turn: bool },
    Exhausted { reason: StopReason, delays: Vec<Nanos>, text: String },
}

const RULES: &[&str] = &[
    "backoff: {kind: constant, delay: 0s}",
    "backoff: {kind: exponential, base: 1s, factor: 2, jitter: full}",
    "emit_feedback: false",
    "max_attempts: 2",
    "by_class: {rate_limit: {max_attempts: 4, backoff: {kind: constant, delay: 2s, jitter: none}}}",
    "budget: {kind: tokens, capacity: 3, pool: all}",
    "deadline: 5s",
    "total_delay: 3s",
    "attempt_timeout: 1s",
    "shadow: true",
];

const TOOLS: &[&str] = &[
    "effect: read_only",
    "effect: non_idempotent",
    "breaker: {failures: 2, open_for: 3s}",
    "breaker: {failures: 1, scope: turn}",
    "breaker: {failures: 2, count: {kind: window, calls: 4}}",
    "breaker: {failures: 2, count: {kind: cumulative}}",
    "concurrency: 1",
    "loop_guard: {enabled: false}",
    "loop_guard: {same_error: {nudge: 1, block: 2}}",
    "validate: [{name: large, check: args.n > 1, message: n is too small}]",
    "calls: [{when: args.n == 3, retry: {max_attempts: 1}}]",
    "approval: always",
    "on_uncertain_effect: {kind: ask}",
    "on_uncertain_effect: {kind: verify, tool: b, arguments: {}, acted: 'true'}",
    "result: {form: json}",
];

const REST: &[&str] = &[
    "limits: {run: {tool_calls: 4}}",
    "session: {slices: {n: {initial: 0}}, reducers: {count: {on: retry_feedback, slice: n, do: {kind: increment, value: '1'}, check: slice < 3}}}",
    "session: {slices: {n: {initial: 0}}, reducers: {count: {on: tool_succeeded, slice: n, do: {kind: increment, value: 'event.attempts'}}}}",
    "turn: {approval: {unanswered: refuse}}",
];

fn policy(rules: &[&str], tools: &[&str], rest: Option<&str>) -> Policy {
    let (rules, tools) = (first_of_each_key(rules), first_of_each_key(tools));
    let comma = if tools.is_empty() { "" } else { ", " };
    let text = format!(
        "version: 1\ntools: {{a: {{retry: {{{rules}}}{comma}{tools}}}, b: {{effect: read_only}}}}\n{}\n",
        rest.unwrap_or_default()
    );
    Policy::from_yaml("policy.yaml", &text).unwrap_or_else(|report| panic!("{report}\n{text}"))
}

pub(crate) fn first_of_each_key(values: &[&str]) -> String {
    let key = |value: &str| value.split(':').next().unwrap().to_owned();
    let mut known = Vec::new();
    let first = values.iter().filter(|value| {
        let key = key(value);
        let is_new = !known.contains(&key);
        known.push(key);
        is_new
    });
    first.copied().collect::<Vec<_>>().join(", ")
}

/// When a timer of tokio fires that is due then: it counts milliseconds.
pub(crate) fn woken(due: Instant) -> Instant {
    Instant(due.0.div_ceil(1_000_000) * 1_000_000)
}

fn outcome(end: End) -> ToolOutcome {
    match end {
        None => ToolOutcome::Done,
        Some((class, effect)) => {
            ToolOutcome::Failed { failure: Failure::of(class, format!("it says {class}")), effect }
        }
    }
}

/// The calls through the interpreter alone.
fn by_step(policy: &Policy, calls: &[Call]) -> Vec<Seen> {
    let tool = |name: &str| ToolSpec {
        name: name.into(),
        description: String::new(),
        parameters: json!({}),
        effect: None,
    };
    let tools = ToolCatalogue::new(["a", "b"].map(tool)).unwrap();
    let facts = tools.iter().map(ToolFacts::from).collect();
    let (interpreter, mut state) = (Interpreter::new(policy.clone(), tools), State::new());
    let now = Cell::new(Instant(0));
    let mut step = |event| {
        let envelope = Envelope { seq: state.seq + 1, now: now.get(), event };
        interpreter.step(&mut state, envelope)
    };
    let started = RunStarted {
        run: "r".into(),
        seed: 7,
        drive: DriveMode::Calls,
        tools: facts,
        targets: vec!["default".into()],
        ..RunStarted::default()
    };
    let _ = step(Event::RunStarted(started));
    let mut seen = Vec::new();
    for (call, number) in calls.iter().zip(1..) {
        now.set(now.get().saturating_add(Nanos::from_secs(call.after)));
        let (mut ends, mut attempts) = (call.ends.iter(), Vec::new());
        let (mut text, mut refused, mut exhausted, mut well) = (String::new(), None, None, false);
        let arguments = call.arguments.as_ref().map(Value::to_string);
        let opaque = arguments.is_none();
        let made = ToolCall {
            id: format!("call_{number}"),
            name: call.tool.into(),
            arguments: arguments.unwrap_or_default(),
        };
        let calls = vec![ProposedCall { opaque, ..made.into() }];
        let mut directives = step(Event::ToolsProposed { calls, turn: None });
        let settled = 'call: loop {
            let mut answer = None;
            for directive in core::mem::take(&mut directives).0 {
                match directive.order {
                    // A guard cannot run what says whether a call has acted.
                    DirectiveKind::Work(Work::RunTool(run)) if run.tool != call.tool => {
                        let failure = Failure::of(ErrorClass::ToolUnavailable, "it cannot run");
                        let effect = EffectState::NotStarted;
                        let outcome = ToolOutcome::Failed { failure, effect };
                        answer = Some(run.finished_with(outcome, RunFacts::default()));
                    }
                    DirectiveKind::Work(Work::RunTool(run)) => {
                        attempts.push(now.get().0);
                        answer = Some(
                            run.finished_with(outcome(ends.next().copied().flatten()), RunFacts::default()),
                        );
                    }
                    DirectiveKind::Work(Work::Wait(wait)) => {
                        now.set(woken(now.get().saturating_add(wait.delay)));
                        answer = Some(wait.fired());
                    }
                    DirectiveKind::Work(Work::Ask(ask)) => answer = Some(ask.answered(ApprovalAnswer::None)),
                    DirectiveKind::Work(Work::Consult(consult)) => {
                        answer = Some(consult.decided(PlannerDecision::TellModel));
                    }
                    DirectiveKind::Note(Note::Append { message: Message::Tool { text: told, .. } }) => {
                        text = told;
                    }
                    DirectiveKind::Note(Note::Refused { error_type, .. }) => refused = Some(error_type),
                    DirectiveKind::Note(Note::Exhausted { exhausted: end, .. }) => exhausted = Some(end),
                    DirectiveKind::Note(Note::ToolEnded { error_type: None, .. }) => well = true,
                    DirectiveKind::Note(Note::Settled(settled)) => break 'call settled,
                    DirectiveKind::Note(_) | DirectiveKind::Work(_) => {}
                }
            }
            directives = step(answer.expect("there is work, or an end"));
        };
        let (delay, last_turn) = (settled.delay.unwrap_or_default(), settled.final_turn.is_some());
        let came = match (well, exhausted) {
            (true, _) => Came::Well,
            (false, Some(end)) => {
                let delays = end.attempts.iter().map(|attempt| attempt.delay).collect();
                Came::Exhausted { reason: end.reason, delays, text }
            }
            (false, None) => Came::Refused { class: refused.unwrap(), text, delay, last_turn },
        };
        seen.push(Seen { attempts, came });
    }
    from_the_beginning(seen)
}

/// The calls through a guard, one after the other, in the time that tokio holds still.
fn by_guard(policy: &Policy, calls: &[Call], made: &Made) -> Vec<Seen> {
    paused(async {
        let tools = tools(policy, made);
        let (start, mut seen) = (tokio::time::Instant::now(), Vec::new());
        for call in calls {
            tokio::time::sleep(Duration::from_secs(call.after)).await;
            seen.push(one(&tools, call, made, start).await);
        }
        from_the_beginning(seen)
    })
}

/// The calls through a guard, each so long after the first.
fn side_by_side(policy: &Policy, calls: &[Call], made: &Made) -> Vec<Seen> {
    paused(async {
        let (tools, start) = (&tools(policy, made), tokio::time::Instant::now());
        let calls = calls.iter().enumerate().map(async |(number, call)| {
            // No two begin at once: their order would be that of the timers.
            tokio::time::sleep(Duration::from_millis(call.after * 300 + number as u64)).await;
            one(tools, call, made, start).await
        });
        futures_util::future::join_all(calls).await
    })
}

pub(crate) fn paused<T>(run: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().start_paused(true).build().unwrap().block_on(run)
}

fn tools(policy: &Policy, made: &Made) -> [ToolGuard; 2] {
    let config = GuardConfig::new(policy.clone()).run("r").seed(7);
    let guard = Guard::new(if made.recorded { config.record(NoopObserver) } else { config });
    ["a", "b"].map(|name| guard.tool(name))
}

/// What is seen of one call through a guard.
async fn one(tools: &[ToolGuard; 2], call: &Call, made: &Made, start: tokio::time::Instant) -> Seen {
    let now = || u64::try_from(start.elapsed().as_nanos()).unwrap();
    let (ends, attempts) = (RefCell::new(call.ends.iter()), RefCell::new(Vec::new()));
    let run = || {
        attempts.borrow_mut().push(now());
        let end = ends.borrow_mut().next().copied().flatten();
        let takes = (made.takes > 0).then(|| tokio::time::sleep(Duration::from_millis(made.takes * 100)));
        async move {
            if let Some(takes) = takes {
                takes.await;
            }
            match end {
                None => Ok(()),
                Some((class, effect)) => {
                    Err(ToolError::new(class, format!("it says {class}")).effect(effect))
                }
            }
        }
    };
    let tool = if call.tool == "a" { &tools[0] } else { &tools[1] };
    let came = match &call.arguments {
        Some(arguments) => tool.call(arguments, |_, _| run()).await,
        None => tool.call((), |(), _| run()).await,
    };
    let came = match came {
        Ok(()) => Came::Well,
        Err(CallError::Refused(refusal)) => Came::Refused {
            class: refusal.class,
            text: refusal.message,
            delay: refusal.delay.into(),
            last_turn: refusal.final_turn,
        },
        Err(CallError::Exhausted(end)) => Came::Exhausted {
            reason: end.exhausted.reason,
            delays: end.exhausted.attempts.iter().map(|attempt| attempt.delay).collect(),
            text: end.message,
        },
        Err(CallError::Run(error)) => panic!("{error}"),
    };
    Seen { attempts: attempts.into_inner(), came }
}

/// With times that count from the first attempt.
fn from_the_beginning(mut seen: Vec<Seen>) -> Vec<Seen> {
    let first = seen.iter().find_map(|seen| seen.attempts.first().copied()).unwrap_or_default();
    for seen in &mut seen {
        seen.attempts.iter_mut().for_each(|at| *at -= first);
    }
    seen
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let classes = [
        ErrorClass::NetworkError,
        ErrorClass::RateLimit,
        ErrorClass::ExecutionError,
        ErrorClass::InvalidArgs,
        ErrorClass::Timeout,
        ErrorClass::PermissionDenied,
    ];
    let effects = [EffectState::NotStarted, EffectState::Started, EffectState::Unknown];
    let end = (prop::sample::select(classes.to_vec()), prop::sample::select(effects.to_vec()));
    let ends = prop::collection::vec(prop::option::weighted(0.7, end), 0..5);
    let arguments = prop::option::weighted(0.4, (0_u32..4).prop_map(|n| json!({ "n": n })));
    let tool = prop::sample::select(vec!["a", "a", "a", "b"]);
    let call = (tool, arguments, ends, 0_u64..4);
    let call = call.prop_map(|(tool, arguments, ends, after)| Call { tool, arguments, ends, after });
    prop::collection::vec(call, 1..8)
}

/// Some of all rules, in any order; one in two begins with those that leave calls to the guard itself.
fn some_of(
    all: &'static [&'static str],
    plain: &'static [&'static str],
) -> impl Strategy<Value = Vec<&'static str>> {
    let some = prop::sample::subsequence(all, 0..=4).prop_shuffle();
    (any::<bool>(), some).prop_map(|(is_plain, mut some)| {
        some.splice(0..0, plain.iter().copied().filter(|_| is_plain));
        some
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 250, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_guard_decides_as_step_does(
        rules in some_of(RULES, &["emit_feedback: false"]),
        tools in some_of(TOOLS, &["effect: read_only", "breaker: {failures: 3, open_for: 3s}"]),
        rest in prop::option::weighted(0.3, prop::sample::select(REST.to_vec())),
        calls in calls(),
    ) {
        let policy = policy(&rules, &tools, rest);
        let expected = by_step(&policy, &calls);
        for recorded in [false, true] {
            let seen = by_guard(&policy, &calls, &Made { takes: 0, recorded });
            prop_assert_eq!(&seen, &expected, "recorded: {}", recorded);
        }
    }
    /// Nor does it matter to calls that are made side by side whether the guard makes them by itself or proposes each.
    #[test]
    fn a_guard_decides_about_calls_side_by_side_as_if_each_were_proposed(
        rules in some_of(RULES, &["emit_feedback: false"]),
        tools in some_of(TOOLS, &["effect: read_only", "breaker: {failures: 3, open_for: 3s}"]),
        calls in calls(), takes in 1_u64..12,
    ) {
        let policy = policy(&rules, &tools, None);
        let by = |recorded| side_by_side(&policy, &calls, &Made { takes, recorded });
        prop_assert_eq!(by(false), by(true));
    }
}
