//! What providers say about tokens: how many tokens they counted.

use super::super::lesson::Lesson;
use super::Step;
use crate::policy::estimated_tokens;
use crate::session::Usage;

impl Step<'_> {
    /// A request with fewer tools than were counted teaches nothing about the count.
    pub(super) fn forget_count_of_less(&mut self, last_turn: bool) {
        if last_turn || self.state.tools.hides_any() {
            self.state.model_turn.counted = None;
        }
    }

    /// A provider has counted the tokens of a request.
    pub(super) fn learn_from(&mut self, usage: Usage) {
        let Some((target, counted)) = self.state.target().cloned().zip(self.state.model_turn.counted) else {
            return;
        };
        let told = self.state.model_turn.guidance.iter().map(|guidance| estimated_tokens(&guidance.text));
        let counted = self.with_added(&target, told.fold(counted, u64::saturating_add));
        self.learn(&target, Lesson::Counted { counted, reported: usage.input });
    }

    /// A request with the conversation of so many tokens, and what the provider of a model is known to add to it.
    pub(super) fn with_added(&self, target: &str, counted: u64) -> u64 {
        self.state.models.with_added(target, counted, self.sends_tools())
    }

    /// Whether the request is sent with tools.
    pub(super) fn sends_tools(&self) -> bool {
        self.state.model_turn.reductions.measured.is_some_and(|measure| measure.tool_tokens > 0)
    }

    /// The same, as the provider is going to count it.
    pub(super) fn sent(&self, target: &str, counted: u64) -> u64 {
        self.state.models.expected(target, self.with_added(target, counted))
    }

    /// A provider has shown something about its tokens.
    pub(super) fn learn(&mut self, target: &str, lesson: Lesson) {
        self.state.models.learn(target, lesson, self.policy);
    }
}
