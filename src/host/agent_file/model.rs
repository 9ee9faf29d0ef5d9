//! The models of an agent file: behind the API of a provider, or a script.

use schemars::{Schema, SchemaGenerator};

use super::{AgentFile, headers};
use crate::context::ToolForm;
use crate::host::header_entry::HeaderEntry;
use crate::host::key_source::KeyEntry;
use crate::host::model::ApiEntry;
#[cfg(feature = "bedrock")]
use crate::host::model::BedrockKeys;
use crate::host::model::{AnthropicKeys, AzureKeys, GeminiKeys, OpenAiKeys, ResponsesKeys};
use crate::host::{ConfigError, ModelConfig, ModelFacts};
use crate::policy::decode::{Decode, DecodedDocument, Form, NodeReader, Spanned, record};
use crate::policy::{Price, PriceEntry};
use crate::text::yaml::YamlNode;
use crate::text::{Code, Diagnostic, Span};

/// The words of `api`, and the keys that go with each.
const FORMS: &[Form<ModelEntry>] = &[
    Form::of::<OpenAiKeys, ApiEntry>("openai"),
    Form::of::<AnthropicKeys, ApiEntry>("anthropic"),
    Form::of::<ResponsesKeys, ApiEntry>("responses"),
    Form::of::<AzureKeys, ApiEntry>("azure"),
    Form::of::<GeminiKeys, ApiEntry>("gemini"),
    #[cfg(feature = "bedrock")]
    Form::of::<BedrockKeys, ApiEntry>("bedrock"),
    Form::of::<ScriptedEntry, ScriptedEntry>("scripted"),
];

/// How a model is reached.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "documents are read once")]
pub(crate) enum ModelEntry {
    /// By the API of a provider.
    Api(ApiEntry),
    /// A script answers in its place.
    Scripted(ScriptedEntry),
}

record! {
    /// A script that answers in a model's place, served over real HTTP on loopback.
    #[part(true)]
    pub(crate) struct ScriptedEntry {
        /// The script file; the path starts at this file's folder.
        /// Example: `model.yaml`
        pub script: Spanned<String>,
        /// Whether answers are streamed.
        pub stream: bool = true,
        /// The port of the server; 0 takes a free one.
        /// Example: `8080`
        pub port: u16 = 0,
        /// What its tokens cost, for telemetry.
        /// Example: `{"input": 2.50, "output": 10}`
        pub price: Option<PriceEntry>,
    }
}

impl From<ApiEntry> for ModelEntry {
    fn from(entry: ApiEntry) -> Self {
        Self::Api(entry)
    }
}

impl From<ScriptedEntry> for ModelEntry {
    fn from(entry: ScriptedEntry) -> Self {
        Self::Scripted(entry)
    }
}

impl Decode for ModelEntry {
    const NAME: Option<&'static str> = Some("ModelEntry");
    const PART: bool = true;

    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        Form::decode(FORMS, "api", node, reader)
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        Form::schema(FORMS, "api", &["How a model is reached."], generator)
    }
}

impl ModelEntry {
    /// What is said of it if it is behind the API of a provider.
    pub(crate) const fn api(&self) -> Option<&ApiEntry> {
        match self {
            Self::Api(api) => Some(api),
            Self::Scripted(_) => None,
        }
    }

    /// Its script, if it is one.
    pub(crate) const fn script(&self) -> Option<&Spanned<String>> {
        match self {
            Self::Api(_) => None,
            Self::Scripted(entry) => Some(&entry.script),
        }
    }

    /// Where its key comes from, or the token in its place.
    pub(crate) fn api_key(&self) -> Option<&KeyEntry> {
        let api = self.api()?;
        api.token.as_ref().or(api.api_key.as_ref())
    }

    /// Further headers of its requests.
    pub(crate) fn headers(&self) -> impl Iterator<Item = (&str, &HeaderEntry)> {
        self.api().into_iter().flat_map(|api| &api.headers).map(|(name, entry)| (name.as_str(), entry))
    }

    /// In which form it declares tools.
    pub(crate) fn tool_form(&self) -> ToolForm {
        self.api().map_or(ToolForm::Chat, |api| api.config.provider.tool_form())
    }

    /// What telemetry tells about the model of that name.
    pub(crate) fn facts(&self, name: &str) -> ModelFacts {
        let (provider, model, price) = match self {
            Self::Api(api) => (api.config.served_by(), api.config.model.as_str(), &api.price),
            Self::Scripted(entry) => ("scripted", name, &entry.price),
        };
        ModelFacts {
            provider: provider.to_owned(),
            model: model.to_owned(),
            price: price.as_ref().map(Price::from),
        }
    }
}

/// What is wrong with a model.
pub(super) fn problems(
    document: &DecodedDocument<AgentFile>,
    name: &str,
    entry: &ModelEntry,
) -> Vec<Diagnostic> {
    let Some(api) = entry.api() else { return Vec::new() };
    let mut problems = headers::problems(document, &["models", name, "headers"], entry.headers());
    let wrong = |at: Span, message: String| Diagnostic::error(Code::BAD_VALUE, at, message);
    if api.api_key.is_some() && api.token.is_some() {
        let at = AgentFile::key(document, &["models", name, "token"]);
        let message = "`api_key` and `token` are both sent in the place of the key";
        problems.push(Diagnostic::error(Code::CONTRADICTION, at, message).help("remove one of them"));
    }
    let without_headers = ModelConfig { plain_headers: Vec::new(), ..api.config() };
    match without_headers.check() {
        Ok(()) => {}
        Err(ConfigError::OwnField(field)) => {
            let at = AgentFile::key(document, &["models", name, "extra", &field]);
            problems.push(wrong(at, ConfigError::OwnField(field).to_string()));
        }
        Err(error) => problems.push(wrong(api.at, error.to_string())),
    }
    if !api.extra.is_null() && !api.extra.is_object() {
        let at = AgentFile::key(document, &["models", name, "extra"]);
        problems.push(wrong(at, "`extra` is a mapping of fields of the request's body".into()));
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::agent_file::AgentFile;

    fn entry(fields: &str) -> Result<ModelEntry, String> {
        let text = format!("version: 1\nmodels:\n  main: {{{fields}}}\n");
        let file = AgentFile::read("agent.yaml", text.as_bytes()).map_err(|report| report.human(false))?;
        Ok(file.value.models["main"].clone())
    }

    #[test]
    fn prices_are_read_exactly() {
        let price = "price: {input: 2.50, output: 10, cache_read: 0.25}";
        let facts = entry(&format!("api: scripted, script: m.yaml, {price}")).unwrap().facts("main");
        let price =
            Price { input: 2_500_000, output: 10_000_000, cache_read: Some(250_000), ..Price::default() };
        let expected = ModelFacts { provider: "scripted".into(), model: "main".into(), price: Some(price) };
        assert_eq!(facts, expected);
    }

    #[test]
    fn a_price_that_is_none_is_refused() {
        for (price, says) in [
            ("{input: -1, output: 1}", "`-1` is not a price"),
            ("{input: 0.0000001, output: 1}", "write fewer decimals"),
            ("{input: cheap, output: 1}", "expected a number of US dollars per million tokens"),
            ("{input: 1}", "`output`"),
        ] {
            let report = entry(&format!("api: scripted, script: m.yaml, price: {price}")).unwrap_err();
            assert!(report.contains(says), "{report}");
        }
    }

    #[test]
    fn a_key_comes_from_one_place() {
        let azure = "api: azure, base_url: 'http://h', model: m, api_version: v";
        for (fields, says) in [
            ("api_key: {command: [x], env: Y}", "exactly one of `env`, `file` and `command`"),
            ("api_key: {command: []}", "there is no command"),
            ("api_key: {command: [x], tmeout: 3s}", "unknown field `tmeout`"),
            ("api_key: {timeout: 3s}", "unknown field `timeout`"),
            ("token: s3cret", "keys are never written into the file itself"),
            (
                "token: {file: t}, api_key: {env: K}",
                "`api_key` and `token` are both sent in the place of the key",
            ),
            ("headers: {x-a: {command: [x]}}", "unknown field `command`"),
        ] {
            let report = entry(&format!("{azure}, {fields}")).unwrap_err();
            assert!(report.contains(says), "{report}");
        }
        let read = entry(&format!("{azure}, token: {{command: [az, login], lifetime: 5m}}")).unwrap();
        assert!(read.api().unwrap().config().bearer);
    }
}
