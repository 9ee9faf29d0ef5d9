//! Models, tools and a planner that do their worst, in a time of their own, under policies made at random.

use std::collections::BTreeMap;

use serde_json::json;
use unfazed::engine::{
    ApprovalAnswer, AwaitedStep, CallModel, DirectiveKind, Directives, DriveMode, EffectState, Envelope,
    Event, Failure, Interpreter, ModelReply, Note, PlannerDecision, RunStarted, RunTool, State,
    ToolCatalogue, ToolFacts, ToolOutcome, ToolSpec, TurnMeasure, WaitHint, Work,
};
use unfazed::policy::{Effect, ErrorClass, Policy};
use unfazed::session::{ContextReduction, HistoryRepair, HistorySplice, ToolCall};
use unfazed::time::{Instant, Nanos};

use crate::streams::cost::Cost;
use crate::streams::meter::{Meter, is_check};
use crate::streams::tape::Tape;

/// A run that is longer than this has met an unbounded policy, which is nothing to hold a bound against.
const STEPS: usize = 3_000;

/// A policy whose numbers are chosen by the tape.
pub(crate) fn policy(t: &mut Tape) -> String {
    let mut text = vec![format!("version: 1\nretry: {{{}}}\n", retry(t, true))];
    let breaker = t.of(&["never", "1", "2", "3", "9"]);
    text.push(format!(
        "tools:\n  '*': {{breaker: {{failures: {breaker}, open_for: 1s}}, retry: {{{}}}}}\n",
        retry(t, false)
    ));
    text.push(format!(
        "  alpha:\n    effect: {}\n    on_uncertain_effect: {}\n    retry: {{{}}}\n",
        t.of(&["idempotent", "unknown"]),
        t.of(&[
            "{kind: verify, tool: witness, arguments: {n: args.n}, acted: result.acted}",
            "{kind: tell}",
            "{kind: ask}",
        ]),
        retry(t, false)
    ));
    let calls: Vec<_> = ["args.n > 5", "args.n > 1"].iter().take(t.below(3)).collect();
    let calls = calls.into_iter().map(|when| format!("{{when: {when}, retry: {{{}}}}}", retry(t, false)));
    text.push(format!("    calls: [{}]\n", calls.collect::<Vec<_>>().join(", ")));
    let exhausted = ["fail", "final_turn", "tell_model", "ask_planner"];
    text.push("models:\n".to_owned());
    for model in ["main", "spare"] {
        text.push(format!(
            "  {model}: {{on_exhausted: {}, cooldown: {}, retry: {{{}}}}}\n",
            t.of(&exhausted),
            t.of(&["0s", "1s", "1m", "unlimited"]),
            retry(t, false)
        ));
    }
    text.push(format!(
        "turn: {{calls: {{max: {}}}, max_turns: {}, text_only: {}, final_turn_after_rejection: {}, targets: {{fallback: {}, wait: {}}}}}\n",
        t.of(&["unlimited", "1", "2", "4"]),
        t.below(4) + 1,
        t.of(&["accept", "reject"]),
        t.of(&["true", "false"]),
        t.of(&["exhausted", "attempt", "skip", "rotate"]),
        t.of(&["target", "round", "turn"]),
    ));
    if t.once_in(3) {
        let budgets = [
            "model_calls: 1",
            "model_calls: 2",
            "model_calls: 4",
            "tool_calls: 0",
            "tool_calls: 2",
            "time: 3s",
            "time: 30s",
            "tokens: 9000",
        ];
        text.push(format!("limits: {{run: {{{}}}}}\n", t.of(&budgets)));
    }
    if t.once_in(2) {
        text.push(format!(
            "output: {{schema: {{type: object, required: [total]}}, on_exhausted: {}, retry: {{{}}}}}\n",
            t.of(&exhausted),
            retry(t, false)
        ));
    }
    text.concat()
}

/// The conversation, as it is measured.
const TOKENS: u64 = 1_000;

fn without_the_first() -> HistorySplice {
    HistorySplice { at: 0, remove: 1, insert: Vec::new() }
}

fn retry(t: &mut Tape, all: bool) -> String {
    let mut fields = Vec::new();
    if t.once_in(2) {
        fields.push(format!("max_attempts: {}", attempts(t)));
    }
    if t.once_in(2) {
        fields.push(format!("backoff: {}", backoff(t)));
    }
    if all {
        let classes = "[timeout, overloaded, invalid_args, malformed_tool_call, invalid_output, text_only, empty_response]";
        fields.push(format!("retry_on: {classes}, server_delay: {}", server_delay(t)));
    }
    for bound in ["deadline", "total_delay"] {
        if t.once_in(4) {
            fields.push(format!("{bound}: {}", t.of(&["500ms", "3s", "10s", "20s"])));
        }
    }
    if t.once_in(3) {
        let class = t.of(&["timeout", "invalid_args", "malformed_tool_call", "overloaded", "invalid_output"]);
        fields.push(format!(
            "by_class: {{{class}: {{max_attempts: {}, backoff: {}}}}}",
            attempts(t),
            backoff(t)
        ));
    }
    fields.join(", ")
}

fn attempts(t: &mut Tape) -> &'static str {
    t.of(&["1", "2", "3", "4", "7", "unlimited"])
}

fn backoff(t: &mut Tape) -> String {
    let jitter = t.of(&["none", "none", "full", "equal", "plus_minus, spread: 0.5", "decorrelated"]);
    let shape = t.of(&[
        "kind: constant, delay: 2s",
        "kind: constant, delay: 0s",
        "kind: exponential, base: 500ms, factor: 2, cap: 6s",
        "kind: linear, base: 1s, step: 2s",
        "kind: fibonacci, base: 1s",
        "kind: schedule, delays: [5s, 1s]",
        "kind: schedule, delays: [1s, 7s, 0s]",
    ]);
    format!("{{{shape}, jitter: {jitter}}}")
}

fn server_delay(t: &mut Tape) -> &'static str {
    t.of(&[
        "{mode: ignore}",
        "{mode: floor, max: 4s, above_max: clamp}",
        "{mode: replace, min: 1s, max: 4s, above_max: next_target}",
        "{mode: clamp, margin: 1s}",
        "{mode: floor}",
    ])
}

/// A run of that policy: what it cost, and how many events it had; `None`: it does not end.
pub(crate) fn play(policy: &Policy, targets: &[String], t: &mut Tape) -> Option<(Cost, usize)> {
    play_under(policy, targets, t, |_| None)
}

/// As [`play`], where the policy may be replaced after each event.
pub(crate) fn play_under(
    policy: &Policy,
    targets: &[String],
    t: &mut Tape,
    next: impl Fn(&mut Tape) -> Option<Policy>,
) -> Option<(Cost, usize)> {
    let interpreter = Interpreter::new(policy.clone(), ToolCatalogue::new(tools()).unwrap());
    let mut host =
        Host { interpreter, state: State::new(), now: Instant(0), open: Vec::new(), ..Host::default() };
    let started = RunStarted {
        run: "r".into(),
        policy: String::new(),
        seed: t.below(1 << 16) as u64,
        drive: DriveMode::Turns,
        system: String::new(),
        history: Vec::new(),
        task: String::new(),
        targets: targets.to_vec(),
        windows: BTreeMap::new(),

        overheads: BTreeMap::new(),
        prices: BTreeMap::new(),
        tools: tools().iter().map(ToolFacts::from).collect(),
        deadline: None,
    };
    host.tell(Event::RunStarted(started));
    for _ in 0..STEPS {
        let Some(work) = host.open.pop() else { break };
        let event = host.answer(work, t);
        host.tell(event);
        if let Some(policy) = next(t).filter(|_| !host.finished) {
            let digest = policy.digest().to_owned();
            host.interpreter = Interpreter::new(policy, host.interpreter.tools().clone());
            host.tell(Event::PolicyChanged { policy: digest });
        }
    }
    assert!(host.finished || !host.open.is_empty(), "the run is not over and nothing is asked for");
    let events = usize::try_from(host.state.seq).unwrap();
    host.finished.then_some((host.meter.cost, events))
}

fn tools() -> Vec<ToolSpec> {
    let tool = |name: &str| ToolSpec {
        name: name.into(),
        description: String::new(),
        parameters: json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}),
        effect: None,
    };
    vec![tool("alpha"), tool("beta"), ToolSpec { effect: Some(Effect::ReadOnly), ..tool("witness") }]
}

struct Host {
    interpreter: Interpreter,
    state: State,
    now: Instant,
    open: Vec<Work>,
    finished: bool,
    meter: Meter,
    ids: u32,
}

impl Default for Host {
    fn default() -> Self {
        Self {
            interpreter: Interpreter::new(Policy::builtin(), ToolCatalogue::default()),
            state: State::new(),
            now: Instant(0),
            open: Vec::new(),
            finished: false,
            meter: Meter::default(),
            ids: 0,
        }
    }
}

impl Host {
    fn tell(&mut self, event: Event) {
        let envelope = Envelope { seq: self.state.seq + 1, now: self.now, event };
        let Directives(list) = self.interpreter.step(&mut self.state, envelope);
        for directive in list {
            match directive.order {
                DirectiveKind::Note(Note::Finish { .. }) => self.finished = true,
                DirectiveKind::Note(Note::Dropped { work }) => self.open.retain(|open| open.id() != work),
                DirectiveKind::Note(_) => {}
                DirectiveKind::Work(work) => {
                    self.count(&work);
                    self.open.push(work);
                }
            }
        }
        if self.finished {
            self.open.clear();
        }
    }

    fn count(&mut self, work: &Work) {
        match work {
            Work::PrepareTurn(_) => self.meter.turn(),
            Work::CallModel(call) => self.meter.model(call),
            Work::Summarize(_) => self.meter.summary(),
            Work::RunTool(run) => self.meter.run(run),
            Work::Wait(wait) => match self.state.awaited(wait).expect("a wait for nothing") {
                AwaitedStep::Call(call) => {
                    self.meter.wait_of_call(call.id, wait);
                }
                AwaitedStep::Model(_) | AwaitedStep::Turn => self.meter.wait(wait),
            },
            Work::RepairHistory(_) | Work::ReduceContext(_) | Work::Ask(_) | Work::Consult(_) => {}
        }
    }

    fn answer(&mut self, work: Work, t: &mut Tape) -> Event {
        match work {
            Work::PrepareTurn(turn) => {
                turn.prepared(TurnMeasure { messages: 9, message_tokens: TOKENS, ..TurnMeasure::default() })
            }
            // A repair and a reduction change something, so that the call is made once more.
            Work::RepairHistory(work) => work.repaired(HistoryRepair {
                splices: vec![without_the_first()],
                dropped: 1,
                ..HistoryRepair::default()
            }),
            Work::ReduceContext(work) => work.reduced(ContextReduction {
                splices: vec![without_the_first()],
                dropped: 1,
                messages: 8,
                message_tokens: TOKENS / 2,
                ..ContextReduction::default()
            }),
            Work::Summarize(work) => work.failed(Failure::of(ErrorClass::ModelError, "no")),
            Work::CallModel(call) => self.answer_model(call, t),
            Work::RunTool(run) => self.answer_tool(run, t),
            Work::Wait(wait) => {
                self.now = self.now.max(wait.until);
                wait.fired()
            }
            Work::Ask(ask) => {
                ask.answered(t.of(&[ApprovalAnswer::Approve, ApprovalAnswer::Refuse, ApprovalAnswer::None]))
            }
            Work::Consult(consult) => consult.decided(t.of(&[
                PlannerDecision::Fail,
                PlannerDecision::FinalTurn,
                PlannerDecision::TellModel,
            ])),
        }
    }

    fn answer_model(&mut self, call: CallModel, t: &mut Tape) -> Event {
        if t.below(3) == 1 {
            let classes = [
                ErrorClass::Overloaded,
                ErrorClass::Timeout,
                ErrorClass::Overloaded,
                ErrorClass::ContextOverflow,
                ErrorClass::OrphanToolCall,
            ];
            return call.failed(self.failure(&classes, t));
        }
        let mut reply = ModelReply::default();
        match t.below(6) {
            0 if t.is_over() => reply.text = "done".into(),
            0 | 5 => reply.text = t.of(&["done", ""]).into(),
            _ => reply.calls = (0..=t.below(4)).map(|_| self.proposal(t).into()).collect(),
        }
        call.responded(reply)
    }

    fn proposal(&mut self, t: &mut Tape) -> ToolCall {
        self.ids += 1;
        let (name, arguments) = t.of(&[
            ("alpha", r#"{"n": 9}"#),
            ("alpha", r#"{"n": "x"}"#),
            ("beta", r#"{"n": 1}"#),
            ("beta", "{}"),
            ("beta", r#"{"n": 1 2}"#),
            ("alpha", r#"{"n": 1}"#),
            ("final_report", "{}"),
            ("final_report", "{}"),
            ("final_report", r#"{"total": 1}"#),
        ]);
        ToolCall { id: format!("c{}", self.ids), name: name.into(), arguments: arguments.into() }
    }

    fn answer_tool(&mut self, run: RunTool, t: &mut Tape) -> Event {
        if is_check(&run) {
            return run.finished(ToolOutcome::Ok { data: json!({"acted": t.once_in(20)}) });
        }
        if t.below(5) == 0 {
            return run.finished(ToolOutcome::Ok { data: json!(1) });
        }
        let classes =
            [ErrorClass::Timeout, ErrorClass::Overloaded, ErrorClass::Timeout, ErrorClass::InvalidArgs];
        let failure = self.failure(&classes, t);
        let effect = t.of(&[EffectState::NotStarted, EffectState::Unknown]);
        run.finished(ToolOutcome::Failed { failure, effect })
    }

    fn failure(&mut self, classes: &[ErrorClass], t: &mut Tape) -> Failure {
        // Most failures take no time: that leaves the most room for others.
        self.now = self.now.saturating_add(Nanos(t.of(&[0, 0, 0, 0, 400_000_000])));
        let mut failure = Failure::of(t.of(classes), "it broke");
        if t.once_in(4) {
            self.meter.cost.asked = true;
            failure.retry_after = WaitHint::Wait(Nanos::from_secs(t.of(&[0, 1, 4, 60])));
        }
        failure
    }
}
