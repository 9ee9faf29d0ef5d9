//! Results of tools in whole runs: what the model is shown, what is kept, and how it reads the rest.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use unfazed::engine::{
    Envelope, Event, Failure, FinishReason, ModelReply, ToolOutcome, ToolResult, ToolSpec,
};
use unfazed::host::scripted::{Script, ScriptEntry, ScriptedModel};
use unfazed::host::{
    Agent, BoxFuture, FunctionTool, Model, ModelRequest, Observer, RunReport, RunTask, StopSwitch, Tools,
};
use unfazed::policy::Policy;
use unfazed::session::{Message, ToolCall};

const SPILL: &str = "version: 1\ntools: {'*': {result: {max: 300 chars, overflow: spill}}}";

/// So many lines.
fn text_of(count: u64) -> String {
    let lines: Vec<String> = (0..count).map(|n| format!("this is line {n}\n")).collect();
    lines.concat()
}

/// A tool that answers with so many lines.
fn lines() -> FunctionTool {
    let parameters = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let spec = ToolSpec { name: "lines".into(), description: String::new(), parameters, effect: None };
    FunctionTool::new(spec, |args, _| async move {
        let count = args["n"].as_u64().unwrap_or_default();
        Ok(Value::from(text_of(count)))
    })
}

fn agent(policy: &str, replies: impl IntoIterator<Item = ScriptEntry>) -> Agent {
    let policy = Policy::from_yaml("policy.yaml", policy).unwrap_or_else(|report| panic!("{report}"));
    let model = ScriptedModel::new(Script::new("script", replies));
    Agent::new(policy).model("main", model).tools(Tools::new().with(lines()))
}

fn task() -> RunTask {
    RunTask { run: "run-1".into(), task: "look".into(), ..RunTask::default() }
}

fn results(report: &RunReport) -> Vec<&str> {
    let results = report.messages.iter().filter(|message| matches!(message, Message::Tool { .. }));
    results.map(Message::text).collect()
}

/// Keeps what tools answered.
#[derive(Default)]
struct Finished(Vec<ToolResult>);

impl Observer for Finished {
    fn event(&mut self, envelope: &Envelope) {
        if let Event::ToolFinished { outcome, run, .. } = &envelope.event {
            let policy = Policy::from_yaml("p.yaml", "version: 1").unwrap();
            self.0.push(ToolResult::new("lines", outcome, run, &policy));
        }
    }
}

#[tokio::test]
async fn the_model_reads_the_rest_of_a_result_that_was_kept() {
    let read = r#"{"handle": "r1-0", "offset": 1500, "length": 40}"#;
    let replies = [
        ScriptEntry::call("lines", r#"{"n": 100}"#),
        ScriptEntry::call("read_result", read),
        ScriptEntry::text("done"),
    ];
    let report = agent(SPILL, replies).run(task()).await.unwrap();
    let results = results(&report);
    assert!(
        results[0].contains(r#"for the rest call `read_result` with the handle "r1-0""#),
        "{}",
        results[0]
    );
    assert!(results[0].chars().count() <= 300);
    let piece: Value = serde_json::from_str(results[1]).unwrap();
    let whole = text_of(100);
    assert_eq!(piece["text"], whole[1500..1540]);
    assert_eq!((&piece["to"], &piece["of"]), (&json!(1540), &json!(whole.len())));
}

/// A model that reads on wherever it learns that a piece ends.
#[derive(Clone, Default)]
struct Reader(Arc<Mutex<String>>);

impl Reader {
    fn next(&self, last: Option<&Message>) -> Option<ToolCall> {
        let read = |offset: &Value| {
            let arguments = json!({"handle": "r1-0", "offset": offset}).to_string();
            Some(ToolCall { id: format!("at-{offset}"), name: "read_result".into(), arguments })
        };
        match last {
            Some(Message::Tool { tool, text, .. }) if tool == "read_result" => {
                let shown: Value = serde_json::from_str(text).unwrap();
                let piece = shown.get("data").unwrap_or(&shown);
                self.0.lock().unwrap().push_str(piece["text"].as_str().unwrap());
                if piece["to"] == piece["of"] { None } else { read(&piece["to"]) }
            }
            Some(Message::Tool { .. }) => read(&json!(0)),
            _ => Some(ToolCall { id: "look".into(), name: "look".into(), arguments: "{}".into() }),
        }
    }
}

impl Model for Reader {
    fn call<'a>(&'a self, request: ModelRequest<'a>) -> BoxFuture<'a, Result<ModelReply, Failure>> {
        let next = self.next(request.messages.last());
        let (text, finish) = match next {
            Some(_) => (String::new(), FinishReason::ToolCalls),
            None => ("done".to_owned(), FinishReason::Stop),
        };
        let calls = next.into_iter().map(Into::into).collect();
        Box::pin(async move { Ok(ModelReply { text, calls, finish, ..ModelReply::default() }) })
    }
}

/// What such a model has read of a result of many lines when it is done, and the result.
async fn read_on(policy: &str) -> (String, String) {
    let lines: Vec<String> = (0..600).map(|n| format!("Zeile {n}:\t\"ä€𝄞\"\n")).collect();
    let whole = lines.concat();
    let parameters = json!({"type": "object"});
    let spec = ToolSpec { name: "look".into(), description: String::new(), parameters, effect: None };
    let answer = whole.clone();
    let look = FunctionTool::new(spec, move |_, _| {
        let answer = answer.clone();
        async { Ok(Value::from(answer)) }
    });
    let policy = Policy::from_yaml("policy.yaml", policy).unwrap_or_else(|report| panic!("{report}"));
    let reader = Reader::default();
    let agent = Agent::new(policy).model("main", reader.clone()).tools(Tools::new().with(look));
    agent.run(task()).await.unwrap();
    let read = reader.0.lock().unwrap().clone();
    (read, whole)
}

#[tokio::test]
async fn a_model_that_goes_on_where_a_piece_ends_reads_the_whole_result() {
    for result in ["max: 6000 chars", "max: 900 bytes", "max: 500 tokens", "max: 1000 chars, form: full"] {
        let (read, whole) = read_on(&format!(
            "version: 1\nturn: {{max_turns: 100}}\ntools: {{'*': {{result: {{{result}, overflow: spill}}}}}}\n"
        ))
        .await;
        assert!(read == whole, "{result}: {read}");
    }
}

#[tokio::test]
async fn so_does_one_whose_window_has_less_room_than_a_piece() {
    let (read, whole) = read_on(
        "version: 1
turn: {max_turns: 100}
models: {'*': {context_window: 3000, output_reserve: 200}}
tools: {'*': {result: {overflow: spill}}}
",
    )
    .await;
    assert!(read == whole, "{read}");
}

#[tokio::test]
async fn the_whole_result_is_in_the_event_with_what_is_known_of_the_run() {
    let replies = [ScriptEntry::call("lines", r#"{"n": 100}"#), ScriptEntry::text("done")];
    let mut seen = Finished::default();
    agent("version: 1\ntools: {'*': {result: {max: 100 chars}}}", replies)
        .run_with(task(), &mut seen, None, StopSwitch::new())
        .await
        .unwrap();
    let [result] = &seen.0[..] else { panic!("{} results", seen.0.len()) };
    assert!(result.ok && result.duration_ms.is_some() && result.tool_name == "lines");
    assert!(result.model_text().ends_with("this is line 99\n"));
}

#[tokio::test]
async fn what_is_kept_stays_in_the_folder_it_was_given() {
    let folder = tempfile::tempdir().unwrap();
    let replies = [ScriptEntry::call("lines", r#"{"n": 100}"#), ScriptEntry::text("done")];
    agent(SPILL, replies).results(folder.path()).run(task()).await.unwrap();
    let kept = std::fs::read_to_string(folder.path().join("r1-0.txt")).unwrap();
    assert!(kept.ends_with("this is line 99\n"));
}

#[tokio::test]
async fn a_folder_that_cannot_be_written_costs_the_rest_and_not_the_run() {
    let folder = tempfile::NamedTempFile::new().unwrap();
    let replies = [ScriptEntry::call("lines", r#"{"n": 100}"#), ScriptEntry::text("done")];
    let report = agent(SPILL, replies).results(folder.path()).run(task()).await.unwrap();
    let results = results(&report);
    assert!(results[0].contains("chars shown]") && !results[0].contains("read_result"), "{}", results[0]);
}

#[tokio::test]
async fn the_tool_that_reads_is_there_only_where_something_is_kept() {
    let replies = || [ScriptEntry::call("read_result", r#"{"handle": "r1-0"}"#), ScriptEntry::text("done")];
    let report = agent("version: 1", replies()).run(task()).await.unwrap();
    assert!(results(&report)[0].contains("There is no tool `read_result`"));
    let report = agent(SPILL, replies()).run(task()).await.unwrap();
    assert!(results(&report)[0].contains("nothing is kept under the handle `r1-0`"));
}

#[tokio::test]
async fn a_very_large_result_is_shown_as_far_as_the_policy_allows() {
    let parameters = json!({"type": "object"});
    let spec = ToolSpec { name: "lines".into(), description: String::new(), parameters, effect: None };
    let large = FunctionTool::new(spec, |_, _| async { Ok(json!({"text": "x".repeat(100_000_000)})) });
    let replies = [ScriptEntry::call("lines", "{}"), ScriptEntry::text("done")];
    let policy = Policy::from_yaml("policy.yaml", "version: 1").unwrap();
    let model = ScriptedModel::new(Script::new("script", replies));
    let agent = Agent::new(policy).model("main", model).tools(Tools::new().with(large));
    let report = agent.run(task()).await.unwrap();
    let shown = results(&report)[0];
    assert!(shown.len() <= 16_100 && shown.ends_with("… (100000000 chars)\"}"), "{} bytes", shown.len());
}

#[test]
fn failures_have_the_same_form_as_results() {
    let outcome: ToolOutcome =
        unfazed::host::ToolError::new(unfazed::policy::ErrorClass::ToolNotFound, "there is no tool x").into();
    let policy = Policy::from_yaml("p.yaml", "version: 1").unwrap();
    let result = ToolResult::new("x", &outcome, &unfazed::engine::RunFacts::default(), &policy);
    assert_eq!(result.model_text(), r#"{"error":"there is no tool x","error_type":"tool_not_found"}"#);
}
