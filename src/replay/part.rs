//! The parts of decisions that may differ without the events that follow being about something else.

use core::fmt;
use core::str::FromStr;

use serde_json::{Map, Value};

/// A part of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, unfazed_macros::Named)]
pub enum DecisionPart {
    /// The reasons.
    Because,
    /// How many attempts and turns there are said to be.
    Bounds,
    /// What models and people are informed.
    Texts,
    /// How long is waited, and the limits of time. What happened later keeps the time it happened at.
    Times,
}

/// Some parts of decisions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DecisionParts(u8);

/// A name that no part has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("write one of `because`, `bounds`, `texts`, `times`")]
pub struct UnknownPart;

/// What others made is kept as they made it.
const FOREIGN: [&str; 6] = ["arguments", "output", "data", "payload", "extra", "calls"];

impl DecisionPart {
    /// All there are.
    pub const ALL: [Self; 4] = [Self::Because, Self::Bounds, Self::Texts, Self::Times];

    const fn bit(self) -> u8 {
        match self {
            Self::Because => 1,
            Self::Bounds => 2,
            Self::Texts => 4,
            Self::Times => 8,
        }
    }

    /// The fields that are such a part, wherever they stand.
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

    /// Takes the part out of a decision.
    pub(super) fn take_out(self, decision: &mut Value) {
        match decision {
            Value::Object(fields) => self.take_out_of(fields),
            Value::Array(items) => items.iter_mut().for_each(|item| self.take_out(item)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn take_out_of(self, fields: &mut Map<String, Value>) {
        // The metric of waits has no field of its own for them.
        let counts_waits = fields.get("name").and_then(Value::as_str) == Some("retry_delay_seconds");
        if self == Self::Times && counts_waits {
            fields.remove("value");
        }
        for (name, value) in fields.iter_mut() {
            if FOREIGN.contains(&name.as_str()) {
                continue;
            }
            // A message of the conversation is no text: who says it is not passed over.
            if self.fields().contains(&name.as_str()) && !(self == Self::Texts && value.is_object()) {
                *value = Value::Null;
            } else {
                self.take_out(value);
            }
        }
        // A field that is left out is one that is empty.
        fields.retain(|name, value| !(value.is_null() && self.fields().contains(&name.as_str())));
    }
}

impl DecisionParts {
    /// With this one too.
    #[must_use]
    pub const fn with(self, part: DecisionPart) -> Self {
        Self(self.0 | part.bit())
    }

    /// Whether it is one of them.
    pub const fn has(self, part: DecisionPart) -> bool {
        self.0 & part.bit() != 0
    }

    /// Whether there is none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Each of them.
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
