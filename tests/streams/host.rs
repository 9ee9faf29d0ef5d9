//! A host that answers at random, in a time of its own, and holds every directive against the laws.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};
use unfazed::context::{Estimate, estimate_message, findings, measure, reduce, repair};
use unfazed::engine::{
    Answer, Ask, BreakerPhase, CallModel, Catalogue, Decision, Directives, Drive, EffectState, Envelope,
    Event, Failure, FinishReason, Hint, Interpreter, ModelReply, Note, Order, Proposal, Question, RunStarted,
    RunTool, State, ToolFacts, ToolOutcome, ToolSpec, Wait, Work, may_run_again,
};
use unfazed::policy::{Approval, Attempts, Bound, Effect, ErrorClass, Policy, RetryPolicy, Unanswered};
use unfazed::session::{FeedbackSource, Message, RetryFeedback, ToolCall, splice};
use unfazed::time::{Instant, Nanos};

use crate::policies::pool;
use crate::tape::Tape;

pub(crate) const RUN: &str = "run-zqxj";
const START: Instant = Instant(1_700_000_000_000_000_000);
/// What must never be shown to a model: the run, numbers of work and batches (see [`fresh_state`]), times.
const SECRETS: &[&str] = &[RUN, "7731000", "6612000", "1700000", "2023-11-"];
const REPORT: &str = "final_report";
/// The tool that is run to find out whether another has acted.
const WITNESS: &str = "witness";
const TARGETS: &[&str] = &["main", "spare"];

/// What is known about one tool call.
#[derive(Default)]
struct Call {
    key: String,
    runs: u32,
    slept: Nanos,
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
    drive: Drive,
    now: Instant,
    deadline: Option<Instant>,
    ids: u32,
    prepared: u32,
    model_calls: u32,
    model_failed: Option<ErrorClass>,
    calls: BTreeMap<String, Call>,
    keys: BTreeSet<String>,
    /// The tools all calls of which a person has agreed to.
    agreed: BTreeSet<String>,
    breakers: BTreeMap<String, (BreakerPhase, Option<Instant>)>,
}

/// A state whose counters are such that they can be told from other numbers in a text.
pub(crate) fn fresh_state() -> State {
    let mut state = serde_json::to_value(State::new()).unwrap();
    state["next_work"] = json!(773_100_000);
    state["batches"] = json!(661_200_000);
    serde_json::from_value(state).unwrap()
}

pub(crate) fn interpreter(policy: &Policy) -> Interpreter {
    Interpreter::new(policy.clone(), Catalogue::new(tools()).unwrap())
}

fn tools() -> Vec<ToolSpec> {
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
    pub(crate) fn start(policy: &Policy, drive: Drive, t: &mut Tape) -> Self {
        let deadline = t.once_in(6).then(|| START.saturating_add(Nanos::from_secs(20)));
        let targets = &TARGETS[..=t.below(2)];
        let mut host = Self {
            interpreter: interpreter(policy),
            state: fresh_state(),
            conversation: Vec::new(),
            events: Vec::new(),
            directives: Vec::new(),
            open: Vec::new(),
            finished: false,
            drive,
            now: START,
            deadline,
            ids: 0,
            prepared: 0,
            model_calls: 0,
            model_failed: None,
            calls: BTreeMap::new(),
            keys: BTreeSet::new(),
            agreed: BTreeSet::new(),
            breakers: BTreeMap::new(),
        };
        host.tell(Event::RunStarted(RunStarted {
            run: RUN.into(),
            policy: String::new(),
            seed: 7,
            drive,
            system: "be brief".into(),
            history: Vec::new(),
            task: "do it".into(),
            targets: targets.iter().map(|target| (*target).to_owned()).collect(),
            windows: BTreeMap::new(),
            tools: tools().iter().map(ToolFacts::from).collect(),
            deadline,
        }));
        host
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
            self.tell(Event::Cancelled { reason: "enough".into() });
            assert!(self.finished, "law 3: a cancelled run is over");
            return false;
        }
        if t.once_in(40) {
            self.answer_twice();
        }
        if self.open.is_empty() {
            assert_eq!(self.drive, Drive::Calls, "law 2: the run is not over and nothing is asked for");
            if t.is_over() {
                return false;
            }
            self.propose(t);
            return true;
        }
        let event = match self.open.remove(t.below(self.open.len())) {
            Work::PrepareTurn(turn) => turn.prepared(measure(&Estimate, &self.conversation, &[])),
            Work::RepairHistory(work) => {
                let found = repair(&self.conversation, work.orphan_calls);
                work.repaired(found)
            }
            Work::ReduceContext(work) => {
                let weights: Vec<u64> = self.conversation.iter().map(estimate_message).collect();
                let policy = self.interpreter.policy();
                let found = reduce(policy, &work.plan, &self.conversation, &weights, &Estimate);
                work.reduced(found)
            }
            Work::Summarize(work) if t.once_in(2) => work.failed(failure(t)),
            Work::Summarize(work) => {
                work.responded(ModelReply { text: "In short: nothing.".into(), ..ModelReply::default() })
            }
            Work::CallModel(call) => self.answer_model(call, t),
            Work::RunTool(run) => self.answer_tool(run, t),
            Work::Wait(wait) => {
                self.now = self.now.max(wait.until);
                wait.fired()
            }
            Work::Ask(ask) => {
                let answers = [Answer::Approve, Answer::ApproveAll, Answer::Refuse, Answer::None];
                self.answer_person(ask, t.of(&answers))
            }
            Work::Consult(consult) => {
                let decisions = [Decision::TellModel, Decision::FinalTurn, Decision::Fail];
                consult.decided(t.of(&decisions))
            }
        };
        self.tell(event);
        true
    }

    pub(crate) fn tell(&mut self, event: Event) {
        let envelope = Envelope { seq: self.state.seq + 1, now: self.now, event };
        self.events.push(serde_json::to_string(&envelope).unwrap());
        let directives = self.interpreter.step(&mut self.state, envelope);
        self.directives.push(serde_json::to_string(&directives).unwrap());
        self.obey(directives);
    }

    /// An answer that was given already changes nothing.
    fn answer_twice(&mut self) {
        let Some(line) = self.events.last().filter(|line| !line.contains("_proposed")) else { return };
        let again: Envelope = serde_json::from_str(line).unwrap();
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
        for directive in list {
            match directive.order {
                Order::Note(note) => self.note(note),
                Order::Work(work) => {
                    assert!(!self.finished, "law 3: {work:?} is asked for after the end");
                    match &work {
                        Work::PrepareTurn(_) => self.prepare_turn(),
                        Work::CallModel(call) => self.check_model(call),
                        Work::RunTool(run) => self.check_tool(run),
                        Work::Wait(wait) => self.check_wait(wait),
                        Work::Ask(ask) => self.check_question(ask),
                        Work::RepairHistory(_)
                        | Work::ReduceContext(_)
                        | Work::Summarize(_)
                        | Work::Consult(_) => {}
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
        match note {
            Note::Append { message } => {
                if !matches!(message, Message::Assistant { .. }) {
                    let shown = message.text();
                    let secret = SECRETS.iter().find(|secret| shown.contains(**secret));
                    assert_eq!(secret, None, "law 10: the model is shown {shown:?}");
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
                self.check_history();
            }
            _ => {}
        }
    }

    fn check_history(&self) {
        let findings = findings(&self.conversation);
        assert_eq!(findings, [], "law 4: the history is not valid: {:#?}", self.conversation);
    }

    /// A run has at most `max_turns` turns. Its last one is gone through again only as long as there are attempts
    /// at the report, each time using up one. Within a turn, each target is called as often as its policy allows.
    fn prepare_turn(&mut self) {
        self.prepared += 1;
        let policy = self.interpreter.policy();
        let attempts = policy.output().map_or(Some(0), |output| output.retry.max_attempts.value.limit());
        if let Some(attempts) = attempts {
            let most = policy.turn().max_turns.value.get() + attempts;
            assert!(self.prepared <= most, "law 3: turn {} of at most {most}", self.prepared);
        }
        self.model_calls = 0;
        self.model_failed = None;
    }

    fn check_model(&mut self, call: &CallModel) {
        self.check_history();
        let policy = self.interpreter.policy().model(&call.target);
        assert!(self.deadline.is_none_or(|deadline| self.now < deadline), "law 5: a call after the deadline");
        let failed = self.model_failed.take().filter(|_| call.attempt > 1);
        // Of a reply that was no answer the host does not know the class: then the most of any holds.
        let most = match failed {
            Some(class) => policy.retry.for_class(class).max_attempts.value.limit(),
            None => most_attempts(&policy.retry),
        };
        if let Some(most) = most {
            assert!(call.attempt <= most, "law 5: attempt {} of {most} of the model", call.attempt);
        }
        self.model_calls += 1;
        let models = TARGETS.iter().map(|target| self.interpreter.policy().model(target));
        let most = models.map(|model| most_attempts(&model.retry)).try_fold(0, |sum, most| Some(sum + most?));
        assert!(
            most.is_none_or(|most| self.model_calls <= most),
            "law 3: more than {most:?} calls in a turn"
        );
        if let Some(class) = failed {
            assert!(policy.retry.retries(class), "law 5: {class} is not retried");
        }
    }

    fn check_question(&self, ask: &Ask) {
        let other = self.open.iter().find(|work| matches!(work, Work::Ask(_)));
        assert!(other.is_none(), "law 11: {ask:?} is asked while {other:?} is");
        assert!(
            !self.agreed.contains(&ask.tool) || ask.question == Question::RunAgain,
            "law 11: {ask:?} again"
        );
    }

    /// How many runs are under way, of all tools or of one; those that only find something out are none.
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
        let room = |limit: Attempts, under_way: u32| limit.limit().is_none_or(|limit| under_way < limit);
        let all = room(policy.turn().calls.parallel.value, self.under_way(None));
        let same = room(policy.tool(&run.tool).concurrency.value, self.under_way(Some(&run.tool)));
        assert!(all && same, "law 12: {run:?} is one too many at once");
        let asks = policy.call(&run.tool, &run.arguments, None).policy.approval.value == Approval::Always;
        let agreed = self.agreed.contains(&run.tool) || self.calls[&run.call].agreed;
        assert!(!asks || agreed, "law 11: {run:?} runs and nobody has agreed to it");
    }

    fn answer_person(&mut self, ask: Ask, answer: Answer) -> Event {
        let call = self.calls.get_mut(&ask.call).unwrap();
        let unanswered = self.interpreter.policy().turn().approval.unanswered.value;
        match (ask.question, answer) {
            (Question::Run, Answer::ApproveAll) => {
                self.agreed.insert(ask.tool.clone());
            }
            (Question::Run, Answer::Approve) => call.agreed = true,
            (Question::Run, Answer::None) => call.agreed = unanswered == Unanswered::Approve,
            (Question::Run, Answer::Refuse) => call.may_not_run = Some("law 11: it was refused"),
            (Question::RunAgain, _) => {}
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
        if is_check(run) {
            assert_eq!(run.tool, WITNESS, "law 6: another tool finds out whether it has acted");
            return;
        }
        let call = self.calls.get_mut(&run.call).expect("law 2: a run of a call nobody proposed");
        call.runs += 1;
        assert_eq!(run.attempt, call.runs, "law 5: attempts are counted");
        assert!(run.max_attempts.is_none_or(|most| run.attempt <= most), "law 5: {run:?} is one too many");
        if let Some(why) = call.may_not_run {
            panic!("{why}: {run:?}");
        }
        if call.runs == 1 {
            call.key.clone_from(&run.idempotency_key);
            assert!(self.keys.insert(call.key.clone()), "law 6: two calls have the key {}", call.key);
        }
        assert_eq!(call.key, run.idempotency_key, "law 6: attempts of one call have one key");
    }

    fn check_wait(&mut self, wait: &Wait) {
        assert!(!wait.delay.is_zero(), "law 5: a wait of no length: {wait:?}");
        assert_eq!(wait.until, self.now.saturating_add(wait.delay));
        let past = self.deadline.is_some_and(|deadline| wait.until >= deadline);
        assert!(!past, "law 5: a wait past the deadline of the run: {wait:?}");
        let state = serde_json::to_value(&self.state).unwrap();
        let id = serde_json::to_value(wait).unwrap()["work"].to_string();
        let pending = &state["work"][id];
        if let Some(index) = pending["wait_tool"].as_u64() {
            let slot = &state["batch"][usize::try_from(index).unwrap()];
            let (tool, call) = (slot["tool"].as_str().unwrap(), slot["call"].as_str().unwrap());
            let policy = self.interpreter.policy().call(tool, &slot["arguments"], None).policy;
            let call = self.calls.get_mut(call).unwrap();
            call.slept = call.slept.saturating_add(wait.delay);
            check_bounds(&policy.retry, &slot["series"], call.slept, wait);
        } else if pending == "wait_model" {
            let target = usize::try_from(state["rotation"]["current"].as_u64().unwrap()).unwrap();
            let policy = self.interpreter.policy().model(TARGETS[target]);
            let slept = Nanos(state["model"]["slept"].as_u64().unwrap());
            check_bounds(&policy.retry, &state["model"], slept, wait);
        } else {
            assert_eq!(pending, "wait_turn");
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

    fn answer_model(&mut self, call: CallModel, t: &mut Tape) -> Event {
        if t.below(4) == 3 {
            let failure = failure(t);
            self.model_failed = Some(class_of(self.interpreter.policy(), &failure));
            return call.failed(failure);
        }
        let mut reply = ModelReply::default();
        match t.below(8) {
            0 if call.tools.last().is_some_and(|tool| tool == REPORT) => {
                reply.calls = vec![self.proposal(REPORT, r#"{"total": 1}"#)];
            }
            0 => reply.text = "done".into(),
            1..=4 => reply.calls = self.proposals(t),
            5 => {}
            6 => reply.text = t.of(&["done", r#"{"total": 2}"#, "{}", "[1", "null"]).into(),
            _ => {
                reply.text = t.of(&["half", ""]).into();
                reply.finish = if t.once_in(2) { FinishReason::ContentFilter } else { FinishReason::Length };
            }
        }
        call.responded(reply)
    }

    fn answer_tool(&mut self, run: RunTool, t: &mut Tape) -> Event {
        if is_check(&run) && t.below(4) > 0 {
            let data = [json!({"count": 0}), json!({"count": 1}), json!("nobody knows")][t.below(3)].clone();
            return run.finished(ToolOutcome::Ok { data });
        }
        if t.below(5) < 2 {
            let data = [json!("text"), json!({"x": 0.1}), json!(null)][t.below(3)].clone();
            return run.finished(ToolOutcome::Ok { data });
        }
        let failure = failure(t);
        let states =
            [EffectState::NotStarted, EffectState::Started, EffectState::Committed, EffectState::Unknown];
        let effect = t.of(&states);
        if is_check(&run) {
            return run.finished(ToolOutcome::Failed { failure, effect });
        }
        let policy = self.interpreter.policy().call(&run.tool, &run.arguments, None).policy;
        let known = match policy.effect.value {
            Effect::Unknown => {
                tools().into_iter().find(|tool| tool.name == run.tool).and_then(|tool| tool.effect)
            }
            known => Some(known),
        };
        let call = self.calls.get_mut(&run.call).unwrap();
        call.retried = policy.retry.retries(class_of(self.interpreter.policy(), &failure));
        if !may_run_again(known.unwrap_or(Effect::Unknown), effect) {
            call.may_not_run = Some("law 6: it may have acted");
        } else if !call.retried {
            call.may_not_run = Some("law 5: its class is not retried");
        }
        run.finished(ToolOutcome::Failed { failure, effect })
    }

    fn propose(&mut self, t: &mut Tape) {
        let event = if t.below(5) == 4 {
            Event::OutputProposed { output: t.of(&[r#"{"total": 1}"#, "{}", "{"]).into() }
        } else {
            Event::ToolsProposed { calls: self.calls_of_a_reply(t) }
        };
        self.tell(event);
    }

    /// A host with its own loop keeps the replies itself.
    fn calls_of_a_reply(&mut self, t: &mut Tape) -> Vec<Proposal> {
        let proposals = self.proposals(t);
        let calls = proposals.iter().map(|proposal| proposal.call.clone()).collect();
        self.conversation.push(Message::Assistant { text: String::new(), calls, extra: Map::new() });
        proposals
    }

    fn proposals(&mut self, t: &mut Tape) -> Vec<Proposal> {
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
        (0..=t.below(4)).map(|_| self.proposal(t.of(&names), t.of(&arguments))).collect()
    }

    fn proposal(&mut self, name: &str, arguments: &str) -> Proposal {
        self.ids += 1;
        let id = format!("c{}", self.ids);
        self.calls.insert(id.clone(), Call::default());
        ToolCall { id, name: name.into(), arguments: arguments.into() }.into()
    }
}

/// Whether it is run to find out whether another tool has acted.
fn is_check(run: &RunTool) -> bool {
    run.idempotency_key.ends_with("-check")
}

/// The most attempts of any class; `None`: there is no end of them.
fn most_attempts(retry: &RetryPolicy) -> Option<u32> {
    let own = retry.by_class.iter().map(|own| own.max_attempts.value.limit());
    own.chain([retry.max_attempts.value.limit()]).try_fold(1, |most, own| Some(most.max(own?)))
}

fn check_bounds(policy: &RetryPolicy, series: &Value, slept: Nanos, wait: &Wait) {
    if let Bound::Within(most) = policy.total_delay.value {
        assert!(slept <= most, "law 5: slept {slept} of {most}: {wait:?}");
    }
    if let Bound::Within(length) = policy.deadline.value {
        let started = Instant(series["started"].as_u64().unwrap());
        assert!(wait.until < started.saturating_add(length), "law 5: a wait past a deadline: {wait:?}");
    }
}

fn class_of(policy: &Policy, failure: &Failure) -> ErrorClass {
    failure.classified(policy).class
}

fn failure(t: &mut Tape) -> Failure {
    let mut failure = Failure::of(t.of(ErrorClass::ALL), "it broke");
    if t.once_in(4) {
        failure.class = None;
        failure.status = Some(t.of(&[429, 500, 503, 401, 404]));
    }
    failure.retry_after = match t.below(6) {
        0 => Hint::Wait(Nanos(t.of(&[0, 1, 700_000_000, 3_000_000_000, 90_000_000_000, u64::MAX]))),
        1 => Hint::Ignored("tomorrow".into()),
        _ => Hint::None,
    };
    failure.received = t.of(&[0, 0, 0, 1, 500]);
    failure
}

/// One batch of calls whose ends come in the order that `order` says, while time stands still: the digest of the
/// state at the end, and the messages.
pub(crate) fn batch(choices: &[u16], order: &mut Tape) -> (String, Vec<Message>) {
    let mut t = Tape::new(choices.to_vec());
    let (_, policy) = &pool()[t.below(pool().len())];
    let mut host = Host::start(policy, Drive::Calls, &mut t);
    let seed = t.below(1 << 16) as u64;
    let calls = host.calls_of_a_reply(&mut t);
    host.tell(Event::ToolsProposed { calls });
    while !host.open.is_empty() {
        let name = |work: &Work| match work {
            Work::RunTool(run) => run.call.clone(),
            _ => String::new(),
        };
        host.open.sort_by_key(name);
        // Persons answer before any tool ends: what depends on when they do is no matter of the tools.
        if let Some(asked) = host.open.iter().position(|work| matches!(work, Work::Ask(_))) {
            let Work::Ask(ask) = host.open.remove(asked) else { unreachable!() };
            let call: u64 = ask.call[1..].parse().unwrap();
            let answers = [Answer::Approve, Answer::Refuse, Answer::None];
            let answer = Tape::from_seed(seed * 1000 + call).of(&answers);
            let event = host.answer_person(ask, answer);
            host.tell(event);
            continue;
        }
        let event = match host.open.remove(order.below(host.open.len())) {
            Work::RunTool(run) => {
                // How a run ends depends on nothing but the call and the attempt.
                let attempt = if is_check(&run) { 9 } else { run.attempt.into() };
                let (call, attempt): (u64, u64) = (run.call[1..].parse().unwrap(), attempt);
                host.answer_tool(run, &mut Tape::from_seed(seed * 1000 + call * 10 + attempt))
            }
            Work::Wait(wait) => wait.fired(),
            Work::Consult(consult) => consult.decided(Decision::TellModel),
            other => panic!("law 2: {other:?} in a run that the host drives"),
        };
        host.tell(event);
    }
    // The number of events differs where the run ends before all of them have come.
    host.state.seq = 0;
    (host.state.digest(), host.conversation)
}
