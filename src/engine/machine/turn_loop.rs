//! The state shared by the turns of a run: the count of failed rounds, and the conditions for the calls of turns that
//! a host has proposed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::super::because::because;
use super::super::directive::Note;
use super::super::results_room::RoomForResults;
use super::out::StepOutput;
use super::turn_guidance::ReplyGuidance;
use crate::engine::ids::ProposalId;
use crate::policy::ErrorClass;
use crate::session::Message;

/// The maximum number of proposed turns kept for later calls; the oldest is removed first.
const REMEMBERED: usize = 64;

/// The state shared by the turns of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(in crate::engine) struct TurnLoop {
    /// Consecutive rounds in which no call succeeded.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    failed_rounds: u32,
    /// Consecutive reductions of the conversation that gained nothing.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    pub(in crate::engine) in_vain: u32,
    /// The proposed turns whose replies were accepted.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    taken: BTreeMap<ProposalId, TakenTurn>,
}

/// A proposed turn with an accepted reply: its calls are proposed together, or one by one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(in crate::engine) struct TakenTurn {
    /// The number of the turn, from 1.
    pub(in crate::engine) number: u32,
    /// The number of tool calls proposed so far.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    pub(in crate::engine) calls: u32,
    /// The tokens left for the results; `None`: unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::engine) room: Option<RoomForResults>,
    /// Whether the model was warned about a repetition.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    pub(in crate::engine) nudged: bool,
    /// The number of its open batches.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    open: u32,
    round: RoundResult,
}

/// The result of the calls of a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RoundResult {
    /// No call so far, or already counted.
    #[default]
    Nothing,
    /// No call succeeded.
    Failed,
    /// A call succeeded.
    Ok,
}

impl TurnLoop {
    /// Whether the state is empty.
    pub(in crate::engine) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Counts a settled reply; `ok`: a call succeeded. Returns guidance after several failed rounds. `is_near`: the
    /// final turn comes anyway.
    pub(in crate::engine) fn round_ended(
        &mut self,
        ok: bool,
        is_near: bool,
        out: &mut StepOutput<'_>,
    ) -> Option<ReplyGuidance> {
        if ok {
            self.failed_rounds = 0;
            return None;
        }
        // Rounds are counted, not calls: one failure among several calls says little, but if all fail, the model is
        // stuck (LocalCowork, after two rounds).
        self.failed_rounds = self.failed_rounds.saturating_add(1);
        let rounds = self.failed_rounds;
        let policy = out.rules.policy;
        let rules = &policy.turn().calls;
        let limit = rules.nudge_after_failed_rounds.value?;
        // The final turn has no tools, so advice on using them comes too late.
        if rounds < limit.get() || is_near {
            return None;
        }
        // Reported once per limit; the count starts again, as in LocalCowork.
        self.failed_rounds = 0;
        let text = out.say(&rules.messages.all_failed, json!({ "rounds": rounds }));
        let fact = format!("{rounds} rounds without a call that went well");
        let why = because(
            policy,
            "turn.calls.nudge_after_failed_rounds",
            &rules.nudge_after_failed_rounds.map(|_| limit),
            [fact],
        );
        out.note(Note::RoundsFailed { rounds, message: text.clone() }, vec![why]);
        Some(ReplyGuidance { class: ErrorClass::ExecutionError, text })
    }
}

/// Turns that a host proposes.
impl TurnLoop {
    /// Records that the reply of a proposed turn was accepted.
    pub(in crate::engine) fn taken(&mut self, turn: ProposalId, number: u32, room: Option<RoomForResults>) {
        self.taken.insert(turn, TakenTurn { number, room, ..TakenTurn::default() });
        // A host may drop a turn without notice; the oldest is removed, so the state stays bounded.
        if self.taken.len() > REMEMBERED {
            self.taken.pop_first();
        }
    }

    /// The proposed turn that calls belong to, if its reply was accepted.
    pub(in crate::engine) fn turn_of(&mut self, turn: Option<ProposalId>) -> Option<&mut TakenTurn> {
        self.taken.get_mut(&turn?)
    }

    /// Counts the rounds of earlier proposed turns, as far as their calls are settled, when another turn begins.
    pub(in crate::engine) fn count_rounds(
        &mut self,
        is_near: bool,
        out: &mut StepOutput<'_>,
    ) -> Option<ReplyGuidance> {
        // Calls of a turn may be proposed one by one, so its round ends only when another turn begins.
        let over =
            self.taken.values_mut().filter(|turn| turn.open == 0 && turn.round != RoundResult::Nothing);
        let rounds: Vec<RoundResult> = over.map(|turn| core::mem::take(&mut turn.round)).collect();
        let mut told = None;
        for round in rounds {
            match round {
                RoundResult::Nothing => {}
                // The last warning counts: it covers the most rounds.
                RoundResult::Failed => told = self.round_ended(false, is_near, out).or(told),
                RoundResult::Ok => told = self.round_ended(true, is_near, out).or(told),
            }
        }
        told
    }
}

impl TakenTurn {
    /// Records that calls of the turn are proposed.
    pub(in crate::engine) const fn batch_begins(&mut self) {
        self.open = self.open.saturating_add(1);
    }

    /// Records that all calls of a batch are settled; `ok`: a call succeeded.
    pub(in crate::engine) const fn batch_ended(&mut self, ok: bool) {
        self.open = self.open.saturating_sub(1);
        self.round = match self.round {
            RoundResult::Ok => RoundResult::Ok,
            // One successful call is enough, in any batch of the turn.
            RoundResult::Nothing | RoundResult::Failed if ok => RoundResult::Ok,
            RoundResult::Nothing | RoundResult::Failed => RoundResult::Failed,
        };
    }

    /// Subtracts the result of one of its calls.
    pub(in crate::engine) fn take_room(&mut self, result: &Message) {
        if let Some(room) = &mut self.room {
            room.take(result);
        }
    }
}
