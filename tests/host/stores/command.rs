//! The command, with its sessions in a database.

use std::fs;
use std::path::Path;
use std::process::Output;

use tempfile::TempDir;

use crate::command;

use super::server::{Database, PASSWORD};

const AGENT: &str = "version: 1
name: desk
system: Be brief.
task: Find a lamp.
policy: policy.yaml
models: {m: {api: scripted, script: model.yaml}}
";
const MODEL: &str = "version: 1
replies:
  - {text: A brass lamp it is.}
  - {text: By train too.}
";

/// A folder with an agent, and a database.
struct Scene {
    dir: TempDir,
    database: Database,
}

impl Scene {
    fn new(database: Database, session: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
        write("agent.yaml", &format!("{AGENT}{session}"));
        write("model.yaml", MODEL);
        write("policy.yaml", "version: 1\n");
        Self { dir, database }
    }

    fn unfazed(&self, args: &[&str], env: &[(&str, &str)]) -> Output {
        let mut command = command::unfazed(self.dir.path(), args);
        let output = command.envs(env.iter().copied()).output().unwrap();
        for text in [&output.stdout, &output.stderr] {
            assert!(!String::from_utf8_lossy(text).contains(PASSWORD));
        }
        output
    }

    /// A command that goes well, with the address in its variable. What it prints.
    fn said(&self, args: &[&str]) -> String {
        let url = self.database.url();
        let output = self.unfazed(args, &[("UNFAZED_SESSIONS_URL", &url)]);
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", err(&output));
        String::from_utf8_lossy(&output.stdout).into_owned() + &err(&output)
    }
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
#[ignore = "it needs PostgreSQL: see the top of mod.rs"]
fn a_run_is_kept_in_the_database_listed_shown_renamed_gone_on_with_and_deleted() {
    let scene = Scene::new(Database::empty(), "");
    assert!(scene.said(&["sessions", "migrate"]).contains("from version 0 to 2"));
    assert!(scene.said(&["sessions", "migrate"]).contains("up to date"));
    let said = scene.said(&["run", "agent.yaml"]);
    assert!(
        said.contains(&format!(
            "postgres://127.0.0.1:{}/{}/",
            scene.database.server.port, scene.database.name
        )),
        "{said}"
    );
    assert!(!Path::new(&scene.dir.path().join(".unfazed")).exists());
    let listed = scene.said(&["sessions"]);
    assert!(listed.contains("answered") && listed.contains("Find a lamp."), "{listed}");
    assert!(scene.said(&["sessions", "show", "latest"]).contains("A brass lamp it is."));
    assert!(scene.said(&["sessions", "search", "BRASS"]).contains("Find a lamp."));
    assert!(scene.said(&["sessions", "search", "copper"]).contains("no such sessions in postgres://"));
    scene.said(&["sessions", "rename", "latest", "lamps"]);
    scene.said(&["run", "--resume", "latest", "and by train?"]);
    let json: serde_json::Value =
        serde_json::from_str(&scene.said(&["sessions", "list", "--format", "json"])).unwrap();
    assert_eq!((&json["sessions"][0]["title"], &json["sessions"][0]["runs"]), (&"lamps".into(), &2.into()));
    assert!(
        scene
            .said(&["sessions", "export", "latest", "--format", "markdown"])
            .contains("## User\n\nand by train?")
    );
    assert!(scene.said(&["sessions", "delete-all", "--yes"]).contains("deleted  1 session"));
    assert_eq!(scene.database.sql("select count(*) from unfazed_record"), "0");
}

#[test]
#[ignore = "it needs PostgreSQL: see the top of mod.rs"]
fn the_agent_file_says_where_the_address_is() {
    let scene = Scene::new(Database::new(), "session: {url: {env: DATABASE_URL}}\n");
    let missing = scene.unfazed(&["run", "agent.yaml"], &[]);
    assert_ne!(missing.status.code(), Some(0));
    assert!(err(&missing).contains("the environment variable DATABASE_URL is not set; it holds the address"));
    let url = scene.database.url();
    let run = scene.unfazed(&["run", "agent.yaml"], &[("DATABASE_URL", &url)]);
    assert_eq!(run.status.code(), Some(0), "{}", err(&run));
    assert_eq!(
        scene.database.sql("select title, agent, status from unfazed_session"),
        "Find a lamp.|desk|answered"
    );
    // The settings override it.
    let run = scene.unfazed(&["run", "agent.yaml"], &[("UNFAZED_SESSIONS", "here")]);
    assert_eq!(run.status.code(), Some(0), "{}", err(&run));
    assert!(scene.dir.path().join("here").exists());
    let url = format!("--url={url}");
    assert!(!scene.unfazed(&["sessions", &url], &[]).stdout.is_empty());
}

#[test]
#[ignore = "it needs PostgreSQL: see the top of mod.rs"]
fn the_password_is_taken_out_of_what_is_written() {
    let scene = Scene::new(Database::new(), "");
    fs::write(
        scene.dir.path().join("model.yaml"),
        format!("version: 1\nreplies: [{{text: it is {PASSWORD}}}]\n"),
    )
    .unwrap();
    scene.said(&["run", "agent.yaml"]);
    let all = scene.database.sql("select string_agg(line, '') from unfazed_record");
    assert!(all.contains("it is [redacted]") && !all.contains(PASSWORD), "{all}");
    let found = format!("select count(*) from unfazed_message where folded like '%{PASSWORD}%'");
    assert_eq!(scene.database.sql(&found), "0");
}

#[test]
#[ignore = "it needs PostgreSQL: see the top of mod.rs"]
fn a_certificate_must_be_good_for_the_name() {
    let scene = Scene::new(Database::new(), "");
    let certificate = scene.database.server.certificate_file().display().to_string();
    let by_name = scene.database.url().replace("127.0.0.1", "localhost").replace("disable", "require");
    let by_address = scene.database.url().replace("disable", "require");
    let list = |url: &str, trusted: bool| {
        let trust = [("UNFAZED_SESSIONS_URL", url), ("SSL_CERT_FILE", certificate.as_str())];
        scene.unfazed(&["sessions"], if trusted { &trust } else { &trust[..1] })
    };
    let good = list(&by_name, true);
    assert_eq!(good.status.code(), Some(0), "{}", err(&good));
    for bad in [list(&by_name, false), list(&by_address, true)] {
        assert_ne!(bad.status.code(), Some(0));
        assert!(err(&bad).contains("certificate"), "{}", err(&bad));
    }
}

const FLAKY: &str = "
tools:
  flaky: {kind: process, command: ['false'], description: It fails., parameters: {type: object}, effect: read_only}
";
const SHARED: &str = "version: 1
tools:
  '*': {retry: {enabled: false}, loop_guard: {enabled: false}}
  flaky: {breaker: {failures: 3, scope: shared}}
";

#[test]
#[ignore = "it needs PostgreSQL: see the top of mod.rs"]
fn runs_in_the_database_share_breakers_where_the_policy_says_so() {
    let scene = Scene::new(Database::new(), FLAKY);
    let call = |n: u32| format!("  - {{calls: [{{name: flaky, arguments: {{n: {n}}}}}]}}\n");
    let model = format!("version: 1\nreplies:\n{}{}  - {{text: Done.}}\n", call(1), call(2));
    fs::write(scene.dir.path().join("model.yaml"), model).unwrap();
    fs::write(scene.dir.path().join("policy.yaml"), SHARED).unwrap();
    let first = scene.said(&["run", "agent.yaml"]);
    assert!(!first.contains("breaker"), "{first}");
    let second = scene.said(&["run", "agent.yaml"]);
    assert!(second.contains("breaker"), "{second}");
    // And each is decided again as it was.
    assert!(scene.said(&["replay", "--all", "--exit-code"]).contains("same"));
}
