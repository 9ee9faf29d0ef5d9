//! What the turns of a run share: the count of rounds in which no call went well, and, of turns that a host has proposed,
//! what holds for the calls of their replies.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::super::because::because;
use super::super::directive::{Note, ProposalId};
use super::super::results_room::RoomForResults;
use super::out::Out;
use super::turn_guidance::Guidance;
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
    round: Round,
}

/// How the calls of a turn went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Round {
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
    /// which none did. `is_near`: the last turn comes anyway.
    pub(in crate::engine) fn round_ended(
        &mut self,
        ok: bool,
        is_near: bool,
        out: &mut Out<'_>,
    ) -> Option<Guidance> {
        if ok {
            self.failed_rounds = 0;
            return None;
        }
        self.failed_rounds = self.failed_rounds.saturating_add(1);
        let rounds = self.failed_rounds;
        let policy = out.rules.policy;
        let rules = &policy.turn().calls;
        let limit = rules.failed_rounds.value?;
        if rounds < limit.get() || is_near {
            return None;
        }
        self.failed_rounds = 0;
        let text = out.say(&rules.messages.all_failed, json!({ "rounds": rounds }));
        let fact = format!("{rounds} rounds without a call that went well");
        let why = because(policy, "turn.calls.failed_rounds", &rules.failed_rounds.map(|_| limit), [fact]);
        out.note(Note::RoundsFailed { rounds, message: text.clone() }, vec![why]);
        Some(Guidance { class: ErrorClass::ExecutionError, text })
    }
}

/// Turns that a host proposes.
impl TurnLoop {
    /// The reply of a proposed turn was taken.
    pub(in crate::engine) fn taken(&mut self, turn: ProposalId, number: u32, room: Option<RoomForResults>) {
        self.taken.insert(turn, TakenTurn { number, room, ..TakenTurn::default() });
        if self.taken.len() > REMEMBERED {
            self.taken.pop_first();
        }
    }

    /// The proposed turn whose calls these are, if its reply was taken.
    pub(in crate::engine) fn turn_of(&mut self, turn: Option<ProposalId>) -> Option<&mut TakenTurn> {
        self.taken.get_mut(&turn?)
    }

    /// Another proposed turn begins: the rounds of those before it are over, as far as their calls are settled.
    pub(in crate::engine) fn count_rounds(&mut self, is_near: bool, out: &mut Out<'_>) -> Option<Guidance> {
        let over = self.taken.values_mut().filter(|turn| turn.open == 0);
        let rounds: Vec<Round> = over.map(|turn| core::mem::take(&mut turn.round)).collect();
        let mut told = None;
        for round in rounds {
            match round {
                Round::Nothing => {}
                Round::Failed => told = self.round_ended(false, is_near, out).or(told),
                Round::Ok => told = self.round_ended(true, is_near, out).or(told),
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
            Round::Ok => Round::Ok,
            Round::Nothing | Round::Failed if ok => Round::Ok,
            Round::Nothing | Round::Failed => Round::Failed,
        };
    }

    /// One of its calls has its result.
    pub(in crate::engine) fn take_room(&mut self, result: &Message) {
        if let Some(room) = &mut self.room {
            room.take(result);
        }
    }
}
