//! Answers that break off after they have begun: what had come is reported and dropped, and no half call runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use unfazed::engine::{Directive, DirectiveKind, Note, Outcome, ToolSpec};
use unfazed::host::scripted::{
    self, Script, ScriptAnswer, ScriptEntry, ScriptFault, ScriptedCall, ScriptedServer,
};
use unfazed::host::{Agent, FunctionTool, ModelConfig, Observer, Provider, RunReport, RunTask, Tools};
use unfazed::policy::{ErrorClass, Policy};
use unfazed::session::Message;

use super::{STREAMED, Way, ok, raw, raw_from};

const POLICY: &str = "
version: 1
models: {'*': {timeouts: {idle: 400ms}, retry: {backoff: {kind: constant, delay: 0s}}}}
";

/// Remembers how much was retracted.
#[derive(Default)]
struct Retracted(Vec<(String, u32, u64)>);

/// Shows what is streamed, and takes it back.
#[derive(Default)]
struct Screen {
    shown: String,
    pieces: usize,
    taken_back: Vec<String>,
}

impl Observer for Screen {
    fn streamed(&mut self, text: &str) {
        self.shown.push_str(text);
        self.pieces += 1;
    }

    fn directive(&mut self, directive: &Directive) {
        if let DirectiveKind::Note(Note::TurnRetracted { .. }) = &directive.order {
            self.taken_back.push(std::mem::take(&mut self.shown));
        }
    }
}

impl Observer for Retracted {
    fn directive(&mut self, directive: &Directive) {
        if let DirectiveKind::Note(Note::TurnRetracted { target, attempt, received }) = &directive.order {
            self.0.push((target.clone(), *attempt, *received));
        }
    }
}

fn broken(fault: ScriptFault) -> ScriptEntry {
    let call = ScriptedCall {
        name: "pay".into(),
        arguments: r#"{"amount": 100, "to": "somebody with a rather long name"}"#.into(),
        id: None,
    };
    ScriptEntry::new(scripted::ScriptOutcome::Fault(
        fault,
        ScriptAnswer { calls: vec![call], ..ScriptAnswer::default() },
    ))
}

/// An agent whose only tool counts how often it runs.
fn agent(base_url: &str, way: Way, paid: &Arc<AtomicU32>) -> Agent {
    let spec = ToolSpec {
        name: "pay".into(),
        description: String::new(),
        parameters: json!({"type": "object"}),
        effect: None,
    };
    let paid = Arc::clone(paid);
    let pay = FunctionTool::new(spec, move |_, _| {
        paid.fetch_add(1, Ordering::Relaxed);
        async { Ok(Value::Null) }
    });
    let agent = Agent::new(Policy::from_yaml("policy.yaml", POLICY).unwrap()).tools(Tools::new().with(pay));
    agent.model("main", way.model(base_url).unwrap())
}

/// A run of an agent whose model breaks off while it calls `pay`, and then says that nothing was paid.
async fn nothing_is_paid<const N: usize>(script: [ScriptEntry; N], way: Way) -> (RunReport, Retracted) {
    let server = ScriptedServer::start(Script::new("s.yaml", script), 0).await.unwrap();
    let paid = Arc::new(AtomicU32::new(0));
    let agent = agent(&server.base_url(), way, &paid);
    let mut retracted = Retracted::default();
    let task = RunTask { run: "run-1".into(), task: "pay".into(), ..RunTask::default() };
    let report = agent.run_with(task, &mut retracted, None, CancellationToken::new()).await.unwrap();
    assert_eq!(report.outcome, Outcome::Answered { text: "Nothing was paid.".into() });
    assert_eq!(paid.load(Ordering::Relaxed), 0);
    (report, retracted)
}

#[tokio::test]
async fn a_half_streamed_tool_call_never_runs_and_is_taken_back() {
    for way in STREAMED {
        let script = [
            broken(ScriptFault::Stall),
            broken(ScriptFault::Truncate),
            ScriptEntry::text("Nothing was paid."),
        ];
        let (report, retracted) = nothing_is_paid(script, way).await;
        let told: Vec<_> =
            retracted.0.iter().map(|(target, attempt, _)| (target.as_str(), *attempt)).collect();
        assert_eq!(told, [("main", 1), ("main", 2)]);
        assert!(retracted.0.iter().all(|(.., received)| *received > 3), "{:?}", retracted.0);
        let kept =
            |message: &Message| matches!(message, Message::Assistant { calls, .. } if !calls.is_empty());
        assert!(!report.messages.iter().any(kept), "{:?}", report.messages);
    }
}

#[tokio::test]
async fn streamed_text_is_shown_as_it_comes_without_secrets_and_taken_back_if_the_answer_fails() {
    let said = "The key is sk-planted-1 and sk-plan is none.";
    let stalled = scripted::ScriptOutcome::Fault(
        ScriptFault::Stall,
        ScriptAnswer { text: said.into(), ..ScriptAnswer::default() },
    );
    for way in STREAMED {
        let script = [ScriptEntry::new(stalled.clone()), ScriptEntry::text(said)];
        let server = ScriptedServer::start(Script::new("s.yaml", script), 0).await.unwrap();
        let agent = agent(&server.base_url(), way, &Arc::default());
        let agent = agent.redact(["sk-planted-1".into()]);
        let mut screen = Screen::default();
        let task = RunTask { run: "run-1".into(), task: "say".into(), ..RunTask::default() };
        agent.run_with(task, &mut screen, None, CancellationToken::new()).await.unwrap();
        let clean = "The key is [redacted] and sk-plan is none.";
        assert_eq!(screen.shown, clean);
        assert!(screen.pieces > 3, "{}", screen.pieces);
        let [half] = &*screen.taken_back else { panic!("{:?}", screen.taken_back) };
        assert!(!half.is_empty() && clean.starts_with(half), "{half}");
    }
}

#[tokio::test]
async fn of_what_has_the_form_of_a_secret_no_part_is_shown_while_it_comes() {
    let key =
        format!("-----BEGIN PRIVATE KEY-----\n{}-----END PRIVATE KEY-----", "MIIEvQ planted\n".repeat(9));
    let said = format!(
        "Use ghp_1234planted5678, or Bearer 1234planted5678 at https://me:planted0002@shop.example/a. {key} And AKIA1234PLANTED567890, \
         or at https://me:plä/ntéd-Ünd-änther@shop.example/ä and https://shop.example/öffnen"
    );
    let server = ScriptedServer::start(Script::new("s.yaml", [ScriptEntry::text(said)]), 0).await.unwrap();
    let agent = agent(&server.base_url(), Way::Streamed, &Arc::default());
    let mut screen = Screen::default();
    let task = RunTask { run: "run-1".into(), task: "say".into(), ..RunTask::default() };
    let report = agent.run_with(task, &mut screen, None, CancellationToken::new()).await.unwrap();
    let Outcome::Answered { text } = report.outcome else { panic!("{:?}", report.outcome) };
    assert_eq!(screen.shown, text, "as it is kept");
    let shown = screen.shown.to_lowercase();
    assert!(!["planted", "plä", "ntéd"].iter().any(|part| shown.contains(part)), "{}", screen.shown);
    assert!(screen.pieces > 3, "{}", screen.pieces);
}

#[tokio::test]
async fn a_chat_stream_that_does_not_end_as_it_should_is_a_failure() {
    const BEGUN: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"hello\"}}]}\n\n";
    let stream = |rest: &str| {
        format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n{BEGUN}{rest}").into_bytes()
    };
    let cut = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    let cut = format!("{cut}{:x}\r\n{BEGUN}\r\n", BEGUN.len());
    let overloaded = r#"{"error":{"code":"server_is_overloaded","message":"busy"}}"#;
    let half_a_call = r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"pay","arguments":"{\"a\""}}]}}]}"#;
    let early = "the stream of the answer ends in the middle";
    let policy = Policy::builtin();
    for (response, class, received, says) in [
        (stream(""), ErrorClass::NetworkError, 5, early),
        (stream("data: {\"choices\":[{\"del"), ErrorClass::NetworkError, 5, early),
        (cut.into_bytes(), ErrorClass::NetworkError, 5, "the connection broke in the middle of the answer"),
        (stream(&format!("data: {overloaded}\n\n")), ErrorClass::Overloaded, 5, "busy"),
        (stream(&format!("data: {overloaded}\n\ndata: [DONE]\n\n")), ErrorClass::Overloaded, 5, "busy"),
        (stream(&format!("event: error\ndata: {overloaded}\n\n")), ErrorClass::Overloaded, 5, "busy"),
        (stream(&format!("data: {half_a_call}\n\ndata: [DONE]\n\n")), ErrorClass::NetworkError, 12, early),
        (stream("data: oops\n\n"), ErrorClass::ModelError, 5, "the answer is not JSON: oops"),
    ] {
        let failure = raw(response).await.unwrap_err();
        let found = (failure.classified(&policy).class, failure.received);
        assert_eq!(found, (class, received), "{failure:?}");
        assert!(failure.message.contains(says), "{}", failure.message);
    }
}

#[tokio::test]
async fn an_answer_whose_reason_to_stop_is_a_failure_is_none_streamed_or_whole() {
    let failed = r#"{"choices":[{"index":0,"delta":{"content":""},"message":{"content":"half"},"error":{"code":502,"message":"Provider disconnected"},"finish_reason":"error"}]}"#;
    let stopped = |reason: &str| {
        let part = json!({"content": "half"});
        json!({"choices": [{"delta": {}, "message": part, "finish_reason": reason}]}).to_string()
    };
    let policy = Policy::builtin();
    for (end, class, says) in [
        (failed.to_owned(), ErrorClass::NetworkError, "Provider disconnected"),
        (
            stopped("error"),
            ErrorClass::ModelError,
            "the model stopped with `error` before the answer was whole",
        ),
        (stopped("abort"), ErrorClass::ModelError, "the model stopped with `abort`"),
        (stopped("insufficient_system_resource"), ErrorClass::Overloaded, "`insufficient_system_resource`"),
        (
            stopped("function_call_filter: MALFORMED_FUNCTION_CALL"),
            ErrorClass::MalformedToolCall,
            "`function_call_filter: MALFORMED_FUNCTION_CALL`",
        ),
    ] {
        let events = format!(
            "data: {{\"choices\":[{{\"delta\":{{\"content\":\"hello\"}}}}]}}\n\ndata: {end}\n\ndata: [DONE]\n\n"
        );
        for (kind, body, received) in
            [("text/event-stream", events.as_str(), 5), ("application/json", end.as_str(), 0)]
        {
            let failure = raw(ok(kind, body)).await.unwrap_err();
            let found = (failure.classified(&policy).class, failure.received);
            assert_eq!(found, (class, received), "{failure:?}");
            assert!(failure.message.contains(says), "{}", failure.message);
        }
    }
}

#[tokio::test]
async fn a_call_whose_stream_ends_with_an_error_never_runs() {
    let call = ScriptedCall { name: "pay".into(), arguments: "{}".into(), id: None };
    let failed = ScriptAnswer { calls: vec![call], finish: Some("error".into()), ..ScriptAnswer::default() };
    for way in STREAMED {
        let script = [
            ScriptEntry::new(scripted::ScriptOutcome::Answer(failed.clone())),
            ScriptEntry::text("Nothing was paid."),
        ];
        let (_, retracted) = nothing_is_paid(script, way).await;
        assert_eq!(retracted.0.len(), 1);
    }
}

#[tokio::test]
async fn an_answer_without_a_reason_to_stop_counts_only_where_the_server_is_known_to_leave_it_out() {
    const WHOLE: &str = r#"{"choices":[{"message":{"content":"hello"},"finish_reason":null}]}"#;
    let events = r#"data: {"choices":[{"delta":{"content":"hello"},"finish_reason":null}]}"#;
    let events = format!("{events}\n\ndata: [DONE]\n\n");
    for (kind, body) in [("text/event-stream", events.as_str()), ("application/json", WHOLE)] {
        let failure = raw(ok(kind, body)).await.unwrap_err();
        assert_eq!(failure.class, Some(ErrorClass::NetworkError), "{body}");
        assert!(failure.message.contains("does not say why the model stopped"), "{}", failure.message);
        let lenient = ModelConfig { finish_optional: Some(true), ..ModelConfig::new(Provider::OPENAI, "m") };
        assert_eq!(raw_from(lenient, ok(kind, body)).await.unwrap().text, "hello");
    }
}

#[tokio::test]
async fn an_error_in_the_place_of_an_event_has_its_class_and_its_message() {
    const PART: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"hello\"}}]}\n\n";
    const END: &str = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    let quota = r#"{"error":"you (me) have reached your weekly usage limit, upgrade for higher limits"}"#;
    let exhausted =
        "[{\n  \"error\": {\n    \"code\": 429,\n    \"message\": \"Resource exhausted\"\n  }\n}\n]";
    let policy = Policy::builtin();
    for (body, class, received, says) in [
        (format!("{PART}{quota}\n"), ErrorClass::QuotaExceeded, 5, "weekly usage limit"),
        (format!("{PART}{quota}"), ErrorClass::QuotaExceeded, 5, "weekly usage limit"),
        (format!("{PART}{quota}\n{END}"), ErrorClass::QuotaExceeded, 5, "weekly usage limit"),
        (exhausted.to_owned(), ErrorClass::RateLimit, 0, "Resource exhausted"),
        (exhausted.replace('\n', ""), ErrorClass::RateLimit, 0, "Resource exhausted"),
        (
            format!("{PART}data: {{\"detail\":\"Internal error\"}}\n\n{END}"),
            ErrorClass::ModelError,
            5,
            "Internal error",
        ),
        (
            format!("{PART}data: {{\"errors\":[{{\"message\":\"boom\"}}]}}\n\n{END}"),
            ErrorClass::ModelError,
            5,
            "boom",
        ),
    ] {
        let failure = raw(ok("text/event-stream", &body)).await.unwrap_err();
        let found = (failure.classified(&policy).class, failure.received);
        assert_eq!(found, (class, received), "{body} {failure:?}");
        assert!(failure.message.contains(says), "{}", failure.message);
    }
}
