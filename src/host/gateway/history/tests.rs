//! Conversations of the four dialects: what is left alone keeps its bytes, and what is repaired has no fault.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::context::{findings, repair};
use crate::host::gateway::PathCall;
use crate::policy::{MalformedCalls, OrphanCalls, Policy};
use crate::session::splice;

pub(super) const DIALECTS: [GatewayDialect; 4] =
    [GatewayDialect::Chat, GatewayDialect::Messages, GatewayDialect::Responses, GatewayDialect::Gemini];

pub(super) fn body(dialect: GatewayDialect, text: &str) -> RequestBody {
    let call = PathCall { model: "m".into(), stream: false };
    let call = (dialect == GatewayDialect::Gemini).then_some(call);
    RequestBody::read(Bytes::copy_from_slice(text.as_bytes()), call).unwrap()
}

pub(super) fn counter() -> TokenEstimator {
    TokenEstimator::from(&Policy::builtin().model("m").tokens)
}

fn read(dialect: GatewayDialect, text: &str) -> Option<RequestHistory> {
    RequestHistory::read(dialect, &body(dialect, text), counter(), false)
}

fn field(dialect: GatewayDialect) -> &'static str {
    match dialect {
        GatewayDialect::Chat | GatewayDialect::Messages => "messages",
        GatewayDialect::Responses => "input",
        GatewayDialect::Gemini => "contents",
    }
}

/// A request with that list.
pub(super) fn request(dialect: GatewayDialect, list: &str) -> String {
    format!("{{ \"model\":\"m\",\n \"{}\" : {list},\"x\":1e400 }}", field(dialect))
}

/// The list as it is repaired.
fn repaired_as(dialect: GatewayDialect, list: &str, orphans: OrphanCalls) -> String {
    let text = request(dialect, list);
    let history = read(dialect, &text).unwrap();
    let messages = history.messages(&history.pieces());
    let mut made = repair(&messages, orphans, MalformedCalls::Answer);
    made.write(&mut |_| "unknown".into());
    let mut pieces = history.pieces();
    splice(&mut pieces, &made.splices);
    let after = history.with(&pieces).unwrap();
    let after = core::str::from_utf8(&after).unwrap();
    let start = format!("{{ \"model\":\"m\",\n \"{}\" : ", field(dialect));
    after.strip_prefix(&start).and_then(|rest| rest.strip_suffix(",\"x\":1e400 }")).unwrap().to_owned()
}

fn repaired(dialect: GatewayDialect, list: &str) -> String {
    repaired_as(dialect, list, OrphanCalls::Inject)
}

fn pruned(dialect: GatewayDialect, list: &str) -> String {
    repaired_as(dialect, list, OrphanCalls::Prune)
}

const CALL: &str = r#"{"role":"assistant", "content":null,"tool_calls":[ {"id":"x","type":"function","function":{"name":"t","arguments":"{}"}} ]}"#;

#[test]
fn a_chat_gets_the_result_that_is_missing_and_nothing_else_changes() {
    let list = format!(
        "[ {{\"role\":\"user\",\"content\":\"\\u00e9\",\"n\":1e999}} ,\n{CALL},{{\"role\":\"user\",\"content\":\"go\"}} ]"
    );
    let result = r#"{"role":"tool","tool_call_id":"x","content":"unknown"}"#;
    assert_eq!(
        repaired(GatewayDialect::Chat, &list),
        list.replace(&format!("{CALL},"), &format!("{CALL},{result},"))
    );
    assert_eq!(pruned(GatewayDialect::Chat, &list), list.replace(&format!(" ,\n{CALL},"), ","));
}

#[test]
fn of_a_chat_results_without_a_call_go_and_others_move_to_theirs() {
    let [user, orphan, late] = [
        r#"{"role":"user","content":"go"}"#,
        r#"{"role":"tool","tool_call_id":"z","content":"1"}"#,
        r#"{"role":"tool", "tool_call_id":"x","content":[{"type":"text","text":"2"}]}"#,
    ];
    let list = format!("[{orphan},{user},{CALL},{user},{late}]");
    assert_eq!(repaired(GatewayDialect::Chat, &list), format!("[{user},{CALL},{late},{user}]"));
}

#[test]
fn of_several_calls_in_a_chat_the_one_that_is_left_keeps_its_bytes() {
    let call = |id: &str| {
        format!(r#"{{"id":"{id}", "type":"function","function":{{"name":"t","arguments":"{{}}"}}}}"#)
    };
    let message =
        |calls: &str| format!(r#"{{"tool_calls": [{calls}] ,"role":"assistant","content":"a","k":1e999}}"#);
    let result = r#"{"role":"tool","tool_call_id":"y","content":"1"}"#;
    let both = format!("[{},{result}]", message(&format!("{}, {}", call("x"), call("y"))));
    assert_eq!(pruned(GatewayDialect::Chat, &both), format!("[{},{result}]", message(&call("y"))));
    // Without a call the field goes: a list may not be empty.
    let none = format!(r#"[{{"role":"assistant","content":"a","tool_calls":[{}]}}]"#, call("x"));
    assert_eq!(pruned(GatewayDialect::Chat, &none), r#"[{"role":"assistant","content":"a"}]"#);
}

#[test]
fn arguments_that_are_no_object_become_one() {
    let chat = CALL.replace(r#""arguments":"{}""#, r#""arguments":"[1,""#);
    let result = r#"{"role":"tool","tool_call_id":"x","content":"1"}"#;
    let after = repaired(GatewayDialect::Chat, &format!("[{chat},{result}]"));
    let after: Value = serde_json::from_str(&after).unwrap();
    assert_eq!(after[0]["tool_calls"][0]["function"]["arguments"], r#"{"INVALID_JSON":"[1,"}"#);
    let list = r#"[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"tool_use","id":"x","name":"t","input":"[1,"}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"x","content":"1"}]}]"#;
    let after = repaired(GatewayDialect::Messages, list);
    assert_eq!(after, list.replace(r#""input":"[1,""#, r#""input":{"INVALID_JSON":"\"[1,\""}"#));
}

#[test]
fn results_of_messages_stand_first_in_what_the_user_says_next() {
    let call = r#"{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"s"},{"type":"tool_use","id":"x","name":"t","input":{}}, {"type":"tool_use","id":"y","name":"t","input":{}}]}"#;
    let start = r#"{"role":"user","content":"a"}"#;
    let next = r#"{"role":"user", "content":[{"type":"text","text":"go","cache_control":{"type":"ephemeral"}},{"type":"tool_result","tool_use_id":"y","content":"1"}],"k":1}"#;
    let after = repaired(GatewayDialect::Messages, &format!("[{start},{call},{next}]"));
    let expected = r#"{"role":"user", "content":[{"type":"tool_result","tool_use_id":"y","content":"1"},{"content":"unknown","is_error":true,"tool_use_id":"x","type":"tool_result"},{"type":"text","text":"go","cache_control":{"type":"ephemeral"}}],"k":1}"#;
    let sorted = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    assert_eq!(sorted(&after), sorted(&format!("[{start},{call},{expected}]")));
    assert!(after.starts_with(&format!("[{start},{call},")), "{after}");
    // A text becomes a part of its own.
    let after = repaired(GatewayDialect::Messages, &format!("[{start},{call},{start}]"));
    let parts = sorted(&after)[2]["content"].clone();
    assert_eq!(parts[0]["tool_use_id"], "x");
    assert_eq!(parts[2], json!({"type": "text", "text": "a"}));
    // Nobody says anything afterwards.
    let after = sorted(&repaired(GatewayDialect::Messages, &format!("[{start},{call}]")));
    assert_eq!((after.as_array().unwrap().len(), &after[2]["role"]), (3, &json!("user")));
    // Without their results, calls go, and what was thought before them too.
    assert_eq!(
        pruned(GatewayDialect::Messages, &format!("[{start},{call},{start}]")),
        format!("[{start},{start}]")
    );
}

#[test]
fn what_the_model_says_in_several_turns_of_messages_is_one() {
    let list = r#"[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"tool_use","id":"x","name":"t","input":{}}]},{"role":"assistant","content":[{"type":"tool_use","id":"y","name":"t","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"x"},{"type":"tool_result","tool_use_id":"y"}]}]"#;
    assert_eq!(repaired(GatewayDialect::Messages, list), list);
    let first = r#"[{"role":"user","content":[{"type":"tool_result","tool_use_id":"x"}]},{"role":"assistant","content":"b"},{"role":"user","content":"c"}]"#;
    let after = repaired(GatewayDialect::Messages, first);
    assert!(after.starts_with(r#"[{"role":"user","content":[{"#) && after.contains("Continue."), "{after}");
}

#[test]
fn results_of_contents_answer_the_oldest_call_of_their_name() {
    let list = r#"[{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[{"functionCall":{"name":"t","args":{}},"thoughtSignature":"s"},{"functionCall":{"name":"u"}}]},{"role":"user","parts":[{"functionResponse":{"name":"u","response":{"output":1}}},{"functionResponse":{"name":"u","response":{"output":2}}}]}]"#;
    let after: Value = serde_json::from_str(&repaired(GatewayDialect::Gemini, list)).unwrap();
    assert_eq!(
        after[2]["parts"],
        json!([
            {"functionResponse": {"name": "u", "response": {"output": 1}}},
            {"functionResponse": {"name": "t", "response": {"error": "unknown"}}},
        ])
    );
}

#[test]
fn items_of_responses_are_paired_by_their_ids_wherever_they_are() {
    let [user, call, output] = [
        r#"{"role":"user","content":"a"}"#,
        r#"{"type":"function_call","call_id":"x","name":"t","arguments":"{}"}"#,
        r#"{"type":"function_call_output","call_id":"x","output":"1"}"#,
    ];
    let sound = format!("[{user},{call},{user}, {output}]");
    assert_eq!(repaired(GatewayDialect::Responses, &sound), sound);
    let thought = r#"{"type":"reasoning","id":"rs_1","summary":[]}"#;
    let custom = r#"{"type":"custom_tool_call","call_id":"y","name":"t","input":"free"}"#;
    let broken = format!("[{output},{user},{thought},{custom},{user}]");
    let unknown = r#"{"type":"custom_tool_call_output","call_id":"y","output":"unknown"}"#;
    assert_eq!(
        repaired(GatewayDialect::Responses, &broken),
        format!("[{user},{thought},{custom},{unknown},{user}]")
    );
    assert_eq!(pruned(GatewayDialect::Responses, &broken), format!("[{user},{user}]"));
    let said = r#"{"type":"message","role":"assistant","content":[{"type":"output_text","text":"b"}]}"#;
    let broken = format!("[{user},{thought},{said},{thought},{call},{user}]");
    assert_eq!(pruned(GatewayDialect::Responses, &broken), format!("[{user},{thought},{said},{user}]"));
}

#[test]
fn what_continues_a_conversation_of_the_provider_is_left_alone() {
    let output = r#"{"type":"function_call_output","call_id":"x","output":"1"}"#;
    for (more, input) in [
        (r#""previous_response_id":"r","#, format!("[{output}]")),
        (r#""conversation":{"id":"c"},"#, format!("[{output}]")),
        ("", format!(r#"[{{"type":"item_reference","id":"i"}},{output}]"#)),
        ("", r#""a text with function_call""#.to_owned()),
    ] {
        let text = format!(r#"{{"model":"m",{more}"input":{input}}}"#);
        assert!(read(GatewayDialect::Responses, &text).is_none(), "{text}");
    }
    // Who names a conversation twice, or a call by no id, is understood in two ways.
    for text in [
        r#"{"model":"m","messages":[{"role":"tool","tool_call_id":"x","content":""}],"messages":[]}"#,
        r#"{"model":"m","messages":[{"role":"tool","content":""}]}"#,
        r#"{"model":"m","messages":["tool_"]}"#,
        r#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#,
    ] {
        assert!(read(GatewayDialect::Chat, text).is_none(), "{text}");
    }
}

/// One piece of a conversation in that dialect: `u`, `a`, `a:x,y`, `r:x`, as in the tests of the repair.
pub(super) fn element(dialect: GatewayDialect, word: &str) -> Vec<Value> {
    let (kind, ids) = word.split_once(':').unwrap_or((word, ""));
    let ids: Vec<&str> = ids.split(',').filter(|id| !id.is_empty()).collect();
    let each = |make: &dyn Fn(&&str) -> Value| ids.iter().map(make).collect::<Vec<_>>();
    match (dialect, kind) {
        (GatewayDialect::Chat | GatewayDialect::Messages | GatewayDialect::Responses, "u") => {
            vec![json!({"role": "user", "content": "hello"})]
        }
        (GatewayDialect::Chat, "a") => {
            let calls = each(
                &|id| json!({"id": id, "type": "function", "function": {"name": "t", "arguments": "{}"}}),
            );
            let mut message = json!({"role": "assistant", "content": "said"});
            if !calls.is_empty() {
                message["tool_calls"] = calls.into();
            }
            vec![message]
        }
        (GatewayDialect::Chat, _) => each(&|id| json!({"role": "tool", "tool_call_id": id, "content": "1"})),
        (GatewayDialect::Messages, "a") => {
            let mut parts = vec![json!({"type": "text", "text": "said"})];
            parts.extend(each(&|id| json!({"type": "tool_use", "id": id, "name": "t", "input": {}})));
            vec![json!({"role": "assistant", "content": parts})]
        }
        (GatewayDialect::Messages, _) => {
            let parts = each(&|id| json!({"type": "tool_result", "tool_use_id": id, "content": "1"}));
            vec![json!({"role": "user", "content": parts})]
        }
        (GatewayDialect::Responses, "a") => {
            let mut items = vec![json!({"type": "message", "role": "assistant", "content": "said"})];
            items.extend(each(
                &|id| json!({"type": "function_call", "call_id": id, "name": "t", "arguments": "{}"}),
            ));
            items
        }
        (GatewayDialect::Responses, _) => {
            each(&|id| json!({"type": "function_call_output", "call_id": id, "output": "1"}))
        }
        (GatewayDialect::Gemini, "u") => vec![json!({"role": "user", "parts": [{"text": "hello"}]})],
        (GatewayDialect::Gemini, "a") => {
            let mut parts = vec![json!({"text": "said"})];
            parts.extend(each(&|id| json!({"functionCall": {"id": id, "name": "t", "args": {}}})));
            vec![json!({"role": "model", "parts": parts})]
        }
        (GatewayDialect::Gemini, _) => {
            let parts =
                each(&|id| json!({"functionResponse": {"id": id, "name": "t", "response": {"output": 1}}}));
            vec![json!({"role": "user", "parts": parts})]
        }
    }
}

#[test]
fn a_conversation_of_very_many_calls_takes_no_longer_than_its_length() {
    let begun = std::time::Instant::now();
    let count = 30_000;
    let list = (0..count)
        .map(|number| CALL.replace("\"x\"", &format!("\"c{number}\"")))
        .collect::<Vec<_>>()
        .join(",");
    let history = read(GatewayDialect::Chat, &request(GatewayDialect::Chat, &format!("[{list}]"))).unwrap();
    let missing = |number: usize| Message::Tool {
        call: format!("c{number}"),
        tool: "t".into(),
        text: "unknown".into(),
        error: true,
        handle: None,
    };
    let pieces: Vec<HistoryPiece> =
        (0..count).flat_map(|at| [HistoryPiece::Kept(at), missing(at).into()]).collect();
    let sources = history.sources(&pieces);
    assert!(sources.chunks(2).enumerate().all(|(at, pair)| pair == [Some(at), None]));
    let part = |kind: &str, field: &str, number: usize| {
        format!(r#"{{"function{kind}":{{"id":"c{number}","name":"t","{field}":{{}}}}}}"#)
    };
    let calls: Vec<String> = (0..count).map(|number| part("Call", "args", number)).collect();
    let results: Vec<String> = (0..count).rev().map(|number| part("Response", "response", number)).collect();
    let list = format!(
        r#"[{{"role":"model","parts":[{}]}},{{"role":"user","parts":[{}]}}]"#,
        calls.join(","),
        results.join(",")
    );
    let history = read(GatewayDialect::Gemini, &request(GatewayDialect::Gemini, &list)).unwrap();
    assert!(findings(&history.messages(&history.pieces())).is_empty());
    // Looking through all of them for each takes many times as long.
    assert!(begun.elapsed().as_secs() < 10, "{:?}", begun.elapsed());
}

proptest! {
    #[test]
    fn a_repair_leaves_no_fault_and_a_second_one_nothing_to_do(
        words in proptest::collection::vec("u|a|a:[xyz](,[xyz]){0,2}|r:[xyz](,[xyz]){0,2}|r:[xyz]", 0..14),
        inject: bool,
    ) {
        let orphans = if inject { OrphanCalls::Inject } else { OrphanCalls::Prune };
        for dialect in DIALECTS {
            let mut list = vec![element(dialect, "u")];
            list.extend(words.iter().map(|word| element(dialect, word)));
            let text = request(dialect, &Value::from(list.concat()).to_string());
            let Some(history) = read(dialect, &text) else { continue };
            let messages = history.messages(&history.pieces());
            let same = history.with(&history.pieces()).unwrap();
            prop_assert_eq!(core::str::from_utf8(&same).unwrap(), &text);
            let made = repair(&messages, orphans, MalformedCalls::Answer);
            let mut pieces = history.pieces();
            splice(&mut pieces, &made.splices);
            let after = history.with(&pieces).unwrap();
            let after = core::str::from_utf8(&after).unwrap();
            if made.is_empty() {
                prop_assert_eq!(after, &text);
            }
            // Without a call and a result nothing is read.
            let Some(again) = read(dialect, after) else { continue };
            let found = findings(&again.messages(&again.pieces()));
            prop_assert!(found.is_empty(), "{:?} {:?} {:?} {}", dialect, found, text, after);
        }
    }
}
