//! What a provider says of a whole answer, beside the message in it: what it has searched, what its filters found, how likely each
//! token was. It is kept with the message, and never sent.

use serde_json::{Map, Value};

use super::extras::{ANSWER_FIELDS, FIELDS, ISSUER};
use super::kept::weight;
use super::lenient::to_number;

/// What comes in pieces, each about its own part of the text: lists in it grow. All else is said again as a whole, and the last one
/// holds, as with `citations` of Perplexity (BerriAI/litellm#13777) and `groundingMetadata` of Gemini
/// (langchain-ai/langchainjs#11456).
// `token_ids` are vLLM's, and the last two Gemini's: `post_fetch_processing.ts` of Google's `nodejs-vertexai` joins citations so.
const IN_PIECES: [&str; 4] = ["logprobs", "token_ids", "logprobsResult", "citationMetadata"];

/// They grow no further where a stream keeps so much: the rest of the answer needs room within its bounds too.
const MOST: usize = 4 << 20;

/// What has come of it.
#[derive(Debug, Default)]
pub(super) struct AnswerFields(Map<String, Value>);

impl AnswerFields {
    /// Takes out of an answer, or of a piece of one, all fields but those of these names. Returns how much is kept afterwards if it was
    /// `kept` before.
    pub(super) fn take(&mut self, from: &mut Value, read: &[&str], kept: usize) -> usize {
        let Value::Object(from) = from else { return kept };
        let names: Vec<String> = from.keys().filter(|name| !read.contains(&name.as_str())).cloned().collect();
        let more = names.into_iter().filter_map(|name| from.swap_remove(&name).map(|value| (name, value)));
        join(&mut self.0, more, false, kept)
    }

    /// The same of each choice of a list. Only what is said of the first is kept: the others are no part of the reply.
    pub(super) fn take_of_choices(
        &mut self,
        choices: Option<&mut Value>,
        read: &[&str],
        mut kept: usize,
    ) -> usize {
        for choice in choices.and_then(Value::as_array_mut).into_iter().flatten() {
            match choice.get("index").and_then(to_number) {
                None | Some(0) => kept = self.take(choice, read, kept),
                Some(_) => _ = Self::default().take(choice, read, 0),
            }
        }
        kept
    }

    /// Adds these. Returns the same.
    pub(super) fn add(&mut self, more: Map<String, Value>, kept: usize) -> usize {
        join(&mut self.0, more, false, kept)
    }

    /// Takes a word that each piece repeats. Returns the same.
    pub(super) fn take_word(&mut self, name: &str, said: Option<&str>, kept: usize) -> usize {
        match said {
            Some(said) if self.0.get(name).is_none_or(|known| known != said) => {
                join(&mut self.0, [(name.to_owned(), said.into())], false, kept)
            }
            _ => kept,
        }
    }

    /// Puts all of it into what is kept of a message. `issuer`: who sent it, if that is known.
    pub(super) fn keep(self, extra: &mut Map<String, Value>, issuer: Option<&str>) {
        if self.0.is_empty() {
            return;
        }
        let issuer = issuer.map(|issuer| (ISSUER, Value::from(issuer)));
        let kept: Value = issuer.into_iter().chain([(FIELDS, self.0.into())]).collect();
        extra.insert(ANSWER_FIELDS.to_owned(), kept);
    }
}

/// The fields that are kept with a message, if this issuer sent them.
pub(super) fn kept_fields<'m>(extra: &'m Map<String, Value>, issuer: &str) -> Option<&'m Map<String, Value>> {
    let kept = extra.get(ANSWER_FIELDS)?;
    kept.get(FIELDS).filter(|_| kept.get(ISSUER).is_some_and(|of| of == issuer))?.as_object()
}

/// Adds what a later piece says. Returns how much is kept afterwards if it was `kept` before.
pub(super) fn join(
    into: &mut Map<String, Value>,
    more: impl IntoIterator<Item = (String, Value)>,
    grows: bool,
    mut kept: usize,
) -> usize {
    for (name, value) in more {
        let grows = grows || IN_PIECES.contains(&name.as_str());
        match (into.get_mut(&name), value) {
            (_, value) if is_blank(&value) => {}
            (Some(Value::Object(known)), Value::Object(more)) => kept = join(known, more, grows, kept),
            (Some(Value::Array(list)), Value::Array(more)) if grows => {
                if kept < MOST {
                    kept += more.iter().map(weight).sum::<usize>();
                    list.extend(more);
                }
            }
            (Some(old), value) => {
                kept = (kept + weight(&value)).saturating_sub(weight(old));
                *old = value;
            }
            (None, value) => {
                kept += name.len() + weight(&value);
                into.insert(name, value);
            }
        }
    }
    kept
}

/// Null, an empty text or an empty list says nothing, and some servers refuse it when it is sent back.
pub(super) fn is_blank(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(object) => object.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
