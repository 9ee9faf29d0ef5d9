//! Everything the interpreter remembers between two events: plain data that can be written down and read back.

mod batch;
mod model_turn;
mod series;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(super) use batch::{Batch, Doubt, Invalid, Refusal, Slot, SlotPhase};
pub(super) use model_turn::{Guidance, ModelTurn};
pub(crate) use series::Series;

use super::breaker::Breaker;
use super::budget::Budgets;
use super::directive::{Outcome, WorkId};
use super::event::{Drive, TurnMeasure};
use super::machine::{FinalTurn, ModelHealth, ToolHealth};
use super::reason::Reason;
use super::reductions::Reducing;
use super::repeats::LoopDetector;
use super::spending::Spending;
use crate::policy::{Effect, ErrorClass};
use crate::session::{RetryExhausted, Slices, Usage};
use crate::time::Instant;

/// The version of the form below.
pub const STATE_FORMAT: u32 = 2;

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
    /// How the run ended; `None` before that.
    pub outcome: Option<Outcome>,
    pub(super) context: RunContext,
    pub(super) sequence: Sequence,
    pub(super) work: BTreeMap<WorkId, Pending>,
    pub(super) model_turn: ModelTurn,
    pub(super) batch: Batch,
    pub(super) tools: ToolHealth,
    pub(super) models: ModelHealth,
    /// What is remembered to see that a model repeats itself.
    #[serde(default, skip_serializing_if = "LoopDetector::is_empty")]
    pub(super) lately: LoopDetector,
    /// What has been drawn on budgets.
    #[serde(default, skip_serializing_if = "Budgets::is_empty")]
    pub(super) budgets: Budgets,
    /// What the run has spent.
    #[serde(default, skip_serializing_if = "Spending::is_empty")]
    pub(super) spending: Spending,
    pub(super) report: ReportSeries,
    pub(super) ending: FinalTurn,
    pub(super) pace: Pace,
    /// The last failure there was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) last_error: Option<(ErrorClass, String)>,
    /// What the planner is being asked about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) consulted: Option<RetryExhausted>,
}

/// What a run was started with.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct RunContext {
    pub(super) seed: u64,
    pub(super) drive: Drive,
    pub(super) targets: Vec<String>,
    pub(super) deadline: Option<Instant>,
    pub(super) effects: BTreeMap<String, Effect>,
}

/// Counters that go up through all runs of a session: no number comes twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Sequence {
    /// The last piece of work.
    pub(super) work: u64,
    /// The last batch.
    pub(super) batches: u64,
}

/// The final report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct ReportSeries {
    pub(super) series: Option<Series>,
    /// How often one was delivered and refused.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    pub(super) refused: u32,
    /// A text that would hold as the report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) pending: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) accepted: Option<Value>,
}

/// What comes between a turn and the next.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Pace {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) hold: Option<Hold>,
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

/// What a repair of the history was needed for, and continues after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Repairing {
    /// The turn, which begins.
    Prepared(TurnMeasure),
    /// The call of a model that refused the history.
    Refused,
}

/// The wait before the next turn: what was corrected may not be tried again earlier.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Hold {
    pub(super) until: Instant,
    pub(super) subject: Subject,
    pub(super) because: Vec<Reason>,
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
            context: RunContext::default(),
            sequence: Sequence::default(),
            work: BTreeMap::new(),
            model_turn: ModelTurn::default(),
            batch: Batch::default(),
            tools: ToolHealth::default(),
            models: ModelHealth::default(),
            lately: LoopDetector::default(),
            budgets: Budgets::default(),
            spending: Spending::default(),
            report: ReportSeries::default(),
            ending: FinalTurn::default(),
            pace: Pace::default(),
            last_error: None,
            consulted: None,
        }
    }

    /// The state before the first event of the next run of the same session: as new, but for the slices, what is known of
    /// models, breakers and budgets that last longer than a run, and the counters.
    #[must_use]
    pub fn next_run(&self) -> Self {
        Self {
            tools: self.tools.next_run(),
            models: self.models.next_run(),
            budgets: self.budgets.next_run(),
            now: self.now,
            seq: self.seq,
            sequence: self.sequence,
            slices: self.slices.clone(),
            ..Self::new()
        }
    }

    /// Digest of the whole state: its format, a colon and 32 hexadecimal digits (XXH3, 128 bits, of [`to_bytes`](Self::to_bytes)),
    /// the same wherever the same events led. Example: `2:5f3c0e9a7d1b4c2e8f6a0b9d3e7c1a5f`. In format 1 the digits stood alone.
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
        format!("{STATE_FORMAT}:{:032x}", xxhash_rust::xxh3::xxh3_128(bytes))
    }

    /// Whether this is the digest of a state in another format, which says nothing about one in this format.
    pub fn is_of_another_format(digest: &str) -> bool {
        digest.split_once(':').map_or("1", |(format, _)| format).parse() != Ok(STATE_FORMAT)
    }

    /// Whether the run is over.
    pub const fn is_over(&self) -> bool {
        self.outcome.is_some()
    }

    /// Who runs the loop of turns.
    pub const fn drive(&self) -> Drive {
        self.context.drive
    }

    /// What the run has spent.
    pub const fn spending(&self) -> &Spending {
        &self.spending
    }

    /// The breaker of a tool, if it was ever run.
    pub fn breaker(&self, tool: &str) -> Option<&Breaker> {
        self.tools.breaker(tool)
    }

    /// The model under way.
    pub(super) fn target(&self) -> Option<&String> {
        self.context.targets.get(self.model_turn.rotation.current())
    }

    pub(super) fn issue(&mut self, pending: Pending) -> WorkId {
        self.sequence.work = self.sequence.work.saturating_add(1);
        let id = WorkId(self.sequence.work);
        self.work.insert(id, pending);
        id
    }
}

impl Default for State {
    fn default() -> Self {
        Self::new()
    }
}
