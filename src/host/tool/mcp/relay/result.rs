//! What the client is answered: the server's result as it is, unless the policy shows another one, or a refusal.

use std::sync::{Mutex, PoisonError};

use indexmap::IndexMap;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::kept::KeptResults;
use super::message::RpcAnswer;
use super::rounds::InputRequired;
use crate::engine::{Directive, DirectiveKind, Note, ToolOutcome};
use crate::host::ToolError;
use crate::host::guard::ClassifyError;
use crate::host::tool::mcp::content;
use crate::policy::ErrorClass;
use crate::session::Message;

/// What the interpreter noted about a call.
#[derive(Debug, Default)]
pub(super) struct CallRecord {
    /// The result, as the model reads it.
    text: String,
    /// The tool the call is of, if that is another one than the client wrote.
    pub(super) resolved: Option<String>,
    /// Why it has no result of the server.
    pub(super) class: Option<ErrorClass>,
    attempts: u32,
    /// The rules that decided, each with its place.
    because: Vec<(String, String)>,
    /// What else the model is to read.
    pub(super) guidance: Vec<String>,
}

/// What the server answered.
pub(super) struct RelayedResult {
    raw: Box<RawValue>,
    kind: ResultKind,
    /// Clients expect structured content of the tool.
    structured: bool,
    /// All of its text; `None`: it has none that the policy could show.
    // Of a failure it is what the server says went wrong.
    text: Option<String>,
    /// What the interpreter learns of it.
    pub(super) outcome: ToolOutcome,
}

/// What an answer is to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ResultKind {
    /// A result with something that the policy may show otherwise.
    Content,
    /// A result that says it is an error.
    Failure,
    /// A result that is the client's alone, such as a question to the person.
    Unseen,
    /// An error object that is the client's alone.
    UnseenError,
}

impl CallRecord {
    /// A call that the interpreter did not take.
    pub(super) fn refused(class: ErrorClass, text: String) -> Self {
        Self { text, class: Some(class), ..Self::default() }
    }

    /// The same with the rule that decided, and its place.
    pub(super) fn because(mut self, rule: &str, place: String) -> Self {
        self.because.push((rule.to_owned(), place));
        self
    }

    /// Whether the interpreter has said nothing of the call.
    pub(super) const fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Takes note of what was decided.
    pub(super) fn note(&mut self, directive: &Directive) {
        let DirectiveKind::Note(note) = &directive.order else { return };
        match note {
            Note::Append { message: Message::Tool { text, .. } } => self.text.clone_from(text),
            Note::Append { message: Message::User { text, .. } } => self.guidance.push(text.clone()),
            Note::Renamed { tool, .. } => self.resolved = Some(tool.clone()),
            Note::Refused { error_type, .. } => self.class = Some(*error_type),
            Note::ToolEnded { attempts, error_type, .. } => {
                self.attempts = *attempts;
                self.class = error_type.or(self.class);
            }
            Note::Exhausted { .. } => {}
            _ => return,
        }
        for reason in &directive.because {
            let reason = (reason.rule.clone(), reason.place.to_string());
            if !self.because.contains(&reason) {
                self.because.push(reason);
            }
        }
    }

    /// Changes what the policy says: of a result of the server that is nothing.
    pub(super) fn rename(&mut self, shown: impl Fn(&str) -> String) {
        let text = self.class.map(|_| &mut self.text);
        for text in text.into_iter().chain(&mut self.guidance) {
            *text = shown(text);
        }
    }

    /// The result of a call that was refused, or given up; without a class, of one that has acted although it failed. `is_complete`: it says that it is a result.
    pub(super) fn failed(&self, is_complete: bool) -> String {
        self.alone(is_complete).to_string()
    }

    /// The same with what the server answered last: its text is in that of the policy, and kept where it was cut.
    pub(super) fn failed_with(
        &self,
        answer: Option<&RelayedResult>,
        is_complete: bool,
        (kept, links): (&Mutex<KeptResults>, bool),
    ) -> String {
        let answer = answer.filter(|answer| answer.kind == ResultKind::Failure);
        answer
            .and_then(|answer| self.beside(answer, (kept, links)))
            .unwrap_or_else(|| self.failed(is_complete))
    }

    /// The refusal in the fields of the server's result.
    fn beside(&self, answer: &RelayedResult, (kept, links): (&Mutex<KeptResults>, bool)) -> Option<String> {
        let Value::Object(own) = self.alone(false) else { return None };
        let mut fields: IndexMap<String, Box<RawValue>> = serde_json::from_str(answer.raw.get()).ok()?;
        let mut content: Vec<Box<RawValue>> = serde_json::from_str(&own.get("content")?.to_string()).ok()?;
        if let Some(written) = fields.get("content") {
            let blocks: Vec<Box<RawValue>> = serde_json::from_str(written.get()).ok()?;
            content
                .extend(blocks.into_iter().filter(|block| kind_of(block).is_some_and(|kind| kind != "text")));
        }
        let whole = answer.text.as_ref().filter(|text| !self.text.contains(text.trim()));
        if let Some(whole) = whole {
            content.push(to_raw_value(&keep(whole.clone(), kept, links)).ok()?);
        }
        let mut meta: IndexMap<String, Box<RawValue>> =
            fields.get("_meta").and_then(|meta| serde_json::from_str(meta.get()).ok()).unwrap_or_default();
        meta.insert("unfazed".to_owned(), to_raw_value(own.get("_meta")?.get("unfazed")?).ok()?);
        fields.insert("content".to_owned(), to_raw_value(&content).ok()?);
        fields.insert("_meta".to_owned(), to_raw_value(&meta).ok()?);
        serde_json::to_string(&fields).ok()
    }

    fn alone(&self, is_complete: bool) -> Value {
        let because: Vec<Value> =
            self.because.iter().map(|(rule, place)| json!({ "rule": rule, "place": place })).collect();
        let about = json!({ "class": self.class, "attempts": self.attempts, "because": because });
        let texts = core::iter::once(&self.text).chain(&self.guidance);
        let content: Vec<Value> = texts.map(|text| text_block(text)).collect();
        let mut result =
            json!({ "content": content, "isError": self.class.is_some(), "_meta": { "unfazed": about } });
        if is_complete {
            result["resultType"] = "complete".into();
        }
        result
    }
}

impl RelayedResult {
    /// A result that is the client's alone: there is no text that the policy could show.
    pub(super) fn unseen(raw: &RawValue) -> Self {
        Self::without_text(raw, ResultKind::Unseen, ToolOutcome::Done)
    }

    /// The same of an error object.
    pub(super) fn unseen_error(raw: &RawValue) -> Self {
        Self::without_text(raw, ResultKind::UnseenError, ToolOutcome::Done)
    }

    /// A result that says it is an error.
    pub(super) fn failure(raw: &RawValue, error: ToolError) -> Self {
        let text = Some(ClassifyError::message(&error));
        Self { text, ..Self::without_text(raw, ResultKind::Failure, error.into()) }
    }

    fn without_text(raw: &RawValue, kind: ResultKind, outcome: ToolOutcome) -> Self {
        Self { raw: raw.to_owned(), kind, structured: false, text: None, outcome }
    }

    /// A result with that text, of which the interpreter learns at most `most` bytes.
    pub(super) fn new(raw: &RawValue, structured: bool, data: Value, most: usize) -> Self {
        let text = match &data {
            Value::String(text) => text.clone(),
            data => data.to_string(),
        };
        let learned = if text.len() > most { Value::String(content::cut(text.clone(), most)) } else { data };
        let outcome = ToolOutcome::from(Ok(learned));
        Self { raw: raw.to_owned(), kind: ResultKind::Content, structured, text: Some(text), outcome }
    }

    /// Whether it says that it is an error.
    pub(super) fn is_failure(&self) -> bool {
        self.kind == ResultKind::Failure
    }

    /// What it asks the client for; `None`: it asks for nothing.
    pub(super) fn asks(&self) -> Option<InputRequired> {
        if self.kind == ResultKind::Unseen { InputRequired::of(&self.raw) } else { None }
    }

    /// What the client is shown: the result as it came, unless the policy shows another text of it, or has more to say.
    pub(super) fn shown(&self, record: &CallRecord, cut: (&Mutex<KeptResults>, bool)) -> RpcAnswer {
        match self.kind {
            ResultKind::Content | ResultKind::Failure => Ok(self.shown_content(record, cut)),
            ResultKind::Unseen => Ok(self.raw.get().to_owned()),
            ResultKind::UnseenError => Err(self.raw.get().to_owned()),
        }
    }

    fn shown_content(&self, record: &CallRecord, cut: (&Mutex<KeptResults>, bool)) -> String {
        let is_learned =
            matches!(&self.outcome, ToolOutcome::Ok { data: Value::String(text) } if *text == record.text);
        let whole = self.text.clone().filter(|text| !is_learned && *text != record.text);
        if whole.is_none() && record.guidance.is_empty() {
            return self.raw.get().to_owned();
        }
        self.changed(whole, record, cut).unwrap_or_else(|| self.raw.get().to_owned())
    }

    /// The result with the text of the policy in the place of `whole`, and with what else the model is to read.
    fn changed(
        &self,
        whole: Option<String>,
        record: &CallRecord,
        (kept, links): (&Mutex<KeptResults>, bool),
    ) -> Option<String> {
        let mut fields: IndexMap<String, Box<RawValue>> = serde_json::from_str(self.raw.get()).ok()?;
        let blocks: Vec<Box<RawValue>> = match fields.get("content") {
            Some(content) => serde_json::from_str(content.get()).ok()?,
            None => Vec::new(),
        };
        let mut content: Vec<Box<RawValue>> = Vec::new();
        if let Some(whole) = whole {
            content.push(to_raw_value(&text_block(&record.text)).ok()?);
            // Pictures, sounds, files and links are no text, and the policy does not cut them.
            content.extend(blocks.into_iter().filter(|block| !is_text(block)));
            content.push(to_raw_value(&keep(whole, kept, links)).ok()?);
            // Clients take a result without it for a mistake, where the tool declares it.
            if !self.structured {
                fields.shift_remove("structuredContent");
            }
        } else {
            content = blocks;
        }
        for text in &record.guidance {
            content.push(to_raw_value(&text_block(text)).ok()?);
        }
        fields.insert("content".to_owned(), to_raw_value(&content).ok()?);
        serde_json::to_string(&fields).ok()
    }
}

/// Keeps a text that was cut: the block that says where all of it is.
fn keep(whole: String, kept: &Mutex<KeptResults>, links: bool) -> Value {
    let size = whole.len();
    let uri = kept.lock().unwrap_or_else(PoisonError::into_inner).keep(whole);
    // A client of a version before 2025-06-18 knows no links, and may refuse the result for one.
    if links {
        json!({ "type": "resource_link", "uri": uri, "name": "the whole result", "size": size })
    } else {
        text_block(&format!("The whole result is the resource {uri} ({size} bytes)."))
    }
}

fn text_block(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

/// Whether all that a block holds is in the text of the result.
fn is_text(block: &RawValue) -> bool {
    #[derive(serde::Deserialize)]
    struct TextResource {
        #[serde(rename = "resource")]
        _resource: HeldText,
    }
    #[derive(serde::Deserialize)]
    struct HeldText {
        #[serde(rename = "text")]
        _text: serde::de::IgnoredAny,
    }
    kind_of(block).is_none_or(|kind| match &*kind {
        "text" => true,
        "resource" => serde_json::from_str::<TextResource>(block.get()).is_ok(),
        _ => false,
    })
}

/// The kind of a block of content; `None`: it has none.
fn kind_of(block: &RawValue) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Block {
        #[serde(rename = "type")]
        kind: String,
    }
    serde_json::from_str(block.get()).ok().map(|Block { kind }| kind)
}
