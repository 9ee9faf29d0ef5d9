//! Further headers of requests to models and servers of tools: written into the agent file, or, if they are secret, told where they are.

use std::collections::HashMap;

use indexmap::IndexMap;
use schemars::{Schema, SchemaGenerator, json_schema};
use secrecy::SecretString;

use super::{AgentFile, KeySource, ModelEntry};
use crate::host::check_header;
use crate::policy::decode::{Decode, Document, Reader, Spanned};
use crate::policy::yaml::{Data, Node};
use crate::policy::{Code, Diagnostic};

/// How the names of headers end that hold a secret.
const SECRET: [&str; 8] =
    ["api-key", "apikey", "authorization", "cookie", "password", "secret", "token", "credentials"];
/// How the values of such headers begin.
const SCHEMES: [&str; 2] = ["bearer ", "basic "];

/// The value of a header.
#[derive(Clone, Debug)]
pub enum HeaderEntry {
    /// It stands in the file: no secret.
    Text(Spanned<String>),
    /// A secret, which is elsewhere.
    From(KeySource),
}

impl Decode for HeaderEntry {
    const NAME: Option<&'static str> = Some("HeaderEntry");

    fn decode(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        match node.data {
            Data::Map(_) => KeySource::decode(node, reader).map(Self::From),
            Data::Text(_) => Spanned::decode(node, reader).map(Self::Text),
            _ => reader.wrong_type(node, "a string, `{env: NAME}` or `{file: PATH}`"),
        }
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        let source = generator.subschema_for::<crate::policy::decode::Described<KeySource>>();
        json_schema!({"anyOf": [{"type": "string"}, source]})
    }
}

impl ModelEntry {
    /// Further headers of its requests.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &HeaderEntry)> {
        let headers = match self {
            Self::OpenAi { headers, .. } | Self::Anthropic { headers, .. } => Some(headers),
            Self::Scripted { .. } => None,
        };
        headers.into_iter().flat_map(IndexMap::iter).map(|(name, entry)| (name.as_str(), entry))
    }

    /// Those that stand in the file.
    pub fn plain_headers(&self) -> Vec<(String, String)> {
        let plain = self.headers().filter_map(|(name, entry)| match entry {
            HeaderEntry::Text(text) => Some((name.to_owned(), text.value.clone())),
            HeaderEntry::From(_) => None,
        });
        plain.collect()
    }
}

/// What is wrong with the headers of a model.
pub(super) fn problems(document: &Document<AgentFile>, model: &str, entry: &ModelEntry) -> Vec<Diagnostic> {
    problems_of(document, &["models", model, "headers"], entry.headers())
}

/// What is wrong with headers that stand under that key.
pub(super) fn problems_of<'a>(
    document: &Document<AgentFile>,
    path: &[&str],
    headers: impl Iterator<Item = (&'a str, &'a HeaderEntry)>,
) -> Vec<Diagnostic> {
    let mut problems = Vec::new();
    let mut seen: HashMap<String, &str> = HashMap::new();
    for (name, entry) in headers {
        let key = AgentFile::key(document, &[path, &[name]].concat());
        // The value of a secret is not known before the run.
        let (value, at) = match entry {
            HeaderEntry::Text(text) => (text.value.as_str(), text.span),
            HeaderEntry::From(_) => ("", key),
        };
        if let HeaderEntry::Text(text) = entry
            && is_secret(name, &text.value)
        {
            let message =
                format!("header `{name}` holds a secret, and secrets are never written into the file");
            let problem = Diagnostic::error(Code::BAD_VALUE, key, message);
            problems.push(problem.help("write where it is: `{env: NAME}` or `{file: PATH}`"));
        } else if let Err(error) = check_header(name, &SecretString::default()) {
            problems.push(Diagnostic::error(Code::BAD_VALUE, key, error.to_string()));
        } else if let Err(error) = check_header(name, &SecretString::from(value)) {
            problems.push(Diagnostic::error(Code::BAD_VALUE, at, error.to_string()));
        }
        if let Some(first) = seen.insert(name.to_ascii_lowercase(), name) {
            let message =
                format!("`{name}` and `{first}` are one header: case does not count in their names");
            problems.push(Diagnostic::error(Code::DUPLICATE_KEY, key, message).help("remove one of them"));
        }
    }
    problems
}

fn is_secret(name: &str, value: &str) -> bool {
    let (name, value) = (name.to_ascii_lowercase(), value.trim_start().to_ascii_lowercase());
    SECRET.iter().any(|end| name.ends_with(end)) || SCHEMES.iter().any(|scheme| value.starts_with(scheme))
}
