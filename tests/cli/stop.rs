//! A run that is stopped at any moment leaves no process behind, and a session that tells what became of every call.

use std::collections::BTreeMap;
use std::fs;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio::runtime::Runtime;
use unfazed::context;
use unfazed::engine::{DirectiveKind, Event, Outcome, Record, State, Work};
use unfazed::host::scripted::{Script, ScriptEntry, ScriptedModel};
use unfazed::host::{Agent, NoopObserver, RunTask, SessionCheckpoint, StopSwitch};
use unfazed::policy::Policy;
use unfazed::session::Message;
use unfazed::store::read_log;

use crate::command;

/// Tools that fork, ignore requests to end, continue in the background, or are done at once; none of the first three ends.
const AGENT: &str = r#"version: 1
task: t
policy: policy.yaml
stop: {drain: 3s}
models:
  m: {api: scripted, script: model.yaml}
tools:
  fork:
    kind: process
    command: [sh, -c, "trap '' TERM INT HUP; (trap '' TERM INT HUP; while :; do sleep 0.2; done) & echo begun; while :; do sleep 0.2; done"]
    description: d
    parameters: {type: object}
    env: {STOP_TEST_MARK: "MARK"}
    grace: 60ms
  back:
    kind: process
    command: [sh, -c, "trap '' TERM; (exec sleep 300) & sleep 300"]
    description: d
    parameters: {type: object}
    env: {STOP_TEST_MARK: "MARK"}
    timeout: 10ms
    on_timeout: background
    grace: 60ms
  quick:
    kind: process
    command: [sh, -c, "sleep 0.01; echo done"]
    description: d
    parameters: {type: object}
    env: {STOP_TEST_MARK: "MARK"}
    effect: read_only
"#;
const SCRIPT: &str = "version: 1
replies:
  - calls: [{name: quick, arguments: {}}, {name: back, arguments: {}}]
  - calls: [{name: quick, arguments: {}}, {name: quick, arguments: {}}]
  - calls: [{name: fork, arguments: {}}, {name: quick, arguments: {}}, {name: fork, arguments: {}}]
";
const END: &str = "version: 1\n";
const LAST_TURN: &str = "version: 1\nturn: {on_stop: final_turn}\n";

/// A run in flight.
struct Live {
    dir: TempDir,
    mark: String,
    run: Child,
}

impl Live {
    fn start(mark: &str, policy: &'static str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mark = format!("{mark}-{}", std::process::id());
        for (name, text) in [
            ("agent.yaml", AGENT.replace("MARK\"", &format!("{mark}\""))),
            ("model.yaml", SCRIPT.to_owned()),
            ("policy.yaml", policy.to_owned()),
        ] {
            fs::write(dir.path().join(name), text).unwrap();
        }
        let said = fs::File::create(dir.path().join("said")).unwrap();
        let mut run = command::unfazed(dir.path(), &["run", "agent.yaml"]);
        let run = run.stdout(Stdio::null()).stderr(said).spawn().unwrap();
        Self { dir, mark, run }
    }

    fn session(&self) -> Option<PathBuf> {
        session_of(self.dir.path())
    }

    fn log(&self) -> String {
        self.session().and_then(|path| fs::read_to_string(path).ok()).unwrap_or_default()
    }

    /// The run stands still when the tools that never end are in flight; this many lines are written before.
    fn wait_for_lines(&mut self, lines: usize) {
        let until = Instant::now() + Duration::from_secs(60);
        while self.log().lines().count() < lines {
            assert!(self.run.try_wait().unwrap().is_none(), "it ended by itself: {}", self.said());
            assert!(Instant::now() < until, "there are never {lines} lines:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([&format!("-{name}"), &self.run.id().to_string()]).status();
        assert!(sent.unwrap().success());
    }

    fn said(&self) -> String {
        fs::read_to_string(self.dir.path().join("said")).unwrap_or_default()
    }

    /// Waits for the end and looks at everything that is left.
    fn ended(mut self) {
        let until = Instant::now() + Duration::from_secs(60);
        let status = loop {
            if let Some(status) = self.run.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < until, "it does not end");
            std::thread::sleep(Duration::from_millis(2));
        };
        assert_eq!(status.code(), Some(130), "{}", self.said());
        assert!(self.said().lines().any(|line| line == "Cancelled"), "{}", self.said());
        assert_no_survivors(&self.mark);
        self.session_is_sound();
    }

    /// Nobody is asked: the run is gone in the middle of whatever it does, and what it had going is not ended.
    fn killed(mut self) {
        self.run.kill().unwrap();
        self.run.wait().unwrap();
        for stat in marked(&self.mark) {
            let pid = stat.split(' ').next().unwrap().to_owned();
            drop(Command::new("kill").args(["-KILL", &pid]).stderr(Stdio::null()).status());
        }
        let records = self.records();
        let mut conversation = Vec::new();
        for record in &records {
            let Record::Directives { list, .. } = record else { continue };
            for directive in &list.0 {
                if let DirectiveKind::Note(note) = &directive.order {
                    note.apply(&mut conversation);
                }
            }
        }
        goes_on(conversation, self.decided_again(&records));
    }

    /// What can be read of the session: a last line that was cut off is left out.
    fn records(&self) -> Vec<Record> {
        let file = fs::File::open(self.session().unwrap()).unwrap();
        read_log(BufReader::new(file)).map(|record| record.unwrap()).collect()
    }

    fn session_is_sound(&self) {
        let records = self.records();
        let (mut asked, mut answered, mut conversation) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        for record in &records {
            match record {
                Record::Event(envelope) => {
                    if let Event::ToolFinished { work, .. } = &envelope.event {
                        *answered.entry(*work).or_insert(0) += 1;
                    }
                }
                Record::Directives { list, .. } => {
                    for directive in &list.0 {
                        match &directive.order {
                            DirectiveKind::Work(work @ Work::RunTool(_)) => drop(asked.insert(work.id(), 1)),
                            DirectiveKind::Note(note) => note.apply(&mut conversation),
                            DirectiveKind::Work(_) => {}
                        }
                    }
                }
                Record::Session(_) | Record::State { .. } => {}
            }
        }
        assert_eq!(asked, answered, "every call that was started has one outcome");
        let state = self.decided_again(&records);
        // Asked in time, the model has a final turn, in which these give no report.
        assert!(matches!(state.outcome, Some(Outcome::Stopped { .. } | Outcome::Failed { .. })));
        assert_eq!(context::findings(&conversation), []);
        goes_on(conversation, state);
    }

    /// The state at the end, made of the session alone.
    fn decided_again(&self, records: &[Record]) -> State {
        let path = self.dir.path().join("agent.yaml");
        let started = Runtime::new().unwrap().block_on(Agent::from_file(path)).unwrap();
        let interpreter = started.agent.interpreter().unwrap();
        let mut state = State::new();
        for record in records {
            match record {
                Record::Event(envelope) => drop(interpreter.step(&mut state, envelope.clone())),
                Record::State { seq, hash } => {
                    assert_eq!((state.seq, &state.digest()), (*seq, hash));
                }
                Record::Session(_) | Record::Directives { .. } => {}
            }
        }
        state
    }
}

/// Another run continues with the conversation and with the state, and what it sends is what providers take.
fn goes_on(conversation: Vec<Message>, state: State) {
    let model = ScriptedModel::new(Script::new("script", [ScriptEntry::text("done")]));
    let agent = Agent::new(Policy::from_yaml("policy.yaml", END).unwrap()).model("m", model);
    let past = SessionCheckpoint { state, messages: conversation, ..SessionCheckpoint::default() };
    let task = RunTask { run: "next".into(), task: "continue".into(), ..RunTask::default() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let report = runtime
        .block_on(agent.go_on(Some(past), Some(task), &mut NoopObserver, None, StopSwitch::new()))
        .unwrap();
    assert_eq!(report.outcome, Outcome::Answered { text: "done".into() });
    assert_eq!(context::findings(&report.messages), []);
}

/// The processes that carry the mark and are not dead.
fn marked(mark: &str) -> Vec<String> {
    let mut found = Vec::new();
    for process in fs::read_dir("/proc").unwrap().flatten() {
        let read = |name: &str| fs::read(process.path().join(name)).unwrap_or_default();
        let wanted = format!("STOP_TEST_MARK={mark}");
        if !read("environ").split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes()) {
            continue;
        }
        let stat = String::from_utf8_lossy(&read("stat")).into_owned();
        if !stat.is_empty() && !stat.contains(") Z ") {
            found.push(stat);
        }
    }
    found
}

fn assert_no_survivors(mark: &str) {
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        let left = marked(mark);
        if left.is_empty() {
            return;
        }
        assert!(Instant::now() < until, "these survive: {left:#?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A stream of numbers that is the same every time.
struct Moments(u64);

impl Moments {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(most).unwrap()).unwrap()
    }
}

/// How many lines are in the session when nothing more happens by itself.
fn lines_of_a_whole_run() -> usize {
    let mut live = Live::start("whole", END);
    let until = Instant::now() + Duration::from_secs(60);
    while live.log().matches(r#""event":"tool_finished""#).count() < 5 {
        assert!(Instant::now() < until, "the tools do not end:\n{}", live.log());
        live.wait_for_lines(1);
    }
    let lines = live.log().lines().count();
    live.signal("TERM");
    live.ended();
    lines
}

fn stop_at_random_moments(seed: u64, runs: usize) {
    let lines = lines_of_a_whole_run();
    let mut moments = Moments(seed);
    for run in 0..runs {
        let policy = if moments.below(2) == 0 { END } else { LAST_TURN };
        let signals = ["INT", "TERM", "HUP"];
        let (first, second) = (signals[moments.below(3)], signals[moments.below(3)]);
        // A final turn waits for the tools, and these never end.
        let twice = policy == LAST_TURN || moments.below(3) == 0;
        let mut live = Live::start(&format!("{seed}-{run}"), policy);
        let at = 1 + moments.below(lines - 1);
        eprintln!("run {run}: {first} after {at} of {lines} lines, twice: {twice} ({second})");
        live.wait_for_lines(at);
        std::thread::sleep(Duration::from_micros(u64::try_from(moments.below(20_000)).unwrap()));
        live.signal(first);
        if twice {
            let until = Instant::now() + Duration::from_secs(60);
            while !live.log().contains("stop_requested") && live.run.try_wait().unwrap().is_none() {
                assert!(Instant::now() < until, "the first signal is not taken");
                std::thread::sleep(Duration::from_millis(1));
            }
            if live.run.try_wait().unwrap().is_none() {
                live.signal(second);
            }
        }
        live.ended();
    }
}

#[test]
fn a_run_stopped_at_any_moment_leaves_nothing_running_and_a_sound_session() {
    stop_at_random_moments(0x5eed_0001, 20);
}

#[test]
fn so_does_one_that_is_stopped_at_any_other_moment() {
    stop_at_random_moments(0x5eed_0002, 20);
}

#[test]
fn a_session_whose_run_was_killed_at_any_moment_can_be_gone_on_with() {
    let lines = lines_of_a_whole_run();
    let mut moments = Moments(0x5eed_0003);
    for run in 0..15 {
        let mut live = Live::start(&format!("killed-{run}"), END);
        let at = 1 + moments.below(lines - 1);
        eprintln!("run {run}: killed after {at} of {lines} lines");
        live.wait_for_lines(at);
        std::thread::sleep(Duration::from_micros(u64::try_from(moments.below(5_000)).unwrap()));
        live.killed();
    }
}

#[test]
fn a_tool_that_prints_a_hundred_megabytes_costs_memory_of_the_cap_only() {
    let most = |script: &str| {
        let dir = tempfile::tempdir().unwrap();
        let agent = format!(
            "version: 1\ntask: t\nmodels: {{m: {{api: scripted, script: model.yaml}}}}\ntools:\n  print:\n    kind: process\n    command: [sh, -c, \"{script}\"]\n    description: d\n    parameters: {{type: object}}\n    max_output: 1048576\n  wait:\n    kind: process\n    command: [sh, -c, 'cat /proc/$PPID/status > status']\n    description: d\n    parameters: {{type: object}}\n"
        );
        let replies = "version: 1\nreplies:\n  - calls: [{name: print, arguments: {}}]\n  - calls: [{name: wait, arguments: {}}]\n  - text: done\n";
        fs::write(dir.path().join("agent.yaml"), agent).unwrap();
        fs::write(dir.path().join("model.yaml"), replies).unwrap();
        let mut run = command::unfazed(dir.path(), &["run", "agent.yaml"]);
        assert!(run.output().unwrap().status.success());
        peak(&dir.path().join("status"))
    };
    let small = most("head -c 1048576 /dev/zero | tr '\\\\0' x");
    let large = most("head -c 104857600 /dev/zero | tr '\\\\0' x");
    eprintln!("peak memory: {small} KiB for 1 MiB of output, {large} KiB for 100 MiB");
    assert!(large < small + 8 * 1024, "{small} KiB for 1 MiB of output, {large} KiB for 100 MiB");
}

/// The log of the one session of a folder.
fn session_of(folder: &Path) -> Option<PathBuf> {
    let mut files = fs::read_dir(folder.join(".unfazed/sessions")).ok()?;
    files.find_map(|file| {
        Some(file.ok()?.path()).filter(|path| path.extension().is_some_and(|e| e == "jsonl"))
    })
}

/// The most memory a process ever had, in KiB.
fn peak(status: &Path) -> u64 {
    let status = fs::read_to_string(status).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn a_schema_that_leads_back_to_itself_cannot_be_made_to_take_the_memory_of_the_host() {
    // The usual schema of a filter that may be negated; the validator's own report of it doubles with each level.
    let branch = |leaf: &str| {
        format!(
            "{{type: object, additionalProperties: false, properties: {{not: {{$ref: '#/$defs/n'}}, {leaf}: {{type: string}}}}}}"
        )
    };
    let filter = format!(
        "{{type: object, properties: {{filter: {{$ref: '#/$defs/n'}}}}, $defs: {{n: {{anyOf: [{}, {}]}}}}}}",
        branch("field"),
        branch("value")
    );
    let agent = format!(
        "version: 1\ntask: t\nmodels: {{m: {{api: scripted, script: model.yaml}}}}\ntools:\n  query:\n    kind: process\n    command: [echo, found]\n    description: d\n    parameters: {filter}\n  wait:\n    kind: process\n    command: [sh, -c, 'cat /proc/$PPID/status > status']\n    description: d\n    parameters: {{type: object}}\n"
    );
    let bomb = format!("{{filter: {}{{field: 1}}{}}}", "{not: ".repeat(40), "}".repeat(40));
    let replies = format!(
        "version: 1\nreplies:\n  - calls: [{{name: query, arguments: {bomb}}}]\n  - calls: [{{name: wait, arguments: {{}}}}]\n  - text: done\n"
    );
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("agent.yaml"), agent).unwrap();
    fs::write(dir.path().join("model.yaml"), replies).unwrap();
    let begun = Instant::now();
    let first = command::unfazed(dir.path(), &["run", "agent.yaml"]).output().unwrap();
    assert!(first.status.success(), "{}", String::from_utf8_lossy(&first.stderr));
    let memory = peak(&dir.path().join("status"));
    assert!(memory < 150 * 1024, "{memory} KiB");
    let log = session_of(dir.path()).unwrap();
    let lines = fs::read_to_string(&log).unwrap();
    assert!(lines.contains("fits none of the 2 forms allowed"), "{lines}");
    // Broken off when the event was written and nothing was decided: going on decides it again.
    let bombed = lines.lines().position(|line| line.contains("\"model_responded\"")).unwrap();
    let kept: String = lines.lines().take(bombed + 1).map(|line| line.to_owned() + "\n").collect();
    fs::write(&log, kept).unwrap();
    let state = log.with_extension("state");
    if state.exists() {
        fs::remove_file(state).unwrap();
    }
    fs::remove_file(dir.path().join("status")).unwrap();
    let resumed = command::unfazed(dir.path(), &["run", "--resume", "latest", "--agent", "agent.yaml"])
        .output()
        .unwrap();
    assert!(resumed.status.success(), "{}", String::from_utf8_lossy(&resumed.stderr));
    assert!(peak(&dir.path().join("status")) < 150 * 1024);
    assert!(fs::read_to_string(&log).unwrap().contains("fits none of the 2 forms allowed"));
    assert!(begun.elapsed() < Duration::from_secs(120), "{:?}", begun.elapsed());
}
