//! The models behind the gateway, and the guard that all requests share.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::contract::KnownDeclarations;
use crate::ErrorCause;
use crate::host::guard::Guard;
use crate::host::model::front::GatewayDialect;
use crate::host::model::relay::RelayedModel;
use crate::host::{LivePolicy, ModelConfig, ModelFacts};
use crate::policy::Price;

/// A model behind the gateway: one connection for each dialect that its server speaks.
#[derive(Default)]
pub(crate) struct GatewayModel {
    pub(super) speaks: BTreeMap<GatewayDialect, RelayedModel>,
    /// The connection in a dialect that no client speaks.
    other: Option<RelayedModel>,
    pub(super) facts: Option<ModelFacts>,
}

/// The models, and the guard of all requests to them.
pub(super) struct GuardedModels {
    pub(super) guard: Guard,
    pub(super) models: BTreeMap<String, GatewayModel>,
    pub(super) policy: LivePolicy,
    /// What requests have declared lately.
    pub(super) declarations: Arc<KnownDeclarations>,
    /// Fires when the answers in flight have to end.
    pub(super) cut: CancellationToken,
}

impl GuardedModels {
    /// What the tokens of a model cost, if anybody says it: the policy, or the file.
    pub(super) fn price(&self, target: &str) -> Option<Price> {
        let said = self.policy.current().model(target).price.value.known();
        said.or_else(|| self.models.get(target)?.facts.as_ref()?.price)
    }

    /// Whether broken arguments of calls are repaired.
    pub(super) fn repairs(&self) -> bool {
        self.policy.current().turn().repair_json.value
    }
}

impl GatewayModel {
    /// Another connection to the model.
    ///
    /// # Errors
    /// The configuration cannot be used.
    pub(crate) fn speaking(mut self, config: ModelConfig) -> Result<Self, ErrorCause> {
        match GatewayDialect::of(config.provider) {
            Some(dialect) => drop(self.speaks.insert(dialect, RelayedModel::new(config)?)),
            None => self.other = Some(RelayedModel::new(config)?),
        }
        Ok(self)
    }

    /// The connection for requests that are converted.
    pub(super) fn converting(&self) -> Option<&RelayedModel> {
        self.speaks.values().next().or(self.other.as_ref())
    }

    /// What records tell about the model.
    pub(crate) fn facts(mut self, facts: ModelFacts) -> Self {
        self.facts = Some(facts);
        self
    }
}
