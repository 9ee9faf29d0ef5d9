//! Where a value comes from: the layer that made it so, and the place in the file.

use core::fmt;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A value and where it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting<T> {
    /// The value in force.
    pub value: T,
    /// The layer and place that won.
    pub origin: Origin,
}

/// Where a value comes from, small enough to travel with every value. [`Sources`](super::Sources) turns it
/// into a [`Place`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Origin {
    /// The file.
    pub source: SourceId,
    /// Byte offset of the value in the file.
    pub at: u32,
    /// The kind of layer.
    pub scope: Scope,
}

/// One policy text, by the order of loading. The built-in default is number zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceId(pub u16);

/// The kind of layer a value was written in, lowest precedence first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// The policy that ships with the product.
    Builtin,
    /// A top-level block of a policy file.
    Global,
    /// A block of the profile that is chosen.
    Profile,
    /// A selector under `tools:`.
    Tool,
    /// A selector under `models:`.
    Model,
    /// An entry of `calls:` whose `when` holds.
    Call,
    /// Given by the planner at run time.
    Planner,
    /// The channel of `limits:`, where the tightest value wins.
    Limit,
}

/// An origin as people read it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Place {
    /// The file as it was named when it was loaded.
    /// Example: `policy.yaml`
    pub file: String,
    /// 1-based line.
    /// Example: `12`
    pub line: u32,
    /// 1-based column, in Unicode scalar values.
    /// Example: `5`
    pub column: u32,
}

/// A place in a text, whatever the text is called and wherever it stands in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Spot {
    /// The text, by the order of loading.
    pub(crate) source: u16,
    /// 1-based line of the text.
    pub(crate) line: u32,
    /// 1-based column, in Unicode scalar values.
    pub(crate) column: u32,
}

impl<T> Setting<T> {
    /// The value with its origin.
    pub const fn new(value: T, origin: Origin) -> Self {
        Self { value, origin }
    }

    /// Another form of the value, from the same origin.
    pub fn map<U>(self, form: impl FnOnce(T) -> U) -> Setting<U> {
        Setting { value: form(self.value), origin: self.origin }
    }
}

impl Origin {
    /// The start of the built-in default; for values made in tests and by hosts without a file.
    pub const BUILTIN: Self = Self { source: SourceId(0), at: 0, scope: Scope::Builtin };
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Builtin => "built-in",
            Self::Global => "global",
            Self::Profile => "profile",
            Self::Tool => "tool",
            Self::Model => "model",
            Self::Call => "call",
            Self::Planner => "planner",
            Self::Limit => "limit",
        })
    }
}
