//! What a session knows of its models, from one turn to the next: which rest, how large their windows are, and how their
//! providers count tokens.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::super::known_windows::{EffectiveWindow, KnownWindow, KnownWindows};
use super::super::overhead::{ModelOverheads, RequestOverhead};
use super::super::targets::TargetCooldowns;
use super::super::token_calibration::TokenCalibration;
use super::super::token_observation::TokenObservation;
use super::out::StepOutput;
use crate::engine::measure::TurnMeasure;
use crate::policy::{ContextWindow, ModelPolicy, Policy};
use crate::time::{Instant, Nanos};

/// Cooldowns, windows and token counts of all models.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(in crate::engine) struct ModelHealth {
    /// Models that are passed over for a while.
    #[serde(default, skip_serializing_if = "TargetCooldowns::is_empty")]
    resting: TargetCooldowns,
    /// How large their windows are.
    #[serde(default, skip_serializing_if = "KnownWindows::is_empty")]
    known_windows: KnownWindows,
    /// What providers add to each request, as far as it was known when the run began.
    #[serde(default, skip_serializing_if = "ModelOverheads::is_empty")]
    overheads: ModelOverheads,
    /// What was learned from the tokens that providers report.
    #[serde(default, skip_serializing_if = "TokenCalibration::is_empty")]
    #[serde(rename = "scales")]
    calibration: TokenCalibration,
}

impl ModelHealth {
    /// What the next run of the session begins with: a cooldown ends with its run.
    // A cooldown is a guess about now, so it does not outlive its run. Windows and token counts are facts about the
    // model.
    pub(in crate::engine) fn next_run(&self) -> Self {
        Self {
            resting: TargetCooldowns::default(),
            known_windows: self.known_windows.next_run(),
            overheads: self.overheads.clone(),
            calibration: self.calibration.clone(),
        }
    }

    /// How large the windows are, as far as it was found out.
    pub(in crate::engine) const fn known_windows(&self) -> &KnownWindows {
        &self.known_windows
    }

    /// What was learned from the tokens that providers report.
    pub(in crate::engine) const fn calibration(&self) -> &TokenCalibration {
        &self.calibration
    }

    /// Takes what the host found out about the windows of the models, and warns of those it had to guess.
    pub(in crate::engine) fn take_windows(
        &mut self,
        windows: BTreeMap<String, KnownWindow>,
        out: &mut StepOutput<'_>,
    ) {
        self.known_windows.found(windows);
        let policy = out.rules.policy;
        let unset = |target: &str| policy.model(target).context_window.value == ContextWindow::Unknown;
        // A guessed window is safe but small: people are warned, with the key that mends it.
        for (target, tokens) in self.known_windows.assumed().filter(|(target, _)| unset(target)) {
            out.warn(format!(
                "the size of the window of `{target}` is unknown; {tokens} tokens are assumed: \
                 write `context_window` for it into the policy"
            ));
        }
    }

    /// Takes what the host knows that providers add to a request. What was learned before is moved along.
    pub(in crate::engine) fn take_overheads(
        &mut self,
        known: BTreeMap<String, RequestOverhead>,
        tools: bool,
        targets: &[String],
    ) {
        let before = core::mem::replace(&mut self.overheads, known.into());
        for target in targets {
            // What was learned compares the host's count with the provider's. Tokens that are known by now were part
            // of that difference, and would be counted twice.
            let [before, now] = [&before, &self.overheads].map(|known| known.of(target).of(tools));
            self.calibration.rebase(target, before, now);
        }
    }

    /// Learns what a provider has shown about its tokens.
    pub(in crate::engine) fn learn(&mut self, target: &str, observation: TokenObservation, policy: &Policy) {
        observation.learn(target, &policy.model(target), &mut self.calibration, &mut self.known_windows);
    }

    /// A request of so many tokens, and what the provider of a model is known to add to it.
    pub(in crate::engine) fn with_added(&self, target: &str, tokens: u64, tools: bool) -> u64 {
        tokens.saturating_add(self.overheads.of(target).of(tools))
    }

    /// A measured request, and what the provider of a model is known to add to it.
    pub(in crate::engine) fn with_overhead(&self, target: &str, measure: TurnMeasure) -> TurnMeasure {
        self.overheads.of(target).on(measure)
    }

    /// So many tokens of ours, as the provider of a model is going to count them.
    pub(in crate::engine) fn expected(&self, target: &str, tokens: u64) -> u64 {
        self.calibration.expected(target, tokens)
    }

    /// A measured request, as the provider of a model is going to count it.
    pub(in crate::engine) fn expected_measure(&self, target: &str, measure: TurnMeasure) -> TurnMeasure {
        self.calibration.measured(target, measure)
    }

    /// A part of a request of so many tokens of ours, as the provider of a model is going to count it.
    pub(in crate::engine) fn part(&self, target: &str, tokens: u64) -> u64 {
        self.calibration.part(target, tokens)
    }

    /// So many tokens of a provider's, as the host counts them.
    pub(in crate::engine) fn counted(&self, target: &str, tokens: u64) -> u64 {
        self.calibration.counted(target, tokens)
    }

    /// The window of a model, and who says how large it is.
    pub(in crate::engine) fn window(&self, target: &str, policy: &ModelPolicy) -> EffectiveWindow {
        self.known_windows.of(target, policy)
    }

    /// The longest reply that the host knows a model to give, in tokens.
    pub(in crate::engine) fn longest_reply(&self, target: &str) -> Option<u64> {
        self.known_windows.output(target)
    }

    /// Whether a model is passed over at that time.
    pub(in crate::engine) fn rests(&self, target: &str, policy: &ModelPolicy, now: Instant) -> bool {
        self.resting.holds(target, policy, now)
    }

    /// Passes a model over for a while, as it was given up; `asked` is the wait that its server asked for.
    pub(in crate::engine) fn cool_down(
        &mut self,
        target: &str,
        policy: &ModelPolicy,
        asked: Option<Nanos>,
        now: Instant,
    ) {
        self.resting.add(target, policy, asked, now);
    }

    /// A model has answered: no model of its provider is passed over any longer.
    pub(in crate::engine) fn answered(&mut self, target: &str, policy: &ModelPolicy) {
        self.resting.end(target, policy);
    }
}
