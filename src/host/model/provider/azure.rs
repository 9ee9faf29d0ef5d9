//! The chat completions of Azure `OpenAI`: a model is a deployment, which is a part of the address.

use indexmap::IndexMap;
use reqwest::Url;
use serde_json::Value;

use super::openai::{OWN_FIELDS, format_of, server_at};
use crate::context::ToolForm;
use crate::host::header_entry::HeaderEntry;
use crate::host::key_source::KeyEntry;
use crate::host::model::ApiEntry;
use crate::host::model::config::{Auth, ModelConfig, Provider};
use crate::policy::PriceEntry;
use crate::policy::decode::{Spanned, record};

/// Where Azure's own servers are. A gateway, a private endpoint or a proxy before them has an address of its own and takes what they
/// take.
const HOST: &str = "openai.azure.com";
/// The part of the query that names the version of the API.
const VERSION: &str = "api-version";

pub(super) static AZURE: Provider = Provider {
    name: "azure",
    base_url: "https://RESOURCE.openai.azure.com",
    endpoint,
    auth: Auth::Header("api-key"),
    headers: &[],
    own_fields: OWN_FIELDS,
    tool_form: ToolForm::Chat,
    served_by: |_| "azure.ai.openai",
    // A deployment does not say it.
    window: |_, _| None,
    format: |config| {
        let server = server_at(HOST, &config);
        Box::new(format_of(config, server))
    },
};

record! {
    /// A deployment of Azure `OpenAI`, which speaks the chat-completions format.
    #[part(true)]
    pub(crate) struct AzureKeys {
        /// Where the resource is.
        /// Example: `https://my-resource.openai.azure.com`
        pub base_url: Spanned<String>,
        /// The name of the deployment.
        /// Example: `gpt-4o`
        pub model: String,
        /// The version of the API.
        /// Example: `2024-10-21`
        pub api_version: Spanned<String>,
        /// The key: `{env: NAME}`, `{file: PATH}` or `{command: [PROGRAM, ARGUMENT]}`. Keys are never written into the file
        /// itself.
        pub api_key: Option<KeyEntry>,
        /// A token of Microsoft Entra, in the place of a key: it comes from the same places, and is sent as `authorization: Bearer`.
        /// Example: `{"command": ["az", "account", "get-access-token", "--resource", "https://cognitiveservices.azure.com"]}`
        pub token: Option<KeyEntry>,
        /// Further headers of its requests. What is secret is not written here but where it is: `{env: NAME}` or
        /// `{file: PATH}`.
        /// Example: `{"x-team": "orders"}`
        pub headers: IndexMap<String, HeaderEntry> = IndexMap::new(),
        /// Whether answers are streamed.
        pub stream: bool = true,
        /// The most tokens of one reply.
        /// Example: `4096`
        pub max_tokens: Option<u32>,
        /// Further fields of the request body, sent as they are.
        /// Example: `{"temperature": 0}`
        pub extra: Value = Value::Null,
        /// What its tokens cost, for telemetry.
        /// Example: `{"input": 2.50, "output": 10}`
        pub price: Option<PriceEntry>,
    }
}

impl From<AzureKeys> for ApiEntry {
    fn from(keys: AzureKeys) -> Self {
        let config = ModelConfig {
            base_url: versioned(keys.base_url.value, &keys.api_version.value),
            stream: keys.stream,
            max_tokens: keys.max_tokens,
            ..ModelConfig::new(Provider::AZURE, keys.model)
        };
        Self {
            config,
            at: keys.base_url.span,
            api_key: keys.api_key,
            token: keys.token,
            headers: keys.headers,
            extra: keys.extra,
            ask_window: false,
            price: keys.price,
        }
    }
}

/// The address with the version of the API in its query. One that is no URL stays as it is: what is wrong with it is said
/// where it is checked.
fn versioned(base_url: String, version: &str) -> String {
    let Ok(mut url) = Url::parse(base_url.trim()) else { return base_url };
    url.query_pairs_mut().append_pair(VERSION, version);
    url.into()
}

fn endpoint(config: &ModelConfig, url: &mut Url) {
    if let Ok(mut path) = url.path_segments_mut() {
        // `lib/azure.py` of OpenAI's SDK.
        path.pop_if_empty().extend(["openai", "deployments", &config.model, "chat", "completions"]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::model::fuzzed::request;
    use crate::session::{Message, ToolCall};
    use serde_json::json;

    fn at(base_url: &str, model: &str) -> ModelConfig {
        ModelConfig {
            base_url: versioned(base_url.into(), "2024-10-21"),
            ..ModelConfig::new(Provider::AZURE, model)
        }
    }

    #[test]
    fn a_deployment_is_a_part_of_the_address() {
        for (base_url, model, endpoint) in [
            (
                "https://r.openai.azure.com",
                "gpt-4o",
                "https://r.openai.azure.com/openai/deployments/gpt-4o/chat/completions?api-version=2024-10-21",
            ),
            (
                "https://gate.example/team/?a=b",
                "a/b?",
                "https://gate.example/team/openai/deployments/a%2Fb%3F/chat/completions?a=b&api-version=2024-10-21",
            ),
        ] {
            assert_eq!(at(base_url, model).endpoint().unwrap().as_str(), endpoint);
        }
        let wrong = at("r.openai.azure.com", "m").endpoint().unwrap_err().to_string();
        assert!(wrong.ends_with("write it like https://RESOURCE.openai.azure.com"), "{wrong}");
    }

    #[test]
    fn the_key_has_a_header_of_its_own() {
        let config = ModelConfig { api_key: Some("key-123456".into()), ..at("http://host", "m") };
        let headers = config.header_map().unwrap();
        assert_eq!((&headers["api-key"], headers.len()), (&"key-123456".parse().unwrap(), 1));
        assert!(!format!("{config:?} {headers:?}").contains("123456"));
        assert_eq!(config.served_by(), "azure.ai.openai");
    }

    #[test]
    fn what_is_sent_is_the_same_at_every_address() {
        let call = ToolCall { id: "functions.look:0".into(), name: "look".into(), arguments: "{}".into() };
        let extra = json!({"reasoning_content": "hm", "weird": 1}).as_object().cloned().unwrap();
        let said = Message::Assistant { text: "so".into(), calls: vec![call], extra };
        let messages = [Message::user("go"), said];
        let sent = |base_url: &str| {
            let format = (AZURE.format)(at(base_url, "gpt-4o"));
            (format.write(&request(&messages)).unwrap(), format.takes_documents())
        };
        let (own, takes_documents) = sent("https://r.openai.azure.com");
        assert_eq!(sent("http://127.0.0.1/team"), (own.clone(), takes_documents));
        let own = String::from_utf8(own).unwrap();
        let strange = ["reasoning_content", "weird", "functions.look:0"];
        assert!(!takes_documents && !strange.iter().any(|part| own.contains(part)), "{own}");
    }
}
