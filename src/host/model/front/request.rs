//! The neutral form of a request.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::{Map, Value, json};

use super::cached::CacheMarks;
use super::fields::{Fields, LeftOut, Unconvertible};
use super::names::ToolNames;
use super::shared::SharedOptions;
use crate::engine::ToolSpec;
use crate::host::model::media::{Attachment, Attachments};
use crate::session::{Message, ToolCall};

/// A request, whichever dialect it came in.
#[derive(Debug, Default)]
pub(super) struct FrontRequest {
    pub(super) messages: Vec<Message>,
    pub(super) tools: Vec<ToolSpec>,
    pub(super) choice: FrontChoice,
    /// Whether the model calls one tool at most.
    pub(super) one_call: bool,
    pub(super) max_tokens: Option<u32>,
    pub(super) temperature: Option<f64>,
    pub(super) top_p: Option<f64>,
    pub(super) stop: Vec<String>,
    pub(super) form: AnswerForm,
    /// The options that other dialects have too.
    pub(super) shared: SharedOptions,
    /// The tools whose arguments follow their schema strictly.
    pub(super) strict: BTreeSet<String>,
    /// Fields that the answer repeats.
    pub(super) repeated: Map<String, Value>,
    /// Whether a stream ends with the tokens.
    pub(super) counts: bool,
    pub(super) names: ToolNames,
    /// The namespace and the name of tools, by the name that stands for both.
    pub(super) namespaced: BTreeMap<String, (String, String)>,
    /// The tools that take a text, which are functions of one argument for other models.
    pub(super) customs: BTreeSet<String>,
    pub(super) left_out: LeftOut,
    /// What is to be kept in a cache.
    pub(super) cached: CacheMarks,
    /// Whether the client's conversation ends with words of the model, which it is to continue.
    is_begun: bool,
    /// What the marks in texts stand for.
    pub(super) attachments: Attachments,
    /// The name of each call, by its id: a result has the id alone.
    called: HashMap<String, String>,
    pub(super) field_names: FieldNames,
}

/// What the client's dialect calls the fields that an answer can name as left out or refused.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FieldNames {
    pub(super) conversation: &'static str,
    /// The choice among tools.
    pub(super) choice: &'static str,
    pub(super) stop: &'static str,
    pub(super) one_call: &'static str,
    pub(super) temperature: &'static str,
    pub(super) top_p: &'static str,
    /// The most tokens of the answer.
    pub(super) max_tokens: &'static str,
    /// The form of the answer.
    pub(super) form: &'static str,
    /// Where the schema of that form is.
    pub(super) schema: &'static str,
    /// That of strict tools.
    pub(super) strict: &'static str,
}

/// Whether a tool must be called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum FrontChoice {
    #[default]
    Auto,
    /// None may be.
    Never,
    Required,
    Tool(String),
}

/// The form of the answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum AnswerForm {
    #[default]
    Text,
    /// Some JSON.
    Json,
    /// JSON of that schema.
    Schema { name: String, schema: Value, strict: Option<bool> },
}

impl AnswerForm {
    /// A schema that has no name in its dialect; others want one.
    pub(super) fn of_schema(schema: Value) -> Self {
        Self::Schema { name: "answer".to_owned(), schema, strict: None }
    }
}

impl FrontRequest {
    /// One of which nothing has been read yet.
    pub(super) fn with(field_names: FieldNames) -> Self {
        Self { field_names, ..Self::default() }
    }

    /// What precedes the conversation, or stands in it as such.
    pub(super) fn system(&mut self, texts: &[String]) {
        if !texts.is_empty() {
            self.messages.push(Message::System { text: texts.join("\n\n") });
        }
    }

    /// What the user says.
    pub(super) fn user(&mut self, texts: &[String]) {
        if !texts.is_empty() {
            self.messages.push(Message::user(texts.join("\n\n")));
        }
    }

    /// What a model said before.
    pub(super) fn assistant(&mut self, text: String, calls: Vec<ToolCall>) {
        self.called.extend(calls.iter().map(|call| (call.id.clone(), call.name.clone())));
        self.messages.push(Message::Assistant { text, calls, extra: Map::new() });
    }

    /// More of what a model said before: its turn may come in several pieces.
    pub(super) fn continued(&mut self, more: &str, call: Option<ToolCall>) {
        if more.is_empty() && call.is_none() {
            return;
        }
        let Some(Message::Assistant { text, calls, .. }) = self.messages.last_mut() else {
            return self.assistant(more.to_owned(), call.into_iter().collect());
        };
        if !text.is_empty() && !more.is_empty() {
            text.push_str("\n\n");
        }
        text.push_str(more);
        self.called.extend(call.iter().map(|call| (call.id.clone(), call.name.clone())));
        calls.extend(call);
    }

    /// A call of a model.
    pub(super) fn call(&mut self, id: String, name: String, arguments: String) -> ToolCall {
        ToolCall { id, name: self.names.sent(name), arguments }
    }

    /// The result of a call.
    pub(super) fn result(&mut self, call: String, texts: &[String], error: bool) {
        let tool = self.called.get(&call).cloned().unwrap_or_default();
        self.messages.push(Message::Tool { call, tool, text: texts.join("\n\n"), error, handle: None });
    }

    /// A tool.
    pub(super) fn tool(&mut self, name: String, description: Option<String>, parameters: Option<Value>) {
        let name = self.names.sent(name);
        let parameters = parameters.unwrap_or_else(|| json!({"type": "object", "properties": {}}));
        let description = description.unwrap_or_default();
        self.tools.push(ToolSpec { name, description, parameters, effect: None });
    }

    /// The model may call those tools alone.
    ///
    /// # Errors
    /// None of them is declared.
    pub(super) fn allow(&mut self, names: Vec<String>, field: &str) -> Result<(), Unconvertible> {
        let allowed: BTreeSet<String> = names.into_iter().map(|name| self.names.sent(name)).collect();
        self.tools.retain(|tool| allowed.contains(&tool.name));
        if self.tools.is_empty() {
            return Err(Unconvertible::malformed(field, "names no tool that is declared"));
        }
        Ok(())
    }

    /// The name that stands for a name within a namespace.
    pub(super) fn qualified(&mut self, namespace: Option<&str>, name: String) -> String {
        let Some(namespace) = namespace else { return name };
        let both = format!("{namespace}__{name}");
        self.namespaced.insert(both.clone(), (namespace.to_owned(), name));
        both
    }

    /// The texts of parts that are nothing else; other fields of them are left out.
    pub(super) fn texts(&mut self, parts: Vec<Fields>) -> Result<Vec<String>, Unconvertible> {
        let mut texts = Vec::with_capacity(parts.len());
        for mut part in parts {
            if part.required("type")? != "text" {
                return Err(Unconvertible::new(part.path("type")));
            }
            texts.push(part.required("text")?);
            self.cached.take(&mut part);
            part.leave_out(&mut self.left_out);
        }
        Ok(texts)
    }

    /// The same, and a mark in the place of each image and document: `read` knows these by their type.
    pub(super) fn shown(
        &mut self,
        parts: Vec<Fields>,
        read: fn(&str, &mut Fields) -> Result<Option<Attachment>, Unconvertible>,
    ) -> Result<Vec<String>, Unconvertible> {
        let mut texts = Vec::with_capacity(parts.len());
        for mut part in parts {
            let kind = part.required("type")?;
            texts.push(match &*kind {
                "text" | "input_text" | "output_text" => part.required("text")?,
                // A document of Anthropic's that is plain text.
                "document" if part.is_within("source", "type", "text") => document(&mut part)?,
                _ => {
                    let attachment = read(&kind, &mut part)?;
                    let attachment = attachment.ok_or_else(|| Unconvertible::new(part.path("type")))?;
                    self.attachments.mark(attachment)
                }
            });
            self.cached.take(&mut part);
            part.leave_out(&mut self.left_out);
        }
        Ok(texts)
    }

    /// A conversation in the order that other models want.
    pub(super) fn checked(mut self) -> Result<Self, Unconvertible> {
        // A call at the end has lost its result, and is repaired like any other.
        let begins =
            |message: &Message| matches!(message, Message::Assistant { calls, .. } if calls.is_empty());
        self.is_begun = self.messages.last().is_some_and(begins);
        self.messages = results_first(self.messages);
        match self.messages.last() {
            Some(_) => Ok(self),
            None => Err(Unconvertible::malformed(self.field_names.conversation, "has no message")),
        }
    }

    /// Where the model speaks first, if it does. `None`: the user does, or nobody says anything.
    pub(super) fn begun_by_model(&self) -> Option<usize> {
        let first = self.messages.iter().position(says)?;
        matches!(self.messages.get(first), Some(Message::Assistant { .. })).then_some(first)
    }

    /// Why a model cannot answer the conversation that takes no blank messages, and instructions elsewhere alone.
    pub(super) fn unanswerable(&self) -> Option<Unconvertible> {
        let why = match self.messages.iter().rfind(|message| says(message)) {
            None => "has no text of the user, which the model wants",
            Some(Message::Assistant { calls, .. }) if !self.is_begun && calls.is_empty() => {
                "ends with blank texts behind what the model says, which other models do not continue"
            }
            Some(_) => return None,
        };
        Some(Unconvertible::malformed(self.field_names.conversation, why))
    }

    /// The same, if any model can continue it: only some do so with a message that has been begun for them, and others answer it.
    pub(super) fn continuable(self) -> Result<Self, Unconvertible> {
        if self.is_begun {
            let why = "ends with what the model says, which other models do not continue";
            return Err(Unconvertible::malformed(self.field_names.conversation, why));
        }
        Ok(self)
    }
}

/// Whether a message is one for servers that leave out blank ones, and have instructions elsewhere.
fn says(message: &Message) -> bool {
    match message {
        Message::System { .. } => false,
        Message::User { text, .. } => !text.trim().is_empty(),
        Message::Assistant { text, calls, .. } => !text.trim().is_empty() || !calls.is_empty(),
        Message::Tool { .. } => true,
    }
}

/// The text of a document, behind its title.
fn document(block: &mut Fields) -> Result<String, Unconvertible> {
    let title = block.text("title")?;
    let missing = Unconvertible::malformed(block.path("source"), "is missing");
    let mut source = block.object("source")?.ok_or(missing)?;
    let _ = (source.take("type"), source.take("media_type"));
    let text = source.required("data")?;
    Ok(title.map_or_else(|| text.clone(), |title| format!("{title}\n\n{text}")))
}

/// A message, and what was answered to its calls.
struct AnsweredMessage {
    message: Message,
    results: Vec<Message>,
}

/// The conversation with the result of each call right behind the message that has it, as other dialects want them, whatever was said
/// meanwhile. Of calls with one id it is that of the last that has none yet, as some models count anew in each reply.
fn results_first(messages: Vec<Message>) -> Vec<Message> {
    let (mut ordered, mut meanwhile) = (Vec::<AnsweredMessage>::with_capacity(messages.len()), Vec::new());
    let mut open: HashMap<String, Vec<usize>> = HashMap::new();
    let alone = |message| AnsweredMessage { message, results: Vec::new() };
    for message in messages {
        match message {
            Message::System { .. } | Message::User { .. } => meanwhile.push(alone(message)),
            Message::Tool { ref call, .. } => {
                let of_call = open.get_mut(call).and_then(Vec::pop);
                let at = of_call.or_else(|| ordered.len().checked_sub(1));
                match at.and_then(|at| ordered.get_mut(at)) {
                    Some(before) => before.results.push(message),
                    None => ordered.push(alone(message)),
                }
            }
            Message::Assistant { ref calls, .. } => {
                ordered.append(&mut meanwhile);
                for call in calls {
                    open.entry(call.id.clone()).or_default().push(ordered.len());
                }
                ordered.push(alone(message));
            }
        }
    }
    ordered.append(&mut meanwhile);
    let all = |AnsweredMessage { message, results }| [message].into_iter().chain(results);
    ordered.into_iter().flat_map(all).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ending_with(text: &str, calls: Vec<ToolCall>) -> FrontRequest {
        let mut request = FrontRequest::default();
        request.user(&["go".to_owned()]);
        request.assistant(text.to_owned(), calls);
        request.checked().unwrap()
    }

    #[test]
    fn a_call_without_a_result_is_no_message_that_was_begun() {
        let call = ToolCall { id: "a".into(), name: "look".into(), arguments: "{}".into() };
        for text in ["", "I look."] {
            let open = ending_with(text, vec![call.clone()]);
            assert_eq!(open.unanswerable(), None, "{text}");
            open.continuable().unwrap();
        }
        ending_with("I lo", Vec::new()).continuable().unwrap_err();
    }
}
