//! What a server writes, message by message: what can be read, and what cannot. An answer that cannot be read becomes an error to
//! whoever asked, who would wait for it until the time of the call is over.

use rmcp::model::RequestId;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::declare::TOO_DEEP;
use crate::engine::RecordLine;

/// The deepest message a server may send; readers of JSON give up at 128 levels.
const MOST_LEVELS: usize = 120;
/// The deepest tool: it is three levels deep in the message.
const MOST_TOOL_LEVELS: usize = MOST_LEVELS - 4;
/// JSON-RPC 2.0, section 5.1.
const METHOD_NOT_FOUND: i64 = -32601;
/// What is reported of an answer that is broken.
pub(super) const NO_JSON: &str = "the server's answer is not JSON";
/// What is reported of several messages at once: MCP has none since its version 2025-06-18.
pub(super) const BATCH: &str = "the server's answer is a JSON-RPC batch, which MCP does not have any more";

/// What a line is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ReadLine {
    /// A message, to be passed on.
    Message,
    /// An answer that cannot be read, and what is passed on in its place.
    Instead(Vec<u8>),
    /// An answer whose texts cannot be decoded, such as one with half a surrogate pair, and what is passed on in its place where
    /// that must be possible.
    Undecodable(Vec<u8>),
    /// An answer that says nothing of whose it is: an error object.
    Nameless(Value),
    /// A batch with answers: the ids of these.
    Batch(Vec<Option<Value>>),
    /// An answer that cannot be read, and does not say whose it is.
    Unanswerable,
    /// No message: what a server writes for people.
    Noise,
}

/// What becomes of an answer whose texts cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UndecodableAnswer {
    /// It is passed on by somebody who need not decode it.
    Pass,
    /// An error replaces it.
    Replace,
}

/// What of a message says what it is.
#[derive(Deserialize)]
struct MessageHead<'a> {
    #[serde(default)]
    jsonrpc: Option<IgnoredAny>,
    #[serde(default, borrow)]
    id: Option<&'a RawValue>,
    #[serde(default)]
    method: Option<IgnoredAny>,
    #[serde(default, borrow)]
    result: Option<&'a RawValue>,
    #[serde(default, borrow)]
    error: Option<&'a RawValue>,
}

impl MessageHead<'_> {
    /// Whether it is JSON that is no message: a server that logs to its standard output may well write `{"error": ...}`, or an `id`
    /// of its own. Answers without `jsonrpc` are known from servers, errors as texts are not.
    fn is_logged(&self) -> bool {
        self.jsonrpc.is_none()
            && self.method.is_none()
            && self.result.is_none()
            && (self.id.is_none() || self.error.is_none_or(|error| error_in(error).is_none()))
    }
}

/// An error object as JSON-RPC has it; `None`: it is something else.
fn error_in(error: &RawValue) -> Option<Value> {
    if RecordLine::levels(error.get().as_bytes()) > MOST_LEVELS {
        return None;
    }
    let error: Value = serde_json::from_str(error.get()).ok()?;
    (error["code"].is_i64() && error["message"].is_string()).then_some(error)
}

/// A list of tools, of which each can be looked at alone.
#[derive(Deserialize)]
struct ToolList<'a> {
    #[serde(borrow)]
    tools: Vec<&'a RawValue>,
    #[serde(default, rename = "nextCursor")]
    next: Option<String>,
}

/// Reads a line.
pub(super) fn read(line: &[u8]) -> ReadLine {
    if !begins_a_message(line) {
        return ReadLine::Noise;
    }
    if line.trim_ascii_start().starts_with(b"[") {
        return batch(line);
    }
    // Whatever is in it is only passed over here, however deep.
    let Ok(head) = serde_json::from_slice::<MessageHead<'_>>(line) else { return broken(line) };
    if head.is_logged() {
        return ReadLine::Noise;
    }
    let Some(id) = head.id.and_then(id_of).filter(|_| head.method.is_none()) else {
        if let Some(error) = nameless(&head) {
            return ReadLine::Nameless(error);
        }
        if head.method.is_none() {
            return ReadLine::Noise;
        }
        // What a server asks or tells.
        return if RecordLine::levels(line) <= MOST_LEVELS { ReadLine::Message } else { ReadLine::Noise };
    };
    if RecordLine::levels(line) > MOST_LEVELS {
        return head.result.and_then(|result| without_the_deep(&id, result)).unwrap_or_else(|| {
            refused(&id, &format!("the server's answer is nested deeper than {MOST_LEVELS} levels"))
        });
    }
    if head.result.is_some() || head.error.is_some_and(|error| error.get().starts_with('{')) {
        return whole(line, &id);
    }
    refused(&id, "the server's answer has neither a result nor an error that can be read")
}

/// The error in an answer without an id that can be read, or what is said in its place; `None`: it is no answer.
fn nameless(head: &MessageHead<'_>) -> Option<Value> {
    if head.jsonrpc.is_none() || head.method.is_some() || (head.result.is_none() && head.error.is_none()) {
        return None;
    }
    match head.error.and_then(error_in) {
        // An unknown method has an id, which could be read: what has none is a notification that some servers refuse.
        Some(error) if error["code"] == METHOD_NOT_FOUND => None,
        Some(error) => Some(error),
        None => Some(error_of("the server's answer does not say by its id whose it is")),
    }
}

/// Several messages at once. They are noise unless there is an answer among them.
fn batch(line: &[u8]) -> ReadLine {
    let Ok(messages) = serde_json::from_slice::<Vec<&RawValue>>(line) else { return broken(line) };
    let answers = messages.iter().filter(|message| message.get().starts_with('{')).filter_map(|message| {
        let head = serde_json::from_str::<MessageHead<'_>>(message.get()).ok()?;
        let id = head.id.and_then(id_of);
        let answers = head.method.is_none() && (head.result.is_some() || head.error.is_some());
        (answers && (id.is_some() || head.jsonrpc.is_some())).then_some(id)
    });
    let answers: Vec<_> = answers.collect();
    if answers.is_empty() { ReadLine::Noise } else { ReadLine::Batch(answers) }
}

/// An answer that the client takes, or what it takes instead: it knows none without its version, and none with half a
/// surrogate pair in a text.
fn whole(line: &[u8], id: &Value) -> ReadLine {
    match serde_json::from_slice::<Value>(line) {
        Ok(Value::Object(mut answer)) if !answer.contains_key("jsonrpc") => {
            answer.insert("jsonrpc".to_owned(), "2.0".into());
            ReadLine::Instead(format!("{}\n", Value::Object(answer)).into_bytes())
        }
        Ok(_) => ReadLine::Message,
        Err(_) => ReadLine::Undecodable(instead(id, NO_JSON)),
    }
}

/// What replaces a message that has more bytes than it may have, of which this is the beginning.
pub(super) fn too_long(beginning: &[u8], most: usize) -> ReadLine {
    let text = String::from_utf8_lossy(beginning);
    match (broken_id(&text), value_of(&text, "method")) {
        (_, Some(_)) => ReadLine::Noise,
        (Some(id), None) => refused(&id, &format!("the server's answer has more than {most} bytes")),
        (None, None) => ReadLine::Unanswerable,
    }
}

/// Whether a line is meant as a message.
pub(super) fn begins_a_message(line: &[u8]) -> bool {
    matches!(line.trim_ascii_start().first(), Some(b'{' | b'['))
}

/// An id as it can stand in an answer.
fn id_of(id: &RawValue) -> Option<Value> {
    serde_json::from_str(id.get()).ok().filter(|id| matches!(id, Value::String(_) | Value::Number(_)))
}

fn refused(id: &Value, message: &str) -> ReadLine {
    ReadLine::Instead(instead(id, message))
}

/// The error that is passed on in the place of an answer.
pub(super) fn instead(id: &Value, message: &str) -> Vec<u8> {
    error_line(Some(id), &error_of(message))
}

fn error_of(message: &str) -> Value {
    json!({"code": -32603, "message": message})
}

/// An error as a message.
pub(super) fn error_line(id: Option<&Value>, error: &Value) -> Vec<u8> {
    let mut message = json!({"jsonrpc": "2.0", "error": error});
    if let Some(id) = id {
        message["id"] = id.clone();
    }
    format!("{message}\n").into_bytes()
}

/// What is passed on in the place of a batch with answers of these ids.
pub(super) fn instead_of_batch(ids: &[Option<Value>]) -> Vec<u8> {
    ids.iter().flat_map(|id| error_line(id.as_ref(), &error_of(BATCH))).collect()
}

/// A list of tools in which those that are too deep say so in the place of their schema: the others can be used.
fn without_the_deep(id: &Value, result: &RawValue) -> Option<ReadLine> {
    let ToolList { tools, next } = serde_json::from_str(result.get()).ok()?;
    let tool = |tool: &RawValue| -> Value {
        #[derive(Deserialize)]
        struct NamedTool {
            #[serde(default)]
            name: String,
        }
        let shallow = RecordLine::levels(tool.get().as_bytes()) <= MOST_TOOL_LEVELS;
        shallow.then(|| serde_json::from_str(tool.get()).ok()).flatten().unwrap_or_else(|| {
            let name =
                serde_json::from_str::<NamedTool>(tool.get()).map(|named| named.name).unwrap_or_default();
            json!({"name": name, "inputSchema": TOO_DEEP})
        })
    };
    let mut page = json!({"tools": tools.into_iter().map(tool).collect::<Vec<_>>()});
    if let Some(next) = next {
        page["nextCursor"] = next.into();
    }
    let message = json!({"jsonrpc": "2.0", "id": id, "result": page});
    Some(ReadLine::Instead(format!("{message}\n").into_bytes()))
}

/// A line that begins like a message and is no JSON. If it is an answer, whoever asked is informed.
fn broken(line: &[u8]) -> ReadLine {
    let text = String::from_utf8_lossy(line);
    if !text.contains("\"jsonrpc\"") || text.contains("\"method\"") {
        return ReadLine::Noise;
    }
    match broken_id(&text) {
        Some(id) => refused(&id, NO_JSON),
        None => ReadLine::Unanswerable,
    }
}

/// The id of a message that is broken somewhere, or cut.
pub(super) fn broken_id(text: &str) -> Option<Value> {
    id_at(value_of(text, "id")?)
}

/// What begins with the value of a key that stands in the message itself, as far as a broken message can be followed.
pub(super) fn value_of<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    let (mut depth, mut rest) = (0_usize, text);
    while let Some(at) = rest.find(['"', '{', '[', '}', ']']) {
        let (found, after) = rest.get(at..)?.split_at(1);
        match found {
            "{" | "[" => depth = depth.saturating_add(1),
            "}" | "]" => depth = depth.saturating_sub(1),
            _ => {
                let end = end_of_string(after)?;
                let (word, behind) = (after.get(..end)?, after.get(end.saturating_add(1)..)?);
                if depth == 1
                    && word == key
                    && let Some(value) = behind.trim_start().strip_prefix(':')
                {
                    return Some(value.trim_start());
                }
                rest = behind;
                continue;
            }
        }
        rest = after;
    }
    None
}

/// Where a string ends whose first quote has been read.
fn end_of_string(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.char_indices().find_map(|(at, c)| {
        let ends = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        ends.then_some(at)
    })
}

fn id_at(text: &str) -> Option<Value> {
    if let Some(string) = text.strip_prefix('"') {
        return Some(Value::from(string.get(..end_of_string(string)?)?));
    }
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text.get(..digits)?.parse::<u64>().ok().map(Value::from)
}

/// What a server says, as it can be passed on; `None`: it is no message. `asked` is whose answer it is if it does not say so itself.
pub(super) fn readable(
    said: &[u8],
    asked: Option<&RequestId>,
    undecodable: UndecodableAnswer,
) -> Option<Vec<u8>> {
    let asked = asked.map(|id| id.clone().into_json_value());
    match read(said) {
        ReadLine::Undecodable(_) if undecodable == UndecodableAnswer::Pass => Some(said.to_vec()),
        ReadLine::Message => Some(said.to_vec()),
        ReadLine::Instead(other) | ReadLine::Undecodable(other) => Some(other),
        ReadLine::Nameless(error) => Some(error_line(asked.as_ref(), &error)),
        ReadLine::Batch(_) => asked.map(|id| instead(&id, BATCH)),
        ReadLine::Unanswerable => asked.map(|id| instead(&id, NO_JSON)),
        ReadLine::Noise => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> ReadLine {
        read(line.as_bytes())
    }

    fn instead(line: &str) -> Value {
        let (ReadLine::Instead(other) | ReadLine::Undecodable(other)) = of(line) else {
            panic!("{line} is {:?}", of(line))
        };
        assert!(other.ends_with(b"\n"));
        serde_json::from_slice(&other).unwrap()
    }

    #[test]
    fn messages_are_passed_on_and_other_lines_are_not() {
        for line in [
            r#"{"jsonrpc":"2.0","id":7,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":"a","error":{"code":1,"message":"m"}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#,
        ] {
            assert_eq!(of(line), ReadLine::Message, "{line}");
        }
        for line in ["listening on 8080", "", "{not json}", r#"{"level":"info""#, "[1, 2"] {
            assert_eq!(of(line), ReadLine::Noise, "{line}");
        }
    }

    #[test]
    fn an_answer_that_cannot_be_read_is_an_error_to_whoever_asked() {
        for line in [
            r#"{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","#,
            r#"{"jsonrpc":"2.0", "id" : 7 , "result": {'content': []}}"#,
            r#"{"result":{"id":3,"text":"a \" {"},"id":7,"jsonrpc":"2.0",}"#,
            r#"{"jsonrpc":"2.0","id":7,"result":{"x":NaN}}"#,
            r#"{"jsonrpc":"2.0","id":7}"#,
            r#"{"jsonrpc":"2.0","id":7,"error":"boom"}"#,
            r#"{"jsonrpc":"2.0","id":7,"result":null}"#,
        ] {
            let told = instead(line);
            assert_eq!((&told["id"], &told["error"]["code"]), (&json!(7), &json!(-32603)), "{line}");
        }
        assert_eq!(instead(r#"{"jsonrpc":"2.0","id":"x7","result":{"#)["id"], json!("x7"));
        assert_eq!(of(r#"{"jsonrpc":"2.0","result":{"content": broken"#), ReadLine::Unanswerable);
    }

    #[test]
    fn an_answer_that_the_client_would_pass_over_is_answered_at_once() {
        let told =
            instead(r#"{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"\ud83d"}]}}"#);
        assert_eq!((&told["id"], &told["error"]["code"]), (&json!(7), &json!(-32603)));
        let told = instead(r#"{"id":7,"result":{"content":[]}}"#);
        assert_eq!(told, json!({"jsonrpc": "2.0", "id": 7, "result": {"content": []}}));
    }

    #[test]
    fn an_answer_that_is_too_long_is_an_error_to_whoever_asked_if_its_beginning_says_who() {
        let long = |beginning: &str| too_long(beginning.as_bytes(), 8);
        let ReadLine::Instead(told) = long(r#"{"jsonrpc":"2.0","id":7,"result":{"method":1,"text":"xxx"#)
        else {
            panic!()
        };
        let told: Value = serde_json::from_slice(&told).unwrap();
        assert_eq!((&told["id"], &told["error"]["code"]), (&json!(7), &json!(-32603)));
        assert_eq!(long(r#"{"jsonrpc":"2.0","id":7,"method":"ping","params":"xxx"#), ReadLine::Noise);
        assert_eq!(long(r#"{"jsonrpc":"2.0","result":{"id":7,"text":"xxx"#), ReadLine::Unanswerable);
    }

    #[test]
    fn an_answer_without_an_id_is_an_error_to_whoever_it_may_be_for() {
        let parse = json!({"code": -32700, "message": "Parse error"});
        for line in [
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}"#,
            r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error"}}"#,
            r#"{"jsonrpc":"2.0","id":{},"error":{"code":-32700,"message":"Parse error"}}"#,
        ] {
            assert_eq!(of(line), ReadLine::Nameless(parse.clone()), "{line}");
        }
        for line in [
            r#"{"jsonrpc":"2.0","id":null,"result":{"content":[]}}"#,
            r#"{"jsonrpc":"2.0","id":null,"error":"boom"}"#,
        ] {
            let ReadLine::Nameless(error) = of(line) else { panic!("{line} is {:?}", of(line)) };
            assert_eq!(error["message"], "the server's answer does not say by its id whose it is", "{line}");
        }
        for line in [
            r#"{"level":"error","error":"boom"}"#,
            r#"{"id":2,"level":"warn","error":"boom"}"#,
            r#"{"id":null,"error":{"code":1,"message":"boom"}}"#,
            r#"{"id":77,"event":"started"}"#,
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"unknown notification"}}"#,
        ] {
            assert_eq!(of(line), ReadLine::Noise, "what is logged is no answer: {line}");
        }
    }

    #[test]
    fn a_batch_with_answers_is_an_error_to_each_that_asked() {
        let batch = r#"[{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","method":"m"},
            {"jsonrpc":"2.0","id":null,"error":{}}]"#;
        assert_eq!(of(batch), ReadLine::Batch(vec![Some(json!(1)), None]));
        let lines = String::from_utf8(instead_of_batch(&[Some(json!(1)), None])).unwrap();
        assert_eq!(lines.matches(BATCH).count(), 2);
        assert_eq!(lines.lines().filter(|line| line.contains("\"id\":1")).count(), 1);
        for line in ["[1, 2]", "[]", r#"[{"jsonrpc":"2.0","method":"m"}]"#, r#"[{"error":"boom"}]"#] {
            assert_eq!(of(line), ReadLine::Noise, "{line}");
        }
    }

    #[test]
    fn an_answer_too_deep_to_be_read_is_one_too() {
        let deep = format!("{}1{}", "[".repeat(10_000), "]".repeat(10_000));
        let told = instead(&format!(r#"{{"jsonrpc":"2.0","result":{{"x":{deep}}},"id":7}}"#));
        assert_eq!((&told["id"], &told["error"]["code"]), (&json!(7), &json!(-32603)));
        assert_eq!(of(&format!(r#"{{"id":7,"method":"m","params":{deep}}}"#)), ReadLine::Noise);
        assert_eq!(of(&format!(r#"{{"id":{deep}}}"#)), ReadLine::Noise);
    }

    #[test]
    fn a_tool_too_deep_to_be_read_leaves_the_others_in_the_list() {
        let deep = format!("{}{{}}{}", r#"{"not":"#.repeat(150), "}".repeat(150));
        let list = format!(
            r#"{{"jsonrpc":"2.0","id":2,"result":{{"tools":[{{"name":"fine","inputSchema":{{"type":"object"}}}},{{"name":"deep","inputSchema":{deep}}}],"nextCursor":"n"}}}}"#
        );
        let told = instead(&list);
        assert_eq!(
            told["result"],
            json!({"tools": [
                {"name": "fine", "inputSchema": {"type": "object"}}, {"name": "deep", "inputSchema": TOO_DEEP},
            ], "nextCursor": "n"})
        );
    }
}
