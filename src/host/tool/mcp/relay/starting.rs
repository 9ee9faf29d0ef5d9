//! How servers are started, and started again.

use std::sync::Arc;

use futures_util::future::join_all;

use super::RelayParts;
use super::link::RelayLink;
use super::upstream::{LinkSlot, RelayServer};
use crate::host::tool::mcp::McpError;
use crate::host::tool::mcp::failure::LinkError;

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
            let link = server.live_link();
            // A server whose handshake is not answered yet comes later.
            let is_there = !server.is_missing() || link.as_ref().is_some_and(|link| link.is_open());
            // One attempt at a time: a client may list again and again while a server hangs.
            if !is_there && link.is_none() && server.starting.try_lock().is_ok() {
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
            Ok(upstream) => {
                // It may have other tools than before.
                server.tools.outdate();
                *server.slot() = LinkSlot::Up(Arc::clone(upstream));
                self.is_up(&server, upstream);
            }
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
}
