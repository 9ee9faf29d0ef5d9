//! Sessions decided again: the same by the same policy, byte for byte, and the first difference by another one.

use std::fs;
use std::path::Path;

use serde_json::json;
use tempfile::TempDir;
use unfazed::engine::{
    DirectiveKind, DriveMode, EffectState, Envelope, Event, Failure, Interpreter, LogHeader, Record,
    RunStarted, State, ToolCatalogue, ToolFacts, ToolOutcome, ToolSpec, Work,
};
use unfazed::host::Journal;
use unfazed::policy::{ErrorClass, Policy};
use unfazed::replay::{
    DecisionPart, DecisionParts, Replay, ReplayDifference, ReplayEnding, ReplayReport, replay,
};
use unfazed::session::ToolCall;
use unfazed::store::{FsyncMode, JsonlStore, Recorder, SessionId};
use unfazed::time::Instant;

use crate::waiting::{Waited, wait};

const POLICY: &str = "version: 1
tools:
  fetch: {effect: read_only, retry: {max_attempts: 3, retry_on: [timeout], backoff: {kind: constant, delay: 3s, jitter: none}}}
";

/// An embedder: it drives the interpreter itself, and records what it does.
struct Embedder {
    dir: TempDir,
    state: State,
    now: Instant,
}

impl Embedder {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), state: State::new(), now: Instant(0) }
    }

    fn id() -> SessionId {
        "embedded".parse().unwrap()
    }

    fn store(&self) -> Waited<Box<JsonlStore>> {
        Waited(Box::new(JsonlStore::new(self.dir.path(), FsyncMode::Never)))
    }

    fn log(&self) -> std::path::PathBuf {
        self.store().path(&Self::id())
    }

    /// Begins a session and calls the tool, which answers at the third attempt.
    fn record(&mut self, policy: &str) {
        let interpreter = interpreter(policy);
        let header = LogHeader::new("embedded", interpreter.policy().digest(), Instant(0));
        let mut recorder = self.store().create(&Self::id(), &header).unwrap().record();
        let tools = interpreter.tools().iter().map(ToolFacts::from).collect();
        let started =
            RunStarted { run: "embedded".into(), drive: DriveMode::Calls, tools, ..RunStarted::default() };
        self.tell(Event::RunStarted(started), &interpreter, &mut recorder);
        self.call(&interpreter, &mut recorder, r#"{"url": "x"}"#);
        self.call(&interpreter, &mut recorder, r#"{"uri": "x"}"#);
        wait(recorder.close());
    }

    fn call(&mut self, interpreter: &Interpreter, recorder: &mut Recorder, arguments: &str) {
        let id = format!("call-{}", self.state.seq);
        let call = ToolCall { id, name: "fetch".into(), arguments: arguments.into() };
        self.tell(Event::ToolsProposed { calls: vec![call.into()], turn: None }, interpreter, recorder);
    }

    fn tell(&mut self, event: Event, interpreter: &Interpreter, recorder: &mut Recorder) {
        let envelope = Envelope { seq: self.state.seq + 1, now: self.now, event };
        recorder.event(&envelope).unwrap();
        let directives = interpreter.step(&mut self.state, envelope);
        recorder.directives(interpreter.policy().digest(), &directives, &self.state).unwrap();
        for directive in directives.0 {
            match directive.order {
                DirectiveKind::Work(Work::RunTool(run)) if run.attempt < 3 => {
                    let failure = Failure::of(ErrorClass::Timeout, "no answer");
                    let failed = ToolOutcome::Failed { failure, effect: EffectState::Unknown };
                    self.tell(run.finished(failed), interpreter, recorder);
                }
                DirectiveKind::Work(Work::RunTool(run)) => {
                    let page = ToolOutcome::Ok { data: json!("<html>") };
                    self.tell(run.finished(page), interpreter, recorder);
                }
                DirectiveKind::Work(Work::Wait(wait)) => {
                    self.now = self.now.saturating_add(wait.delay);
                    self.tell(wait.fired(), interpreter, recorder);
                }
                DirectiveKind::Work(_) | DirectiveKind::Note(_) => {}
            }
        }
    }

    fn records(&self) -> Vec<Record> {
        self.store().read(&Self::id()).unwrap().map(Result::unwrap).collect()
    }

    fn by(&self, policy: &str, parts: &[DecisionPart]) -> ReplayReport {
        let policy = Policy::from_yaml("policy.yaml", policy).unwrap();
        replay(&policy, parts.iter().copied().collect(), self.store().read(&Self::id()).unwrap()).unwrap()
    }
}

fn interpreter(policy: &str) -> Interpreter {
    let fetch = ToolSpec {
        name: "fetch".into(),
        description: "Fetches a page.".into(),
        parameters: json!({ "type": "object", "properties": { "url": { "type": "string" } }, "required": ["url"] }),
        effect: None,
    };
    Interpreter::new(Policy::from_yaml("policy.yaml", policy).unwrap(), ToolCatalogue::new([fetch]).unwrap())
}

fn recorded() -> Embedder {
    let mut embedder = Embedder::new();
    embedder.record(POLICY);
    embedder
}

#[test]
fn the_policy_that_decided_decides_the_same_byte_for_byte() {
    let found = recorded().by(POLICY, &[]);
    assert_eq!((found.ending, found.same, found.left_out), (ReplayEnding::Same, found.events, 0));
    assert_eq!(found.recorded, found.replayed);
    assert_eq!((found.recorded.tool_runs, found.recorded.retries, found.recorded.waits), (3, 2, 2));
    assert_eq!(found.recorded.waiting.to_string(), "6s");
    assert!(found.unchecked.is_empty(), "the log knows the parameters of tools");
}

#[test]
fn a_policy_whose_file_is_named_otherwise_is_the_same() {
    let policy = Policy::from_yaml("/srv/policies/policy.yaml", POLICY).unwrap();
    let found =
        replay(&policy, DecisionParts::default(), recorded().store().read(&Embedder::id()).unwrap()).unwrap();
    assert_eq!(found.ending, ReplayEnding::Same);
    assert!(found.passed_over == unfazed::replay::PassedOver::default());
}

#[test]
fn another_policy_is_followed_to_its_first_other_decision() {
    let found = recorded().by(&POLICY.replace("max_attempts: 3", "max_attempts: 2"), &[]);
    assert!(!found.by_same());
    let divergence = found.divergence().unwrap();
    // The second attempt has failed.
    assert_eq!((divergence.seq, found.same), (5, 4));
    let ReplayDifference::Decision(side) = &divergence.difference else { panic!("{divergence:?}") };
    let because = &side.now.as_ref().unwrap().because;
    assert!(because.iter().all(|because| because.place.file == "policy.yaml"), "{because:?}");
    assert_eq!((found.recorded.waits, found.replayed.waits), (2, 1));
    assert!(found.left_out > 0);
}

#[test]
fn another_policy_may_give_other_reasons_and_bounds_for_the_same() {
    let found =
        recorded().by(&format!("# Notes.\n{}", POLICY.replace("max_attempts: 3", "max_attempts: 4")), &[]);
    assert_eq!((found.ending, found.same), (ReplayEnding::Same, found.events));
}

#[test]
fn what_is_not_compared_is_not_named_as_the_difference() {
    let policy = POLICY.replace("max_attempts: 3", "max_attempts: 4, attempt_timeout: 9s");
    let found = recorded().by(&policy, &[]);
    let ReplayDifference::Decision(side) = &found.divergence().unwrap().difference else {
        panic!("{found:?}")
    };
    let (field, _, now) = side.field().unwrap();
    assert_eq!((field.as_str(), now), ("/timeout", json!(9_000_000_000_u64)));
}

#[test]
fn other_waits_are_passed_over_by_those_who_say_so() {
    let (session, policy) = (recorded(), POLICY.replace("delay: 3s", "delay: 1s"));
    let divergence = session.by(&policy, &[]);
    assert_eq!(divergence.divergence().map(|divergence| divergence.seq), Some(3));
    let found = session.by(&policy, &[DecisionPart::Times]);
    assert_eq!(found.ending, ReplayEnding::Same);
    assert_eq!(
        (found.recorded.waiting.to_string(), found.replayed.waiting.to_string()),
        ("6s".into(), "2s".into())
    );
}

#[test]
fn other_words_are_passed_over_by_those_who_say_so() {
    let words = "    messages: {failed: 'Go without {{ tool }}.'}\n";
    let policy = POLICY.replace("  fetch: {", &format!("  '*':\n{words}  fetch: {{"));
    let session = recorded();
    let found = session.by(&policy, &[]);
    let ReplayDifference::Decision(side) = &found.divergence().unwrap().difference else {
        panic!("{found:?}")
    };
    let (field, then, now) = side.field().unwrap();
    assert_eq!(field, "/message/text");
    assert_ne!(then, now);
    assert_eq!(session.by(&policy, &[DecisionPart::Texts]).ending, ReplayEnding::Same);
}

/// What was written down is changed by hand, in the last line that has `from`.
fn changed(session: &Embedder, from: &str, to: &str) {
    let log = fs::read_to_string(session.log()).unwrap();
    let at = log.rfind(from).unwrap_or_else(|| panic!("{from} is not in {log}"));
    fs::write(session.log(), unsealed(&format!("{}{to}{}", &log[..at], &log[at + from.len()..]))).unwrap();
}

/// The log in version 1, which has no checksums: those of a changed line would not match.
fn unsealed(log: &str) -> String {
    let line = |line: &str| {
        let line = line.replacen("{\"v\":2,", "{\"v\":1,", 1);
        line.split(",\"checksum\":").next().unwrap().to_owned() + "}\n"
    };
    log.lines().map(line).collect()
}

#[test]
fn a_decision_that_the_same_policy_does_not_make_is_found() {
    let session = recorded();
    changed(&session, r#""delay":3000000000"#, r#""delay":3000000001"#);
    let found = session.by(POLICY, &[]);
    assert_eq!(found.divergence().unwrap().seq, 5);
    let ReplayDifference::Decision(side) = &found.divergence().unwrap().difference else {
        panic!("{found:?}")
    };
    assert_eq!(side.field(), Some(("/delay".into(), json!(3_000_000_001_u64), json!(3_000_000_000_u64))));
}

#[test]
fn other_reasons_of_the_same_policy_are_found() {
    let session = recorded();
    changed(&session, "attempt 2 failed", "attempt 9 failed");
    let found = session.by(POLICY, &[]);
    let ReplayDifference::Because(side) = &found.divergence().unwrap().difference else {
        panic!("{found:?}")
    };
    assert_eq!(side.field().unwrap().0, "/because/1/facts/0");
    let found = session.by(POLICY, &[DecisionPart::Because]);
    assert_eq!((&found.ending, found.passed_over.because), (&ReplayEnding::Same, 1));
}

#[test]
fn another_state_after_the_same_decisions_is_found() {
    let session = recorded();
    let digest = session.state.digest();
    changed(&session, &digest, "2:00000000000000000000000000000000");
    let found = session.by(POLICY, &[]);
    let divergence = found.divergence().unwrap();
    assert_eq!(divergence.seq, session.state.seq);
    let then = "2:00000000000000000000000000000000".to_owned();
    assert_eq!(divergence.difference, ReplayDifference::State { then, now: digest });
}

#[test]
fn a_policy_that_was_changed_meanwhile_is_told_with_the_event_it_came_with() {
    let (first, second) = (interpreter(POLICY), interpreter(&POLICY.replace("delay: 3s", "delay: 5s")));
    let mut session = recorded();
    let mut recorder = session.store().open(&Embedder::id()).unwrap().record();
    let changed = Event::PolicyChanged { policy: second.policy().digest().to_owned() };
    session.tell(changed, &second, &mut recorder);
    let at = session.state.seq;
    session.call(&second, &mut recorder, r#"{"url": "y"}"#);
    wait(recorder.close());
    let found = session.by(POLICY, &[]);
    let (first, second) = (first.policy().digest().to_owned(), second.policy().digest().to_owned());
    assert_eq!(found.by, [(first, 1), (second.clone(), at)]);
    // The one that decided first waits 3 seconds where the second one waited 5.
    let divergence = found.divergence().unwrap();
    assert_eq!((divergence.seq, &divergence.policy, found.same), (at + 2, &second, at + 1));
}

#[test]
fn with_all_its_policies_at_hand_a_session_whose_policy_was_changed_is_the_same_byte_for_byte() {
    let changed = POLICY.replace("delay: 3s", "delay: 5s");
    let second = interpreter(&changed);
    let mut session = recorded();
    let mut recorder = session.store().open(&Embedder::id()).unwrap().record();
    session.tell(
        Event::PolicyChanged { policy: second.policy().digest().to_owned() },
        &second,
        &mut recorder,
    );
    session.call(&second, &mut recorder, r#"{"url": "y"}"#);
    wait(recorder.close());
    let policy = |text: &str| Policy::from_yaml("policy.yaml", text).unwrap();
    let again = |now: &str, earlier: &[&str]| {
        let replay = Replay::new(policy(now)).earlier(earlier.iter().map(|text| policy(text)));
        replay.all(session.records().into_iter().map(Ok::<_, std::convert::Infallible>)).unwrap()
    };
    for (now, earlier) in [(&*changed, POLICY), (POLICY, &*changed)] {
        let found = again(now, &[earlier]);
        assert_eq!((&found.ending, found.same, found.by_same()), (&ReplayEnding::Same, found.events, true));
    }
    // Both were one file then, and are two now.
    let named = |name: &str, text: &str| Policy::from_yaml(name, text).unwrap();
    let replay = Replay::new(named("/srv/policy.yaml", &changed)).earlier([named("before.yaml", POLICY)]);
    let found = replay.all(session.records().into_iter().map(Ok::<_, std::convert::Infallible>)).unwrap();
    assert_eq!((&found.ending, found.same), (&ReplayEnding::Same, found.events));
    // Another policy than those decides about nothing: each event has its own.
    let other = POLICY.replace("delay: 3s", "delay: 9s");
    assert_eq!(again(&other, &[POLICY, &changed]).ending, ReplayEnding::Same);
    assert!(again(&other, &[POLICY]).divergence().is_some());
}

#[test]
fn a_policy_that_came_with_other_tools_need_not_go_with_those_before() {
    let text = format!("{POLICY}output: {{tool: fetch, schema: {{type: object}}}}\n");
    let policy = Policy::from_yaml("policy.yaml", &text).unwrap();
    let get = ToolSpec {
        name: "get".into(),
        description: "Gets a page.".into(),
        parameters: json!({ "type": "object" }),
        effect: None,
    };
    let second = Interpreter::new(policy.clone(), ToolCatalogue::new([get]).unwrap());
    let mut session = recorded();
    let mut recorder = session.store().open(&Embedder::id()).unwrap().record();
    // As a host tells it that continues with the session.
    let changed = Event::PolicyChanged { policy: policy.digest().to_owned() };
    session.tell(changed, &second, &mut recorder);
    let at = session.state.seq;
    let tools = second.tools().iter().map(ToolFacts::from).collect();
    session.tell(Event::ToolsChanged { tools }, &second, &mut recorder);
    wait(recorder.close());
    let before = Policy::from_yaml("before.yaml", POLICY).unwrap();
    let again =
        |replay: Replay| replay.all(session.records().into_iter().map(Ok::<_, std::convert::Infallible>));
    let found = again(Replay::new(policy.clone()).earlier([before.clone()])).unwrap();
    assert_eq!((&found.ending, found.same, found.by_same()), (&ReplayEnding::Same, found.events, true));
    // One that did not decide then still has to go with them.
    let other = Policy::from_yaml("other.yaml", &format!("{text}turn: {{max_turns: 7}}\n")).unwrap();
    let error = again(Replay::new(other).earlier([before])).unwrap_err().to_string();
    assert!(error.contains(&format!("the tools of event {at}: a tool is named `fetch`")), "{error}");
}

#[test]
fn an_event_without_a_decision_is_told() {
    let session = recorded();
    let mut records = session.records();
    // The decision without the state it led to was never begun.
    records.pop();
    let mut replay = Replay::new(Policy::from_yaml("policy.yaml", POLICY).unwrap());
    for record in records {
        replay.take(record).unwrap();
    }
    let found = replay.end();
    assert_eq!(
        (found.ending, found.undecided, found.same),
        (ReplayEnding::Same, Some(session.state.seq), found.events - 1)
    );
}

#[test]
fn tools_whose_parameters_were_not_written_down_are_named() {
    let session = recorded();
    let log = fs::read_to_string(session.log()).unwrap();
    let from = log.find(r#","parameters":"#).unwrap();
    let to = from + log[from..].find("}]").unwrap();
    fs::write(session.log(), unsealed(&format!("{}{}", &log[..from], &log[to..]))).unwrap();
    let found = session.by(POLICY, &[]);
    assert_eq!(found.unchecked.iter().collect::<Vec<_>>(), ["fetch"]);
    // The wrong arguments are taken as they are now.
    assert!(found.divergence().is_some());
}

#[test]
fn a_name_of_the_report_that_a_tool_has_is_an_error() {
    let policy = format!("{POLICY}output: {{tool: fetch, schema: {{type: object}}}}\n");
    let policy = Policy::from_yaml("policy.yaml", &policy).unwrap();
    let error = replay(&policy, DecisionParts::default(), recorded().store().read(&Embedder::id()).unwrap())
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "the policy does not go with the tools of event 1: a tool is named `fetch`, by which the policy takes the final \
         report; give one of them another name"
    );
}

#[cfg(unix)]
mod commands {
    use std::process::Output;

    use crate::{command, desk};

    use super::*;

    const POLICY: &str = "version: 1
tools:
  '*': {retry: {max_attempts: 3, retry_on: {add: [execution_error]}, backoff: {kind: constant, delay: 10ms, jitter: none}}}
";

    struct Scene(TempDir);

    impl Scene {
        /// An agent whose tool fails twice.
        fn new() -> Self {
            let scene = Self(desk::folder(POLICY));
            let look = "if test -e seen; then echo 12.50; else test -e once && touch seen; touch once; echo connection refused >&2; exit 1; fi\n";
            scene.write("look.sh", look);
            scene
        }

        fn write(&self, name: &str, text: &str) {
            fs::write(self.0.path().join(name), text).unwrap();
        }

        fn unfazed_in(folder: &Path, args: &[&str]) -> Output {
            command::unfazed(folder, args).output().unwrap()
        }

        fn unfazed(&self, args: &[&str]) -> Output {
            Self::unfazed_in(self.0.path(), args)
        }

        fn store(&self) -> Waited<Box<JsonlStore>> {
            Waited(Box::new(JsonlStore::new(self.0.path().join(".unfazed/sessions"), FsyncMode::Never)))
        }

        fn run(&self, args: &[&str]) -> SessionId {
            let output = self.unfazed(&[&["run", "agent.yaml"], args].concat());
            assert_eq!(output.status.code(), Some(0), "{}", err(&output));
            self.store().list().unwrap().sessions[0].id.clone()
        }

        fn replay(&self, args: &[&str]) -> (Option<i32>, String) {
            let output = self.unfazed(&[&["replay"], args].concat());
            (output.status.code(), out(&output) + &err(&output))
        }
    }

    fn out(output: &Output) -> String {
        String::from_utf8(output.stdout.clone()).unwrap()
    }

    fn err(output: &Output) -> String {
        String::from_utf8(output.stderr.clone()).unwrap()
    }

    /// What is not the same from run to run.
    fn settled(text: &str, ids: &[&SessionId]) -> String {
        let mut text = text.to_owned();
        for (number, id) in ids.iter().enumerate() {
            text = text.replace(id.as_str(), &format!("{:<36}", format!("session-{number}")));
        }
        let words = text.split_inclusive([' ', '\n', '(', ')', ',', ';']);
        let settled = |word: &str| {
            let (word, end) = word.split_at(word.len() - word.chars().last().map_or(0, char::len_utf8));
            let digest = word.len() == 12 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
            let time = word.len() > 19 && word.ends_with('Z') && word.as_bytes()[10] == b'T';
            let word = if digest {
                "[digest]"
            } else if time {
                "[time]"
            } else {
                word
            };
            format!("{word}{end}")
        };
        words.map(settled).collect()
    }

    #[test]
    fn a_run_is_decided_again_by_the_policy_of_its_agent_from_any_folder() {
        let scene = Scene::new();
        let id = scene.run(&[]);
        let (code, text) = scene.replay(&["latest", "--exit-code"]);
        assert_eq!(code, Some(0), "{text}");
        insta::assert_snapshot!("replay_of_the_same_policy", settled(&text, &[&id]));
        let elsewhere = tempfile::tempdir().unwrap();
        let log = scene.store().path(&id);
        let output = Scene::unfazed_in(elsewhere.path(), &["replay", log.to_str().unwrap(), "--exit-code"]);
        assert_eq!((output.status.code(), out(&output)), (Some(0), text), "{}", err(&output));
    }

    #[test]
    fn a_correction_that_waits_for_a_running_call_is_decided_again_from_any_folder() {
        let scene = Scene::new();
        let add = "{kind: process, command: [cat], description: Adds., effect: read_only, \
                   parameters: {type: object, properties: {a: {type: integer}}, required: [a]}}";
        scene.write("agent.yaml", &format!("{}  add: {add}\n", desk::AGENT));
        let script = "version: 1
model: m
replies:
  - {match: {turn: 1}, calls: [{name: add, arguments: {a: x}, id: a}, {name: look, arguments: {}, id: b}]}
  - {match: {turn: 2}, text: The lamp costs 12.50.}
";
        scene.write("model.yaml", script);
        let id = scene.run(&[]);
        let (code, text) = scene.replay(&["latest", "--exit-code"]);
        assert_eq!(code, Some(0), "{text}");
        assert!(text.contains("byte for byte"), "{text}");
        let elsewhere = tempfile::tempdir().unwrap();
        let log = scene.store().path(&id);
        let output = Scene::unfazed_in(elsewhere.path(), &["replay", log.to_str().unwrap(), "--exit-code"]);
        assert_eq!((output.status.code(), out(&output)), (Some(0), text), "{}", err(&output));
        let log = fs::read_to_string(log).unwrap();
        assert!(log.contains(r#""directive":"wait""#), "the correction had to wait: {log}");
    }

    #[test]
    fn a_session_of_several_runs_is_decided_again() {
        let scene = Scene::new();
        let id = scene.run(&[]);
        let output = scene.unfazed(&["run", "--resume", id.as_str(), "And the chair?"]);
        assert_eq!(output.status.code(), Some(0), "{}", err(&output));
        let (code, text) = scene.replay(&["latest", "--exit-code"]);
        assert_eq!(code, Some(0), "{text}");
        assert!(text.contains("byte for byte"), "{text}");
    }

    #[test]
    fn the_first_other_decision_of_another_policy_is_shown_with_its_reasons() {
        let scene = Scene::new();
        let id = scene.run(&[]);
        scene.write("new.yaml", &POLICY.replace("max_attempts: 3", "max_attempts: 2"));
        let (code, text) = scene.replay(&["latest", "--policy", "new.yaml"]);
        assert_eq!(code, Some(0), "{text}");
        insta::assert_snapshot!("replay_of_another_policy", settled(&text, &[&id]));
        assert_eq!(scene.replay(&["latest", "--policy", "new.yaml", "--exit-code"]).0, Some(1));
    }

    #[test]
    fn an_earlier_policy_that_decided_nothing_is_named() {
        let scene = Scene::new();
        let id = scene.run(&[]);
        scene.write("before.yaml", POLICY);
        scene.write("other.yaml", "version: 1\nturn: {max_turns: 7}\n");
        scene.write("policy.yaml", &format!("{POLICY}turn: {{max_turns: 9}}\n"));
        let output = scene.unfazed(&["run", "--resume", id.as_str(), "And the chair?"]);
        assert_eq!(output.status.code(), Some(0), "{}", err(&output));
        let (code, text) = scene.replay(&["latest", "--earlier", "before.yaml", "--earlier", "other.yaml"]);
        assert_eq!(code, Some(0), "{text}");
        assert!(text.contains("decided first, and does so again"), "{text}");
        assert!(text.contains("note      other.yaml decided nothing in this session"), "{text}");
        assert!(!text.contains("before.yaml decided nothing"), "{text}");
    }

    #[test]
    fn a_policy_that_takes_the_report_by_the_name_of_a_former_tool_decides_again() {
        let scene = Scene::new();
        scene.write("agent.yaml", &desk::AGENT.replace("  look:", "  final_report:"));
        let script = "version: 1
model: m
replies:
  - {match: {turn: 1}, calls: [{name: final_report, arguments: {}, id: a}]}
  - {match: {turn: 2}, text: The lamp costs 12.50.}
  - {match: {turn: 3}, calls: [{name: final_report, arguments: {price: 40}, id: b}]}
";
        scene.write("model.yaml", script);
        let id = scene.run(&[]);
        scene.write("agent.yaml", desk::AGENT);
        scene.write("before.yaml", POLICY);
        let schema = "{type: object, properties: {price: {type: number}}, required: [price]}";
        let changed = format!("{POLICY}output: {{tool: final_report, schema: {schema}}}\n");
        scene.write("policy.yaml", &changed);
        let output = scene.unfazed(&["run", "--resume", id.as_str(), "And the chair?"]);
        assert_eq!(output.status.code(), Some(0), "{}", err(&output));
        let (code, text) = scene.replay(&["latest", "--earlier", "before.yaml", "--exit-code"]);
        assert_eq!(code, Some(0), "{text}");
        assert!(text.contains("byte for byte"), "{text}");
    }

    #[test]
    fn after_the_first_difference_no_policy_decides_again() {
        let scene = Scene::new();
        let id = scene.run(&[]);
        let changed = format!("{POLICY}turn: {{max_turns: 9}}\n");
        scene.write("policy.yaml", &changed);
        let output = scene.unfazed(&["run", "--resume", id.as_str(), "And the chair?"]);
        assert_eq!(output.status.code(), Some(0), "{}", err(&output));
        scene.write("new.yaml", &POLICY.replace("max_attempts: 3", "max_attempts: 2"));
        let args = ["latest", "--policy", "new.yaml", "--earlier", "policy.yaml"];
        let (_, text) = scene.replay(&args);
        assert!(text.contains("diverges") && !text.contains("does so again"), "{text}");
        let (_, text) = scene.replay(&[&args[..], &["--format", "json"]].concat());
        let told: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(told["sessions"][0]["decided_by"][1]["again"], false, "{text}");
    }

    #[test]
    fn many_sessions_are_a_table() {
        let scene = Scene::new();
        let first = scene.run(&[]);
        let second = scene.run(&[]);
        scene.write("new.yaml", &POLICY.replace("max_attempts: 3", "max_attempts: 2"));
        fs::write(scene.store().path(&"zzz".parse().unwrap()), "nothing\n").unwrap();
        let (code, text) = scene.replay(&["--all", "--policy", "new.yaml"]);
        assert_eq!(code, Some(1), "one cannot be read: {text}");
        insta::assert_snapshot!(
            "replay_of_many",
            settled(&text, &[&second, &first]).replace(scene.0.path().to_str().unwrap(), ".")
        );
        let (code, text) = scene.replay(&["--agent", "nobody"]);
        assert_eq!((code, text.as_str()), (Some(3), "no such sessions\n"));
        let (code, text) = scene.replay(&["--since", "1h", "--policy", "policy.yaml", "--exit-code"]);
        assert_eq!(code, Some(0), "{text}");
        assert!(text.contains("2 sessions: 2 the same, 0 otherwise"), "{text}");
    }

    #[test]
    fn what_came_of_it_has_these_fields_as_json() {
        let scene = Scene::new();
        scene.run(&[]);
        scene.write("new.yaml", &POLICY.replace("10ms", "20ms"));
        let (_, text) = scene.replay(&["latest", "--policy", "new.yaml", "--format", "json"]);
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        let keys = |json: &serde_json::Value| {
            json.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(keys(&json), "v sessions unusable");
        let session = &json["sessions"][0];
        assert_eq!(
            keys(session),
            "id title policy decided_by same_policy result events same left_out undecided passed_over divergence then now \
             unchecked_tools"
        );
        assert_eq!((&session["result"], &session["same_policy"]), (&json!("diverges"), &json!(false)));
        assert_eq!(keys(&session["divergence"]), "seq at event decided_by difference");
        let difference = &session["divergence"]["difference"];
        assert_eq!(keys(difference), "what index field then now");
        assert_eq!(keys(&session["then"]), "model_calls tool_runs retries waits waiting questions");
        let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/replay.md")).unwrap();
        for key in [keys(session), keys(&session["divergence"]), keys(difference), keys(&session["then"])] {
            for key in key.split(' ') {
                assert!(page.contains(&format!("`{key}`")), "docs/replay.md does not describe {key}");
            }
        }
    }

    #[test]
    fn a_damaged_log_is_told_with_its_line() {
        let scene = Scene::new();
        let id = scene.run(&[]);
        let path = scene.store().path(&id);
        let log = fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = log.lines().collect();
        fs::write(&path, [&lines[..3], &["{}"], &lines[3..]].concat().join("\n") + "\n").unwrap();
        let (code, text) = scene.replay(&["latest"]);
        assert_eq!(code, Some(1));
        assert!(text.contains("is damaged at line 4"), "{text}");
        assert_eq!(text.matches(id.as_str()).count(), 1, "it is named once: {text}");
    }

    #[test]
    fn a_run_that_was_broken_off_is_decided_as_far_as_it_came() {
        let scene = Scene::new();
        let id = scene.run(&[]);
        let path = scene.store().path(&id);
        let log = fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = log.lines().collect();
        // Up to an event, which is the second record of four.
        fs::write(&path, lines[..8].join("\n") + "\n").unwrap();
        let (code, text) = scene.replay(&["latest", "--exit-code"]);
        assert_eq!(code, Some(0), "{text}");
        assert!(text.contains("broken    nothing was decided about event 3"), "{text}");
    }

    #[test]
    fn a_session_that_names_no_agent_takes_a_policy() {
        let session = recorded();
        let scene = Scene::new();
        let folder = session.dir.path().to_str().unwrap();
        let (code, text) = scene.replay(&["embedded", "--dir", folder]);
        assert_eq!(code, Some(2), "{text}");
        assert!(text.contains("name its policy: --policy FILE"), "{text}");
        scene.write("embedder.yaml", super::POLICY);
        let (code, text) =
            scene.replay(&["embedded", "--dir", folder, "--policy", "embedder.yaml", "--exit-code"]);
        assert_eq!(code, Some(0), "{text}");
        assert!(text.contains("byte for byte"), "{text}");
        let (code, text) = scene.replay(&[folder, "--policy", "embedder.yaml"]);
        assert_eq!(code, Some(0), "{text}");
        assert!(text.contains("1 session: 1 the same"), "{text}");
    }

    #[test]
    fn an_agent_file_that_is_gone_is_named() {
        let scene = Scene::new();
        scene.run(&[]);
        fs::remove_file(scene.0.path().join("agent.yaml")).unwrap();
        let (code, text) = scene.replay(&["latest"]);
        assert_eq!(code, Some(2));
        assert!(text.contains("is gone:") && text.contains("--policy FILE"), "{text}");
    }

    #[test]
    fn parts_that_there_are_not_are_refused() {
        let (code, text) = Scene::new().replay(&["latest", "--ignore", "text"]);
        assert_eq!(code, Some(2));
        assert!(text.contains("write one of `because`, `bounds`, `texts`, `times`"), "{text}");
    }
}
