//! What hosts share: looked at before each turn, and shared with the others after each step that has changed it.

use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::AgentRun;
use crate::ErrorCause;
use crate::engine::{Event, SharedKnown, SharedSubject};
use crate::host::shared::bring_together;
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
        let port = self.agent.shared.as_deref()?;
        let all = self.interpreter.sharing(&self.state);
        self.together(port, &all, outside).await
    }

    /// Tells the others what has happened, if anything has.
    pub(super) async fn tell_others(&mut self, outside: &StopSwitch) -> Option<Event> {
        let port = self.agent.shared.as_deref()?;
        let untold = self.interpreter.unshared(&self.state);
        self.together(port, &untold, outside).await
    }

    async fn together(
        &mut self,
        port: &dyn SharedState,
        all: &[SharedSubject],
        outside: &StopSwitch,
    ) -> Option<Event> {
        let now = Instant::now();
        if all.is_empty() || self.reach.rests_until.is_some_and(|until| now < until) {
            return None;
        }
        let mut known = SharedKnown::default();
        let together = bring_together(port, &self.interpreter, &self.state, all, &mut known);
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
        // What was reported by then was reported, however it ended.
        (!known.is_empty()).then_some(Event::SharedChanged(known))
    }
}
