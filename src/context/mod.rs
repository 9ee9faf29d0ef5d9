//! What goes into a model's context window: how much it is, whether a provider would take it, and
//! what it takes that one does. Pure.

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects
    )
)]

mod history;
mod reduce;
mod tokens;

pub use history::{Finding, FindingKind, findings, repair};
pub use reduce::reduce;
pub use tokens::{
    Estimate, TokenCounter, estimate_message, estimate_tools, measure, message_tokens, tool_tokens,
};
