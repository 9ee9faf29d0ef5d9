//! The guard of one tool.

use std::future::Future;
use std::num::NonZeroU32;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use super::attempts::{Attempts, Cause, context, start, within};
use super::budget::Account;
use super::seat::Seat;
use super::session::{Failed, ToolCell};
use super::{Arguments, CallContext, CallError, Classify, GivenUp, Inner, Refusal};
use crate::engine::retry::{Case, Obstacle, Verdict};
use crate::engine::{Admission, MetricName, join_problems, may_run_again, violations};
use crate::policy::{
    Approval, Budget, CallOverride, Classified, Effect, ErrorClass, Policy, Problem, Seed, Setting, Template,
    ToolPolicy, Trigger,
};
use crate::session::{AttemptRecord, ReducerError, RetryExhausted, StopReason};
use crate::time::Nanos;

/// The guard of one tool.
#[derive(Clone)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "what is known before a call, so that the call need not look"
)]
pub struct ToolGuard {
    pub(super) inner: Arc<Inner>,
    pub(super) name: Arc<str>,
    /// Which of the guard's policies the rest is taken from.
    pub(super) generation: u64,
    pub(super) rules: Policy,
    pub(super) policy: Arc<ToolPolicy>,
    planner: Option<CallOverride>,
    /// Whether the host has asked the person that the policy wants to be asked.
    approved: bool,
    effect: Effect,
    cell: Arc<ToolCell>,
    /// Whether single calls have rules of their own.
    pub(super) per_call: bool,
    /// Whether arguments are looked at before a run.
    checked: bool,
    /// Whether a success is to be told: to a reducer, or to a budget.
    listens: bool,
    /// The same guard under a newer policy, made at the first call that needs it.
    newer: Arc<Mutex<Option<Arc<Self>>>>,
}

impl core::fmt::Debug for ToolGuard {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("ToolGuard")
            .field("name", &self.name)
            .field("run", &self.inner.run)
            .field("approved", &self.approved)
            .finish_non_exhaustive()
    }
}

impl ToolGuard {
    pub(super) fn new(inner: Arc<Inner>, name: &str) -> Self {
        let (generation, rules) = inner.live.numbered();
        let policy = rules.tool(name);
        let effect = match policy.effect.value {
            Effect::Unknown => inner.tools.get(name).and_then(|spec| spec.effect).unwrap_or(Effect::Unknown),
            known => known,
        };
        let per_call = rules.has_call_rules(name);
        let checked = per_call
            || inner.tools.schema(name).is_some()
            || !policy.validate.value.is_empty()
            || policy.approval.value == Approval::Always;
        Self {
            name: name.into(),
            effect,
            cell: inner.session.tool(name, &rules, &policy.breaker),
            per_call,
            checked,
            listens: per_call
                || policy.retry.budget.value != Budget::None
                || rules.session().listens(Trigger::ToolSucceeded),
            newer: Arc::default(),
            planner: None,
            approved: false,
            generation,
            rules,
            policy,
            inner,
        }
    }

    /// The same guard with the planner's own layer for the calls made through it.
    #[must_use]
    pub fn with(mut self, planner: CallOverride) -> Self {
        self.planner = Some(planner);
        // Clones without this planner go on with theirs.
        self.newer = Arc::default();
        self.per_call = true;
        self.checked = true;
        self.listens = true;
        self
    }

    /// The same guard for calls that a person has agreed to. Without it, those that the policy wants to be agreed to
    /// (`approval: always`) are refused: a guard has nobody to ask.
    #[must_use]
    pub fn approved(mut self) -> Self {
        self.approved = true;
        // Clones that are not approved go on without it.
        self.newer = Arc::default();
        self
    }

    /// The same guard under the policy that is in force now.
    #[cold]
    pub(super) fn renewed(&self) -> Arc<Self> {
        let mut newer = self.newer.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(guard) = &*newer
            && guard.generation == self.inner.live.generation()
        {
            return Arc::clone(guard);
        }
        let mut new = Self::new(Arc::clone(&self.inner), &self.name);
        new.approved = self.approved;
        let new = Arc::new(match self.planner.clone() {
            Some(planner) => new.with(planner),
            None => new,
        });
        *newer = Some(Arc::clone(&new));
        new
    }

    /// Runs `run` with `args` under the policy: validated first, and again after a failure as the policy says.
    ///
    /// `args` are handed to every attempt; give a reference, an `Arc`, or `()` if there is nothing to validate.
    /// Dropping the future stops everything: the attempt under way, the wait, and a breaker's probe, which is
    /// given back.
    ///
    /// # Errors
    /// [`CallError::Refused`] if it did not run: tell the model and let it try again. [`CallError::Exhausted`] if
    /// no further attempt is made, with the history of all of them.
    #[expect(clippy::manual_async_fn, reason = "an async fn keeps every argument twice")]
    pub fn call<A, T, E, F, Fut>(&self, args: A, mut run: F) -> impl Future<Output = Result<T, CallError<E>>>
    where
        A: Arguments + Clone,
        E: Classify,
        F: FnMut(A, CallContext<'_>) -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        async move {
            let stale = self.generation != self.inner.live.generation();
            let looked_at = self.checked || stale || (self.counted() && args.as_json().is_some());
            let examined = match if looked_at { self.long_validation(&args) } else { None } {
                Some(validation) => validation.await.ok(),
                None => None,
            };
            let own = if looked_at { self.own(&args, stale, examined)? } else { None };
            let (this, policy) = self.in_force(own.as_deref());
            let (seat, probe) = match this.cell.enter_at_once(most_at_once(policy)) {
                Some(seat) => (seat, None),
                None => Box::pin(this.admit(policy)).await.map_err(CallError::Refused)?,
            };
            let call = this.inner.next_call();
            let started = start(&policy.retry, &this.inner);
            let context = context(&policy.retry, &this.inner, call, started, 1);
            let cause = match within(context.timeout, pin!(run(args.clone(), context))).await {
                Ok(value) => {
                    let (this, policy) = self.in_force(own.as_deref());
                    this.recovered();
                    // Another call may have failed meanwhile; it hears of this success.
                    if probe.is_none() && this.cell.is_quiet() && !this.listens {
                        this.cell.succeeded_at_once();
                    } else {
                        this.succeeded(policy, probe, (1, None), args.as_json());
                    }
                    return Ok(value);
                }
                Err(cause) => cause,
            };
            // Asked for again rather than carried over the wait; and the rest on the heap, so that a call that goes
            // well does not carry the room for retries around.
            let (this, policy) = self.in_force(own.as_deref());
            let attempts = Attempts::new(&policy.retry, &this.inner, call, started);
            Box::pin(this.go_on(policy, attempts, (seat, probe), args, run, cause)).await
        }
    }

    /// What follows a first attempt that failed.
    #[expect(clippy::manual_async_fn, reason = "an async fn keeps every argument twice")]
    fn go_on<'a, A, T, E, F, Fut>(
        &'a self,
        policy: &'a ToolPolicy,
        mut attempts: Attempts<'a, E>,
        (seat, probe): (Seat<'a>, Option<Probe<'a>>),
        args: A,
        mut run: F,
        mut cause: Cause<E>,
    ) -> impl Future<Output = Result<T, CallError<E>>>
    where
        A: Arguments + Clone,
        E: Classify,
        F: FnMut(A, CallContext<'_>) -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        async move {
            let _until_the_end = seat;
            loop {
                let classified = cause.classified(&self.rules);
                // The tool itself says that the arguments are wrong: the same ones again cannot help.
                if classified.class == ErrorClass::InvalidArgs {
                    let problem = Problem { pointer: String::new(), message: cause.message() };
                    return Err(self.correct(policy, &[problem], args.as_json()));
                }
                match self.failed(policy, probe.is_some(), &mut attempts, cause, classified) {
                    Next::Again(Nanos::ZERO) => {}
                    Next::Again(delay) => tokio::time::sleep(delay.to_std()).await,
                    Next::Stop(reason, objection) => {
                        settle(probe);
                        let objection = objection.as_deref();
                        return Err(self.exhausted(policy, attempts, reason, objection, args.as_json()));
                    }
                }
                let context = attempts.context();
                cause = match within(context.timeout, pin!(run(args.clone(), context))).await {
                    Ok(value) => {
                        let attempts = (attempts.attempt(), attempts.last_class());
                        self.recovered();
                        self.succeeded(policy, probe, attempts, args.as_json());
                        return Ok(value);
                    }
                    Err(cause) => cause,
                };
            }
        }
    }

    /// Whether calls are looked at for repetitions.
    #[inline]
    fn counted(&self) -> bool {
        self.policy.loop_guard.enabled.value
    }

    /// Holds arguments against their schema off the threads of the runtime, where that takes long.
    #[inline]
    fn long_validation<A: Arguments>(&self, args: &A) -> Option<JoinHandle<Vec<Problem>>> {
        let args = args.as_json()?;
        let schema = self.inner.tools.schema(&self.name).filter(|schema| schema.takes_long(args))?;
        let (schema, args) = (schema.clone(), args.clone());
        let runtime = Handle::try_current().ok()?;
        Some(runtime.spawn_blocking(move || schema.problems(&args)))
    }

    /// What the call has of its own, once its arguments hold.
    #[inline(never)]
    fn own<A: Arguments, E>(
        &self,
        args: &A,
        stale: bool,
        examined: Option<Vec<Problem>>,
    ) -> Result<Option<Box<Own>>, CallError<E>> {
        let guard = stale.then(|| self.renewed());
        let this = guard.as_deref().unwrap_or(self);
        let policy = if this.checked || this.counted() { this.examine(args, examined)? } else { None };
        let own = guard.is_some() || policy.is_some();
        Ok(own.then(|| Box::new(Own { guard, policy })))
    }

    /// The guard and the rules that hold for a call.
    #[inline]
    fn in_force<'a>(&'a self, own: Option<&'a Own>) -> (&'a Self, &'a ToolPolicy) {
        let Some(own) = own else { return (self, &self.policy) };
        let this = own.guard.as_deref().unwrap_or(self);
        (this, own.policy.as_deref().unwrap_or(&this.policy))
    }

    /// Holds the arguments against the schema and the validators. Returns the call's own policy if it has one. `examined` is
    /// what the schema has against them, if that is known.
    fn examine<A: Arguments, E>(
        &self,
        args: &A,
        examined: Option<Vec<Problem>>,
    ) -> Result<Option<Arc<ToolPolicy>>, CallError<E>> {
        let Some(args) = args.as_json() else {
            let planned = self.planner.is_some().then(|| self.policy_of_call(&Value::Null));
            self.agreed_to(planned.as_deref().unwrap_or(&self.policy))?;
            return Ok(planned);
        };
        if let Some(refusal) = self.repeated(args) {
            return Err(CallError::Refused(refusal));
        }
        let policy = self.per_call.then(|| self.policy_of_call(args));
        let rules = policy.as_deref().unwrap_or(&self.policy);
        let by_schema = || self.inner.tools.schema(&self.name).map(|schema| schema.problems(args));
        let mut problems = examined.or_else(by_schema).unwrap_or_default();
        if problems.is_empty() {
            let vars = || json!({ "args": args, "tool": &*self.name });
            problems = violations(&rules.validate.value, vars);
        }
        if !problems.is_empty() {
            return Err(self.correct(rules, &problems, Some(args)));
        }
        self.agreed_to(rules)?;
        Ok(policy)
    }

    /// Refuses what a person would have to agree to and has not.
    fn agreed_to<E>(&self, policy: &ToolPolicy) -> Result<(), CallError<E>> {
        if self.approved || policy.approval.value == Approval::Never {
            return Ok(());
        }
        let vars = json!({ "tool": &*self.name, "answered": false });
        let message = self.say(&policy.messages.not_approved, &vars);
        Err(CallError::Refused(Box::new(self.refused(policy, ErrorClass::PermissionDenied, message))))
    }

    /// The model is told that the call did not run, and so are reducers.
    fn refused(&self, policy: &ToolPolicy, class: ErrorClass, mut message: String) -> Refusal {
        let event = json!({ "tool": &*self.name, "error_type": class, "message": message });
        if let Some(error) = self.inner.reduce(&self.rules, Trigger::ToolRefused, &event) {
            message = self.reducer_text(policy, &error);
        }
        Refusal { class, message, delay: Nanos::ZERO, last_turn: false }
    }

    pub(super) fn policy_of_call(&self, args: &Value) -> Arc<ToolPolicy> {
        let rules = self.rules.call(&self.name, args, self.planner.as_ref());
        for left_out in &rules.left_out {
            tracing::warn!(
                correlation_id = self.inner.run,
                tool = &*self.name,
                left_out,
                "a rule for single calls is left out"
            );
        }
        rules.policy
    }

    /// Arguments that do not hold count as an attempt of the tool; the next valid ones start anew.
    #[cold]
    fn correct<E>(&self, policy: &ToolPolicy, problems: &[Problem], args: Option<&Value>) -> CallError<E> {
        let now = self.inner.clock.now();
        let class = ErrorClass::InvalidArgs;
        let mut series = self.cell.corrections(now);
        let most = policy.retry.for_class(class).max_attempts.value;
        // Tighter rules of one call have ended nothing but that one.
        let over = series.resume(most);
        let progress = series.progress();
        let attempt = progress.attempt;
        let obstacle = Obstacle::None;
        let case = Case { class, hint: None, assumed: false, obstacle, run_deadline: None, correction: true };
        let account = self.account(policy);
        let seed = || Seed::new(self.inner.seed, "correction", &self.name);
        let mut verdict = over.map_or_else(|| account.decide(progress, case, now, seed), Verdict::Stop);
        let message = join_problems(problems);
        let objection = if over.is_none() && policy.retry.retries(class) {
            let next_delay = verdict.delay();
            let failed = Failed { tool: &self.name, attempt, class, message: message.clone(), next_delay };
            self.inner.feedback(&self.rules, &policy.retry, failed, now)
        } else {
            None
        };
        if objection.is_some() {
            account.take_back(verdict, class, now);
            verdict = Verdict::Stop(StopReason::ReducerError);
        }
        series.record(class, &message, now, verdict.delay());
        match verdict {
            Verdict::Retry { delay, .. } => {
                self.inner.count(MetricName::RetryDelaySeconds, self.action(), delay.0);
                let vars = json!({
                    "tool": &*self.name, "attempt": attempt, "max_attempts": most.limit(), "problems": problems,
                });
                let mut text = self.say(&policy.messages.invalid_args, &vars);
                let event = json!({ "tool": &*self.name, "error_type": class, "message": text });
                if let Some(error) = self.inner.reduce(&self.rules, Trigger::ToolRefused, &event) {
                    text = self.reducer_text(policy, &error);
                    series.over = Some(StopReason::ReducerError);
                }
                self.cell.keep_corrections(series);
                self.repeats_error(class, &message);
                CallError::Refused(Box::new(Refusal { class, message: text, delay, last_turn: false }))
            }
            Verdict::Stop(reason) => {
                series.over = Some(reason);
                let attempts = series.history.clone();
                self.cell.keep_corrections(series);
                let exhausted = self.corrections_over(attempts, reason);
                self.given_up(policy, exhausted, objection.as_ref(), args, None)
            }
        }
    }

    fn corrections_over(&self, attempts: Vec<AttemptRecord>, reason: StopReason) -> RetryExhausted {
        RetryExhausted { action: self.action(), reason, attempts, retry_after: None }
    }

    /// Asks the breaker, and waits while another failure could be one too many.
    #[cold]
    async fn admit(&self, policy: &ToolPolicy) -> Result<(Seat<'_>, Option<Probe<'_>>), Box<Refusal>> {
        let most = policy.concurrency.value.limit();
        let ask = || self.cell.ask(&policy.breaker, most, || self.inner.clock.now());
        let (admission, seat) = self.cell.seats.wait_for(ask).await;
        match admission {
            Admission::Run => Ok((seat, None)),
            Admission::Probe => Ok((seat, Some(Probe(self)))),
            Admission::Refused => {
                let vars = json!({ "tool": &*self.name, "failures": self.cell.failures() });
                let message = self.say(&policy.breaker.message, &vars);
                Err(Box::new(self.refused(policy, ErrorClass::CircuitOpen, message)))
            }
        }
    }

    /// A call went well, but not simply: after failures, as a probe, or with somebody listening.
    #[cold]
    fn succeeded(
        &self,
        policy: &ToolPolicy,
        probe: Option<Probe<'_>>,
        (attempts, after): (u32, Option<ErrorClass>),
        args: Option<&Value>,
    ) {
        let is_probe = probe.is_some();
        settle(probe);
        let corrected = self.cell.succeeded(&policy.breaker, is_probe, attempts, || self.inner.clock.now());
        let after = after.or(corrected.then_some(ErrorClass::InvalidArgs));
        self.inner.earn(&self.action(), &policy.retry, after);
        if self.listens {
            let event = json!({ "tool": &*self.name, "attempts": attempts, "arguments": args });
            self.inner.reduce(&self.rules, Trigger::ToolSucceeded, &event);
        }
    }

    fn failed<E: Classify>(
        &self,
        policy: &ToolPolicy,
        is_probe: bool,
        attempts: &mut Attempts<'_, E>,
        cause: Cause<E>,
        classified: Classified,
    ) -> Next {
        let class = classified.class;
        let now = self.inner.clock.now();
        let open = self.cell.failed(&policy.breaker, is_probe, now);
        let obstacle = if !may_run_again(self.effect, cause.effect()) {
            Obstacle::MayHaveActed
        } else if open {
            Obstacle::CircuitOpen
        } else {
            Obstacle::None
        };
        let (attempt, account) = (attempts.attempt(), self.account(policy));
        let facts = cause.case(classified, &policy.retry, obstacle);
        let verdict = attempts.failed(cause, facts, account, now);
        if policy.retry.emit_feedback.value && policy.retry.retries(class) {
            let (message, next_delay) = (attempts.last_message(), verdict.delay());
            let failed = Failed { tool: &self.name, attempt, class, message, next_delay };
            if let Some(error) = self.inner.feedback(&self.rules, &policy.retry, failed, now) {
                account.take_back(verdict, class, now);
                return Next::Stop(StopReason::ReducerError, Some(Box::new(error)));
            }
        }
        match verdict {
            Verdict::Retry { delay, .. } => {
                if !delay.is_zero() {
                    self.inner.count(MetricName::RetryDelaySeconds, self.action(), delay.0);
                }
                Next::Again(delay)
            }
            Verdict::Stop(reason) => Next::Stop(reason, None),
        }
    }

    #[cold]
    fn exhausted<E: Classify>(
        &self,
        policy: &ToolPolicy,
        attempts: Attempts<'_, E>,
        reason: StopReason,
        objection: Option<&ReducerError>,
        args: Option<&Value>,
    ) -> CallError<E> {
        let (exhausted, last) = attempts.exhausted(self.action(), reason, |_| true);
        self.given_up(policy, exhausted, objection, args, last)
    }

    fn given_up<E>(
        &self,
        policy: &ToolPolicy,
        exhausted: RetryExhausted,
        objection: Option<&ReducerError>,
        args: Option<&Value>,
        last: Option<E>,
    ) -> CallError<E> {
        tracing::error!(
            correlation_id = self.inner.run,
            policy = self.rules.digest(),
            action = exhausted.action,
            reason = exhausted.reason.name(),
            "attempts exhausted"
        );
        let failure = exhausted.attempts.last();
        let (error_type, error) = failure.map_or((None, ""), |f| (Some(f.error_type), f.message.as_str()));
        let count = exhausted.attempts.len();
        let subject = exhausted.action.clone();
        self.inner.count(MetricName::RetryAttempts, subject, u64::try_from(count).unwrap_or(u64::MAX));
        let event = json!({
            "tool": &*self.name, "attempts": count, "arguments": args, "error_type": error_type, "message": error,
            "reason": exhausted.reason,
        });
        let refused = self.inner.reduce(&self.rules, Trigger::ToolFailed, &event);
        let message = if let Some(objection) = objection.or(refused.as_ref()) {
            self.reducer_text(policy, objection)
        } else {
            let vars = json!({
                "tool": &*self.name, "error": error, "error_type": error_type, "attempts": count,
                "may_have_acted": exhausted.reason == StopReason::MayHaveActed,
            });
            let used_up = exhausted.reason.used_up();
            let template = if used_up { &policy.messages.exhausted } else { &policy.messages.failed };
            let text = self.say(template, &vars);
            let failed = exhausted.attempts.last();
            match failed {
                Some(failed) => self.show_failure(policy, failed.error_type, &failed.message, text),
                None => text,
            }
        };
        if let Some(failed) = exhausted.attempts.last() {
            self.repeats_error(failed.error_type, &failed.message);
        }
        CallError::Exhausted(Box::new(GivenUp { exhausted, message, last }))
    }

    fn account<'a>(&'a self, policy: &'a ToolPolicy) -> Account<'a> {
        Account { inner: &self.inner, retry: &policy.retry, kind: "tool", name: &self.name }
    }

    pub(super) fn action(&self) -> String {
        format!("tool {}", self.name)
    }

    pub(super) fn reducer_text(&self, policy: &ToolPolicy, error: &ReducerError) -> String {
        let vars = json!({ "tool": &*self.name, "reducer": error.reducer, "error": error.message });
        self.say(&policy.messages.reducer_error, &vars)
    }

    pub(super) fn say(&self, template: &Setting<Template>, vars: &Value) -> String {
        self.inner.say(&self.rules, &template.value, vars).unwrap_or_else(|error| error.to_string())
    }
}

/// What a call has of its own: a guard under a newer policy, and rules for this call alone.
struct Own {
    guard: Option<Arc<ToolGuard>>,
    policy: Option<Arc<ToolPolicy>>,
}

/// As many calls as may run while no failure is known: those whose failures the breaker bears, and no more than the policy
/// lets run at once.
#[inline]
fn most_at_once(policy: &ToolPolicy) -> Option<NonZeroU32> {
    let (failures, concurrency) = (policy.breaker.failures.value, policy.concurrency.value.limit());
    match (failures, concurrency.and_then(NonZeroU32::new)) {
        (Some(failures), Some(concurrency)) => Some(failures.min(concurrency)),
        (failures, concurrency) => failures.or(concurrency),
    }
}

/// What comes after a failed attempt.
enum Next {
    Again(Nanos),
    Stop(StopReason, Option<Box<ReducerError>>),
}

/// The one probe of a half-open breaker. It is given back if the call is dropped before it ends.
struct Probe<'a>(&'a ToolGuard);

impl Drop for Probe<'_> {
    fn drop(&mut self) {
        self.0.cell.returned(self.0.inner.clock.now());
    }
}

/// The call has ended, and the breaker knows how: the probe is used up.
fn settle(probe: Option<Probe<'_>>) {
    std::mem::forget(probe);
}
