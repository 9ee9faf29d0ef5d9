//! Paces whose calls never wait, two rates of one pool, and budgets that a pace never lets a run use.

use std::collections::BTreeMap;

use super::LintFindings;
use super::view::ProfileView;
use crate::engine::{pool_of_model, pool_of_tool};
use crate::policy::{
    ModelPolicy, Origin, PaceLimit, PaceRate, RetryPolicy, RunLimits, Setting, TimeBound, ToolPolicy,
};
use crate::text::{Code, Diagnostic};
use crate::time::Nanos;

/// The rates of the pools of one profile, each with the one that was found first.
#[derive(Default)]
pub(super) struct PoolRates {
    rates: BTreeMap<(String, &'static str), PoolRate>,
    /// Whether some model has no rate of requests or of tokens, or none that bounds all it stands for.
    boundless: [bool; 2],
}

/// A rate of a pool, with the first that has it.
struct PoolRate {
    subject: String,
    rate: PaceRate,
    origin: Origin,
    is_of_models: bool,
}

impl PoolRates {
    /// Looks at the effective pace of a tool.
    pub(super) fn tool(
        &mut self,
        (name, subject): (&str, &str),
        policy: &ToolPolicy,
        limits: &RunLimits,
        found: &mut LintFindings<'_>,
    ) {
        never_waits(subject, (&policy.pace.requests, &policy.pace.max_wait), &policy.retry, limits, found);
        let Some(pool) = pool_of_tool(name, policy) else { return };
        self.add((pool, "requests"), subject, &policy.pace.requests, false, found);
    }

    /// Looks at the effective pace of a model.
    pub(super) fn model(
        &mut self,
        (name, subject): (&str, &str),
        policy: &ModelPolicy,
        limits: &RunLimits,
        found: &mut LintFindings<'_>,
    ) {
        never_waits(subject, (&policy.pace.requests, &policy.pace.max_wait), &policy.retry, limits, found);
        let pool = pool_of_model(name, policy);
        // Of a selector it is unknown how many pools its models have.
        let is_one = !pool.starts_with("model ") || !name.contains('*');
        let [by_calls, by_tokens] = &mut self.boundless;
        for (boundless, limit) in [(by_calls, &policy.pace.requests), (by_tokens, &policy.pace.tokens)] {
            *boundless |= !is_one || limit.value.rate().is_none();
        }
        self.add((pool.clone(), "requests"), subject, &policy.pace.requests, true, found);
        self.add((pool, "tokens"), subject, &policy.pace.tokens, true, found);
    }

    /// Reports two rates of one pool: the clock follows the latest call, so which one holds depends on the order of calls.
    fn add(
        &mut self,
        key: (String, &'static str),
        subject: &str,
        limit: &Setting<PaceLimit>,
        is_of_models: bool,
        found: &mut LintFindings<'_>,
    ) {
        let Some(rate) = limit.value.rate() else { return };
        let (pool, unit) = (key.0.clone(), key.1);
        let first = self.rates.entry(key).or_insert_with(|| PoolRate {
            subject: subject.to_owned(),
            rate,
            origin: limit.origin,
            is_of_models,
        });
        first.is_of_models |= is_of_models;
        if first.rate == rate {
            return;
        }
        let (Some(at), Some(other)) = (found.place(limit.origin), found.place(first.origin)) else { return };
        let message = format!(
            "{pool} has two rates of {unit}: {} for {subject}, and {} for {}; that of the latest call holds for all",
            shown(rate),
            shown(first.rate),
            first.subject
        );
        let problem = Diagnostic::warning(Code::TWO_RATES, at, message).also(other, "the other rate");
        found.push(problem.help("write one rate, or give them pools of their own with `pool`"));
    }

    /// Looks at the budgets of a run once all models are known.
    pub(super) fn finish(self, view: &ProfileView<'_>, found: &mut LintFindings<'_>) {
        let limits = view.layers.run_limits();
        let Some(time) = &limits.time else { return };
        let calls = limits.model_calls.as_ref().map(|calls| (u64::from(calls.value), calls.origin));
        let tokens = limits.tokens.as_ref().map(|tokens| (tokens.value, tokens.origin));
        let budgets = [("model_calls", "requests", calls), ("tokens", "tokens", tokens)];
        for ((name, unit, budget), boundless) in budgets.into_iter().zip(self.boundless) {
            let Some((budget, origin)) = budget.filter(|_| !boundless) else { continue };
            let rates = || self.rates.iter().filter(|((_, of), rate)| *of == unit && rate.is_of_models);
            let most =
                rates().fold(0_u64, |sum, (_, rate)| sum.saturating_add(released(rate.rate, time.value)));
            let (Some(at), Some((_, first))) = (found.place(origin), rates().next()) else { continue };
            if most >= budget {
                continue;
            }
            let message = format!(
                "`{name}` is {budget}, and no run uses more than {most}: the paces of its models allow no more in {}",
                time.value
            );
            let problem = Diagnostic::warning(Code::IDLE_BUDGET, at, message);
            let problem = match found.place(first.origin) {
                Some(pace) => problem.also(pace, "the pace"),
                None => problem,
            };
            found.push(problem.help(format!("write {most} or less, or a higher rate, or more `time`")));
        }
    }
}

/// Reports a pace that leaves more time between two calls than a call may wait.
fn never_waits(
    subject: &str,
    (requests, max_wait): (&Setting<PaceLimit>, &Setting<TimeBound>),
    retry: &RetryPolicy,
    limits: &RunLimits,
    found: &mut LintFindings<'_>,
) {
    let Some(rate) = requests.value.rate() else { return };
    let bounds = [
        ("max_wait", max_wait.value.length(), max_wait.origin),
        ("retry.deadline", retry.deadline.value.length(), retry.deadline.origin),
    ];
    let of_run = limits.time.as_ref().map(|time| ("limits.run.time", time.value, time.origin));
    let bounds = bounds.into_iter().filter_map(|(name, most, origin)| Some((name, most?, origin)));
    let Some((name, most, origin)) = bounds.chain(of_run).min_by_key(|(_, most, _)| *most) else { return };
    let Some(span) = found.place(requests.origin).or_else(|| found.place(origin)) else { return };
    let next = Nanos(rate.per.0.div_ceil(rate.limit.get().into()));
    if next <= most {
        return;
    }
    let message = format!(
        "no call of {subject} waits for its turn: the next one starts after {}, and `{name}` is {most}",
        next.rounded()
    );
    let problem = Diagnostic::warning(Code::NO_TURN, span, message);
    let problem = match found.place(origin).filter(|at| *at != span) {
        Some(at) => problem.also(at, "the longest wait"),
        None => problem,
    };
    found.push(problem.help(format!("set `{name}` to {} or more, or write a higher rate", next.rounded())));
}

/// The most that starts under a rate in so much time.
fn released(rate: PaceRate, time: Nanos) -> u64 {
    let units = u128::from(time.0).saturating_mul(rate.limit.get().into());
    let units = units.checked_div(rate.per.0.into()).unwrap_or_default();
    u64::try_from(units).unwrap_or(u64::MAX).saturating_add(rate.burst.get().into())
}

fn shown(rate: PaceRate) -> String {
    let burst = rate.burst;
    if burst == rate.limit { rate.to_string() } else { format!("{rate} with a burst of {burst}") }
}
