//! `pace:` of a tool or a model: how often it is called (client-side rate limiting).

use core::num::NonZeroU32;

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

use super::lasting::NonZeroTime;
use crate::policy::decode::{Decode, NodeReader, SchemaOf, choice, record};
use crate::policy::form::{Block, Effective, Form};
use crate::policy::layer_value::plain_leaf;
use crate::policy::{
    AttemptLimit, CooldownScope, PaceBreaker, PaceLimit, PacePool, PaceRate, PaceScope, ProbeRule, TimeBound,
};
use crate::text::yaml::{YamlData, YamlNode};
use crate::time::Nanos;

/// How often a tool is called. A call beyond that waits, the oldest first; a wait is no attempt.
/// Example: `{"requests": {"limit": 10, "per": "1s"}}`
#[derive(Clone, Debug, Block)]
pub struct ToolPace<F: Form = Effective> {
    /// How many runs may start in a period, or `unlimited`. Replaced whole.
    /// Checks: W0270, W0271.
    /// Example: `{"limit": 10, "per": "1s", "burst": 2}`
    pub requests: F::Of<PaceLimit>,
    /// The tools with the same name here share their pace. `own`: this one alone.
    /// Example: `search_api`
    pub pool: F::Of<CooldownScope>,
    /// Whose calls its requests count, and whose calls a pause holds that a server asks for.
    /// Example: `shared`
    pub scope: F::Of<PaceScope>,
    /// The longest a call waits for its turn. A call that would wait longer is not made.
    /// Checks: W0270.
    /// Example: `30s`
    #[key(looser = More)]
    pub max_wait: F::Of<NonZeroTime<TimeBound>>,
}

/// How often a model is called. A call beyond that waits, the oldest first; a wait is no attempt.
/// Example: `{"requests": {"limit": 50, "per": "1m"}, "tokens": {"limit": 40000, "per": "1m"}}`
#[derive(Clone, Debug, Block)]
pub struct ModelPace<F: Form = Effective> {
    /// How many calls may start in a period, or `unlimited`. Replaced whole.
    /// Checks: W0270, W0271, W0272.
    /// Example: `{"limit": 50, "per": "1m", "burst": 10}`
    pub requests: F::Of<PaceLimit>,
    /// How many tokens may be used in a period, of requests and replies together, or `unlimited`. They are estimated when
    /// a call starts, and corrected by its usage. Replaced whole.
    /// Checks: W0271, W0272.
    /// Example: `{"limit": 40000, "per": "1m"}`
    pub tokens: F::Of<PaceLimit>,
    /// Whether the limits that the provider states in its answers hold, too, and a rate that is found from its refusals.
    /// Example: `headers`
    pub learn: F::Of<PaceLearning>,
    /// The models that share this pace: `provider`, those with the same `provider`; or those with the same name here.
    /// Example: `team_quota`
    pub pool: F::Of<PacePool>,
    /// Whose calls its requests and tokens count, and whose calls a pause holds that a server asks for.
    /// Example: `shared`
    pub scope: F::Of<PaceScope>,
    /// The longest a call waits for its turn. Where it would be longer, the next model is called, if there is one.
    /// Checks: W0270.
    /// Example: `2m`
    #[key(looser = More)]
    pub max_wait: F::Of<NonZeroTime<TimeBound>>,
    /// How many calls may be in flight at a time.
    /// Example: `4`
    #[key(looser = More)]
    pub concurrency: F::Of<AttemptLimit>,
    /// When one call at a time is a probe, because the provider fails every call, or `never`. Replaced whole.
    /// Example: `{"failures": 5, "base": "1s", "cap": "15s"}`
    pub breaker: F::Of<PaceBreaker>,
}

choice! {
    /// Which limits hold besides those of the policy.
    #[derive(serde::Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum PaceLearning {
        /// None.
        Off = "off",
        /// Those in the headers of answers, such as `x-ratelimit-*`.
        Headers = "headers",
        /// Those, and a rate found from refusals: less after each, slowly more while calls wait and are answered.
        Adaptive = "adaptive",
    }
}

record! {
    /// A rate.
    /// Example: `{"limit": 50, "per": "1m", "burst": 10}`
    pub(crate) struct RateEntry {
        /// How much may start in a period.
        /// Example: `50`
        pub(crate) limit: NonZeroU32,
        /// The period.
        /// Example: `1m`
        pub(crate) per: NonZeroTime<Nanos>,
        /// How much of it may start at once after a pause. Left out: `limit`.
        /// Example: `10`
        pub(crate) burst: Option<NonZeroU32>,
    }
}

record! {
    /// How a provider that fails every call is probed.
    /// Example: `{"failures": 5, "base": "1s", "cap": "15s"}`
    pub(crate) struct ProbeEntry {
        /// Failures in a row, of all calls of the pool: no answer, an overloaded or a broken server.
        /// Example: `5`
        pub(crate) failures: NonZeroU32,
        /// The time before the first probe. It doubles with each probe that fails.
        /// Example: `1s`
        pub(crate) base: NonZeroTime<Nanos>,
        /// The longest time between two probes.
        /// Example: `15s`
        pub(crate) cap: NonZeroTime<Nanos>,
    }
}

impl Decode for PaceBreaker {
    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        match &node.data {
            YamlData::Text(word) if &**word == "never" => Some(Self::Never),
            YamlData::Map(_) => {
                let ProbeEntry { failures, base, cap } = ProbeEntry::decode(node, reader)?;
                Some(Self::After(ProbeRule { failures, base: base.0, cap: cap.0.max(base.0) }))
            }
            _ => reader.wrong_type(node, "a rule such as `{failures: 5, base: 1s, cap: 15s}`, or `never`"),
        }
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        let rule = generator.subschema_for::<SchemaOf<ProbeEntry>>();
        json_schema!({"anyOf": [rule, {"const": "never"}]})
    }
}

impl Decode for PaceLimit {
    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        match &node.data {
            YamlData::Text(word) if &**word == "unlimited" => Some(Self::Unlimited),
            YamlData::Map(_) => {
                let RateEntry { limit, per, burst } = RateEntry::decode(node, reader)?;
                Some(Self::Rate(PaceRate { limit, per: per.0, burst: burst.unwrap_or(limit) }))
            }
            _ => reader.wrong_type(node, "a rate such as `{limit: 50, per: 1m}`, or `unlimited`"),
        }
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        let rate = generator.subschema_for::<SchemaOf<RateEntry>>();
        json_schema!({"anyOf": [rate, {"const": "unlimited"}]})
    }
}

impl Decode for PacePool {
    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        let name = String::decode(node, reader)?;
        match name.trim() {
            "" => reader.out_of_range(node, "must not be empty"),
            "provider" => Some(Self::Provider),
            name => Some(Self::Named(name.into())),
        }
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "pattern": "\\S"})
    }
}

plain_leaf! {
    PaceLimit => |limit| match limit {
        PaceLimit::Unlimited => json!("unlimited"),
        PaceLimit::Rate(rate) => show_rate(*rate),
    };
    PaceLearning => |learning| json!(learning);
    PaceScope => |scope| json!(scope);
    PaceBreaker => |breaker| match breaker {
        PaceBreaker::Never => json!("never"),
        PaceBreaker::After(ProbeRule { failures, base, cap }) => json!({
            "failures": failures, "base": base.to_string(), "cap": cap.to_string(),
        }),
    };
    PacePool => |pool| match pool {
        PacePool::Provider => json!("provider"),
        PacePool::Named(name) => json!(name),
    };
}

fn show_rate(rate: PaceRate) -> Value {
    let PaceRate { limit, per, burst } = rate;
    let mut shown = Map::new();
    shown.insert("limit".to_owned(), limit.get().into());
    shown.insert("per".to_owned(), per.to_string().into());
    // A burst of the whole limit is what leaving it out means.
    if burst != limit {
        shown.insert("burst".to_owned(), burst.get().into());
    }
    Value::Object(shown)
}
