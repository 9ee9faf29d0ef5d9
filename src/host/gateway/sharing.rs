//! What gateways share: what their keys use, and what they find of providers.
//!
//! Requests wait for none of it but the count of a key with limits. The rest is looked at again and again: what has changed here is told
//! to the others, and what they have found becomes an event of the run of all requests.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};

use super::Gateway;
use super::quota::{KeyLedger, SharedQuota};
use crate::engine::{Event, ProviderOutages, SharedKnown};
use crate::host::SharedStateError;
use crate::host::clock::Clock;
use crate::host::reached::ReachedState;

/// So often it is looked at.
const EVERY: Duration = Duration::from_millis(250);
/// So often, while it is away.
const EVERY_AWAY: Duration = Duration::from_secs(1);
/// So often it is tried again at once, if others tell something at the same time.
const TRIES: u32 = 8;

/// Where the gateways of one name meet.
pub(super) struct GatewaySharing {
    port: Arc<ReachedState>,
    /// What keys use.
    pub(super) quota: Arc<SharedQuota>,
    /// Under which name they keep outages.
    name: String,
    /// What all knew of outages, when it was looked at last.
    known: Mutex<ProviderOutages>,
}

impl GatewaySharing {
    /// Gateways share if they have the same `name`.
    pub(super) fn new(port: ReachedState, name: &str, ledger: &Arc<Mutex<KeyLedger>>, clock: Clock) -> Self {
        let port = Arc::new(port);
        let quota = SharedQuota::new(&port, name, ledger, clock);
        Self { port, quota, name: format!("gateway {name} outages"), known: Mutex::default() }
    }
}

impl Gateway {
    /// Shares with the other gateways, as long as it is polled.
    pub(crate) async fn keep_shared(self: Arc<Self>) {
        let Some(sharing) = &self.sharing else { return };
        loop {
            // While it is away, whoever waits is told so once.
            if self.share_outages(sharing).await.is_ok() {
                sharing.quota.tell().await;
            }
            tokio::time::sleep(if sharing.port.is_away() { EVERY_AWAY } else { EVERY }).await;
        }
    }

    /// Tells the others what keys have used at last.
    pub(crate) async fn tell_used(&self) {
        if let Some(sharing) = &self.sharing {
            sharing.quota.tell().await;
        }
    }

    /// Brings together what is known here of outages and what the others know.
    async fn share_outages(&self, sharing: &GatewaySharing) -> Result<(), SharedStateError> {
        let mut known = sharing.known.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for _ in 0..TRIES {
            let now = self.clock.now();
            let found = sharing.port.get(vec![sharing.name.clone()]).await?.pop().flatten();
            let others = found.as_ref().map(|found| outages(&found.value)).unwrap_or_default().at(now);
            known = known.at(now);
            let own = self.behind.guard.state(|state| state.outages(now));
            let all = own.joined(&known, &others);
            let version = found.map_or(0, |found| found.version);
            if all != others && !sharing.port.replace(sharing.name.clone(), version, value(&all)).await? {
                continue;
            }
            let outages = all.news_for(&own);
            if !outages.is_empty() {
                let known = SharedKnown { outages, ..SharedKnown::default() };
                // Nothing is written down that could be lost.
                let _ = self.behind.guard.tell(Event::SharedChanged(known));
            }
            *sharing.known.lock().unwrap_or_else(PoisonError::into_inner) = all;
            break;
        }
        Ok(())
    }
}

fn value(outages: &ProviderOutages) -> Value {
    json!({ "version": 1, "outages": outages })
}

/// What others have written; what cannot be read is replaced.
fn outages(value: &Value) -> ProviderOutages {
    use serde::Deserialize as _;
    let outages = value.get("outages").filter(|_| value.get("version") == Some(&json!(1)));
    outages.and_then(|outages| ProviderOutages::deserialize(outages).ok()).unwrap_or_default()
}
