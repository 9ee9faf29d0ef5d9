//! `errors:`, how failures are distinguished.

use schemars::{Schema, SchemaGenerator, json_schema};

use crate::policy::decode::{Decode, NodeReader, OneOrMany, SchemaOf, Spanned, record};
use crate::policy::{ErrorClass, ErrorRow, LayerKind, StatusPattern};
use crate::text::yaml::{YamlData, YamlNode};
use crate::time::Nanos;

record! {
    /// A row of the table: it matches a failure if everything it names does, each by any element of its list.
    #[part(true)]
    pub(crate) struct ErrorRule {
        /// HTTP status: numbers, or `5xx`.
        /// Checks: W0227.
        /// Example: `[429, "5xx"]`
        pub(crate) status: Option<SoughtText<StatusPattern>>,
        /// The provider's `code`; case, `_`, `-` and `.` make no difference.
        /// Example: `insufficient_quota`
        pub(crate) code: Option<SoughtText<NonEmptyText>>,
        /// The provider's `type`; case, `_`, `-` and `.` make no difference.
        /// Example: `overloaded_error`
        pub(crate) r#type: Option<SoughtText<NonEmptyText>>,
        /// Pieces of the message; case, quotes, marks such as `_` and `:`, and the amount of space make no difference.
        /// Example: `["too many requests", "slow down"]`
        pub(crate) message: Option<SoughtText<ComparableText>>,
        /// What the message, the code or the type speaks of: every element, in any order. An element is a phrase, or a
        /// list of phrases of which one is enough. A phrase begins where a word begins, and its last word stands for all
        /// words that begin with it (`exceed` for `exceeded`), if it has more than three letters. For a limit, a quota, an
        /// overload, a window, a filter or a key a phrase does not count where the message denies or supposes it, in an
        /// address, or as a part of a quoted name.
        /// Example: `["tool result", ["without", "no matching"], ["tool call", "function call"]]`
        pub(crate) words: Option<SoughtText<PhraseSet>>,
        /// Pieces of the words in the body's detail fields, such as the name of a quota; compared as those of `message` are.
        /// Example: `PerDay`
        pub(crate) detail: Option<SoughtText<ComparableText>>,
        /// The provider behind a router, as the body names it; case does not matter.
        /// Example: `anthropic`
        pub(crate) provider: Option<SoughtText<NonEmptyText>>,
        /// The class of such failures.
        pub(crate) class: Spanned<ErrorClass>,
        /// Whether the request itself is at fault: the same bytes are not sent to the same target again, whatever
        /// `retry_on` says.
        pub(crate) request_at_fault: bool = false,
        /// How long to wait if the server does not say: it counts as `server_delay`.
        /// Example: `1m`
        pub(crate) wait: Option<Spanned<Nanos>>,
    }
}

impl ErrorRule {
    /// The row of the table that it is in a file of that kind.
    pub(crate) fn row(&self, scope: LayerKind) -> ErrorRow {
        ErrorRow {
            status: sought(self.status.as_ref(), Clone::clone),
            code: sought(self.code.as_ref(), |NonEmptyText(text)| text.clone()),
            kind: sought(self.r#type.as_ref(), |NonEmptyText(text)| text.clone()),
            message: sought(self.message.as_ref(), |ComparableText(text)| text.clone()),
            words: sought(self.words.as_ref(), |concept| concept.0.clone()),
            detail: sought(self.detail.as_ref(), |ComparableText(text)| text.clone()),
            provider: sought(self.provider.as_ref(), |NonEmptyText(text)| text.clone()),
            request_at_fault: self.request_at_fault,
            wait: self.wait.map(|wait| wait.value),
            class: self.class.value,
            origin: self.class.span.origin(scope),
        }
    }
}

/// What a row looks for; nothing if it does not say.
fn sought<T, V>(sought: Option<&SoughtText<T>>, value: impl Fn(&T) -> V) -> Vec<V> {
    sought.into_iter().flat_map(|sought| &sought.0).map(value).collect()
}

/// What a row looks for: one of these. An empty list would match everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SoughtText<T>(pub(crate) Vec<T>);

/// A text that says something. An empty one would be part of every message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NonEmptyText(pub(crate) String);

/// A text with a letter or a digit: only those are compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ComparableText(pub(crate) String);

/// Phrases of which one is enough.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PhraseSet(pub(crate) Vec<String>);

impl<T: Decode> Decode for SoughtText<T> {
    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        if matches!(&node.data, YamlData::List(nodes) if nodes.is_empty()) {
            return reader.out_of_range(node, "must not be empty");
        }
        OneOrMany::decode(node, reader).map(|OneOrMany(all)| Self(all))
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        let one = generator.subschema_for::<SchemaOf<T>>();
        json_schema!({"anyOf": [one.clone(), {"type": "array", "items": one, "minItems": 1}]})
    }
}

impl Decode for NonEmptyText {
    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        let text = String::decode(node, reader)?;
        if text.trim().is_empty() { reader.out_of_range(node, "must not be empty") } else { Some(Self(text)) }
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "pattern": "\\S"})
    }
}

impl Decode for ComparableText {
    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        let text = String::decode(node, reader)?;
        // Only letters and digits are compared. Without any, the text would be empty and match every message.
        if text.contains(char::is_alphanumeric) {
            Some(Self(text))
        } else {
            reader.out_of_range(node, "must hold a letter or a digit")
        }
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "pattern": "\\S"})
    }
}

impl Decode for PhraseSet {
    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        let phrases = SoughtText::<ComparableText>::decode(node, reader)?.0;
        Some(Self(phrases.into_iter().map(|ComparableText(text)| text).collect()))
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        SoughtText::<ComparableText>::schema(generator)
    }
}

impl Decode for StatusPattern {
    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        const EXPECTED: &str = "an HTTP status from 100 to 599, or `4xx`";
        match &node.data {
            YamlData::Number(_) => match u16::decode(node, reader)? {
                status @ 100..=599 => Some(Self::Exact(status)),
                _ => reader.out_of_range(node, "must be from 100 to 599"),
            },
            YamlData::Text(text) => match text.as_bytes() {
                [hundreds @ b'1'..=b'5', b'x' | b'X', b'x' | b'X'] => {
                    Some(Self::Hundred(hundreds.saturating_sub(b'0')))
                }
                _ => reader.wrong_type(node, EXPECTED),
            },
            _ => reader.wrong_type(node, EXPECTED),
        }
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"anyOf": [
            {"type": "integer", "minimum": 100, "maximum": 599},
            {"type": "string", "pattern": "^[1-5][xX][xX]$"},
        ]})
    }
}
