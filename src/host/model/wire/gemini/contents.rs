//! The conversation as contents, each a list of parts.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};

use super::GeminiFormat;
use super::parts::{CALL, CALL_ID, SIGNATURE};
use crate::host::model::wire::extras::{CONTENT, ISSUER, ITEMS};
use crate::host::model::wire::ids::IdForm;
use crate::host::model::wire::pieces::{LENGTH, pieces, with_rest};
use crate::host::model::wire::sendable::{safe_name, sendable, sent_input};
use crate::host::model::wire::turns::RoleTurns;
use crate::host::port::ModelRequest;
use crate::session::{Message, ToolCall};

/// What stands in the place of a signature that nobody has: `skip_thought_signature_validator` in base64 ("Thought
/// signatures", ai.google.dev; `models/google.py` of pydantic-ai).
pub(in crate::host::model) const STAND_IN: &str = "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I=";
/// What the user says first where the conversation begins otherwise: "function call turn comes immediately after a user
/// turn or after a function response turn".
const OPENING: &str = "Continue.";

/// The contents of a request. The roles alternate and the first is the user's.
pub(super) fn contents(format: &GeminiFormat, request: &ModelRequest<'_>) -> Vec<Value> {
    let mut sent = SentCalls { format, names: HashMap::new(), without_id: HashSet::new() };
    let mut turns = RoleTurns::default();
    for message in sendable(request.messages, IdForm::Any, &request.tools) {
        match &*message {
            Message::System { .. } => {}
            Message::User { text, .. } => {
                turns.push("user", Vec::new(), text_part(text).into_iter().collect());
            }
            Message::Tool { text, call, tool, error, .. } => {
                turns.push("user", vec![sent.result(call, tool, text, *error)], Vec::new());
            }
            Message::Assistant { text, calls, extra } => {
                turns.push("model", Vec::new(), sent.reply(text, calls, extra.get(CONTENT)));
            }
        }
    }
    let mut contents = turns.into_messages("parts");
    if contents.first().is_none_or(|content| content["role"] != "user") {
        contents.insert(0, json!({"role": "user", "parts": [{"text": OPENING}]}));
    }
    contents
}

/// The calls that were sent, as their results have to name them.
struct SentCalls<'f> {
    format: &'f GeminiFormat,
    /// The name of each call, by its id in the conversation.
    names: HashMap<String, String>,
    /// The ids of calls for which the server had none.
    without_id: HashSet<String>,
}

impl SentCalls<'_> {
    /// What a model said before: as it came if this one sent it, and otherwise its text and its calls.
    fn reply(&mut self, text: &str, calls: &[ToolCall], kept: Option<&Value>) -> Vec<Value> {
        let items = kept.and_then(|kept| kept.get(ITEMS)?.as_array()).map_or(&[][..], Vec::as_slice);
        let own = kept.and_then(|kept| kept.get(ISSUER)) == Some(&json!(self.format.issuer))
            && !self.format.signatures.refused();
        let mut open: Vec<&ToolCall> = calls.iter().collect();
        // The text was changed since, by what was taken out of it, so the lengths no longer fit.
        let (mut pieces, mut whole) = match pieces(text, items.iter()) {
            Some(pieces) => (pieces.into_iter(), None),
            None => (Vec::new().into_iter(), Some(text)),
        };
        let mut parts = Vec::new();
        for place in items {
            if place.get(LENGTH).is_some() {
                parts.extend(pieces.next().and_then(|piece| placed_text(piece, place, own)));
            } else if let Some(id) = place.get(CALL_ID).and_then(Value::as_str) {
                parts.extend(whole.take().and_then(text_part));
                if let Some(at) = open.iter().position(|call| call.id == id) {
                    parts.push(self.placed_call(open.remove(at), place, own));
                }
            } else if own {
                parts.push(place.clone());
            }
        }
        parts.extend(whole.take().and_then(text_part));
        parts.extend(open.into_iter().map(|call| self.call(call, true)));
        self.sign(&mut parts);
        parts
    }

    /// A call where it came, with all that came with it if the server knows it.
    fn placed_call(&mut self, call: &ToolCall, place: &Value, own: bool) -> Value {
        let had_id = place[CALL].get("id").and_then(Value::as_str).is_some_and(|id| !id.is_empty());
        let mut part = self.call(call, had_id);
        if let (true, Value::Object(place)) = (own, place) {
            part[CALL] = with_rest(part[CALL].take(), &place.get(CALL).cloned().unwrap_or_default());
            let rest = place.iter().filter(|(field, _)| !matches!(field.as_str(), CALL | CALL_ID));
            part = with_rest(
                part,
                &Value::Object(rest.map(|(field, value)| (field.clone(), value.clone())).collect()),
            );
        }
        part
    }

    fn call(&mut self, ToolCall { id, name, arguments }: &ToolCall, with_id: bool) -> Value {
        let name = callable(name);
        let mut call = json!({"name": name, "args": sent_input(arguments)});
        if with_id {
            call["id"] = id.as_str().into();
            self.without_id.remove(id);
        } else {
            self.without_id.insert(id.clone());
        }
        self.names.insert(id.clone(), name);
        json!({ CALL: call })
    }

    fn result(&self, call: &str, tool: &str, text: &str, error: bool) -> Value {
        let name = self.names.get(call).cloned().unwrap_or_else(|| callable(&safe_name(tool)));
        // The keys by convention (`FunctionResponse` in `types.py` of google-genai).
        let field = if error { "error" } else { "output" };
        let mut response = json!({"name": name, "response": {field: text}});
        if !self.without_id.contains(call) {
            response["id"] = call.into();
        }
        json!({"functionResponse": response})
    }

    /// The first call of a turn has a signature where the model wants one, parallel ones have none.
    fn sign(&self, parts: &mut [Value]) {
        let first = parts.iter_mut().find(|part| part.get(CALL).is_some());
        if let Some(Value::Object(first)) = first.filter(|_| self.format.signatures.required()) {
            first.entry(SIGNATURE).or_insert_with(|| STAND_IN.into());
        }
    }
}

/// A text as a part. A blank one is refused.
fn text_part(text: &str) -> Option<Value> {
    (!text.trim().is_empty()).then(|| json!({"text": text}))
}

fn placed_text(piece: &str, place: &Value, own: bool) -> Option<Value> {
    let is_signed = place.get(SIGNATURE).is_some();
    if own && (is_signed || !piece.trim().is_empty()) {
        return Some(with_rest(json!({"text": piece}), place));
    }
    text_part(piece)
}

/// A name as the API takes it: it begins with a letter or `_`.
fn callable(name: &str) -> String {
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if begins { name.to_owned() } else { format!("_{name}") }
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::super::SignatureRules;
    use super::*;
    use crate::host::model::fuzzed::{gemini, read_as, request};
    use crate::host::model::wire::WireFormat;

    fn sent(format: &GeminiFormat, messages: &[Message]) -> Vec<Value> {
        contents(format, &request(messages))
    }

    /// What is sent of one reply after the first word of the user.
    fn sent_back(format: &GeminiFormat, message: Message) -> Value {
        sent(format, &[Message::user("go"), message]).pop().unwrap()["parts"].clone()
    }

    fn of(model: &str) -> GeminiFormat {
        GeminiFormat {
            signatures: SignatureRules::of(model).into(),
            issuer: format!("host {model}"),
            ..gemini()
        }
    }

    /// The message that an answer with these parts is.
    fn said(format: &GeminiFormat, parts: &Value) -> Message {
        let body = json!({"candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}]}).to_string();
        let reply = read_as(format, "application/json", &[body.as_bytes()]).unwrap();
        let calls = reply.calls.into_iter().map(|proposal| proposal.call).collect();
        Message::Assistant { text: reply.text, calls, extra: reply.extra }
    }

    fn result(call: &str, error: bool) -> Message {
        Message::Tool { call: call.into(), tool: "look".into(), text: "seen".into(), error, handle: None }
    }

    fn turn() -> Value {
        json!([
            {"text": "hm", "thought": true},
            {"text": "Süß. ", SIGNATURE: "YQ=="},
            {CALL: {"name": "look", "args": {"item": 42}}, SIGNATURE: "Yg=="},
            {CALL: {"id": "b", "name": "look", "args": {}, "new": 1}},
            {"executableCode": {"language": "PYTHON", "code": "1"}},
        ])
    }

    #[test]
    fn each_role_as_it_is_written() {
        let calls =
            json!([{CALL: {"name": "look", "args": {}}}, {CALL: {"id": "b", "name": "rest", "args": {}}}]);
        let messages = [
            Message::System { text: "s".into() },
            Message::user("u"),
            said(&gemini(), &calls),
            result("b", true),
            result("call_1", false),
            Message::user("and?"),
        ];
        assert_eq!(
            Value::Array(sent(&gemini(), &messages)),
            json!([
                {"role": "user", "parts": [{"text": "u"}]},
                {"role": "model", "parts": [
                    {CALL: {"name": "look", "args": {}}},
                    {CALL: {"name": "rest", "args": {}, "id": "b"}},
                ]},
                {"role": "user", "parts": [
                    {"functionResponse": {"name": "look", "response": {"output": "seen"}}},
                    {"functionResponse": {"name": "rest", "response": {"error": "seen"}, "id": "b"}},
                    {"text": "and?"},
                ]},
            ])
        );
    }

    #[test]
    fn the_first_word_is_the_users_and_nothing_is_empty() {
        let silent = Message::Assistant { text: " ".into(), calls: vec![], extra: Map::new() };
        let opening = json!([{"role": "user", "parts": [{"text": OPENING}]}]);
        assert_eq!(Value::Array(sent(&gemini(), &[silent, Message::user("")])), opening);
        let contents = sent(&gemini(), &[said(&gemini(), &json!([{"text": "hi"}]))]);
        assert_eq!((&contents[0], &contents[1]["role"]), (&opening[0], &json!("model")));
    }

    #[test]
    fn all_parts_go_back_to_their_issuer_as_they_came() {
        assert_eq!(sent_back(&gemini(), said(&gemini(), &turn())), turn());
    }

    #[test]
    fn another_issuer_gets_text_and_calls_alone_and_a_stand_in_if_it_wants_one() {
        let plain = json!([
            {"text": "Süß. "},
            {CALL: {"name": "look", "args": {"item": 42}}},
            {CALL: {"name": "look", "args": {}, "id": "b"}},
        ]);
        let mut signed = plain.clone();
        signed[1][SIGNATURE] = STAND_IN.into();
        let said = said(&gemini(), &turn());
        assert_eq!(sent_back(&of("gemini-2.5-pro"), said.clone()), plain);
        assert_eq!(sent_back(&of("models/gemini-3-pro"), said.clone()), signed);
        let own = gemini();
        assert!(own.learn(&refusal("Thought signature is not valid.")).is_some());
        assert_eq!(sent_back(&own, said), signed);
    }

    fn refusal(message: &str) -> crate::engine::Failure {
        crate::engine::Failure { message: message.into(), ..crate::engine::Failure::default() }
    }

    #[test]
    fn what_a_server_wants_of_signatures_is_learned_once() {
        for missing in [
            "Function call is missing a thought_signature in functionCall parts.",
            "function call `x` in the 5. content block is missing a `thought_signature`",
        ] {
            let format = of("gemini-flash-latest");
            let note = "`main` refused the request, which is sent again with a stand-in for missing thought signatures";
            assert_eq!(format.learn(&refusal(missing)).as_deref(), Some(note));
            assert_eq!(format.learn(&refusal(missing)), None);
            assert!(format.signatures.required());
        }
        for refused in ["Thought signature is not valid", "Invalid / Corrupted thought signature"] {
            let format = of("gemini-3-pro");
            let note = "`main` refused the request, which is sent again without the thought signatures of earlier replies";
            assert_eq!(format.learn(&refusal(refused)).as_deref(), Some(note));
            assert_eq!(format.learn(&refusal(refused)), None);
        }
        assert_eq!(gemini().learn(&refusal("API key not valid.")), None);
    }

    #[test]
    fn a_text_that_was_changed_comes_before_the_calls_and_without_its_signature() {
        let mut message = said(&gemini(), &turn());
        if let Message::Assistant { text, .. } = &mut message {
            *text = "Changed".to_owned();
        }
        let parts = sent_back(&gemini(), message);
        assert_eq!(parts[1], json!({"text": "Changed"}));
        assert_eq!(parts[2][SIGNATURE], "Yg==");
    }

    #[test]
    fn names_begin_as_the_api_wants_it() {
        assert_eq!(callable("look"), "look");
        assert_eq!(callable("_look"), "_look");
        assert_eq!(callable("7up"), "_7up");
        assert_eq!(callable("-x"), "_-x");
    }
}
