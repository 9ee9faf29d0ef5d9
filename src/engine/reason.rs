//! Reasons that wait in the state until what they are about is reported.

use core::fmt::Display;

use serde::{Deserialize, Serialize};

use super::directive::DecisionReason;
use crate::policy::{LayerKind, Policy, Setting};
use crate::text::Spot;

/// A reason that may be reported later: a [`DecisionReason`] whose place names no file.
///
/// The state keeps it in this form, so that the same events under the same policy make the same state, whatever the files of
/// the policy are called. If the policy was changed meanwhile, the text of the same number is named.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StoredReason {
    rule: String,
    value: String,
    layer: LayerKind,
    spot: Spot,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    facts: Vec<String>,
}

/// Reasons as they are shown.
pub(super) fn told(policy: &Policy, reasons: impl IntoIterator<Item = StoredReason>) -> Vec<DecisionReason> {
    reasons.into_iter().map(|reason| reason.told(policy)).collect()
}

impl StoredReason {
    /// `rule` has this value, and these facts were held against it.
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

    /// The reason with the file it is written in.
    pub(super) fn told(self, policy: &Policy) -> DecisionReason {
        let Self { rule, value, layer, spot, facts } = self;
        // The file is looked up when the reason is shown: the state must not depend on where a policy is stored.
        DecisionReason { rule, value, layer, place: policy.sources().place_in(spot), facts }
    }
}
