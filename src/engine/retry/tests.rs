use super::*;
use crate::policy::{
    Backoff, BackoffShape, ByClass, ClassRetry, ClassSet, Jitter, RetryBudget, Setting, WaitSources,
};
use proptest::prelude::*;
use std::num::NonZeroU32;

const fn set<T>(value: T) -> Setting<T> {
    Setting::new(value, Origin::BUILTIN)
}

/// Three attempts, one second apart, for timeouts.
fn policy() -> RetryPolicy {
    let backoff =
        Backoff { shape: BackoffShape::Constant { delay: secs(1) }, cap: None, jitter: Jitter::None };
    RetryPolicy {
        enabled: set(true),
        max_attempts: set(AttemptLimit::Limited(NonZeroU32::new(3).unwrap())),
        retry_on: set(ClassSet::EMPTY.with(ErrorClass::Timeout)),
        never_retry: set(ClassSet::EMPTY),
        backoff: set(backoff.clone()),
        correction_backoff: set(Backoff { shape: BackoffShape::Constant { delay: secs(5) }, ..backoff }),
        server_delay: set(ServerDelay {
            mode: ServerDelayMode::Floor,
            margin: Nanos::ZERO,
            spread_ppm: 0,
            min: Nanos::ZERO,
            max: TimeBound::Within(secs(60)),
            above_max: AboveMax::GiveUp,
            sources: WaitSources::ALL,
        }),
        deadline: set(TimeBound::Unlimited),
        attempt_timeout: set(TimeBound::Unlimited),
        total_delay: set(TimeBound::Unlimited),
        min_attempt_time: set(Nanos::ZERO),
        budget: set(RetryBudget::None),
        emit_feedback: set(true),
        shadow: set(false),
        by_class: ByClass::from_iter([]),
    }
}

const fn secs(secs: u64) -> Nanos {
    Nanos::from_secs(secs)
}

fn verdict(policy: &RetryPolicy, attempt: u32, case: FailureContext) -> RetryVerdict {
    let progress = AttemptProgress { started: Instant(0), attempt, slept: Nanos::ZERO };
    decide(policy, progress, case, Instant(0), || Seed::new(0, "", ""))
}

fn timeout() -> FailureContext {
    FailureContext {
        class: ErrorClass::Timeout,
        assumed: false,
        hint: None,
        obstacle: RetryBlocker::None,
        run_deadline: None,
        correction: false,
    }
}

/// Each line violates one rule more than the next; the first rule of the order is reported.
#[test]
fn the_first_check_that_applies_is_the_reason() {
    let mut policy = policy();
    policy.total_delay = set(TimeBound::Within(Nanos::ZERO));
    let mut case = timeout();
    policy.shadow = set(true);
    assert_eq!(verdict(&policy, 1, case), RetryVerdict::Stop(StopReason::TotalDelay));
    case.hint = Some(secs(61));
    assert_eq!(verdict(&policy, 1, case), RetryVerdict::Stop(StopReason::ServerDelay));
    case.obstacle = RetryBlocker::Overdrawn;
    assert_eq!(verdict(&policy, 1, case), RetryVerdict::Stop(StopReason::Budget));
    case.obstacle = RetryBlocker::CircuitOpen;
    assert_eq!(verdict(&policy, 1, case), RetryVerdict::Stop(StopReason::CircuitOpen));
    policy.deadline = set(TimeBound::Within(secs(1)));
    assert_eq!(verdict(&policy, 1, case), RetryVerdict::Stop(StopReason::Deadline));
    assert_eq!(verdict(&policy, 3, case), RetryVerdict::Stop(StopReason::Attempts));
    case.obstacle = RetryBlocker::MayHaveActed;
    assert_eq!(verdict(&policy, 3, case), RetryVerdict::Stop(StopReason::MayHaveActed));
    policy.retry_on = set(ClassSet::EMPTY);
    assert_eq!(verdict(&policy, 3, case), RetryVerdict::Stop(StopReason::NotRetryable));
    policy.never_retry = set(ClassSet::EMPTY.with(ErrorClass::Timeout));
    assert_eq!(verdict(&policy, 3, case), RetryVerdict::Stop(StopReason::NeverRetry));
}

#[test]
fn switched_off_retries_nothing() {
    let policy = RetryPolicy { enabled: set(false), ..policy() };
    assert_eq!(verdict(&policy, 1, timeout()), RetryVerdict::Stop(StopReason::NotRetryable));
}

#[test]
fn an_attempt_that_would_start_at_the_deadline_is_not_waited_for() {
    let policy = RetryPolicy { deadline: set(TimeBound::Within(secs(1))), ..policy() };
    assert_eq!(verdict(&policy, 1, timeout()), RetryVerdict::Stop(StopReason::Deadline));
    let policy = RetryPolicy { deadline: set(TimeBound::Within(Nanos(1_000_000_001))), ..policy };
    assert!(matches!(verdict(&policy, 1, timeout()), RetryVerdict::Retry { .. }));
    let case = FailureContext { run_deadline: Some(Instant(1_000_000_000)), ..timeout() };
    assert_eq!(verdict(&policy, 1, case), RetryVerdict::Stop(StopReason::Deadline));
}

#[test]
fn what_the_server_asks_for() {
    use AboveMax::{Clamp, GiveUp};
    use DelayRule::{Backoff, Server};
    use ServerDelayMode::{Clamp as Between, Floor, Ignore, Replace};
    let hinted = |mode, above_max, hint| {
        let max = TimeBound::Within(secs(60));
        let rule = ServerDelay {
            mode,
            margin: secs(4),
            spread_ppm: 0,
            min: secs(2),
            max,
            above_max,
            sources: WaitSources::ALL,
        };
        let policy = RetryPolicy { server_delay: set(rule), ..policy() };
        match verdict(&policy, 1, FailureContext { hint: Some(secs(hint)), ..timeout() }) {
            RetryVerdict::Retry { delay, by } => Some((delay.0 / 1_000_000_000, by)),
            RetryVerdict::Stop(_) => None,
        }
    };
    assert_eq!(hinted(Floor, GiveUp, 5), Some((5, Server)), "the longer of the two");
    assert_eq!(hinted(Floor, GiveUp, 0), Some((2, Server)), "raised to `min`");
    assert_eq!(hinted(Replace, GiveUp, 3), Some((3, Server)));
    assert_eq!(hinted(Ignore, GiveUp, 3), Some((1, Backoff)));
    assert_eq!(hinted(Between, GiveUp, 3), Some((3, Server)));
    assert_eq!(hinted(Between, GiveUp, 30), Some((5, Server)), "the computed delay and the margin");
    assert_eq!(hinted(Floor, GiveUp, 61), None);
    assert_eq!(hinted(Floor, Clamp, 61), Some((60, Server)));
}

#[test]
fn the_first_source_that_says_something_is_the_hint() {
    use WaitSource::{Body, Header, Reset, Row, ShouldRetry};
    let row = ClassifiedFailure { wait: Some(secs(90)), ..ClassifiedFailure::certain(ErrorClass::RateLimit) };
    let waits = WaitHints { header: None, body: Some(secs(7)), reset: Some(secs(9)) };
    for (sources, waits, expected) in [
        (&WaitSource::ALL[..], waits, Some(7)),
        (&WaitSource::ALL, WaitHints { header: Some(secs(2)), ..waits }, Some(2)),
        (&[Reset, Body], waits, Some(9)),
        (&[Row, Body], waits, Some(60)),
        (&[ShouldRetry, Header], waits, None),
        (&WaitSource::ALL, WaitHints::default(), Some(60)),
        (&[Header, Body, Reset], WaitHints::default(), None),
    ] {
        let sources = WaitSources::new(sources).unwrap();
        let rule = ServerDelay { sources, ..policy().server_delay.value };
        assert_eq!(hint(&waits, row, &rule), expected.map(secs), "{sources:?}");
    }
    assert_eq!(WaitSources::new(&[Header, Header]), None);
}

#[test]
fn the_advice_of_the_server_is_followed_where_the_policy_lets_it() {
    let mut policy = policy();
    let invalid = ClassifiedFailure::certain(ErrorClass::InvalidRequest);
    assert_eq!(advised(invalid, Some(true), &policy).class, ErrorClass::ModelError);
    assert_eq!(advised(invalid, None, &policy), invalid);
    let fault = ClassifiedFailure { request_at_fault: true, ..invalid };
    assert_eq!(advised(fault, Some(true), &policy), fault);
    let key = ClassifiedFailure::certain(ErrorClass::AuthError);
    assert_eq!(advised(key, Some(true), &policy), key);
    let refused = FailureContext { obstacle: RetryBlocker::None.or_advice(Some(false)), ..timeout() };
    assert_eq!(verdict(&policy, 1, refused), RetryVerdict::Stop(StopReason::ShouldNotRetry));
    assert_eq!(RetryBlocker::MayHaveActed.or_advice(Some(false)), RetryBlocker::MayHaveActed);
    let sources = WaitSources::new(&[WaitSource::Header]).unwrap();
    assert_eq!(advice(Some(false), &policy.server_delay.value), Some(false));
    policy.server_delay.value.sources = sources;
    assert_eq!(advice(Some(false), &policy.server_delay.value), None);
    assert_eq!(advised(invalid, Some(true), &policy), invalid);
}

#[test]
fn a_class_may_have_rules_of_its_own() {
    let mut policy = policy();
    policy.retry_on = set(ClassSet::EMPTY.with(ErrorClass::Timeout).with(ErrorClass::RateLimit));
    let shape = BackoffShape::Constant { delay: secs(9) };
    let own = ClassRetry {
        max_attempts: set(AttemptLimit::Limited(NonZeroU32::new(5).unwrap())),
        backoff: set(Backoff { shape, cap: None, jitter: Jitter::None }),
        server_delay: policy.server_delay,
    };
    policy.by_class = ByClass::from_iter([(ErrorClass::RateLimit, own)]);
    let limited = FailureContext { class: ErrorClass::RateLimit, ..timeout() };
    assert_eq!(verdict(&policy, 3, timeout()), RetryVerdict::Stop(StopReason::Attempts));
    let retry = RetryVerdict::Retry { delay: secs(9), by: DelayRule::Backoff };
    assert_eq!(verdict(&policy, 4, limited), retry, "all attempts of the call are counted");
    assert_eq!(verdict(&policy, 5, limited), RetryVerdict::Stop(StopReason::Attempts));
}

#[test]
fn a_correction_has_a_backoff_of_its_own_whatever_the_class_has() {
    let mut policy = policy();
    let correction = FailureContext { correction: true, ..timeout() };
    let waits = |delay| RetryVerdict::Retry { delay, by: DelayRule::Backoff };
    assert_eq!(verdict(&policy, 1, correction), waits(secs(5)));
    assert_eq!(verdict(&policy, 3, correction), RetryVerdict::Stop(StopReason::Attempts));
    let own = ClassRetry {
        max_attempts: policy.max_attempts,
        backoff: set(Backoff {
            shape: BackoffShape::Constant { delay: secs(9) },
            cap: None,
            jitter: Jitter::None,
        }),
        server_delay: policy.server_delay,
    };
    policy.by_class = ByClass::from_iter([(ErrorClass::Timeout, own)]);
    assert_eq!([timeout(), correction].map(|case| verdict(&policy, 1, case).delay()), [secs(9), secs(5)]);
}

#[test]
fn what_is_asked_for_may_be_spread_and_never_comes_early() {
    let mut policy = policy();
    policy.server_delay.value.spread_ppm = 100_000;
    let case = FailureContext { hint: Some(secs(10)), ..timeout() };
    let waits: Vec<Nanos> = (0..50)
        .map(|call| {
            let progress = AttemptProgress { started: Instant(0), attempt: 1, slept: Nanos::ZERO };
            decide(&policy, progress, case, Instant(0), || Seed::new(call, "", "")).delay()
        })
        .collect();
    assert!(waits.iter().all(|wait| (secs(10)..secs(11)).contains(wait)));
    assert!(waits.iter().collect::<std::collections::BTreeSet<_>>().len() > 45);
}

#[test]
fn in_shadow_it_is_decided_and_not_done() {
    let policy = RetryPolicy { shadow: set(true), ..policy() };
    assert_eq!(verdict(&policy, 1, timeout()), RetryVerdict::Stop(StopReason::Shadow));
    let progress = AttemptProgress { started: Instant(0), attempt: 1, slept: Nanos::ZERO };
    let meant = decide_unshadowed(&policy, progress, timeout(), Instant(0), || Seed::new(0, "", ""));
    assert_eq!(meant.delay(), secs(1));
    assert!(!policy.retries(ErrorClass::Timeout), "and no feedback is written");
}

#[test]
fn an_attempt_may_take_what_is_left() {
    let mut policy = policy();
    let left =
        |policy: &RetryPolicy, now| attempt_timeout(policy, Instant(0), Some(Instant(9)), Instant(now));
    assert_eq!(left(&policy, 4), Some(Nanos(5)));
    policy.deadline = set(TimeBound::Within(Nanos(7)));
    assert_eq!(left(&policy, 4), Some(Nanos(3)));
    policy.attempt_timeout = set(TimeBound::Within(Nanos(2)));
    assert_eq!(left(&policy, 4), Some(Nanos(2)));
    assert_eq!(left(&policy, 100), Some(Nanos::ZERO));
}

proptest! {
    /// For any values: never more attempts than allowed, never a wait past a deadline or above the total.
    #[test]
    fn a_retry_keeps_every_limit(
        attempt in 1u32..10, most in 1u32..10, slept in 0u64..100, total in 0u64..100, deadline in 0u64..100,
        now in 0u64..100, hint in proptest::option::of(0u64..100),
    ) {
        let mut policy = policy();
        policy.max_attempts = set(AttemptLimit::Limited(NonZeroU32::new(most).unwrap()));
        policy.total_delay = set(TimeBound::Within(secs(total)));
        policy.deadline = set(TimeBound::Within(secs(deadline)));
        let progress = AttemptProgress { started: Instant(0), attempt, slept: secs(slept) };
        let case = FailureContext { hint: hint.map(secs), ..timeout() };
        let now = Instant(secs(now).0);
        let seed = || Seed::new(0, "", "");
        if let RetryVerdict::Retry { delay, .. } = decide(&policy, progress, case, now, seed) {
            prop_assert!(attempt < most);
            prop_assert!(now.saturating_add(delay) < Instant(secs(deadline).0));
            prop_assert!(progress.slept.saturating_add(delay) <= secs(total));
            prop_assert!(case.hint.is_none_or(|hint| delay >= hint), "never earlier than asked");
        }
    }
}
