//! The guard of one tool.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use super::attempt::{CallContext, Cause, apart, start, within};
use super::plain::{ToolCell, most_at_once};
use super::run::{GuardRun, Proposed};
use super::{CallArguments, CallError, ClassifyError, GuardParts};
use crate::engine::{EffectState, Interpreter, PlainCall, PlainEnd, PlainFailure, PlainRules, ToolOutcome};
use crate::host::ProposalError;
use crate::host::driven::locked::AfterFailure;
use crate::host::telemetry::spans;
use crate::host::trace;
use crate::policy::{CallOverride, Policy, ToolPolicy};
use crate::time::{Instant, Nanos};

/// The guard of one tool.
#[derive(Clone)]
pub struct ToolGuard {
    inner: Arc<GuardParts>,
    name: Arc<str>,
    cell: Arc<ToolCell>,
    planner: Option<CallOverride>,
    /// Whether the host has asked the person that the policy wants to be asked.
    approved: bool,
    terms: ToolTerms,
    /// The terms under a newer policy, made at the first call that needs them.
    newer: Arc<Mutex<ToolTerms>>,
}

/// What is known of a tool before it is called.
#[derive(Clone)]
struct ToolTerms {
    /// Which of the guard's policies they are of.
    generation: u64,
    whole: Policy,
    rules: PlainRules,
    policy: Arc<ToolPolicy>,
    most: u64,
    /// Whether arguments that are JSON are looked at.
    looks: bool,
}

/// A call in flight of which the interpreter does not know. Dropped, it makes room for others.
struct Plain<'a> {
    guard: &'a ToolGuard,
    terms: &'a ToolTerms,
    over: bool,
}

/// What follows an attempt that failed.
enum NextAttempt<E> {
    /// Another one, after this wait.
    After(Nanos),
    /// The interpreter decides about the rest of the call.
    OfRun(Box<HandedOver<E>>),
}

/// A call that was begun without the interpreter, and ends with it.
struct HandedOver<E> {
    /// The call as a proposal, if it is one already.
    proposed: Option<Box<Proposed>>,
    /// How its last attempt ended.
    outcome: ToolOutcome,
    /// How many attempts it had.
    made: u32,
    /// The error of the last one.
    last: Option<E>,
}

impl core::fmt::Debug for ToolGuard {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("ToolGuard")
            .field("name", &self.name)
            .field("run", &self.inner.id)
            .field("approved", &self.approved)
            .finish_non_exhaustive()
    }
}

impl ToolGuard {
    pub(super) fn new(inner: Arc<GuardParts>, name: &str) -> Self {
        let name: Arc<str> = name.into();
        let cell = inner.run.cell(&name);
        let terms = ToolTerms::new(&inner, &name, false);
        let newer = Arc::new(Mutex::new(terms.clone()));
        Self { inner, name, cell, planner: None, approved: false, terms, newer }
    }

    /// The same guard with the planner's own layer for the calls made through it.
    #[must_use]
    pub fn with(mut self, planner: CallOverride) -> Self {
        self.planner = Some(planner);
        // Clones without this planner keep their terms.
        self.terms = ToolTerms::new(&self.inner, &self.name, true);
        self.newer = Arc::new(Mutex::new(self.terms.clone()));
        self
    }

    /// The same guard for calls that a person has agreed to. Without it, those that the policy wants to be agreed to
    /// (`approval: always`) are refused: a guard has nobody to ask.
    #[must_use]
    pub fn approved(mut self) -> Self {
        self.approved = true;
        self
    }

    /// Runs `run` with `args` under the policy: validated first, and again after a failure as the policy says.
    ///
    /// `args` are handed to every attempt; give a reference, an `Arc`, or `()` if there is nothing to validate.
    /// Dropping the future withdraws the call: the attempt in flight ends, and what it holds others may have.
    ///
    /// # Errors
    /// [`CallError::Refused`] if it did not run: tell the model and let it try again. [`CallError::Exhausted`] if
    /// no further attempt is made, with the history of all of them.
    #[expect(clippy::manual_async_fn, reason = "an async fn keeps every argument twice")]
    pub fn call<A, T, E, F, Fut>(
        &self,
        args: A,
        mut run: F,
    ) -> impl Future<Output = Result<T, CallError<E>>> + use<'_, A, T, E, F, Fut>
    where
        A: CallArguments + Clone,
        E: ClassifyError,
        F: FnMut(A, CallContext<'_>) -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        async move {
            let Some(mut plain) = self.enter(&args) else {
                return apart(self.call_of_run(args, run)).await;
            };
            let (number, retry) = (self.run().plain.next_call(), &plain.terms.policy.retry);
            let started = start(retry, || self.now());
            let context = CallContext::first((&self.inner.id, number), retry, started, || self.now());
            match within(context.timeout, pin!(run(args.clone(), context))).await {
                Ok(value) => {
                    plain.succeeded(1);
                    Ok(value)
                }
                Err(cause) => {
                    plain.over = true;
                    apart(self.again((number, started), args, run, cause)).await
                }
            }
        }
    }

    /// Runs `run` with the arguments of a model as it wrote them: JSON that is broken is repaired, as `turn.repair_json` in the
    /// policy says. Returns what the model reads of the result: as much as `result` of the policy allows, in its form.
    ///
    /// ```
    /// use serde_json::json;
    /// use unfazed::host::{Guard, ToolError};
    /// use unfazed::policy::Policy;
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let price = Guard::new(Policy::builtin()).tool("price");
    /// let read = price.call_text("{item: 42,}", |args, _| async move {
    ///     Ok::<_, ToolError>(json!({"of": args["item"], "cents": 1250}))
    /// });
    /// assert_eq!(read.await.unwrap(), r#"{"of":42,"cents":1250}"#);
    /// # })
    /// ```
    ///
    /// # Errors
    /// Those of [`call`](Self::call).
    pub async fn call_text<E, F, Fut>(&self, arguments: &str, mut run: F) -> Result<String, CallError<E>>
    where
        E: ClassifyError,
        F: FnMut(Arc<Value>, CallContext<'_>) -> Fut,
        Fut: Future<Output = Result<Value, E>>,
    {
        let proposed = self.propose_aside(arguments.to_owned(), self.is_long(arguments)).await?;
        let made = self.carry_out(
            proposed,
            (0, None),
            |data: &Value| Some(data.clone()),
            |tool| run(Arc::new(tool.arguments.clone()), CallContext::of(tool)),
        );
        Ok(made.await?.text)
    }

    /// The interpreter decides about the call from the beginning.
    async fn call_of_run<A, T, E, F, Fut>(&self, args: A, mut run: F) -> Result<T, CallError<E>>
    where
        A: CallArguments + Clone,
        E: ClassifyError,
        F: FnMut(A, CallContext<'_>) -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        let proposed = match args.as_json() {
            Some(json) => self.propose_aside(json.to_string(), self.takes_long(json)).await?,
            None => self.propose(None).await?,
        };
        let attempt = |tool: &_| run(args.clone(), CallContext::of(tool));
        Ok(self.carry_out(proposed, (0, None), |_| None, attempt).await?.value)
    }

    /// What follows the first attempt of the call of that number, which began then and failed: others, as long as the rules leave that to
    /// the guard; then the interpreter takes the call as it is.
    async fn again<A, T, E, F, Fut>(
        &self,
        (number, started): (u64, Instant),
        args: A,
        mut run: F,
        mut cause: Cause<E>,
    ) -> Result<T, CallError<E>>
    where
        A: CallArguments + Clone,
        E: ClassifyError,
        F: FnMut(A, CallContext<'_>) -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        let newer;
        let terms = match self.terms() {
            Ok(terms) => terms,
            Err(terms) => {
                newer = terms;
                &newer
            }
        };
        let mut plain = Plain { guard: self, terms, over: false };
        let mut call = PlainCall::begun(number, started);
        if let Some(args) = args.as_json() {
            call = call.with_arguments(Arc::new(args.clone()));
        }
        loop {
            match self.failed(terms, &mut call, cause)? {
                NextAttempt::After(Nanos::ZERO) => self.cell.waited_not(),
                NextAttempt::After(delay) => {
                    self.inner.waited(&self.name, delay);
                    tokio::time::sleep(delay.to_std()).await;
                }
                NextAttempt::OfRun(handed) => {
                    plain.over = true;
                    return apart(self.handed_over(call, *handed, args, run)).await;
                }
            }
            let key = (&*self.inner.id, number);
            let context = CallContext::again(key, &terms.policy.retry, &call, || self.now());
            cause = match within(context.timeout, pin!(run(args.clone(), context))).await {
                Ok(value) => {
                    plain.succeeded(context.attempt);
                    return Ok(value);
                }
                Err(cause) => cause,
            };
        }
    }

    /// What follows an attempt that failed. Its failure ends here, so that no call keeps it while it waits or runs again.
    fn failed<E: ClassifyError>(
        &self,
        terms: &ToolTerms,
        call: &mut PlainCall,
        cause: Cause<E>,
    ) -> Result<NextAttempt<E>, ProposalError> {
        let mut failure = cause.failure(&terms.whole);
        let (effect, made) = (cause.effect(), call.progress().attempt);
        let proposed = match self.plain_failed(terms, call, &mut failure, effect)? {
            AfterFailure::Retry(delay) => return Ok(NextAttempt::After(delay)),
            AfterFailure::Adopt => None,
            AfterFailure::Adopted(proposed) => Some(proposed),
        };
        let outcome = ToolOutcome::Failed { failure: failure.into(), effect };
        let last = cause.into_error();
        Ok(NextAttempt::OfRun(Box::new(HandedOver { proposed, outcome, made, last })))
    }

    fn plain_failed(
        &self,
        terms: &ToolTerms,
        call: &mut PlainCall,
        failure: &mut PlainFailure,
        effect: EffectState,
    ) -> Result<AfterFailure<Box<Proposed>>, ProposalError> {
        if !terms.rules.retries {
            return Ok(AfterFailure::Adopt);
        }
        let tool = (&*self.name, &*self.cell);
        self.run().plain_failed(tool, &terms.whole, |interpreter, state, now| {
            let now = (now, trace::is_read as fn() -> bool);
            interpreter.plain_failed(state, (tool.0, &terms.policy), call, (failure, effect), now)
        })
    }

    /// The interpreter takes the call as it is, if it has not yet, and decides about the rest of it.
    async fn handed_over<A, T, E, F, Fut>(
        &self,
        call: PlainCall,
        HandedOver { proposed, outcome, made, last }: HandedOver<E>,
        args: A,
        mut run: F,
    ) -> Result<T, CallError<E>>
    where
        A: CallArguments + Clone,
        E: ClassifyError,
        F: FnMut(A, CallContext<'_>) -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        let proposed = if let Some(proposed) = proposed {
            *proposed
        } else {
            let tool = (&*self.name, &*self.cell);
            let adopt = |interpreter: &Interpreter, state: &mut _, now| {
                interpreter.adopt(state, tool.0, call, outcome, now)
            };
            self.run().adopt(tool, adopt).await?
        };
        let attempt = |tool: &_| run(args.clone(), CallContext::of(tool));
        Ok(self.carry_out(proposed, (made, last), |_| None, attempt).await?.value)
    }

    /// Begins a call without a step, if the rules and the run allow it.
    #[inline]
    fn enter<A: CallArguments>(&self, args: &A) -> Option<Plain<'_>> {
        let terms = &self.terms;
        let is_fresh = terms.generation == self.inner.live.generation();
        let may = is_fresh && terms.rules.success && self.run().plain.are_open();
        let plain =
            (may && self.cell.enter(terms.most)).then(|| Plain { guard: self, terms, over: false })?;
        match args.as_json() {
            Some(args) if terms.looks => self.looked_at(plain, args),
            _ => Some(plain),
        }
    }

    /// The same for arguments that are looked at. Dropped, the call has not begun.
    #[inline(never)]
    fn looked_at<'a>(&'a self, plain: Plain<'a>, args: &Value) -> Option<Plain<'a>> {
        let (tool, policy) = ((&*self.name, &*plain.terms.policy), &plain.terms.whole);
        // What takes long is validated on a thread for such work.
        let may = !self.takes_long(args) && self.run().plain_begins(tool, policy, args);
        may.then_some(plain)
    }

    /// The terms under the policy that holds now.
    #[inline]
    fn terms(&self) -> Result<&ToolTerms, ToolTerms> {
        if self.terms.generation == self.inner.live.generation() {
            return Ok(&self.terms);
        }
        Err(self.newer_terms())
    }

    #[cold]
    fn newer_terms(&self) -> ToolTerms {
        let mut newer = self.newer.lock().unwrap_or_else(PoisonError::into_inner);
        if newer.generation != self.inner.live.generation() {
            *newer = ToolTerms::new(&self.inner, &self.name, self.planner.is_some());
        }
        newer.clone()
    }

    pub(super) fn run(&self) -> &GuardRun {
        &self.inner.run
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn cell(&self) -> &ToolCell {
        &self.cell
    }

    pub(super) fn inner(&self) -> &GuardParts {
        &self.inner
    }

    pub(super) const fn planner(&self) -> Option<&CallOverride> {
        self.planner.as_ref()
    }

    pub(super) const fn is_approved(&self) -> bool {
        self.approved
    }

    /// The policy that holds now.
    pub(super) fn policy(&self) -> Policy {
        self.inner.live.current()
    }

    fn now(&self) -> Instant {
        self.inner.clock.now()
    }
}

impl ToolTerms {
    fn new(inner: &GuardParts, name: &str, planned: bool) -> Self {
        let (generation, rules) = inner.live.numbered();
        let policy = rules.tool(name);
        let looks = policy.loop_guard.enabled.value
            || !policy.validate.value.is_empty()
            || inner.tools.schema(name).is_some();
        let (most, plain, whole) = (most_at_once(&policy), PlainRules::of(&rules, name), rules);
        // Without the run there are no spans.
        let is_seen = planned || inner.recorded || spans::are_read();
        let rules = if is_seen { PlainRules::default() } else { plain };
        Self { generation, whole, rules, policy, most, looks }
    }
}

impl Plain<'_> {
    /// The call went well after so many attempts.
    #[inline]
    fn succeeded(&mut self, attempts: u32) {
        self.over = true;
        self.guard.cell.succeeded(attempts);
        if !self.guard.cell.leave_unseen() {
            self.end(PlainEnd::Succeeded);
        }
    }

    /// A failure of the tool is known, or the run counts the call: the call reports its end.
    #[cold]
    fn end(&self, end: PlainEnd) {
        let ToolGuard { name, cell, .. } = self.guard;
        self.guard.run().plain_ended((name, cell), &self.terms.policy, end);
    }
}

impl Drop for Plain<'_> {
    #[inline]
    fn drop(&mut self) {
        if !self.over && !self.guard.cell.leave_unseen() {
            self.end(PlainEnd::Dropped);
        }
    }
}
