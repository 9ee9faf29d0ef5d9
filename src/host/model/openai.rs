//! A model behind an OpenAI-compatible server.

use std::fmt;

use super::config::{ConfigError, OpenAiConfig};
use super::transport::Transport;
use super::wire::chat::{Chat, Lessons, Sampling};
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
        let server = config.server();
        let OpenAiConfig { model, stream, temperature, max_tokens, extra, .. } = config;
        let sampling = Sampling { stream, temperature, max_tokens, extra };
        Ok(Self { transport, format: Chat { model, sampling, server, lessons: Lessons::default() } })
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
