//! `context:`: how a conversation is measured, and kept within the window of a model.

mod reduce;
mod share;
mod tokens;

use crate::policy::form::{Block, Effective, Form};
use core::num::NonZeroU32;

use serde_json::json;

use super::text::{TemplateText, variables};
use crate::policy::decode::choice;

use crate::policy::ContextShare;
use crate::policy::layer_value::plain_leaf;
use reduce::ReduceSteps;
use share::NonZeroShare;
pub use tokens::{BytesPerToken, CountBy, TokensPolicy};

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

/// How a conversation is measured, and kept within the window of a model.
#[derive(Clone, Debug, Block)]
pub struct ContextPolicy<F: Form = Effective> {
    /// What of the window is kept free besides the reply: a part of the window, or so many tokens.
    /// Checks: W0246.
    /// Example: `500 tokens`
    pub reserve: F::Of<ContextShare>,
    /// What of the window is not used, in case there are more tokens than were counted: a part of the window, or
    /// so many tokens.
    /// Checks: W0246.
    /// Example: `0.05`
    pub safety: F::Of<ContextShare>,
    /// With less room left than this the conversation is reduced: a part of the budget for messages, or so many
    /// tokens.
    /// Checks: W0245, W0247.
    /// Example: `5000 tokens`
    pub compact_at_free: F::Of<NonZeroShare>,
    /// With less room left than this the model is not asked: a part of the budget for messages, or so many tokens.
    /// Checks: W0245.
    /// Example: `1500 tokens`
    pub min_free: F::Of<NonZeroShare>,
    /// Reductions continue until so much room is left: a part of the budget for messages, or so many tokens.
    /// Checks: W0247.
    /// Example: `0.5`
    pub target_free: F::Of<NonZeroShare>,
    /// How much room the results of the calls of one reply have together. What is too much is cut from the
    /// result it would be too much with; each has at least an equal part.
    /// Example: `left`
    pub results: F::Of<ResultsRoom>,
    /// What is done, step by step, until there is room enough; an empty list: nothing.
    /// Example: `[{"kind": "drop", "keep_last": 10}]`
    pub reduce: F::Of<ReduceSteps>,
    /// Whether what the user said last is kept whatever is left out.
    /// Example: `false`
    #[key(looser = Neither)]
    pub keep_last_user_message: F::Of<bool>,
    /// Whether a request that a provider refused for its size is reduced once and sent again.
    /// Example: `false`
    #[key(looser = Neither)]
    pub compact_on_overflow: F::Of<bool>,
    /// After so many reductions in a row that gained nothing (less than 2 % of the window, short of `target_free`)
    /// the next turn is the last. 4294967295: no turn is the last for want of room, and what no window holds is sent
    /// as it is.
    /// Example: `2`
    #[key(looser = Neither)]
    pub give_up_after: F::Of<NonZeroU32>,
    /// What the model learns of a conversation that was reduced.
    pub messages: F::In<ContextMessages<F>>,
    /// How tokens are counted. `tokens` of a model takes precedence over it.
    pub tokens: F::In<TokensPolicy<F>>,
}

/// What the model learns of a conversation that was reduced.
#[derive(Clone, Debug, Block)]
pub struct ContextMessages<F: Form = Effective> {
    /// The result of a tool that was shortened; `shown` is what is left of it.
    /// Example: `[{{ tool }} returned some {{ tokens }} tokens: {{ shown }}...]`
    pub shortened: F::Of<TemplateText<Shortened>>,
    /// In the place of messages that were left out.
    /// Example: `[Earlier messages were left out.]`
    pub dropped: F::Of<TemplateText<LeftOut>>,
    /// Above the lines about messages that were left out.
    /// Example: `What came before, in short:`
    pub digest: F::Of<TemplateText<LeftOut>>,
    /// What a model is asked that is to sum up messages; they follow it.
    /// Example: `Sum up this conversation in a few words.`
    pub summarize: F::Of<TemplateText<LeftOut>>,
    /// Above the summary of messages that were left out.
    /// Example: `Summary of what came before:`
    pub summary: F::Of<TemplateText<LeftOut>>,
    /// In the place of what was cut out of a text.
    /// Example: `...[truncated]...`
    pub cut: F::Of<TemplateText<CutOut>>,
    /// With what is left of a result all of which is kept (`result.overflow: spill`): in a result that was shortened
    /// or cut, and in the line about one that was left out.
    /// Example: `[call {{ reader }} with the handle {{ handle }} for all of it]`
    pub kept: F::Of<TemplateText<KeptWhole>>,
}

choice! {
    /// How much room the results of the calls of one reply have together.
    #[derive(serde::Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum ResultsRoom {
        /// What is left in the window above `min_free`.
        Left = "left",
        /// What is left when what came before them is reduced to `target_free`; as `left`, if there are no steps.
        Reduced = "reduced",
        /// Any amount: each is cut to its own `result.max` only.
        Unlimited = "unlimited",
    }
}

plain_leaf! {
    ResultsRoom => |value| json!(value);
}
