//! `approval`: whether a person is asked before a tool runs, and what it is when nobody answers.

use serde_json::json;

use super::lasting::Lasting;
use crate::policy::decode::choice_of;
use crate::policy::merge::{layer, plain_leaf};
use crate::policy::{Approval, ApprovalPolicy, Bound, Unanswered};

layer! {
    /// Questions to people: before a tool runs (`tools.*.approval`), and about a run that may have acted
    /// (`tools.*.after_effect`).
    /// Example: `{"timeout": "5m", "unanswered": "refuse"}`
    pub(crate) struct ApprovalLayer => MergedApproval {
        leaves {
            /// How long an answer is waited for.
            /// Example: `5m`
            timeout: Lasting<Bound>,
            /// What it is when nobody answers, or there is nobody to ask. Of a run that may have acted nobody knows then.
            unanswered: Unanswered,
        }
    }
}

impl MergedApproval {
    /// The plain values; `None` if the layers leave one open, which the built-in default does not.
    pub(crate) fn policy(&self) -> Option<ApprovalPolicy> {
        Some(ApprovalPolicy { timeout: self.timeout.setting()?, unanswered: self.unanswered.setting()? })
    }
}

choice_of! {
    /// Whether a person is asked before a tool runs.
    Approval {
        /// Nobody is asked.
        Never = "never",
        /// Before every call, unless the person agrees to all of them. A refusal is a result the model reads.
        Always = "always",
    }
}

choice_of! {
    /// What it is when nobody answers.
    Unanswered {
        /// A no.
        Refuse = "refuse",
        /// A yes.
        Approve = "approve",
    }
}

plain_leaf! {
    Approval => |value| json!(value),
    Unanswered => |value| json!(value),
}
