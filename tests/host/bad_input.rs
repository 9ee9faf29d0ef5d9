//! What tools and models may do to a run: each of it comes to a result of a class, and the session can be read.

use std::io::BufReader;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;
use unfazed::engine::{DirectiveKind, Event, LogHeader, Note, Record, ToolOutcome, ToolResult, ToolSpec};
use unfazed::host::scripted::{Script, ScriptEntry, ScriptedModel};
use unfazed::host::{
    Agent, Clock, NoopObserver, OutputFormat, ProcessConfig, ProcessTool, RunTask, StopSwitch, Tools,
};
use unfazed::policy::{ErrorClass, Policy};
use unfazed::session::Message;
use unfazed::store::{FsyncMode, JsonlStore, Recorder, SessionId, Store, read_log};

const POLICY: &str = "version: 1
tools: {'*': {retry: {max_attempts: 1, attempt_timeout: 500ms}}}
";

/// What came of a run.
struct Came {
    _dir: TempDir,
    /// What the model was shown of each call.
    shown: Vec<String>,
    /// How each run of the tool ended.
    ended: Vec<ToolResult>,
    /// Calls that did not run.
    refused: Vec<ErrorClass>,
    took: Duration,
}

/// A run in which the model calls a tool, which is a small shell script, with these arguments.
async fn run_with(config: ProcessConfig, policy: &str, arguments: &str) -> Came {
    let dir = tempfile::tempdir().unwrap();
    let replies = [ScriptEntry::call("tool", arguments), ScriptEntry::text("done")];
    let policy = Policy::from_yaml("policy.yaml", policy).unwrap_or_else(|report| panic!("{report}"));
    let (store, id) = (JsonlStore::new(dir.path(), FsyncMode::Never), SessionId::generate());
    let header = LogHeader::new(id.to_string(), policy.digest().to_owned(), Clock::system().now());
    let log = store.create(&id, &header).await.unwrap();
    let path = store.path(&id);
    let agent = Agent::new(policy.clone())
        .model("m", ScriptedModel::new(Script::new("script", replies)))
        .tools(Tools::new().with(ProcessTool::new(config)));
    let task = RunTask { run: "run-1".into(), task: "try it".into(), ..RunTask::default() };
    let (begun, mut recorder) = (Instant::now(), Recorder::new(log).await);
    let report =
        agent.run_with(task, &mut NoopObserver, Some(&mut recorder), StopSwitch::new()).await.unwrap();
    let took = begun.elapsed();
    let results = report.messages.iter().filter(|message| matches!(message, Message::Tool { .. }));
    let shown = results.map(|message| message.text().to_owned()).collect();
    let (ended, refused) = told(&path, &policy);
    Came { _dir: dir, shown, ended, refused, took }
}

async fn run(script: &str) -> Came {
    run_with(tool(script), POLICY, "{}").await
}

fn spec() -> ToolSpec {
    let parameters = json!({"type": "object"});
    ToolSpec { name: "tool".into(), description: String::new(), parameters, effect: None }
}

fn tool(script: &str) -> ProcessConfig {
    ProcessConfig::new(spec(), ["sh", "-c", script]).grace(Duration::from_millis(100))
}

/// What the session tells when it is read again.
fn told(path: &Path, policy: &Policy) -> (Vec<ToolResult>, Vec<ErrorClass>) {
    let (mut ended, mut refused) = (Vec::new(), Vec::new());
    let file = std::fs::File::open(path).unwrap();
    for record in read_log(BufReader::new(file)) {
        match record.unwrap() {
            Record::Event(envelope) => {
                if let Event::ToolFinished { outcome, run, .. } = &envelope.event {
                    ended.push(ToolResult::new("tool", outcome, run, policy));
                }
            }
            Record::Directives { list, .. } => {
                for directive in list.0 {
                    if let DirectiveKind::Note(Note::Refused { error_type, .. }) = directive.order {
                        refused.push(error_type);
                    }
                }
            }
            Record::Session(_) | Record::State { .. } => {}
        }
    }
    (ended, refused)
}

/// The one run of the tool.
fn only(came: &Came) -> &ToolResult {
    let [result] = &came.ended[..] else {
        panic!("{} runs; the model was shown {:?}", came.ended.len(), came.shown)
    };
    assert!(result.process_id.is_some() && result.duration_ms.is_some(), "{result:?}");
    assert!(came.took < Duration::from_secs(20), "{:?}", came.took);
    result
}

fn failure(came: &Came) -> (ErrorClass, &str) {
    let result = only(came);
    (result.error_type.unwrap(), result.error.as_deref().unwrap())
}

#[tokio::test]
async fn a_tool_that_prints_two_hundred_megabytes() {
    let policy = "version: 1\ntools: {'*': {retry: {max_attempts: 1}}}";
    let printing = tool("head -c 200000000 /dev/zero | tr '\\0' x");
    let came = run_with(printing.max_output(100_000), policy, "{}").await;
    let kept = only(&came).data.clone().unwrap();
    let kept = kept.as_str().unwrap();
    assert!(kept.len() < 100_100, "{}", kept.len());
    assert!(kept.ends_with("[cut: 200000000 bytes were printed, the first 100000 are shown]"));
    assert!(came.shown[0].chars().count() <= 16_000);
}

#[tokio::test]
async fn a_tool_that_prints_without_end() {
    let came = run("yes").await;
    let (class, message) = failure(&came);
    assert_eq!(class, ErrorClass::Timeout);
    assert!(message.len() < 5000 && message.contains("did not end within 500ms"), "{message}");
}

#[tokio::test]
async fn a_tool_that_prints_invalid_utf8() {
    let came = run("printf 'a\\377\\376b\\300'").await;
    assert_eq!(only(&came).data, Some(json!("a\u{fffd}\u{fffd}b\u{fffd}")));
    assert_eq!(came.shown, ["a\u{fffd}\u{fffd}b\u{fffd}"]);
}

#[tokio::test]
async fn a_tool_that_never_ends() {
    let came = run("exec sleep 1000").await;
    assert_eq!(failure(&came), (ErrorClass::Timeout, "`sh` did not end within 500ms and was killed"));
}

#[tokio::test]
async fn a_tool_that_forks_and_keeps_its_output_open() {
    let came = run("sleep 1000 & sleep 1000 & echo done").await;
    assert_eq!(only(&came).data, Some(json!("done")));
}

#[tokio::test]
async fn a_tool_that_ignores_the_request_to_end() {
    let came = run("trap '' TERM INT HUP; while :; do sleep 0.05; done").await;
    assert_eq!(failure(&came).0, ErrorClass::Timeout);
}

#[tokio::test]
async fn a_tool_that_closes_its_output_and_goes_on() {
    let came = run("exec >&- 2>&-; exec sleep 1000").await;
    assert_eq!(failure(&came).0, ErrorClass::Timeout);
}

#[tokio::test]
async fn a_tool_that_answers_twice() {
    let twice = tool("echo '{}'; echo '{}'").output(OutputFormat::Json);
    let came = run_with(twice, POLICY, "{}").await;
    let (class, message) = failure(&came);
    assert_eq!(class, ErrorClass::ExecutionError);
    assert!(message.contains("did its work, but its output is not JSON"), "{message}");
}

#[tokio::test]
async fn a_tool_whose_answer_is_nested_ten_thousand_levels_deep() {
    let deep = "head -c 10000 /dev/zero | tr '\\0' '['; head -c 10000 /dev/zero | tr '\\0' ']'";
    let came = run_with(tool(deep).output(OutputFormat::Json), POLICY, "{}").await;
    let (class, message) = failure(&came);
    assert_eq!(class, ErrorClass::ExecutionError);
    assert!(message.contains("recursion limit") || message.contains("nested"), "{message}");
    let came = run(deep).await;
    assert_eq!(only(&came).data.as_ref().and_then(Value::as_str).map(str::len), Some(20_000), "it is text");
}

#[tokio::test]
async fn a_tool_that_is_gone_is_told_with_its_class_and_had_no_process() {
    let came = run_with(ProcessConfig::new(spec(), ["no-such-command"]), POLICY, "{}").await;
    assert_eq!(came.ended[0].error_type, Some(ErrorClass::ToolUnavailable));
    assert_eq!(came.ended[0].process_id, None);
}

#[tokio::test]
async fn arguments_of_ten_megabytes() {
    let arguments = json!({"text": "x".repeat(10_000_000)}).to_string();
    let came = run_with(tool("wc -c"), "version: 1", &arguments).await;
    assert_eq!(only(&came).data, Some(json!(arguments.len())));
}

#[tokio::test]
async fn arguments_nested_ten_thousand_levels_deep() {
    let deep = |levels: usize| format!("{{\"a\": {}1{}}}", "[".repeat(levels), "]".repeat(levels));
    for levels in [10_000, 200, 126, 110, 70] {
        let came = run_with(tool("cat"), "version: 1", &deep(levels)).await;
        assert_eq!(came.refused, [ErrorClass::MalformedToolCall], "{levels} levels: {:?}", came.shown);
        assert!(came.ended.is_empty(), "it did not run");
        let why = if levels > 126 { "recursion limit exceeded" } else { "nested deeper than 64 levels" };
        assert!(came.shown[0].len() < 1000 && came.shown[0].contains(why), "{}", came.shown[0]);
    }
    let came = run_with(tool("cat"), "version: 1", &deep(60)).await;
    let outcome = ToolOutcome::Ok { data: only(&came).data.clone().unwrap() };
    assert!(matches!(outcome, ToolOutcome::Ok { data } if data.is_object()));
}
