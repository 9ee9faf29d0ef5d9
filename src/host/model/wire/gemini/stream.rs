//! Answers, put together chunk by chunk; a body that is not streamed is one chunk. Chunks have no numbers and no end of
//! their own: an answer is whole once the last of them says why the model stopped. A tool of the server's own may end a round, and
//! proxies write an end at each chunk, so what follows an end opens the answer again.

use reqwest::header::HeaderMap;
use serde_json::{Map, Value};

use super::parts::{
    Part, SIGNATURE, call, checked, is_bare_text, is_code, is_executed, is_thought, misshapen, said, text,
    word,
};
use super::reply::{
    AnswerChunk, Candidate, OF_ANSWER, OF_CANDIDATE, PromptFeedback, WireUsage, to_reply, unexpected,
};
use crate::engine::{Failure, ModelReply};
use crate::host::model::failure::{cut_off, inside_success, unreadable};
use crate::host::model::sse::SseEvent;
use crate::host::model::wire::answer_fields::AnswerFields;
use crate::host::model::wire::choices::FurtherChoices;
use crate::host::model::wire::kept::{EACH, entries_weight};
use crate::host::model::wire::tally::StreamTally;
use crate::host::model::wire::{StreamDecoder, StreamProgress, chars, event, finish, lenient, unread};
use crate::session::Message;

/// Reads the body of a response whose status says that all is well. `conversation` is what was sent: the ids of calls are
/// unique in it.
///
/// # Errors
/// The body holds an error, is cut off, is not JSON, holds no candidate, or one that is not whole.
pub(super) fn read_body(
    body: &[u8],
    headers: &HeaderMap,
    conversation: &[Message],
    issuer: &str,
) -> Result<ModelReply, Failure> {
    let value = unread::json(body)?;
    if let Some(failure) = inside_success(&value, headers) {
        return Err(failure);
    }
    let mut answer = ReplyParts::of(issuer);
    // Servers and gateways that ignore `alt=sse` stream one list of chunks.
    let chunks = if let Value::Array(chunks) = value { chunks } else { vec![value] };
    for chunk in chunks.into_iter().map(object) {
        let chunk = answer.opened(chunk?)?;
        answer.add(chunk)?;
    }
    if !answer.started {
        return Err(unreadable("the answer holds no candidates"));
    }
    if !answer.is_whole() && !answer.is_between_rounds() {
        return Err(cut_off("the answer has no `finishReason`, so it may be cut"));
    }
    Box::new(answer).reply(conversation)
}

/// An answer that is being put together.
#[derive(Debug, Default)]
pub(super) struct ReplyParts {
    issuer: String,
    parts: Vec<Part>,
    /// Why the model stopped, and what the server says about that.
    finish: Option<(String, Option<String>)>,
    /// The failure that a refused prompt is.
    blocked: Option<Failure>,
    usage: Option<WireUsage>,
    fields: AnswerFields,
    tally: StreamTally,
    started: bool,
    others: FurtherChoices,
}

impl StreamDecoder for ReplyParts {
    fn take(&mut self, event: &SseEvent, headers: &HeaderMap) -> Result<StreamProgress, Failure> {
        let data = event.data.trim();
        // It ends the stream; whether the answer is whole, its chunks tell.
        if data == event::DONE {
            return Ok(StreamProgress::Done);
        }
        if event.name == "error" || !data.starts_with('{') {
            let Some(value) = event::data(event, headers)? else { return Ok(StreamProgress::More) };
            return object(value).map(|_| StreamProgress::More);
        }
        let chunk: AnswerChunk = match serde_json::from_str(data) {
            Ok(chunk) => chunk,
            Err(_) => match event::data(event, headers)? {
                Some(value) => self.opened(value)?,
                None => return Ok(StreamProgress::More),
            },
        };
        if chunk.error.is_some() || (chunk.candidates.is_none() && chunk.prompt_feedback.is_none()) {
            event::data(event, headers)?;
        }
        self.add(chunk)?;
        Ok(StreamProgress::More)
    }

    fn tally(&self) -> &StreamTally {
        &self.tally
    }

    fn tally_mut(&mut self) -> &mut StreamTally {
        &mut self.tally
    }

    fn is_whole(&self) -> bool {
        let has_ended = self.finish.is_some() && !self.is_between_rounds();
        self.blocked.is_some() || (has_ended && self.others.are_whole())
    }

    fn ask(&mut self, choices: u64) {
        self.others.ask(choices);
    }

    fn reply(self: Box<Self>, conversation: &[Message]) -> Result<ModelReply, Failure> {
        if let Some(blocked) = self.blocked {
            return Err(blocked);
        }
        if self.is_between_rounds() {
            return Err(cut_off(
                "the answer ends after the code that the model had run, before it says anything",
            ));
        }
        let finish = self.finish.filter(|_| !self.others.is_open());
        let Some(finish) = finish else { return Err(unread::ended_early(self.started)) };
        to_reply(&self.parts, finish, self.usage, self.fields, (conversation, &self.issuer))
    }
}

impl ReplyParts {
    /// Nothing yet, of that issuer.
    pub(super) fn of(issuer: &str) -> Self {
        Self { issuer: issuer.to_owned(), ..Self::default() }
    }

    /// A chunk that holds more than every server sends.
    fn opened(&mut self, mut value: Value) -> Result<AnswerChunk, Failure> {
        let kept = self.fields.take(&mut value, &OF_ANSWER, self.tally.kept);
        let candidates = value.get_mut("candidates");
        self.tally.kept = self.fields.take_of_choices(candidates, &OF_CANDIDATE, kept);
        serde_json::from_value(value).map_err(|error| unexpected(&error))
    }

    fn add(&mut self, chunk: AnswerChunk) -> Result<(), Failure> {
        if let Some(later) = chunk.usage_metadata {
            self.usage = Some(self.usage.unwrap_or_default().then(later));
        }
        if let Some(feedback) = chunk.prompt_feedback {
            self.take_feedback(feedback);
        }
        // The reply is the first candidate, and others must not be mixed into it.
        let is_first = |candidate: &Candidate| candidate.index.unwrap_or_default() == 0;
        let (first, others): (Vec<_>, Vec<_>) =
            chunk.candidates.unwrap_or_default().into_iter().partition(is_first);
        for other in others {
            let has_ended = other.finish_reason.is_some();
            if self.others.take(other.index.unwrap_or_default(), has_ended) {
                self.tally.received = self.tally.received.saturating_add(length(&other));
            }
        }
        first.into_iter().next().map_or(Ok(()), |candidate| self.continue_with(candidate))
    }

    fn take_feedback(&mut self, mut feedback: PromptFeedback) {
        let more = core::mem::take(&mut feedback.more);
        let more = Map::from_iter([("promptFeedback".to_owned(), more.into())]);
        self.tally.kept = self.fields.add(more, self.tally.kept);
        if let Some(blocked) = feedback.blocked() {
            self.started = true;
            self.blocked = Some(blocked);
        }
    }

    /// Whether a tool of the server's own has ended a round, and more is to come: its result, or what the model says.
    fn is_between_rounds(&self) -> bool {
        let is_aside = |part| is_executed(part) || is_thought(part);
        let is_silent = || self.parts.iter().any(is_executed) && self.parts.iter().all(is_aside);
        self.finish.as_ref().is_some_and(|(reason, _)| reason == "STOP")
            && (is_silent() || (self.parts.last().is_some_and(is_code) && !self.tally.has_calls))
    }

    fn continue_with(&mut self, candidate: Candidate) -> Result<(), Failure> {
        self.started = true;
        for part in candidate.content.and_then(|content| content.parts).unwrap_or_default() {
            self.push(checked(part)?)?;
        }
        let before = self.finish.as_ref().map(|(reason, _)| reason.as_str());
        if let Some(said) = candidate.finish_reason.filter(|said| finish::replaces(said, before)) {
            self.finish = Some((said, candidate.finish_message));
        }
        Ok(())
    }

    fn push(&mut self, part: Part) -> Result<(), Failure> {
        let text = text(&part);
        // A last chunk may repeat the reason with an empty text.
        let is_aside = |field: &String| matches!(field.as_str(), "text" | "thought" | SIGNATURE);
        if !text.is_empty() || !part.keys().all(is_aside) {
            self.finish = None;
        }
        let is_repeated = |call| self.parts.iter().any(|part| super::parts::call(part) == Some(call));
        if call(&part).is_some_and(|call| !word(call, "id").is_empty() && is_repeated(call)) {
            return Err(unreadable("the stream of the answer has a function call twice"));
        }
        self.tally.has_calls |= call(&part).is_some();
        let called = call(&part)
            .map_or(0, |call| chars(word(call, "name")) + chars(&lenient::read_input(call.get("args"))));
        self.tally.received = self.tally.received.saturating_add(chars(text)).saturating_add(called);
        self.tally.fresh.push_str(said(&part).unwrap_or_default());
        let before = self.parts.last_mut().filter(|_| is_bare_text(&part));
        match before.filter(|last| is_bare_text(last) && is_thought(last) == is_thought(&part)) {
            Some(last) => {
                self.tally.kept += text.len();
                if let Some(Value::String(all)) = last.get_mut("text") {
                    all.push_str(text);
                }
            }
            None if is_bare_text(&part) && text.is_empty() => {}
            None => {
                self.tally.kept += EACH + entries_weight(&part);
                self.parts.push(part);
            }
        }
        Ok(())
    }
}

/// How many characters of text a candidate has.
fn length(candidate: &Candidate) -> u64 {
    let parts = candidate.content.as_ref().and_then(|content| content.parts.as_ref());
    let texts = parts.into_iter().flatten().filter_map(|part| part.get("text")?.as_str());
    texts.map(chars).sum()
}

/// A chunk. `serde` would take a list for one too.
fn object(value: Value) -> Result<Value, Failure> {
    if value.is_object() { Ok(value) } else { Err(misshapen("a chunk is no object")) }
}
