//! Models over HTTP: one transport, the wire formats, and the providers that speak them.

mod answer;
mod api_entry;
mod body;
pub(super) mod client;
mod config;
mod direct;
mod dropped;
mod failure;
#[cfg(feature = "bedrock")]
mod frames;
#[cfg(feature = "serve")]
pub(super) mod front;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzed;
mod headers;
mod http;
mod media;
#[allow(unnameable_types, reason = "the keys of one provider are read into an `ApiEntry` at once")]
mod provider;
#[cfg(feature = "serve")]
mod refusals;
#[cfg(feature = "serve")]
pub(super) mod relay;
mod renewed;
#[cfg(feature = "serve")]
pub(in crate::host) mod sent;
#[cfg(feature = "bedrock")]
mod signer;
mod sse;
mod system_role;
mod transport;
mod window;
mod wire;
mod within;

pub(crate) use api_entry::{ApiEntry, FinishReasonEntry};
pub use config::{ModelConfig, Provider};
pub use headers::ConfigError;
pub(crate) use headers::check_header;
pub use http::HttpModel;
pub(super) use renewed::lead;
pub use renewed::{KeySupplier, RenewedKey, SuppliedKey};
pub use sse::{EventTooLarge, SseEvent, SseParser};
pub use window::{WindowPages, WindowQuestion};

pub(crate) use failure::{cut_off, from_status, stated_limits};
#[cfg(feature = "bedrock")]
pub(super) use provider::BedrockKeys;
pub(super) use provider::{AnthropicKeys, AzureKeys, GeminiKeys, OpenAiKeys, ResponsesKeys};
#[cfg(feature = "scripted")]
pub(crate) use wire::chat::ChatRequest;
pub(crate) use wire::chat::{ChatContent, ChatMessage, WireCall, chat_messages, read_body};
#[cfg(feature = "serve")]
pub(in crate::host) use wire::cut_at_limit;
pub(crate) use within::{no_first_token, not_whole, stalled, within};
