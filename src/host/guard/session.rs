//! The session of a guard: slices behind one lock that only failures take.

use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

use super::Inner;
use super::repeats::Repeats;
use super::seat::{Seat, Seats};
use crate::engine::Series;
use crate::engine::targets::Resting;
use crate::engine::{
    Admission, Breaker, BreakerPhase, Budgets, KnownWindows, Metric, MetricName, Scales, validation,
};
use crate::policy::{
    BreakerPolicy, BreakerScope, Counting, ErrorClass, Policy, RetryPolicy, SessionPolicy, Trigger,
};
use crate::session::{FeedbackSource, ReducerError, RetryFeedback, Slices};
use crate::time::{Instant, Nanos};

pub(super) struct Session {
    shared: Mutex<Shared>,
    /// What was called lately, and how that ended.
    pub(super) repeats: Repeats,
}

#[derive(Default)]
struct Shared {
    slices: Slices,
    budgets: Budgets,
    resting: Resting,
    windows: KnownWindows,
    scales: Scales,
    tools: HashMap<String, Arc<ToolCell>>,
}

/// What is known of one tool. It costs one load as long as the last word was a success.
#[derive(Default)]
pub(super) struct ToolCell {
    /// Whether a failure is known; written under the lock only.
    troubled: AtomicBool,
    /// Runs under way.
    pub(super) seats: Seats,
    /// Calls that went well at the first attempt, not yet in the metrics.
    at_once: AtomicU64,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    breaker: Breaker,
    /// The attempts at arguments that do not hold yet.
    corrections: Option<Series>,
    /// How many calls went well after how many attempts, not yet in the metrics.
    ended: BTreeMap<u64, u64>,
}

/// One failure that feedback is due for.
pub(super) struct Failed<'a> {
    pub(super) tool: &'a str,
    pub(super) attempt: u32,
    pub(super) class: ErrorClass,
    pub(super) message: String,
    pub(super) next_delay: Nanos,
}

impl Session {
    pub(super) fn new(policy: &SessionPolicy) -> Self {
        let shared = Shared { slices: Slices::new(policy), ..Shared::default() };
        Self { shared: Mutex::new(shared), repeats: Repeats::default() }
    }

    pub(super) fn with<T>(&self, read: impl FnOnce(&Slices) -> T) -> T {
        read(&self.lock().slices)
    }

    /// The tools there are guards of.
    pub(super) fn tools(&self) -> Vec<(String, Arc<ToolCell>)> {
        self.lock().tools.iter().map(|(name, cell)| (name.clone(), Arc::clone(cell))).collect()
    }

    /// What is known of a tool, and the slices of that policy. A breaker whose rules have changed begins anew.
    pub(super) fn tool(&self, tool: &str, policy: &Policy, breaker: &BreakerPolicy) -> Arc<ToolCell> {
        let mut shared = self.lock();
        shared.slices.complete(policy.session());
        let cell = Arc::clone(shared.tools.entry(tool.to_owned()).or_default());
        cell.fit(breaker);
        cell
    }

    /// Adds the slices that a policy has and the session does not.
    pub(super) fn complete(&self, policy: &Policy) {
        self.lock().slices.complete(policy.session());
    }

    /// A turn begins: breakers that know of one turn only begin anew.
    pub(super) fn turn_begins(&self) {
        self.lock().tools.values().for_each(|cell| cell.turn_begins());
    }

    /// What has been drawn on the budgets.
    pub(super) fn budgets<T>(&self, look: impl FnOnce(&mut Budgets) -> T) -> T {
        look(&mut self.lock().budgets)
    }

    /// The models that are passed over for a while.
    pub(super) fn resting<T>(&self, look: impl FnOnce(&mut Resting) -> T) -> T {
        look(&mut self.lock().resting)
    }

    /// What providers have said about windows and tokens.
    pub(super) fn learned<T>(&self, look: impl FnOnce(&mut KnownWindows, &mut Scales) -> T) -> T {
        let mut shared = self.lock();
        let Shared { windows, scales, .. } = &mut *shared;
        look(windows, scales)
    }

    // A panic elsewhere leaves the slices as they were before the reducer that panicked: still good.
    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Writes a retryable failure into the session. Returns what a reducer had against it.
    pub(super) fn feedback(
        &self,
        policy: &Policy,
        retry: &RetryPolicy,
        failed: Failed<'_>,
        now: Instant,
    ) -> Option<ReducerError> {
        if validation(failed.class) {
            self.count(MetricName::ValidationRetryTotal, format!("tool {}", failed.tool), 1);
        }
        if !retry.emit_feedback.value {
            return None;
        }
        let feedback = RetryFeedback {
            source: FeedbackSource::Tool,
            tool_name: Some(failed.tool.to_owned()),
            attempt: failed.attempt,
            max_attempts: retry.most_attempts(failed.class, failed.attempt),
            error_type: failed.class,
            message: failed.message,
            retry_scheduled_at: now.saturating_add(failed.next_delay),
            next_delay: failed.next_delay,
        };
        tracing::warn!(
            correlation_id = self.run,
            policy = policy.digest(),
            tool = failed.tool,
            error_type = failed.class.name(),
            attempt = failed.attempt,
            delay_ms = failed.next_delay.0 / 1_000_000,
            "retry feedback"
        );
        self.reduce(policy, Trigger::RetryFeedback, &json!({ "tool": failed.tool, "feedback": feedback }))
    }

    /// Runs the reducers that listen to `trigger`. Returns the first that failed; the host is told of all.
    pub(super) fn reduce(&self, policy: &Policy, trigger: Trigger, event: &Value) -> Option<ReducerError> {
        let policy = policy.session();
        let failed = {
            let mut shared = self.session.lock();
            let failed = shared.slices.reduce(policy, trigger, event);
            let mut all = Vec::new();
            for (error, _) in failed {
                let news = shared.slices.reduce(policy, Trigger::ReducerError, &json!({ "error": error }));
                all.push(error);
                all.extend(news.into_iter().map(|(error, _)| error));
            }
            all
        };
        for error in &failed {
            self.count(MetricName::ReducerErrorTotal, error.reducer.clone(), 1);
            tracing::error!(
                correlation_id = self.run,
                reducer = error.reducer,
                message = error.message,
                "reducer error"
            );
            if let Some(told) = &self.on_reducer_error {
                told(error);
            }
        }
        failed.into_iter().next()
    }

    pub(super) fn count(&self, name: MetricName, subject: String, value: u64) {
        self.metrics.record(&Metric { name, subject, value });
    }
}

impl Known {
    /// Whether the breaker has opened since a run began, so that its end changes nothing.
    fn is_late(&self, is_probe: bool) -> bool {
        self.breaker.phase() == BreakerPhase::HalfOpen && !is_probe
    }
}

impl ToolCell {
    /// Whether no failure is known: the breaker is as new and there are no corrections.
    #[inline]
    pub(super) fn is_quiet(&self) -> bool {
        !self.troubled.load(Ordering::Acquire)
    }

    fn fit(&self, breaker: &BreakerPolicy) {
        let mut known = self.lock();
        if !known.breaker.fits(breaker) {
            known.breaker = Breaker::default();
            self.troubled.store(known.corrections.is_some(), Ordering::Release);
        }
        // Where successes are counted too, none goes by unseen.
        if matches!(breaker.count.value, Counting::Window(_)) {
            self.troubled.store(true, Ordering::Release);
        }
    }

    fn turn_begins(&self) {
        if self.is_quiet() {
            return;
        }
        let mut known = self.lock();
        if known.breaker.scope() == BreakerScope::Turn {
            known.breaker = Breaker::default();
        }
    }

    /// A seat as long as no failure is known: of at most so many.
    #[inline]
    pub(super) fn enter_at_once(&self, most: Option<NonZeroU32>) -> Option<Seat<'_>> {
        if !self.is_quiet() {
            return None;
        }
        let seat = self.seats.take_of(most)?;
        // A failure that came meanwhile leaves less room.
        self.is_quiet().then_some(seat)
    }

    /// Asks the breaker; `None`: not before another run has ended. A closed one need not know the time.
    pub(super) fn ask(
        &self,
        policy: &BreakerPolicy,
        most: Option<u32>,
        now: impl FnOnce() -> Instant,
    ) -> Option<(Admission, Seat<'_>)> {
        let mut known = self.lock();
        let is_full =
            |taken: u32| known.breaker.is_full(policy, taken) || most.is_some_and(|most| taken >= most);
        let seat = self.seats.take(is_full)?;
        let admission = match known.breaker.phase() {
            BreakerPhase::Closed => Admission::Run,
            BreakerPhase::Open | BreakerPhase::HalfOpen => known.breaker.ask(now()),
        };
        Some((admission, seat))
    }

    /// A run went well at the first attempt; nothing has failed before.
    #[inline]
    pub(super) fn succeeded_at_once(&self) {
        self.at_once.fetch_add(1, Ordering::Relaxed);
    }

    /// How many calls went well after how many attempts, since this was asked last.
    pub(super) fn take_ended(&self) -> BTreeMap<u64, u64> {
        let mut ended = std::mem::take(&mut self.lock().ended);
        let at_once = ended.entry(1).or_default();
        *at_once = at_once.saturating_add(self.at_once.swap(0, Ordering::Relaxed));
        ended
    }

    /// A call went well after so many attempts: the breaker hears of it, and corrections begin anew.
    /// Returns whether there were any.
    pub(super) fn succeeded(
        &self,
        policy: &BreakerPolicy,
        is_probe: bool,
        attempts: u32,
        now: impl FnOnce() -> Instant,
    ) -> bool {
        // Only a window asks when it was.
        let counted = matches!(policy.count.value, Counting::Window(_));
        let now = if counted { now() } else { Instant::default() };
        let mut known = self.lock();
        if !known.is_late(is_probe) {
            known.breaker.succeeded(policy, now);
        }
        if known.breaker.is_quiet() {
            // A guard shares nothing: nobody waits for what it has counted.
            known.breaker = Breaker::default();
        }
        let corrections = known.corrections.take().map_or(0, |series| series.history.len());
        let corrections = u64::try_from(corrections).unwrap_or(u64::MAX);
        let calls = known.ended.entry(corrections.saturating_add(attempts.into())).or_default();
        *calls = calls.saturating_add(1);
        // One that began before the breaker opened leaves it open.
        self.troubled.store(counted || !known.breaker.is_quiet(), Ordering::Release);
        corrections > 0
    }

    /// A run failed with arguments that hold. Returns whether the breaker is open now.
    pub(super) fn failed(&self, policy: &BreakerPolicy, is_probe: bool, now: Instant) -> bool {
        let mut known = self.lock();
        self.troubled.store(true, Ordering::Release);
        known.corrections = None;
        if !known.is_late(is_probe) {
            known.breaker.failed(policy, now);
        }
        known.breaker.phase() == BreakerPhase::Open
    }

    pub(super) fn returned(&self, now: Instant) {
        self.lock().breaker.returned(now);
    }

    pub(super) fn failures(&self) -> u32 {
        self.lock().breaker.failures()
    }

    /// The corrections so far.
    pub(super) fn corrections(&self, now: Instant) -> Series {
        self.lock().corrections.clone().unwrap_or_else(|| Series::begin(now))
    }

    pub(super) fn keep_corrections(&self, series: Series) {
        let mut known = self.lock();
        self.troubled.store(true, Ordering::Release);
        known.corrections = Some(series);
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_success_nothing_is_locked_whatever_the_scope_of_the_breaker() {
        for scope in ["run", "session", "shared"] {
            let policy =
                format!("version: 1\ntools: {{\"*\": {{breaker: {{scope: {scope}, failures: 3}}}}}}\n");
            let policy = Policy::from_yaml("p.yaml", &policy).unwrap();
            let (rules, cell) = (&policy.tool("look").breaker, ToolCell::default());
            cell.failed(rules, false, Instant(1));
            assert!(!cell.is_quiet(), "{scope}");
            cell.succeeded(rules, false, 2, || Instant(2));
            assert!(cell.is_quiet(), "{scope}");
        }
    }
}
