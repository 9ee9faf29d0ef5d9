//! One of the servers behind the relay: how it is reached, whether it is connected, and what it has.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tokio::time::Instant;

use super::link::RelayLink;
use super::order::RequestOrder;
use super::pages::ListKind;
use super::tools::RelayTools;
use crate::host::tool::mcp::McpConfig;
use crate::host::tool::mcp::failure::LinkError;

/// The most subscriptions that are repeated when a server is started again.
const MOST_SUBSCRIPTIONS: usize = 10_000;

/// The least between two requests for lists that a server has left out: it may never list them.
const ASKED_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// A server.
pub(super) struct RelayServer {
    pub(super) config: McpConfig,
    pub(super) tools: RelayTools,
    /// Whoever starts it holds it. The error of the last attempt, if that failed.
    pub(super) starting: tokio::sync::Mutex<Option<LinkError>>,
    /// The order in which calls of its tools are decided about, and that in which what is decided is sent.
    pub(super) proposing: Arc<RequestOrder>,
    pub(super) sending: Arc<RequestOrder>,
    /// How many attempts to start it have ended.
    attempts: AtomicU64,
    slot: Mutex<LinkSlot>,
    facts: Mutex<ServerFacts>,
}

/// The connection to a server.
pub(super) enum LinkSlot {
    Up(Arc<RelayLink>),
    Down,
    Closed,
}

/// What is known of a server beside its tools.
#[derive(Default)]
struct ServerFacts {
    /// What it answered the handshake; `None`: there was none.
    hello: Option<Map<String, Value>>,
    /// Why the client does not know of it; `None`: it does.
    missing: Option<MissingReason>,
    /// The lists that it has left out, as it did not answer or refused.
    left_out: BTreeSet<ListKind>,
    /// Whether these are being asked for again, and when that was done last.
    asked_again: (bool, Option<Instant>),
    /// The request of the client that set its level of logging last.
    level: Option<String>,
    /// The requests of the client by which it has subscriptions, by the addresses of the resources.
    subscriptions: BTreeMap<String, String>,
}

/// Why a client does not know of a server.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MissingReason {
    /// It could not be started when that was tried last.
    Failed,
    /// It had not answered its handshake when the client's was.
    Late,
}

impl RelayServer {
    pub(super) fn new(config: McpConfig) -> Self {
        Self {
            tools: RelayTools::new(config.name.clone(), config.prefix.clone()),
            config,
            starting: tokio::sync::Mutex::default(),
            proposing: Arc::default(),
            sending: Arc::default(),
            attempts: AtomicU64::new(0),
            slot: Mutex::new(LinkSlot::Down),
            facts: Mutex::default(),
        }
    }

    /// The connection, if there is one.
    pub(super) fn live_link(&self) -> Option<Arc<RelayLink>> {
        match &*self.slot() {
            LinkSlot::Up(upstream) if upstream.is_alive() => Some(Arc::clone(upstream)),
            _ => None,
        }
    }

    pub(super) fn slot(&self) -> MutexGuard<'_, LinkSlot> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of what it answered the handshake.
    pub(super) fn greeted(&self, hello: Map<String, Value>) {
        self.facts().hello = Some(hello);
    }

    /// What it answered the handshake last.
    pub(super) fn hello(&self) -> Option<Map<String, Value>> {
        self.facts().hello.clone()
    }

    /// Whether it has announced a feature; `None`: it has announced nothing yet.
    pub(super) fn has(&self, feature: &str) -> Option<bool> {
        let announced = |hello: &Map<String, Value>| {
            hello.get("capabilities").and_then(Value::as_object).is_some_and(|all| all.contains_key(feature))
        };
        self.facts().hello.as_ref().map(announced)
    }

    /// Whether it has announced something of a feature.
    pub(super) fn announces(&self, feature: &str, what: &str) -> bool {
        let announced =
            |hello: &Map<String, Value>| hello.get("capabilities")?.get(feature)?.get(what)?.as_bool();
        self.facts().hello.as_ref().and_then(announced) == Some(true)
    }

    /// Takes note of a request of the client that is to be repeated when the server is started again.
    pub(super) fn remember(&self, line: &str, method: &str, params: Option<&RawValue>) {
        #[derive(Deserialize)]
        struct Subscription {
            uri: String,
        }
        let uri = || {
            let Subscription { uri } = serde_json::from_str(params?.get()).ok()?;
            Some(uri)
        };
        let mut facts = self.facts();
        match method {
            "logging/setLevel" => facts.level = Some(line.to_owned()),
            "resources/subscribe" if facts.subscriptions.len() < MOST_SUBSCRIPTIONS => {
                facts.subscriptions.extend(uri().map(|uri| (uri, line.to_owned())));
            }
            "resources/unsubscribe" => drop(uri().and_then(|uri| facts.subscriptions.remove(&uri))),
            _ => {}
        }
    }

    /// The requests that a server that is started again gets once more.
    pub(super) fn remembered(&self) -> Vec<String> {
        let facts = self.facts();
        facts.level.iter().chain(facts.subscriptions.values()).cloned().collect()
    }

    /// How many attempts to start it have ended.
    pub(super) fn attempts(&self) -> u64 {
        self.attempts.load(Ordering::Acquire)
    }

    /// An attempt to start it has ended.
    pub(super) fn attempted(&self) {
        self.attempts.fetch_add(1, Ordering::AcqRel);
    }

    /// Whether the client does not know of it: it could not be started, or is late.
    pub(super) fn is_missing(&self) -> bool {
        self.facts().missing.is_some()
    }

    /// It was started, and the client learns of it. Returns whether it was missing before.
    pub(super) fn started(&self) -> bool {
        self.facts().missing.take().is_some()
    }

    /// It cannot be started, which is logged once until it can be.
    pub(super) fn failed(&self, error: &LinkError) {
        if self.facts().missing.replace(MissingReason::Failed) != Some(MissingReason::Failed) {
            let (server, error) = (&self.config.name, &error.why);
            tracing::warn!(server, error, "a server cannot be started; the others are used");
        }
    }

    /// It does not answer in time, which is logged once until it does.
    pub(super) fn late(&self) {
        if self.facts().missing.replace(MissingReason::Late) != Some(MissingReason::Late) {
            let server = &self.config.name;
            tracing::warn!(server, "a server is late; the others are used until it answers");
        }
    }

    /// It has not listed something. Logged once until it does.
    pub(super) fn leave_out(&self, kind: ListKind, error: &str) {
        if self.facts().left_out.insert(kind) {
            let (server, list) = (&self.config.name, kind.method());
            tracing::warn!(server, list, error, "a server is left out of a list");
        }
    }

    /// It has listed something. Returns whether it had not when that was asked for last.
    pub(super) fn is_listed_again(&self, kind: ListKind) -> bool {
        self.facts().left_out.remove(&kind)
    }

    /// The lists that are to be asked for again, by whoever calls this and nobody else until [`RelayServer::asked_again`].
    pub(super) fn ask_again(&self) -> Vec<ListKind> {
        let mut facts = self.facts();
        let (is_asked, last) = facts.asked_again;
        if facts.left_out.is_empty()
            || is_asked
            || last.is_some_and(|last| last.elapsed() < ASKED_AGAIN_AFTER)
        {
            return Vec::new();
        }
        facts.asked_again = (true, Some(Instant::now()));
        facts.left_out.iter().copied().collect()
    }

    /// They were asked for.
    pub(super) fn asked_again(&self) {
        self.facts().asked_again = (false, Some(Instant::now()));
    }

    fn facts(&self) -> MutexGuard<'_, ServerFacts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
