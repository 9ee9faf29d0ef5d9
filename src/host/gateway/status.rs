//! The state of the gateway as JSON, for people and their tools: `/status.json`. `docs/serve.md` has its fields.

use serde::Serialize;

use super::board::{
    BoardView, CallPoint, Decision, EVERY, OpenRequest, RequestFacts, RequestPhase, RequestTotals,
    ShownReason,
};
use super::models::GatewayModel;
use super::quota::{KeyStanding, Placed};
use crate::engine::{ModelStanding, PaceStanding, RateStanding};
use crate::policy::{Cost, ModelPolicy, Policy};
use crate::time::Instant;

/// The most requests that are shown one by one; the oldest come first.
const MOST_SHOWN: usize = 200;

/// The state of the gateway.
#[derive(Debug, Serialize)]
pub(crate) struct GatewayStatus {
    /// The version of this form.
    version: u32,
    now_ms: u64,
    started_ms: u64,
    /// The digest of the policy.
    policy: String,
    requests: RequestsStatus,
    targets: Vec<TargetStatus>,
    /// Those with limits.
    keys: Vec<KeyStatus>,
    /// The latest first.
    decisions: Vec<Decision>,
}

#[derive(Debug, Serialize)]
struct RequestsStatus {
    in_flight: usize,
    #[serde(flatten)]
    totals: RequestTotals,
    open: Vec<RequestStatus>,
}

#[derive(Debug, Serialize)]
struct RequestStatus {
    id: u64,
    since_ms: u64,
    #[serde(flatten)]
    facts: RequestFacts,
    attempts: u32,
    target: Option<String>,
    waits_for: AwaitedStatus,
}

/// What a request waits for.
#[derive(Debug, Serialize)]
struct AwaitedStatus {
    what: &'static str,
    since_ms: u64,
    until_ms: Option<u64>,
    pool: Option<String>,
    error_type: Option<&'static str>,
    because: Vec<ShownReason>,
}

#[derive(Debug, Serialize)]
pub(super) struct TargetStatus {
    target: String,
    provider: String,
    model: String,
    /// The requests that wait for its answer, or are getting it.
    in_flight: usize,
    cooldown: Option<CooldownStatus>,
    pace: Option<PaceStatus>,
    calls: CallsStatus,
}

#[derive(Debug, Serialize)]
struct CooldownStatus {
    /// `None`: it has no end.
    until_ms: Option<u64>,
    because: ShownReason,
}

#[derive(Debug, Serialize)]
struct PaceStatus {
    pool: String,
    waiting: usize,
    held_until_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outage: Option<String>,
    rates: Vec<RateStatus>,
}

#[derive(Debug, Serialize)]
struct RateStatus {
    unit: &'static str,
    limit: u32,
    per_ms: u64,
    free: u64,
    /// Who says it: `policy` or `provider`.
    by: &'static str,
}

/// How much a key may use.
#[derive(Debug, Serialize)]
pub(super) struct KeyStatus {
    key: String,
    pace: Vec<RateStatus>,
    budget: Option<BudgetStatus>,
}

#[derive(Debug, Serialize)]
struct BudgetStatus {
    per_ms: u64,
    ends_ms: Option<u64>,
    limits: Vec<LimitStatus>,
}

/// One limit of a budget; money is in US dollars.
#[derive(Debug, Serialize)]
struct LimitStatus {
    unit: &'static str,
    limit: AmountStatus,
    used: AmountStatus,
    place: String,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum AmountStatus {
    Count(u64),
    Money(Cost),
}

#[derive(Debug, Serialize)]
struct CallsStatus {
    every_ms: u64,
    points: Vec<CallPoint>,
}

impl GatewayStatus {
    /// Of what the board says, and how the models stand.
    pub(super) fn of(
        view: BoardView,
        policy: &Policy,
        targets: Vec<TargetStatus>,
        keys: Vec<KeyStatus>,
    ) -> Self {
        let BoardView { now, began, totals, open, decisions, .. } = view;
        let in_flight = open.len();
        let open =
            open.into_iter().take(MOST_SHOWN).map(|(id, request)| RequestStatus::of(id, request)).collect();
        Self {
            version: 1,
            now_ms: millis(now),
            started_ms: millis(began),
            policy: policy.digest().to_owned(),
            requests: RequestsStatus { in_flight, totals, open },
            targets,
            keys,
            decisions: decisions.into_iter().rev().collect(),
        }
    }
}

impl RequestStatus {
    fn of(id: u64, request: OpenRequest) -> Self {
        let OpenRequest { facts, since, attempts, target, phase_since, phase, .. } = request;
        let waits_for = AwaitedStatus::of(phase, phase_since);
        Self { id, since_ms: millis(since), facts, attempts, target, waits_for }
    }
}

impl AwaitedStatus {
    fn of(phase: RequestPhase, since: Instant) -> Self {
        let awaited = Self {
            what: "start",
            since_ms: millis(since),
            until_ms: None,
            pool: None,
            error_type: None,
            because: Vec::new(),
        };
        match phase {
            RequestPhase::Start => awaited,
            RequestPhase::Answer => Self { what: "answer", ..awaited },
            RequestPhase::Stream => Self { what: "stream", ..awaited },
            RequestPhase::Delay { until, error_type, because } => {
                Self { what: "delay", until_ms: end(until), error_type: Some(error_type), because, ..awaited }
            }
            RequestPhase::Pace { until, pool, because } => {
                Self { what: "pace", until_ms: end(until), pool: Some(pool), because, ..awaited }
            }
        }
    }
}

impl TargetStatus {
    pub(super) fn of(
        (target, model): (&str, &GatewayModel),
        (policy, rules): (&Policy, &ModelPolicy),
        standing: ModelStanding,
        view: &BoardView,
    ) -> Self {
        let is_there = |request: &&(u64, OpenRequest)| {
            let (_, OpenRequest { target: at, phase, .. }) = request;
            at.as_deref() == Some(target) && matches!(phase, RequestPhase::Answer | RequestPhase::Stream)
        };
        let cooldown = standing.cooldown_until.map(|until| CooldownStatus {
            until_ms: end(until),
            because: ShownReason {
                rule: "cooldown".to_owned(),
                value: rules.cooldown.value.to_string(),
                place: policy.place(rules.cooldown.origin).to_string(),
                facts: Vec::new(),
            },
        });
        let facts = model.facts.as_ref();
        Self {
            target: target.to_owned(),
            provider: facts.map(|facts| facts.provider.clone()).unwrap_or_default(),
            model: facts.map(|facts| facts.model.clone()).unwrap_or_default(),
            in_flight: view.open.iter().filter(is_there).count(),
            cooldown,
            pace: standing.pace.map(PaceStatus::of),
            calls: CallsStatus {
                every_ms: EVERY.millis(),
                points: view.calls.get(target).cloned().unwrap_or_default(),
            },
        }
    }
}

impl KeyStatus {
    pub(super) fn of(standing: &KeyStanding<'_>) -> Self {
        let KeyStanding { key, rule, free, spent, ends } = *standing;
        let rates = [("requests", &rule.requests), ("tokens", &rule.tokens)].into_iter().zip(free);
        let rates = rates.filter_map(|((unit, rate), free)| {
            let rate = rate.as_ref()?.value;
            Some(RateStatus {
                unit,
                limit: rate.limit.get(),
                per_ms: rate.per.millis(),
                free: free?,
                by: "key",
            })
        });
        let budget = rule.budget.as_ref().map(|budget| {
            let count = |unit, limit: &Option<Placed<u64>>, used| {
                let Placed { value, place } = limit.as_ref()?;
                let [limit, used] = [*value, used].map(AmountStatus::Count);
                Some(LimitStatus { unit, limit, used, place: place.clone() })
            };
            let cost = budget.cost.as_ref().map(|Placed { value, place }| {
                let [limit, used] = [*value, spent.cost()].map(AmountStatus::Money);
                LimitStatus { unit: "cost", limit, used, place: place.clone() }
            });
            let requests = count("requests", &budget.requests, spent.requests);
            let limits = [requests, count("tokens", &budget.tokens, spent.tokens), cost];
            BudgetStatus {
                per_ms: budget.per.millis(),
                ends_ms: ends.and_then(end),
                limits: limits.into_iter().flatten().collect(),
            }
        });
        Self { key: key.to_owned(), pace: rates.collect(), budget }
    }
}

impl PaceStatus {
    fn of(standing: PaceStanding) -> Self {
        let PaceStanding { pool, held_until, outage, waiting, rates } = standing;
        let rate = |standing: RateStanding| RateStatus {
            unit: standing.unit,
            limit: standing.rate.limit.get(),
            per_ms: standing.rate.per.millis(),
            free: standing.free,
            by: if standing.is_learned { "provider" } else { "policy" },
        };
        let rates = rates.into_iter().map(rate).collect();
        Self { pool, waiting, held_until_ms: held_until.and_then(end), outage, rates }
    }
}

fn millis(at: Instant) -> u64 {
    at.since(Instant::default()).millis()
}

/// The end of something; `None`: it has none.
fn end(until: Instant) -> Option<u64> {
    (until < Instant::MAX).then(|| millis(until))
}
