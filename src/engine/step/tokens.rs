//! What providers say about tokens: how large their windows are, and how many tokens they counted.

use std::collections::BTreeMap;

use super::super::failure::Failure;
use super::super::known_windows::KnownWindow;
use super::Step;
use crate::policy::{ContextWindow, estimated_tokens};
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

    /// A provider has refused a request that was too large: `counted` tokens by the count of the host. It may have said for
    /// which window, and how many tokens there were by its own count.
    pub(super) fn learn_from_refusal(&mut self, target: &str, failure: &Failure, counted: u64) {
        let policy = self.policy.model(target);
        if let Some(size) = failure.size().filter(|_| policy.tokens.learn.value) {
            self.state.scales.learn(target, counted, size);
        }
        let sent = self.state.scales.expected(target, counted);
        let told = match (failure.limit(), failure.size()) {
            // It counts more tokens than are expected of it.
            (Some(limit), Some(size)) if size > sent => {
                let scaled = u128::from(limit).saturating_mul(sent.into()).checked_div(size.into());
                scaled.and_then(|scaled| u64::try_from(scaled).ok()).unwrap_or(limit)
            }
            (Some(limit), _) => limit,
            (None, _) => sent,
        };
        // What should have fitted did not.
        let whole = sent.saturating_add(policy.output_reserve.value.get().into());
        self.state.known_windows.refused(target, if told >= whole { sent } else { told });
    }
}
