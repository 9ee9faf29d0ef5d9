//! What providers say about tokens: how large their windows are, and how many tokens they counted.

use std::collections::BTreeMap;

use super::super::failure::Failure;
use super::super::known_windows::KnownWindow;
use super::Step;
use crate::policy::{ContextWindow, ErrorClass, estimated_tokens};
use crate::session::Usage;

impl Step<'_> {
    /// What the host found out about the windows of the models. Those it had to guess are told of.
    pub(super) fn take_windows(&mut self, windows: BTreeMap<String, KnownWindow>) {
        self.state.known_windows.found(windows);
        let unsaid = |target: &str| self.policy.model(target).context_window.value == ContextWindow::Unknown;
        let guessed: Vec<_> =
            self.state.known_windows.assumed().filter(|(target, _)| unsaid(target)).collect();
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
        if last_turn || !self.state.hidden.is_empty() {
            self.state.counted = None;
        }
    }

    /// A provider has counted the tokens of a request.
    pub(super) fn learn_from(&mut self, usage: Usage) {
        let Some((target, counted)) = self.state.target().cloned().zip(self.state.counted) else { return };
        if self.policy.model(&target).tokens.learn.value {
            let told = self.state.guidance.iter().map(|guidance| estimated_tokens(&guidance.text));
            let counted = told.fold(counted, u64::saturating_add);
            self.state.scales.learn(&target, counted, usage.input);
        }
    }

    /// A provider has refused a request that was too large, and may have said for which window.
    pub(super) fn learn_from_refusal(&mut self, target: &str, failure: &Failure, class: ErrorClass) {
        if let Some(limit) = failure.limit().filter(|_| class == ErrorClass::ContextOverflow) {
            self.state.known_windows.refused(target, limit);
        }
    }
}
