//! Breakers and budgets that several agents share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use serde_json::{Value, json};
use tokio::sync::Notify;
use unfazed::engine::{Directives, Envelope, Event, Outcome, Record, RecordLine, State};
use unfazed::host::{
    Agent, BoxFuture, Clock, InProcess, Journal, JournalError, NoopObserver, RunReport, SharedState,
    SharedStateError, SharedValue, StopSwitch,
};
use unfazed::policy::Policy;
use unfazed::replay::{Replay, ReplayEnding};
use unfazed::time::Instant;

use flaky::{BREAKER, Told, task};

use crate::flaky;

const BUDGET: &str = "version: 1
tools:
  '*': {loop_guard: {enabled: false}, breaker: {failures: never}}
  flaky:
    effect: idempotent
    retry:
      {max_attempts: 9, retry_on: [execution_error], backoff: {kind: constant, delay: 1s, jitter: none},
       budget: {kind: tokens, capacity: 4, pool: web, scope: shared}}
";

/// An agent whose tool always fails, and how often the tool ran.
struct Host {
    agent: Agent,
    runs: Arc<AtomicU32>,
}

impl Host {
    fn new(policy: &str, calls: u32, shared: &dyn Fn() -> Option<Arc<dyn SharedState>>) -> Self {
        let runs = Arc::<AtomicU32>::default();
        let counted = Arc::clone(&runs);
        let counts = move |_| {
            counted.fetch_add(1, Ordering::Relaxed);
        };
        let agent = flaky::agent(policy, calls, counts).clock(Clock::starting_at(Instant(1_000_000_000)));
        let agent = match shared() {
            Some(shared) => agent.shared(shared),
            None => agent,
        };
        Self { agent, runs }
    }

    async fn run(&self) -> RunReport {
        let report = self.agent.run(task()).await.unwrap();
        assert_eq!(report.outcome, Outcome::Answered { text: "Done.".into() });
        report
    }

    fn runs(&self) -> u32 {
        self.runs.load(Ordering::Relaxed)
    }
}

fn two(policy: &str, calls: [u32; 2]) -> (Host, Host, InProcess) {
    let shared = InProcess::default();
    let port = || Some(Arc::new(shared.clone()) as Arc<dyn SharedState>);
    (Host::new(policy, calls[0], &port), Host::new(policy, calls[1], &port), shared)
}

#[tokio::test(start_paused = true)]
async fn a_breaker_opens_by_what_all_agents_have_counted() {
    let (first, second, _) = two(BREAKER, [2, 4]);
    first.run().await;
    assert_eq!(first.runs(), 2);
    second.run().await;
    assert_eq!(second.runs(), 1, "the third failure of all is its first");
}

#[tokio::test(start_paused = true)]
async fn an_agent_whose_own_calls_never_failed_sees_that_it_is_open() {
    let (first, second, _) = two(BREAKER, [3, 1]);
    first.run().await;
    let report = second.run().await;
    assert_eq!((first.runs(), second.runs()), (3, 0));
    assert!(report.messages.iter().any(|message| format!("{message:?}").contains("not called for now")));
}

#[tokio::test(start_paused = true)]
async fn without_the_others_a_run_counts_by_itself() {
    let (first, second) = (Host::new(BREAKER, 2, &|| None), Host::new(BREAKER, 4, &|| None));
    first.run().await;
    second.run().await;
    assert_eq!((first.runs(), second.runs()), (2, 3));
}

#[tokio::test(start_paused = true)]
async fn breakers_of_other_rules_are_others() {
    let (first, _, shared) = two(BREAKER, [3, 0]);
    let port = || Some(Arc::new(shared.clone()) as Arc<dyn SharedState>);
    let other = Host::new(&BREAKER.replace("failures: 3", "failures: 2"), 1, &port);
    first.run().await;
    other.run().await;
    assert_eq!((first.runs(), other.runs()), (3, 1));
}

#[tokio::test(start_paused = true)]
async fn a_budget_is_drawn_on_by_all_agents() {
    let (first, second, _) = two(BUDGET, [1, 1]);
    first.run().await;
    assert_eq!(first.runs(), 5, "one attempt, and four retries");
    second.run().await;
    assert_eq!(second.runs(), 1, "nothing is left");
}

/// A policy whose tool may run once in ten seconds.
fn paced(pool: &str, scope: &str) -> String {
    format!(
        "version: 1\ntools: {{flaky: {{retry: {{max_attempts: 1}}, \
         pace: {{pool: {pool}, scope: {scope}, requests: {{limit: 1, per: 10s}}}}}}}}\n"
    )
}

#[tokio::test(start_paused = true)]
async fn a_call_of_one_agent_takes_the_turn_of_another() {
    for (scope, seconds) in [("shared", 10), ("run", 0)] {
        let (first, second, _) = two(&paced("web", scope), [1, 1]);
        let begin = tokio::time::Instant::now();
        first.run().await;
        second.run().await;
        assert_eq!(begin.elapsed().as_secs(), seconds, "{scope}");
    }
}

#[tokio::test(start_paused = true)]
async fn agents_of_one_process_share_a_pace_without_a_place_to_meet() {
    for (scope, seconds) in [("process", 10), ("shared", 0)] {
        let policy = paced("agents_of_one_process", scope);
        let (first, second) = (Host::new(&policy, 1, &|| None), Host::new(&policy, 1, &|| None));
        let begin = tokio::time::Instant::now();
        first.run().await;
        second.run().await;
        assert_eq!(begin.elapsed().as_secs(), seconds, "{scope}");
    }
}

/// Somebody else writes whenever somebody has read, so often.
struct Crowded {
    kept: InProcess,
    others: AtomicU32,
}

impl SharedState for Crowded {
    fn get(&self, names: Vec<String>) -> BoxFuture<'_, Result<Vec<Option<SharedValue>>, SharedStateError>> {
        self.kept.get(names)
    }

    fn replace(
        &self,
        name: String,
        known: u64,
        value: Value,
    ) -> BoxFuture<'_, Result<bool, SharedStateError>> {
        Box::pin(async move {
            let left =
                self.others.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
            if left.is_ok() {
                // One more failure, told by another host.
                let mut other = value.clone();
                let failures = self.kept.get(vec![name.clone()]).await?[0]
                    .as_ref()
                    .map_or(0, |found| found.value["known"]["failures"].as_u64().unwrap());
                other["known"]["failures"] = json!(failures + 1);
                other["by"] = json!("somebody else");
                assert!(self.kept.replace(name.clone(), known, other).await?);
            }
            self.kept.replace(name, known, value).await
        })
    }
}

#[tokio::test(start_paused = true)]
async fn what_others_tell_at_the_same_time_is_counted_too() {
    let policy = BREAKER.replace("failures: 3", "failures: 100");
    let shared = Arc::new(Crowded { kept: InProcess::default(), others: AtomicU32::new(5) });
    let host = Host::new(&policy, 3, &|| Some(Arc::clone(&shared) as Arc<dyn SharedState>));
    let report = host.run().await;
    assert_eq!(report.state.breaker("flaky").unwrap().failures(), 8);
}

/// Is away from the start, or does not answer at all.
struct Away {
    hangs: bool,
    asked: AtomicU32,
}

impl SharedState for Away {
    fn get(&self, _: Vec<String>) -> BoxFuture<'_, Result<Vec<Option<SharedValue>>, SharedStateError>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        Box::pin(async {
            if self.hangs {
                std::future::pending::<()>().await;
            }
            Err(SharedStateError(unfazed::ErrorCause::new("the database is away")))
        })
    }

    fn replace(&self, _: String, _: u64, _: Value) -> BoxFuture<'_, Result<bool, SharedStateError>> {
        Box::pin(std::future::ready(Err(SharedStateError(unfazed::ErrorCause::new("the database is away")))))
    }
}

/// Hangs when it is asked to keep a budget for the first time.
#[derive(Default)]
struct HangsOnce {
    kept: InProcess,
    hung: AtomicBool,
    /// It hangs now.
    hangs: Notify,
}

impl SharedState for HangsOnce {
    fn get(&self, names: Vec<String>) -> BoxFuture<'_, Result<Vec<Option<SharedValue>>, SharedStateError>> {
        self.kept.get(names)
    }

    fn replace(
        &self,
        name: String,
        known: u64,
        value: Value,
    ) -> BoxFuture<'_, Result<bool, SharedStateError>> {
        if name.starts_with("budget ") && !self.hung.swap(true, Ordering::Relaxed) {
            self.hangs.notify_one();
            return Box::pin(std::future::pending());
        }
        self.kept.replace(name, known, value)
    }
}

/// A breaker and a budget of one tool.
const BOTH: &str = "version: 1
tools:
  '*': {loop_guard: {enabled: false}}
  flaky:
    effect: idempotent
    breaker: {failures: 100, scope: shared}
    retry:
      {max_attempts: 4, retry_on: [execution_error], backoff: {kind: constant, delay: 20s, jitter: none},
       budget: {kind: tokens, capacity: 9, pool: web, scope: shared}}
";

/// How many failures the breaker counts that is kept there.
async fn kept_failures(host: &Host, kept: &InProcess) -> u64 {
    let all = host.agent.interpreter().unwrap().sharing(&State::new());
    let breaker = all.into_iter().map(|sharing| sharing.key).find(|key| key.starts_with("breaker "));
    let found = kept.get(vec![breaker.unwrap()]).await.unwrap().remove(0).unwrap();
    found.value["known"]["failures"].as_u64().unwrap()
}

#[tokio::test(start_paused = true)]
async fn what_was_told_before_the_others_stopped_to_answer_is_not_told_again() {
    let port = Arc::new(HangsOnce::default());
    let host = Host::new(BOTH, 1, &|| Some(Arc::clone(&port) as Arc<dyn SharedState>));
    host.run().await;
    assert!(port.hung.load(Ordering::Relaxed));
    assert_eq!((host.runs(), kept_failures(&host, &port.kept).await), (4, 4));
}

#[tokio::test(start_paused = true)]
async fn what_was_told_before_a_run_was_killed_is_not_told_again() {
    let port = Arc::new(HangsOnce::default());
    let host = Host::new(BOTH, 1, &|| Some(Arc::clone(&port) as Arc<dyn SharedState>));
    let stop = StopSwitch::new();
    let kill = async {
        port.hangs.notified().await;
        stop.kill.cancel();
    };
    let mut silent = NoopObserver;
    let run = host.agent.run_with(task(), &mut silent, None, stop.clone());
    let (report, ()) = tokio::join!(run, kill);
    let untold = host.agent.interpreter().unwrap().unshared(&report.unwrap().state);
    assert_eq!(kept_failures(&host, &port.kept).await, 1);
    assert!(untold.iter().all(|sharing| sharing.key.starts_with("budget ")), "{untold:?}");
}

/// Keeps every value and loses the first answer.
#[derive(Default)]
struct LosesAnAnswer {
    kept: InProcess,
    lost: AtomicBool,
}

impl SharedState for LosesAnAnswer {
    fn get(&self, names: Vec<String>) -> BoxFuture<'_, Result<Vec<Option<SharedValue>>, SharedStateError>> {
        self.kept.get(names)
    }

    fn replace(
        &self,
        name: String,
        known: u64,
        value: Value,
    ) -> BoxFuture<'_, Result<bool, SharedStateError>> {
        Box::pin(async move {
            let replaced = self.kept.replace(name, known, value).await;
            if self.lost.swap(true, Ordering::Relaxed) {
                replaced
            } else {
                Err(SharedStateError(unfazed::ErrorCause::new("the connection broke")))
            }
        })
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_kept_and_only_the_answer_lost_is_not_told_again() {
    let port = Arc::new(LosesAnAnswer::default());
    let host = Host::new(BOTH, 1, &|| Some(Arc::clone(&port) as Arc<dyn SharedState>));
    let mut told = Told::default();
    host.agent.run_with(task(), &mut told, None, StopSwitch::new()).await.unwrap();
    assert_eq!((host.runs(), kept_failures(&host, &port.kept).await), (4, 4));
    assert!(told.0.is_empty(), "{:?}", told.0);
}

#[tokio::test(start_paused = true)]
async fn while_it_is_away_the_run_goes_on_with_what_it_knows_and_says_so_once() {
    for (hangs, said) in [(false, "the database is away"), (true, "it does not answer")] {
        let away = Arc::new(Away { hangs, asked: AtomicU32::new(0) });
        let host = Host::new(BREAKER, 4, &|| Some(Arc::clone(&away) as Arc<dyn SharedState>));
        let mut told = Told::default();
        let report = host.agent.run_with(task(), &mut told, None, StopSwitch::new()).await.unwrap();
        assert_eq!(report.outcome, Outcome::Answered { text: "Done.".into() });
        assert_eq!((host.runs(), told.0), (3, vec![said.to_owned()]));
        assert_eq!(away.asked.load(Ordering::Relaxed), 1, "it is left alone for a while");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_no_breaker_begins_anew() {
    let (first, second, shared) = two(BREAKER, [1, 4]);
    first.run().await;
    let names = first.agent.interpreter().unwrap().sharing(&State::new());
    assert_eq!(names.len(), 1);
    shared.replace(names[0].key.clone(), 1, json!({"known": "nothing"})).await.unwrap();
    second.run().await;
    assert_eq!(second.runs(), 3);
}

/// Keeps what is written down.
#[derive(Default)]
struct Kept(Vec<Record>);

impl Journal for Kept {
    fn event(&mut self, envelope: &Envelope) -> Result<(), JournalError> {
        self.0.push(Record::Event(envelope.clone()));
        Ok(())
    }

    fn directives(&mut self, policy: &str, list: &Directives, state: &State) -> Result<(), JournalError> {
        let seq = state.seq;
        let list = serde_json::from_value(serde_json::to_value(list).unwrap()).unwrap();
        self.0.push(Record::Directives { seq, policy: policy.into(), list });
        self.0.push(Record::State { seq, hash: state.digest() });
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_was_told_by_others_is_replayed_exactly() {
    for (policy, calls) in [(BREAKER, [2, 4]), (BUDGET, [1, 2])] {
        let (first, second, _) = two(policy, calls);
        first.run().await;
        let mut kept = Kept::default();
        second.agent.run_with(task(), &mut NoopObserver, Some(&mut kept), StopSwitch::new()).await.unwrap();
        let told = |record: &&Record| {
            matches!(record, Record::Event(Envelope { event: Event::SharedChanged(_), .. }))
        };
        assert!(kept.0.iter().filter(told).count() > 0);
        let mut replay = Replay::new(Policy::from_yaml("policy.yaml", policy).unwrap());
        for record in kept.0 {
            // As it stands in a log.
            let line = RecordLine::new(record.as_ref()).unwrap();
            replay.take(Record::parse(line.as_str().as_bytes()).unwrap()).unwrap();
        }
        let replayed = replay.end();
        assert_eq!((replayed.ending, replayed.same), (ReplayEnding::Same, replayed.events));
    }
}

#[tokio::test(start_paused = true)]
async fn the_next_run_does_not_tell_again_what_was_told() {
    let (first, second, _) = two(BREAKER, [2, 1]);
    let state = first.run().await.state;
    assert!(first.agent.interpreter().unwrap().unshared(&state).is_empty());
    let next = state.next_run();
    assert_eq!(next.breaker("flaky").unwrap().failures(), 2);
    second.run().await;
    assert_eq!(second.runs(), 1);
}
