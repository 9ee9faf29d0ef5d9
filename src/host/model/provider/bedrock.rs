//! Amazon Bedrock: any of its models, by Converse.

use core::fmt::Write as _;

use indexmap::IndexMap;
use reqwest::Url;
use serde_json::Value;

use crate::context::ToolForm;
use crate::host::header_entry::HeaderEntry;
use crate::host::key_source::KeyEntry;
use crate::host::model::ApiEntry;
use crate::host::model::config::{Auth, ModelConfig, Provider};
use crate::host::model::wire::converse::{ConverseFormat, ModelFamily};
use crate::policy::PriceEntry;
use crate::policy::decode::{Spanned, record};

/// What is kept as it is in a part of an address (RFC 3986, section 2.3). The id of a model has `:` and `/`.
const UNRESERVED: &[u8] = b"-_.~";

pub(super) static BEDROCK: Provider = Provider {
    name: "bedrock",
    base_url: "https://bedrock-runtime.us-east-1.amazonaws.com",
    endpoint,
    auth: Auth::Aws,
    headers: &[],
    own_fields: &["messages", "system"],
    tool_form: ToolForm::Converse,
    served_by: |_| "aws.bedrock",
    // The API has no page that tells.
    window: |_, _| None,
    format: |config| Box::new(format(config)),
};

record! {
    /// A model of Amazon Bedrock, by Converse.
    #[part(true)]
    pub(crate) struct BedrockKeys {
        /// The region of AWS that serves the model.
        /// Example: `us-east-1`
        pub region: Spanned<String>,
        /// The model's id, or that of an inference profile, or an ARN.
        /// Example: `us.anthropic.claude-sonnet-5`
        pub model: Spanned<String>,
        /// Where the server is, if not at the region's own address: an endpoint within a network of your own.
        /// Example: `https://vpce-0a1b-bedrock.us-east-1.vpce.amazonaws.com`
        pub base_url: Option<Spanned<String>>,
        /// The profile of AWS's files whose credentials sign the requests. Left out: what the environment says, a web
        /// identity, the container or the instance, as AWS's own tools look for them.
        /// Example: `agents`
        pub profile: Option<String>,
        /// A key of Bedrock itself, which is sent in the place of a signature: `{env: NAME}`, `{file: PATH}` or
        /// `{command: [PROGRAM, ARGUMENT]}`. Keys are never written into the file itself.
        pub api_key: Option<KeyEntry>,
        /// Further headers of its requests. What is secret is not written here but where it is: `{env: NAME}` or
        /// `{file: PATH}`.
        /// Example: `{"x-amzn-bedrock-trace": "ENABLED"}`
        pub headers: IndexMap<String, HeaderEntry> = IndexMap::new(),
        /// Whether answers are streamed.
        pub stream: bool = true,
        /// The most tokens of one reply. Left out: as many as the model allows.
        /// Example: `8000`
        pub max_tokens: Option<u32>,
        /// Further fields of the request body, sent as they are; fields of a mapping are added to what unfazed sets
        /// there.
        /// Example: `{"additionalModelRequestFields": {"thinking": {"type": "enabled", "budget_tokens": 4000}}}`
        pub extra: Value = Value::Null,
        /// What its tokens cost, for telemetry.
        /// Example: `{"input": 3, "output": 15, "cache_read": 0.30, "cache_write": 3.75}`
        pub price: Option<PriceEntry>,
    }
}

impl From<BedrockKeys> for ApiEntry {
    fn from(keys: BedrockKeys) -> Self {
        let at = keys.base_url.as_ref().map_or(keys.region.span, |base_url| base_url.span);
        let (config, _) = Self::reached(Provider::BEDROCK, keys.base_url, keys.model);
        let named = config.base_url != BEDROCK.base_url;
        let base_url = if named { config.base_url.clone() } else { address(&keys.region.value) };
        Self {
            config: ModelConfig {
                base_url,
                region: Some(keys.region.value),
                profile: keys.profile,
                stream: keys.stream,
                max_tokens: keys.max_tokens,
                ..config
            },
            at,
            api_key: keys.api_key,
            token: None,
            headers: keys.headers,
            extra: keys.extra,
            ask_window: false,
            price: keys.price,
        }
    }
}

/// The address of a region (AWS, "Amazon Bedrock endpoints and quotas"; China has a domain of its own).
fn address(region: &str) -> String {
    let end = if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
    format!("https://bedrock-runtime.{region}.{end}")
}

/// The model and what is asked of it are a part of the address.
fn endpoint(config: &ModelConfig, url: &mut Url) {
    let verb = if config.stream { "converse-stream" } else { "converse" };
    let path = format!("{}/model/{}/{verb}", url.path().trim_end_matches('/'), encoded(&config.model));
    url.set_path(&path);
}

/// A part of an address with its `:` and `/` encoded, as AWS's SDKs write it: the signature is over what is sent.
fn encoded(part: &str) -> String {
    part.bytes().fold(String::new(), |mut encoded, byte| {
        if byte.is_ascii_alphanumeric() || UNRESERVED.contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
        encoded
    })
}

/// The format for the model that is reached so.
fn format(config: ModelConfig) -> ConverseFormat {
    let issuer = config.issuer();
    let ModelConfig { model, temperature, max_tokens, extra, guidance_in_results, .. } = config;
    let known = ModelFamily::of(&model);
    let results_alone = guidance_in_results.unwrap_or(known.results_alone);
    ConverseFormat {
        issuer,
        temperature,
        max_tokens,
        extra,
        family: ModelFamily { results_alone, ..known },
        model,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::ConfigError;

    fn at(base_url: &str, model: &str, stream: bool) -> ModelConfig {
        ModelConfig { base_url: base_url.into(), stream, ..ModelConfig::new(Provider::BEDROCK, model) }
    }

    #[test]
    fn the_model_and_the_way_of_the_answer_are_a_part_of_the_address() {
        let arn = "arn:aws:bedrock:eu-west-1:1:inference-profile/x";
        let arn_encoded = "arn%3Aaws%3Abedrock%3Aeu-west-1%3A1%3Ainference-profile%2Fx";
        for (base_url, model, stream, endpoint) in [
            (
                &*address("eu-west-1"),
                "anthropic.claude-v2:1",
                true,
                "https://bedrock-runtime.eu-west-1.amazonaws.com/model/anthropic.claude-v2%3A1/converse-stream",
            ),
            (
                &*address("cn-north-1"),
                "m",
                false,
                "https://bedrock-runtime.cn-north-1.amazonaws.com.cn/model/m/converse",
            ),
            (
                "http://127.0.0.1:80/aws/",
                arn,
                false,
                &*format!("http://127.0.0.1/aws/model/{arn_encoded}/converse"),
            ),
        ] {
            assert_eq!(at(base_url, model, stream).endpoint().unwrap().as_str(), endpoint);
        }
    }

    #[test]
    fn a_key_of_bedrock_is_sent_in_the_place_of_a_signature() {
        let keyed = ModelConfig { api_key: Some("bedrock-123456".into()), ..at("http://host", "m", true) };
        assert_eq!(keyed.header_map().unwrap()["authorization"], "Bearer bedrock-123456");
        assert!(!format!("{keyed:?}").contains("123456"));
        assert!(at("http://host", "m", true).header_map().unwrap().is_empty());
    }

    #[test]
    fn a_region_that_is_none_is_refused() {
        let config = ModelConfig { region: Some("us-east-1.evil/".into()), ..at("http://host", "m", true) };
        assert_eq!(config.check(), Err(ConfigError::Region("us-east-1.evil/".into())));
    }

    #[test]
    fn what_is_said_beside_results_is_a_part_of_them_but_for_claude() {
        let alone = |model: &str| format(at("http://host", model, true)).family.results_alone;
        assert!(!alone("us.anthropic.claude-sonnet-4-5-20250929-v1:0"));
        assert!(alone("amazon.nova-pro-v1:0"));
    }
}
