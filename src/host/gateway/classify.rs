//! What the policy learns of an attempt that failed.

use crate::engine::Failure;
use crate::host::guard::ClassifyError;
use crate::host::model::relay::RelayFailure;
use crate::policy::{ErrorClass, Policy};

impl ClassifyError for RelayFailure {
    fn class(&self, policy: &Policy) -> ErrorClass {
        ClassifyError::class(&self.failure, policy)
    }

    fn message(&self) -> String {
        self.failure.message.clone()
    }

    fn failure(&self, _policy: &Policy) -> Failure {
        self.failure.clone()
    }
}
