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
mod attempt_series;
mod because;
mod breaker;
mod budget;
mod call_timeouts;
pub(crate) mod canonical;
mod catalogue;
mod cooldowns;
mod depth;
mod directive;
mod event;
mod failure;
mod fold;
mod ids;
mod known_windows;
mod log;
mod loop_stage;
mod machine;
mod measure;
mod memo;
mod metric;
mod model_standing;
mod narrate;
mod observe;
pub(crate) mod orphans;
#[cfg(feature = "serve")]
mod outage_joining;
mod overhead;
mod pace_clock;
mod plain_call;
mod problems;
mod provider_limit;
mod provider_outages;
mod reason;
mod record_line;
mod reduce;
mod reductions;
mod reflect;
mod repeats;
mod reply_contract;
mod result;
mod results_room;
pub mod retry;
mod room;
mod shared;
mod shared_known;
mod shared_pace;
mod spending;
mod state;
mod step;
pub(crate) mod targets;
mod text_calls;
mod token_calibration;
mod token_observation;
mod tracked;
mod unknown_field;
mod untold;
mod wait_hint;

pub use ask::{ApprovalAnswer, ApprovalQuestion, PlannerDecision};
pub(crate) use because::{of_retry, of_stop};
pub use breaker::{BreakerPhase, CircuitBreaker};
pub use call_timeouts::CallTimeouts;
pub use catalogue::{CatalogueError, NameClash, ToolCatalogue, ToolSpec};
#[cfg(feature = "host")]
pub(crate) use depth::levels;
pub use directive::{
    AskPerson, CallModel, ConsultPlanner, DecisionReason, Directive, DirectiveKind, Directives, Note,
    OrphanToolCallsPruned, Outcome, PrepareTurn, ProposalFault, ProposalRef, ProposalResult, RepairHistory,
    RetryAction, RunTool, SettledProposal, ToolChoice, TurnRetry, WaitWork, Work,
};
pub use event::{
    DriveMode, Envelope, Event, FinishReason, HostSkill, ModelReply, ProposedCall, RunFacts, RunStarted,
    ToolFacts, ToolOutcome, TurnProposal,
};
pub use failure::{BodyFacts, EffectState, Failure, PartialHint, WaitHint, WaitHints, may_run_again};
pub use fold::SessionFold;
pub use ids::{ProposalId, WorkId};
pub use known_windows::{EffectiveWindow, KnownWindow, KnownWindows, WindowSource};
pub(crate) use machine::{final_turn, pool_of_model, pool_of_tool};
pub use measure::TurnMeasure;
pub use metric::{Metric, MetricName};
pub use model_standing::{ModelStanding, PaceStanding, RateStanding};
#[cfg(all(test, feature = "host"))]
pub(crate) use narrate::tests::every_directive;
pub(crate) use narrate::{Fact, Narration, Narrator, Prominence, Severity};
pub use observe::{AwaitedStep, OpenAttempts, OpenCall};
pub use overhead::RequestOverhead;
pub use pace_clock::PaceClock;
pub use plain_call::{PlainCall, PlainEnd, PlainFailure, PlainNext, PlainRules};
pub(crate) use problems::told;
pub use provider_limit::{LimitUnit, ProviderLimit};
pub use provider_outages::ProviderOutages;
pub use reduce::{ContextReduced, ReduceContext, ReducePlan, SummarizeMessages};
pub use repeats::{LoopPattern, LoopRepetition, LoopStage};
pub use reply_contract::{CheckedReply, RefusedReply, ReplyContract};
pub use result::{
    ContentPart, CutRules, KEPT_UNDER, KeptText, ResultSpill, ToolResult, content_text, cut_text,
};
pub(crate) use result::{head_of, tail_of};
pub(crate) use room::ContextBudget;
pub use shared::{SharedPart, SharedSubject};
pub use shared_known::SharedKnown;
pub use shared_pace::SharingScope;
pub use spending::RunSpending;
pub use state::State;
pub use step::Interpreter;
pub use token_calibration::TokenCalibration;
pub use token_observation::TokenObservation;
pub use wait_hint::ReplyHeaders;

pub use log::{AgentFacts, LogHeader, Record, RecordError, RecordRef};
pub use record_line::{RecordLine, RecordLineError};

/// Further items for the hosts and stores of this crate.
#[cfg(feature = "host")]
pub(crate) use self::{
    log::{LineChecksum, checksum, verify},
    problems::reported,
    record_line::MAX_LINE,
};
