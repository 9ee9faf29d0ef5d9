//! Sessions in `PostgreSQL`: a run is written down while it goes on, and another host finds its session and goes on with it.
//!
//! `UNFAZED_PG_URL=postgres://USER:PASSWORD@HOST/DATABASE cargo run --example postgres_store`
//!
//! The database must be there; the tables are made. The session is deleted in the end. The model is a script.

use std::sync::Arc;

use unfazed::engine::{Catalogue, Interpreter, LogHeader, Outcome};
use unfazed::host::scripted::{Entry, Script, ScriptedModel};
use unfazed::host::{Agent, Clock, Silent, Stop, Task};
use unfazed::policy::Policy;
use unfazed::store::{PgConfig, PgStore, Recorder, SessionId, Store, resume};

/// An agent whose model has one reply.
fn agent(policy: &Policy, reply: &str) -> Agent {
    Agent::new(policy.clone()).model("main", ScriptedModel::new(Script::new("script", [Entry::text(reply)])))
}

fn task(id: &SessionId, text: &str) -> Task {
    Task { run: id.to_string(), task: text.into(), ..Task::default() }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("UNFAZED_PG_URL")
        .map_err(|_| "this example needs a PostgreSQL database: set UNFAZED_PG_URL to its address")?;
    let config = PgConfig::parse(&url)?;
    let made = PgStore::migrate(&config)?;
    println!("tables: version {} (was {})", made.to, made.from);

    // The first host.
    let policy = Policy::builtin();
    let store: Arc<dyn Store> = Arc::new(PgStore::connect(config.clone())?);
    let id = SessionId::generate();
    let header = LogHeader::new(id.to_string(), policy.digest(), Clock::system().now());
    let mut recorder = Recorder::new(store.create(&id, &header)?);
    agent(&policy, "The train leaves at nine.")
        .run_with(
            task(&id, "When does the train to Oslo leave?"),
            &mut Silent,
            Some(&mut recorder),
            Stop::new(),
        )
        .await?;
    store.rename(&id, "the train to Oslo")?;

    // While it has the session open, nobody else gets it.
    let other: Arc<dyn Store> = Arc::new(PgStore::connect(config)?);
    if let Err(error) = other.open(&id) {
        println!("another host: {error}");
    }
    drop(recorder);

    // Another host finds it, and goes on where it stands.
    let ids: Vec<SessionId> = other.list()?.sessions.into_iter().map(|session| session.id).collect();
    let found = other.search(&ids, "oslo")?;
    println!("found by a word of it: {}", found.contains(&id));
    let interpreter = Interpreter::new(policy.clone(), Catalogue::default());
    let resumed = resume(&*other, &id, &interpreter)?;
    println!("messages so far: {}", resumed.past.messages.len());
    let mut recorder = Recorder::new(resumed.log);
    let report = agent(&policy, "At noon.")
        .go_on(
            Some(resumed.past),
            Some(task(&id, "And back?")),
            &mut Silent,
            Some(&mut recorder),
            Stop::new(),
        )
        .await?;
    if let Outcome::Answered { text } = &report.outcome {
        println!("messages now: {}; answered: {text}", report.messages.len());
    }
    drop(recorder);
    println!("kept as `{}`, {} runs", other.info(&id)?.meta.title, other.info(&id)?.meta.runs);
    other.delete(&id)?;
    Ok(())
}
