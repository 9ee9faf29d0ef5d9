//! What hosts share, for those who cannot wait for it: a place that does not answer soon is away until somebody finds it again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::timeout;

use super::{BoxFuture, SharedState, SharedStateError, SharedValue};
use crate::ErrorCause;

/// The longest that anybody waits for an answer.
pub(crate) const SOON: Duration = Duration::from_millis(250);

/// Learns that it is away, and why; `None`: it is back.
pub(crate) type ReachListener = Box<dyn Fn(Option<&SharedStateError>) + Send + Sync>;

/// What hosts share, as it is reached from here.
pub(crate) struct ReachedState {
    port: Arc<dyn SharedState>,
    is_away: AtomicBool,
    listener: ReachListener,
}

impl ReachedState {
    pub(crate) fn new(port: Arc<dyn SharedState>, listener: ReachListener) -> Self {
        Self { port, is_away: AtomicBool::new(false), listener }
    }

    /// Whether it did not answer the last time.
    pub(crate) fn is_away(&self) -> bool {
        self.is_away.load(Ordering::Relaxed)
    }

    async fn soon<T, F>(&self, ask: impl FnOnce(Arc<dyn SharedState>) -> F) -> Result<T, SharedStateError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, SharedStateError>> + Send + 'static,
    {
        // In a task of its own it ends even if nobody waits: a connection that comes about late is there for the next one, and one
        // that is dead is given up.
        let asked = tokio::spawn(ask(Arc::clone(&self.port)));
        let late = || SharedStateError(ErrorCause::new(format!("no answer within {} ms", SOON.as_millis())));
        let answer = match timeout(SOON, asked).await {
            Ok(Ok(answer)) => answer,
            _ => Err(late()),
        };
        if self.is_away.swap(answer.is_err(), Ordering::Relaxed) != answer.is_err() {
            (self.listener)(answer.as_ref().err());
        }
        answer
    }
}

/// A value that was refused by an error may have been kept.
impl SharedState for ReachedState {
    fn get(&self, names: Vec<String>) -> BoxFuture<'_, Result<Vec<Option<SharedValue>>, SharedStateError>> {
        Box::pin(self.soon(move |port| async move { port.get(names).await }))
    }

    fn replace(
        &self,
        name: String,
        known: u64,
        value: serde_json::Value,
    ) -> BoxFuture<'_, Result<bool, SharedStateError>> {
        Box::pin(self.soon(move |port| async move { port.replace(name, known, value).await }))
    }
}

impl core::fmt::Debug for ReachedState {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("ReachedState").field("is_away", &self.is_away()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::host::InProcess;

    /// A place that answers after that time.
    struct SlowState(Mutex<Duration>, InProcess);

    impl SharedState for SlowState {
        fn get(
            &self,
            names: Vec<String>,
        ) -> BoxFuture<'_, Result<Vec<Option<SharedValue>>, SharedStateError>> {
            let delay = *self.0.lock().unwrap();
            Box::pin(async move {
                tokio::time::sleep(delay).await;
                self.1.get(names).await
            })
        }

        fn replace(
            &self,
            name: String,
            known: u64,
            value: serde_json::Value,
        ) -> BoxFuture<'_, Result<bool, SharedStateError>> {
            self.1.replace(name, known, value)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_is_slow_is_away_and_that_is_said_once() {
        let slow = Arc::new(SlowState(Mutex::new(Duration::from_secs(60)), InProcess::default()));
        let told = Arc::new(Mutex::new(Vec::new()));
        let tells = Arc::clone(&told);
        let listener = move |error: Option<&SharedStateError>| {
            tells.lock().unwrap().push(error.map(ToString::to_string));
        };
        let reached = ReachedState::new(slow.clone(), Box::new(listener));
        let began = tokio::time::Instant::now();
        for _ in 0..3 {
            reached.get(vec!["a".into()]).await.unwrap_err();
            assert!(reached.is_away());
        }
        assert_eq!(began.elapsed(), 3 * SOON);
        *slow.0.lock().unwrap() = Duration::ZERO;
        for _ in 0..3 {
            assert_eq!(reached.get(vec!["a".into()]).await.unwrap(), [None]);
        }
        assert_eq!(*told.lock().unwrap(), [Some("no answer within 250 ms".to_owned()), None]);
    }
}
