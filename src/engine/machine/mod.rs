//! The machines of the interpreter: each owns its state, and changes no other state.

mod batch;
mod budgets;
mod call_queue;
mod call_refusal;
mod failed_call;
mod final_turn;
mod history_repairs;
mod learned_paces;
mod loop_detector;
mod model_health;
mod model_series;
mod model_turn;
mod open_proposal;
mod out;
mod pace;
mod pace_pools;
mod pending_delay;
mod proposal_terms;
mod reply;
mod report_series;
mod run_budget;
mod run_context;
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
pub(super) use call_queue::{CallPermit, CallQueue};
pub(crate) use final_turn::final_turn;
pub(super) use final_turn::{FinalTurn, out_of_turns};
pub(super) use model_health::ModelHealth;
pub(super) use model_turn::ModelTurn;
pub(super) use open_proposal::OpenProposal;
pub(super) use out::{StepOutput, StepRules};
#[cfg(feature = "serve")]
pub(super) use pace::pool_of_model;
pub(super) use pace_pools::PacePools;
#[cfg(feature = "serve")]
pub(crate) use pace_pools::{PaceStanding, RateStanding};
pub(super) use proposal_terms::ProposalKind;
pub(super) use reply::{fault_of, repair_call, repair_reply, reply_refused, take_leaked_calls};
pub(super) use report_series::{ReportSeries, parsed_report, say_problems};
pub(super) use run_context::RunContext;
pub(super) use run_parts::{LastSeen, RunParts, case_of};
pub(super) use session::{FailedAttempt, is_validation};
pub(super) use then::{NextMachine, RunEnd};
pub(super) use tool_health::{NO_PROBE_FOR, ToolHealth};
pub(super) use tool_series::ToolSeries;
pub(super) use turn_guidance::ReplyGuidance;
pub(super) use turn_loop::TurnLoop;
pub(super) use work_table::{WorkPurpose, WorkTable};
