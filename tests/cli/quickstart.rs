//! The quickstart is lived through as it is shown: everything goes wrong in its order, and the run ends with a report.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::command;

fn quickstart(sessions: &Path, args: &[&str]) -> Command {
    let mut command = command::unfazed(root(), &[&["run", "examples/quickstart/agent.yaml"], args].concat());
    command.env("UNFAZED_SESSIONS", sessions);
    command
}

fn run() -> (Vec<Value>, Option<i32>, String) {
    let sessions = tempfile::tempdir().unwrap();
    run_of(quickstart(sessions.path(), &["--format", "json"]))
}

fn run_of(mut command: Command) -> (Vec<Value>, Option<i32>, String) {
    let output = command.output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<Value> = stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let session = lines.last().and_then(|line| line["session"].as_str()).unwrap_or_default();
    let log = std::fs::read_to_string(Path::new(session)).unwrap_or_default();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    (lines, output.status.code(), log)
}

/// What a line tells of the story; most tell nothing.
fn chapter(line: &Value) -> Option<String> {
    let text = |key: &str| line[key].as_str().unwrap_or_default().to_owned();
    match (text("kind").as_str(), text("event").as_str(), text("directive").as_str()) {
        (_, "model_failed", _) => Some(format!("model failed with {}", line["failure"]["status"])),
        (_, _, "wait") => Some(format!("wait for {} ({})", text("subject"), text("error_type"))),
        (_, _, "run_tool") => Some(format!("run {}, attempt {}", text("tool"), line["attempt"])),
        (_, _, "feedback") => {
            let feedback = &line["feedback"];
            let (what, class) = (&feedback["tool_name"], &feedback["error_type"]);
            Some(format!("feedback on {}: {}", what.as_str().unwrap_or("the report"), class.as_str()?))
        }
        (_, _, "breaker") => Some(format!("breaker of {} {}", text("tool"), text("state"))),
        (_, _, "refused") => Some(format!("{} refused: {}", text("tool"), text("error_type"))),
        (_, _, "reject_turn") => Some(format!("turn rejected: {}", text("error_type"))),
        (_, _, "output_refused") => Some("report refused".to_owned()),
        (_, _, "output_accepted") => Some("report accepted".to_owned()),
        ("result", ..) => Some(format!("the end: {}", line["outcome"]["status"].as_str()?)),
        _ => None,
    }
}

#[test]
fn everything_goes_wrong_and_the_report_is_delivered() {
    let (lines, code, log) = run();
    let story: Vec<String> = lines.iter().filter_map(chapter).collect();
    insta::assert_snapshot!(story.join("\n"));
    assert_eq!(code, Some(0));

    let result = lines.last().unwrap();
    assert_eq!(result["outcome"]["output"]["total_eur"], 270.48);
    assert_eq!(result["slices"]["failed_calls"], 1);

    let waited: u64 = lines.iter().filter_map(|line| line["delay"].as_u64()).sum();
    assert!(waited < 10_000_000_000, "{waited} ns");
    let first = lines.iter().find_map(|line| line["delay"].as_u64());
    assert_eq!(first, Some(1_000_000_000), "the first wait is the one the server asks for");

    // Every decision names the line of the policy that made it.
    let wait = lines.iter().find(|line| line["directive"] == "wait").unwrap();
    let place = &wait["because"][2]["place"];
    assert_eq!(wait["because"][2]["rule"], "retry.server_delay");
    assert!(place["file"].as_str().unwrap().ends_with("policy.yaml"), "{place}");

    let feedback = log.lines().filter(|line| line.contains(r#""directive":"feedback""#)).count();
    assert!(feedback >= 5, "the session holds {feedback} records of feedback");
}

#[test]
fn the_story_is_the_same_in_every_wire_format() {
    use unfazed::host::scripted::{Script, ScriptedServer};
    let told = |lines: &[Value]| lines.iter().filter_map(chapter).collect::<Vec<_>>();
    let (expected, ..) = run();
    let example = root().join("examples/quickstart");
    let agent = std::fs::read_to_string(example.join("agent.yaml")).unwrap();
    let script = std::fs::read(example.join("model.yaml")).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let apis = ["openai", "azure", "anthropic", "responses", "gemini", "bedrock"];
    for (api, stream) in apis.into_iter().flat_map(|api| [(api, true), (api, false)]) {
        let script = Script::from_yaml("model.yaml", &script).unwrap();
        let server = runtime.block_on(ScriptedServer::start(script, 0)).unwrap();
        let address = format!("http://{}", server.address());
        let (base_url, more) = match api {
            "azure" => (address, "model: m, api_version: '2024-10-21'"),
            "bedrock" => {
                (address, "model: 'anthropic.claude-m:0', region: us-east-1, api_key: {env: BEDROCK_KEY}")
            }
            _ => (server.base_url(), "model: m, ask_window: false"),
        };
        let model = format!("{{api: {api}, base_url: '{base_url}', stream: {stream}, {more}}}");
        let folder = tempfile::tempdir().unwrap();
        let text = agent.replace("{api: scripted, script: model.yaml}", &model);
        assert!(text.contains(&model), "{text}");
        std::fs::write(folder.path().join("agent.yaml"), text).unwrap();
        std::fs::copy(example.join("policy.yaml"), folder.path().join("policy.yaml")).unwrap();
        std::fs::create_dir(folder.path().join("tools")).unwrap();
        for tool in std::fs::read_dir(example.join("tools")).unwrap() {
            let tool = tool.unwrap();
            std::fs::copy(tool.path(), folder.path().join("tools").join(tool.file_name())).unwrap();
        }
        let mut command = command::unfazed(folder.path(), &["run", "agent.yaml", "--format", "json"]);
        command.env("UNFAZED_SESSIONS", folder.path().join("sessions")).env("BEDROCK_KEY", "key-of-bedrock");
        let (lines, code, _) = run_of(command);
        assert_eq!((told(&lines), code), (told(&expected), Some(0)), "{api}, streamed: {stream}");
        assert!(!server.requests().is_empty());
    }
}

#[test]
fn no_reason_is_said_twice_in_a_turn() {
    let sessions = tempfile::tempdir().unwrap();
    let output = quickstart(sessions.path(), &[]).output().unwrap();
    let printed = String::from_utf8(output.stderr).unwrap();
    let mut reasons = 0;
    for turn in printed.split("─ turn ") {
        let said: Vec<&str> = turn.lines().filter(|line| line.starts_with("             ")).collect();
        let once: std::collections::HashSet<&&str> = said.iter().collect();
        assert_eq!(said.len(), once.len(), "{turn}");
        reasons += said.len();
    }
    assert!(reasons > 10, "{printed}");
}

#[test]
fn what_the_readme_shows_is_what_is_printed() {
    let sessions = tempfile::tempdir().unwrap();
    let output = quickstart(sessions.path(), &[]).output().unwrap();
    let printed = String::from_utf8(output.stderr).unwrap();
    let mut printed = printed.lines().map(without_time);
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let (_, shown) = readme.split_once("```text\n").unwrap();
    let (shown, _) = shown.split_once("```").unwrap();
    for line in shown.lines().filter(|line| *line != "…") {
        let wanted = without_time(line);
        assert!(printed.any(|line| line == wanted), "this is not printed, or not in this order: {line}");
    }
}

#[test]
fn what_the_picture_shows_is_what_is_printed() {
    let sessions = tempfile::tempdir().unwrap();
    let (terminal, said) = std::io::pipe().unwrap();
    let mut run = quickstart(sessions.path(), &["--quiet"])
        .stdout(said.try_clone().unwrap())
        .stderr(said)
        .spawn()
        .unwrap();
    let printed = std::io::read_to_string(terminal).unwrap();
    assert!(run.wait().unwrap().success(), "{printed}");
    let printed = printed.replace(sessions.path().to_str().unwrap(), ".unfazed/sessions");
    let printed: Vec<String> = printed.trim_end().lines().map(comparable).collect();

    let picture = root().join("docs/pictures/quickstart.svg");
    let picture = std::fs::read_to_string(picture).unwrap();
    let lines = picture.lines().filter(|line| line.starts_with("<text "));
    let mut shown = lines.map(|line| comparable(&text_of(line)));
    assert_eq!(shown.next().as_deref(), Some("$ unfazed run --quiet examples/quickstart/agent.yaml"));
    let shown: Vec<String> = shown.collect();

    let again = "docs/pictures/record.py makes the picture anew";
    for (shown, printed) in shown.iter().zip(&printed) {
        // The picture cuts what does not fit into its window.
        let same =
            shown == printed || shown.strip_suffix('…').is_some_and(|start| printed.starts_with(start));
        assert!(same, "the picture shows `{shown}`, and printed is `{printed}`: {again}");
    }
    assert_eq!(shown.len(), printed.len(), "{again}");
}

/// The text of an element of the picture.
fn text_of(element: &str) -> String {
    let text = regex::Regex::new("<[^>]*>").unwrap().replace_all(element, "").into_owned();
    let marks = [("&quot;", "\""), ("&#x27;", "'"), ("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")];
    marks.iter().fold(text, |text, (written, meant)| text.replace(written, meant))
}

/// A line without what is another one in every run: the time, waits that are drawn, and the name of the session.
fn comparable(line: &str) -> String {
    let name = regex::Regex::new("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}").unwrap();
    let drawn = regex::Regex::new("waits [0-9]+ms before").unwrap();
    let line = name.replace_all(without_time(line), "ID");
    drawn.replace_all(&line, "waits before").into_owned()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn without_time(line: &str) -> &str {
    match line.split_once("s  ") {
        Some((time, rest)) if time.trim().parse::<f64>().is_ok() => rest,
        _ => line,
    }
}
