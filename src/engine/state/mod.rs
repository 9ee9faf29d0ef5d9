//! Everything the interpreter remembers between two events: plain data that can be written down and read back.

mod series;
mod tracked;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub(crate) use series::Series;
pub(super) use tracked::{Part, Tracked, digest_of_json, digest_of_parts};

use super::breaker::Breaker;
use super::budget::Budgets;
use super::directive::{Outcome, ProposalId};
use super::event::Drive;
use super::machine::{
    CallQueue, FinalTurn, LastSeen, ModelHealth, OpenProposal, ReportSeries, ToolHealth, TurnLoop, WorkTable,
};
use super::repeats::LoopDetector;
use super::spending::Spending;
use crate::policy::Effect;
use crate::session::{Slices, Usage};
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
    pub(super) slices: Tracked<Slices>,
    /// How the run ended; `None` before that.
    pub outcome: Option<Outcome>,
    pub(super) context: Tracked<RunContext>,
    pub(super) work: WorkTable,
    #[serde(default, skip_serializing_if = "CallQueue::is_empty")]
    pub(super) queue: CallQueue,
    /// How many batches there were in the session.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    pub(super) batches: u64,
    /// The turn that the interpreter drives, and the calls of its reply.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    pub(super) own: Tracked<OpenProposal>,
    /// What a host with its own loop has proposed, and is not settled.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) proposals: BTreeMap<ProposalId, Tracked<OpenProposal>>,
    /// How the run ends as soon as every proposal is settled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) closing: Option<Outcome>,
    pub(super) tools: Tracked<ToolHealth>,
    pub(super) models: Tracked<ModelHealth>,
    /// What is remembered to see that a model repeats itself.
    #[serde(default, skip_serializing_if = "LoopDetector::is_empty")]
    pub(super) loops: Tracked<LoopDetector>,
    /// What has been drawn on budgets.
    #[serde(default, skip_serializing_if = "Budgets::is_empty")]
    pub(super) budgets: Tracked<Budgets>,
    /// What the run has spent.
    #[serde(default, skip_serializing_if = "Spending::is_empty")]
    pub(super) spending: Spending,
    #[serde(default, skip_serializing_if = "ReportSeries::is_empty")]
    pub(super) report: Tracked<ReportSeries>,
    pub(super) ending: FinalTurn,
    #[serde(default, skip_serializing_if = "TurnLoop::is_empty")]
    pub(super) turns: Tracked<TurnLoop>,
    #[serde(default, skip_serializing_if = "LastSeen::is_empty")]
    pub(super) last: LastSeen,
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
            slices: Tracked::default(),
            outcome: None,
            context: Tracked::default(),
            work: WorkTable::default(),
            queue: CallQueue::default(),
            batches: 0,
            own: Tracked::default(),
            proposals: BTreeMap::new(),
            closing: None,
            tools: Tracked::default(),
            models: Tracked::default(),
            loops: Tracked::default(),
            budgets: Tracked::default(),
            spending: Spending::default(),
            report: Tracked::default(),
            ending: FinalTurn::default(),
            turns: Tracked::default(),
            last: LastSeen::default(),
        }
    }

    /// The state before the first event of the next run of the same session: as new, but for the slices, what is known of
    /// models, breakers and budgets that last longer than a run, and the counters.
    #[must_use]
    pub fn next_run(&self) -> Self {
        Self {
            tools: Tracked::new(self.tools.next_run()),
            models: Tracked::new(self.models.next_run()),
            budgets: Tracked::new(self.budgets.next_run()),
            now: self.now,
            seq: self.seq,
            work: self.work.next_run(),
            batches: self.batches,
            slices: self.slices.clone(),
            ..Self::new()
        }
    }

    /// Digest of the whole state: its format, a colon and 32 hexadecimal digits (XXH3, 128 bits, of the digests of its parts),
    /// the same wherever the same events led. It costs what has changed since it was asked for last. Example:
    /// `2:5f3c0e9a7d1b4c2e8f6a0b9d3e7c1a5f`. In format 1 the digits stood alone.
    pub fn digest(&self) -> String {
        let Self {
            format,
            run,
            seq,
            now,
            turn,
            usage,
            slices,
            outcome,
            context,
            work,
            // Which calls wait, and for what, is known from the calls.
            queue: _,
            batches,
            own,
            proposals,
            closing,
            tools,
            models,
            loops,
            budgets,
            spending,
            report,
            ending,
            turns,
            last,
        } = self;
        let proposals = digest_of_parts(proposals.iter().map(|(proposal, open)| (proposal.0, open.digest())));
        let run = (format, run, seq, now, turn, usage, outcome, closing, ending, last);
        let work = (work, batches, own.digest(), proposals, spending);
        let parts = [
            slices.digest(),
            context.digest(),
            tools.digest(),
            models.digest(),
            loops.digest(),
            budgets.digest(),
            report.digest(),
            turns.digest(),
        ];
        format!("{STATE_FORMAT}:{:032x}", digest_of_json(&(run, work, parts)))
    }

    /// The state as JSON, the same bytes wherever the same events led.
    pub fn to_bytes(&self) -> Vec<u8> {
        // Every map in the state is ordered, so the text is canonical.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Whether this is the digest of a state in another format, which says nothing about one in this format.
    pub fn is_of_another_format(digest: &str) -> bool {
        digest.split_once(':').map_or("1", |(format, _)| format).parse() != Ok(STATE_FORMAT)
    }

    /// The slices.
    pub fn slices(&self) -> &Slices {
        &self.slices
    }

    /// Whether the run is over.
    pub const fn is_over(&self) -> bool {
        self.outcome.is_some()
    }

    /// Who runs the loop of turns.
    pub fn drive(&self) -> Drive {
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
}

impl Default for State {
    fn default() -> Self {
        Self::new()
    }
}

impl Part for Slices {}
impl Part for RunContext {}
impl Part for ToolHealth {}
impl Part for ModelHealth {}
impl Part for LoopDetector {}
impl Part for Budgets {}
impl Part for ReportSeries {}
impl Part for TurnLoop {}
