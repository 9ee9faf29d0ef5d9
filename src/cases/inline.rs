//! A policy written inside a test file.

use schemars::{Schema, SchemaGenerator};

use crate::policy::NamedText;
use crate::policy::PolicyFile;
use crate::policy::decode::{Decode, NodeReader};
use crate::text::yaml::YamlNode;
use crate::text::{Code, Diagnostic, Sources, Span};

/// A policy written inside a test file: a text of its own in which every byte keeps its line and column.
#[derive(Clone, Debug)]
pub(crate) struct InlinePolicy {
    /// The policy, after as many blank columns as there are before it in the test file.
    text: String,
    /// How many lines of the text come before the first one it has in the test file.
    added: u32,
    /// Where it begins there.
    start: Span,
}

impl InlinePolicy {
    /// The policy as a part of its file.
    pub(crate) fn of(&self, file: &str, sources: &Sources) -> NamedText {
        let line = sources.place_of(self.start).line.saturating_sub(1);
        NamedText {
            name: file.to_owned(),
            bytes: self.text.as_bytes().into(),
            before: line.saturating_sub(self.added),
        }
    }
}

impl Decode for InlinePolicy {
    const NAME: Option<&'static str> = Some("InlinePolicy");

    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
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
        // Only the last line of what is before it matters.
        let before = reader.text(Span::new(node.span.source, 0, start));
        let body = reader.text(Span::new(node.span.source, start, node.span.end));
        let has_version = entries.iter().any(|(key, _)| &*key.name == "version");
        let (text, added) = padded(before, body, flow, has_version);
        Some(Self { text, added, start: Span::new(node.span.source, start, start) })
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

/// The body at its column, with nothing before it but what makes it a policy of the first version; and how many lines
/// that takes.
fn padded(before: &str, body: &str, flow: bool, has_version: bool) -> (String, u32) {
    let (above, last) = before.rsplit_once('\n').map_or((None, before), |(above, last)| (Some(above), last));
    let indent = " ".repeat(last.chars().count());
    let text = match (has_version, above, flow) {
        (true, ..) => return (format!("{indent}{body}\n"), 0),
        // On the line above, which is blank otherwise, so that nothing moves.
        (false, Some(_), true) => format!("{{version: 1,\n{indent} {}\n", body.get(1..).unwrap_or_default()),
        (false, Some(_), false) => format!("{indent}version: 1\n{indent}{body}\n"),
        // There is no line above.
        (false, None, _) => {
            let open = body.strip_suffix('}').unwrap_or(body).trim_end();
            let comma = if open.ends_with(',') { "" } else { "," };
            return (format!("{indent}{open}{comma} version: 1}}\n"), 0);
        }
    };
    (text, 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Loader;
    use crate::policy::decode::{self, record};

    record! {
        /// A file.
        struct InlineFile {
            /// A policy.
            inline: InlinePolicy,
        }
    }

    fn place(text: &str) -> String {
        let file = decode::read::<InlineFile>("a.test.yaml", text.as_bytes()).unwrap();
        let text = file.value.inline.of("a.test.yaml", file.sources());
        let mut open = |_: &str, path: &str| Err(path.to_owned());
        let policy = Loader::new().load_texts(&mut open, &[text]).unwrap();
        policy.place(policy.model("m").retry.max_attempts.origin).to_string()
    }

    #[test]
    fn its_values_keep_their_places() {
        assert_eq!(place("# x\ninline:\n  # y\n  retry:\n    max_attempts: 2\n"), "a.test.yaml:5:19");
        assert_eq!(place("# x\ninline: {retry: {max_attempts: 2}}\n"), "a.test.yaml:2:32");
        assert_eq!(place("{inline: {retry: {max_attempts: 2}}}"), "a.test.yaml:1:33");
        assert_eq!(place("# x\ninline: {version: 1, retry: {max_attempts: 2}}\n"), "a.test.yaml:2:44");
        assert_eq!(place("# x\ninline:\n  version: 1\n  retry: {max_attempts: 2}\n"), "a.test.yaml:4:25");
    }
}
