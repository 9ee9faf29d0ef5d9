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
mod builtin;
mod call_override;
mod calls;
mod check;
mod class;
mod classify;
mod columns;
mod conflict;
mod context;
pub mod decode;
mod diagnostic;
mod did_you_mean;
mod diff;
mod display;
mod document;
mod duration;
mod effective;
mod error_facts;
mod excerpt;
mod explain;
mod expr;
pub(crate) mod form;
mod json_schema;
mod key_value;
mod keys;
mod layers;
mod lint;
mod load;
mod loader;
mod lost;
mod meaning;
mod merge;
mod names;
mod origin;
mod price;
mod ratio;
mod render;
mod report;
mod result;
mod rules;
mod run_limits;
mod scalar;
mod secret;
mod seed;
mod selector;
mod selector_index;
mod source;
mod targets;
mod template;
#[cfg(feature = "yaml-value")]
mod value;
mod visible;
mod wait_source;
mod written_schema;
#[cfg(feature = "host")]
mod written_values;
pub mod yaml;

pub(in crate::policy) use backoff::Waiting;
pub use backoff::{Backoff, Jitter, Shape};
pub use breaking::{CountWindow, Counting};
pub use call_override::CallOverride;
pub use calls::{AfterEffect, Verification};
pub use class::{ClassSet, ErrorClass, UnknownClass};
pub use classify::{Classified, ErrorRow, ErrorTable, ErrorTableError, Evidence, StatusPattern};
pub use columns::{columns, padded};
pub use context::{ReduceStep, Share};
pub use diagnostic::{Code, Diagnostic, Fix, Severity};
pub use did_you_mean::closest as did_you_mean;
#[cfg(feature = "host")]
pub(crate) use did_you_mean::closest;
pub use diff::{Comparison, DiffGroup, DiffRow, DiffSubject, DiffVerdict, Names, SubjectKind};
pub use document::{
    AboveMax, Advance, AfterPartial, Approval, ApprovalPolicy, BreakerPolicy, BreakerScope, BudgetScope,
    ByClass, BytesPerToken, CallsMessages, CallsPolicy, ClassRetry, ContextMessages, ContextPolicy, CountBy,
    Dollars, Effect, GuidancePolicy, HistoryCheck, HistoryMessages, HistoryPolicy, Keep, LoopGuardPolicy,
    LoopMessages, MalformedCalls, ModelPolicy, ModelTimeouts, OnExhausted, OnStop, OrphanCalls,
    OutputMessages, OutputPolicy, OverMax, PriceEntry, Repeats, ResultForm, ResultPolicy, ResultsRoom,
    RetryPolicy, ServerDelayMode, Stages, TargetWait, TargetsPolicy, TextOnly, TokensPolicy, ToolMessages,
    ToolPolicy, Trigger, TurnMessages, TurnPolicy, Unanswered, WaitSource,
};
#[cfg(feature = "host")]
pub(crate) use document::{Fraction, Lasting, PerClass, PolicyFile};
pub use duration::{DurationError, parse_duration};
pub use effective::{
    Attempts, Bound, Budget, Change, ClassRules, ReducerRule, ServerDelay, SessionPolicy, SliceRule,
    TokenBudget, Validator, WindowBudget,
};
pub(crate) use excerpt::excerpt;
pub use explain::{
    Bounds, CallFile, CallLayer, Checks, Contribution, Cure, DelayRow, DelayTable, Delays, ErrorAction,
    ErrorExplanation, Explained, Explanation, Holds, LimitInForce, ModelBounds, Reason, RunBounds,
    ToolBounds, UnknownKey, Worst,
};
pub(crate) use expr::kind;
pub use expr::{Expr, ExprError};
pub use form::{Key, Looser};
pub use json_schema::{Problem, Schema, SchemaError};
pub use keys::keys;
pub use lint::{Completeness, KnownModel, KnownNames, KnownTool, LintOptions, ShortBudget};
pub use load::{CallPolicy, Policy, json_schema, json_schema_with_checks};
#[cfg(feature = "host")]
pub(crate) use loader::Text;
pub use loader::{Loader, Resolve};
pub(crate) use origin::Spot;
pub use origin::{Origin, Place, Scope, Setting, SourceId};
pub use price::{Cost, ModelPrice, Price};
pub use ratio::{Ratio, RatioError, parse_millionths, parse_ppm};
pub use report::{Findings, Report, Said};
pub use result::{Cap, Size, Unit, estimated_tokens};
pub use run_limits::{RunLimits, UnknownPrice};
pub use secret::without_secrets;
#[cfg(feature = "host")]
pub(crate) use secret::{formed, written as written_secret};
pub use seed::Seed;
pub use selector::{Selector, SelectorError};
pub use source::{Source, Sources, Span};
pub use targets::{ContextWindow, Provider};
pub use template::{Template, TemplateError};
pub use visible::visible;
pub use wait_source::WaitSources;
pub use written_schema::WrittenSchema;
