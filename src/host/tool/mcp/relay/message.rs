//! A message of JSON-RPC, read no further than it takes to pass it on: what is not looked at arrives as it was sent, in its
//! order, with its numbers and its unknown fields.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Error as _, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// JSON-RPC 2.0, section 5.1.
const PARSE_ERROR: i64 = -32700;
pub(super) const INVALID_REQUEST: i64 = -32600;
pub(super) const METHOD_NOT_FOUND: i64 = -32601;
pub(super) const INVALID_PARAMS: i64 = -32602;
pub(super) const INTERNAL_ERROR: i64 = -32603;

/// What the keys of `_meta` begin with that a request cannot do without where there is no handshake (since the protocol's
/// version 2026-07-28).
pub(super) const PROTOCOL_META: &str = "io.modelcontextprotocol/";

/// What answers a request: its result, or the error object. Both are JSON.
pub(super) type RpcAnswer = Result<String, String>;

/// A message.
#[derive(Debug)]
pub(super) enum RpcMessage<'a> {
    Request {
        id: &'a RawValue,
        method: String,
        params: Option<&'a RawValue>,
    },
    Notification {
        method: String,
        params: Option<&'a RawValue>,
    },
    Answer {
        id: &'a RawValue,
        outcome: Result<&'a RawValue, &'a RawValue>,
    },
    /// An error that does not say which request it answers.
    Nameless {
        error: &'a RawValue,
    },
}

/// The fields of all messages.
#[derive(Default)]
struct Fields<'a> {
    id: Option<&'a RawValue>,
    method: Option<String>,
    params: Option<&'a RawValue>,
    result: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
}

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FieldsVisitor)
    }
}

/// Reads the fields. One that occurs twice, or whose name differs in its case alone, makes the message none: readers disagree
/// which of them counts, and some do not look at the case (Go's `encoding/json`).
struct FieldsVisitor;

const NAMES: [&str; 6] = ["jsonrpc", "id", "method", "params", "result", "error"];

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Fields<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields<'de>, A::Error> {
        let (mut fields, mut seen) = (Fields::default(), [false; NAMES.len()]);
        while let Some(key) = map.next_key::<String>()? {
            let known = NAMES.iter().zip(&mut seen).find(|(name, _)| key.eq_ignore_ascii_case(name));
            let Some((name, seen)) = known else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            if key != *name || core::mem::replace(seen, true) {
                return Err(A::Error::custom(format!("duplicate field `{key}`")));
            }
            match *name {
                "id" => fields.id = Some(map.next_value()?),
                "method" => fields.method = Some(map.next_value()?),
                "params" => fields.params = Some(map.next_value()?),
                "result" => fields.result = Some(map.next_value()?),
                "error" => fields.error = Some(map.next_value()?),
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(fields)
    }
}

/// A message that cannot be passed on.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MessageFault {
    code: i64,
    message: String,
}

impl<'a> RpcMessage<'a> {
    /// Reads a line.
    pub(super) fn parse(line: &'a str) -> Result<Self, MessageFault> {
        let line = line.trim();
        if line.starts_with('[') {
            // A batch could hold calls next to other requests, and its one answer would wait for all of them.
            let message = "a batch is not taken: MCP has none since its version 2025-06-18".to_owned();
            return Err(MessageFault { code: INVALID_REQUEST, message });
        }
        let fields: Fields<'_> = serde_json::from_str(line).map_err(|error| MessageFault {
            code: if error.is_data() { INVALID_REQUEST } else { PARSE_ERROR },
            message: format!("the message cannot be read: {error}"),
        })?;
        match fields {
            Fields { id: Some(id), method: Some(method), params, .. } if is_id(id) => {
                Ok(Self::Request { id, method, params })
            }
            Fields { id: None, method: Some(method), params, .. } => {
                Ok(Self::Notification { method, params })
            }
            Fields { id, method: None, result: None, error: Some(error), .. } if id.is_none_or(is_null) => {
                Ok(Self::Nameless { error })
            }
            Fields { id: Some(id), method: None, result: Some(result), error: None, .. } => {
                Ok(Self::Answer { id, outcome: Ok(result) })
            }
            Fields { id: Some(id), method: None, error: Some(error), .. } => {
                Ok(Self::Answer { id, outcome: Err(error) })
            }
            _ => Err(MessageFault {
                code: INVALID_REQUEST,
                message: "the message is no request, no notification and no answer".to_owned(),
            }),
        }
    }
}

impl MessageFault {
    /// A message that is longer than so many bytes.
    pub(super) fn too_long(most: usize) -> Self {
        Self { code: INVALID_REQUEST, message: format!("the message has more than {} MiB", most >> 20) }
    }

    /// The answer to whoever sent it. Whose it is cannot be known.
    pub(super) fn answer(&self) -> String {
        self.answer_to(None)
    }

    /// The answer to the request of that id, if it is known.
    pub(super) fn answer_to(&self, id: Option<&Value>) -> String {
        let id = id.map_or_else(|| "null".to_owned(), Value::to_string);
        error(&id, self.code, &self.message)
    }
}

/// A message on one line: JSON has no other line breaks than those between its parts, and readers that take a carriage return
/// for the end of a line would find messages in the middle of one.
pub(super) fn one_line(message: &str) -> Cow<'_, str> {
    if message.contains('\r') { message.replace('\r', " ").into() } else { message.into() }
}

/// `line` with another text in the place of `part`, which is borrowed from it.
pub(super) fn with_part(line: &str, part: &RawValue, new: &str) -> String {
    let part = part.get();
    let start = part.as_ptr().addr().checked_sub(line.as_ptr().addr());
    let found = start.and_then(|start| {
        let end = start.checked_add(part.len())?;
        Some((line.get(..start)?, line.get(end..)?))
    });
    // It always is borrowed from there.
    let (before, after) = found.unwrap_or((line, ""));
    format!("{before}{new}{after}")
}

/// A request.
pub(super) fn request(id: u64, method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
}

/// A notification.
pub(super) fn notification(method: &str, params: &Value) -> String {
    json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string()
}

/// The notification that a request is not waited for any more. `id` is JSON.
pub(super) fn cancelled(id: &str, reason: &str) -> String {
    let reason = Value::from(reason);
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id},"reason":{reason}}}}}"#
    )
}

/// The answer to the request of that id. Both are JSON.
pub(super) fn answer(id: &str, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

/// The error that answers the request of that id, which is JSON.
pub(super) fn error(id: &str, code: i64, message: &str) -> String {
    failed(id, &failure(code, message))
}

/// An error object.
pub(super) fn failure(code: i64, message: &str) -> String {
    json!({ "code": code, "message": message }).to_string()
}

/// What an error object says; `None`: it has no message.
pub(super) fn message_of(error: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct ErrorObject {
        message: String,
    }
    serde_json::from_str(error).ok().map(|ErrorObject { message }| message)
}

/// The answer with that error to the request of that id. Both are JSON.
pub(super) fn failed(id: &str, error: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#)
}

fn is_null(id: &RawValue) -> bool {
    id.get() == "null"
}

fn is_id(id: &RawValue) -> bool {
    id.get().starts_with(|c: char| c == '"' || c == '-' || c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(line: &str) -> MessageFault {
        RpcMessage::parse(line).unwrap_err()
    }

    #[test]
    fn a_message_is_what_its_fields_make_it() {
        let of = |line| format!("{:?}", RpcMessage::parse(line).unwrap());
        assert!(of(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#).starts_with("Request"));
        assert!(of(r#"{"jsonrpc":"2.0","id":"a","method":"x","new":1}"#).starts_with("Request"));
        assert!(of(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).starts_with("Notification"));
        assert!(of(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#).starts_with("Answer"));
        assert!(of(r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":""}}"#).starts_with("Answer"));
    }

    #[test]
    fn what_is_no_message_is_answered_with_an_error() {
        assert_eq!(fault("{").code, PARSE_ERROR);
        for line in [
            "7",
            "{}",
            r#"{"id":[1],"method":"x"}"#,
            r#"{"id":1}"#,
            r#"{"id":1,"result":1,"error":1,"method":2}"#,
        ] {
            assert_eq!(fault(line).code, INVALID_REQUEST, "{line}");
        }
        assert!(fault(r#"[{"jsonrpc":"2.0","id":1,"method":"tools/call"}]"#).message.contains("batch"));
        let twice = fault(r#"{"id":1,"method":"ping","method":"tools/call"}"#);
        assert!(twice.message.contains("duplicate field"), "{}", twice.message);
        let other_case = fault(r#"{"id":1,"method":"ping","Method":"tools/call"}"#);
        assert!(other_case.message.contains("duplicate field `Method`"), "{}", other_case.message);
    }

    #[test]
    fn only_the_id_of_a_message_is_changed() {
        let line = r#" {"jsonrpc" : "2.0","x":1.0, "id":  "a\"b" ,"method":"ping","params":{"id":"a\"b"}}"#;
        let Ok(RpcMessage::Request { id, .. }) = RpcMessage::parse(line) else { panic!() };
        let passed = r#" {"jsonrpc" : "2.0","x":1.0, "id":  17 ,"method":"ping","params":{"id":"a\"b"}}"#;
        assert_eq!(with_part(line, id, "17"), passed);
    }
}
