//! What a server says of its tools, as the model and the interpreter see it.

use rmcp::model::{Tool as Declared, ToolAnnotations};
use serde_json::Value;

use crate::engine::{Catalogue, ToolSpec};
use crate::policy::Effect;

/// The longest name of a tool that providers take.
const MOST_NAME: usize = 64;

/// The tool under the name the model calls it by, or why it cannot be used.
pub(super) fn spec(prefix: &str, declared: &Declared) -> Result<ToolSpec, String> {
    let spec = ToolSpec {
        name: name(prefix, &declared.name),
        description: declared.description.clone().unwrap_or_default().into_owned(),
        parameters: Value::Object(declared.input_schema.as_ref().clone()),
        effect: declared.annotations.as_ref().and_then(effect),
    };
    Catalogue::new([spec.clone()]).map_err(|error| error.to_string())?;
    Ok(spec)
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
    let digest = format!("_{:08x}", xxhash_rust::xxh3::xxh3_64(written.as_bytes()) & 0xffff_ffff);
    let kept = written.chars().map(|c| if allowed(c) { c } else { '_' });
    kept.take(MOST_NAME.saturating_sub(digest.len())).chain(digest.chars()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn declared(json: Value) -> Declared {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn a_tool_is_named_after_its_server() {
        let tool = declared(json!({
            "name": "read", "description": "Reads.", "inputSchema": {"type": "object"},
            "annotations": {"readOnlyHint": true}
        }));
        let spec = spec("fs__", &tool).unwrap();
        assert_eq!((spec.name.as_str(), spec.description.as_str()), ("fs__read", "Reads."));
        assert_eq!(spec.effect, Some(Effect::ReadOnly));
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
    fn a_tool_whose_schema_is_none_cannot_be_used() {
        let tool = declared(json!({"name": "t", "inputSchema": {"type": "objekt"}}));
        let said = spec("a__", &tool).unwrap_err();
        assert!(said.contains("the parameters of tool `a__t` are not a JSON Schema"), "{said}");
    }
}
