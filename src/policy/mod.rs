//! What a person writes: documents, layers, selectors, and their merge into an effective policy.

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

mod backoff;
mod breaking;
pub(crate) mod builtin;
mod call_override;
mod calls;
mod check;
mod class;
mod class_rules;
pub(crate) mod classify;
pub(crate) mod conflict;
mod context;
#[allow(unnameable_types, reason = "the forms of a block, which are sealed, name some")]
pub(crate) mod decode;
pub(crate) mod display;
#[allow(
    unnameable_types,
    reason = "the forms of a block are sealed: outside there is the effective one, by its default"
)]
pub(crate) mod document;
mod effective;
mod findings;
#[allow(
    unnameable_types,
    reason = "the forms of a block are sealed: outside there is the effective one, by its default"
)]
pub(crate) mod form;
pub(crate) mod key;
pub(crate) mod key_value;
#[allow(
    unnameable_types,
    reason = "the forms of a block are sealed: outside there is the effective one, by its default"
)]
pub(crate) mod layer_value;
pub(crate) mod layers;
pub(crate) mod load;
pub(crate) mod loader;
mod lost;
mod meaning;
#[allow(
    unnameable_types,
    reason = "the forms of a block are sealed: outside there is the effective one, by its default"
)]
pub(crate) mod merge;
mod origin;
mod pace;
pub(crate) mod part;
mod price;
mod result;
pub(crate) mod rules;
mod run_limits;
mod seed;
mod selector;
mod selector_index;
mod targets;
pub(crate) mod tightest_limits;
mod unknown_price;
#[cfg(feature = "yaml-value")]
mod value;
mod wait_source;
mod written_schema;

pub(crate) use backoff::WaitBounds;
pub use backoff::{Backoff, BackoffShape, Jitter};
pub use breaking::{BreakerScope, CountWindow, FailureCounting};
pub use call_override::CallOverride;
pub use calls::{AfterEffect, EffectVerification};
pub use class::{ClassSet, ErrorClass, UnknownClass};
pub use class_rules::ClassRules;
pub use classify::{
    ClassifiedFailure, ErrorRow, ErrorTable, ErrorTableError, FailureEvidence, StatusPattern,
};
pub use context::{ContextShare, ReduceStep};
pub use document::{
    AfterPartial, Approval, ApprovalPolicy, BreakerPolicy, ByClass, BytesPerToken, CallsMessages,
    CallsPolicy, ClassRetry, ContextMessages, ContextPolicy, CountBy, Effect, GuidancePolicy, HistoryCheck,
    HistoryMessages, HistoryPolicy, KeptPart, LoopGuardPolicy, LoopMessages, LoopStages, MalformedCalls,
    ModelPace, ModelPolicy, ModelTimeouts, OnExhausted, OnStop, OrphanCalls, OutputMessages, OutputPolicy,
    OverMax, PaceLearning, RepeatScope, ResultForm, ResultPolicy, ResultsRoom, RetryPolicy, TargetWait,
    TargetsPolicy, TextOnly, TokensPolicy, ToolMessages, ToolPace, ToolPolicy, TurnMessages, TurnPolicy,
    UnansweredMode,
};
pub(crate) use document::{CostLimit, PriceEntry};
#[cfg(feature = "host")]
pub(crate) use document::{NonZeroTime, OpenFraction, PerClass, PolicyFile};
pub use effective::{
    AboveMax, AttemptLimit, BudgetScope, ReducerChange, ReducerRule, RetryBudget, ServerDelay,
    ServerDelayMode, SessionPolicy, SliceRule, TimeBound, TokenBudget, Trigger, Validator, WindowBudget,
};
pub use findings::Findings;
pub use key::{Key, Looser};
pub(crate) use load::json_schema_with_checks;
pub use load::{CallPolicy, Policy, json_schema};
pub use loader::Loader;
#[cfg(feature = "host")]
pub(crate) use loader::NamedText;
pub use origin::{LayerKind, Origin, Setting};
pub use pace::{PaceBreaker, PaceLimit, PacePool, PaceRate, PaceScope, ProbeRule};
pub use price::{Cost, ModelPrice, Price};
pub(crate) use result::estimated_tokens;
pub use result::{SizeCap, SizeUnit, TextSize};
pub use run_limits::RunLimits;
pub use seed::Seed;
pub use selector::{Selector, SelectorError};
pub use targets::{Advance, ContextWindow, CooldownScope};
pub use unknown_price::UnknownPrice;
pub use wait_source::{WaitSource, WaitSources};
pub use written_schema::WrittenSchema;
