//! Answers of nothing but the fields that every server sends, read in one go.
//!
//! Nearly all answers and chunks are such ones. Others may hold an error, and are looked at as JSON first, which takes
//! three times as long (`benches/gateway.py`).

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};

use crate::host::model::wire::objects::ObjectReader;
use crate::host::model::wire::usage::{WireUsage, tokens};

/// An answer or a chunk, with choices of its kind.
#[derive(Deserialize)]
#[serde(remote = "Self")]
#[serde(deny_unknown_fields)]
pub(super) struct PlainAnswer<'a, C> {
    #[serde(rename = "object")]
    _object: ChatObject,
    pub(super) choices: Vec<C>,
    #[serde(default, deserialize_with = "tokens")]
    pub(super) usage: Option<WireUsage>,
    #[serde(borrow, default)]
    pub(super) service_tier: Option<&'a str>,
    #[serde(default, rename = "id")]
    _id: IgnoredAny,
    #[serde(default, rename = "created")]
    _created: IgnoredAny,
    #[serde(default, rename = "model")]
    _model: IgnoredAny,
    #[serde(default, rename = "system_fingerprint")]
    _fingerprint: IgnoredAny,
    /// Pieces of `OpenAI` are made longer by it, so that their lengths tell nothing.
    #[serde(default, rename = "obfuscation")]
    _padding: IgnoredAny,
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

/// What an answer says; `None`: it is to be looked at as JSON.
pub(super) fn read<'a, C: Deserialize<'a> + ChatChoice>(body: &'a str) -> Option<PlainAnswer<'a, C>> {
    let plain: PlainAnswer<'_, C> = serde_json::from_str(body).ok()?;
    let fails = plain.choices.iter().any(ChatChoice::holds_error);
    (!fails).then_some(plain)
}

impl<'de: 'a, 'a, C: Deserialize<'de>> Deserialize<'de> for PlainAnswer<'a, C> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::deserialize(ObjectReader(deserializer))
    }
}
