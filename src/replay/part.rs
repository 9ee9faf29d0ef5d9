//! The parts of decisions that may differ while the later events still apply.

use core::fmt;
use core::str::FromStr;

use serde_json::{Map, Value};

/// A part of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, unfazed_macros::Named)]
pub enum DecisionPart {
    /// The reasons.
    Because,
    /// The numbers of allowed attempts and turns.
    Bounds,
    /// Texts for models and people.
    Texts,
    /// Delays and time limits. Later events keep their recorded times.
    Times,
}

/// A set of parts of decisions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DecisionParts(u8);

/// The name of an unknown part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("write one of `because`, `bounds`, `texts`, `times`")]
pub struct UnknownPart;

/// Fields with foreign data, which are never changed.
const FOREIGN: [&str; 6] = ["arguments", "output", "data", "payload", "extra", "calls"];

impl DecisionPart {
    /// All parts.
    pub const ALL: [Self; 4] = [Self::Because, Self::Bounds, Self::Texts, Self::Times];

    const fn bit(self) -> u8 {
        match self {
            Self::Because => 1,
            Self::Bounds => 2,
            Self::Texts => 4,
            Self::Times => 8,
        }
    }

    /// The fields that belong to the part, at any depth.
    const fn fields(self) -> &'static [&'static str] {
        match self {
            Self::Because => &["because"],
            Self::Bounds => &["max_attempts", "max_turns", "remaining"],
            Self::Texts => &["text", "message", "guidance", "log_message", "system_message"],
            Self::Times => &[
                "delay",
                "backoff",
                "until",
                "timeout",
                "timeouts",
                "next_delay_seconds",
                "retry_scheduled_at",
                "log_message",
            ],
        }
    }

    /// Removes the part from a decision.
    pub(super) fn take_out(self, decision: &mut Value) {
        match decision {
            Value::Object(fields) => self.take_out_of(fields),
            Value::Array(items) => items.iter_mut().for_each(|item| self.take_out(item)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn take_out_of(self, fields: &mut Map<String, Value>) {
        // The metric of delays has its value in a general field.
        let name = fields.get("name").and_then(Value::as_str);
        let counts_waits =
            name.is_some_and(|name| ["retry_delay_seconds", "pace_wait_seconds"].contains(&name));
        if self == Self::Times && counts_waits {
            fields.remove("value");
        }
        for (name, value) in fields.iter_mut() {
            if FOREIGN.contains(&name.as_str()) {
                continue;
            }
            // A message of the conversation is not a text: its role must be compared.
            if self.fields().contains(&name.as_str()) && !(self == Self::Texts && value.is_object()) {
                *value = Value::Null;
            } else {
                self.take_out(value);
            }
        }
        // A missing field equals an empty one.
        fields.retain(|name, value| !(value.is_null() && self.fields().contains(&name.as_str())));
    }
}

impl DecisionParts {
    /// The set with this part added.
    #[must_use]
    pub const fn with(self, part: DecisionPart) -> Self {
        Self(self.0 | part.bit())
    }

    /// Whether the set contains the part.
    pub const fn has(self, part: DecisionPart) -> bool {
        self.0 & part.bit() != 0
    }

    /// Whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The parts of the set.
    pub fn iter(self) -> impl Iterator<Item = DecisionPart> {
        DecisionPart::ALL.into_iter().filter(move |part| self.has(*part))
    }
}

impl FromIterator<DecisionPart> for DecisionParts {
    fn from_iter<I: IntoIterator<Item = DecisionPart>>(parts: I) -> Self {
        parts.into_iter().fold(Self::default(), Self::with)
    }
}

impl FromStr for DecisionPart {
    type Err = UnknownPart;

    fn from_str(name: &str) -> Result<Self, UnknownPart> {
        Self::ALL.into_iter().find(|part| part.name() == name).ok_or(UnknownPart)
    }
}

impl fmt::Display for DecisionPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_passed_over_is_gone_and_what_others_made_stays() {
        let decision = json!({
            "directive": "wait", "delay": 5, "max_attempts": 3, "message": "no", "because": [1],
            "arguments": {"delay": 7, "text": "x"},
        });
        let without = |part: DecisionPart| {
            let mut decision = decision.clone();
            part.take_out(&mut decision);
            let kept = decision.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
            assert_eq!(decision["arguments"], json!({"delay": 7, "text": "x"}));
            kept.join(" ")
        };
        assert_eq!(without(DecisionPart::Because), "directive delay max_attempts message arguments");
        assert_eq!(without(DecisionPart::Bounds), "directive delay message because arguments");
        assert_eq!(without(DecisionPart::Texts), "directive delay max_attempts because arguments");
        assert_eq!(without(DecisionPart::Times), "directive max_attempts message because arguments");
    }

    #[test]
    fn who_says_a_message_is_no_text() {
        let mut decision = json!({"directive": "append", "message": {"role": "user", "text": "Continue."}});
        DecisionPart::Texts.take_out(&mut decision);
        assert_eq!(decision, json!({"directive": "append", "message": {"role": "user"}}));
    }

    #[test]
    fn parts_have_names() {
        for part in DecisionPart::ALL {
            assert_eq!(part.name().parse(), Ok(part));
        }
        assert_eq!("text".parse::<DecisionPart>(), Err(UnknownPart));
    }
}
