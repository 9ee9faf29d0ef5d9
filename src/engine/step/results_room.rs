//! The room that the results of the calls of one reply share: how much it is, and what each may have of it.

use super::super::because::{Shown, because};
use super::super::directive::Because;
use super::super::event::TurnMeasure;
use super::super::results_room::{RoomForResults, weight};
use super::Step;
use super::history::count;
use crate::policy::Size;
use crate::session::Message;

impl Step<'_> {
    /// A model has replied with calls: what its window has left is shared by their results.
    pub(super) fn share_room(&mut self, reply: &Message, calls: usize) {
        self.state.model_turn.reductions.results =
            self.room_for_results(reply).map(|left| RoomForResults::of(left, calls));
    }

    /// How many tokens the results may have together, as the host counts; `None`: any number.
    fn room_for_results(&self, reply: &Message) -> Option<u64> {
        let measured = self.state.model_turn.reductions.measured?;
        let message_tokens = measured.message_tokens.saturating_add(weight(reply));
        let measure = TurnMeasure { message_tokens, ..measured };
        let target = self.state.target()?;
        let asked = self.asked_of(target, measure);
        let window = asked.room.and_then(|room| room.for_results(self.policy.context()));
        let sent = self.sent(target, measure.message_tokens.saturating_add(measure.tool_tokens));
        let budget = self.run_budget().left_for_results(target, sent).map(|(tokens, ..)| tokens);
        let tokens = [window, budget].into_iter().flatten().min()?;
        Some(self.state.models.counted(&asked.target, tokens))
    }

    /// The most that the next result may have of the room; `None`: any amount.
    pub(super) fn share_of_result(&self) -> Option<Size> {
        self.state.model_turn.reductions.results.map(RoomForResults::share)
    }

    /// Why a result is cut to its share.
    pub(super) fn why_shared(&self) -> Vec<Because> {
        let Some(RoomForResults { left, calls }) = self.state.model_turn.reductions.results else {
            return Vec::new();
        };
        let rule = &self.policy.context().results;
        let fact = format!("{} left for the results of {}", count(left, "token"), count(calls, "call"));
        vec![because(self.policy, "context.results", &rule.map(Shown), [fact])]
    }
}
