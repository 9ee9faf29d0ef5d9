//! Breakers, budgets and paces that hosts share: those whose scope is `shared`, and paces whose scope is `process`.
//!
//! The state of a run contains them like all others, and decides by its own copy. Local changes are kept until the
//! other hosts have received them. To share them, they are replayed on the state that the others know: nothing is
//! lost, in whatever order hosts report, and all see the state of one breaker to which all reported changes happened
//! in that order. A change without local effect is not reported: with `count: consecutive`, a success on a host
//! without failures. So it does not reset failures of other hosts that this host has not seen. The host transports
//! the state, and returns the result as an event.

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::Interpreter;
use super::breaker::CircuitBreaker;
use super::budget::{BudgetLedger, account};
use super::log::RecordError;
use super::machine::{pool_of_model, pool_of_tool};
use super::shared_known::SharedKnown;
use super::shared_pace::{SharedPace, SharingScope};
use super::state::State;
use crate::policy::{BudgetScope, RetryBudget};

/// A breaker, a budget or a pace that hosts share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedSubject {
    /// The name under which hosts keep it. That of a breaker or a budget includes its rules: hosts with other rules share
    /// another one. All hosts that share a pace use up one limit of a provider, whatever their rules.
    pub key: String,
    /// Who shares it.
    pub scope: SharingScope,
    what: SharedKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum SharedKind {
    /// The breaker of this tool.
    Breaker(String),
    /// The budget with this account name.
    Budget(String),
    /// The pool of pace with this name.
    Pace(String),
}

/// One shared breaker, budget or pace: the state known to other hosts, with the local changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedPart {
    known: KnownPart,
    has_news: bool,
    differs: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum KnownPart {
    Breaker(String, CircuitBreaker),
    Budget(String, BudgetLedger),
    Pace(String, SharedPace),
}

impl Interpreter {
    /// All that is shared under this policy: for all tools, the models of the run, and its report.
    pub fn sharing(&self, state: &State) -> Vec<SharedSubject> {
        let mut all = self.shared_budgets(&state.context.targets);
        // Rules of single calls can name budgets that no tool's rules name; their use is only in the state.
        all.extend(state.budgets.shared().map(|(account, _)| account.clone()));
        // Several actions may use one pool, which is one subject; sorted, so that all hosts see one order.
        all.sort();
        all.dedup();
        let mut paces = self.shared_paces(&state.context.targets);
        paces.extend(state.pace.shared().map(|(pool, scope)| (pool.clone(), scope)));
        paces.sort();
        paces.dedup_by(|one, other| one.0 == other.0);
        let budgets = all.into_iter().map(SharedSubject::budget);
        self.shared_breakers().chain(budgets).chain(paces.into_iter().map(SharedSubject::pace)).collect()
    }

    /// Whether this policy shares anything in a run with these models.
    pub fn shares(&self, targets: &[String]) -> bool {
        self.shared_breakers().next().is_some()
            || !self.shared_budgets(targets).is_empty()
            || !self.shared_paces(targets).is_empty()
    }

    /// The shared breakers, budgets and paces with unreported changes.
    pub fn unshared(&self, state: &State) -> Vec<SharedSubject> {
        let breakers = state.tools.breakers().iter().filter(|(_, breaker)| breaker.has_news());
        let breakers = breakers.filter_map(|(tool, _)| self.shared_breaker(tool));
        let budgets = state.budgets.shared().filter(|(_, ledger)| ledger.has_news());
        let budgets = budgets.map(|(account, _)| SharedSubject::budget(account.clone()));
        let paces = state.pace.shared().filter(|(pool, _)| state.pace.has_news(pool));
        let paces = paces.map(|(pool, scope)| SharedSubject::pace((pool.clone(), scope)));
        breakers.chain(budgets).chain(paces).collect()
    }

    /// Merges the state known to other hosts with the local changes of this run.
    ///
    /// # Errors
    /// The state of other hosts cannot be read.
    pub fn merge_shared(
        &self,
        state: &State,
        sharing: &SharedSubject,
        others: Option<&Value>,
    ) -> Result<SharedPart, RecordError> {
        Ok(match &sharing.what {
            SharedKind::Breaker(tool) => {
                let others: Option<CircuitBreaker> = read(others)?;
                let ours = state.tools.breaker(tool).cloned().unwrap_or_default();
                // Replaying the changes on the known state yields the state of one common breaker. Adding the counts
                // would not: whether it opens depends on the order.
                let all = ours.told_to(others.as_ref(), &self.policy().tool(tool).breaker);
                let (has_news, differs) = (ours.has_news(), all != ours);
                SharedPart { known: KnownPart::Breaker(tool.clone(), all), has_news, differs }
            }
            SharedKind::Budget(account) => {
                let others: Option<BudgetLedger> = read(others)?;
                let ours = state.budgets.get(account).cloned().unwrap_or_default();
                let all = ours.told_to(others.as_ref());
                let (has_news, differs) = (ours.has_news(), all != ours);
                SharedPart { known: KnownPart::Budget(account.clone(), all), has_news, differs }
            }
            SharedKind::Pace(pool) => {
                let (all, differs) = state.pace.told_to(pool, read(others)?, state.now);
                let has_news = state.pace.has_news(pool);
                SharedPart { known: KnownPart::Pace(pool.clone(), all), has_news, differs }
            }
        })
    }

    fn shared_breakers(&self) -> impl Iterator<Item = SharedSubject> {
        self.tools().names().filter_map(|tool| self.shared_breaker(tool))
    }

    /// The account names of the shared budgets.
    fn shared_budgets(&self, targets: &[String]) -> Vec<String> {
        let (policy, mut all) = (self.policy(), Vec::new());
        let mut add = |action: &str, budget: &RetryBudget| {
            all.extend(account(action, budget).filter(|_| budget.scope() == BudgetScope::Shared));
        };
        for tool in self.tools().names() {
            add(&format!("tool {tool}"), &policy.tool(tool).retry.budget.value);
        }
        for target in targets {
            add(&format!("model {target}"), &policy.model(target).retry.budget.value);
        }
        if let Some(output) = policy.output() {
            add("output", &output.retry.budget.value);
        }
        all
    }

    /// The names of the shared pools of pace.
    fn shared_paces(&self, targets: &[String]) -> Vec<(String, SharingScope)> {
        let tools = self.tools().names().filter_map(|tool| {
            let policy = self.policy().tool(tool);
            Some((pool_of_tool(tool, &policy)?, SharingScope::of(policy.pace.scope.value)?))
        });
        let models = targets.iter().filter_map(|target| {
            let policy = self.policy().model(target);
            Some((pool_of_model(target, &policy), SharingScope::of(policy.pace.scope.value)?))
        });
        tools.chain(models).collect()
    }

    fn shared_breaker(&self, tool: &str) -> Option<SharedSubject> {
        let policy = &self.policy().tool(tool).breaker;
        CircuitBreaker::is_shared_by(policy).then(|| SharedSubject {
            // Hosts with other rules keep another breaker, so the rollout of a new policy does not mix two counts.
            key: format!("breaker {tool} ({})", CircuitBreaker::rules_of(policy)),
            scope: SharingScope::Hosts,
            what: SharedKind::Breaker(tool.to_owned()),
        })
    }
}

impl State {
    /// Whether calls have taken of a pace that other hosts share, and they have not received it.
    #[cfg(feature = "serve")]
    pub fn has_used_shared_pace(&self) -> bool {
        let mut shared = self.pace.shared();
        shared.any(|(pool, scope)| scope == SharingScope::Hosts && self.pace.has_news(pool))
    }
}

impl SharedSubject {
    fn budget(account: String) -> Self {
        let (key, scope) = (account.replacen("shared", "budget", 1), SharingScope::Hosts);
        Self { key, scope, what: SharedKind::Budget(account) }
    }

    fn pace((pool, scope): (String, SharingScope)) -> Self {
        Self { key: format!("pace {pool}"), scope, what: SharedKind::Pace(pool) }
    }
}

impl SharedPart {
    /// Whether other hosts must receive the change.
    pub const fn has_news(&self) -> bool {
        self.has_news
    }

    /// Whether the merged state differs from the run's.
    pub const fn differs(&self) -> bool {
        self.differs
    }

    /// The written form for other hosts.
    pub fn value(&self) -> Value {
        let value = match &self.known {
            // Probes belong to this host. Other hosts could never return them, and the breaker would stay half-open
            // for all.
            KnownPart::Breaker(_, breaker) => serde_json::to_value(breaker.without_probes()),
            KnownPart::Budget(_, ledger) => serde_json::to_value(ledger.for_others()),
            KnownPart::Pace(_, pace) => serde_json::to_value(pace.for_others()),
        };
        value.unwrap_or_default()
    }
}

impl SharedKnown {
    /// Adds another part.
    pub fn add(&mut self, part: SharedPart) {
        match part.known {
            KnownPart::Breaker(tool, breaker) => drop(self.breakers.insert(tool, breaker)),
            KnownPart::Budget(account, ledger) => drop(self.budgets.insert(account, ledger)),
            KnownPart::Pace(pool, pace) => drop(self.paces.insert(pool, pace)),
        }
    }
}

fn read<T: DeserializeOwned>(others: Option<&Value>) -> Result<Option<T>, RecordError> {
    others.map(T::deserialize).transpose().map_err(|error| RecordError::Malformed(error.into()))
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use proptest::prelude::*;

    use super::*;
    use crate::policy::{
        BreakerPolicy, BreakerScope, ErrorClass, FailureCounting, Origin, Setting, TimeBound, TokenBudget,
    };
    use crate::text::Template;
    use crate::time::{Instant, Nanos};

    fn rules(failures: u32, count: FailureCounting) -> BreakerPolicy {
        fn set<T>(value: T) -> Setting<T> {
            Setting::new(value, Origin::BUILTIN)
        }
        BreakerPolicy {
            failures: set(NonZeroU32::new(failures)),
            count: set(count),
            scope: set(BreakerScope::Shared),
            open_for: set(TimeBound::Within(Nanos(100))),
            probes: set(NonZeroU32::MIN),
            successes: set(NonZeroU32::MIN),
            hide: set(false),
            message: set(Template::parse("open", &[]).unwrap()),
        }
    }

    /// A host reports its changes and takes the merged state.
    fn tell(host: &mut CircuitBreaker, all: &mut CircuitBreaker, rules: &BreakerPolicy) {
        *host = host.told_to(Some(all), rules);
        *all = host.without_probes();
    }

    #[test]
    fn a_probe_that_goes_well_closes_it_for_all() {
        let rules = rules(1, FailureCounting::Consecutive);
        let (mut one, mut other, mut all) = <(CircuitBreaker, CircuitBreaker, CircuitBreaker)>::default();
        one.failed(&rules, Instant(0));
        tell(&mut one, &mut all, &rules);
        tell(&mut other, &mut all, &rules);
        assert!(other.is_open(Instant(99)));
        other.ask(Instant(100));
        tell(&mut other, &mut all, &rules);
        // Each host has its own probes: the other one may also probe.
        tell(&mut one, &mut all, &rules);
        assert_eq!(one.ask(Instant(101)), crate::engine::breaker::BreakerAdmission::Probe);
        assert!(other.succeeded(&rules, Instant(102)));
        tell(&mut other, &mut all, &rules);
        tell(&mut one, &mut all, &rules);
        assert_eq!(one.phase(), crate::engine::BreakerPhase::Closed);
    }

    #[test]
    fn a_run_that_began_before_others_opened_it_moves_nothing() {
        let rules = rules(1, FailureCounting::Consecutive);
        let (mut one, mut other, mut all) = <(CircuitBreaker, CircuitBreaker, CircuitBreaker)>::default();
        one.failed(&rules, Instant(0));
        one.ask(Instant(100));
        tell(&mut one, &mut all, &rules);
        // It knows nothing of that yet.
        other.failed(&rules, Instant(101));
        tell(&mut other, &mut all, &rules);
        assert_eq!(other.phase(), crate::engine::BreakerPhase::HalfOpen);
    }

    #[test]
    fn what_nobody_could_be_told_of_is_kept_within_bounds() {
        let rules = rules(u32::MAX, FailureCounting::Cumulative);
        let mut breaker = CircuitBreaker::default();
        for at in 0..5000 {
            breaker.failed(&rules, Instant(at));
        }
        assert_eq!(breaker.failures(), 5000);
        assert_eq!(breaker.told_to(None, &rules).failures(), 1000);
    }

    proptest! {
        /// In any order of reports, no failure is lost and none is counted twice.
        #[test]
        fn failures_add_up_whoever_tells_first(acts in proptest::collection::vec((0usize..3, any::<bool>()), 0..60)) {
            let rules = rules(u32::MAX, FailureCounting::Cumulative);
            let (mut hosts, mut all, mut failures) = (vec![CircuitBreaker::default(); 3], CircuitBreaker::default(), 0);
            for (at, (host, tells)) in acts.into_iter().enumerate() {
                let host = &mut hosts[host];
                if tells {
                    tell(host, &mut all, &rules);
                } else {
                    host.failed(&rules, Instant(at as u64));
                    failures += 1;
                }
            }
            for host in &mut hosts {
                tell(host, &mut all, &rules);
            }
            prop_assert_eq!(all.failures(), failures);
        }

        /// A shared breaker equals a single breaker to which everything happened in the order of the reports.
        #[test]
        fn all_know_what_one_would_know(acts in proptest::collection::vec((0usize..3, 0u8..3, 0u64..40), 0..60)) {
            let rules = rules(3, FailureCounting::Consecutive);
            let (mut hosts, mut all, mut one) = (vec![CircuitBreaker::default(); 3], CircuitBreaker::default(), CircuitBreaker::default());
            let mut now = 0;
            for (host, act, pause) in acts {
                now += pause;
                let (host, at) = (&mut hosts[host], Instant(now));
                tell(host, &mut all, &rules);
                for breaker in [&mut *host, &mut one] {
                    if breaker.ask(at) != crate::engine::breaker::BreakerAdmission::Refused {
                        match act {
                            0 => drop(breaker.failed(&rules, at)),
                            1 => drop(breaker.succeeded(&rules, at)),
                            _ => breaker.returned(at),
                        }
                    }
                }
                tell(host, &mut all, &rules);
                // Whether a probe was returned or none was taken is the same: the next one may run.
                let knows = |breaker: &CircuitBreaker| {
                    let open = breaker.is_open(at).then(|| breaker.open_until());
                    (open, breaker.phase() == crate::engine::BreakerPhase::Closed, breaker.failures())
                };
                prop_assert_eq!(knows(&all), knows(&one));
            }
        }

        /// Tokens add up too, and never exceed the capacity.
        #[test]
        fn tokens_add_up_whoever_tells_first(acts in proptest::collection::vec((0usize..3, any::<bool>()), 0..60)) {
            let budget = RetryBudget::Tokens(TokenBudget {
                capacity: NonZeroU32::new(1000).unwrap(),
                cost: 3,
                cost_of: [].into(),
                earn: 1,
                pool: None,
                scope: BudgetScope::Shared,
            });
            let (mut hosts, mut all, mut retries) = (vec![BudgetLedger::default(); 3], BudgetLedger::default(), 0);
            for (host, tells) in acts {
                let host = &mut hosts[host];
                if tells {
                    let known = host.told_to(Some(&all));
                    all = known.for_others();
                    *host = host.known_now(known);
                } else {
                    host.retried(&budget, ErrorClass::Timeout, Instant(0));
                    retries += 1;
                }
            }
            for host in &hosts {
                all = host.told_to(Some(&all));
            }
            let RetryBudget::Tokens(tokens) = &budget else { unreachable!() };
            prop_assert_eq!(all.left(tokens), 1000 - 3 * retries);
        }
    }
}
