//! Conversations that are reduced: what is left is valid, and keeps its bytes.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::tests::{DIALECTS, body, counter, element, request};
use super::*;
use crate::context::{findings, repair};
use crate::engine::ReducePlan;
use crate::policy::{MalformedCalls, OrphanCalls, Policy, ReduceStep, SizeUnit, TextSize};
use crate::session::splice;

fn read(dialect: GatewayDialect, text: &str) -> Option<RequestHistory> {
    RequestHistory::read(dialect, &body(dialect, text), counter(), true)
}

const fn chars(count: u64) -> TextSize {
    TextSize { count, unit: SizeUnit::Chars }
}

fn step(kind: usize, keep_last: u32) -> ReduceStep {
    match kind {
        0 => ReduceStep::Results { keep_last, over: chars(60), show: chars(20) },
        1 => ReduceStep::Drop { keep_last },
        2 => ReduceStep::Digest { keep_last, most: chars(200), line: chars(40), result_line: chars(20) },
        _ => ReduceStep::Truncate { keep_last, over: chars(80), head: chars(20), tail: chars(10) },
    }
}

const fn plan(step: ReduceStep, aim: u64, most: u64) -> ReducePlan {
    ReducePlan { number: 1, step, aim, most, input: None, keep_task: true }
}

/// Makes a step of the whole conversation; returns its pieces.
fn reduced(history: &RequestHistory, plan: &ReducePlan) -> Vec<HistoryPiece> {
    let mut pieces = history.pieces();
    let made = history.reduced(&Policy::builtin(), plan, &pieces);
    splice(&mut pieces, &made.splices);
    pieces
}

fn written(history: &RequestHistory, pieces: &[HistoryPiece]) -> String {
    String::from_utf8(history.with(pieces).unwrap().to_vec()).unwrap()
}

/// Gives each text another one: its number, and some words.
fn fill(value: &mut Value, sizes: &mut impl Iterator<Item = usize>, number: &mut usize) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(|value| fill(value, sizes, number)),
        Value::Object(fields) => fields.values_mut().for_each(|value| fill(value, sizes, number)),
        Value::String(text) if ["hello", "said", "1"].contains(&text.as_str()) => {
            *number += 1;
            *text = format!("<{number}> {}", "some words ".repeat(sizes.next().unwrap_or(1)));
        }
        _ => {}
    }
}

/// Turns of a chat with a call and its result each.
fn turns(count: usize) -> Vec<String> {
    let turn = |number: usize| {
        let pad = "some words ".repeat(20);
        [
            format!(r#"{{"role":"user", "content":"go {number} {pad}"}}"#),
            format!(
                r#"{{"role":"assistant","content":null,"tool_calls":[{{"id":"c{number}","type":"function","function":{{"name":"t","arguments":"{{}}"}}}}]}}"#
            ),
            format!(r#"{{"role":"tool","tool_call_id":"c{number}" ,"content":"{number} {pad}{pad}"}}"#),
            format!(r#"{{"role":"assistant","content":"said {number} {pad}"}}"#),
        ]
    };
    (0..count).flat_map(turn).collect()
}

#[test]
fn what_is_left_of_a_chat_has_the_bytes_it_had() {
    let all = [vec![r#"{"role":"system","content":"be brief"}"#.to_owned()], turns(8)].concat();
    let text = request(GatewayDialect::Chat, &format!("[{}]", all.join(",\n ")));
    let history = read(GatewayDialect::Chat, &text).unwrap();
    let measure = history.measure(false);
    assert!(history.can_shrink() && measure.messages == 33 && measure.message_tokens > 2000, "{measure:?}");
    let after = written(&history, &reduced(&history, &plan(step(1, 4), 1000, 1000)));
    let note = after.find("{\"role\":\"user\",\"content\":\"[").expect(&after);
    let start = request(GatewayDialect::Chat, &format!("[{},", all[0]));
    assert_eq!(&after[..note], start.trim_end_matches(",\"x\":1e400 }"));
    let kept = all.iter().position(|element| after.contains(element) && *element != all[0]).unwrap();
    assert!(after.ends_with(&format!("{}],\"x\":1e400 }}", all[kept..].join(",\n "))), "{after}");
    assert!(read(GatewayDialect::Chat, &after).unwrap().measure(false).message_tokens <= 1000);
}

#[test]
fn as_a_conversation_grows_what_was_left_of_it_before_mostly_stays() {
    let (all, mut starts) = (turns(40), Vec::new());
    for count in 10..40 {
        let text = request(GatewayDialect::Chat, &format!("[{}]", all[..count * 4].join(",")));
        let history = read(GatewayDialect::Chat, &text).unwrap();
        // What a provider counts moves the numbers a little.
        let (aim, most) = (2000 + count as u64, 3100 + count as u64 * 2);
        let mut pieces = history.pieces();
        for kind in 0..3 {
            let made = history.reduced(&Policy::builtin(), &plan(step(kind, 6), aim, most), &pieces);
            splice(&mut pieces, &made.splices);
        }
        let after = written(&history, &pieces);
        assert!(read(GatewayDialect::Chat, &after).unwrap().measure(false).message_tokens <= most);
        starts.push(after[..3000.min(after.len())].to_owned());
    }
    let changes = starts.windows(2).filter(|pair| pair[0] != pair[1]).count();
    assert!(changes > 0 && changes <= 8, "{changes} of {}", starts.len());
}

#[test]
fn an_image_stays_where_the_text_beside_it_is_cut() {
    let words = "some words ".repeat(200);
    for (dialect, list) in [
        (
            GatewayDialect::Chat,
            json!([{"role": "user", "content": [
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}, {"type": "text", "text": words}]}]),
        ),
        (
            GatewayDialect::Messages,
            json!([{"role": "user", "content": [
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}, {"type": "text", "text": words}]}]),
        ),
        (
            GatewayDialect::Responses,
            json!([{"role": "user", "content": [
            {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}, {"type": "input_text", "text": words}]}]),
        ),
        (
            GatewayDialect::Gemini,
            json!([{"role": "user", "parts": [
            {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}, {"text": words}]}]),
        ),
    ] {
        let text = request(dialect, &list.to_string());
        // A text that is long is read without a call, too.
        let long = format!("{}{text}", " ".repeat(LONG));
        assert!(read(dialect, &text).is_none());
        let history = read(dialect, &long).unwrap();
        let tokens = history.measure(false).message_tokens;
        assert!(tokens > 500 + 700, "{dialect:?}: {tokens}");
        let after = written(&history, &reduced(&history, &plan(step(3, 1), tokens - 400, tokens - 400)));
        assert!(after.contains("AAAA") && !after.contains(&words) && after.contains("some words"), "{after}");
        let long = format!("{}{after}", " ".repeat(LONG));
        assert!(read(dialect, &long).unwrap().measure(false).message_tokens <= tokens - 400, "{after}");
    }
}

#[test]
fn what_may_belong_together_is_not_taken_apart() {
    for (dialect, element) in [
        (GatewayDialect::Chat, json!({"role": "function", "name": "t", "content": "1"})),
        (
            GatewayDialect::Chat,
            json!({"role": "assistant", "content": "", "function_call": {"name": "t", "arguments": "{}"}}),
        ),
        (
            GatewayDialect::Responses,
            json!({"type": "local_shell_call_output", "call_id": "x", "output": "1"}),
        ),
        (GatewayDialect::Responses, json!({"type": "mcp_approval_request", "id": "x"})),
        (GatewayDialect::Messages, json!({"role": "tool", "content": "1"})),
    ] {
        let text =
            request(dialect, &json!([{"role": "user", "content": "x".repeat(LONG)}, element]).to_string());
        assert!(!read(dialect, &text).unwrap().can_shrink(), "{text}");
    }
}

#[test]
fn what_the_client_says_of_the_reply_is_part_of_the_measure() {
    for (dialect, field) in [
        (GatewayDialect::Chat, r#""max_tokens":100"#),
        (GatewayDialect::Chat, r#""max_completion_tokens":100"#),
        (GatewayDialect::Messages, r#""max_tokens":100"#),
        (GatewayDialect::Responses, r#""max_output_tokens":100"#),
        (GatewayDialect::Gemini, r#""generationConfig":{"maxOutputTokens":100}"#),
    ] {
        let list = Value::from(element(dialect, "u")).to_string();
        let text = format!("{}{}", " ".repeat(LONG), request(dialect, &list));
        assert_eq!(read(dialect, &text).unwrap().measure(false).reply_tokens, None);
        let text = text.replacen('{', &format!("{{{field},"), 1);
        assert_eq!(read(dialect, &text).unwrap().measure(false).reply_tokens, Some(100), "{text}");
    }
}

#[test]
fn instructions_and_tools_are_counted_and_stay() {
    let words = "some words ".repeat(100);
    for (dialect, instructions) in [
        (GatewayDialect::Messages, json!({"system": [{"type": "text", "text": words}]})),
        (GatewayDialect::Responses, json!({"instructions": words})),
        (GatewayDialect::Gemini, json!({"systemInstruction": {"parts": [{"text": words}]}})),
    ] {
        let tools = format!("\"tools\":[{{\"name\":\"{words}\"}}],");
        let said = instructions.to_string();
        let words = ["u", "a:x", "r:x", "u", "u"].map(|word| element(dialect, word));
        let mut list = Value::from(words.concat());
        fill(&mut list, &mut core::iter::repeat(20), &mut 0);
        let text = request(dialect, &list.to_string());
        let text = text.replacen('{', &format!("{{{tools}{},", &said[1..said.len() - 1]), 1);
        let history = read(dialect, &text).unwrap();
        let measure = history.measure(false);
        assert_eq!((history.instructions, measure.tool_tokens), (275, 398), "{dialect:?}");
        let made = history.reduced(&Policy::builtin(), &plan(step(1, 1), 400, 400), &history.pieces());
        assert!(made.message_tokens < measure.message_tokens, "{made:?}");
        // What the user says, and nothing else, is left beside them.
        assert!((275..400).contains(&made.message_tokens), "{made:?}");
    }
}

proptest! {
    #[test]
    fn what_is_reduced_is_valid_and_what_is_kept_has_its_bytes(
        words in proptest::collection::vec("u|a|a:[xyz](,[xyz]){0,2}|r:[xyz](,[xyz]){0,2}|r:[xyz]", 0..14),
        sizes in proptest::collection::vec(1usize..30, 30),
        steps in proptest::collection::vec((0usize..4, 1u32..5), 1..4),
        (aim, more) in (0u64..100, 0u64..60),
    ) {
        for dialect in DIALECTS {
            let mut list = vec![element(dialect, "u")];
            list.extend(words.iter().map(|word| element(dialect, word)));
            let mut list = Value::from(list.concat());
            fill(&mut list, &mut sizes.iter().copied(), &mut 0);
            let text = format!("{}{}", " ".repeat(LONG), request(dialect, &list.to_string()));
            let broken = read(dialect, &text).unwrap();
            let mut pieces = broken.pieces();
            let mut made = repair(&broken.messages(&pieces), OrphanCalls::Inject, MalformedCalls::Answer);
            made.write(&mut |_| "unknown".into());
            splice(&mut pieces, &made.splices);
            let text = written(&broken, &pieces);
            let history = read(dialect, &text).unwrap();
            let (before, mut pieces) = (history.measure(false), history.pieces());
            prop_assert!(history.can_shrink() && before.history_faults == 0, "{:?} {}", before, text);
            let (aim, most) = (before.message_tokens * aim / 100, before.message_tokens * (aim + more) / 100);
            let mut tokens = before.message_tokens;
            for (kind, keep_last) in &steps {
                let made = history.reduced(&Policy::builtin(), &plan(step(*kind, *keep_last), aim, most), &pieces);
                if made.splices.is_empty() {
                    continue;
                }
                splice(&mut pieces, &made.splices);
                prop_assert!(made.message_tokens < tokens);
                tokens = made.message_tokens;
            }
            let after = written(&history, &pieces);
            if tokens == before.message_tokens {
                prop_assert_eq!(&after, &text);
            }
            let again = read(dialect, &after).unwrap();
            let found = findings(&again.messages(&again.pieces()));
            prop_assert!(found.is_empty(), "{:?} {:?} {} {}", dialect, found, text, after);
            // The policy's own first words may come on top.
            prop_assert!(again.measure(false).message_tokens <= tokens + 10, "{} {}", tokens, after);
            for at in pieces.iter().filter_map(|piece| match piece {
                HistoryPiece::Kept(at) => Some(*at),
                HistoryPiece::New(_) => None,
            }) {
                for place in &history.items[at].from {
                    let bytes = match place.part {
                        Some(part) => history.of_part(place.element, part),
                        None => history.of_element(place.element),
                    };
                    prop_assert!(after.contains(bytes.unwrap()), "{:?} {:?} {} {}", dialect, place, text, after);
                }
            }
        }
    }
}
