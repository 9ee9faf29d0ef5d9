//! Sessions in `PostgreSQL`: a run is written down while it continues, and another host finds its session and continues with it.
//!
//! `UNFAZED_PG_URL=postgres://USER:PASSWORD@HOST/DATABASE cargo run --example postgres_store`
//!
//! The database must be there; the tables are made. The session is deleted in the end. The model is a script.

use std::sync::Arc;

use unfazed::engine::{Interpreter, LogHeader, Outcome, ToolCatalogue};
use unfazed::host::scripted::{Script, ScriptEntry, ScriptedModel};
use unfazed::host::{Agent, Clock, NoopObserver, RunTask, StopSwitch};
use unfazed::policy::Policy;
use unfazed::store::{PgConfig, PgStore, Recorder, SessionId, Store, resume};

/// An agent whose model has one reply.
fn agent(policy: &Policy, reply: &str) -> Agent {
    Agent::new(policy.clone())
        .model("main", ScriptedModel::new(Script::new("script", [ScriptEntry::text(reply)])))
}

fn task(id: &SessionId, text: &str) -> RunTask {
    RunTask { run: id.to_string(), task: text.into(), ..RunTask::default() }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("UNFAZED_PG_URL")
        .map_err(|_| "this example needs a PostgreSQL database: set UNFAZED_PG_URL to its address")?;
    let config = PgConfig::parse(&url)?;
    let made = PgStore::migrate(&config).await?;
    println!("tables: version {} (was {})", made.to, made.from);

    // The first host.
    let policy = Policy::builtin();
    let store: Arc<dyn Store> = Arc::new(PgStore::connect(config.clone()).await?);
    let id = SessionId::generate();
    let header = LogHeader::new(id.to_string(), policy.digest(), Clock::system().now());
    let mut recorder = Recorder::new(store.create(&id, &header).await?).await;
    agent(&policy, "The train leaves at nine.")
        .run_with(
            task(&id, "When does the train to Oslo leave?"),
            &mut NoopObserver,
            Some(&mut recorder),
            StopSwitch::new(),
        )
        .await?;
    store.rename(&id, "the train to Oslo").await?;

    // While it has the session open, nobody else gets it.
    let other: Arc<dyn Store> = Arc::new(PgStore::connect(config).await?);
    if let Err(error) = other.open(&id).await {
        println!("another host: {error}");
    }
    recorder.close().await;

    // Another host finds it, and continues where it stands.
    let ids: Vec<SessionId> = other.list().await?.sessions.into_iter().map(|session| session.id).collect();
    let found = other.search(&ids, "oslo").await?;
    println!("found by a word of it: {}", found.contains(&id));
    let interpreter = Interpreter::new(policy.clone(), ToolCatalogue::default());
    let resumed = resume(&*other, &id, &interpreter).await?;
    println!("messages so far: {}", resumed.past.messages.len());
    let mut recorder = Recorder::new(resumed.log).await;
    let report = agent(&policy, "At noon.")
        .go_on(
            Some(resumed.past),
            Some(task(&id, "And back?")),
            &mut NoopObserver,
            Some(&mut recorder),
            StopSwitch::new(),
        )
        .await?;
    if let Outcome::Answered { text } = &report.outcome {
        println!("messages now: {}; answered: {text}", report.messages.len());
    }
    recorder.close().await;
    let kept = other.info(&id).await?.meta;
    println!("kept as `{}`, {} runs", kept.title, kept.runs);
    other.delete(&id).await?;
    Ok(())
}
