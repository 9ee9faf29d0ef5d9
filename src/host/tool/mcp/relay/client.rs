//! What the client sends, line by line.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, PoisonError};

use futures_util::FutureExt;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tracing::Instrument;

use super::call;
use super::link::{ClientRequest, RelayLink};
use super::message::{self, INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, RpcAnswer, RpcMessage};
use super::params::{CallParams, ClientCapabilities};
use super::progress::SharedToken;
use super::upstream::RelayServer;
use super::{AskedOfClient, RelayParts};
#[cfg(feature = "otlp")]
use crate::host::telemetry::otel;
use crate::host::telemetry::spans;
use crate::text::visible;
use crate::time::Nanos;

/// The error by which MCP says that there is no such resource.
const NO_RESOURCE: i64 = -32002;

/// What is known of the client, and of what it was promised.
#[derive(Debug, Default)]
pub(super) struct ClientFacts {
    /// Its handshake, for a server that is started again; `None`: there was none.
    pub(super) initialize: Option<String>,
    /// It has confirmed the handshake.
    pub(super) initialized: bool,
    /// It can ask a person.
    pub(super) can_elicit: bool,
    /// The version of the protocol that the handshake came to; `None`: there was none, as since 2026-07-28.
    pub(super) version: Option<String>,
    /// The handshake announced resources though the server has none: those of the relay.
    pub(super) only_own_resources: bool,
}

impl ClientFacts {
    /// Whether it knows links to resources in results. Versions are dates.
    pub(super) fn knows_links(&self) -> bool {
        self.version.as_ref().is_none_or(|version| version.as_str() >= "2025-06-18")
    }
}

#[derive(Deserialize)]
struct InitializeParams {
    capabilities: ClientCapabilities,
}

/// The parameters of `notifications/cancelled`.
#[derive(Deserialize)]
pub(super) struct CancelledParams<'a> {
    #[serde(rename = "requestId", borrow)]
    pub(super) id: &'a RawValue,
}

impl RelayParts {
    /// Takes a line of the client.
    pub(super) async fn client_sent(self: &Arc<Self>, line: &str) {
        let line = message::one_line(line.trim());
        let line = line.as_ref();
        match RpcMessage::parse(line) {
            Ok(RpcMessage::Request { id, method, params }) => self.request(line, id, &method, params).await,
            Ok(RpcMessage::Notification { method, params }) => self.notification(line, &method, params),
            Ok(RpcMessage::Answer { id, .. }) => self.client_answered(line, id),
            Ok(RpcMessage::Nameless { error }) => {
                tracing::warn!(error = error.get(), "an error of the client names no request");
            }
            Err(fault) => self.to_client(fault.answer()).await,
        }
    }

    async fn request(self: &Arc<Self>, line: &str, id: &RawValue, method: &str, params: Option<&RawValue>) {
        let answered = match method {
            "tools/call" => match CallParams::read(params) {
                Ok(params) => return self.begin_call(id, params).await,
                Err(why) => Err((INVALID_PARAMS, why)),
            },
            "tools/list" => {
                let what = ClientRequest::ListTools { is_first: !has_cursor(params) };
                return self.forward(line, id, (method, params), what).await;
            }
            "initialize" => {
                self.introduced(line, params);
                return self.forward(line, id, (method, params), ClientRequest::Initialize).await;
            }
            "server/discover" => {
                return self.forward(line, id, (method, params), ClientRequest::Discover).await;
            }
            "subscriptions/listen" => {
                return self.forward(line, id, (method, params), ClientRequest::Listen).await;
            }
            "resources/read" => {
                let own = self.kept.lock().unwrap_or_else(PoisonError::into_inner).read(params);
                match own {
                    Some(read) => read.map_err(|why| (NO_RESOURCE, why)),
                    None => return self.forward(line, id, (method, params), ClientRequest::Other).await,
                }
            }
            // The results that were cut are named where they were cut, and in no list.
            "resources/list" if self.client().only_own_resources => Ok(r#"{"resources":[]}"#.to_owned()),
            "resources/templates/list" if self.client().only_own_resources => {
                Ok(r#"{"resourceTemplates":[]}"#.to_owned())
            }
            _ => return self.forward(line, id, (method, params), ClientRequest::Other).await,
        };
        self.to_client(match answered {
            Ok(result) => message::answer(id.get(), &result),
            Err((code, why)) => message::error(id.get(), code, &why),
        })
        .await;
    }

    /// The client says who it is.
    fn introduced(&self, line: &str, params: Option<&RawValue>) {
        let read: Option<InitializeParams> =
            params.and_then(|params| serde_json::from_str(params.get()).ok());
        let mut client = self.client();
        client.can_elicit = read.is_some_and(|read| read.capabilities.can_elicit());
        client.initialize = Some(line.trim().to_owned());
    }

    fn notification(self: &Arc<Self>, line: &str, method: &str, params: Option<&RawValue>) {
        if method.starts_with("tools/") {
            // A server might run it, and nobody would have decided about it.
            tracing::warn!(method, "a request without an id is not passed on");
            return;
        }
        match method {
            "notifications/cancelled" => return self.client_cancelled(line, params),
            "notifications/initialized" => return self.client_confirms(line.trim()),
            "notifications/progress" if self.only_server().is_none() => {
                return self.client_moves(line, params);
            }
            _ => {}
        }
        // A server that is down has no use for them.
        for upstream in self.servers.iter().filter_map(|server| server.live_link()) {
            let _ = upstream.send(line.trim().to_owned());
        }
    }

    /// The client says how far a request of a server is: that server learns it.
    fn client_moves(&self, line: &str, params: Option<&RawValue>) {
        let Some(token) = SharedToken::moved_in(params) else { return };
        let found = {
            let asked = self.asked_of_client();
            let number = asked.number_of(|asked| asked.has_token(token.get()));
            number.and_then(|number| match asked.get(number)? {
                AskedOfClient::Server { link, token: Some(token), .. } => {
                    Some((Arc::clone(link), token.own().to_owned()))
                }
                _ => None,
            })
        };
        // What has been answered is not in motion any more.
        if let Some((upstream, own)) = found {
            let _ = upstream.send(message::with_part(line.trim(), token, &own));
        }
    }

    /// A request is the server's. Of several servers it is said elsewhere whose it is.
    async fn forward(
        self: &Arc<Self>,
        line: &str,
        id: &RawValue,
        (method, params): (&str, Option<&RawValue>),
        what: ClientRequest,
    ) {
        let Some(server) = self.only_server() else {
            return self.request_of_several(line, id, method).await;
        };
        server.remember(line, method, params);
        if let Some(upstream) = server.live_link() {
            return self.pass_over(server, &upstream, line, what).await;
        }
        // A server that is being started does not hold up what else the client has to say.
        let (relay, server, turn) = (Arc::clone(self), Arc::clone(server), server.sending.enter());
        let (line, id) = (line.to_owned(), id.get().to_owned());
        let key = id.clone();
        // The lock is held until the request is known: it may be over at once.
        let mut waiting = self.waiting();
        let task = tokio::spawn(async move {
            let linked = relay.link(&server).await;
            turn.comes().await;
            // Whoever takes the request back from now on finds it at the server.
            if relay.waiting().remove(&id).is_none() {
                return;
            }
            match linked {
                Ok(upstream) => relay.pass_over(&server, &upstream, &line, what).await,
                Err(error) => relay.to_client(message::error(&id, INTERNAL_ERROR, &error.why)).await,
            }
        });
        waiting.insert(key, task.abort_handle());
    }

    async fn pass_over(
        self: &Arc<Self>,
        server: &RelayServer,
        upstream: &Arc<RelayLink>,
        line: &str,
        what: ClientRequest,
    ) {
        let Ok(RpcMessage::Request { id, .. }) = RpcMessage::parse(line) else { return };
        let asked = (id.get().to_owned(), what);
        let passed = upstream.pass(asked, |number| message::with_part(line, id, &number.to_string()));
        if let Err(unsent) = passed {
            let why = upstream.why_unsent(unsent).await;
            self.to_client(message::error(id.get(), INTERNAL_ERROR, &why)).await;
        } else if what == ClientRequest::Initialize {
            let within = server.config.start_timeout;
            let waiting = Arc::clone(self).end_handshake(Arc::clone(upstream), within, id.get().to_owned());
            tokio::spawn(waiting);
        }
    }

    /// A handshake that is not answered in time is over, and so is the server: a handshake cannot be taken back.
    async fn end_handshake(self: Arc<Self>, upstream: Arc<RelayLink>, within: Nanos, id: String) {
        tokio::select! {
            biased;
            () = self.closing.cancelled() => return,
            () = tokio::time::sleep(within.to_std()) => {}
        }
        let open = upstream.asked().remove_all(|asked| asked.begins_as(&id));
        if !open.is_empty() {
            let why = format!("the server did not answer within {within}{}", upstream.complaints());
            self.to_client(message::error(&id, INTERNAL_ERROR, &why)).await;
            upstream.end().await;
        }
    }

    /// A call is the policy's.
    async fn begin_call(self: &Arc<Self>, id: &RawValue, params: CallParams) {
        self.look_again();
        let (relay, own) = (Arc::clone(self), id.get().to_owned());
        let turns = self.turns_of(params.name());
        self.begin(id, async move {
            let _of_call = CallInProgress::begin(&relay, params.progress_token().map(str::to_owned));
            let span = spans::mcp_call(&visible(params.name()));
            #[cfg(feature = "otlp")]
            otel::within(&span, &|name| params.meta_text(name));
            call::make(&relay, &own, params, turns).instrument(span).await
        })
        .await;
    }

    /// A request is answered by what `work` comes to. The client may take it back before.
    pub(super) async fn begin(
        self: &Arc<Self>,
        id: &RawValue,
        work: impl Future<Output = RpcAnswer> + Send + 'static,
    ) {
        // No one closes the semaphore. A client that does not read what it is answered waits here, in the end.
        let place = Arc::clone(&self.in_hand).acquire_owned().await.ok();
        let (relay, id) = (Arc::clone(self), id.get().to_owned());
        let key = id.clone();
        let is_open = {
            let mut calls = self.calls();
            let is_open = calls.contains_key(&key);
            if !is_open {
                // The lock is held until the call is known: it may be over at once.
                calls.insert(key, tokio::spawn(async move { relay.finish(id, work, place).await }));
            }
            is_open
        };
        if is_open {
            let why = "a request of that id is in flight";
            self.to_client(message::error("null", INVALID_REQUEST, why)).await;
        }
    }

    async fn finish(
        &self,
        id: String,
        work: impl Future<Output = RpcAnswer>,
        place: Option<OwnedSemaphorePermit>,
    ) {
        // The client would wait without end for a request whose work has broken off.
        let done = AssertUnwindSafe(work).catch_unwind().await;
        let answer = done.unwrap_or_else(|_| {
            Err(message::failure(INTERNAL_ERROR, "unfazed has a fault: standard error says which"))
        });
        // Whoever takes the request back from now on comes too late.
        if self.calls().remove(&id).is_some() {
            self.to_client(match answer {
                Ok(result) => message::answer(&id, &result),
                Err(error) => message::failed(&id, &error),
            })
            .await;
        }
        drop(place);
    }

    /// The client does not wait for a request any more. It gets no answer to it, and the servers that work on it get the client's
    /// own notification, with its reason.
    fn client_cancelled(&self, line: &str, params: Option<&RawValue>) {
        let read = params.and_then(|params| serde_json::from_str(params.get()).ok());
        let Some(CancelledParams { id }) = read else { return };
        let call = self.calls().remove(id.get());
        if let Some(waiting) = self.waiting().remove(id.get()) {
            waiting.abort();
        }
        let mut open = Vec::new();
        for upstream in self.servers.iter().filter_map(|server| server.live_link()) {
            let of_link = upstream.asked().remove_all(|asked| asked.is_for_client(id.get()));
            for (number, _) in &of_link {
                let _ = upstream.send(message::with_part(line.trim(), id, &number.to_string()));
            }
            open.push(of_link);
        }
        if let Some(call) = call {
            call.abort();
        }
        // Not before: work that misses its answer would do it again.
        drop(open);
    }

    /// The client answers a request.
    fn client_answered(&self, line: &str, id: &RawValue) {
        let asked = self.asked_of_client().answered(id);
        match asked {
            Some(AskedOfClient::Server { link: upstream, id: own, .. }) => {
                upstream.answer(message::with_part(line.trim(), id, &own));
            }
            Some(AskedOfClient::Relay(answer)) => drop(answer.send(line.to_owned())),
            None => tracing::debug!(id = id.get(), "the client answers what it was not asked"),
        }
    }

    /// Asks the client for something: the line that answers; `None`: the client has gone. Dropped before, the question is taken
    /// back.
    pub(super) async fn ask_client(&self, method: &str, params: &str) -> Option<String> {
        let (sender, answer) = oneshot::channel();
        let number = self.asked_of_client().open(AskedOfClient::Relay(sender))?;
        let question = OpenQuestion { relay: self, number };
        self.to_client(message::request(number, method, params)).await;
        let answer = answer.await.ok();
        drop(question);
        answer
    }
}

/// Whether a request is for a further page of a list.
fn has_cursor(params: Option<&RawValue>) -> bool {
    #[derive(Deserialize)]
    struct PageParams {
        #[serde(default)]
        cursor: Option<IgnoredAny>,
    }
    let read = params.and_then(|params| serde_json::from_str(params.get()).ok());
    read.is_some_and(|PageParams { cursor }| cursor.is_some())
}

/// A call whose client wants to know how far it is.
struct CallInProgress<'a> {
    relay: &'a RelayParts,
    token: Option<String>,
}

impl<'a> CallInProgress<'a> {
    fn begin(relay: &'a RelayParts, token: Option<String>) -> Self {
        if let Some(token) = &token {
            relay.progress().begin(token);
        }
        Self { relay, token }
    }
}

impl Drop for CallInProgress<'_> {
    fn drop(&mut self) {
        if let Some(token) = &self.token {
            self.relay.progress().end(token);
        }
    }
}

/// A question to the client that has no answer yet.
struct OpenQuestion<'a> {
    relay: &'a RelayParts,
    number: u64,
}

impl Drop for OpenQuestion<'_> {
    fn drop(&mut self) {
        if self.relay.asked_of_client().remove(self.number).is_some() {
            let line = message::cancelled(&self.number.to_string(), "it is not waited for any more");
            let _ = self.relay.to_client.try_send(line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::tool::mcp::relay::{McpRelay, RelayConfig};
    use crate::host::{McpConfig, McpReach};
    use crate::policy::Policy;

    #[tokio::test]
    async fn a_request_whose_work_breaks_off_is_answered() {
        let server = McpConfig::new("cat", McpReach::command(["cat"]));
        let (relay, mut answers) =
            McpRelay::start(RelayConfig::new(Policy::builtin(), server)).await.unwrap();
        let id = RawValue::from_string("7".into()).unwrap();
        relay.0.begin(&id, async { panic!("a fault") }).await;
        let answer: serde_json::Value = serde_json::from_str(&answers.recv().await.unwrap()).unwrap();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&7.into(), &INTERNAL_ERROR.into()));
        relay.close().await.unwrap();
    }
}
