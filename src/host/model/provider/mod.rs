//! The providers, one file each: how its API is reached, and what agent files say of its models. The wire formats they
//! speak are in `wire/`.

mod anthropic;
mod azure;
#[cfg(feature = "bedrock")]
mod bedrock;
mod gemini;
mod openai;
mod responses;

use super::config::Provider;

pub(in crate::host) use anthropic::AnthropicKeys;
pub(in crate::host) use azure::AzureKeys;
#[cfg(feature = "bedrock")]
pub(in crate::host) use bedrock::BedrockKeys;
pub(in crate::host) use gemini::GeminiKeys;
pub(in crate::host) use openai::OpenAiKeys;
pub(in crate::host) use responses::ResponsesKeys;

impl Provider {
    /// The chat completions of `OpenAI`, and of all servers that speak them too.
    pub const OPENAI: &'static Self = &openai::OPENAI;
    /// Anthropic's messages.
    pub const ANTHROPIC: &'static Self = &anthropic::ANTHROPIC;
    /// The chat completions of Azure `OpenAI`, whose version of the API is `api-version` in the query of the base URL.
    pub const AZURE: &'static Self = &azure::AZURE;
    /// The Responses of `OpenAI`, and of all servers that speak them too.
    pub const RESPONSES: &'static Self = &responses::RESPONSES;
    /// The Converse of Amazon Bedrock.
    #[cfg(feature = "bedrock")]
    pub const BEDROCK: &'static Self = &bedrock::BEDROCK;
    /// The `generateContent` of Gemini, at Google's own address or behind another one.
    pub const GEMINI: &'static Self = &gemini::GEMINI;

    /// One provider for each dialect in which clients of a gateway ask.
    #[cfg(feature = "serve")]
    pub(in crate::host) const SPOKEN_BY_CLIENTS: [&'static Self; 4] =
        [Self::OPENAI, Self::ANTHROPIC, Self::RESPONSES, Self::GEMINI];
}
