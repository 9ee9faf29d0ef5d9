//! What hosts share: looked at before each turn, and shared with the others after each step that has changed it.

use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::AgentRun;
use crate::ErrorCause;
use crate::engine::{Event, SharedKnown, SharedSubject, SharingScope};
use crate::host::shared::{bring_together, process_state};
use crate::host::{SharedState, SharedStateError, StopSwitch};

/// The longest a run waits for it.
const PATIENCE: Duration = Duration::from_secs(2);
/// So long it is left alone after it was away.
const REST: Duration = Duration::from_secs(10);

/// How it went with what hosts share.
#[derive(Debug, Default)]
pub(super) struct SharedReach {
    /// It was away; it is not asked again before then.
    rests_until: Option<Instant>,
}

impl AgentRun<'_> {
    /// What all hosts know, before a turn.
    pub(super) async fn look_at_shared(&mut self, outside: &StopSwitch) -> Option<Event> {
        let all = self.interpreter.sharing(&self.state);
        self.together(all, outside).await
    }

    /// Tells the others what has happened, if anything has.
    pub(super) async fn tell_others(&mut self, outside: &StopSwitch) -> Option<Event> {
        let untold = self.interpreter.unshared(&self.state);
        self.together(untold, outside).await
    }

    async fn together(&mut self, all: Vec<SharedSubject>, outside: &StopSwitch) -> Option<Event> {
        let mut known = SharedKnown::default();
        let (own, hosts): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|subject| subject.scope == SharingScope::Process);
        if !own.is_empty() {
            let merge =
                |subject: &_, others: Option<&_>| self.interpreter.merge_shared(&self.state, subject, others);
            // It is in this process, and so never away.
            let _ = bring_together(process_state(), merge, &own, &mut known).await;
        }
        if let Some(port) = self.agent.shared.as_deref().filter(|_| !hosts.is_empty()) {
            self.with_hosts(port, &hosts, &mut known, outside).await;
        }
        // What was reported by then was reported, however it ended.
        (!known.is_empty()).then_some(Event::SharedChanged(known))
    }

    async fn with_hosts(
        &mut self,
        port: &dyn SharedState,
        all: &[SharedSubject],
        known: &mut SharedKnown,
        outside: &StopSwitch,
    ) {
        let now = Instant::now();
        if self.reach.rests_until.is_some_and(|until| now < until) {
            return;
        }
        let merge =
            |subject: &_, others: Option<&_>| self.interpreter.merge_shared(&self.state, subject, others);
        let together = bring_together(port, merge, all, known);
        let reached = tokio::select! {
            biased;
            () = outside.kill.cancelled() => None,
            together = timeout(PATIENCE, together) => {
                Some(together.unwrap_or_else(|_| Err(SharedStateError(ErrorCause::new("it does not answer")))))
            }
        };
        match reached {
            Some(Err(error)) => {
                if self.reach.rests_until.is_none() {
                    tracing::warn!(%error, "what hosts share is out of reach; the run continues with what it knows");
                    self.observer.on_shared_error(&error);
                }
                self.reach.rests_until = Some(now + REST);
            }
            Some(Ok(())) => self.reach.rests_until = None,
            // The run is over.
            None => {}
        }
    }
}
