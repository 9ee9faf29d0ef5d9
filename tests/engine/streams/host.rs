//! A host that answers at random, in a time of its own, and holds every directive against the laws.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};
use unfazed::context::{ByteEstimate, estimate_message, findings, measure, reduce, repair};
use unfazed::engine::{
    ApprovalAnswer, ApprovalQuestion, AskPerson, AwaitedStep, BreakerPhase, CallModel, Directive,
    DirectiveKind, Directives, DriveMode, EffectState, Envelope, Event, Failure, FinishReason, Interpreter,
    ModelReply, Note, OpenAttempts, PlannerDecision, PrepareTurn, ProposedCall, RunStarted, RunTool, State,
    ToolCatalogue, ToolFacts, ToolOutcome, ToolSpec, WaitWork, Work, may_run_again,
};
use unfazed::policy::{
    Approval, AttemptLimit, CallOverride, CooldownScope, Effect, ErrorClass, HistoryCheck, PacePool, Policy,
    RetryPolicy, SizeCap, TimeBound, UnansweredMode,
};
use unfazed::session::{FeedbackSource, Message, RetryFeedback, ToolCall, Usage, splice};
use unfazed::time::{Instant, Nanos};

use super::failures::{class_of, failure};
use super::invariants::Invariants;
use super::meter::{Meter, is_check};
use super::paces::Paces;
use super::tape::Tape;
use super::torn::torn_history;

pub(crate) const RUN: &str = "run-zqxj";
const START: Instant = Instant(1_700_000_000_000_000_000);
/// What must never be shown to a model: the run, numbers of work and batches (see [`fresh_state`]), times.
const SECRETS: &[&str] = &[RUN, "7731000", "6612000", "1700000", "2023-11-"];
const REPORT: &str = "final_report";
/// The tool that is run to find out whether another has acted.
const WITNESS: &str = "witness";
pub(crate) const TARGETS: &[&str] = &["main", "spare", "third"];
pub(crate) const TOOLS: [&str; 4] = ["alpha", "beta", "gamma", WITNESS];

/// What is known about one tool call.
#[derive(Default)]
struct Call {
    key: String,
    runs: u32,
    may_not_run: Option<&'static str>,
    /// Whether it may run again once it is known that it has not acted.
    retried: bool,
    /// Whether a person has agreed to it.
    agreed: bool,
}

pub(crate) struct Host {
    pub(crate) interpreter: Interpreter,
    pub(crate) state: State,
    pub(crate) conversation: Vec<Message>,
    /// The envelopes, as lines of JSON.
    pub(crate) events: Vec<String>,
    /// What was answered to each, as JSON.
    pub(crate) directives: Vec<String>,
    pub(crate) open: Vec<Work>,
    pub(crate) finished: bool,
    pub(crate) targets: &'static [&'static str],
    pub(crate) meter: Meter,
    paces: Paces,
    pub(crate) now: Instant,
    /// The policy, the tools or the models were others before: what holds under one policy only is not held against it.
    pub(crate) changed: bool,
    /// The tools there are.
    pub(crate) tools: Vec<ToolSpec>,
    /// Models that were removed.
    pub(crate) gone: BTreeSet<&'static str>,
    drive: DriveMode,
    deadline: Option<Instant>,
    ids: u32,
    prepared: u32,
    /// What was wrong with the conversation that the run began with.
    brought: usize,
    invariants: Invariants,
    calls: BTreeMap<String, Call>,
    keys: BTreeSet<String>,
    /// The tools all calls of which a person has agreed to.
    agreed: BTreeSet<String>,
    breakers: BTreeMap<String, (BreakerPhase, Option<Instant>)>,
}

/// A state whose counters are such that they can be distinguished from other numbers in a text.
pub(crate) fn fresh_state() -> State {
    let mut state = serde_json::to_value(State::new()).unwrap();
    state["work"]["last"] = 773_100_000_u64.into();
    state["batches"] = 661_200_000_u64.into();
    serde_json::from_value(state).unwrap()
}

pub(crate) fn interpreter(policy: &Policy) -> Interpreter {
    Interpreter::new(policy.clone(), ToolCatalogue::new(tools()).unwrap())
}

pub(crate) fn tools() -> Vec<ToolSpec> {
    let tool = |name: &str, effect| ToolSpec {
        name: name.into(),
        description: String::new(),
        parameters: json!({
            "type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"],
            "additionalProperties": false,
        }),
        effect,
    };
    vec![
        tool("alpha", None),
        tool("beta", Some(Effect::Idempotent)),
        tool("gamma", Some(Effect::NonIdempotent)),
        tool(WITNESS, Some(Effect::ReadOnly)),
    ]
}

impl Host {
    pub(crate) fn start(policy: &Policy, drive: DriveMode, t: &mut Tape) -> Self {
        let deadline = t.once_in(6).then(|| START.saturating_add(Nanos::from_secs(20)));
        let mut host = Self {
            interpreter: interpreter(policy),
            state: fresh_state(),
            conversation: Vec::new(),
            events: Vec::new(),
            directives: Vec::new(),
            open: Vec::new(),
            finished: false,
            targets: &TARGETS[..=t.below(TARGETS.len())],
            meter: Meter::default(),
            paces: Paces::default(),
            changed: false,
            tools: tools(),
            gone: BTreeSet::new(),
            drive,
            now: START,
            deadline,
            ids: 0,
            prepared: 0,
            brought: 0,
            invariants: Invariants::default(),
            calls: BTreeMap::new(),
            keys: BTreeSet::new(),
            agreed: BTreeSet::new(),
            breakers: BTreeMap::new(),
        };
        let history = if t.once_in(5) { torn_history() } else { Vec::new() };
        host.brought = findings(&history).len();
        host.run_started(RUN, history);
        host
    }

    /// Whether it is a reply that the host has put into the conversation by itself.
    pub(crate) fn is_own(&self, message: &Message) -> bool {
        self.drive == DriveMode::Calls
            && matches!(message, Message::Assistant { text, .. } if text.is_empty())
    }

    /// Another run of the same session: it continues with the conversation.
    pub(crate) fn run_again(&mut self) {
        self.state = self.state.next_run();
        self.finished = false;
        self.deadline = None;
        self.prepared = 0;
        self.meter = Meter::default();
        self.invariants = Invariants::default();
        self.agreed.clear();
        self.breakers.retain(|tool, _| self.state.breaker(tool).is_some());
        self.run_started(&format!("{RUN}-again"), Vec::new());
    }

    fn run_started(&mut self, run: &str, history: Vec<Message>) {
        self.tell(Event::RunStarted(RunStarted {
            run: run.into(),
            policy: String::new(),
            seed: 7,
            drive: self.drive,
            system: "be brief".into(),
            history,
            task: "do it".into(),
            targets: self.targets.iter().map(|target| (*target).to_owned()).collect(),
            windows: BTreeMap::new(),
            overheads: BTreeMap::new(),
            prices: BTreeMap::new(),
            tools: self.tools.iter().map(ToolFacts::from).collect(),
            deadline: self.deadline,
        }));
    }

    /// Does one thing that a host may do. `false`: there is nothing left to do.
    pub(crate) fn act(&mut self, t: &mut Tape) -> bool {
        if self.finished {
            return false;
        }
        self.now = self.now.saturating_add(Nanos(t.of(&[0, 0, 1_000_000, 999_999_999, 3_000_000_000])));
        if t.is_over() {
            // What is unlimited ends by its deadline.
            self.now = self.now.saturating_add(Nanos::from_secs(1));
        }
        if t.once_in(80) {
            self.cancel();
            return false;
        }
        if t.once_in(60) {
            self.interfere(t);
            return true;
        }
        if t.once_in(40) {
            self.answer_twice();
        }
        if self.open.is_empty() {
            assert_eq!(self.drive, DriveMode::Calls, "law 2: the run is not over and nothing is asked for");
            self.check_idle();
            if t.is_over() {
                self.cancel();
                return false;
            }
            self.propose(t);
            return true;
        }
        let event = match self.open.remove(t.below(self.open.len())) {
            Work::PrepareTurn(turn) => turn.prepared(measure(&ByteEstimate, &self.conversation, &[])),
            Work::CallModel(call) => self.answer_model(call, t),
            Work::RunTool(run) => self.answer_tool(run, t),
            Work::Wait(wait) => {
                self.now = self.now.max(wait.until);
                wait.fired()
            }
            Work::Ask(ask) => {
                let answers = [
                    ApprovalAnswer::Approve,
                    ApprovalAnswer::ApproveAll,
                    ApprovalAnswer::Refuse,
                    ApprovalAnswer::None,
                ];
                self.answer_person(ask, t.of(&answers))
            }
            Work::Consult(consult) => {
                let decisions =
                    [PlannerDecision::TellModel, PlannerDecision::FinalTurn, PlannerDecision::Fail];
                consult.decided(t.of(&decisions))
            }
            work => self.answer_other(work, t),
        };
        self.tell(event);
        true
    }

    /// What a host answers about the conversation.
    pub(crate) fn answer_other(&mut self, work: Work, t: &mut Tape) -> Event {
        match work {
            Work::RepairHistory(work) => {
                let found = repair(&self.conversation, work.orphan_calls, work.malformed_calls);
                work.repaired(found)
            }
            Work::ReduceContext(work) => {
                let weights: Vec<u64> = self.conversation.iter().map(estimate_message).collect();
                let policy = self.interpreter.policy();
                let found = reduce(policy, &work.plan, &self.conversation, &weights, &ByteEstimate);
                work.reduced(found)
            }
            Work::Summarize(work) if t.once_in(2) => work.failed(failure(t)),
            Work::Summarize(work) => {
                work.responded(ModelReply { text: "In short: nothing.".into(), ..ModelReply::default() })
            }
            work => panic!("{work:?} is answered elsewhere"),
        }
    }

    fn cancel(&mut self) {
        self.tell(Event::Cancelled { reason: "enough".into() });
        assert!(self.finished, "law 3: a cancelled run is over");
    }

    /// What may come unasked at any time.
    fn interfere(&mut self, t: &mut Tape) {
        let tools: Vec<ToolFacts> = self.tools.iter().map(ToolFacts::from).collect();
        let event = match t.below(3) {
            0 => Event::ToolsChanged { tools },
            1 => Event::PolicyChanged { policy: self.interpreter.policy().digest().to_owned() },
            _ => {
                self.invariants.stop();
                Event::StopRequested { reason: "please".into() }
            }
        };
        self.tell(event);
    }

    pub(crate) fn tell(&mut self, event: Event) {
        // Of a call that the provider shows in its error a reply is made.
        let failed =
            matches!(&event, Event::ModelFailed { failure, .. } if !failure.message.contains("raw="));
        let before = if failed { self.conversation.clone() } else { Vec::new() };
        self.take(event);
        if failed {
            Invariants::integrity(&before, &self.conversation);
        }
    }

    fn take(&mut self, event: Event) {
        let envelope = Envelope { seq: self.state.seq + 1, now: self.now, event };
        self.events.push(serde_json::to_string(&envelope).unwrap());
        let directives = self.interpreter.step(&mut self.state, envelope);
        self.directives.push(serde_json::to_string(&directives).unwrap());
        self.obey(directives);
    }

    /// An answer that was given already changes nothing.
    fn answer_twice(&mut self) {
        let Some(line) = self.events.last() else { return };
        let again: Envelope = serde_json::from_str(line).unwrap();
        if again.event.work().is_none() {
            return;
        }
        let unchanged = |state: &State| {
            let mut state = serde_json::to_value(state).unwrap();
            state["seq"] = Value::Null;
            state["now"] = Value::Null;
            state
        };
        let (before, open) = (unchanged(&self.state), self.open.len());
        self.tell(again.event);
        assert_eq!(before, unchanged(&self.state), "law 2: a second answer to the same work changes nothing");
        assert_eq!(open, self.open.len(), "law 2: a second answer asks for nothing");
    }

    fn obey(&mut self, Directives(list): Directives) {
        self.check_sizes(&list);
        for directive in list {
            match directive.order {
                DirectiveKind::Note(note) => self.note(note),
                DirectiveKind::Work(work) => {
                    assert!(!self.finished, "law 3: {work:?} is asked for after the end");
                    match &work {
                        Work::PrepareTurn(turn) => self.prepare_turn(turn),
                        Work::CallModel(call) => self.check_model(call),
                        Work::RunTool(run) => self.check_tool(run),
                        Work::Wait(wait) => self.check_wait(wait),
                        Work::Ask(ask) => self.check_question(ask),
                        Work::Summarize(_) => self.meter.summary(),
                        Work::RepairHistory(_) | Work::ReduceContext(_) | Work::Consult(_) => {}
                    }
                    self.open.push(work);
                }
            }
        }
        if self.finished {
            self.open.clear();
        }
    }

    fn note(&mut self, note: Note) {
        assert!(!self.finished, "law 3: {note:?} comes after the end");
        if !self.changed {
            self.invariants.note(&note, self.interpreter.policy(), &self.state, self.targets);
        }
        match note {
            Note::Append { message } => {
                if !matches!(message, Message::Assistant { .. }) {
                    let shown = message.text();
                    let secret = SECRETS.iter().find(|secret| shown.contains(**secret));
                    assert_eq!(secret, None, "law 10: the model is shown {shown:?}");
                }
                if let Message::Assistant { calls, .. } = &message {
                    for call in calls {
                        self.calls.entry(call.id.clone()).or_default();
                    }
                }
                self.conversation.push(message);
            }
            Note::Splice { splices } => splice(&mut self.conversation, &splices),
            Note::Feedback { feedback } => self.check_feedback(&feedback),
            Note::Breaker { tool, state, until } => {
                self.breakers.insert(tool, (state, until));
            }
            Note::EffectChecked { call, effect: EffectState::NotStarted, .. } => {
                let call = self.calls.get_mut(&call).unwrap();
                call.may_not_run = (!call.retried).then_some("law 5: its class is not retried");
            }
            Note::Dropped { work } => self.open.retain(|open| open.id() != work),
            Note::Finish { .. } => {
                self.finished = true;
                self.check_history(self.brought);
            }
            _ => {}
        }
    }

    /// So many faults were there before, and none has come since.
    fn check_history(&self, most: usize) {
        let findings = findings(&self.conversation);
        let valid = findings.len() <= most;
        assert!(valid, "law 4: the history is not valid: {findings:?}: {:#?}", self.conversation);
    }

    /// What is shown of a result is within its size; what a policy says in the place of one is not held against it.
    fn check_sizes(&self, list: &[Directive]) {
        let mut ended = None;
        for directive in list {
            match &directive.order {
                DirectiveKind::Note(Note::ToolEnded { call, .. }) => ended = Some(call),
                DirectiveKind::Note(Note::ReducerError { .. }) => ended = None,
                DirectiveKind::Note(Note::Append { message: Message::Tool { call, tool, text, .. } })
                    if ended == Some(call) =>
                {
                    let policy = self.interpreter.policy().tool(tool);
                    let SizeCap::Most(most) = policy.result.max.value else { continue };
                    let size = most.unit.measure(text);
                    assert!(size <= most.count, "law 13: {size} of {most:?} are shown of a result: {text:?}");
                }
                _ => {}
            }
        }
    }

    /// A run has at most `max_turns` turns. Its last one is gone through again only as long as there are attempts
    /// at the report, each time using up one.
    fn prepare_turn(&mut self, turn: &PrepareTurn) {
        if self.changed {
            return;
        }
        self.invariants.prepare(turn, self.interpreter.policy());
        self.prepared += 1;
        self.meter.turn();
        let policy = self.interpreter.policy();
        let attempts = policy.output().map_or(Some(0), |output| output.retry.max_attempts.value.limit());
        if let Some(attempts) = attempts {
            let most = policy.turn().max_turns.value.get() + attempts;
            assert!(self.prepared <= most, "law 3: turn {} of at most {most}", self.prepared);
        }
    }

    fn check_model(&mut self, call: &CallModel) {
        let checked = self.interpreter.policy().history().check.value == HistoryCheck::BeforeCall;
        self.check_history(if checked && !self.changed { 0 } else { self.brought });
        assert!(self.deadline.is_none_or(|deadline| self.now < deadline), "law 5: a call after the deadline");
        if self.changed {
            return self.check_attempt(call);
        }
        if self.invariants.call(call, self.interpreter.policy(), self.now) {
            self.meter.model(call);
            let model = self.interpreter.policy().model(&call.target);
            if let (Some(rate), PacePool::Provider) =
                (model.pace.requests.value.rate(), &model.pace.pool.value)
            {
                // Models of another provider have another pool, so this is at most what the pool started.
                self.paces.started(&call.target, rate, self.now);
            }
        }
    }

    fn check_question(&self, ask: &AskPerson) {
        let other = self.open.iter().find(|work| matches!(work, Work::Ask(_)));
        assert!(other.is_none(), "law 11: {ask:?} is asked while {other:?} is");
        assert!(
            !self.agreed.contains(&ask.tool) || ask.question == ApprovalQuestion::RunAgain,
            "law 11: {ask:?} again"
        );
    }

    /// How many runs are in flight, of all tools or of one; those that only find something out are none.
    fn under_way(&self, tool: Option<&str>) -> u32 {
        let counts = |work: &&Work| match work {
            Work::RunTool(run) => !is_check(run) && tool.is_none_or(|tool| tool == run.tool),
            _ => false,
        };
        u32::try_from(self.open.iter().filter(counts).count()).unwrap()
    }

    fn check_room(&self, run: &RunTool) {
        let in_time = run.attempt > 1 || self.deadline.is_none_or(|deadline| self.now < deadline);
        assert!(in_time, "law 5: {run:?} begins after the deadline");
        let policy = self.interpreter.policy();
        let room = |limit: AttemptLimit, under_way: u32| limit.limit().is_none_or(|limit| under_way < limit);
        let all = room(policy.turn().calls.parallel.value, self.under_way(None));
        let same = room(policy.tool(&run.tool).concurrency.value, self.under_way(Some(&run.tool)));
        assert!(self.changed || all && same, "law 12: {run:?} is one too many at once");
        let asks = policy.call(&run.tool, &run.arguments, None).policy.approval.value == Approval::Always;
        let agreed = self.agreed.contains(&run.tool) || self.calls[&run.call].agreed;
        assert!(!asks || agreed, "law 11: {run:?} runs and nobody has agreed to it");
    }

    pub(crate) fn answer_person(&mut self, ask: AskPerson, answer: ApprovalAnswer) -> Event {
        let call = self.calls.get_mut(&ask.call).unwrap();
        let unanswered = self.interpreter.policy().turn().approval.unanswered.value;
        match (ask.question, answer) {
            (ApprovalQuestion::Run, ApprovalAnswer::ApproveAll) => {
                self.agreed.insert(ask.tool.clone());
            }
            (ApprovalQuestion::Run, ApprovalAnswer::Approve) => call.agreed = true,
            (ApprovalQuestion::Run, ApprovalAnswer::None) => {
                call.agreed = unanswered == UnansweredMode::Approve;
            }
            (ApprovalQuestion::Run, ApprovalAnswer::Refuse) => {
                call.may_not_run = Some("law 11: it was refused");
            }
            (ApprovalQuestion::RunAgain, _) => {}
        }
        ask.answered(answer)
    }

    fn check_tool(&mut self, run: &RunTool) {
        if !is_check(run) {
            self.check_room(run);
        }
        let breaker = self.breakers.get(&run.tool);
        let open = matches!(breaker, Some((BreakerPhase::Open, _)));
        assert!(!open, "law 7: {} runs while its breaker is open: {breaker:?}", run.tool);
        if !self.changed {
            self.invariants.run(run);
        }
        if !self.changed && !is_check(run) {
            let pace = &self.interpreter.policy().tool(&run.tool).pace;
            if let (Some(rate), CooldownScope::Own) = (pace.requests.value.rate(), &pace.pool.value) {
                self.paces.started(&run.tool, rate, self.now);
            }
        }
        self.meter.run(run);
        if is_check(run) {
            assert_eq!(run.tool, WITNESS, "law 6: another tool finds out whether it has acted");
            return;
        }
        let call = self.calls.get_mut(&run.call).expect("law 2: a run of a call nobody proposed");
        call.runs += 1;
        assert_eq!(run.attempt, call.runs, "law 5: attempts are counted");
        assert!(run.max_attempts.is_none_or(|most| run.attempt <= most), "law 5: {run:?} is one too many");
        if let Some(why) = call.may_not_run.filter(|_| !self.changed) {
            panic!("{why}: {run:?}");
        }
        if call.runs == 1 {
            call.key.clone_from(&run.idempotency_key);
            assert!(self.keys.insert(call.key.clone()), "law 6: two calls have the key {}", call.key);
        }
        assert_eq!(call.key, run.idempotency_key, "law 6: attempts of one call have one key");
    }

    fn check_wait(&mut self, wait: &WaitWork) {
        assert!(!wait.delay.is_zero(), "law 5: a wait of no length: {wait:?}");
        assert_eq!(wait.until, self.now.saturating_add(wait.delay));
        let past = self.deadline.is_some_and(|deadline| wait.until >= deadline);
        assert!(!past, "law 5: a wait past the deadline of the run: {wait:?}");
        // A wait for a turn is no wait between attempts, and counts for none of their bounds.
        if wait.pool.is_some() {
            return;
        }
        match self.state.awaited(wait).expect("law 5: a wait for nothing") {
            AwaitedStep::Call(call) => {
                let policy = self.interpreter.policy().call(call.tool, call.arguments, None).policy;
                let slept = self.meter.wait_of_call(call.id, wait);
                check_bounds(&policy.retry, call.attempts, slept, wait);
            }
            AwaitedStep::Model(attempts) => {
                self.meter.wait(wait);
                let policy = self.interpreter.policy().model(self.state.current_target().unwrap());
                if let Some(attempts) = attempts {
                    check_bounds(&policy.retry, attempts, attempts.slept, wait);
                }
            }
            AwaitedStep::Turn => self.meter.wait(wait),
        }
    }

    fn check_feedback(&self, feedback: &RetryFeedback) {
        let RetryFeedback { attempt, max_attempts, next_delay, .. } = feedback;
        assert!(*attempt >= 1, "law 10: {feedback:?}");
        assert!(
            max_attempts.is_none_or(|most| *attempt <= most),
            "law 10: attempt beyond the last: {feedback:?}"
        );
        if *max_attempts == Some(*attempt) {
            assert!(next_delay.is_zero(), "law 10: nothing follows the last attempt: {feedback:?}");
        }
        assert_eq!(feedback.retry_scheduled_at, self.now.saturating_add(*next_delay), "law 10");
        // A tool's own may be replaced for a single call.
        if feedback.source == FeedbackSource::StructuredOutput {
            let retry = &self.interpreter.policy().output().unwrap().retry;
            assert!(retry.retries(feedback.error_type), "law 5: not retried: {feedback:?}");
        }
    }

    pub(crate) fn answer_model(&mut self, call: CallModel, t: &mut Tape) -> Event {
        if self.gone.contains(&*call.target) {
            return call.failed(Failure::of(ErrorClass::NotFound, "there is no such model"));
        }
        if t.below(4) == 3 {
            let failure = failure(t);
            self.meter.cost.asked |= failure.retry_after.wait().is_some();
            self.invariants.answered(failure.retry_after.wait().is_some());
            return call.failed(failure);
        }
        self.invariants.answered(false);
        let mut reply = ModelReply::default();
        match t.below(9) {
            0 if call.tools.last().is_some_and(|tool| tool == REPORT) => {
                reply.calls = vec![self.proposal(REPORT, r#"{"total": 1}"#)];
            }
            0 => reply.text = "done".into(),
            1..=4 => reply.calls = self.proposals(t),
            5 if t.once_in(2) => reply.extra = [("reasoning".to_owned(), json!("hm"))].into_iter().collect(),
            5 => {}
            8 => {
                let call = r#"<tool_call>{"name": "alpha", "arguments": {"n": 1}}</tool_call>"#;
                reply.text = t.of(&[call, "<tool_call>{", "Let me see."]).into();
                reply.calls = if t.once_in(2) { self.proposals(t) } else { Vec::new() };
                let reasons = [FinishReason::Stop, FinishReason::Unsaid, FinishReason::Other("eos".into())];
                reply.finish = reasons[t.below(3)].clone();
            }
            6 => reply.text = t.of(&["done", r#"{"total": 2}"#, "{}", "[1", "null"]).into(),
            _ => {
                reply.text = t.of(&["half", ""]).into();
                reply.finish = if t.once_in(2) { FinishReason::ContentFilter } else { FinishReason::Length };
            }
        }
        if t.once_in(3) {
            let (input, output) = (t.of(&[300, 20, 90_000]), t.of(&[5, 0]));
            reply.usage = Some(Usage { input, output, ..Usage::default() });
        }
        call.responded(reply)
    }

    pub(crate) fn answer_tool(&mut self, run: RunTool, t: &mut Tape) -> Event {
        if !self.tools.iter().any(|tool| tool.name == run.tool) {
            let failure = Failure::of(ErrorClass::ToolUnavailable, "there is no such tool");
            return run.finished(ToolOutcome::Failed { failure, effect: EffectState::NotStarted });
        }
        if is_check(&run) && t.below(4) > 0 {
            let data = [json!({"count": 0}), json!({"count": 1}), json!("unknown")][t.below(3)].clone();
            return run.finished(ToolOutcome::Ok { data });
        }
        if t.below(5) < 2 {
            let data = match t.below(5) {
                0 => json!("text"),
                1 => json!({"x": 0.1}),
                2 => json!(null),
                3 => json!("error: on line 7\n".repeat(40)),
                _ => json!(vec![json!({"name": "é", "of": [1, 2, 3]}); 40]),
            };
            return run.finished(ToolOutcome::Ok { data });
        }
        let failure = failure(t);
        self.meter.cost.asked |= failure.retry_after.wait().is_some();
        let states =
            [EffectState::NotStarted, EffectState::Started, EffectState::Committed, EffectState::Unknown];
        let effect = t.of(&states);
        if is_check(&run) {
            return run.finished(ToolOutcome::Failed { failure, effect });
        }
        let policy = self.interpreter.policy().call(&run.tool, &run.arguments, None).policy;
        let known = match policy.effect.value {
            Effect::Unknown => {
                self.tools.iter().find(|tool| tool.name == run.tool).and_then(|tool| tool.effect)
            }
            known => Some(known),
        };
        let call = self.calls.get_mut(&run.call).unwrap();
        call.retried = policy.retry.retries(class_of(self.interpreter.policy(), &failure));
        if !may_run_again(known.unwrap_or(Effect::Unknown), effect) {
            call.may_not_run = Some("law 6: it may have had side effects");
        } else if !call.retried {
            call.may_not_run = Some("law 5: its class is not retried");
        }
        run.finished(ToolOutcome::Failed { failure, effect })
    }

    fn propose(&mut self, t: &mut Tape) {
        let event = if t.below(5) == 4 {
            Event::OutputProposed { output: t.of(&[r#"{"total": 1}"#, "{}", "{"]).into() }
        } else {
            Event::ToolsProposed { calls: self.calls_of_a_reply(t), turn: None }
        };
        self.tell(event);
    }

    /// A host with its own loop keeps the replies itself.
    pub(crate) fn calls_of_a_reply(&mut self, t: &mut Tape) -> Vec<ProposedCall> {
        let proposals = self.proposals(t);
        let calls = proposals.iter().map(|proposal| proposal.call.clone()).collect();
        self.conversation.push(Message::Assistant { text: String::new(), calls, extra: Map::new() });
        proposals
    }

    fn proposals(&mut self, t: &mut Tape) -> Vec<ProposedCall> {
        let names = ["alpha", "alpha", "beta", "gamma", "alhpa", REPORT, "Beta", WITNESS];
        let arguments = [
            r#"{"n": 1}"#,
            r#"{"n": 1}"#,
            r#"{"n": 7}"#,
            r#"{"n": 12}"#,
            r#"{"n": "x"}"#,
            r#"{"n": "3"}"#,
            r#"{"n": 1"#,
            "",
            "{}",
            r#"{"total": 1}"#,
        ];
        let planner = [r#"{"retry": {"max_attempts": 1}}"#, r#"{"limits": {"total_delay": "1s"}}"#];
        let count = t.below(5) + 1;
        let proposal = |_| {
            let mut proposal = self.proposal(t.of(&names), t.of(&arguments));
            if t.once_in(8) {
                let layer = serde_json::from_str(t.of(&planner)).unwrap();
                proposal.policy = Some(CallOverride::new(layer).unwrap());
            }
            proposal
        };
        (0..count).map(proposal).collect()
    }

    fn proposal(&mut self, name: &str, arguments: &str) -> ProposedCall {
        self.ids += 1;
        let id = format!("c{}", self.ids);
        self.calls.insert(id.clone(), Call::default());
        ToolCall { id, name: name.into(), arguments: arguments.into() }.into()
    }
}

fn check_bounds(policy: &RetryPolicy, attempts: OpenAttempts<'_>, slept: Nanos, wait: &WaitWork) {
    if let TimeBound::Within(most) = policy.total_delay.value {
        assert!(slept <= most, "law 5: slept {slept} of {most}: {wait:?}");
    }
    if let TimeBound::Within(length) = policy.deadline.value {
        assert!(
            wait.until < attempts.started.saturating_add(length),
            "law 5: a wait past a deadline: {wait:?}"
        );
    }
}
