//! `context.reduce`: the steps of a reduction, each distinguished by its kind.

use core::num::NonZeroU32;
use std::sync::Arc;

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use crate::policy::decode::{Decode, NodeReader, SchemaOf, union};
use crate::policy::document::fraction::OpenFraction;
use crate::policy::layer_value::LayerValue;
use crate::policy::{ReduceStep, SizeCap, TextSize};
use crate::text::yaml::{YamlData, YamlNode};
use crate::text::{Code, Diagnostic};

/// The most steps of a reduction.
const MOST_STEPS: usize = 16;

/// The size of a piece of text, which is not nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PieceSize(TextSize);

/// The steps, in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReduceSteps(Arc<[ReduceStep]>);

union! {
    /// One step of a reduction. A call and its results stay together, or go together, in all of them; the instructions
    /// above the conversation and the digest of what was left out stay.
    enum StepRule by kind {
        /// Results of tools are shortened, the oldest first.
        Results = "results" {
            /// So many messages at the end stay as they are.
            /// Example: `4`
            keep_last: NonZeroU32,
            /// Only results that are larger.
            /// Checks: W0248.
            /// Example: `50 tokens`
            over: PieceSize,
            /// How much of the beginning stays.
            /// Checks: W0248.
            /// Example: `100 chars`
            show: PieceSize,
        },
        /// The oldest messages are left out.
        Drop = "drop" {
            /// So many messages at the end stay.
            /// Example: `10`
            keep_last: NonZeroU32,
        },
        /// The oldest messages are left out, and a line about each of them stays: in one message, which grows with every
        /// reduction until it has its most.
        Digest = "digest" {
            /// So many messages at the end stay.
            /// Example: `10`
            keep_last: NonZeroU32,
            /// The most of all the lines; the oldest are left out.
            /// Example: `500 tokens`
            max: PieceSize,
            /// The most of the line about a message.
            /// Example: `80 chars`
            line: PieceSize,
            /// The most of the line about the result of a tool.
            /// Example: `60 chars`
            result_line: PieceSize,
        },
        /// The oldest messages are left out, and a model sums them up, together with the summary that is there already. If it does not, the next step is made.
        Summary = "summary" {
            /// So many messages at the end stay.
            /// Example: `10`
            keep_last: NonZeroU32,
            /// The most of the summary.
            /// Example: `800 tokens`
            max: PieceSize,
            /// The model of the run that writes it. Left out: the one whose window it is for.
            /// Example: `small`
            model: Option<String>,
            /// How much of its window the request for it may fill; of a longer one the beginning is cut out.
            /// Example: `0.5`
            input: OpenFraction = OpenFraction(800_000),
        },
        /// The last resort, and only while there is less room than `compact_at_free`: large texts are cut in their middle, then the oldest messages are left out, then what was kept until then is cut.
        Truncate = "truncate" {
            /// So many messages at the end stay as long as can be.
            /// Example: `6`
            keep_last: NonZeroU32,
            /// Only texts that are larger are cut.
            /// Checks: W0248.
            /// Example: `2000 chars`
            over: PieceSize,
            /// How much of the beginning stays.
            /// Checks: W0248.
            /// Example: `1000 chars`
            head: PieceSize,
            /// How much of the end stays.
            /// Checks: W0248.
            /// Example: `500 chars`
            tail: PieceSize,
        },
    }
}

impl From<StepRule> for ReduceStep {
    fn from(rule: StepRule) -> Self {
        match rule {
            StepRule::Results { keep_last, over, show } => {
                Self::Results { keep_last: keep_last.get(), over: over.0, show: show.0 }
            }
            StepRule::Drop { keep_last } => Self::Drop { keep_last: keep_last.get() },
            StepRule::Digest { keep_last, max, line, result_line } => Self::Digest {
                keep_last: keep_last.get(),
                most: max.0,
                line: line.0,
                result_line: result_line.0,
            },
            StepRule::Summary { keep_last, max, model, input } => {
                Self::Summary { keep_last: keep_last.get(), most: max.0, model, input_ppm: input.0 }
            }
            StepRule::Truncate { keep_last, over, head, tail } => {
                Self::Truncate { keep_last: keep_last.get(), over: over.0, head: head.0, tail: tail.0 }
            }
        }
    }
}

impl Decode for ReduceSteps {
    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        // The number is checked before the steps are read, so that a list of thousands costs nothing.
        if let YamlData::List(nodes) = &node.data
            && let Some(node) = nodes.get(MOST_STEPS)
        {
            let message = format!("more than {MOST_STEPS} steps");
            reader.report(Diagnostic::error(Code::TOO_LARGE, node.span, message));
            return None;
        }
        let rules = Vec::<StepRule>::decode(node, reader)?;
        Some(Self(rules.into_iter().map(ReduceStep::from).collect()))
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        let step = generator.subschema_for::<SchemaOf<StepRule>>();
        json_schema!({"type": "array", "items": step, "maxItems": MOST_STEPS})
    }
}

impl LayerValue for ReduceSteps {
    type Value = Arc<[ReduceStep]>;

    fn over(&self, _: Option<&Arc<[ReduceStep]>>) -> Arc<[ReduceStep]> {
        Arc::clone(&self.0)
    }

    fn show(&self) -> Value {
        Self::show_value(&self.0)
    }

    fn show_value(value: &Arc<[ReduceStep]>) -> Value {
        value.iter().map(shown).collect()
    }
}

/// As it is written.
fn shown(step: &ReduceStep) -> Value {
    let size = |size: &TextSize| size.to_string();
    let kind = step.name();
    match step {
        ReduceStep::Results { keep_last, over, show } => {
            json!({"kind": kind, "keep_last": keep_last, "over": size(over), "show": size(show)})
        }
        ReduceStep::Drop { keep_last } => json!({"kind": kind, "keep_last": keep_last}),
        ReduceStep::Digest { keep_last, most, line, result_line } => json!({
            "kind": kind, "keep_last": keep_last, "max": size(most), "line": size(line),
            "result_line": size(result_line),
        }),
        ReduceStep::Summary { keep_last, most, model, input_ppm } => {
            let input = OpenFraction(*input_ppm).show();
            let mut step = json!({"kind": kind, "keep_last": keep_last, "max": size(most), "input": input});
            if let (Some(step), Some(model)) = (step.as_object_mut(), model) {
                step.insert("model".to_owned(), json!(model));
            }
            step
        }
        ReduceStep::Truncate { keep_last, over, head, tail } => json!({
            "kind": kind, "keep_last": keep_last, "over": size(over), "head": size(head), "tail": size(tail),
        }),
    }
}

impl Decode for PieceSize {
    const NAME: Option<&'static str> = Some("Piece");

    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        let YamlData::Text(text) = &node.data else {
            return reader.wrong_type(node, "a size such as `100 chars`");
        };
        match SizeCap::parse(text).and_then(SizeCap::size) {
            Some(size) if size.count == 0 => reader.out_of_range(node, "must be at least 1"),
            Some(size) => Some(Self(size)),
            None => {
                let message = format!("invalid size `{text}`");
                let help = "write a whole number and `chars`, `bytes`, `KiB`, `MiB` or `tokens`";
                reader.report(Diagnostic::error(Code::WRONG_TYPE, node.span, message).help(help));
                None
            }
        }
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "pattern": r"^\s*0*[1-9][0-9]*\s*(chars?|bytes?|B|KiB|MiB|tokens?)\s*$",
            "description": "A size. Units: chars, bytes, KiB, MiB, tokens. Example: `100 chars`",
        })
    }
}
