//! Session data for messages to the model: feedback and slices.

use serde_json::{Map, Value, json};

use crate::session::{RetryFeedback, SessionSlices};
use crate::text::Template;

/// Adds the session data that a template reads to its variables.
pub(crate) fn reflect(template: &Template, vars: &mut Map<String, Value>, slices: &SessionSlices) {
    // Only data that the template reads is built: slices may be large, and most messages read none.
    if template.reads("feedback") {
        vars.insert("feedback".to_owned(), feedback(slices));
    }
    if template.reads("slices") {
        let slices = slices.iter().map(|(name, value)| (name.to_owned(), value.clone()));
        vars.insert("slices".to_owned(), slices.collect::<Map<_, _>>().into());
    }
}

/// All feedback, and the feedback of each tool.
fn feedback(slices: &SessionSlices) -> Value {
    let all: Vec<Value> = slices.feedback().map(|feedback| shown(&feedback)).collect();
    let mut tools: Map<String, Value> = Map::new();
    for feedback in &all {
        let Some(tool) = feedback.get("tool_name").and_then(Value::as_str) else { continue };
        let known = tools.entry(tool).or_insert_with(|| json!({ "latest": null, "all": [] }));
        let Some(known) = known.as_object_mut() else { continue };
        known.insert("latest".to_owned(), feedback.clone());
        if let Some(Value::Array(all)) = known.get_mut("all") {
            all.push(feedback.clone());
        }
    }
    json!({ "latest": all.last(), "all": all, "tools": tools })
}

/// The feedback without the time of the next attempt, so that the text is the same in every run.
fn shown(feedback: &RetryFeedback) -> Value {
    let mut shown = serde_json::to_value(feedback).unwrap_or_default();
    if let Some(fields) = shown.as_object_mut() {
        // The time differs between runs, and a changed message breaks the prompt cache and the replay.
        fields.shift_remove("retry_scheduled_at");
    }
    shown
}
