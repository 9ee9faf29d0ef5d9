//! What a policy does, asked of the engine instead of worked out a second time.
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

mod call;
mod failure;
mod opening;

pub use call::{CallVerdict, call_verdict, explain_call};
pub use failure::{explain_class, explain_failure};
pub use opening::{explain_context, explain_history, explain_turn};
