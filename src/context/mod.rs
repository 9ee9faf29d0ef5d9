//! The content of a model's context window: its size, its validity for providers, repairs and reductions. Pure.

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
mod conversation;
mod counter;
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

pub use checked::{CheckedHistory, history_faults};
pub use conversation::ConversationMeasure;
pub use counter::{ByteEstimate, TokenCounter};
pub use declared::ToolForm;
pub use estimate::TokenEstimator;
pub use fixed::overhead;
pub(crate) use fixed::overhead_source;
pub use history::{FindingKind, HistoryFinding, findings, repair};
pub use ledger::TokenLedger;
pub(crate) use models::CatalogueEntry;
pub use models::{ModelCatalogue, ModelCatalogueError, ModelLimits};
pub use reduce::reduce;
pub use request::{RequestTokens, part_tokens};
pub use tokens::{estimate_message, measure, message_tokens, tool_tokens};
