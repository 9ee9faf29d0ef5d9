//! Everything the interpreter remembers between two events: plain data that can be written down and read back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::breaker::Breaker;
use super::budget::Budgets;
use super::directive::{Outcome, WorkId};
use super::event::{Drive, FinishReason, ToolOutcome, TurnMeasure};
use super::failure::{EffectState, Failure};
use super::gate::{Gate, Place};
use super::known_windows::KnownWindows;
use super::overhead::Overheads;
use super::reason::Reason;
use super::reductions::{Reducing, Reductions};
use super::repeats::Lately;
use super::result::RunFacts;
use super::retry::Progress;
use super::scales::Scales;
use super::spending::Spending;
use super::targets::{Resting, Rotation};
use crate::policy::{Attempts, BreakerScope, CallOverride, Effect, ErrorClass, Problem};
use crate::session::{AttemptRecord, FinalReason, RetryExhausted, Slices, StopReason, Usage};
use crate::time::{Instant, Nanos};

/// The version of the form below.
pub const STATE_FORMAT: u32 = 1;

/// The state of one run.
///
/// It holds counters, slices and the tool calls under way, but no conversation: that is the host's. The same
/// policy, tools and events always make the same state, byte for byte, in whatever order parallel tools end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// [`STATE_FORMAT`].
    pub format: u32,
    /// The run's id; empty before it starts.
    pub run: String,
    /// The number of the last event.
    pub seq: u64,
    /// The time of the last event.
    pub now: Instant,
    /// The current turn; 0 before the first.
    pub turn: u32,
    /// Tokens so far.
    pub usage: Usage,
    /// The slices.
    pub slices: Slices,
    /// How the run ended; `None` while it goes on.
    pub outcome: Option<Outcome>,
    pub(super) seed: u64,
    pub(super) drive: Drive,
    pub(super) targets: Vec<String>,
    pub(super) deadline: Option<Instant>,
    pub(super) effects: BTreeMap<String, Effect>,
    pub(super) next_work: u64,
    pub(super) work: BTreeMap<WorkId, Pending>,
    pub(super) rotation: Rotation,
    /// Models that are passed over for a while.
    #[serde(default, skip_serializing_if = "Resting::is_empty")]
    pub(super) resting: Resting,
    /// How large the windows of the models are.
    #[serde(default, skip_serializing_if = "KnownWindows::is_empty")]
    pub(super) known_windows: KnownWindows,
    /// What providers add to each request, as far as it was known when the run began.
    #[serde(default, skip_serializing_if = "Overheads::is_empty")]
    pub(super) overheads: Overheads,
    /// What was learned from the tokens that providers report.
    #[serde(default, skip_serializing_if = "Scales::is_empty")]
    pub(super) scales: Scales,
    /// The tokens of the turn under way, as the host counted them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) counted: Option<u64>,
    pub(super) model: Option<Series>,
    pub(super) batches: u64,
    pub(super) batch: Vec<Slot>,
    /// How many calls at the head of the batch are settled.
    pub(super) settled: usize,
    pub(super) corrections: BTreeMap<String, Series>,
    pub(super) output: Option<Series>,
    pub(super) breakers: BTreeMap<String, Breaker>,
    /// The places of the calls of the batch, and the calls that wait for one.
    #[serde(default, skip_serializing_if = "Gate::is_empty")]
    pub(super) gate: Gate,
    /// The tools that models are not shown for now, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) hidden: Vec<String>,
    /// What is remembered to see that a model repeats itself.
    #[serde(default, skip_serializing_if = "Lately::is_empty")]
    pub(super) lately: Lately,
    /// What has been drawn on budgets.
    #[serde(default, skip_serializing_if = "Budgets::is_empty")]
    pub(super) budgets: Budgets,
    /// What the run has spent.
    #[serde(default, skip_serializing_if = "Spending::is_empty")]
    pub(super) spending: Spending,
    pub(super) last_turn: LastTurn,
    /// Why the last turn is the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) final_reason: Option<FinalReason>,
    /// How often a report was delivered and refused.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    pub(super) refused_reports: u32,
    /// A text that would hold as the report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) pending_report: Option<Value>,
    /// What the model is told with the attempts of this turn only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) guidance: Vec<Guidance>,
    /// How the last reply of the model ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) last_finish: Option<FinishReason>,
    /// Whether the history was looked at in this turn because a provider refused it.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    pub(super) history_asked: bool,
    /// The refusal, while it is looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) history_refusal: Option<Failure>,
    /// What is remembered of reductions.
    #[serde(default, skip_serializing_if = "Reductions::is_empty")]
    pub(super) reductions: Reductions,
    /// The last failure there was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) last_error: Option<(ErrorClass, String)>,
    pub(super) hold: Option<Hold>,
    /// Why the run was asked to end: nothing is waited for any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) stop: Option<String>,
    pub(super) report: Option<Value>,
    /// The turn in which a model was last asked.
    pub(super) asked_turn: u32,
    /// What the model is told after the calls under way have their results.
    pub(super) afterwords: Vec<Guidance>,
    /// What the planner is being asked about.
    pub(super) consulted: Option<RetryExhausted>,
    /// The tools all calls of which a person has agreed to.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) agreed: BTreeSet<String>,
    /// Whether a call of the batch went well.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    pub(super) round_ok: bool,
    /// Rounds in a row in which no call went well.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    pub(super) failed_rounds: u32,
}

/// What a piece of work under way is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Pending {
    Prepare,
    Repair(Repairing),
    Reduce(Reducing),
    /// A summary of what the reduction leaves out.
    Summary(Reducing),
    Model,
    /// The tool run of a slot of the batch.
    Tool(usize),
    WaitModel,
    WaitTool(usize),
    /// The wait before the next turn.
    WaitTurn,
    ConsultTool(usize),
    ConsultModel,
    ConsultOutput,
    /// The question whether the call of a slot may run.
    Approve(usize),
    /// The question whether it may run again.
    ApproveAgain(usize),
    /// The run of another tool that finds out whether that of a slot has acted.
    Verify(usize),
}

/// What goes on after a repair of the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Repairing {
    /// The turn, which begins.
    Prepared(TurnMeasure),
    /// The call of a model that refused the history.
    Refused,
}

/// Whether the current turn allows only the final report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum LastTurn {
    #[default]
    No,
    /// The next one will.
    Next,
    /// This one does.
    Now,
}

/// A series of attempts at one thing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Series {
    pub(super) started: Instant,
    pub(super) slept: Nanos,
    pub(super) history: Vec<AttemptRecord>,
    /// Why no further attempt is made; what is wrong from now on is refused at once.
    #[serde(default)]
    pub(super) over: Option<StopReason>,
}

/// One tool call of the batch under way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Slot {
    pub(super) call: String,
    pub(super) tool: String,
    /// Shared, as a slot is copied more often than it is written.
    pub(super) arguments: Arc<Value>,
    pub(super) planner: Option<CallOverride>,
    pub(super) series: Series,
    /// What is known of its last run.
    #[serde(default, skip_serializing_if = "RunFacts::is_empty")]
    pub(super) ran: RunFacts,
    /// Its place among those that run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) place: Option<Place>,
    /// What the attempt that failed last has left: the rules may have changed since, and not let it run again any more.
    #[serde(default = "not_started", skip_serializing_if = "EffectState::is_not_started")]
    pub(super) left: EffectState,
    /// The rules have changed since it began, and a person is to be asked before it runs again.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    pub(super) to_approve: bool,
    pub(super) phase: SlotPhase,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum SlotPhase {
    /// Running, or waiting for another attempt.
    UnderWay,
    /// Its arguments hold, and it waits for a place.
    Waiting,
    /// It has a place, and a person is to be asked about it, one question after the other.
    Unasked,
    /// A person is being asked about it.
    Asked,
    /// Failed, and it is being found out whether it has acted.
    Doubtful(Box<Doubt>),
    /// Answered, but the planner has still to decide what is done about it.
    WithPlanner,
    /// An attempt ended; its turn to be looked at comes when the calls before it are settled.
    Ended(ToolOutcome, Instant),
    /// Refused before it ran; written down when its turn comes.
    Refused(Refusal),
    /// The arguments are wrong; counted when its turn comes.
    Invalid(Invalid),
    /// The final report, looked at when its turn comes.
    Report(String),
    /// Answered.
    Settled,
}

/// A run that failed and may have acted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Doubt {
    pub(super) failure: Failure,
    pub(super) effect: EffectState,
    pub(super) at: Instant,
}

/// A call that does not run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Refusal {
    pub(super) class: ErrorClass,
    pub(super) text: String,
    pub(super) because: Vec<Reason>,
}

/// The wait before the next turn: what was corrected may not be tried again earlier.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Hold {
    pub(super) until: Instant,
    pub(super) subject: Subject,
    pub(super) because: Vec<Reason>,
}

/// What the model is told about a kind of mistake in its replies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Guidance {
    pub(super) class: ErrorClass,
    pub(super) text: String,
}

/// What a wait is about, for people.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Subject {
    pub(super) name: String,
    pub(super) attempt: u32,
    pub(super) max_attempts: Option<u32>,
    pub(super) error_type: ErrorClass,
    pub(super) message: String,
}

/// Arguments that do not hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Invalid {
    pub(super) class: ErrorClass,
    pub(super) problems: Vec<Problem>,
}

impl State {
    /// The state before the first event.
    pub fn new() -> Self {
        Self {
            format: STATE_FORMAT,
            run: String::new(),
            seq: 0,
            now: Instant::default(),
            turn: 0,
            usage: Usage::default(),
            slices: Slices::default(),
            outcome: None,
            seed: 0,
            drive: Drive::default(),
            targets: Vec::new(),
            deadline: None,
            effects: BTreeMap::new(),
            next_work: 0,
            work: BTreeMap::new(),
            rotation: Rotation::default(),
            resting: Resting::default(),
            known_windows: KnownWindows::default(),
            overheads: Overheads::default(),
            scales: Scales::default(),
            counted: None,
            model: None,
            batches: 0,
            batch: Vec::new(),
            settled: 0,
            corrections: BTreeMap::new(),
            output: None,
            breakers: BTreeMap::new(),
            gate: Gate::default(),
            hidden: Vec::new(),
            lately: Lately::default(),
            budgets: Budgets::default(),
            spending: Spending::default(),
            last_turn: LastTurn::default(),
            final_reason: None,
            refused_reports: 0,
            pending_report: None,
            guidance: Vec::new(),
            last_finish: None,
            history_asked: false,
            history_refusal: None,
            reductions: Reductions::default(),
            last_error: None,
            hold: None,
            stop: None,
            report: None,
            asked_turn: 0,
            afterwords: Vec::new(),
            consulted: None,
            agreed: BTreeSet::new(),
            round_ok: false,
            failed_rounds: 0,
        }
    }

    /// The state before the first event of the next run of the same session: as new, but for the slices, what providers
    /// said about windows and tokens, and
    /// breakers and budgets that last longer than a run. Events, work and batches of calls are counted on: no number comes twice.
    #[must_use]
    pub fn next_run(&self) -> Self {
        let stays = |scope| matches!(scope, BreakerScope::Session | BreakerScope::Shared);
        let breakers = self.breakers.iter().filter(|(_, known)| stays(known.scope()));
        let breakers = breakers.map(|(tool, known)| (tool.clone(), known.without_probes()));
        let (known_windows, scales) = (self.known_windows.next_run(), self.scales.clone());
        Self {
            breakers: breakers.collect(),
            budgets: self.budgets.next_run(),
            known_windows,
            overheads: self.overheads.clone(),
            scales,
            now: self.now,
            seq: self.seq,
            next_work: self.next_work,
            batches: self.batches,
            slices: self.slices.clone(),
            ..Self::new()
        }
    }

    /// Digest of the whole state: 32 hexadecimal digits, the same wherever the same events led.
    pub fn digest(&self) -> String {
        Self::digest_of(&self.to_bytes())
    }

    /// The state as JSON, the same bytes wherever the same events led.
    pub fn to_bytes(&self) -> Vec<u8> {
        // Every map in the state is ordered, so the text is canonical.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// The digest of a state that was written as JSON.
    pub fn digest_of(bytes: &[u8]) -> String {
        format!("{:032x}", xxhash_rust::xxh3::xxh3_128(bytes))
    }

    /// Whether the run is over.
    pub const fn is_over(&self) -> bool {
        self.outcome.is_some()
    }

    /// Who runs the loop of turns.
    pub const fn drive(&self) -> Drive {
        self.drive
    }

    /// What the run has spent.
    pub const fn spending(&self) -> &Spending {
        &self.spending
    }

    /// The breaker of a tool, if it was ever run.
    pub fn breaker(&self, tool: &str) -> Option<&Breaker> {
        self.breakers.get(tool)
    }

    /// The model under way.
    pub(super) fn target(&self) -> Option<&String> {
        self.targets.get(self.rotation.current())
    }

    pub(super) fn issue(&mut self, pending: Pending) -> WorkId {
        self.next_work = self.next_work.saturating_add(1);
        let id = WorkId(self.next_work);
        self.work.insert(id, pending);
        id
    }
}

/// What older sessions do not say decides nothing.
const fn not_started() -> EffectState {
    EffectState::NotStarted
}

impl Default for State {
    fn default() -> Self {
        Self::new()
    }
}

impl Slot {
    /// A copy without the attempts so far, of which there may be many.
    pub(super) fn without_history(&self) -> Self {
        let Series { started, slept, over, .. } = self.series;
        Self {
            call: self.call.clone(),
            tool: self.tool.clone(),
            arguments: Arc::clone(&self.arguments),
            planner: self.planner.clone(),
            series: Series { started, slept, history: Vec::new(), over },
            ran: self.ran.clone(),
            place: self.place,
            left: self.left,
            to_approve: self.to_approve,
            phase: self.phase.clone(),
        }
    }
}

impl Series {
    pub(super) fn begin(now: Instant) -> Self {
        Self { started: now, ..Self::default() }
    }

    /// The attempt under way, from 1.
    pub(super) fn attempt(&self) -> u32 {
        u32::try_from(self.history.len()).unwrap_or(u32::MAX).saturating_add(1)
    }

    pub(super) fn progress(&self) -> Progress {
        Progress { started: self.started, attempt: self.attempt(), slept: self.slept }
    }

    /// Goes on with the next try, of which `most` allows so many. Says why it is refused at once, if it is.
    pub(super) fn resume(&mut self, most: Attempts) -> Option<StopReason> {
        match self.over {
            // A failure that was not to be repeated ended nothing but itself.
            Some(StopReason::NeverRetry | StopReason::NotRetryable) => {
                self.history.pop();
                self.over = None;
            }
            // The rules of another call may have been tighter.
            Some(StopReason::Attempts) => self.over = None,
            _ => {}
        }
        let used = u32::try_from(self.history.len()).unwrap_or(u32::MAX);
        let over = self.over.or_else(|| (!most.allow_after(used)).then_some(StopReason::Attempts));
        if over.is_some() {
            // What comes after the last attempt takes its place: it is not one attempt more.
            self.history.pop();
        }
        over
    }

    /// The wait after the last attempt is this one.
    pub(super) fn waits(&mut self, delay: Nanos) {
        if let Some(last) = self.history.last_mut() {
            self.slept = self.slept.saturating_sub(last.delay).saturating_add(delay);
            last.delay = delay;
        }
    }

    /// Writes down that the attempt under way failed, and what is waited for the next.
    pub(super) fn record(&mut self, error_type: ErrorClass, message: &str, at: Instant, delay: Nanos) {
        self.slept = self.slept.saturating_add(delay);
        self.history.push(AttemptRecord {
            attempt: self.attempt(),
            error_type,
            message: message.to_owned(),
            at,
            delay,
        });
    }
}
