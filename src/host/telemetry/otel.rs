//! What spans of OpenTelemetry have that those of `tracing` have not: events with any attributes, lists, and parents elsewhere.

use opentelemetry::propagation::{Extractor, Injector, TextMapPropagator};
use opentelemetry::trace::TraceContextExt;
use opentelemetry::{Array, KeyValue, StringValue, Value};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

use crate::engine::{Directive, Fact, FinishReason, Narrator, Severity};

/// The facts of decisions that are attributes. The others may have texts of models, tools, people or servers.
const SHOWN: [&str; 37] = [
    "attempt",
    "attempts",
    "call",
    "count",
    "delay_ms",
    "dropped_count",
    "effect",
    "final_report_attempts",
    "injected_count",
    "length",
    "malformed_count",
    "max_turns",
    "moved_count",
    "next",
    "pattern",
    "proposal",
    "pruned_count",
    "received",
    "reducer",
    "remaining",
    "rounds",
    "shortened",
    "shown",
    "source",
    "stage",
    "state",
    "status",
    "step",
    "subject",
    "target_model",
    "tokens_after",
    "tokens_before",
    "tool",
    "total",
    "turn",
    "turns_completed",
    "unit",
];

/// Something was decided: an event of the span, with the rules that decided and their places.
pub(super) fn decided(span: &Span, directive: &Directive) {
    if span.is_disabled() {
        return;
    }
    let told = Narrator::default().directive(directive);
    // Below that is what spans show anyway.
    if told.severity < Severity::Info {
        return;
    }
    let mut attributes: Vec<KeyValue> =
        told.facts.iter().filter_map(|(name, fact)| shown(name, fact)).collect();
    if !directive.because.is_empty() {
        let rules = directive.because.iter().map(|because| format!("{} ({})", because.rule, because.place));
        attributes.push(KeyValue::new("unfazed.rule", list(rules)));
    }
    span.add_event(told.title, attributes);
}

/// Why a model stopped, if it is known; by the names of the conventions, where they have one.
pub(super) fn finished(span: &Span, reason: &FinishReason) {
    let reason = match reason {
        FinishReason::Stop => "stop",
        FinishReason::ToolCalls => "tool_call",
        FinishReason::Length => "length",
        FinishReason::ContextWindow => "context_window",
        FinishReason::ContentFilter => "content_filter",
        FinishReason::Other(_) => "other",
        FinishReason::Unsaid => return,
    };
    span.set_attribute("gen_ai.response.finish_reasons", list([reason.to_owned()]));
}

/// The headers of a request to another server, with the span that it is made in.
pub(in crate::host) fn carried(mut headers: HeaderMap) -> HeaderMap {
    inject(&mut Headers(&mut headers));
    headers
}

/// The fields that say the same in `_meta` of MCP.
#[cfg(feature = "mcp")]
pub(in crate::host) fn carried_fields() -> Vec<(String, String)> {
    let mut fields = Fields::default();
    inject(&mut fields);
    fields.0
}

/// The span is within the one that the request came from, if it says so. `field` looks up a header, or a field of `_meta`.
pub(in crate::host) fn within(span: &Span, field: &dyn Fn(&str) -> Option<String>) {
    let mut fields = Fields::default();
    for name in ["traceparent", "tracestate"] {
        fields.0.extend(field(name).map(|value| (name.to_owned(), value)));
    }
    let parent = TraceContextPropagator::new().extract(&fields);
    if parent.span().span_context().is_valid() {
        // It fails where nobody exports spans.
        let _ = span.set_parent(parent);
    }
}

/// Says which span the current one is, unless nobody exports it.
fn inject(carrier: &mut dyn Injector) {
    let context = Span::current().context();
    if context.span().span_context().is_valid() {
        TraceContextPropagator::new().inject_context(&context, carrier);
    }
}

fn shown(name: &str, fact: &Fact) -> Option<KeyValue> {
    let value: Value = match fact {
        Fact::Text(text) => text.clone().into(),
        Fact::Number(number) => i64::try_from(*number).unwrap_or(i64::MAX).into(),
        Fact::Flag(flag) => (*flag).into(),
    };
    match name {
        "error_type" | "last_error_type" => Some(KeyValue::new("error.type", value)),
        name if SHOWN.contains(&name) => Some(KeyValue::new(format!("unfazed.{name}"), value)),
        _ => None,
    }
}

fn list(texts: impl IntoIterator<Item = String>) -> Value {
    Value::Array(Array::String(texts.into_iter().map(StringValue::from).collect()))
}

/// Names and values, in the form that OpenTelemetry reads and writes.
#[derive(Default)]
struct Fields(Vec<(String, String)>);

impl Extractor for Fields {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    fn keys(&self) -> Vec<&str> {
        self.0.iter().map(|(name, _)| name.as_str()).collect()
    }
}

impl Injector for Fields {
    fn set(&mut self, key: &str, value: String) {
        // A state that is empty says nothing.
        if !value.is_empty() {
            self.0.push((key.to_owned(), value));
        }
    }
}

struct Headers<'a>(&'a mut HeaderMap);

impl Injector for Headers<'_> {
    fn set(&mut self, key: &str, value: String) {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(key), HeaderValue::try_from(value)) {
            // What a client said of its own span is not of this request.
            if value.is_empty() {
                self.0.remove(name);
            } else {
                self.0.insert(name, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::every_directive;

    #[test]
    fn facts_with_texts_of_others_are_no_attributes() {
        let kept = [
            // That of a retry is what the server said.
            "action",
            "by",
            "from",
            "handle",
            "last",
            "last_stop_reason",
            "left_out",
            "message",
            "original_error",
            "question",
            "reason",
            "repairs",
            "result",
            "tools",
        ];
        for directive in every_directive() {
            for (name, _) in Narrator::default().directive(&directive).facts {
                let known = SHOWN.contains(&name) || kept.contains(&name) || name.ends_with("error_type");
                assert!(known, "{name}: may it be shown?");
            }
        }
        assert!(kept.iter().all(|name| !SHOWN.contains(name)));
    }
}
