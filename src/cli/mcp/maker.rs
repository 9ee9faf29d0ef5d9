//! The relays of the command, one for each client.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::mpsc;

use crate::cli::exit::CommandFailure;
use crate::cli::sessions::OpenStore;
use crate::engine::{AgentFacts, LogHeader};
use crate::host::{Clock, McpConfig, McpRelay, Metrics, PolicyWatch, RelayApproval, RelayConfig};
use crate::policy::{Loader, Policy};
use crate::store::{Recorder, SessionId};

/// Makes relays.
#[derive(Clone)]
pub(super) struct RelayMaker {
    pub(super) servers: Vec<McpConfig>,
    pub(super) approve: RelayApproval,
    pub(super) policy: Policy,
    /// The files of the policy, if they are looked at again.
    pub(super) watched: Option<(Loader, Vec<PathBuf>)>,
    pub(super) metrics: Arc<Metrics>,
    /// Where sessions are written.
    pub(super) store: Option<OpenStore>,
    /// The file of servers, which its sessions name.
    pub(super) agent: Option<AgentFacts>,
}

impl RelayMaker {
    /// Starts a relay, with a server and a session of its own.
    pub(super) async fn relay(&self) -> Result<(McpRelay, mpsc::Receiver<String>), CommandFailure> {
        // Files that are broken by now change nothing.
        let watch =
            self.watched.as_ref().and_then(|(loader, paths)| PolicyWatch::load(loader.clone(), paths).ok());
        let Some((first, others)) = self.servers.split_first() else {
            return Err(CommandFailure::Usage("there is no server".into()));
        };
        let config = match watch {
            Some(watch) => RelayConfig::watching(watch, first.clone()),
            None => RelayConfig::new(self.policy.clone(), first.clone()),
        };
        let config = others.iter().cloned().fold(config, RelayConfig::server);
        let mut config = config.approve(self.approve).metrics(Arc::clone(&self.metrics));
        if let Some(store) = &self.store {
            let (id, recorder) = self.recorder(store).await?;
            config = config.record(id.as_str(), recorder);
        }
        McpRelay::start(config).await.map_err(|error| CommandFailure::Stopped(error.to_string()))
    }

    /// What writes the session of a relay.
    async fn recorder(&self, store: &OpenStore) -> Result<(SessionId, Recorder), CommandFailure> {
        let id = SessionId::generate();
        let header = LogHeader::new(id.as_str(), self.policy.digest(), Clock::system().now());
        let header = match &self.agent {
            Some(agent) => header.of_agent(agent.clone()),
            None => header,
        };
        let log = store.store().create(&id, &header).await;
        let log = log.map_err(|error| CommandFailure::Stopped(error.to_string()))?;
        Ok((id, Recorder::new(log).await))
    }
}
