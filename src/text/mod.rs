//! Reading and showing text: YAML with places, diagnostics, JSON Schema, expressions, templates, secrets, terminal columns,
//! repair of JSON. Nothing here knows what a policy is.

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

mod columns;
mod diagnostic;
pub(crate) mod did_you_mean;
pub(crate) mod duration;
mod excerpt;
mod expr;
mod json_schema;
mod problems;
mod ratio;
mod render;
pub mod repair;
mod report;
pub(crate) mod scalar;
pub(crate) mod secret;
pub(crate) mod source;
pub(crate) mod template;
mod visible;
pub mod yaml;

pub(crate) use columns::{columns, padded};
pub(crate) use diagnostic::Fix;
pub use diagnostic::{Code, Diagnostic, Severity};
#[cfg(feature = "host")]
pub(crate) use did_you_mean::closest as did_you_mean;
pub(crate) use duration::parse_duration;
pub(crate) use excerpt::excerpt;
pub(crate) use expr::kind;
pub use expr::{Expr, ExprError};
#[cfg(feature = "cli")]
pub(crate) use json_schema::is_meant;
pub use json_schema::{Schema, SchemaError, SchemaProblem};
pub(crate) use json_schema::{SchemaPart, pointer_step};
pub use problems::Problems;
pub use ratio::{GrowthFactor, RatioError};
pub(crate) use ratio::{parse_millionths, parse_ppm};
pub(crate) use report::GivenHelps;
pub use report::Report;
pub use secret::without_secrets;
#[cfg(feature = "host")]
pub(crate) use secret::{formed, written as written_secret};
pub use source::{Place, SourceId, Sources, Span};
pub(crate) use source::{Source, Spot};
pub use template::{Template, TemplateError};
pub(crate) use visible::visible;
