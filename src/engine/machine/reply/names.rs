//! Corrects tool names that do not exist to the only possible tool.

use serde_json::Value;

use super::super::out::StepOutput;
use super::unpack::unpacked;
use crate::engine::because::because;
use crate::engine::directive::Note;
use crate::session::ToolCall;

/// The separators of the parts of a name.
// Models add namespaces in the style of code and of MCP clients; LocalCowork and ai-agent both resolve unqualified
// names.
const BETWEEN: [char; 4] = ['.', '/', ':', '\\'];

/// Corrects the name of a call if only one tool is possible and the arguments are valid for it; a note reports it.
pub(super) fn correct(call: &mut ToolCall, out: &mut StepOutput<'_>) {
    let rules = out.rules;
    let rule = &rules.policy.turn().calls.correct_names;
    // A name that exists is never changed.
    if !rule.value || rules.schema_of(&call.name).is_some() {
        return;
    }
    let report = rules.policy.output().map(|output| output.tool.value.as_str());
    let names: Vec<&str> = rules.tools.names().chain(report).collect();
    let Some(name) = meant(&call.name, &names).map(str::to_owned) else { return };
    let mut meant = ToolCall { name, ..call.clone() };
    // The arguments must be valid as well: a similar name with other arguments is another tool, and running it would
    // be a guess.
    let fits = rules.schema_of(&meant.name).is_some_and(|schema| {
        let arguments = match meant.arguments.trim() {
            "" => Ok(Value::Object(serde_json::Map::new())),
            text => serde_json::from_str(text),
        };
        arguments.is_ok_and(|arguments| {
            schema.is_valid(&arguments) || unpacked(rules, schema, &arguments).is_some()
        })
    });
    if !fits {
        return;
    }
    let why = because(rules.policy, "turn.calls.correct_names", rule, []);
    core::mem::swap(call, &mut meant);
    let (id, tool, from) = (call.id.clone(), call.name.clone(), meant.name);
    out.note(Note::Renamed { call: id, tool, from }, vec![why]);
}

/// The only matching name: identical except for case and hyphens, or identical in the last part.
fn meant<'a>(called: &str, names: &[&'a str]) -> Option<&'a str> {
    // Servers of gpt-oss leave the mark of its format behind the name: `search<|channel|>commentary` (vllm-project/vllm#32587).
    let called = called.split("<|").next().unwrap_or(called);
    let whole = plain(called);
    let last = plain(last_part(called));
    let ways: [&dyn Fn(&str) -> bool; 3] =
        [&|name| plain(name) == whole, &|name| plain(name) == last, &|name| plain(last_part(name)) == last];
    for way in ways {
        let mut found = names.iter().copied().filter(|name| way(name));
        match (found.next(), found.next()) {
            (None, _) => {}
            // With two candidates a choice could run the wrong tool, while the refusal names both.
            (only, None) => return only,
            (Some(_), Some(_)) => return None,
        }
    }
    None
}

/// The part after the last separator: `search` for `web.search` and for `web__search`.
fn last_part(name: &str) -> &str {
    let name = name.rsplit(BETWEEN).next().unwrap_or(name);
    // MCP clients join server and tool by two underscores.
    name.rsplit("__").next().unwrap_or(name)
}

fn plain(name: &str) -> String {
    // Models vary case and hyphens most; all other differences count.
    name.trim().to_lowercase().replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 5] = ["web.search", "files.search", "mcp__shell", "read_file", "Fetch"];

    fn of(called: &str) -> Option<&'static str> {
        meant(called, &NAMES)
    }

    #[test]
    fn a_name_without_its_parts_before_the_last_is_meant_if_it_is_the_only_one() {
        assert_eq!(of("shell"), Some("mcp__shell"));
        assert_eq!(of("search"), None);
    }

    #[test]
    fn a_name_with_parts_before_it_is_meant() {
        assert_eq!(of("functions.read_file"), Some("read_file"));
        assert_eq!(of("tools.shell"), Some("mcp__shell"));
    }

    #[test]
    fn a_mark_of_the_models_format_behind_a_name_is_no_part_of_it() {
        assert_eq!(of("read_file<|channel|>commentary"), Some("read_file"));
        assert_eq!(of("functions.read_file<|channel|>json"), Some("read_file"));
        assert_eq!(of("<|channel|>commentary"), None);
    }

    #[test]
    fn neither_case_nor_hyphens_matter() {
        assert_eq!(of("fetch"), Some("Fetch"));
        assert_eq!(of("Read-File"), Some("read_file"));
        assert_eq!(of("WEB.SEARCH"), Some("web.search"));
    }

    #[test]
    fn another_word_means_nothing() {
        assert_eq!(of("lookup"), None);
        assert_eq!(of(""), None);
    }
}
