//! What providers say about tokens: how large their windows are, and how many tokens they counted.

use std::collections::BTreeMap;

use super::super::known_windows::KnownWindow;
use super::super::lesson::Lesson;
use super::super::overhead::Overhead;
use super::Step;
use crate::policy::{ContextWindow, estimated_tokens};
use crate::session::Usage;

impl Step<'_> {
    /// What the host found out about the windows of the models. Those it had to guess are told of.
    pub(super) fn take_windows(&mut self, windows: BTreeMap<String, KnownWindow>) {
        self.state.models.known_windows.found(windows);
        let unsaid = |target: &str| self.policy.model(target).context_window.value == ContextWindow::Unknown;
        let guessed: Vec<_> =
            self.state.models.known_windows.assumed().filter(|(target, _)| unsaid(target)).collect();
        let told = guessed.into_iter().map(|(target, tokens)| {
            format!(
                "nobody knows how large the window of `{target}` is; {tokens} tokens are assumed: \
                 write `context_window` for it into the policy"
            )
        });
        let told: Vec<String> = told.collect();
        for message in told {
            self.warn(message);
        }
    }

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

    /// What the host knows that providers add to a request. What was learned before it knew so is moved along.
    pub(super) fn take_overheads(&mut self, known: BTreeMap<String, Overhead>, tools: bool) {
        let before = core::mem::replace(&mut self.state.models.overheads, known.into());
        for target in &self.state.context.targets {
            let [before, now] =
                [&before, &self.state.models.overheads].map(|known| known.of(target).of(tools));
            self.state.models.scales.rebase(target, before, now);
        }
    }

    /// A request with the conversation of so many tokens, and what the provider of a model is known to add to it.
    pub(super) fn with_added(&self, target: &str, counted: u64) -> u64 {
        let tools = self.state.model_turn.reductions.measured.is_some_and(|measure| measure.tool_tokens > 0);
        counted.saturating_add(self.state.models.overheads.of(target).of(tools))
    }

    /// The same, as the provider is going to count it.
    pub(super) fn sent(&self, target: &str, counted: u64) -> u64 {
        self.state.models.scales.expected(target, self.with_added(target, counted))
    }

    /// A provider has taught something about tokens.
    pub(super) fn learn(&mut self, target: &str, lesson: Lesson) {
        let policy = self.policy.model(target);
        lesson.learn(target, &policy, &mut self.state.models.scales, &mut self.state.models.known_windows);
    }
}
