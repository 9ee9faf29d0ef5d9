//! The state of the interpreter between two events: plain data that can be stored and read back.

mod plain;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::breaker::CircuitBreaker;
use super::budget::RetryBudgets;
use super::directive::Outcome;
use super::event::DriveMode;
use super::known_windows::KnownWindows;
use super::machine::{
    CallQueue, FinalTurn, LastSeen, ModelHealth, OpenProposal, PacePools, ReportSeries, RunContext,
    ToolHealth, TurnLoop, WorkTable,
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
/// It contains counters, slices and the tool calls in flight, but no conversation, which belongs to the host. The
/// same policy, tools and events always lead to the same state, byte for byte, in whatever order parallel tools end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// The format of the stored state.
    pub format: u32,
    /// The run's id; empty before it starts.
    pub run: String,
    /// The number of the last event.
    pub seq: u64,
    /// The time of the last event.
    pub now: Instant,
    /// The current turn; 0 before the first.
    pub turn: u32,
    /// The tokens used so far.
    pub usage: Usage,
    pub(super) slices: TrackedPart<SessionSlices>,
    /// How the run ended; `None` before that.
    pub outcome: Option<Outcome>,
    pub(super) context: TrackedPart<RunContext>,
    pub(super) work: WorkTable,
    #[serde(default, skip_serializing_if = "CallQueue::is_empty")]
    pub(super) queue: CallQueue,
    /// The pools of pace.
    #[serde(default, skip_serializing_if = "PacePools::is_empty")]
    pub(super) pace: TrackedPart<PacePools>,
    /// The number of batches in the session.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    pub(super) batches: u64,
    /// The turn that the interpreter drives, and the calls of its reply.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    pub(super) own: TrackedPart<OpenProposal>,
    /// The open proposals of a host with its own loop.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) proposals: BTreeMap<ProposalId, TrackedPart<OpenProposal>>,
    /// The outcome of the run once every proposal is settled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) closing: Option<Outcome>,
    pub(super) tools: TrackedPart<ToolHealth>,
    pub(super) models: TrackedPart<ModelHealth>,
    /// The memory for loop detection.
    #[serde(default, skip_serializing_if = "LoopDetector::is_empty")]
    pub(super) loops: TrackedPart<LoopDetector>,
    /// The use of retry budgets.
    #[serde(default, skip_serializing_if = "RetryBudgets::is_empty")]
    pub(super) budgets: TrackedPart<RetryBudgets>,
    /// The amounts spent in the run.
    #[serde(default, skip_serializing_if = "RunSpending::is_empty")]
    pub(super) spending: RunSpending,
    #[serde(default, skip_serializing_if = "ReportSeries::is_empty")]
    pub(super) report: TrackedPart<ReportSeries>,
    pub(super) ending: FinalTurn,
    #[serde(default, skip_serializing_if = "TurnLoop::is_empty")]
    pub(super) turns: TrackedPart<TurnLoop>,
    #[serde(default, skip_serializing_if = "LastSeen::is_empty")]
    pub(super) last: LastSeen,
    /// The class of the failure in the last event.
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
            pace: TrackedPart::default(),
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

    /// The state before the first event of the session's next run: a new state with the slices, the counters, and the
    /// state of models, breakers and budgets that outlives a run.
    #[must_use]
    pub fn next_run(&self) -> Self {
        Self {
            // Only the state of tools, models and the session outlives a run; that of its turns is reset.
            tools: TrackedPart::new(self.tools.next_run()),
            models: TrackedPart::new(self.models.next_run()),
            budgets: TrackedPart::new(self.budgets.next_run()),
            // A provider counts the calls of the last minute, whatever run they were of.
            pace: TrackedPart::new(self.pace.next_run()),
            now: self.now,
            // The log of a session is one sequence, so event numbers continue, and with them the ids of proposals.
            seq: self.seq,
            work: self.work.next_run(),
            // Keys of calls are made of the run's id and this number; it continues so that no log has two batches
            // with the same number.
            batches: self.batches,
            slices: self.slices.clone(),
            ..Self::new()
        }
    }

    /// Digest of the whole state: its format, a colon and 32 hexadecimal digits (XXH3, 128 bits, of the digests of
    /// its parts). The same events lead to the same digest. Only parts changed since the last call are hashed.
    /// Example: `2:5f3c0e9a7d1b4c2e8f6a0b9d3e7c1a5f`. In format 1 there were only the digits.
    pub fn digest(&self) -> String {
        // Destructured without `..`, so that a new field cannot be forgotten in the digest.
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
            // The queue follows from the calls themselves, so hashing it would be redundant.
            queue: _,
            pace,
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
        let mut parts = vec![
            slices.digest(),
            context.digest(),
            tools.digest(),
            models.digest(),
            loops.digest(),
            budgets.digest(),
            report.digest(),
            turns.digest(),
        ];
        // Without a pace the digest is that of sessions from before there was one.
        parts.extend((!pace.is_empty()).then(|| pace.digest()));
        // The format comes first, so that a session of an older format is recognised and not reported as a
        // divergence.
        format!("{STATE_FORMAT}:{:032x}", digest_of_json(&(run, work, parts)))
    }

    /// The state as JSON; the same events lead to the same bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        // Every map in the state is ordered by its keys, so equal states have equal bytes.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Whether the digest belongs to another format, so that it cannot be compared.
    pub fn is_of_another_format(digest: &str) -> bool {
        // Format 1 wrote only the digits.
        digest.split_once(':').map_or("1", |(format, _)| format).parse() != Ok(STATE_FORMAT)
    }

    /// The class of the failure in the last event; `None`: it contained none, or the run was over.
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

    /// The preferred model of the run, by which its tokens are counted.
    pub fn first_target(&self) -> &str {
        self.context.targets.first().map_or("", String::as_str)
    }

    /// The amounts spent in the run.
    pub const fn spending(&self) -> &RunSpending {
        &self.spending
    }

    /// The known sizes of the context windows.
    pub fn windows(&self) -> &KnownWindows {
        self.models.known_windows()
    }

    /// The token calibration.
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
impl DigestedPart for PacePools {}
