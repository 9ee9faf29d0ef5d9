//! Sessions: appends a second, bytes a second on resume, a title beside a large log, and ten thousand sessions listed and
//! searched. Appends and titles also as hosts do it that write their whole session anew each time.
//!
//! `cargo bench --bench session`

use std::fs::{self, OpenOptions};
use std::hint::black_box;
use std::io::BufReader;
use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use unfazed::engine::{
    DirectiveKind, Envelope, Event, Interpreter, LogHeader, ModelReply, RecordLine, RecordRef, RunFacts,
    RunStarted, State, ToolCatalogue, ToolFacts, ToolOutcome, ToolSpec, TurnMeasure, Work, WorkId,
};
use unfazed::host::Journal;
use unfazed::policy::{Effect, Policy};
use unfazed::replay::{DecisionParts, ReplayEnding, replay};
use unfazed::session::ToolCall;
use unfazed::store::{FsyncMode, JsonlStore, Recorder, SessionId, Store, read_log, resume};
use unfazed::time::Instant;

const POLICY: &str = "version: 1
turn: {max_turns: 4000000}
tools: {'*': {loop_guard: {enabled: false}, result: {max: 100000 chars}}}
";
/// What a tool returns: as much as a page of source code.
const RESULT: usize = 4_000;
const RESUMED: u64 = 100 << 20;
const REPLAYED: u64 = 10 << 20;
const MANY: usize = 10_000;

fn interpreter() -> Interpreter {
    let spec = ToolSpec {
        name: "read".into(),
        description: "Reads a file.".into(),
        parameters: json!({"type": "object"}),
        effect: Some(Effect::ReadOnly),
    };
    let policy = Policy::from_yaml("policy.yaml", POLICY).expect("a policy");
    Interpreter::new(policy, ToolCatalogue::new([spec]).expect("tools"))
}

/// Runs an agent that reads one file after the other, until its log has so many bytes.
fn record(store: &JsonlStore, id: &SessionId, interpreter: &Interpreter, bytes: u64) {
    let header = LogHeader::new(id.to_string(), interpreter.policy().digest(), Instant(1));
    let mut recorder = wait(Recorder::new(wait(store.create(id, &header)).expect("a session")));
    let path = store.path(id);
    let page: String = "let price = lookup(item)?; // é \"42\"\n".chars().cycle().take(RESULT).collect();
    let mut state = State::new();
    let started = RunStarted {
        run: id.to_string(),
        task: "Find where prices are made.".into(),
        targets: vec!["main".into()],
        tools: interpreter.tools().iter().map(ToolFacts::from).collect(),
        ..RunStarted::default()
    };
    let mut events = vec![Event::RunStarted(started)];
    while let Some(event) = events.pop() {
        let seq = state.seq + 1;
        let envelope = Envelope { seq, now: Instant(seq * 1_000), event };
        recorder.event(&envelope).expect("written");
        let directives = interpreter.step(&mut state, envelope);
        recorder.directives(interpreter.policy().digest(), &directives, &state).expect("written");
        if let Some(writing) = recorder.written() {
            wait(writing).expect("written");
        }
        if fs::metadata(&path).map_or(0, |meta| meta.len()) >= bytes {
            wait(recorder.close());
            return;
        }
        for directive in directives.0 {
            let DirectiveKind::Work(work) = directive.order else { continue };
            events.push(match work {
                Work::PrepareTurn(turn) => turn.prepared(TurnMeasure::default()),
                Work::CallModel(call) => {
                    let arguments = format!("{{\"path\": \"src/{seq}.rs\"}}");
                    let called = ToolCall { id: format!("c{seq}"), name: "read".into(), arguments };
                    let text = "Let me look there, too.".to_owned();
                    call.responded(ModelReply { text, calls: vec![called.into()], ..ModelReply::default() })
                }
                Work::RunTool(run) => run.finished(ToolOutcome::Ok { data: page.clone().into() }),
                Work::Wait(wait) => wait.fired(),
                Work::RepairHistory(_)
                | Work::ReduceContext(_)
                | Work::Summarize(_)
                | Work::Consult(_)
                | Work::Ask(_) => {
                    unreachable!("nothing goes wrong")
                }
            });
        }
    }
}

fn wait<T>(work: impl Future<Output = T>) -> T {
    static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().expect("a runtime"));
    RUNTIME.block_on(work)
}

fn store(dir: &Path) -> JsonlStore {
    JsonlStore::new(dir, FsyncMode::Never)
}

fn id(name: &str) -> SessionId {
    name.parse().expect("an id")
}

fn append(criterion: &mut Criterion) {
    let dir = tempfile::tempdir().expect("a folder");
    let mut log =
        wait(store(dir.path()).create(&id("s"), &LogHeader::new("s", "p", Instant(1)))).expect("a session");
    let work: WorkId = serde_json::from_value(json!(7)).expect("a number");
    let outcome = ToolOutcome::Ok { data: json!({"price": 12.5, "currency": "EUR"}) };
    let event = Event::ToolFinished { work, outcome, run: RunFacts::default() };
    let mut envelope = Envelope { seq: 0, now: Instant(1_795_352_276_903_498_254), event };
    let mut group = criterion.benchmark_group("append");
    group.throughput(Throughput::Elements(1));
    group.bench_function("an event", |b| {
        b.iter(|| {
            envelope.seq += 1;
            let line = RecordLine::new(RecordRef::Event(black_box(&envelope))).expect("a line");
            wait(log.append(vec![line])).expect("written");
        });
    });
    group.finish();
}

/// A session as many hosts keep it: one file of JSON, written anew with every message.
#[derive(Serialize, Deserialize)]
struct Whole {
    title: String,
    messages: Vec<Value>,
}

impl Whole {
    /// Of about so many bytes.
    fn of(bytes: usize) -> Self {
        let message = json!({"role": "tool", "call": "call_1", "text": "12.50 EUR for one; ".repeat(50)});
        let count = bytes / message.to_string().len();
        Self { title: "lamps".to_owned(), messages: vec![message; count] }
    }

    /// Beside the old one first, so that a kill leaves one of them.
    fn write(&self, path: &Path) {
        let new = path.with_extension("new");
        fs::write(&new, serde_json::to_vec(self).expect("JSON")).expect("written");
        fs::rename(new, path).expect("renamed");
    }
}

fn rewrites(criterion: &mut Criterion) {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("session.json");
    for (name, bytes) in [("1 MB", 1 << 20), ("10 MB", 10 << 20)] {
        let mut session = Whole::of(bytes);
        session.write(&path);
        let event = session.messages[0].clone();
        let mut group = criterion.benchmark_group("rewrite");
        group.sample_size(10).measurement_time(Duration::from_secs(3));
        group.bench_function(format!("an event, {name}"), |b| {
            b.iter(|| {
                session.messages.push(event.clone());
                session.write(&path);
                session.messages.pop();
            });
        });
        group.bench_function(format!("title, {name}"), |b| {
            b.iter(|| {
                let mut session: Whole =
                    serde_json::from_slice(&fs::read(&path).expect("read")).expect("JSON");
                "desk lamps".clone_into(&mut session.title);
                session.write(&path);
            });
        });
        group.finish();
    }
}

fn resumes(criterion: &mut Criterion) {
    let dir = tempfile::tempdir().expect("a folder");
    let (store, interpreter) = (store(dir.path()), interpreter());
    record(&store, &id("large"), &interpreter, RESUMED);
    let bytes = wait(store.info(&id("large"))).expect("a session").bytes;
    let mut group = criterion.benchmark_group("resume");
    group.throughput(Throughput::Bytes(bytes)).sample_size(10);
    group.bench_function("100 MB", |b| {
        b.iter(|| wait(resume(&store, &id("large"), &interpreter)).expect("it continues").past.state.seq);
    });
    group.finish();
}

fn replays(criterion: &mut Criterion) {
    let dir = tempfile::tempdir().expect("a folder");
    let (store, interpreter) = (store(dir.path()), interpreter());
    record(&store, &id("replayed"), &interpreter, REPLAYED);
    let bytes = wait(store.info(&id("replayed"))).expect("a session").bytes;
    let mut group = criterion.benchmark_group("replay");
    group.throughput(Throughput::Bytes(bytes)).sample_size(10);
    group.bench_function("10 MB", |b| {
        b.iter(|| {
            let records = fs::File::open(store.path(&id("replayed"))).expect("a log");
            let records = read_log(BufReader::new(records));
            let found =
                replay(interpreter.policy(), DecisionParts::default(), records).expect("it is decided");
            assert_eq!(found.ending, ReplayEnding::Same);
            found.same
        });
    });
    group.finish();
}

fn titles(criterion: &mut Criterion) {
    let dir = tempfile::tempdir().expect("a folder");
    let store = store(dir.path());
    for (name, length) in [("empty", 0), ("of 1 GB", 1 << 30)] {
        let id = id(&name.replace(' ', "_"));
        drop(wait(store.create(&id, &LogHeader::new("s", "p", Instant(1)))).expect("a session"));
        if length > 0 {
            let log = OpenOptions::new().append(true).open(store.path(&id)).expect("a log");
            log.set_len(length).expect("a large log");
        }
        criterion.bench_function(&format!("title of a session {name}"), |b| {
            b.iter(|| wait(store.rename(&id, "desk lamps")).expect("written"));
        });
    }
}

fn many(criterion: &mut Criterion) {
    let dir = tempfile::tempdir().expect("a folder");
    let (store, interpreter) = (store(dir.path()), interpreter());
    let ids: Vec<SessionId> = (0..MANY).map(|number| id(&format!("s{number:05}"))).collect();
    record(&store, &ids[0], &interpreter, 30_000);
    let (log, meta) = (store.path(&ids[0]), store.path(&ids[0]).with_extension("meta.json"));
    for id in &ids[1..] {
        fs::copy(&log, store.path(id)).expect("a log");
        fs::copy(&meta, store.path(id).with_extension("meta.json")).expect("a description");
    }
    let mut group = criterion.benchmark_group("10 000 sessions");
    group.sample_size(10);
    group.bench_function("listed", |b| b.iter(|| wait(store.list()).expect("a list").sessions.len()));
    group.bench_function("searched", |b| {
        b.iter(|| wait(store.search(&ids, "a text that is nowhere")).unwrap().len());
    });
    group.finish();
}

criterion_group!(benches, append, rewrites, resumes, replays, titles, many);
criterion_main!(benches);
