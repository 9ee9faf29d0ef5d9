//! Proposals side by side: a host with its own loop proposes calls, turns and reports whenever it likes, answers in any
//! order, withdraws, and loses what it was doing.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use unfazed::context::{ByteEstimate, estimate_message, measure, reduce, repair};
use unfazed::engine::{
    ApprovalAnswer, Directive, DirectiveKind, Directives, DriveMode, EffectState, Envelope, Event, HostSkill,
    Interpreter, ModelReply, Note, PlannerDecision, ProposalId, ProposalRef, ProposalResult, ProposedCall,
    RunStarted, RunTool, SessionFold, State, ToolFacts, ToolOutcome, TurnProposal, Work, WorkId,
};
use unfazed::policy::{AttemptLimit, Policy};
use unfazed::session::{Message, ToolCall, splice};
use unfazed::time::{Instant, Nanos};

use super::count;
use super::failures::failure;
use super::host::{TARGETS, interpreter, tools};
use super::policies::{POLICIES, made};
use super::tape::Tape;
use super::torn::torn_history;

const CHOICES: usize = 300;
const START: Instant = Instant(1_700_000_000_000_000_000);

/// A host that has many things in flight.
pub(crate) struct Host {
    interpreter: Interpreter,
    state: State,
    now: Instant,
    events: Vec<Envelope>,
    pub(crate) told: Vec<String>,
    open: Vec<(ProposalRef, Work)>,
    /// The requests of the turns that are open.
    requests: BTreeMap<ProposalId, Vec<Message>>,
    proposals: Proposals,
    /// The calls that have run, by the key that must never be used for another.
    keys: BTreeMap<String, ProposalRef>,
    finished: bool,
    ids: u32,
}

/// What became of the proposals: each has one end.
#[derive(Default)]
struct Proposals {
    open: BTreeSet<ProposalId>,
    ended: BTreeSet<ProposalId>,
    /// Turns whose replies were taken.
    taken: Vec<ProposalId>,
}

impl Proposals {
    fn begin(&mut self, proposal: ProposalId) {
        self.open.insert(proposal);
    }

    fn end(&mut self, proposal: ProposalId) {
        assert!(self.open.remove(&proposal), "law 2: proposal {proposal} has ended, or was never made");
        assert!(self.ended.insert(proposal), "law 2: proposal {proposal} has two ends");
    }
}

impl Host {
    fn start(policy: &Policy, deadline: Option<Instant>) -> Self {
        let mut host = Self {
            interpreter: interpreter(policy),
            state: State::new(),
            now: START,
            events: Vec::new(),
            told: Vec::new(),
            open: Vec::new(),
            requests: BTreeMap::new(),
            proposals: Proposals::default(),
            keys: BTreeMap::new(),
            finished: false,
            ids: 0,
        };
        host.tell(Event::RunStarted(RunStarted {
            run: "side".into(),
            seed: 7,
            drive: DriveMode::Calls,
            targets: TARGETS.iter().map(|&target| target.to_owned()).collect(),
            tools: tools().iter().map(ToolFacts::from).collect(),
            deadline,
            ..RunStarted::default()
        }));
        host
    }

    fn tell(&mut self, event: Event) {
        let seq = self.state.seq + 1;
        let proposed = matches!(
            event,
            Event::ToolsProposed { .. } | Event::TurnProposed(_) | Event::OutputProposed { .. }
        );
        if proposed {
            self.proposals.begin(ProposalId(seq));
        }
        let envelope = Envelope { seq, now: self.now, event };
        self.events.push(envelope.clone());
        let directives = self.interpreter.step(&mut self.state, envelope);
        self.told.push(serde_json::to_string(&directives).unwrap());
        self.obey(directives);
        if self.open.is_empty() {
            let left = &self.proposals.open;
            assert!(left.is_empty(), "law 3: nothing is in flight, and {left:?} are not settled");
        }
        let known: Vec<ProposalId> = self.state.open_proposals().collect();
        assert_eq!(known, self.proposals.open.iter().copied().collect::<Vec<_>>(), "law 2");
    }

    fn obey(&mut self, Directives(list): Directives) {
        // A call that waits may start in the same step: another one ends behind it, and its wait is dropped.
        let dropped: Vec<WorkId> = list.iter().filter_map(dropped).collect();
        for directive in list {
            assert!(!self.finished, "law 3: {directive:?} comes after the end");
            if let Some(of) = directive.of {
                assert!(
                    self.proposals.open.contains(&of.proposal),
                    "law 2: {directive:?} is about none that is open"
                );
            }
            match directive.order {
                DirectiveKind::Note(Note::Settled(settled)) => {
                    self.proposals.end(settled.proposal);
                    // At the end of the run nothing is waited for any more.
                    let closed = settled.result == ProposalResult::Closed;
                    let left = self.open.iter().find(|(of, _)| of.proposal == settled.proposal);
                    assert!(closed || left.is_none(), "law 2: {left:?} is open after its end: {settled:?}");
                    self.requests.remove(&settled.proposal);
                    if matches!(settled.result, ProposalResult::Reply { .. }) {
                        self.proposals.taken.push(settled.proposal);
                    }
                }
                DirectiveKind::Note(Note::ProposalRefused { proposal, .. }) => self.proposals.end(proposal),
                DirectiveKind::Note(Note::Dropped { work }) => {
                    self.open.retain(|(_, open)| open.id() != work);
                }
                DirectiveKind::Note(Note::Splice { splices }) => {
                    let of = directive.of.expect("law 2: a splice of nobody's request");
                    splice(self.requests.get_mut(&of.proposal).unwrap(), &splices);
                }
                DirectiveKind::Note(Note::Finish { .. }) => {
                    self.finished = true;
                    self.open.clear();
                    assert!(self.proposals.open.is_empty(), "law 2: {:?} have no end", self.proposals.open);
                }
                DirectiveKind::Note(_) => {}
                DirectiveKind::Work(work) => {
                    let of = directive.of.expect("law 2: work for no proposal");
                    let known = self.state.proposal_of(work.id());
                    assert!(
                        self.state.is_over() || known == Some(of.proposal) || dropped.contains(&work.id()),
                        "law 2: {known:?} is not {of:?}"
                    );
                    self.check(of, &work);
                    self.open.push((of, work));
                }
            }
        }
    }

    fn check(&mut self, of: ProposalRef, work: &Work) {
        match work {
            Work::RunTool(run) => self.check_run(of, run),
            Work::Ask(_) => {
                let asked = self.open.iter().any(|(_, open)| matches!(open, Work::Ask(_)));
                assert!(!asked, "law 11: two people are asked at once");
            }
            Work::PrepareTurn(_) => panic!("a host with its own loop measures by itself"),
            _ => {}
        }
    }

    fn check_run(&mut self, of: ProposalRef, run: &RunTool) {
        assert!(of.call.is_some(), "law 2: {run:?} is of no call");
        if run.idempotency_key.ends_with("-check") {
            return;
        }
        let first = *self.keys.entry(run.idempotency_key.clone()).or_insert(of);
        assert_eq!(first, of, "law 6: two calls have the key {}", run.idempotency_key);
        let runs = |is_it: &dyn Fn(&ProposalRef, &RunTool) -> bool| {
            let open = self.open.iter().filter_map(|(of, work)| match work {
                Work::RunTool(run) if !run.idempotency_key.ends_with("-check") => Some((of, run)),
                _ => None,
            });
            u32::try_from(open.filter(|(of, run)| is_it(of, run)).count()).unwrap()
        };
        let room = |limit: AttemptLimit, under_way: u32| limit.limit().is_none_or(|limit| under_way < limit);
        let policy = self.interpreter.policy();
        let batch = runs(&|other, _| other.proposal == of.proposal);
        // The first call without its result waits for no other call of its batch.
        let beside = batch.saturating_sub(1);
        assert!(
            room(policy.turn().calls.parallel.value, beside),
            "law 12: {run:?} is one too many of its reply"
        );
        let same = runs(&|_, other| other.tool == run.tool);
        assert!(
            room(policy.tool(&run.tool).concurrency.value, same),
            "law 12: {run:?} is one too many of its tool"
        );
    }

    fn calls(&mut self, t: &mut Tape) -> Vec<ProposedCall> {
        let names = ["alpha", "beta", "gamma", "alpha", "beta", "nobody", "final_report"];
        let arguments = [r#"{"n": 1}"#, r#"{"n": 2}"#, r#"{"n": 12}"#, "{}", r#"{"n": 1"#, r#"{"total": 1}"#];
        let count = t.below(4) + 1;
        let call = |_| {
            self.ids += 1;
            let (name, arguments) = (t.of(&names).into(), t.of(&arguments).into());
            ToolCall { id: format!("c{}", self.ids), name, arguments }.into()
        };
        (0..count).map(call).collect()
    }

    /// Does one thing. `false`: the run is over.
    fn act(&mut self, t: &mut Tape) -> bool {
        self.now = self.now.saturating_add(Nanos(t.of(&[0, 0, 1_000_000, 2_000_000_000])));
        if t.is_over() {
            self.now = self.now.saturating_add(Nanos::from_secs(1));
            if self.open.is_empty() {
                self.tell(Event::Cancelled { reason: "enough".into() });
            }
        } else if self.proposals.open.len() < 6 && t.below(3) == 0 {
            self.propose(t);
        } else if t.once_in(12) && !self.proposals.open.is_empty() {
            self.withdraw(t);
        } else if t.once_in(150) {
            self.tell(Event::StopRequested { reason: "please".into() });
        }
        if !self.finished && !self.open.is_empty() {
            let (of, work) = self.open.remove(t.below(self.open.len()));
            let event = self.answer(of, work, t);
            self.tell(event);
        }
        !self.finished
    }

    fn propose(&mut self, t: &mut Tape) {
        let event = match t.below(6) {
            0..=2 => {
                let turn = if t.once_in(3) { self.proposals.taken.last().copied() } else { None };
                Event::ToolsProposed { calls: self.calls(t), turn }
            }
            3 | 4 => {
                let request = torn_history();
                let skills = [vec![], vec![HostSkill::Repair], vec![HostSkill::Repair, HostSkill::Reduce]];
                let proposal = TurnProposal {
                    targets: if t.once_in(3) { vec![TARGETS[t.below(3)].into()] } else { Vec::new() },
                    measure: Some(measure(&ByteEstimate, &request, &[])),
                    can: skills[t.below(3)].clone(),
                    deadline: t.once_in(9).then(|| self.now.saturating_add(Nanos::from_secs(3))),
                };
                self.requests.insert(ProposalId(self.state.seq + 1), request);
                Event::TurnProposed(proposal)
            }
            _ => match t.below(4) {
                0 => Event::OutputProposed { output: r#"{"total": 1}"#.into() },
                1 => Event::ToolsProposed { calls: Vec::new(), turn: None },
                2 => Event::TurnProposed(TurnProposal {
                    targets: vec!["nobody".into()],
                    ..TurnProposal::default()
                }),
                _ => Event::OutputProposed { output: "{".into() },
            },
        };
        self.tell(event);
    }

    fn withdraw(&mut self, t: &mut Tape) {
        let open: Vec<ProposalId> = self.proposals.open.iter().copied().collect();
        let proposal = open[t.below(open.len())];
        let call = t.once_in(2).then(|| u32::try_from(t.below(4)).unwrap());
        self.tell(Event::ProposalWithdrawn { proposal, call });
    }

    fn withdraw_if_open(&mut self, proposal: ProposalId) {
        if self.proposals.open.contains(&proposal) {
            self.tell(Event::ProposalWithdrawn { proposal, call: None });
        }
    }

    fn answer(&mut self, of: ProposalRef, work: Work, t: &mut Tape) -> Event {
        match work {
            Work::PrepareTurn(_) => panic!("a host with its own loop measures by itself"),
            Work::CallModel(call) => match t.below(4) {
                0 => call.failed(failure(t)),
                1 => call.responded(ModelReply { opaque: true, ..ModelReply::default() }),
                2 => {
                    let calls = self.calls(t);
                    call.responded(ModelReply { calls, ..ModelReply::default() })
                }
                _ => call.responded(ModelReply { text: "done".into(), ..ModelReply::default() }),
            },
            Work::RunTool(run) => match t.below(4) {
                0 => run.finished(ToolOutcome::Ok { data: json!({"x": 1}) }),
                1 => run.finished(ToolOutcome::Done),
                _ => {
                    let effects = [EffectState::NotStarted, EffectState::Started, EffectState::Unknown];
                    run.finished(ToolOutcome::Failed { failure: failure(t), effect: t.of(&effects) })
                }
            },
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
                ask.answered(t.of(&answers))
            }
            Work::Consult(consult) => consult.decided(t.of(&[
                PlannerDecision::TellModel,
                PlannerDecision::FinalTurn,
                PlannerDecision::Fail,
            ])),
            Work::RepairHistory(work) => {
                let found = repair(&self.requests[&of.proposal], work.orphan_calls, work.malformed_calls);
                work.repaired(found)
            }
            Work::ReduceContext(work) => {
                let request = &self.requests[&of.proposal];
                let weights: Vec<u64> = request.iter().map(estimate_message).collect();
                let found = reduce(self.interpreter.policy(), &work.plan, request, &weights, &ByteEstimate);
                work.reduced(found)
            }
            Work::Summarize(work) => {
                work.responded(ModelReply { text: "In short.".into(), ..ModelReply::default() })
            }
        }
    }
}

pub(crate) fn played(choices: Vec<u16>) -> Host {
    let mut t = Tape::new(choices);
    let made = made(t.below(POLICIES));
    let deadline = t.once_in(6).then(|| START.saturating_add(Nanos::from_secs(30)));
    let mut host = Host::start(&made.policy, deadline);
    for _ in 0..5_000 {
        if !host.act(&mut t) {
            return host;
        }
    }
    panic!("law 3: the run does not end");
}

/// Any order of proposals, answers and withdrawals ends, each proposal with one note, within every limit.
/// The work that a directive drops.
const fn dropped(directive: &Directive) -> Option<WorkId> {
    match directive.order {
        DirectiveKind::Note(Note::Dropped { work }) => Some(work),
        _ => None,
    }
}

#[test]
fn proposals_side_by_side_keep_every_law() {
    count::holds("proposals side by side keep every law", file!(), CHOICES, |choices| {
        let host = played(choices);
        let (mut state, mut fold) = (State::new(), SessionFold::new());
        for (at, (envelope, told)) in host.events.iter().zip(&host.told).enumerate() {
            if at % 8 == host.events.len() % 8 {
                let read: State = serde_json::from_slice(&state.to_bytes()).unwrap();
                assert_eq!(read, state, "law 8: the state is read back as it was written");
                assert_eq!(read.digest(), state.digest(), "law 8: a digest is of what there is");
                state = read;
            }
            let again = serde_json::to_string(&host.interpreter.step(&mut state, envelope.clone())).unwrap();
            assert_eq!(&again, told, "law 8: the same events give the same directives, byte for byte");
            fold.take(&host.interpreter, envelope.clone());
            assert_eq!(fold.state().digest(), state.digest(), "law 8: the fold of a log has its states");
        }
        host.events.len()
    });
}

/// A host that is killed with much in flight withdraws it all: each proposal has its end, and nothing runs again.
#[test]
fn what_a_killed_host_had_under_way_is_withdrawn() {
    count::holds("what a killed host had in flight is withdrawn", file!(), CHOICES, |choices| {
        let whole = played(choices);
        let killed_at = whole.events.len() * 2 / 3;
        let mut fold = SessionFold::new();
        for envelope in &whole.events[..killed_at] {
            fold.take(&whole.interpreter, envelope.clone());
        }
        if fold.state().is_over() {
            return 0;
        }
        let open: Vec<WorkId> = fold.open().map(Work::id).collect();
        let (mut state, ..) = fold.into_parts();
        assert!(open.iter().all(|work| state.proposal_of(*work).is_some()), "each knows its proposal");
        let under_way: Vec<ProposalId> = state.open_proposals().collect();
        for proposal in under_way {
            // What one leaves may be what another one waited for.
            if !state.open_proposals().any(|open| open == proposal) {
                continue;
            }
            let event = Event::ProposalWithdrawn { proposal, call: None };
            let envelope = Envelope { seq: state.seq + 1, now: state.now, event };
            let Directives(list) = whole.interpreter.step(&mut state, envelope);
            let ends = |note: &Note| match note {
                Note::Settled(settled) => settled.proposal == proposal,
                Note::Finish { .. } => true,
                _ => false,
            };
            let of_it =
                list.iter().filter(|directive| directive.of.is_some_and(|of| of.proposal == proposal));
            for directive in of_it {
                assert!(
                    matches!(directive.order, DirectiveKind::Note(_)),
                    "nothing is begun for it: {directive:?}"
                );
            }
            let has_end = list
                .iter()
                .any(|directive| matches!(&directive.order, DirectiveKind::Note(note) if ends(note)));
            assert!(
                has_end,
                "law 2: {proposal} has no end: {list:?}; {}",
                serde_json::to_string(&state).unwrap()
            );
        }
        assert!(state.is_over() || state.open_proposals().next().is_none());
        killed_at
    });
}

/// Rules under which one proposal has nothing to do with another of other tools.
const APART: &[&str] = &[
    "'*a': {retry: {max_attempts: 4, backoff: {kind: constant, delay: 1s}}}",
    "'*a': {concurrency: 1, on_exhausted: tell_model}",
    "'*a': {breaker: {failures: 2, open_for: 5s}, retry: {max_attempts: 3, backoff: {kind: constant, delay: 0s}}}",
    "alpha: {on_uncertain_effect: {kind: verify, tool: witness, arguments: {n: args.n}, acted: result.count > 0}}",
];
/// What none of them has: a loop detector, budgets and reducers are of all calls, and jitter is of the number of a call.
const BESIDE: &str = "
version: 1
retry: {budget: {kind: none}, backoff: {kind: constant, delay: 2s}}
turn: {calls: {parallel: 2}}
tools:
  '*': {loop_guard: {enabled: false}}
";

/// What was decided about a proposal, without numbers that count everything in the run.
fn decided(host: &Host, proposal: ProposalId) -> Vec<Value> {
    let lists = host.told.iter().flat_map(|told| {
        let list: Vec<Value> = serde_json::from_str(told).unwrap();
        list
    });
    let own = lists.filter(|directive| directive["of"]["proposal"] == proposal.0);
    let plain = own.map(|mut directive| {
        let fields = directive.as_object_mut().unwrap();
        fields["of"]["proposal"] = Value::Null;
        for number in ["work", "idempotency_key", "proposal", "spill", "turn"] {
            fields.remove(number);
        }
        directive
    });
    plain.collect()
}

/// The calls of one tool only, answered by its own tape, whatever happens beside it.
struct Line {
    proposal: ProposalId,
    tape: Vec<u16>,
}

impl Line {
    fn begin(host: &mut Host, tool: &str, tape: &[u16]) -> Self {
        let proposal = ProposalId(host.state.seq + 1);
        let mut t = Tape::new(tape.to_vec());
        let call = |at: usize, t: &mut Tape| {
            let arguments = t.of(&[r#"{"n": 1}"#, r#"{"n": 2}"#, "{}"]).to_owned();
            ToolCall { id: format!("{tool}{at}"), name: tool.into(), arguments }.into()
        };
        let calls = (0..=t.below(3)).map(|at| call(at, &mut t)).collect();
        host.tell(Event::ToolsProposed { calls, turn: None });
        Self { proposal, tape: tape.to_vec() }
    }

    /// Answers its first piece of work. What it answers depends on nothing but the call and the attempt.
    fn answer(&self, host: &mut Host) -> bool {
        let Some(at) = host.open.iter().position(|(of, _)| of.proposal == self.proposal) else {
            return false;
        };
        let (of, work) = host.open.remove(at);
        let attempt = match &work {
            Work::RunTool(run) => run.attempt as usize,
            _ => 0,
        };
        let from = (of.call.unwrap_or_default() as usize * 5 + attempt) % self.tape.len().max(1);
        let mut t = Tape::new(self.tape[from.min(self.tape.len())..].to_vec());
        let event = host.answer(of, work, &mut t);
        host.now = START;
        host.tell(event);
        true
    }
}

fn apart(policy: &str) -> Host {
    let text = format!("{BESIDE}  {policy}\n");
    Host::start(
        &Policy::from_yaml("policy.yaml", &text).unwrap_or_else(|report| panic!("{report}\n{text}")),
        None,
    )
}

/// What is decided about one proposal does not depend on another one that shares nothing with it, nor on its withdrawal.
#[test]
fn a_proposal_is_decided_as_if_it_were_alone() {
    count::holds("a proposal is decided as if it were alone", file!(), 120, |choices| {
        let mut t = Tape::new(choices.clone());
        let policy = APART[t.below(APART.len())];
        let half = choices.len() / 3;
        let (of_a, rest) = choices.split_at(half);
        let (of_b, order) = rest.split_at(half);
        let begin_b = |host: &mut Host| Line::begin(host, "beta", of_b);
        let mut order = Tape::new(order.to_vec());
        let (withdraws, b_first) = (order.once_in(3), order.once_in(2));
        let mut alone = apart(policy);
        if b_first {
            // The jitter of a call is of its number.
            let proposal = begin_b(&mut alone).proposal;
            alone.withdraw_if_open(proposal);
        }
        let line = Line::begin(&mut alone, "alpha", of_a);
        while line.answer(&mut alone) {}
        let expected = decided(&alone, line.proposal);

        let mut both = apart(policy);
        let early = b_first.then(|| begin_b(&mut both));
        let a = Line::begin(&mut both, "alpha", of_a);
        let b = early.unwrap_or_else(|| begin_b(&mut both));
        loop {
            if withdraws && order.once_in(4) {
                both.withdraw_if_open(b.proposal);
            }
            let (first, second) = if order.once_in(2) { (&a, &b) } else { (&b, &a) };
            if !first.answer(&mut both) && !second.answer(&mut both) {
                break;
            }
        }
        assert_eq!(decided(&both, a.proposal), expected, "law 9: of {policy}");
        both.events.len()
    });
}
