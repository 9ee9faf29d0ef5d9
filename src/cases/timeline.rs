//! What happened in a case, for people: one line for each thing that matters, with the rules that decided below.

use serde_json::Value;

use super::record::{Moment, Record};
use crate::engine::{Directive, Event};
use crate::time::Nanos;

/// The longest piece of foreign text on a line, in characters.
const SHOWN: usize = 90;

/// One line of a timeline: what happened or was decided, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// From the start of the case.
    pub at: Nanos,
    /// What happened.
    pub text: String,
    /// The rules that decided it, each with its place.
    pub why: Vec<String>,
}

impl Line {
    /// What happened.
    pub fn of_event(happened: &Event) -> Self {
        let json = serde_json::to_value(happened).unwrap_or_default();
        let text = event(&json).unwrap_or_else(|| word(&json, "event").replace('_', " "));
        Self { at: Nanos::default(), text, why: Vec::new() }
    }

    /// What was decided.
    pub fn of_directive(decided: &Directive) -> Self {
        let json = serde_json::to_value(decided).unwrap_or_default();
        let text = directive(&json).unwrap_or_else(|| word(&json, "directive").replace('_', " "));
        Self { at: Nanos::default(), text, why: why(&json) }
    }
}

/// The timeline of a case.
pub(crate) fn timeline(record: &Record) -> Vec<Line> {
    let line = |moment: &Moment| {
        let text = if moment.directive { directive(&moment.json) } else { event(&moment.json) }?;
        Some(Line { at: moment.at, text, why: why(&moment.json) })
    };
    record.moments.iter().filter_map(line).collect()
}

fn event(json: &Value) -> Option<String> {
    Some(match word(json, "event") {
        "model_responded" => {
            let reply = json.get("reply")?;
            let calls = list(reply, "calls");
            if calls.is_empty() {
                format!("model says {}", quoted(word(reply, "text")))
            } else {
                let call = |call: &Value| {
                    format!("{}({})", cut(word(call, "name"), 40), cut(word(call, "arguments"), 60))
                };
                format!("model calls {}", calls.iter().map(call).collect::<Vec<_>>().join(", "))
            }
        }
        "model_failed" => format!("model fails: {}", failure(json.get("failure")?)),
        "tool_finished" => {
            let outcome = json.get("outcome")?;
            match outcome.get("failure") {
                None => format!("tool returns {}", cut(&outcome.get("data")?.to_string(), SHOWN)),
                Some(found) => format!("tool fails: {} ({})", failure(found), word(outcome, "effect")),
            }
        }
        "tools_proposed" => {
            let call = |call: &Value| {
                format!("{}({})", cut(word(call, "name"), 40), cut(word(call, "arguments"), 60))
            };
            format!("call {}", list(json, "calls").iter().map(call).collect::<Vec<_>>().join(", "))
        }
        "turn_proposed" => "turn proposed".to_owned(),
        "proposal_withdrawn" => format!("proposal {} is withdrawn", number(json, "proposal")),
        "output_proposed" => format!("report {}", cut(word(json, "output"), SHOWN)),
        "answered" => format!("the person answers {}", word(json, "answer")),
        "planner_decided" => format!("the planner decides {}", word(json, "decision")),
        "stop_requested" => format!("asked to stop: {}", word(json, "reason")),
        "cancelled" => format!("cancelled: {}", word(json, "reason")),
        "resumed" => format!("resumed after event {}", number(json, "seq")),
        _ => return None,
    })
}

fn directive(json: &Value) -> Option<String> {
    let attempt = || {
        let most = json.get("max_attempts").and_then(Value::as_u64);
        let of = most.map(|most| format!(" of {most}")).unwrap_or_default();
        format!("attempt {}{of}", number(json, "attempt"))
    };
    let delay = || json.get("delay").and_then(Value::as_u64).map(Nanos).unwrap_or_default();
    Some(match word(json, "directive") {
        "prepare_turn" => {
            let last = if json.get("last") == Some(&Value::Bool(true)) { ": only the report" } else { "" };
            format!("turn {} of {}{last}", number(json, "turn"), number(json, "max_turns"))
        }
        "call_model" => format!("call model {}, {}", word(json, "target"), attempt()),
        "summarize" => format!("ask model {} for a summary", word(json, "target")),
        "run_tool" => format!("run {} {}, {}", word(json, "tool"), word(json, "call"), attempt()),
        "wait" => {
            format!("wait {} for {} ({})", delay().rounded(), word(json, "subject"), word(json, "error_type"))
        }
        "consult" => "ask the planner".to_owned(),
        "ask" => {
            format!("ask whether {} may {}", word(json, "tool"), word(json, "question").replace('_', " "))
        }
        "proposal_refused" => format!("refuse the proposal: {}", word(json, "message")),
        "renamed" => format!("take {} for {}", word(json, "from"), word(json, "tool")),
        "effect_checked" => format!("{} has acted: {}", word(json, "tool"), word(json, "effect")),
        "rounds_failed" => format!("tell the model that {} rounds failed", number(json, "rounds")),
        "feedback" => {
            let feedback = json.get("feedback")?;
            let (class, message) = (word(feedback, "error_type"), word(feedback, "message"));
            format!("feedback: attempt {}, {}", number(feedback, "attempt"), of_class(class, message))
        }
        "reducer_error" => {
            let error = json.get("error")?;
            format!("reducer {} fails: {}", word(error, "reducer"), cut(word(error, "message"), SHOWN))
        }
        "refused" => {
            format!("refuse {} {}: {}", word(json, "tool"), word(json, "call"), word(json, "error_type"))
        }
        "repaired" => {
            let subject = match word(json, "tool") {
                "" => "the report".to_owned(),
                tool => format!("{} {}", cut(tool, 40), word(json, "call")),
            };
            let repairs: Vec<&str> = list(json, "repairs").iter().filter_map(Value::as_str).collect();
            format!("repair the JSON of {subject}: {}", repairs.join(", "))
        }
        "tool_ended" => match word(json, "error_type") {
            "" => format!("{} {} went well", word(json, "tool"), word(json, "call")),
            class => format!("{} {} failed: {class}", word(json, "tool"), word(json, "call")),
        },
        "context_reduced" => reduced(json),
        "repair_history" => "look for what is wrong with the history".to_owned(),
        "orphan_tool_calls_pruned" => history_repaired(json),
        "reject_turn" => format!("reject the reply: {}", word(json, "error_type")),
        "result_cut" => {
            let unit = word(json, "unit");
            format!("show {} of {} {unit}", number(json, "shown"), number(json, "total"))
        }
        "turn_retracted" => {
            format!(
                "retract the answer of {} ({} characters)",
                word(json, "target"),
                number(json, "received")
            )
        }
        "turn_retry" if word(json, "action") == "skip-provider" => passed_over(json),
        "leaked_calls" => "take the calls in the text as calls".to_owned(),
        "final_turn" => format!("turn {} is the last: {}", number(json, "turn"), word(json, "reason")),
        "breaker" => format!("breaker of {}: {}", word(json, "tool"), word(json, "state")),
        "tools_hidden" => hidden(json),
        "loop_guard" => repeated(json),
        "exhausted" => {
            let exhausted = json.get("exhausted")?;
            let decision = json.get("decision").and_then(Value::as_str);
            let then = decision.map(|decision| format!(", so {decision}")).unwrap_or_default();
            format!(
                "no further attempt at {}: {}{then}",
                word(exhausted, "action"),
                word(exhausted, "reason")
            )
        }
        "output_accepted" => "the report is accepted".to_owned(),
        "output_refused" => format!("the report is refused: {}", cut(word(json, "message"), SHOWN)),
        "warning" => format!("warning: {}", cut(word(json, "message"), SHOWN)),
        "append" => {
            let message = json.get("message")?;
            match word(message, "role") {
                "tool" | "user" => format!("tell the model {}", quoted(word(message, "text"))),
                _ => return None,
            }
        }
        "finish" => format!("finish: {}", json.get("outcome").map_or("", |outcome| word(outcome, "status"))),
        _ => return None,
    })
}

fn reduced(json: &Value) -> String {
    let (target, step) = (word(json, "target"), word(json, "step"));
    let (was, now) = (number(json, "tokens_before"), number(json, "tokens_after"));
    format!("reduce the conversation for {target} ({step}): {was} tokens become {now}")
}

fn history_repaired(json: &Value) -> String {
    let done = [
        ("pruned_count", "calls taken out"),
        ("injected_count", "results put in"),
        ("dropped_count", "results taken out"),
        ("moved_count", "results moved to their calls"),
        ("malformed_count", "calls with broken arguments"),
    ];
    let done = done.into_iter().filter(|(count, _)| number(json, count) > 0);
    let done: Vec<String> = done.map(|(count, what)| format!("{what}: {}", number(json, count))).collect();
    format!("repair the history: {}", done.join(", "))
}

/// As the log says it, with a message that only says the class again left out.
fn passed_over(json: &Value) -> String {
    let (class, text) = (word(json, "error_type"), word(json, "log_message"));
    cut(&text.replacen(&format!(": {class}: {class};"), &format!(": {class};"), 1), SHOWN)
}

fn hidden(json: &Value) -> String {
    let tools: Vec<&str> = list(json, "tools").iter().filter_map(Value::as_str).collect();
    let tools = if tools.is_empty() { "none".to_owned() } else { tools.join(", ") };
    format!("not shown to models: {tools}")
}

fn repeated(json: &Value) -> String {
    let (pattern, tool) = (word(json, "pattern"), cut(word(json, "tool"), 40));
    format!("{pattern} of {tool}, {} times: {}", number(json, "count"), word(json, "stage"))
}

fn why(json: &Value) -> Vec<String> {
    let reason = |because: &Value| {
        let place = because.get("place")?;
        let facts: Vec<&str> = list(because, "facts").iter().filter_map(Value::as_str).collect();
        let facts = if facts.is_empty() { String::new() } else { format!(": {}", facts.join(", ")) };
        Some(format!(
            "{} = {}  ({}, {}:{}:{}){facts}",
            word(because, "rule"),
            cut(word(because, "value"), 60),
            word(because, "layer"),
            word(place, "file"),
            number(place, "line"),
            number(place, "column"),
        ))
    };
    list(json, "because").iter().filter_map(reason).collect()
}

/// Status, class and message; a message that only says one of them again is left out.
fn failure(json: &Value) -> String {
    let status = json.get("status").and_then(Value::as_u64);
    let (class, message) = (word(json, "class"), word(json, "message"));
    match status {
        Some(status) if message.eq_ignore_ascii_case(&format!("HTTP {status}")) => {
            format!("HTTP {status} {}", of_class(class, "")).trim_end().to_owned()
        }
        Some(status) => format!("{status} {}", of_class(class, message)),
        None => of_class(class, message),
    }
}

/// A class with the message, unless that only says the class again.
fn of_class(class: &str, message: &str) -> String {
    let again = [class, &class.replace('_', " ")].iter().any(|said| message.eq_ignore_ascii_case(said));
    match (class, cut(message, SHOWN)) {
        ("", text) => text,
        (class, text) if again || text.is_empty() => class.to_owned(),
        (class, text) => format!("{class}: {text}"),
    }
}

fn word<'a>(json: &'a Value, key: &str) -> &'a str {
    json.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn number(json: &Value, key: &str) -> u64 {
    json.get(key).and_then(Value::as_u64).unwrap_or_default()
}

fn list<'a>(json: &'a Value, key: &str) -> &'a [Value] {
    json.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn quoted(text: &str) -> String {
    format!("“{}”", cut(text, SHOWN))
}

/// In one line, and not too long. Lines are set apart, and what cannot be shown on a terminal is written as what it is.
fn cut(text: &str, most: usize) -> String {
    let mut shown = String::new();
    for (count, c) in text.trim().chars().enumerate() {
        match c {
            _ if count == most => {
                shown.push('…');
                break;
            }
            '\n' if shown.ends_with(" / ") => {}
            '\n' => shown.push_str(" / "),
            '\r' => {}
            '\t' => shown.push(' '),
            c if c.is_control() => shown.extend(c.escape_default()),
            c => shown.push(c),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_failure_is_said_once() {
        for (failed, said) in [
            (json!({"class": "timeout", "message": "timeout"}), "timeout"),
            (json!({"class": "rate_limit", "message": "Rate limit"}), "rate_limit"),
            (json!({"status": 429, "message": "HTTP 429"}), "HTTP 429"),
            (json!({"status": 529, "class": "overloaded", "message": "overloaded"}), "529 overloaded"),
            (json!({"status": 429, "message": "slow down"}), "429 slow down"),
            (json!({"class": "timeout", "message": "no answer"}), "timeout: no answer"),
        ] {
            assert_eq!(failure(&failed), said);
        }
    }

    #[test]
    fn so_is_the_one_after_which_another_model_is_asked() {
        let passed = |text: &str| json!({"directive": "turn_retry", "action": "skip-provider", "error_type": "overloaded", "log_message": text});
        let said = directive(&passed("main: overloaded: overloaded; spare is asked instead"));
        assert_eq!(said.as_deref(), Some("main: overloaded; spare is asked instead"));
        let said = directive(&passed("main: overloaded: come back later; spare is asked instead"));
        assert_eq!(said.as_deref(), Some("main: overloaded: come back later; spare is asked instead"));
    }

    #[test]
    fn lines_of_a_message_are_set_apart() {
        assert_eq!(cut("it failed\r\n\nIt may have acted", SHOWN), "it failed / It may have acted");
    }
}
