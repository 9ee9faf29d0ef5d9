//! Conversations that are too long for a window, as a provider gets them.

use serde_json::{Value, json};

use super::{Answer, CHAT, Gateway, MESSAGES, POLICY, RESPONSES, Reply, Upstream, model, one, said};

const GEMINI: &str = "/v1beta/models/main:generateContent";
const MESSAGE: &str = r#"{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"hello"}],"stop_reason":"end_turn","usage":{"input_tokens":3,"output_tokens":2}}"#;
const RESPONSE: &str = r#"{"id":"r1","object":"response","status":"completed","output":[{"type":"message","id":"m1","role":"assistant","status":"completed","content":[{"type":"output_text","text":"hello","annotations":[]}]}],"usage":{"input_tokens":3,"output_tokens":2,"total_tokens":5}}"#;
const CONTENT: &str = r#"{"candidates":[{"content":{"role":"model","parts":[{"text":"hello"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":2,"totalTokenCount":5}}"#;
const CHUNKS: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hello\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
/// What `OpenAI` says of a request that is too large.
const TOO_LONG: &str = r#"{"error":{"message":"This model's maximum context length is 3000 tokens. However, your messages resulted in 4500 tokens. Please reduce the length of the messages.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#;

/// A dialect, where its requests go, and what its provider says.
struct Dialect {
    api: &'static str,
    path: &'static str,
    answer: &'static str,
    /// The refusal of a request that is too large.
    refusal: &'static str,
}

const DIALECTS: [Dialect; 4] = [
    Dialect { api: "openai", path: CHAT, answer: "", refusal: TOO_LONG },
    Dialect {
        api: "responses",
        path: RESPONSES,
        answer: RESPONSE,
        refusal: r#"{"error":{"message":"Your input exceeds the context window of this model. Please adjust your input and try again.","type":"invalid_request_error","param":"input","code":"context_length_exceeded"}}"#,
    },
    Dialect {
        api: "anthropic",
        path: MESSAGES,
        answer: MESSAGE,
        refusal: r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 4500 tokens > 3000 maximum"}}"#,
    },
    Dialect {
        api: "gemini",
        path: GEMINI,
        answer: CONTENT,
        refusal: r#"{"error":{"code":400,"message":"The input token count (4500) exceeds the maximum number of tokens allowed (3000).","status":"INVALID_ARGUMENT"}}"#,
    },
];

impl Dialect {
    fn answer(&self) -> Reply {
        let answer = if self.answer.is_empty() { said("hello") } else { self.answer.to_owned() };
        Reply::json(200, "", &answer)
    }

    /// A request of so many turns, each with a call and its result.
    fn request(&self, turns: usize) -> String {
        let pad = "some words ".repeat(30);
        let mut list = Vec::new();
        for number in 0..turns {
            let (go, result) = (format!("go {number} {pad}"), format!("seen {number} {pad}"));
            let (id, name) = (format!("call_{number}"), "look");
            list.extend(match self.api {
                "openai" => vec![
                    json!({"role": "user", "content": go}),
                    json!({"role": "assistant", "tool_calls": [{"id": id, "type": "function", "function": {"name": name, "arguments": "{}"}}]}),
                    json!({"role": "tool", "tool_call_id": id, "content": result}),
                ],
                "responses" => vec![
                    json!({"role": "user", "content": go}),
                    json!({"type": "function_call", "call_id": id, "name": name, "arguments": "{}"}),
                    json!({"type": "function_call_output", "call_id": id, "output": result}),
                ],
                "anthropic" => vec![
                    json!({"role": "user", "content": go}),
                    json!({"role": "assistant", "content": [{"type": "tool_use", "id": id, "name": name, "input": {}}]}),
                    json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": result}]}),
                ],
                _ => vec![
                    json!({"role": "user", "parts": [{"text": go}]}),
                    json!({"role": "model", "parts": [{"functionCall": {"name": name, "args": {}}}]}),
                    json!({"role": "user", "parts": [{"functionResponse": {"name": name, "response": {"output": result}}}]}),
                ],
            });
        }
        let field = match self.api {
            "openai" | "anthropic" => "messages",
            "responses" => "input",
            _ => return json!({"contents": list}).to_string(),
        };
        json!({"model": "main", "max_tokens": 200, field: list}).to_string()
    }
}

/// The calls and the results of a request, by their ids, or else their names.
fn pairs(body: &str) -> (Vec<String>, Vec<String>) {
    let body: Value = serde_json::from_str(body).unwrap();
    let (mut calls, mut results) = (Vec::new(), Vec::new());
    collect(&body, &mut |object| {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let kind = object.get("type").and_then(Value::as_str);
        match (kind, object.get("role").and_then(Value::as_str)) {
            (Some("function" | "tool_use"), _) => calls.push(text(&object["id"])),
            (Some("function_call"), _) => calls.push(text(&object["call_id"])),
            (_, Some("tool")) => results.push(text(&object["tool_call_id"])),
            (Some("function_call_output"), _) => results.push(text(&object["call_id"])),
            (Some("tool_result"), _) => results.push(text(&object["tool_use_id"])),
            _ => {}
        }
        calls.extend(object.get("functionCall").map(|call| text(&call["name"])));
        results.extend(object.get("functionResponse").map(|result| text(&result["name"])));
    });
    (calls, results)
}

/// Every object within.
fn collect(value: &Value, seen: &mut impl FnMut(&Value)) {
    match value {
        Value::Array(values) => values.iter().for_each(|value| collect(value, seen)),
        Value::Object(fields) => {
            seen(value);
            fields.values().for_each(|value| collect(value, seen));
        }
        _ => {}
    }
}

/// A window of 3000 tokens, of which 2740 are for messages.
const SMALL: &str = "version: 1
models:
  '*':
    retry: {max_attempts: 3, backoff: {kind: constant, delay: 1ms, jitter: none}}
  main: {context_window: 3000, output_reserve: 200}
";

fn told(answer: &Answer) -> (u16, bool, &str) {
    let reduced = !answer.header("x-unfazed-reduced").is_empty();
    (answer.status, reduced, answer.header("x-unfazed-attempts"))
}

/// The request as it goes out if nothing is done about it.
fn whole(request: &str, name: &str) -> String {
    request.replace(r#""model":"main""#, &format!(r#""model":"real-{name}""#))
}

#[tokio::test]
async fn what_is_too_long_for_the_window_is_reduced_before_it_goes_out() {
    for dialect in DIALECTS {
        let upstream = Upstream::start([dialect.answer()]);
        let gateway = Gateway::under(SMALL, &one(dialect.api, &upstream), &[]);
        let request = dialect.request(20);
        let answer = gateway.post(dialect.path, &[], request.clone()).await;
        assert_eq!(told(&answer), (200, true, "1"), "{}: {answer:?}", dialect.api);
        let sent = upstream.bodies().pop().unwrap();
        let (calls, results) = pairs(&sent);
        assert!(!calls.is_empty() && calls.len() < 20 && calls == results, "{}: {sent}", dialect.api);
        // The end has the bytes that the client sent.
        assert!(sent.ends_with(&request[request.len() - 2000..]), "{}: {sent}", dialect.api);
        let status = gateway.get("/status.json", &[]).await.json();
        let decision = &status["decisions"][0];
        assert_eq!((&decision["what"], &decision["target"]), (&json!("reduce"), &json!("main")));
        let places: Vec<&str> = decision["because"]
            .as_array()
            .unwrap()
            .iter()
            .map(|why| why["place"].as_str().unwrap())
            .collect();
        assert!(places.contains(&"policy.yaml:5:26"), "{decision}");
        // What fits passes byte by byte, and the gateway's run has not ended.
        let short = dialect.request(10);
        let answer = gateway.post(dialect.path, &[], short.clone()).await;
        assert_eq!(told(&answer), (200, false, "1"), "{}: {answer:?}", dialect.api);
        assert_eq!(upstream.bodies().pop().unwrap(), whole(&short, "main"));
    }
}

#[tokio::test]
async fn what_the_client_says_of_the_answer_takes_the_place_of_the_reserve() {
    for dialect in DIALECTS {
        // A long answer leaves less room, and a short one has room in a window that the reserve would fill.
        for (reserve, tokens, turns, reduced) in
            [(200, 1500, 10, true), (3000, 200, 20, true), (3000, 200, 10, false)]
        {
            let limit = match dialect.api {
                "openai" => format!(r#""max_completion_tokens":{tokens}"#),
                "responses" => format!(r#""max_output_tokens":{tokens}"#),
                "anthropic" => format!(r#""max_tokens":{tokens}"#),
                _ => format!(r#""generationConfig":{{"maxOutputTokens":{tokens}}}"#),
            };
            let request = dialect.request(turns).replace("\"max_tokens\":200,", "");
            let request = request.replacen('{', &format!("{{{limit},"), 1);
            let policy = SMALL.replace("output_reserve: 200", &format!("output_reserve: {reserve}"));
            let upstream = Upstream::start([dialect.answer()]);
            let gateway = Gateway::under(&policy, &one(dialect.api, &upstream), &[]);
            let answer = gateway.post(dialect.path, &[], request).await;
            assert_eq!(told(&answer), (200, reduced, "1"), "{} {reserve} {tokens}: {answer:?}", dialect.api);
        }
    }
}

#[tokio::test]
async fn what_a_provider_refuses_for_its_size_is_reduced_and_sent_again_once() {
    for dialect in DIALECTS {
        let upstream = Upstream::start([Reply::json(400, "", dialect.refusal), dialect.answer()]);
        let gateway = Gateway::start(&one(dialect.api, &upstream));
        let request = dialect.request(20);
        let answer = gateway.post(dialect.path, &[], request.clone()).await;
        assert_eq!(told(&answer), (200, true, "2"), "{}: {answer:?}", dialect.api);
        let [first, second] = &upstream.bodies()[..] else { panic!("{:?}", upstream.bodies()) };
        assert_eq!(first, &whole(&request, "main"));
        let (calls, results) = pairs(second);
        assert!(calls.len() < 20 && calls == results, "{}: {second}", dialect.api);
        // A second refusal is the client's.
        let upstream = Upstream::start([Reply::json(400, "", dialect.refusal)]);
        let gateway = Gateway::start(&one(dialect.api, &upstream));
        let answer = gateway.post(dialect.path, &[], request).await;
        assert_eq!((answer.status, &*answer.body), (400, dialect.refusal), "{}", dialect.api);
        assert_eq!(answer.told(), ("2", "main", "context_overflow"));
        assert_eq!(answer.header("x-should-retry"), "false");
    }
}

#[tokio::test]
async fn a_stream_is_reduced_too() {
    let refusals = [vec![], vec![Reply::json(400, "", TOO_LONG)]];
    for (policy, refusals) in [SMALL, POLICY].into_iter().zip(refusals) {
        let attempts = (refusals.len() + 1).to_string();
        let upstream = Upstream::start(refusals.into_iter().chain([Reply::events(CHUNKS)]));
        let gateway = Gateway::under(policy, &one("openai", &upstream), &[]);
        let request = DIALECTS[0].request(20).replacen('{', "{\"stream\":true,", 1);
        let answer = gateway.post(CHAT, &[], request).await;
        assert_eq!(told(&answer), (200, true, &*attempts), "{answer:?}");
        assert!(answer.body.contains("hello") && answer.body.ends_with("[DONE]\n\n"), "{answer:?}");
    }
}

#[tokio::test]
async fn a_model_with_a_larger_window_gets_the_whole_of_it() {
    let request = DIALECTS[0].request(20);
    // Both windows are known; or neither is, and the first model says that its own is too small.
    let known = format!("{SMALL}  spare: {{context_window: 100000}}\n");
    for (policy, first) in [(&*known, said("hello")), (POLICY, TOO_LONG.to_owned())] {
        let status = if policy == POLICY { 400 } else { 200 };
        let (main, spare) =
            (Upstream::start([Reply::json(status, "", &first)]), Upstream::start([DIALECTS[0].answer()]));
        let models = model("main", "openai", &main) + &model("spare", "openai", &spare);
        let file = format!("models:\n{models}routes: {{main: [main, spare]}}\n");
        let gateway = Gateway::under(policy, &file, &[]);
        let answer = gateway.post(CHAT, &[], request.clone()).await;
        assert_eq!((answer.status, answer.header("x-unfazed-target")), (200, "spare"), "{answer:?}");
        assert_eq!(answer.header("x-unfazed-reduced"), "");
        assert_eq!(spare.bodies(), [whole(&request, "spare")]);
        // It is the models that are asked, and the one that is too small only once.
        assert_eq!(main.bodies().len(), usize::from(status == 400));
        gateway.post(CHAT, &[], request.clone()).await;
        assert_eq!((main.bodies().len(), spare.bodies().len()), (usize::from(status == 400), 2));
    }
}

#[tokio::test]
async fn a_converted_request_is_reduced_before() {
    for client in DIALECTS {
        let (api, answer) =
            if client.api == "anthropic" { (0, said("hello")) } else { (2, MESSAGE.to_owned()) };
        let upstream = Upstream::start([Reply::json(200, "", &answer)]);
        let mut request = client.request(20);
        if client.api != "anthropic" {
            request = request.replace("\"max_tokens\":200,", "");
        }
        let file = format!(
            "models:\n  main: {{api: {}, base_url: '{}', model: m, max_tokens: 9, api_key: {{env: UPSTREAM_KEY}}}}\nroutes: {{main: main}}\n",
            DIALECTS[api].api,
            upstream.base_url()
        );
        let gateway = Gateway::under(SMALL, &file, &[]);
        let answer = gateway.post(client.path, &[], request).await;
        assert_eq!(told(&answer), (200, true, "1"), "{}: {answer:?}", client.api);
        let sent = upstream.bodies().pop().unwrap();
        let (calls, results) = pairs(&sent);
        assert!(!calls.is_empty() && calls.len() < 20 && calls == results, "{}: {sent}", client.api);
    }
}

#[tokio::test]
async fn without_steps_nothing_is_reduced_and_the_provider_decides() {
    let request = DIALECTS[0].request(20);
    let off = format!("{SMALL}context: {{reduce: []}}\n");
    // A step that comes to nothing: all of it is to stay.
    let none = format!("{SMALL}context: {{reduce: [{{kind: drop, keep_last: 100}}]}}\n");
    let never = format!("{POLICY}context: {{compact_on_overflow: false}}\n");
    for (policy, requests) in [(off, 2), (none, 2), (never, 1)] {
        let upstream = Upstream::start([Reply::json(400, "", TOO_LONG)]);
        let gateway = Gateway::under(&policy, &one("openai", &upstream), &[]);
        for _ in 0..requests {
            let answer = gateway.post(CHAT, &[], request.clone()).await;
            assert_eq!((told(&answer), &*answer.body), ((400, false, "1"), TOO_LONG), "{policy}");
            assert_eq!(answer.header("x-should-retry"), "false");
        }
        assert_eq!(upstream.bodies()[0], whole(&request, "main"));
    }
}

#[tokio::test]
async fn a_client_that_asks_for_too_long_an_answer_changes_nothing_for_others() {
    let refusal = r#"{"type":"error","error":{"type":"invalid_request_error","message":"input length and `max_tokens` exceed context limit: 1000 + 199500 > 200000, decrease input length or `max_tokens` and try again"}}"#;
    let [.., messages, _] = DIALECTS;
    let upstream = Upstream::start([Reply::json(400, "", refusal), messages.answer()]);
    let gateway = Gateway::start(&one("anthropic", &upstream));
    let answer = gateway.post(MESSAGES, &[], messages.request(5)).await;
    assert_eq!((told(&answer), &*answer.body), ((400, false, "1"), refusal));
    let answer = gateway.post(MESSAGES, &[], messages.request(20)).await;
    assert_eq!(told(&answer), (200, false, "1"), "{answer:?}");
    assert_eq!(upstream.bodies()[1], whole(&messages.request(20), "main"));
}

#[tokio::test]
async fn a_broken_conversation_is_repaired_and_reduced() {
    let upstream = Upstream::start([DIALECTS[0].answer()]);
    let gateway = Gateway::under(SMALL, &one("openai", &upstream), &[]);
    let orphan = r#""messages":[{"role":"tool","tool_call_id":"gone","content":"1"},"#;
    let request = DIALECTS[0].request(20).replace(r#""messages":["#, orphan);
    let answer = gateway.post(CHAT, &[], request).await;
    assert_eq!(told(&answer), (200, true, "1"), "{answer:?}");
    assert_eq!(answer.header("x-unfazed-repaired"), "removed=1");
    let sent = upstream.bodies().pop().unwrap();
    let (calls, results) = pairs(&sent);
    assert!(!sent.contains("gone") && !calls.is_empty() && calls == results, "{sent}");
}

/// An answer whose provider says that the request had so many tokens.
fn counting(tokens: u32) -> Reply {
    Reply::json(
        200,
        "",
        &said("hello").replace("\"prompt_tokens\":3", &format!("\"prompt_tokens\":{tokens}")),
    )
}

#[tokio::test]
async fn a_provider_that_counts_too_few_tokens_does_not_mislead() {
    let [chat, ..] = DIALECTS;
    // The first says a part that cannot be true, of the request that it has got. The second one's can, until it is refuted.
    for (counted, refusals) in [(3, 0), (750, 1)] {
        let refused = vec![Reply::json(400, "", TOO_LONG); refusals];
        let answers = [counting(counted)].into_iter().chain(refused).chain([counting(counted)]);
        let upstream = Upstream::start(answers);
        let gateway = Gateway::under(SMALL, &one("openai", &upstream), &[]);
        let answer = gateway.post(CHAT, &[], chat.request(10)).await;
        assert_eq!(told(&answer), (200, false, "1"), "{answer:?}");
        let answer = gateway.post(CHAT, &[], chat.request(20)).await;
        assert_eq!(told(&answer), (200, true, if refusals == 0 { "1" } else { "2" }), "{answer:?}");
        // Four bytes a token fit into the window.
        let sent = upstream.bodies().pop().unwrap();
        assert!(sent.len() < 3000 * 4, "{} bytes: {sent}", sent.len());
    }
}
