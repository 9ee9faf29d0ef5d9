//! What a session remembers of its models across turns: cooldowns, context windows, and token calibration.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::super::cooldowns::TargetCooldowns;
use super::super::known_windows::{EffectiveWindow, KnownWindow, KnownWindows};
use super::super::overhead::{ModelOverheads, RequestOverhead};
use super::super::token_calibration::TokenCalibration;
use super::super::token_observation::TokenObservation;
use super::out::StepOutput;
use crate::engine::measure::TurnMeasure;
use crate::policy::{ContextWindow, ModelPolicy, Policy};
use crate::time::{Instant, Nanos};

/// Cooldowns, windows and token counts of all models.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(in crate::engine) struct ModelHealth {
    /// The models in cooldown.
    #[serde(default, skip_serializing_if = "TargetCooldowns::is_empty")]
    resting: TargetCooldowns,
    /// The sizes of the context windows.
    #[serde(default, skip_serializing_if = "KnownWindows::is_empty")]
    known_windows: KnownWindows,
    /// The tokens that providers add to each request, as known at the start of the run.
    #[serde(default, skip_serializing_if = "ModelOverheads::is_empty")]
    overheads: ModelOverheads,
    /// The token calibration from reported usage.
    #[serde(default, skip_serializing_if = "TokenCalibration::is_empty")]
    #[serde(rename = "scales")]
    calibration: TokenCalibration,
}

impl ModelHealth {
    /// The state for the next run of the session: cooldowns end with their run.
    // A cooldown is a guess about the present, so it ends with its run. Windows and token calibration are facts about
    // the model.
    pub(in crate::engine) fn next_run(&self) -> Self {
        Self {
            resting: TargetCooldowns::default(),
            known_windows: self.known_windows.next_run(),
            overheads: self.overheads.clone(),
            calibration: self.calibration.clone(),
        }
    }

    /// The known sizes of the context windows.
    pub(in crate::engine) const fn known_windows(&self) -> &KnownWindows {
        &self.known_windows
    }

    /// The token calibration from reported usage.
    pub(in crate::engine) const fn calibration(&self) -> &TokenCalibration {
        &self.calibration
    }

    /// Takes the windows that the host found, and warns about assumed ones.
    pub(in crate::engine) fn take_windows(
        &mut self,
        windows: BTreeMap<String, KnownWindow>,
        out: &mut StepOutput<'_>,
    ) {
        self.known_windows.found(windows);
        let policy = out.rules.policy;
        let unset = |target: &str| policy.model(target).context_window.value == ContextWindow::Unknown;
        // An assumed window is safe but small: the warning names the key that sets the real size.
        for (target, tokens) in self.known_windows.assumed().filter(|(target, _)| unset(target)) {
            out.warn(format!(
                "the size of the window of `{target}` is unknown; {tokens} tokens are assumed: \
                 write `context_window` for it into the policy"
            ));
        }
    }

    /// Takes the known overheads of providers. The token calibration is adjusted to them.
    pub(in crate::engine) fn take_overheads(
        &mut self,
        known: BTreeMap<String, RequestOverhead>,
        tools: bool,
        targets: &[String],
    ) {
        let before = core::mem::replace(&mut self.overheads, known.into());
        for target in targets {
            // The calibration compares the host's count with the provider's. Tokens that are now known were part of
            // the difference, and would count twice.
            let [before, now] = [&before, &self.overheads].map(|known| known.of(target).of(tools));
            self.calibration.rebase(target, before, now);
        }
    }

    /// Learns from the tokens of a response or a refusal.
    pub(in crate::engine) fn learn(&mut self, target: &str, observation: TokenObservation, policy: &Policy) {
        observation.learn(target, &policy.model(target), &mut self.calibration, &mut self.known_windows);
    }

    /// Learns from a refusal for the size of a request: reports of a model that it refutes are forgotten.
    pub(in crate::engine) fn doubt(&mut self, target: &str, tokens: u64, limit: u64) {
        self.calibration.refuted(target, tokens, limit);
    }

    /// The tokens of a request plus the known overhead of the model's provider.
    pub(in crate::engine) fn with_added(&self, target: &str, tokens: u64, tools: bool) -> u64 {
        tokens.saturating_add(self.overheads.of(target).of(tools))
    }

    /// A measured request plus the known overhead of the model's provider.
    pub(in crate::engine) fn with_overhead(&self, target: &str, measure: TurnMeasure) -> TurnMeasure {
        self.overheads.of(target).on(measure)
    }

    /// The expected count of the model's provider for `tokens` of the host's count.
    pub(in crate::engine) fn expected(&self, target: &str, tokens: u64) -> u64 {
        self.calibration.expected(target, tokens)
    }

    /// A measured request, in the expected count of the model's provider.
    pub(in crate::engine) fn expected_measure(&self, target: &str, measure: TurnMeasure) -> TurnMeasure {
        self.calibration.measured(target, measure)
    }

    /// A part of a request, in the expected count of the model's provider.
    pub(in crate::engine) fn part(&self, target: &str, tokens: u64) -> u64 {
        self.calibration.part(target, tokens)
    }

    /// The host's count for `tokens` of the provider's count.
    pub(in crate::engine) fn counted(&self, target: &str, tokens: u64) -> u64 {
        self.calibration.counted(target, tokens)
    }

    /// The context window of a model, and its source.
    pub(in crate::engine) fn window(&self, target: &str, policy: &ModelPolicy) -> EffectiveWindow {
        self.known_windows.of(target, policy)
    }

    /// The maximum reply length of a model that the host knows, in tokens.
    pub(in crate::engine) fn longest_reply(&self, target: &str) -> Option<u64> {
        self.known_windows.output(target)
    }

    /// Whether a model is in cooldown at `now`.
    pub(in crate::engine) fn rests(&self, target: &str, policy: &ModelPolicy, now: Instant) -> bool {
        self.resting.holds(target, policy, now)
    }

    /// The end of the cooldown of a model; `None`: it is in none.
    pub(in crate::engine) fn rests_until(
        &self,
        target: &str,
        policy: &ModelPolicy,
        now: Instant,
    ) -> Option<Instant> {
        self.resting.until(target, policy, now)
    }

    /// The ends of all cooldowns, by model or provider.
    #[cfg(feature = "serve")]
    pub(in crate::engine) fn cooldowns(&self) -> impl Iterator<Item = (&str, Instant)> {
        self.resting.all()
    }

    /// Takes the end of a cooldown from another host.
    pub(in crate::engine) fn set_cooldown(&mut self, name: String, until: Instant, now: Instant) {
        self.resting.set(name, until, now);
    }

    /// Starts a cooldown of a model after the fallback to another; `asked` is the server delay.
    pub(in crate::engine) fn cool_down(
        &mut self,
        target: &str,
        policy: &ModelPolicy,
        asked: Option<Nanos>,
        now: Instant,
    ) {
        self.resting.add(target, policy, asked, now);
    }

    /// Ends the cooldowns of all models of a provider after a response.
    pub(in crate::engine) fn answered(&mut self, target: &str, policy: &ModelPolicy) {
        self.resting.end(target, policy);
    }
}
