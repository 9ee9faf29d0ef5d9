//! Tool results: their full form, and the form shown to a model.

mod cut;
mod excerpt;
mod json;
mod part;
mod shown;
mod write;

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use cut::{CutRules, KeptText, cut_text};
pub(crate) use cut::{head_of, tail_of};
pub use part::{ContentPart, KEPT_UNDER, content_text};
pub(super) use shown::{ShownResult, show};

use super::event::{RunFacts, ToolOutcome};
use crate::policy::{ErrorClass, Policy, ResultForm, ResultPolicy, TextSize};

/// What every tool's run comes to, in one form for all tools.
///
/// ```
/// use serde_json::json;
/// use unfazed::engine::{RunFacts, ToolOutcome, ToolResult};
/// use unfazed::policy::Policy;
/// let outcome = ToolOutcome::Ok { data: json!({"price": 12.5}) };
/// let policy = Policy::from_yaml("p.yaml", "version: 1").unwrap();
/// let result = ToolResult::new("lookup_price", &outcome, &RunFacts::default(), &policy);
/// assert_eq!(result.model_text(), r#"{"price":12.5}"#);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolResult {
    /// Whether it did what it should.
    pub ok: bool,
    /// What it answered.
    /// Example: `{"price": 12.5}`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    /// What went wrong.
    /// Example: `connection reset`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What kind of failure it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_type: Option<ErrorClass>,
    /// The tool.
    /// Example: `lookup_price`
    pub tool_name: String,
    /// How long it ran, in milliseconds.
    /// Example: `120`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// The process that ran it, or still does.
    /// Example: `"4711"`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process_id: Option<String>,
}

/// Keep the whole result of a tool if it is larger than this, and say so in [`RunFacts::handle`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResultSpill {
    /// The handle by which it is asked for.
    /// Example: `r1-0`
    pub handle: String,
    /// What a model can be shown at once.
    pub over: TextSize,
}

impl ResultSpill {
    /// Whether a result is small enough to be shown whole: text as it is, other data as JSON.
    pub fn holds(&self, data: &Value) -> bool {
        match data {
            Value::String(text) => self.over.holds(text),
            data => write::json_within(data, self.over).is_some(),
        }
    }
}

impl ToolResult {
    /// Makes the result of a run. If the tool gives no class of a failure, the policy's tables determine it.
    pub fn new(tool: &str, outcome: &ToolOutcome, facts: &RunFacts, policy: &Policy) -> Self {
        match outcome {
            ToolOutcome::Ok { data } => Self::succeeded(tool, data.clone(), facts),
            ToolOutcome::Done => Self { ok: true, ..Self::about(tool, facts) },
            ToolOutcome::Failed { failure, .. } => {
                Self::failed(tool, failure.message.clone(), failure.classified(policy).class, facts)
            }
        }
    }

    /// Makes the result of a successful run.
    pub fn succeeded(tool: &str, data: Value, facts: &RunFacts) -> Self {
        Self { ok: true, data: Some(data), ..Self::about(tool, facts) }
    }

    /// Makes the result of a run that failed or did not start.
    pub fn failed(tool: &str, error: String, error_type: ErrorClass, facts: &RunFacts) -> Self {
        Self { error: Some(error), error_type: Some(error_type), ..Self::about(tool, facts) }
    }

    /// The part of a result shown to a model if nothing is stored: as much as the rules allow, in their form.
    /// `notice` makes the notice from the size shown and the total size.
    pub fn shown(
        tool: &str,
        data: &Value,
        rules: &ResultPolicy,
        notice: &mut dyn FnMut(u64, u64) -> String,
    ) -> String {
        let value = Self::in_form(rules.form.value, tool, data, &RunFacts::default());
        value.map_or_else(String::new, |value| show(&value, rules, false, notice).text)
    }

    /// A tool's data in a form; `None`: there is nothing to show.
    pub(super) fn in_form<'d>(
        form: ResultForm,
        tool: &str,
        data: &'d Value,
        facts: &RunFacts,
    ) -> Option<Cow<'d, Value>> {
        match form {
            ResultForm::Full => Some(Cow::Owned(Self::succeeded(tool, data.clone(), facts).full())),
            ResultForm::Json => (!data.is_null()).then_some(Cow::Borrowed(data)),
            ResultForm::Text => Some(Cow::Borrowed(data)),
        }
    }

    fn about(tool: &str, facts: &RunFacts) -> Self {
        Self {
            ok: false,
            data: None,
            error: None,
            error_type: None,
            tool_name: tool.to_owned(),
            duration_ms: facts.duration.map(|time| time.0.checked_div(1_000_000).unwrap_or(0)),
            process_id: facts.process_id.clone(),
        }
    }

    /// The text shown to a model: text as it is, other data as JSON, a failure as its message and class.
    pub fn model_text(&self) -> Cow<'_, str> {
        match (self.ok, &self.data) {
            // Text stays text: quotes and escapes cost tokens and are harder to read for a model.
            (true, Some(Value::String(text))) => Cow::Borrowed(text),
            (true, None | Some(Value::Null)) => Cow::Borrowed(""),
            (true, Some(data)) => Cow::Owned(write::json_text(data)),
            (false, _) => Cow::Owned(self.failure().to_string()),
        }
    }

    /// The form of a failure for a model.
    pub(crate) fn failure(&self) -> Value {
        json!({ "error": self.error, "error_type": self.error_type })
    }

    /// All known fields, as JSON.
    pub fn full(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Failure;
    use super::super::failure::EffectState;
    use super::*;
    use crate::time::Nanos;

    fn ok(data: Value) -> ToolResult {
        ToolResult::succeeded("look", data, &RunFacts::default())
    }

    #[test]
    fn text_is_shown_as_it_is_data_as_json_and_nothing_as_nothing() {
        assert_eq!(ok(json!("two\nlines")).model_text(), "two\nlines");
        assert_eq!(ok(json!({"a": [1]})).model_text(), r#"{"a":[1]}"#);
        assert_eq!(ok(Value::Null).model_text(), "");
    }

    #[test]
    fn a_failure_is_shown_with_its_kind() {
        let failure = Failure::of(ErrorClass::Timeout, "no answer within 5s");
        let policy = Policy::from_yaml("p.yaml", "version: 1\n").unwrap();
        let outcome = ToolOutcome::Failed { failure, effect: EffectState::Unknown };
        let result = ToolResult::new("look", &outcome, &RunFacts::default(), &policy);
        assert_eq!(result.model_text(), r#"{"error":"no answer within 5s","error_type":"timeout"}"#);
    }

    #[test]
    fn what_is_not_known_is_left_out_of_the_full_form() {
        assert_eq!(ok(json!(1)).full(), json!({"ok": true, "data": 1, "tool_name": "look"}));
        let duration = Some(Nanos(1_500_000_000));
        let facts = RunFacts { duration, process_id: Some("4711".into()), handle: None };
        let full = ToolResult::failed("look", "no".into(), ErrorClass::ExecutionError, &facts).full();
        let expected = json!({
            "ok": false, "error": "no", "error_type": "execution_error", "tool_name": "look", "duration_ms": 1500,
            "process_id": "4711",
        });
        assert_eq!(full, expected);
    }
}
