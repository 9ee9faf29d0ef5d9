//! The six invariants of an agent's turns, each under its name. What a turn was is kept here, apart from the state of
//! the interpreter; of that it is only asked which models rest and which may not be asked yet.

use std::collections::{BTreeMap, BTreeSet};

use unfazed::engine::{CallModel, Note, PrepareTurn, RetryAction, RunTool, State, TurnRetry};
use unfazed::policy::{Advance, ErrorClass, Policy};
use unfazed::session::Message;
use unfazed::time::Instant;

#[derive(Default)]
pub(crate) struct Invariants {
    /// The turn in flight; 0: a host drives the run.
    turn: u32,
    /// The turn that was announced as the last.
    last_turn: Option<u32>,
    /// The run was asked to end: nothing is waited for any more.
    stopped: bool,
    /// Calls of each model in this turn.
    calls: BTreeMap<String, u32>,
    /// The model that was called last in this turn, with the attempt.
    asked: Option<(String, u32)>,
    /// Whether the provider asked for a wait when it failed.
    hinted: bool,
    /// What was decided since.
    decided: Option<Decided>,
    /// How the last attempt at each model failed in this turn.
    failed: BTreeMap<String, ErrorClass>,
    /// Models that are asked no more in this turn.
    left: BTreeSet<String>,
    /// No attempt is made any more in this turn.
    over: bool,
}

/// What was decided about a failed attempt.
struct Decided {
    next: Option<String>,
    /// The next attempt is not to start before.
    due: Instant,
}

impl Invariants {
    pub(crate) fn stop(&mut self) {
        self.stopped = true;
    }

    /// A call failed, or the reply is about to be judged.
    pub(crate) fn answered(&mut self, hinted: bool) {
        self.hinted = hinted;
    }

    pub(crate) fn prepare(&mut self, turn: &PrepareTurn, policy: &Policy) {
        let again = turn.turn == self.turn;
        // A turn that comes again for its report continues with the models there are, where each attempt is at the next.
        if !(again && policy.turn().targets.fallback.value == Advance::Attempt) {
            self.left.clear();
        }
        let (last_turn, stopped) = (self.last_turn, self.stopped);
        let left = std::mem::take(&mut self.left);
        *self = Self { turn: turn.turn, last_turn, stopped, left, ..Self::default() };
        let is_last = turn.turn >= turn.max_turns || last_turn.is_some_and(|last| turn.turn >= last);
        assert_eq!(
            turn.last, is_last,
            "invariant 6, final turn enforcement: {turn:?}, announced {last_turn:?}"
        );
    }

    pub(crate) fn note(&mut self, note: &Note, policy: &Policy, state: &State, targets: &[&str]) {
        match note {
            Note::FinalTurn { turn, .. } => {
                self.last_turn = Some(*turn);
            }
            Note::TurnRetry(retry) => self.retry(retry, policy, state, targets),
            _ => {}
        }
    }

    fn retry(&mut self, retry: &TurnRetry, policy: &Policy, state: &State, targets: &[&str]) {
        // It was not asked: it is passed over for the size of its window.
        if retry.sources == ["context_window"] {
            self.left.insert(retry.target.clone());
            return;
        }
        let TurnRetry { target, error_type: class, .. } = retry;
        self.failed.insert(target.clone(), *class);
        let model = policy.model(target);
        let advance = policy.turn().targets.fallback.value;
        let exhausted = !advance.counts_together();
        match retry.action {
            RetryAction::Retry => {
                let retried = model.retry.retries(*class);
                assert!(retried, "invariant 4, fatal errors immediate: {class} of {target} is not retried");
                let used_up = if exhausted { self.calls[target] } else { self.calls.values().sum() };
                let rules = model.retry.for_class(*class);
                let most = rules.max_attempts.value.limit();
                let capped = most.is_none_or(|most| used_up < most);
                assert!(capped, "invariant 1, retry cap honored: {used_up} of {most:?} attempts: {retry:?}");
                // With `rotate` it is the wait for the model that is due, which need not be the one that failed.
                if advance == Advance::Exhausted && !self.hinted {
                    // The classes of what a model replied: it reads what was wrong, so it is asked after the wait of corrections.
                    use ErrorClass::{InvalidArgs, InvalidOutput, ToolNotFound};
                    let corrects = matches!(class, InvalidArgs | InvalidOutput | ToolNotFound);
                    let backoff = if corrects { &model.retry.correction_backoff } else { rules.backoff };
                    let (least, most) = backoff.value.bounds(used_up);
                    let within = (least..=most).contains(&retry.backoff);
                    assert!(within, "invariant 3, backoff respected: from {least} to {most}: {retry:?}");
                }
            }
            RetryAction::SkipProvider => {
                let aborts = model.no_fallback_on.value.contains(*class);
                assert!(!aborts, "invariant 4, fatal errors immediate: {class} of {target} ends the turn");
                self.left.insert(target.clone());
            }
            RetryAction::Abort => self.over = true,
        }
        if let Some(next) = &retry.next_target {
            let again = retry.action == RetryAction::Retry;
            if again && !advance.goes_round() {
                assert_eq!(next, target, "invariant 2, provider cycling: {target} has attempts left");
            } else if !(again && advance == Advance::Rotate && next == target) {
                self.in_order(retry, next, policy, state, targets);
            }
        }
        let due = state.now.saturating_add(retry.backoff);
        self.decided = Some(Decided { next: retry.next_target.clone(), due });
    }

    /// Nobody is passed over who can be asked: the models come one after the other, those that rest after all others.
    fn in_order(&self, retry: &TurnRetry, next: &str, policy: &Policy, state: &State, targets: &[&str]) {
        let rests = |target: &str| state.cools_down(target, &policy.model(target));
        let at = targets.iter().position(|target| *target == retry.target).unwrap();
        let cycle =
            targets[at + 1..].iter().chain(&targets[..=at]).filter(|target| !self.left.contains(**target));
        let (resting, mut order): (Vec<&str>, Vec<&str>) = cycle.copied().partition(|target| rests(target));
        order.extend(resting);
        let place = order.iter().position(|target| *target == next);
        let place =
            place.unwrap_or_else(|| panic!("invariant 2, provider cycling: {next} was left: {retry:?}"));
        let passed = order[..place].iter().find(|target| !state.is_held_back(target));
        assert_eq!(passed, None, "invariant 2, provider cycling: it could have been asked first: {retry:?}");
    }

    /// `false`: the same attempt is made again after a repair of the request, and is not counted.
    pub(crate) fn call(&mut self, call: &CallModel, policy: &Policy, now: Instant) -> bool {
        self.only_the_report(call, policy);
        let asked = self.asked.replace((call.target.clone(), call.attempt));
        let Some(decided) = self.decided.take() else {
            let repeated = asked.is_some();
            if let Some(before) = asked {
                let same = (call.target.clone(), call.attempt);
                assert_eq!(
                    before, same,
                    "invariant 1, retry cap honored: another attempt, and nothing decided it"
                );
            } else {
                self.count(call, policy);
            }
            return !repeated;
        };
        assert_eq!(decided.next.as_ref(), Some(&call.target), "invariant 2, provider cycling: {call:?}");
        let in_time = self.stopped || now >= decided.due;
        assert!(in_time, "invariant 3, backoff respected: {call:?} starts before {:?}", decided.due);
        assert!(!self.over, "invariant 4, fatal errors immediate: the turn was given up: {call:?}");
        assert!(!self.left.contains(&call.target), "invariant 4, fatal errors immediate: {call:?} was left");
        if let Some(class) = self.failed.get(&call.target) {
            let retried = policy.model(&call.target).retry.retries(*class);
            assert!(retried, "invariant 4, fatal errors immediate: {class} is not retried: {call:?}");
        }
        self.count(call, policy);
        true
    }

    fn count(&mut self, call: &CallModel, policy: &Policy) {
        *self.calls.entry(call.target.clone()).or_default() += 1;
        let most = |target: &String| {
            let retry = &policy.model(target).retry;
            let own = retry.by_class.iter().map(|(_, own)| own.max_attempts.value.limit());
            own.chain([retry.max_attempts.value.limit()]).try_fold(1, |most, own| Some(most.max(own?)))
        };
        let together = policy.turn().targets.fallback.value.counts_together();
        let (calls, most) = if together {
            // Attempts at all of them count together, by the rules of the one that failed.
            let most = self.calls.keys().map(most).try_fold(0, |largest, most| Some(largest.max(most?)));
            (self.calls.values().sum(), most)
        } else {
            (self.calls[&call.target], most(&call.target))
        };
        let capped = most.is_none_or(|most| calls <= most);
        assert!(capped, "invariant 1, retry cap honored: {calls} calls of at most {most:?}: {call:?}");
    }

    fn only_the_report(&self, call: &CallModel, policy: &Policy) {
        if self.last_turn.is_none_or(|last| call.turn < last) {
            return;
        }
        let report: Vec<&String> = policy.output().iter().map(|output| &output.tool.value).collect();
        let shown: Vec<&String> = call.tools.iter().collect();
        assert_eq!(shown, report, "invariant 6, final turn enforcement: {call:?}");
    }

    pub(crate) fn run(&self, run: &RunTool) {
        let last = self.turn > 0 && self.last_turn.is_some_and(|last| self.turn >= last);
        assert!(!last, "invariant 6, final turn enforcement: {run:?} in the final turn");
    }

    /// What a model call that failed has made of the conversation.
    pub(crate) fn integrity(before: &[Message], after: &[Message]) {
        let kept = after.get(..before.len());
        assert_eq!(kept, Some(before), "invariant 5, conversation integrity: what was there has changed");
        let told = |message: &Message| matches!(message, Message::User { guidance: Some(_), .. });
        let other = after[before.len()..].iter().find(|message| !told(message));
        assert_eq!(other, None, "invariant 5, conversation integrity: a failed attempt has left it");
    }
}
