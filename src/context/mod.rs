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

mod checked;
mod declared;
mod estimate;
mod files;
mod fixed;
mod history;
mod images;
mod ledger;
mod models;
mod reduce;
mod request;
mod tokens;

pub use checked::Checked;
pub use declared::ToolForm;
pub use estimate::{ContentKind, Estimator};
pub use fixed::overhead;
pub use history::{Finding, FindingKind, findings, repair};
pub use images::{ImageRule, image_size};
pub use ledger::Ledger;
pub use models::{ModelCatalogue, ModelCatalogueError, ModelLimits};
pub use reduce::reduce;
pub use request::{MessageTokens, RequestTokens, ToolTokens};
pub use tokens::{
    Estimate, TokenCounter, estimate_message, estimate_tools, measure, message_tokens, tool_tokens,
    tool_tokens_of,
};
