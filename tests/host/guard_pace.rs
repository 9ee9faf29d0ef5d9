//! Guards under a pace: calls that are made side by side start in turn.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use unfazed::engine::{Failure, WaitHint};
use unfazed::host::guard::CallError;
use unfazed::host::{Guard, ToolError};
use unfazed::policy::{ErrorClass, Policy};
use unfazed::session::StopReason;
use unfazed::time::Nanos;

fn guard(text: &str) -> Guard {
    Guard::new(
        Policy::from_yaml("policy.yaml", &format!("version: 1\n{text}"))
            .unwrap_or_else(|report| panic!("{report}")),
    )
}

/// When a call of the tool starts, to the nearest second: each guard reads the system's clock once, when it is made, and that runs on
/// between two of them.
async fn starts(guard: &Guard, begin: Instant) -> u64 {
    let look = guard.tool("look");
    let nearest = move || (begin.elapsed() + Duration::from_millis(500)).as_secs();
    let call = look.call((), |(), _| async move { Ok::<_, ToolError>(nearest()) });
    call.await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn calls_start_at_the_pace_of_their_tool() {
    let guard = guard("tools: {look: {pace: {requests: {limit: 2, per: 2s, burst: 1}}}}\n");
    let begin = Instant::now();
    let calls = (0..4).map(|_| starts(&guard, begin));
    assert_eq!(futures_util::future::join_all(calls).await, [0, 1, 2, 3]);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_gives_its_turn_to_the_next() {
    let guard = guard("tools: {look: {pace: {requests: {limit: 1, per: 10s}}}}\n");
    let begin = Instant::now();
    let later = async {
        sleep(Duration::from_secs(1)).await;
        starts(&guard, begin).await
    };
    let (first, dropped, last) =
        tokio::join!(starts(&guard, begin), timeout(Duration::from_secs(3), starts(&guard, begin)), later);
    assert!(dropped.is_err());
    assert_eq!((first, last), (0, 10));
}

#[tokio::test(start_paused = true)]
async fn a_pause_that_a_server_asks_for_one_turn_holds_the_others() {
    let guard = guard("models: {'*': {retry: {server_delay: {mode: replace, max: 1m}}}}\n");
    let begin = Instant::now();
    let turn = guard.turn(());
    let limited = turn.call({
        let mut calls = 0;
        move |_, ()| {
            calls += 1;
            let refused = calls == 1;
            async move {
                let retry_after = WaitHint::Wait(Nanos::from_secs(9));
                let failure = Failure { retry_after, ..Failure::of(ErrorClass::RateLimit, "slow down") };
                if refused { Err(failure) } else { Ok(begin.elapsed().as_secs()) }
            }
        }
    });
    let other = async {
        sleep(Duration::from_secs(2)).await;
        guard.turn(()).call(|_, ()| async { Ok::<_, Failure>(begin.elapsed().as_secs()) }).await
    };
    let (limited, other): (Result<u64, CallError<Failure>>, _) = tokio::join!(limited, other);
    assert_eq!((limited.unwrap(), other.unwrap()), (9, 9));
}

/// When a turn is answered that lasts two seconds, in seconds.
async fn answered(guard: &Guard, begin: Instant) -> u64 {
    let turn = guard.turn(());
    let call = turn.call(|_, ()| async {
        sleep(Duration::from_secs(2)).await;
        Ok::<_, Failure>(begin.elapsed().as_secs())
    });
    call.await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn no_more_turns_are_in_flight_than_may_be() {
    let guard = guard("models: {'*': {pace: {concurrency: 2}}}\n");
    let begin = Instant::now();
    let turns = (0..5).map(|_| answered(&guard, begin));
    assert_eq!(futures_util::future::join_all(turns).await, [2, 2, 4, 4, 6]);
    // One that is dropped gives its place to the next.
    let (dropped, _, next) = tokio::join!(
        timeout(Duration::from_secs(1), answered(&guard, begin)),
        answered(&guard, begin),
        answered(&guard, begin)
    );
    assert!(dropped.is_err());
    assert_eq!(next, 6 + 3);
}

#[tokio::test(start_paused = true)]
async fn a_turn_waits_no_longer_for_a_place_than_it_may() {
    let guard = guard("models: {'*': {pace: {concurrency: 1, max_wait: 90s}}}\n");
    let begin = Instant::now();
    let (holder, waiter) = (guard.turn(()), guard.turn(()));
    let long = holder.call(|_, ()| async {
        sleep(Duration::from_secs(200)).await;
        Ok::<_, Failure>(())
    });
    let waiting = async {
        let refused: Result<(), CallError<Failure>> = waiter.call(|_, ()| async { Ok(()) }).await;
        let Err(CallError::Exhausted(given_up)) = refused else { panic!("{refused:?}") };
        (given_up, begin.elapsed().as_secs())
    };
    let (held, (given_up, at)) = tokio::join!(long, waiting);
    held.expect("the turn that waited ends alone");
    assert_eq!((given_up.exhausted.reason, at), (StopReason::Pace, 90));
    let why = &given_up.because[0];
    assert_eq!((&*why.rule, &*why.value), ("pace.concurrency", "1"));
    assert!(why.facts.iter().any(|fact| fact == "1 call of model default is in flight"), "{why:?}");
}

#[tokio::test(start_paused = true)]
async fn an_outage_is_probed_by_one_turn_at_a_time_and_ends_for_all() {
    let rules = "retry: {max_attempts: 4, backoff: {kind: constant, delay: 1s, jitter: none}}, \
                 pace: {breaker: {failures: 5, base: 2s, cap: 10s}}";
    let guard = guard(&format!("models: {{'*': {{{rules}}}}}\n"));
    let begin = Instant::now();
    let calls = std::sync::Mutex::new(Vec::new());
    let turns = (0..20).map(|_| async {
        let turn = guard.turn(());
        let call = turn.call(|_, ()| async {
            let at = begin.elapsed().as_secs();
            calls.lock().unwrap().push(at);
            if at < 40 { Err(Failure::of(ErrorClass::NetworkError, "connection refused")) } else { Ok(at) }
        });
        let answered: Result<u64, CallError<Failure>> = call.await;
        answered.is_ok()
    });
    let answered = futures_util::future::join_all(turns).await;
    assert!(answered.iter().all(|ok| *ok), "all outlive an outage of 40 s with four attempts: {answered:?}");
    let calls = calls.into_inner().unwrap();
    let at = |from: u64, to: u64| calls.iter().filter(|at| (from..to).contains(*at)).count();
    assert_eq!((at(0, 1), at(1, 40)), (5, 5), "{calls:?}");
}

#[tokio::test(start_paused = true)]
async fn guards_of_one_process_share_a_pace_of_that_scope() {
    let with = |scope: &str| {
        let pace =
            format!("{{pool: guards_of_one_process, scope: {scope}, requests: {{limit: 1, per: 10s}}}}");
        guard(&format!("tools: {{look: {{pace: {pace}}}}}\n"))
    };
    let (one, other, alone) = (with("process"), with("process"), with("run"));
    let begin = Instant::now();
    assert_eq!(starts(&one, begin).await, 0);
    assert_eq!(starts(&alone, begin).await, 0);
    assert_eq!(starts(&other, begin).await, 10);
    assert_eq!(starts(&one, begin).await, 20);
}
