//! `price:` of a model, in policies and in agent files.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value};

use crate::policy::decode::{Decode, NodeReader, SchemaOf, record};
use crate::policy::layer_value::plain_leaf;
use crate::policy::run_limits::dollars;
use crate::policy::{Cost, ModelPrice, Price};
use crate::text::yaml::{YamlData, YamlNode};
use crate::text::{Code, Diagnostic, parse_millionths};

record! {
    /// What a model's tokens cost, in US dollars per million.
    /// Example: `{"input": 2.50, "output": 10, "cache_read": 0.25}`
    pub struct PriceEntry {
        /// Tokens of the request.
        /// Example: `2.50`
        pub input: DollarAmount,
        /// Tokens of the reply.
        /// Example: `10`
        pub output: DollarAmount,
        /// Tokens of the request that are read from a cache; without it they cost what others do.
        /// Example: `0.25`
        pub cache_read: Option<DollarAmount>,
        /// Tokens of the request that are written into a cache; without it they cost what others do.
        /// Example: `3.125`
        pub cache_write: Option<DollarAmount>,
        /// Tokens of the reply that are reasoning; without it they cost what others do.
        /// Example: `10`
        pub reasoning: Option<DollarAmount>,
    }
}

/// An amount of US dollars, in millionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DollarAmount(pub u64);

/// An amount of US dollars that a run may cost; more than nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CostLimit(pub(crate) Cost);

impl Decode for DollarAmount {
    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        amount(node, reader, "a number of US dollars per million tokens").map(Self)
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "number", "minimum": 0, "examples": [2.5]})
    }
}

impl Decode for CostLimit {
    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        let millionths = amount(node, reader, "a number of US dollars")?;
        if millionths == 0 {
            return reader.out_of_range(node, "must be more than nothing");
        }
        // Amounts are read in millionths of a dollar, and one of those is a million picodollars.
        Some(Self(Cost::of([(millionths, 1_000_000)])))
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "number", "exclusiveMinimum": 0, "examples": [0.5]})
    }
}

/// An amount of US dollars, in millionths.
fn amount(node: &YamlNode, reader: &mut NodeReader<'_>, expected: &str) -> Option<u64> {
    let YamlData::Number(_) = node.data else {
        return reader.wrong_type(node, expected);
    };
    // Read from the text and not from a float: 0.1 has no exact one.
    match parse_millionths(reader.text(node.span)) {
        Ok(millionths) => Some(millionths),
        Err(error) => {
            let problem = Diagnostic::error(Code::OUT_OF_RANGE, node.span, error.message);
            reader.report(problem.help_if(error.help));
            None
        }
    }
}

impl From<&PriceEntry> for Price {
    fn from(entry: &PriceEntry) -> Self {
        let value = |price: Option<DollarAmount>| price.map(|price| price.0);
        Self {
            input: entry.input.0,
            output: entry.output.0,
            cache_read: value(entry.cache_read),
            cache_write: value(entry.cache_write),
            reasoning: value(entry.reasoning),
        }
    }
}

impl Decode for ModelPrice {
    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        match &node.data {
            YamlData::Text(word) if &**word == "unknown" => Some(Self::Unknown),
            YamlData::Map(_) => {
                PriceEntry::decode(node, reader).map(|entry| Self::Known(Price::from(&entry)))
            }
            _ => reader.wrong_type(node, "a price such as `{input: 2.50, output: 10}`, or `unknown`"),
        }
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        let price = generator.subschema_for::<SchemaOf<PriceEntry>>();
        json_schema!({"anyOf": [price, {"const": "unknown"}]})
    }
}

plain_leaf! {
    ModelPrice => |value| match value {
        ModelPrice::Known(price) => show_price(*price),
        ModelPrice::Unknown => "unknown".into(),
    };
}

fn show_price(price: Price) -> Value {
    let Price { input, output, cache_read, cache_write, reasoning } = price;
    let parts = [
        ("input", Some(input)),
        ("output", Some(output)),
        ("cache_read", cache_read),
        ("cache_write", cache_write),
        ("reasoning", reasoning),
    ];
    // A millionth of a dollar is a million picodollars.
    let shown = |millionths: u64| dollars(Cost::of([(millionths, 1_000_000)]));
    let parts = parts.into_iter().filter_map(|(name, price)| Some((name.to_owned(), shown(price?))));
    Value::Object(parts.collect::<Map<_, _>>())
}
