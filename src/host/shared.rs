//! The port to what hosts share, and how a run and the others are brought together.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use serde_json::{Value, json};

use super::port::BoxFuture;
use crate::ErrorCause;
use crate::engine::{RecordError, SharedKnown, SharedPart, SharedSubject};

/// So often it is tried to tell the others, if they tell something at the same time.
const TRIES: u32 = 8;

/// A value that hosts share.
#[derive(Clone, Debug, PartialEq)]
pub struct SharedValue {
    /// Which change of it this is; the first is 1.
    pub version: u64,
    /// The value.
    pub value: Value,
}

/// Where hosts keep what they share: values by name, each of which changes only if nobody else has changed it meanwhile.
pub trait SharedState: Send + Sync {
    /// What is kept under each of these names, in their order.
    fn get(&self, names: Vec<String>) -> BoxFuture<'_, Result<Vec<Option<SharedValue>>, SharedStateError>>;

    /// Keeps a value, if `known` is still the version that the others see; 0: if there is none. Returns whether it was.
    fn replace(
        &self,
        name: String,
        known: u64,
        value: Value,
    ) -> BoxFuture<'_, Result<bool, SharedStateError>>;
}

/// What hosts share can neither be read nor written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SharedStateError(#[source] pub ErrorCause);

/// Keeps what the agents of one process share. Cheap to clone; clones share it.
#[derive(Clone, Debug, Default)]
pub struct InProcess(Arc<Mutex<BTreeMap<String, SharedValue>>>);

impl SharedState for InProcess {
    fn get(&self, names: Vec<String>) -> BoxFuture<'_, Result<Vec<Option<SharedValue>>, SharedStateError>> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = names.iter().map(|name| kept.get(name).cloned()).collect();
        Box::pin(std::future::ready(Ok(found)))
    }

    fn replace(
        &self,
        name: String,
        known: u64,
        value: Value,
    ) -> BoxFuture<'_, Result<bool, SharedStateError>> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = kept.get(&name).map_or(0, |shared| shared.version) == known;
        if fits {
            kept.insert(name, SharedValue { version: known.saturating_add(1), value });
        }
        Box::pin(std::future::ready(Ok(fits)))
    }
}

/// What all runs of this process share.
pub(super) fn process_state() -> &'static dyn SharedState {
    static PROCESS: LazyLock<InProcess> = LazyLock::new(InProcess::default);
    &*PROCESS
}

/// Brings together what a run knows of these and what the others know, and tells them what has happened here. `merge` merges
/// what the others know with it. `known` takes what all know now, as far as that is not what the run knows: one after the
/// other, for what was reported stays reported, however this ends.
pub(super) async fn bring_together<M: MergeShared>(
    port: &dyn SharedState,
    merge: M,
    all: &[SharedSubject],
    known: &mut SharedKnown,
) -> Result<(), SharedStateError> {
    let found = port.get(all.iter().map(|subject| subject.key.clone()).collect()).await?;
    for (subject, found) in all.iter().zip(found) {
        let side = SharedSide { port, merge: &merge, subject };
        if let Some(told) = side.told(found).await? {
            known.add(told);
        }
    }
    Ok(())
}

/// Merges what the others know with what a run knows.
pub(super) trait MergeShared:
    Fn(&SharedSubject, Option<&Value>) -> Result<SharedPart, RecordError>
{
}

impl<M: Fn(&SharedSubject, Option<&Value>) -> Result<SharedPart, RecordError>> MergeShared for M {}

/// One thing that is shared, as this run sees it.
struct SharedSide<'a, M> {
    port: &'a dyn SharedState,
    merge: &'a M,
    subject: &'a SharedSubject,
}

impl<M: MergeShared> SharedSide<'_, M> {
    /// What all know of it; `None`: what the run knows, or others were quicker every time.
    async fn told(self, mut found: Option<SharedValue>) -> Result<Option<SharedPart>, SharedStateError> {
        let key = &self.subject.key;
        for _ in 0..TRIES {
            let part = self.with(found.as_ref())?;
            if !part.has_news() {
                return Ok(part.differs().then_some(part));
            }
            let value = json!({ "known": part.value(), "by": crate::host::new_uuid().to_string() });
            let version = found.map_or(0, |found| found.version);
            let replaced = self.port.replace(key.clone(), version, value.clone()).await;
            if replaced == Ok(true) {
                return Ok(Some(part));
            }
            found = self.port.get(vec![key.clone()]).await?.pop().flatten();
            // Where only the answer was lost, the others are informed.
            if found.as_ref().is_some_and(|found| found.value == value) {
                return Ok(Some(part));
            }
            replaced?;
        }
        tracing::debug!(key, "others tell of it all the time; it is tried again later");
        Ok(None)
    }

    fn with(&self, found: Option<&SharedValue>) -> Result<SharedPart, SharedStateError> {
        let others = found.and_then(|found| found.value.get("known"));
        let part = (self.merge)(self.subject, others).or_else(|error| {
            tracing::warn!(key = self.subject.key, %error, "what others share cannot be read; it begins anew");
            (self.merge)(self.subject, None)
        });
        part.map_err(|error| SharedStateError(error.into()))
    }
}
