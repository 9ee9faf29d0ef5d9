//! A policy written inside a test file.

use core::fmt::Write as _;

use schemars::{Schema, SchemaGenerator};

use crate::policy::PolicyFile;
use crate::policy::decode::{Decode, Reader};
use crate::policy::yaml::Node;
use crate::policy::{Code, Diagnostic, Span};

/// A policy written inside a test file: a text of its own in which every byte keeps its line and column.
#[derive(Clone, Debug)]
pub(crate) struct Inline {
    /// The policy, after as many blank lines and columns as there are before it in the test file.
    pub(crate) text: String,
}

impl Decode for Inline {
    const NAME: Option<&'static str> = Some("InlinePolicy");

    fn decode(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let entries = reader.mapping(node)?;
        let Some((first, _)) = entries.first() else {
            reader.report(
                Diagnostic::error(Code::MISSING_FIELD, node.span, "this policy says nothing")
                    .help("remove it, or write a rule"),
            );
            return None;
        };
        let flow = reader.text(node.span).starts_with('{');
        let start = if flow { node.span.start } else { first.span.start };
        let before = reader.text(Span::new(node.span.source, 0, start));
        let body = reader.text(Span::new(node.span.source, start, node.span.end));
        let has_version = entries.iter().any(|(key, _)| &*key.name == "version");
        Some(Self { text: padded(before, body, flow, has_version) })
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        // The same as a policy file, but for `version`, which may be left out.
        let mut schema = PolicyFile::schema(generator);
        if let Some(required) = schema.get_mut("required").and_then(serde_json::Value::as_array_mut) {
            required.retain(|field| field != "version");
        }
        if schema.get("required").and_then(serde_json::Value::as_array).is_some_and(Vec::is_empty) {
            schema.remove("required");
        }
        schema
    }
}

/// The body where it stands, with nothing before it but what makes it a policy of the first version.
fn padded(before: &str, body: &str, flow: bool, has_version: bool) -> String {
    let last = before.rsplit_once('\n').map_or(before, |(_, last)| last);
    let mut breaks = before.matches('\n').count();
    let indent = " ".repeat(last.chars().count());
    let mut text = String::with_capacity(breaks + indent.len() + body.len() + 16);
    let mut body = body;
    if !has_version && breaks > 0 {
        // On a line of its own, which is blank otherwise, so that nothing moves.
        text.push_str(&"\n".repeat(breaks.saturating_sub(1)));
        breaks = 1;
        if flow {
            text.push_str("{version: 1,");
        } else {
            let _ = write!(text, "{indent}version: 1");
        }
    }
    text.push_str(&"\n".repeat(breaks));
    text.push_str(&indent);
    if flow && !has_version {
        text.push(' ');
        body = body.get(1..).unwrap_or_default();
    }
    text.push_str(body);
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Policy;
    use crate::policy::decode::{self, record};

    record! {
        /// A file.
        struct File {
            /// A policy.
            inline: Inline,
        }
    }

    fn place(text: &str) -> String {
        let file = decode::read::<File>("a.test.yaml", text.as_bytes()).unwrap().value;
        let policy = Policy::from_yaml("a.test.yaml", &file.inline.text).unwrap();
        policy.place(policy.model("m").retry.max_attempts.origin).to_string()
    }

    #[test]
    fn its_values_keep_their_places() {
        assert_eq!(place("# x\ninline:\n  # y\n  retry:\n    max_attempts: 2\n"), "a.test.yaml:5:19");
        assert_eq!(place("# x\ninline: {retry: {max_attempts: 2}}\n"), "a.test.yaml:2:32");
        assert_eq!(place("# x\ninline: {version: 1, retry: {max_attempts: 2}}\n"), "a.test.yaml:2:44");
        assert_eq!(place("# x\ninline:\n  version: 1\n  retry: {max_attempts: 2}\n"), "a.test.yaml:4:25");
    }
}
