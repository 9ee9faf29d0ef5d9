//! Error bodies in every shape that providers send.

use super::*;
use proptest::prelude::*;
use serde_json::json;

fn facts(failure: &Failure) -> (Option<&str>, Option<&str>, &str) {
    (failure.code.as_deref(), failure.kind.as_deref(), &failure.message)
}

#[test]
fn every_shape_of_an_error_body() {
    type Row = (&'static str, Option<&'static str>, Option<&'static str>, &'static str);
    let table: &[Row] = &[
        (
            r#"{"error":{"message":"slow down","type":"tokens","param":null,"code":"rate_limit_exceeded"}}"#,
            Some("rate_limit_exceeded"),
            Some("tokens"),
            "slow down",
        ),
        (
            r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"},"request_id":"r"}"#,
            None,
            Some("overloaded_error"),
            "Overloaded",
        ),
        (
            r#"{"object":"error","message":"Unauthorized","type":"invalid_request_error","code":3230}"#,
            Some("3230"),
            Some("invalid_request_error"),
            "Unauthorized",
        ),
        (r#"{"error":"model 'x' not found"}"#, None, None, "model 'x' not found"),
        (r#"{"error":"denied","message":"no such project"}"#, None, None, "denied: no such project"),
        (
            r#"[{"error":{"code":429,"message":"Resource exhausted","status":"RESOURCE_EXHAUSTED"}}]"#,
            Some("429"),
            Some("RESOURCE_EXHAUSTED"),
            "Resource exhausted",
        ),
        (
            r#"{"error":{"code":502,"message":"Provider returned error","metadata":{"raw":"out of memory"}}}"#,
            Some("502"),
            None,
            "Provider returned error: out of memory",
        ),
        (r#"{"message":"Too many tokens"}"#, None, None, "Too many tokens"),
        (r#"{"detail":"Not Found"}"#, None, None, "Not Found"),
        (r#"{"detail":[{"msg":"field required"}]}"#, None, None, r#"[{"msg":"field required"}]"#),
        (r#"{"message":{"detail":[{"msg":"field required"}]}}"#, None, None, r#"[{"msg":"field required"}]"#),
        (r#""just text""#, None, None, "just text"),
        ("upstream connect error\n", None, None, "upstream connect error"),
        (
            "<html><head><title>502 Bad\n Gateway</title></head><body>nginx</body></html>",
            None,
            None,
            "502 Bad Gateway",
        ),
        ("<h1>Service <b>down</b></h1>", None, None, "Service down"),
        ("", None, None, ""),
        (r#"{"error":{"code":"x"}}"#, Some("x"), None, ""),
        ("42", None, None, "42"),
    ];
    for (body, code, kind, message) in table {
        let failure = Failure::from_body(body.as_bytes());
        assert_eq!(facts(&failure), (*code, *kind, *message), "{body}");
        assert_eq!(failure.class, None, "{body}");
    }
}

fn facts_of(failure: &Failure) -> &BodyFacts {
    failure.facts.as_deref().unwrap()
}

#[test]
fn what_a_router_was_told_by_the_provider_is_read() {
    let raw = json!({"error": {"message": "slow down", "type": "tokens", "code": "rate_limit_exceeded"}})
        .to_string();
    let body = json!({"error": {"code": 429, "message": "Provider returned error",
        "metadata": {"raw": raw, "provider_name": "OpenAI", "limit_source": "openrouter_in_flight_budget"}}});
    let failure = Failure::from_json(&body);
    assert_eq!(
        facts(&failure),
        (Some("rate_limit_exceeded"), Some("tokens"), "Provider returned error: slow down")
    );
    assert_eq!((failure.status, failure.evidence().provider), (Some(429), Some("OpenAI")));
    assert_eq!(failure.evidence().details, ["openrouter_in_flight_budget"]);
}

#[test]
fn a_wrapped_cause_is_found() {
    let cause = json!({"status": 429, "message": "slow down", "code": "insufficient_quota"});
    for body in [
        json!({"message": "call failed", "lastError": cause}),
        json!({"message": "call failed", "cause": {"response": cause}}),
        json!({"error": {"message": "call failed", "cause": {"cause": cause}}}),
        json!({"message": "call failed", "responseBody": json!({"error": cause}).to_string()}),
    ] {
        let failure = Failure::from_json(&body);
        assert_eq!(facts(&failure), (Some("insufficient_quota"), None, "call failed: slow down"), "{body}");
        assert_eq!(failure.status, Some(429), "{body}");
    }
    let text = json!({"error": {"code": 400, "message": json!({"error": {"code": 503, "message": "full", "status": "UNAVAILABLE"}}).to_string()}});
    assert_eq!(facts(&Failure::from_json(&text)), (Some("503"), Some("UNAVAILABLE"), "full"));
}

#[test]
fn the_words_of_detail_fields_are_kept() {
    let gemini = json!([{"error": {"code": 429, "message": "quota", "status": "RESOURCE_EXHAUSTED", "details": [
        {"@type": "type.googleapis.com/google.rpc.QuotaFailure",
         "violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier", "quotaValue": "50"}]},
        {"reason": "RATE_LIMIT_EXCEEDED", "metadata": {"quota_limit": "PerDay"}},
    ]}}]);
    let failure = Failure::from_json(&gemini);
    for word in ["GenerateRequestsPerDayPerProjectPerModel-FreeTier", "RATE_LIMIT_EXCEEDED", "PerDay"] {
        assert!(failure.evidence().details.iter().any(|known| known == word), "{word}");
    }
    let anthropic = json!({"type": "error", "error": {"type": "rate_limit_error", "message": "m",
        "details": {"error_code": "enforced_spend_limit_reached"}}});
    assert_eq!(Failure::from_json(&anthropic).evidence().details, ["enforced_spend_limit_reached"]);
    let azure = json!({"error": {"code": "content_filter", "message": "m", "type": null, "param": "prompt", "status": 400,
        "innererror": {"code": "ResponsibleAIPolicyViolation"}}});
    let failure = Failure::from_json(&azure);
    assert_eq!((failure.kind.as_deref(), facts_of(&failure).param.as_deref()), (None, Some("prompt")));
    assert_eq!(facts_of(&failure).details, ["ResponsibleAIPolicyViolation"]);
}

#[test]
fn the_counts_of_a_field_go_before_those_of_a_sentence() {
    let body = json!({"error": {"code": 400, "type": "exceed_context_size_error", "n_prompt_tokens": 9000, "n_ctx": 4096,
        "message": "request (9001 tokens) exceeds the available context size (4097 tokens)"}});
    let failure = Failure::from_json(&body);
    assert_eq!((failure.limit(), failure.size()), (Some(4096), Some(9000)));
}

#[test]
fn an_error_is_told_from_an_answer() {
    for error in [
        json!({"error": "text"}),
        json!({"error": {"message": "m"}, "choices": []}),
        json!({"object": "error", "message": "m"}),
        json!({"type": "error", "error": {"message": "m"}}),
        json!({"type": "response.failed", "response": {"error": {"code": "server_error", "message": "m"}}}),
        json!([{"error": {"message": "m"}}]),
        json!({"error parsing tool call": "raw='{'"}),
    ] {
        let failure = Failure::inside_success(&error);
        assert!(failure.is_some_and(|failure| !failure.message.is_empty()), "{error}");
    }
    for answer in [
        json!({"choices": [], "error": null}),
        json!({"choices": [{"message": {"content": "error"}}]}),
        json!({"type": "response.completed", "response": {"error": null}}),
        json!([]),
        json!("error"),
    ] {
        assert_eq!(Failure::inside_success(&answer), None, "{answer}");
    }
}

#[test]
fn an_error_beside_a_part_of_an_answer_or_in_the_place_of_one_is_found() {
    for (body, status, message) in [
        (
            json!({"choices": [{"delta": {"content": "half"}, "error": {"code": 502, "message": "gone"}}]}),
            Some(502),
            "gone",
        ),
        (json!({"detail": "internal error"}), None, "internal error"),
        (json!({"success": false, "message": "boom"}), None, "boom"),
        (json!({"message": "slow down", "code": 429}), Some(429), "slow down"),
    ] {
        let failure = Failure::inside_success(&body).unwrap();
        assert_eq!((failure.status, failure.message.as_str()), (status, message), "{body}");
    }
    let several = Failure::inside_success(&json!({"errors": [{"message": "boom"}]})).unwrap();
    assert!(several.message.contains("boom"), "{}", several.message);
    for answer in [
        json!({"choices": [{"error": null}], "message": "fine"}),
        json!({"type": "message_start", "message": {"content": []}}),
        json!({"message": {"content": "hello"}}),
        json!({"detail": "", "errors": []}),
    ] {
        assert_eq!(Failure::inside_success(&answer), None, "{answer}");
    }
}

#[test]
fn a_number_inside_a_text_is_no_status() {
    let failure = Failure::from_body(br#"{"error":{"code":"req_402","message":"request 402 failed"}}"#);
    assert_eq!((failure.status, failure.code.as_deref()), (None, Some("req_402")));
}

#[test]
fn depth_and_size_have_an_end() {
    let deep = format!("{}1{}", "{\"error\":".repeat(100), "}".repeat(100));
    Failure::from_body(deep.as_bytes());
    Failure::from_body("[".repeat(100_000).as_bytes());
    let mut quoted = json!({"message": "m"});
    for _ in 0..8 {
        quoted = json!({"error": quoted.to_string()});
    }
    assert!(!Failure::from_json(&quoted).message.is_empty());
    let wide: Vec<_> = (0..5000).map(|i| format!("w{i}")).collect();
    assert_eq!(Failure::from_json(&json!({"error": {"details": wide}})).evidence().details.len(), 32);
}

/// Any JSON, with the keys that are read.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[ -~é]{0,12}".prop_map(Value::from),
        Just(Value::from("{\"error\":{\"message\":\"m\"}}")),
        Just(Value::from("prompt is too long: 9 tokens > 8 maximum")),
    ];
    let key = prop::sample::select(vec![
        "error",
        "message",
        "code",
        "type",
        "status",
        "details",
        "metadata",
        "raw",
        "cause",
        "response",
        "errors",
        "object",
        "detail",
        "param",
        "n_ctx",
        "provider_name",
        "error x",
        "other",
    ]);
    leaf.prop_recursive(5, 40, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::Array),
            prop::collection::vec((key.clone(), inner), 0..5)
                .prop_map(|fields| fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()),
        ]
    })
}

proptest! {
    #[test]
    fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        Failure::from_body(&bytes);
    }

    #[test]
    fn any_json_is_read_the_same_as_a_value_and_as_text(json in any_json()) {
        let failure = Failure::from_json(&json);
        prop_assert!(failure.evidence().details.len() <= 32);
        if !json.is_string() {
            prop_assert_eq!(&failure, &Failure::from_body(json.to_string().as_bytes()));
        }
        if let Some(inside) = Failure::inside_success(&json) {
            prop_assert_eq!(inside, failure);
        }
    }
}
