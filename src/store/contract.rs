//! The requirements for every store, as one check that can run against any implementation.

use futures_util::StreamExt;

use super::{
    LineVisitor, Recorder, SessionId, SessionLog, SessionMeta, SessionStatus, Store, StoreError, resume,
};
use crate::engine::{
    Envelope, Event, Interpreter, LogHeader, Record, RecordLine, RunStarted, State, ToolCatalogue,
};
use crate::host::Journal;
use crate::policy::Policy;
use crate::time::Instant;

/// A violated requirement.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
#[non_exhaustive]
pub struct ContractError(String);

type Checked<T = ()> = Result<T, ContractError>;

/// Checks the requirements for every store, with new sessions that are deleted at the end: lines are appended
/// completely and read back unchanged, also after reopening; there is one writer at a time; a recorded run is resumed
/// at its last state; a damaged line is found when the session is opened, before anything is appended.
///
/// `damage` must change a letter in the second line of the session's log, without using the store.
///
/// # Errors
/// The first violated requirement.
pub async fn contract(
    store: &dyn Store,
    damage: &(dyn Fn(&SessionId) + Send + Sync),
) -> Result<(), ContractError> {
    let id = SessionId::generate();
    lines(store, &id).await?;
    descriptions(store, &id).await?;
    must("delete a session", store.delete(&id).await)?;
    gone(store, &id).await?;
    let id = SessionId::generate();
    Box::pin(runs(store, &id)).await?;
    damaged(store, &id, damage).await?;
    must("delete a damaged session", store.delete(&id).await)
}

async fn lines(store: &dyn Store, id: &SessionId) -> Checked {
    gone(store, id).await?;
    let mut log = must("create a session", store.create(id, &header(id)).await)?;
    let taken = store.create(id, &header(id)).await;
    holds("an id is taken once", matches!(taken, Err(StoreError::Exists { .. })))?;
    append(&mut *log, &[state(1), state(2)]).await?;
    append(&mut *log, &[]).await?;
    holds(
        "nobody else can open an open session",
        matches!(store.open(id).await, Err(StoreError::InUse { .. })),
    )?;
    holds("an open session is not deleted", matches!(store.delete(id).await, Err(StoreError::InUse { .. })))?;
    read_is(store, id, 2).await?;
    must("force a turn to the disk", log.turn_ended().await)?;
    log.close().await;
    let (shown, seen) = std::sync::mpsc::channel();
    let each: LineVisitor = Box::new(move |line| {
        // The receiver exists as long as this sender.
        let _ = shown.send(String::from_utf8_lossy(line.json()).trim_end().to_owned());
        Ok(())
    });
    let mut log = must("open a session that was closed", store.open_with(id, each).await)?;
    let expected: Vec<String> = written(id, 2).iter().map(|line| line.as_str().to_owned()).collect();
    holds("each line is shown as it was appended", seen.try_iter().eq(expected))?;
    append(&mut *log, &[state(3)]).await?;
    log.close().await;
    read_is(store, id, 3).await
}

async fn descriptions(store: &dyn Store, id: &SessionId) -> Checked {
    let mut log = must("open a session", store.open(id).await)?;
    must("rename a session", store.rename(id, "lamps").await)?;
    let meta = SessionMeta { turns: 3, ..SessionMeta::of(&header(id)) };
    must("describe a session", log.set_meta(meta).await)?;
    log.close().await;
    let info = must("look at a session", store.info(id).await)?;
    holds("a given title stays", (info.meta.title.as_str(), info.meta.named) == ("lamps", true))?;
    let listed = must("list the sessions", store.list().await)?;
    holds("a session is listed as it is", listed.sessions.contains(&info))
}

/// Checks that a run is recorded and resumed.
async fn runs(store: &dyn Store, id: &SessionId) -> Checked {
    let interpreter = Interpreter::new(Policy::builtin(), ToolCatalogue::default());
    let header = LogHeader::new(id.as_str(), interpreter.policy().digest(), Instant(1));
    let log = must("create a session", store.create(id, &header).await)?;
    let mut recorder = Recorder::new(log).await;
    let started = RunStarted { run: id.to_string(), task: "Find a lamp.".into(), ..RunStarted::default() };
    let envelope = Envelope { seq: 1, now: Instant(2), event: Event::RunStarted(started) };
    let mut state = State::new();
    must("record an event", recorder.event(&envelope))?;
    let directives = interpreter.step(&mut state, envelope);
    must("record directives", recorder.directives(interpreter.policy().digest(), &directives, &state))?;
    if let Some(writing) = recorder.written() {
        must("write what was recorded", writing.await)?;
    }
    recorder.close().await;
    let info = must("look at a session", store.info(id).await)?;
    holds("a run that nobody continues is broken off", info.meta.status == SessionStatus::BrokenOff)?;
    let resumed = must("resume a session", resume(store, id, &interpreter).await)?;
    holds("a run is resumed where it stood", resumed.past.state.digest() == state.digest())?;
    resumed.log.close().await;
    let found = must("search the sessions", store.search(std::slice::from_ref(id), "LAMP").await)?;
    holds("the text of a message is found, in capital letters or not", found == [id.clone()])
}

async fn damaged(store: &dyn Store, id: &SessionId, damage: &(dyn Fn(&SessionId) + Send + Sync)) -> Checked {
    damage(id);
    match store.open(id).await {
        Err(StoreError::Damaged { line: 2, .. }) => Ok(()),
        Err(error) => Err(ContractError(format!("damage of line 2 must be reported as such: {error}"))),
        Ok(_) => Err(ContractError("a session is opened whose second line is damaged".to_owned())),
    }
}

/// Checks that the session does not exist.
async fn gone(store: &dyn Store, id: &SessionId) -> Checked {
    let answers = [
        store.open(id).await.err(),
        store.read(id).await.err(),
        store.info(id).await.err(),
        store.rename(id, "title").await.err(),
        store.delete(id).await.err(),
    ];
    let missing = |error: &Option<StoreError>| matches!(error, Some(StoreError::NotFound { .. }));
    holds("a session that is not there is not found", answers.iter().all(missing))
}

/// Checks that a session has the header and `states` states.
async fn read_is(store: &dyn Store, id: &SessionId, states: u64) -> Checked {
    let mut records = must("read a session", store.read(id).await)?;
    let mut read = Vec::new();
    while let Some(record) = records.next().await {
        read.push(must("read a record", record)?);
    }
    let expected = std::iter::once(Record::Session(header(id))).chain((1..=states).map(state));
    holds("what is appended is read back, in order", read.into_iter().eq(expected))
}

async fn append(log: &mut dyn SessionLog, records: &[Record]) -> Checked {
    let lines: Result<Vec<_>, _> = records.iter().map(|record| RecordLine::new(record.as_ref())).collect();
    must("append lines", log.append(must("make lines", lines)?).await)
}

/// The lines of the header and of `states` states.
fn written(id: &SessionId, states: u64) -> Vec<RecordLine> {
    let records = std::iter::once(Record::Session(header(id))).chain((1..=states).map(state));
    records.filter_map(|record| RecordLine::new(record.as_ref()).ok()).collect()
}

fn header(id: &SessionId) -> LogHeader {
    LogHeader::new(id.as_str(), "policy", Instant(7))
}

fn state(seq: u64) -> Record {
    Record::State { seq, hash: "hash".to_owned() }
}

fn must<T, E: std::fmt::Display>(what: &str, result: Result<T, E>) -> Checked<T> {
    result.map_err(|error| ContractError(format!("it must be possible to {what}: {error}")))
}

fn holds(what: &str, holds: bool) -> Checked {
    if holds { Ok(()) } else { Err(ContractError(format!("this does not hold: {what}"))) }
}
