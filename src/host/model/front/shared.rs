//! Options that dialects share under names of their own: each is carried over as it is, or named as left out.

use serde_json::{Map, Value, json};

use super::GatewayDialect;
use super::fields::{Fields, LeftOut};
use crate::host::model::refusals::{RefusedOptions, SentOption};

/// The longest user that `OpenAI` takes ("Expected a string with maximum length 64"), and Anthropic (`metadata_param.py`).
const LONGEST_USER: [usize; 2] = [64, 256];
/// The most characters of a word that is one of a few.
const LONGEST_WORD: usize = 16;

/// Where each dialect has an option: chat completions, messages, Responses, Gemini. No client speaks Bedrock's, whose options
/// are for each family of models others.
struct SharedOption {
    places: [Option<&'static str>; 4],
    value: SharedValue,
}

/// What an option says.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SharedValue {
    /// The same in all dialects.
    Alike,
    /// One of a few words, of which models take some.
    Word,
    /// How much the model thinks.
    Effort,
    /// Who the client asks for.
    User,
}

const fn option(
    value: SharedValue,
    chat: &'static str,
    messages: &'static str,
    responses: &'static str,
    gemini: &'static str,
) -> SharedOption {
    const fn place(name: &'static str) -> Option<&'static str> {
        if name.is_empty() { None } else { Some(name) }
    }
    SharedOption { places: [place(chat), place(messages), place(responses), place(gemini)], value }
}

/// By the types of the SDKs of `OpenAI`, Anthropic and Google. Chat completions take `metadata` only of those that are to be
/// stored ("only allowed when 'store' is enabled"), so it does not go there.
const SHARED: [SharedOption; 12] = [
    option(
        SharedValue::Effort,
        "reasoning_effort",
        "output_config.effort",
        "reasoning.effort",
        "generationConfig.thinkingConfig.thinkingLevel",
    ),
    option(SharedValue::User, "user", "metadata.user_id", "user", ""),
    option(SharedValue::Alike, "metadata", "", "metadata", ""),
    option(SharedValue::Word, "verbosity", "", "text.verbosity", ""),
    option(SharedValue::Word, "service_tier", "", "service_tier", ""),
    option(SharedValue::Alike, "safety_identifier", "", "safety_identifier", ""),
    option(SharedValue::Alike, "prompt_cache_key", "", "prompt_cache_key", ""),
    option(SharedValue::Word, "prompt_cache_retention", "", "prompt_cache_retention", ""),
    option(SharedValue::Alike, "seed", "", "", "generationConfig.seed"),
    option(SharedValue::Alike, "presence_penalty", "", "", "generationConfig.presencePenalty"),
    option(SharedValue::Alike, "frequency_penalty", "", "", "generationConfig.frequencyPenalty"),
    option(SharedValue::Alike, "", "top_k", "", "generationConfig.topK"),
];

/// The options of a request that another dialect may have.
#[derive(Debug, Default)]
pub(super) struct SharedOptions(Vec<SaidOption>);

/// One that the client has said.
#[derive(Debug)]
struct SaidOption {
    /// Its place in the client's dialect.
    said: &'static str,
    value: Value,
    /// Its place in the table.
    at: usize,
}

const fn column(dialect: GatewayDialect) -> usize {
    match dialect {
        GatewayDialect::Chat => 0,
        GatewayDialect::Messages => 1,
        GatewayDialect::Responses => 2,
        GatewayDialect::Gemini => 3,
    }
}

impl SharedOptions {
    /// Takes those of a body in that dialect.
    pub(super) fn of(dialect: GatewayDialect, fields: &mut Fields) -> Self {
        let places = SHARED.iter().enumerate().filter_map(|(at, shared)| {
            let said = shared.places[column(dialect)]?;
            Some(SaidOption { said, value: fields.take_at(said)?, at })
        });
        Self(places.collect())
    }

    /// Writes those that the dialect has and the server takes into a body; others are named. Says which were written.
    pub(super) fn write(
        &self,
        dialect: Option<GatewayDialect>,
        refused: &RefusedOptions,
        body: &mut Map<String, Value>,
        left_out: &mut LeftOut,
    ) -> Vec<SentOption> {
        let mut sent = Vec::new();
        for SaidOption { said, value, at } in &self.0 {
            let shared = SHARED.get(*at);
            let written = dialect.zip(shared).and_then(|(dialect, shared)| {
                let place = shared.places[column(dialect)]?;
                let value = shared.value.written(dialect, said, value)?;
                let option = shared.value.sent(place, &value);
                (!refused.has(&option)).then(|| put(body, place, value)).map(|()| option)
            });
            match written {
                Some(option) => sent.push(option),
                None => left_out.add(said),
            }
        }
        sent
    }
}

impl SharedValue {
    /// The value as that dialect writes it; `None`: it has no word for it.
    fn written(self, dialect: GatewayDialect, said: &str, value: &Value) -> Option<Value> {
        match self {
            Self::Alike if said == "metadata" && dialect == GatewayDialect::Chat => None,
            Self::Alike | Self::Word => Some(value.clone()),
            Self::Effort => effort(dialect, value.as_str()?),
            Self::User => value.as_str().filter(|user| is_user(dialect, user)).map(|user| json!(user)),
        }
    }

    /// The option at that place, as refusals name it.
    fn sent(self, place: &'static str, value: &Value) -> SentOption {
        let name = place.rsplit('.').next().unwrap_or(place);
        let word = value.as_str().filter(|word| word.len() <= LONGEST_WORD);
        let word = word.filter(|_| matches!(self, Self::Word | Self::Effort));
        (name, word.map(str::to_ascii_lowercase))
    }
}

/// How much a model thinks, in a word of that dialect (`reasoning_effort.py` of `OpenAI`'s SDK, `output_config_param.py` of
/// Anthropic's, `ThinkingLevel` of Google's).
fn effort(dialect: GatewayDialect, said: &str) -> Option<Value> {
    let word = said.to_ascii_lowercase();
    let words: &[&str] = match dialect {
        GatewayDialect::Chat | GatewayDialect::Responses => {
            &["none", "minimal", "low", "medium", "high", "xhigh", "max"]
        }
        GatewayDialect::Messages => &["low", "medium", "high", "xhigh", "max"],
        GatewayDialect::Gemini => &["minimal", "low", "medium", "high", "xhigh"],
    };
    let known = words.contains(&&*word);
    known.then(|| json!(if dialect == GatewayDialect::Gemini { word.to_ascii_uppercase() } else { word }))
}

/// Whether a dialect takes that user. Anthropic refuses what looks like an address or a number of a telephone
/// (`valid_user_id` in `LiteLLM`), and no letter may be one.
fn is_user(dialect: GatewayDialect, user: &str) -> bool {
    let [openais, anthropics] = LONGEST_USER;
    match dialect {
        GatewayDialect::Messages => {
            user.chars().count() <= anthropics
                && !user.contains('@')
                && user.contains(|c: char| c.is_alphabetic())
        }
        GatewayDialect::Chat | GatewayDialect::Responses | GatewayDialect::Gemini => {
            user.chars().count() <= openais
        }
    }
}

/// Writes a value at that place.
fn put(body: &mut Map<String, Value>, place: &str, value: Value) {
    match place.split_once('.') {
        None => drop(body.insert(place.to_owned(), value)),
        Some((first, rest)) => {
            let within = body.entry(first).or_insert_with(|| json!({}));
            if let Value::Object(within) = within {
                put(within, rest, value);
            }
        }
    }
}
