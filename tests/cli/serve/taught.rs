//! What the refusals of a server teach of requests that are converted for it.

use serde_json::{Value, json};

use super::{Gateway, MESSAGES, Reply, Upstream, one, said};

fn request(more: &Value) -> String {
    let mut body = json!({"model": "main", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]});
    for (field, value) in more.as_object().unwrap() {
        body[field] = value.clone();
    }
    body.to_string()
}

fn refusal(message: &str) -> Reply {
    let error = json!({"error": {"message": message, "type": "invalid_request_error"}});
    Reply::json(400, "", &error.to_string())
}

#[tokio::test]
async fn a_form_that_a_server_has_taught_holds_for_all_requests_that_follow() {
    let upstream = Upstream::start([
        refusal(
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
        ),
        refusal("Unsupported value: 'temperature' does not support 0.5 with this model."),
        Reply::json(200, "", &said("hello")),
    ]);
    let gateway = Gateway::start(&one("openai", &upstream));
    let got = gateway.post(MESSAGES, &[], request(&json!({"temperature": 0.5}))).await;
    // Refusals of the form are no failed attempts.
    assert_eq!((got.status, got.told()), (200, ("1", "main", "")), "{got:?}");
    assert_eq!(got.header("x-unfazed-left-out"), "temperature");
    let got =
        gateway.post(MESSAGES, &[], request(&json!({"temperature": 0.7, "stop_sequences": ["x"]}))).await;
    assert_eq!((got.status, got.header("x-unfazed-left-out")), (200, "temperature"));
    let got = gateway.post(MESSAGES, &[], request(&json!({}))).await;
    assert_eq!((got.status, got.header("x-unfazed-left-out")), (200, ""));
    let sent: Vec<Value> = upstream.bodies().iter().map(|body| serde_json::from_str(body).unwrap()).collect();
    let options = |sent: &Value| {
        ["max_tokens", "max_completion_tokens", "temperature"].map(|option| sent[option].clone())
    };
    let sent: Vec<[Value; 3]> = sent.iter().map(options).collect();
    let learned = [Value::Null, json!(9), Value::Null];
    assert_eq!(sent[0], [json!(9), Value::Null, json!(0.5)]);
    assert_eq!(sent[1], [Value::Null, json!(9), json!(0.5)]);
    assert_eq!(sent[2..], [learned.clone(), learned.clone(), learned]);
}

#[tokio::test]
async fn instructions_are_said_by_the_user_where_a_model_has_no_role_for_them() {
    let upstream =
        Upstream::start([refusal("System role not supported"), Reply::json(200, "", &said("hello"))]);
    let gateway = Gateway::start(&one("openai", &upstream));
    for asked in [2, 3] {
        let got = gateway.post(MESSAGES, &[], request(&json!({"system": "Be brief."}))).await;
        assert_eq!(
            (got.status, got.told(), upstream.seen().len()),
            (200, ("1", "main", ""), asked),
            "{got:?}"
        );
    }
    let last: Value = serde_json::from_str(upstream.bodies().last().unwrap()).unwrap();
    assert_eq!(last["messages"], json!([{"role": "user", "content": "Be brief.\n\nhi"}]));
}

#[tokio::test]
async fn a_server_that_refuses_every_form_is_asked_each_once() {
    let upstream = Upstream::start([refusal("Unsupported parameter: 'max_tokens' is not supported.")]);
    let gateway = Gateway::start(&one("openai", &upstream));
    let got = gateway.post(MESSAGES, &[], request(&json!({}))).await;
    assert_eq!((got.status, got.told().0, upstream.seen().len()), (400, "1", 2), "{got:?}");
    let got = gateway.post(MESSAGES, &[], request(&json!({}))).await;
    assert_eq!((got.status, upstream.seen().len()), (400, 3), "{got:?}");
}

#[tokio::test]
async fn an_option_that_a_server_does_not_take_is_left_out_from_then_on() {
    let upstream = Upstream::start([
        refusal("Unrecognized request argument supplied: reasoning_effort"),
        refusal("Extra inputs are not permitted: body.user"),
        Reply::json(200, "", &said("hello")),
    ]);
    let gateway = Gateway::start(&one("openai", &upstream));
    let more = |effort: &str| json!({"output_config": {"effort": effort}, "metadata": {"user_id": "u1"}});
    let got = gateway.post(MESSAGES, &[], request(&more("high"))).await;
    let left_out = "metadata.user_id, output_config.effort";
    assert_eq!(
        (got.status, got.told(), got.header("x-unfazed-left-out")),
        (200, ("1", "main", ""), left_out)
    );
    let got = gateway.post(MESSAGES, &[], request(&more("high"))).await;
    assert_eq!((got.status, got.header("x-unfazed-left-out")), (200, left_out));
    // It may take another word.
    let got = gateway.post(MESSAGES, &[], request(&more("low"))).await;
    assert_eq!((got.status, got.header("x-unfazed-left-out")), (200, "metadata.user_id"));
    let sent: Vec<Value> = upstream.bodies().iter().map(|body| serde_json::from_str(body).unwrap()).collect();
    let options = |sent: &Value| ["reasoning_effort", "user"].map(|option| sent[option].clone());
    let sent: Vec<[Value; 2]> = sent.iter().map(options).collect();
    let null = Value::Null;
    assert_eq!(
        sent,
        [
            [json!("high"), json!("u1")],
            [null.clone(), json!("u1")],
            [null.clone(), null.clone()],
            [null.clone(), null.clone()],
            [json!("low"), null],
        ]
    );
    // What is wrong with the value is the client's to mend, and teaches nothing.
    let wrong = refusal("Invalid 'user': string too long.");
    let upstream = Upstream::start([wrong]);
    let gateway = Gateway::start(&one("openai", &upstream));
    let got = gateway.post(MESSAGES, &[], request(&more("high"))).await;
    assert_eq!((got.status, upstream.seen().len()), (400, 1), "{got:?}");
}

#[tokio::test]
async fn a_limit_of_tokens_and_a_form_that_a_model_does_not_have_are_lowered_and_left_out() {
    let upstream = Upstream::start([
        refusal("max_tokens is too large: 32000. This model supports at most 16384 completion tokens."),
        refusal("This response_format type is unavailable now"),
        Reply::json(200, "", &said("{}")),
    ]);
    let gateway = Gateway::start(&one("openai", &upstream));
    let form = json!({"type": "json_schema", "schema": {"type": "object", "properties": {}}});
    let more = json!({"max_tokens": 32000, "output_config": {"format": form}});
    for asked in [3, 4] {
        let got = gateway.post(MESSAGES, &[], request(&more)).await;
        // The refusals are no failed attempts.
        assert_eq!(
            (got.status, got.told(), upstream.seen().len()),
            (200, ("1", "main", ""), asked),
            "{got:?}"
        );
        assert_eq!(got.header("x-unfazed-left-out"), "output_config.format, max_tokens");
    }
    let last: Value = serde_json::from_str(upstream.bodies().last().unwrap()).unwrap();
    assert_eq!((&last["max_tokens"], last.get("response_format")), (&json!(16384), None));
}
