//! Reasons kept in the state until their decision is reported.

use core::fmt::Display;

use serde::{Deserialize, Serialize};

use super::directive::DecisionReason;
use crate::policy::{LayerKind, Policy, Setting};
use crate::text::Spot;

/// A reason for a later report: a [`DecisionReason`] whose place names no file.
///
/// Without file names, the same events under the same policy lead to the same state, independent of where the policy
/// is stored. If the policy has changed meanwhile, the place names the file with the same number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StoredReason {
    rule: String,
    value: String,
    layer: LayerKind,
    spot: Spot,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    facts: Vec<String>,
}

/// Converts stored reasons to the form for reports.
pub(super) fn told(policy: &Policy, reasons: impl IntoIterator<Item = StoredReason>) -> Vec<DecisionReason> {
    reasons.into_iter().map(|reason| reason.told(policy)).collect()
}

impl StoredReason {
    /// Makes a reason: the value of `rule`, and the facts compared with it.
    pub(super) fn new<T: Display>(
        policy: &Policy,
        rule: impl Into<String>,
        setting: &Setting<T>,
        facts: impl IntoIterator<Item = String>,
    ) -> Self {
        Self {
            rule: rule.into(),
            value: setting.value.to_string(),
            layer: setting.origin.scope,
            spot: policy.sources().spot(setting.origin),
            facts: facts.into_iter().collect(),
        }
    }

    /// Adds the file to the reason.
    pub(super) fn told(self, policy: &Policy) -> DecisionReason {
        let Self { rule, value, layer, spot, facts } = self;
        // The file is looked up for the report: the state must not depend on where a policy is stored.
        DecisionReason { rule, value, layer, place: policy.sources().place_in(spot), facts }
    }
}
