//! Where a key comes from: secrets are never written into an agent file.

use schemars::{Schema as JsonSchema, SchemaGenerator};

use crate::policy::decode::{Decode, NodeReader, Spanned, record};
use crate::text::yaml::{YamlData, YamlNode};
use crate::text::{Code, Diagnostic};

record! {
    /// Where a key comes from: exactly one of the two.
    struct KeyRule {
        /// The environment variable that holds it.
        /// Example: `OPENAI_API_KEY`
        env: Option<Spanned<String>>,
        /// The file that holds it.
        /// Example: `/run/secrets/openai`
        file: Option<Spanned<String>>,
    }
}

/// Where a key comes from: exactly one of the two.
#[derive(Clone, Debug)]
pub(crate) struct KeySource {
    /// The environment variable that holds it.
    pub env: Option<Spanned<String>>,
    /// The file that holds it.
    pub file: Option<Spanned<String>>,
}

impl Decode for KeySource {
    const NAME: Option<&'static str> = Some("KeySource");

    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        const WHERE: &str = "write where it is: `{env: NAME}` or `{file: PATH}`";
        let wrong = |span, message: &str| Diagnostic::error(Code::BAD_VALUE, span, message).help(WHERE);
        if let YamlData::Text(_) | YamlData::Number(_) | YamlData::Bool(_) | YamlData::List(_) = node.data {
            reader.report(wrong(node.span, "keys are never written into the file itself"));
            return None;
        }
        let KeyRule { env, file } = KeyRule::decode(node, reader)?;
        let is_name = |name: &str| {
            !name.starts_with(|c: char| c.is_ascii_digit())
                && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        };
        if let Some(env) = env.as_ref().filter(|env| env.value.is_empty() || !is_name(&env.value)) {
            reader.report(wrong(env.span, "this is not the name of an environment variable"));
            return None;
        }
        // A key that is not known has been reported.
        let nothing_known =
            env.is_none() && file.is_none() && !matches!(&node.data, YamlData::Map(keys) if keys.is_empty());
        if env.is_some() == file.is_some() && !nothing_known {
            reader.report(wrong(node.span, "exactly one of `env` and `file` says where it is"));
            return None;
        }
        Some(Self { env, file })
    }

    fn schema(generator: &mut SchemaGenerator) -> JsonSchema {
        KeyRule::schema(generator)
    }
}
