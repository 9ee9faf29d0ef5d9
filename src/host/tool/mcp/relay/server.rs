//! What the server sends, line by line; how it is started again, and what becomes of what it leaves behind.

use std::sync::Arc;

use futures_util::future::join_all;
use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

use super::client::CancelledParams;
use super::event::LinkEvent;
use super::link::{AskedOfServer, ClientRequest, LinkLines, RelayLink};
use super::message::{self, INTERNAL_ERROR, RpcMessage};
use super::upstream::{LinkSlot, RelayServer};
use super::{AskedOfClient, RelayParts};
use crate::host::ToolError;
use crate::host::guard::ClassifyError;
use crate::host::tool::mcp::McpError;
use crate::host::tool::mcp::failure::LinkError;

/// What of the answer to a handshake says whether the server has resources.
#[derive(Deserialize)]
struct InitializeResult<'a> {
    #[serde(rename = "protocolVersion")]
    version: String,
    #[serde(borrow)]
    capabilities: IndexMap<String, &'a RawValue>,
}

/// What the answer to a handshake announces.
pub(super) fn announced(result: &RawValue) -> IndexMap<String, Value> {
    #[derive(Deserialize)]
    struct Announced {
        #[serde(default)]
        capabilities: IndexMap<String, Value>,
    }
    serde_json::from_str(result.get()).map(|Announced { capabilities }| capabilities).unwrap_or_default()
}

impl AskedOfServer {
    /// Whether it is the request of the client of that id.
    pub(super) fn is_of_client(&self, wanted: &str) -> bool {
        matches!(self, Self::Client { id, .. } if id == wanted)
    }

    /// Whether it is a request of the client.
    pub(super) const fn is_of_any_client(&self) -> bool {
        matches!(self, Self::Client { .. })
    }
}

impl RelayParts {
    /// Starts all servers at once.
    pub(super) async fn start_all(self: &Arc<Self>) -> Result<(), McpError> {
        let links = join_all(self.servers.iter().map(|server| self.link(server))).await;
        let mut failed = links.into_iter().zip(&self.servers).filter_map(|(link, server)| {
            let LinkError { why, source } = link.err()?;
            Some(McpError { server: server.config.name.clone(), message: why, source })
        });
        let first = failed.next();
        match first {
            Some(error) if failed.count().saturating_add(1) == self.servers.len() => Err(error),
            _ => Ok(()),
        }
    }

    /// The connection; a new one, if the last has ended. Whoever waits for it may be broken off: a server that is being started
    /// belongs to nobody who waits.
    pub(super) async fn link(
        self: &Arc<Self>,
        server: &Arc<RelayServer>,
    ) -> Result<Arc<RelayLink>, LinkError> {
        if let Some(upstream) = server.live_link() {
            return Ok(upstream);
        }
        let started = tokio::spawn(Arc::clone(self).start_link(Arc::clone(server), server.attempts()));
        started.await.unwrap_or_else(|_| Err("the start of the server was given up".to_owned().into()))
    }

    /// The servers that may have a feature and are there, with their numbers. One that could not be started is tried again meanwhile.
    pub(super) fn with_feature(self: &Arc<Self>, feature: &str) -> Vec<(usize, &Arc<RelayServer>)> {
        let may_have =
            self.servers.iter().enumerate().filter(|(_, server)| server.has(feature) != Some(false));
        let is_there = |(_, server): &(usize, &Arc<RelayServer>)| {
            let is_there = !server.has_failed() || server.live_link().is_some();
            // One attempt at a time: a client may list again and again while a server hangs.
            if !is_there && server.starting.try_lock().is_ok() {
                let (relay, server) = (Arc::clone(self), Arc::clone(server));
                tokio::spawn(async move { relay.link(&server).await });
            }
            is_there
        };
        may_have.filter(is_there).collect()
    }

    /// Starts the server, or waits for who does. `seen` is how many attempts had ended before: all who wait for an attempt have
    /// its result.
    async fn start_link(
        self: Arc<Self>,
        server: Arc<RelayServer>,
        seen: u64,
    ) -> Result<Arc<RelayLink>, LinkError> {
        let mut last_error = server.starting.lock().await;
        let dead = match &*server.slot() {
            LinkSlot::Up(upstream) if upstream.is_alive() => return Ok(Arc::clone(upstream)),
            LinkSlot::Closed => return Err("the relay is closed".to_owned().into()),
            LinkSlot::Up(dead) => Some(Arc::clone(dead)),
            LinkSlot::Down => None,
        };
        if self.closing.is_cancelled() {
            return Err("the relay is closed".to_owned().into());
        }
        if let Some(error) = last_error.as_ref().filter(|_| server.attempts() != seen) {
            return Err(error.clone());
        }
        if let Some(dead) = dead {
            dead.end().await;
        }
        let started = self.started_link(&server).await;
        server.attempted();
        *last_error = started.as_ref().err().cloned();
        match &started {
            Ok(upstream) => *server.slot() = LinkSlot::Up(Arc::clone(upstream)),
            // Who has one server only learns it from the answer.
            Err(why) if self.servers.len() > 1 && !self.closing.is_cancelled() => server.failed(why),
            Err(_) => {}
        }
        started
    }

    async fn started_link(self: &Arc<Self>, server: &Arc<RelayServer>) -> Result<Arc<RelayLink>, LinkError> {
        let (upstream, lines) = RelayLink::start(&server.config)?;
        let upstream = Arc::new(upstream);
        tokio::spawn(Arc::clone(self).read(Arc::clone(server), Arc::clone(&upstream), lines));
        let shaken = tokio::select! {
            biased;
            () = self.closing.cancelled() => Err("the relay is closed".to_owned().into()),
            shaken = self.shake_hands(server, &upstream) => shaken,
        };
        if let Err(why) = shaken {
            upstream.end().await;
            return Err(why);
        }
        Ok(upstream)
    }

    /// A server that is started again does not know its client: it gets the handshake of the first once more.
    async fn shake_hands(
        self: &Arc<Self>,
        server: &Arc<RelayServer>,
        upstream: &Arc<RelayLink>,
    ) -> Result<(), LinkError> {
        let (initialize, initialized) = {
            let client = self.client();
            (client.initialize.clone(), client.initialized)
        };
        let Some(line) = initialize.filter(|_| initialized) else { return Ok(()) };
        let Ok(RpcMessage::Request { id, .. }) = RpcMessage::parse(&line) else { return Ok(()) };
        let within = server.config.start_timeout;
        let asked = upstream.ask(|number| message::with_part(&line, id, &number.to_string())).await;
        let answered = async {
            match asked {
                Ok(asked) => asked.answer().await,
                Err(_) => Err(ToolError::unavailable(upstream.why().await)),
            }
        };
        let Ok(answer) = tokio::time::timeout(within.to_std(), answered).await else {
            return Err(format!("the server did not answer within {within}{}", upstream.complaints()).into());
        };
        let answer = answer.map_err(|error| LinkError::from(error.message()))?;
        match RpcMessage::parse(&answer) {
            Ok(RpcMessage::Answer { outcome: Ok(result), .. }) => server.announced(announced(result)),
            Ok(RpcMessage::Answer { outcome: Err(error), .. }) => {
                let why = message::message_of(error.get()).unwrap_or_default();
                return Err(format!("the server was started again and refuses to begin: {why}").into());
            }
            _ => {}
        }
        let _ = upstream.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.to_owned()).await;
        for line in server.remembered() {
            if let Ok(RpcMessage::Request { id, .. }) = RpcMessage::parse(&line) {
                let _ = upstream.repeat(|number| message::with_part(&line, id, &number.to_string())).await;
            }
        }
        server.tools.outdate();
        tracing::warn!(server = server.config.name, "the server was started again");
        tokio::spawn(Arc::clone(self).look_for_changes(Arc::clone(server), Arc::clone(upstream)));
        Ok(())
    }

    /// A server that was started again may have other tools: the client is informed.
    async fn look_for_changes(self: Arc<Self>, server: Arc<RelayServer>, upstream: Arc<RelayLink>) {
        let before = server.tools.names();
        // What a server has that could not be started the client does not know of.
        let was_missing = server.started();
        let listed = self.list_tools(&server, &upstream, &Map::new()).await.is_ok();
        let are_others = (was_missing || !before.is_empty()) && server.tools.names() != before;
        let mut changed: Vec<&str> = Vec::new();
        if listed && are_others {
            changed.push("tools");
        }
        if was_missing {
            let others = ["prompts", "resources"].into_iter();
            changed.extend(others.filter(|feature| server.has(feature) == Some(true)));
        }
        for feature in changed {
            let line = format!(r#"{{"jsonrpc":"2.0","method":"notifications/{feature}/list_changed"}}"#);
            self.to_client(line).await;
        }
    }

    /// Takes what the server sends, until it ends.
    async fn read(self: Arc<Self>, server: Arc<RelayServer>, upstream: Arc<RelayLink>, mut lines: LinkLines) {
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
            Some(AskedOfServer::Relay(answer)) => drop(answer.send(Err(error))),
            None => {}
        }
    }

    async fn server_sent(&self, server: &RelayServer, upstream: &Arc<RelayLink>, line: &str) {
        match RpcMessage::parse(line) {
            Ok(RpcMessage::Answer { id, outcome }) => {
                let asked = upstream.asked().answered(id);
                self.server_answered(server, line, id, outcome, asked).await;
            }
            Ok(RpcMessage::Request { id, .. }) => {
                let asked = AskedOfClient::Server { link: Arc::clone(upstream), id: id.get().to_owned() };
                let number = self.asked_of_client().open(asked);
                if let Some(number) = number {
                    return self.to_client(message::with_part(line, id, &number.to_string())).await;
                }
                let refusal =
                    message::error(id.get(), INTERNAL_ERROR, "too many requests have no answer yet");
                let _ = upstream.send(refusal).await;
            }
            Ok(RpcMessage::Notification { method, params }) => {
                self.server_notifies(server, upstream, line, &method, params).await;
            }
            Ok(RpcMessage::Nameless { error }) => self.nameless(upstream, error).await,
            // Who reads it has left out what is none already.
            Err(fault) => tracing::debug!(?fault, "the server sends what is no message"),
        }
    }

    /// An error that does not say whose it is: a server that cannot read the id of a request writes null (JSON-RPC 2.0,
    /// section 5). While one request is in flight, the error is its answer.
    async fn nameless(&self, upstream: &RelayLink, error: &RawValue) {
        let asked = upstream.asked().remove_only();
        match asked {
            Some((_, AskedOfServer::Client { id, .. })) => {
                self.to_client(message::failed(&id, error.get())).await;
            }
            Some((number, AskedOfServer::Relay(answer))) => {
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
            Some(AskedOfServer::Relay(answer)) => return drop(answer.send(Ok(line.to_owned()))),
            None => {
                tracing::debug!(id = id.get(), "the server answers what it was not asked");
                return;
            }
        };
        let changed = match (what, outcome) {
            (ClientRequest::Initialize, Ok(result)) => self.with_resources(line, result),
            (ClientRequest::ListTools, Ok(_)) => server.tools.without_unusable(line),
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
            "notifications/tools/list_changed" => {
                server.tools.outdate();
                line.to_owned()
            }
            _ => line.to_owned(),
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

    /// The answer to a handshake of a server that has no resources: the relay has some.
    fn with_resources(&self, line: &str, result: &RawValue) -> Option<String> {
        let InitializeResult { version, mut capabilities } = serde_json::from_str(result.get()).ok()?;
        self.client().version = Some(version);
        if capabilities.contains_key("resources") {
            return None;
        }
        let none = to_raw_value(&Map::new()).ok()?;
        capabilities.insert("resources".to_owned(), &none);
        let capabilities = to_raw_value(&capabilities).ok()?;
        let mut fields: IndexMap<String, &RawValue> = serde_json::from_str(result.get()).ok()?;
        fields.insert("capabilities".to_owned(), &capabilities);
        self.client().only_own_resources = true;
        Some(message::with_part(line, result, &serde_json::to_string(&fields).ok()?))
    }
}

impl AskedOfClient {
    /// Whether it is the request of that server, and of that id if there is one.
    fn is_of_server(&self, wanted: &Arc<RelayLink>, number: Option<&str>) -> bool {
        match self {
            Self::Server { link: upstream, id } => {
                Arc::ptr_eq(upstream, wanted) && number.is_none_or(|number| number == id)
            }
            Self::Relay(_) => false,
        }
    }
}
