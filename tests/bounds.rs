//! The bounds that `explain` tells are those of real runs: the worst run reaches them.
#![cfg(feature = "cli")]

use unfazed::cases::Loader;
use unfazed::policy::{Names, Policy};
use unfazed::time::Nanos;

/// A report, or none; two turns; models are tried three times, one second apart.
fn policy(output: &str) -> String {
    format!(
        "turn: {{max_turns: 2}}
models:
  '*': {{retry: {{max_attempts: 3, retry_on: [overloaded], backoff: {{kind: constant, delay: 1s}}}}}}
  spare: {{retry: {{max_attempts: 2}}}}
{output}"
    )
}

/// Plays replies and says how often models were called and how long the run took; each tool runs at once.
#[track_caller]
fn play(policy: &str, models: &str, replies: &str, calls: u64, asleep: u64) {
    let inline = policy.replace('\n', "\n  ");
    let text = format!(
        "version: 1
inline:
  {inline}
tools: {{search: {{outcomes: [ok x9]}}}}
cases:
  - name: the worst run
    models: {models}
    replies: [{replies}]
    expect: {{attempts: {calls}, elapsed: {asleep}s}}
"
    );
    let open = |_: &str, path: &str| Err(format!("there is no {path}"));
    let suite = Loader::new(open).read("worst.test.yaml", text.as_bytes());
    let suite = suite.unwrap_or_else(|report| panic!("{}\n{text}", report[0]));
    let verdict = suite.cases()[0].run();
    assert!(verdict.passed(), "{:#?}", verdict.mismatches);
}

fn bounds(policy: &str, models: &[&str]) -> (u64, u64) {
    let policy = Policy::from_yaml("x.yaml", &format!("version: 1\n{policy}")).unwrap();
    let models = models.iter().map(|&name| name.to_owned()).collect();
    let run = policy.bounds(&Names { models, tools: Vec::new() }, 1).run;
    let unfazed::policy::Bound::Within(asleep) = run.asleep else { panic!("unbounded") };
    (run.calls.unwrap(), asleep.0 / Nanos::from_secs(1).0)
}

const BUSY: &str = "{error: {status: 503, message: busy}}";
const SEARCH: &str = "{calls: [{name: search, arguments: {}}]}";

#[test]
fn without_a_report_every_turn_may_need_all_attempts() {
    let policy = policy("");
    let replies = [BUSY, BUSY, SEARCH, BUSY, BUSY, "{text: done}"].join(", ");
    assert_eq!(bounds(&policy, &["main"]), (6, 4));
    play(&policy, "[main]", &replies, 6, 4);
}

#[test]
fn the_last_turn_comes_again_for_each_attempt_at_the_report() {
    let policy = policy("output: {retry: {max_attempts: 2, backoff: {kind: constant, delay: 5s}}}\n");
    let nothing = "{text: not what was asked for}";
    let replies = [BUSY, BUSY, SEARCH, BUSY, BUSY, nothing, BUSY, BUSY, nothing].join(", ");
    assert_eq!(bounds(&policy, &["main"]), (9, 11));
    play(&policy, "[main]", &replies, 9, 11);
}

#[test]
fn a_model_that_is_given_up_adds_its_attempts_once() {
    let policy = policy("");
    let replies = [BUSY, BUSY, BUSY, SEARCH, "{error: {status: 503, message: busy}, times: 9}"].join(", ");
    // The spare model is second: three calls of `main`, then `spare` once, then twice.
    assert_eq!(bounds(&policy, &["main", "spare"]), (8, 5));
    play(&policy, "[main, spare]", &replies, 6, 3);
    // It is first: two calls of it, then three of `main` in each turn.
    let replies = [BUSY, BUSY, BUSY, BUSY, SEARCH, BUSY, BUSY, "{text: done}"].join(", ");
    play(&policy, "[spare, main]", &replies, 8, 5);
}
