//! The interpreter: events in, directives out. Pure: no clock, no I/O, no random stream.
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

mod because;
mod breaker;
mod budget;
mod canonical;
mod catalogue;
mod directive;
mod event;
mod failure;
mod gate;
mod leaked;
mod log;
mod metric;
pub(crate) mod orphans;
mod problems;
mod reduce;
mod repeats;
mod result;
pub mod retry;
mod state;
mod step;
pub mod targets;
mod wait_hint;
mod window;

pub use breaker::{Admission, Breaker, BreakerPhase};
pub use budget::{Budgets, Ledger, Overdrawn};
pub use catalogue::{Catalogue, CatalogueError, NameClash, ToolSpec};
pub use directive::{
    Because, CallModel, CallTimeouts, Consult, Decision, Directive, Directives, Note, Order,
    OrphanToolCallsPruned, Outcome, PrepareTurn, RepairHistory, RetryAction, RunTool, ToolChoice, TurnRetry,
    Wait, Work, WorkId,
};
pub use event::{
    Drive, Envelope, Event, FinishReason, ModelReply, Proposal, RunStarted, ToolFacts, ToolOutcome,
    TurnMeasure,
};
#[cfg(feature = "host")]
pub(crate) use failure::plain;
pub use failure::{BodyFacts, EffectState, Failure, Hint, Partly, may_run_again};
pub use metric::{Metric, MetricName};
#[cfg(feature = "host")]
pub(crate) use problems::{join_problems, told, violations};
pub use reduce::{ContextReduced, ReduceContext, ReducePlan, Summarize};
pub use repeats::{LoopPattern, LoopStage, Repetition};
pub use result::{ContentPart, CutRules, Piece, RunFacts, Spill, ToolResult, content_text, cut_text};
pub(crate) use result::{head_of, tail_of};
#[cfg(feature = "host")]
pub(crate) use result::{json_size, walk};
pub use state::{STATE_FORMAT, State};
pub use step::Interpreter;
#[cfg(feature = "host")]
pub(crate) use step::validation;
pub use wait_hint::Headers;
#[cfg(feature = "host")]
pub(crate) use window::Room;

pub use log::{LOG_FORMAT, LogHeader, RECORD_VERSION, Record, RecordError, RecordRef};
