//! The machines of the interpreter: each owns its state, and changes no other's.

mod budgets;
mod final_turn;
mod loop_detector;
mod model_health;
mod out;
mod reply;
mod run_budget;
mod session;
mod tool_health;

pub(crate) use final_turn::final_turn;
pub(super) use final_turn::{FinalTurn, out_of_turns};
pub(super) use loop_detector::EndOfCall;
pub(super) use model_health::ModelHealth;
pub(super) use out::{Out, Rules};
pub(super) use reply::{recover, repair_call, repair_reply, repair_text, take_leaked_calls};
pub(super) use run_budget::{Conversation, Granted, RunBudget};
pub(super) use session::Failed;
#[cfg(feature = "host")]
pub(crate) use session::validation;
pub(super) use tool_health::{Entry, ToolHealth};
