//! A server that is killed while a session is written.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use unfazed::engine::{LogHeader, Outcome, ToolSpec};
use unfazed::host::scripted::{
    self, RequestMatcher, Script, ScriptAnswer, ScriptEntry, ScriptedCall, ScriptedModel,
};
use unfazed::host::{Agent, FunctionTool, NoopObserver, StopSwitch, ToolError, Tools};
use unfazed::policy::{Effect, Policy};
use unfazed::store::{PgStore, Recorder, StoreError, resume};
use unfazed::time::Instant;

use super::server::{self, Database, Server, waited};
use super::suite::{Place, header, id, seqs, state, task};
use crate::waiting::wait;

#[test]
#[ignore = "it needs PostgreSQL: see the top of mod.rs"]
fn a_server_that_is_killed_and_comes_back_loses_nothing_and_doubles_nothing() {
    let database = Database::on(Server::new());
    let done = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let store = database.host();
            let mut log = store.create(&id("trip"), &header()).unwrap();
            for seq in 1..=1500 {
                log.append(&[state(seq)]).unwrap();
                done.store(seq, Ordering::Relaxed);
            }
        });
        for kill_at in [100, 600, 1000] {
            while done.load(Ordering::Relaxed) < kill_at {
                assert!(!writer.is_finished(), "the writer has given up");
                std::thread::yield_now();
            }
            database.server.kill();
            database.server.start();
        }
    });
    assert_eq!(seqs(&database.host(), "trip"), (1..=1500).collect::<Vec<_>>());
}

#[test]
#[ignore = "it needs PostgreSQL: see the top of mod.rs"]
fn a_server_that_stays_away_stops_the_writer_and_what_it_had_is_whole() {
    let database = Database::on(Server::new());
    let store =
        waited(wait(PgStore::connect(database.config().patience(Duration::from_millis(300)))).unwrap());
    let mut log = store.create(&id("trip"), &header()).unwrap();
    log.append(&[state(1)]).unwrap();
    database.server.kill();
    let error = log.append(&[state(2)]).unwrap_err();
    assert!(matches!(error, StoreError::Write { .. }), "{error}");
    let said = error.to_string();
    assert!(said.starts_with("cannot write to session `postgres://") && said.contains("is kept"), "{said}");
    database.server.start();
    // Who has the lease may try again.
    log.append(&[state(2)]).unwrap();
    drop(log);
    assert_eq!(seqs(&store, "trip"), [1, 2]);
}

/// It takes connections and never answers.
#[test]
#[ignore = "it needs PostgreSQL: see the top of mod.rs"]
fn a_server_that_is_frozen_holds_a_writer_no_longer_than_its_patience() {
    let database = Database::on(Server::new());
    let patience = Duration::from_secs(6);
    let store = waited(wait(PgStore::connect(database.config().patience(patience))).unwrap());
    let mut log = store.create(&id("trip"), &header()).unwrap();
    log.append(&[state(1)]).unwrap();
    server::signal(database.server.pid(), "-STOP");
    let start = std::time::Instant::now();
    let said = log.append(&[state(2)]).unwrap_err().to_string();
    drop(log);
    let held = start.elapsed();
    server::signal(database.server.pid(), "-CONT");
    assert!(said.contains("it does not answer"), "{said}");
    assert!(held < patience + Duration::from_secs(4), "{held:?}");
}

/// An agent whose first turn calls the tool.
fn agent(tool: impl Fn() + Send + Sync + Copy + 'static) -> Agent {
    let spec = ToolSpec {
        name: "look".into(),
        description: String::new(),
        parameters: json!({"type": "object"}),
        effect: Some(Effect::ReadOnly),
    };
    let tool = FunctionTool::new(spec, move |_: Value, _| {
        tool();
        async { Ok::<_, ToolError>(json!("a lamp")) }
    });
    let call = ScriptedCall { name: "look".into(), arguments: "{}".into(), id: None };
    let call = ScriptEntry::new(scripted::ScriptOutcome::Answer(ScriptAnswer {
        calls: vec![call],
        ..ScriptAnswer::default()
    }));
    let first = call.when(RequestMatcher { turn: Some(1), ..RequestMatcher::default() });
    Agent::new(Policy::from_yaml("policy.yaml", "version: 1").unwrap())
        .model("m", ScriptedModel::new(Script::new("script", [first, ScriptEntry::text("Done.")])))
        .tools(Tools::new().with(tool))
}

#[test]
#[ignore = "it needs PostgreSQL: see the top of mod.rs"]
fn a_run_whose_server_goes_away_stops_with_a_clear_error_and_goes_on_later() {
    let database = Database::on(Server::new());
    let config = database.config().patience(Duration::from_millis(300)).lease(Duration::from_millis(300));
    let store = waited(wait(PgStore::connect(config)).unwrap());
    let pid = database.server.pid();
    let killing = agent(move || server::kill(pid));
    let digest = killing.interpreter().unwrap().policy().digest().to_owned();
    let log = store.create(&id("trip"), &LogHeader::new("trip", digest, Instant(1))).unwrap();
    let mut recorder = log.record();
    let mut silent = NoopObserver;
    let run = killing.run_with(task("Look."), &mut silent, Some(&mut recorder), StopSwitch::new());
    let said = wait(run).unwrap_err().to_string();
    assert!(said.contains("cannot write to session `postgres://127.0.0.1:"), "{said}");
    wait(recorder.close());
    database.server.start();
    let other = database.store();
    let harmless = agent(|| ());
    let interpreter = harmless.interpreter().unwrap();
    let end = std::time::Instant::now() + Duration::from_secs(30);
    let resumed = loop {
        match wait(resume(&other, &id("trip"), &interpreter)) {
            Ok(resumed) => break resumed,
            // Nobody was there to hear that the lease ends: it runs out.
            Err(error) => assert!(std::time::Instant::now() < end, "{error}"),
        }
    };
    let mut recorder = wait(Recorder::new(resumed.log));
    let run = harmless.go_on(Some(resumed.past), None, &mut silent, Some(&mut recorder), StopSwitch::new());
    assert_eq!(wait(run).unwrap().outcome, Outcome::Answered { text: "Done.".into() });
}
