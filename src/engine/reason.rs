//! Reasons that wait in the state until what they are about is told.

use core::fmt::Display;

use serde::{Deserialize, Serialize};

use super::directive::Because;
use crate::policy::{Policy, Scope, Setting, Spot};

/// A reason that may be told later: a [`Because`] whose place names no file.
///
/// The state keeps it in this form, so that the same events under the same policy make the same state, whatever the files of
/// the policy are called. If the policy was changed meanwhile, the text of the same number is named.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Reason {
    rule: String,
    value: String,
    layer: Scope,
    spot: Spot,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    facts: Vec<String>,
}

/// Reasons as they are told.
pub(super) fn told(policy: &Policy, reasons: impl IntoIterator<Item = Reason>) -> Vec<Because> {
    reasons.into_iter().map(|reason| reason.told(policy)).collect()
}

impl Reason {
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
    pub(super) fn told(self, policy: &Policy) -> Because {
        let Self { rule, value, layer, spot, facts } = self;
        Because { rule, value, layer, place: policy.sources().place_in(spot), facts }
    }
}
