//! The relays of the command, one for each client.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc;

use crate::cli::exit::CommandFailure;
use crate::cli::sessions::OpenStore;
use crate::engine::{AgentFacts, LogHeader};
use crate::host::{Clock, McpConfig, McpRelay, Metrics, PolicyWatch, RelayApproval, RelayConfig};
use crate::policy::Policy;
use crate::store::{Recorder, SessionId};

/// Makes relays.
#[derive(Clone)]
pub(super) struct RelayMaker {
    pub(super) servers: Vec<McpConfig>,
    pub(super) approve: RelayApproval,
    pub(super) policy: Policy,
    /// The files of the policy, if they are looked at again: what one client's call reads holds for all.
    pub(super) watched: Option<Arc<Mutex<PolicyWatch>>>,
    pub(super) metrics: Arc<Metrics>,
    /// Where sessions are written.
    pub(super) store: Option<OpenStore>,
    /// The file of servers, which its sessions name.
    pub(super) agent: Option<AgentFacts>,
}

impl RelayMaker {
    /// Starts a relay, with a server and a session of its own.
    pub(super) async fn relay(&self) -> Result<(McpRelay, mpsc::Receiver<String>), CommandFailure> {
        let policy = self.watched.as_ref().map(|watched| {
            let mut watched = watched.lock().unwrap_or_else(PoisonError::into_inner);
            watched.look();
            watched.live().current()
        });
        let policy = policy.unwrap_or_else(|| self.policy.clone());
        let Some((first, others)) = self.servers.split_first() else {
            return Err(CommandFailure::Usage("there is no server".into()));
        };
        let config = match &self.watched {
            Some(watched) => RelayConfig::sharing(Arc::clone(watched), first.clone()),
            None => RelayConfig::new(policy.clone(), first.clone()),
        };
        let config = others.iter().cloned().fold(config, RelayConfig::server);
        let mut config = config.approve(self.approve).metrics(Arc::clone(&self.metrics));
        if let Some(store) = &self.store {
            let (id, recorder) = self.recorder(store, &policy).await?;
            config = config.record(id.as_str(), recorder);
        }
        McpRelay::start(config).await.map_err(|error| CommandFailure::Stopped(error.to_string()))
    }

    /// What writes the session of a relay.
    async fn recorder(
        &self,
        store: &OpenStore,
        policy: &Policy,
    ) -> Result<(SessionId, Recorder), CommandFailure> {
        let id = SessionId::generate();
        let header = LogHeader::new(id.as_str(), policy.digest(), Clock::system().now());
        let header = match &self.agent {
            Some(agent) => header.of_agent(agent.clone()),
            None => header,
        };
        let log = store.store().create(&id, &header).await;
        let log = log.map_err(|error| CommandFailure::Stopped(error.to_string()))?;
        Ok((id, Recorder::new(log).await))
    }
}
