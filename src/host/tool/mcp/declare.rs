//! What a server says of its tools, as the model and the interpreter see it.

use rmcp::model::{Tool as Declared, ToolAnnotations};
use serde_json::{Value, json};

use super::issue::{McpIssueReason, McpToolIssue};
use crate::engine::{ToolCatalogue, ToolSpec};
use crate::policy::Effect;
use crate::text::Schema;

/// The longest name of a tool that providers take.
pub(super) const MOST_NAME: usize = 64;

/// The longest description that is shown to models, in bytes: one of 2 MB would fill any window.
pub(super) const MOST_DESCRIPTION: usize = 16 * 1024;
/// The largest schema of arguments, in bytes.
const MOST_SCHEMA: usize = 256 * 1024;
/// What replaces a schema that is too deep to be read.
pub(super) const TOO_DEEP: &str = "nested too deep";

/// One page of a server's list of tools.
pub(super) struct ToolPage {
    /// The tools, or why one cannot be used.
    pub(super) tools: Vec<Result<Declared, McpToolIssue>>,
    /// Where the next page begins.
    pub(super) next: Option<String>,
}

/// A page whose tools are read one by one; `None`: it is no page.
pub(super) fn page(page: Value) -> Option<ToolPage> {
    let Value::Object(mut page) = page else { return None };
    let Value::Array(tools) = page.remove("tools")? else { return None };
    let next = page.get("nextCursor").and_then(Value::as_str).map(str::to_owned);
    Some(ToolPage { tools: tools.into_iter().map(declared).collect(), next })
}

fn declared(tool: Value) -> Result<Declared, McpToolIssue> {
    let name = tool.get("name").and_then(Value::as_str).unwrap_or("without a name").to_owned();
    let issue = |reason, message: String| Err(McpToolIssue::new(&name, reason, &message));
    let schema = tool.get("inputSchema").filter(|schema| !schema.is_null());
    match schema {
        None => {
            let message = format!("tool `{name}` declares no `inputSchema`, so its arguments are not known");
            return issue(McpIssueReason::NoInputSchema, message);
        }
        Some(Value::String(text)) if text == TOO_DEEP => {
            let message = format!("the declaration of tool `{name}` is nested too deep to be read");
            return issue(McpIssueReason::NestedTooDeep, message);
        }
        Some(_) => {}
    }
    serde_json::from_value(tool).or_else(|error| {
        let message = format!("the declaration of tool `{name}` cannot be read: {error}");
        issue(McpIssueReason::UnreadableDeclaration, message)
    })
}

/// Cuts a description that no model should be shown whole, and says so.
pub(super) fn shorten(declared: &str, spec: &mut ToolSpec) -> Option<McpToolIssue> {
    let length = spec.description.len();
    if length <= MOST_DESCRIPTION {
        return None;
    }
    let end = (0..=MOST_DESCRIPTION).rev().find(|end| spec.description.is_char_boundary(*end)).unwrap_or(0);
    spec.description.truncate(end);
    spec.description.push_str(" [... cut]");
    let message =
        format!("the description of tool `{declared}` has {length} bytes; {MOST_DESCRIPTION} are kept");
    Some(McpToolIssue::new(declared, McpIssueReason::DescriptionTooLong, &message))
}

/// The tool under the name the model calls it by, or why it cannot be used.
pub(super) fn spec(prefix: &str, declared: &Declared) -> Result<ToolSpec, McpToolIssue> {
    let mut spec = ToolSpec {
        name: name(prefix, &declared.name),
        description: declared.description.clone().unwrap_or_default().into_owned(),
        parameters: Value::Object(declared.input_schema.as_ref().clone()),
        effect: declared.annotations.as_ref().and_then(effect),
    };
    let size = spec.parameters.to_string().len();
    if size > MOST_SCHEMA {
        let name = spec.name;
        let message =
            format!("the parameters of tool `{name}` have {size} bytes; at most {MOST_SCHEMA} are taken");
        return Err(McpToolIssue::new(&declared.name, McpIssueReason::InputSchemaTooLarge, &message));
    }
    let usable = ToolCatalogue::new([spec.clone()]).or_else(|error| {
        if !leave_out_patterns(&mut spec.parameters) {
            return Err(error);
        }
        ToolCatalogue::new([spec.clone()])
    });
    usable.map_err(|error| {
        McpToolIssue::new(&declared.name, McpIssueReason::InvalidInputSchema, &error.to_string())
    })?;
    Ok(spec)
}

/// Leaves the patterns to the server that are not known here: JSON Schema has those of ECMA-262 (2020-12 core, section 6.4), with
/// look-around, which may take exponential time. Returns whether there are any.
fn leave_out_patterns(schema: &mut Value) -> bool {
    let is_known = |pattern: &str| Schema::compile(&json!({ "pattern": pattern })).is_ok();
    let mut any = false;
    let fields = match schema {
        Value::Array(list) => {
            for part in list {
                any |= leave_out_patterns(part);
            }
            return any;
        }
        Value::Object(fields) => fields,
        _ => return false,
    };
    any |= matches!(fields.get("pattern"), Some(Value::String(pattern)) if !is_known(pattern));
    if any {
        fields.shift_remove("pattern");
    }
    if let Some(Value::Object(by_pattern)) = fields.get_mut("patternProperties") {
        let before = by_pattern.len();
        by_pattern.retain(|pattern, _| is_known(pattern));
        if by_pattern.len() < before {
            any = true;
            // Which fields are further ones is not known any more.
            fields.shift_remove("additionalProperties");
            fields.shift_remove("unevaluatedProperties");
        }
    }
    for (name, part) in fields {
        // These hold values, in which `pattern` is a word like any other.
        if !matches!(name.as_str(), "const" | "enum" | "default" | "examples") {
            any |= leave_out_patterns(part);
        }
    }
    any
}

/// What the hints say a run does to the world; `None`: nothing.
///
/// A hint that is left out has a meaning only next to others: the specification then assumes the worst.
fn effect(hints: &ToolAnnotations) -> Option<Effect> {
    match (hints.read_only_hint, hints.idempotent_hint, hints.destructive_hint) {
        (Some(true), _, _) => Some(Effect::ReadOnly),
        (_, Some(true), _) => Some(Effect::Idempotent),
        (None, None, None) => None,
        _ => Some(Effect::NonIdempotent),
    }
}

/// A name that providers take. One that had to be changed ends with a digest, so that two do not become one.
fn name(prefix: &str, name: &str) -> String {
    let written = format!("{prefix}{name}");
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if !name.is_empty() && written.len() <= MOST_NAME && written.chars().all(allowed) {
        return written;
    }
    with_digest(&written, |c| if allowed(c) { c } else { '_' })
}

/// The name in at most [`MOST_NAME`] bytes if all its characters are of one, shown as `shown` says: it ends with a digest of the
/// whole name, so that two do not become one.
pub(super) fn with_digest(whole: &str, shown: impl Fn(char) -> char) -> String {
    let digest = format!("_{:08x}", xxhash_rust::xxh3::xxh3_64(whole.as_bytes()) & 0xffff_ffff);
    whole.chars().map(shown).take(MOST_NAME.saturating_sub(digest.len())).chain(digest.chars()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn tool_of(json: Value) -> Declared {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn a_tool_is_named_after_its_server() {
        let tool = tool_of(json!({
            "name": "read", "description": "Reads.", "inputSchema": {"type": "object"},
            "annotations": {"readOnlyHint": true}
        }));
        let spec = spec("fs__", &tool).unwrap();
        assert_eq!((spec.name.as_str(), spec.description.as_str()), ("fs__read", "Reads."));
        assert_eq!(spec.effect, Some(Effect::ReadOnly));
    }

    #[test]
    fn patterns_that_are_not_known_here_are_left_to_the_server() {
        let tool = tool_of(json!({"name": "wait", "inputSchema": {
            "type": "object",
            "properties": {
                "pattern": {"type": "string", "pattern": "^P(?!$)"}, "to": {"type": "string", "pattern": "^[a-z]+$"},
                "kind": {"const": {"pattern": "(?=a)"}},
            },
            "patternProperties": {"^(?=x)": {"type": "integer"}, "^y": {"type": "integer"}}, "additionalProperties": false,
        }}));
        assert_eq!(
            spec("", &tool).unwrap().parameters,
            json!({
                "type": "object",
                "properties": {
                    "pattern": {"type": "string"}, "to": {"type": "string", "pattern": "^[a-z]+$"},
                    "kind": {"const": {"pattern": "(?=a)"}},
                },
                "patternProperties": {"^y": {"type": "integer"}},
            })
        );
        let broken = tool_of(json!({"name": "a", "inputSchema": {"type": "objct"}}));
        assert!(spec("", &broken).is_err());
    }

    #[test]
    fn a_name_that_providers_refuse_is_changed_and_stays_one_of_its_own() {
        assert_eq!(name("fs__", "read_file"), "fs__read_file");
        let (dotted, slashed) = (name("a__", "user.get"), name("a__", "user/get"));
        assert!(dotted.starts_with("a__user_get_"), "{dotted}");
        assert_ne!(dotted, slashed);
        let long = name("a__", &"x".repeat(100));
        assert_eq!(long.len(), MOST_NAME);
        assert_ne!(long, name("a__", &"x".repeat(101)));
        assert!(name("", "").starts_with('_'));
    }

    #[test]
    fn hints_become_effects() {
        for (hints, expected) in [
            (json!({}), None),
            (json!({"title": "T", "openWorldHint": true}), None),
            (json!({"readOnlyHint": true, "destructiveHint": true}), Some(Effect::ReadOnly)),
            (json!({"readOnlyHint": false}), Some(Effect::NonIdempotent)),
            (json!({"idempotentHint": true, "destructiveHint": true}), Some(Effect::Idempotent)),
            (json!({"destructiveHint": false}), Some(Effect::NonIdempotent)),
            (json!({"idempotentHint": false}), Some(Effect::NonIdempotent)),
        ] {
            let annotations: ToolAnnotations = serde_json::from_value(hints.clone()).unwrap();
            assert_eq!(effect(&annotations), expected, "{hints}");
        }
    }

    #[test]
    fn a_tool_that_cannot_be_read_leaves_the_others_usable() {
        let page = page(json!({"nextCursor": "2", "tools": [
            {"name": "fine", "inputSchema": {"type": "object"}},
            {"name": "bare"},
            {"name": "deep", "inputSchema": TOO_DEEP},
            {"name": "odd", "inputSchema": [1]},
            7,
        ]}))
        .unwrap();
        assert_eq!(page.next.as_deref(), Some("2"));
        let said: Vec<_> = page
            .tools
            .iter()
            .map(|tool| {
                tool.as_ref().map_or_else(|issue| issue.message.clone(), |tool| tool.name.to_string())
            })
            .collect();
        assert_eq!(
            said[..3],
            [
                "fine",
                "tool `bare` declares no `inputSchema`, so its arguments are not known",
                "the declaration of tool `deep` is nested too deep to be read",
            ]
        );
        assert!(said[3].starts_with("the declaration of tool `odd` cannot be read: "), "{}", said[3]);
        assert!(said[4].contains("tool `without a name`"), "{}", said[4]);
        assert!(super::page(json!({"prompts": []})).is_none());
    }

    #[test]
    fn a_description_of_any_length_is_cut_and_a_schema_of_any_size_is_refused() {
        let long = tool_of(json!({"name": "t", "description": "é".repeat(1 << 20), "inputSchema": {}}));
        let mut long = spec("a__", &long).unwrap();
        let issue = shorten("t", &mut long).unwrap();
        assert_eq!(issue.message, "the description of tool `t` has 2097152 bytes; 16384 are kept");
        assert!(!issue.reason.leaves_out());
        assert!(long.description.len() <= MOST_DESCRIPTION + 10 && long.description.ends_with("é [... cut]"));
        assert_eq!(shorten("t", &mut long.clone()).is_some(), long.description.len() > MOST_DESCRIPTION);
        let wide = tool_of(json!({"name": "t", "inputSchema": {"description": "x".repeat(1 << 20)}}));
        assert!(spec("a__", &wide).unwrap_err().message.contains("the parameters of tool `a__t` have"));
    }

    #[test]
    fn a_tool_whose_schema_is_none_cannot_be_used() {
        let tool = tool_of(json!({"name": "t", "inputSchema": {"type": "objekt"}}));
        let said = spec("a__", &tool).unwrap_err().message;
        assert!(said.contains("the parameters of tool `a__t` are not a JSON Schema"), "{said}");
    }
}
