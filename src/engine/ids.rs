//! The numbers of work and of proposals.

use core::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The number of a piece of work. Only directives make them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct WorkId(pub(in crate::engine) u64);

/// The number of a proposal: that of the event that made it. So a host knows it before the interpreter has decided
/// anything.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct ProposalId(pub u64);

impl ProposalId {
    /// What the interpreter drives by itself is not proposed by anybody.
    pub(in crate::engine) const NONE: Self = Self(0);
}

impl fmt::Display for ProposalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
