//! A model behind a provider's API.

use std::fmt;

use super::config::ModelConfig;
use super::headers::ConfigError;
use super::media::{RefusedMedia, ShownConversation};
use super::transport::ModelTransport;
use super::wire::WireFormat;
use crate::context::ToolForm;
use crate::engine::{Failure, ModelReply};
use crate::host::port::{BoxFuture, Model, ModelRequest};
use crate::host::redact::SecretRedactor;

/// A model behind a provider's API. One call is one HTTP request.
pub struct HttpModel {
    transport: ModelTransport,
    format: Box<dyn WireFormat>,
    tool_form: ToolForm,
    refused_media: RefusedMedia,
}

impl HttpModel {
    /// Sets up the connection; nothing is sent yet.
    ///
    /// # Errors
    /// The configuration cannot be used.
    pub fn new(config: ModelConfig) -> Result<Self, ConfigError> {
        config.check()?;
        let transport = ModelTransport::new(&config)?;
        let provider = config.provider;
        let (mut format, tool_form) = ((provider.format)(config), provider.tool_form);
        format.continue_paused();
        Ok(Self { transport, format, tool_form, refused_media: RefusedMedia::default() })
    }

    async fn answer(
        &self,
        request: ModelRequest<'_>,
        others: Option<&SecretRedactor>,
    ) -> Result<ModelReply, Failure> {
        let written = (&*self.format, self.tool_form);
        let to = (self.transport.model(), &self.refused_media);
        match ShownConversation::read(request.messages, &request.files, written, to).await {
            Some(shown) => self.transport.call(&shown, request, others).await,
            None => self.transport.call(&*self.format, request, others).await,
        }
    }
}

impl Model for HttpModel {
    fn call<'a>(&'a self, request: ModelRequest<'a>) -> BoxFuture<'a, Result<ModelReply, Failure>> {
        Box::pin(self.answer(request, None))
    }

    fn call_redacted<'a>(
        &'a self,
        request: ModelRequest<'a>,
        redactor: &'a SecretRedactor,
    ) -> BoxFuture<'a, Result<ModelReply, Failure>> {
        Box::pin(async move {
            // A failure is searched for the key of the connection anyway, and for all other secrets at once.
            let result = self.answer(request, Some(redactor)).await;
            result.map(|reply| redactor.reply(reply))
        })
    }

    fn tool_form(&self) -> ToolForm {
        self.tool_form
    }
}

impl fmt::Debug for HttpModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.transport.show("HttpModel", f)
    }
}
