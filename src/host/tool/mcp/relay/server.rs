//! What the server sends, line by line, and what becomes of what it leaves behind.

use std::sync::Arc;

use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

use super::client::CancelledParams;
use super::event::LinkEvent;
use super::link::{AskedOfServer, ClientRequest, LinkLines, RelayLink};
use super::message::{self, INTERNAL_ERROR, RpcMessage};
use super::progress::SharedToken;
use super::subscriptions::{self, ToSubscriber};
use super::upstream::RelayServer;
use super::{AskedOfClient, RelayParts};
use crate::host::ToolError;
use crate::host::guard::ClassifyError;

/// What of the answer to a handshake, or to the question what the server can do, says what it has.
#[derive(Deserialize)]
struct HelloResult<'a> {
    #[serde(default, rename = "protocolVersion")]
    version: Option<String>,
    #[serde(borrow)]
    capabilities: IndexMap<String, &'a RawValue>,
}

impl AskedOfServer {
    /// Whether it is the request of the client of that id, or made for it.
    pub(super) fn is_for_client(&self, wanted: &str) -> bool {
        match self {
            Self::Client { id, .. } => id == wanted,
            Self::Relay { of, .. } => of.as_deref() == Some(wanted),
        }
    }

    /// Whether it is the handshake of the client of that id.
    pub(super) fn begins_as(&self, wanted: &str) -> bool {
        matches!(self, Self::Client { id, what: ClientRequest::Initialize } if id == wanted)
    }

    /// Whether it is a request of the client.
    pub(super) const fn is_of_any_client(&self) -> bool {
        matches!(self, Self::Client { .. })
    }
}

impl RelayParts {
    /// Takes what the server sends, until it ends.
    pub(super) async fn read(
        self: Arc<Self>,
        server: Arc<RelayServer>,
        upstream: Arc<RelayLink>,
        mut lines: LinkLines,
    ) {
        loop {
            let event = tokio::select! {
                biased;
                event = lines.next() => event,
                () = upstream.unwritable() => None,
            };
            match event {
                Some(LinkEvent::Line(line)) => {
                    self.server_sent(&server, &upstream, message::one_line(line.trim()).as_ref()).await;
                }
                Some(LinkEvent::Lost(number, error)) => self.lost(&upstream, number, error).await,
                None => break,
            }
        }
        upstream.end().await;
        self.server_ended(&upstream).await;
    }

    /// A request has no answer.
    async fn lost(&self, upstream: &RelayLink, number: u64, error: ToolError) {
        let asked = upstream.asked().remove(number);
        match asked {
            Some(AskedOfServer::Client { id, .. }) => {
                self.to_client(message::error(&id, INTERNAL_ERROR, &error.message())).await;
            }
            Some(AskedOfServer::Relay { answer, .. }) => drop(answer.send(Err(error))),
            None => {}
        }
    }

    async fn server_sent(&self, server: &RelayServer, upstream: &Arc<RelayLink>, line: &str) {
        match RpcMessage::parse(line) {
            Ok(RpcMessage::Answer { id, outcome }) => {
                let asked = upstream.asked().answered(id);
                self.server_answered(server, line, id, outcome, asked).await;
            }
            Ok(RpcMessage::Request { id, params, .. }) => {
                self.server_asks(upstream, line, id, params).await;
            }
            Ok(RpcMessage::Notification { method, params }) => {
                self.server_notifies(server, upstream, line, &method, params).await;
            }
            Ok(RpcMessage::Nameless { error }) => self.nameless(upstream, error).await,
            // Who reads it has left out what is none already.
            Err(fault) => tracing::debug!(?fault, "the server sends what is no message"),
        }
    }

    /// A request of the server is passed on to the client.
    async fn server_asks(
        &self,
        upstream: &Arc<RelayLink>,
        line: &str,
        id: &RawValue,
        params: Option<&RawValue>,
    ) {
        let own = SharedToken::written_in(params);
        let number = {
            let mut asked = self.asked_of_client();
            let token = own.map(|own| {
                let is_taken = asked.number_of(|asked| asked.has_token(own.get())).is_some();
                SharedToken::new(own, is_taken.then(|| asked.next_number()))
            });
            asked.open(AskedOfClient::Server { link: Arc::clone(upstream), id: id.get().to_owned(), token })
        };
        let Some(number) = number else {
            let refusal = message::error(id.get(), INTERNAL_ERROR, "too many requests have no answer yet");
            return upstream.answer(refusal);
        };
        let line = message::with_part(line, id, &number.to_string());
        let shown = self.asked_of_client().get(number).and_then(AskedOfClient::renamed_token);
        let renamed = shown.and_then(|shown| SharedToken::renamed(&line, &shown));
        self.to_client(renamed.unwrap_or(line)).await;
    }

    /// An error that does not say whose it is: a server that cannot read the id of a request writes null (JSON-RPC 2.0,
    /// section 5). While one request is in flight, the error is its answer.
    async fn nameless(&self, upstream: &RelayLink, error: &RawValue) {
        let asked = upstream.asked().remove_only();
        match asked {
            Some((_, AskedOfServer::Client { id, .. })) => {
                self.to_client(message::failed(&id, error.get())).await;
            }
            Some((number, AskedOfServer::Relay { answer, .. })) => {
                let _ = answer.send(Ok(message::failed(&number.to_string(), error.get())));
            }
            None => tracing::warn!(error = error.get(), "an error of the server names no request"),
        }
    }

    async fn server_answered(
        &self,
        server: &RelayServer,
        line: &str,
        id: &RawValue,
        outcome: Result<&RawValue, &RawValue>,
        asked: Option<AskedOfServer>,
    ) {
        let (own, what) = match asked {
            Some(AskedOfServer::Client { id, what }) => (id, what),
            Some(AskedOfServer::Relay { answer, .. }) => return drop(answer.send(Ok(line.to_owned()))),
            None => {
                tracing::debug!(id = id.get(), "the server answers what it was not asked");
                return;
            }
        };
        let changed = match (what, outcome) {
            (ClientRequest::Initialize, Ok(result)) => self.with_own(line, result, true),
            (ClientRequest::Discover, Ok(result)) => self.with_own(line, result, false),
            (ClientRequest::Listen, Ok(result)) => subscriptions::ended(line, result, &own),
            (ClientRequest::ListTools { is_first }, Ok(_)) => server.tools.without_unusable(line, is_first),
            _ => None,
        };
        let line = changed.as_deref().unwrap_or(line);
        // The id has moved with the line.
        if let Ok(RpcMessage::Answer { id, .. }) = RpcMessage::parse(line) {
            self.to_client(message::with_part(line, id, &own)).await;
        }
    }

    async fn server_notifies(
        &self,
        server: &RelayServer,
        upstream: &Arc<RelayLink>,
        line: &str,
        method: &str,
        params: Option<&RawValue>,
    ) {
        let line = match method {
            "notifications/cancelled" => {
                let read = params.and_then(|params| serde_json::from_str(params.get()).ok());
                let Some(CancelledParams { id }) = read else { return };
                let number = {
                    let mut asked = self.asked_of_client();
                    let number = asked.number_of(|asked| asked.is_of_server(upstream, Some(id.get())));
                    number.inspect(|number| drop(asked.remove(*number)))
                };
                let Some(number) = number else { return };
                message::with_part(line, id, &number.to_string())
            }
            "notifications/progress" => {
                let moved = self.progress().moved(params);
                moved.unwrap_or_else(|| line.to_owned())
            }
            _ => {
                match method {
                    "notifications/tools/list_changed" => server.tools.outdate(),
                    "notifications/prompts/list_changed" | "notifications/resources/list_changed" => {
                        self.has_changed(method.split('/').nth(1).unwrap_or_default());
                    }
                    _ => {}
                }
                match subscriptions::to_subscriber(upstream, line, method, params) {
                    ToSubscriber::Same => line.to_owned(),
                    ToSubscriber::Named(line) => line,
                    ToSubscriber::Nothing => return,
                }
            }
        };
        self.to_client(line).await;
    }

    /// The connection has ended: who waits for an answer learns why there is none.
    async fn server_ended(&self, upstream: &Arc<RelayLink>) {
        let open: Vec<AskedOfServer> = upstream.asked().close().collect();
        let why = if open.is_empty() { String::new() } else { upstream.why().await };
        for asked in open {
            // A request of the relay learns it from the channel.
            if let AskedOfServer::Client { id, .. } = asked {
                self.to_client(message::error(&id, INTERNAL_ERROR, &why)).await;
            }
        }
        let questions = self.asked_of_client().remove_all(|asked| asked.is_of_server(upstream, None));
        for (number, _) in questions {
            self.to_client(message::cancelled(&number.to_string(), "the server has ended")).await;
        }
    }

    /// The answer of a server with what the relay can do itself: results that were cut are resources, and the tools of a server that
    /// is started again may be others. `begins`: it answers a handshake. Without one only a server that takes subscriptions says what
    /// changes.
    fn with_own(&self, line: &str, result: &RawValue, begins: bool) -> Option<String> {
        let HelloResult { version, mut capabilities } = serde_json::from_str(result.get()).ok()?;
        if version.is_some() {
            self.client().version = version;
        }
        let has_resources = capabilities.contains_key("resources");
        let tools = capabilities.get("tools").filter(|_| begins).and_then(|tools| {
            let mut tools: Map<String, Value> = serde_json::from_str(tools.get()).ok()?;
            let before = tools.insert("listChanged".to_owned(), true.into());
            (before != Some(true.into())).then_some(tools)
        });
        if has_resources && tools.is_none() {
            return None;
        }
        let (none, tools) = (to_raw_value(&Map::new()).ok()?, tools.map(|tools| to_raw_value(&tools)));
        let tools = tools.transpose().ok()?;
        if let Some(tools) = &tools {
            capabilities.insert("tools".to_owned(), tools);
        }
        if !has_resources {
            capabilities.insert("resources".to_owned(), &none);
            self.client().only_own_resources = true;
        }
        let capabilities = to_raw_value(&capabilities).ok()?;
        let mut fields: IndexMap<String, &RawValue> = serde_json::from_str(result.get()).ok()?;
        fields.insert("capabilities".to_owned(), &capabilities);
        Some(message::with_part(line, result, &serde_json::to_string(&fields).ok()?))
    }
}

impl AskedOfClient {
    /// Whether it is the request of that server, and of that id if there is one.
    fn is_of_server(&self, wanted: &Arc<RelayLink>, number: Option<&str>) -> bool {
        match self {
            Self::Server { link: upstream, id, .. } => {
                Arc::ptr_eq(upstream, wanted) && number.is_none_or(|number| number == id)
            }
            Self::Relay(_) => false,
        }
    }

    /// Whether the client knows how far it is by that token.
    pub(super) fn has_token(&self, shown: &str) -> bool {
        matches!(self, Self::Server { token: Some(token), .. } if token.shown() == shown)
    }

    /// The token that the client sees, if it is not the server's own.
    fn renamed_token(&self) -> Option<String> {
        let Self::Server { token: Some(token), .. } = self else { return None };
        (token.shown() != token.own()).then(|| token.shown().to_owned())
    }
}
