use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// The text and the calls that are found, with the arguments as values.
fn found(text: &str) -> Option<(String, Vec<(String, Value)>)> {
    let schema = Schema::compile(&json!({"properties": {
        "q": {"type": "string"}, "limit": {"type": "integer"}, "all": {"type": "boolean"},
        "tags": {"type": "array"}, "from": {"anyOf": [{"type": "object"}, {"type": "null"}]},
    }}));
    let schema = schema.unwrap();
    let known = |name: &str| matches!(name, "search" | "read" | "mail.send-now");
    let TextToolCalls { text, calls } = find(text, "leaked_1", known, |_| Some(&schema))?;
    let value = |call: ToolCall| (call.name, serde_json::from_str(&call.arguments).unwrap());
    Some((text, calls.into_iter().map(value).collect()))
}

/// One call of `search` and nothing else.
#[expect(clippy::unnecessary_wraps, reason = "it is compared with what is found")]
fn one(arguments: Value) -> Option<(String, Vec<(String, Value)>)> {
    Some((String::new(), vec![("search".to_owned(), arguments)]))
}

/// One call in each form, `{"q": "a"}` for `search`.
const FORMS: [&str; 36] = [
    // Hermes and Qwen.
    r#"<tool_call>{"name": "search", "arguments": {"q": "a"}}</tool_call>"#,
    "<tool_call>\n{\"name\": \"search\", \"arguments\": {\"q\": \"a\"},}\n",
    r#"<tool_calls>[{"name": "search", "arguments": {"q": "a"}}]</tool_calls>"#,
    r#"<function_call>{"name": "search", "parameters": {"q": "a"}}</function_call>"#,
    r#"<tools>{"function": {"name": "search", "arguments": "{\"q\":\"a\"}"}}</tools>"#,
    "<tool_call>\nsearch\n{\"q\": \"a\"}\n</tool_call>",
    // Llama 3.
    r#"<|python_tag|>{"name": "search", "parameters": {"q": "a"}}<|eom_id|>"#,
    r#"<function=search>{"q":"a"}</function>"#,
    r#"{"name": "search", "parameters": {"q": "a"}}"#,
    "```json\n{\"type\": \"function\", \"function\": \"search\", \"parameters\": {\"q\": \"a\"}}\n```",
    // Mistral.
    r#"[TOOL_CALLS][{"name": "search", "arguments": {"q": "a"}}]</s>"#,
    r#"[TOOL_CALLS]search{"q": "a"}"#,
    r#"[TOOL_CALLS]search[ARGS]{"q": "a"}</s>"#,
    r#"[TOOL_CALLS]search[CALL_ID]9ZkQ3tB1x[ARGS]{"q": "a"}"#,
    // Qwen3-Coder, and Seed.
    "<tool_call>\n<function=search>\n<parameter=q>\na\n</parameter>\n</function>\n</tool_call>",
    "<function=search>\n<parameter=q>\na\n</parameter>\n</function>\n</tool_call>",
    "<function=search>\n<parameter=q>\na\n</parameter>",
    "<seed:tool_call><function=search><parameter=q>a</parameter></function></seed:tool_call>",
    // GLM.
    "<tool_call>search\n<arg_key>q</arg_key>\n<arg_value>a</arg_value>\n</tool_call>",
    "<tool_call>search<arg_key>q</arg_key><arg_value>a</arg_value></tool_call>",
    // Kimi K2.
    r#"<|tool_calls_section_begin|><|tool_call_begin|>functions.search:0<|tool_call_argument_begin|>{"q": "a"}<|tool_call_end|><|tool_calls_section_end|>"#,
    r#"<|tool_call_begin|> search:12 <|tool_call_argument_begin|> {"q": "a"}"#,
    // Kimi K3.
    "<|open|>tools<|sep|><|open|>call tool=\"search\" index=\"1\"<|sep|><|open|>argument key=\"q\" type=\"string\"<|sep|>a<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|><|close|>message<|sep|>",
    // DeepSeek V3 and R1, V3.1, V3.2, V4, V4.1.
    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>search\n```json\n{\"q\": \"a\"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜><｜end▁of▁sentence｜>",
    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>search<｜tool▁sep｜>{\"q\": \"a\"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"search\">\n<｜DSML｜parameter name=\"q\" string=\"true\">a</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
    "<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"search\">\n{\"q\": \"a\"}\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>",
    "<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"search\">\n<｜DSML｜ parameter name=\"q\">a</｜DSML｜ parameter>\n</｜DSML｜ invoke>\n</｜DSML｜ calls>",
    // MiniMax M1, M2 and M3.
    "<tool_calls>\n{\"name\": \"search\", \"arguments\": {\"q\": \"a\"}}\n</tool_calls>",
    "<minimax:tool_call>\n<invoke name=\"search\">\n<parameter name=\"q\">a</parameter>\n</invoke>\n</minimax:tool_call>[e~[",
    "]<]minimax[>[<tool_call>]<]minimax[>[<invoke name=\"search\">]<]minimax[>[<q>a]<]minimax[>[</q>]<]minimax[>[</invoke>]<]minimax[>[</tool_call>",
    // Claude.
    "<function_calls>\n<invoke name=\"search\">\n<parameter name=\"q\">a</parameter>\n</invoke>\n</function_calls>",
    // gpt-oss.
    r#"<|start|>assistant<|channel|>commentary to=functions.search <|constrain|>json<|message|>{"q": "a"}<|call|>"#,
    // Granite, Command, Nemotron.
    r#"<|tool_call|>[{"name": "search", "arguments": {"q": "a"}}]"#,
    r#"<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "search", "parameters": {"q": "a"}}]<|END_ACTION|>"#,
    r#"<TOOLCALL>[{"name": "search", "arguments": {"q": "a"}}]</TOOLCALL>"#,
];

#[test]
fn every_form_of_a_call_in_text() {
    for text in FORMS {
        assert_eq!(found(text), one(json!({"q": "a"})), "{text}");
    }
}

#[test]
fn the_text_around_stays_and_several_calls_keep_their_order() {
    let calls = vec![("read".to_owned(), json!({})), ("search".to_owned(), json!({"limit": 1}))];
    for text in [
        r#"<tool_call>{"name": "read"}</tool_call><tool_call>{"name": "search", "arguments": {"limit": 1}}</tool_call>"#,
        "<tool_calls>\n{\"name\": \"read\"}\n{\"name\": \"search\", \"arguments\": {\"limit\": 1}}\n</tool_calls>",
        r#"[TOOL_CALLS]read{}[TOOL_CALLS]search{"limit": 1}"#,
        "<tool_call>read</tool_call>\n<tool_call>search<arg_key>limit</arg_key><arg_value>1</arg_value></tool_call>",
        "<function=read>\n</function>\n<function=search>\n<parameter=limit>\n1\n</parameter>\n</function>",
        "<minimax:tool_call><invoke name=\"read\"></invoke>\n<invoke name=\"search\"><parameter name=\"limit\">1</parameter></invoke></minimax:tool_call>",
        r#"<|tool_calls_section_begin|><|tool_call_begin|>functions.read:0<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_call_begin|>functions.search:1<|tool_call_argument_begin|>{"limit": 1}<|tool_call_end|><|tool_calls_section_end|>"#,
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>read<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁call▁begin｜>search<｜tool▁sep｜>{\"limit\": 1}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    ] {
        let around = format!("Let me look.\n{text}\n");
        assert_eq!(found(&around), Some(("Let me look.".to_owned(), calls.clone())), "{text}");
    }
}

#[test]
fn the_schema_says_which_arguments_are_no_texts() {
    let call = |fields: &[(&str, &str)]| {
        let fields = fields.iter().map(|(name, text)| format!("<parameter={name}>\n{text}\n</parameter>\n"));
        format!("<function=search>\n{}</function>", fields.collect::<String>())
    };
    let text = call(&[
        ("q", "12"),
        ("limit", "12"),
        ("all", "True"),
        ("tags", "['a', 'b']"),
        ("from", "{\"a\": 1}"),
    ]);
    let typed = json!({"q": "12", "limit": 12, "all": true, "tags": ["a", "b"], "from": {"a": 1}});
    assert_eq!(found(&text), one(typed));
    assert_eq!(found(&call(&[("from", "null")])), one(json!({"from": null})));
    // What is wrong stays as it is: the model gets the problem back.
    assert_eq!(found(&call(&[("limit", "5 or so")])), one(json!({"limit": "5 or so"})));
    let long = "98765432109876543210";
    assert_eq!(found(&call(&[("limit", long)])), one(json!({"limit": long})));
}

#[test]
fn an_argument_may_say_what_it_is() {
    let text = "<｜DSML｜invoke name=\"search\"><｜DSML｜parameter name=\"q\" string=\"true\">1</｜DSML｜parameter>\
                <｜DSML｜parameter name=\"other\" string=\"false\">1</｜DSML｜parameter></｜DSML｜invoke>";
    assert_eq!(found(text), one(json!({"q": "1", "other": 1})));
}

#[test]
fn a_value_may_have_tags_and_lines_of_its_own() {
    let page = "<p>\n\n</parameter> and <tool_call></p>\n";
    for text in [
        format!("<function=search>\n<parameter=q>\n{page}\n</parameter>\n</function>"),
        format!("<tool_call>search<arg_key>q</arg_key><arg_value>\n{page}\n</arg_value></tool_call>"),
        format!("<tool_call>{}</tool_call>", json!({"name": "search", "arguments": {"q": page}})),
        format!("<function=search>{}</function>", json!({"q": page})),
    ] {
        assert_eq!(found(&text), one(json!({"q": page})), "{text}");
    }
    let closed = json!({"name": "search", "arguments": {"q": "</tool_call>"}});
    assert_eq!(found(&format!("<tool_call>{closed}</tool_call>")), one(json!({"q": "</tool_call>"})));
    let call = json!({"name": "read", "arguments": {}}).to_string();
    let text = format!("<tool_call>search<arg_key>q</arg_key><arg_value>{call}</arg_value></tool_call>");
    assert_eq!(found(&text), one(json!({"q": call})));
}

#[test]
fn a_text_that_only_speaks_of_calls_is_a_text() {
    for text in [
        "Write <tool_call> and then the JSON.",
        r#"<tool_call>{"name": "rm", "arguments": {}}</tool_call>"#,
        r#"<tool_call>{"name": "search"}</tool_call> <tool_call>{"name": "rm"}</tool_call>"#,
        r#"It writes `<tool_call>{"name": "search", "arguments": {}}</tool_call>`."#,
        "<tool_call>{\"arguments\": {}}</tool_call>",
        "<tool_call>search",
        "<function=>{}</function>",
        "<function=search>",
        "<function=search>\n<parameter=q>\na",
        "<function=search><parameter=q>a</parameter><parameter=q>b</parameter></function>",
        "<invoke name=\"search\">\n<parameter name=\"q\">a</parameter>\n<parameter name=\"limit\">",
        "<|tool_call_begin|>functions.search:0<|tool_call_argument_begin|>{\"q\": \"a",
        "<tool_call>{\"name\": \"search\", \"arguments\": {\"limit\": 98765432109876543210}}</tool_call>",
        "]<]minimax[>[<tool_call><invoke name=\"search\"><tags><item>a</item></tags></invoke></tool_call>",
        r#"{"name": "search"}"#,
        r#"{"name": "search", "arguments": {}, "price": 3}"#,
        "The tag <function name=\"search\"> opens a function of the module.",
        "[TOOL_CALLS]",
        "a < b",
        "",
    ] {
        assert_eq!(found(text), None, "{text}");
    }
}

#[test]
fn a_name_may_have_signs() {
    let text = "<|tool_call_begin|>functions.mail.send-now:3<|tool_call_argument_begin|>{}<|tool_call_end|>";
    assert_eq!(found(text).unwrap().1, [("mail.send-now".to_owned(), json!({}))]);
}

proptest! {
    /// A cut call never becomes one with other arguments.
    #[test]
    fn what_is_cut_is_the_same_call_or_none(form in 0..FORMS.len(), length in 0_usize..200) {
        let text: String = FORMS[form].chars().take(length).collect();
        if let Some((_, calls)) = found(&text) {
            prop_assert_eq!(calls, vec![("search".to_owned(), json!({"q": "a"}))], "{}", text);
        }
    }

    /// Any pieces of calls in any order are read without a panic.
    #[test]
    fn pieces_are_read(pieces in prop::collection::vec((0..FORMS.len(), 0_usize..200, 0_usize..200), 0..6)) {
        let piece = |(form, from, length): (usize, usize, usize)| -> String {
            FORMS[form].chars().skip(from).take(length).collect()
        };
        let text: String = pieces.into_iter().map(piece).collect();
        let known = |name: &str| name == "search";
        if let Some(found) = find(&text, "leaked_1", known, |_| None) {
            prop_assert!(!found.calls.is_empty());
        }
    }
}

#[test]
fn a_hostile_text_is_searched_once() {
    for piece in ["<a ", "<tool_call>", "<function=search><parameter=q>", "[TOOL_CALLS]", "<|open|>"] {
        let text = piece.repeat(20_000);
        assert!(found(&text).is_none(), "{piece}");
        assert!(found(&format!("<function=search><parameter=q>{text}")).is_none(), "{piece}");
    }
}
