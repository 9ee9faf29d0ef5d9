//! A model call that failed.

use std::sync::Arc;

use crate::engine::directive::DecisionReason;
use crate::engine::retry::{AttemptProgress, FailureContext};
use crate::policy::ModelPolicy;

/// A model call that failed, with the rules that apply to it.
pub(in crate::engine) struct FailedCall {
    pub(in crate::engine) target: String,
    /// `model main`.
    pub(in crate::engine) name: String,
    pub(in crate::engine) policy: Arc<ModelPolicy>,
    pub(in crate::engine) progress: AttemptProgress,
    pub(in crate::engine) case: FailureContext,
    pub(in crate::engine) message: String,
    /// Why the attempts end, if the reason is no rule of the model.
    pub(in crate::engine) ended_by: Option<DecisionReason>,
}

impl FailedCall {
    pub(in crate::engine) fn max_attempts(&self) -> Option<u32> {
        self.policy.retry.for_class(self.case.class).max_attempts.value.limit()
    }
}
