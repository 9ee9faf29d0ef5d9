//! Responses, read into replies.

use reqwest::header::HeaderMap;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use super::continued::mark;
use super::items::{Item, is_unfinished, kept, kind, normal, parts, said, word};
use crate::engine::{Failure, FinishReason, ModelReply, ProposedCall};
use crate::host::model::failure;
use crate::host::model::wire::answer_fields::AnswerFields;
use crate::host::model::wire::drawn::or_images;
use crate::host::model::wire::extras::RESPONSE;
use crate::host::model::wire::finish::{begun, finish, not_whole, reason};
use crate::host::model::wire::ids::CallIds;
use crate::host::model::wire::objects::of_objects;
use crate::host::model::wire::usage::{WireUsage, tokens};
use crate::host::model::wire::{lenient, unread};
use crate::session::{Message, ToolCall};

/// The fields of a response that are not kept: which one it is, and what repeats the request (`response.py` of `OpenAI`'s SDK).
const NOT_KEPT: [&str; 26] = [
    "object",
    "type",
    "model",
    "created_at",
    "completed_at",
    "background",
    "conversation",
    "frequency_penalty",
    "max_tool_calls",
    "metadata",
    "parallel_tool_calls",
    "presence_penalty",
    "previous_response_id",
    "prompt",
    "prompt_cache_key",
    "prompt_cache_retention",
    "reasoning",
    "safety_identifier",
    "store",
    "temperature",
    "text",
    "tool_choice",
    "top_logprobs",
    "top_p",
    "truncation",
    "user",
];

/// A response, as a body or at the end of a stream.
#[derive(Debug, Default, Deserialize)]
#[serde(remote = "Self")]
pub(super) struct WireResponse {
    #[serde(default, deserialize_with = "lenient::text")]
    id: Option<String>,
    #[serde(default, deserialize_with = "lenient::text")]
    pub(super) status: Option<String>,
    #[serde(default)]
    pub(super) output: Option<Vec<Item>>,
    #[serde(default)]
    pub(super) error: Option<Value>,
    #[serde(default, deserialize_with = "lenient::if_readable")]
    incomplete_details: Option<IncompleteDetails>,
    #[serde(default, deserialize_with = "tokens")]
    usage: Option<WireUsage>,
    #[serde(default, deserialize_with = "lenient::if_readable")]
    max_output_tokens: Option<u64>,
    // What repeats the request at length.
    #[serde(default, rename = "instructions")]
    _instructions: IgnoredAny,
    #[serde(default, rename = "tools")]
    _tools: IgnoredAny,
    #[serde(flatten)]
    more: Map<String, Value>,
}

#[derive(Debug, Deserialize)]
#[serde(remote = "Self")]
struct IncompleteDetails {
    #[serde(default, deserialize_with = "reason")]
    reason: Option<String>,
}

/// Reads the body of a response whose HTTP status says that all is well. `conversation` is what was sent: the ids of calls
/// are unique in it.
///
/// # Errors
/// The body holds an error, is cut off, is not JSON, or is no response that is whole.
pub(super) fn read_body(
    body: &[u8],
    headers: &HeaderMap,
    conversation: &[Message],
    (issuer, keeps, most): (&str, bool, Option<u64>),
) -> Result<ModelReply, Failure> {
    let value = unread::json(body)?;
    if let Some(failure) = failure::inside_success(&value, headers) {
        return Err(failure);
    }
    let mut response: WireResponse = serde_json::from_value(value).map_err(|error| unexpected(&error))?;
    let items = response.output.take().ok_or_else(without_output)?;
    let items = items.into_iter().map(normal).collect::<Result<_, _>>()?;
    let mut fields = AnswerFields::default();
    fields.add(response.rest(), 0);
    to_reply(items, &response, fields, conversation, (issuer, keeps, most))
}

/// JSON of another shape than the format's.
pub(super) fn unexpected(error: &serde_json::Error) -> Failure {
    failure::unreadable(format!("the answer is not a response: {error}"))
}

/// A response that has no items.
pub(super) fn without_output() -> Failure {
    failure::unreadable("the answer holds no output")
}

/// The reply that the items of a response are. `keeps`: whether the server keeps it, and the next request continues it; `most`: the
/// most tokens that were asked for.
///
/// # Errors
/// The response is not whole.
pub(super) fn to_reply(
    mut items: Vec<Item>,
    response: &WireResponse,
    fields: AnswerFields,
    conversation: &[Message],
    (issuer, keeps, most): (&str, bool, Option<u64>),
) -> Result<ModelReply, Failure> {
    let finish = response.finish(&items, most)?;
    let is_cut = response.status.as_deref() != Some("completed");
    if is_cut {
        // What the call would have become is unknown.
        items.retain(|item| kind(item) != "function_call" || !is_half(item));
    }
    let mut ids = None;
    let (mut text, mut calls) = (String::new(), Vec::new());
    for item in &mut items {
        match kind(item) {
            "message" => text.extend(parts(item).filter_map(said).map(|(_, text)| text)),
            "function_call" => {
                let ids = ids.get_or_insert_with(|| CallIds::of(conversation));
                // `id` is the item's own, and the result names `call_id`.
                let id = ids.next(Some(word(item, "call_id").to_owned()));
                item.insert("call_id".to_owned(), id.as_str().into());
                calls.push(call(id, item));
            }
            _ => {}
        }
    }
    let is_image = |item: &&Item| kind(item) == "image_generation_call" && !word(item, "result").is_empty();
    let text = or_images(text, items.iter().filter(is_image).count());
    let mut extra = kept(&items, issuer).map(|kept| (RESPONSE.to_owned(), kept)).into_iter().collect();
    fields.keep(&mut extra, Some(issuer));
    let usage = response.usage.map(WireUsage::usage);
    let calls = begun(calls, &finish);
    let mut reply = ModelReply { text, calls, finish, usage, extra, ..ModelReply::default() };
    // One that was cut may have calls at the server that are none here.
    if let Some(id) = response.id.as_deref().filter(|id| keeps && !is_cut && !id.is_empty()) {
        mark(&mut reply, id, issuer, conversation);
    }
    Ok(reply)
}

fn call(id: String, item: &Item) -> ProposedCall {
    let (name, arguments) = (word(item, "name").to_owned(), word(item, "arguments").to_owned());
    ToolCall { id, name, arguments }.into()
}

/// Whether a call of an answer that was stopped would be run though it is not whole. One whose arguments are no JSON is
/// refused where calls are checked.
fn is_half(call: &Item) -> bool {
    let arguments = word(call, "arguments");
    let could_run = || serde_json::from_str::<IgnoredAny>(arguments).is_ok();
    // The status of a call need not say that it was stopped (vllm-project/vllm#57998).
    arguments.trim().is_empty() || (is_unfinished(call) && could_run())
}

impl WireResponse {
    /// Takes out what is neither read nor repeats the request.
    pub(super) fn rest(&mut self) -> Map<String, Value> {
        let mut more = core::mem::take(&mut self.more);
        more.retain(|name, _| !NOT_KEPT.contains(&name.as_str()));
        more
    }

    /// Why the model stopped.
    fn finish(&self, items: &[Item], most: Option<u64>) -> Result<FinishReason, Failure> {
        match self.status.as_deref() {
            Some("completed") => completed(items).map(|finish| {
                // llama.cpp calls an answer completed that it has cut there.
                if self.is_full(most) { FinishReason::Length } else { finish }
            }),
            Some("incomplete") => {
                let details = self.incomplete_details.as_ref();
                // Whatever cut it (`max_output_tokens`, `max_messages`, `steered`), it is not whole; a timeout of the server is
                // no limit.
                match finish(details.and_then(|details| details.reason.clone()))? {
                    FinishReason::ContentFilter => Ok(FinishReason::ContentFilter),
                    _ => Ok(FinishReason::Length),
                }
            }
            Some(status) => Err(not_whole(status, status)),
            None => Err(failure::cut_off("the answer has no `status`, so it may be cut")),
        }
    }
}

impl WireResponse {
    /// Whether it has as many tokens as it may have. One with more is not cut: xAI does not count reasoning against the limit.
    fn is_full(&self, most: Option<u64>) -> bool {
        let said = self.usage.map_or(0, |usage| usage.usage().output);
        said > 0 && self.max_output_tokens.or(most) == Some(said)
    }
}

/// Whether it is a whole call that code which the server runs has made: the code waits for its result ("Programmatic tool calling" of
/// `OpenAI`).
fn is_under_way(item: &Item) -> bool {
    let is_object = serde_json::from_str::<Item>(word(item, "arguments")).is_ok();
    kind(item) == "function_call"
        && word(item, "status") == "in_progress"
        && item.contains_key("caller")
        && is_object
}

fn completed(items: &[Item]) -> Result<FinishReason, Failure> {
    let unfinished = |item: &Item| is_unfinished(item) && !is_under_way(item);
    if let Some((at, item)) = items.iter().enumerate().find(|(_, item)| unfinished(item)) {
        return Err(failure::unreadable(format!(
            "the answer is `completed`, but output item {at} (`{}`) is `{}`",
            kind(item),
            word(item, "status")
        )));
    }
    let refused = items.iter().flat_map(parts).filter_map(said).any(|(field, _)| field == "refusal");
    Ok(if refused {
        FinishReason::ContentFilter
    } else if items.iter().any(|item| kind(item) == "function_call") {
        // There is no status for calls.
        FinishReason::ToolCalls
    } else {
        FinishReason::Stop
    })
}

of_objects!(WireResponse, IncompleteDetails);
