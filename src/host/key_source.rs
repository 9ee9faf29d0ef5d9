//! Where a key comes from: secrets are never written into an agent file.

use schemars::{Schema as JsonSchema, SchemaGenerator, json_schema};

use crate::policy::decode::{Decode, NodeReader, SchemaOf, Spanned, record};
use crate::text::yaml::{YamlData, YamlNode};
use crate::text::{Code, Diagnostic};
use crate::time::Nanos;

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

record! {
    /// A command that prints a key: as plain text, or as JSON with the time at which it expires. It is run again ahead of that.
    pub(crate) struct KeyCommand {
        /// The program and its arguments. No shell is involved unless it is the program.
        /// Example: `["gcloud", "auth", "print-access-token"]`
        pub command: Spanned<Vec<String>>,
        /// Variables of this process that are passed on to it, besides those that the commands of tools see.
        /// Example: `["CLOUDSDK_CONFIG"]`
        pub pass_env: Vec<String> = Vec::new(),
        /// How long it may take.
        /// Example: `10s`
        pub timeout: Nanos = Nanos::from_secs(30),
        /// How long a key is valid that does not say it itself.
        /// Example: `45m`
        pub lifetime: Nanos = Nanos::from_secs(15 * 60),
    }
}

/// Where the key of a model comes from.
#[derive(Clone, Debug)]
pub(crate) enum KeyEntry {
    /// It is in a variable or a file.
    Kept(KeySource),
    /// A command prints it.
    Command(KeyCommand),
}

impl Decode for KeyEntry {
    const NAME: Option<&'static str> = Some("KeyEntry");

    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        let has = |name: &str| match &node.data {
            YamlData::Map(keys) => keys.iter().any(|(key, _)| &*key.name == name),
            _ => false,
        };
        if !has("command") {
            return KeySource::decode(node, reader).map(Self::Kept);
        }
        let wrong = |span, message: &str| Diagnostic::error(Code::BAD_VALUE, span, message);
        if has("env") || has("file") {
            let message = "exactly one of `env`, `file` and `command` says where it is";
            reader.report(wrong(node.span, message));
            return None;
        }
        let entry = KeyCommand::decode(node, reader)?;
        if entry.command.value.iter().all(String::is_empty) {
            reader.report(wrong(
                entry.command.span,
                "there is no command; write the program and its arguments",
            ));
            return None;
        }
        Some(Self::Command(entry))
    }

    fn schema(generator: &mut SchemaGenerator) -> JsonSchema {
        let (kept, command) = (
            generator.subschema_for::<SchemaOf<KeySource>>(),
            generator.subschema_for::<SchemaOf<KeyCommand>>(),
        );
        json_schema!({"anyOf": [kept, command]})
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
