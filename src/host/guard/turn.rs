//! The guard of one call to a model: attempts on each target, one target after the other.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;

use serde_json::json;

use super::attempts::{Attempts, Cause, start, within};
use super::budget::Account;
use super::history::{Find, Request};
use super::record::UnderWay;
use super::{CallContext, CallError, Classify, GivenUp, Inner, Refusal};
use crate::engine::retry::{Obstacle, Verdict, missed};
use crate::engine::targets::{Fate, Next, Rotation, goes_on, passed_over};
use crate::engine::{MetricName, RetryAction};
use crate::host::telemetry::Which;
use crate::host::trace;
use crate::policy::{Advance, AfterPartial, Bound, ErrorClass, ModelPolicy, Policy, RetryPolicy, Trigger};
use crate::session::{Message, StopReason, Usage};
use crate::time::{Instant, Nanos};

/// The guard of one call to a model.
///
/// ```
/// use unfazed::context::estimate_message;
/// use unfazed::engine::{Failure, ModelReply};
/// use unfazed::host::Guard;
/// use unfazed::policy::Policy;
/// use unfazed::session::Message;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let guard = Guard::builder(Policy::builtin()).targets(["main", "spare"]).build();
/// let request = vec![Message::user("Find a flight.")];
/// let tokens = request.iter().map(estimate_message).sum();
/// let turn = guard.turn(request).tokens(tokens).history(|request| request);
/// let reply = turn.call_with_usage(
///     |reply: &ModelReply| reply.usage,
///     |target, request| async move {
///         let text = format!("{target} was sent {} message", request.len());
///         Ok::<_, Failure>(ModelReply { text, ..ModelReply::default() })
///     },
/// );
/// assert_eq!(reply.await.unwrap().text, "main was sent 1 message");
/// # }
/// ```
pub struct TurnGuard<R> {
    inner: Arc<Inner>,
    request: R,
    tokens: Option<u64>,
    find: Option<Find<R>>,
}

/// Without the request, which may hold what the user said.
impl<R> core::fmt::Debug for TurnGuard<R> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("TurnGuard")
            .field("run", &self.inner.run)
            .field("tokens", &self.tokens)
            .finish_non_exhaustive()
    }
}

impl<R: Clone> TurnGuard<R> {
    pub(super) const fn new(inner: Arc<Inner>, request: R) -> Self {
        Self { inner, request, tokens: None, find: None }
    }

    /// Says how many tokens the request has, those of its tools among them, and without what a provider adds. Models are
    /// passed over whose window is too small for it, for what their provider is documented to add, and for the
    /// `output_reserve`; without this nobody knows. What providers say when they refuse
    /// a request, and the tokens they report, is learned for later turns, as `tokens.learn` in the policy says.
    /// [`measure`](crate::context::measure) counts them, and [`RequestTokens::sent`](crate::context::RequestTokens::sent)
    /// those of a body.
    #[must_use]
    pub const fn tokens(mut self, tokens: u64) -> Self {
        self.tokens = Some(tokens);
        self
    }

    /// Says where the conversation is in the request. What of it providers refuse is repaired as `history:` in the policy
    /// says, before the first call or once after a refusal, in what is sent: the host's own conversation stays as it
    /// is. [`Guard::repair_history`](super::Guard::repair_history) repairs that.
    #[must_use]
    pub fn history(mut self, find: impl Fn(&mut R) -> &mut Vec<Message> + Send + Sync + 'static) -> Self {
        self.find = Some(Box::new(find));
        self
    }

    /// Offers the request to the targets in order, each as often as its policy allows.
    ///
    /// # Errors
    /// [`CallError::Exhausted`] with the attempts at the last target, if no target answered; [`CallError::Refused`] if
    /// the request is too large for every one.
    pub async fn call<T, E, F, Fut>(&self, run: F) -> Result<T, CallError<E>>
    where
        E: Classify,
        F: FnMut(String, R) -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        self.call_with_usage(|_| None, run).await
    }

    /// The same, and `usage` says how many tokens a reply took: for records, metrics and costs.
    ///
    /// # Errors
    /// Those of [`call`](Self::call).
    pub async fn call_with_usage<T, E, F, Fut>(
        &self,
        usage: impl Fn(&T) -> Option<Usage>,
        mut run: F,
    ) -> Result<T, CallError<E>>
    where
        E: Classify,
        F: FnMut(String, R) -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        let (call, number) = (self.inner.next_call(), self.inner.next_turn());
        let rules = self.inner.live.current();
        self.inner.session.complete(&rules);
        self.inner.session.turn_begins();
        let targets = self.inner.targets();
        let policies: Vec<Arc<ModelPolicy>> = targets.iter().map(|target| rules.model(target)).collect();
        let turn = Turn { guard: &self.inner, rules: &rules, targets: &targets, policies: &policies };
        let mut order = turn.begin(self.tokens).map_err(CallError::Refused)?;
        let mut request = Request::new(&self.request, self.find.as_ref());
        request.check(&self.inner, &rules);
        let mut spent: Option<Attempts<'_, E>> = None;
        loop {
            let (target, policy) = turn.at(&order);
            let retry = &policy.retry;
            let mut attempts = match spent.take() {
                Some(attempts) => attempts.under(retry, order.beside()),
                None => Attempts::new(retry, &self.inner, call, turn.start()),
            };
            let CallContext { attempt, max_attempts, timeout, .. } = attempts.context();
            let which = Which { run: &self.inner.run, turn: number, attempt, max_attempts, target };
            let mut under_way = UnderWay::begin(&self.inner, &rules, which);
            let run = run(target.to_owned(), request.now());
            let cause = match within(timeout, pin!(run)).await {
                Ok(value) => {
                    let usage = usage(&value);
                    self.learn(target, policy, usage);
                    under_way.replied(usage);
                    self.ended(target, attempts.attempt());
                    self.inner.earn(&format!("model {target}"), retry, attempts.last_class());
                    self.inner.session.resting(|resting| resting.wake(target, policy));
                    return Ok(value);
                }
                Err(cause) => cause,
            };
            let class = under_way.failed(&cause);
            if let Some(window) = cause.window().filter(|_| class == ErrorClass::ContextOverflow) {
                self.inner.session.learned(|windows, _| windows.refused(target, window));
            }
            if request.refused(&self.inner, &rules, class, (target, &cause.message())) {
                // It is another history now, so this is no second attempt at the same request.
                spent = Some(attempts);
                continue;
            }
            let verdict = self.failed(&rules, retry, &mut attempts, cause, target);
            match turn.next(&mut order, policy, target, &mut attempts, verdict) {
                Ok(Then { delay, action, reason, together }) => {
                    under_way.then(action, delay, Some(turn.at(&order).0), reason);
                    let left = reason.is_some() && !rules.turn().targets.advance.value.counts_together();
                    if left || !together {
                        self.ended(target, attempts.attempt().saturating_sub(1));
                    }
                    spent = together.then_some(attempts);
                    if !delay.is_zero() {
                        tokio::time::sleep(delay.to_std()).await;
                    }
                }
                Err(reason) => {
                    under_way.then(RetryAction::Abort, Nanos::ZERO, None, Some(reason));
                    // The attempt that was under way has been counted as failed.
                    self.ended(target, attempts.attempt().saturating_sub(1));
                    return Err(given_up(attempts, target, reason, &order));
                }
            }
        }
    }

    /// A provider has counted the tokens of the request.
    fn learn(&self, target: &str, policy: &ModelPolicy, usage: Option<Usage>) {
        if let Some((counted, usage)) = self.tokens.zip(usage)
            && policy.tokens.learn.value
        {
            let counted = self.inner.with_added(target, counted);
            self.inner.session.learned(|_, scales| scales.learn(target, counted, usage.input));
        }
    }

    /// So many attempts at a target, and there is no other.
    fn ended(&self, target: &str, attempts: u32) {
        self.inner.count(MetricName::RetryAttempts, format!("model {target}"), attempts.into());
    }

    fn failed<E: Classify>(
        &self,
        rules: &Policy,
        retry: &RetryPolicy,
        attempts: &mut Attempts<'_, E>,
        cause: Cause<E>,
        target: &str,
    ) -> Verdict {
        let classified = cause.advised(cause.classified(rules), retry);
        let class = classified.class;
        let account = Account { inner: &self.inner, retry, kind: "model", name: target };
        let (attempt, received) = (attempts.attempt(), cause.received());
        let now = self.inner.clock.now();
        let facts = cause.case(classified, retry, Obstacle::None);
        let mut verdict = attempts.failed(cause, facts, account, now);
        if received > 0 {
            self.inner.in_span(rules, || trace::retracted(target, attempt, received));
        }
        if received > 0 && rules.turn().after_partial.value == AfterPartial::Fail {
            account.take_back(verdict, class, now);
            verdict = Verdict::Stop(StopReason::AfterPartial);
        }
        if rules.session().listens(Trigger::ModelFailed) {
            let message = attempts.last_message();
            let event = json!({
                "target": target, "attempt": attempt, "error_type": class, "message": message,
                "received": received,
            });
            if self.inner.reduce(rules, Trigger::ModelFailed, &event).is_some() {
                account.take_back(verdict, class, now);
                verdict = Verdict::Stop(StopReason::ReducerError);
            }
        }
        verdict
    }
}

/// One call among its models.
struct Turn<'a> {
    guard: &'a Inner,
    rules: &'a Policy,
    targets: &'a [String],
    policies: &'a [Arc<ModelPolicy>],
}

/// What comes after a failed attempt.
struct Then {
    delay: Nanos,
    action: RetryAction,
    /// Why the model is asked no more.
    reason: Option<StopReason>,
    /// Whether the next attempt counts together with those so far.
    together: bool,
}

impl<'a> Turn<'a> {
    /// The model that is due, and its rules.
    fn at(&self, order: &Rotation) -> (&'a str, &'a ModelPolicy) {
        let place = order.current();
        let (Some(target), Some(policy)) = (self.targets.get(place), self.policies.get(place)) else {
            unreachable!("a rotation stays within its models")
        };
        (target, policy)
    }

    /// When the first attempt starts. Only deadlines need to know.
    fn start(&self) -> Instant {
        let limited = self.policies.iter().find(|policy| policy.retry.deadline.value != Bound::Unlimited);
        limited.map_or_else(Instant::default, |policy| start(&policy.retry, self.guard))
    }

    /// Begins with the first model that does not rest and whose window is large enough.
    fn begin(&self, tokens: Option<u64>) -> Result<Rotation, Box<Refusal>> {
        let now = self.guard.clock.now();
        let fits = |place: usize| {
            let named = self.targets.get(place).zip(self.policies.get(place));
            tokens.zip(named).is_none_or(|(tokens, (target, policy))| {
                let known = self.guard.session.learned(|windows, scales| {
                    let request = self.guard.with_added(target, tokens);
                    (windows.of(target, policy).window, scales.expected(target, request))
                });
                known.0.holds(known.1, policy.output_reserve.value.get())
            })
        };
        let order = Rotation::begin(self.targets.len(), |place| self.rests(place, now), fits);
        let Some(tokens) = tokens else { return Ok(order) };
        let next = fits(order.current()).then(|| self.at(&order).0);
        for (place, target) in self.targets.iter().enumerate() {
            if !fits(place) {
                let remaining = next.map_or(0, |_| order.remaining(self.targets.len()));
                let told = passed_over(target.clone(), next.map(str::to_owned), remaining, tokens);
                self.guard.models.passed_over(target, self.rules);
                self.guard.in_span(self.rules, || trace::turn_retry(&told));
            }
        }
        let Some(next) = next else {
            let message = format!("{tokens} tokens are too many for the window of every model");
            let (class, delay) = (ErrorClass::ContextOverflow, Nanos::ZERO);
            return Err(Box::new(Refusal { class, message, delay, last_turn: false }));
        };
        self.guard.models.remaining(next, tokens, self.rules);
        Ok(order)
    }

    /// Goes on to the model that is due.
    fn next<E: Classify>(
        &self,
        order: &mut Rotation,
        policy: &ModelPolicy,
        target: &str,
        attempts: &mut Attempts<'_, E>,
        verdict: Verdict,
    ) -> Result<Then, StopReason> {
        let rules = &self.rules.turn().targets;
        let (class, hint, now) = (attempts.last_class(), attempts.last_hint(), self.guard.clock.now());
        let before = order.current();
        let rest = || {
            if class.is_some_and(ErrorClass::is_of_target) && self.policies.len() > 1 {
                self.guard.session.resting(|resting| resting.add(target, policy, hint, now));
            }
        };
        let (fate, reason) = match verdict {
            Verdict::Retry { delay, .. } => (Fate::again(class, delay), None),
            Verdict::Stop(reason) => {
                rest();
                let progress = attempts.progress();
                let late = missed(&policy.retry, progress, None, now, Nanos::ZERO).is_some();
                // What there is of them counts the next one already.
                let failed = progress.attempt.saturating_sub(1);
                let goes_on = |class| goes_on(rules, policy, reason, class, failed, late);
                if !class.is_some_and(goes_on) {
                    return Err(reason);
                }
                (Fate::Leave, Some(reason))
            }
        };
        let progress = attempts.before_wait();
        let (most, waited) = (self.rules.turn().total_delay.value, order.waited());
        let in_time = |place: usize, delay| {
            let next = self.policies.get(place);
            let patient = most.length().is_none_or(|most| waited.saturating_add(delay) <= most);
            patient && next.is_some_and(|next| missed(&next.retry, progress, None, now, delay).is_none())
        };
        let rests = |place| self.rests(place, now);
        match order.failed(rules, self.policies.len(), fate, rests, in_time, now) {
            Next::Ask { delay, target: next } => {
                if next != before && reason.is_none() && rules.advance.value == Advance::Rotate {
                    rest();
                }
                let action = if reason.is_none() { RetryAction::Retry } else { RetryAction::SkipProvider };
                attempts.waits(delay);
                order.waits(delay);
                if action == RetryAction::Retry {
                    self.guard.count(MetricName::RetryDelaySeconds, format!("model {target}"), delay.0);
                }
                let together = action == RetryAction::Retry || rules.advance.value.is_one_series();
                Ok(Then { delay, action, reason, together })
            }
            Next::Nobody => Err(reason.unwrap_or(StopReason::Attempts)),
            Next::Late => {
                attempts.waits(Nanos::ZERO);
                let Verdict::Retry { delay, .. } = verdict else {
                    return Err(reason.unwrap_or(StopReason::Deadline));
                };
                // A wait that is too long is one for this model: another one may be asked without it.
                let too_long = most.length().is_some_and(|most| waited.saturating_add(delay) > most);
                let reason = if too_long { StopReason::TotalDelay } else { StopReason::Deadline };
                self.next(order, policy, target, attempts, Verdict::Stop(reason))
            }
        }
    }

    fn rests(&self, place: usize, now: Instant) -> bool {
        let (Some(target), Some(policy)) = (self.targets.get(place), self.policies.get(place)) else {
            return false;
        };
        self.guard.session.resting(|resting| resting.holds(target, policy, now))
    }
}

impl Inner {
    /// The models a turn is offered to.
    fn targets(&self) -> Vec<String> {
        if self.targets.is_empty() { vec!["default".to_owned()] } else { self.targets.clone() }
    }
}

fn given_up<E: Classify>(
    attempts: Attempts<'_, E>,
    target: &str,
    reason: StopReason,
    order: &Rotation,
) -> CallError<E> {
    let (exhausted, last) =
        attempts.exhausted(format!("model {target}"), reason, |number| order.is_own(number));
    CallError::Exhausted(Box::new(GivenUp { message: exhausted.to_string(), exhausted, last }))
}
