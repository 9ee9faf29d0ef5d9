//! What `explain` says of a failure is what the interpreter does after it.

use unfazed::analysis::explain_failure;
use unfazed::context::{Estimate, measure};
use unfazed::engine::{
    Directives, Drive, Envelope, Event, Failure, Interpreter, Note, Order, RetryAction, RunStarted, State,
    ToolFacts, Work,
};
use unfazed::policy::Cure;
use unfazed::session::{Message, StopReason};
use unfazed::time::{Instant, Nanos};

use crate::failures::failure;
use crate::host::{interpreter, tools};
use crate::policies::{POLICIES, made};
use crate::tape::Tape;

/// What the interpreter does after the first attempt of a turn failed.
#[derive(Debug, Default)]
struct Done {
    cure: Option<Cure>,
    again: Option<Nanos>,
    reason: Option<StopReason>,
}

/// Lets the only model of a run fail once.
fn done(interpreter: &Interpreter, failure: &Failure) -> Done {
    let started = RunStarted {
        run: "run".into(),
        drive: Drive::Turns,
        task: "do it".into(),
        targets: vec!["main".into()],
        tools: tools().iter().map(ToolFacts::from).collect(),
        ..RunStarted::default()
    };
    let conversation = [Message::User { text: "do it".into(), guidance: None }];
    let (mut state, mut event) = (State::new(), Event::RunStarted(started));
    loop {
        let envelope = Envelope { seq: state.seq + 1, now: Instant(0), event };
        let Directives(list) = interpreter.step(&mut state, envelope);
        let failed = list.iter().any(|one| matches!(one.order, Order::Note(Note::TurnRetry(_))));
        if failed {
            return list.into_iter().fold(Done::default(), |done, one| done.with(one.order));
        }
        let next = list.into_iter().find_map(|one| match one.order {
            Order::Work(Work::PrepareTurn(turn)) => {
                Some(Ok(turn.prepared(measure(&Estimate, &conversation, &[]))))
            }
            Order::Work(Work::CallModel(call)) => Some(Ok(call.failed(failure.clone()))),
            Order::Work(Work::RepairHistory(_)) => Some(Err(Cure::Repaired)),
            Order::Work(Work::ReduceContext(_) | Work::Summarize(_)) => Some(Err(Cure::Reduced)),
            _ => None,
        });
        match next {
            Some(Ok(next)) => event = next,
            Some(Err(cure)) => return Done { cure: Some(cure), ..Done::default() },
            None => return Done::default(),
        }
    }
}

impl Done {
    fn with(self, order: Order) -> Self {
        match order {
            Order::Note(Note::TurnRetry(retry)) if retry.action == RetryAction::Retry => {
                Self { again: Some(retry.backoff), ..self }
            }
            Order::Note(Note::Exhausted { exhausted, .. }) => Self { reason: Some(exhausted.reason), ..self },
            _ => self,
        }
    }
}

#[test]
fn explain_says_of_a_failure_what_the_interpreter_does() {
    let mut compared = 0;
    for seed in 0..4_000 {
        let mut t = Tape::from_seed(seed);
        let made = made(t.below(POLICIES));
        let mut failure = failure(&mut t);
        failure.received = 0;
        failure.should_retry = t.of(&[None, Some(true), Some(false)]);
        // A call that can be read in the message is a reply, and no failure.
        if failure.message != "it broke" {
            continue;
        }
        let told = explain_failure(&made.policy, &made.policy.explain_model("main"), &failure).unwrap();
        let done = done(&interpreter(&made.policy), &failure);
        let case = || format!("{failure:?}\n{done:?}\n{}\n{}", told.human(), made.text);
        // What the run has left, and what a reducer objects to, is no matter of the failure.
        if matches!(done.reason, Some(StopReason::ReducerError | StopReason::Budget | StopReason::RunBudget))
        {
            continue;
        }
        compared += 1;
        assert_eq!(told.cure.as_ref().map(|(cure, _)| *cure), done.cure, "{}", case());
        if done.cure.is_some() {
            continue;
        }
        assert_eq!(told.action.runs_again(), done.again.is_some(), "{}", case());
        if let (Some(least), Some(waits)) = (told.first_wait, done.again) {
            assert!(waits >= least, "{}", case());
        }
    }
    assert!(compared > 2_000, "compared {compared} failures only");
}
