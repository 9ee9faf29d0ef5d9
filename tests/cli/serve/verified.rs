//! Answers that are held against the tools and the form that their requests have.

use serde_json::{Value, json};

use super::{Answer, CHAT, Gateway, MESSAGES, POLICY, RESPONSES, Reply, Upstream, model, one};

/// The SHA-256 of `sesame`.
const SESAME: &str = "d0c04f4b1951e4aeaaec8223ed2039e542f3aae805a6fa7f6d794e5afff5d272";
const GENERATE: &str = "/v1beta/models/main:generateContent";

/// A policy under which a model corrects itself.
fn asks() -> String {
    POLICY.replace("max_attempts: 3,", "retry_on: {add: [invalid_args, tool_not_found, invalid_output]},")
}

/// A dialect: its provider, its address, and how requests and answers are in it.
struct Dialect {
    api: &'static str,
    path: &'static str,
    /// A request with the tool `look`, which takes a whole number.
    ask: fn() -> Value,
    /// A request for an answer of JSON with a `total`.
    ask_form: fn() -> Value,
    /// An answer that calls a tool with these arguments.
    calls: fn(&str, &str) -> String,
    says: fn(&str) -> String,
    /// The name and the arguments of the call in an answer.
    called: fn(&Value) -> (Value, Value),
    text: &'static str,
}

fn schema() -> Value {
    json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
}

fn form() -> Value {
    json!({"type": "object", "properties": {"total": {"type": "number"}}, "required": ["total"]})
}

fn parsed(arguments: &Value) -> Value {
    serde_json::from_str(arguments.as_str().unwrap()).unwrap_or_else(|_| arguments.clone())
}

const DIALECTS: [Dialect; 4] = [
    Dialect {
        api: "openai",
        path: CHAT,
        ask: || {
            json!({
                "model": "main", "messages": [{"role": "user", "content": "go"}],
                "tools": [{"type": "function", "function": {"name": "look", "parameters": schema()}}],
            })
        },
        ask_form: || {
            json!({
                "model": "main", "messages": [{"role": "user", "content": "go"}],
                "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": form()}},
            })
        },
        calls: |name, arguments| {
            let call =
                json!({"id": "a", "type": "function", "function": {"name": name, "arguments": arguments}});
            json!({
                "id": "c1",
                "choices": [{"index": 0, "message": {"role": "assistant", "content": null, "tool_calls": [call]}, "finish_reason": "tool_calls"}],
                "usage": {"prompt_tokens": 30, "completion_tokens": 20},
            })
            .to_string()
        },
        says: |text| {
            json!({"choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]})
                .to_string()
        },
        called: |body| {
            let function = &body["choices"][0]["message"]["tool_calls"][0]["function"];
            (function["name"].clone(), parsed(&function["arguments"]))
        },
        text: "/choices/0/message/content",
    },
    Dialect {
        api: "anthropic",
        path: MESSAGES,
        ask: || {
            json!({
                "model": "main", "max_tokens": 9, "messages": [{"role": "user", "content": "go"}],
                "tools": [{"name": "look", "input_schema": schema()}],
            })
        },
        ask_form: || {
            json!({
                "model": "main", "max_tokens": 9, "messages": [{"role": "user", "content": "go"}],
                "output_config": {"format": {"type": "json_schema", "schema": form()}},
            })
        },
        calls: |name, arguments| {
            let input: Value = serde_json::from_str(arguments).unwrap();
            json!({
                "type": "message", "role": "assistant",
                "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "tool_use", "id": "toolu_1", "name": name, "input": input}],
                "stop_reason": "tool_use", "usage": {"input_tokens": 30, "output_tokens": 20},
            })
            .to_string()
        },
        says: |text| {
            json!({"type": "message", "role": "assistant", "content": [{"type": "text", "text": text}], "stop_reason": "end_turn"})
                .to_string()
        },
        called: |body| {
            let calls = body["content"].as_array().unwrap();
            let call = calls.iter().find(|block| block["type"] == "tool_use").unwrap();
            (call["name"].clone(), call["input"].clone())
        },
        text: "/content/0/text",
    },
    Dialect {
        api: "responses",
        path: RESPONSES,
        ask: || {
            json!({
                "model": "main", "input": "go",
                "tools": [{"type": "function", "name": "look", "parameters": schema(), "strict": false}],
            })
        },
        ask_form: || json!({"model": "main", "input": "go", "text": {"format": {"type": "json_schema", "name": "a", "schema": form()}}}),
        calls: |name, arguments| {
            let call = json!({"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": name, "arguments": arguments, "status": "completed"});
            json!({"id": "resp_1", "object": "response", "status": "completed", "output": [call], "usage": {"input_tokens": 30, "output_tokens": 20}})
                .to_string()
        },
        says: |text| {
            let content = json!([{"type": "output_text", "text": text, "annotations": []}]);
            let message = json!({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content});
            json!({"id": "resp_1", "object": "response", "status": "completed", "output": [message]})
                .to_string()
        },
        called: |body| {
            let items = body["output"].as_array().unwrap();
            let call = items.iter().find(|item| item["type"] == "function_call").unwrap();
            (call["name"].clone(), parsed(&call["arguments"]))
        },
        text: "/output/0/content/0/text",
    },
    Dialect {
        api: "gemini",
        path: GENERATE,
        ask: || {
            let parameters =
                json!({"type": "OBJECT", "properties": {"n": {"type": "INTEGER"}}, "required": ["n"]});
            json!({
                "contents": [{"role": "user", "parts": [{"text": "go"}]}],
                "tools": [{"functionDeclarations": [{"name": "look", "parameters": parameters}]}],
            })
        },
        ask_form: || {
            let schema =
                json!({"type": "OBJECT", "properties": {"total": {"type": "NUMBER"}}, "required": ["total"]});
            json!({
                "contents": [{"role": "user", "parts": [{"text": "go"}]}],
                "generationConfig": {"responseMimeType": "application/json", "responseSchema": schema},
            })
        },
        calls: |name, arguments| {
            let args: Value = serde_json::from_str(arguments).unwrap();
            let parts = json!([{"functionCall": {"name": name, "args": args}, "thoughtSignature": "s"}]);
            json!({
                "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}],
                "usageMetadata": {"promptTokenCount": 30, "candidatesTokenCount": 20},
            })
            .to_string()
        },
        says: |text| {
            json!({"candidates": [{"content": {"role": "model", "parts": [{"text": text}]}, "finishReason": "STOP", "index": 0}]})
                .to_string()
        },
        called: |body| {
            let parts = body["candidates"][0]["content"]["parts"].as_array().unwrap();
            let call = parts.iter().find_map(|part| part.get("functionCall")).unwrap();
            (call["name"].clone(), call["args"].clone())
        },
        text: "/candidates/0/content/parts/0/text",
    },
];

/// A gateway to a model of that dialect that answers so.
fn gateway(dialect: &Dialect, policy: &str, answers: &[String]) -> (Gateway, Upstream) {
    let upstream = Upstream::start(answers.iter().map(|body| Reply::json(200, "", body)));
    let gateway = Gateway::under(policy, &one(dialect.api, &upstream), &[]);
    (gateway, upstream)
}

async fn asked(gateway: &Gateway, dialect: &Dialect, body: Value) -> Answer {
    gateway.post(dialect.path, &[], body.to_string()).await
}

/// The decisions on the page, the oldest first: what was decided, about what, and by which place.
async fn decisions(gateway: &Gateway) -> Vec<(String, Value, String)> {
    let status = gateway.get("/status.json", &[]).await.json();
    let decided = status["decisions"].as_array().unwrap().iter().rev();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    decided
        .map(|decided| {
            (text(&decided["what"]), decided["error_type"].clone(), text(&decided["because"][0]["place"]))
        })
        .collect()
}

#[tokio::test]
async fn an_answer_that_holds_passes_byte_by_byte() {
    for dialect in &DIALECTS {
        for (ask, answer) in [
            ((dialect.ask)(), (dialect.calls)("look", r#"{"n": 1}"#)),
            ((dialect.ask)(), (dialect.says)("Nothing to look at.")),
            ((dialect.ask_form)(), (dialect.says)(r#"{ "total" : 1.50 }"#)),
        ] {
            let answer = answer.replacen('{', "{ \"x\" : 1e400,", 1);
            let (gateway, _upstream) = gateway(dialect, &asks(), std::slice::from_ref(&answer));
            let got = asked(&gateway, dialect, ask).await;
            assert_eq!((got.status, &*got.body, got.told()), (200, &*answer, ("1", "main", "")));
            assert_eq!(got.header("x-unfazed-repaired"), "");
        }
    }
}

#[tokio::test]
async fn what_the_policy_repairs_does_not_cost_another_call() {
    for dialect in &DIALECTS {
        for (name, arguments) in [("look", r#"{"n": "7"}"#), ("functions.look", r#"{"n": 7}"#)] {
            let (gateway, _upstream) = gateway(dialect, POLICY, &[(dialect.calls)(name, arguments)]);
            let got = asked(&gateway, dialect, (dialect.ask)()).await;
            let called = (dialect.called)(&got.json());
            assert_eq!((got.status, called), (200, ("look".into(), json!({"n": 7}))), "{}", dialect.api);
            assert_eq!((got.told(), got.header("x-unfazed-repaired")), (("1", "main", ""), "answer=1"));
            let decided = decisions(&gateway).await;
            assert!(decided[0].0 == "mend" && decided[0].2.starts_with("builtin:default:"), "{decided:?}");
        }
        let fenced = (dialect.says)("```json\n{\"total\": 1.5}\n```");
        let (gateway, _upstream) = gateway(dialect, POLICY, &[fenced]);
        let got = asked(&gateway, dialect, (dialect.ask_form)()).await;
        assert_eq!(got.json().pointer(dialect.text), Some(&json!(r#"{"total":1.5}"#)), "{got:?}");
        assert_eq!((got.told(), got.header("x-unfazed-repaired")), (("1", "main", ""), "answer=1"));
    }
}

#[tokio::test]
async fn arguments_that_are_no_json_are_repaired_as_in_a_run() {
    for dialect in DIALECTS.iter().filter(|dialect| ["openai", "responses"].contains(&dialect.api)) {
        let broken = (dialect.calls)("look", "{'n': 7,}");
        let (gateway, _upstream) = gateway(dialect, POLICY, std::slice::from_ref(&broken));
        let got = asked(&gateway, dialect, (dialect.ask)()).await;
        assert_eq!((dialect.called)(&got.json()), ("look".into(), json!({"n": 7})));
        assert_eq!(got.told(), ("1", "main", ""));
        // What cannot be repaired is an attempt that failed, as often as it comes; the model learns what is wrong.
        let worse = (dialect.calls)("look", "look around");
        let answers = [worse.clone(), worse, broken];
        let (gateway, upstream) = self::gateway(dialect, POLICY, &answers);
        let got = asked(&gateway, dialect, (dialect.ask)()).await;
        assert_eq!((dialect.called)(&got.json()), ("look".into(), json!({"n": 7})));
        assert_eq!((got.told(), got.header("x-unfazed-repaired")), (("3", "main", ""), "answer=1"));
        assert!(upstream.bodies()[2].contains("not valid JSON"), "{:?}", upstream.bodies());
    }
}

#[tokio::test]
async fn a_call_that_does_not_hold_is_corrected_by_its_model() {
    for dialect in &DIALECTS {
        for (name, arguments, feedback) in
            [("look", "{}", "`n` is missing"), ("seek", r#"{"n": 7}"#, "There is no tool `seek`")]
        {
            let answers = [(dialect.calls)(name, arguments), (dialect.calls)("look", r#"{"n":7}"#)];
            let (gateway, upstream) = gateway(dialect, &asks(), &answers);
            let got = asked(&gateway, dialect, (dialect.ask)()).await;
            assert_eq!((got.status, &*got.body, got.told()), (200, &*answers[1], ("2", "main", "")));
            let bodies = upstream.bodies();
            let [first, second] = &*bodies else { panic!("{bodies:?}") };
            assert!(second.contains(feedback) && !first.contains(feedback), "{second}");
            let sent: Value = serde_json::from_str(second).unwrap();
            let list = ["messages", "input", "contents"].into_iter().find(|list| sent.get(list).is_some());
            let elements = sent[list.unwrap()].as_array().unwrap();
            assert_eq!(elements.len(), 3, "the question, the call and its result: {second}");
            if dialect.api == "anthropic" {
                assert!(second.contains(r#""signature":"s""#), "what it thought goes back to it: {second}");
            }
            let decided = decisions(&gateway).await;
            assert!(decided[0].0 == "retry" && decided[0].2.starts_with("policy.yaml:"), "{decided:?}");
        }
    }
}

#[tokio::test]
async fn an_answer_in_another_form_is_corrected_by_its_model() {
    for dialect in &DIALECTS {
        for wrong in ["I cannot count.", r#"{"total": "many"}"#] {
            let answers = [(dialect.says)(wrong), (dialect.says)(r#"{"total":2}"#)];
            let (gateway, upstream) = gateway(dialect, &asks(), &answers);
            let got = asked(&gateway, dialect, (dialect.ask_form)()).await;
            assert_eq!((got.status, &*got.body, got.told()), (200, &*answers[1], ("2", "main", "")));
            let second = upstream.bodies().remove(1);
            assert!(second.contains("Change this and deliver it again"), "{second}");
        }
    }
}

#[tokio::test]
async fn what_does_not_hold_twice_passes_with_its_class_and_the_rule() {
    for dialect in &DIALECTS {
        for (ask, wrong, class) in [
            ((dialect.ask)(), (dialect.calls)("look", "{}"), "invalid_args"),
            ((dialect.ask)(), (dialect.calls)("seek", "{}"), "tool_not_found"),
            ((dialect.ask_form)(), (dialect.says)("{}"), "invalid_output"),
        ] {
            let (gateway, _upstream) = gateway(dialect, &asks(), std::slice::from_ref(&wrong));
            let got = asked(&gateway, dialect, ask.clone()).await;
            assert_eq!((got.status, &*got.body, got.told()), (200, &*wrong, ("2", "main", class)));
            assert!(got.header("x-unfazed-why").starts_with("policy.yaml:"), "{got:?}");
            let kinds: Vec<String> = decisions(&gateway).await.into_iter().map(|(what, ..)| what).collect();
            assert_eq!(kinds, ["retry", "pass"]);
            // Without the policy's word the model is not asked again.
            let (gateway, upstream) = self::gateway(dialect, POLICY, std::slice::from_ref(&wrong));
            let got = asked(&gateway, dialect, ask).await;
            assert_eq!((got.status, &*got.body, got.told()), (200, &*wrong, ("1", "main", class)));
            assert!(got.header("x-unfazed-why").starts_with("builtin:default:"), "{got:?}");
            assert_eq!(upstream.bodies().len(), 1);
            let [(what, told, place)] = &*decisions(&gateway).await else { panic!() };
            assert_eq!((&**what, told, &**place), ("pass", &json!(class), got.header("x-unfazed-why")));
        }
    }
}

#[tokio::test]
async fn what_was_cut_or_refused_and_what_cannot_be_known_passes() {
    let chat = &DIALECTS[0];
    let cut = (chat.says)("{\"total\":").replace(r#""stop""#, r#""length""#);
    let refused = (chat.says)("x").replace(r#""content":"x""#, r#""content":null,"refusal":"I cannot.""#);
    let missing = json!({"$ref": "#/$defs/nowhere"});
    let hostile = json!({"type": "object", "properties": {"n": {"pattern": "(?<=a)b"}}});
    let schemas = [missing, hostile, json!({"type": "no such type"}), json!(17)];
    let cases = [((chat.ask_form)(), cut), ((chat.ask_form)(), refused)].into_iter();
    let odd = schemas.iter().map(|schema| {
        let mut ask = (chat.ask)();
        ask["tools"][0]["function"]["parameters"] = schema.clone();
        (ask, (chat.calls)("look", "{}"))
    });
    let forms = schemas.iter().map(|schema| {
        let mut ask = (chat.ask_form)();
        ask["response_format"]["json_schema"]["schema"] = schema.clone();
        (ask, (chat.says)("no JSON"))
    });
    let mut several = (chat.ask_form)();
    several["n"] = json!(2);
    for (ask, answer) in cases.chain(odd).chain(forms).chain([(several, (chat.says)("no JSON"))]) {
        let (gateway, _upstream) = gateway(chat, &asks(), std::slice::from_ref(&answer));
        let got = asked(&gateway, chat, ask.clone()).await;
        assert_eq!((got.status, &*got.body, got.told()), (200, &*answer, ("1", "main", "")), "{ask}");
    }
}

#[tokio::test]
async fn the_client_of_another_dialect_gets_and_sends_the_same() {
    for (client, model_of) in [(1, 0), (0, 1), (2, 1), (3, 0), (1, 2), (0, 3)] {
        let (client, model_of) = (&DIALECTS[client], &DIALECTS[model_of]);
        let good = (model_of.calls)("look", r#"{"n":"7"}"#);
        let (gateway, upstream) = gateway(model_of, &asks(), &[(model_of.calls)("look", "{}"), good]);
        let got = asked(&gateway, client, (client.ask)()).await;
        assert_eq!((dialect_call(client, &got), got.told()), (json!({"n": 7}), ("2", "main", "")));
        assert!(upstream.bodies()[1].contains("`n` is missing"), "{:?}", upstream.bodies());
        // What never holds is what the client gets.
        let (gateway, _upstream) = self::gateway(model_of, &asks(), &[(model_of.calls)("look", "{}")]);
        let got = asked(&gateway, client, (client.ask)()).await;
        assert_eq!((dialect_call(client, &got), got.told()), (json!({}), ("2", "main", "invalid_args")));
        let answers = [(model_of.says)("{}"), (model_of.says)("```\n{\"total\": 2}\n```")];
        let (gateway, _upstream) = self::gateway(model_of, &asks(), &answers);
        let got = asked(&gateway, client, (client.ask_form)()).await;
        assert_eq!(got.json().pointer(client.text), Some(&json!(r#"{"total":2}"#)), "{got:?}");
        assert_eq!(got.told(), ("2", "main", ""));
    }
}

fn dialect_call(dialect: &Dialect, got: &Answer) -> Value {
    assert_eq!(got.status, 200, "{got:?}");
    (dialect.called)(&got.json()).1
}

/// What the next model is sent, of another dialect, when the first one has called with arguments that do not hold.
async fn corrected_by_another(arguments: &str) -> String {
    let (chat, messages) = (&DIALECTS[0], &DIALECTS[1]);
    let first = Upstream::start([Reply::json(200, "", &(chat.calls)("look", arguments))]);
    let next = Upstream::start([Reply::json(200, "", &(messages.calls)("look", r#"{"n":7}"#))]);
    let models = [model("main", "openai", &first), model("spare", "anthropic", &next)].concat();
    let file = format!("models:\n{models}routes: {{main: [main, spare]}}\n");
    let policy = asks() + "turn: {targets: {fallback: attempt}}\n";
    let gateway = Gateway::under(&policy, &file, &[]);
    let got = asked(&gateway, chat, (chat.ask)()).await;
    assert_eq!((dialect_call(chat, &got), got.told()), (json!({"n": 7}), ("2", "spare", "")));
    next.bodies()[0].clone()
}

#[tokio::test]
async fn the_correction_goes_to_whichever_model_is_next() {
    let sent = corrected_by_another("{}").await;
    assert!(sent.contains("`n` is missing"), "{sent}");
}

/// Chunks of a chat that calls a tool, behind a text if there is one.
fn chunks(text: &str, arguments: &str) -> String {
    let text = json!({"choices": [{"index": 0, "delta": {"role": "assistant", "content": text}}]});
    let call =
        json!({"index": 0, "id": "a", "type": "function", "function": {"name": "look", "arguments": ""}});
    let begun = json!({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]});
    let (one, other) = arguments.split_at(arguments.len() / 2);
    let more = |piece: &str| json!({"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}}]});
    let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]});
    format!(
        "data: {text}\n\ndata: {begun}\n\ndata: {}\n\ndata: {}\n\ndata: {end}\n\ndata: [DONE]\n\n",
        more(one),
        more(other)
    )
}

fn text_chunks(text: &str) -> String {
    let text = json!({"choices": [{"index": 0, "delta": {"role": "assistant", "content": text}}]});
    let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
    format!("data: {text}\n\ndata: {end}\n\ndata: [DONE]\n\n")
}

fn streamed(mut ask: Value) -> Value {
    ask["stream"] = json!(true);
    ask
}

#[tokio::test]
async fn a_stream_of_which_nothing_is_out_is_corrected() {
    let chat = &DIALECTS[0];
    let (wrong, good) = (chunks("", "{}"), chunks("", r#"{"n":7}"#));
    // Many local models write blank lines first.
    for wrong in [&wrong, &chunks("\n\n", "{}")] {
        let upstream = Upstream::start([Reply::events(wrong), Reply::events(&good)]);
        let gateway = Gateway::under(&asks(), &one("openai", &upstream), &[]);
        let got = asked(&gateway, chat, streamed((chat.ask)())).await;
        assert_eq!((got.status, &*got.body, got.told()), (200, &*good, ("2", "main", "")));
        assert!(upstream.bodies()[1].contains("`n` is missing"));
    }
    // Twice: it passes as it came.
    let upstream = Upstream::start([Reply::events(&wrong)]);
    let gateway = Gateway::under(&asks(), &one("openai", &upstream), &[]);
    let got = asked(&gateway, chat, streamed((chat.ask)())).await;
    assert_eq!((got.status, &*got.body, got.told()), (200, &*wrong, ("2", "main", "invalid_args")));
    // What is JSON by a form is held back, too.
    let (wrong, good) = (text_chunks("{}"), text_chunks(r#"{"total":2}"#));
    let upstream = Upstream::start([Reply::events(&wrong), Reply::events(&good)]);
    let gateway = Gateway::under(&asks(), &one("openai", &upstream), &[]);
    let got = asked(&gateway, chat, streamed((chat.ask_form)())).await;
    assert_eq!((got.status, &*got.body, got.told()), (200, &*good, ("2", "main", "")));
}

/// What the chunks of a chat say: the text, the name and the arguments of the call.
fn assembled(stream: &str) -> [String; 3] {
    let events =
        stream.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|data| *data != "[DONE]");
    let events: Vec<Value> = events.map(|data| serde_json::from_str(data).unwrap()).collect();
    ["content", "tool_calls/0/function/name", "tool_calls/0/function/arguments"].map(|field| {
        let pointer = format!("/choices/0/delta/{field}");
        events.iter().filter_map(|event| event.pointer(&pointer)?.as_str()).collect()
    })
}

#[tokio::test]
async fn calls_of_a_stream_are_repaired_behind_a_text_that_is_out() {
    let chat = &DIALECTS[0];
    for (text, arguments) in [("", "{'n':7}"), ("I look.", r#"{"n":"7"}"#)] {
        let upstream = Upstream::start([Reply::events(&chunks(text, arguments))]);
        let gateway = Gateway::under(POLICY, &one("openai", &upstream), &[]);
        let got = asked(&gateway, chat, streamed((chat.ask)())).await;
        assert_eq!((got.status, got.header("x-unfazed-attempts")), (200, "1"));
        assert_eq!(assembled(&got.body), [text, "look", r#"{"n":7}"#], "{}", got.body);
        assert!(got.body.ends_with("data: [DONE]\n\n"));
        // Headers may be out when the text is.
        assert!(!text.is_empty() || got.header("x-unfazed-repaired") == "answer=1");
        let decided = decisions(&gateway).await;
        assert!(matches!(&*decided, [(what, ..)] if what == "mend"), "{decided:?}");
    }
}

#[tokio::test]
async fn a_converted_stream_is_repaired_and_corrected() {
    let client = &DIALECTS[1];
    let upstream =
        Upstream::start([Reply::events(&chunks("", "{}")), Reply::events(&chunks("", r#"{"n":"7"}"#))]);
    let gateway = Gateway::under(&asks(), &one("openai", &upstream), &[]);
    let got = asked(&gateway, client, streamed((client.ask)())).await;
    assert!(got.body.contains(r#"{\"n\":7}"#) && got.body.contains("message_stop"), "{got:?}");
    assert_eq!(got.told(), ("2", "main", ""));
    let answers = [text_chunks("{}"), text_chunks("```json\n{\"total\": 2}\n```")];
    let upstream = Upstream::start(answers.iter().map(|events| Reply::events(events)));
    let gateway = Gateway::under(&asks(), &one("openai", &upstream), &[]);
    let got = asked(&gateway, client, streamed((client.ask_form)())).await;
    assert!(got.body.contains(r#"{\"total\":2}"#) && !got.body.contains("```"), "{got:?}");
    assert_eq!(got.told(), ("2", "main", ""));
}

#[tokio::test]
async fn a_stream_whose_text_is_out_passes_and_is_not_delayed() {
    let chat = &DIALECTS[0];
    let wrong = chunks("I look.", "{}");
    let upstream = Upstream::start([Reply::events(&wrong)]);
    let gateway = Gateway::under(&asks(), &one("openai", &upstream), &[]);
    let got = asked(&gateway, chat, streamed((chat.ask)())).await;
    assert_eq!((got.status, &*got.body, got.header("x-unfazed-attempts")), (200, &*wrong, "1"));
    let decided = decisions(&gateway).await;
    assert!(
        matches!(&*decided, [(what, class, _)] if what == "pass" && class == "invalid_args"),
        "{decided:?}"
    );
    // The text comes while the call is still to come; where nothing is repaired, the call does as well.
    let as_it_comes = format!(
        "{POLICY}turn: {{repair_json: false, calls: {{unpack_arguments: false, correct_names: false}}}}\n"
    );
    for (policy, begun, until) in [
        (asks(), chunks("I look.", "{}"), "tool_calls"),
        (POLICY.to_owned(), chunks("I look.", "{}"), "tool_calls"),
        (as_it_comes, chunks("", "{}"), "finish_reason"),
    ] {
        let sent = &begun[..begun.find("finish_reason").unwrap()];
        let sent = &sent[..sent.rfind("data: ").unwrap()];
        let begun = &begun[..begun.find(until).unwrap()];
        let begun = &begun[..begun.rfind("data: ").unwrap()];
        let upstream = Upstream::start([Reply::open(sent)]);
        let gateway = Gateway::under(&policy, &one("openai", &upstream), &[]);
        let url = format!("{}{}", gateway.url, chat.path);
        let mut answer =
            gateway.http.post(url).body(streamed((chat.ask)()).to_string()).send().await.unwrap();
        let mut seen = Vec::new();
        while seen.len() < begun.len() {
            seen.extend(answer.chunk().await.unwrap().unwrap());
        }
        assert_eq!(String::from_utf8(seen).unwrap(), begun);
    }
}

#[tokio::test]
async fn both_answers_count_for_the_key() {
    let chat = &DIALECTS[0];
    let answers = [(chat.calls)("look", "{}"), (chat.calls)("look", r#"{"n":7}"#)];
    let upstream = Upstream::start(answers.iter().map(|body| Reply::json(200, "", body)));
    let keys =
        format!("keys: {{desk: {{sha256: {SESAME}, admin: true, budget: {{per: 1d, tokens: 1000}}}}}}\n");
    let gateway = Gateway::under(&asks(), &(one("openai", &upstream) + &keys), &[]);
    let headers = [("authorization", "Bearer sesame")];
    let got = gateway.post(CHAT, &headers, (chat.ask)().to_string()).await;
    assert_eq!((got.status, got.told()), (200, ("2", "main", "")), "{got:?}");
    let status = gateway.get("/status.json", &headers).await.json();
    assert_eq!(status["keys"][0]["budget"]["limits"][0]["used"], 100, "{}", status["keys"]);
}

#[tokio::test]
async fn an_answer_that_is_not_passed_on_counts_whatever_follows_it() {
    let chat = &DIALECTS[0];
    let dear = (chat.calls)("look", "{}").replace(":20", ":5000");
    let silent = (chat.calls)("look", r#"{"n":7}"#).replace("\"usage\"", "\"spent\"");
    let lost = Reply::json(400, "", r#"{"error":{"message":"no"}}"#);
    for (next, status) in [(Reply::json(200, "", &silent), 200), (lost, 400)] {
        let upstream = Upstream::start([Reply::json(200, "", &dear), next]);
        let keys =
            format!("keys: {{desk: {{sha256: {SESAME}, admin: true, budget: {{per: 1d, tokens: 9000}}}}}}\n");
        let gateway = Gateway::under(&asks(), &(one("openai", &upstream) + &keys), &[]);
        let headers = [("authorization", "Bearer sesame")];
        let got = gateway.post(CHAT, &headers, (chat.ask)().to_string()).await;
        assert_eq!(got.status, status, "{got:?}");
        let page = gateway.get("/status.json", &headers).await.json();
        let used = page["keys"][0]["budget"]["limits"][0]["used"].as_u64().unwrap();
        assert!((5030..5300).contains(&used), "{used}");
    }
}

#[tokio::test]
async fn a_correction_has_no_key_of_another_provider() {
    let sent = corrected_by_another(r#"{"n":"sk-upstream"}"#).await;
    assert!(sent.contains("[redacted]") && !sent.contains("sk-upstream"), "{sent}");
}

#[tokio::test]
async fn a_repair_changes_no_number_and_more_tools_than_providers_take_are_not_looked_at() {
    for dialect in &DIALECTS {
        let around = (dialect.calls)("look", r#"{"n":"7","id":"4711"}"#);
        let around = around.replacen('{', r#"{"x":123456789012345678901234,"y":0.10000000000000000001,"#, 1);
        // As a number of the arguments, be they a text or not.
        let within = around.replacen(r#"\"4711\""#, "123456789012345678901234", 1);
        let within = within.replacen(r#""4711""#, "123456789012345678901234", 1);
        let repaired = |answer: &str| {
            let text = answer.replacen(r#"\"n\":\"7\""#, r#"\"n\":7"#, 1);
            text.replacen(r#""n":"7""#, r#""n":7"#, 1)
        };
        // No reader of the text of arguments has all digits of that number, so it is left alone.
        let is_text = around.contains(r#"\"4711\""#);
        let after = if is_text { (within.clone(), "invalid_args") } else { (repaired(&within), "") };
        for (answer, (after, class)) in [(&around, (repaired(&around), "")), (&within, after)] {
            let (gateway, _upstream) = gateway(dialect, POLICY, std::slice::from_ref(answer));
            let got = asked(&gateway, dialect, (dialect.ask)()).await;
            assert_eq!((got.status, &*got.body, got.told()), (200, &*after, ("1", "main", class)));
        }
    }
    let chat = &DIALECTS[0];
    let mut ask = (chat.ask)();
    for number in 0..1024 {
        let tool = json!({"type": "function", "function": {"name": format!("t{number}"), "parameters": {}}});
        ask["tools"].as_array_mut().unwrap().push(tool);
    }
    let (gateway, _upstream) = gateway(chat, &asks(), &[(chat.calls)("look", "{}")]);
    let got = asked(&gateway, chat, ask).await;
    assert_eq!((got.status, got.told()), (200, ("1", "main", "")), "{got:?}");
}

#[tokio::test]
async fn the_limits_of_the_policy_hold_for_corrections() {
    let chat = &DIALECTS[0];
    let policy = asks().replace("retry: {", "retry: {max_attempts: 1, ");
    let wrong = (chat.calls)("look", "{}");
    let (gateway, upstream) = gateway(chat, &policy, std::slice::from_ref(&wrong));
    let got = asked(&gateway, chat, (chat.ask)()).await;
    assert_eq!((got.status, &*got.body, got.told()), (200, &*wrong, ("1", "main", "invalid_args")));
    assert!(got.header("x-unfazed-why").starts_with("policy.yaml:"), "{got:?}");
    assert_eq!((got.header("x-should-retry"), upstream.bodies().len()), ("false", 1));
}
