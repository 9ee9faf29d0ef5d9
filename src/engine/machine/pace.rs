//! Calls that wait for their turn under the pace of a tool or a model.

use super::outage_gate::CallOutcome;
use super::pace_pool::{LearnedBound, PaceRule, PaceTerms};
use super::pace_pools::{PaceAnswer, PaceTicket};
use super::pending_delay::WaitSubject;
use super::run_parts::RunParts;
use super::work_table::WorkPurpose;
use crate::engine::because::ShownValue;
use crate::engine::cooldowns::cooldown_key;
use crate::engine::event::DriveMode;
use crate::engine::failure::Failure;
use crate::engine::metric::MetricName;
use crate::engine::provider_limit::ProviderLimit;
use crate::engine::reason::StoredReason;
use crate::engine::shared_pace::SharingScope;
use crate::policy::{
    CooldownScope, ErrorClass, ModelPolicy, PaceBreaker, PaceLearning, PaceLimit, PacePool, Policy,
    RetryPolicy, ServerDelayMode, Setting, ToolPolicy,
};
use crate::time::{Instant, Nanos};

/// How long before its deadline a call gives up that waits for the end of another.
const SHORTEST: Nanos = Nanos::from_secs(1);

/// Whether a call starts under its pace.
#[must_use]
pub(in crate::engine) enum PaceStep {
    /// It starts now.
    Start,
    /// It waits; the wait was requested.
    Wait,
    /// It would start too late.
    TooLate {
        /// The wait it would have needed, as far as it is known now.
        wait: Nanos,
        /// The limit that holds it back.
        why: StoredReason,
    },
}

/// A call that is about to start.
pub(in crate::engine) struct PacedStart<'p> {
    pub(in crate::engine) rules: PaceRules<'p>,
    pub(in crate::engine) ticket: &'p mut PaceTicket,
    pub(in crate::engine) purpose: WorkPurpose,
    /// What waits: `tool search`, `model main`.
    pub(in crate::engine) name: String,
    pub(in crate::engine) attempt: u32,
    pub(in crate::engine) max_attempts: Option<u32>,
    /// The tokens of its request.
    pub(in crate::engine) request: u64,
    /// Whether a start after this wait is too late for its attempt.
    pub(in crate::engine) late: &'p dyn Fn(Nanos) -> bool,
}

/// The policy of the tool or the model that is called.
#[derive(Clone, Copy)]
pub(in crate::engine) enum PaceRules<'p> {
    Tool(&'p str, &'p ToolPolicy),
    Model(&'p str, &'p ModelPolicy),
}

/// The name of the pool that paces the calls of a model.
pub(crate) fn pool_of_model(target: &str, policy: &ModelPolicy) -> String {
    match &policy.pace.pool.value {
        PacePool::Provider => cooldown_key(target, policy),
        PacePool::Named(name) => format!("pool {name}"),
    }
}

/// The name of the pool that paces the runs of a tool; `None`: they have no pace.
pub(crate) fn pool_of_tool(tool: &str, policy: &ToolPolicy) -> Option<String> {
    // Tools without a pace are independent of each other: what one call's answer asks for may concern its arguments alone.
    policy.pace.requests.value.rate().map(|_| match &policy.pace.pool.value {
        CooldownScope::Own => format!("tool {tool}"),
        CooldownScope::Named(name) => format!("pool {name}"),
    })
}

impl RunParts<'_> {
    /// Starts a call if its pace allows it now; otherwise it waits for its turn.
    pub(in crate::engine) fn pace(&mut self, start: PacedStart<'_>) -> PaceStep {
        let (now, rules) = (self.out.now, start.rules);
        let Some(terms) = rules.terms(start.request) else { return PaceStep::Start };
        let call = matches!(rules, PaceRules::Model(..)).then_some(self.proposal);
        let asked = self.pace.ask(&terms, start.ticket, call, now);
        let (until, by, waits) = match asked {
            PaceAnswer::Started => return PaceStep::Start,
            PaceAnswer::Later { until, by, is_open, ahead, call } => {
                let until = if is_open { in_time(until, now, start.late) } else { until };
                (until, by, Some((ahead, call.until(until))))
            }
            PaceAnswer::TooLate { until, by } => (until, by, None),
        };
        let wait = until.since(now);
        let Some((ahead, waiting)) = waits.filter(|_| !(start.late)(wait)) else {
            *start.ticket = start.ticket.rested();
            let facts = vec![format!("the call would wait {}", wait.rounded())];
            let why = rules.because(self.policy(), by, self.with_pool(&terms.pool, by, facts));
            return PaceStep::TooLate { wait, why };
        };
        let fact = match ahead {
            0 => format!("it is the next call of {}", terms.pool),
            1 => format!("1 call of {} is ahead of it", terms.pool),
            more => format!("{more} calls of {} are ahead of it", terms.pool),
        };
        let facts = self.with_pool(&terms.pool, by, vec![fact.clone()]);
        let why = rules.because(self.policy(), by, facts);
        self.out.count(MetricName::PaceWaitSeconds, terms.pool.clone(), wait.0);
        let PacedStart { name, attempt, max_attempts, purpose, .. } = start;
        let subject = WaitSubject {
            name,
            attempt,
            max_attempts,
            error_type: ErrorClass::RateLimit,
            message: fact,
            pool: Some(terms.pool.clone()),
        };
        let why = why.told(self.policy());
        let work = self.wait(purpose, wait, subject, vec![why]);
        self.pace.wait(&terms.pool, waiting, work);
        PaceStep::Wait
    }

    /// The facts about a wait, with what the pool knows of the limit that decides.
    fn with_pool(&self, pool: &str, by: PaceRule, mut facts: Vec<String>) -> Vec<String> {
        facts.extend(self.pace.hold_text(pool, by));
        facts
    }

    /// Holds all calls of a pool after a failure whose answer asks for a pause.
    pub(in crate::engine) fn hold_pace(
        &mut self,
        rules: PaceRules<'_>,
        class: ErrorClass,
        hint: Option<Nanos>,
        retry: &RetryPolicy,
    ) {
        let delay = &retry.for_class(class).server_delay.value;
        let Some(hint) = hint.filter(|_| class.is_a_limit() && delay.mode != ServerDelayMode::Ignore) else {
            return;
        };
        let Some(pool) = rules.held_pool() else { return };
        // Where the interpreter drives the turns there is one model call at a time, and it waits by itself.
        if self.context.drive == DriveMode::Turns && !rules.are_limited() && rules.shared().is_none() {
            return;
        }
        // Not longer than a call may wait for it: a hint of an hour must not stop the pool for an hour.
        let hint = delay.max.length().map_or(hint, |most| hint.min(most));
        let now = self.out.now;
        self.pace.hold(&pool, rules.shared(), now.saturating_add(hint), now);
    }

    /// How long a server wants no call of the model.
    pub(in crate::engine) fn pause_of(&self, target: &str, policy: &ModelPolicy) -> Nanos {
        // Most runs have none, and need no name of one.
        if self.pace.is_empty() {
            return Nanos::ZERO;
        }
        self.pace.pause(&pool_of_model(target, policy), self.out.now)
    }

    /// Whether one call at a time is a probe of the provider.
    pub(in crate::engine) fn is_probed(&self, rules: PaceRules<'_>) -> bool {
        rules.held_pool().is_some_and(|pool| self.pace.is_probed(&pool))
    }

    /// Records the tokens of an answered model call, and the limits that the answer states.
    pub(in crate::engine) fn pace_replied(&mut self, input: u64, output: u64, limits: &[ProviderLimit]) {
        let used = input.saturating_add(output);
        self.pace.learn(self.proposal, limits, self.out.now);
        self.pace.ended(self.proposal, (CallOutcome::Answered, Some(used), Some(output)), self.out.now);
    }

    /// Records the end of a failed model call.
    pub(in crate::engine) fn pace_failed(&mut self, class: ErrorClass, failure: &Failure) {
        // A refusal by a limit has used no tokens. Of other failures it is unknown, so what was taken stays taken.
        let refused = class == ErrorClass::RateLimit && failure.received == 0;
        self.pace.learn(self.proposal, &failure.limits, self.out.now);
        let outcome = CallOutcome::of_failure(class);
        let slower = self.pace.ended(self.proposal, (outcome, refused.then_some(0), None), self.out.now);
        if let Some(pool) = slower {
            self.out.count(MetricName::PaceDecreaseTotal, pool, 1);
        }
    }

    /// Records the end of a model call that nobody waits for any more.
    pub(in crate::engine) fn pace_dropped(&mut self) {
        self.pace.ended(self.proposal, (CallOutcome::Unknown, None, None), self.out.now);
    }
}

impl PaceRules<'_> {
    /// The limits for a call; `None`: there is none, and no pause can hold it.
    fn terms(self, request: u64) -> Option<PaceTerms> {
        Some(match self {
            Self::Tool(_, policy) => PaceTerms {
                pool: self.held_pool()?,
                requests: policy.pace.requests.value.rate(),
                tokens: None,
                learns: LearnedBound::None,
                concurrency: None,
                breaker: None,
                shared: self.shared(),
                request: 0,
                max_wait: policy.pace.max_wait.value.length(),
            },
            Self::Model(_, policy) => PaceTerms {
                pool: self.held_pool()?,
                requests: policy.pace.requests.value.rate(),
                tokens: policy.pace.tokens.value.rate(),
                learns: match policy.pace.learn.value {
                    PaceLearning::Off => LearnedBound::None,
                    PaceLearning::Headers => LearnedBound::Headers,
                    PaceLearning::Adaptive => LearnedBound::Refusals,
                },
                concurrency: policy.pace.concurrency.value.limit(),
                breaker: policy.pace.breaker.value.rule(),
                shared: self.shared(),
                request,
                max_wait: policy.pace.max_wait.value.length(),
            },
        })
    }

    /// Whether the policy has a limit for the calls.
    const fn are_limited(self) -> bool {
        match self {
            Self::Tool(_, policy) => policy.pace.requests.value.rate().is_some(),
            Self::Model(_, policy) => {
                policy.pace.requests.value.rate().is_some() || policy.pace.tokens.value.rate().is_some()
            }
        }
    }

    /// With whom the pool is shared; `None`: with nobody.
    const fn shared(self) -> Option<SharingScope> {
        let scope = match self {
            Self::Tool(_, policy) => policy.pace.scope.value,
            Self::Model(_, policy) => policy.pace.scope.value,
        };
        SharingScope::of(scope)
    }

    /// The name of the pool, if a pause holds all its calls.
    fn held_pool(self) -> Option<String> {
        match self {
            Self::Tool(tool, policy) => pool_of_tool(tool, policy),
            Self::Model(target, policy) => Some(pool_of_model(target, policy)),
        }
    }

    /// The value that holds a call back.
    fn because(self, policy: &Policy, by: PaceRule, facts: Vec<String>) -> StoredReason {
        let (retry, requests) = match self {
            Self::Tool(_, tool) => (&tool.retry, &tool.pace.requests),
            Self::Model(_, model) => (&model.retry, &model.pace.requests),
        };
        match (by, self) {
            (PaceRule::Tokens, Self::Model(_, model)) => {
                StoredReason::new(policy, "pace.tokens", &shown(&model.pace.tokens), facts)
            }
            (PaceRule::Hint, _) => {
                let rule = retry.for_class(ErrorClass::RateLimit).server_delay;
                StoredReason::new(policy, "retry.server_delay", rule, facts)
            }
            (PaceRule::Learned | PaceRule::Refusals, Self::Model(_, model)) => {
                StoredReason::new(policy, "pace.learn", &model.pace.learn.map(ShownValue), facts)
            }
            (PaceRule::Concurrency, Self::Model(_, model)) => {
                StoredReason::new(policy, "pace.concurrency", &model.pace.concurrency, facts)
            }
            (PaceRule::Breaker, Self::Model(_, model)) => {
                StoredReason::new(policy, "pace.breaker", &shown_breaker(&model.pace.breaker), facts)
            }
            (_, _) => StoredReason::new(policy, "pace.requests", &shown(requests), facts),
        }
    }
}

fn shown(limit: &Setting<PaceLimit>) -> Setting<String> {
    limit.map(|limit| limit.rate().map_or_else(|| "unlimited".to_owned(), |rate| rate.to_string()))
}

fn shown_breaker(breaker: &Setting<PaceBreaker>) -> Setting<String> {
    breaker.map(|breaker| breaker.rule().map_or_else(|| "never".to_owned(), |rule| rule.to_string()))
}

/// The time at which a call asks again that waits for the end of another: in any case before it is too late for it.
fn in_time(until: Instant, now: Instant, late: &dyn Fn(Nanos) -> bool) -> Instant {
    let mut wait = until.since(now);
    while wait > SHORTEST && late(wait) {
        wait = Nanos(wait.0.div_ceil(2)).max(SHORTEST);
    }
    now.saturating_add(wait)
}
