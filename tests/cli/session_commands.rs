//! Sessions as people use them: gone on with, listed, searched, shown, exported, renamed, deleted, and without secrets.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;
use unfazed::engine::{Envelope, Event, LogHeader, RunStarted};
use unfazed::store::{FsyncMode, JsonlStore, SessionId, SessionMeta, SessionStatus};
use unfazed::time::Instant;

use crate::command;
use crate::desk;
use crate::waiting::{Waited, wait};

const POLICY: &str = "version: 1\ntools: {'*': {retry: {retry_on: {add: [execution_error]}, backoff: {kind: constant, delay: 0s}}}}\n";

struct Scene(TempDir);

impl Scene {
    fn new() -> Self {
        Self(desk::folder(POLICY))
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.0.path().join(name), text).unwrap();
    }

    fn command(&self, args: &[&str]) -> Command {
        command::unfazed(self.0.path(), args)
    }

    fn unfazed(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    fn store(&self) -> Waited<Box<JsonlStore>> {
        Waited(Box::new(JsonlStore::new(self.0.path().join(".unfazed/sessions"), FsyncMode::Never)))
    }

    /// A whole run, by the command.
    fn run(&self) -> SessionId {
        let output = self.unfazed(&["run", "agent.yaml"]);
        assert_eq!(output.status.code(), Some(0), "{}", err(&output));
        self.store().list().unwrap().sessions[0].id.clone()
    }

    /// A session as a run leaves it that was killed at once.
    fn broken_off(&self, id: &str, task: &str) -> SessionId {
        let id: SessionId = id.parse().unwrap();
        let log = self.store().create(&id, &LogHeader::new(id.to_string(), "p", Instant(1))).unwrap();
        let started = RunStarted { run: id.to_string(), task: task.into(), ..RunStarted::default() };
        let envelope = Envelope { seq: 1, now: Instant(2), event: Event::RunStarted(started) };
        let mut recorder = log.record();
        unfazed::host::Journal::event(&mut recorder, &envelope).unwrap();
        wait(recorder.close());
        let mut meta = self.store().info(&id).unwrap().meta;
        meta.happened(&envelope);
        self.describe(&id, &meta);
        id
    }

    fn describe(&self, id: &SessionId, meta: &SessionMeta) {
        let path = self.store().path(id).with_extension("meta.json");
        fs::write(path, serde_json::to_vec(meta).unwrap()).unwrap();
    }

    /// Leaves of the log what is before the first line with that text.
    fn cut_before(&self, id: &SessionId, text: &str) {
        let log = fs::read_to_string(self.store().path(id)).unwrap();
        self.cut(id, log.find(text).unwrap());
    }

    /// Leaves of the log what is before the line that is there.
    fn cut(&self, id: &SessionId, at: usize) {
        let path = self.store().path(id);
        let log = fs::read_to_string(&path).unwrap();
        fs::write(path, &log[..=log[..at].rfind('\n').unwrap()]).unwrap();
        let meta = self.store().info(id).unwrap().meta;
        self.describe(id, &SessionMeta { status: SessionStatus::Running, ..meta });
    }
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[track_caller]
fn says(text: &str, wanted: &[&str]) {
    for wanted in wanted {
        assert!(text.contains(wanted), "this is not said: {wanted}\nbut:\n{text}");
    }
}

#[test]
fn a_file_beside_the_log_that_cannot_be_written_is_told_with_its_path() {
    let scene = Scene::new();
    let id = scene.run();
    let beside = ["state", "meta.json"].map(|end| scene.store().path(&id).with_extension(end));
    for path in &beside {
        fs::remove_file(path).unwrap();
        fs::create_dir(path).unwrap();
    }
    let output = scene.unfazed(&["run", "--resume", id.as_str(), "And the chair?"]);
    let told = err(&output);
    let warnings: Vec<_> = told.lines().filter(|line| line.starts_with("warning: ")).collect();
    assert_eq!(warnings.len(), 2, "{told}");
    for path in beside {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        assert!(
            warnings.iter().any(|line| line.contains(&name) && line.contains("it is a folder")),
            "{told}"
        );
    }
    let again = scene.unfazed(&["run", "--resume", id.as_str(), "--format", "json", "And the table?"]);
    assert!(err(&again).contains("warning: cannot write "), "{}", err(&again));
}

#[test]
fn a_run_that_was_killed_goes_on_without_a_word_about_its_agent() {
    let scene = Scene::new();
    let id = scene.run();
    scene.cut_before(&id, r#""event":"tool_finished""#);
    let output = scene.unfazed(&["run", "--resume", "latest"]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert_eq!(out(&output), "The lamp costs 12.50.\n");
    says(
        &err(&output),
        &[
            "continues",
            "look was running when the run was broken off; it is unknown what it did",
            "look failed",
        ],
    );
    // It does no harm to look again.
    says(&err(&output), &["look({}) runs, attempt 2 of 4"]);
    assert_eq!(scene.store().list().unwrap().sessions.len(), 1);
}

#[test]
fn the_next_question_goes_on_with_the_conversation() {
    let scene = Scene::new();
    let id = scene.run();
    let output = scene.unfazed(&["run", "--resume", id.as_str(), "And the chair?"]);
    assert_eq!((output.status.code(), out(&output)), (Some(0), "And the chair 40.\n".to_owned()));
    let meta = scene.store().info(&id).unwrap().meta;
    assert_eq!((meta.runs, meta.title.as_str()), (2, "What does the lamp cost?"));
}

#[test]
fn a_policy_that_was_changed_meanwhile_is_taken_and_said() {
    let scene = Scene::new();
    let id = scene.run();
    let log = fs::read_to_string(scene.store().path(&id)).unwrap();
    let last = log.rfind(r#""event":"model_responded""#).unwrap();
    scene.cut(&id, last);
    scene.write("policy.yaml", "version: 1\nturn: {max_turns: 3}\n");
    let output = scene.unfazed(&["run", "--resume", id.as_str()]);
    assert_eq!(
        (output.status.code(), out(&output)),
        (Some(0), "The lamp costs 12.50.\n".into()),
        "{}",
        err(&output)
    );
    says(&err(&output), &[" takes effect"]);
}

#[test]
fn what_cannot_go_on_is_said() {
    let scene = Scene::new();
    let said = |args: &[&str]| {
        let output = scene.unfazed(args);
        assert_ne!(output.status.code(), Some(0));
        err(&output)
    };
    says(&said(&["run", "--resume", "latest"]), &["no run in .unfazed/sessions was broken off"]);
    says(&said(&["run", "--resume", "nope"]), &["there is no session `nope` in .unfazed/sessions"]);
    says(&said(&["run", "--resume", "x", "a", "--task", "b"]), &["there are two tasks"]);
    says(&said(&["run"]), &["<AGENT | TASK>"]);
    let id = scene.run();
    let agent = ["is an agent file, and --resume takes a task there", "--resume latest --agent agent.yaml"];
    says(&said(&["run", "agent.yaml", "--resume", "latest"]), &agent);
    let _open = scene.store().open(&id).unwrap();
    says(&said(&["run", "--resume", id.as_str(), "more"]), &["is in use by another process"]);
}

/// A run that was killed between its end and its last line of output.
#[test]
fn a_session_whose_run_is_over_prints_what_it_came_to() {
    let scene = Scene::new();
    let id = scene.run();
    let output = scene.unfazed(&["run", "--resume", id.as_str()]);
    assert_eq!((output.status.code(), out(&output)), (Some(0), "The lamp costs 12.50.\n".to_owned()));
    says(&err(&output), &["is over (answered); it came to this", &format!("--resume {id} '...'")]);
    let json = scene.unfazed(&["run", "--resume", id.as_str(), "--format", "json"]);
    let line: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(
        (&line["kind"], &line["outcome"]["text"]),
        (&"result".into(), &"The lamp costs 12.50.".into())
    );
    // Nothing was decided again.
    assert_eq!(scene.store().info(&id).unwrap().meta.runs, 1);
}

#[test]
fn a_session_in_which_no_run_has_begun_is_new() {
    let scene = Scene::new();
    let id: SessionId = "dead".parse().unwrap();
    drop(scene.store().create(&id, &LogHeader::new("dead", "p", Instant(1))).unwrap());
    assert_eq!(scene.store().info(&id).unwrap().meta.status, SessionStatus::New);
    // What the log has counts, should the sidecar file of it be older.
    let broken_off = scene.broken_off("killed", "A chair");
    let header = LogHeader::new("killed", "p", Instant(1));
    scene.describe(&broken_off, &SessionMeta::of(&header));
    let meta = scene.store().info(&broken_off).unwrap().meta;
    assert_eq!((meta.status, meta.title.as_str()), (SessionStatus::BrokenOff, "A chair"));
}

/// Sessions of the first format have no checksums. They are read, exported and replayed as before; what cannot
/// be resumed is called so.
#[test]
fn sessions_of_format_1_are_still_read() {
    let scene = Scene::new();
    let formats = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/formats/1");
    fs::create_dir_all(scene.store().dir()).unwrap();
    for file in fs::read_dir(formats).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), scene.store().dir().join(file.file_name())).unwrap();
    }
    let policy = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/quickstart/policy.yaml");
    let agent = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/quickstart/agent.yaml");
    let (policy, agent) = (policy.to_str().unwrap(), agent.to_str().unwrap());
    for id in ["reported", "broken-off"] {
        for args in [
            &["sessions", "show", id][..],
            &["sessions", "export", id],
            &["sessions", "export", id, "--format", "markdown"],
            &["sessions", "export", id, "--format", "openai"],
        ] {
            let output = scene.unfazed(args);
            assert!(output.status.success(), "{args:?}: {}", err(&output));
            says(&out(&output), &["desk lamp"]);
        }
        let replayed = scene.unfazed(&["replay", id, "--policy", policy]);
        assert!(replayed.status.success(), "{}{}", out(&replayed), err(&replayed));
        says(&out(&replayed), &["session   ", "decisions"]);
    }
    // Its policy has changed since, and the state beside its log has another format.
    let resumed = scene.unfazed(&["run", "--resume", "broken-off", "--agent", agent, "--quiet"]);
    assert_eq!(resumed.status.code(), Some(1), "{}", err(&resumed));
    says(&err(&resumed), &["`broken-off` cannot be resumed: an earlier version", "start a new session"]);
    let log = fs::read_to_string(scene.store().dir().join("broken-off.jsonl")).unwrap();
    assert!(log.lines().all(|line| line.starts_with(r#"{"v":1,"#)), "nothing was added");
}

/// On a terminal, by Python's `pty`: a `y` is typed before the question, an `n` after it.
#[test]
fn what_was_typed_before_the_question_does_not_approve() {
    const TYPES: &str = r#"
import os, pty, sys, select
pid, fd = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], sys.argv[1:])
os.write(fd, b"y\n")
seen, answered = b"", False
while True:
    try:
        more = os.read(fd, 4096)
    except OSError:
        break
    if not more:
        break
    seen += more
    if b"Run it?" in seen and not answered:
        answered = True
        os.write(fd, b"n\n")
sys.stdout.buffer.write(seen)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"#;
    let scene = Scene::new();
    scene.write(
        "policy.yaml",
        "version: 1
tools: {look: {approval: always}}
",
    );
    scene.write(
        "look.sh",
        "echo ran > ran
echo 12.50
",
    );
    let unfazed = env!("CARGO_BIN_EXE_unfazed");
    let mut typed = command::program("python3", scene.0.path(), &["-c", TYPES, unfazed, "run", "agent.yaml"]);
    let output = typed.output().unwrap();
    assert!(!scene.0.path().join("ran").exists(), "{}", out(&output));
    assert!(output.status.success(), "{}", err(&output));
    says(&out(&output), &["Run it? y (yes), n (no)", "The lamp costs 12.50."]);
}

#[test]
fn dead_sessions_are_passed_over_and_said() {
    let scene = Scene::new();
    let id = scene.run();
    scene.cut_before(&id, r#""event":"tool_finished""#);
    fs::write(scene.0.path().join(".unfazed/sessions/zero.jsonl"), "").unwrap();
    let dead: SessionId = "dead".parse().unwrap();
    drop(scene.store().create(&dead, &LogHeader::new("dead", "p", Instant(1))).unwrap());
    let output = scene.unfazed(&["run", "--resume", "latest"]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    says(&err(&output), &["passed over  zero: ", "it is empty", "passed over  dead: no run of it has begun"]);
}

#[test]
fn the_log_decides_whether_a_run_is_over() {
    let scene = Scene::new();
    let id = scene.run();
    let known = scene.store().info(&id).unwrap().meta;
    assert_eq!(known.status, SessionStatus::Answered);
    // Without a run that was broken off, the latest says what it came to; without what is kept beside it, the log does.
    let printed = |args: &[&str]| {
        let output = scene.unfazed(args);
        assert_eq!(output.status.code(), Some(0), "{}", err(&output));
        (out(&output), err(&output))
    };
    let by_id = printed(&["run", "--resume", id.as_str()]);
    says(&by_id.1, &["came to this"]);
    assert_eq!(printed(&["run", "--resume", "latest"]), by_id);
    fs::remove_file(scene.store().path(&id).with_extension("meta.json")).unwrap();
    assert_eq!(printed(&["run", "--resume", id.as_str()]), by_id);
    // A log that lost its end continues, whatever is kept beside it.
    let log = fs::read_to_string(scene.store().path(&id)).unwrap();
    scene.cut(&id, log.rfind(r#""event":"model_responded""#).unwrap());
    scene.describe(&id, &known);
    let (said, told) = printed(&["run", "--resume", id.as_str()]);
    assert_eq!(said, by_id.0);
    assert!(!told.contains("came to this"), "{told}");
}

#[test]
fn a_task_goes_into_no_older_conversation_while_the_latest_is_in_use() {
    let scene = Scene::new();
    let older = scene.run();
    scene.cut_before(&older, r#""event":"tool_finished""#);
    let latest = scene.broken_off("later", "A chair");
    let _open = scene.store().open(&latest).unwrap();
    let output = scene.unfazed(&["run", "--resume", "latest", "And the table?"]);
    assert_eq!(output.status.code(), Some(1), "{}", err(&output));
    says(&err(&output), &["session later, the latest, is in use by another process"]);
    assert_eq!(scene.store().info(&older).unwrap().meta.runs, 1);
    // Without a task it is the run that was broken off last among those nobody continues with.
    let output = scene.unfazed(&["run", "--resume", "latest"]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    says(&err(&output), &["passed over  later: it is in use"]);
}

#[test]
fn sessions_are_listed_the_latest_first() {
    let scene = Scene::new();
    assert!(err(&scene.unfazed(&["sessions"])).contains("no sessions in .unfazed/sessions"));
    let id = scene.run();
    scene.broken_off("later", "A chair\nfor me");
    let listed = out(&scene.unfazed(&["sessions"]));
    let lines: Vec<&str> = listed.lines().collect();
    says(lines[0], &["session", "updated", "status", "agent", "title"]);
    says(lines[1], &["later", "broken off", "-", "A chair for me"]);
    says(lines[2], &[id.as_str(), "answered", "desk", "What does the lamp cost?"]);
    let listed = |args: &[&str]| {
        let output = scene.unfazed(&[&["sessions", "list", "--format", "json"], args].concat());
        let json: Value = serde_json::from_slice(&output.stdout).unwrap();
        let ids = json["sessions"].as_array().unwrap().iter();
        ids.map(|session| session["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(listed(&["--status", "broken_off"]), ["later"]);
    assert_eq!(listed(&["--agent", "desk"]), [id.as_str()]);
    assert_eq!(listed(&["--limit", "1"]), ["later"]);
    assert_eq!(listed(&["--since", "1h"]).len(), 2);
    assert!(listed(&["--before", "2020-01-01"]).is_empty());
}

#[test]
fn a_session_as_json_has_these_fields() {
    let scene = Scene::new();
    scene.run();
    let json: Value =
        serde_json::from_slice(&scene.unfazed(&["sessions", "list", "--format", "json"]).stdout).unwrap();
    let fields: Vec<&String> = json["sessions"][0].as_object().unwrap().keys().collect();
    assert_eq!(
        fields,
        [
            "id",
            "title",
            "agent",
            "status",
            "resumable",
            "model",
            "created",
            "updated",
            "runs",
            "turns",
            "messages",
            "tokens",
            "bytes",
            "path"
        ]
    );
    assert_eq!((&json["v"], &json["sessions"][0]["messages"]), (&1.into(), &4.into()));
}

#[test]
fn text_is_found_in_titles_and_messages() {
    let scene = Scene::new();
    let id = scene.run();
    scene.broken_off("other", "Chairs \"of wood\"");
    let found = |args: &[&str]| {
        let listed = out(&scene.unfazed(&[&["sessions", "search"], args].concat()));
        listed.lines().skip(1).map(|line| line.split(' ').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(found(&["LAMP costs 12"]), [id.as_str()]);
    assert!(found(&["LAMP costs 12", "--titles"]).is_empty());
    assert_eq!(found(&["\"of"]), ["other"]);
    assert!(found(&["tool_finished"]).is_empty(), "what is written about messages is no message");
}

#[test]
fn a_session_is_shown_with_its_decisions() {
    let scene = Scene::new();
    scene.write(
        "look.sh",
        "test -e seen && echo 12.50 && exit; touch seen; echo connection refused >&2; exit 1\n",
    );
    scene.run();
    let shown = out(&scene.unfazed(&["sessions", "show", "latest"]));
    says(
        &shown,
        &[
            "What does the lamp cost?\n",
            "  user\n    What does the lamp cost?\n",
            "turn 1 of 12",
            "look failed",
            "(policy.yaml",
            "  look\n    12.50\n",
            "  assistant\n    The lamp costs 12.50.\n",
            "the run ends with an answer",
        ],
    );
    assert!(!out(&scene.unfazed(&["sessions", "show", "latest", "--quiet"])).contains("(policy.yaml"));
}

#[test]
fn a_session_is_exported_for_people_and_programs() {
    let scene = Scene::new();
    scene.run();
    let export = |format: &str| out(&scene.unfazed(&["sessions", "export", "latest", "--format", format]));
    says(
        &export("markdown"),
        &[
            "# What does the lamp cost?\n",
            "- agent: desk\n",
            "## User\n\nWhat does",
            "look\n```\n{}\n```\n",
            "## Result of look\n\n```\n12.50\n```\n",
            "> ",
            "## Assistant\n\nThe lamp costs 12.50.\n",
        ],
    );
    let openai: Value = serde_json::from_str(&export("openai")).unwrap();
    let roles: Vec<&str> =
        openai.as_array().unwrap().iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "assistant"]);
    assert_eq!(openai[1]["tool_calls"][0]["id"], openai[2]["tool_call_id"]);
    let json: Value = serde_json::from_str(&export("json")).unwrap();
    assert_eq!((&json["session"]["agent"], json["messages"].as_array().unwrap().len()), (&"desk".into(), 4));
    assert!(
        json["decisions"].as_array().unwrap().iter().any(|one| one["decision"]["directive"] == "run_tool")
    );
    let output = scene.unfazed(&["sessions", "export", "latest", "-o", "agent.yaml"]);
    assert_eq!(output.status.code(), Some(2), "what is there is not written over");
}

#[test]
fn a_title_that_was_given_stays_and_the_log_is_not_touched() {
    let scene = Scene::new();
    let id = scene.run();
    let path = scene.store().path(&id);
    let before = (fs::read(&path).unwrap(), fs::metadata(&path).unwrap().modified().unwrap());
    assert!(scene.unfazed(&["sessions", "rename", id.as_str(), "lamps"]).status.success());
    assert_eq!((fs::read(&path).unwrap(), fs::metadata(&path).unwrap().modified().unwrap()), before);
    scene.unfazed(&["run", "--resume", id.as_str(), "And the chair?"]);
    assert_eq!(scene.store().info(&id).unwrap().meta.title, "lamps");
}

#[test]
fn a_session_is_deleted_with_all_that_belongs_to_it() {
    let scene = Scene::new();
    let id = scene.run();
    let tail = &id.as_str()[24..];
    let asked = scene.unfazed(&["sessions", "delete", tail]);
    assert_eq!(asked.status.code(), Some(2));
    says(&err(&asked), &["would be deleted, and there is no terminal to ask on", "--yes"]);
    assert!(scene.unfazed(&["sessions", "delete", tail, "--yes"]).status.success());
    assert_eq!(fs::read_dir(scene.store().dir()).unwrap().count(), 0);
}

#[test]
fn an_empty_or_ambiguous_id_deletes_nothing() {
    let scene = Scene::new();
    scene.broken_off("trip-1", "t");
    let delete = |id: &str| scene.unfazed(&["sessions", "delete", id, "--yes"]);
    says(&err(&delete("")), &["the id of the session is empty"]);
    scene.broken_off("trip-2", "t");
    says(&err(&delete("trip")), &["`trip` means 2 sessions"]);
    assert_eq!(scene.store().list().unwrap().sessions.len(), 2);
}

#[test]
fn all_sessions_are_deleted_only_by_those_who_say_so() {
    let scene = Scene::new();
    for id in ["a", "b", "c"] {
        scene.broken_off(id, "t");
    }
    let open = scene.store().open(&"b".parse().unwrap()).unwrap();
    let asked = scene.unfazed(&["sessions", "delete-all"]);
    assert_eq!(asked.status.code(), Some(2));
    says(&err(&asked), &["3 sessions in .unfazed/sessions would be deleted", "--yes deletes them"]);
    let none = scene.unfazed(&["sessions", "delete-all", "--yes", "--status", "failed"]);
    assert_eq!(none.status.code(), Some(3));
    let deleted = scene.unfazed(&["sessions", "delete-all", "--yes"]);
    says(&err(&deleted), &["passed over  b: it is in use", "deleted  2 sessions"]);
    drop(open);
    assert_eq!(scene.store().list().unwrap().sessions.len(), 1);
}

/// A process whose files may not grow is as good as a full disk.
#[test]
fn a_full_disk_stops_the_run_and_the_session_goes_on_when_there_is_room() {
    let scene = Scene::new();
    let limited = "trap '' XFSZ; ulimit -f 4; exec \"$0\" run agent.yaml";
    let args = ["-c", limited, env!("CARGO_BIN_EXE_unfazed")];
    let output = command::program("sh", scene.0.path(), &args).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", err(&output));
    says(
        &err(&output),
        &[
            "the session cannot be written, so the run stops: cannot write to session",
            "what it held before is kept",
        ],
    );
    let output = scene.unfazed(&["run", "--resume", "latest"]);
    assert_eq!(
        (output.status.code(), out(&output)),
        (Some(0), "The lamp costs 12.50.\n".into()),
        "{}",
        err(&output)
    );
}

#[test]
fn no_secret_gets_into_the_folder_of_a_session() {
    let scene = Scene::new();
    // Known by its name, by its form, in results, in errors, in arguments, in answers, and in what is kept whole.
    let task = "Use ghp_planted0001 and https://me:planted0002@shop.example/";
    let agent =
        desk::AGENT.replace("    effect: read_only\n", "    effect: read_only\n    pass_env: [SHOP_TOKEN]\n");
    scene.write("agent.yaml", &agent);
    scene.write("policy.yaml", "version: 1\ntools: {'*': {result: {overflow: spill, max: 2000 chars}, retry: {max_attempts: 2, retry_on: {add: [execution_error]}, backoff: {kind: constant, delay: 0s}}}}\n");
    scene.write(
        "model.yaml",
        "version: 1\nmodel: m\nreplies:
  - {match: {turn: 1}, text: 'With AKIAPLANTED00030003', calls: [{name: look, arguments: {key: sk-ant-planted0004}, id: a}]}
  - {match: {turn: 2}, text: 'It is Bearer planted0005, -----BEGIN PRIVATE KEY-----planted0006-----END PRIVATE KEY-----'}\n",
    );
    scene.write(
        "look.sh",
        "if test -e seen; then head -c 9000 /dev/zero | tr '\\0' x; echo \"$SHOP_TOKEN xoxb-planted0007\"; else touch seen; echo \"$SHOP_TOKEN connection refused sk_live_planted0008\" >&2; exit 1; fi\n",
    );
    let output = scene
        .command(&["run", "agent.yaml", "--task", task])
        .env("SHOP_TOKEN", "planted-by-name")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let mut files = Vec::new();
    walk(scene.store().dir(), &mut files);
    assert!(files.iter().any(|file| file.to_string_lossy().contains(".results/")), "{files:?}");
    for file in files {
        let text = String::from_utf8_lossy(&fs::read(&file).unwrap()).to_lowercase();
        let at = text.find("planted");
        assert!(at.is_none(), "{}: {}", file.display(), &text[at.unwrap().saturating_sub(60)..][..100]);
    }
}

#[test]
fn everything_that_is_kept_of_a_session_is_private_to_its_owner() {
    use std::os::unix::fs::PermissionsExt as _;
    let scene = Scene::new();
    scene.write("policy.yaml", "version: 1\ntools: {'*': {result: {overflow: spill, max: 2000 chars}}}\n");
    scene.write("look.sh", "head -c 9000 /dev/zero | tr '\\0' x\n");
    scene.run();
    let mut files = Vec::new();
    walk(scene.store().dir(), &mut files);
    assert!(files.len() >= 4, "the log, what is known, the state, and a result: {files:?}");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    for file in files {
        assert_eq!((mode(&file), mode(file.parent().unwrap())), (0o600, 0o700), "{}", file.display());
    }
}

#[test]
fn a_run_that_has_nobody_to_share_with_says_so() {
    let scene = Scene::new();
    let note = "note     the policy shares breakers or budgets between hosts (scope: shared)";
    assert!(!err(&scene.unfazed(&["run", "agent.yaml"])).contains(note));
    scene.write("policy.yaml", "version: 1\ntools: {look: {breaker: {scope: shared}}}\n");
    let said = scene.unfazed(&["run", "agent.yaml"]);
    assert_eq!(said.status.code(), Some(0), "{}", err(&said));
    assert!(err(&said).contains(note), "{}", err(&said));
}

#[test]
fn what_is_looked_for_and_not_there_is_told_from_nothing_at_all() {
    let scene = Scene::new();
    scene.run();
    for args in [&["list", "--agent", "nobody"][..], &["list", "--before", "1d"], &["search", "copper"]] {
        let output = scene.unfazed(&[&["sessions"], args].concat());
        assert_eq!(output.status.code(), Some(0));
        assert_eq!(err(&output), "no such sessions in .unfazed/sessions\n", "{args:?}");
    }
}

fn walk(dir: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { walk(&path, files) } else { files.push(path) }
    }
}
