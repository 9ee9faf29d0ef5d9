//! Streamed responses, put together piece by piece.

use reqwest::header::HeaderMap;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use super::calls::{StreamedCalls, merge};
use super::message::{ChatContent, ChatMessage};
use super::parts::{said, take_reasoning, take_thought, take_thoughts_end};
use super::plain::{self, ChatChoice, PlainAnswer};
use super::reply::{signed, take_rest, to_reply, unexpected};
use crate::engine::{Failure, FinishReason, ModelReply};
use crate::host::model::failure;
use crate::host::model::sse::SseEvent;
use crate::host::model::wire::answer_fields::AnswerFields;
use crate::host::model::wire::choices::FurtherChoices;
use crate::host::model::wire::extras::REASONING_PARTS;
use crate::host::model::wire::objects::of_objects;
use crate::host::model::wire::tally::StreamTally;
use crate::host::model::wire::usage::{WireUsage, tokens};
use crate::host::model::wire::{StreamDecoder, StreamProgress, chars, event, finish, lenient, unread};
use crate::session::Message;

/// Where a delta holds what the model says in addition to its answer.
// `reasoning_content` at DeepSeek, z.ai and Moonshot, `reasoning` at Ollama, OpenRouter and newer vLLM.
const SAID_ASIDE: [&str; 4] = ["reasoning_content", "reasoning", "thinking", "refusal"];

#[derive(Default, Deserialize)]
#[serde(remote = "Self")]
struct ChatChunk {
    #[serde(default, deserialize_with = "lenient::or_default")]
    choices: Vec<ChunkChoice>,
    #[serde(default, deserialize_with = "tokens")]
    usage: Option<WireUsage>,
}

/// A choice from which all is taken that is not read.
#[derive(Deserialize)]
#[serde(remote = "Self")]
#[serde(deny_unknown_fields)]
struct ChunkChoice {
    /// The first, if it has none that can be.
    #[serde(default, deserialize_with = "lenient::number")]
    index: Option<u64>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    delta: Option<ChatMessage>,
    /// All of it in one piece, where a server streams what it has whole.
    #[serde(default, deserialize_with = "lenient::or_default")]
    message: Option<ChatMessage>,
    /// Where Moonshot says the tokens.
    #[serde(default, deserialize_with = "tokens")]
    usage: Option<WireUsage>,
    #[serde(default, deserialize_with = "finish::reason")]
    finish_reason: Option<String>,
    /// As Google's server has called it.
    #[serde(default, rename = "finishReason", deserialize_with = "finish::reason")]
    google_reason: Option<String>,
    #[serde(default)]
    error: Option<IgnoredAny>,
    /// Together AI repeats it here.
    #[serde(default, rename = "text")]
    _text: IgnoredAny,
    // Null in most pieces: of all servers, vLLM, SGLang and Together AI. What is something is kept.
    #[serde(default, rename = "logprobs")]
    _logprobs: (),
    #[serde(default, rename = "stop_reason")]
    _stop: (),
    #[serde(default, rename = "token_ids")]
    _tokens: (),
    #[serde(default, rename = "matched_stop")]
    _matched: (),
    #[serde(default, rename = "seed")]
    _seed: (),
}

impl ChatChoice for ChunkChoice {
    fn holds_error(&self) -> bool {
        self.error.is_some()
    }
}

/// An answer that is being put together.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own about the stream")]
pub(crate) struct ChatParts {
    issuer: String,
    text: String,
    calls: StreamedCalls,
    extra: Map<String, Value>,
    fields: AnswerFields,
    finish: Option<String>,
    usage: Option<WireUsage>,
    tally: StreamTally,
    started: bool,
    done: bool,
    /// The tokens were reported in a chunk of their own, which comes at the end.
    counted: bool,
    /// The server may leave out why the model stopped.
    finish_optional: bool,
    /// The last piece of text was a thought.
    thinks: bool,
    others: FurtherChoices,
}

impl StreamDecoder for ChatParts {
    fn take(&mut self, event: &SseEvent, headers: &HeaderMap) -> Result<StreamProgress, Failure> {
        if event.data.trim() == event::DONE {
            self.done = true;
            return Ok(StreamProgress::Done);
        }
        let plain = (event.name != "error").then(|| plain::read(&event.data)).flatten();
        let chunk = match plain {
            Some(PlainAnswer { choices, usage, service_tier, .. }) => {
                self.tally.kept = self.fields.take_word("service_tier", service_tier, self.tally.kept);
                ChatChunk { choices, usage }
            }
            None => match event::data(event, headers) {
                Ok(Some(value)) => self.opened(value)?,
                Ok(None) => return Ok(StreamProgress::More),
                // OpenRouter says behind a cut answer that it was cut, as an error.
                Err(_) if self.is_cut() => {
                    let value = serde_json::from_str(&event.data).unwrap_or_default();
                    ChatChunk { choices: Vec::new(), ..self.opened(value).unwrap_or_default() }
                }
                Err(error) => return Err(error),
            },
        };
        self.count(chunk.usage);
        // With `include_usage` a last chunk without choices reports the tokens.
        self.counted = self.started && chunk.choices.is_empty() && (self.counted || chunk.usage.is_some());
        for choice in chunk.choices {
            let said = choice.finish_reason.or(choice.google_reason);
            let index = choice.index.unwrap_or_default();
            self.count(choice.usage);
            // One that repeats all of it behind its pieces says nothing new.
            let message = choice.message.filter(|_| index != 0 || self.is_blank());
            let mut delta = choice.delta.or(message).unwrap_or_default();
            let thought = if index == 0 { self.take_thoughts(&mut delta) } else { 0 };
            self.tally.received = self.tally.received.saturating_add(thought);
            take_reasoning(&mut delta);
            // The reply is the first choice, and others must not be mixed into it.
            if index == 0 {
                self.started = true;
                // More of the answer shows that the end before it was none: servers of Gemini's models write one at each piece.
                self.finish = self.finish.take().filter(|_| thought == 0 && !continues(&delta));
                self.add(delta)?;
                let said = said.filter(|said| finish::replaces(said, self.finish.as_deref()));
                self.finish = said.or(self.finish.take());
            } else if self.others.take(index, said.is_some()) {
                self.tally.received = self.tally.received.saturating_add(length(&delta));
            }
        }
        Ok(StreamProgress::More)
    }

    fn tally(&self) -> &StreamTally {
        &self.tally
    }

    fn tally_mut(&mut self) -> &mut StreamTally {
        &mut self.tally
    }

    fn is_whole(&self) -> bool {
        // The reason to stop ends an answer. `[DONE]` alone proves nothing: routers also write it behind a broken
        // stream.
        self.has_ended() && self.others.are_whole()
    }

    fn ask(&mut self, choices: u64) {
        self.others.ask(choices);
    }

    fn reply(self: Box<Self>, conversation: &[Message]) -> Result<ModelReply, Failure> {
        // A router may properly close a stream that broke off behind it.
        let half_a_call = self.finish.is_none() && self.calls.has_half();
        if self.done && !self.started {
            return Err(failure::unreadable("the answer holds no choices"));
        }
        if half_a_call || self.others.is_open() || !(self.done || self.has_ended()) {
            return Err(unread::ended_early(self.started));
        }
        if !self.has_ended() {
            return Err(unread::without_reason());
        }
        let message = ChatMessage {
            content: Some(ChatContent::Text(self.text)),
            tool_calls: self.calls.into_whole(),
            extra: self.extra,
            ..ChatMessage::default()
        };
        let reply = to_reply(message, self.finish, self.usage, self.fields, conversation)?;
        Ok(signed(reply, &self.issuer))
    }
}

impl ChatParts {
    /// Nothing yet. Where `finish_optional`, the end of the stream is enough.
    pub(super) fn of(finish_optional: bool, issuer: &str) -> Self {
        Self { issuer: issuer.to_owned(), finish_optional, ..Self::default() }
    }

    /// A chunk that holds more than every server sends.
    fn opened(&mut self, mut value: Value) -> Result<ChatChunk, Failure> {
        self.count(groq_usage(&value));
        self.tally.kept = take_rest(&mut value, &mut self.fields, self.tally.kept);
        serde_json::from_value(value).map_err(|error| unexpected(&error))
    }

    /// Gemini repeats the counts in several chunks, so they replace each other and are never added up.
    fn count(&mut self, usage: Option<WireUsage>) {
        if let Some(later) = usage {
            self.usage = Some(self.usage.unwrap_or_default().then(later));
        }
    }

    /// Whether nothing of the answer has come.
    fn is_blank(&self) -> bool {
        self.text.is_empty() && self.calls.is_empty()
    }

    /// Whether the first choice has.
    fn has_ended(&self) -> bool {
        self.finish.is_some() || (self.finish_optional && (self.done || self.counted))
    }

    /// Takes thoughts of Gemini's models out of a piece: how many characters they have.
    fn take_thoughts(&mut self, delta: &mut ChatMessage) -> u64 {
        let thought = take_thought(delta);
        if thought.is_none() && self.thinks && delta.content.is_some() {
            take_thoughts_end(delta);
        }
        self.thinks = thought.is_some() || (self.thinks && delta.content.is_none());
        thought.unwrap_or_default()
    }

    /// Whether the model was stopped at its limit.
    fn is_cut(&self) -> bool {
        self.finish
            .as_ref()
            .is_some_and(|said| finish::finish(Some(said.clone())) == Ok(FinishReason::Length))
    }

    fn add(&mut self, mut delta: ChatMessage) -> Result<(), Failure> {
        // Those that write both begin both.
        if self.calls.are_legacy() {
            let legacy = delta.take_legacy_call();
            delta.tool_calls.extend(legacy);
        }
        self.tally.received = self.tally.received.saturating_add(length(&delta));
        if let Some(content) = delta.content {
            let text = content.into_text();
            self.tally.kept += text.len();
            self.text.push_str(&text);
            self.tally.fresh.push_str(&text);
        }
        self.tally.has_calls |= !delta.tool_calls.is_empty();
        self.tally.kept = self.calls.add(delta.tool_calls, self.tally.kept)?;
        self.tally.kept = merge(&mut self.extra, delta.extra, self.tally.kept);
        Ok(())
    }
}

/// The tokens where Groq says them.
fn groq_usage(chunk: &Value) -> Option<WireUsage> {
    WireUsage::of(chunk.get("x_groq")?.get("usage")?)
}

/// Whether a delta has a piece of the answer, of a call or of what is said aside.
fn continues(delta: &ChatMessage) -> bool {
    !delta.tool_calls.is_empty() || length(delta) > 0
}

/// How many characters a delta has, of its text, of what is said aside and of calls.
fn length(delta: &ChatMessage) -> u64 {
    let text = delta.content.as_ref().map_or(0, ChatContent::length);
    let aside = SAID_ASIDE.iter().filter_map(|field| delta.extra.get(*field)?.as_str());
    let spoken = delta.extra.get("audio").and_then(|audio| audio.get("transcript")?.as_str());
    let aside = aside.chain(spoken).chain(delta.extra.get(REASONING_PARTS).into_iter().flat_map(said));
    let calls = delta.tool_calls.iter().flat_map(|call| [&call.function.name, &call.function.arguments]);
    text.saturating_add(aside.map(chars).sum()).saturating_add(calls.flatten().map(|text| chars(text)).sum())
}

of_objects!(ChatChunk, ChunkChoice);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::ProposedCall;
    use crate::policy::ErrorClass;
    use crate::session::{ToolCall, Usage};
    use serde_json::json;

    fn assemble(data: &[Value]) -> Result<ModelReply, Failure> {
        assemble_with(ChatParts::default(), data)
    }

    fn assemble_with(mut assembly: ChatParts, data: &[Value]) -> Result<ModelReply, Failure> {
        for value in data {
            let data = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            assembly.take(&SseEvent { name: String::new(), data }, &HeaderMap::new())?;
        }
        Box::new(assembly).reply(&[])
    }

    fn delta(delta: &Value) -> Value {
        json!({"choices": [{"index": 0, "delta": delta}]})
    }

    fn end(reason: &str) -> Value {
        json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
    }

    fn calls(pieces: &[Value]) -> Vec<ProposedCall> {
        let mut data: Vec<_> = pieces.iter().map(|piece| delta(&json!({"tool_calls": [piece]}))).collect();
        data.push(end("tool_calls"));
        assemble(&data).unwrap().calls
    }

    fn call(id: &str, name: &str, arguments: &str) -> ProposedCall {
        ToolCall { id: id.into(), name: name.into(), arguments: arguments.into() }.into()
    }

    #[test]
    fn a_call_of_old_is_one() {
        let piece = |said: Value| delta(&json!({ "function_call": said }));
        let reply = assemble(&[
            piece(json!({"name": "look", "arguments": ""})),
            piece(json!({"arguments": "{\"x\""})),
            piece(json!({"arguments": ":1}"})),
            end("function_call"),
        ])
        .unwrap();
        assert_eq!(
            (reply.calls, reply.finish),
            (vec![call("call_1", "look", r#"{"x":1}"#)], FinishReason::ToolCalls)
        );
        // Some servers write both.
        let both = |said: Value, new: Value| delta(&json!({"function_call": said, "tool_calls": [new]}));
        let begun = json!({"name": "look", "arguments": "{}"});
        let reply = assemble(&[
            both(begun.clone(), json!({"index": 0, "id": "a", "function": begun})),
            piece(json!({"arguments": ""})),
            end("tool_calls"),
        ]);
        assert_eq!(reply.unwrap().calls, [call("a", "look", "{}")]);
    }

    #[test]
    fn text_grows_and_usage_comes_last() {
        let reply = assemble(&[
            json!({"choices": [], "prompt_filter_results": []}),
            delta(&json!({"role": "assistant", "content": ""})),
            delta(&json!({"content": "Hel"})),
            delta(&json!({"content": "lo", "reasoning_content": "h"})),
            delta(&json!({"content": null, "reasoning_content": "m"})),
            end("stop"),
            json!({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2}}),
            json!("[DONE]"),
        ]);
        let reply = reply.unwrap();
        assert_eq!((reply.text.as_str(), reply.finish), ("Hello", FinishReason::Stop));
        assert_eq!(reply.usage, Some(Usage { input: 5, output: 2, ..Usage::default() }));
        assert_eq!(Value::Object(reply.extra), json!({"reasoning_content": "hm"}));
    }

    #[test]
    fn calls_are_put_together_by_index() {
        let pieces = [
            json!({"index": 0, "id": "a", "type": "function", "function": {"name": "look", "arguments": ""}}),
            json!({"index": 0, "function": {"arguments": "{\"x\""}}),
            json!({"index": 1, "id": "b", "function": {"name": "take", "arguments": "{"}}),
            json!({"index": 0, "function": {"arguments": ":1}"}}),
            json!({"index": 1, "function": {"arguments": "}"}}),
        ];
        assert_eq!(calls(&pieces), [call("a", "look", r#"{"x":1}"#), call("b", "take", "{}")]);
    }

    #[test]
    fn a_piece_of_a_call_that_has_not_begun_is_no_answer() {
        let begun = json!({"index": 0, "id": "a", "function": {"name": "look", "arguments": ""}});
        let piece = json!({"index": 0, "function": {"arguments": "{}"}});
        for calls in [vec![&piece], vec![&piece, &begun]] {
            let data: Vec<_> = calls.iter().map(|piece| delta(&json!({"tool_calls": [piece]}))).collect();
            let failure = assemble(&[data, vec![end("tool_calls")]].concat()).unwrap_err();
            let says = "the stream of the answer continues with a call that it has not begun";
            assert_eq!((failure.class, failure.message.as_str()), (Some(ErrorClass::ModelError), says));
        }
    }

    #[test]
    fn calls_without_or_with_the_same_index_are_told_apart_by_id() {
        for index in [Value::Null, json!(0)] {
            let pieces = [
                json!({"index": index, "id": "a", "function": {"name": "look", "arguments": "{"}}),
                json!({"index": index, "function": {"arguments": "}"}}),
                json!({"index": index, "id": "b", "function": {"name": "take", "arguments": {"y": 2}}}),
            ];
            assert_eq!(calls(&pieces), [call("a", "look", "{}"), call("b", "take", r#"{"y":2}"#)]);
        }
    }

    #[test]
    fn calls_of_one_event_with_one_index_and_no_ids_are_several() {
        let begun =
            |more: Value| json!({"index": 0, "id": more, "function": {"name": "look", "arguments": "{}"}});
        for id in [json!(""), Value::Null] {
            let both = json!({"tool_calls": [begun(id.clone()), begun(id)]});
            let reply = assemble(&[delta(&both), end("tool_calls")]).unwrap();
            assert_eq!(reply.calls, [call("call_1", "look", "{}"), call("call_2", "look", "{}")]);
        }
    }

    #[test]
    fn odd_places_of_calls_and_of_choices_are_read() {
        let piece = |index: &Value, said: Value| json!({"index": index, "id": said["id"], "function": said});
        for index in [json!(-1), json!("0"), json!(0.0), Value::Null] {
            let pieces = [
                piece(&index, json!({"id": "a", "name": "look", "arguments": "{"})),
                piece(&index, json!({"id": null, "arguments": "}"})),
            ];
            assert_eq!(calls(&pieces), [call("a", "look", "{}")], "{index}");
            let mut data = [delta(&json!({"content": "x"})), end("stop")];
            for event in &mut data {
                event["choices"][0]["index"] = index.clone();
            }
            assert_eq!(assemble(&data).unwrap().text, "x", "{index}");
        }
        let begun = json!({"index": 0, "id": "a", "function": {"name": "look", "arguments": "{}"}});
        for listed in [json!([null, begun]), json!([begun]), begun] {
            let reply = assemble(&[delta(&json!({"tool_calls": listed})), end("tool_calls")]).unwrap();
            assert_eq!(reply.calls, [call("a", "look", "{}")], "{listed}");
        }
        for none in [json!([null]), Value::Null] {
            let said = delta(&json!({"content": "x", "tool_calls": none}));
            assert_eq!(assemble(&[said, end("stop")]).unwrap().calls, []);
        }
    }

    #[test]
    fn a_word_for_no_reason_is_no_end() {
        for word in ["null", "none", "None", "FINISH_REASON_UNSPECIFIED", ""] {
            let mut said = delta(&json!({"content": "x"}));
            said["choices"][0]["finish_reason"] = json!(word);
            let failure = assemble(&[said.clone()]).unwrap_err();
            assert_eq!(failure.class, Some(ErrorClass::NetworkError), "{word}");
            let reply = assemble(&[said, end("stop")]).unwrap();
            assert_eq!((reply.text.as_str(), reply.finish), ("x", FinishReason::Stop), "{word}");
        }
    }

    #[test]
    fn counts_of_nothing_behind_real_ones_say_nothing() {
        let counted = json!({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2}});
        for empty in [json!({}), json!({"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0})] {
            let last = json!({"choices": [], "usage": empty});
            let reply =
                assemble(&[delta(&json!({"content": "x"})), end("stop"), counted.clone(), last]).unwrap();
            assert_eq!(reply.usage, Some(Usage { input: 5, output: 2, ..Usage::default() }));
        }
    }

    #[test]
    fn calls_with_one_index_and_no_ids_are_told_apart_by_name() {
        for index in [Value::Null, json!(0)] {
            let pieces = [
                json!({"index": index, "function": {"name": "look", "arguments": "{"}}),
                json!({"index": index, "function": {"name": "look", "arguments": "}"}}),
                json!({"index": index, "id": "", "function": {"name": "take", "arguments": "{\"y\":2"}}),
                json!({"index": index, "function": {"arguments": "}"}}),
            ];
            let calls: Vec<_> = calls(&pieces).into_iter().map(|proposal| proposal.call).collect();
            let said: Vec<_> =
                calls.iter().map(|call| (call.name.as_str(), call.arguments.as_str())).collect();
            assert_eq!(said, [("look", "{}"), ("take", r#"{"y":2}"#)]);
        }
    }

    #[test]
    fn calls_with_one_index_one_name_and_no_ids_are_told_apart_by_their_arguments() {
        for index in [Value::Null, json!(0)] {
            let piece = |arguments: &str| json!({"index": index, "id": "", "function": {"name": "look", "arguments": arguments}});
            let said = |pieces: &[Value]| -> Vec<String> {
                calls(pieces).into_iter().map(|proposal| proposal.call.arguments).collect()
            };
            assert_eq!(said(&[piece("{\"x\":1}"), piece("{\"x\":2}")]), ["{\"x\":1}", "{\"x\":2}"]);
            assert_eq!(said(&[piece("{\"x\":"), piece("1}")]), ["{\"x\":1}"]);
        }
    }

    #[test]
    fn a_name_may_come_in_pieces_before_the_arguments() {
        let name = |name: &str, arguments: &str| json!({"index": 0, "function": {"name": name, "arguments": arguments}});
        let begun = json!({"index": 0, "id": "a", "function": {"name": "look", "arguments": ""}});
        for end in [vec![name("_up", "{}")], vec![name("_up", ""), name("", "{}")]] {
            let pieces: Vec<_> = [begun.clone()].into_iter().chain(end).collect();
            assert_eq!(calls(&pieces), [call("a", "look_up", "{}")]);
        }
        let repeated = [begun.clone(), name("look", "{"), name("look", "}")];
        assert_eq!(calls(&repeated), [call("a", "look", "{}")]);
        let other: Vec<_> = calls(&[begun, name("", "{}"), name("take", "{}")]);
        let names: Vec<_> = other.iter().map(|proposal| proposal.call.name.as_str()).collect();
        assert_eq!(names, ["look", "take"]);
    }

    #[test]
    fn an_id_that_is_repeated_with_every_piece_is_one_call() {
        let pieces = [
            json!({"index": 0, "id": "a", "function": {"name": "look", "arguments": "{"}}),
            json!({"index": 0, "id": "a", "function": {"name": null, "arguments": "}"}}),
            json!({"index": 0, "id": "other", "function": {"name": "", "arguments": " "}}),
        ];
        assert_eq!(calls(&pieces), [call("a", "look", "{} ")]);
    }

    #[test]
    fn an_index_may_be_any_number() {
        let piece = json!({"index": u64::MAX, "id": "a", "function": {"name": "look", "arguments": "{}"}});
        assert_eq!(calls(&[piece]), [call("a", "look", "{}")]);
    }

    #[test]
    fn done_without_a_reason_is_an_answer_only_where_the_reason_may_be_left_out() {
        let mut silent = delta(&json!({"content": "x"}));
        silent["choices"][0]["finish_reason"] = json!("");
        let events = [silent, json!("[DONE]")];
        let failure = assemble(&events).unwrap_err();
        assert_eq!(failure.class, Some(ErrorClass::NetworkError));
        assert!(failure.message.contains("`finish_reason: optional`"), "{}", failure.message);
        let reply = assemble_with(ChatParts::of(true, "here"), &events).unwrap();
        assert_eq!((reply.text.as_str(), reply.finish), ("x", FinishReason::Unsaid));
    }

    #[test]
    fn what_follows_an_end_opens_the_answer_again() {
        let mut early = delta(&json!({"content": "a"}));
        early["choices"][0]["finish_reason"] = json!("stop");
        let call = json!({"index": 0, "id": "a", "function": {"name": "look", "arguments": "{\"x"}});
        let aside = json!({"reasoning_content": "hm"});
        for more in [json!({"content": "b"}), json!({ "tool_calls": [call] }), aside] {
            let failure = assemble(&[early.clone(), delta(&more), json!("[DONE]")]).unwrap_err();
            assert_eq!(failure.class, Some(ErrorClass::NetworkError), "{more}");
        }
        let mut again = delta(&json!({"content": "b"}));
        again["choices"][0]["finish_reason"] = json!("length");
        let reply = assemble(&[early.clone(), again]).unwrap();
        assert_eq!((reply.text.as_str(), reply.finish), ("ab", FinishReason::Length));
        // Azure's filter, and others, have something to say behind the end.
        let empty = delta(&json!({"content": "", "role": "assistant", "tool_calls": []}));
        assert_eq!(assemble(&[early, empty]).unwrap().finish, FinishReason::Stop);
    }

    #[test]
    fn tokens_are_read_wherever_a_server_says_them() {
        let said = json!({"prompt_tokens": 9, "completion_tokens": 4, "cached_tokens": 3});
        let expected = Usage { input: 9, output: 4, cache_read: 3, ..Usage::default() };
        let (mut at_choice, mut at_note) = (end("stop"), end("stop"));
        at_choice["choices"][0]["usage"] = said.clone();
        at_note["x_groq"] = json!({"id": "req_1", "usage": said});
        for last in [at_choice, at_note] {
            let reply = assemble(&[delta(&json!({"content": "x"})), last.clone()]).unwrap();
            assert_eq!(reply.usage, Some(expected), "{last}");
        }
    }

    #[test]
    fn an_answer_may_come_whole_in_one_event() {
        let message = json!({"role": "assistant", "content": "Hello"});
        let whole = json!({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]});
        assert_eq!(assemble(std::slice::from_ref(&whole)).unwrap().text, "Hello");
        // Behind its pieces it is a repetition.
        assert_eq!(assemble(&[delta(&json!({"content": "Hello"})), whole]).unwrap().text, "Hello");
    }

    #[test]
    fn done_without_a_reason_in_the_middle_of_a_call_is_no_answer() {
        let piece = |arguments: &str| {
            let call = json!({"index": 0, "id": "a", "function": {"name": "look", "arguments": arguments}});
            delta(&json!({ "tool_calls": [call] }))
        };
        let whole = assemble_with(ChatParts::of(true, "here"), &[piece("{}"), json!("[DONE]")]).unwrap();
        assert_eq!(whole.calls, [call("a", "look", "{}")]);
        let half = [piece("{\"x\": 1"), json!("[DONE]")];
        let failure = assemble_with(ChatParts::of(true, "here"), &half).unwrap_err();
        assert_eq!(failure.class, Some(ErrorClass::NetworkError));
        assert_eq!(failure.message, "the stream of the answer ends in the middle");
    }

    #[test]
    fn an_error_behind_a_cut_answer_says_that_it_was_cut() {
        let error = json!({
            "choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "error"}],
            "usage": {"prompt_tokens": 3, "completion_tokens": 9},
            "error": {"code": 400, "message": "Token limit reached"},
        });
        let piece = delta(&json!({"content": "a"}));
        let reply = assemble(&[piece.clone(), end("length"), error.clone(), json!("[DONE]")]).unwrap();
        assert_eq!((reply.finish, reply.usage.unwrap().output), (FinishReason::Length, 9));
        assert!(assemble(&[piece, end("stop"), error]).is_err());
    }

    #[test]
    fn what_is_spoken_comes_in_pieces() {
        let piece = |audio: Value| delta(&json!({ "audio": audio }));
        let pieces = [
            piece(json!({"id": "audio_1", "transcript": "Hel"})),
            piece(json!({"transcript": "lo."})),
            piece(json!({"expires_at": 7})),
            end("stop"),
        ];
        let reply = assemble(&pieces).unwrap();
        assert_eq!(reply.text, "Hello.");
        assert_eq!(reply.extra["audio"], json!({"id": "audio_1", "transcript": "Hello.", "expires_at": 7}));
    }

    #[test]
    fn thoughts_in_the_text_are_no_part_of_the_answer() {
        let thought =
            |text: &str| delta(&json!({"content": text, "extra_content": {"google": {"thought": true}}}));
        let pieces = ["</thought>Hello", " there"].map(|text| delta(&json!({ "content": text })));
        let data = [&[thought("<thought>Hm"), thought("m.")][..], &pieces, &[end("stop")]].concat();
        let reply = assemble(&data).unwrap();
        assert_eq!(reply.text, "Hello there");
        assert!(!Value::Object(reply.extra).to_string().contains("thought"));
        let whole = thought("<thought>Hmm.</thought>Hello");
        assert_eq!(assemble(&[whole, end("stop")]).unwrap().text, "Hello");
        // Other models write what they like.
        let plain = ["<thought>", "x", "</thought>", " more"].map(|text| delta(&json!({ "content": text })));
        assert_eq!(
            assemble(&[&plain[..], &[end("stop")]].concat()).unwrap().text,
            "<thought>x</thought> more"
        );
    }

    #[test]
    fn what_has_come_is_counted_in_characters() {
        let mut parts = ChatParts::default();
        let mut take = |value: Value| {
            parts
                .take(&SseEvent { name: String::new(), data: value.to_string() }, &HeaderMap::new())
                .unwrap();
            parts.tally().received
        };
        assert_eq!(take(delta(&json!({"role": "assistant", "content": ""}))), 0);
        assert_eq!(take(delta(&json!({"reasoning_content": "hm", "audio": "x"}))), 2);
        assert_eq!(take(delta(&json!({"content": "añb"}))), 5);
        assert_eq!(
            take(delta(&json!({"tool_calls": [{"function": {"name": "look", "arguments": "{"}}]}))),
            10
        );
    }

    #[test]
    fn a_stream_that_stops_too_early_is_no_answer() {
        let table: &[(&[Value], ErrorClass, &str)] = &[
            (&[], ErrorClass::NetworkError, "the stream of the answer ends before it has begun"),
            (
                &[delta(&json!({"content": "x"}))],
                ErrorClass::NetworkError,
                "the stream of the answer ends in the middle",
            ),
            (&[json!("[DONE]")], ErrorClass::ModelError, "the answer holds no choices"),
            (&[json!("nonsense")], ErrorClass::ModelError, "the answer is not JSON: nonsense"),
        ];
        for (data, class, says) in table {
            let failure = assemble(data).unwrap_err();
            assert_eq!((failure.class, failure.message.as_str()), (Some(*class), *says), "{data:?}");
        }
    }

    #[test]
    fn an_error_in_the_stream_is_left_to_the_table() {
        let failure = assemble(&[json!({"error": "oops"})]).unwrap_err();
        assert_eq!((failure.class, failure.message.as_str()), (None, "oops"));
    }

    #[test]
    fn an_error_event_needs_no_json() {
        let event = SseEvent { name: "error".into(), data: "overloaded, sorry".into() };
        let failure = ChatParts::default().take(&event, &HeaderMap::new()).unwrap_err();
        assert_eq!(failure.message, "overloaded, sorry");
    }
}
