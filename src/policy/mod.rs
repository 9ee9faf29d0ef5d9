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
#[allow(unnameable_types, reason = "what decoders of this crate alone hand to each other")]
pub mod decode;
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
pub use breaking::BreakerScope;
pub use breaking::{CountWindow, FailureCounting};
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
    CallsPolicy, ClassRetry, ContextMessages, ContextPolicy, CountBy, DollarAmount, Effect, GuidancePolicy,
    HistoryCheck, HistoryMessages, HistoryPolicy, KeptPart, LoopGuardPolicy, LoopMessages, LoopStages,
    MalformedCalls, ModelPolicy, ModelTimeouts, OnExhausted, OnStop, OrphanCalls, OutputMessages,
    OutputPolicy, OverMax, PriceEntry, RepeatScope, ResultForm, ResultPolicy, ResultsRoom, RetryPolicy,
    TargetWait, TargetsPolicy, TextOnly, TokensPolicy, ToolMessages, ToolPolicy, TurnMessages, TurnPolicy,
    UnansweredMode,
};
#[cfg(feature = "host")]
pub(crate) use document::{NonZeroTime, OpenFraction, PerClass, PolicyFile};
pub use effective::{AboveMax, BudgetScope, ServerDelayMode, Trigger};
pub use effective::{
    AttemptLimit, ReducerChange, ReducerRule, RetryBudget, ServerDelay, SessionPolicy, SliceRule, TimeBound,
    TokenBudget, Validator, WindowBudget,
};
pub use findings::Findings;
pub use key::{Key, Looser};
pub use load::{CallPolicy, Policy, json_schema, json_schema_with_checks};
#[cfg(feature = "host")]
pub(crate) use loader::NamedText;
pub use loader::{FileResolver, Loader};
pub use origin::{LayerKind, Origin, Setting};
pub use price::{Cost, ModelPrice, Price};
pub use result::{SizeCap, SizeUnit, TextSize, estimated_tokens};
pub use run_limits::RunLimits;
pub use seed::Seed;
pub(crate) use selector::{Selector, SelectorError};
pub use targets::Advance;
pub use targets::{ContextWindow, CooldownScope};
pub use unknown_price::UnknownPrice;
pub use wait_source::WaitSource;
pub use wait_source::WaitSources;
pub use written_schema::WrittenSchema;
