//! Anthropic's messages and Gemini's contents: turns of parts, and the results of calls are parts of what the user says next.

use core::fmt::Write as _;
use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::json::{RawFields, changed, set, with_field, with_text};
use super::{
    CallOutcome, HistoryItem, HistoryReader, ItemPlace, ReadContent, RequestHistory, WrittenElement,
    WrittenItem, outcomes,
};
use crate::session::Message;

/// What the user says first where the conversation would begin with the model.
const OPENING: &str = "Continue.";

/// How a dialect writes turns.
pub(super) struct TurnForm {
    /// The field of a turn that has its parts.
    parts: &'static str,
    /// The role of the model.
    model: &'static str,
    gemini: bool,
}

/// A turn that is written.
enum WrittenTurn {
    Element(WrittenElement),
    User(UserTurn),
}

/// What a user says, with the results of calls.
struct UserTurn {
    /// The element that it is made of.
    source: Option<usize>,
    parts: Vec<WrittenPart>,
    /// Whether the results that begin it are those of the policy, and nothing else is in it.
    results: bool,
}

enum WrittenPart {
    Given(ItemPlace),
    New(String),
}

/// The calls of the last turn that have no result: Gemini's may have no id.
#[derive(Default)]
struct OpenCalls {
    /// Their ids, until they are answered.
    open: Vec<Option<String>>,
    /// Where they are, by their ids.
    by_id: HashMap<String, VecDeque<usize>>,
    /// By their names, and whether they have no id.
    by_name: HashMap<(String, bool), VecDeque<usize>>,
    number: usize,
}

impl TurnForm {
    pub(super) const MESSAGES: Self = Self { parts: "content", model: "assistant", gemini: false };
    pub(super) const GEMINI: Self = Self { parts: "parts", model: "model", gemini: true };

    fn text(&self, text: &str) -> Value {
        if self.gemini { json!({"text": text}) } else { json!({"type": "text", "text": text}) }
    }

    /// The call in a part.
    fn call<'a>(&self, part: &RawFields<'a>) -> Option<RawFields<'a>> {
        if self.gemini {
            return part.any(["functionCall", "function_call"]).map(RawFields::of);
        }
        // What is of it stands in the part itself.
        (part.text("type")? == "tool_use").then(RawFields::default)
    }

    fn is_result(&self, part: &RawFields<'_>) -> bool {
        if self.gemini {
            return part.any(["functionResponse", "function_response"]).is_some();
        }
        part.text("type").is_some_and(|kind| kind == "tool_result")
    }

    /// A part with other arguments of its call.
    fn with_arguments(&self, part: &str, arguments: &str) -> Option<String> {
        let arguments: Value = serde_json::from_str(arguments).ok()?;
        changed(part, |part| {
            if !self.gemini {
                return set(part, "input", arguments);
            }
            let name = if part.get("functionCall").is_some() { "functionCall" } else { "function_call" };
            set(part.get_mut(name)?, "args", arguments)
        })
    }

    /// A part with another text of its result.
    fn with_result(&self, part: &str, text: &str) -> Option<String> {
        if !self.gemini {
            return with_field(part, "content", &Value::from(text).to_string());
        }
        let raw: &RawValue = serde_json::from_str(part).ok()?;
        let fields = RawFields::of(raw);
        let mut names = ["functionResponse", "function_response"].into_iter();
        let (name, result) = names.find_map(|name| Some((name, fields.get(name)?)))?;
        let result = with_field(result.get(), "response", &json!({"output": text}).to_string())?;
        with_field(part, name, &result)
    }

    /// The result of a call that had none.
    fn result(&self, message: &Message) -> Option<String> {
        let Message::Tool { call, tool, text, error, .. } = message else { return None };
        if !self.gemini {
            let mut part = json!({"type": "tool_result", "tool_use_id": call, "content": text});
            if *error {
                set(&mut part, "is_error", true)?;
            }
            return Some(part.to_string());
        }
        let key = if *error { "error" } else { "output" };
        let mut result = json!({"name": tool, "response": {key: text}});
        if !call.starts_with(UNNAMED) {
            set(&mut result, "id", call.as_str())?;
        }
        Some(json!({"functionResponse": result}).to_string())
    }
}

/// How the ids begin that stand for none.
const UNNAMED: &str = "unnamed ";

impl OpenCalls {
    fn unnamed(&mut self) -> String {
        self.number = self.number.saturating_add(1);
        format!("{UNNAMED}{}", self.number)
    }

    /// Another turn of the model begins.
    fn clear(&mut self) {
        *self = Self { number: self.number, ..Self::default() };
    }

    fn begin(&mut self, id: &str, name: &str) {
        let at = self.open.len();
        self.open.push(Some(id.to_owned()));
        self.by_id.entry(id.to_owned()).or_default().push_back(at);
        let by_name = self.by_name.entry((name.to_owned(), id.starts_with(UNNAMED)));
        by_name.or_default().push_back(at);
    }

    /// The call that a result answers: the one of its id, or else the oldest of its name.
    fn answered(&mut self, id: Option<String>, name: &str) -> String {
        let by_id = id.as_ref().and_then(|id| oldest(&self.open, self.by_id.get_mut(id)?));
        let at = by_id.or_else(|| {
            let is_any = id.is_none();
            let unnamed = [true, false].into_iter().filter(|unnamed| *unnamed || is_any);
            let calls = unnamed
                .filter_map(|unnamed| oldest(&self.open, self.by_name.get_mut(&(name.to_owned(), unnamed))?));
            calls.min()
        });
        match at.and_then(|at| self.open.get_mut(at)?.take()) {
            Some(call) => call,
            None => id.unwrap_or_else(|| self.unnamed()),
        }
    }
}

/// The first of these calls that is not answered.
fn oldest(open: &[Option<String>], calls: &mut VecDeque<usize>) -> Option<usize> {
    while calls.front().is_some_and(|at| open.get(*at).is_none_or(Option::is_none)) {
        calls.pop_front();
    }
    calls.front().copied()
}

/// Reads the list; `None`: a call or a result cannot be told apart.
pub(super) fn read<'a>(reader: &mut HistoryReader<'a>, list: &[&'a RawValue], form: &TurnForm) -> Option<()> {
    let mut open = OpenCalls::default();
    let mut follows = false;
    for element in list {
        let fields = RawFields::of(element);
        let role = fields.text("role");
        let value = fields.get(form.parts);
        let parts = reader.element(element, value);
        if role.as_deref() == Some(form.model) {
            if !follows {
                open.clear();
            }
            model(reader, &parts, value, form, (follows, &mut open))?;
            follows = true;
            continue;
        }
        follows = false;
        reader.unknown |= !matches!(role.as_deref(), None | Some("user" | "system" | "function"));
        if parts.is_empty() || role.as_deref() == Some("system") {
            let ReadContent { text, others } = reader.content(value);
            let system = role.as_deref() == Some("system");
            reader.whole(if system { Message::System { text } } else { Message::user(text) }, others);
            continue;
        }
        user(reader, &parts, form, &mut open)?;
    }
    Some(())
}

/// Turns of the model that follow each other are one.
fn model<'a>(
    reader: &mut HistoryReader<'a>,
    parts: &[&'a RawValue],
    value: Option<&'a RawValue>,
    form: &TurnForm,
    (follows, open): (bool, &mut OpenCalls),
) -> Option<()> {
    let element = reader.last();
    let mut calls = Vec::new();
    let mut places = Vec::new();
    let ReadContent { text: said, others: mut unsaid } = reader.content(value);
    let mut called = Vec::new();
    for (number, part) in parts.iter().enumerate() {
        let fields = RawFields::of(part);
        let Some(call) = form.call(&fields) else { continue };
        called.push(super::place(reader.body, part.get()));
        let (id, name, arguments) = if form.gemini {
            let id = call.text("id").filter(|id| !id.is_empty()).map(Cow::into_owned);
            let id = id.unwrap_or_else(|| open.unnamed());
            let name = call.text("name")?.into_owned();
            open.begin(&id, &name);
            (id, name, call.get("args"))
        } else {
            (fields.text("id")?.into_owned(), fields.text("name")?.into_owned(), fields.get("input"))
        };
        let arguments = arguments.map_or("{}", RawValue::get).to_owned();
        calls.push(reader.call(id, name, arguments));
        places.push(ItemPlace { element, part: Some(number) });
    }
    unsaid.retain(|place| !called.contains(place));
    let from = ItemPlace { element, part: None };
    if let Some(HistoryItem {
        message: Message::Assistant { text, calls: made, .. },
        from: all,
        calls: at,
        others,
    }) = reader.items.last_mut().filter(|_| follows)
    {
        if !text.is_empty() && !said.is_empty() {
            text.push_str("\n\n");
        }
        text.push_str(&said);
        made.extend(calls);
        all.push(from);
        at.extend(places);
        others.extend(unsaid);
        return Some(());
    }
    let message = Message::Assistant { text: said, calls, extra: Map::new() };
    reader.items.push(HistoryItem { message, from: vec![from], calls: places, others: unsaid });
    Some(())
}

/// Each result is a message, and what is between them is one.
fn user<'a>(
    reader: &mut HistoryReader<'a>,
    parts: &[&'a RawValue],
    form: &TurnForm,
    open: &mut OpenCalls,
) -> Option<()> {
    let element = reader.last();
    let mut said = (ReadContent::default(), Vec::new());
    let flush = |reader: &mut HistoryReader<'a>, said: &mut (ReadContent, Vec<ItemPlace>)| {
        let (ReadContent { text, others }, from) = core::mem::take(said);
        if !from.is_empty() {
            reader.items.push(HistoryItem { message: Message::user(text), from, calls: Vec::new(), others });
        }
    };
    for (number, part) in parts.iter().enumerate() {
        let fields = RawFields::of(part);
        let at = ItemPlace { element, part: Some(number) };
        if !form.is_result(&fields) {
            match fields.text("text") {
                Some(more) => said.0.text.push_str(&more),
                None => said.0.others.push(super::place(reader.body, part.get())),
            }
            said.1.push(at);
            continue;
        }
        flush(reader, &mut said);
        let mut others = Vec::new();
        let message = if form.gemini {
            let result = fields.any(["functionResponse", "function_response"]).map(RawFields::of)?;
            let id = result.text("id").filter(|id| !id.is_empty()).map(Cow::into_owned);
            let call = open.answered(id, &result.text("name")?);
            reader.result(call, result.get("response").map_or("", RawValue::get).to_owned())
        } else {
            let content = reader.content(fields.get("content"));
            others = content.others;
            reader.result(fields.text("tool_use_id")?.into_owned(), content.text)
        };
        reader.items.push(HistoryItem { message, from: vec![at], calls: Vec::new(), others });
    }
    flush(reader, &mut said);
    Some(())
}

/// Writes the list.
pub(super) fn write(
    history: &RequestHistory,
    items: &[WrittenItem<'_>],
    form: &TurnForm,
) -> Option<Vec<WrittenElement>> {
    let mut turns: Vec<WrittenTurn> = Vec::new();
    for item in items {
        let before = item.from.and_then(|from| history.items.get(from));
        match (item.message, before) {
            (Message::Assistant { .. }, Some(before)) => {
                let elements = if item.is_kept {
                    before.from.iter().map(|place| WrittenElement::Kept(place.element)).collect()
                } else {
                    model_elements(history, before, item.message, form)?
                };
                turns.extend(elements.into_iter().map(WrittenTurn::Element));
            }
            (Message::Assistant { text, .. }, None) => {
                let turn = json!({"role": form.model, form.parts: [form.text(text)]}).to_string();
                turns.push(WrittenTurn::Element(WrittenElement::New(turn)));
            }
            (Message::System { text }, Some(before)) => {
                let is_same = before.message == *item.message;
                for ItemPlace { element, .. } in before.from.iter().copied() {
                    turns.push(WrittenTurn::Element(if is_same {
                        WrittenElement::Kept(element)
                    } else {
                        WrittenElement::New(with_text(history.of_element(element)?, form.parts, text)?)
                    }));
                }
            }
            (Message::System { text } | Message::User { text, .. }, None) => {
                let parts = vec![WrittenPart::New(form.text(text).to_string())];
                turns.push(WrittenTurn::User(UserTurn { source: None, parts, results: false }));
            }
            (Message::User { .. } | Message::Tool { .. }, before) => {
                user_part(history, item, before, form, &mut turns)?;
            }
        }
    }
    let mut elements = Vec::with_capacity(turns.len().saturating_add(1));
    // Both refuse a conversation that begins with what the model says.
    if matches!(turns.first(), Some(WrittenTurn::Element(WrittenElement::New(_) | WrittenElement::Kept(1..))))
    {
        let turn = json!({"role": "user", form.parts: [form.text(OPENING)]});
        elements.push(WrittenElement::New(turn.to_string()));
    }
    for turn in turns {
        elements.push(match turn {
            WrittenTurn::Element(element) => element,
            WrittenTurn::User(turn) => turn.element(history, form)?,
        });
    }
    Some(elements)
}

/// A result or a text of the user: into the turn that it is of, or into the one that has the other results.
fn user_part(
    history: &RequestHistory,
    item: &WrittenItem<'_>,
    before: Option<&HistoryItem>,
    form: &TurnForm,
    turns: &mut Vec<WrittenTurn>,
) -> Option<()> {
    let given = before.filter(|before| item.is_kept || before.message == *item.message);
    let is_result = matches!(item.message, Message::Tool { .. });
    let parts = match (given, before.and_then(|before| before.from.first())) {
        (Some(given), _) => given.from.iter().copied().map(WrittenPart::Given).collect(),
        (None, Some(_)) if !is_result => {
            user_text(history, before.map_or(&[], |before| &before.from), item.message.text(), form)?
        }
        (None, Some(ItemPlace { element, part: Some(part) })) => {
            let part = history.of_part(*element, *part)?;
            vec![WrittenPart::New(form.with_result(part, item.message.text())?)]
        }
        (None, _) => vec![WrittenPart::New(form.result(item.message)?)],
    };
    let element = before.and_then(|before| before.from.first()).map(|place| place.element);
    // A result that is put in, or moved, belongs to no turn yet.
    let is_loose = !item.is_kept && (element.is_none() || given.is_some());
    match turns.last_mut() {
        Some(WrittenTurn::User(last))
            if (is_result && !item.is_kept) || last.source == element || last.results =>
        {
            last.results &= !item.is_kept;
            if item.is_kept {
                last.source = last.source.or(element);
            }
            last.parts.extend(parts);
        }
        _ => {
            let source = element.filter(|_| !is_loose);
            turns.push(WrittenTurn::User(UserTurn { source, parts, results: is_loose }));
        }
    }
    Some(())
}

/// What is left of the parts of a user whose text was cut.
fn user_text(
    history: &RequestHistory,
    from: &[ItemPlace],
    text: &str,
    form: &TurnForm,
) -> Option<Vec<WrittenPart>> {
    let mut text = Some(text);
    let mut parts = Vec::with_capacity(from.len());
    for place in from {
        let Some(number) = place.part else {
            parts.extend(text.take().map(|text| WrittenPart::New(form.text(text).to_string())));
            continue;
        };
        let part = history.of_part(place.element, number)?;
        if !is_text(part) {
            parts.push(WrittenPart::Given(*place));
        } else if let Some(text) = text.take() {
            parts.push(WrittenPart::New(with_field(part, "text", &Value::from(text).to_string())?));
        }
    }
    Some(parts)
}

/// The elements of a turn of the model with the calls that stay, and its text.
fn model_elements(
    history: &RequestHistory,
    before: &HistoryItem,
    now: &Message,
    form: &TurnForm,
) -> Option<Vec<WrittenElement>> {
    let mut outcomes = outcomes(before, now).into_iter().peekable();
    let mut text = (now.text() != before.message.text()).then(|| now.text());
    let replaces = text.is_some();
    let mut elements = Vec::new();
    for ItemPlace { element, .. } in &before.from {
        let list = history.elements.get(*element)?.list.as_ref();
        let count = list.map_or(0, |list| list.parts.len());
        if count == 0 {
            match (replaces, text.take()) {
                (false, _) => elements.push(WrittenElement::Kept(*element)),
                (true, Some(text)) => {
                    let content = Value::from(vec![form.text(text)]).to_string();
                    elements.push(WrittenElement::New(history.with_list(*element, &content)?));
                }
                (true, None) => {}
            }
            continue;
        }
        let (mut parts, mut is_changed) = (Vec::new(), false);
        for number in 0..count {
            let part = history.of_part(*element, number)?;
            let at = ItemPlace { element: *element, part: Some(number) };
            let outcome = outcomes.next_if(|(place, _)| *place == at).map(|(_, outcome)| outcome);
            let part = match outcome {
                Some(CallOutcome::Goes) => None,
                Some(CallOutcome::Changed(arguments)) => Some(form.with_arguments(part, &arguments)?),
                None if replaces && is_text(part) => match text.take() {
                    Some(text) => Some(with_field(part, "text", &Value::from(text).to_string())?),
                    None => None,
                },
                Some(CallOutcome::Stays) | None => {
                    parts.push(part.to_owned());
                    continue;
                }
            };
            is_changed = true;
            parts.extend(part);
        }
        if !is_changed {
            elements.push(WrittenElement::Kept(*element));
        } else if !parts.is_empty() {
            let list = format!("[{}]", parts.join(","));
            elements.push(WrittenElement::New(history.with_list(*element, &list)?));
        }
    }
    Some(elements)
}

/// Whether a part says something; thoughts are none of it.
fn is_text(part: &str) -> bool {
    let Ok(part) = serde_json::from_str::<&RawValue>(part) else { return false };
    let fields = RawFields::of(part);
    fields.get("text").is_some() && fields.get("thought").is_none_or(|thought| thought.get() != "true")
}

impl UserTurn {
    /// As an element: the one that it was, if it is the same.
    fn element(self, history: &RequestHistory, form: &TurnForm) -> Option<WrittenElement> {
        let list = self.source.and_then(|source| history.elements.get(source)?.list.as_ref());
        if let Some(source) = self.source {
            let count = list.map_or(0, |list| list.parts.len());
            let whole: Vec<ItemPlace> = if count == 0 {
                vec![ItemPlace { element: source, part: None }]
            } else {
                (0..count).map(|part| ItemPlace { element: source, part: Some(part) }).collect()
            };
            let same = |(part, place): (&WrittenPart, &ItemPlace)| matches!(part, WrittenPart::Given(given) if given == place);
            if whole.len() == self.parts.len() && self.parts.iter().zip(&whole).all(same) {
                return Some(WrittenElement::Kept(source));
            }
        }
        let mut parts = String::new();
        for part in &self.parts {
            parts.push(if parts.is_empty() { '[' } else { ',' });
            match part {
                WrittenPart::New(part) => parts.push_str(part),
                WrittenPart::Given(ItemPlace { element, part: Some(part) }) => {
                    parts.push_str(history.of_part(*element, *part)?);
                }
                // A text that is the whole of an element; one without parts says nothing.
                WrittenPart::Given(ItemPlace { element, part: None }) => {
                    let text = history.elements.get(*element)?.list.as_ref();
                    let text = text.and_then(|text| history.text(text.at.clone()));
                    match text.filter(|text| text.starts_with('"')) {
                        Some(text) => write!(parts, r#"{{"type":"text","text":{text}}}"#).ok()?,
                        None => {
                            parts.pop();
                        }
                    }
                }
            }
        }
        if parts.is_empty() {
            parts.push('[');
        }
        parts.push(']');
        Some(WrittenElement::New(match self.source.filter(|_| list.is_some()) {
            Some(source) => history.with_list(source, &parts)?,
            None => format!(r#"{{"role":"user","{}":{parts}}}"#, form.parts),
        }))
    }
}
