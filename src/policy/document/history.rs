//! `history:`: what is done about a conversation that providers refuse.

use core::num::NonZeroU32;

use serde_json::json;

use super::text::{Text, variables};
use crate::policy::decode::choice_of;
use crate::policy::merge::{layer, plain_leaf};
use crate::policy::{HistoryCheck, HistoryPolicy, OrphanCalls};

variables! {
    /// What is known of calls that were taken out.
    Pruned = ["calls"];
    /// What is known of a call without a result.
    Unanswered = ["tool"];
}

layer! {
    /// What is done about a history that providers refuse: calls without a result, results without a call.
    pub(crate) struct HistoryLayer => MergedHistory {
        leaves {
            /// When the history is repaired.
            check: HistoryCheck,
            /// What is done about a call without a result. It may have run, whichever is chosen.
            orphan_calls: OrphanCalls,
            /// The most characters of a text among the arguments of a call that the model is shown again.
            /// Example: `80`
            argument_chars: NonZeroU32,
        }
        blocks {
            /// What the model is told.
            messages: HistoryMessagesLayer => MergedHistoryMessages,
        }
    }
}

layer! {
    /// What the model is told about calls without a result.
    pub(crate) struct HistoryMessagesLayer => MergedHistoryMessages {
        leaves {
            /// Guidance after calls were taken out. Each of `calls` has a `tool` and its `arguments`.
            /// Example: `{% for call in calls %}{{ call.tool }} may have run. {% endfor %}Nobody knows.`
            pruned: Text<Pruned>,
            /// The result of a call that had none.
            /// Example: `Nobody knows what came of {{ tool }}. It may have run.`
            injected: Text<Unanswered>,
        }
    }
}

impl MergedHistory {
    /// The plain values; `None` if the layers leave one open, which the built-in default does not.
    pub(crate) fn policy(&self) -> Option<HistoryPolicy> {
        Some(HistoryPolicy {
            check: self.check.setting()?,
            orphan_calls: self.orphan_calls.setting()?,
            argument_chars: self.argument_chars.setting()?,
            pruned_message: self.messages.pruned.setting()?,
            injected_message: self.messages.injected.setting()?,
        })
    }
}

choice_of! {
    /// When the history is repaired.
    HistoryCheck {
        /// Before a model is called, and after a provider has refused the history.
        BeforeCall = "before_call",
        /// Only after a provider has refused it.
        AfterError = "after_error",
        /// Not at all.
        Never = "never",
    }
}

choice_of! {
    /// What is done about a call without a result.
    OrphanCalls {
        /// It is taken out, and the model is told of it.
        Prune = "prune",
        /// It gets a result, which says that nobody knows what came of it.
        Inject = "inject",
    }
}

plain_leaf! {
    HistoryCheck => |value| json!(value),
    OrphanCalls => |value| json!(value),
}
