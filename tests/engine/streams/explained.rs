//! What `explain` says of a failure is what the interpreter does after it.

use unfazed::analysis::RequestCure;
use unfazed::analysis::explain_failure;
use unfazed::context::{ByteEstimate, measure};
use unfazed::engine::{
    DirectiveKind, Directives, DriveMode, Envelope, Event, Failure, Interpreter, Note, RetryAction,
    RunStarted, State, ToolCatalogue, ToolFacts, Work,
};
use unfazed::policy::{ErrorClass, Policy};
use unfazed::session::{Message, StopReason};
use unfazed::time::{Instant, Nanos};

use super::failures::failure;
use super::host::{interpreter, tools};
use super::policies::{POLICIES, made};
use super::tape::Tape;

/// What the interpreter does after the first attempt of a turn failed.
#[derive(Debug, Default)]
struct Done {
    cure: Option<RequestCure>,
    again: Option<Nanos>,
    reason: Option<StopReason>,
}

/// Lets the only model of a run fail once.
fn done(interpreter: &Interpreter, failure: &Failure) -> Done {
    let started = RunStarted {
        run: "run".into(),
        drive: DriveMode::Turns,
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
        let failed = list.iter().any(|one| matches!(one.order, DirectiveKind::Note(Note::TurnRetry(_))));
        if failed {
            return list.into_iter().fold(Done::default(), |done, one| done.with(one.order));
        }
        let next = list.into_iter().find_map(|one| match one.order {
            DirectiveKind::Work(Work::PrepareTurn(turn)) => {
                Some(Ok(turn.prepared(measure(&ByteEstimate, &conversation, &[]))))
            }
            DirectiveKind::Work(Work::CallModel(call)) => Some(Ok(call.failed(failure.clone()))),
            DirectiveKind::Work(Work::RepairHistory(_)) => Some(Err(RequestCure::Repaired)),
            DirectiveKind::Work(Work::ReduceContext(_) | Work::Summarize(_)) => {
                Some(Err(RequestCure::Reduced))
            }
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
    fn with(self, order: DirectiveKind) -> Self {
        match order {
            DirectiveKind::Note(Note::TurnRetry(retry)) if retry.action == RetryAction::Retry => {
                Self { again: Some(retry.backoff), ..self }
            }
            DirectiveKind::Note(Note::Exhausted { exhausted, .. }) => {
                Self { reason: Some(exhausted.reason), ..self }
            }
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

/// How the attempts at a model end that always times out at once: how many there are, and why no other follows.
fn attempts(interpreter: &Interpreter) -> (u32, StopReason) {
    let started = RunStarted {
        run: "run".into(),
        drive: DriveMode::Turns,
        task: "do it".into(),
        targets: vec!["main".into()],
        ..RunStarted::default()
    };
    let conversation = [Message::User { text: "do it".into(), guidance: None }];
    let (mut state, mut event) = (State::new(), Event::RunStarted(started));
    let (mut now, mut attempts) = (Instant(0), 0);
    loop {
        let envelope = Envelope { seq: state.seq + 1, now, event };
        let mut next = None;
        for directive in interpreter.step(&mut state, envelope).0 {
            match directive.order {
                DirectiveKind::Note(Note::Exhausted { exhausted, .. }) => {
                    return (attempts, exhausted.reason);
                }
                DirectiveKind::Work(Work::PrepareTurn(turn)) => {
                    next = Some(turn.prepared(measure(&ByteEstimate, &conversation, &[])));
                }
                DirectiveKind::Work(Work::CallModel(call)) => {
                    attempts += 1;
                    next = Some(call.failed(Failure::of(ErrorClass::Timeout, "it took too long")));
                }
                DirectiveKind::Work(Work::Wait(wait)) => {
                    now = wait.until;
                    next = Some(wait.fired());
                }
                _ => {}
            }
        }
        event = next.expect("the run has work until its model is given up");
    }
}

/// The opening lines say how often a model is called and what ends that: the same as the interpreter does.
#[test]
fn the_opening_lines_name_what_ends_the_attempts() {
    let (mut by_number, mut by_time) = (0, 0);
    for seed in 0..500 {
        let mut t = Tape::from_seed(seed);
        let most = t.of(&["1", "2", "4", "9", "16"]);
        let cap = t.of(&["1s", "20s", "1m"]);
        let own = t.of(&["unlimited", "0s", "5s", "40s"]);
        let (turn, run) = (t.of(&["0s", "7s", "2m", "5m"]), t.of(&["3s", "1m", "10m"]));
        let text = format!(
            "version: 1
models:
  '*':
    retry:
      max_attempts: {most}
      total_delay: {own}
      backoff: {{kind: exponential, base: 1s, factor: 2, cap: {cap}, jitter: none}}
turn: {{total_delay: {turn}, run_delay: {run}}}
"
        );
        let policy = Policy::from_yaml("p.yaml", &text).unwrap();
        let (attempts, reason) = attempts(&Interpreter::new(policy.clone(), ToolCatalogue::default()));
        let brief = policy.explain_model("main").brief();
        let line = |title: &str| {
            brief.lines().find_map(|line| line.trim_start().strip_prefix(title)).unwrap().trim()
        };
        let plural = if attempts == 1 { "attempt" } else { "attempts" };
        let case = format!("{attempts} attempts, {reason:?}\n{brief}\n{text}");
        assert!(line("how often").starts_with(&format!("{attempts} {plural};")), "{case}");
        let ends = line("ends with");
        if reason == StopReason::Attempts {
            by_number += 1;
            assert!(ends.starts_with(&format!("max_attempts {most} ")), "{case}");
        } else {
            by_time += 1;
            let named = ["total_delay ", "turn.total_delay ", "turn.run_delay "];
            assert!(named.iter().any(|name| ends.starts_with(name)), "{case}");
        }
    }
    assert!(by_number > 50 && by_time > 50, "{by_number} and {by_time}");
}
