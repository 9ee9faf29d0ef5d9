//! Tools, lines and answers that cannot be read: the others are there, and nobody hangs.

use super::*;

#[tokio::test]
async fn a_tool_that_cannot_be_read_is_left_out_and_the_others_are_there() {
    let notes = Notes::new();
    let server = server("lists", &notes).await;
    let tools = server.tools();
    let known: Vec<_> = tools.iter().map(|tool| tool.spec().name.as_str()).collect();
    assert_eq!(known, ["s__half", "s__long", "s__lost", "s__void"]);
    let description = &tools[1].spec().description;
    assert!(description.len() < 17_000 && description.ends_with("x [... cut]"), "{}", description.len());
    server.shutdown().await;
}

#[tokio::test]
async fn over_http_too_a_tool_that_cannot_be_read_is_left_out_and_an_answer_fails_its_call() {
    for mode in ["http-lists", "sse-lists"] {
        let (_host, url) = far(mode).await;
        let server = McpServer::start(McpConfig::new("s", http(&url, "sesame"))).await.unwrap();
        let tools = server.tools();
        let known: Vec<_> = tools.iter().map(|tool| tool.spec().name.as_str()).collect();
        assert_eq!(known, ["s__half", "s__long", "s__lost", "s__void"], "{mode}");
        let begun = std::time::Instant::now();
        for (tool, says) in [
            ("s__half", "the server's answer is not JSON"),
            ("s__void", "the server's answer has neither a result nor an error that can be read"),
            // Over HTTP it is plain whose answer that is.
            ("s__lost", "the server's answer is not JSON"),
        ] {
            let (_, effect, message) = failed(call(&server, tool, json!({})).await);
            assert!(message.contains(says), "{mode}, {tool}: {message}");
            assert_ne!(effect, EffectState::NotStarted, "{mode}, {tool}");
        }
        assert!(begun.elapsed() < Duration::from_secs(10), "{mode}: {:?}", begun.elapsed());
        server.shutdown().await;
    }
}

#[tokio::test]
async fn an_answer_that_cannot_be_read_fails_its_call_at_once() {
    let notes = Notes::new();
    let server = server("lists", &notes).await;
    let begun = std::time::Instant::now();
    for (tool, says) in [
        ("s__half", "the server's answer is not JSON"),
        ("s__void", "the server's answer has neither a result nor an error that can be read"),
        ("s__lost", "it sent an answer that cannot be read and was ended"),
        // It was started again.
        ("s__half", "the server's answer is not JSON"),
    ] {
        let (_, effect, message) = failed(call(&server, tool, json!({})).await);
        assert!(message.contains(says), "{tool}: {message}");
        assert_ne!(effect, EffectState::NotStarted, "{tool}");
    }
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    server.shutdown().await;
}

#[tokio::test]
async fn an_answer_that_names_no_request_or_is_a_batch_fails_its_call_at_once() {
    let notes = Notes::new();
    let (_json, in_json) = far("http-nameless").await;
    let (_events, in_events) = far("sse-nameless").await;
    let configs = [
        config("nameless", &notes),
        McpConfig::new("s", http(&in_json, "sesame")),
        McpConfig::new("s", http(&in_events, "sesame")),
    ];
    for (number, config) in configs.into_iter().enumerate() {
        let server = McpServer::start(config).await.unwrap();
        let begun = std::time::Instant::now();
        for (tool, says) in [
            ("s__unread", "Parse error (-32700)"),
            ("s__anonymous", "the server's answer does not say by its id whose it is"),
            ("s__batch", "the server's answer is a JSON-RPC batch"),
        ] {
            let (_, _, message) = failed(call(&server, tool, json!({})).await);
            assert!(message.contains(says), "{number}, {tool}: {message}");
        }
        if number > 0 {
            // Over HTTP it is plain that no other answer comes.
            let (_, _, message) = failed(call(&server, "s__babel", json!({})).await);
            assert!(message.contains("the server"), "{number}: {message}");
        }
        assert!(begun.elapsed() < Duration::from_secs(10), "{number}: {:?}", begun.elapsed());
        assert_eq!(said(call(&server, "s__echo", json!({"text": "on"})).await), json!("on"));
        server.shutdown().await;
    }
}

#[tokio::test]
async fn a_line_that_is_not_json_is_passed_over_and_told_when_no_answer_comes() {
    let notes = Notes::new();
    let server = server("nameless", &notes).await;
    let limit = Some(Duration::from_millis(300));
    let outcome = call_within(&server, "s__babel", &json!({}), limit, CancellationToken::new()).await;
    let (class, _, message) = failed(outcome);
    assert_eq!(class, ErrorClass::Timeout);
    assert!(message.contains("it wrote a line that is no message: the answer is 42"), "{message}");
    server.shutdown().await;
}

#[tokio::test]
async fn an_answer_nested_too_deep_is_refused_while_it_is_read_and_hangs_nobody() {
    let notes = Notes::new();
    let server = server("normal", &notes).await;
    let (class, effect, message) = failed(call(&server, "s__deep", json!({})).await);
    assert_eq!((class, effect), (ErrorClass::ExecutionError, EffectState::Unknown));
    assert_eq!(message, "the server's answer is nested deeper than 120 levels (-32603)");
    assert_eq!(said(call(&server, "s__echo", json!({"text": "on"})).await), json!("on"));
    server.shutdown().await;
}

#[tokio::test]
async fn an_answer_that_is_none_is_a_failure_and_hangs_nobody() {
    let notes = Notes::new();
    let server = server("normal", &notes).await;
    said(call(&server, "s__bend", json!({})).await);
    for answer in
        [json!(42), json!("text"), json!([]), json!({"content": 7}), json!({"content": [{"type": "odd"}]})]
    {
        let (class, effect, message) = failed(call(&server, "s__odd", json!({"answer": answer})).await);
        let expected = (ErrorClass::ExecutionError, EffectState::Unknown);
        assert_eq!((class, effect), expected, "{answer}: {message}");
        assert!(message.starts_with("the server's answer cannot be used: "), "{answer}: {message}");
        let noise = "; it wrote 3 lines that are no messages, the first: not json {";
        assert!(message.ends_with(noise), "{message}");
    }
    assert_eq!(said(call(&server, "s__echo", json!({"text": "on"})).await), json!("on"));
    server.shutdown().await;
}

#[tokio::test]
async fn a_server_that_speaks_garbage_is_given_up_and_ended() {
    let notes = Notes::new();
    let none = "MCP server `s`: its first answer is none of the protocol";
    for (mode, seconds, why) in [("garbage", 1, "it did not answer within 1s"), ("nonsense", 20, none)] {
        let config = config(mode, &notes).start_timeout(Duration::from_secs(seconds));
        let error = McpServer::start(config).await.unwrap_err().to_string();
        assert!(error.contains(why) && error.len() < 1000, "{mode}: {error}");
    }
    notes.all_gone().await;
}
