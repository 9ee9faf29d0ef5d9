//! What every place that keeps sessions must do.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};
use tempfile::TempDir;
use unfazed::engine::{
    Directive, DirectiveKind, Directives, Envelope, Event, LogHeader, Note, Outcome, Record, RecordError,
    RunStarted, State, ToolSpec,
};
use unfazed::host::scripted::{
    self, RequestMatcher, Script, ScriptAnswer, ScriptEntry, ScriptedCall, ScriptedModel,
};
use unfazed::host::{
    Agent, BoxFuture, FunctionTool, Journal, JournalError, NoopObserver, RunReport, RunTask, StopSwitch,
    ToolError, Tools,
};
use unfazed::policy::{Effect, Policy};
use unfazed::session::Message;
use unfazed::store::{
    FsyncMode, JsonlStore, LineKind, Recorder, ResumedSession, SessionId, SessionMeta, SessionStatus, Store,
    StoreError, contract, resume,
};
use unfazed::time::Instant;

use crate::waiting::{Waited, wait};

/// What a host has of a place.
pub(crate) type WaitedStore = Waited<Box<dyn Store>>;

/// A place, as each host that uses it sees it.
pub(crate) trait Place: Sync {
    /// One more host.
    fn host(&self) -> WaitedStore;

    /// Changes a letter in the second line of a log.
    fn damage(&self, id: &SessionId);
}

/// A place in a folder.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }
}

impl Place for Folder {
    fn host(&self) -> WaitedStore {
        Waited(Box::new(JsonlStore::new(self.0.path().join("sessions"), FsyncMode::Turn)))
    }

    fn damage(&self, id: &SessionId) {
        let path = self.0.path().join(format!("sessions/{id}.jsonl"));
        let log = std::fs::read_to_string(&path).unwrap();
        std::fs::write(path, log.replacen("Find a", "Lose a", 1)).unwrap();
    }
}

pub(crate) fn id(id: &str) -> SessionId {
    id.parse().unwrap()
}

pub(crate) fn header() -> LogHeader {
    LogHeader::new("run", "policy", Instant(7))
}

pub(crate) fn state(seq: u64) -> Record {
    Record::State { seq, hash: "h".into() }
}

pub(crate) fn read(store: &WaitedStore, of: &str) -> Vec<Record> {
    store.read(&id(of)).unwrap().map(Result::unwrap).collect()
}

/// What follows the header.
pub(crate) fn seqs(store: &WaitedStore, of: &str) -> Vec<u64> {
    let seq = |record: Record| match record {
        Record::State { seq, .. } => seq,
        record => panic!("no state: {record:?}"),
    };
    read(store, of).into_iter().skip(1).map(seq).collect()
}

fn said(messages: Vec<Message>) -> Record {
    let directive = |message| Directive {
        order: DirectiveKind::Note(Note::Append { message }),
        because: vec![],
        of: None,
    };
    Record::Directives {
        seq: 1,
        policy: "p".into(),
        list: Directives(messages.into_iter().map(directive).collect()),
    }
}

fn user(text: &str) -> Message {
    Message::User { text: text.into(), guidance: None }
}

fn started(task: &str) -> Envelope {
    let started = RunStarted { run: "run".into(), task: task.into(), ..RunStarted::default() };
    Envelope { seq: 1, now: Instant(8), event: Event::RunStarted(started) }
}

pub(crate) fn the_contract_is_kept(place: &dyn Place) {
    let store = place.host();
    wait(contract(&*store, &|id| place.damage(id))).unwrap();
    assert!(store.list().unwrap().sessions.is_empty());
    // It notices what a store does not.
    let error = wait(contract(&*store, &|_| ())).unwrap_err().to_string();
    assert_eq!(error, "a session is opened whose second line is damaged");
}

pub(crate) fn a_session_reads_back_as_it_was_written(place: &dyn Place) {
    let store = place.host();
    let hard = "zero \0, two\nlines, \u{1b}[2J, 'quotes' \"\\\" $1, ü, 日本, 👩‍👩‍👧, \u{feff}, %_";
    let records = [
        Record::Event(Envelope { seq: 1, now: Instant(8), event: Event::Cancelled { reason: hard.into() } }),
        said(vec![user(hard)]),
        state(1),
    ];
    let mut log = store.create(&id("trip"), &header()).unwrap();
    log.append(&records[..1]).unwrap();
    log.append(&records[1..]).unwrap();
    log.append(&[]).unwrap();
    log.turn_ended().unwrap();
    let back = read(&place.host(), "trip");
    assert_eq!(back[0], Record::Session(header()));
    assert_eq!(back[1..], records);
}

pub(crate) fn an_id_is_taken_once(place: &dyn Place) {
    let mut log = place.host().create(&id("trip"), &header()).unwrap();
    let again = place.host().create(&id("trip"), &header());
    assert!(matches!(again, Err(StoreError::Exists { .. })));
    log.append(&[state(1)]).unwrap();
    drop(log);
    assert!(matches!(place.host().create(&id("trip"), &header()), Err(StoreError::Exists { .. })));
    assert_eq!(seqs(&place.host(), "trip"), [1]);
}

pub(crate) fn a_session_that_is_not_there_is_said(place: &dyn Place) {
    let store = place.host();
    store.create(&id("other"), &header()).unwrap();
    let missing = id("trip");
    let errors = [
        store.open(&missing).err(),
        store.read(&missing).err(),
        store.info(&missing).err(),
        store.rename(&missing, "title").err(),
        store.delete(&missing).err(),
    ];
    for error in errors {
        let error = error.unwrap();
        assert!(matches!(&error, StoreError::NotFound { id, .. } if *id == missing), "{error}");
    }
    assert_eq!(store.search(&[missing], "").unwrap(), []);
}

pub(crate) fn one_writer_at_a_time(place: &dyn Place) {
    let (one, two) = (place.host(), place.host());
    let mut log = one.create(&id("trip"), &header()).unwrap();
    let in_use = |error: Option<StoreError>| matches!(error, Some(StoreError::InUse { .. }));
    assert!(in_use(one.open(&id("trip")).err()));
    assert!(in_use(two.open(&id("trip")).err()));
    assert!(in_use(two.delete(&id("trip")).err()));
    log.append(&[state(1)]).unwrap();
    // Who reads is in nobody's way.
    assert_eq!(seqs(&two, "trip"), [1]);
    drop(log);
    let mut log = two.open(&id("trip")).unwrap();
    log.append(&[state(2)]).unwrap();
    assert!(in_use(one.open(&id("trip")).err()));
    drop(log);
    assert_eq!(seqs(&one, "trip"), [1, 2]);
}

pub(crate) fn what_cannot_be_read_again_is_not_written(place: &dyn Place) {
    let store = place.host();
    let mut log = store.create(&id("trip"), &header()).unwrap();
    log.append(&[state(1)]).unwrap();
    let deep = (0..200).fold(json!(1), |inner, _| json!([inner]));
    let event = Event::ToolFinished {
        work: serde_json::from_value(json!(1)).unwrap(),
        outcome: unfazed::engine::ToolOutcome::Ok { data: deep },
        run: unfazed::engine::RunFacts::default(),
    };
    let mut recorder = log.record();
    let refused = recorder.event(&Envelope { seq: 2, now: Instant(9), event }).unwrap_err();
    assert!(matches!(refused.0.downcast_ref(), Some(StoreError::Unwritable { .. })), "{refused}");
    wait(recorder.close());
    store.open(&id("trip")).unwrap().append(&[state(3)]).unwrap();
    assert_eq!(seqs(&store, "trip"), [1, 3]);
}

pub(crate) fn a_title_that_was_given_stays_and_the_log_is_not_touched(place: &dyn Place) {
    let store = place.host();
    let mut log = store.create(&id("trip"), &header()).unwrap();
    let mut meta = log.meta().unwrap();
    meta.happened(&started("Find  a lamp"));
    log.set_meta(&meta).unwrap();
    assert_eq!(store.info(&id("trip")).unwrap().meta.title, "Find a lamp");
    let before = store.info(&id("trip")).unwrap();
    // Whether it is open or not.
    place.host().rename(&id("trip"), "desk\0 lamps").unwrap();
    log.set_meta(&SessionMeta { turns: 3, ..meta }).unwrap();
    drop(log);
    let after = store.info(&id("trip")).unwrap();
    assert!(after.meta.title.starts_with("desk") && after.meta.title.ends_with(" lamps") && after.meta.named);
    assert_eq!((after.meta.turns, after.meta.runs), (3, 1));
    assert_eq!((after.bytes, after.updated), (before.bytes, before.updated));
    store.rename(&id("trip"), "lamps").unwrap();
    assert_eq!(store.info(&id("trip")).unwrap().meta.title, "lamps");
    assert_eq!(read(&store, "trip").len(), 1);
}

pub(crate) fn sessions_are_listed_with_what_is_known_the_last_one_first(place: &dyn Place) {
    let store = place.host();
    assert!(store.list().unwrap().sessions.is_empty());
    let agent = unfazed::engine::AgentFacts { name: "desk".into(), file: "/a.yaml".into(), profile: None };
    let mut first = store.create(&id("first"), &header().of_agent(agent)).unwrap();
    let second = store.create(&id("second"), &header()).unwrap();
    let mut meta = first.meta().unwrap();
    meta.happened(&started("Find a lamp"));
    first.set_meta(&meta).unwrap();
    first.append(&[state(1)]).unwrap();
    let listed = |store: &WaitedStore| {
        let listing = store.list().unwrap();
        assert_eq!(listing.damaged, []);
        let of = |info: unfazed::store::SessionInfo| (info.id.to_string(), info.meta.status, info.meta.agent);
        listing.sessions.into_iter().map(of).collect::<Vec<_>>()
    };
    let desk = Some("desk".to_owned());
    let mut now = listed(&place.host());
    // The times of files go by steps of some milliseconds.
    let until = std::time::Instant::now() + std::time::Duration::from_secs(5);
    while now[0].0 != "first" && std::time::Instant::now() < until {
        first.append(&[state(1)]).unwrap();
        now = listed(&place.host());
    }
    assert_eq!(now[0], ("first".into(), SessionStatus::Running, desk.clone()));
    assert_eq!(now[1], ("second".into(), SessionStatus::New, None));
    drop((first, second));
    let now = listed(&place.host());
    assert_eq!(now[0], ("first".into(), SessionStatus::BrokenOff, desk));
    let info = place.host().info(&id("first")).unwrap();
    assert_eq!(info, store.list().unwrap().sessions[0]);
    assert!(info.bytes > 0 && info.updated > Instant(1_700_000_000_000_000_000));
    assert_eq!(info.meta.created, Instant(7));
}

pub(crate) fn text_is_found_in_what_was_said_in_capital_letters_or_not(place: &dyn Place) {
    let store = place.host();
    let call = unfazed::session::ToolCall {
        id: "c".into(),
        name: "look".into(),
        arguments: r#"{"item":"Lamp"}"#.into(),
    };
    let texts = [
        ("user", user("50% of ALL_lamps\\ Größe \"quoted\"")),
        (
            "tool",
            Message::Tool {
                call: "c".into(),
                tool: "look".into(),
                text: "A brass lamp".into(),
                error: false,
                handle: None,
            },
        ),
        (
            "call",
            Message::Assistant { text: String::new(), calls: vec![call], extra: serde_json::Map::default() },
        ),
        ("system", Message::System { text: "Sell lamps".into() }),
    ];
    let ids: Vec<SessionId> = texts.iter().map(|(name, _)| id(name)).collect();
    for (name, message) in texts {
        let mut log = store.create(&id(name), &header()).unwrap();
        log.append(&[said(vec![message]), state(1)]).unwrap();
    }
    for (text, found) in [
        ("LAMP", vec!["user", "tool", "call"]),
        ("lamps", vec!["user"]),
        ("50%", vec!["user"]),
        ("5%", vec![]),
        ("all_LAMPS\\", vec!["user"]),
        ("all-lamps", vec![]),
        ("GRÖSSE", vec![]),
        ("GRÖßE \"Q", vec!["user"]),
        ("nowhere", vec![]),
    ] {
        let found: Vec<SessionId> = found.into_iter().map(id).collect();
        assert_eq!(store.search(&ids, text).unwrap(), found, "{text}");
    }
    // Only where it is looked for.
    assert_eq!(store.search(&ids[1..2], "lamp").unwrap(), [id("tool")]);
}

pub(crate) fn a_session_that_is_deleted_leaves_nothing(place: &dyn Place) {
    let store = place.host();
    let mut log = store.create(&id("trip"), &header()).unwrap();
    log.keep_state(b"{}").unwrap();
    log.append(&[said(vec![user("lamp")]), state(1)]).unwrap();
    drop(log);
    place.host().delete(&id("trip")).unwrap();
    assert!(store.list().unwrap().sessions.is_empty());
    let mut log = store.create(&id("trip"), &header()).unwrap();
    assert!(log.kept_states().is_empty());
    assert_eq!(store.search(&[id("trip")], "lamp").unwrap(), []);
    assert_eq!(read(&store, "trip").len(), 1);
}

pub(crate) fn the_states_kept_last_are_there(place: &dyn Place) {
    let store = place.host();
    let mut log = store.create(&id("trip"), &header()).unwrap();
    for seq in 1..=3_u64 {
        log.append(&[state(seq * 10)]).unwrap();
        log.keep_state(format!(r#"{{"seq":{seq}}}"#).as_bytes()).unwrap();
        log.append(&[state(seq)]).unwrap();
    }
    drop(log);
    let kept = place.host().open(&id("trip")).unwrap().kept_states();
    assert_eq!(kept, [br#"{"seq":2}"#.to_vec(), br#"{"seq":3}"#.to_vec()]);
}

pub(crate) fn the_log_is_shown_line_by_line_when_it_is_opened(place: &dyn Place) {
    let store = place.host();
    let mut log = store.create(&id("trip"), &header()).unwrap();
    for seq in 1..=200 {
        log.append(&[state(seq)]).unwrap();
    }
    drop(log);
    let (shown, lines) = std::sync::mpsc::channel();
    let each = move |line: unfazed::store::VerifiedLine<'_>| {
        shown.send((line.kind(), Record::parse(line.json())?)).unwrap();
        Ok(())
    };
    drop(store.open_with(&id("trip"), Box::new(each)).unwrap());
    let lines: Vec<_> = lines.into_iter().collect();
    assert_eq!(lines.len(), 201);
    assert_eq!(lines[0], (LineKind::Session, Record::Session(header())));
    assert_eq!(lines[200], (LineKind::State, state(200)));
    // Whoever does not understand a line says so, and the session is free again.
    let not_by_me = |_: unfazed::store::VerifiedLine<'_>| {
        Err(RecordError::Malformed(unfazed::ErrorCause::new("not by me")))
    };
    let error = store.open_with(&id("trip"), Box::new(not_by_me));
    let error = error.err().unwrap().to_string();
    assert!(error.contains("line 1") && error.contains("not by me"), "{error}");
    store.open(&id("trip")).unwrap();
}

const POLICY: &str = "version: 1
tools:
  '*': {retry: {backoff: {kind: constant, delay: 0s}}}
  flaky: {breaker: {failures: 1, scope: session}}
";

/// A journal that fails when it is informed of so many events.
struct Failing {
    recorder: Recorder,
    left: u32,
}

impl Journal for Failing {
    fn event(&mut self, envelope: &Envelope) -> Result<(), JournalError> {
        self.left = self.left.checked_sub(1).ok_or_else(|| JournalError("the host is gone".into()))?;
        self.recorder.event(envelope)
    }

    fn directives(&mut self, policy: &str, list: &Directives, state: &State) -> Result<(), JournalError> {
        self.recorder.directives(policy, list, state)
    }

    fn written(&mut self) -> Option<BoxFuture<'static, Result<(), JournalError>>> {
        self.recorder.written()
    }
}

/// An agent whose first turns call `flaky`, which fails, and which then answers.
fn agent(runs: &Arc<AtomicU32>) -> Agent {
    let spec = ToolSpec {
        name: "flaky".into(),
        description: String::new(),
        parameters: json!({"type": "object"}),
        effect: Some(Effect::ReadOnly),
    };
    let runs = Arc::clone(runs);
    let tool = FunctionTool::new(spec, move |_: Value, _| {
        runs.fetch_add(1, Ordering::Relaxed);
        async { Err::<Value, _>(ToolError::failed("no such item")) }
    });
    let call = |n: u32| {
        let call = ScriptedCall { name: "flaky".into(), arguments: json!({"n": n}).to_string(), id: None };
        ScriptEntry::new(scripted::ScriptOutcome::Answer(ScriptAnswer {
            calls: vec![call],
            ..ScriptAnswer::default()
        }))
    };
    let turn = |turn, entry: ScriptEntry| {
        entry.when(RequestMatcher { turn: Some(turn), ..RequestMatcher::default() })
    };
    let entries = [
        turn(1, call(1)),
        turn(2, ScriptEntry::text("Done.")),
        turn(3, call(2)),
        turn(4, ScriptEntry::text("Again.")),
    ];
    Agent::new(Policy::from_yaml("policy.yaml", POLICY).unwrap())
        .model("m", ScriptedModel::new(Script::new("script", entries)))
        .tools(Tools::new().with(tool))
}

pub(crate) fn task(text: &str) -> RunTask {
    RunTask { run: "trip".into(), system: "Be brief.".into(), task: text.into(), ..RunTask::default() }
}

fn begin(store: &WaitedStore, agent: &Agent, events: u32) -> Result<RunReport, String> {
    let header = LogHeader::new("trip", agent.interpreter().unwrap().policy().digest(), Instant(1));
    let recorder = store.create(&id("trip"), &header).unwrap().record();
    let mut journal = Failing { recorder, left: events };
    let mut silent = NoopObserver;
    let run = agent.run_with(task("Look."), &mut silent, Some(&mut journal), StopSwitch::new());
    let report = wait(run).map_err(|error| error.to_string());
    wait(journal.recorder.close());
    report
}

fn go_on(store: &WaitedStore, agent: &Agent, next: Option<&str>) -> RunReport {
    let interpreter = agent.interpreter().unwrap();
    wait(async {
        let ResumedSession { past, log, .. } = resume(&**store, &id("trip"), &interpreter).await.unwrap();
        let mut recorder = Recorder::new(log).await;
        let (next, mut silent) = (next.map(task), NoopObserver);
        let run = agent.go_on(Some(past), next, &mut silent, Some(&mut recorder), StopSwitch::new());
        let report = run.await.unwrap();
        recorder.close().await;
        report
    })
}

/// The last state that was written down.
fn last_state(store: &WaitedStore) -> String {
    let hash = |record| if let Record::State { hash, .. } = record { Some(hash) } else { None };
    read(store, "trip").into_iter().rev().find_map(hash).unwrap()
}

pub(crate) fn a_run_that_broke_off_goes_on_elsewhere_with_the_same_state(place: &dyn Place) {
    let runs = Arc::<AtomicU32>::default();
    let broken = begin(&place.host(), &agent(&runs), 4);
    assert!(broken.unwrap_err().contains("the host is gone"));
    let other = place.host();
    assert_eq!(other.info(&id("trip")).unwrap().meta.status, SessionStatus::BrokenOff);
    let before = last_state(&other);
    let interpreter = agent(&runs).interpreter().unwrap();
    let resumed = wait(resume(&*other, &id("trip"), &interpreter)).unwrap();
    assert_eq!(resumed.past.state.digest(), before);
    wait(resumed.log.close());
    let report = go_on(&other, &agent(&runs), None);
    assert_eq!(report.outcome, Outcome::Answered { text: "Done.".into() });
    assert_eq!(place.host().info(&id("trip")).unwrap().meta.status, SessionStatus::Answered);
}

pub(crate) fn a_breaker_of_the_session_is_open_on_the_next_host(place: &dyn Place) {
    let runs = Arc::<AtomicU32>::default();
    begin(&place.host(), &agent(&runs), u32::MAX).unwrap();
    assert_eq!(runs.load(Ordering::Relaxed), 1);
    let report = go_on(&place.host(), &agent(&runs), Some("Look again."));
    assert_eq!(report.outcome, Outcome::Answered { text: "Again.".into() });
    assert_eq!(runs.load(Ordering::Relaxed), 1, "the breaker was forgotten");
}

pub(crate) fn many_hosts_write_many_sessions_at_once(place: &dyn Place) {
    std::thread::scope(|scope| {
        for host in 0..4 {
            scope.spawn(move || {
                let store = place.host();
                let names: Vec<String> = (0..3).map(|n| format!("host{host}-{n}")).collect();
                let mut logs: Vec<_> =
                    names.iter().map(|name| store.create(&id(name), &header()).unwrap()).collect();
                for seq in 1..=10 {
                    for log in &mut logs {
                        log.append(&[state(seq)]).unwrap();
                    }
                }
                drop(logs);
                for name in names {
                    assert_eq!(seqs(&store, &name), (1..=10).collect::<Vec<_>>());
                }
            });
        }
    });
    assert_eq!(place.host().list().unwrap().sessions.len(), 12);
}
