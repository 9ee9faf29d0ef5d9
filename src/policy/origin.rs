//! Where a value comes from: the layer that made it so, and the place in the file.

use core::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text::{Place, SourceId, Sources, Span, Spot};

/// A value and where it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting<T> {
    /// The effective value.
    pub value: T,
    /// The layer and place that won.
    pub origin: Origin,
}

/// Where a value comes from, small enough to travel with every value. [`Sources`](crate::text::Sources) turns it
/// into a [`Place`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Origin {
    /// The file.
    pub source: SourceId,
    /// Byte offset of the value in the file.
    pub at: u32,
    /// The kind of layer.
    pub scope: LayerKind,
}

/// The kind of layer a value was written in, lowest precedence first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LayerKind {
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
    pub const BUILTIN: Self = Self { source: SourceId(0), at: 0, scope: LayerKind::Builtin };
}

impl Sources {
    /// Where a value was written, for people.
    pub fn place(&self, origin: Origin) -> Place {
        self.place_at(origin.source, origin.at)
    }

    /// Where a value was written, without the name of the text.
    pub(crate) fn spot(&self, origin: Origin) -> Spot {
        self.spot_at(origin.source, origin.at)
    }
}

impl Span {
    /// The same place as the origin of a value of that layer.
    pub const fn origin(self, scope: LayerKind) -> Origin {
        Origin { source: self.source, at: self.start, scope }
    }
}

impl fmt::Display for LayerKind {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_is_a_line_and_a_column_in_characters() {
        let mut sources = Sources::new();
        let id = sources.add("a.yaml", "x: 1\nä: ö\n");
        let place = |at| sources.place(Origin { source: id, at, scope: LayerKind::Global }).to_string();
        assert_eq!(place(0), "a.yaml:1:1");
        assert_eq!(place(3), "a.yaml:1:4");
        assert_eq!(place(5), "a.yaml:2:1");
        assert_eq!(place(9), "a.yaml:2:4");
        assert_eq!(place(12), "a.yaml:3:1");
        assert_eq!(place(4_000_000), "a.yaml:3:1");
    }

    #[test]
    fn a_spot_is_the_same_in_a_text_of_another_name_and_below_other_lines() {
        let mut here = Sources::new();
        let id = here.add("a.yaml", "x: 1\ny: 2\n");
        let mut there = Sources::new();
        there.add("/srv/b.yaml", "x: 1\ny: 2\n");
        there.put_below(40);
        let spot = here.spot(Origin { source: id, at: 8, scope: LayerKind::Global });
        assert_eq!(there.spot(Origin { source: id, at: 8, scope: LayerKind::Global }), spot);
        assert_eq!(here.place_in(spot).to_string(), "a.yaml:2:4");
        assert_eq!(there.place_in(spot).to_string(), "/srv/b.yaml:42:4");
    }

    #[test]
    fn an_unknown_source_still_has_a_name() {
        assert_eq!(Sources::new().place(Origin::BUILTIN).to_string(), "(unknown):1:1");
    }

    #[test]
    fn the_text_is_not_in_the_debug_form_of_what_holds_it() {
        let text = "version: 1\napi_key: sk-proj-abcdefghijklmnopqrstuvwxyz012345\n";
        let report = crate::policy::Policy::from_yaml("p.yaml", text).unwrap_err();
        let shown = format!("{report:?} {report:#?}");
        assert!(shown.contains("p.yaml") && !shown.contains("sk-proj-abc"), "{shown}");
    }
}
