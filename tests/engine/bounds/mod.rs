//! The bounds that `explain` tells are those of real runs: the worst run reaches them.
//!
//! Each case of the law is a tape of choices. `UNFAZED_STREAMS=20000` runs more of them.

mod adversary;

use unfazed::analysis::{ComparedNames, VerifierRuns};
use unfazed::cases::SuiteLoader;
use unfazed::policy::{Policy, TimeBound};
use unfazed::text::{Code, Report, Severity};
use unfazed::time::Nanos;

use crate::streams::count;
use crate::streams::tape::Tape;

/// No call is made once more after a refusal that was cured.
const UNCURED: &str = "history: {check: never}\ncontext: {compact_on_overflow: false}\n";

/// A report, or none; two turns; models are tried three times, one second apart.
fn policy(output: &str) -> String {
    format!(
        "{UNCURED}turn: {{max_turns: 2}}
models:
  '*': {{retry: {{max_attempts: 3, retry_on: [overloaded], backoff: {{kind: constant, delay: 1s, jitter: none}}}}}}
  spare: {{retry: {{max_attempts: 2}}}}
{output}"
    )
}

/// Plays replies and says how often models were called and how long the run took; each tool runs at once.
#[track_caller]
fn play(policy: &str, models: &str, replies: &str, calls: u64, waiting: u64) {
    play_after("[]", policy, models, replies, calls, waiting);
}

/// The same, after that conversation.
#[track_caller]
fn play_after(history: &str, policy: &str, models: &str, replies: &str, calls: u64, waiting: u64) {
    let inline = policy.replace('\n', "\n  ");
    let text = format!(
        "version: 1
inline:
  {inline}
tools: {{search: {{outcomes: [ok x9]}}}}
cases:
  - name: the worst run
    models: {models}
    history: {history}
    replies: [{replies}]
    expect: {{attempts: {calls}, elapsed: {waiting}s}}
"
    );
    let open = |_: &str, path: &str| Err(format!("there is no {path}"));
    let suite = SuiteLoader::new(open).read("worst.test.yaml", text.as_bytes());
    let suite = suite.unwrap_or_else(|report| panic!("{}\n{text}", report[0]));
    let verdict = suite.cases()[0].run();
    assert!(verdict.passed(), "{:#?}", verdict.mismatches);
}

fn bounds(policy: &str, models: &[&str]) -> (u64, u64) {
    let policy = Policy::from_yaml("x.yaml", &format!("version: 1\n{policy}")).unwrap();
    let models = models.iter().map(|&name| name.to_owned()).collect();
    let run = policy.bounds(&ComparedNames { models, tools: Vec::new() }, 1).run;
    let TimeBound::Within(waiting) = run.waiting else { panic!("unbounded") };
    (run.calls.unwrap(), waiting.0 / Nanos::from_secs(1).0)
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
    let policy =
        policy("output: {retry: {max_attempts: 2, correction_backoff: {kind: constant, delay: 5s}}}\n");
    let nothing = "{text: not what was asked for}";
    let replies = [BUSY, BUSY, SEARCH, BUSY, BUSY, nothing, BUSY, BUSY, nothing].join(", ");
    assert_eq!(bounds(&policy, &["main"]), (9, 11));
    play(&policy, "[main]", &replies, 9, 11);
}

#[test]
fn every_model_of_a_turn_may_be_given_up() {
    let policy = policy("").replace("{max_turns: 2}", "{max_turns: 2, targets: {fallback: exhausted}}");
    assert_eq!(bounds(&policy, &["main", "spare"]), (10, 6));
    // Three calls of `main`, then two of `spare`; and in the next turn `spare` first, because `main` rests.
    let replies = [BUSY, BUSY, BUSY, BUSY, SEARCH, BUSY, BUSY, BUSY, BUSY, "{text: done}"].join(", ");
    play(&policy, "[main, spare]", &replies, 10, 6);
}

#[test]
fn where_attempts_count_together_there_are_no_more_than_at_one_model() {
    let gone = "{error: {status: 401, message: no such key}}";
    for advance in ["attempt", "skip"] {
        let targets = format!("{{max_turns: 2, targets: {{fallback: {advance}, wait: turn}}}}");
        let policy = policy("").replace("{max_turns: 2}", &targets);
        assert_eq!(bounds(&policy, &["main", "spare"]), (6, 6));
        play(&policy, "[spare, main]", &[gone, BUSY, SEARCH, BUSY, BUSY, "{text: done}"].join(", "), 6, 3);
    }
}

#[test]
fn a_turn_waits_five_minutes_and_a_run_ten_if_nobody_says_otherwise() {
    let secs = |secs| TimeBound::Within(Nanos::from_secs(secs));
    for models in [vec![], vec!["main"], vec!["main", "spare", "third"]] {
        let models = models.into_iter().map(str::to_owned).collect();
        let bounds = Policy::builtin().bounds(&ComparedNames { models, tools: Vec::new() }, 1);
        assert_eq!((bounds.run.waiting, bounds.run.waiting_if_asked), (secs(600), secs(600)));
        assert!(bounds.models.iter().all(|model| model.turn.waiting_if_asked == secs(300)));
        let shown = bounds.human();
        assert!(
            shown.contains("longest waits   5m in a turn  turn.total_delay  builtin:default:"),
            "{shown}"
        );
        assert!(shown.contains("longest waits   10m in a run  turn.run_delay  builtin:default:"), "{shown}");
    }
}

#[test]
fn where_models_take_turns_each_has_its_attempts_to_itself() {
    let targets = "{max_turns: 1, targets: {attempts: 2}}";
    let policy =
        policy("").replace("{max_turns: 2}", targets).replace("spare: {retry: {max_attempts: 2}}", "");
    assert_eq!(bounds(&policy, &["main", "spare"]).0, 6);
    play(&policy, "[main, spare]", &[BUSY; 6].join(", "), 6, 3);
}

#[test]
fn a_wait_for_corrected_arguments_may_come_before_every_turn_but_the_first() {
    let policy = &format!(
        "{UNCURED}turn: {{max_turns: 3}}
models: {{'*': {{retry: {{max_attempts: 1}}}}}}
tools: {{'*': {{retry: {{max_attempts: 2, correction_backoff: {{kind: constant, delay: 5m}}}}}}}}
"
    );
    let wrong = "{calls: [{name: search, arguments: '1 2'}]}";
    assert_eq!(bounds(policy, &[]), (3, 600));
    play(policy, "[main]", &[wrong, SEARCH, "{text: done}"].join(", "), 3, 300);
    // A run that goes well in between begins the count anew.
    let again = format!(
        "{{calls: [{}]}}",
        ["{name: search, arguments: {}}", "{name: search, arguments: '1 2'}"].join(", ")
    );
    play(policy, "[main]", &[wrong, &again, "{text: done}"].join(", "), 3, 600);
}

#[test]
fn a_call_whose_conversation_is_reduced_after_a_refusal_is_made_once_more() {
    let policy = "history: {check: never}
turn: {max_turns: 1}
models: {'*': {retry: {max_attempts: 1}}}
context: {reduce: [{kind: truncate, keep_last: 1, over: 100 chars, head: 50 chars, tail: 10 chars}]}
";
    let refused = "{error: {status: 400, code: context_length_exceeded, message: too long}}";
    assert_eq!(bounds(policy, &["main"]), (2, 0));
    let long = "a long story ".repeat(40);
    let history = format!(
        "[{{role: user, text: '{long}'}}, {{role: assistant, text: '{long}'}}, {{role: user, text: and?}}]"
    );
    play_after(&history, policy, "[main]", &[refused, "{text: done}"].join(", "), 2, 0);
}

#[test]
fn a_budget_of_the_run_bounds_what_turns_and_attempts_do_not() {
    let policy = format!("{}limits: {{run: {{model_calls: 4, time: 3s}}}}\n", policy(""));
    assert_eq!(bounds(&policy, &["main"]), (4, 3));
    let replies = [BUSY, BUSY, SEARCH, "{text: done}"].join(", ");
    play(&policy.replace(", time: 3s", ""), "[main]", &replies, 4, 2);
}

const SENDS: &str = "version: 1
tools:
  outbox: {effect: read_only}
  send:
    effect: non_idempotent
    retry: {max_attempts: 3}
    on_uncertain_effect: {kind: verify, tool: outbox, acted: result.count > 0}
";

#[test]
fn whether_a_run_has_acted_is_found_out_after_each_attempt_that_another_may_follow() {
    let policy = Policy::from_yaml("x.yaml", SENDS).unwrap();
    let bounds = policy.bounds(&ComparedNames { models: Vec::new(), tools: vec!["send".into()] }, 1);
    let most = VerifierRuns { tool: "outbox".into(), runs: Some(2) };
    assert_eq!(bounds.tools[0].checks, Some(most));
    let said = bounds.human();
    let line = "send: `outbox` runs besides, to find out whether a run has acted: 2 for each call";
    assert!(said.contains(line), "{said}");
}

fn errors(report: &Report) -> impl Iterator<Item = Code> {
    let errors = report.all().iter().filter(|found| found.severity == Severity::Error);
    errors.map(|found| found.code)
}

#[test]
fn a_run_whose_policy_is_replaced_has_work_or_an_end() {
    count::holds("a run whose policy is replaced has work or an end", file!(), 600, |choices| {
        let mut t = Tape::new(choices);
        let make = |t: &mut Tape| Policy::from_yaml("x.yaml", &adversary::policy(t)).ok();
        let Some(policy) = make(&mut t) else { return 0 };
        let next = |t: &mut Tape| if t.once_in(9) { make(t) } else { None };
        let played = adversary::play_under(&policy, &["main".to_owned(), "spare".to_owned()], &mut t, next);
        played.map_or(0, |(_, events)| events)
    });
}

#[test]
fn nobody_gets_past_the_bounds() {
    count::holds("nobody gets past the bounds", file!(), 600, |choices| {
        let mut t = Tape::new(choices);
        let text = adversary::policy(&mut t);
        let policy = match Policy::from_yaml("x.yaml", &text) {
            Ok(policy) => policy,
            // Attempts without end need a deadline.
            Err(report) if errors(&report).all(|code| code == Code::UNBOUNDED) => return 0,
            Err(report) => panic!("a policy of the grammar does not load:\n{report}\n{text}"),
        };
        let models: Vec<String> =
            ["main", "spare"].iter().take(t.below(2) + 1).map(|&name| name.to_owned()).collect();
        let Some((cost, events)) = adversary::play(&policy, &models, &mut t) else { return 0 };
        let tools = vec!["alpha".to_owned(), "beta".to_owned()];
        let bounds = policy.bounds(&ComparedNames { models, tools }, 1);
        if let Err(error) = crate::streams::cost::holds(&bounds, &cost) {
            panic!("{error}\n{text}");
        }
        events
    });
}
