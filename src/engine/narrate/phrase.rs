//! Phrases that several narrations share.

use core::fmt;

use serde::Serialize;
use serde_json::Value;

use crate::engine::directive::DecisionReason;
use crate::engine::failure::Failure;
use crate::policy::{ErrorClass, LayerKind};
use crate::session::ToolCall;

/// The longest piece of foreign text, the longest arguments and the longest name, in characters.
const TEXT: usize = 110;
const ARGUMENTS: usize = 60;
const NAME: usize = 60;

/// A text on one line of limited length. Characters that would control a terminal are escaped.
pub(super) fn brief(text: &str) -> String {
    cut(text, TEXT)
}

pub(super) fn short_name(text: &str) -> String {
    cut(text, NAME)
}

pub(super) fn quoted(text: &str) -> String {
    format!("“{}”", brief(text))
}

/// Data as text: a string as it is, anything else as JSON.
pub(super) fn data(value: &Value) -> String {
    value.as_str().map_or_else(|| brief(&value.to_string()), brief)
}

pub(super) fn call(call: &ToolCall) -> String {
    format!("{}({})", short_name(&call.name), cut(&call.arguments, ARGUMENTS))
}

pub(super) fn call_of(tool: &str, arguments: &Value) -> String {
    format!("{}({})", short_name(tool), cut(&arguments.to_string(), ARGUMENTS))
}

/// `attempt 2 of 3`.
pub(super) fn attempt(number: u32, most: Option<u32>) -> String {
    most.map_or_else(|| format!("attempt {number}"), |most| format!("attempt {number} of {most}"))
}

/// `1 attempt`, `3 attempts`.
pub(super) fn count(number: u64, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}

/// The name of an action in sentences.
pub(super) fn action(action: &str) -> &str {
    if action == "output" { "the report" } else { action }
}

/// The name of a value in records.
pub(super) fn word(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(word)) => word,
        Ok(value) => value.to_string(),
        Err(_) => String::new(),
    }
}

/// Status, class and message; a message that only repeats one of them is left out.
pub(super) fn failure(failure: &Failure) -> String {
    let Failure { status, class, message, retry_after, .. } = failure;
    let class = class.map_or("", ErrorClass::name);
    let said = match status {
        Some(status) if message.eq_ignore_ascii_case(&format!("HTTP {status}")) => {
            format!("HTTP {status} {class}").trim_end().to_owned()
        }
        Some(status) => format!("{status} {}", classified(class, message)),
        None => classified(class, message),
    };
    match retry_after.ignored() {
        Some(reason) => format!("{said} (ignored {})", brief(reason)),
        None => said,
    }
}

/// A class with the message, unless the message only repeats the class.
pub(super) fn classified(class: &str, message: &str) -> String {
    let again = [class, &class.replace('_', " ")].iter().any(|said| message.eq_ignore_ascii_case(said));
    match (class, brief(message)) {
        ("", text) => text,
        // A message that repeats the class in other letters adds nothing.
        (class, text) if again || text.is_empty() => class.to_owned(),
        (class, text) => format!("{class}: {text}"),
    }
}

impl fmt::Display for DecisionReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rule, value, layer, place, facts } = self;
        if !facts.is_empty() {
            write!(f, "{}: ", facts.join(", "))?;
        }
        f.write_str(rule)?;
        // Lists of classes fill a line, and the fact names the class that matters.
        if !value.starts_with('[') {
            write!(f, " = {}", cut(value, TEXT))?;
        }
        match layer {
            LayerKind::Builtin => write!(f, " ({place})"),
            layer => write!(f, " ({place}, {layer} layer)"),
        }
    }
}

fn cut(text: &str, most: usize) -> String {
    let mut shown = String::new();
    for (count, c) in text.trim().chars().enumerate() {
        if count >= most {
            shown.push('…');
            break;
        }
        match c {
            '\r' => {}
            '\n' if shown.ends_with(" / ") => {}
            '\n' => shown.push_str(" / "),
            '\t' => shown.push(' '),
            // Escaped instead of dropped: text from models and servers must neither control a terminal nor hide its
            // content (CVE-2021-42574, "Trojan Source").
            c if misleads(c) => shown.extend(c.escape_default()),
            c => shown.push(c),
        }
    }
    shown
}

/// Whether a character is a control character, or changes the text direction so that text appears elsewhere.
fn misleads(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}
