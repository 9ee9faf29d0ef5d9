//! A session whose log ends anywhere continues: with the same state, with nothing lost, and without running again what
//! may have run.

use std::collections::BTreeMap;
use std::fs;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tempfile::TempDir;
use unfazed::context;
use unfazed::engine::{
    DirectiveKind, DriveMode, EffectState, Envelope, Event, Interpreter, LogHeader, Note, Outcome, Record,
    RecordLine, RunStarted, State, ToolFacts, ToolOutcome, ToolSpec, Work,
};
use unfazed::host::scripted::{
    self, RequestMatcher, Script, ScriptAnswer, ScriptEntry, ScriptedCall, ScriptedModel,
};
use unfazed::host::{
    Agent, Clock, FunctionTool, Journal, NoopObserver, RunReport, RunTask, StopSwitch, Tools,
};
use unfazed::policy::{Effect, Policy};
use unfazed::replay::{DecisionParts, ReplayEnding, replay};
use unfazed::session::Message;
use unfazed::store::{
    FsyncMode, JsonlStore, Recorder, ResumeError, ResumedSession, SessionId, SessionLog, SessionStatus,
    StoreError, StoreFuture, resume,
};
use unfazed::time::{Instant, Nanos};

use crate::waiting::Waited;

const POLICY: &str = "version: 1
tools:
  '*': {retry: {backoff: {kind: constant, delay: 0s}}}
  flaky: {breaker: {failures: 5, scope: session}}
models: {'*': {retry: {backoff: {kind: constant, delay: 0s}}}}
session:
  slices: {calls: {initial: 0}}
  reducers: {count: {on: [tool_succeeded], slice: calls, do: {kind: increment, value: '1'}}}
";

/// How often each tool ran with which argument.
type Runs = Arc<Mutex<BTreeMap<String, u32>>>;

struct Scene {
    dir: TempDir,
    id: SessionId,
}

impl Scene {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), id: "trip".parse().unwrap() }
    }

    fn store(&self) -> Waited<Box<JsonlStore>> {
        Waited(Box::new(JsonlStore::new(self.dir.path(), FsyncMode::Never)))
    }

    fn log(&self) -> Vec<u8> {
        fs::read(self.store().path(&self.id)).unwrap()
    }

    /// The log as a crash has left it, and nothing beside it.
    fn left(&self, log: &[u8]) {
        fs::write(self.store().path(&self.id), log).unwrap();
        let _ = fs::remove_file(self.dir.path().join("trip.state"));
    }

    fn records(&self) -> Vec<Record> {
        self.store().read(&self.id).unwrap().map(Result::unwrap).collect()
    }

    fn begin(&self, agent: &Agent, task: &str) -> RunReport {
        let header = LogHeader::new("trip", agent.interpreter().unwrap().policy().digest(), Instant(1));
        let mut recorder = record(self.store().create(&self.id, &header).unwrap().into_inner());
        let task = RunTask {
            run: "trip".into(),
            system: "Be brief.".into(),
            task: task.into(),
            ..RunTask::default()
        };
        let report =
            block_on(agent.run_with(task, &mut NoopObserver, Some(&mut recorder), StopSwitch::new()))
                .unwrap();
        block_on(recorder.close());
        self.decides_the_same(agent);
        report
    }

    /// What its policy decided is decided again the same, however often it went on.
    fn decides_the_same(&self, agent: &Agent) {
        let policy = agent.interpreter().unwrap().policy().clone();
        let found = replay(&policy, DecisionParts::default(), self.store().read(&self.id).unwrap()).unwrap();
        if found.by_same() {
            assert_eq!((found.ending, found.same), (ReplayEnding::Same, found.events));
        }
    }

    fn resume(&self, agent: &Agent) -> ResumedSession {
        self.try_resume(&agent.interpreter().unwrap()).unwrap()
    }

    fn try_resume(&self, interpreter: &Interpreter) -> Result<ResumedSession, ResumeError> {
        block_on(resume(&*self.store(), &self.id, interpreter))
    }

    fn go_on(&self, agent: &Agent, task: Option<&str>) -> RunReport {
        let ResumedSession { past, log, .. } = self.resume(agent);
        let mut recorder = record(log);
        let task = task.map(|task| RunTask { run: "trip".into(), task: task.into(), ..RunTask::default() });
        let run = async {
            agent.go_on(Some(past), task, &mut NoopObserver, Some(&mut recorder), StopSwitch::new()).await
        };
        let report = block_on(run).unwrap();
        block_on(recorder.close());
        self.decides_the_same(agent);
        report
    }
}

/// Waits in virtual time. What was begun before continues meanwhile.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    thread_local! {
        static RUNTIME: &'static tokio::runtime::Runtime = Box::leak(Box::new(
            tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap(),
        ));
    }
    RUNTIME.with(|runtime| runtime.block_on(future))
}

fn record(log: Box<dyn SessionLog>) -> Recorder {
    block_on(Recorder::new(log))
}

/// A reply that calls these tools.
fn calls(calls: &[(&str, u32)]) -> ScriptEntry {
    let call = |(name, n): &(&str, u32)| ScriptedCall {
        name: (*name).to_owned(),
        arguments: json!({"n": n}).to_string(),
        id: Some(format!("{name}-{n}")),
    };
    let calls = calls.iter().map(call).collect();
    ScriptEntry::new(scripted::ScriptOutcome::Answer(ScriptAnswer { calls, ..ScriptAnswer::default() }))
}

/// An agent that charges once, looks twice, and answers.
fn agent(policy: &str, runs: &Runs) -> Agent {
    agent_of("policy.yaml", policy, runs)
}

/// The same, whose policy is read from that file.
fn agent_of(file: &str, policy: &str, runs: &Runs) -> Agent {
    let tool = |name: &'static str, effect| {
        let spec = ToolSpec {
            name: name.into(),
            description: String::new(),
            parameters: json!({"type": "object"}),
            effect: Some(effect),
        };
        let runs = Arc::clone(runs);
        FunctionTool::new(spec, move |arguments: Value, _| {
            *runs.lock().unwrap().entry(format!("{name} {}", arguments["n"])).or_default() += 1;
            async move { Ok(json!({"did": name})) }
        })
    };
    let turn = |turn, entry: ScriptEntry| {
        entry.when(RequestMatcher { turn: Some(turn), ..RequestMatcher::default() })
    };
    let script = Script::new(
        "script",
        [
            turn(1, calls(&[("charge", 1), ("look", 1)])),
            turn(2, calls(&[("look", 2)])),
            turn(3, ScriptEntry::text("Done.")),
            turn(4, calls(&[("charge", 2)])),
            turn(5, ScriptEntry::text("Done again.")),
        ],
    );
    let tools = Tools::new().with(tool("charge", Effect::NonIdempotent)).with(tool("look", Effect::ReadOnly));
    Agent::new(Policy::from_yaml(file, policy).unwrap()).model("m", ScriptedModel::new(script)).tools(tools)
}

/// A whole run, and its log.
fn whole() -> (Scene, Vec<u8>) {
    let scene = Scene::new();
    let report = scene.begin(&agent(POLICY, &Runs::default()), "Charge it.");
    assert_eq!(report.outcome, Outcome::Answered { text: "Done.".into() });
    let log = scene.log();
    (scene, log)
}

/// A run that was broken off while its tools were running.
fn broken_off_in_tools() -> Scene {
    broken_off_under(POLICY)
}

fn broken_off_under(policy: &str) -> Scene {
    let scene = Scene::new();
    scene.begin(&agent(policy, &Runs::default()), "Charge it.");
    let text = String::from_utf8(scene.log()).unwrap();
    let cut = text.find(r#""event":"tool_finished""#).unwrap();
    let cut = text[..cut].rfind('\n').unwrap() + 1;
    scene.left(&text.as_bytes()[..cut]);
    scene
}

/// The calls of tools that may have begun: what is decided is written down, with the state it leads to, before it begins.
fn begun(records: &[Record]) -> BTreeMap<String, u32> {
    let (mut begun, mut decided) = (BTreeMap::new(), Vec::new());
    for record in records {
        match record {
            Record::Directives { list, .. } => {
                decided = list
                    .0
                    .iter()
                    .filter_map(|directive| match &directive.order {
                        DirectiveKind::Work(Work::RunTool(run)) => {
                            Some(format!("{} {}", run.tool, run.arguments["n"]))
                        }
                        _ => None,
                    })
                    .collect();
            }
            Record::State { .. } => {
                for run in decided.drain(..) {
                    *begun.entry(run).or_default() += 1;
                }
            }
            Record::Session(_) | Record::Event(_) => {}
        }
    }
    begun
}

/// The states of the log, each with the number of its event.
fn states(records: &[Record]) -> Vec<(u64, String)> {
    let states = records.iter().filter_map(|record| match record {
        Record::State { seq, hash } => Some((*seq, hash.clone())),
        _ => None,
    });
    states.collect()
}

/// The digests of states in another format say nothing; what was decided on the way to them does.
#[test]
fn a_session_whose_states_have_another_format_is_resumed_by_what_was_decided() {
    let (scene, _) = whole();
    let interpreter = agent(POLICY, &Runs::default()).interpreter().unwrap();
    let records = scene.records();
    let written = fs::read(scene.dir.path().join("trip.jsonl")).unwrap();
    let as_format_1 = |turns: bool| {
        let mut log = Vec::new();
        scene.left(&written);
        for mut record in scene.records() {
            match &mut record {
                Record::State { hash, .. } => *hash = hash.trim_start_matches("2:").to_owned(),
                Record::Directives { list, .. } if turns => list.0.reverse(),
                _ => {}
            }
            log.extend_from_slice(RecordLine::new(record.as_ref()).unwrap().with_end().as_bytes());
        }
        log
    };
    scene.left(&as_format_1(false));
    let past = scene.try_resume(&interpreter).unwrap().past;
    assert_eq!((past.state.seq, past.state.digest()), states(&records).pop().unwrap());
    scene.left(&as_format_1(true));
    let error = scene.try_resume(&interpreter).err().unwrap();
    assert!(matches!(error, ResumeError::Diverged { .. }), "{error}");
}

#[test]
fn a_log_that_is_cut_off_at_any_byte_leads_to_the_last_state_that_is_whole() {
    let (scene, log) = whole();
    let interpreter = agent(POLICY, &Runs::default()).interpreter().unwrap();
    let lines: Vec<(usize, Record)> = {
        let ends = log.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at);
        ends.zip(scene.records()).collect()
    };
    // Every byte of the first records, and so many of the others that each part of a line is met.
    let (first, rest) = (lines[0].0..4_000, (4_000..log.len()).step_by(7));
    for cut in first.chain(rest) {
        scene.left(&log[..cut]);
        let past = scene.try_resume(&interpreter).unwrap().past;
        // The line end need not be there.
        let whole = || lines.iter().rev().filter(|(end, _)| *end <= cut).map(|(_, record)| record);
        let state = whole().find_map(|record| match record {
            Record::State { seq, hash } => Some((*seq, hash.clone())),
            _ => None,
        });
        let last = whole().find_map(|record| match record {
            Record::Event(envelope) => Some(envelope),
            _ => None,
        });
        assert_eq!(
            (past.state.seq, past.state.digest()),
            state.clone().unwrap_or((0, State::new().digest()))
        );
        // An event that was written down is not lost, whatever became of the decision.
        let decided = last.map(|envelope| envelope.seq) == state.map(|(seq, _)| seq);
        assert_eq!(past.untaken.as_ref(), last.filter(|_| !decided), "cut at {cut}");
    }
}

#[test]
fn a_run_that_is_broken_off_anywhere_goes_on_to_its_end_and_charges_once() {
    let (scene, log) = whole();
    let ends = log.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
    let mut broken_off = 0;
    for end in ends {
        // After the record, and in the middle of the next.
        for cut in [end, (end + 40).min(log.len())] {
            scene.left(&log[..cut]);
            let runs = Runs::default();
            let agent = agent(POLICY, &runs);
            let ResumedSession { past, log: open, .. } = scene.resume(&agent);
            if past.is_over() {
                continue;
            }
            drop(open);
            let mut all = begun(&scene.records());
            let unknown: Vec<String> = past.unknown().map(|run| run.tool.clone()).collect();
            let report = scene.go_on(&agent, None);
            for (run, times) in runs.lock().unwrap().iter() {
                *all.entry(run.clone()).or_default() += times;
            }
            assert_eq!(all["charge 1"], 1, "cut at {cut}");
            assert_eq!(report.outcome, Outcome::Answered { text: "Done.".into() }, "cut at {cut}");
            assert_eq!(context::findings(&report.messages), [], "cut at {cut}");
            // What is reported about a tool that may have had side effects never says that it did not run.
            let told =
                report.messages.iter().any(|message| message.text().contains("It may have had side effects"));
            assert_eq!(told, unknown.contains(&"charge".to_owned()), "cut at {cut}");
            broken_off += 1;
            // The same events lead to the same state again.
            let again = scene.resume(&agent);
            assert_eq!(again.past.state, report.state);
            assert_eq!(again.past.messages, report.messages);
        }
    }
    assert!(broken_off > 30, "{broken_off}");
}

#[test]
fn a_resumed_wait_is_never_longer_than_was_planned_whatever_the_clock_says() {
    const HOUR: u64 = 3_600_000_000_000;
    let policy = "version: 1\nmodels: {'*': {retry: {backoff: {kind: constant, delay: 1s, jitter: none}}}}\n";
    let agent = |at: u64, entries: Vec<ScriptEntry>| {
        Agent::new(Policy::from_yaml("policy.yaml", policy).unwrap())
            .model("m", ScriptedModel::new(Script::new("script", entries)))
            .clock(Clock::starting_at(Instant(at)))
    };
    let scene = Scene::new();
    let begun =
        agent(2 * HOUR, vec![ScriptEntry::error(503, "overloaded", "later"), ScriptEntry::text("Done.")]);
    scene.begin(&begun, "Charge it.");
    let log = String::from_utf8(scene.log()).unwrap();
    let fired = log.find(r#""event":"timer_fired""#).unwrap();
    let cut = log[..fired].rfind('\n').unwrap() + 1;
    for (at, expected) in [(HOUR, 1), (3 * HOUR, 0)] {
        scene.left(&log.as_bytes()[..cut]);
        let resumed = agent(at, vec![ScriptEntry::text("Done.")]);
        let ResumedSession { past, log: open, .. } = scene.resume(&resumed);
        let mut recorder = record(open);
        let (report, waited) = block_on(async {
            let start = tokio::time::Instant::now();
            let report = resumed
                .go_on(Some(past), None, &mut NoopObserver, Some(&mut recorder), StopSwitch::new())
                .await;
            (report.unwrap(), start.elapsed())
        });
        block_on(recorder.close());
        assert_eq!(report.outcome, Outcome::Answered { text: "Done.".into() });
        assert_eq!(waited.as_secs(), expected);
        assert_eq!(report.state.spending().waited, Nanos::from_secs(1), "what was planned is what counts");
    }
}

#[test]
fn the_policy_is_told_that_nobody_knows_what_a_tool_did() {
    let scene = broken_off_in_tools();
    let runs = Runs::default();
    scene.go_on(&agent(POLICY, &runs), None);
    let told: Vec<_> = scene
        .records()
        .into_iter()
        .filter_map(|record| match record {
            Record::Event(envelope) => match envelope.event {
                Event::ToolFinished { outcome: ToolOutcome::Failed { effect, .. }, .. } => Some(effect),
                _ => None,
            },
            _ => None,
        })
        .collect();
    assert_eq!(told, [EffectState::Unknown, EffectState::Unknown]);
    // What does no harm is run again by the policy; what may have had side effects is not.
    let runs = runs.lock().unwrap();
    assert_eq!((runs.get("look 1"), runs.get("charge 1")), (Some(&1), None));
}

#[test]
fn the_next_run_of_a_session_knows_the_conversation_and_the_slices() {
    let (scene, _) = whole();
    let runs = Runs::default();
    let report = scene.go_on(&agent(POLICY, &runs), Some("Charge it again."));
    assert_eq!(report.outcome, Outcome::Answered { text: "Done again.".into() });
    assert_eq!(report.state.slices().get("calls"), Some(&json!(4)));
    let said: Vec<&str> = report
        .messages
        .iter()
        .filter_map(|message| match message {
            Message::System { text } | Message::User { text, .. } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(said, ["Be brief.", "Charge it.", "Charge it again."]);
    let seqs: Vec<u64> = states(&scene.records()).into_iter().map(|(seq, _)| seq).collect();
    assert!(seqs.iter().zip(1..).all(|(seq, expected)| *seq == expected), "{seqs:?}");
    let keys: Vec<String> = scene
        .records()
        .iter()
        .flat_map(|record| match record {
            Record::Directives { list, .. } => list
                .0
                .iter()
                .filter_map(|directive| match &directive.order {
                    DirectiveKind::Work(Work::RunTool(run)) => Some(run.idempotency_key.clone()),
                    _ => None,
                })
                .collect(),
            _ => Vec::new(),
        })
        .collect();
    let unique: std::collections::BTreeSet<_> = keys.iter().collect();
    assert_eq!(unique.len(), keys.len(), "no key stands for two calls: {keys:?}");
}

#[test]
fn a_task_ends_the_run_that_was_broken_off_and_begins_the_next() {
    let scene = broken_off_in_tools();
    let runs = Runs::default();
    let report = scene.go_on(&agent(POLICY, &runs), Some("Never mind: look again."));
    assert_eq!(context::findings(&report.messages), []);
    let told: Vec<&str> =
        report.messages.iter().map(Message::text).filter(|text| text.contains("It may have run")).collect();
    assert_eq!(told.len(), 2, "both calls are reported as interrupted");
    assert!(!runs.lock().unwrap().contains_key("charge 1"));
}

#[test]
fn a_run_that_was_broken_off_goes_on_under_the_same_policy_whatever_its_file_is_called() {
    // The second call of the reply waits to be refused until the first one has its result.
    let policy = format!("{POLICY}turn: {{calls: {{max: 1}}}}\n");
    let scene = broken_off_under(&policy);
    let file = "/srv/elsewhere/rules.yaml";
    let report = scene.go_on(&agent_of(file, &policy, &Runs::default()), None);
    assert_eq!(report.outcome, Outcome::Answered { text: "Done.".into() });
    let directives = scene.records().into_iter().filter_map(|record| match record {
        Record::Directives { list, .. } => Some(list.0),
        _ => None,
    });
    let refused: Vec<String> = directives
        .flatten()
        .filter(|directive| matches!(&directive.order, DirectiveKind::Note(Note::Refused { .. })))
        .flat_map(|directive| directive.because)
        .map(|because| format!("{} = {} ({})", because.rule, because.value, because.place))
        .collect();
    assert_eq!(refused, ["turn.calls.max = 1 (/srv/elsewhere/rules.yaml:9:21)"]);
    // Told by a third name, all of it is decided again.
    scene.decides_the_same(&agent_of("third.yaml", &policy, &Runs::default()));
}

#[test]
fn another_policy_takes_over_where_the_log_ends() {
    let (scene, log) = whole();
    let store = scene.store();
    // Broken off before the last state, with the states that were kept then.
    let text = String::from_utf8(log).unwrap();
    let last = text.trim_end().rfind('\n').unwrap();
    let before = text[..last].rfind(r#""kind":"event""#).unwrap();
    let before = text[..before].rfind('\n').unwrap() + 1;
    fs::write(store.path(&scene.id), &text[..before]).unwrap();
    let other = POLICY.replace("version: 1\n", "version: 1\nturn: {max_turns: 9}\n");
    let report = scene.go_on(&agent(&other, &Runs::default()), None);
    assert_eq!(report.outcome, Outcome::Answered { text: "Done.".into() });
    assert_eq!(report.state.slices().get("calls"), Some(&json!(3)));
    let changed = scene.records().into_iter().any(|record| {
        matches!(record, Record::Event(envelope) if matches!(envelope.event, Event::PolicyChanged { .. }))
    });
    assert!(changed);
}

#[test]
fn another_policy_without_the_kept_state_is_refused() {
    let (scene, log) = whole();
    scene.left(&log);
    let other = agent("version: 1\nturn: {max_turns: 9}\n", &Runs::default());
    let error = scene.try_resume(&other.interpreter().unwrap()).err().unwrap();
    assert!(error.to_string().contains("was decided by another policy"), "{error}");
}

#[test]
fn a_log_that_was_changed_is_told_from_one_that_was_not() {
    let (scene, log) = whole();
    let text = String::from_utf8(log).unwrap().replacen("did\":\"charge", "did\":\"CHARGE", 1);
    // As a log of version 1: those of version 2 have checksums.
    let first = |line: &str| {
        line.replacen("\"v\":2", "\"v\":1", 1).split(",\"checksum\"").next().unwrap().to_owned() + "}\n"
    };
    scene.left(text.lines().map(first).collect::<String>().as_bytes());
    let agent = agent(POLICY, &Runs::default());
    let error = scene.try_resume(&agent.interpreter().unwrap()).err().unwrap().to_string();
    assert!(
        error.contains("lead to another state than the one that was written down after event"),
        "{error}"
    );
}

#[test]
fn a_session_that_is_over_needs_a_task() {
    let (scene, _) = whole();
    let agent = agent(POLICY, &Runs::default());
    let ResumedSession { past, .. } = scene.resume(&agent);
    let error =
        block_on(agent.go_on(Some(past), None, &mut NoopObserver, None, StopSwitch::new())).unwrap_err();
    assert_eq!(error.to_string(), "the last run of the session is over; give it a task to continue with");
}

#[test]
fn a_run_that_its_own_host_drives_is_left_to_it_and_a_task_ends_it() {
    let scene = Scene::new();
    let agent = agent(POLICY, &Runs::default());
    let interpreter = agent.interpreter().unwrap();
    let header = LogHeader::new("trip", interpreter.policy().digest(), Instant(1));
    let mut recorder = record(scene.store().create(&scene.id, &header).unwrap().into_inner());
    let tools = interpreter.tools().iter().map(ToolFacts::from).collect();
    let started = RunStarted { run: "trip".into(), drive: DriveMode::Calls, tools, ..RunStarted::default() };
    let envelope = Envelope { seq: 1, now: Instant(1), event: Event::RunStarted(started) };
    let mut state = State::new();
    recorder.event(&envelope).unwrap();
    let directives = interpreter.step(&mut state, envelope);
    recorder.directives(interpreter.policy().digest(), &directives, &state).unwrap();
    block_on(recorder.close());
    let ResumedSession { past, log, .. } = scene.resume(&agent);
    drop(log);
    let error =
        block_on(agent.go_on(Some(past), None, &mut NoopObserver, None, StopSwitch::new())).unwrap_err();
    assert!(error.to_string().contains("driven by its own host"), "{error}");
    let report = scene.go_on(&agent, Some("Charge."));
    assert!(matches!(report.outcome, Outcome::Answered { .. }), "{:?}", report.outcome);
}

#[test]
fn what_is_known_without_the_log_is_true_after_a_run() {
    let (scene, log) = whole();
    let info = scene.store().info(&scene.id).unwrap();
    assert_eq!((info.meta.title.as_str(), info.meta.status), ("Charge it.", SessionStatus::Answered));
    assert_eq!((info.meta.runs, info.meta.turns, info.meta.model.as_deref()), (1, 3, Some("m")));
    assert_eq!(info.bytes, log.len() as u64);
    // Without the sidecar file of the log, the log says the same but what only states tell.
    fs::remove_file(scene.dir.path().join("trip.meta.json")).unwrap();
    let again = scene.store().info(&scene.id).unwrap();
    assert_eq!(
        (again.meta.title, again.meta.status, again.meta.messages),
        (info.meta.title, info.meta.status, info.meta.messages)
    );
}

/// Wherever a byte of a log was changed, it is found before anything is added.
#[test]
fn a_changed_byte_is_found_before_anything_is_added() {
    let (scene, mut log) = whole();
    // The header, events, directives and states of the first turn.
    log.truncate(log.windows(2).enumerate().filter(|(_, two)| two == b"\n{").nth(6).unwrap().0 + 1);
    // Bytes of the text and of its ends, and what a stuck or flipped bit makes of them.
    let changes: [fn(u8) -> u8; 4] = [|byte| byte ^ 1, |byte| byte ^ 0x20, |_| 0, |_| b'\n'];
    let mut damaged = log.clone();
    for (at, byte) in log.iter().enumerate() {
        let change = changes[at % changes.len()];
        if change(*byte) == *byte {
            continue;
        }
        damaged[at] = change(*byte);
        scene.left(&damaged);
        let opened = scene.store().open(&scene.id);
        assert!(
            opened.is_err(),
            "byte {at} of {}: {:?} is now {:?}",
            log.len(),
            *byte as char,
            damaged[at] as char
        );
        assert_eq!(scene.log(), damaged, "byte {at}: the log was changed");
        damaged[at] = *byte;
    }
    for at in (0..log.len()).filter(|at| log[*at] == b'\n') {
        for byte in [0, b' ', b'x', b'\n' ^ 1] {
            damaged[at] = byte;
            scene.left(&damaged);
            // White space behind a record is not in it.
            let harmless = byte == b' ' && at + 1 == log.len();
            assert!(harmless || scene.store().open(&scene.id).is_err(), "line end at {at} is now {byte}");
        }
        damaged[at] = b'\n';
    }
}

#[test]
#[cfg(unix)]
fn a_log_that_was_deleted_while_it_is_written_stops_the_run() {
    let scene = Scene::new();
    let header = LogHeader::new("trip", "p", Instant(1));
    let mut log = scene.store().create(&scene.id, &header).unwrap();
    fs::remove_file(scene.store().path(&scene.id)).unwrap();
    let state = Record::State { seq: 1, hash: "beef".into() };
    let error = log.append(&[state]).unwrap_err();
    assert!(matches!(error, StoreError::Deleted { .. }), "{error}");
}

/// The file helps to resume under another policy; a run does not end because it cannot be written.
#[test]
fn a_run_goes_on_where_the_state_beside_its_log_cannot_be_written() {
    let scene = Scene::new();
    fs::create_dir_all(scene.dir.path().join("trip.state.next")).unwrap();
    let report = scene.begin(&agent(POLICY, &Runs::default()), "Charge it.");
    assert_eq!(report.outcome, Outcome::Answered { text: "Done.".into() });
    assert!(!scene.dir.path().join("trip.state").exists());
    assert_eq!(scene.resume(&agent(POLICY, &Runs::default())).past.messages.len(), report.messages.len());
}

/// Counts what is added, and how often a turn is said to have ended.
struct Counting {
    log: Box<dyn SessionLog>,
    counts: Arc<Mutex<(usize, u32)>>,
}

impl SessionLog for Counting {
    fn append(&mut self, lines: Vec<RecordLine>) -> StoreFuture<'_, ()> {
        self.counts.lock().unwrap().0 += lines.len();
        self.log.append(lines)
    }

    fn turn_ended(&mut self) -> StoreFuture<'_, ()> {
        self.counts.lock().unwrap().1 += 1;
        self.log.turn_ended()
    }

    fn place(&self) -> String {
        self.log.place()
    }
}

#[test]
fn a_log_is_told_of_the_end_of_each_turn_so_that_it_can_be_made_safe_then() {
    let (scene, agent) = (Scene::new(), agent(POLICY, &Runs::default()));
    let header = LogHeader::new("trip", agent.interpreter().unwrap().policy().digest(), Instant(1));
    let (log, counts) = (scene.store().create(&scene.id, &header).unwrap().into_inner(), Arc::default());
    let mut recorder = record(Box::new(Counting { log, counts: Arc::clone(&counts) }));
    let task = RunTask { run: "trip".into(), task: "Charge.".into(), ..RunTask::default() };
    let report =
        block_on(agent.run_with(task, &mut NoopObserver, Some(&mut recorder), StopSwitch::new())).unwrap();
    let (lines, turns) = *counts.lock().unwrap();
    // The beginning of the first turn is the end of what was before it.
    assert_eq!((report.state.turn, turns), (3, 4));
    assert_eq!(lines as u64, 3 * report.state.seq, "each event, what was decided about it, and the state");
}
