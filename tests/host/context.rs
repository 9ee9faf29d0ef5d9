//! Conversations that are too large for a window, in whole runs: no request is ever larger than there is room for.

use std::sync::{Arc, Mutex};

use serde_json::{Map, Value, json};
use unfazed::context::{ByteEstimate, findings, measure, message_tokens, tool_tokens};
use unfazed::engine::{Failure, ModelReply, ToolSpec};
use unfazed::host::{
    Agent, BoxFuture, FunctionTool, Guard, GuardConfig, Model, ModelRequest, RunTask, Tools,
};
use unfazed::policy::Policy;
use unfazed::session::{Message, ToolCall};

const WINDOW: u64 = 8192;
const REPLY: u64 = 1000;

fn policy(text: &str) -> Policy {
    Policy::from_yaml("policy.yaml", text).unwrap_or_else(|report| panic!("{report}"))
}

fn small() -> String {
    format!("version: 1\nmodels: {{'*': {{context_window: {WINDOW}, output_reserve: {REPLY}}}}}\n")
}

/// A model that calls the tool so many times, twice in each reply, and answers then. It refuses what is larger than its
/// window, and histories that are not valid.
struct Strict {
    rounds: usize,
    window: u64,
    seen: Arc<Mutex<Vec<u64>>>,
}

impl Model for Strict {
    fn call<'a>(&'a self, request: ModelRequest<'a>) -> BoxFuture<'a, Result<ModelReply, Failure>> {
        let measured = measure(&ByteEstimate, request.messages, &request.tools);
        assert_eq!(findings(request.messages), []);
        let tokens = measured.message_tokens + measured.tool_tokens;
        if tokens + REPLY > self.window {
            let message = format!("prompt is too long: {tokens} tokens > {} maximum", self.window - REPLY);
            let failure = json!({"status": 400, "message": message});
            return Box::pin(async move { Err(serde_json::from_value(failure).unwrap()) });
        }
        let mut seen = self.seen.lock().unwrap();
        seen.push(tokens);
        let reply = if seen.len() > self.rounds || request.tools.is_empty() {
            ModelReply { text: "done".into(), ..ModelReply::default() }
        } else {
            let call = |n: usize| ToolCall {
                id: format!("c{}-{n}", seen.len()),
                name: "look".into(),
                arguments: "{}".into(),
            };
            ModelReply { calls: vec![call(0).into(), call(1).into()], ..ModelReply::default() }
        };
        Box::pin(async move { Ok(reply) })
    }
}

/// An agent whose tool answers with so many characters, and the sizes of the requests its model took.
fn agent(text: &str, window: u64, length: usize) -> (Agent, Arc<Mutex<Vec<u64>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let model = Strict { rounds: 9, window, seen: Arc::clone(&seen) };
    let spec = ToolSpec {
        name: "look".into(),
        description: String::new(),
        parameters: json!({"type": "object"}),
        effect: None,
    };
    let look =
        FunctionTool::new(spec, move |_, _| async move { Ok(Value::from("word ".repeat(length / 5))) });
    (Agent::new(policy(text)).model("main", model).tools(Tools::new().with(look)), seen)
}

fn task() -> RunTask {
    RunTask {
        run: "run-1".into(),
        system: "You look.".into(),
        task: "Look again and again.".into(),
        ..RunTask::default()
    }
}

#[tokio::test]
async fn no_request_of_a_long_run_is_larger_than_the_window() {
    let text = small() + "tools: {'*': {loop_guard: {enabled: false}, result: {max: 12000 chars}}}\n";
    let (agent, seen) = agent(&text, WINDOW, 11_000);
    let report = agent.run(task()).await.unwrap();
    assert!(matches!(report.outcome, unfazed::engine::Outcome::Answered { .. }), "{:?}", report.outcome);
    // A refused request would be missing here.
    assert_eq!(seen.lock().unwrap().len(), 10);
    assert!(report.messages.contains(&Message::user("Look again and again.")));
}

#[tokio::test]
async fn a_window_that_nobody_knew_is_learned_from_the_first_refusal() {
    let text = "version: 1\nmodels: {'*': {output_reserve: 1000}}\ntools: {'*': {loop_guard: {enabled: false}, result: {max: 12000 chars}}}\n";
    let (agent, seen) = agent(text, WINDOW, 11_000);
    let report = agent.run(task()).await.unwrap();
    assert!(matches!(report.outcome, unfazed::engine::Outcome::Answered { .. }), "{:?}", report.outcome);
    assert!(seen.lock().unwrap().iter().all(|tokens| tokens + REPLY <= WINDOW));
    assert_eq!(seen.lock().unwrap().len(), 10);
}

#[tokio::test]
async fn a_result_of_fifty_megabytes_is_no_reason_to_fail() {
    let text = small()
        + "tools: {'*': {loop_guard: {enabled: false}, result: {max: unlimited}}}\nturn: {max_turns: 3}\n";
    let (agent, seen) = agent(&text, WINDOW, 25_000_000);
    let report = agent.run(task()).await.unwrap();
    assert!(matches!(report.outcome, unfazed::engine::Outcome::Answered { .. }), "{:?}", report.outcome);
    assert_eq!(seen.lock().unwrap().len(), 3);
}

/// A history of ten results of 50 000 characters.
fn huge() -> Vec<Message> {
    let result = |id: usize| {
        let call = ToolCall { id: id.to_string(), name: "t".into(), arguments: "{}".into() };
        let asked = Message::Assistant { text: String::new(), calls: vec![call], extra: Map::new() };
        [
            asked,
            Message::Tool {
                call: id.to_string(),
                tool: "t".into(),
                text: "x".repeat(50_000),
                error: false,
                handle: None,
            },
        ]
    };
    (0..10).flat_map(result).collect()
}

fn tokens(messages: &[Message]) -> u64 {
    messages.iter().map(|message| message_tokens(&ByteEstimate, message)).sum()
}

// supyagent, "Test 3: Context overflow recovery", with six results of it protected.
#[tokio::test]
async fn ten_results_of_fifty_thousand_characters_fit_a_window_of_eight_thousand_tokens() {
    let text = small().replace("version: 1\n", "version: 1\nextends: builtin:presets/supyagent\n");
    let guard = Guard::new(GuardConfig::new(policy(&text)).targets(["gpt-4"]));
    let system = Message::System { text: "You are a test agent.".into() };
    let mut messages: Vec<Message> = core::iter::once(system.clone()).chain(huge()).collect();
    let done = guard.reduce_context(&mut messages, 0, &ByteEstimate);
    assert_eq!(done.last().map(|told| told.step.as_str()), Some("truncate"));
    assert!(tokens(&messages) <= WINDOW - REPLY && findings(&messages).is_empty());
    assert_eq!(messages[0], system);
    assert!(messages.iter().any(|message| message.text().contains("...[truncated]...")));
}

// supyagent, "Test 4: Tool token counting".
#[tokio::test]
async fn tools_leave_room_for_fewer_messages() {
    let text = small().replace("version: 1\n", "version: 1\nextends: builtin:presets/supyagent\n");
    let guard = Guard::new(GuardConfig::new(policy(&text)).targets(["gpt-4"]));
    let large = |n: usize| ToolSpec {
        name: format!("tool_{n}"),
        description: "Does many things, all of which are described at length. ".repeat(5),
        parameters: json!({"type": "object", "properties": {"path": {"type": "string"}}}),
        effect: None,
    };
    let tools: Vec<ToolSpec> = (0..30).map(large).collect();
    let tool_tokens = tool_tokens(&ByteEstimate, &tools.iter().collect::<Vec<_>>());
    assert!(tool_tokens > 1000);
    let messages: Vec<Message> =
        (0..50).map(|n| Message::user(format!("{n} {}", "word ".repeat(200)))).collect();
    let left = |tools: u64| {
        let mut messages = messages.clone();
        guard.reduce_context(&mut messages, tools, &ByteEstimate);
        messages.len()
    };
    assert!(left(tool_tokens) < left(0) && left(0) < 50);
}

#[tokio::test]
async fn a_guard_says_whether_a_conversation_is_to_be_reduced() {
    let guard = Guard::new(GuardConfig::new(policy(&small())).targets(["main"]));
    assert!(guard.is_short_of_room(&huge(), 0, &ByteEstimate));
    assert!(!guard.is_short_of_room(&[Message::user("Hello.")], 0, &ByteEstimate));
    assert!(guard.is_short_of_room(&[Message::user("Hello.")], WINDOW, &ByteEstimate));
    let unknown = Guard::new(GuardConfig::new(policy("version: 1\n")).targets(["main"]));
    assert!(!unknown.is_short_of_room(&huge(), 0, &ByteEstimate));
    assert_eq!(unknown.reduce_context(&mut huge(), 0, &ByteEstimate), []);
}

#[tokio::test]
async fn results_of_parallel_calls_never_have_more_than_the_room_that_is_left() {
    let text = small()
        + "context: {results: left, reduce: []}\n"
        + "tools: {'*': {loop_guard: {enabled: false}, result: {max: unlimited}}}\n";
    let (agent, seen) = agent(&text, WINDOW, 200_000);
    let report = agent.run(task()).await.unwrap();
    assert!(matches!(report.outcome, unfazed::engine::Outcome::Answered { .. }), "{:?}", report.outcome);
    let seen = seen.lock().unwrap().clone();
    // Both results of the first round were far too large; the request after it fits all the same, nearly to the gate.
    let budget = WINDOW - REPLY - WINDOW / 50;
    assert!(seen[1] <= budget && seen[1] > budget * 9 / 10, "{seen:?}");
}
