//! Scenario files: what a person writes to say what many agents meet.

use core::num::NonZeroU32;

use indexmap::IndexMap;
use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value};

use super::latency::LatencyModel;
use super::limits::{CountedCalls, ForeignFile, HintFactor, LimitsFile, RefusalHint, SheddingFile};
use crate::engine::PlannerDecision;
use crate::policy::decode::{Decode, NodeReader, Spanned, VersionOne, record, union};
use crate::policy::{Effect, ErrorClass, NonZeroTime, OpenFraction, PerClass, WrittenSchema};
use crate::text::yaml::{YamlData, YamlNode};
use crate::time::Nanos;

/// The most agents of a scenario.
pub(super) const MOST_AGENTS: u32 = 100_000;
/// The most tool calls of a run.
const MOST_CALLS: u32 = 10_000;

record! {
    /// A scenario: many agents that share models and tools, what these do, and when they fail. Read by
    /// `unfazed simulate --scenario`.
    #[part(true)]
    pub(crate) struct ScenarioFile {
        /// The version of this format.
        pub(crate) version: VersionOne,
        /// What the scenario is about, for readers.
        /// Example: `The model is overloaded for two minutes.`
        pub(crate) about: Option<String>,
        /// How many agents there are. They share the models and the tools.
        /// Example: `20`
        pub(crate) agents: BoundedNumber<1, MOST_AGENTS>,
        /// When the agents begin.
        pub(crate) arrival: ArrivalRule = ArrivalRule::Together {},
        /// How long agents begin new runs. Runs in flight then continue to their end.
        /// Example: `10m`
        pub(crate) duration: NonZeroTime<Nanos>,
        /// The most runs of each agent. Left out: one after the other until `duration` is over.
        /// Example: `1`
        pub(crate) runs: Option<NonZeroU32>,
        /// So many runs of an agent, one after the other, are one session: breakers, budgets, and what is known of limits
        /// and of pauses that servers ask for outlive a run as the policy says. Left out: each run begins anew.
        /// Example: `5`
        pub(crate) session_runs: Option<NonZeroU32>,
        /// How long an agent pauses between two runs.
        /// Example: `5s`
        pub(crate) pause: LatencyModel = LatencyModel::constant(Nanos::ZERO),
        /// The longest one run may take.
        /// Example: `5m`
        pub(crate) deadline: Option<NonZeroTime<Nanos>>,
        /// The seed of all that is left to chance.
        /// Example: `42`
        pub(crate) seed: u64 = 1,
        /// What each run takes if nothing goes wrong.
        pub(crate) work: WorkFile = WorkFile::default(),
        /// The models, in order of preference.
        /// Example: `{"main": {"latency": {"kind": "lognormal", "median": "4s", "p99": "20s"}}}`
        pub(crate) models: Spanned<IndexMap<String, ModelFile>>,
        /// The tools. Runs call one after the other.
        /// Example: `{"search": {"effect": "read_only", "latency": "300ms"}}`
        pub(crate) tools: IndexMap<String, ToolFile> = IndexMap::new(),
        /// What the host's planner decides whenever a policy asks it.
        pub(crate) planner: PlannerDecision = PlannerDecision::TellModel,
        /// Whether people agree to what a policy asks them, at once; or refuse it.
        /// Example: `true`
        pub(crate) approve: bool = true,
    }
}

record! {
    /// What each run takes if nothing goes wrong.
    pub(crate) struct WorkFile {
        /// How many tool calls.
        /// Example: `6`
        pub(crate) calls: BoundedNumber<0, MOST_CALLS> = BoundedNumber(4),
        /// How many of them a reply of the model makes at once.
        /// Example: `2`
        pub(crate) parallel: NonZeroU32 = NonZeroU32::MIN,
        /// How often the model calls a tool again that failed, with the same arguments.
        /// Example: `1`
        pub(crate) repeat_failed: u32 = 1,
        /// The report that is delivered to policies that ask for one.
        /// Example: `{"price": 12.5}`
        pub(crate) report: Value = Value::Object(Map::new()),
    }
}

union! {
    /// When the agents begin their first runs.
    pub(crate) enum ArrivalRule by kind {
        /// All at once.
        Together = "together" {},
        /// One after the other, the last one after that time.
        Spread = "spread" {
            /// From the first to the last.
            /// Example: `30s`
            over: Nanos,
        },
        /// Each at some time within that.
        Random = "random" {
            /// The time within which all begin.
            /// Example: `30s`
            over: Nanos,
        },
    }
}

record! {
    /// A model that all agents share.
    #[part(true)]
    pub(crate) struct ModelFile {
        /// How long a whole answer takes.
        pub(crate) latency: LatencyModel = LatencyModel::constant(Nanos::from_secs(2)),
        /// How long a failure takes to come. One that is a `timeout` never comes.
        pub(crate) fails_after: LatencyModel = LatencyModel::constant(Nanos::from_millis(200)),
        /// How often calls fail or are answered badly, by class, as fractions.
        /// Example: `{"overloaded": 0.05, "malformed_tool_call": 0.02}`
        pub(crate) faults: Option<Spanned<PerClass<OpenFraction>>>,
        /// How many calls it takes; those beyond are refused as `rate_limit`.
        pub(crate) capacity: Option<CapacityFile>,
        /// What calls may take in a period, by unit; those beyond are refused as `rate_limit`.
        /// Example: `{"tokens": {"limit": 40000, "per": "1m"}}`
        pub(crate) limits: LimitsFile = LimitsFile::default(),
        /// The wait that a refusal by a limit or the capacity asks for.
        /// Example: `fair`
        pub(crate) hint: Option<Spanned<RefusalHint>>,
        /// What that wait is multiplied by: a provider that asks for too little, or too much.
        /// Example: `0.1`
        pub(crate) hint_factor: Option<Spanned<HintFactor>>,
        /// The calls that count against limits of requests.
        /// Example: `all`
        pub(crate) count: CountedCalls = CountedCalls::Accepted,
        /// Load that it sheds.
        /// Example: `{"above": 60, "all": 240, "recovers": "1m"}`
        pub(crate) shedding: Option<SheddingFile>,
        /// Clients that are not in the scenario and draw on the same limits.
        /// Example: `{"calls": 20, "per": "1m"}`
        pub(crate) foreign: Option<Spanned<ForeignFile>>,
        /// How often the same request is answered badly again, as a fraction, once it was: its cause persists. Another
        /// turn, another limit of tokens or other guidance makes another request.
        /// Example: `0.9`
        pub(crate) sticky: Option<Spanned<OpenFraction>>,
        /// What happens at certain times.
        /// Example: `[{"from": "2m", "to": "4m", "fault": "overloaded"}]`
        pub(crate) trace: Vec<Spanned<WindowFile>> = Vec::new(),
        /// What an answer reports.
        pub(crate) tokens: TokensFile = TokensFile::default(),
    }
}

record! {
    /// A tool that all agents share.
    #[part(true)]
    pub(crate) struct ToolFile {
        /// How long a run takes.
        pub(crate) latency: LatencyModel = LatencyModel::constant(Nanos::from_millis(500)),
        /// How long a failure takes to come. One that is a `timeout` never comes.
        pub(crate) fails_after: LatencyModel = LatencyModel::constant(Nanos::from_millis(200)),
        /// How often runs fail, by class, as fractions.
        /// Example: `{"network_error": 0.05}`
        pub(crate) faults: Option<Spanned<PerClass<OpenFraction>>>,
        /// How many runs there may be; those beyond are refused as `rate_limit`.
        pub(crate) capacity: Option<CapacityFile>,
        /// What happens at certain times.
        /// Example: `[{"from": "2m", "to": "4m", "fault": "tool_unavailable"}]`
        pub(crate) trace: Vec<Spanned<WindowFile>> = Vec::new(),
        /// What the tool itself says a run does to the world.
        pub(crate) effect: Option<Effect>,
        /// JSON Schema of the arguments. Left out: any mapping.
        /// Example: `{"type": "object", "required": ["query"]}`
        pub(crate) parameters: Option<Spanned<WrittenSchema>>,
        /// The arguments it is called with. In a text, `{n}` stands for the number of the call in its run, so that no
        /// two calls are the same.
        /// Example: `{"query": "price of item {n}"}`
        pub(crate) arguments: Option<Value>,
        /// What it returns.
        /// Example: `{"price": 12.5}`
        pub(crate) result: Value = Value::String("ok".to_owned()),
    }
}

record! {
    /// The tokens that an answer reports.
    pub(crate) struct TokensFile {
        /// Tokens of the request. It is what the conversation is taken to have, too.
        /// Example: `4000`
        pub(crate) input: u64 = 1_000,
        /// Tokens of the reply.
        /// Example: `300`
        pub(crate) output: u64 = 200,
        /// Tokens that each further turn of a run adds to the request.
        /// Example: `500`
        pub(crate) grows: u64 = 0,
    }
}

record! {
    /// So many calls of all agents together; more are refused as `rate_limit`. What is not used is saved up, to as
    /// many calls as that.
    #[derive(Copy)]
    pub(crate) struct CapacityFile {
        /// How many calls.
        /// Example: `60`
        pub(crate) calls: NonZeroU32,
        /// In which time.
        /// Example: `1m`
        pub(crate) per: NonZeroTime<Nanos>,
        /// Whether a refusal says when there is room again.
        /// Example: `false`
        pub(crate) retry_after: bool = true,
        /// Whether the answers of a model state the limit and what is left of it, as `x-ratelimit-*` does.
        /// Example: `true`
        pub(crate) headers: bool = false,
    }
}

record! {
    /// What happens at certain times: calls fail (`fault`), are slow (`latency`), or there is room for fewer
    /// (`capacity`).
    pub(crate) struct WindowFile {
        /// When it begins.
        /// Example: `2m`
        pub(crate) from: Nanos = Nanos::ZERO,
        /// When it ends.
        /// Example: `4m`
        pub(crate) to: Spanned<Nanos>,
        /// It comes back after that time, again and again.
        /// Example: `1m`
        pub(crate) every: Option<Spanned<Nanos>>,
        /// The class calls fail with.
        pub(crate) fault: Option<Spanned<ErrorClass>>,
        /// How often they do, as a fraction.
        pub(crate) rate: Option<Spanned<OpenFraction>>,
        /// The wait that such a failure asks for.
        /// Example: `30s`
        pub(crate) retry_after: Option<Spanned<Nanos>>,
        /// How long calls take.
        pub(crate) latency: Option<LatencyModel>,
        /// How many calls it takes.
        pub(crate) capacity: Option<CapacityFile>,
    }
}

/// A whole number, not below the first and not above the second one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BoundedNumber<const LEAST: u32, const MOST: u32>(pub(crate) u32);

impl<const LEAST: u32, const MOST: u32> Decode for BoundedNumber<LEAST, MOST> {
    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        if let YamlData::Number(number) = &node.data
            && number.as_i64().is_some_and(|number| number < i64::from(LEAST))
        {
            return reader.out_of_range(node, &format!("must be at least {LEAST}"));
        }
        let number = u64::decode(node, reader)?;
        let number = u32::try_from(number).ok().filter(|number| *number <= MOST).map(Self);
        number.or_else(|| reader.out_of_range(node, &format!("must be at most {MOST}")))
    }

    fn stand_in(_: &YamlNode) -> Option<Self> {
        Some(Self(LEAST))
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "integer", "minimum": LEAST, "maximum": MOST})
    }
}

impl Default for WorkFile {
    fn default() -> Self {
        Self {
            calls: BoundedNumber(4),
            parallel: NonZeroU32::MIN,
            repeat_failed: 1,
            report: Value::Object(Map::new()),
        }
    }
}

impl Default for TokensFile {
    fn default() -> Self {
        Self { input: 1_000, output: 200, grows: 0 }
    }
}
