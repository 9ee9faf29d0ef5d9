//! How long the steps of a model call may take.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::policy::ModelTimeouts;
use crate::time::Nanos;

/// The longest each step of a model call may take. What is left out has no limit of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CallTimeouts {
    /// Until there is a connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connect: Option<Nanos>,
    /// Of an answer that is streamed: from the start of the call until the first piece of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_token: Option<Nanos>,
    /// From the first piece on: how long nothing at all may come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle: Option<Nanos>,
}

impl CallTimeouts {
    /// Whether no step has a limit.
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl From<&ModelTimeouts> for CallTimeouts {
    fn from(policy: &ModelTimeouts) -> Self {
        Self {
            connect: policy.connect.value.length(),
            first_token: policy.first_token.value.length(),
            idle: policy.idle.value.length(),
        }
    }
}
