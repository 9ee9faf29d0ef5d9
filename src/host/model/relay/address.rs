//! Where requests go, by what they ask for: as the SDKs of `OpenAI`, Anthropic and Google have it.

use reqwest::Url;

use super::{RelayKind, RelayedRequest};
use crate::host::model::config::ModelConfig;
use crate::host::model::headers::ConfigError;

/// The addresses of a model.
pub(super) struct RelayAddresses {
    answer: Url,
    stream: Url,
    embeddings: Url,
    token_count: Url,
}

impl RelayAddresses {
    /// The addresses, by that of answers.
    pub(super) fn of(config: &ModelConfig) -> Result<Self, ConfigError> {
        let at = |stream| ModelConfig { stream, ..config.clone() }.endpoint();
        let (answer, stream) = (at(false)?, at(true)?);
        let path = answer.path().trim_end_matches('/').to_owned();
        let beside = |path: String| {
            let mut url = answer.clone();
            url.set_path(&path);
            url
        };
        let base = ["/chat/completions", "/responses"].iter().find_map(|end| path.strip_suffix(end));
        let embeddings = beside(format!("{}/embeddings", base.unwrap_or(&path)));
        let token_count = beside(match path.strip_suffix(":generateContent") {
            Some(model) => format!("{model}:countTokens"),
            None if path.ends_with("/responses") => format!("{path}/input_tokens"),
            None => format!("{path}/count_tokens"),
        });
        Ok(Self { answer, stream, embeddings, token_count })
    }

    /// Where a request goes.
    pub(super) const fn of_request(&self, request: &RelayedRequest<'_>) -> &Url {
        match request.kind {
            RelayKind::Answer if request.stream => &self.stream,
            RelayKind::Answer => &self.answer,
            RelayKind::Embeddings => &self.embeddings,
            RelayKind::TokenCount => &self.token_count,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Provider;

    #[test]
    fn each_provider_has_its_addresses() {
        let of = |provider| {
            let config = ModelConfig { base_url: "http://h/v1".into(), ..ModelConfig::new(provider, "m") };
            let RelayAddresses { answer, stream, embeddings, token_count } =
                RelayAddresses::of(&config).unwrap();
            [answer, stream, embeddings, token_count]
                .map(|url| url.as_str().trim_start_matches("http://h").to_owned())
        };
        let [answer, stream, embeddings, _] = of(Provider::OPENAI);
        assert_eq!(
            [&*answer, &*stream, &*embeddings],
            ["/v1/chat/completions", "/v1/chat/completions", "/v1/embeddings"]
        );
        assert_eq!(of(Provider::ANTHROPIC)[3], "/v1/messages/count_tokens");
        assert_eq!(of(Provider::RESPONSES)[3], "/v1/responses/input_tokens");
        let [answer, stream, _, count] = of(Provider::GEMINI);
        let models = [
            "/v1/models/m:generateContent",
            "/v1/models/m:streamGenerateContent?alt=sse",
            "/v1/models/m:countTokens",
        ];
        assert_eq!([&*answer, &*stream, &*count], models);
    }
}
