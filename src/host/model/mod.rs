//! Models over HTTP, in the chat-completions format that OpenAI-compatible servers speak.

mod client;
mod config;
mod failure;
mod openai;
mod redact;
mod sse;
mod wire;
mod within;

pub use config::{ConfigError, OpenAiConfig};
pub use openai::OpenAi;
pub use sse::{EventTooLarge, SseEvent, SseParser};

pub(crate) use failure::{cut_off, from_status};
pub(crate) use redact::Redactor;
pub(crate) use wire::{ChatMessage, ChatRequest, Content, read_body};
pub(crate) use within::within;
