//! A model behind Anthropic's messages API.

use std::fmt;

use super::config::{AnthropicConfig, ConfigError};
use super::transport::Transport;
use super::wire::anthropic::Messages;
use crate::context::ToolForm;
use crate::engine::{Failure, ModelReply};
use crate::host::port::{BoxFuture, Model, ModelRequest};

/// A model behind Anthropic's messages API. One call is one HTTP request.
pub struct Anthropic {
    transport: Transport,
    format: Messages,
}

impl Anthropic {
    /// Sets up the connection; nothing is sent yet.
    ///
    /// # Errors
    /// The configuration cannot be used.
    pub fn new(config: AnthropicConfig) -> Result<Self, ConfigError> {
        config.check_extra()?;
        let transport = Transport::new(
            config.endpoint()?,
            config.header_map()?,
            config.secrets(),
            config.model.clone(),
            config.stream,
        )?;
        let AnthropicConfig { model, stream, temperature, max_tokens, extra, .. } = config;
        Ok(Self { transport, format: Messages { model, max_tokens, stream, temperature, extra } })
    }
}

impl Model for Anthropic {
    fn call<'a>(&'a self, request: ModelRequest<'a>) -> BoxFuture<'a, Result<ModelReply, Failure>> {
        Box::pin(self.transport.call(&self.format, request))
    }

    fn tool_form(&self) -> ToolForm {
        ToolForm::Messages
    }
}

impl fmt::Debug for Anthropic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.transport.show("Anthropic", f)
    }
}
