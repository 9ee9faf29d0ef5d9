//! `tools.*.breaker:`: when a tool is no longer called.

use core::num::NonZeroU32;

use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::fraction::OpenFraction;
use super::lasting::NonZeroTime;
use super::retry::FailureThreshold;
use super::text::{TemplateText, variables};
use crate::policy::decode::{Decode, NodeReader, union};
use crate::policy::form::{Block, Effective, Form};
use crate::policy::layer_value::plain_leaf;
use crate::policy::{BreakerScope, CountWindow, FailureCounting, TimeBound};
use crate::text::yaml::YamlNode;
use crate::time::Nanos;

variables! {
    /// What is known when a breaker is open.
    Broken = ["tool", "failures"];
}

/// When a tool is no longer called.
#[derive(Clone, Debug, Block)]
pub struct BreakerPolicy<F: Form = Effective> {
    /// Failures that open it, counted as `count` says, or `never`.
    /// Checks: W0209, W0230.
    /// Example: `5`
    #[key(looser = More)]
    pub failures: F::Of<FailureThreshold>,
    /// Which failures count together.
    pub count: F::Of<FailureCounting>,
    /// How long what is known of failures lasts.
    /// Checks: W0249.
    #[key(looser = Less)]
    pub scope: F::Of<BreakerScope>,
    /// How long it stays open before probes are let through.
    /// Checks: W0220, W0232, W0249.
    /// Example: `1m`
    #[key(looser = Less)]
    pub open_for: F::Of<TimeBound>,
    /// How many probes may run at a time. A probe that is cancelled is given back.
    /// Checks: W0232.
    /// Example: `1`
    #[key(looser = More)]
    // A probe that never came back has kept breakers half-open for ever (resilience4j 903, Polly 1979).
    pub probes: F::Of<NonZeroU32>,
    /// How many probes have to go well before it closes. One that fails opens it again.
    /// Checks: W0232.
    /// Example: `2`
    #[key(looser = Less)]
    pub successes: F::Of<NonZeroU32>,
    /// Whether models are not shown the tool while it is open.
    /// Example: `true`
    #[key(looser = Less)]
    pub hide: F::Of<bool>,
    /// What the model learns instead of a run.
    /// Example: `{{ tool }} has failed {{ failures }} times. Go another way.`
    pub message: F::Of<TemplateText<Broken>>,
}

union! {
    /// Which failures count together. Replaced whole.
    enum CountRule by kind {
        /// Failures in a row: a success begins anew.
        Consecutive = "consecutive" {},
        /// All failures: a success takes none back.
        Cumulative = "cumulative" {},
        /// Failures among the last results.
        Window = "window" {
            /// The last so many results.
            /// Checks: W0230.
            // 100 results, as resilience4j has by default (`slidingWindowSize`).
            calls: WindowCalls = WindowCalls(NonZeroU32::MIN.saturating_add(99)),
            /// Results that are older do not count. Left out: however old they are.
            /// Example: `1m`
            within: Option<NonZeroTime<Nanos>>,
            /// Failures per result that there must be besides, as a fraction. Left out: `failures` alone counts.
            ratio: Option<OpenFraction>,
            /// So many results there must be.
            /// Example: `10`
            min_calls: u32 = 0,
        },
    }
}

/// How many results a window holds.
#[derive(Clone, Copy, Debug)]
struct WindowCalls(NonZeroU32);

impl Decode for WindowCalls {
    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        let calls = NonZeroU32::decode(node, reader)?;
        // The results of a window are a part of the state of a run, so their number is bounded.
        if calls.get() > CountWindow::MOST {
            return reader.out_of_range(node, "must be at most 1000");
        }
        Some(Self(calls))
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        schemars::json_schema!({
            "type": "integer", "minimum": 1, "maximum": CountWindow::MOST, "examples": [20],
        })
    }
}

impl Decode for FailureCounting {
    const NAME: Option<&'static str> = CountRule::NAME;

    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        Some(match CountRule::decode(node, reader)? {
            CountRule::Consecutive {} => Self::Consecutive,
            CountRule::Cumulative {} => Self::Cumulative,
            CountRule::Window { calls, within, ratio, min_calls } => Self::Window(CountWindow {
                calls: calls.0,
                within: within.map(|within| within.0),
                ratio_ppm: ratio.map_or(0, |ratio| ratio.0),
                min_calls,
            }),
        })
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        CountRule::schema(generator)
    }
}

plain_leaf! {
    BreakerScope => |value| json!(value), ordered;
    FailureCounting => |count| {
        let mut shown = Map::new();
        shown.insert("kind".to_owned(), count.to_string().into());
        if let FailureCounting::Window(CountWindow { calls, within, ratio_ppm, min_calls }) = count {
            shown.insert("calls".to_owned(), calls.get().into());
            if let Some(within) = within {
                shown.insert("within".to_owned(), within.to_string().into());
            }
            if *ratio_ppm > 0 {
                shown.insert("ratio".to_owned(), OpenFraction(*ratio_ppm).show());
            }
            shown.insert("min_calls".to_owned(), (*min_calls).into());
        }
        Value::Object(shown)
    };
}
