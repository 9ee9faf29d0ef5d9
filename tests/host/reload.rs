//! Policies that are replaced while an agent runs or a guard is in use.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use unfazed::engine::{Directives, Envelope, Event, Outcome, State, ToolSpec};
use unfazed::host::guard::{CallError, ToolGuard};
use unfazed::host::scripted::{Script, ScriptEntry, ScriptedModel};
use unfazed::host::{
    Agent, FunctionTool, Guard, Journal, JournalError, LivePolicy, Observer, PolicyFilesError, PolicyWatch,
    RunTask, ToolError, Tools,
};
use unfazed::policy::{CallOverride, ErrorClass, Loader, Policy};

fn policy(text: &str) -> Policy {
    Policy::from_yaml("policy.yaml", text).unwrap_or_else(|report| panic!("{report}"))
}

fn task() -> RunTask {
    RunTask { run: "run-1".into(), task: "try it".into(), ..RunTask::default() }
}

/// A tool that fails each time, after it has done what is given.
fn failing(then: impl Fn() + Send + Sync + 'static) -> Tools {
    let parameters = json!({"type": "object"});
    let spec = ToolSpec { name: "fetch".into(), description: String::new(), parameters, effect: None };
    let then = Arc::new(then);
    let tool = FunctionTool::new(spec, move |_: Value, _| {
        let then = Arc::clone(&then);
        async move {
            then();
            Err::<Value, _>(ToolError::failed("it is down"))
        }
    });
    Tools::new().with(tool)
}

fn model(calls: usize) -> ScriptedModel {
    let calls = (0..calls).map(|_| ScriptEntry::call("fetch", "{}"));
    ScriptedModel::new(Script::new("script", calls.chain([ScriptEntry::text("done")])))
}

/// Remembers by which policy each event was decided, and what is said of reloads.
#[derive(Clone, Default)]
struct Notes {
    events: Arc<Mutex<Vec<(&'static str, String)>>>,
    complaints: Arc<Mutex<Vec<String>>>,
}

impl Journal for Notes {
    fn event(&mut self, envelope: &Envelope) -> Result<(), JournalError> {
        let name = match &envelope.event {
            Event::RunStarted(_) => "started",
            Event::PolicyChanged { .. } => "changed",
            Event::ToolFinished { .. } => "tool",
            _ => "other",
        };
        self.events.lock().unwrap().push((name, String::new()));
        Ok(())
    }

    fn directives(&mut self, policy: &str, _: &Directives, _: &State) -> Result<(), JournalError> {
        policy.clone_into(&mut self.events.lock().unwrap().last_mut().unwrap().1);
        Ok(())
    }
}

impl Observer for Notes {
    fn on_reload_error(&mut self, error: &PolicyFilesError) {
        self.complaints.lock().unwrap().push(error.to_string());
    }
}

impl Notes {
    /// The digest by which the `n`th event of that name was decided.
    fn decided(&self, name: &str, n: usize) -> String {
        let events = self.events.lock().unwrap();
        events.iter().filter(|(event, _)| *event == name).nth(n).unwrap().1.clone()
    }
}

async fn run(agent: &Agent) -> (Outcome, State, Notes) {
    let mut notes = Notes::default();
    let (mut journal, cancel) = (notes.clone(), CancellationToken::new());
    let report = agent.run_with(task(), &mut notes, Some(&mut journal), cancel).await.unwrap();
    (report.outcome, report.state, notes)
}

#[tokio::test(start_paused = true)]
async fn the_next_turn_is_under_the_new_policy_and_the_call_under_way_ends_under_the_old() {
    let (old, new) = (policy("version: 1\n"), policy("version: 1\nturn: {max_turns: 9}\n"));
    let live = LivePolicy::new(old.clone());
    let (swap, to) = (live.clone(), new.clone());
    let agent = Agent::new(live).model("main", model(2)).tools(failing(move || {
        swap.replace(to.clone());
    }));
    let (outcome, _, notes) = run(&agent).await;
    assert_eq!(outcome, Outcome::Answered { text: "done".into() });
    assert_eq!(notes.decided("tool", 0), old.digest());
    assert_eq!(notes.decided("changed", 0), new.digest());
    assert_eq!(notes.decided("tool", 1), new.digest());
}

#[tokio::test(start_paused = true)]
async fn a_breaker_goes_on_where_it_stood_if_its_rules_are_the_same() {
    let live = LivePolicy::new(policy("version: 1\ntools: {fetch: {breaker: {failures: 2}}}\n"));
    let same = policy("version: 1\ntools: {fetch: {breaker: {failures: 2}, on_exhausted: tell_model}}\n");
    let swap = live.clone();
    let agent = Agent::new(live).model("main", model(3)).tools(failing(move || {
        swap.replace(same.clone());
    }));
    let (_, state, _) = run(&agent).await;
    assert_eq!(state.breaker("fetch").unwrap().failures(), 2, "the third call did not run");
}

#[tokio::test(start_paused = true)]
async fn a_breaker_with_other_rules_begins_anew() {
    let live = LivePolicy::new(policy("version: 1\ntools: {fetch: {breaker: {failures: 1}}}\n"));
    let other = policy("version: 1\ntools: {fetch: {breaker: {failures: 5}}}\n");
    let swap = live.clone();
    let agent = Agent::new(live).model("main", model(3)).tools(failing(move || {
        swap.replace(other.clone());
    }));
    let (_, state, _) = run(&agent).await;
    assert_eq!(state.breaker("fetch").unwrap().failures(), 2, "the second and the third call ran");
}

#[tokio::test(start_paused = true)]
async fn a_file_that_breaks_is_told_and_the_last_good_policy_stays_in_force() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("policy.yaml");
    std::fs::write(&path, "version: 1\n").unwrap();
    let watch = PolicyWatch::load(Loader::new(), &[&path]).unwrap();
    let (live, good) = (watch.live().clone(), watch.live().status().digest);
    let once = std::sync::Once::new();
    let breaks =
        move || once.call_once(|| std::fs::write(&path, "version: 1\nturn: {max_turns: none}\n").unwrap());
    let agent = Agent::watching(watch).model("main", model(2)).tools(failing(breaks));
    let (outcome, _, notes) = run(&agent).await;
    assert_eq!(outcome, Outcome::Answered { text: "done".into() });
    assert_eq!(notes.decided("tool", 1), good);
    let complaints = notes.complaints.lock().unwrap();
    assert_eq!(complaints.len(), 1, "told once for each change");
    assert!(complaints[0].contains("policy.yaml:2:"), "{complaints:?}");
    assert!(live.status().last_error.is_some());
}

#[tokio::test(start_paused = true)]
async fn new_slices_begin_with_the_new_policy() {
    let live = LivePolicy::new(policy("version: 1\n"));
    let new = policy(
        "version: 1\nsession:\n  slices: {failures: {initial: 10}}\n  reducers:\n    count: {on: tool_failed, slice: failures, do: {kind: increment, value: '1'}}\n",
    );
    let swap = live.clone();
    let agent = Agent::new(live).model("main", model(2)).tools(failing(move || {
        swap.replace(new.clone());
    }));
    let (_, state, _) = run(&agent).await;
    assert_eq!(state.slices().get("failures"), Some(&json!(11)));
}

#[tokio::test(start_paused = true)]
async fn a_guard_that_is_kept_goes_on_under_the_new_policy() {
    let live = LivePolicy::new(policy(
        "version: 1\ntools: {fetch: {effect: read_only, breaker: {failures: 3}, retry: {max_attempts: 2}}}\n",
    ));
    let guard = Guard::new(live.clone());
    let fetch = guard.tool("fetch");
    assert_eq!(attempts(&fetch).await, 2);
    live.replace(policy(
        "version: 1\ntools: {fetch: {effect: read_only, breaker: {failures: 3}, retry: {max_attempts: 3}}}\n",
    ));
    assert_eq!(
        attempts(&fetch).await,
        1,
        "the breaker continues where it stood, and opens at the third failure"
    );
    let other = "version: 1\ntools: {fetch: {effect: read_only, breaker: {failures: never}, retry: {max_attempts: 4}}}\n";
    live.replace(policy(other));
    assert_eq!(attempts(&fetch).await, 4, "and begins anew with other rules");
}

/// How often the closure ran.
async fn attempts(fetch: &ToolGuard) -> u32 {
    let runs = std::cell::Cell::new(0);
    let failed: Result<(), _> = fetch
        .call((), |(), _| async {
            runs.set(runs.get() + 1);
            Err(ErrorClass::Timeout)
        })
        .await;
    assert!(failed.is_err());
    runs.get()
}

#[tokio::test(start_paused = true)]
async fn a_guarded_turn_has_the_slices_of_the_new_policy() {
    let live = LivePolicy::new(policy("version: 1\n"));
    let guard = Guard::new(live.clone());
    live.replace(policy(
        "version: 1\nsession:\n  slices: {failures: {initial: 0}}\n  reducers:\n    count: {on: model_failed, slice: failures, do: {kind: increment, value: '1'}}\n",
    ));
    let failed: Result<(), _> = guard.turn(()).call(|_, ()| async { Err(ErrorClass::RateLimit) }).await;
    let Err(CallError::Exhausted(end)) = failed else { panic!("it is given up") };
    assert!(end.exhausted.attempts.len() > 1);
    let failures = guard.slices(|slices| slices.get("failures").cloned());
    assert_eq!(failures, Some(json!(end.exhausted.attempts.len())));
}

#[tokio::test(start_paused = true)]
async fn a_planner_s_guard_and_the_one_it_was_made_of_are_renewed_each_for_itself() {
    let rules = |attempts: u32| {
        policy(&format!(
            "version: 1\ntools: {{fetch: {{effect: read_only, breaker: {{failures: never}}, retry: {{max_attempts: {attempts}}}}}}}\n"
        ))
    };
    let live = LivePolicy::new(rules(2));
    let fetch = Guard::new(live.clone()).tool("fetch");
    let planned = fetch.clone().with(CallOverride::new(json!({"retry": {"max_attempts": 5}})).unwrap());
    live.replace(rules(3));
    assert_eq!((attempts(&fetch).await, attempts(&planned).await), (3, 5));
    live.replace(rules(4));
    assert_eq!((attempts(&planned).await, attempts(&fetch).await), (5, 4));
    assert_eq!(attempts(&fetch).await, 4);
}

/// A file whose text is swapped at the first failure of the tool.
fn swapped(path: &std::path::Path, to: &str) -> Tools {
    let (path, to, once) = (path.to_path_buf(), to.to_owned(), std::sync::Once::new());
    failing(move || once.call_once(|| std::fs::write(&path, &to).unwrap()))
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_takes_the_report_by_a_tool_s_name_never_gets_in_force() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("policy.yaml");
    std::fs::write(&path, "version: 1\n").unwrap();
    let watch = PolicyWatch::load(Loader::new(), &[&path]).unwrap();
    let (live, good) = (watch.live().clone(), watch.live().status().digest);
    let clash = "version: 1\noutput: {tool: fetch, schema: {type: object}}\n";
    let agent = Agent::watching(watch).model("main", model(2)).tools(swapped(&path, clash));
    let (_, _, notes) = run(&agent).await;
    assert_eq!((notes.decided("tool", 1), live.status().digest), (good.clone(), good));
    assert!(notes.complaints.lock().unwrap()[0].contains("a tool is named `fetch`"));
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, clash).unwrap();
    let watch = PolicyWatch::load(Loader::new(), &[&path]).unwrap();
    let agent = Agent::watching(watch).model("main", model(1)).tools(failing(|| ()));
    let error = agent.run(task()).await.unwrap_err();
    assert!(error.to_string().contains("a tool is named `fetch`"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn every_run_under_the_same_files_is_told_what_is_wrong_with_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("policy.yaml");
    std::fs::write(&path, "version: 1\n").unwrap();
    let watch = PolicyWatch::load(Loader::new(), &[&path]).unwrap();
    let agent = Agent::watching(watch).model("main", model(4)).tools(swapped(&path, "version: 2\n"));
    for _ in 0..2 {
        let (_, _, notes) = run(&agent).await;
        assert_eq!(notes.complaints.lock().unwrap().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn fewer_turns_end_the_run_at_the_turn_that_is_about_to_begin() {
    let rules = |turns: u32| {
        policy(&format!("version: 1\nturn: {{max_turns: {turns}}}\noutput: {{schema: {{type: object}}}}\n"))
    };
    let live = LivePolicy::new(rules(9));
    let swap = live.clone();
    let less = rules(2);
    let agent = Agent::new(live).model("main", model(5)).tools(failing(move || {
        swap.replace(less.clone());
    }));
    let (outcome, state, _) = run(&agent).await;
    assert_eq!(state.turn, 2, "{outcome:?}");
}
