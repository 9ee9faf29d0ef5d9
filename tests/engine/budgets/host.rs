//! A host with a conversation of its own, whose models and tools do what the tape says.

use serde_json::json;
use unfazed::context::{ByteEstimate, TokenLedger, reduce, repair};
use unfazed::engine::{
    ApprovalAnswer, CallModel, DirectiveKind, Directives, DriveMode, EffectState, Envelope, Event, Failure,
    Interpreter, ModelReply, Note, Outcome, PlannerDecision, RunStarted, RunTool, State, SummarizeMessages,
    ToolCatalogue, ToolFacts, ToolOutcome, ToolSpec, Work,
};
use unfazed::policy::{ErrorClass, Policy, Price};
use unfazed::session::{Message, ToolCall, Usage};
use unfazed::time::{Instant, Nanos};

use crate::streams::tape::Tape;

/// A run that is longer than this says nothing.
const STEPS: usize = 2_000;

/// What a run came to.
pub(crate) struct Met {
    pub(crate) outcome: Outcome,
    pub(crate) state: State,
    /// The most tokens that a call reported beyond what was kept for it.
    pub(crate) beyond: u64,
    /// The same in money.
    pub(crate) beyond_picodollars: u64,
    /// By how much work ended later than it was to, in nanoseconds.
    pub(crate) late: u64,
    /// Calls of models in the final turn.
    pub(crate) final_calls: u64,
    pub(crate) calls: u64,
    pub(crate) events: usize,
}

pub(crate) struct Host {
    interpreter: Interpreter,
    state: State,
    now: Instant,
    messages: Vec<Message>,
    /// Work, and when it began.
    open: Vec<(Work, Instant)>,
    outcome: Option<Outcome>,
    last: bool,
    beyond: u64,
    beyond_picodollars: u64,
    late: u64,
    final_calls: u64,
    calls: u64,
    ids: u32,
}

impl Host {
    /// Plays a run; `None`: it has too many events.
    pub(crate) fn play(policy: &Policy, t: &mut Tape) -> Option<Met> {
        let interpreter = Interpreter::new(policy.clone(), ToolCatalogue::new([tool()]).unwrap());
        let mut host = Self {
            interpreter,
            state: State::new(),
            now: Instant(1_000),
            messages: Vec::new(),
            open: Vec::new(),
            outcome: None,
            last: false,
            beyond: 0,
            beyond_picodollars: 0,
            late: 0,
            final_calls: 0,
            calls: 0,
            ids: 0,
        };
        let targets: Vec<String> =
            ["main", "spare"].iter().take(t.below(2) + 1).map(|&name| name.into()).collect();
        let started = RunStarted {
            run: "r".into(),
            drive: DriveMode::Turns,
            task: "a long task ".repeat(t.of(&[1, 10, 200])),
            targets,
            tools: vec![ToolFacts::from(&tool())],
            ..RunStarted::default()
        };
        host.tell(Event::RunStarted(started), t);
        for _ in 0..STEPS {
            let Some((work, began)) = host.next(t) else { break };
            let event = host.answer(work, began, t);
            host.tell(event, t);
        }
        let outcome = host.outcome?;
        Some(Met {
            outcome,
            events: usize::try_from(host.state.seq).unwrap(),
            state: host.state,
            beyond: host.beyond,
            beyond_picodollars: host.beyond_picodollars,
            late: host.late,
            final_calls: host.final_calls,
            calls: host.calls,
        })
    }

    fn next(&mut self, t: &mut Tape) -> Option<(Work, Instant)> {
        let at = t.below(self.open.len());
        (!self.open.is_empty()).then(|| self.open.remove(at))
    }

    fn tell(&mut self, event: Event, t: &mut Tape) {
        if t.once_in(4) {
            // As after a restart.
            self.state = serde_json::from_slice(&self.state.to_bytes()).unwrap();
        }
        let envelope = Envelope { seq: self.state.seq + 1, now: self.now, event };
        let Directives(list) = self.interpreter.step(&mut self.state, envelope);
        for directive in list {
            match directive.order {
                DirectiveKind::Note(note) => {
                    note.apply(&mut self.messages);
                    match note {
                        Note::Finish { outcome } => self.outcome = Some(outcome),
                        Note::Dropped { work } => self.open.retain(|(open, _)| open.id() != work),
                        _ => {}
                    }
                }
                DirectiveKind::Work(work) => {
                    match &work {
                        Work::PrepareTurn(turn) => self.last = turn.last,
                        Work::CallModel(call) => {
                            self.calls += 1;
                            // The report's tool is shown in the final turn, and no other.
                            self.last |= !call.tools.iter().any(|tool| tool == "look");
                            self.final_calls += u64::from(self.last);
                        }
                        Work::Summarize(_) => self.calls += 1,
                        _ => {}
                    }
                    self.open.push((work, self.now));
                }
            }
        }
        if self.outcome.is_some() {
            self.open.clear();
        }
    }

    fn answer(&mut self, work: Work, began: Instant, t: &mut Tape) -> Event {
        match work {
            Work::PrepareTurn(turn) => turn.prepared(self.ledger().measure(0)),
            Work::RepairHistory(work) => {
                let found = repair(&self.messages, work.orphan_calls, work.malformed_calls);
                work.repaired(found)
            }
            Work::ReduceContext(work) => {
                let ledger = self.ledger();
                let policy = self.interpreter.policy();
                let reduction = reduce(policy, &work.plan, &self.messages, ledger.weights(), &ByteEstimate);
                work.reduced(reduction)
            }
            Work::Summarize(work) => self.summary(work, began, t),
            Work::CallModel(call) => self.reply(call, began, t),
            Work::RunTool(run) => self.run(run, began, t),
            Work::Wait(wait) => {
                self.now = self.now.max(wait.until);
                wait.fired()
            }
            Work::Ask(ask) => ask.answered(ApprovalAnswer::Approve),
            Work::Consult(consult) => consult.decided(PlannerDecision::TellModel),
        }
    }

    fn ledger(&self) -> TokenLedger {
        TokenLedger::of(&ByteEstimate, &self.messages)
    }

    /// Work takes some time; now and then more than it was given.
    fn takes(&mut self, timeout: Option<Nanos>, began: Instant, t: &mut Tape) {
        let wanted = Nanos::from_millis(t.of(&[0, 10, 2_000, 40_000]));
        let given = timeout.unwrap_or(Nanos::MAX);
        let mut taken = Nanos(wanted.0.min(given.0));
        if t.once_in(12) && wanted.0 > given.0 {
            self.late += wanted.0 - given.0;
            taken = wanted;
        }
        self.now = self.now.max(began.saturating_add(taken));
    }

    fn usage(&mut self, target: &str, t: &mut Tape) -> Option<Usage> {
        let kept = self.state.spending().reserved();
        let input = self.ledger().measure(0).message_tokens.min(kept.input);
        let most = kept.output;
        let output = [most, most / 2, most / 10, 1][t.below(4)].min(most);
        let mut usage = Usage { input: input.max(1), output, ..Usage::default() };
        match t.below(6) {
            0 => return None,
            1 => usage.cache_read = usage.input / 2,
            2 => usage.reasoning = usage.output / 2,
            3 if t.once_in(9) => usage.output += t.of(&[10, 3_000]),
            _ => {}
        }
        let beyond = usage.output.saturating_sub(kept.output);
        self.beyond = self.beyond.max(beyond);
        self.beyond_picodollars = self.beyond_picodollars.max(beyond.saturating_mul(dearest(target)));
        Some(usage)
    }

    fn summary(&mut self, work: SummarizeMessages, began: Instant, t: &mut Tape) -> Event {
        self.takes(work.timeout, began, t);
        let usage = self.usage(&work.target.clone(), t);
        work.responded(ModelReply { text: "in short".into(), usage, ..ModelReply::default() })
    }

    fn reply(&mut self, call: CallModel, began: Instant, t: &mut Tape) -> Event {
        self.takes(call.timeout, began, t);
        match t.below(8) {
            1 => return call.failed(Failure::of(ErrorClass::Overloaded, "busy")),
            2 => {
                let received = t.of(&[0, 40, 400]);
                return call.failed(Failure { received, ..Failure::of(ErrorClass::Timeout, "slow") });
            }
            _ => {}
        }
        let usage = self.usage(&call.target.clone(), t);
        let mut reply = ModelReply { usage, ..ModelReply::default() };
        // What is said is no more than what is reported, or than was kept for it.
        let said = usage.map_or(16, |usage| usage.output.min(400));
        let text = "word".repeat(usize::try_from(said.saturating_sub(40) / 2).unwrap());
        match t.below(12) {
            0 if t.is_over() => reply.text = "done".into(),
            0 => {
                reply.text = text;
                reply.text.push('.');
            }
            1 if t.once_in(2) => reply.calls = vec![self.call("final_report").into()],
            _ => reply.calls = (0..=t.below(3)).map(|_| self.call("look").into()).collect(),
        }
        call.responded(reply)
    }

    fn call(&mut self, name: &str) -> ToolCall {
        self.ids += 1;
        ToolCall { id: format!("c{}", self.ids), name: name.into(), arguments: "{}".into() }
    }

    fn run(&mut self, run: RunTool, began: Instant, t: &mut Tape) -> Event {
        self.takes(run.timeout, began, t);
        if t.once_in(5) {
            let failure = Failure::of(ErrorClass::Timeout, "slow");
            return run.finished(ToolOutcome::Failed { failure, effect: EffectState::Unknown });
        }
        run.finished(ToolOutcome::Ok { data: json!("a result ".repeat(t.of(&[1, 50, 900]))) })
    }
}

/// The dearest token of a model, in picodollars.
fn dearest(target: &str) -> u64 {
    let price = match target {
        "spare" => Price { output: 40_000_000, reasoning: Some(60_000_000), ..Price::default() },
        _ => Price { output: 8_000_000, ..Price::default() },
    };
    price.most_of_output()
}

fn tool() -> ToolSpec {
    ToolSpec {
        name: "look".into(),
        description: String::new(),
        parameters: json!({"type": "object"}),
        effect: None,
    }
}
