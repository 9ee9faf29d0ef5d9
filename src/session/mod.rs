//! The memory of an agent: messages, feedback, slices, and the reducers that change them.
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

mod arguments;
mod feedback;
mod final_report;
mod history;
mod message;
mod reduction;
mod slice;
mod slices;

pub use arguments::{is_object, object_arguments};
pub use feedback::{AttemptRecord, FeedbackSource, ReducerError, RetryExhausted, RetryFeedback, StopReason};
pub use final_report::{FailureReason, FailureReport, FinalReason, ReportSource};
pub use history::{HistoryRepair, HistorySplice, InjectedResult, splice};
pub use message::{Message, ToolCall, Usage};
pub(crate) use message::{PER_CALL, PER_MESSAGE, readable};
pub(crate) use reduction::LEFT_OUT;
pub use reduction::{ContextReduction, SummaryRequest};
pub use slices::SessionSlices;

/// Whether a field has its default value, so that it is not written.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
