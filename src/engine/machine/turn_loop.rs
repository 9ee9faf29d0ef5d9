//! What the turns of a run share: the count of rounds in which no call went well, and, of turns that a host has proposed,
//! what holds for the calls of their replies.

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

/// So many proposed turns are remembered whose calls may still be proposed; the oldest is forgotten first.
const REMEMBERED: usize = 64;

/// What the turns of a run share.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(in crate::engine) struct TurnLoop {
    /// Rounds in a row in which no call went well.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    failed_rounds: u32,
    /// How many reductions of the conversation in a row gained nothing.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    pub(in crate::engine) in_vain: u32,
    /// The proposed turns whose replies were taken.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    taken: BTreeMap<ProposalId, TakenTurn>,
}

/// A proposed turn whose reply was taken: its calls are proposed at once, or one by one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(in crate::engine) struct TakenTurn {
    /// Its number, from 1.
    pub(in crate::engine) number: u32,
    /// How many calls of tools were proposed so far.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    pub(in crate::engine) calls: u32,
    /// What is left for the results; `None`: they may have any amount.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::engine) room: Option<RoomForResults>,
    /// Whether the model was warned that it repeats itself.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    pub(in crate::engine) nudged: bool,
    /// How many batches of its calls are open.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    open: u32,
    round: RoundResult,
}

/// How the calls of a turn went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RoundResult {
    /// There was none so far, or they are counted.
    #[default]
    Nothing,
    /// None of them went well.
    Failed,
    /// One of them went well.
    Ok,
}

impl TurnLoop {
    /// Whether nothing is remembered.
    pub(in crate::engine) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// All calls of a reply are settled; `ok`: one of them went well. Returns what the model reads after several rounds in
    /// which none did. `is_near`: the final turn comes anyway.
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
        // A round, not a call: with several calls in a reply one failure says little, all of them failing says that
        // the model is stuck (LocalCowork, after two rounds).
        self.failed_rounds = self.failed_rounds.saturating_add(1);
        let rounds = self.failed_rounds;
        let policy = out.rules.policy;
        let rules = &policy.turn().calls;
        let limit = rules.nudge_after_failed_rounds.value?;
        // The final turn has no tools, so advice on using them comes too late.
        if rounds < limit.get() || is_near {
            return None;
        }
        // Reported once for so many rounds; the count begins again, as LocalCowork's does.
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
    /// The reply of a proposed turn was taken.
    pub(in crate::engine) fn taken(&mut self, turn: ProposalId, number: u32, room: Option<RoomForResults>) {
        self.taken.insert(turn, TakenTurn { number, room, ..TakenTurn::default() });
        // A host may drop a turn without a word; the oldest goes, so the state stays bounded.
        if self.taken.len() > REMEMBERED {
            self.taken.pop_first();
        }
    }

    /// The proposed turn whose calls these are, if its reply was taken.
    pub(in crate::engine) fn turn_of(&mut self, turn: Option<ProposalId>) -> Option<&mut TakenTurn> {
        self.taken.get_mut(&turn?)
    }

    /// Another proposed turn begins: the rounds of those before it are over, as far as their calls are settled.
    pub(in crate::engine) fn count_rounds(
        &mut self,
        is_near: bool,
        out: &mut StepOutput<'_>,
    ) -> Option<ReplyGuidance> {
        // Calls of a turn may still be proposed one by one, so its round is over only when another turn begins.
        let over = self.taken.values_mut().filter(|turn| turn.open == 0);
        let rounds: Vec<RoundResult> = over.map(|turn| core::mem::take(&mut turn.round)).collect();
        let mut told = None;
        for round in rounds {
            match round {
                RoundResult::Nothing => {}
                // The last warning counts: it is about the most rounds.
                RoundResult::Failed => told = self.round_ended(false, is_near, out).or(told),
                RoundResult::Ok => told = self.round_ended(true, is_near, out).or(told),
            }
        }
        told
    }
}

impl TakenTurn {
    /// Some of its calls are proposed.
    pub(in crate::engine) const fn batch_begins(&mut self) {
        self.open = self.open.saturating_add(1);
    }

    /// All calls of a batch are settled; `ok`: one of them went well.
    pub(in crate::engine) const fn batch_ended(&mut self, ok: bool) {
        self.open = self.open.saturating_sub(1);
        self.round = match self.round {
            RoundResult::Ok => RoundResult::Ok,
            // One call that went well is enough, in whichever batch of the turn it was.
            RoundResult::Nothing | RoundResult::Failed if ok => RoundResult::Ok,
            RoundResult::Nothing | RoundResult::Failed => RoundResult::Failed,
        };
    }

    /// One of its calls has its result.
    pub(in crate::engine) fn take_room(&mut self, result: &Message) {
        if let Some(room) = &mut self.room {
            room.take(result);
        }
    }
}
