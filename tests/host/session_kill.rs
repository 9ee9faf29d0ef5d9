//! A process that is killed while it writes a session, again and again: every resume works, nothing that was
//! acknowledged is lost, and nothing that must not be done twice is.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant as Clock};

use serde_json::{Value, json};
use unfazed::context;
use unfazed::engine::{
    Directives, Envelope, Event, LogHeader, Outcome, Record, State, ToolOutcome, ToolSpec,
};
use unfazed::host::scripted::{
    self, RequestMatcher, Script, ScriptAnswer, ScriptEntry, ScriptedCall, ScriptedModel,
};
use unfazed::host::{
    Agent, BoxFuture, FunctionTool, Journal, JournalError, NoopObserver, RunTask, StopSwitch, Tools,
};
use unfazed::policy::{Effect, Policy};
use unfazed::store::{FsyncMode, JsonlStore, Recorder, SessionId, Store, resume};
use unfazed::time::Instant;

use crate::waiting::Waited;

/// Where a child writes; without it nobody is one.
const DIR: &str = "SESSION_KILL_DIR";
const POLICY: &str = "version: 1
turn: {max_turns: 100}
tools:
  '*':
    retry: {backoff: {kind: constant, delay: 0s}}
    breaker: {failures: 1000}
    loop_guard: {enabled: false}
models: {'*': {retry: {backoff: {kind: constant, delay: 0s}}}}
";
const TURNS: u32 = 12;
const CALLS: u32 = 3;

/// Tells what is written, once it is.
struct Acknowledging {
    recorder: Recorder,
    acknowledged: fs::File,
    /// What was recorded since.
    recorded: String,
}

impl Journal for Acknowledging {
    fn event(&mut self, envelope: &Envelope) -> Result<(), JournalError> {
        self.recorder.event(envelope)?;
        writeln!(self.recorded, "event {}", envelope.seq).unwrap();
        Ok(())
    }

    fn directives(&mut self, policy: &str, list: &Directives, state: &State) -> Result<(), JournalError> {
        self.recorder.directives(policy, list, state)?;
        writeln!(self.recorded, "state {}", state.seq).unwrap();
        Ok(())
    }

    fn written(&mut self) -> Option<BoxFuture<'static, Result<(), JournalError>>> {
        let (writing, recorded) = (self.recorder.written(), std::mem::take(&mut self.recorded));
        let mut acknowledged = self.acknowledged.try_clone().unwrap();
        Some(Box::pin(async move {
            if let Some(writing) = writing {
                writing.await?;
            }
            add(&mut acknowledged, &recorded);
            Ok(())
        }))
    }
}

fn id() -> SessionId {
    "trip".parse().unwrap()
}

fn store(dir: &Path) -> JsonlStore {
    JsonlStore::new(dir.join("sessions"), FsyncMode::Never)
}

fn add_to(path: PathBuf) -> fs::File {
    OpenOptions::new().append(true).create(true).open(path).unwrap()
}

/// Adds a line, all of it or none.
fn add(file: &mut fs::File, line: &str) {
    file.write_all(line.as_bytes()).unwrap();
}

/// An agent that charges three times a turn, each time in a ledger that outlives it.
fn agent(dir: &Path) -> Agent {
    let spec = ToolSpec {
        name: "charge".into(),
        description: String::new(),
        parameters: json!({"type": "object"}),
        effect: Some(Effect::NonIdempotent),
    };
    let ledger = dir.join("ledger");
    let charge = FunctionTool::new(spec, move |arguments: Value, _| {
        add(&mut add_to(ledger.clone()), &format!("{}\n", arguments["n"]));
        async move { Ok(json!({"receipt": "x".repeat(3000)})) }
    });
    let turn = |turn: u32| {
        let call = |n: u32| ScriptedCall {
            name: "charge".into(),
            arguments: json!({"n": turn * CALLS + n}).to_string(),
            id: Some(format!("c{turn}-{n}")),
        };
        let answer = ScriptAnswer { calls: (0..CALLS).map(call).collect(), ..ScriptAnswer::default() };
        let entry = ScriptEntry::new(scripted::ScriptOutcome::Answer(answer));
        entry.when(RequestMatcher { turn: Some(turn), ..RequestMatcher::default() })
    };
    let script = Script::new("script", (1..=TURNS).map(turn).chain([ScriptEntry::text("Done.")]));
    Agent::new(Policy::from_yaml("policy.yaml", POLICY).unwrap())
        .model("m", ScriptedModel::new(script))
        .tools(Tools::new().with(charge))
}

#[test]
#[ignore = "runs inside the other tests, and is killed there"]
fn child() {
    let Some(dir) = std::env::var_os(DIR).map(PathBuf::from) else { return };
    let (agent, store) = (agent(&dir), store(&dir));
    // What was killed before its first line was whole has not begun.
    if fs::read(store.path(&id())).is_ok_and(|log| !log.contains(&b'\n')) {
        fs::remove_file(store.path(&id())).unwrap();
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let interpreter = agent.interpreter().unwrap();
    let (past, log) = match runtime.block_on(resume(&store, &id(), &interpreter)) {
        Ok(resumed) => (Some(resumed.past), resumed.log),
        Err(error) if !store.path(&id()).exists() => {
            drop(error);
            let header = LogHeader::new("trip", interpreter.policy().digest(), Instant(1));
            (None, runtime.block_on(store.create(&id(), &header)).unwrap())
        }
        Err(error) => panic!("{error}"),
    };
    // A kill after the last line was written leaves nothing to do. Another run would be killed in its turn, and so on.
    if let Some(outcome) = past.as_ref().and_then(|past| past.state.outcome.as_ref()) {
        assert_eq!(*outcome, Outcome::Answered { text: "Done.".into() });
        return;
    }
    let begun = past.as_ref().is_some_and(|past| !past.is_over());
    let task = (!begun).then(|| RunTask { run: "trip".into(), task: "Charge.".into(), ..RunTask::default() });
    let mut journal = Acknowledging {
        recorder: runtime.block_on(Recorder::new(log)),
        acknowledged: add_to(dir.join("acknowledged")),
        recorded: String::new(),
    };
    let mut silent = NoopObserver;
    let run = agent.go_on(past, task, &mut silent, Some(&mut journal), StopSwitch::new());
    let report = runtime.block_on(run).unwrap();
    assert_eq!(report.outcome, Outcome::Answered { text: "Done.".into() });
    assert_eq!(context::findings(&report.messages), []);
}

/// A stream of numbers that is the same every time.
struct Moments(u64);

impl Moments {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }
}

/// Starts a child and kills it when the log has grown by so many bytes. Returns whether it came to its end.
fn kill_after(dir: &Path, bytes: u64) -> bool {
    let log = store(dir).path(&id());
    let length = || fs::metadata(&log).map_or(0, |meta| meta.len());
    let said = dir.join("said");
    let until = length() + bytes;
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "session_kill::child"])
        .env(DIR, dir)
        .stdin(Stdio::null())
        .stdout(fs::File::create(&said).unwrap())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let late = Clock::now() + Duration::from_secs(120);
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            assert!(status.success(), "{}", fs::read_to_string(&said).unwrap());
            return true;
        }
        assert!(Clock::now() < late, "it does not end");
        if length() >= until {
            child.kill().unwrap();
            child.wait().unwrap();
            return false;
        }
        std::hint::spin_loop();
    }
}

/// What is in the log after a kill.
fn look(dir: &Path) {
    let store = Waited(Box::new(store(dir)));
    if !store.path(&id()).exists() {
        return;
    }
    let (mut there, mut charged) = (BTreeSet::new(), 0);
    // A kill before the first line is whole leaves no session.
    let Ok(records) = store.read(&id()) else { return };
    for record in records {
        match record.unwrap() {
            Record::Event(envelope) => {
                there.insert(format!("event {}", envelope.seq));
                let finished =
                    matches!(envelope.event, Event::ToolFinished { outcome: ToolOutcome::Ok { .. }, .. });
                charged += usize::from(finished);
            }
            Record::State { seq, .. } => drop(there.insert(format!("state {seq}"))),
            Record::Session(_) | Record::Directives { .. } => {}
        }
    }
    let acknowledged = fs::read_to_string(dir.join("acknowledged")).unwrap_or_default();
    for line in acknowledged.lines() {
        assert!(there.contains(line), "{line} was acknowledged and is lost");
    }
    let ledger = fs::read_to_string(dir.join("ledger")).unwrap_or_default();
    let once: BTreeSet<&str> = ledger.lines().collect();
    assert_eq!(once.len(), ledger.lines().count(), "charged twice: {ledger}");
    assert!(charged <= once.len(), "{charged} receipts, but {} charges", once.len());
}

fn kill_again_and_again(seed: u64, kills: u32) {
    let mut moments = Moments(seed);
    let (mut killed, mut finished) = (0, 0);
    while killed < kills {
        let dir = tempfile::tempdir().unwrap();
        // Now after a few bytes, now after most of the run.
        let most = [500, 4_000, 30_000][usize::try_from(moments.below(3)).unwrap()];
        while !kill_after(dir.path(), moments.below(most)) {
            look(dir.path());
            killed += 1;
        }
        look(dir.path());
        finished += 1;
    }
    assert!(finished > 0);
}

#[test]
fn a_run_that_is_killed_again_and_again_comes_to_its_end_and_charges_nothing_twice() {
    kill_again_and_again(0x5eed_0001, 100);
}

#[test]
fn so_does_one_that_is_killed_at_other_moments() {
    kill_again_and_again(0x5eed_0002, 100);
}
