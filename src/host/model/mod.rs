//! Models over HTTP: one transport, and the wire formats of OpenAI-compatible servers and of Anthropic.

mod answer;
mod anthropic;
mod body;
pub(super) mod client;
mod config;
mod failure;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzed;
mod openai;
mod redact;
mod sse;
mod transport;
mod window;
mod wire;
mod within;

pub use anthropic::Anthropic;
pub use config::{AnthropicConfig, ConfigError, OpenAiConfig, check_header};
pub use openai::OpenAi;
pub use sse::{EventTooLarge, SseEvent, SseParser};
pub use window::{WindowPages, WindowQuestion};

pub(crate) use failure::{cut_off, from_status};
pub(crate) use redact::Redactor;
#[cfg(feature = "scripted")]
pub(crate) use wire::chat::ChatRequest;
pub use wire::chat::chat_messages;
pub(crate) use wire::chat::{ChatMessage, Content, WireCall, read_body};
pub(crate) use within::{no_first_token, not_whole, stalled, within};
