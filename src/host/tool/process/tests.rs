//! Tools that are programs: what comes of them when they work, fail, hang or are stopped.
#![cfg(unix)]

use super::*;
use crate::host::tool::test_support::{failure, input, spec};
use crate::policy::ErrorClass;
use serde_json::json;
use std::time::{Duration, Instant};

/// A tool that is a small shell script.
fn script(script: &str) -> ProcessConfig {
    ProcessConfig { grace: Nanos::from_millis(100), ..ProcessConfig::new(spec("tool"), ["sh", "-c", script]) }
}

async fn run(config: ProcessConfig) -> ToolOutcome {
    ProcessTool::new(config).run(input(&json!({"a": 1}))).await
}

async fn run_within(config: ProcessConfig, timeout: Nanos) -> ToolOutcome {
    let arguments = json!({"a": 1});
    ProcessTool::new(config).run(ToolInput { timeout: Some(timeout.into()), ..input(&arguments) }).await
}

/// Stops the run as soon as there is a line in the file.
async fn run_until(config: ProcessConfig, file: &Path) -> ToolOutcome {
    let arguments = json!({});
    let input = input(&arguments);
    let cancel = input.cancel.clone();
    let stop = async {
        while !std::fs::read_to_string(file).is_ok_and(|text| text.ends_with('\n')) {
            tokio::task::yield_now().await;
        }
        cancel.cancel();
    };
    let tool = ProcessTool::new(config);
    tokio::join!(tool.run(input), stop).0
}

fn data(outcome: ToolOutcome) -> Value {
    match outcome {
        ToolOutcome::Ok { data } => data,
        ToolOutcome::Done => Value::Null,
        ToolOutcome::Failed { failure, .. } => panic!("it failed: {}", failure.message),
    }
}

/// The process whose number is in that file, once it is there.
fn process_in(file: &Path) -> rustix::process::Pid {
    let end = Instant::now() + Duration::from_secs(5);
    loop {
        let written = std::fs::read_to_string(file).unwrap_or_default();
        if let Some(pid) = written.strip_suffix('\n') {
            return rustix::process::Pid::from_raw(pid.parse().unwrap()).unwrap();
        }
        assert!(Instant::now() < end, "no process wrote {}", file.display());
        std::thread::yield_now();
    }
}

/// Whether a process ends; one that is dead and unreaped has ended.
fn ends(pid: rustix::process::Pid) -> bool {
    let end = Instant::now() + Duration::from_secs(5);
    while Instant::now() < end {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
        if stat.map_or(true, |stat| stat.contains(") Z ")) {
            return true;
        }
        std::thread::yield_now();
    }
    false
}

#[tokio::test]
async fn the_arguments_come_on_standard_input() {
    assert_eq!(data(run(script("cat")).await), json!({"a": 1}));
}

#[tokio::test]
async fn no_shell_reads_the_arguments_of_the_command() {
    let config = ProcessConfig::new(spec("tool"), ["echo", "$HOME;", "*"]);
    assert_eq!(data(run(config).await), json!("$HOME; *"));
}

#[tokio::test]
async fn arguments_of_the_call_become_arguments_of_the_command() {
    let mut config = ProcessConfig::new(spec("tool"), ["printf", "%s|", "--city"]);
    let templates = ["{{ args.city }}", "{{ args.day }}", "--n={{ args.n }}"];
    config.arguments = templates.iter().map(|text| CommandArgument::parse(text).unwrap()).collect();
    let arguments = json!({"city": "a b; $(reboot) *", "n": 3});
    let outcome = ProcessTool::new(config).run(input(&arguments)).await;
    assert_eq!(data(outcome), json!("--city|a b; $(reboot) *|--n=3|"));
}

#[tokio::test]
async fn a_command_with_templates_reads_nothing_unless_it_is_told_so() {
    let templated = |stdin| ProcessConfig {
        arguments: vec![CommandArgument::parse("{{ args.a }}").unwrap()],
        stdin,
        ..script("cat")
    };
    assert_eq!(data(run(templated(None)).await), json!(""));
    assert_eq!(data(run(templated(Some(StdinMode::Json))).await), json!({"a": 1}));
    assert_eq!(
        data(run(ProcessConfig { stdin: Some(StdinMode::Nothing), ..script("cat") }).await),
        json!("")
    );
}

#[tokio::test]
async fn arguments_no_system_takes_are_the_models_to_shorten() {
    let config = ProcessConfig {
        arguments: vec![CommandArgument(vec![CommandArgument::template("{{ args.x }}").unwrap(); 60])],
        ..ProcessConfig::new(spec("tool"), ["true"])
    };
    let arguments = json!({"x": "y".repeat(60_000)});
    let said = failure(ProcessTool::new(config).run(input(&arguments)).await);
    let message = "the arguments are longer than a command can be given; make them shorter".to_owned();
    assert_eq!(said, (ErrorClass::InvalidArgs, EffectState::NotStarted, message));
}

#[tokio::test]
async fn who_answers_twice_is_quoted_or_refused() {
    let twice = "echo '{\"a\": 1}'; echo '{\"a\": 2}'";
    assert_eq!(data(run(script(twice)).await), json!("{\"a\": 1}\n{\"a\": 2}"));
    let said = failure(run(ProcessConfig { output: OutputFormat::Json, ..script(twice) }).await);
    assert_eq!(said.1, EffectState::Committed);
    assert!(said.2.contains("its output is not JSON: trailing characters"), "{}", said.2);
}

#[tokio::test]
async fn the_environment_is_what_was_allowed_and_no_more() {
    let mut config = script("env | cut -d= -f1 | sort | tr '\\n' ' '");
    config.pass_env = vec!["PATH".into(), "THERE_IS_NO_SUCH_VARIABLE".into()];
    config.env.insert("EXTRA".into(), "1".into());
    let names = data(run(config).await);
    let names: Vec<_> = names.as_str().unwrap().split_whitespace().filter(|name| *name != "_").collect();
    assert_eq!(names, ["EXTRA", "PATH", "PWD", "UNFAZED_ATTEMPT", "UNFAZED_IDEMPOTENCY_KEY"]);
}

#[tokio::test]
async fn the_attempt_and_the_idempotency_key_are_in_the_environment() {
    let outcome = run(script("echo $UNFAZED_ATTEMPT $UNFAZED_IDEMPOTENCY_KEY")).await;
    assert_eq!(data(outcome), json!("1 key"));
}

#[tokio::test]
async fn a_command_with_a_folder_is_found_in_the_working_directory() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("bin")).unwrap();
    std::os::unix::fs::symlink("/bin/pwd", dir.path().join("bin/where")).unwrap();
    let config = ProcessConfig {
        working_dir: Some(dir.path().to_owned()),
        ..ProcessConfig::new(spec("tool"), ["./bin/where"])
    };
    assert_eq!(data(run(config).await), json!(dir.path().canonicalize().unwrap()));
}

#[tokio::test]
async fn a_command_that_fails_is_quoted() {
    let said = failure(run(script("echo working; echo 'no such city' >&2; exit 3")).await);
    let message = "`sh` exited with code 3: no such city".to_owned();
    assert_eq!(said, (ErrorClass::ExecutionError, EffectState::Started, message));
}

#[tokio::test]
async fn a_command_that_fails_without_complaint_is_quoted_from_its_output() {
    assert_eq!(failure(run(script("echo oops; exit 1")).await).2, "`sh` exited with code 1: oops");
    assert_eq!(failure(run(script("exit 1")).await).2, "`sh` exited with code 1");
}

#[tokio::test]
async fn only_the_end_of_a_long_complaint_is_kept() {
    let said = failure(run(script("seq 1 20000 >&2; exit 1")).await).2;
    assert!(said.len() < 4200 && said.ends_with("19999\n20000"), "{said}");
}

#[tokio::test]
async fn a_command_that_a_signal_kills_may_have_acted() {
    let said = failure(run(script("kill -9 $$")).await);
    let message = "`sh` was killed by signal 9 (SIGKILL)".to_owned();
    assert_eq!(said, (ErrorClass::ExecutionError, EffectState::Unknown, message));
}

#[tokio::test]
async fn a_command_that_does_not_exist_did_not_start() {
    let said = failure(run(ProcessConfig::new(spec("tool"), ["no-such-command"])).await);
    let message = "the command `no-such-command` was not found; is it installed, and in PATH?".to_owned();
    assert_eq!(said, (ErrorClass::ToolUnavailable, EffectState::NotStarted, message));
    let said = failure(run(ProcessConfig::new(spec("tool"), ["/no/such/command"])).await).2;
    assert_eq!(said, "the command `/no/such/command` was not found; there is no such file");
    let said = failure(run(ProcessConfig::new(spec("tool"), Vec::<String>::new())).await).2;
    assert_eq!(said, "tool `tool` has no command to run; give it one");
}

#[tokio::test]
async fn a_working_directory_that_does_not_exist_is_named() {
    let config = ProcessConfig { working_dir: Some("/no/such/folder".into()), ..script("true") };
    assert_eq!(failure(run(config).await).2, "`sh` cannot run: there is no folder `/no/such/folder`");
}

#[tokio::test]
async fn a_file_that_may_not_be_run_is_a_matter_of_permission() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap();
    let said = failure(run(ProcessConfig::new(spec("tool"), [path])).await);
    assert_eq!((said.0, said.1), (ErrorClass::PermissionDenied, EffectState::NotStarted));
    assert!(said.2.ends_with("permission denied; is it executable?"), "{}", said.2);
}

#[tokio::test]
async fn arguments_nobody_reads_are_no_failure() {
    let arguments = json!({"much": "x".repeat(1_000_000)});
    let outcome = ProcessTool::new(script("exec <&-; echo done")).run(input(&arguments)).await;
    assert_eq!(data(outcome), json!("done"));
}

#[tokio::test]
async fn large_arguments_and_a_large_result_do_not_block_each_other() {
    let arguments = json!({"much": "x".repeat(900_000)});
    assert_eq!(data(ProcessTool::new(script("cat")).run(input(&arguments)).await), arguments);
}

#[tokio::test]
async fn output_beyond_the_limit_is_cut_and_the_result_says_so() {
    let config = ProcessConfig { max_output: 10, ..script("head -c 100000000 /dev/zero | tr '\\0' x") };
    let text = "xxxxxxxxxx\n[cut: 100000000 bytes were printed, the first 10 are shown]";
    assert_eq!(data(run(config).await), json!(text));
}

#[tokio::test]
async fn json_that_was_cut_is_an_error_of_work_that_was_done() {
    let config = ProcessConfig { output: OutputFormat::Json, max_output: 4, ..script("echo '[1, 2, 3]'") };
    let said = failure(run(config).await);
    assert_eq!(said.1, EffectState::Committed);
    assert_eq!(said.2, "`sh` did its work, but it printed more than the 4 bytes allowed");
}

#[tokio::test]
async fn bytes_that_are_no_utf8_are_shown_as_such() {
    assert_eq!(data(run(script("printf 'a\\377b'")).await), json!("a\u{fffd}b"));
}

#[tokio::test]
async fn a_command_that_closes_its_output_is_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("done");
    let work = format!("exec >&- 2>&-; sleep 0.05; echo > '{}'", file.display());
    assert_eq!(data(run(script(&work)).await), json!(""));
    assert!(file.exists());
}

#[tokio::test]
async fn a_timeout_ends_the_command() {
    let started = Instant::now();
    let said = failure(run_within(script("exec sleep 300"), Nanos::from_millis(50)).await);
    let message = "`sh` did not end within 50ms and was killed".to_owned();
    assert_eq!(said, (ErrorClass::Timeout, EffectState::Unknown, message));
    assert!(started.elapsed() < Duration::from_secs(60));
}

#[tokio::test]
async fn a_command_told_to_end_may_clean_up() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("ready");
    let work = "trap 'echo cleaned >&2; exit 0' TERM; echo working >&2; echo > FILE; sleep 300 & wait";
    let work = work.replace("FILE", file.to_str().unwrap());
    let config = ProcessConfig { grace: Nanos::from_secs(5), ..script(&work) };
    let said = failure(run_until(config, &file).await).2;
    assert_eq!(said, "`sh` was stopped: working\ncleaned");
}

#[tokio::test]
async fn a_command_that_ignores_the_request_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("pid");
    let work = format!("trap '' TERM; echo $$ > '{}'; while :; do sleep 0.05; done", file.display());
    assert_eq!(failure(run_until(script(&work), &file).await).0, ErrorClass::Cancelled);
    assert!(ends(process_in(&file)));
}

#[tokio::test]
async fn a_grandchild_ends_with_the_command() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("pid");
    let work = format!("(trap '' TERM; exec sleep 300) & echo $! > '{}'; wait", file.display());
    assert_eq!(failure(run_until(script(&work), &file).await).0, ErrorClass::Cancelled);
    assert!(ends(process_in(&file)));
}

#[tokio::test]
async fn what_a_command_leaves_behind_ends_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("pid");
    let work = format!("sleep 300 & echo $! > '{}'; echo done", file.display());
    assert_eq!(data(run(script(&work)).await), json!("done"));
    assert!(ends(process_in(&file)));
}

#[tokio::test]
async fn output_of_a_process_that_outlives_the_command_is_still_read() {
    let work = "(head -c 300000 /dev/zero | tr '\\0' x) & exit 0";
    let config = ProcessConfig { grace: Nanos::from_secs(5), ..script(work) };
    assert_eq!(data(run(config).await).as_str().unwrap().len(), 300_000);
}

#[tokio::test]
async fn a_process_that_left_the_group_does_not_hold_up_the_result() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("pid");
    let work = format!("setsid sh -c 'echo $$ > {}; exec sleep 300' & echo done", file.display());
    let started = Instant::now();
    let outcome = run(script(&work)).await;
    let escaped = process_in(&file);
    rustix::process::kill_process(escaped, rustix::process::Signal::KILL).unwrap();
    assert_eq!(data(outcome), json!("done"));
    assert!(started.elapsed() < Duration::from_secs(60));
}

#[tokio::test]
async fn a_stop_ends_the_command() {
    let arguments = json!({});
    let input = input(&arguments);
    let cancel = input.cancel.clone();
    let tool = ProcessTool::new(script("exec sleep 300"));
    let stop = async {
        tokio::task::yield_now().await;
        cancel.cancel();
    };
    let (outcome, ()) = tokio::join!(tool.run(input), stop);
    let said = failure(outcome);
    assert_eq!(said, (ErrorClass::Cancelled, EffectState::Unknown, "`sh` was stopped".to_owned()));
}

#[tokio::test]
async fn a_run_stopped_before_it_began_did_not_start() {
    let arguments = json!({});
    let input = input(&arguments);
    input.cancel.cancel();
    assert_eq!(failure(ProcessTool::new(script("true")).run(input).await).1, EffectState::NotStarted);
}

#[tokio::test]
async fn a_run_nobody_waits_for_any_more_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("pid");
    let tool = ProcessTool::new(script(&format!("sleep 300 & echo $! > '{}'; wait", file.display())));
    let arguments = json!({});
    let mut run = tool.run(input(&arguments));
    assert!(futures_util::poll!(&mut run).is_pending());
    let grandchild = process_in(&file);
    drop(run);
    assert!(ends(grandchild));
}

#[test]
fn the_values_of_variables_are_not_shown() {
    let mut config = script("true");
    config.env.insert("TOKEN".into(), "hunter2".into());
    let shown = format!("{:?}", ProcessTool::new(config));
    assert!(shown.contains("TOKEN") && !shown.contains("hunter2"), "{shown}");
}
