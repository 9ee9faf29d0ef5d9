//! Finds tool calls that a model wrote into its text because the server did not parse them. The forms come from the
//! chat templates of Hermes, Qwen, Llama, Mistral and similar models, as of 2026.

use serde_json::Value;

use crate::session::ToolCall;
use crate::text::repair::{RepairedJson, repair};

/// The tags around a call, or a list of calls, in JSON. Without the end tag the call extends to the end of the text.
// Formats of open models: Hermes and Qwen (`<tool_call>`), Llama 3 (`<|python_tag|>`), Mistral (`[TOOL_CALLS]`).
const TAGS: [(&str, &str); 6] = [
    ("<tool_call>", "</tool_call>"),
    ("<tool_calls>", "</tool_calls>"),
    ("<function_call>", "</function_call>"),
    ("<tools>", "</tools>"),
    ("<|python_tag|>", "<|eom_id|>"),
    ("[TOOL_CALLS]", "</s>"),
];
/// A call with its name in the tag: `<function=search>{"query": "x"}</function>`.
// Llama 3.1's format for custom tools.
const NAMED: (&str, &str) = ("<function=", "</function>");
/// The names of the field with the arguments.
// Models mix the field names of different training formats.
const ARGUMENTS: [&str; 3] = ["arguments", "parameters", "args"];

/// The calls in a text, and the text without them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct TextToolCalls {
    pub(super) text: String,
    pub(super) calls: Vec<ToolCall>,
}

/// Finds calls of tools that `known` accepts. If one call cannot be read or its tool is unknown, `None`: the text
/// stays text.
pub(super) fn find(text: &str, ids: &str, known: impl Fn(&str) -> bool) -> Option<TextToolCalls> {
    let mut found = TextToolCalls::default();
    let mut rest = text;
    while let Some((at, open, close)) = next_tag(rest) {
        let (before, tagged) = rest.split_at_checked(at)?;
        found.text.push_str(before);
        let inside = tagged.strip_prefix(open)?;
        // Without the end tag the call extends to the end: servers that stop at the end token drop the tag.
        let (inside, after) = inside.split_once(close).unwrap_or((inside, ""));
        let calls = if open == NAMED.0 {
            named(inside)?
        } else {
            // Only certain repairs are accepted: a guessed call would run.
            calls(&repair(inside.trim()).ok().filter(RepairedJson::is_certain)?.value)?
        };
        for (name, arguments) in calls {
            // An unknown name rejects all calls, since half of a list would change the order of side effects.
            if !known(&name) {
                return None;
            }
            let id = format!("{ids}_{}", found.calls.len());
            found.calls.push(ToolCall { id, name, arguments });
        }
        rest = after;
    }
    found.text.push_str(rest);
    let text = found.text.trim().to_owned();
    (!found.calls.is_empty()).then_some(TextToolCalls { text, ..found })
}

fn next_tag(text: &str) -> Option<(usize, &'static str, &'static str)> {
    let tags = TAGS.into_iter().chain([NAMED]);
    let mut found: Vec<_> =
        tags.filter_map(|(open, close)| text.find(open).map(|at| (at, open, close))).collect();
    // The first tag wins, so that calls keep their order in the text.
    found.sort_unstable_by_key(|(at, ..)| *at);
    found.first().copied()
}

fn named(inside: &str) -> Option<Vec<(String, String)>> {
    let (name, arguments) = inside.split_once('>')?;
    Some(vec![(name.trim().to_owned(), arguments.trim().to_owned())])
}

/// One call, or a list of them.
fn calls(value: &Value) -> Option<Vec<(String, String)>> {
    match value {
        Value::Array(all) if !all.is_empty() => all.iter().map(call).collect(),
        one => Some(vec![call(one)?]),
    }
}

fn call(value: &Value) -> Option<(String, String)> {
    // Some models write the whole object of the API, with `function` inside.
    let call = value.get("function").filter(|inner| inner.is_object()).unwrap_or(value);
    let name = call.get("name")?.as_str()?;
    let arguments = ARGUMENTS.iter().find_map(|field| call.get(*field));
    let arguments = match arguments {
        // Arguments are a JSON string, as in the chat API, or an object.
        Some(Value::String(text)) => text.clone(),
        Some(arguments) => arguments.to_string(),
        None => "{}".to_owned(),
    };
    Some((name.to_owned(), arguments))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Option<(String, Vec<(String, String)>)> {
        let TextToolCalls { text, calls } = find(text, "leaked_1", |name| matches!(name, "search" | "read"))?;
        Some((text, calls.into_iter().map(|call| (call.name, call.arguments)).collect()))
    }

    #[test]
    fn every_form_of_a_call_in_text() {
        let search = || vec![("search".to_owned(), r#"{"q":"a"}"#.to_owned())];
        for text in [
            r#"<tool_call>{"name": "search", "arguments": {"q": "a"}}</tool_call>"#,
            "<tool_call>\n{\"name\": \"search\", \"arguments\": {\"q\": \"a\"},}\n",
            r#"<tool_calls>[{"name": "search", "arguments": {"q": "a"}}]</tool_calls>"#,
            r#"<function_call>{"name": "search", "parameters": {"q": "a"}}</function_call>"#,
            r#"<tools>{"function": {"name": "search", "arguments": "{\"q\":\"a\"}"}}</tools>"#,
            r#"<|python_tag|>{"name": "search", "parameters": {"q": "a"}}<|eom_id|>"#,
            r#"[TOOL_CALLS][{"name": "search", "arguments": {"q": "a"}}]</s>"#,
            r#"<function=search>{"q":"a"}</function>"#,
        ] {
            assert_eq!(found(text), Some((String::new(), search())), "{text}");
        }
    }

    #[test]
    fn the_text_around_stays_and_several_calls_keep_their_order() {
        let text = "Let me look.\n<tool_call>{\"name\": \"read\"}</tool_call><tool_call>{\"name\": \"search\", \"arguments\": {}}</tool_call>";
        let calls = vec![("read".to_owned(), "{}".to_owned()), ("search".to_owned(), "{}".to_owned())];
        assert_eq!(found(text), Some(("Let me look.".to_owned(), calls)));
    }

    #[test]
    fn a_text_that_only_speaks_of_calls_is_a_text() {
        for text in [
            "Write <tool_call> and then the JSON.",
            r#"<tool_call>{"name": "rm", "arguments": {}}</tool_call>"#,
            r#"<tool_call>{"name": "search"}</tool_call> <tool_call>{"name": "rm"}</tool_call>"#,
            "<tool_call>{\"arguments\": {}}</tool_call>",
            "<function=>{}</function>",
            "",
        ] {
            assert_eq!(found(text), None, "{text}");
        }
    }
}
