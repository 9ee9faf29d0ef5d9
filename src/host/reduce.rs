//! What a step of a reduction comes to, for a host that has the conversation.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::measure::Measure;
use super::model::Redactor;
use super::port::{Model, ModelRequest, Traffic};
use crate::engine::{Event, Failure, ReduceContext, Summarize, ToolChoice};
use crate::policy::{ErrorClass, Policy};
use crate::session::Message;

/// The event that answers the work.
pub(super) fn reduced(
    policy: &Policy,
    work: ReduceContext,
    messages: &[Message],
    measure: &Measure,
) -> Event {
    let reduction = measure.reduced(policy, &work.plan, messages);
    work.reduced(reduction)
}

/// Asks a model for a summary. Nobody is shown what it streams.
pub(super) async fn summarized(
    work: Summarize,
    model: Option<Arc<dyn Model>>,
    redactor: Arc<Redactor>,
    traffic: Traffic,
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
        timeout: work.timeout,
        timeouts: work.timeouts,
        streamed: None,
        traffic,
        cancel,
    };
    match model.call(request).await {
        Ok(reply) => work.responded(redactor.reply(reply)),
        Err(failure) => work.failed(redactor.texts_of(failure)),
    }
}
