//! What a run tells about itself: metrics, and one record for each call of a model. Whole runs, in virtual time.

mod exposition;

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio_util::sync::CancellationToken;
use unfazed::engine::{Outcome, RetryAction, ToolSpec};
use unfazed::host::scripted::{
    ErrorReply, Script, ScriptAnswer, ScriptEntry, ScriptOutcome as Scripted, ScriptedModel,
};
use unfazed::host::{
    Agent, AttemptStatus, Clock, FunctionTool, Metrics, ModelAttempt, ModelFacts, NoopObserver, Observer,
    Price, RunReport, RunTask, ToolError, Tools,
};
use unfazed::policy::{ErrorClass, Policy};
use unfazed::session::{StopReason, Usage};
use unfazed::time::Instant;

use exposition::Families;

const POLICY: &str = "version: 1
retry: {max_attempts: 3, server_delay: {mode: floor}, backoff: {kind: constant, delay: 1s, jitter: none}, correction_backoff: {kind: constant, delay: 1s}}
turn: {text_only: reject}
models: {main: {context_window: 5000, output_reserve: 100}}
tools: {half: {effect: read_only, retry: {max_attempts: 2, retry_on: {add: [execution_error]}}}}
output: {schema: {type: object, properties: {n: {type: integer}}, required: [n]}}
";
const REPORT: &str = r#"{"n": 4}"#;

fn half() -> Tools {
    let parameters = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let spec = ToolSpec { name: "half".into(), description: String::new(), parameters, effect: None };
    Tools::new().with(FunctionTool::new(spec, |args, _| async move {
        match args["n"].as_i64() {
            Some(n) if n % 2 == 0 => Ok(json!(n / 2)),
            _ => Err(ToolError::failed("odd numbers have no half")),
        }
    }))
}

fn facts() -> ModelFacts {
    let price = Price { input: 2_500_000, output: 10_000_000, ..Price::default() };
    ModelFacts { provider: "openai".into(), model: "gpt-5".into(), price: Some(price) }
}

fn agent(policy: &str, replies: impl IntoIterator<Item = ScriptEntry>) -> Agent {
    let policy = Policy::from_yaml("policy.yaml", policy).unwrap_or_else(|report| panic!("{report}"));
    let model = ScriptedModel::new(Script::new("script", replies));
    let clock = Clock::starting_at(Instant(0));
    Agent::new(policy).model("main", model).facts("main", facts()).tools(half()).clock(clock)
}

fn task() -> RunTask {
    RunTask { run: "run-1".into(), task: "halve it".into(), ..RunTask::default() }
}

async fn run(agent: &Agent) -> RunReport {
    agent.run(task()).await.unwrap()
}

fn limited() -> ScriptEntry {
    let limit = ErrorReply::new(429, "rate_limit_exceeded", "slow down").header("retry-after", "2");
    ScriptEntry::new(Scripted::Error(limit))
}

/// A reply that used so many tokens, after so many milliseconds.
fn priced(mut entry: ScriptEntry, input: u64, output: u64, millis: u64) -> ScriptEntry {
    if let Scripted::Answer(ScriptAnswer { usage, .. }) = &mut entry.outcome {
        *usage = Some(serde_json::from_value::<Usage>(json!({"input": input, "output": output})).unwrap());
    }
    entry.after(Duration::from_millis(millis))
}

/// A rate limit, a tool that fails and then does what it should, a text, and the report.
fn story() -> Vec<ScriptEntry> {
    vec![
        limited(),
        priced(ScriptEntry::call("half", r#"{"n": 3}"#), 1000, 10, 300),
        priced(ScriptEntry::call("half", r#"{"n": 8}"#), 1100, 20, 400),
        priced(ScriptEntry::text("It is 4."), 1200, 5, 50),
        priced(ScriptEntry::call("final_report", REPORT), 1300, 15, 15_000),
    ]
}

fn read(report: &RunReport) -> Families {
    exposition::read(&report.metrics.prometheus()).unwrap_or_else(|broken| panic!("{broken}"))
}

/// The value of the only series that has these labels among its own.
#[track_caller]
fn value(families: &Families, name: &str, labels: &[(&str, &str)]) -> String {
    let family = families.iter().find(|(family, _)| name.starts_with(family.as_str())).unwrap().1;
    let has = |sample: &&exposition::Sample| {
        sample.name == name && labels.iter().all(|(label, value)| sample.labels[*label] == *value)
    };
    let found: Vec<_> = family.samples.iter().filter(has).collect();
    assert_eq!(found.len(), 1, "{name} {labels:?}: {family:?}");
    found[0].written.clone()
}

#[derive(Default)]
struct Attempts(Vec<ModelAttempt>);

impl Observer for Attempts {
    fn attempt(&mut self, attempt: &ModelAttempt) {
        self.0.push(attempt.clone());
    }
}

async fn attempts(agent: &Agent) -> Vec<ModelAttempt> {
    let mut seen = Attempts::default();
    agent.run_with(task(), &mut seen, None, CancellationToken::new()).await.unwrap();
    seen.0
}

#[tokio::test(start_paused = true)]
async fn every_call_of_a_model_is_told_with_what_is_done_about_it() {
    let attempts = attempts(&agent(POLICY, story())).await;
    assert_eq!(attempts.len(), 5);
    let ModelAttempt { correlation_id, target, provider, model, turn, attempt, max_attempts, .. } =
        &attempts[0];
    assert_eq!([correlation_id, target, provider, model], ["run-1", "main", "openai", "gpt-5"]);
    assert_eq!((*turn, *attempt, *max_attempts), (1, 1, Some(3)));
    assert_eq!(attempts[0].status, AttemptStatus::Failed);
    assert_eq!((attempts[0].error_type, attempts[0].http_status), (Some(ErrorClass::RateLimit), Some(429)));
    assert_eq!((attempts[0].action, attempts[0].delay_ms), (Some(RetryAction::Retry), 2000));
    assert_eq!((attempts[0].input_tokens, attempts[0].cost_usd), (None, None));

    assert_eq!((attempts[1].turn, attempts[1].attempt, attempts[1].status), (1, 2, AttemptStatus::Success));
    assert_eq!((attempts[1].latency_ms, attempts[1].input_tokens), (300, Some(1000)));
    assert_eq!(attempts[1].cost_usd.unwrap().to_string(), "0.0026");
    assert_eq!((attempts[1].action, attempts[1].error_type), (None, None));

    assert_eq!(
        (attempts[3].status, attempts[3].error_type),
        (AttemptStatus::Rejected, Some(ErrorClass::TextOnly))
    );
    assert_eq!(attempts[4].latency_ms, 15_000);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_attempts_has_its_reason() {
    let refused = ScriptEntry::error(401, "invalid_api_key", "no such key");
    let attempts = attempts(&agent(POLICY, [refused])).await;
    assert_eq!(attempts.len(), 1);
    assert_eq!(attempts[0].error_type, Some(ErrorClass::AuthError));
    assert_eq!(attempts[0].action, Some(RetryAction::Abort));
    assert!(matches!(attempts[0].reason, Some(StopReason::NeverRetry | StopReason::NotRetryable)));
}

#[tokio::test(start_paused = true)]
async fn a_refused_history_with_nothing_to_repair_has_its_reason_too() {
    let message = "messages.2: `tool_use` ids were found without `tool_result` blocks immediately after: x";
    let attempts =
        attempts(&agent(POLICY, [ScriptEntry::error(400, "invalid_request_error", message)])).await;
    assert_eq!(attempts.len(), 1);
    assert_eq!(attempts[0].error_type, Some(ErrorClass::OrphanToolCall));
    assert_eq!(attempts[0].action, Some(RetryAction::Abort));
    assert_eq!(attempts[0].reason, Some(StopReason::NotRetryable));
}

#[tokio::test(start_paused = true)]
async fn calls_tokens_and_money_are_counted() {
    let report = run(&agent(POLICY, story())).await;
    let all = read(&report);
    let main = [("target", "main"), ("provider", "openai"), ("model", "gpt-5")];
    let with = |label: &'static str, of: &'static str| [main.as_slice(), &[(label, of)]].concat();
    for (name, labels, expected) in [
        ("ai_agent_llm_requests_total", with("status", "success"), "3"),
        ("ai_agent_llm_requests_total", with("status", "failed"), "1"),
        ("ai_agent_llm_requests_total", with("status", "rejected"), "1"),
        ("ai_agent_llm_errors_total", with("error_type", "rate_limit"), "1"),
        ("ai_agent_llm_errors_total", with("error_type", "text_only"), "1"),
        ("ai_agent_llm_retries_total", with("error_type", "rate_limit"), "1"),
        ("ai_agent_llm_prompt_tokens_total", main.to_vec(), "4600"),
        ("ai_agent_llm_completion_tokens_total", main.to_vec(), "50"),
        ("ai_agent_llm_cost_usd_total", main.to_vec(), "0.012"),
        ("ai_agent_llm_latency_ms_sum", with("status", "success"), "15700"),
        ("ai_agent_llm_latency_ms_count", with("status", "success"), "3"),
    ] {
        assert_eq!(value(&all, name, &labels), expected, "{name} {labels:?}");
    }
    assert_eq!(report.cost.unwrap().to_string(), "0.012");
}

#[tokio::test(start_paused = true)]
async fn the_names_of_the_conventions_are_there_too() {
    let all = read(&run(&agent(POLICY, story())).await);
    let chat = [("gen_ai_operation_name", "chat"), ("gen_ai_provider_name", "openai")];
    for (kind, tokens) in [("input", "4600"), ("output", "50")] {
        let labels = [chat.as_slice(), &[("gen_ai_token_type", kind)]].concat();
        assert_eq!(value(&all, "gen_ai_client_token_usage_sum", &labels), tokens);
    }
    let durations = &all["gen_ai_client_operation_duration_seconds"].samples;
    let counts = durations.iter().filter(|sample| sample.name.ends_with("_count"));
    let counts: Vec<_> = counts.map(|sample| (sample.labels.get("error_type"), &*sample.written)).collect();
    let limited = "rate_limit".to_owned();
    assert_eq!(counts, [(None, "4"), (Some(&limited), "1")], "a text instead of a report is no failed call");
}

#[tokio::test(start_paused = true)]
async fn tools_are_counted_by_how_they_end() {
    // Two attempts at 3, which has no half; then 8.
    let all = read(&run(&agent(POLICY, story())).await);
    for (name, labels, expected) in [
        ("ai_agent_tool_invocations_total", [("tool_name", "half"), ("status", "failed")], "2"),
        ("ai_agent_tool_invocations_total", [("tool_name", "half"), ("status", "success")], "1"),
        ("ai_agent_tool_errors_total", [("tool_name", "half"), ("error_type", "execution_error")], "2"),
    ] {
        assert_eq!(value(&all, name, &labels), expected, "{name}");
    }
    let half = [("tool_name", "half")];
    assert_eq!(value(&all, "ai_agent_tool_bytes_in_total", &half), "21");
    let out = 2 * "odd numbers have no half".len() + "4".len();
    assert_eq!(value(&all, "ai_agent_tool_bytes_out_total", &half), out.to_string());
}

#[tokio::test(start_paused = true)]
async fn a_report_is_counted_by_how_it_came() {
    let wrong = ScriptEntry::call("final_report", r#"{"n": "four"}"#);
    let right = ScriptEntry::call("final_report", REPORT);
    let policy = POLICY.replace("text_only: reject", "final_turn_after_rejection: true");
    let all = read(&run(&agent(&policy, [wrong, right])).await);
    let labels = [("source", "tool-call"), ("status", "success"), ("forced_final_reason", "report_attempt")];
    assert_eq!(value(&all, "ai_agent_final_report_total", &labels), "1");
    assert_eq!(value(&all, "ai_agent_final_report_attempts_total", &[]), "2");
    assert_eq!(value(&all, "ai_agent_final_report_turns_sum", &[]), "2");
    let collapse = [("reason", "report_attempt")];
    assert_eq!(value(&all, "ai_agent_retry_collapse_total", &collapse), "1");
}

#[tokio::test(start_paused = true)]
async fn a_run_without_a_report_counts_the_one_in_its_place() {
    let report = run(&agent(POLICY, [limited().times(9)])).await;
    assert!(matches!(report.outcome, Outcome::Failed { .. }));
    let all = read(&report);
    let labels = [("source", "synthetic"), ("status", "failure")];
    assert_eq!(value(&all, "ai_agent_final_report_total", &labels), "1");
}

#[tokio::test(start_paused = true)]
async fn a_model_that_is_passed_over_for_its_window_is_counted() {
    let policy = "version: 1\nmodels: {main: {context_window: 20}, large: {context_window: 100000}}\n";
    let large = ScriptedModel::new(Script::new("script", [ScriptEntry::text("hello")]));
    let report = run(&agent(policy, [ScriptEntry::text("never asked")]).model("large", large)).await;
    let all = read(&report);
    let labels = [("target", "main"), ("trigger", "turn_preflight"), ("outcome", "skipped_provider")];
    assert_eq!(value(&all, "ai_agent_context_guard_events_total", &labels), "1");
    let left = value(&all, "ai_agent_context_guard_remaining_tokens", &[("target", "large")]);
    assert!((90_000..100_000).contains(&left.parse::<u64>().unwrap()), "{left}");
}

#[tokio::test(start_paused = true)]
async fn a_window_that_is_too_small_forces_the_last_turn() {
    let policy = "version: 1\nmodels: {main: {context_window: 20}}\n";
    let all = read(&run(&agent(policy, [ScriptEntry::text("short")])).await);
    let labels = [("outcome", "forced_final")];
    assert_eq!(value(&all, "ai_agent_context_guard_events_total", &labels), "1");
    let labels = [("forced_final_reason", "context")];
    assert_eq!(value(&all, "ai_agent_final_report_total", &labels), "1");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_a_stop_cuts_off_is_told_as_cancelled() {
    let agent = agent(POLICY, [ScriptEntry::text("late").after(Duration::from_secs(60))]);
    let stop = CancellationToken::new();
    let mut seen = Attempts::default();
    let later = stop.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(5)).await;
        later.cancel();
    });
    agent.run_with(task(), &mut seen, None, stop).await.unwrap();
    assert_eq!(seen.0.len(), 1);
    assert_eq!((seen.0[0].status, seen.0[0].latency_ms), (AttemptStatus::Cancelled, 5000));
}

#[tokio::test(start_paused = true)]
async fn what_the_policy_calls_the_provider_goes_first() {
    let policy = "version: 1\nmodels: {main: {provider: house}}\n";
    let attempts = attempts(&agent(policy, [ScriptEntry::text("hello")])).await;
    assert_eq!(attempts[0].provider, "house");
}

#[tokio::test(start_paused = true)]
async fn runs_that_share_their_metrics_add_up() {
    let metrics = Arc::new(Metrics::new());
    for _ in 0..2 {
        agent("version: 1", [ScriptEntry::text("hello")])
            .metrics(Arc::clone(&metrics))
            .run_with(task(), &mut NoopObserver, None, CancellationToken::new())
            .await
            .unwrap();
    }
    let all = exposition::read(&metrics.prometheus()).unwrap();
    assert_eq!(value(&all, "ai_agent_llm_requests_total", &[("status", "success")]), "2");
}

#[tokio::test(start_paused = true)]
async fn a_cost_is_told_only_where_a_price_is_known() {
    let unpriced = ModelFacts { price: None, ..facts() };
    let report = run(&agent(POLICY, story()).facts("main", unpriced)).await;
    assert_eq!(report.cost, None);
    assert!(!read(&report).contains_key("ai_agent_llm_cost_usd_total"));
}

#[tokio::test(start_paused = true)]
async fn the_same_run_counts_the_same() {
    let first = run(&agent(POLICY, story())).await.metrics.prometheus();
    insta::assert_snapshot!(samples(&first));
    assert_eq!(run(&agent(POLICY, story())).await.metrics.prometheus(), first);
}

/// The text without its buckets, of which there are many, and without what hangs on the wording of messages.
fn samples(text: &str) -> String {
    let left_out = |line: &str| line.contains("_bucket{") || line.contains("remaining_tokens{");
    let lines = text.lines().filter(|line| !left_out(line));
    lines.collect::<Vec<_>>().join("\n")
}
