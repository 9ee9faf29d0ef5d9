//! The machines of the interpreter: each owns its state, and changes no other's.

mod batch;
mod budgets;
mod call_queue;
mod final_turn;
mod history_repairs;
mod loop_detector;
mod model_health;
mod model_series;
mod model_turn;
mod open_proposal;
mod out;
mod pending_delay;
mod reply;
mod report_series;
mod run_budget;
mod run_parts;
mod session;
mod then;
mod tool_health;
mod tool_series;
mod turn_guidance;
mod turn_loop;
mod turn_window;
mod work_table;

pub(super) use batch::Batch;
pub(super) use call_queue::CallQueue;
pub(crate) use final_turn::final_turn;
pub(super) use final_turn::{FinalTurn, out_of_turns};
pub(super) use model_health::ModelHealth;
pub(super) use model_turn::ModelTurn;
pub(super) use open_proposal::{OpenProposal, ProposalKind};
pub(super) use out::{Out, Rules};
pub(super) use reply::{fault_of, repair_call, repair_reply, reply_refused, take_leaked_calls};
pub(super) use report_series::{ReportSeries, parsed_report, say_problems};
pub(super) use run_parts::{LastSeen, RunParts};
#[cfg(feature = "host")]
pub(crate) use session::validation;
pub(super) use then::{RunEnd, Then};
pub(super) use tool_health::ToolHealth;
pub(super) use tool_series::ToolSeries;
pub(super) use turn_guidance::Guidance;
pub(super) use turn_loop::TurnLoop;
pub(super) use work_table::{Pending, WorkTable};
