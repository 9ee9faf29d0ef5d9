//! Tests of simulation results.

use proptest::prelude::*;

use super::{CallStory, EndedBy, Scenario, SimulationFigures};
use crate::policy::{ErrorClass, Policy};
use crate::session::{FailureReason, StopReason};
use crate::time::Nanos;

/// A scenario of three agents and a tool, with these lines for the model, the tool, and the scenario.
fn scenario(model: &str, tool: &str, whole: &str) -> Scenario {
    let work = if whole.contains("work:") { "" } else { "work: {calls: 2}" };
    let text = format!(
        "version: 1
agents: 3
duration: 2m
{work}
{whole}
models:
  main: {{latency: 2s, {model}}}
tools:
  search: {{effect: read_only, latency: 500ms, {tool}}}
"
    );
    Scenario::read("s.yaml", text.as_bytes()).unwrap_or_else(|report| panic!("{}", report.human(false)))
}

fn play(scenario: &Scenario, policy: &str) -> SimulationFigures {
    let policy =
        Policy::from_yaml("p.yaml", policy).unwrap_or_else(|report| panic!("{}", report.human(false)));
    scenario.play(&policy).unwrap()
}

#[test]
fn without_failures_every_run_is_complete_and_costs_what_it_must() {
    let figures = play(&scenario("", "", ""), "version: 1");
    // A run takes three calls of two seconds and two runs of half a second: seven seconds.
    assert_eq!((figures.runs, figures.complete), (3 * 18, 3 * 18));
    assert_eq!((figures.model_calls, figures.model_calls_needed), (54 * 3, 54 * 3));
    assert_eq!((figures.tool_runs, figures.tool_runs_needed), (54 * 2, 54 * 2));
    assert_eq!((figures.waiting, figures.turn_p50), (Nanos::ZERO, Nanos::from_millis(2_500)));
    assert_eq!(figures.tokens.input, 54 * 3 * 1_000);
    assert_eq!(figures.over_time.iter().map(|part| part.model_calls).sum::<u64>(), figures.model_calls);
}

#[test]
fn a_model_that_is_down_is_asked_as_often_as_the_policy_says() {
    let down = scenario("faults: {overloaded: 1}", "", "runs: 1");
    let figures = play(&down, "version: 1\nmodels: {'*': {retry: {max_attempts: 5}}}");
    assert_eq!((figures.runs, figures.failed, figures.model_calls), (3, 3, 15));
    assert_eq!((figures.model_calls_needed, figures.amplification_ppm()), (3, Some(5_000_000)));
    assert!(!figures.waiting.is_zero());
}

#[test]
fn why_runs_failed_is_counted() {
    let down = scenario("faults: {overloaded: 1}", "", "runs: 2");
    let figures = play(&down, "version: 1\nmodels: {'*': {retry: {max_attempts: 2}}}");
    let why = EndedBy {
        reason: Some(FailureReason::SessionFailed),
        stopped_by: Some(StopReason::Attempts),
        error_type: Some(ErrorClass::Overloaded),
        runs: 6,
    };
    assert_eq!((figures.failed, figures.ended_by), (6, vec![why]));
    // The most frequent reason comes first, and the sum of all reasons is the number of failed runs.
    let mixed = scenario("faults: {overloaded: 0.2, auth_error: 0.05}", "", "").with_agents(50);
    let figures = play(&mixed, "version: 1\nmodels: {'*': {retry: {enabled: false}}}");
    let runs: Vec<u64> = figures.ended_by.iter().map(|why| why.runs).collect();
    assert!(runs.len() == 2 && runs[0] > runs[1], "{:?}", figures.ended_by);
    assert_eq!(runs.iter().sum::<u64>(), figures.failed);
    assert_eq!(figures.ended_by[1].error_type, Some(ErrorClass::AuthError));
}

#[test]
fn a_last_turn_after_a_failure_is_no_call_that_is_needed() {
    let down = scenario("faults: {overloaded: 1}", "", "runs: 1");
    let figures =
        play(&down, "version: 1\nmodels: {'*': {retry: {max_attempts: 2}, on_exhausted: final_turn}}");
    assert_eq!((figures.failed, figures.model_calls, figures.model_calls_needed), (3, 12, 3));
}

#[test]
fn a_report_that_cannot_be_one_is_told() {
    let schema = "version: 1\noutput: {schema: {type: object, required: [price]}}";
    let problems = |report: &str, policy: &str| -> Vec<String> {
        let policy = Policy::from_yaml("p.yaml", policy).unwrap();
        let scenario = scenario("", "", &format!("work: {{report: {report}}}"));
        scenario.problems_of_report(&policy).into_iter().map(|problem| problem.message).collect()
    };
    assert_eq!(problems("{}", schema), ["`price` is missing"]);
    assert!(problems("{price: 1}", schema).is_empty());
    assert!(problems("{}", "version: 1").is_empty(), "nobody wants a report");
}

#[test]
fn it_is_told_how_much_of_the_time_is_over() {
    let (long, policy) = (scenario("", "", "").with_agents(100), Policy::builtin());
    let mut told = Vec::new();
    let figures = long.play_telling(&policy, |over| told.push(over)).unwrap();
    assert!(told.len() > 5 && told.is_sorted() && told.iter().all(|over| *over <= 1_000), "{told:?}");
    assert_eq!(figures, long.play(&policy).unwrap());
}

#[test]
fn a_window_holds_from_its_beginning_to_its_end() {
    let figures = play(
        &scenario("fails_after: 0s, trace: [{to: 1m, fault: auth_error}]", "", "pause: 10s"),
        "version: 1",
    );
    // Each agent fails at 0s, 10s and so on up to 50s, and then continues.
    assert_eq!(figures.failed, 18);
    assert_eq!(figures.complete, figures.runs - 18);
    assert_eq!(figures.models[0].failed, 18);
}

#[test]
fn agents_share_the_capacity_of_a_model() {
    let figures = play(
        &scenario("capacity: {calls: 10, per: 1m}", "", ""),
        "version: 1\nmodels: {'*': {retry: {server_delay: {mode: floor, max: 5m}, max_attempts: 20}}}",
    );
    let taken = figures.models[0].calls - figures.models[0].refused;
    // Ten at the start, and ten a minute until the last run has ended.
    let most = 10 + figures.ended.0 / 6_000_000_000;
    assert!(figures.models[0].refused > 0 && taken <= most, "{taken} of {most}");
    assert_eq!(figures.complete, figures.runs, "who waits as long as the model asks gets through");
}

#[test]
fn agents_that_compete_for_nothing_come_to_the_same_one_after_the_other() {
    let faults = "faults: {overloaded: 0.2}, trace: [{from: 20s, to: 50s, fault: timeout, rate: 0.5}]";
    let alone = play(&scenario(faults, "", "arrival: {kind: random, over: 30s}"), "version: 1");
    // With a capacity that is never used up, the agents are played together.
    let much = format!("{faults}, capacity: {{calls: 1000000, per: 1s}}");
    let together = play(&scenario(&much, "", "arrival: {kind: random, over: 30s}"), "version: 1");
    assert_eq!(alone, together);
}

#[test]
fn a_call_that_fails_is_made_again_by_the_model_and_then_left_out() {
    let broken = |again: u32| {
        scenario(
            "",
            "faults: {execution_error: 1}",
            &format!("runs: 1\nwork: {{calls: 1, repeat_failed: {again}}}"),
        )
        .with_agents(1)
    };
    let text = "version: 1\ntools: {'*': {breaker: {failures: never}, loop_guard: {enabled: false}}}";
    for again in 0..3 {
        let figures = play(&broken(again), text);
        assert_eq!((figures.partial, figures.tool_runs), (1, u64::from(again) + 1));
        assert_eq!(figures.tool_runs_needed, 1);
    }
}

#[test]
fn answers_that_cannot_be_used_are_corrected_and_cost_calls() {
    for class in ["malformed_tool_call", "invalid_args", "empty_response", "tool_not_found", "reasoning_only"]
    {
        let figures = play(
            &scenario(&format!("faults: {{{class}: 0.2}}"), "", ""),
            "version: 1\nturn: {max_turns: 40}",
        );
        assert!(figures.complete * 10 >= figures.runs * 8, "{class}: {figures:?}");
        assert!(figures.model_calls > figures.model_calls_needed, "{class}: {figures:?}");
        assert!(figures.models[0].failed > 0, "{class}");
    }
}

#[test]
fn the_next_model_takes_over() {
    let text = "
version: 1
agents: 2
duration: 2m
models:
  main: {faults: {network_error: 1}}
  spare: {latency: 3s}
";
    let scenario = Scenario::read("s.yaml", text.as_bytes()).unwrap();
    let figures = play(&scenario, "version: 1\nmodels: {'*': {cooldown: unlimited}}");
    assert_eq!(figures.complete, figures.runs);
    assert_eq!(figures.models[1].failed, 0);
    // The first model is called again in every run, and the other one answers each.
    assert_eq!(figures.models[1].calls, figures.runs);
    assert!(figures.models[0].calls >= figures.runs);
}

#[test]
fn a_policy_that_asks_for_a_report_gets_one() {
    let report = "version: 1\noutput: {schema: {type: object, required: [price]}}\nturn: {text_only: reject}";
    let given = scenario("", "", "runs: 1\nwork: {calls: 1, report: {price: 12.5}}");
    assert_eq!(play(&given, report).complete, 3);
    let lacking = scenario("", "", "runs: 1\nwork: {calls: 1, report: {cost: 12.5}}");
    assert_eq!(play(&lacking, report).failed, 3);
}

#[test]
fn agents_begin_as_the_scenario_says() {
    let with =
        |arrival: &str| play(&scenario("", "", &format!("runs: 1\narrival: {arrival}")), "version: 1").ended;
    assert_eq!(with("{kind: together}"), Nanos::from_secs(7));
    assert_eq!(with("{kind: spread, over: 30s}"), Nanos::from_secs(37));
    let random = with("{kind: random, over: 30s}");
    assert!(random > Nanos::from_secs(7) && random < Nanos::from_secs(37), "{random}");
}

#[test]
fn a_model_that_takes_no_time_does_not_stop_the_time() {
    let text = "version: 1\nagents: 1\nduration: 10s\nmodels: {m: {latency: 0s}}";
    let figures = play(&Scenario::read("s.yaml", text.as_bytes()).unwrap(), "version: 1");
    assert_eq!(figures.runs, 10);
}

#[test]
fn runs_that_take_longer_than_all_the_time_are_spread_over_what_they_take() {
    let text = "version: 1\nagents: 20\nduration: 1s\nruns: 1\nwork: {calls: 4}\nmodels: {m: {latency: 4s}}\ntools: {t: {}}";
    let figures = play(&Scenario::read("s.yaml", text.as_bytes()).unwrap(), "version: 1");
    let calls: Vec<u64> = figures.over_time.iter().map(|part| part.model_calls).collect();
    assert_eq!((figures.model_calls, calls.iter().sum::<u64>()), (100, 100));
    assert_eq!(calls.iter().max(), Some(&20), "{calls:?}");
    assert!(calls.len() <= 240 && figures.part.0 * 240 > figures.ended.0, "{} {}", calls.len(), figures.part);
}

#[test]
fn a_whole_answer_may_take_longer_than_its_first_piece() {
    let policy = "version: 1\nmodels: {'*': {timeouts: {first_token: 20s}, retry: {enabled: false}}}";
    let with = |model: &str| {
        let text = format!("version: 1\nagents: 3\nduration: 1m\nruns: 1\nmodels: {{m: {{{model}}}}}");
        play(&Scenario::read("s.yaml", text.as_bytes()).unwrap(), policy)
    };
    let slow = with("latency: 30s");
    assert_eq!((slow.complete, slow.ended), (3, Nanos::from_secs(30)));
    let flawed = with("latency: 30s, faults: {empty_response: 1}");
    assert_eq!(flawed.ended_by[0].error_type, Some(ErrorClass::EmptyResponse));
    // There is no longer wait for a service that never answers.
    for silent in ["faults: {timeout: 1}", "fails_after: 30s, faults: {overloaded: 1}"] {
        let figures = with(silent);
        assert_eq!(figures.ended_by[0].error_type, Some(ErrorClass::Timeout), "{silent}");
        assert_eq!(figures.ended, Nanos::from_secs(20), "{silent}");
    }
}

#[test]
fn so_may_that_of_one_turn() {
    let policy = "version: 1\nmodels: {'*': {timeouts: {first_token: 20s}, retry: {enabled: false}}}";
    let policy = Policy::from_yaml("p.yaml", policy).unwrap();
    let took = |ends| {
        CallStory::of_model(&policy, &["m".to_owned()], ends, 1)
            .map(|story| (story.status, story.took))
            .unwrap()
    };
    assert_eq!(took("ok takes 30s"), ("answered", Nanos::from_secs(30)));
    assert_eq!(took("empty_response takes 30s").1, Nanos::from_secs(30));
    assert_eq!(took("overloaded takes 30s").1, Nanos::from_secs(20));
}

#[test]
fn a_run_without_an_end_is_given_up_once() {
    let text =
        "version: 1\nagents: 1\nduration: 1h\nruns: 1\nwork: {calls: 2, parallel: 2, repeat_failed: 4000000000}
models: {m: {latency: 1ms}}
tools: {t: {faults: {execution_error: 1}, fails_after: {kind: uniform, min: 1ms, max: 3ms}}}";
    let policy = "version: 1\nturn: {max_turns: 1000000}
tools: {'*': {retry: {enabled: false}, breaker: {failures: never}, loop_guard: {enabled: false}}}";
    let figures = play(&Scenario::read("s.yaml", text.as_bytes()).unwrap(), policy);
    assert_eq!((figures.runs, figures.failed, figures.ended_by.len()), (1, 1, 1), "{:?}", figures.ended_by);
    assert_eq!(figures.ended_by[0].reason, None);
}

#[test]
fn a_tool_that_does_not_like_its_arguments_has_failed_as_any_other() {
    let text =
        "version: 1\nagents: 1\nduration: 1m\nruns: 1\nwork: {calls: 1, repeat_failed: 0}\nmodels: {m: {latency: 2s}}
tools: {t: {latency: 30s, fails_after: 100ms, faults: {invalid_args: 1}}}";
    let policy = "version: 1
tools: {'*': {retry: {enabled: false}, breaker: {failures: never}, loop_guard: {enabled: false}}}";
    let figures = play(&Scenario::read("s.yaml", text.as_bytes()).unwrap(), policy);
    assert_eq!((figures.partial, figures.tool_runs, figures.tools[0].failed), (1, 1, 1));
    // Two replies of two seconds, and a failure.
    assert_eq!(figures.ended, Nanos::from_millis(4_100));
}

#[test]
fn what_the_policy_cuts_off_has_failed() {
    let text =
        "version: 1\nagents: 3\nduration: 1m\nruns: 1\nwork: {calls: 1, repeat_failed: 0}\nmodels: {m: {}}
tools: {t: {latency: 30s}}";
    let slow = Scenario::read("s.yaml", text.as_bytes()).unwrap();
    let figures = play(&slow, "version: 1\ntools: {'*': {retry: {enabled: false, attempt_timeout: 10s}}}");
    assert_eq!((figures.tools[0].calls, figures.tools[0].failed), (3, 3));
}

#[test]
fn a_broken_call_in_an_answer_without_calls_is_a_good_answer() {
    for class in ["malformed_tool_call", "invalid_args", "tool_not_found", "text_only"] {
        let text = format!(
            "version: 1\nagents: 3\nduration: 1m\nruns: 1\nmodels: {{m: {{faults: {{{class}: 1}}}}}}"
        );
        let figures = play(&Scenario::read("s.yaml", text.as_bytes()).unwrap(), "version: 1");
        assert_eq!((figures.complete, figures.models[0].failed), (3, 0), "{class}");
    }
}

#[test]
fn agents_that_share_a_pace_exceed_no_capacity() {
    let scenario = scenario("capacity: {calls: 30, per: 1m}", "", "");
    let with = |scope: &str| {
        let pace = format!("{{scope: {scope}, requests: {{limit: 30, per: 1m}}, max_wait: unlimited}}");
        play(&scenario, &format!("version: 1\nmodels: {{'*': {{pace: {pace}}}}}"))
    };
    assert!(with("run").models[0].refused > 0);
    for scope in ["process", "shared"] {
        let figures = with(scope);
        assert_eq!(figures.models[0].refused, 0, "{scope}");
        assert!(figures.complete > 0, "{scope}");
    }
}

/// A policy that tries often and waits as it is asked.
const PATIENT: &str = "version: 1
models: {'*': {retry: {max_attempts: 300, total_delay: unlimited, backoff: {kind: constant, delay: 1s, jitter: none},
  server_delay: {mode: floor, max: 10m, spread: 0.1}, by_class: {rate_limit: {backoff: {kind: constant, delay: 1s, jitter: none}}}}}}
turn: {total_delay: unlimited, run_delay: unlimited}";
/// Half of the calls that three agents need.
const HALF: &str = "limits: {requests: {limit: 12, per: 1m, burst: 6}}";

fn limited(model: &str) -> SimulationFigures {
    play(&scenario(model, "", "").with_runs(5.try_into().unwrap()), PATIENT)
}

#[test]
fn a_model_is_limited_in_calls_and_in_tokens_of_each_kind() {
    let refused = |model: &str| limited(model).models[0].refused;
    assert_eq!(refused("limits: {requests: {limit: 1000, per: 1m}}"), 0);
    assert!(refused(HALF) > 0);
    // A request has 1000 tokens, a reply 200.
    for (unit, of_ten) in [("input_tokens", 10_000), ("output_tokens", 2_000), ("tokens", 12_000)] {
        let with = |limit: u32| refused(&format!("limits: {{{unit}: {{limit: {limit}, per: 1m}}}}"));
        assert_eq!(with(of_ten * 100), 0, "{unit}");
        assert!(with(of_ten) > 0, "{unit}");
    }
}

#[test]
fn requests_that_grow_use_up_a_limit_of_tokens_and_are_reported() {
    let with = |grows: u32| {
        limited(&format!(
            "tokens: {{input: 1000, grows: {grows}}}, limits: {{tokens: {{limit: 40000, per: 1m}}}}"
        ))
    };
    let (even, growing) = (with(0), with(2_000));
    assert_eq!((even.models[0].refused, even.tokens.input), (0, 15 * 3 * 1_000));
    assert!(growing.models[0].refused > 0);
    // Three requests of 1000, 3000 and 5000 tokens in each run.
    assert_eq!(growing.tokens.input, 15 * 9_000);
}

#[test]
fn a_conversation_that_outgrows_its_window_ends_with_a_final_turn() {
    let policy = "version: 1\nmodels: {'*': {context_window: 8000, output_reserve: 500}}";
    let with = |grows: u32| {
        let tokens = format!("tokens: {{input: 1000, grows: {grows}}}");
        play(&scenario(&tokens, "", "runs: 1\nwork: {calls: 6}"), policy)
    };
    assert_eq!((with(100).complete, with(2_500).partial), (3, 3));
}

#[test]
fn a_fixed_window_and_a_small_burst_refuse_other_calls() {
    let even = limited("limits: {requests: {limit: 12, per: 1m}}");
    for other in [", window: fixed", ", burst: 2"] {
        let figures = limited(&format!("limits: {{requests: {{limit: 12, per: 1m{other}}}}}"));
        assert_eq!(figures.complete, 15);
        assert_ne!(figures.models[0].refused, even.models[0].refused, "{other}");
    }
}

#[test]
fn limits_that_answers_state_are_learned() {
    let policy = "version: 1
models: {'*': {retry: {max_attempts: 30}, pace: {learn: headers, max_wait: unlimited}}}
turn: {total_delay: unlimited, run_delay: unlimited}";
    let with = |headers: bool| {
        let model = format!("limits: {{requests: {{limit: 12, per: 1m, burst: 6, headers: {headers}}}}}");
        play(&scenario(&model, "", "runs: 5\nsession_runs: 5").with_agents(1), policy)
    };
    let (stated, silent) = (with(true), with(false));
    assert_eq!((stated.complete, stated.models[0].refused), (5, 0));
    assert!(silent.models[0].refused > 0);
}

#[test]
fn refusals_ask_for_what_the_scenario_says() {
    let with = |hint: &str| limited(&format!("{HALF}, {hint}"));
    let exact = with("hint: exact");
    // Each in its turn: fewer of those that waited are refused again.
    assert!(with("hint: fair").models[0].refused < exact.models[0].refused);
    // Nobody comes back before there is room for all of them.
    assert!(with("hint: reset").models[0].refused < exact.models[0].refused);
    // Room is left unused while they wait for too long, and calls are refused again that come back too early.
    assert!(with("hint_factor: 20").ended > exact.ended);
    assert!(with("hint_factor: 0.001").models[0].refused > exact.models[0].refused);
    assert!(with("hint: none").models[0].refused > exact.models[0].refused);
}

#[test]
fn refused_calls_that_count_keep_others_out() {
    let with = |count: &str| limited(&format!("{HALF}, hint: none, count: {count}"));
    let (accepted, all) = (with("accepted"), with("all"));
    assert!(all.models[0].refused > accepted.models[0].refused);
    assert!(all.complete < accepted.complete || all.ended > accepted.ended);
}

#[test]
fn foreign_clients_take_their_part_of_a_limit() {
    let with =
        |foreign: &str| limited(&format!("limits: {{requests: {{limit: 30, per: 1m, burst: 5}}}}{foreign}"));
    let (alone, shared) = (with(""), with(", foreign: {calls: 24, per: 1m}"));
    assert!(shared.models[0].refused > alone.models[0].refused);
    assert!(shared.ended > alone.ended);
}

#[test]
fn load_is_shed_the_more_of_it_there_is_and_after_an_outage() {
    let with = |model: &str| limited(&format!("shedding: {{above: 10, all: 60{model}"));
    assert_eq!(limited("shedding: {above: 60, all: 100}").models[0].failed, 0);
    assert!(with("}").models[0].failed > 0);
    // The same load is more for a shorter time.
    assert_eq!(with(", per: 1s}").models[0].failed, 0);
    let outage = ", trace: [{to: 5s, fault: overloaded}]";
    let (quick, slow) = (with(&format!("}}{outage}")), with(&format!(", recovers: 10m}}{outage}")));
    assert!(slow.models[0].failed > quick.models[0].failed);
}

#[test]
fn a_cause_that_persists_answers_the_same_request_badly_again() {
    let policy = "version: 1\nmodels: {'*': {retry: {max_attempts: 4}}}";
    let with = |model: &str, more: &str| {
        let scenario = scenario(&format!("faults: {{{model}: 0.2}}{more}"), "", "").with_agents(5);
        let scenario = scenario.with_runs(10.try_into().unwrap());
        play(&scenario, policy)
    };
    let (drawn, sticky) = (with("truncated_output", ""), with("truncated_output", ", sticky: 1"));
    assert!(drawn.complete > sticky.complete, "{} {}", drawn.complete, sticky.complete);
    // Every run that met it failed with it.
    assert!(sticky.ended_by.iter().all(|why| why.error_type == Some(ErrorClass::TruncatedOutput)));
}

#[test]
fn the_runs_of_a_session_continue_with_what_is_known() {
    let policy = "version: 1\nmodels: {'*': {retry: {enabled: false}}}
tools: {'*': {retry: {enabled: false}, breaker: {failures: 1, scope: session, open_for: 30m}}}";
    let with = |session: &str| {
        let broken = "faults: {execution_error: 1}";
        play(
            &scenario("", broken, &format!("runs: 4\n{session}\nwork: {{calls: 1, repeat_failed: 0}}")),
            policy,
        )
    };
    // An open breaker keeps the tool from running in the next runs of its session.
    assert_eq!(with("").tool_runs, 12);
    assert_eq!(with("session_runs: 2").tool_runs, 6);
    assert_eq!(with("session_runs: 4").tool_runs, 3);
}

#[test]
fn so_many_runs_are_played_however_long_they_take() {
    let runs = |scenario: Scenario| play(&scenario, "version: 1").runs;
    let short = || scenario("", "", "");
    assert_eq!(runs(short()), 54);
    assert_eq!(runs(short().with_runs(40.try_into().unwrap())), 120);
    assert_eq!(runs(short().with_runs(1.try_into().unwrap())), 3);
}

#[test]
fn good_answers_an_hour_and_the_longest_wait_of_a_run_are_told() {
    let figures = play(&scenario("", "", ""), "version: 1");
    let expected = figures.complete * 3_600_000 / (figures.ended.0 / 1_000_000_000);
    assert_eq!(figures.goodput(), Some(expected));
    assert_eq!(figures.longest_wait, Nanos::ZERO);
    let down = scenario("faults: {overloaded: 1}", "", "runs: 2");
    let waits = "version: 1
models: {'*': {retry: {max_attempts: 4, backoff: {kind: constant, delay: 7s, jitter: none}}}}";
    let figures = play(&down, waits);
    assert_eq!((figures.goodput(), figures.longest_wait), (Some(0), Nanos::from_secs(21)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn whatever_fails_the_sums_hold_and_the_same_seed_comes_to_the_same(
        seed: u64,
        overloaded in 0.01_f64..0.4,
        broken in 0.01_f64..0.4,
        hangs in 0.01_f64..0.2,
    ) {
        let model = format!("faults: {{overloaded: {overloaded:.3}, malformed_tool_call: {broken:.3}}}");
        let tool = format!("faults: {{timeout: {hangs:.3}, network_error: {broken:.3}}}");
        let scenario = scenario(&model, &tool, "").with_seed(seed);
        let figures = play(&scenario, "version: 1");
        prop_assert_eq!(&figures, &play(&scenario, "version: 1"));
        prop_assert_eq!(figures.runs, figures.complete + figures.partial + figures.failed);
        prop_assert!(figures.model_calls_needed <= figures.model_calls);
        prop_assert!(figures.tool_runs_needed <= figures.tool_runs);
        prop_assert_eq!(figures.model_calls, figures.models[0].calls);
        prop_assert_eq!(figures.tool_runs, figures.tools[0].calls);
        prop_assert!(figures.turn_p50 <= figures.turn_p99);
        prop_assert_eq!(figures.runs, figures.over_time.iter().map(|part| part.runs).sum::<u64>());
    }
}
