//! A model behind an OpenAI-compatible server.

use std::fmt;

use super::config::{ConfigError, OpenAiConfig};
use super::transport::Transport;
use super::wire::chat::{Chat, Sampling};
use crate::engine::{Failure, ModelReply};
use crate::host::port::{BoxFuture, Model, ModelRequest};

/// A model behind an OpenAI-compatible server. One call is one HTTP request.
pub struct OpenAi {
    transport: Transport,
    format: Chat,
}

impl OpenAi {
    /// Sets up the connection; nothing is sent yet.
    ///
    /// # Errors
    /// The configuration cannot be used.
    pub fn new(config: OpenAiConfig) -> Result<Self, ConfigError> {
        config.check_extra()?;
        let transport = Transport::new(
            config.endpoint()?,
            config.header_map()?,
            config.secrets(),
            config.model.clone(),
            config.stream,
        )?;
        let guidance_in_results = config.guidance_in_results();
        let OpenAiConfig { model, stream, temperature, max_tokens, extra, finish_optional, .. } = config;
        let sampling =
            Sampling { stream, temperature, max_tokens, extra, guidance_in_results, finish_optional };
        Ok(Self { transport, format: Chat { model, sampling } })
    }
}

impl Model for OpenAi {
    fn call<'a>(&'a self, request: ModelRequest<'a>) -> BoxFuture<'a, Result<ModelReply, Failure>> {
        Box::pin(self.transport.call(&self.format, request))
    }
}

impl fmt::Debug for OpenAi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.transport.show("OpenAi", f)
    }
}
