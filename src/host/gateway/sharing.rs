//! What gateways share: what their keys use, and what they find of providers.
//!
//! Requests wait for none of it but the count of a key with limits. The rest is looked at again and again: what has changed here goes
//! to the others, and what they have found becomes an event of the run of all requests.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;

use super::models::GuardedModels;
use super::quota::{KeyLedger, SharedQuota};
use crate::engine::{Event, ProviderOutages, SharedKnown};
use crate::host::clock::Clock;
use crate::host::reached::ReachedState;
use crate::host::shared::bring_together;
use crate::host::{SharedState, SharedStateError};

/// So often it is looked at.
const EVERY: Duration = Duration::from_millis(250);
/// The least time between two looks, in which the uses of several calls come together.
const AT_LEAST: Duration = Duration::from_millis(5);
/// So often, while it is away.
const EVERY_AWAY: Duration = Duration::from_secs(1);
/// So often it is tried again at once, if others tell something at the same time.
const TRIES: u32 = 8;

/// Where the gateways of one name meet.
pub(super) struct GatewaySharing {
    port: Arc<ReachedState>,
    behind: Arc<GuardedModels>,
    clock: Clock,
    /// What keys use.
    pub(super) quota: Arc<SharedQuota>,
    /// Under which name they keep outages.
    name: String,
    /// What all knew of outages, when it was looked at last.
    known: Mutex<ProviderOutages>,
}

impl GatewaySharing {
    /// Gateways share if they have the same `name`.
    pub(super) fn new(
        port: ReachedState,
        name: &str,
        (behind, ledger): (&Arc<GuardedModels>, &Arc<Mutex<KeyLedger>>),
        clock: Clock,
    ) -> Self {
        let (port, behind) = (Arc::new(port), Arc::clone(behind));
        let quota = SharedQuota::new(&port, name, ledger, clock);
        let name = format!("gateway {name} outages");
        Self { port, behind, clock, quota, name, known: Mutex::default() }
    }

    /// Shares with the other gateways, as long as it is polled.
    pub(super) async fn keep(&self) {
        loop {
            // While it is away, the quota says so once.
            if self.share_outages().await.is_ok() && self.share_rules().await.is_ok() {
                self.quota.tell().await;
            }
            if self.port.is_away() {
                tokio::time::sleep(EVERY_AWAY).await;
                continue;
            }
            // What calls take of a pace, the others are to know before they start theirs.
            let used = self.behind.guard.locked().uses_shared_pace();
            if timeout(EVERY, used).await.is_ok() {
                tokio::time::sleep(AT_LEAST).await;
            }
        }
    }

    /// Brings together what is known here of paces and budgets of `scope: shared` and what the others know.
    async fn share_rules(&self) -> Result<(), SharedStateError> {
        let run = self.behind.guard.locked();
        let (all, mut known) = (run.sharing(), SharedKnown::default());
        if all.is_empty() {
            return Ok(());
        }
        let merge = |subject: &_, others: Option<&_>| run.merge_shared(subject, others);
        let together = bring_together(&*self.port, merge, &all, &mut known).await;
        // What was reported by then was reported, however it ended.
        if !known.is_empty() {
            let _ = self.behind.guard.tell(Event::SharedChanged(known));
        }
        together
    }

    /// Brings together what is known here of outages and what the others know.
    async fn share_outages(&self) -> Result<(), SharedStateError> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for _ in 0..TRIES {
            let now = self.clock.now();
            let found = self.port.get(vec![self.name.clone()]).await?.pop().flatten();
            let others = found.as_ref().map(|found| outages(&found.value)).unwrap_or_default().at(now);
            known = known.at(now);
            let own = self.behind.guard.state(|state| state.outages(now));
            let all = own.joined(&known, &others);
            let version = found.map_or(0, |found| found.version);
            if all != others && !self.port.replace(self.name.clone(), version, value(&all)).await? {
                continue;
            }
            let outages = all.news_for(&own);
            if !outages.is_empty() {
                let known = SharedKnown { outages, ..SharedKnown::default() };
                // Nothing is written down that could be lost.
                let _ = self.behind.guard.tell(Event::SharedChanged(known));
            }
            *self.known.lock().unwrap_or_else(PoisonError::into_inner) = all;
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
