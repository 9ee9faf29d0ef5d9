//! A run that the host drives with tokio: many proposals at once, withdrawn when their futures are dropped, and continued after
//! the process has ended anywhere.

use std::fs;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use unfazed::engine::{
    ApprovalAnswer, AskPerson, CallModel, Directive, DirectiveKind, EffectState, Failure, HostSkill,
    Interpreter, LogHeader, ModelReply, Note, Outcome, ProposalFault, ProposalRef, ProposalResult,
    ProposedCall, RunFacts, RunStarted, RunTool, ToolCatalogue, ToolOutcome, ToolSpec, TurnProposal,
};
use unfazed::host::{BoxFuture, Clock, DrivenRun, ProposalError, RunHost};
use unfazed::policy::{Effect, ErrorClass, Policy};
use unfazed::replay::{DecisionParts, ReplayEnding, replay};
use unfazed::session::ToolCall;
use unfazed::store::{FsyncMode, JsonlStore, Recorder, ResumedSession, SessionId, Store, resume};
use unfazed::time::Instant;

use crate::waiting::Waited;

const POLICY: &str = "
version: 1
turn: {targets: {fallback: exhausted}}
tools:
  '*': {retry: {max_attempts: 3, backoff: {kind: constant, delay: 2s, jitter: none}}}
  ask_first: {approval: always}
models:
  '*': {retry: {max_attempts: 2, backoff: {kind: constant, delay: 3s, jitter: none}}}
output: {schema: {type: object, properties: {total: {type: integer}}, required: [total]}}
";

fn interpreter(policy: &str) -> Interpreter {
    let tool = |name: &str| ToolSpec {
        name: name.into(),
        description: String::new(),
        parameters: json!({"type": "object", "properties": {"n": {"type": "integer"}}}),
        effect: Some(Effect::Idempotent),
    };
    let tools = ["quick", "slow", "never", "ask_first"].map(tool).to_vec();
    let policy = Policy::from_yaml("policy.yaml", policy).unwrap_or_else(|report| panic!("{report}"));
    Interpreter::new(policy, ToolCatalogue::new(tools).unwrap())
}

fn started() -> RunStarted {
    let targets = vec!["main".to_owned(), "spare".to_owned()];
    RunStarted { run: "trip".into(), seed: 1, targets, ..RunStarted::default() }
}

fn begin() -> DrivenRun {
    DrivenRun::start(interpreter(POLICY), started()).unwrap()
}

fn call(tool: &str) -> Vec<ProposedCall> {
    vec![ToolCall { id: "call_1".into(), name: tool.into(), arguments: r#"{"n": 1}"#.into() }.into()]
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(future)
}

/// What a test's host does, and what it saw.
#[derive(Default)]
struct Hand {
    runs: Mutex<Vec<String>>,
    /// How often each tool fails before it does not.
    fails: AtomicU32,
    noted: Mutex<Vec<Note>>,
}

impl RunHost for Hand {
    fn run_tool<'a>(&'a self, _of: ProposalRef, run: &'a RunTool) -> BoxFuture<'a, (ToolOutcome, RunFacts)> {
        self.runs.lock().unwrap().push(run.idempotency_key.clone());
        Box::pin(async move {
            match &*run.tool {
                "never" => std::future::pending().await,
                "slow" => tokio::time::sleep(Duration::from_secs(10)).await,
                _ => {}
            }
            let fails =
                self.fails.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
            let outcome = match fails {
                Ok(_) => ToolOutcome::Failed {
                    failure: Failure::of(ErrorClass::NetworkError, "connection reset"),
                    effect: EffectState::Unknown,
                },
                Err(_) => ToolOutcome::Ok { data: json!({"ok": true}) },
            };
            (outcome, RunFacts::default())
        })
    }

    fn call_model<'a>(
        &'a self,
        _of: ProposalRef,
        call: &'a CallModel,
    ) -> BoxFuture<'a, Result<ModelReply, Failure>> {
        let reply = match &*call.target {
            "main" => Err(Failure::of(ErrorClass::NetworkError, "connection reset")),
            _ => Ok(ModelReply { text: "hello".into(), ..ModelReply::default() }),
        };
        Box::pin(std::future::ready(reply))
    }

    fn answer<'a>(&'a self, _ask: &'a AskPerson) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(std::future::ready(ApprovalAnswer::Approve))
    }

    fn noted(&self, directive: &Directive) {
        if let DirectiveKind::Note(note) = &directive.order {
            self.noted.lock().unwrap().push(note.clone());
        }
    }
}

#[test]
fn proposals_run_side_by_side_and_end_by_themselves() {
    block_on(async {
        let (run, hand) = (begin(), Hand::default());
        let since = tokio::time::Instant::now();
        let slow = run.tools(call("slow"), None, &hand);
        let quick = async {
            let settled = run.tools(call("quick"), None, &hand).await.unwrap();
            (settled.result, since.elapsed())
        };
        let (slow, (quick, after)) = tokio::join!(slow, quick);
        assert_eq!((quick, after), (ProposalResult::Tools, Duration::ZERO), "it waits for nobody");
        assert_eq!((slow.unwrap().result, since.elapsed()), (ProposalResult::Tools, Duration::from_secs(10)));
    });
}

#[test]
fn a_call_is_retried_as_the_policy_says() {
    block_on(async {
        let (run, hand) = (begin(), Hand { fails: 2.into(), ..Hand::default() });
        let since = tokio::time::Instant::now();
        run.tools(call("quick"), None, &hand).await.unwrap();
        assert_eq!(since.elapsed(), Duration::from_secs(4), "two waits of 2 s");
        let runs = hand.runs.lock().unwrap();
        assert_eq!(*runs, vec![runs[0].clone(); 3], "one key for all attempts");
    });
}

#[test]
fn a_turn_falls_back_to_another_model() {
    block_on(async {
        let (run, hand) = (begin(), Hand::default());
        let turn = TurnProposal { can: vec![HostSkill::Repair], ..TurnProposal::default() };
        let settled = run.turn(turn, &hand).await.unwrap();
        assert_eq!(settled.result, ProposalResult::Reply { target: "spare".into(), attempts: 1 });
        let calls = run.tools(call("quick"), Some(settled.proposal), &hand).await.unwrap();
        assert_eq!(calls.result, ProposalResult::Tools);
    });
}

#[test]
fn a_person_is_asked_and_a_report_ends_the_run() {
    block_on(async {
        let (run, hand) = (begin(), Hand::default());
        run.tools(call("ask_first"), None, &hand).await.unwrap();
        assert_eq!(hand.runs.lock().unwrap().len(), 1);
        assert_eq!(run.output("{}".into(), &hand).await.unwrap().result, ProposalResult::Refused);
        assert_eq!(
            run.output(r#"{"total": 3}"#.into(), &hand).await.unwrap().result,
            ProposalResult::Accepted
        );
        assert_eq!(run.outcome(), Some(Outcome::Reported { output: json!({"total": 3}) }));
        let late = run.tools(call("quick"), None, &hand).await.unwrap_err();
        assert!(matches!(late, ProposalError::Refused { reason: ProposalFault::RunOver, .. }), "{late}");
        assert_eq!(late.to_string(), "the proposal is not taken: the run is over");
    });
}

#[test]
fn a_future_that_is_dropped_withdraws_its_proposal_and_no_other() {
    block_on(async {
        let (run, hand) = (begin(), Hand::default());
        let slow = run.tools(call("slow"), None, &hand);
        let dropped = async {
            let never = run.tools(call("never"), None, &hand);
            tokio::time::timeout(Duration::from_secs(1), never).await.unwrap_err();
            assert_eq!(run.state(|state| state.open_proposals().count()), 1, "the slow one is still open");
        };
        let (slow, ()) = tokio::join!(slow, dropped);
        assert_eq!(slow.unwrap().result, ProposalResult::Tools);
        assert_eq!(run.state(|state| state.open_proposals().count()), 0);
    });
}

#[test]
fn a_tool_that_takes_too_long_is_dropped_and_may_have_acted() {
    let policy = "version: 1\ntools: {'*': {effect: non_idempotent, retry: {attempt_timeout: 5s}}}";
    block_on(async {
        let (run, hand) = (DrivenRun::start(interpreter(policy), started()).unwrap(), Hand::default());
        run.tools(call("never"), None, &hand).await.unwrap();
        assert_eq!(hand.runs.lock().unwrap().len(), 1, "it is not run again");
        let noted = hand.noted.lock().unwrap();
        let ended = noted.iter().find_map(|note| match note {
            Note::ToolEnded { error_type, .. } => *error_type,
            _ => None,
        });
        assert_eq!(ended, Some(ErrorClass::Timeout));
    });
}

/// A session on disk.
struct Scene {
    dir: tempfile::TempDir,
    id: SessionId,
}

impl Scene {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), id: "trip".parse().unwrap() }
    }

    fn store(&self) -> Waited<Box<JsonlStore>> {
        Waited(Box::new(JsonlStore::new(self.dir.path(), FsyncMode::Never)))
    }

    async fn begin(&self) -> DrivenRun {
        let interpreter = interpreter(POLICY);
        let header = LogHeader::new("trip", interpreter.policy().digest(), Instant(1));
        let log = self.store().0.create(&self.id, &header).await.unwrap();
        let recorder = Recorder::new(log).await;
        DrivenRun::start_with(interpreter, started(), recorder, Clock::system()).unwrap()
    }

    fn log(&self) -> Vec<u8> {
        fs::read(self.store().path(&self.id)).unwrap()
    }

    fn decides_the_same(&self) {
        let policy = interpreter(POLICY).policy().clone();
        let found = replay(&policy, DecisionParts::default(), self.store().read(&self.id).unwrap()).unwrap();
        assert_eq!((found.ending, found.same), (ReplayEnding::Same, found.events));
    }
}

/// Several calls in flight, a retry and a turn; the log as it is in the middle of it.
fn under_way() -> Vec<u8> {
    let scene = Scene::new();
    block_on(async {
        let (run, hand) = (scene.begin().await, Hand { fails: 1.into(), ..Hand::default() });
        let calls = || async {
            let _ = run.tools(call("quick"), None, &hand).await;
            let both = [call("slow"), call("never")].concat();
            let _ = run.tools(both, None, &hand).await;
        };
        let turn = run.turn(TurnProposal::default(), &hand);
        let middle = async {
            tokio::time::sleep(Duration::from_secs(13)).await;
            scene.log()
        };
        tokio::select! {
            log = middle => log,
            _ = async { tokio::join!(calls(), calls(), turn) } => panic!("one of the calls never ends"),
        }
    })
}

/// The process may end between any two lines of the log: what was in flight is withdrawn and told, nothing of it runs again, and
/// the run takes further proposals.
#[test]
fn a_run_is_continued_wherever_its_process_has_ended() {
    let log = under_way();
    let lines: Vec<usize> = (0..log.len()).filter(|at| log[*at] == b'\n').map(|at| at + 1).collect();
    let (mut running, mut continued) = (0, 0);
    for end in lines.into_iter().skip(3) {
        let scene = Scene::new();
        fs::write(scene.store().path(&scene.id), &log[..end]).unwrap();
        block_on(async {
            let resumed = resume(&*scene.store(), &scene.id, &interpreter(POLICY)).await;
            let ResumedSession { past, log, .. } = resumed.unwrap();
            let recorder = Recorder::new(log).await;
            let (run, interrupted) =
                DrivenRun::resume(interpreter(POLICY), past, recorder, Clock::system()).unwrap();
            assert_eq!(run.state(|state| state.open_proposals().count()), 0);
            running = running.max(interrupted.len());
            let hand = Hand::default();
            let settled = run.tools(call("quick"), None, &hand).await.unwrap();
            assert_eq!(settled.result, ProposalResult::Tools);
            let runs = hand.runs.lock().unwrap().clone();
            assert_eq!(runs.len(), 1, "nothing but the new call runs");
            let again = interrupted.iter().find(|lost| runs.contains(&lost.idempotency_key));
            assert_eq!(again, None, "a key is used once");
            run.written().await.unwrap();
        });
        scene.decides_the_same();
        continued += 1;
    }
    assert!(continued > 20, "the log has {continued} places");
    assert_eq!(running, 4, "two of each batch");
}

/// A journal that fails ends the run: whoever waits is informed, and nothing more is begun.
#[test]
fn a_session_that_cannot_be_written_stops_the_run() {
    use unfazed::engine::{Directives, Envelope, State};
    use unfazed::host::{Journal, JournalError};

    struct Full(Arc<AtomicU32>);

    impl Journal for Full {
        fn event(&mut self, _: &Envelope) -> Result<(), JournalError> {
            let left = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
            left.map(drop).map_err(|_| JournalError("no space left on device".into()))
        }

        fn directives(&mut self, _: &str, _: &Directives, _: &State) -> Result<(), JournalError> {
            Ok(())
        }
    }

    block_on(async {
        let full = Full(Arc::new(2.into()));
        let run = DrivenRun::start_with(interpreter(POLICY), started(), full, Clock::system()).unwrap();
        let hand = Hand::default();
        let error = run.tools(call("quick"), None, &hand).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "the session cannot be written, so the run stops: no space left on device"
        );
        assert!(matches!(run.tools(call("quick"), None, &hand).await, Err(ProposalError::Stopped)));
        assert_eq!(hand.runs.lock().unwrap().len(), 1);
    });
}
