//! A scripted model without a network.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use reqwest::StatusCode;
use reqwest::header::HeaderMap;

use super::facts::RequestFacts;
use super::history;
use super::render::{self, Rendering};
use super::script::{ErrorReply, Fault, Outcome, Reply, Script, ScriptState};
use crate::engine::{Failure, ModelReply};
use crate::host::model::{ChatMessage, Redactor, cut_off, from_status, read_body, within};
use crate::host::port::{BoxFuture, Model, ModelRequest};

/// A scripted model without a network. It says and fails exactly what the same script says and fails over HTTP.
pub struct ScriptedModel {
    script: Arc<Script>,
    state: Mutex<ScriptState>,
}

impl ScriptedModel {
    /// Plays `script` from its start.
    pub fn new(script: impl Into<Arc<Script>>) -> Self {
        let script = script.into();
        Self { state: Mutex::new(ScriptState::new(Arc::clone(&script))), script }
    }

    async fn play(&self, reply: Reply, request: &ModelRequest<'_>) -> Result<ModelReply, Failure> {
        if !reply.delay.is_zero() {
            tokio::time::sleep(reply.delay.to_std()).await;
        }
        let read = |body: &[u8]| read_body(body, &HeaderMap::new(), request.messages);
        let body = |answer| Rendering { model: &self.script.model, number: reply.number, answer }.body();
        match reply.outcome {
            Outcome::Answer(answer) => read(body(&answer).as_bytes()),
            Outcome::Error(error) => Err(refuse(&error, request)),
            Outcome::Fault(fault, answer) => match fault {
                Fault::Close => Err(cut_off("the connection broke before an answer came")),
                Fault::Reset => Err(cut_off("the connection broke in the middle of the answer")),
                Fault::Hang | Fault::Stall => std::future::pending().await,
                Fault::BadJson => read(render::NOT_JSON.as_bytes()),
                Fault::Truncate => {
                    let whole = body(&render::with_a_middle(answer)).into_bytes();
                    read(whole.get(..whole.len() / 2).unwrap_or_default())
                }
            },
        }
    }
}

impl Model for ScriptedModel {
    fn call<'a>(&'a self, request: ModelRequest<'a>) -> BoxFuture<'a, Result<ModelReply, Failure>> {
        Box::pin(async move {
            let played = within(&request, async {
                let messages: Vec<_> = request.messages.iter().map(ChatMessage::from).collect();
                history::check(&messages).map_err(|error| refuse(&error, &request))?;
                let facts = RequestFacts::of_chat(&self.script.model, &messages);
                let reply = self.state.lock().unwrap_or_else(PoisonError::into_inner).next(&facts);
                self.play(reply, &request).await
            });
            let played = played.await;
            played.map_err(|failure| Redactor::default().failure(failure))
        })
    }
}

impl fmt::Debug for ScriptedModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptedModel").field("script", &self.script.name).finish_non_exhaustive()
    }
}

fn refuse(error: &ErrorReply, request: &ModelRequest<'_>) -> Failure {
    let body = render::error_body(error);
    let headers = match render::error_headers(error) {
        Ok(headers) => headers,
        Err(name) => return unsendable(&name),
    };
    match StatusCode::from_u16(error.status) {
        Ok(status) if status.is_success() => match read_body(body.as_bytes(), &headers, request.messages) {
            Err(failure) => failure,
            Ok(_) => cut_off("the script's error has the body of an answer"),
        },
        Ok(status) => from_status(status, &headers, body.as_bytes()),
        Err(_) => unsendable("status"),
    }
}

fn unsendable(what: &str) -> Failure {
    cut_off(format!("the script's `{what}` cannot be sent over HTTP"))
}
