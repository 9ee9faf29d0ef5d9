//! The machines of the interpreter: each owns its state, and changes no other's.

mod out;
mod reply;
mod session;
mod tool_health;

pub(super) use out::{Out, Rules};
pub(super) use reply::{recover, repair_call, repair_reply, repair_text, take_leaked_calls};
pub(super) use session::Failed;
#[cfg(feature = "host")]
pub(crate) use session::validation;
pub(super) use tool_health::{Entry, ToolHealth};
