//! A call that is refused before it runs.

use serde::{Deserialize, Serialize};

use crate::engine::reason::StoredReason;
use crate::policy::ErrorClass;

/// A call that is refused before it runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::engine) struct CallRefusal {
    pub(in crate::engine) class: ErrorClass,
    pub(in crate::engine) text: String,
    pub(in crate::engine) because: Vec<StoredReason>,
}
