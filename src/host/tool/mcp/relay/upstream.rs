//! One of the servers behind the relay: how it is reached, whether it is connected, and what it has.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::link::RelayLink;
use super::tools::RelayTools;
use crate::host::tool::mcp::McpConfig;
use crate::host::tool::mcp::failure::LinkError;

/// The most subscriptions that are repeated when a server is started again.
const MOST_SUBSCRIPTIONS: usize = 10_000;

/// A server.
pub(super) struct RelayServer {
    pub(super) config: McpConfig,
    pub(super) tools: RelayTools,
    /// Whoever starts it holds it. The error of the last attempt, if that failed.
    pub(super) starting: tokio::sync::Mutex<Option<LinkError>>,
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
    /// What its handshake announced; `None`: there was none.
    features: Option<IndexMap<String, Value>>,
    /// It could not be started when that was tried last.
    failed: bool,
    /// The request of the client that set its level of logging last.
    level: Option<String>,
    /// The requests of the client by which it has subscriptions, by the addresses of the resources.
    subscriptions: BTreeMap<String, String>,
}

impl RelayServer {
    pub(super) fn new(config: McpConfig) -> Self {
        Self {
            tools: RelayTools::new(config.name.clone(), config.prefix.clone()),
            config,
            starting: tokio::sync::Mutex::default(),
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

    /// Takes note of what its handshake announced.
    pub(super) fn announced(&self, features: IndexMap<String, Value>) {
        self.facts().features = Some(features);
    }

    /// Whether it has announced a feature; `None`: it has announced nothing yet.
    pub(super) fn has(&self, feature: &str) -> Option<bool> {
        self.facts().features.as_ref().map(|features| features.contains_key(feature))
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

    /// Whether it could not be started when that was tried last.
    pub(super) fn has_failed(&self) -> bool {
        self.facts().failed
    }

    /// It was started. Returns whether that had failed before.
    pub(super) fn started(&self) -> bool {
        core::mem::replace(&mut self.facts().failed, false)
    }

    /// It cannot be started, which is logged once until it can be.
    pub(super) fn failed(&self, error: &LinkError) {
        if !core::mem::replace(&mut self.facts().failed, true) {
            let (server, error) = (&self.config.name, &error.why);
            tracing::warn!(server, error, "a server cannot be started; the others are used");
        }
    }

    fn facts(&self) -> MutexGuard<'_, ServerFacts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
