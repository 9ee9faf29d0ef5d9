//! What a step of a reduction comes to, for a host that has the conversation.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::attached::AttachedFiles;
use super::port::{ByteTraffic, Model, ModelRequest};
use super::redact::SecretRedactor;
use crate::context::ConversationMeasure;
use crate::engine::{Event, Failure, ReduceContext, SummarizeMessages, ToolChoice};
use crate::policy::{ErrorClass, Policy};
use crate::session::Message;

/// The event that answers the work.
pub(super) fn reduced(
    policy: &Policy,
    work: ReduceContext,
    messages: &[Message],
    measure: &ConversationMeasure,
) -> Event {
    let reduction = measure.reduced(policy, &work.plan, messages);
    work.reduced(reduction)
}

/// Asks a model for a summary. Nobody is shown what it streams.
pub(super) async fn summarized(
    work: SummarizeMessages,
    model: Option<Arc<dyn Model>>,
    redactor: Arc<SecretRedactor>,
    traffic: ByteTraffic,
    cancel: CancellationToken,
) -> Event {
    let Some(model) = model else {
        let message = format!("there is no model `{}`", work.target);
        return work.failed(Failure::of(ErrorClass::NotFound, message));
    };
    let asked = [Message::user(work.prompt.clone())];
    let request = ModelRequest {
        messages: &asked,
        tools: Vec::new(),
        tool_choice: ToolChoice::Auto,
        max_output: work.max_output,
        timeout: work.timeout.map(Into::into),
        timeouts: work.timeouts,
        streamed: None,
        traffic,
        files: AttachedFiles::default(),
        cancel,
    };
    match model.call_redacted(request, &redactor).await {
        Ok(reply) => work.responded(reply),
        Err(failure) => work.failed(failure),
    }
}
