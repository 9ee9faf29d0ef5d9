//! Answers that fail after a part of them was streamed: the part is taken back.

use super::super::because::{Shown, because};
use super::super::directive::Note;
use super::Step;
use crate::policy::AfterPartial;

impl Step<'_> {
    /// Takes back what had come of an answer. `true`: the policy lets none follow it.
    pub(super) fn retract(&mut self, target: &str, attempt: u32, received: u64) -> bool {
        let rule = &self.policy.turn().after_partial;
        let plural = if received == 1 { "character" } else { "characters" };
        let fact = format!("{received} {plural} had come");
        let why = because(self.policy, "turn.after_partial", &rule.map(Shown), [fact]);
        let target = target.to_owned();
        self.note(Note::TurnRetracted { target, attempt, received }, vec![why]);
        rule.value == AfterPartial::Fail
    }
}
