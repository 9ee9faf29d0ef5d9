//! Guards under a pace: calls that are made side by side start in turn.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use unfazed::engine::{Failure, WaitHint};
use unfazed::host::guard::CallError;
use unfazed::host::{Guard, ToolError};
use unfazed::policy::{ErrorClass, Policy};
use unfazed::time::Nanos;

fn guard(text: &str) -> Guard {
    Guard::new(
        Policy::from_yaml("policy.yaml", &format!("version: 1\n{text}"))
            .unwrap_or_else(|report| panic!("{report}")),
    )
}

/// When a call of the tool starts, in seconds.
async fn starts(guard: &Guard, begin: Instant) -> u64 {
    let look = guard.tool("look");
    let call = look.call((), |(), _| async move { Ok::<_, ToolError>(begin.elapsed().as_secs()) });
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
