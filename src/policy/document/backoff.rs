//! `backoff:`, distinguished by its kind and replaced whole, but for its jitter: what is written without one keeps that of the
//! layer below, so that whoever changes a delay does not make many clients retry in step.

use core::str::FromStr;
use std::sync::Arc;

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value};

use super::fraction::{OpenFraction, shown};
use crate::policy::decode::{Decode, NodeReader, Spanned, choice, union};
use crate::policy::layer_value::{LayerValue, plain_leaf};
use crate::policy::{Backoff, BackoffShape, Jitter};
use crate::text::yaml::{YamlData, YamlNode};
use crate::text::{Code, Diagnostic, GrowthFactor};
use crate::time::Nanos;

union! {
    /// The delay before each next attempt; `n` is the attempt that failed, from 1. Replaced whole, but for `jitter`: left out,
    /// it is that of the layer below.
    enum BackoffRule by kind {
        /// Always the same delay.
        Constant = "constant" {
            /// The delay.
            /// Example: `1s`
            delay: Nanos,
            /// The longest delay, jitter included.
            /// Checks: W0213.
            /// Example: `30s`
            cap: Option<Nanos>,
            /// How delays are spread. Left out: as those of the layer below.
            /// Checks: W0260.
            /// Example: `full`
            jitter: Option<JitterRule>,
            /// How far `plus_minus` spreads, as a fraction.
            spread: Option<Spanned<OpenFraction>>,
        },
        /// `base + step * (n - 1)`.
        Linear = "linear" {
            /// The first delay.
            /// Example: `500ms`
            base: Nanos,
            /// What each attempt adds.
            /// Example: `500ms`
            step: Nanos,
            /// The longest delay, jitter included.
            /// Checks: W0213.
            /// Example: `30s`
            cap: Option<Nanos>,
            /// How delays are spread. Left out: as those of the layer below.
            /// Checks: W0260.
            /// Example: `full`
            jitter: Option<JitterRule>,
            /// How far `plus_minus` spreads, as a fraction.
            spread: Option<Spanned<OpenFraction>>,
        },
        /// `base * factor^(n - 1)`.
        Exponential = "exponential" {
            /// The first delay.
            /// Example: `500ms`
            base: Nanos,
            /// By what each attempt multiplies; a number of at least 1.
            factor: GrowthFactor,
            /// The longest delay, jitter included.
            /// Checks: W0213.
            /// Example: `30s`
            cap: Option<Nanos>,
            /// How delays are spread. Left out: as those of the layer below.
            /// Checks: W0260.
            /// Example: `full`
            jitter: Option<JitterRule>,
            /// How far `plus_minus` spreads, as a fraction.
            spread: Option<Spanned<OpenFraction>>,
        },
        /// `base` times 1, 1, 2, 3, 5, 8 and so on.
        Fibonacci = "fibonacci" {
            /// The first delay.
            /// Example: `500ms`
            base: Nanos,
            /// The longest delay, jitter included.
            /// Checks: W0213.
            /// Example: `30s`
            cap: Option<Nanos>,
            /// How delays are spread. Left out: as those of the layer below.
            /// Checks: W0260.
            /// Example: `full`
            jitter: Option<JitterRule>,
            /// How far `plus_minus` spreads, as a fraction.
            spread: Option<Spanned<OpenFraction>>,
        },
        /// The delays one after another; the last one repeats.
        Schedule = "schedule" {
            /// The delays.
            /// Example: `["1s", "5s", "30s"]`
            delays: DelayList,
            /// The longest delay, jitter included.
            /// Checks: W0213.
            /// Example: `30s`
            cap: Option<Nanos>,
            /// How delays are spread. Left out: as those of the layer below.
            /// Checks: W0260.
            /// Example: `full`
            jitter: Option<JitterRule>,
            /// How far `plus_minus` spreads, as a fraction.
            spread: Option<Spanned<OpenFraction>>,
        },
    }
}

choice! {
    /// How delays are spread, so that many callers do not come back at once.
    enum JitterRule {
        /// Not at all.
        None = "none",
        /// Anywhere from zero to the delay.
        Full = "full",
        /// Anywhere from half the delay to the delay.
        Equal = "equal",
        /// The delay, less or more by up to `spread` of it.
        PlusMinus = "plus_minus",
        /// Anywhere from the base to three times the delay before.
        Decorrelated = "decorrelated",
    }
}

/// Delays one after another; at least one.
#[derive(Clone, Debug)]
struct DelayList(Arc<[Nanos]>);

/// A backoff as a layer writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenBackoff {
    pub(crate) shape: BackoffShape,
    pub(crate) cap: Option<Nanos>,
    /// `None`: that of the layer below.
    pub(crate) jitter: Option<Jitter>,
}

impl LayerValue for WrittenBackoff {
    type Value = Backoff;

    fn over(&self, below: Option<&Backoff>) -> Backoff {
        // Jitter is not lost by changing a delay: without it, clients of one server retry in step.
        let jitter = self.jitter.or_else(|| below.map(|below| below.jitter)).unwrap_or(Jitter::None);
        Backoff { shape: self.shape.clone(), cap: self.cap, jitter }
    }

    fn keeps(&self) -> bool {
        self.jitter.is_none()
    }

    fn show(&self) -> Value {
        show(&self.shape, self.cap.as_ref(), self.jitter)
    }

    fn show_value(value: &Backoff) -> Value {
        show(&value.shape, value.cap.as_ref(), Some(value.jitter))
    }
}

impl Decode for WrittenBackoff {
    const NAME: Option<&'static str> = BackoffRule::NAME;

    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        let (shape, cap, jitter, spread) = match BackoffRule::decode(node, reader)? {
            BackoffRule::Constant { delay, cap, jitter, spread } => {
                (BackoffShape::Constant { delay }, cap, jitter, spread)
            }
            BackoffRule::Linear { base, step, cap, jitter, spread } => {
                (BackoffShape::Linear { base, step }, cap, jitter, spread)
            }
            BackoffRule::Exponential { base, factor, cap, jitter, spread } => {
                (BackoffShape::Exponential { base, factor }, cap, jitter, spread)
            }
            BackoffRule::Fibonacci { base, cap, jitter, spread } => {
                (BackoffShape::Fibonacci { base }, cap, jitter, spread)
            }
            BackoffRule::Schedule { delays, cap, jitter, spread } => {
                (BackoffShape::Schedule { delays: delays.0 }, cap, jitter, spread)
            }
        };
        let jitter = match (jitter, spread) {
            (Some(JitterRule::PlusMinus), Some(spread)) => Some(Jitter::PlusMinus { ppm: spread.value.0 }),
            // How far a delay is spread is all that this jitter means, so there is no default for it.
            (Some(JitterRule::PlusMinus), None) => {
                reader.missing_field(node, "spread");
                return None;
            }
            // A value without effect is refused, because who wrote it expects one.
            (_, Some(spread)) => {
                let problem = Diagnostic::error(
                    Code::CONTRADICTION,
                    spread.span,
                    "`spread` is only for `jitter: plus_minus`",
                );
                reader.report(problem.help("remove it, or write `jitter: plus_minus`"));
                return None;
            }
            (None, None) => None,
            (Some(JitterRule::None), None) => Some(Jitter::None),
            (Some(JitterRule::Full), None) => Some(Jitter::Full),
            (Some(JitterRule::Equal), None) => Some(Jitter::Equal),
            (Some(JitterRule::Decorrelated), None) => Some(Jitter::Decorrelated),
        };
        Some(Self { shape, cap, jitter })
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = BackoffRule::schema(generator);
        let plus_minus = serde_json::json!({"type": "object", "properties": {"jitter": {"const": "plus_minus"}}, "required": ["jitter"]});
        // The schema says the same as the decoder, so that editors warn before the program does.
        schema.insert("if".into(), plus_minus);
        schema.insert("then".into(), serde_json::json!({"type": "object", "required": ["spread"]}));
        schema.insert("else".into(), serde_json::json!({"type": "object", "properties": {"spread": false}}));
        schema
    }
}

impl Decode for DelayList {
    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        let delays: Vec<Nanos> = Decode::decode(node, reader)?;
        if delays.is_empty() {
            reader.report(Diagnostic::error(
                Code::OUT_OF_RANGE,
                node.span,
                "a schedule needs at least one delay",
            ));
            return None;
        }
        Some(Self(delays.into()))
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = <Vec<Nanos>>::schema(generator);
        schema.insert("minItems".into(), 1.into());
        schema
    }
}

impl Decode for GrowthFactor {
    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        let YamlData::Number(_) = node.data else {
            return reader.wrong_type(node, "a number of at least 1");
        };
        // Read from the text and not from a float, so that 1.1 is exactly eleven tenths.
        match Self::from_str(reader.text(node.span)) {
            Ok(ratio) => Some(ratio),
            Err(error) => {
                let problem = Diagnostic::error(Code::OUT_OF_RANGE, node.span, error.message);
                reader.report(problem.help_if(error.help));
                None
            }
        }
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "number", "minimum": 1, "maximum": 1000, "examples": [2, 1.5]})
    }
}

plain_leaf! {
    GrowthFactor => |value| decimal(*value);
}

fn show(shape: &BackoffShape, cap: Option<&Nanos>, jitter: Option<Jitter>) -> Value {
    let length = |length: &Nanos| Value::from(length.to_string());
    let mut out = Map::new();
    let mut put = |key: &str, value: Value| {
        out.insert(key.to_owned(), value);
    };
    match shape {
        BackoffShape::Constant { delay } => {
            put("kind", "constant".into());
            put("delay", length(delay));
        }
        BackoffShape::Linear { base, step } => {
            put("kind", "linear".into());
            put("base", length(base));
            put("step", length(step));
        }
        BackoffShape::Exponential { base, factor } => {
            put("kind", "exponential".into());
            put("base", length(base));
            put("factor", decimal(*factor));
        }
        BackoffShape::Fibonacci { base } => {
            put("kind", "fibonacci".into());
            put("base", length(base));
        }
        BackoffShape::Schedule { delays } => {
            put("kind", "schedule".into());
            put("delays", delays.iter().map(length).collect());
        }
    }
    if let Some(cap) = cap {
        put("cap", length(cap));
    }
    match jitter {
        None => {}
        Some(Jitter::None) => put("jitter", "none".into()),
        Some(Jitter::Full) => put("jitter", "full".into()),
        Some(Jitter::Equal) => put("jitter", "equal".into()),
        Some(Jitter::PlusMinus { ppm }) => {
            put("jitter", "plus_minus".into());
            put("spread", OpenFraction(ppm).show());
        }
        Some(Jitter::Decorrelated) => put("jitter", "decorrelated".into()),
    }
    Value::Object(out)
}

fn decimal(ratio: GrowthFactor) -> Value {
    if ratio.den() == 1 { ratio.num().into() } else { shown(ratio.num(), ratio.den()) }
}
