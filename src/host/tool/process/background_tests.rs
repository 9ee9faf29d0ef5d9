//! Commands whose time is up: what becomes of them, and how they are looked at and stopped.
#![cfg(unix)]

use super::*;
use crate::host::tool::test_support::{failure, input, spec};
use crate::policy::ErrorClass;
use serde_json::json;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

const SHORT: Option<Nanos> = Some(Nanos::from_millis(40));

/// A shell script that continues in the background.
fn script(script: &str, processes: &BackgroundProcesses) -> ProcessConfig {
    ProcessConfig {
        grace: Nanos::from_millis(100),
        timeout: SHORT,
        on_timeout: OnTimeout::Background,
        background: Some(processes.clone()),
        ..ProcessConfig::new(spec("job"), ["sh", "-c", script])
    }
}

async fn run_in(config: ProcessConfig, cancel: &CancellationToken) -> ToolOutcome {
    let arguments = json!({});
    ProcessTool::new(config).run(ToolInput { cancel: cancel.clone(), ..input(&arguments) }).await
}

fn data(outcome: ToolOutcome) -> Value {
    match outcome {
        ToolOutcome::Ok { data } => data,
        ToolOutcome::Done => Value::Null,
        ToolOutcome::Failed { failure, .. } => panic!("it failed: {}", failure.message),
    }
}

async fn ask(processes: &BackgroundProcesses, tool: &str, arguments: Value) -> ToolOutcome {
    processes.tool(tool).unwrap().run(input(&arguments)).await
}

/// Whether a process ends; one that is dead and unreaped has ended.
fn ends(pid: &Value) -> bool {
    let end = Instant::now() + Duration::from_secs(5);
    while Instant::now() < end {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
        if stat.map_or(true, |stat| stat.contains(") Z ")) {
            return true;
        }
        std::thread::yield_now();
    }
    false
}

#[tokio::test]
async fn a_command_whose_time_is_up_goes_on_and_is_looked_at_by_its_handle() {
    let (processes, run) = (BackgroundProcesses::new(2), CancellationToken::new());
    let dir = tempfile::tempdir().unwrap();
    let go = dir.path().join("go");
    let work =
        format!("echo begun; while [ ! -e '{}' ]; do sleep 0.01; done; echo ended; exit 3", go.display());
    let told = data(run_in(script(&work, &processes), &run).await);
    assert_eq!(told["status"], "running");
    assert!(told["handle"].as_str().unwrap().starts_with("job-1-"), "{told}");
    assert_eq!(told["note"], "It did not end within 40ms and continues in the background.");
    assert!(told["process_id"].is_u64());

    let shown = data(ask(&processes, "process_status", json!({"handle": told["handle"]})).await);
    assert_eq!((&shown["status"], &shown["process_id"]), (&json!("running"), &told["process_id"]));
    std::fs::write(go, "").unwrap();
    let shown =
        data(ask(&processes, "process_status", json!({"handle": told["handle"], "wait_seconds": 60})).await);
    assert_eq!((&shown["status"], &shown["exit_code"]), (&json!("exited"), &json!(3)));
    assert_eq!(shown["output"], "begun\nended");
}

#[tokio::test]
async fn a_command_in_the_background_is_stopped_with_what_it_started() {
    let (processes, run) = (BackgroundProcesses::new(2), CancellationToken::new());
    let work = "trap '' TERM; (trap '' TERM; exec sleep 300) & echo $!; while :; do sleep 0.02; done";
    let told = data(run_in(script(work, &processes), &run).await);
    let shown = data(ask(&processes, "process_stop", json!({"handle": told["handle"]})).await);
    assert_eq!(shown["status"], "stopped");
    assert!(ends(&told["process_id"]));
    assert!(ends(&shown["output"].as_str().unwrap().parse::<u64>().unwrap().into()));
}

#[tokio::test]
async fn what_is_in_the_background_ends_with_its_run() {
    let (processes, run, other) =
        (BackgroundProcesses::new(4), CancellationToken::new(), CancellationToken::new());
    let told = data(run_in(script("exec sleep 300", &processes), &run).await);
    data(run_in(script("exec sleep 300", &processes), &other).await);
    run.cancel();
    processes.settled().await;
    assert!(ends(&told["process_id"]));
    let all = data(ask(&processes, "process_status", json!({})).await);
    assert_eq!((&all[0]["status"], &all[1]["status"]), (&json!("stopped"), &json!("running")));
    assert_eq!(all[0].get("output"), None);
}

#[tokio::test]
async fn what_is_kept_outlives_its_run_and_can_be_stopped() {
    let (processes, run) = (BackgroundProcesses::new(2), CancellationToken::new());
    let config = ProcessConfig { keep: true, ..script("exec sleep 300", &processes) };
    let told = data(run_in(config, &run).await);
    run.cancel();
    processes.settled().await;
    let shown = data(ask(&processes, "process_status", json!({"handle": told["handle"]})).await);
    assert_eq!(shown["status"], "running");
    assert_eq!(
        data(ask(&processes, "process_stop", json!({"handle": told["handle"]})).await)["status"],
        "stopped"
    );
}

#[tokio::test]
async fn one_more_than_may_be_in_the_background_is_killed() {
    let (processes, run) = (BackgroundProcesses::new(1), CancellationToken::new());
    data(run_in(script("exec sleep 300", &processes), &run).await);
    let said = failure(run_in(script("exec sleep 300", &processes), &run).await);
    assert_eq!(
        (said.0, said.2.as_str()),
        (ErrorClass::Timeout, "`sh` did not end within 40ms and was killed")
    );
    run.cancel();
    processes.settled().await;
    let told = data(run_in(script("exec sleep 300", &processes), &CancellationToken::new()).await);
    assert!(told["handle"].as_str().unwrap().starts_with("job-2-"), "one that has ended makes room: {told}");
}

#[tokio::test]
async fn of_what_goes_on_printing_only_the_end_is_kept() {
    let (processes, run) = (BackgroundProcesses::new(1), CancellationToken::new());
    let config = ProcessConfig { max_output: 100, ..script("sleep 0.1; seq 1 200000", &processes) };
    let told = data(run_in(config, &run).await);
    let shown =
        data(ask(&processes, "process_status", json!({"handle": told["handle"], "wait_seconds": 60})).await);
    let output = shown["output"].as_str().unwrap();
    assert!(output.len() <= 100 && output.ends_with("199999\n200000"), "{output}");
    assert_eq!(shown["printed_bytes"], 1_288_895);
}

#[tokio::test]
async fn a_look_that_waits_answers_before_its_own_time_is_up() {
    let (processes, run) = (BackgroundProcesses::new(1), CancellationToken::new());
    let told = data(run_in(script("exec sleep 300", &processes), &run).await);
    let arguments = json!({"handle": told["handle"], "wait_seconds": 600});
    let within = ToolInput { timeout: Some(Duration::from_millis(300)), ..input(&arguments) };
    let shown = data(processes.tool("process_status").unwrap().run(within).await);
    assert_eq!(shown["status"], "running");
    run.cancel();
    processes.settled().await;
}

#[tokio::test]
async fn a_handle_nobody_has_is_told_with_those_there_are() {
    let (processes, run) = (BackgroundProcesses::new(1), CancellationToken::new());
    let said = failure(ask(&processes, "process_stop", json!({"handle": "x"})).await);
    assert_eq!(said.2, "that handle of a background process is not of this run; there is none");
    let told = data(run_in(script("exec sleep 300", &processes), &run).await);
    let said = failure(ask(&processes, "process_status", json!({"handle": "x"})).await);
    let handle = told["handle"].as_str().unwrap();
    assert_eq!(
        (said.0, said.2),
        (
            ErrorClass::InvalidArgs,
            format!("that handle of a background process is not of this run; there are {handle}")
        )
    );
    run.cancel();
    processes.settled().await;
}

#[tokio::test]
async fn a_handle_of_an_earlier_run_is_never_that_of_another_process() {
    let (before, after, run) =
        (BackgroundProcesses::new(2), BackgroundProcesses::new(2), CancellationToken::new());
    let old = data(run_in(script("exec sleep 300", &before), &run).await);
    let new = data(run_in(script("exec sleep 300", &after), &run).await);
    assert_ne!(old["handle"], new["handle"]);
    let said = failure(ask(&after, "process_stop", json!({"handle": old["handle"]})).await);
    assert!(said.2.starts_with("that handle of a background process is not of this run; "), "{}", said.2);
    let shown = data(ask(&after, "process_status", json!({"handle": new["handle"]})).await);
    assert_eq!(shown["status"], "running");
    run.cancel();
    before.settled().await;
    after.settled().await;
}

#[tokio::test]
async fn of_a_process_that_is_forgotten_no_more_is_said_to_be_known() {
    let processes = BackgroundProcesses::new(1);
    let mut handles = Vec::new();
    for _ in 0..3 {
        let run = CancellationToken::new();
        handles.push(data(run_in(script("exec sleep 300", &processes), &run).await)["handle"].clone());
        run.cancel();
        processes.settled().await;
    }
    let said = failure(ask(&processes, "process_status", json!({"handle": handles[0]})).await);
    assert!(
        said.2.starts_with("nothing is known any more of the background process of that handle; "),
        "{}",
        said.2
    );
}

#[tokio::test]
async fn a_command_is_waited_for_beyond_its_own_time_but_not_beyond_the_policys() {
    let run = CancellationToken::new();
    let wait = |work: &str| ProcessConfig {
        timeout: SHORT,
        on_timeout: OnTimeout::Wait,
        grace: Nanos::from_millis(100),
        ..ProcessConfig::new(spec("job"), ["sh", "-c", work])
    };
    assert_eq!(data(run_in(wait("sleep 0.2; echo done"), &run).await), json!("done"));
    let arguments = json!({});
    let within = ToolInput { timeout: Some(Duration::from_millis(90)), ..input(&arguments) };
    let said = failure(ProcessTool::new(wait("exec sleep 300")).run(within).await);
    assert_eq!(said.2, "`sh` did not end within 90ms and was killed");
}

#[tokio::test]
async fn the_own_time_of_a_command_kills_it() {
    let config = ProcessConfig { timeout: SHORT, ..ProcessConfig::new(spec("job"), ["sleep", "300"]) };
    let said = failure(run_in(config, &CancellationToken::new()).await);
    assert_eq!(
        (said.0, said.2.as_str()),
        (ErrorClass::Timeout, "`sleep` did not end within 40ms and was killed")
    );
}
