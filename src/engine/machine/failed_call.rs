//! A call of a model that failed.

use std::sync::Arc;

use crate::engine::directive::DecisionReason;
use crate::engine::retry::{AttemptProgress, FailureContext};
use crate::policy::ModelPolicy;

/// A model call that failed, and the rules it was held against.
pub(in crate::engine) struct FailedCall {
    pub(in crate::engine) target: String,
    /// `model main`.
    pub(in crate::engine) name: String,
    pub(in crate::engine) policy: Arc<ModelPolicy>,
    pub(in crate::engine) progress: AttemptProgress,
    pub(in crate::engine) case: FailureContext,
    pub(in crate::engine) message: String,
    /// What ends the attempts, where it is no rule of the model.
    pub(in crate::engine) ended_by: Option<DecisionReason>,
}

impl FailedCall {
    pub(in crate::engine) fn max_attempts(&self) -> Option<u32> {
        self.policy.retry.for_class(self.case.class).max_attempts.value.limit()
    }
}
