//! Rounds: the calls of one reply together. After several in which none went well the model is told to go another way.

use core::mem;

use serde_json::json;

use super::super::because::because;
use super::super::directive::Note;
use super::super::event::Drive;
use super::super::state::Guidance;
use super::Step;
use crate::policy::ErrorClass;

impl Step<'_> {
    /// All calls of a reply are settled.
    pub(super) fn round_ended(&mut self) {
        let ok = mem::take(&mut self.state.batch.round_ok);
        if self.state.batch.slots.is_empty() || self.state.context.drive == Drive::Calls {
            return;
        }
        if ok {
            self.state.pace.failed_rounds = 0;
            return;
        }
        self.state.pace.failed_rounds = self.state.pace.failed_rounds.saturating_add(1);
        let rounds = self.state.pace.failed_rounds;
        let rules = &self.policy.turn().calls;
        let Some(limit) = rules.failed_rounds.value else { return };
        if rounds < limit.get() || self.state.ending.is_near() {
            return;
        }
        self.state.pace.failed_rounds = 0;
        let text = self.say(&rules.all_failed_message, json!({ "rounds": rounds }));
        let fact = format!("{rounds} rounds without a call that went well");
        let why =
            because(self.policy, "turn.calls.failed_rounds", &rules.failed_rounds.map(|_| limit), [fact]);
        self.note(Note::RoundsFailed { rounds, message: text.clone() }, vec![why]);
        self.state.batch.afterwords.push(Guidance { class: ErrorClass::ExecutionError, text });
    }
}
