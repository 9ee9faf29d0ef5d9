//! `turn.calls:`: the calls of one reply.

use super::retry::Failures;
use super::text::{Text, variables};
use crate::policy::merge::layer;
use crate::policy::{Attempts, CallsPolicy};

variables! {
    /// What is known of a call beyond the most there may be.
    Surplus = ["tool", "most"];
    /// What is known when no call went well.
    AllFailed = ["rounds"];
}

layer! {
    /// The calls of one reply: how many, how many at once, and how far their names and arguments are put right.
    pub(crate) struct CallsLayer => MergedCalls {
        leaves {
            /// How many calls run at once, or `unlimited`. The others wait, in their order; a call keeps its place until
            /// it and all before it have their results.
            /// Example: `4`
            parallel: Attempts,
            /// How many calls of one reply run at all, or `unlimited`. Those beyond get a result that says so.
            /// Example: `10`
            most: Attempts,
            /// After so many rounds in a row in which no call went well the model is told to go another way; then it is
            /// counted anew. Or `never`.
            /// Example: `2`
            failed_rounds: Failures,
            /// Whether arguments that came as a text of JSON are taken as what the text says, if the schema holds then:
            /// all of them, or single fields.
            unpack_arguments: bool,
            /// Whether the name of a tool there is not is taken for that of the one tool it can mean, if its schema
            /// holds.
            correct_names: bool,
            /// How many similar names an unknown tool is answered with.
            /// Example: `3`
            suggestions: u32,
        }
        blocks {
            /// What the model is told.
            messages: CallsMessagesLayer => MergedCallsMessages,
        }
    }
}

layer! {
    /// What the model is told about the calls of a reply.
    pub(crate) struct CallsMessagesLayer => MergedCallsMessages {
        leaves {
            /// The result of a call beyond the most there may be.
            /// Example: `{{ tool }} did not run: a reply may have {{ most }} calls.`
            too_many: Text<Surplus>,
            /// Guidance after rounds in which no call went well.
            /// Example: `No call went well {{ rounds }} times. Go another way.`
            all_failed: Text<AllFailed>,
            /// The result of a call when all calls of tools that `limits.run.tool_calls` grants have run.
            /// Example: `{{ tool }} did not run: {{ most }} calls were made. Answer now.`
            no_calls_left: Text<Surplus>,
        }
    }
}

impl MergedCalls {
    /// The plain values; `None` if the layers leave one open, which the built-in default does not.
    pub(crate) fn policy(&self) -> Option<CallsPolicy> {
        Some(CallsPolicy {
            parallel: self.parallel.setting()?,
            most: self.most.setting()?,
            failed_rounds: self.failed_rounds.setting()?,
            unpack_arguments: self.unpack_arguments.setting()?,
            correct_names: self.correct_names.setting()?,
            suggestions: self.suggestions.setting()?,
            too_many_message: self.messages.too_many.setting()?,
            all_failed_message: self.messages.all_failed.setting()?,
            no_calls_left_message: self.messages.no_calls_left.setting()?,
        })
    }
}
