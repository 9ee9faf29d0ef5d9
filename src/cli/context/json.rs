//! What is printed for machines.

use serde_json::{Value, json};

use super::forecast::BudgetForecast;
use super::parts::MessageGroup;
use super::subject::ContextSubject;

pub(super) fn document(subject: &ContextSubject, forecast: Option<&BudgetForecast>) -> Value {
    let parts = &subject.parts;
    let said = |said: MessageGroup| json!({"messages": said.messages, "tokens": said.tokens});
    let tools: Vec<Value> =
        parts.tools.iter().map(|(name, tokens)| json!({"name": name, "tokens": tokens})).collect();
    json!({
        "v": 1,
        "source": subject.title,
        "model": subject.model,
        "window": subject.window.map(|known| {
            json!({"tokens": known.tokens, "source": known.source, "output": known.output})
        }),
        "system": parts.system,
        "tools": {"tokens": parts.all_tools(), "each": tools},
        "messages": {
            "tokens": parts.messages(),
            "user": said(parts.user),
            "assistant": said(parts.assistant),
            "results": said(parts.results),
            "images": parts.images,
        },
        "fixed": parts.fixed,
        "offset": subject.calibration.offset(&subject.model),
        "scale": subject.calibration.of(&subject.model).map(thousandths),
        "reported": subject.reported,
        "output": forecast.map(|forecast| forecast.room.reply),
        "reserve": forecast.map(|forecast| forecast.room.reserve),
        "safety": forecast.map(|forecast| forecast.room.safety),
        "budget": forecast.map(|forecast| forecast.room.budget()),
        "free": forecast.map(|forecast| forecast.room.left().unwrap_or(0)),
        "over": forecast.map(|forecast| forecast.room.messages.saturating_sub(forecast.room.budget())),
        "thresholds": forecast.map(|forecast| {
            json!({"compact_at_free": forecast.compact_at_free, "min_free": forecast.min_free, "target_free": forecast.target_free, "results": forecast.results})
        }),
        "next": forecast.map(next),
        "failed": subject.failed,
    })
}

/// As a decimal number.
fn thousandths(ppm: u64) -> f64 {
    f64::from(u32::try_from(ppm / 1000).unwrap_or(u32::MAX)) / 1000.0
}

fn next(forecast: &BudgetForecast) -> Value {
    let steps = forecast.steps.iter().map(|step| {
        json!({
            "number": step.number, "kind": step.kind, "tokens_before": step.before, "tokens_after": step.after,
            "shortened": step.shortened, "left_out": step.left_out, "asked": step.asked,
        })
    });
    json!({
        "due": forecast.due,
        "tools_fill": forecast.filled,
        "open": forecast.open,
        "above": forecast.most,
        "steps": steps.collect::<Vec<_>>(),
        "lacking": forecast.lacking,
    })
}
