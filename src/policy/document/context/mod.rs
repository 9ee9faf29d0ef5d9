//! `context:`: how a conversation is measured, and kept within the window of a model.

mod reduce;
mod share;
mod tokens;

use core::num::NonZeroU32;

use serde_json::json;

use super::text::{Text, variables};
use crate::policy::decode::choice_of;
use crate::policy::merge::layer;
use crate::policy::merge::plain_leaf;
use crate::policy::{ContextMessages, ContextPolicy, ResultsRoom, Share};
use reduce::Steps;
use share::Room;
pub(crate) use tokens::{MergedTokens, TokensLayer};

variables! {
    /// What is known of a result that is shortened.
    Shortened = ["tool", "tokens", "shown"];
    /// What is known of messages that are left out.
    LeftOut = ["count"];
    /// What is known of a text that is cut.
    CutOut = ["tokens"];
    /// What is known of a result all of which is kept.
    KeptWhole = ["handle", "reader"];
}

layer! {
    /// How a conversation is measured, and kept within the window of a model.
    pub(crate) struct ContextLayer => MergedContext {
        leaves {
            /// What of the window is kept free besides the reply: a part of the window, or so many tokens.
            /// Example: `500 tokens`
            reserve: Share,
            /// What of the window is not used, in case there are more tokens than were counted: a part of the window, or
            /// so many tokens.
            /// Example: `0.05`
            safety: Share,
            /// With less room left than this the conversation is reduced: a part of the budget for messages, or so many
            /// tokens.
            /// Example: `5000 tokens`
            evict_at: Room,
            /// With less room left than this the model is not asked: a part of the budget for messages, or so many tokens.
            /// Example: `1500 tokens`
            gate: Room,
            /// Reductions go on until so much room is left: a part of the budget for messages, or so many tokens.
            /// Example: `0.5`
            target: Room,
            /// How much room the results of the calls of one reply have together. What is too much is cut from the
            /// result it would be too much with; each has at least an equal part.
            /// Example: `left`
            results: ResultsRoom,
            /// What is done, step by step, until there is room enough; an empty list: nothing.
            /// Example: `[{"kind": "drop", "keep_last": 10}]`
            reduce: Steps,
            /// Whether what the user said last is kept whatever is left out.
            /// Example: `false`
            keep_task: bool,
            /// Whether a request that a provider refused for its size is reduced once and sent again.
            /// Example: `false`
            recover: bool,
            /// After so many reductions in a row that gained nothing (less than 2 % of the window, short of the `target`)
            /// the next turn is the last.
            /// Example: `2`
            give_up_after: NonZeroU32,
        }
        blocks {
            /// What the model is told of a conversation that was reduced.
            messages: ContextMessagesLayer => MergedContextMessages,
        }
        within {
            /// How tokens are counted. `tokens` of a model stands above it.
            tokens: TokensLayer,
        }
    }
}

layer! {
    /// What the model is told of a conversation that was reduced.
    pub(crate) struct ContextMessagesLayer => MergedContextMessages {
        leaves {
            /// The result of a tool that was shortened; `shown` is what is left of it.
            /// Example: `[{{ tool }} returned some {{ tokens }} tokens: {{ shown }}...]`
            shortened: Text<Shortened>,
            /// In the place of messages that were left out.
            /// Example: `[Earlier messages were left out.]`
            dropped: Text<LeftOut>,
            /// Above the lines about messages that were left out.
            /// Example: `What came before, in short:`
            digest: Text<LeftOut>,
            /// What a model is asked that is to sum up messages; they follow it.
            /// Example: `Sum up this conversation in a few words.`
            summarize: Text<LeftOut>,
            /// Above the summary of messages that were left out.
            /// Example: `Summary of what came before:`
            summary: Text<LeftOut>,
            /// In the place of what was cut out of a text.
            /// Example: `...[truncated]...`
            cut: Text<CutOut>,
            /// With what is left of a result all of which is kept (`result.over: spill`): in a result that was shortened
            /// or cut, and in the line about one that was left out.
            /// Example: `[call {{ reader }} with the handle {{ handle }} for all of it]`
            kept: Text<KeptWhole>,
        }
    }
}

impl MergedContext {
    /// The plain values; `None` if the layers leave one open, which the built-in default does not.
    pub(crate) fn policy(&self) -> Option<ContextPolicy> {
        Some(ContextPolicy {
            reserve: self.reserve.setting()?,
            safety: self.safety.setting()?,
            evict_at: self.evict_at.setting()?,
            gate: self.gate.setting()?,
            target: self.target.setting()?,
            results: self.results.setting()?,
            reduce: self.reduce.setting()?,
            keep_task: self.keep_task.setting()?,
            recover: self.recover.setting()?,
            give_up_after: self.give_up_after.setting()?,
            messages: ContextMessages {
                shortened: self.messages.shortened.setting()?,
                dropped: self.messages.dropped.setting()?,
                digest: self.messages.digest.setting()?,
                summarize: self.messages.summarize.setting()?,
                summary: self.messages.summary.setting()?,
                cut: self.messages.cut.setting()?,
                kept: self.messages.kept.setting()?,
            },
        })
    }
}

choice_of! {
    /// How much room the results of the calls of one reply have together.
    ResultsRoom {
        /// What is left in the window above the `gate`.
        Left = "left",
        /// What is left when what came before them is reduced to the `target`; as `left`, if there are no steps.
        Reduced = "reduced",
        /// Any amount: each is cut to its own `result.max` only.
        Unlimited = "unlimited",
    }
}

plain_leaf! {
    ResultsRoom => |value| json!(value),
}
