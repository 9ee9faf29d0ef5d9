//! Lengths of time that an attempt has to fit in: zero is a mistake.

use schemars::{Schema, SchemaGenerator};
use serde_json::{Value, json};

use crate::policy::TimeBound;
use crate::policy::decode::{Decode, NodeReader};
use crate::policy::layer_value::{LayerValue, ordered};
use crate::text::yaml::{YamlData, YamlNode};
use crate::text::{Code, Diagnostic};
use crate::time::Nanos;

/// A length of time that is not zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NonZeroTime<T>(pub(crate) T);

/// What may turn out to be no time at all.
pub(crate) trait TimeLength: Decode {
    /// The name of its schema; `None`: it is written where it is used.
    const LASTING: Option<&'static str>;
    /// What to write instead.
    const INSTEAD: &'static str;

    /// Whether it is.
    fn is_nothing(&self) -> bool;
}

impl TimeLength for Nanos {
    const LASTING: Option<&'static str> = Some("PositiveDuration");
    const INSTEAD: &'static str = "write a longer time, or leave the limit out";

    fn is_nothing(&self) -> bool {
        self.is_zero()
    }
}

impl TimeLength for TimeBound {
    const LASTING: Option<&'static str> = None;
    const INSTEAD: &'static str = "write `unlimited` or a longer time";

    fn is_nothing(&self) -> bool {
        *self == Self::Within(Nanos::ZERO)
    }
}

impl<T: TimeLength> Decode for NonZeroTime<T> {
    const NAME: Option<&'static str> = T::LASTING;

    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        let length = T::decode(node, reader)?;
        if !length.is_nothing() {
            return Some(Self(length));
        }
        let written = match &node.data {
            YamlData::Text(text) => text.trim(),
            _ => "0s",
        };
        let message = format!("`{written}` leaves no time at all");
        reader.report(Diagnostic::error(Code::DURATION, node.span, message).help(T::INSTEAD));
        None
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = T::schema(generator);
        schema
            .insert("not".into(), json!({"type": "string", "pattern": r"^\s*(0+(\.0+)?\s*[A-Za-zµ]+\s*)+$"}));
        schema
    }
}

impl LayerValue for NonZeroTime<TimeBound> {
    type Value = TimeBound;
    ordered!();

    fn over(&self, _: Option<&TimeBound>) -> TimeBound {
        self.0
    }

    fn show(&self) -> Value {
        self.0.show()
    }

    fn show_value(value: &TimeBound) -> Value {
        value.show()
    }
}
