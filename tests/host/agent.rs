//! The reference host: whole runs, with a scripted model in process and tokio's paused time.

use serde_json::json;
use tokio_util::sync::CancellationToken;
use unfazed::engine::{
    ApprovalAnswer, AskPerson, Directives, EffectState, Envelope, Event, Failure, Outcome, PlannerDecision,
    State, ToolOutcome, ToolSpec,
};
use unfazed::host::scripted::{Script, ScriptEntry, ScriptedModel};
use unfazed::host::{
    Agent, Approver, BoxFuture, FunctionTool, Journal, JournalError, NoopObserver, Planner, RunReport,
    RunTask, SessionCheckpoint, StopSwitch, Tool, ToolError, ToolInput, Tools,
};
use unfazed::policy::{CallOverride, ErrorClass, Policy};
use unfazed::session::{Message, RetryExhausted, ToolCall};

fn policy(text: &str) -> Policy {
    Policy::from_yaml("policy.yaml", text).unwrap_or_else(|report| panic!("{report}"))
}

fn agent(text: &str, replies: impl IntoIterator<Item = ScriptEntry>) -> Agent {
    let parameters = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let spec = ToolSpec { name: "half".into(), description: String::new(), parameters, effect: None };
    let half = FunctionTool::new(spec, |args, _| async move {
        match args["n"].as_i64() {
            Some(n) if n % 2 == 0 => Ok(json!(n / 2)),
            _ => Err(ToolError::failed("odd numbers have no half")),
        }
    });
    let model = ScriptedModel::new(Script::new("script", replies));
    Agent::new(policy(text)).model("main", model).tools(Tools::new().with(half))
}

fn task() -> RunTask {
    RunTask { run: "run-1".into(), task: "halve it".into(), ..RunTask::default() }
}

async fn run(agent: &Agent) -> RunReport {
    agent.run(task()).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_agent_calls_its_tools_and_answers() {
    let agent =
        agent("version: 1", [ScriptEntry::call("half", r#"{"n": 8}"#), ScriptEntry::text("It is 4.")]);
    let report = run(&agent).await;
    assert_eq!(report.outcome, Outcome::Answered { text: "It is 4.".into() });
    assert_eq!(report.messages.len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_rate_limit_is_waited_for_in_virtual_time() {
    let limit = unfazed::host::scripted::ErrorReply::new(429, "rate_limit_exceeded", "slow down")
        .header("retry-after", "30");
    let limited = ScriptEntry::new(unfazed::host::scripted::ScriptOutcome::Error(limit));
    let agent = agent("version: 1", [limited, ScriptEntry::text("hello")]);
    let start = tokio::time::Instant::now();
    let report = run(&agent).await;
    assert_eq!(report.outcome, Outcome::Answered { text: "hello".into() });
    assert!(start.elapsed().as_secs() >= 30);
}

#[tokio::test(start_paused = true)]
async fn the_same_run_ends_in_the_same_state() {
    let clock = || unfazed::host::Clock::starting_at(unfazed::time::Instant(0));
    let replies = || {
        [ScriptEntry::call("half", "{}"), ScriptEntry::call("half", r#"{"n": 3}"#), ScriptEntry::text("no")]
    };
    let digest = async || run(&agent("version: 1", replies()).clock(clock())).await.state.digest();
    assert_eq!(digest().await, digest().await);
}

#[tokio::test(start_paused = true)]
async fn a_run_can_be_stopped_while_it_waits() {
    let agent = agent("version: 1", [ScriptEntry::error(503, "overloaded", "later").times(9)]);
    let cancel = CancellationToken::new();
    let stop = cancel.clone();
    tokio::spawn(async move {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        stop.cancel();
    });
    let start = tokio::time::Instant::now();
    let report = agent.run_with(task(), &mut NoopObserver, None, cancel).await.unwrap();
    assert!(matches!(report.outcome, Outcome::Stopped { .. }));
    assert!(start.elapsed().as_secs() < 1, "nobody waits for a wait that is over");
}

/// A tool that does not end by itself, and never because it is asked to.
struct Deaf(ToolSpec);

impl Tool for Deaf {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn run<'a>(&'a self, _: ToolInput<'a>) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(std::future::pending())
    }
}

/// Writes down which tool runs ended, and how.
#[derive(Default)]
struct Ends(Vec<ToolOutcome>);

impl Journal for Ends {
    fn event(&mut self, envelope: &Envelope) -> Result<(), JournalError> {
        if let Event::ToolFinished { outcome, .. } = &envelope.event {
            self.0.push(outcome.clone());
        }
        Ok(())
    }

    fn directives(&mut self, _: &str, _: &Directives, _: &State) -> Result<(), JournalError> {
        Ok(())
    }
}

async fn stopped_with_a_deaf_tool(stop: StopSwitch, which: CancellationToken) -> (u64, Vec<ToolOutcome>) {
    let spec = ToolSpec {
        name: "deaf".into(),
        description: String::new(),
        parameters: json!({"type": "object"}),
        effect: None,
    };
    let model = ScriptedModel::new(Script::new("script", [ScriptEntry::call("deaf", "{}")]));
    let agent = Agent::new(policy("version: 1")).model("main", model).tools(Tools::new().with(Deaf(spec)));
    let agent = agent.drain(std::time::Duration::from_secs(7));
    tokio::spawn(async move {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        which.cancel();
    });
    let start = tokio::time::Instant::now();
    let mut ends = Ends::default();
    let report = agent.run_with(task(), &mut NoopObserver, Some(&mut ends), stop).await.unwrap();
    assert!(matches!(report.outcome, Outcome::Stopped { .. }));
    assert_eq!(unfazed::context::findings(&report.messages), []);
    (start.elapsed().as_secs(), ends.0)
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_does_not_end_is_dropped_after_the_drain_and_its_outcome_is_written_down() {
    let stop = StopSwitch::new();
    let (waited, ends) = stopped_with_a_deaf_tool(stop.clone(), stop.now).await;
    assert_eq!(waited, 7);
    let failure = Failure::of(ErrorClass::Cancelled, "the run was dropped before it ended");
    assert_eq!(ends, [ToolOutcome::Failed { failure, effect: EffectState::Unknown }]);
}

#[tokio::test(start_paused = true)]
async fn who_kills_a_run_waits_for_nothing_and_the_outcome_is_written_down_too() {
    let stop = StopSwitch::new();
    let (waited, ends) = stopped_with_a_deaf_tool(stop.clone(), stop.kill).await;
    assert_eq!((waited, ends.len()), (0, 1));
}

struct Careful;

impl Planner for Careful {
    fn for_call(&self, _: &ToolCall) -> Option<CallOverride> {
        CallOverride::new(json!({"retry": {"max_attempts": 1}})).ok()
    }

    fn on_exhausted(&self, _: &RetryExhausted) -> PlannerDecision {
        PlannerDecision::Fail
    }
}

#[tokio::test(start_paused = true)]
async fn the_planner_decides_where_the_policy_leaves_it_to_it() {
    let text = "version: 1\ntools: {'*': {on_exhausted: ask_planner}}";
    let agent =
        agent(text, [ScriptEntry::call("half", "{}"), ScriptEntry::text("never asked")]).planner(Careful);
    let report = run(&agent).await;
    let Outcome::Failed { exhausted, .. } = report.outcome else { panic!("{:?}", report.outcome) };
    assert_eq!(exhausted.attempts.len(), 1, "the planner allowed one attempt and then ended the run");
}

#[tokio::test(start_paused = true)]
async fn what_was_counted_is_in_the_report() {
    let agent = agent("version: 1", [ScriptEntry::call("half", "{}"), ScriptEntry::text("no")]);
    let report = run(&agent).await;
    let text = report.metrics.prometheus();
    assert!(text.contains(r#"validation_retry_total{subject="tool half"} 1"#), "{text}");
}

/// Answers the same to everything, after a while.
struct Says(ApprovalAnswer, std::time::Duration);

impl Approver for Says {
    fn ask<'a>(&'a self, _: &'a AskPerson) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(async {
            tokio::time::sleep(self.1).await;
            self.0
        })
    }
}

const ASKS: &str = "version: 1\nturn: {approval: {timeout: 10s}}\ntools: {half: {approval: always}}";

async fn asked(approver: Option<Says>) -> Vec<String> {
    let agent = agent(ASKS, [ScriptEntry::call("half", r#"{"n": 8}"#), ScriptEntry::text("done")]);
    let agent = match approver {
        Some(approver) => agent.approver(approver),
        None => agent,
    };
    let report = run(&agent).await;
    assert_eq!(report.outcome, Outcome::Answered { text: "done".into() });
    report
        .messages
        .iter()
        .filter(|message| matches!(message, Message::Tool { .. }))
        .map(Message::text)
        .map(Into::into)
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_tool_runs_when_the_approver_agrees() {
    let soon = std::time::Duration::from_secs(5);
    assert_eq!(asked(Some(Says(ApprovalAnswer::Approve, soon))).await, ["4"]);
    assert!(asked(Some(Says(ApprovalAnswer::Refuse, soon))).await[0].contains("the user did not agree"));
}

#[tokio::test(start_paused = true)]
async fn who_answers_too_late_or_is_not_there_has_not_agreed() {
    let late = std::time::Duration::from_secs(11);
    assert!(asked(Some(Says(ApprovalAnswer::Approve, late))).await[0].contains("nobody agreed"));
    assert!(asked(None).await[0].contains("nobody agreed"));
}

#[tokio::test(start_paused = true)]
async fn a_run_can_be_stopped_while_a_person_is_asked() {
    let forever = Says(ApprovalAnswer::Approve, std::time::Duration::from_secs(86_400));
    let agent =
        agent("version: 1\ntools: {half: {approval: always}}", [ScriptEntry::call("half", r#"{"n": 8}"#)]);
    let cancel = CancellationToken::new();
    let stop = cancel.clone();
    tokio::spawn(async move {
        tokio::time::sleep(std::time::Duration::from_secs(60)).await;
        stop.cancel();
    });
    let report = agent.approver(forever).run_with(task(), &mut NoopObserver, None, cancel).await.unwrap();
    assert!(matches!(report.outcome, Outcome::Stopped { .. }));
    assert!(
        matches!(report.messages.last(), Some(Message::Tool { error: true, .. })),
        "no call is left without a result"
    );
}
#[tokio::test(start_paused = true)]
async fn a_breaker_of_the_session_goes_on_in_the_next_run_of_it() {
    for (scope, refused) in [("session", true), ("run", false)] {
        let text = format!(
            "version: 1\ntools: {{'*': {{breaker: {{failures: 2, scope: {scope}}}, retry: {{max_attempts: 1}}}}}}"
        );
        let odd = |n| ScriptEntry::call("half", format!("{{\"n\": {n}}}"));
        let replies = [odd(1), odd(3), ScriptEntry::text("no"), odd(4), ScriptEntry::text("done")];
        let agent = agent(&text, replies);
        let first = run(&agent).await;
        let past = SessionCheckpoint {
            state: first.state,
            messages: first.messages,
            ..SessionCheckpoint::default()
        };
        let next = RunTask { run: "run-2".into(), ..task() };
        let second =
            Box::pin(agent.go_on(Some(past), Some(next), &mut NoopObserver, None, StopSwitch::new()))
                .await
                .unwrap();
        let last =
            second.messages.iter().rev().find(|message| matches!(message, Message::Tool { .. })).unwrap();
        assert_eq!(last.text() != "2", refused, "{scope}: {}", last.text());
    }
}
