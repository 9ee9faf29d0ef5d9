//! Scripts as files. The format is shown at [`Script`]; the types below are its reference.

use core::num::NonZeroU32;

use indexmap::IndexMap;
use reqwest::header::{HeaderName, HeaderValue};
use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::Value;

use super::script::{
    ErrorReply, RequestMatcher, Script, ScriptAnswer, ScriptEntry, ScriptFault, ScriptOutcome, ScriptedCall,
};
use crate::policy::decode::{
    self, Decode, DecodedDocument, KeptList, NodeReader, Spanned, VersionOne, choice, choice_of, record,
};
use crate::session::Usage;
use crate::text::yaml::{YamlData, YamlNode};
use crate::text::{Code, Diagnostic, Report, Span};
use crate::time::Nanos;

/// Fields of a message that have keys of their own here.
const OWN_FIELDS: [&str; 3] = ["role", "content", "tool_calls"];

record! {
    /// What a scripted model answers. The replies are given in order.
    #[part(true)]
    struct ScriptFile {
        /// The version of this format.
        version: VersionOne,
        /// The name the model answers under.
        /// Example: `scripted-1`
        model: String = "scripted".to_owned(),
        /// The replies. Each is given once, or as often as `times` says. A reply with `match` is left out until a
        /// request matches.
        /// Example: `[{"text": "The price is 12.50."}]`
        replies: Spanned<KeptList<Spanned<ReplyFile>>>,
        /// Whether the last reply is given again and again.
        repeat_last: bool = false,
        /// Whether the replies begin anew when none is left for a request. `repeat_last` means nothing then.
        repeat: bool = false,
        /// What the model answers, with HTTP status 500, when no reply is left.
        /// Example: `the script is over`
        on_exhausted: Option<String>,
    }
}

record! {
    /// One reply: an answer (`text`, `calls`), an `error`, or a `fault` on the way.
    pub(crate) struct ReplyFile {
        /// What a request must be like to get this reply. Left out: anything.
        r#match: MatchFile = MatchFile::default(),
        /// How often it is given.
        /// Example: `2`
        times: NonZeroU32 = NonZeroU32::MIN,
        /// How long the model thinks first.
        /// Example: `200ms`
        delay: ScriptDelay = ScriptDelay(Nanos::ZERO),
        /// What the model says.
        /// Example: `Let me look.`
        text: Option<Spanned<String>>,
        /// The tools it calls.
        /// Example: `[{"name": "lookup_price", "arguments": {"item": 42}}]`
        calls: Option<Spanned<Vec<CallFile>>>,
        /// Why it stopped. Left out: `tool_calls` if there are calls, else `stop`.
        /// Example: `length`
        finish_reason: Option<Spanned<String>>,
        /// The tokens it reports.
        usage: Option<Spanned<UsageFile>>,
        /// Further fields of the message.
        /// Example: `{"reasoning": "First the price."}`
        extra: Option<Spanned<IndexMap<String, Value>>>,
        /// Headers of the answer.
        /// Example: `{"x-ratelimit-limit-requests": 50, "x-ratelimit-remaining-requests": 49}`
        headers: Option<Spanned<IndexMap<String, HeaderText>>>,
        /// An error instead of an answer.
        error: Option<Spanned<ErrorFile>>,
        /// What goes wrong on the way. With `truncate`, `reset` and `stall`, `text` and `calls` are what would
        /// have come.
        fault: Option<Spanned<ScriptFault>>,
    }
}

record! {
    /// What a request must be like.
    #[derive(Default)]
    struct MatchFile {
        /// The model that is asked for.
        /// Example: `scripted-1`
        model: Option<String>,
        /// The turn, from 1: one more than there are assistant messages.
        /// Example: `2`
        turn: Option<NonZeroU32>,
        /// The role of the last message.
        /// Example: `tool`
        last_role: Option<MessageRole>,
        /// The tool whose result the last message is.
        /// Example: `lookup_price`
        last_tool: Option<String>,
        /// A text within the last message.
        /// Example: `"12.50"`
        contains: Option<String>,
    }
}

record! {
    /// A tool call.
    struct CallFile {
        /// The tool.
        /// Example: `lookup_price`
        name: String,
        /// The arguments: a mapping, or a string that is sent as it is, be it JSON or not.
        /// Example: `{"item": 42}`
        arguments: SentArguments = SentArguments("{}".to_owned()),
        /// The id of the call. Left out: made from the numbers of request and call.
        /// Example: `call_1`
        id: Option<String>,
    }
}

record! {
    /// Tokens.
    struct UsageFile {
        /// Tokens of the request, those of a cache among them.
        /// Example: `120`
        input: u64 = 0,
        /// Tokens of the reply.
        /// Example: `20`
        output: u64 = 0,
        /// Tokens of the request that were read from a cache.
        /// Example: `80`
        cache_read: u64 = 0,
        /// Tokens of the request that were written into a cache.
        /// Example: `30`
        cache_write: u64 = 0,
        /// Tokens of the reply that are reasoning.
        /// Example: `15`
        reasoning: u64 = 0,
    }
}

record! {
    /// An error as a server reports it.
    struct ErrorFile {
        /// The HTTP status. With 200 the error stands inside an answer that looks good from outside; in a stream
        /// it comes as an event.
        /// Example: `429`
        status: Spanned<u16>,
        /// Headers, such as `retry-after`.
        /// Example: `{"retry-after": 2}`
        headers: IndexMap<String, HeaderText> = IndexMap::new(),
        /// The error's code.
        /// Example: `rate_limit_exceeded`
        code: Option<String>,
        /// The error's type.
        /// Example: `requests`
        r#type: Option<String>,
        /// The error's message.
        /// Example: `slow down`
        message: Option<String>,
        /// Sent as the body instead, as it is.
        /// Example: `<html>502 Bad Gateway</html>`
        body: Option<Spanned<String>>,
    }
}

choice! {
    /// Who a message is from.
    #[derive(unfazed_macros::Named)]
    enum MessageRole {
        System = "system",
        User = "user",
        Assistant = "assistant",
        Tool = "tool",
    }
}

choice_of! {
    /// What goes wrong on the way.
    ScriptFault {
        /// The connection is closed before anything is answered.
        Close = "close",
        /// Nothing is ever answered.
        Hang = "hang",
        /// The answer ends in the middle, as if it were whole.
        Truncate = "truncate",
        /// The connection breaks in the middle of the answer.
        Reset = "reset",
        /// The answer stops in the middle and the connection stays open.
        Stall = "stall",
        /// The answer is no JSON.
        BadJson = "bad_json",
    }
}

impl Script {
    /// Reads a script. `name` is the file as messages should name it.
    ///
    /// # Errors
    /// Every mistake in it, with its place.
    pub fn from_yaml(name: &str, text: &[u8]) -> Result<Self, Report> {
        let mut replies = Vec::new();
        let file = decode::read_with(name, text, |document: &DecodedDocument<ScriptFile>| {
            // There is nothing else it could be.
            let VersionOne = document.value.version;
            let given = &document.value.replies;
            let mut problems = Vec::new();
            if given.value.0.is_empty() && document.lost().is_nothing() {
                let problem = Diagnostic::error(Code::MISSING_FIELD, given.span, "the script has no replies");
                problems.push(problem.help("add one, such as `- text: Hello.`"));
            }
            let entries = given.value.0.iter();
            replies.extend(entries.filter_map(|reply| reply.value.entry(reply.span, &mut problems)));
            // What seems to be missing may be what could not be read.
            problems.retain(|problem| problem.code != Code::MISSING_FIELD || document.lost().is_nothing());
            problems
        })?;
        let file = file.value;
        Ok(Self {
            name: name.to_owned(),
            model: file.model,
            replies,
            repeat_last: file.repeat_last,
            repeat: file.repeat,
            on_exhausted: file.on_exhausted,
        })
    }

    /// The JSON Schema of script files.
    pub fn json_schema() -> Value {
        decode::schema::<ScriptFile>()
    }
}

impl ReplyFile {
    /// The reply, unless it contradicts itself.
    pub(crate) fn entry(&self, span: Span, problems: &mut Vec<Diagnostic>) -> Option<ScriptEntry> {
        let outcome = match (&self.error, &self.fault) {
            (Some(error), Some(fault)) => {
                problems.push(both("error", error.span, "fault", fault.span));
                return None;
            }
            (Some(error), None) => {
                self.nothing_beside("error", error.span, problems);
                ScriptOutcome::Error(error.value.reply(problems))
            }
            (None, Some(fault)) => {
                if !matches!(fault.value, ScriptFault::Truncate | ScriptFault::Reset | ScriptFault::Stall) {
                    self.nothing_beside("fault", fault.span, problems);
                }
                ScriptOutcome::Fault(fault.value, self.answer(problems))
            }
            (None, None) if self.answer_fields().next().is_none() => {
                let problem = Diagnostic::error(Code::MISSING_FIELD, span, "this reply says nothing");
                problems.push(problem.help("give it `text`, `calls`, an `error` or a `fault`"));
                return None;
            }
            (None, None) => ScriptOutcome::Answer(self.answer(problems)),
        };
        let MatchFile { model, turn, last_role, last_tool, contains } = self.r#match.clone();
        let when = RequestMatcher {
            model,
            turn: turn.map(NonZeroU32::get),
            last_role: last_role.map(|role| role.name().to_owned()),
            last_tool,
            contains,
        };
        Some(ScriptEntry { when, times: self.times.get(), delay: self.delay.0.to_std(), outcome })
    }

    fn answer(&self, problems: &mut Vec<Diagnostic>) -> ScriptAnswer {
        let extra = self.extra.as_ref();
        let own = extra.and_then(|extra| {
            let own = OWN_FIELDS.iter().find(|field| extra.value.contains_key(**field))?;
            Some((own, extra.span))
        });
        if let Some((field, span)) = own {
            let problem =
                Diagnostic::error(Code::CONTRADICTION, span, format!("`{field}` cannot be set here"));
            problems.push(problem.help("`text` and `calls` of the reply write it"));
        }
        let call = |call: &CallFile| ScriptedCall {
            name: call.name.clone(),
            arguments: call.arguments.0.clone(),
            id: call.id.clone(),
        };
        ScriptAnswer {
            text: self.text.as_ref().map(|text| text.value.clone()).unwrap_or_default(),
            calls: self.calls.iter().flat_map(|calls| &calls.value).map(call).collect(),
            finish: self.finish_reason.as_ref().map(|finish| finish.value.clone()),
            usage: self.usage.as_ref().map(|usage| {
                let UsageFile { input, output, cache_read, cache_write, reasoning } = usage.value;
                Usage { input, output, cache_read, cache_write, reasoning }
            }),
            extra: extra.map(|extra| extra.value.clone().into_iter().collect()).unwrap_or_default(),
            headers: self.headers.as_ref().map(|own| sent(&own.value, problems)).unwrap_or_default(),
        }
    }

    /// The fields of an answer that are there.
    fn answer_fields(&self) -> impl Iterator<Item = (&'static str, Span)> {
        let fields = [
            ("text", self.text.as_ref().map(|field| field.span)),
            ("calls", self.calls.as_ref().map(|field| field.span)),
            ("finish_reason", self.finish_reason.as_ref().map(|field| field.span)),
            ("usage", self.usage.as_ref().map(|field| field.span)),
            ("extra", self.extra.as_ref().map(|field| field.span)),
            ("headers", self.headers.as_ref().map(|field| field.span)),
        ];
        fields.into_iter().filter_map(|(name, span)| Some((name, span?)))
    }

    fn nothing_beside(&self, name: &str, at: Span, problems: &mut Vec<Diagnostic>) {
        problems.extend(self.answer_fields().map(|(field, span)| both(name, at, field, span)));
    }
}

impl ErrorFile {
    fn reply(&self, problems: &mut Vec<Diagnostic>) -> ErrorReply {
        let status = self.status.value;
        if !matches!(status, 200 | 300..=599) {
            let message = format!("{status} is not the status of an error");
            let problem = Diagnostic::error(Code::OUT_OF_RANGE, self.status.span, message);
            problems.push(problem.label("must be 200, or from 300 to 599"));
        }
        if let (Some(body), true) =
            (&self.body, self.code.is_some() || self.r#type.is_some() || self.message.is_some())
        {
            let message = "`body` is sent as it is; `code`, `type` and `message` would not be sent";
            problems.push(
                Diagnostic::error(Code::CONTRADICTION, body.span, message).help("remove one or the other"),
            );
        }
        ErrorReply {
            status,
            headers: sent(&self.headers, problems),
            code: self.code.clone(),
            kind: self.r#type.clone(),
            message: self.message.clone().unwrap_or_default(),
            body: self.body.as_ref().map(|body| body.value.clone()),
        }
    }
}

/// The headers as they are sent. One that cannot be is a problem.
fn sent(headers: &IndexMap<String, HeaderText>, problems: &mut Vec<Diagnostic>) -> IndexMap<String, String> {
    for (name, value) in headers {
        let sendable = name.parse::<HeaderName>().is_ok() && HeaderValue::from_str(&value.text).is_ok();
        if !sendable {
            let message = format!("the header `{name}` cannot be sent over HTTP");
            problems.push(Diagnostic::error(Code::BAD_VALUE, value.span, message));
        }
    }
    headers.iter().map(|(name, value)| (name.clone(), value.text.clone())).collect()
}

fn both(one: &str, at: Span, other: &str, other_at: Span) -> Diagnostic {
    let message = format!("a reply with `{one}` has no `{other}`");
    Diagnostic::error(Code::CONTRADICTION, other_at, message)
        .also(at, format!("`{one}` is here"))
        .help("remove one of them, or make two replies of it")
}

/// Arguments as they are sent.
#[derive(Clone, Debug)]
struct SentArguments(String);

impl Decode for SentArguments {
    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        match &node.data {
            YamlData::Text(text) => Some(Self(text.to_string())),
            YamlData::Map(_) => Some(Self(node.to_json().to_string())),
            _ => reader.wrong_type(node, "a mapping, or a string that is sent as it is"),
        }
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"anyOf": [{"type": "object"}, {"type": "string"}]})
    }
}

/// The value of a header; numbers need no quotes.
#[derive(Clone, Debug)]
struct HeaderText {
    text: String,
    span: Span,
}

impl Decode for HeaderText {
    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        let text = match &node.data {
            YamlData::Text(text) => text.to_string(),
            YamlData::Number(number) => number.to_string(),
            _ => return reader.wrong_type(node, "a string or a number"),
        };
        Some(Self { text, span: node.span })
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"anyOf": [{"type": "string"}, {"type": "number"}]})
    }
}

/// A wait, with its unit.
#[derive(Clone, Copy, Debug)]
struct ScriptDelay(Nanos);

impl Decode for ScriptDelay {
    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        Nanos::decode(node, reader).map(Self)
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        Nanos::schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const EXAMPLE: &str = r#"
version: 1
model: scripted-1
replies:
  - error: {status: 429, code: rate_limit_exceeded, message: slow down, headers: {retry-after: 1}}
  - text: Let me look.
    calls:
      - {name: lookup_price, arguments: {item: 42}}
    usage: {input: 120, output: 20}
  - match: {last_tool: lookup_price, contains: "12.50"}
    calls:
      - {name: final_report, arguments: '{"broken": '}
  - fault: hang
  - delay: 200ms
    times: 3
    text: Here is what I found.
repeat_last: true
on_exhausted: That was all.
"#;

    fn mistakes(text: &str) -> String {
        Script::from_yaml("script.yaml", text.as_bytes()).unwrap_err().human(false)
    }

    #[test]
    fn a_script_is_read_as_it_is_written() {
        let call = |name: &str, arguments: &str| ScriptedCall {
            name: name.into(),
            arguments: arguments.into(),
            id: None,
        };
        let error = ErrorReply::new(429, "rate_limit_exceeded", "slow down").header("retry-after", "1");
        let look = ScriptAnswer {
            text: "Let me look.".into(),
            calls: vec![call("lookup_price", r#"{"item":42}"#)],
            usage: Some(Usage { input: 120, output: 20, ..Usage::default() }),
            ..ScriptAnswer::default()
        };
        let found = RequestMatcher {
            last_tool: Some("lookup_price".into()),
            contains: Some("12.50".into()),
            ..RequestMatcher::default()
        };
        let replies = [
            ScriptEntry::new(ScriptOutcome::Error(error)),
            ScriptEntry::new(ScriptOutcome::Answer(look)),
            ScriptEntry::call("final_report", r#"{"broken": "#).when(found),
            ScriptEntry::fault(ScriptFault::Hang),
            ScriptEntry::text("Here is what I found.").times(3).after(core::time::Duration::from_millis(200)),
        ];
        let expected = Script {
            model: "scripted-1".into(),
            repeat_last: true,
            repeat: false,
            on_exhausted: Some("That was all.".into()),
            ..Script::new("script.yaml", replies)
        };
        assert_eq!(Script::from_yaml("script.yaml", EXAMPLE.as_bytes()).unwrap(), expected);
    }

    #[test]
    fn every_mistake_is_told_at_once_with_its_place() {
        insta::assert_snapshot!(mistakes(
            "version: 2
replies:
  - txt: hello
  - fault: hung
  - {text: 5, times: 0}
  - {delay: soon, text: x}
  - calls: [{arguments: [1]}]
  - match: {last_role: robot, turn: 0}
    text: x
  - error: {code: x}
"
        ));
    }

    #[test]
    fn replies_that_contradict_themselves_are_refused() {
        insta::assert_snapshot!(mistakes(
            "version: 1
replies:
  - {error: {status: 429}, text: x}
  - {error: {status: 429}, fault: close}
  - {fault: close, text: x}
  - {times: 2}
  - error: {status: 201}
  - error: {status: 500, body: x, message: y, headers: {a b: 1}}
  - {text: x, extra: {content: y}}
"
        ));
    }

    #[test]
    fn a_script_without_replies_is_refused() {
        insta::assert_snapshot!(mistakes("version: 1\nreplies: []\n"));
        insta::assert_snapshot!(mistakes(""));
    }

    #[test]
    fn the_schema_accepts_what_is_read() {
        let schema = Script::json_schema();
        let validator = jsonschema::validator_for(&schema).unwrap();
        let example = json!({"version": 1, "replies": [
            {"text": "x", "delay": "1s", "match": {"last_role": "tool"}},
            {"error": {"status": 429, "headers": {"retry-after": 1}}},
            {"calls": [{"name": "look", "arguments": "{"}, {"name": "look", "arguments": {}}]},
            {"fault": "stall", "text": "x"},
        ]});
        assert!(validator.is_valid(&example), "{:?}", validator.validate(&example));
        assert!(!validator.is_valid(&json!({"version": 1, "replies": [{"txt": "x"}]})));
        assert!(!validator.is_valid(&json!({"version": 2, "replies": []})));
    }
}
