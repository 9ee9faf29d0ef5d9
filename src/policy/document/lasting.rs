//! Lengths of time that an attempt has to fit in: zero is a mistake.

use schemars::{Schema, SchemaGenerator};
use serde_json::{Value, json};

use crate::policy::decode::{Decode, Reader};
use crate::policy::merge::{Leaf, ordered};
use crate::policy::yaml::{Data, Node};
use crate::policy::{Bound, Code, Diagnostic};
use crate::time::Nanos;

/// A length of time that is not zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lasting<T>(pub(crate) T);

/// What may turn out to be no time at all.
pub(crate) trait Length: Decode {
    /// The name of its schema; `None`: it is written where it is used.
    const LASTING: Option<&'static str>;
    /// What to write instead.
    const INSTEAD: &'static str;

    /// Whether it is.
    fn is_nothing(&self) -> bool;
}

impl Length for Nanos {
    const LASTING: Option<&'static str> = Some("PositiveDuration");
    const INSTEAD: &'static str = "write a longer time, or leave the limit out";

    fn is_nothing(&self) -> bool {
        self.is_zero()
    }
}

impl Length for Bound {
    const LASTING: Option<&'static str> = None;
    const INSTEAD: &'static str = "write `unlimited` or a longer time";

    fn is_nothing(&self) -> bool {
        *self == Self::Within(Nanos::ZERO)
    }
}

impl<T: Length> Decode for Lasting<T> {
    const NAME: Option<&'static str> = T::LASTING;

    fn decode(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let length = T::decode(node, reader)?;
        if !length.is_nothing() {
            return Some(Self(length));
        }
        let written = match &node.data {
            Data::Text(text) => text.trim(),
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

impl Leaf for Lasting<Bound> {
    type Value = Bound;
    ordered!();

    fn over(&self, _: Option<&Bound>) -> Bound {
        self.0
    }

    fn show(&self) -> Value {
        self.0.show()
    }

    fn show_value(value: &Bound) -> Value {
        value.show()
    }
}
