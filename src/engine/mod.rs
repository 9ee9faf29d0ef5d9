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

mod ask;
mod because;
mod breaker;
mod budget;
mod call_timeouts;
pub(crate) mod canonical;
mod catalogue;
mod depth;
mod directive;
mod event;
mod failure;
mod fold;
mod known_windows;
mod leaked;
mod lesson;
mod log;
mod loop_stage;
mod machine;
mod metric;
mod observe;
pub(crate) mod orphans;
mod overhead;
mod problems;
mod reason;
mod reduce;
mod reductions;
mod reflect;
mod repeats;
mod result;
mod results_room;
pub mod retry;
mod room;
mod scales;
mod shared;
mod spending;
mod state;
mod step;
pub mod targets;
mod wait_hint;

pub use ask::{Answer, Ask, Question};
pub(crate) use because::{of_retry, of_stop};
pub use breaker::{Admission, Breaker, BreakerPhase};
pub use budget::{Budgets, Ledger, Overdrawn};
pub use call_timeouts::CallTimeouts;
pub use catalogue::{Catalogue, CatalogueError, NameClash, ToolSpec};
#[cfg(feature = "host")]
pub(crate) use depth::{MOST_LEVELS, levels, shallow};
pub use directive::{
    Because, CallModel, Consult, Decision, Directive, Directives, Note, Of, Order, OrphanToolCallsPruned,
    Outcome, PrepareTurn, ProposalFault, ProposalId, RepairHistory, RetryAction, RunTool, Settled,
    Settlement, ToolChoice, TurnRetry, Wait, Work, WorkId,
};
pub use event::{
    Drive, Envelope, Event, FinishReason, HostSkill, ModelReply, Proposal, RunStarted, ToolFacts,
    ToolOutcome, TurnMeasure, TurnProposal,
};
#[cfg(feature = "host")]
pub(crate) use failure::plain;
pub use failure::{BodyFacts, EffectState, Failure, Hint, Partly, Waits, may_run_again};
pub use fold::Fold;
pub use known_windows::{KnownWindow, KnownWindows, WindowInForce, WindowSource};
pub use lesson::Lesson;
#[cfg(feature = "host")]
pub(crate) use loop_stage::{Found, is_asked_for};
pub(crate) use machine::final_turn;
#[cfg(feature = "host")]
pub(crate) use machine::validation;
pub use metric::{Metric, MetricName};
pub use observe::{Awaited, OpenAttempts, OpenCall};
pub use overhead::Overhead;
pub(crate) use problems::told;
#[cfg(feature = "host")]
pub(crate) use problems::{join_problems, reported, violations};
pub use reduce::{ContextReduced, ReduceContext, ReducePlan, Summarize};
#[cfg(feature = "host")]
pub(crate) use reflect::reflect;
#[cfg(feature = "host")]
pub(crate) use repeats::LoopDetector;
pub use repeats::{LoopPattern, LoopStage, Repetition};
pub use result::{ContentPart, CutRules, Piece, RunFacts, Spill, ToolResult, content_text, cut_text};
pub(crate) use result::{head_of, tail_of};
#[cfg(feature = "host")]
pub(crate) use result::{json_size, show, walk};
pub use room::Room;
pub use scales::Scales;
pub use shared::{SharedKnown, SharedPart, Sharing};
pub use spending::Spending;
#[cfg(feature = "host")]
pub(crate) use state::Series;
pub use state::{STATE_FORMAT, State};
pub use step::Interpreter;
pub use wait_hint::Headers;

pub use log::{AgentFacts, LOG_FORMAT, LogHeader, RECORD_VERSION, Record, RecordError, RecordRef};
#[cfg(feature = "host")]
pub(crate) use log::{Checksum, verify};
