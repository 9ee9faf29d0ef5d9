//! A scripted model without a network.

use std::sync::{Arc, Mutex, PoisonError};

use reqwest::StatusCode;
use reqwest::header::HeaderMap;

use super::facts::RequestFacts;
use super::history;
use super::render::{self, AnswerRendering};
use super::script::{ErrorReply, Script, ScriptFault, ScriptOutcome, ScriptReply, ScriptState};
use crate::engine::{CallTimeouts, Failure, ModelReply};
use crate::host::model::{
    ChatMessage, cut_off, from_status, no_first_token, not_whole, read_body, stalled, stated_limits, within,
};
use crate::host::port::{BoxFuture, Model, ModelRequest};
use crate::host::redact::SecretRedactor;
use crate::session::Message;
use crate::time::Nanos;

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
}

/// What a script does with one request.
pub(crate) struct PlayedReply {
    /// How long the model thinks first.
    delay: Nanos,
    /// How many characters come before it fails or stalls, as if it were streamed.
    received: u64,
    /// What comes then; `None`: nothing, ever.
    result: Option<Result<ModelReply, Failure>>,
}

impl PlayedReply {
    /// When the call ends and how, by itself or because a time is over; `None`: never.
    pub(crate) fn ends(
        self,
        whole: Option<Nanos>,
        steps: CallTimeouts,
    ) -> Option<(Nanos, Result<ModelReply, Failure>)> {
        let Self { delay, received, result } = self;
        let never = result.is_none();
        let too_late = |at: Nanos| never || delay >= at;
        let silent = steps.first_token.filter(|at| received == 0 && too_late(*at));
        let silent = silent.map(|at| (at, no_first_token(steps)));
        let idle = steps.idle.filter(|_| never && received > 0);
        let stalled = idle.map(|idle| (delay.saturating_add(idle), stalled(steps)));
        let late = whole.filter(|at| too_late(*at)).map(|at| (at, not_whole(at)));
        let over = [silent, stalled, late].into_iter().flatten().min_by_key(|(at, _)| *at);
        match (over, result) {
            (Some((at, failure)), _) => {
                let received = if at >= delay { received } else { 0 };
                Some((at, Err(Failure { received, ..failure })))
            }
            (None, result) => result.map(|result| (delay, result)),
        }
    }
}

/// Plays the next reply of a script to a conversation that is sent to `model`. No time passes.
pub(crate) fn play(state: &mut ScriptState, model: &str, messages: &[Message]) -> PlayedReply {
    let chat: Vec<_> = messages.iter().map(ChatMessage::from).collect();
    if let Err(error) = history::check(&chat) {
        let refused = SecretRedactor::default().failure(refuse(&error, messages), None);
        return PlayedReply { delay: Nanos::ZERO, received: 0, result: Some(Err(refused)) };
    }
    let ScriptReply { number, delay, outcome } = state.next(&RequestFacts::of_chat(model, &chat));
    let received = match &outcome {
        ScriptOutcome::Fault(ScriptFault::Truncate | ScriptFault::Reset | ScriptFault::Stall, answer) => {
            render::half(answer)
        }
        ScriptOutcome::Answer(_) | ScriptOutcome::Error(_) | ScriptOutcome::Fault(..) => 0,
    };
    let redacted = |failure| Failure { received, ..SecretRedactor::default().failure(failure, None) };
    let result = result(state.script(), number, outcome, messages);
    PlayedReply { delay, received, result: result.map(|result| result.map_err(redacted)) }
}

fn result(
    script: &Script,
    number: u32,
    outcome: ScriptOutcome,
    messages: &[Message],
) -> Option<Result<ModelReply, Failure>> {
    let read = |body: &[u8]| read_body(body, &HeaderMap::new(), messages);
    let body = |answer| AnswerRendering { model: &script.model, number, answer }.body();
    Some(match outcome {
        ScriptOutcome::Answer(answer) => match render::header_map(&answer.headers) {
            Ok(headers) => read(body(&answer).as_bytes())
                .map(|reply| ModelReply { limits: stated_limits(&headers), ..reply }),
            Err(name) => Err(unsendable(&name)),
        },
        ScriptOutcome::Error(error) => Err(refuse(&error, messages)),
        ScriptOutcome::Fault(fault, answer) => match fault {
            ScriptFault::Close => Err(cut_off("the connection broke before an answer came")),
            ScriptFault::Reset => Err(cut_off("the connection broke in the middle of the answer")),
            ScriptFault::Hang | ScriptFault::Stall => return None,
            ScriptFault::BadJson => read(render::NOT_JSON.as_bytes()),
            ScriptFault::Truncate => {
                let whole = body(&render::with_a_middle(answer)).into_bytes();
                read(whole.get(..whole.len() / 2).unwrap_or_default())
            }
        },
    })
}

impl Model for ScriptedModel {
    fn call<'a>(&'a self, request: ModelRequest<'a>) -> BoxFuture<'a, Result<ModelReply, Failure>> {
        Box::pin(async move {
            within(&request, async {
                let played = {
                    let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
                    play(&mut state, &self.script.model, request.messages)
                };
                let Some((takes, result)) = played.ends(request.timeout.map(Into::into), request.timeouts)
                else {
                    return std::future::pending().await;
                };
                if !takes.is_zero() {
                    tokio::time::sleep(takes.to_std()).await;
                }
                result
            })
            .await
        })
    }
}

crate::debug_parts!(|this: ScriptedModel| script: this.script.name);

fn refuse(error: &ErrorReply, messages: &[Message]) -> Failure {
    let body = render::error_body(error);
    let headers = match render::header_map(&error.headers) {
        Ok(headers) => headers,
        Err(name) => return unsendable(&name),
    };
    match StatusCode::from_u16(error.status) {
        Ok(status) if status.is_success() => match read_body(body.as_bytes(), &headers, messages) {
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
