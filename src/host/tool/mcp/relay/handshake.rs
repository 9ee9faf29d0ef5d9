//! How conversations with servers begin. Each server gets the client's own handshake, also one that is started again. Of several
//! servers the client sees one answer, which does not wait long for a server that is late.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::{BoxFuture, join_all};
use futures_util::stream::FuturesUnordered;
use serde_json::{Map, Value};

use super::RelayParts;
use super::link::{OwnRequest, RelayLink};
use super::merge;
use super::message::{self, INTERNAL_ERROR, RpcAnswer, RpcMessage};
use super::outgoing::Unsent;
use super::pages::ListKind;
use super::upstream::RelayServer;
use crate::host::guard::ClassifyError;
use crate::host::tool::mcp::failure::LinkError;

/// The longest that a handshake is not answered because of servers that are late, once another one has answered. Clients wait for a
/// start 10 s (Codex, `startup_timeout_sec`), 30 s (Claude Code, `MCP_TIMEOUT`) or 60 s (the official kits).
const GRACE: Duration = Duration::from_secs(5);
/// The client has confirmed the handshake.
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// What a server answers a handshake, or the question what it can do.
type ServerHello = Map<String, Value>;
/// The same, or the error object.
type HelloAnswer = Result<ServerHello, String>;

/// A handshake of the client with all servers.
pub(super) struct OpenHandshakes {
    /// It is one, and not the question what a server can do.
    begins: bool,
    /// Those without an answer, by the numbers of their servers.
    pending: FuturesUnordered<BoxFuture<'static, (usize, HelloAnswer)>>,
}

impl RelayParts {
    /// Begins a handshake with all servers. Whatever the client sends after it comes after it at each of them.
    pub(super) fn begin_handshakes(self: &Arc<Self>, line: &str, method: &str) -> OpenHandshakes {
        let begins = method == "initialize";
        let pending = self.servers.iter().enumerate().map(|(at, server)| {
            // Over a connection that began without a handshake a server may take none (the official kit in Python): it is started again.
            if let Some(upstream) = server.live_link().filter(|upstream| begins && upstream.is_discovered()) {
                upstream.give_up();
            }
            let begun = server.live_link().map(|upstream| {
                let asked = begin(&upstream, line, begins);
                (upstream, asked)
            });
            let (relay, server, line) = (Arc::clone(self), Arc::clone(server), line.to_owned());
            // Nobody who waits can break it off: a handshake cannot be taken back.
            let answered =
                tokio::spawn(async move { relay.handshake_of(&server, &line, begins, begun).await });
            let answered = async move {
                let fault = |_| Err(message::failure(INTERNAL_ERROR, "the handshake was broken off"));
                (at, answered.await.unwrap_or_else(fault))
            };
            Box::pin(answered) as BoxFuture<'static, _>
        });
        OpenHandshakes { begins, pending: pending.collect() }
    }

    /// The answer to the client's handshake. Servers that refuse theirs are left out, and get another one later; so are those that
    /// are late, until they answer.
    pub(super) async fn merged_handshake(self: &Arc<Self>, mut open: OpenHandshakes) -> RpcAnswer {
        let mut answers: Vec<Option<HelloAnswer>> = self.servers.iter().map(|_| None).collect();
        let mut grace = std::pin::pin!(tokio::time::sleep(GRACE));
        loop {
            let is_any_there = answers.iter().flatten().any(Result::is_ok);
            let next = tokio::select! {
                biased;
                next = open.pending.next() => next,
                () = &mut grace, if is_any_there => None,
            };
            let Some((at, answer)) = next else { break };
            if let Some(place) = answers.get_mut(at) {
                *place = Some(answer);
            }
        }
        let (mut taken, mut refused) = (Vec::new(), Vec::new());
        for (server, answer) in self.servers.iter().zip(answers) {
            match answer {
                Some(Ok(hello)) => taken.push((server.config.name.as_str(), hello)),
                // A client that is refused here begins with a handshake, which all servers know, over a new connection if need be.
                Some(Err(error)) if !open.begins => return Err(error),
                Some(Err(error)) => refused.push((server, error)),
                None => server.late(),
            }
        }
        if !open.pending.is_empty() {
            tokio::spawn(Arc::clone(self).take_late(open.pending));
        }
        join_all(refused.iter().map(|(server, error)| self.left_out(server, error))).await;
        let Some(merged) = merge::handshake(&taken, open.begins) else {
            let error = refused.into_iter().next().map(|(_, error)| error);
            return Err(error.unwrap_or_else(|| message::failure(INTERNAL_ERROR, "there is no server")));
        };
        if open.begins {
            self.client().version = merged.get("protocolVersion").and_then(Value::as_str).map(str::to_owned);
            for server in taken.iter().filter_map(|(name, _)| self.server_named(name)) {
                server.started();
            }
        }
        Ok(merged.to_string())
    }

    /// A server that is started again does not know its client: it gets the handshake of the first once more. Several servers are
    /// started with that of the client, if there was one.
    pub(super) async fn shake_hands(
        self: &Arc<Self>,
        server: &Arc<RelayServer>,
        upstream: &Arc<RelayLink>,
    ) -> Result<(), LinkError> {
        let (initialize, initialized) = {
            let client = self.client();
            (client.initialize.clone(), client.initialized)
        };
        // The client's own is still to be passed on where there is one server.
        let is_due = initialized || self.servers.len() > 1;
        let Some(line) = initialize.filter(|_| is_due) else { return Ok(()) };
        let asked = begin(upstream, &line, true);
        if let Err(error) = self.answered_hello(server, upstream, asked).await {
            let why = message::message_of(&error).unwrap_or(error);
            return Err(format!("the server does not begin: {why}").into());
        }
        if initialized {
            upstream.confirm(INITIALIZED.to_owned());
            repeat_remembered(server, upstream);
        }
        Ok(())
    }

    /// A server can be reached again: what the client does not know of it is announced.
    pub(super) fn is_up(self: &Arc<Self>, server: &Arc<RelayServer>, upstream: &Arc<RelayLink>) {
        if !self.client().initialized {
            return;
        }
        // The client may have confirmed its handshake while the server was started.
        upstream.confirm(INITIALIZED.to_owned());
        tracing::warn!(server = server.config.name, "the server was started again");
        tokio::spawn(Arc::clone(self).look_for_changes(Arc::clone(server), Arc::clone(upstream)));
    }

    /// The client has confirmed its handshake.
    pub(super) fn client_confirms(self: &Arc<Self>, line: &str) {
        self.client().initialized = true;
        for server in &self.servers {
            let Some(upstream) = server.live_link() else { continue };
            upstream.confirm(line.to_owned());
            // It has come between the answer to the client and this.
            if server.is_missing() && upstream.is_open() {
                tokio::spawn(Arc::clone(self).look_for_changes(Arc::clone(server), upstream));
            }
        }
    }

    /// A server that was started again, or is late, may have other tools than the client was shown: it is informed.
    async fn look_for_changes(self: Arc<Self>, server: Arc<RelayServer>, upstream: Arc<RelayLink>) {
        let before = server.tools.known_to_client();
        // What a server has that could not be started the client does not know of.
        let was_missing = server.started();
        let is_listed = self.list_tools(&server, &upstream, &Map::new()).await.is_ok();
        let listed = server.tools.listed();
        let are_others =
            before.map_or(was_missing && !listed.is_empty(), |before| before.differ_from(&listed));
        let was_left_out = is_listed && server.is_listed_again(ListKind::Tools);
        if is_listed && (are_others || was_left_out) {
            self.announce("tools").await;
        }
        for feature in ["prompts", "resources"] {
            if was_missing && server.has(feature) == Some(true) {
                self.announce(feature).await;
            }
        }
    }

    /// The client learns that a list has changed.
    pub(super) async fn announce(&self, feature: &str) {
        self.has_changed(feature);
        self.to_client(format!(r#"{{"jsonrpc":"2.0","method":"notifications/{feature}/list_changed"}}"#))
            .await;
    }

    async fn handshake_of(
        self: &Arc<Self>,
        server: &Arc<RelayServer>,
        line: &str,
        begins: bool,
        begun: Option<(Arc<RelayLink>, Result<OwnRequest, Unsent>)>,
    ) -> HelloAnswer {
        let (upstream, asked) = if let Some(begun) = begun {
            begun
        } else {
            let started = self.link(server).await;
            let upstream = started.map_err(|error| message::failure(INTERNAL_ERROR, &error.why))?;
            // It was started with the client's handshake.
            if let Some(hello) = server.hello().filter(|_| begins && upstream.has_begun()) {
                return Ok(hello);
            }
            let asked = begin(&upstream, line, begins);
            (upstream, asked)
        };
        self.answered_hello(server, &upstream, asked).await
    }

    /// What the server answers, which is taken note of.
    async fn answered_hello(
        &self,
        server: &RelayServer,
        upstream: &RelayLink,
        asked: Result<OwnRequest, Unsent>,
    ) -> HelloAnswer {
        let failed = |why: &str| message::failure(INTERNAL_ERROR, why);
        let asked = match asked {
            Ok(asked) => asked,
            Err(unsent) => return Err(failed(&upstream.why_unsent(unsent).await)),
        };
        let within = server.config.start_timeout;
        let answer = tokio::time::timeout(within.to_std(), asked.answer()).await;
        let answer = answer.map_err(|_| {
            failed(&format!("the server did not answer within {within}{}", upstream.complaints()))
        })?;
        let answer = answer.map_err(|error| failed(&error.message()))?;
        match RpcMessage::parse(&answer) {
            Ok(RpcMessage::Answer { outcome: Ok(result), .. }) => {
                let hello: ServerHello = serde_json::from_str(result.get()).unwrap_or_default();
                server.greeted(hello.clone());
                upstream.open();
                Ok(hello)
            }
            Ok(RpcMessage::Answer { outcome: Err(error), .. }) => {
                upstream.discovers(false);
                Err(error.get().to_owned())
            }
            _ => Err(failed("the server's answer cannot be read")),
        }
    }

    /// Servers that are late answer, or do not.
    async fn take_late(
        self: Arc<Self>,
        mut pending: FuturesUnordered<BoxFuture<'static, (usize, HelloAnswer)>>,
    ) {
        while let Some((at, answer)) = pending.next().await {
            let Some(server) = self.servers.get(at) else { continue };
            match (answer, server.live_link()) {
                (Ok(_), Some(upstream)) if self.client().initialized => {
                    repeat_remembered(server, &upstream);
                    tokio::spawn(Arc::clone(&self).look_for_changes(Arc::clone(server), upstream));
                }
                // The client's confirmation comes, or the next request starts it again.
                (Ok(_), _) => {}
                (Err(error), _) => self.left_out(server, &error).await,
            }
        }
    }

    /// A server does not begin.
    async fn left_out(&self, server: &RelayServer, error: &str) {
        if self.closing.is_cancelled() {
            return;
        }
        let why = message::message_of(error);
        let why = why.as_deref().unwrap_or(error);
        server.failed(&LinkError::from(format!("it does not begin: {why}")));
        if let Some(upstream) = server.live_link() {
            upstream.end().await;
        }
    }

    fn server_named(&self, name: &str) -> Option<&Arc<RelayServer>> {
        self.servers.iter().find(|server| server.config.name == name)
    }
}

/// Sends the client's handshake, or its question what the server can do.
fn begin(upstream: &Arc<RelayLink>, line: &str, begins: bool) -> Result<OwnRequest, Unsent> {
    let numbered = |number: u64| match RpcMessage::parse(line) {
        Ok(RpcMessage::Request { id, .. }) => message::with_part(line, id, &number.to_string()),
        // It was read before.
        _ => line.to_owned(),
    };
    if begins {
        return upstream.begin(numbered);
    }
    upstream.discovers(true);
    upstream.ask(None, numbered)
}

/// The requests that are to hold for each new connection.
fn repeat_remembered(server: &RelayServer, upstream: &RelayLink) {
    for line in server.remembered() {
        if let Ok(RpcMessage::Request { id, .. }) = RpcMessage::parse(&line) {
            // Who has ended gets them when it is started again.
            let _ = upstream.repeat(|number| message::with_part(&line, id, &number.to_string()));
        }
    }
}
