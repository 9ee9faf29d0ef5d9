//! The order of models within a turn.
//!
//! Pure, like [`retry`](super::retry): shared by the interpreter and the guards.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::directive::{RetryAction, TurnRetry};
use crate::policy::{Advance, ErrorClass, ModelPolicy, TargetWait, TargetsPolicy};
use crate::session::StopReason;
use crate::time::{Instant, Nanos};

/// The position of a turn in its list of models.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TargetRotation {
    /// The current model.
    current: usize,
    /// Models that are no longer called in this turn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    left: Vec<usize>,
    /// The earliest time of the next call, by model.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    not_before: BTreeMap<usize, Instant>,
    /// The model of each failed attempt of this turn, with [`Advance::Rotate`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tried: Vec<usize>,
    /// The time spent waiting for models in this turn.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    waited: Nanos,
    /// The round in flight.
    #[serde(default, skip_serializing_if = "TargetRound::is_new")]
    round: TargetRound,
}

/// One round through the models.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct TargetRound {
    /// The number of failed attempts in it.
    failed: usize,
    /// The number of attempts that failed because of a server's limit.
    limited: usize,
    /// The longest delay.
    wait: Nanos,
}

/// The policy's decision about a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AttemptDisposition {
    /// Another attempt follows after this delay.
    Again {
        /// The delay; zero: it is called at once.
        delay: Nanos,
        /// Whether a server's limit is the reason.
        limited: bool,
    },
    /// The model is not called again in this turn.
    Leave,
}

/// The next model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextTarget {
    /// Call this model, after this delay, or at once if that is zero.
    Ask {
        /// The index in the list of models.
        target: usize,
        /// The delay.
        delay: Nanos,
    },
    /// No model is left.
    None,
    /// Models are left, but the delay of each is too long.
    Late,
}

impl AttemptDisposition {
    /// Another attempt after a failure of this class. A server's limit counts as one only with a delay: otherwise the
    /// model may be called again at once.
    pub(crate) fn again(class: impl Into<Option<ErrorClass>>, delay: Nanos) -> Self {
        // Without a delay the attempt must not make its round one of limits, or the turn would wait although the
        // model may be called.
        let limited = class.into().is_some_and(ErrorClass::is_a_limit) && !delay.is_zero();
        Self::Again { delay, limited }
    }
}

/// Whether a turn begins with another model rather than waiting so long, as it would fall back to one after a failure of its own.
pub(crate) fn passes_over(rules: &TargetsPolicy, pause: impl FnOnce() -> Nanos) -> bool {
    let shortest = match rules.fallback.value {
        Advance::Rotate => rules.fallback_after.value.length(),
        Advance::Attempt => Some(Nanos::ZERO),
        Advance::Exhausted | Advance::Skip => None,
    };
    rules.wait.value == TargetWait::Target && shortest.is_some_and(|shortest| pause() > shortest)
}

impl TargetRotation {
    /// The index of the current model.
    pub(crate) const fn current(&self) -> usize {
        self.current
    }

    /// Begins a turn with `count` models, with the first that is not in cooldown. A model that does not fit is
    /// skipped in this turn; if none fits, the first is used.
    pub(crate) fn begin(count: usize, rests: impl Fn(usize) -> bool, fits: impl Fn(usize) -> bool) -> Self {
        // The provider would refuse a conversation above its window, so the call is not made.
        let left: Vec<usize> = (0..count).filter(|target| !fits(*target)).collect();
        let free = |target: &usize| !left.contains(target);
        let rested = (0..count).filter(free).find(|target| !rests(*target));
        // A model in cooldown may answer all the same; a turn without a model cannot.
        let current = rested.or_else(|| (0..count).find(free)).unwrap_or_default();
        Self { current, left, ..Self::default() }
    }

    /// Begins the turn again after an unusable reply: with one attempt per model, with the next one that is left.
    pub(crate) fn begin_again(
        &mut self,
        rules: &TargetsPolicy,
        count: usize,
        rests: impl Fn(usize) -> bool,
        fits: impl Fn(usize) -> bool,
    ) {
        let before = core::mem::replace(self, Self::begin(count, &rests, fits));
        // The time waited belongs to the turn and is kept: otherwise each repetition would renew the limit.
        self.waited = before.waited;
        // With one attempt per model, an invalid reply is an ordinary attempt: the turn must not return to the first
        // model (ai-agent moves its cursor with each attempt).
        if rules.fallback.value == Advance::Attempt {
            self.left.extend(
                before.left.iter().filter(|left| !self.left.contains(left)).copied().collect::<Vec<_>>(),
            );
            self.not_before = before.not_before;
            self.current = before.current;
            if let Some(next) = self.in_order(count, rests).first() {
                self.current = *next;
            }
        }
    }

    /// Whether a model is no longer called in this turn.
    pub(crate) fn is_left(&self, target: usize) -> bool {
        self.left.contains(&target)
    }

    /// The earliest time at which a model is called, while others are available.
    pub(crate) fn not_before(&self, target: usize) -> Instant {
        self.not_before.get(&target).copied().unwrap_or_default()
    }

    /// Adds a delay to the time waited.
    pub(crate) const fn waits(&mut self, delay: Nanos) {
        self.waited = self.waited.saturating_add(delay);
    }

    /// The time spent waiting for models in the turn.
    pub(crate) const fn waited(&self) -> Nanos {
        self.waited
    }

    /// The number of models that can still be called, without the current one.
    pub(crate) fn remaining(&self, count: usize) -> usize {
        (0..count).filter(|target| *target != self.current && !self.left.contains(target)).count()
    }

    /// Handles a failed attempt at the current model, of `attempts` in the turn. Models in cooldown are used only if no other
    /// is left; `in_time` decides whether a delay for a model is acceptable.
    pub(crate) fn failed(
        &mut self,
        rules: &TargetsPolicy,
        (attempts, count): (usize, usize),
        fate: AttemptDisposition,
        rests: impl Fn(usize) -> bool,
        in_time: impl Fn(usize, Nanos) -> bool,
        now: Instant,
    ) -> NextTarget {
        // Only in this mode each model has its own attempts; otherwise the list would only enlarge the state. A model that is
        // left before it was called, such as one whose pace lets it start too late, has had no attempt.
        if rules.fallback.value == Advance::Rotate && self.tried.len() < attempts {
            self.tried.push(self.current);
        }
        let (open, round, due) = match fate {
            // A fallback list is an order of preference: the first model uses up its attempts before the next one is
            // called, as in supyagent and LiteLLM.
            AttemptDisposition::Again { delay, .. } if !rules.fallback.value.goes_round() => {
                let target = self.current;
                // A delay of zero needs no timer, so it is never too long.
                let possible = delay.is_zero() || in_time(target, delay);
                return if possible { NextTarget::Ask { target, delay } } else { NextTarget::Late };
            }
            AttemptDisposition::Again { delay, .. }
                if self.stays(rules, delay) && (delay.is_zero() || in_time(self.current, delay)) =>
            {
                return NextTarget::Ask { target: self.current, delay };
            }
            AttemptDisposition::Again { delay, limited } => {
                // This time applies to the model in any order, so returning early cannot shorten the wait.
                self.not_before.insert(self.current, now.saturating_add(delay));
                self.round.failed = self.round.failed.saturating_add(1);
                self.round.limited = self.round.limited.saturating_add(usize::from(limited));
                self.round.wait = self.round.wait.max(delay);
                let open = self.in_order(count, rests);
                // Meanwhile another model could be called; with a single model there is none, so its delay is waited
                // for.
                let wait = if open.len() <= 1 { TargetWait::Turn } else { rules.wait.value };
                let round = self.round;
                let due = self.due(wait, &open, delay, now);
                (open, round, due)
            }
            AttemptDisposition::Leave => {
                self.left.push(self.current);
                let open = self.in_order(count, rests);
                // The abandoned model is not called again, so its delay does not count; only the remaining ones have
                // one.
                let wait = match rules.wait.value {
                    TargetWait::Turn => TargetWait::Target,
                    wait => wait,
                };
                let round = self.round;
                let due = self.due(wait, &open, Nanos::ZERO, now);
                (open, round, due)
            }
        };
        if due.is_none() {
            return NextTarget::None;
        }
        let possible = |(target, wait): &(usize, Nanos)| wait.is_zero() || in_time(*target, *wait);
        // If the planned wait ends too late, a model that is available earlier may still answer in time.
        let next = due.filter(possible).or_else(|| self.soonest(&open, now).filter(possible));
        let Some((target, delay)) = next else {
            // No call follows, so the round has not ended: its counters are restored.
            self.round = round;
            return NextTarget::Late;
        };
        self.current = target;
        NextTarget::Ask { target, delay }
    }

    /// The number of attempts of the turn that do not count for the current model: those of other models, if each
    /// model has its own attempts.
    pub(crate) fn beside(&self) -> u32 {
        let others = self.tried.iter().filter(|target| **target != self.current).count();
        // More than `u32` can count are far more than any limit allows, so saturating decides the same.
        u32::try_from(others).unwrap_or(u32::MAX)
    }

    /// Whether an attempt of the turn, by its index from 0, was at the current model.
    pub(crate) fn is_own(&self, attempt: usize) -> bool {
        self.tried.get(attempt).is_none_or(|target| *target == self.current)
    }

    /// Whether the next attempt uses the same model after this delay, though there are others.
    fn stays(&self, rules: &TargetsPolicy, delay: Nanos) -> bool {
        let tried = self.tried.iter().filter(|target| **target == self.current).count();
        let tried = u32::try_from(tried).unwrap_or(u32::MAX);
        // During a longer wait another model can be called.
        let short = rules.fallback_after.value.length().is_none_or(|longest| delay <= longest);
        rules.fallback.value == Advance::Rotate && short && rules.attempts.value.allow_after(tried)
    }

    /// The next model and its delay.
    fn due(
        &mut self,
        wait: TargetWait,
        open: &[usize],
        delay: Nanos,
        now: Instant,
    ) -> Option<(usize, Nanos)> {
        match wait {
            TargetWait::Turn => open.first().map(|target| (*target, delay)),
            TargetWait::Target => self.soonest(open, now),
            TargetWait::Round => open.first().map(|target| (*target, self.end_of_round(open.len()))),
        }
    }

    /// The possible models: those after the current one first, the current one last, and those in cooldown after all
    /// others.
    fn in_order(&self, count: usize, rests: impl Fn(usize) -> bool) -> Vec<usize> {
        let after = self.current.saturating_add(1);
        // The current model comes last, so that a rotation reaches every model before it repeats one.
        let all = (after..count).chain(0..after.min(count));
        let (resting, mut open): (Vec<usize>, Vec<usize>) =
            all.filter(|target| !self.left.contains(target)).partition(|target| rests(*target));
        // Models in cooldown come last instead of being left out: if all are in cooldown, one must be called.
        open.extend(resting);
        open
    }

    /// The model that may be called first, and its delay.
    fn soonest(&self, open: &[usize], now: Instant) -> Option<(usize, Nanos)> {
        let wait = |target: &usize| self.not_before.get(target).map_or(Nanos::ZERO, |at| at.since(now));
        // Of equal ones the first is chosen, so the order of preference decides.
        open.iter().map(|target| (*target, wait(target))).min_by_key(|(_, wait)| *wait)
    }

    /// The longest delay of a completed round, if every attempt of it met a limit.
    fn end_of_round(&mut self, open: usize) -> Nanos {
        if self.round.failed < open {
            return Nanos::ZERO;
        }
        let round = core::mem::take(&mut self.round);
        // As in ai-agent (`rateLimitedInCycle`): the turn waits for a round only if all its targets were limited. A
        // target that failed otherwise may work at once.
        if round.limited == round.failed { round.wait } else { Nanos::ZERO }
    }
}

/// Whether a fallback may follow when attempts end for this reason, after a failure of this class. The number is that
/// of the failed attempt; `true`: no time is left, not even for an attempt without a delay.
pub(crate) type FallbackRule = fn(&TargetsPolicy, &ModelPolicy, StopReason, ErrorClass, u32, bool) -> bool;

/// A [`FallbackRule`].
pub(crate) fn falls_back(
    rules: &TargetsPolicy,
    model: &ModelPolicy,
    reason: StopReason,
    class: ErrorClass,
    attempt: u32,
    late: bool,
) -> bool {
    !model.no_fallback_on.value.contains(class)
        && falls_back_in_any_class(rules, model, reason, class, attempt, late)
}

/// The same, as if `no_fallback_on` were empty.
pub(crate) fn falls_back_in_any_class(
    rules: &TargetsPolicy,
    model: &ModelPolicy,
    reason: StopReason,
    class: ErrorClass,
    attempt: u32,
    late: bool,
) -> bool {
    // If one limit counts the attempts at all models, reaching it ends the turn at any model.
    let most = model.retry.for_class(class).max_attempts.value.limit();
    let used_up = reason == StopReason::Attempts || most.is_some_and(|most| attempt >= most);
    // A delay that is too long concerns one model; a passed deadline concerns all of them.
    let over = reason == StopReason::Deadline && late;
    let spent = over || (used_up && rules.fallback.value.counts_together());
    !spent && model.retry.allows_fallback(reason, class)
}

/// The record of a model that is skipped because the request exceeds its window. `learned`: the window from a
/// refusal.
pub(crate) fn passed_over(
    target: String,
    next: Option<String>,
    remaining: usize,
    tokens: u64,
    learned: Option<String>,
) -> TurnRetry {
    let retry = TurnRetry {
        action: RetryAction::SkipProvider,
        log_message: String::new(),
        error_type: ErrorClass::ContextOverflow,
        backoff: Nanos::ZERO,
        system_message: None,
        sources: vec!["context_window".to_owned()],
        next_target: next,
        remaining: u32::try_from(remaining).unwrap_or(u32::MAX),
        target,
    };
    let learned = learned.map(|window| format!(", {window}")).unwrap_or_default();
    retry.logged(&format!("{tokens} tokens are too many for its window{learned}"))
}

impl TargetRound {
    fn is_new(&self) -> bool {
        *self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::ErrorAction;
    use crate::policy::{AttemptLimit, Origin, Policy, Setting, TimeBound};
    use core::num::NonZeroU32;
    use proptest::prelude::*;

    const NOW: Instant = Instant(1_000_000_000_000);

    fn rules(advance: Advance, wait: TargetWait) -> TargetsPolicy {
        TargetsPolicy {
            fallback: Setting::new(advance, Origin::BUILTIN),
            attempts: Setting::new(AttemptLimit::Limited(NonZeroU32::MIN), Origin::BUILTIN),
            fallback_after: Setting::new(TimeBound::Within(Nanos::ZERO), Origin::BUILTIN),
            wait: Setting::new(wait, Origin::BUILTIN),
        }
    }

    const fn limited(secs: u64) -> AttemptDisposition {
        AttemptDisposition::Again { delay: Nanos::from_secs(secs), limited: true }
    }

    const fn broken(secs: u64) -> AttemptDisposition {
        AttemptDisposition::Again { delay: Nanos::from_secs(secs), limited: false }
    }

    /// Plays attempts at two models. Returns the called models with their delays, in seconds.
    fn played(advance: Advance, wait: TargetWait, fates: &[AttemptDisposition]) -> Vec<(usize, u64)> {
        let (rules, mut now) = (rules(advance, wait), NOW);
        let mut rotation = TargetRotation::begin(2, |_| false, |_| true);
        let mut asked = Vec::new();
        for fate in fates {
            match rotation.failed(&rules, (usize::MAX, 2), *fate, |_| false, |_, _| true, now) {
                NextTarget::Ask { target, delay } => {
                    now = now.saturating_add(delay);
                    asked.push((target, delay.0 / 1_000_000_000));
                }
                NextTarget::None | NextTarget::Late => asked.push((9, 0)),
            }
        }
        asked
    }

    #[test]
    fn a_model_is_asked_until_its_attempts_are_exhausted() {
        let fates = [limited(1), broken(2), AttemptDisposition::Leave, limited(4), AttemptDisposition::Leave];
        let expected = [(0, 1), (0, 2), (1, 0), (1, 4), (9, 0)];
        assert_eq!(played(Advance::Exhausted, TargetWait::Target, &fates), expected);
    }

    #[test]
    fn a_model_may_be_asked_until_no_attempt_at_it_makes_sense() {
        let fates = [limited(1), broken(2), AttemptDisposition::Leave, limited(4), AttemptDisposition::Leave];
        for wait in [TargetWait::Target, TargetWait::Round, TargetWait::Turn] {
            assert_eq!(played(Advance::Skip, wait, &fates), [(0, 1), (0, 2), (1, 0), (1, 4), (9, 0)]);
        }
    }

    #[test]
    fn where_attempts_count_together_the_last_one_is_the_last_whatever_it_meets() {
        let policy =
            Policy::from_yaml("p.yaml", "version: 1\nmodels: {m: {retry: {max_attempts: 3}}}\n").unwrap();
        let model = policy.model("m");
        for (advance, expected) in [
            (Advance::Exhausted, [true, true]),
            (Advance::Attempt, [true, false]),
            (Advance::Skip, [true, false]),
        ] {
            let rules = rules(advance, TargetWait::Target);
            let class = ErrorClass::NotFound;
            let falls_back =
                |attempt| falls_back(&rules, &model, StopReason::NeverRetry, class, attempt, false);
            assert_eq!([falls_back(2), falls_back(3)], expected, "{advance:?}");
        }
    }

    #[test]
    fn a_round_is_waited_for_only_if_every_model_of_it_is_limited_and_then_for_the_longest() {
        let both = [limited(2), limited(5), limited(1)];
        assert_eq!(played(Advance::Attempt, TargetWait::Round, &both), [(1, 0), (0, 5), (1, 0)]);
        let one = [limited(2), broken(7), limited(3), limited(1)];
        assert_eq!(played(Advance::Attempt, TargetWait::Round, &one), [(1, 0), (0, 0), (1, 0), (0, 3)]);
    }

    #[test]
    fn a_model_that_asked_for_a_wait_is_not_asked_before_while_others_are() {
        let fates = [limited(9), broken(2), limited(4), limited(4)];
        assert_eq!(played(Advance::Attempt, TargetWait::Target, &fates), [(1, 0), (1, 2), (1, 4), (0, 3)]);
    }

    #[test]
    fn a_wait_that_takes_too_long_is_left_out_for_a_model_that_need_not_be_waited_for() {
        let in_time = |_, wait: Nanos| wait < Nanos::from_secs(3);
        for (wait, fates, expected) in [
            (TargetWait::Turn, vec![limited(5)], NextTarget::Ask { target: 1, delay: Nanos::ZERO }),
            (
                TargetWait::Round,
                vec![limited(5), limited(2)],
                NextTarget::Ask { target: 1, delay: Nanos::from_secs(2) },
            ),
            (TargetWait::Round, vec![limited(5), limited(4)], NextTarget::Late),
            (TargetWait::Target, vec![limited(5), AttemptDisposition::Leave], NextTarget::Late),
        ] {
            let (rules, mut rotation) =
                (rules(Advance::Attempt, wait), TargetRotation::begin(2, |_| false, |_| true));
            let mut next = NextTarget::None;
            for fate in fates {
                next = rotation.failed(&rules, (usize::MAX, 2), fate, |_| false, in_time, NOW);
            }
            assert_eq!(next, expected, "{wait:?}");
        }
    }

    #[test]
    fn every_failure_may_hold_back_the_turn() {
        assert_eq!(played(Advance::Attempt, TargetWait::Turn, &[limited(2), broken(3)]), [(1, 2), (0, 3)]);
    }

    #[test]
    fn one_that_is_left_is_not_asked_again_in_the_turn() {
        let fates = [AttemptDisposition::Leave, limited(5), broken(1), AttemptDisposition::Leave];
        assert_eq!(played(Advance::Attempt, TargetWait::Round, &fates), [(1, 0), (1, 5), (1, 1), (9, 0)]);
    }

    #[test]
    fn those_that_rest_come_last_and_those_that_do_not_fit_never() {
        let rests = |target| target == 0;
        let mut rotation = TargetRotation::begin(3, rests, |target| target != 2);
        assert_eq!((rotation.current(), rotation.remaining(3)), (1, 1));
        let rules = rules(Advance::Exhausted, TargetWait::Target);
        let next =
            rotation.failed(&rules, (usize::MAX, 3), AttemptDisposition::Leave, rests, |_, _| true, NOW);
        assert_eq!(next, NextTarget::Ask { target: 0, delay: Nanos::ZERO });
        assert_eq!(
            rotation.failed(&rules, (usize::MAX, 3), AttemptDisposition::Leave, rests, |_, _| true, NOW),
            NextTarget::None
        );
    }

    #[test]
    fn explain_says_after_which_classes_another_model_is_called() {
        for rules in [
            "models: {m: {no_fallback_on: [auth_error, timeout]}}",
            "turn: {targets: {fallback: attempt}}",
            "turn: {targets: {fallback: skip}}",
            "turn: {targets: {fallback: skip}}\nmodels: {m: {retry: {max_attempts: 1}}}",
            "turn: {targets: {fallback: attempt}}\nmodels: {m: {retry: {max_attempts: 1}, no_fallback_on: [auth_error]}}",
            "models: {m: {retry: {enabled: false, max_attempts: 1}}}",
        ] {
            let policy = Policy::from_yaml("p.yaml", &format!("version: 1\n{rules}\n")).unwrap();
            let (model, explained) = (policy.model("m"), policy.explain_model("m"));
            for class in ErrorClass::ALL {
                let reason = match explained.on_error(*class).action {
                    ErrorAction::NeverRetried => StopReason::NeverRetry,
                    ErrorAction::NotRetried if !model.retry.retries(*class) => StopReason::NotRetryable,
                    _ => StopReason::Attempts,
                };
                let then = explained.on_error(*class).then;
                let told = then.contains("the next model of the agent is called");
                assert_eq!(
                    told,
                    falls_back(&policy.turn().targets, &model, reason, *class, 1, false),
                    "{rules} {class}: {then}"
                );
                // The end is not always a number of attempts; a delay that is too long ends the attempts at this
                // model only.
                if reason == StopReason::Attempts
                    && policy.turn().targets.fallback.value == Advance::Exhausted
                {
                    for reason in [StopReason::Deadline, StopReason::TotalDelay] {
                        assert_eq!(
                            told,
                            falls_back(&policy.turn().targets, &model, reason, *class, 1, false)
                        );
                    }
                    assert!(!falls_back(
                        &policy.turn().targets,
                        &model,
                        StopReason::Deadline,
                        *class,
                        1,
                        true
                    ));
                }
            }
        }
    }

    #[test]
    fn a_turn_that_begins_once_more_goes_on_with_the_next_model_that_is_left() {
        let mut rotation = TargetRotation::begin(3, |_| false, |_| true);
        let rules = |advance| rules(advance, TargetWait::Round);
        rotation.failed(
            &rules(Advance::Attempt),
            (usize::MAX, 3),
            AttemptDisposition::Leave,
            |_| false,
            |_, _| true,
            NOW,
        );
        let mut asked = vec![rotation.current()];
        for _ in 0..3 {
            rotation.begin_again(&rules(Advance::Attempt), 3, |_| false, |_| true);
            asked.push(rotation.current());
        }
        assert_eq!(asked, [1, 2, 1, 2]);
        rotation.begin_again(&rules(Advance::Exhausted), 3, |_| false, |_| true);
        assert_eq!((rotation.current(), rotation.remaining(3)), (0, 2));
    }

    proptest! {
        /// For any sequence: no abandoned model is called, the delays are no longer than requested, and a model is
        /// missing only if all were abandoned. With `rotate` the attempts of each model are counted separately.
        #[test]
        fn a_rotation_asks_only_those_that_are_left(
            count in 1usize..5, advance in 0u8..4, wait in 0u8..3,
            fates in proptest::collection::vec(proptest::option::of((0u64..60, proptest::bool::ANY)), 1..40),
            most in 0u64..60,
        ) {
            let advance =
                [Advance::Exhausted, Advance::Attempt, Advance::Skip, Advance::Rotate][usize::from(advance)];
            let wait = [TargetWait::Target, TargetWait::Round, TargetWait::Turn][usize::from(wait)];
            let (rules, mut now, mut longest) = (rules(advance, wait), NOW, 0);
            let mut rotation = TargetRotation::begin(count, |_| false, |_| true);
            let (mut left, mut failed) = (Vec::new(), vec![0_u32; count]);
            for fate in fates {
                let asked = rotation.current();
                failed[asked] += 1;
                let fate = if let Some((secs, limited)) = fate {
                    longest = longest.max(secs);
                    AttemptDisposition::Again { delay: Nanos::from_secs(secs), limited }
                } else {
                    left.push(asked);
                    AttemptDisposition::Leave
                };
                match rotation.failed(&rules, (usize::MAX, count), fate, |_| false, |_, wait| wait <= Nanos::from_secs(most), now) {
                    NextTarget::Ask { target, delay } => {
                        prop_assert!(!left.contains(&target) && target < count);
                        // The model in flight is held against its limits before it is asked again.
                        prop_assert!(!advance.goes_round() || delay <= Nanos::from_secs(most));
                        let others: u32 = failed.iter().sum::<u32>() - failed[target];
                        let beside = if advance == Advance::Rotate { others } else { 0 };
                        prop_assert_eq!(rotation.beside(), beside);
                        prop_assert!(delay <= Nanos::from_secs(longest));
                        now = now.saturating_add(delay);
                    }
                    NextTarget::None => {
                        prop_assert_eq!(left.len(), count);
                        break;
                    }
                    NextTarget::Late => {
                        prop_assert!(longest > most && left.len() < count);
                        break;
                    }
                }
            }
        }
    }
}
