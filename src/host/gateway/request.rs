//! The body of a request: only the name of the model in it is replaced, every other byte stays. Where the address names the
//! model, all of them stay.

use core::fmt;
use core::ops::Range;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::{Bytes, BytesMut};
use memchr::memchr_iter;
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use super::endpoint::PathCall;
use super::error::GatewayError;
use super::history::{DECLARED, INSTRUCTIONS, RawText, items, place};
use crate::host::model::front::{FrontCall, GatewayDialect, ReplyHead, Unconvertible};
use crate::host::model::sent::SentBody;
use crate::host::new_uuid;

/// The body of a request.
#[derive(Clone, Debug)]
pub(crate) struct RequestBody {
    bytes: Bytes,
    /// Where the values of `model` are, and what stands before the name in them. Of several, readers of JSON take the first or the
    /// last: all are replaced.
    models: Vec<(Range<usize>, &'static str)>,
    model: String,
    /// What the address says, if it names the model.
    call: Option<PathCall>,
    /// A field that has a server choose among models of its own.
    chooser: Option<String>,
    stream: bool,
    choices: u64,
    background: bool,
    /// The most tokens of the answer, if the client says so.
    reply: Option<u64>,
    /// Where the values of the fields are that may have the conversation, or what a model reads besides.
    read: Vec<(&'static str, Range<usize>)>,
    /// Whether the conversation is the end of one that the provider keeps.
    continued: bool,
}

/// The bytes of a body that is not copied for each model: below, one piece costs less than several.
const LARGE: usize = 64 << 10;

/// The most values of a body, in lists and objects: a value in memory is many times as large as the two bytes that it may be. `OpenAI`
/// takes 300,000 tokens for embeddings, which may be numbers ("Create embeddings"), and no window is filled by fewer tokens than values.
const MOST_VALUES: usize = 500_000;
/// The most messages: "There is a limit of 100,000 messages in a single request" (Anthropic, "Create a Message").
const MOST_MESSAGES: usize = 100_000;
/// How often a field that is looked at may stand in an object: clients write each once.
const MOST_REPEATED: usize = 8;

/// The fields that have the conversation, in one dialect or another.
const CONVERSATIONS: [&str; 3] = ["messages", "input", "contents"];

/// The fields that are looked at, as they stand in the text.
#[derive(Default)]
struct LookedAt<'a> {
    models: Vec<&'a RawValue>,
    /// What Gemini's clients want counted, which names the model again.
    counted: Vec<&'a RawValue>,
    /// A name that some servers take for another one.
    alike: Option<(String, &'static str)>,
    chooser: Option<String>,
    stream: Option<&'a RawValue>,
    /// How many choices are wanted: `n`, or what Gemini's clients say of it.
    choices: Option<&'a RawValue>,
    generation: Option<&'a RawValue>,
    background: Option<&'a RawValue>,
    reply: Option<u64>,
    read: Vec<(&'static str, &'a RawValue)>,
    continued: bool,
}

/// The names by which servers know who answers, and how. Those that are written in Go take them in capitals too, and of several the
/// last.
const EXACT: [&str; 2] = ["model", "stream"];
/// What has a server, such as `OpenRouter`, choose among its models.
const CHOOSERS: [&str; 3] = ["models", "fallbacks", "route"];
/// Gemini's names have that before them.
const GOOGLE: &str = "models/";

/// Gemini's names for how many choices are wanted, and for how long an answer may be.
#[derive(Default, serde::Deserialize)]
#[serde(default)]
struct Generation {
    #[serde(rename = "candidateCount", alias = "candidate_count")]
    choices: Value,
    #[serde(rename = "maxOutputTokens", alias = "max_output_tokens")]
    reply: Value,
}

impl RequestBody {
    /// Reads a body. `call`: what its address says.
    ///
    /// # Errors
    /// It is no JSON object, it has more values than any provider takes, or neither it nor its address names a model.
    pub(crate) fn read(bytes: Bytes, call: Option<PathCall>) -> Result<Self, GatewayError> {
        let text = core::str::from_utf8(&bytes)
            .map_err(|error| GatewayError::bad_request(format!("the body is not UTF-8 text: {error}")))?;
        if has_too_many_values(text) {
            return Err(too_many("values", MOST_VALUES));
        }
        let unreadable = |error: serde_json::Error| {
            GatewayError::bad_request(format!("the body is not a JSON object that can be read: {error}"))
        };
        let mut reader = serde_json::Deserializer::from_str(text);
        let fields =
            reader.deserialize_map(LookedAt::default()).and_then(|fields| reader.end().map(|()| fields));
        let fields = fields.map_err(unreadable)?;
        if fields.read.iter().any(|(name, value)| CONVERSATIONS.contains(name) && is_too_long(value)) {
            return Err(too_many("messages", MOST_MESSAGES));
        }
        let of = |(name, value): &(_, &RawValue)| (*name, place(text, value.get()));
        let (read, continued) = (fields.read.iter().map(of).collect(), fields.continued);
        if let Some((name, exact)) = fields.alike {
            return Err(GatewayError::bad_request(format!(
                "`{name}` may be read as `{exact}` by some servers; write it so, or leave it out"
            )));
        }
        let chooser = fields.chooser;
        if let Some(PathCall { model, stream }) = call.clone() {
            let generation = fields.generation.and_then(|value| serde_json::from_str(value.get()).ok());
            let Generation { choices, reply } = generation.unwrap_or_default();
            let (choices, reply) = (choices.as_u64().unwrap_or(1), reply.as_u64());
            let objects = fields.counted.iter().filter(|value| value.get().starts_with('{'));
            let counted = objects.map(|value| {
                serde_json::Deserializer::from_str(value.get()).deserialize_map(LookedAt::default())
            });
            // A name that is not seen would not be replaced.
            let counted = counted.collect::<Result<Vec<_>, _>>().map_err(unreadable)?;
            let counted = counted.into_iter().flat_map(|inner| inner.models);
            let names = fields.models.iter().copied().chain(counted);
            let mut models: Vec<_> =
                names.map(|name| (place(text, name.get()), google_prefix(name))).collect();
            models.sort_by_key(|(place, _)| place.start);
            let background = false;
            return Ok(Self {
                bytes,
                models,
                model,
                call,
                chooser,
                stream,
                choices,
                background,
                reply,
                read,
                continued,
            });
        }
        let no_model = || GatewayError::bad_request("`model` is missing; it names a route of the gateway");
        let names = fields.models.iter().map(|model| serde_json::from_str::<String>(model.get()));
        let names = names.collect::<Result<Vec<_>, _>>();
        let mut names = names.map_err(|_| GatewayError::bad_request("`model` is not a text"))?;
        let model = names.pop().ok_or_else(no_model)?;
        let stream = fields.stream.is_some_and(|stream| stream.get() == "true");
        let choices = fields.choices.and_then(|n| n.get().parse().ok()).unwrap_or(1);
        let background = fields.background.is_some_and(|background| background.get() == "true");
        let models = fields.models.iter().map(|model| (place(text, model.get()), "")).collect();
        let reply = fields.reply;
        Ok(Self { bytes, models, model, call, chooser, stream, choices, background, reply, read, continued })
    }

    /// The model that the client asks for.
    pub(crate) fn model(&self) -> &str {
        &self.model
    }

    /// A field by which a server may answer with another model than that of the route.
    pub(crate) fn chooser(&self) -> Option<&str> {
        self.chooser.as_deref()
    }

    /// Whether the client wants a stream.
    pub(crate) const fn stream(&self) -> bool {
        self.stream
    }

    /// How many choices the client wants.
    pub(super) const fn choices(&self) -> u64 {
        self.choices
    }

    /// Whether the client comes back for the answer.
    pub(super) const fn background(&self) -> bool {
        self.background
    }

    /// The most tokens of the answer, if the client says so.
    pub(super) const fn reply(&self) -> Option<u64> {
        self.reply
    }

    /// As it came.
    pub(super) const fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Where the value of that field is, which has the conversation. `None`: it is not there, or twice.
    pub(super) fn field(&self, field: &str) -> Option<Range<usize>> {
        let mut values = self.fields(field);
        let place = values.next()?;
        values.next().is_none().then_some(place)
    }

    /// Where the values of that field are that a model reads.
    pub(super) fn fields(&self, field: &str) -> impl Iterator<Item = Range<usize>> {
        self.read.iter().filter(move |(name, _)| *name == field).map(|(_, place)| place.clone())
    }

    /// Whether the conversation is the end of one that the provider keeps.
    pub(super) const fn is_continued(&self) -> bool {
        self.continued
    }

    /// The request in the neutral form.
    ///
    /// # Errors
    /// Something in it would change its meaning if it were left out, or it is no request.
    pub(super) fn front(&self, dialect: GatewayDialect) -> Result<FrontCall, Unconvertible> {
        let created = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let head = ReplyHead { model: self.model.clone(), id: new_uuid().simple().to_string(), created };
        FrontCall::read(dialect, &self.bytes, self.stream, head)
    }

    /// The same request with other bytes.
    ///
    /// # Errors
    /// They are no request.
    pub(super) fn with(&self, bytes: Bytes) -> Result<Self, GatewayError> {
        Self::read(bytes, self.call.clone())
    }

    /// The same request with these elements behind the others of a list; `None`: it has no such list.
    pub(super) fn with_elements(&self, list: &str, elements: &[Value]) -> Option<Self> {
        let at = self.field(list)?;
        let text = core::str::from_utf8(&self.bytes).ok()?;
        let (before, said, after) = (text.get(..at.start)?, text.get(at.clone())?, text.get(at.end..)?);
        let mut all: Vec<String> = match said.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            Some(inner) if inner.trim().is_empty() => Vec::new(),
            Some(inner) => vec![inner.to_owned()],
            // The one text that a conversation may be.
            None if !said.starts_with('"') => return None,
            None => vec![format!(r#"{{"role":"user","content":{said}}}"#)],
        };
        all.extend(elements.iter().map(Value::to_string));
        self.with(format!("{before}[{}]{after}", all.join(",")).into()).ok()
    }

    /// The same bytes, with another model.
    pub(super) fn for_model(&self, model: &str) -> SentBody {
        if self.bytes.len() >= LARGE {
            return self.pieces(model);
        }
        let name = json_name("", model);
        let mut body = BytesMut::with_capacity(self.bytes.len().saturating_add(name.len()));
        let mut copied = 0;
        for (Range { start, end }, prefix) in self.models.iter().cloned() {
            body.extend_from_slice(self.bytes.get(copied..start).unwrap_or_default());
            if prefix.is_empty() {
                body.extend_from_slice(name.as_bytes());
            } else {
                body.extend_from_slice(json_name(prefix, model).as_bytes());
            }
            copied = end;
        }
        body.extend_from_slice(self.bytes.get(copied..).unwrap_or_default());
        body.freeze().into()
    }

    /// The same, of which nothing is copied.
    fn pieces(&self, model: &str) -> SentBody {
        let between = |start: usize, end: usize| {
            let is_within = start <= end && end <= self.bytes.len();
            if is_within { self.bytes.slice(start..end) } else { Bytes::new() }
        };
        let (mut pieces, mut sent) = (Vec::with_capacity(3), 0);
        for (Range { start, end }, prefix) in self.models.iter().cloned() {
            pieces.extend([between(sent, start), json_name(prefix, model).into()]);
            sent = end;
        }
        pieces.push(between(sent, self.bytes.len()));
        SentBody::of(pieces)
    }
}

/// Whether the body has more values than any provider takes.
fn has_too_many_values(text: &str) -> bool {
    let begin = [b',', b'[', b'{'];
    // The largest bodies are texts and files, in which there are few of these.
    let most = || begin.iter().map(|byte| memchr_iter(*byte, text.as_bytes()).count());
    if text.len() <= MOST_VALUES || most().fold(0, usize::saturating_add) <= MOST_VALUES {
        return false;
    }
    let (mut is_text, mut is_escaped) = (false, false);
    let values = text.bytes().filter(|byte| {
        let begins = !is_text && begin.contains(byte);
        is_text ^= *byte == b'"' && !is_escaped;
        is_escaped = is_text && *byte == b'\\' && !is_escaped;
        begins
    });
    values.count() > MOST_VALUES
}

/// Whether a conversation has more messages than any provider takes.
fn is_too_long(list: &RawValue) -> bool {
    let list_bytes = list.get().as_bytes();
    memchr_iter(b',', list_bytes).count() >= MOST_MESSAGES
        && items(list).is_some_and(|items| items.len() > MOST_MESSAGES)
}

fn too_many(what: &str, most: usize) -> GatewayError {
    GatewayError::bad_request(format!("the body has more than {most} {what}, which no provider takes"))
}

/// The name as JSON.
fn json_name(prefix: &str, model: &str) -> String {
    Value::from(format!("{prefix}{model}")).to_string()
}

/// What stands before the name of a model of Gemini's, which is left as it is.
fn google_prefix(name: &RawValue) -> &'static str {
    let name = serde_json::from_str::<String>(name.get()).unwrap_or_default();
    if name.starts_with(GOOGLE) { GOOGLE } else { "" }
}

/// The one of these names that is the same without regard to case, as Go folds it. These names are ASCII.
fn folded(name: &str, known: &[&'static str]) -> Option<&'static str> {
    fn upper(name: &str) -> impl Iterator<Item = char> {
        name.chars().flat_map(char::to_uppercase)
    }
    known.iter().copied().find(|known| {
        // Most names differ in their length already, which is compared first.
        if name.is_ascii() { name.eq_ignore_ascii_case(known) } else { upper(name).eq(upper(known)) }
    })
}

impl<'de> Visitor<'de> for LookedAt<'de> {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut fields: A) -> Result<Self, A::Error> {
        // Names are read, as `mod\u0065l` is `model`, too.
        while let Some(RawText(name)) = fields.next_key()? {
            let value = fields.next_value::<&'de RawValue>()?;
            let mut read = CONVERSATIONS.iter().chain(&INSTRUCTIONS).chain(&DECLARED);
            if let Some(known) = read.find(|known| **known == name) {
                self.read.push((known, value));
            }
            if let Some(chooser) = folded(&name, &CHOOSERS).filter(|_| value.get() != "null") {
                self.chooser.get_or_insert_with(|| chooser.to_owned());
            }
            if let Some(exact) = folded(&name, &EXACT).filter(|exact| **exact != *name) {
                self.alike.get_or_insert_with(|| (name.to_string(), exact));
            }
            match &*name {
                "generateContentRequest" | "generate_content_request" => self.counted.push(value),
                "model" => self.models.push(value),
                "stream" => self.stream = Some(value),
                "n" => self.choices = Some(value),
                "generationConfig" | "generation_config" => self.generation = Some(value),
                "background" => self.background = Some(value),
                // Whichever of several a server reads.
                "max_tokens" | "max_completion_tokens" | "max_output_tokens" => {
                    self.reply = self.reply.max(value.get().parse().ok());
                }
                "previous_response_id" | "conversation" => self.continued |= value.get() != "null",
                _ => {}
            }
            let read = self.read.iter().filter(|(known, _)| *known == name).count();
            if [read, self.models.len(), self.counted.len()].into_iter().any(|count| count > MOST_REPEATED) {
                let why = format!("`{name}` stands in it more than {MOST_REPEATED} times");
                return Err(A::Error::custom(why));
            }
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spliced(body: &str) -> String {
        let body = RequestBody::read(Bytes::copy_from_slice(body.as_bytes()), None).unwrap();
        let pieces = body.pieces("x\"y").whole();
        assert_eq!(body.for_model("x\"y").whole(), pieces);
        String::from_utf8(pieces.to_vec()).unwrap()
    }

    #[test]
    fn every_byte_stays_but_the_name_of_the_model() {
        let body = "{ \"b\" : 1e400,\t\"b\":-0.0, \"model\" : \"main\" ,\"m\":{\"model\":\"inner\"},\"é\\u0000\":\"\\ud800\"}\n";
        assert_eq!(spliced(body), body.replace("\"main\"", "\"x\\\"y\""));
    }

    #[test]
    fn no_other_model_gets_past_whichever_a_server_reads() {
        let body = r#"{"model":"free","mod\u0065l":"dear","stream":false,"stream":true}"#;
        let read = RequestBody::read(Bytes::from_static(body.as_bytes()), None).unwrap();
        assert_eq!((read.model(), read.stream()), ("dear", true));
        let sent = r#"{"model":"x","mod\u0065l":"x","stream":false,"stream":true}"#;
        assert_eq!(read.for_model("x").whole(), sent);
    }

    #[test]
    fn a_name_in_other_letters_is_refused() {
        for body in [
            r#"{"model":"free","Model":"dear"}"#,
            r#"{"MODEL":"dear","model":"free"}"#,
            r#"{"model":"free","mod\u0045l":"dear"}"#,
            "{\"model\":\"free\",\"\u{17f}tream\":true}",
        ] {
            let error = RequestBody::read(Bytes::copy_from_slice(body.as_bytes()), None).unwrap_err();
            assert!(error.status.as_u16() == 400 && error.message.contains("may be read as"), "{error}");
        }
        let names = r#"{"model":"m","models_":1,"modelx":2,"streams":3,"input":{"Model":"inner"}}"#;
        RequestBody::read(Bytes::from_static(names.as_bytes()), None).unwrap();
    }

    #[test]
    fn what_has_a_server_choose_is_seen() {
        for (body, chooser) in [
            (r#"{"model":"m","models":["a"]}"#, Some("models")),
            (r#"{"model":"m","Fallbacks":[]}"#, Some("fallbacks")),
            (r#"{"model":"m","route":"fallback"}"#, Some("route")),
            (r#"{"model":"m","route":null,"routes":1}"#, None),
        ] {
            let read = RequestBody::read(Bytes::from_static(body.as_bytes()), None).unwrap();
            assert_eq!(read.chooser(), chooser, "{body}");
        }
    }

    #[test]
    fn bodies_of_gemini_get_the_name_too() {
        let body =
            r#"{"model":"free","generateContentRequest":{"contents":[],"model":"models/free","Model":0}}"#;
        let call = PathCall { model: "free".into(), stream: false };
        let read = RequestBody::read(Bytes::from_static(body.as_bytes()), Some(call)).unwrap();
        let sent = r#"{"model":"x","generateContentRequest":{"contents":[],"model":"models/x","Model":0}}"#;
        assert_eq!((read.for_model("x").whole(), read.pieces("x").whole()), (sent.into(), sent.into()));
        let again = read.with(Bytes::from_static(body.as_bytes())).unwrap();
        assert_eq!((again.model(), again.for_model("x").whole()), ("free", sent.into()));
    }

    #[test]
    fn a_body_that_would_take_many_times_its_size_is_refused() {
        let repeated = |name: &str, count: usize| {
            let fields = format!(r#""{name}":"m","#).repeat(count);
            format!(r#"{{{fields}"generateContentRequest":{{}},"model":"m"}}"#)
        };
        let within = |count: usize| {
            let fields = r#""model":"models/m","#.repeat(count);
            format!(r#"{{"generateContentRequest":{{{fields}"contents":[]}}}}"#)
        };
        let list = |name: &str, element: &str, count: usize| {
            format!(r#"{{"model":"m","{name}":[{}{element}]}}"#, format!("{element},").repeat(count))
        };
        let read = |body: String, call: Option<PathCall>| RequestBody::read(Bytes::from(body), call);
        let call = || Some(PathCall { model: "m".into(), stream: false });
        for (body, call, why) in [
            (repeated("model", 8), None, "`model` stands in it more than 8 times"),
            (repeated("mod\\u0065l", 8), call(), "`model` stands in it more than 8 times"),
            (repeated("messages", 9), None, "`messages` stands in it more than 8 times"),
            (repeated("generateContentRequest", 9), call(), "more than 8 times"),
            (within(9), call(), "`model` stands in it more than 8 times"),
            (
                r#"{"generateContentRequest":{"\ud800":0,"model":"models/dear"}}"#.to_owned(),
                call(),
                "hex escape",
            ),
            (list("messages", r#"{"role":"user"}"#, 100_000), None, "more than 100000 messages"),
            (list("x", "0", 500_000), None, "more than 500000 values"),
        ] {
            let error = read(body, call).unwrap_err();
            assert!(error.status.as_u16() == 400 && error.message.contains(why), "{why}: {error}");
        }
        for (body, call) in [
            (repeated("model", 7), None),
            (within(8), call()),
            (list("messages", r#"{"role":"user"}"#, 99_999), None),
            // What stands in a text is no value.
            (list("x", r#""\\\",,[{,\\\\""#, 200_000), None),
        ] {
            read(body, call).unwrap();
        }
    }

    #[test]
    fn how_long_the_answer_may_be_is_read_in_every_dialect() {
        for (fields, reply) in [
            (r#""max_tokens":5"#, Some(5)),
            (r#""max_completion_tokens":7,"max_tokens":5"#, Some(7)),
            (r#""max_output_tokens":9"#, Some(9)),
            (r#""max_tokens":null"#, None),
            (r#""messages":[]"#, None),
        ] {
            let body = RequestBody::read(Bytes::from(format!(r#"{{"model":"m",{fields}}}"#)), None).unwrap();
            assert_eq!(body.reply(), reply, "{fields}");
        }
        for (config, reply, choices) in [
            (r#"{"maxOutputTokens":5,"candidateCount":2}"#, Some(5), 2),
            (r#"{"max_output_tokens":"5","candidate_count":2}"#, None, 2),
        ] {
            let call = PathCall { model: "m".into(), stream: false };
            let body = format!(r#"{{"generationConfig":{config}}}"#);
            let body = RequestBody::read(Bytes::from(body), Some(call)).unwrap();
            assert_eq!((body.reply(), body.choices()), (reply, choices), "{config}");
        }
    }

    #[test]
    fn a_body_that_is_none_is_refused_whatever_its_depth() {
        let deep = format!("{{\"model\":\"m\",\"a\":{}", "[".repeat(1_000_000));
        let cases = ["", "[]", "{\"model\":\"m\"} {}", "{\"model\":\"m\",}", "{\"model\":1}", "{}", &deep];
        for body in cases {
            let error = RequestBody::read(Bytes::copy_from_slice(body.as_bytes()), None).unwrap_err();
            assert_eq!(error.status.as_u16(), 400, "{error}");
        }
        assert!(RequestBody::read(Bytes::from_static(b"{\"model\":\"\xff\"}"), None).is_err());
    }
}
