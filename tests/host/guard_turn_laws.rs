//! A guard decides about turns of models as `step` does: the same turns, of which each attempt ends the same way, through the
//! interpreter alone, a guard, and a guard that is recorded.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::time::Duration;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::json;
use unfazed::engine::{
    DirectiveKind, Directives, DriveMode, Envelope, Event, Failure, FinishReason, Interpreter, ModelReply,
    Note, PlannerDecision, ProposalResult, RunStarted, State, ToolCatalogue, ToolChoice, ToolFacts, ToolSpec,
    TurnProposal, WaitHint, Work,
};
use unfazed::host::guard::{CallError, ModelCall, TurnGuard};
use unfazed::host::{Guard, GuardConfig, NoopObserver};
use unfazed::policy::{ErrorClass, Policy};
use unfazed::session::{Message, StopReason, ToolCall};
use unfazed::time::{Instant, Nanos};

use crate::guard_laws::{first_of_each_key, paused, woken};

/// The models, in order of preference.
const TARGETS: [&str; 2] = ["main", "spare"];

/// One turn: whether the host keeps its replies to itself, how its attempts end, and how long after the turn before it begins.
#[derive(Clone, Debug)]
struct Turn {
    opaque: bool,
    ends: Vec<End>,
    after: u64,
}

/// How an attempt ends; there is a plain answer where no end is left.
#[derive(Clone, Debug)]
enum End {
    Reply(&'static str),
    Failed { class: ErrorClass, wait: Option<u64>, received: u64 },
}

/// What is seen of a turn.
#[derive(Debug, PartialEq)]
struct Seen {
    attempts: Vec<Attempt>,
    came: Came,
    /// What the model is to read with the next request.
    guidance: Vec<String>,
}

#[derive(Debug, PartialEq)]
struct Attempt {
    /// When it began, in nanoseconds since the first of all.
    at: u64,
    target: String,
    number: (u32, u32, Option<u32>),
    tools: Vec<String>,
    tool_choice: ToolChoice,
    max_output: Option<u64>,
    guidance: Vec<String>,
}

#[derive(Debug, PartialEq)]
enum Came {
    Reply(String, Vec<ToolCall>),
    Exhausted { action: String, reason: StopReason, delays: Vec<(ErrorClass, Nanos)> },
    Refused { class: ErrorClass, delay: Nanos, last_turn: bool },
}

impl Seen {
    /// Whether a call of it could bring nothing but the end.
    fn is_final(&self) -> bool {
        let last = |attempt: &Attempt| !attempt.tools.iter().any(|tool| tool == "a");
        self.attempts.iter().any(last)
    }

    /// What has happened in it.
    fn events(&self) -> Vec<&'static str> {
        let end = match &self.came {
            Came::Reply(..) => "reply",
            Came::Exhausted { .. } => "exhausted",
            Came::Refused { .. } => "refused",
        };
        let (first, last) = (self.attempts.first(), self.attempts.last());
        let several = first.zip(last).filter(|_| self.attempts.len() > 1);
        let is_corrected = |(first, _): &(&Attempt, &Attempt)| {
            self.attempts.iter().any(|attempt| attempt.guidance.len() > first.guidance.len())
        };
        let seen = [
            (true, end),
            (several.is_some_and(|(first, last)| last.at > first.at), "wait"),
            (several.is_some_and(|(first, last)| last.target != first.target), "fallback"),
            (several.as_ref().is_some_and(is_corrected), "correction"),
            (self.is_final(), "final turn"),
            (self.is_final() && several.is_some(), "attempts in the final turn"),
        ];
        seen.into_iter().filter(|(seen, _)| *seen).map(|(_, event)| event).collect()
    }
}

const REPLIES: &[&str] =
    &["text", "empty", "reasoning", "cut", "call", "unreadable call", "wrong report", "report"];

const RETRY: &[&str] = &[
    "backoff: {kind: constant, delay: 0s}",
    "backoff: {kind: exponential, base: 1s, factor: 2, jitter: full}",
    "correction_backoff: {kind: constant, delay: 3s}",
    "emit_feedback: false",
    "max_attempts: 2",
    "max_attempts: 3",
    "by_class: {rate_limit: {max_attempts: 4, backoff: {kind: constant, delay: 2s, jitter: none}}}",
    "server_delay: {mode: floor, max: 5s, above_max: next_target}",
    "server_delay: {mode: ignore}",
    "budget: {kind: tokens, capacity: 3, pool: all}",
    "deadline: 20s",
    "total_delay: 8s",
    "attempt_timeout: 1s",
    "shadow: true",
    "retry_on: [rate_limit, overloaded, invalid_output, text_only, empty_response]",
];

const MODEL: &[&str] = &[
    "no_fallback_on: [overloaded]",
    "no_fallback_on: [not_found, rate_limit]",
    "on_exhausted: final_turn",
    "on_exhausted: tell_model",
    "cooldown: 5s",
    "cooldown: 0s",
    "provider: both",
];

const TURN: &[&str] = &[
    "targets: {fallback: exhausted}",
    "targets: {fallback: attempt, wait: round}",
    "targets: {fallback: attempt, wait: turn}",
    "targets: {fallback: skip}",
    "targets: {fallback: rotate, attempts: 2, fallback_after: 0s}",
    "max_turns: 2",
    "max_turns: 3",
    "total_delay: 10s",
    "run_delay: 15s",
    "guidance: {keep: false}",
    "text_only: reject",
    "malformed_calls: drop",
    "after_partial: fail",
    "repair_json: false",
];

const REST: &[&str] = &[
    "output: {schema: {type: object, required: [price]}}",
    "output: {schema: {type: object, required: [price]}, retry: {max_attempts: 2}}",
    "limits: {run: {model_calls: 3}}",
    "session: {slices: {n: {initial: 0}}, reducers: {count: {on: model_failed, slice: n, do: {kind: increment, value: '1'}, check: slice < 3}}}",
    "session: {slices: {n: {initial: 0}}, reducers: {count: {on: model_responded, slice: n, do: {kind: increment, value: '1'}, check: slice < 3}}}",
];

fn policy(retry: &[&str], model: &[&str], turn: &[&str], rest: Option<&str>) -> Policy {
    let [retry, model, turn] = [retry, model, turn].map(first_of_each_key);
    let comma = if model.is_empty() { "" } else { ", " };
    let text = format!(
        "version: 1\nmodels: {{main: {{retry: {{{retry}}}{comma}{model}}}}}\nturn: {{{turn}}}\n{}\n",
        rest.unwrap_or_default()
    );
    Policy::from_yaml("policy.yaml", &text).unwrap_or_else(|report| panic!("{report}\n{text}"))
}

/// What the model says or why it says nothing.
fn answer(end: Option<&End>) -> Result<ModelReply, Failure> {
    let named = match end {
        None => "text",
        Some(End::Reply(named)) => *named,
        Some(End::Failed { class, wait, received }) => {
            let retry_after = wait.map_or(WaitHint::None, |secs| WaitHint::Wait(Nanos::from_secs(secs)));
            let received = *received;
            return Err(Failure { retry_after, received, ..Failure::of(*class, format!("it says {class}")) });
        }
    };
    let reply = ModelReply { finish: FinishReason::Stop, ..ModelReply::default() };
    let call = |name: &str, arguments: &str| {
        let call = ToolCall { id: "c".into(), name: name.into(), arguments: arguments.into() };
        ModelReply { calls: vec![call.into()], finish: FinishReason::ToolCalls, ..ModelReply::default() }
    };
    Ok(match named {
        "empty" => reply,
        "reasoning" => {
            let extra = json!({"reasoning": "hm"}).as_object().cloned().unwrap_or_default();
            ModelReply { extra, ..reply }
        }
        "cut" => ModelReply { text: "half an ans".into(), finish: FinishReason::Length, ..reply },
        "call" => call("a", r#"{"n": 1}"#),
        "unreadable call" => call("a", r#"{"n": [}"#),
        "wrong report" => call("final_report", r#"{"cost": 1}"#),
        "report" => call("final_report", r#"{"price": 1}"#),
        _ => ModelReply { text: "done".into(), ..reply },
    })
}

fn tools() -> ToolCatalogue {
    let (name, parameters) = ("a".to_owned(), json!({"type": "object"}));
    ToolCatalogue::new([ToolSpec { name, description: String::new(), parameters, effect: None }]).unwrap()
}

/// The interpreter alone.
struct Alone {
    interpreter: Interpreter,
    state: State,
    now: Cell<Instant>,
}

impl Alone {
    fn new(policy: &Policy) -> Self {
        let interpreter = Interpreter::new(policy.clone(), tools());
        let mut alone = Self { interpreter, state: State::new(), now: Cell::new(Instant(0)) };
        let started = RunStarted {
            run: "r".into(),
            seed: 7,
            drive: DriveMode::Calls,
            tools: tools().iter().map(ToolFacts::from).collect(),
            targets: TARGETS.map(str::to_owned).to_vec(),
            ..RunStarted::default()
        };
        drop(alone.step(Event::RunStarted(started)));
        alone
    }

    fn step(&mut self, event: Event) -> Directives {
        let envelope = Envelope { seq: self.state.seq + 1, now: self.now.get(), event };
        self.interpreter.step(&mut self.state, envelope)
    }

    fn turn(&mut self, turn: &Turn) -> Seen {
        let (mut ends, mut attempts) = (turn.ends.iter(), Vec::new());
        let (mut reads, mut refused, mut exhausted) = (Vec::new(), None, None);
        let (mut given, mut taken) = (None, None);
        let mut directives = self.step(Event::TurnProposed(TurnProposal::default()));
        let settled = 'turn: loop {
            let mut answered = None;
            for directive in core::mem::take(&mut directives).0 {
                match directive.order {
                    DirectiveKind::Work(Work::CallModel(call)) => {
                        attempts.push(Attempt {
                            at: self.now.get().0,
                            target: call.target.clone(),
                            number: (call.turn, call.attempt, call.max_attempts),
                            tools: call.tools.clone(),
                            tool_choice: call.tool_choice.clone(),
                            max_output: call.max_output,
                            guidance: [&*reads, &*call.guidance].concat(),
                        });
                        answered = Some(match answer(ends.next()) {
                            Ok(reply) => {
                                given = Some(reply.clone());
                                let opaque = ModelReply { opaque: true, ..ModelReply::default() };
                                call.responded(if turn.opaque { opaque } else { reply })
                            }
                            Err(failure) => call.failed(failure),
                        });
                    }
                    DirectiveKind::Work(Work::Wait(wait)) => {
                        self.now.set(woken(self.now.get().saturating_add(wait.delay)));
                        answered = Some(wait.fired());
                    }
                    DirectiveKind::Work(Work::Consult(consult)) => {
                        answered = Some(consult.decided(PlannerDecision::TellModel));
                    }
                    DirectiveKind::Note(Note::Append { message: Message::User { text, .. } }) => {
                        reads.push(text);
                    }
                    DirectiveKind::Note(Note::Append { message: Message::Assistant { text, calls, .. } }) => {
                        taken = Some((text, calls));
                    }
                    DirectiveKind::Note(Note::Refused { error_type, .. }) => refused = Some(error_type),
                    DirectiveKind::Note(Note::Exhausted { exhausted: end, .. }) => exhausted = Some(end),
                    DirectiveKind::Note(Note::Settled(settled)) => break 'turn settled,
                    DirectiveKind::Note(_) | DirectiveKind::Work(_) => {}
                }
            }
            directives = self.step(answered.expect("there is work, or an end"));
        };
        let came = match (&settled.result, given, exhausted) {
            (ProposalResult::Reply { .. }, Some(given), _) => {
                let given = (given.text, given.calls.into_iter().map(|proposal| proposal.call).collect());
                let (text, calls) = taken.filter(|_| !turn.opaque).unwrap_or(given);
                Came::Reply(text, calls)
            }
            (_, _, Some(end)) => {
                let delays = end.attempts.iter().map(|attempt| (attempt.error_type, attempt.delay)).collect();
                Came::Exhausted { action: end.action, reason: end.reason, delays }
            }
            _ => Came::Refused {
                class: refused.unwrap_or(ErrorClass::Cancelled),
                delay: settled.delay.unwrap_or_default(),
                last_turn: settled.final_turn.is_some(),
            },
        };
        Seen { attempts, came, guidance: settled.guidance }
    }
}

/// The turns through the interpreter alone, until the run has had its final turn or is over: a guard begins the next one then.
fn by_step(policy: &Policy, turns: &[Turn]) -> Vec<Seen> {
    let (mut alone, mut seen) = (Alone::new(policy), Vec::new());
    for turn in turns {
        alone.now.set(alone.now.get().saturating_add(Nanos::from_secs(turn.after)));
        seen.push(alone.turn(turn));
        if alone.state.is_over() || seen.last().is_some_and(Seen::is_final) {
            break;
        }
    }
    from_the_beginning(seen)
}

/// The turns through a guard, one after the other, in the time that tokio holds still.
fn by_guard(policy: &Policy, turns: &[Turn], recorded: bool) -> Vec<Seen> {
    paused(async {
        let config = GuardConfig::new(policy.clone()).run("r").seed(7).tools(tools()).targets(TARGETS);
        let guard = Guard::new(if recorded { config.record(NoopObserver) } else { config });
        let (start, mut seen) = (tokio::time::Instant::now(), Vec::new());
        for turn in turns {
            tokio::time::sleep(Duration::from_secs(turn.after)).await;
            let (attempts, came) = one(&guard.turn(()), turn, start).await;
            seen.push(Seen { attempts, came, guidance: guard.take_guidance() });
        }
        from_the_beginning(seen)
    })
}

/// What is seen of one turn through a guard.
async fn one(guarded: &TurnGuard<()>, turn: &Turn, start: tokio::time::Instant) -> (Vec<Attempt>, Came) {
    let (ends, attempts) = (RefCell::new(turn.ends.iter()), RefCell::new(Vec::new()));
    let run = |call: ModelCall, ()| {
        attempts.borrow_mut().push(Attempt {
            at: u64::try_from(start.elapsed().as_nanos()).unwrap(),
            number: (call.turn, call.attempt, call.max_attempts),
            target: call.target,
            tools: call.tools,
            tool_choice: call.tool_choice,
            max_output: call.max_output,
            guidance: call.guidance,
        });
        std::future::ready(answer(ends.borrow_mut().next()))
    };
    let came = if turn.opaque { guarded.call_as(|_| None, run).await } else { guarded.reply(run).await };
    let came = match came {
        Ok(reply) => Came::Reply(reply.text, reply.calls.into_iter().map(|proposal| proposal.call).collect()),
        Err(CallError::Exhausted(end)) => {
            let end = end.exhausted;
            let delays = end.attempts.iter().map(|attempt| (attempt.error_type, attempt.delay)).collect();
            Came::Exhausted { action: end.action, reason: end.reason, delays }
        }
        Err(CallError::Refused(refusal)) => {
            Came::Refused { class: refusal.class, delay: refusal.delay.into(), last_turn: refusal.final_turn }
        }
        Err(CallError::Run(error)) => panic!("{error}"),
    };
    (attempts.into_inner(), came)
}

/// With times that count from the first attempt.
fn from_the_beginning(mut seen: Vec<Seen>) -> Vec<Seen> {
    let first = seen.iter().find_map(|seen| Some(seen.attempts.first()?.at)).unwrap_or_default();
    for attempt in seen.iter_mut().flat_map(|seen| &mut seen.attempts) {
        attempt.at -= first;
    }
    seen
}

fn turns() -> impl Strategy<Value = Vec<Turn>> {
    let classes = [
        ErrorClass::RateLimit,
        ErrorClass::Overloaded,
        ErrorClass::Timeout,
        ErrorClass::InvalidOutput,
        ErrorClass::NotFound,
        ErrorClass::AuthError,
    ];
    let wait = prop::option::weighted(0.2, 1_u64..12);
    let received = prop_oneof![4 => Just(0_u64), 1 => 1_u64..40];
    let failed = (prop::sample::select(classes.to_vec()), wait, received)
        .prop_map(|(class, wait, received)| End::Failed { class, wait, received });
    let reply = prop::sample::select(REPLIES.to_vec()).prop_map(End::Reply);
    let ends = prop::collection::vec(prop_oneof![3 => failed, 2 => reply], 0..7);
    let turn = (prop::bool::weighted(0.3), ends, 0_u64..8);
    let turn = turn.prop_map(|(opaque, ends, after)| Turn { opaque, ends, after });
    prop::collection::vec(turn, 1..5)
}

fn some_of(all: &'static [&'static str]) -> impl Strategy<Value = Vec<&'static str>> {
    prop::sample::subsequence(all, 0..=4).prop_shuffle()
}

#[test]
fn everything_happens_in_some_turn() {
    let mut runner = TestRunner::deterministic();
    let rest = prop::option::weighted(0.4, prop::sample::select(REST.to_vec()));
    let cases = (some_of(RETRY), some_of(MODEL), some_of(TURN), rest, turns());
    let mut happened = BTreeSet::new();
    for _ in 0..300 {
        let (retry, model, turn, rest, turns) = cases.new_tree(&mut runner).unwrap().current();
        let seen = by_step(&policy(&retry, &model, &turn, rest), &turns);
        happened.extend(seen.iter().flat_map(Seen::events));
    }
    let all = [
        "attempts in the final turn",
        "correction",
        "exhausted",
        "fallback",
        "final turn",
        "refused",
        "reply",
        "wait",
    ];
    assert_eq!(happened.into_iter().collect::<Vec<_>>(), all);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 250, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_guard_decides_about_turns_as_step_does(
        retry in some_of(RETRY), model in some_of(MODEL), turn in some_of(TURN),
        rest in prop::option::weighted(0.4, prop::sample::select(REST.to_vec())),
        turns in turns(),
    ) {
        let policy = policy(&retry, &model, &turn, rest);
        let expected = by_step(&policy, &turns);
        for recorded in [false, true] {
            let seen = by_guard(&policy, &turns[..expected.len()], recorded);
            prop_assert_eq!(&seen, &expected, "recorded: {}", recorded);
        }
    }
}
