//! What a guard keeps that is a gateway's: one run for all requests.

use unfazed::host::guard::CallError;
use unfazed::host::{Guard, GuardConfig};
use unfazed::policy::{ErrorClass, Policy};

/// What `unfazed serve` puts above the files.
const LAYER: &str = "version: 1
turn: {max_turns: 4294967295, run_delay: unlimited, after_partial: fail}
models:
  main: {on_exhausted: tell_model}
  spare: {on_exhausted: tell_model}
";

#[tokio::test(start_paused = true)]
async fn what_a_run_keeps_does_not_grow_with_its_requests() {
    let guard = Guard::new(
        GuardConfig::new(Policy::from_yaml("layer.yaml", LAYER).unwrap()).targets(["main", "spare"]),
    );
    let mut sizes = Vec::new();
    for request in 1..=2_000_u32 {
        let turn = guard.turn(()).targets(["main"]);
        let made = turn.call(|target, ()| async move {
            match request % 10 {
                0 => Err(ErrorClass::AuthError),
                1 => Err(ErrorClass::EmptyResponse),
                _ => Ok(target),
            }
        });
        match made.await {
            Ok(target) => assert_eq!(target, "main"),
            Err(CallError::Exhausted(given_up)) => assert!(!given_up.because.is_empty()),
            Err(error) => panic!("{error}"),
        }
        drop(guard.take_guidance());
        if request == 200 || request == 2_000 {
            sizes.push(guard.state(|state| state.to_bytes().len()));
        }
    }
    assert!(guard.outcome().is_none(), "no request ends the run of the others");
    // Numbers of turns and times have more digits.
    assert!(sizes[1] < sizes[0] + 2_000, "{sizes:?}");
}
