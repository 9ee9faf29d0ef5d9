//! Effective values as they are written in policies, on one line.

use core::fmt;

use serde_json::Value;

use super::document::WrittenBackoff;
use super::{AttemptLimit, Backoff, RetryBudget, ServerDelay, TimeBound};
use crate::policy::layer_value::LayerValue;

macro_rules! as_written {
    ($($ty:ty),+) => {$(
        impl fmt::Display for $ty {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&flow(&LayerValue::show(self)))
            }
        }
    )+};
}

as_written!(AttemptLimit, TimeBound, RetryBudget, ServerDelay);

impl fmt::Display for Backoff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&flow(&WrittenBackoff::show_value(self)))
    }
}

/// A value in YAML's flow style, with as few quotes as can be; for people.
pub(crate) fn flow(value: &Value) -> String {
    match value {
        Value::String(text) if text.contains(['\n', '"']) || text.is_empty() => value.to_string(),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            format!("[{}]", items.iter().map(flow).collect::<Vec<_>>().join(", "))
        }
        Value::Object(entries) => {
            let entries = entries.iter().map(|(key, value)| format!("{key}: {}", flow(value)));
            format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use crate::policy::Policy;

    #[test]
    fn values_read_as_they_are_written() {
        let text = "version: 1\nretry:\n  backoff: {kind: exponential, base: 500ms, factor: 1.5, cap: 8s, jitter: plus_minus, spread: 0.2}\n  server_delay: {mode: replace}\n";
        let retry = &Policy::from_yaml("team.yaml", text).unwrap().model("m").retry;
        let backoff =
            "{kind: exponential, base: 500ms, factor: 1.5, cap: 8s, jitter: plus_minus, spread: 0.2}";
        assert_eq!(retry.backoff.value.to_string(), backoff);
        let hints = "{mode: replace, min: 0s, max: unlimited, above_max: next_target}";
        assert_eq!(retry.server_delay.value.to_string(), hints);
        assert_eq!(retry.max_attempts.value.to_string(), "16");
        assert_eq!(retry.deadline.value.to_string(), "unlimited");
    }
}
