//! Everything the interpreter remembers between two events: plain data that can be written down and read back.

mod plain;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::breaker::CircuitBreaker;
use super::budget::RetryBudgets;
use super::directive::Outcome;
use super::event::DriveMode;
use super::known_windows::KnownWindows;
use super::machine::{
    CallQueue, FinalTurn, LastSeen, ModelHealth, OpenProposal, ReportSeries, RunContext, ToolHealth,
    TurnLoop, WorkTable,
};
use super::repeats::LoopDetector;
use super::spending::RunSpending;
use super::token_calibration::TokenCalibration;
use super::tracked::{DigestedPart, TrackedPart, digest_of_json, digest_of_parts};
use crate::engine::ids::ProposalId;
use crate::engine::memo::Memo;
use crate::policy::ErrorClass;
use crate::session::{SessionSlices, Usage};
use crate::time::Instant;

/// The version of the form below.
pub(crate) const STATE_FORMAT: u32 = 2;

/// The state of one run.
///
/// It holds counters, slices and the tool calls in flight, but no conversation: that is the host's. The same
/// policy, tools and events always make the same state, byte for byte, in whatever order parallel tools end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// The format that it is saved in.
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
    pub(super) slices: TrackedPart<SessionSlices>,
    /// How the run ended; `None` before that.
    pub outcome: Option<Outcome>,
    pub(super) context: TrackedPart<RunContext>,
    pub(super) work: WorkTable,
    #[serde(default, skip_serializing_if = "CallQueue::is_empty")]
    pub(super) queue: CallQueue,
    /// How many batches there were in the session.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    pub(super) batches: u64,
    /// The turn that the interpreter drives, and the calls of its reply.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    pub(super) own: TrackedPart<OpenProposal>,
    /// What a host with its own loop has proposed, and is not settled.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) proposals: BTreeMap<ProposalId, TrackedPart<OpenProposal>>,
    /// How the run ends as soon as every proposal is settled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) closing: Option<Outcome>,
    pub(super) tools: TrackedPart<ToolHealth>,
    pub(super) models: TrackedPart<ModelHealth>,
    /// What is remembered to see that a model repeats itself.
    #[serde(default, skip_serializing_if = "LoopDetector::is_empty")]
    pub(super) loops: TrackedPart<LoopDetector>,
    /// What has been drawn on budgets.
    #[serde(default, skip_serializing_if = "RetryBudgets::is_empty")]
    pub(super) budgets: TrackedPart<RetryBudgets>,
    /// What the run has spent.
    #[serde(default, skip_serializing_if = "RunSpending::is_empty")]
    pub(super) spending: RunSpending,
    #[serde(default, skip_serializing_if = "ReportSeries::is_empty")]
    pub(super) report: TrackedPart<ReportSeries>,
    pub(super) ending: FinalTurn,
    #[serde(default, skip_serializing_if = "TurnLoop::is_empty")]
    pub(super) turns: TrackedPart<TurnLoop>,
    #[serde(default, skip_serializing_if = "LastSeen::is_empty")]
    pub(super) last: LastSeen,
    /// The class of the failure that the last event brought.
    #[serde(skip)]
    pub(super) failed: Memo<ErrorClass>,
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
            slices: TrackedPart::default(),
            outcome: None,
            context: TrackedPart::default(),
            work: WorkTable::default(),
            queue: CallQueue::default(),
            batches: 0,
            own: TrackedPart::default(),
            proposals: BTreeMap::new(),
            closing: None,
            tools: TrackedPart::default(),
            models: TrackedPart::default(),
            loops: TrackedPart::default(),
            budgets: TrackedPart::default(),
            spending: RunSpending::default(),
            report: TrackedPart::default(),
            ending: FinalTurn::default(),
            turns: TrackedPart::default(),
            last: LastSeen::default(),
            failed: Memo::default(),
        }
    }

    /// The state before the first event of the next run of the same session: as new, but for the slices, what is known of
    /// models, breakers and budgets that last longer than a run, and the counters.
    #[must_use]
    pub fn next_run(&self) -> Self {
        Self {
            // Only what is about tools, models and the session outlives a run; what is about its turns begins again.
            tools: TrackedPart::new(self.tools.next_run()),
            models: TrackedPart::new(self.models.next_run()),
            budgets: TrackedPart::new(self.budgets.next_run()),
            now: self.now,
            // The log of a session is one sequence, so the number of its events continues, and with it the ids of
            // proposals.
            seq: self.seq,
            work: self.work.next_run(),
            // Keys of calls are made of the run's id and this number; it continues so that no log has two batches of
            // one number.
            batches: self.batches,
            slices: self.slices.clone(),
            ..Self::new()
        }
    }

    /// Digest of the whole state: its format, a colon and 32 hexadecimal digits (XXH3, 128 bits, of the digests of its parts),
    /// the same wherever the same events led. It costs what has changed since it was asked for last. Example:
    /// `2:5f3c0e9a7d1b4c2e8f6a0b9d3e7c1a5f`. In format 1 the digits stood alone.
    pub fn digest(&self) -> String {
        // Taken apart without `..`, so that a new field cannot be left out of the digest without a word.
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
            // Which calls wait, and for what, follows from the calls themselves; a digest of the queue would say the
            // same twice.
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
            failed: _,
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
        // With the format in front, so that a session of an older form is recognised as such and not reported as a
        // divergence.
        format!("{STATE_FORMAT}:{:032x}", digest_of_json(&(run, work, parts)))
    }

    /// The state as JSON, the same bytes wherever the same events led.
    pub fn to_bytes(&self) -> Vec<u8> {
        // Every map in the state is ordered by its keys, so equal states have equal bytes.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Whether this is the digest of a state in another format, which says nothing about one in this format.
    pub fn is_of_another_format(digest: &str) -> bool {
        // Format 1 wrote the digits alone.
        digest.split_once(':').map_or("1", |(format, _)| format).parse() != Ok(STATE_FORMAT)
    }

    /// The class of the failure that the last event brought; `None`: it brought none, or the run was over.
    pub const fn failure_class(&self) -> Option<ErrorClass> {
        self.failed.0
    }

    /// The slices.
    pub fn slices(&self) -> &SessionSlices {
        &self.slices
    }

    /// Whether the run is over.
    pub const fn is_over(&self) -> bool {
        self.outcome.is_some()
    }

    /// Who runs the loop of turns.
    pub fn drive(&self) -> DriveMode {
        self.context.drive
    }

    /// The model that the run prefers, by which its tokens are counted.
    pub(crate) fn first_target(&self) -> &str {
        self.context.targets.first().map_or("", String::as_str)
    }

    /// What the run has spent.
    pub const fn spending(&self) -> &RunSpending {
        &self.spending
    }

    /// How large the windows of the models are, as far as it was found out.
    pub fn windows(&self) -> &KnownWindows {
        self.models.known_windows()
    }

    /// What was learned of how providers count tokens.
    pub fn calibration(&self) -> &TokenCalibration {
        self.models.calibration()
    }

    /// The breaker of a tool, if it was ever run.
    pub fn breaker(&self, tool: &str) -> Option<&CircuitBreaker> {
        self.tools.breaker(tool)
    }
}

impl Default for State {
    fn default() -> Self {
        Self::new()
    }
}

impl DigestedPart for SessionSlices {}
impl DigestedPart for RunContext {}
impl DigestedPart for ToolHealth {}
impl DigestedPart for ModelHealth {}
impl DigestedPart for LoopDetector {}
impl DigestedPart for RetryBudgets {}
impl DigestedPart for ReportSeries {}
impl DigestedPart for TurnLoop {}
