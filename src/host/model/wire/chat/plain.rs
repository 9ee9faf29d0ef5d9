//! Answers of nothing but the fields that every server sends, read in one go.
//!
//! Nearly all answers and chunks are such ones. Others may hold an error, and are looked at as JSON first, which takes
//! three times as long (`benches/gateway.py`).

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};

use crate::host::model::wire::lenient;
use crate::host::model::wire::objects::ObjectReader;
use crate::host::model::wire::usage::WireUsage;

/// An answer or a chunk, with choices of its kind.
#[derive(Deserialize)]
#[serde(remote = "Self")]
#[serde(deny_unknown_fields)]
struct PlainAnswer<C> {
    #[serde(rename = "object")]
    _object: ChatObject,
    choices: Vec<C>,
    #[serde(default, deserialize_with = "lenient::if_readable")]
    usage: Option<WireUsage>,
    #[serde(default, rename = "id")]
    _id: IgnoredAny,
    #[serde(default, rename = "created")]
    _created: IgnoredAny,
    #[serde(default, rename = "model")]
    _model: IgnoredAny,
    #[serde(default, rename = "system_fingerprint")]
    _fingerprint: IgnoredAny,
    #[serde(default, rename = "service_tier")]
    _tier: IgnoredAny,
}

/// What a body says that it is. Errors say something else.
#[derive(Deserialize)]
enum ChatObject {
    #[serde(rename = "chat.completion")]
    Answer,
    #[serde(rename = "chat.completion.chunk")]
    Chunk,
}

/// A choice, which may hold an error instead of an answer.
pub(super) trait ChatChoice {
    fn holds_error(&self) -> bool;
}

/// The choices and the tokens of an answer; `None`: it is to be looked at as JSON.
pub(super) fn read<'a, C: Deserialize<'a> + ChatChoice>(
    body: &'a str,
) -> Option<(Vec<C>, Option<WireUsage>)> {
    let PlainAnswer { choices, usage, .. } = serde_json::from_str(body).ok()?;
    let fails = choices.iter().any(ChatChoice::holds_error);
    (!fails).then_some((choices, usage))
}

impl<'de, C: Deserialize<'de>> Deserialize<'de> for PlainAnswer<C> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::deserialize(ObjectReader(deserializer))
    }
}
