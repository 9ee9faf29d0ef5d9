//! Messages as lists of blocks, the way they are sent.

use serde_json::{Value, json};

use super::ConverseFormat;
use crate::host::model::wire::extras::{CONVERSE, ISSUER, ITEMS};
use crate::host::model::wire::ids::IdForm;
use crate::host::model::wire::pieces::{LENGTH, pieces};
use crate::host::model::wire::sendable::{safe_name, sendable, sent_input};
use crate::host::model::wire::turns::RoleTurns;
use crate::host::port::ModelRequest;
use crate::session::{Message, ToolCall};

/// Of a kept call: its id.
pub(super) const CALL_ID: &str = "call";
/// Of a kept text: what it cites.
const CITATIONS: &str = "citations";
/// A kept block that does not go back.
const BESIDE: &str = "beside";
/// The type of a call that the server runs itself (`ToolUseType` of botocore's model).
pub(super) const SERVER_TOOL: &str = "server_tool_use";
/// What the user says first where the conversation begins otherwise: "A conversation must start with a user message".
const OPENING: &str = "Continue.";

/// The messages of a request. The roles alternate, the first is the user's, and of a user's blocks the results of tools come
/// first.
pub(super) fn messages(format: &ConverseFormat, request: &ModelRequest<'_>) -> Vec<Value> {
    let mut turns = RoleTurns::default();
    for message in sendable(request.messages, IdForm::WORD, &request.tools) {
        match &*message {
            Message::System { .. } => {}
            Message::User { text, .. } => turns.push("user", Vec::new(), said(text)),
            Message::Tool { text, call, error, .. } => {
                turns.push("user", vec![result(call, text, *error)], Vec::new());
            }
            Message::Assistant { text, calls, extra } => {
                turns.push("assistant", Vec::new(), reply(format, text, calls, extra.get(CONVERSE)));
            }
        }
    }
    let mut messages = turns.into_messages("content");
    if messages.first().is_none_or(|message| message["role"] != "user") {
        messages.insert(0, json!({"role": "user", "content": [{"text": OPENING}]}));
    }
    if format.family.results_alone {
        messages.iter_mut().for_each(results_alone);
    }
    messages
}

/// A text as a block. A blank one is refused.
fn said(text: &str) -> Vec<Value> {
    if text.trim().is_empty() { Vec::new() } else { vec![json!({"text": text})] }
}

fn result(call: &str, text: &str, error: bool) -> Value {
    let text = match (text.trim().is_empty(), error) {
        (false, _) => text,
        // An error without a word is refused, and models other than Claude refuse any blank text.
        (true, true) => "it failed and does not say why",
        (true, false) => "(no output)",
    };
    let status = if error { "error" } else { "success" };
    json!({"toolResult": {"toolUseId": call, "content": [{"text": text}], "status": status}})
}

/// What a user says beside results becomes a part of the last one: "Conversation blocks and tool result blocks cannot be
/// provided in the same turn" (`LiteLLM`, `exception_mapping_utils.py`).
fn results_alone(message: &mut Value) {
    let Some(Value::Array(blocks)) = message.get_mut("content") else { return };
    let (mut results, rest): (Vec<Value>, Vec<Value>) =
        blocks.drain(..).partition(|block| block.get("toolResult").is_some());
    match results.last_mut().and_then(|last| last.pointer_mut("/toolResult/content")?.as_array_mut()) {
        Some(last) => last.extend(rest),
        None => results = rest,
    }
    *blocks = results;
}

fn call(ToolCall { id, name, arguments }: &ToolCall) -> Value {
    json!({"toolUse": {"toolUseId": id, "name": safe_name(name), "input": sent_input(arguments)}})
}

/// What a model said before, in the order in which it said it if that is known. Its reasoning goes back to itself alone.
fn reply(format: &ConverseFormat, text: &str, calls: &[ToolCall], kept: Option<&Value>) -> Vec<Value> {
    let own = kept.and_then(|kept| kept.get(ISSUER)) == Some(&json!(format.issuer));
    let items = kept.and_then(|kept| kept.get(ITEMS)?.as_array()).map_or(&[][..], Vec::as_slice);
    let mut open: Vec<&ToolCall> = calls.iter().collect();
    // The text was changed since, by what was taken out of it, so the lengths no longer fit.
    let (mut pieces, mut whole) = match pieces(text, items.iter()) {
        Some(pieces) => (pieces.into_iter(), None),
        None => (Vec::new().into_iter(), Some(text)),
    };
    let mut blocks = Vec::new();
    for place in items {
        if place.get(LENGTH).is_some() {
            blocks.extend(pieces.next().into_iter().flat_map(said));
        } else if let Some(id) = place.get(CALL_ID).and_then(Value::as_str) {
            blocks.extend(whole.take().into_iter().flat_map(said));
            if let Some(at) = open.iter().position(|call| call.id == id) {
                blocks.push(call(open.remove(at)));
            }
        } else if own && place.get(BESIDE).is_none() {
            blocks.push(place.clone());
        }
    }
    blocks.extend(whole.take().into_iter().flat_map(said));
    blocks.extend(open.into_iter().map(call));
    blocks
}

/// Whether a block is a call that the server runs itself (`nova_code_interpreter`), or its result.
pub(super) fn is_of_server(block: &Value) -> bool {
    let is_server_call = block.pointer("/toolUse/type").is_some_and(|kind| kind == SERVER_TOOL);
    is_server_call || block.get("toolResult").is_some()
}

/// What to keep of an answer; `None`: text and tool calls say it all. Of these only the places are kept, and what a text cites. What else
/// there is, such as an image, is kept and does not go back.
pub(super) fn kept(blocks: &[Value], issuer: &str) -> Option<Value> {
    let signed = |block: &Value| {
        let reasoning = block.get("reasoningContent")?;
        let signature = reasoning.pointer("/reasoningText/signature").and_then(Value::as_str);
        // Unsigned reasoning that goes back leaks into answers (`convert-to-bedrock-chat-messages.ts` of Vercel's AI SDK).
        let is_sealed = reasoning.get("redactedContent").is_some();
        (is_sealed || signature.is_some_and(|signature| !signature.is_empty())).then(|| block.clone())
    };
    let is_known =
        |block: &Value| ["text", "toolUse", "reasoningContent"].iter().any(|kind| block.get(kind).is_some());
    let whole = |block: &Value| match block.pointer("/citationsContent/citations") {
        _ if is_of_server(block) => Some(block.clone()),
        Some(Value::Array(citations)) if !citations.is_empty() => Some(json!({ CITATIONS: citations })),
        _ if !is_known(block) => Some(json!({ BESIDE: block })),
        _ => signed(block),
    };
    let place = |block: &Value| {
        if let Some(text) = block.get("text").and_then(Value::as_str) {
            let mut place = json!({ LENGTH: text.chars().count() });
            if let Some(Value::Object(citations)) = whole(block) {
                citations.into_iter().for_each(|(field, value)| place[field] = value);
            }
            return Some(place);
        }
        match block.pointer("/toolUse/toolUseId").filter(|_| !is_of_server(block)) {
            Some(id) => Some(json!({ CALL_ID: id })),
            None => whole(block),
        }
    };
    let any = blocks.iter().any(|block| whole(block).is_some());
    any.then(|| json!({ ISSUER: issuer, ITEMS: blocks.iter().filter_map(place).collect::<Vec<_>>() }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::model::fuzzed::{converse, request};
    use crate::host::model::wire::converse::ModelFamily;

    fn tool(call: &str, text: &str, error: bool) -> Message {
        Message::Tool { call: call.into(), tool: "look".into(), text: text.into(), error, handle: None }
    }

    fn said_by_model(text: &str, calls: &[&str], kept: Option<Value>) -> Message {
        let call = |id: &&str| ToolCall { id: (*id).into(), name: "look".into(), arguments: "{}".into() };
        let extra = kept.map(|kept| (CONVERSE.to_owned(), kept)).into_iter().collect();
        Message::Assistant { text: text.into(), calls: calls.iter().map(call).collect(), extra }
    }

    fn sent(format: &ConverseFormat, messages: &[Message]) -> Vec<Value> {
        super::messages(format, &request(messages))
    }

    fn result(id: &str, text: &str, status: &str) -> Value {
        json!({"toolResult": {"toolUseId": id, "content": [{"text": text}], "status": status}})
    }

    #[test]
    fn results_stand_before_what_is_said_and_nothing_blank_is_sent() {
        let conversation = [
            Message::System { text: "Be brief.".into() },
            said_by_model(" ", &["a", "b"], None),
            tool("a", "seen", false),
            Message::user("and?"),
            tool("b", "", true),
            Message::user(" "),
        ];
        let call = |id: &str| json!({"toolUse": {"toolUseId": id, "name": "look", "input": {}}});
        let results =
            [result("a", "seen", "success"), result("b", "it failed and does not say why", "error")];
        assert_eq!(
            sent(&converse(), &conversation),
            [
                json!({"role": "user", "content": [{"text": "Continue."}]}),
                json!({"role": "assistant", "content": [call("a"), call("b")]}),
                json!({"role": "user", "content": [results[0], results[1], {"text": "and?"}]}),
            ]
        );
    }

    #[test]
    fn what_is_said_beside_results_is_a_part_of_the_last_where_the_model_wants_that() {
        let format = ConverseFormat { family: ModelFamily::of("amazon.nova-pro-v1:0"), ..converse() };
        let conversation = [
            Message::user("go"),
            said_by_model("", &["a"], None),
            tool("a", "", false),
            Message::user("and?"),
        ];
        let messages = sent(&format, &conversation);
        assert_eq!(messages[0]["content"], json!([{"text": "go"}]));
        let content = json!([{"text": "(no output)"}, {"text": "and?"}]);
        assert_eq!(messages[2]["content"][0]["toolResult"]["content"], content);
        assert_eq!(messages[2]["content"].as_array().unwrap().len(), 1);
    }

    #[test]
    fn signed_reasoning_goes_back_in_its_place_and_only_to_who_signed_it() {
        let signed = json!({"reasoningContent": {"reasoningText": {"text": "hm", "signature": "c2ln"}}});
        let sealed = json!({"reasoningContent": {"redactedContent": "eHg="}});
        let call = json!({"toolUse": {"toolUseId": "a", "name": "look", "input": {}}});
        let blocks = [signed.clone(), json!({"text": "Süß!"}), sealed.clone(), call.clone()];
        let kept = kept(&blocks, "here").unwrap();
        let said = [Message::user("go"), said_by_model("Süß!", &["a"], Some(kept.clone()))];
        let here = ConverseFormat { issuer: "here".into(), ..converse() };
        assert_eq!(sent(&here, &said)[1]["content"], json!(blocks));
        assert_eq!(sent(&converse(), &said)[1]["content"], json!([{"text": "Süß!"}, call]));
        // What was taken out of the text stays out.
        let said = [Message::user("go"), said_by_model("[redacted]", &["a"], Some(kept))];
        assert_eq!(sent(&here, &said)[1]["content"], json!([signed, sealed, {"text": "[redacted]"}, call]));
    }

    #[test]
    fn unsigned_reasoning_is_not_kept() {
        let unsigned = json!({"reasoningContent": {"reasoningText": {"text": "hm"}}});
        assert_eq!(kept(&[unsigned, json!({"text": "x"})], "here"), None);
    }
}
