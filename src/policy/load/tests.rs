//! What policies mean: the manual by example.

use insta::assert_snapshot;
use serde_json::json;

use super::*;
use crate::policy::{AttemptLimit, Effect, OnExhausted, TextOnly, TimeBound};
use crate::text::yaml;

mod at_once;
mod by_class;
mod errors;
mod layers;
mod repairs;

fn policy(text: &str) -> Policy {
    Policy::from_yaml("team.yaml", text).unwrap_or_else(|report| panic!("{}", report.human(false)))
}

fn files(files: &[(&str, &str)]) -> Result<Policy, Report> {
    Policy::load(files.iter().map(|(name, text)| ((*name).to_owned(), *text)).collect())
}

fn mistakes(text: &str) -> String {
    Policy::from_yaml("team.yaml", text).unwrap_err().to_string()
}

fn attempts(policy: &Policy, tool: &str) -> u32 {
    match policy.tool(tool).retry.max_attempts.value {
        AttemptLimit::Limited(count) => count.get(),
        AttemptLimit::Unlimited => 0,
    }
}

mod defaults {
    use super::*;

    #[test]
    fn the_default_sets_every_value() {
        let policy = Policy::builtin();
        let all = policy.layers();
        let mut open = Vec::new();
        let mut look =
            |path: String, _: &crate::policy::key::Key, trail: &dyn crate::policy::merge::AnyTrail| {
                if trail.value().is_none() {
                    open.push(path);
                }
            };
        all.tool("x", &[]).each("tool", &mut look);
        all.model("x").each("model", &mut look);
        all.output().each("output", &mut look);
        all.turn().each("turn", &mut look);
        assert!(open.is_empty(), "{open:?}");
    }

    #[test]
    fn every_value_of_it_knows_its_line() {
        let policy = Policy::builtin();
        let tool = policy.tool("x");
        assert_eq!(policy.place(tool.breaker.failures.origin).file, "builtin:default");
        assert!(policy.place(tool.breaker.failures.origin).line > 20);
        assert_eq!(tool.effect.value, Effect::Unknown);
        assert_eq!(policy.turn().text_only.value, TextOnly::Accept);
        assert!(policy.output().is_none(), "no report is asked for until a file asks");
    }

    #[test]
    fn feedback_and_reducer_errors_are_remembered() {
        let policy = Policy::builtin();
        let names: Vec<&str> = policy.session().reducers.iter().map(|r| r.name.as_str()).collect();
        assert_eq!(
            names,
            ["remember_feedback", "bound_feedback", "remember_reducer_errors", "bound_reducer_errors"]
        );
        assert_eq!(policy.session().slices.keys().collect::<Vec<_>>(), ["feedback", "reducer_errors"]);
    }

    #[test]
    fn the_same_files_have_the_same_digest() {
        let text = "version: 1\n";
        assert_eq!(policy(text).digest(), policy(text).digest());
        assert_ne!(policy(text).digest(), policy("version: 1\n# other\n").digest());
        assert_eq!(policy(text).digest().len(), 32);
    }
}

mod limits {
    use super::*;

    #[test]
    fn the_tightest_limit_of_all_layers_wins() {
        let policy = policy(
            "version: 1\nlimits: {max_attempts: 6, max_turns: 5, never_retry: [timeout]}\nretry: {max_attempts: 9, deadline: unlimited}\ntools:\n  a: {retry: {max_attempts: 8}}\n  b: {limits: {max_attempts: 2, deadline: 10s}}\n",
        );
        assert_eq!((attempts(&policy, "a"), attempts(&policy, "b")), (6, 2));
        let b = policy.tool("b");
        assert_eq!(b.retry.deadline.value, TimeBound::Within(crate::time::Nanos::from_secs(10)));
        assert_eq!(b.retry.max_attempts.origin.scope, LayerKind::Limit);
        assert_eq!(policy.place(b.retry.max_attempts.origin).to_string(), "team.yaml:6:30");
        assert!(b.retry.never_retry.value.contains(ErrorClass::Timeout));
        assert!(b.retry.never_retry.value.contains(ErrorClass::AuthError));
        assert_eq!(policy.turn().max_turns.value.get(), 5);
    }

    #[test]
    fn a_planner_tightens_and_never_loosens() {
        let policy = policy("version: 1\nlimits: {max_attempts: 4}\n");
        let of = |json: Value| {
            let planner = CallOverride::new(json).unwrap();
            policy.call("a", &json!({}), Some(&planner)).policy.retry.max_attempts.value
        };
        let limited = |n: u32| AttemptLimit::Limited(n.try_into().unwrap());
        assert_eq!(of(json!({"limits": {"max_attempts": 2}})), limited(2));
        assert_eq!(of(json!({"limits": {"max_attempts": 40}, "retry": {"max_attempts": 9}})), limited(4));
        assert_eq!(of(json!({"retry": {"max_attempts": "unlimited"}})), limited(4));
    }
}

mod conflicts;
mod session_in_messages;

mod bad_input {
    use super::*;

    const FIFTEEN: &str = include_str!("mistakes.yaml");

    #[test]
    fn every_mistake_of_a_file_is_told_at_once() {
        assert_snapshot!(Policy::from_yaml("team.yaml", FIFTEEN).unwrap_err().human(false));
    }

    #[test]
    fn a_policy_without_version_is_told_what_to_write() {
        assert_snapshot!(
            Policy::from_yaml("team.yaml", "retry: {max_attempts: 2}\n").unwrap_err().human(false)
        );
    }

    #[test]
    fn each_has_its_place() {
        assert_snapshot!(mistakes("version: 2\n"));
        assert_snapshot!(mistakes("version: 1\nretry: {max_attempts: 0}\n"));
        assert_snapshot!(mistakes("version: 1\nretry: {max_attempts: unlimited}\n"));
        assert_snapshot!(mistakes(
            "version: 1\nretry: {deadline: 1s}\ntools: {a: {retry: {max_attempts: unlimited, deadline: null}}}\n"
        ));
        assert_snapshot!(mistakes(
            "version: 1\nretry: {deadline: 10000h, total_delay: 5, attempt_timeout: -1s}\n"
        ));
        assert_snapshot!(mistakes("version: 1\nlimits: {max_attempts: null}\n"));
        assert_snapshot!(
            "no_time_for_an_attempt",
            mistakes(
                "version: 1\nlimits: {deadline: 0s, attempt_timeout: 0ms}\nretry: {attempt_timeout: 0s, deadline: 0h, total_delay: 0s}\n"
            )
        );
        assert_snapshot!(mistakes("version: 1\nretry: {backoff: {factor: 3}}\n"));
        assert_snapshot!(mistakes(
            "version: 1\nretry: {backoff: {kind: constant, delay: 1s, jitter: plus_minus}}\n"
        ));
        assert_snapshot!(mistakes("version: 1\ntools: {'a**': {}}\n"));
        assert_snapshot!(mistakes(
            "version: 1\nsession: {reducers: {r: {on: tool_failed, slice: fedback, do: {kind: keep_last, count: 3}}}}\n"
        ));
        assert_snapshot!(mistakes(
            "version: 1\nsession: {slices: {n: {initial: 0}}, reducers: {r: {on: tool_failed, slice: n, do: {kind: append, value: '1'}}}}\n"
        ));
        assert_snapshot!(mistakes(
            "version: 1\nerrors: [{status: 99, class: timeout}, {status: 6xx, class: timeut}]\n"
        ));
        assert_snapshot!(mistakes("version: 1\nretry:\n"));
        assert_snapshot!(mistakes("- version: 1\n"));
    }

    #[test]
    fn windows_and_shares_of_them_are_more_than_nothing() {
        assert_snapshot!(mistakes(
            "version: 1\nmodels: {a: {context_window: 0, output_reserve: 0, assumed_window: -1}, b: {context_window: -8192}}\n"
        ));
        assert_snapshot!(mistakes(
            "version: 1\ncontext: {compact_at_free: 0, min_free: 0 tokens, target_free: 0.0, reserve: -1, safety: 1.5, give_up_after: 0}\n"
        ));
        assert_snapshot!(mistakes(
            "version: 1\ncontext: {results: few, tokens: {safety: 0, bytes_per_token: {prose: 0, json: -2}}, reduce: [{kind: drop, keep_last: 0}, {kind: results, keep_last: 1, over: 0 chars, show: -1 chars}]}\n"
        ));
    }

    #[test]
    fn mistakes_of_all_files_are_told_together() {
        let report = files(&[("a.yaml", "version: 1\nretry: {max: 1}"), ("b.yaml", "version: 1\nturns: {}")]);
        assert_snapshot!(report.unwrap_err());
    }

    #[test]
    fn what_would_take_too_long_is_refused() {
        let text = (0..10_001).map(|i| format!("  t{i}: {{}}\n")).collect::<Vec<_>>().concat();
        assert_snapshot!(mistakes(&format!("version: 1\ntools:\n{text}")));
        // All of them match the same names, and each says something else.
        let rule = |i: usize| format!("  a*{i}*: {{retry: {{max_attempts: {}}}}}\n", i + 1);
        let text = (0..5_000).map(rule).collect::<Vec<_>>().concat();
        assert_snapshot!(mistakes(&format!("version: 1\nmodels:\n{text}")));
        let text = (0..10_002).map(|i| format!("a{i}: &a{i} x\n")).collect::<Vec<_>>().concat();
        assert_eq!(
            mistakes(&format!("version: 1\n{text}")),
            "team.yaml:10002:17: error[P0008]: more than 10000 anchors"
        );
        let text = (0..4_100)
            .map(|i| format!("  - {{message: m{i}, class: timeout}}\n"))
            .collect::<Vec<_>>()
            .concat();
        assert_snapshot!(mistakes(&format!("version: 1\nerrors:\n{text}")));
    }

    #[test]
    fn what_would_take_too_much_memory_is_refused() {
        let calls = |count: usize, when: &str| {
            let call = format!("    - {{when: \"{when}\"}}\n");
            format!("version: 1\ntools:\n  a:\n    calls:\n{}", call.repeat(count))
        };
        let pattern = "args.a.matches('^[a-z]+$')";
        assert!(Policy::from_yaml("team.yaml", &calls(1_000, pattern)).is_ok());
        assert_snapshot!(mistakes(&calls(1_300, pattern)));
        // What is refused has been looked at too.
        let told = mistakes(&calls(10_000, "args.a.matches('^(a{1,200}){1,200}$')"));
        assert!(
            told.contains("it is too large") && told.contains("too many, or too large, to be kept"),
            "{told}"
        );
        assert!(told.matches("it is too large").count() < 100, "{told}");
    }

    #[test]
    fn huge_values_do_not_make_huge_reports() {
        let huge = "1".repeat(1 << 20);
        for text in
            [format!("version: {huge}\n"), format!("version: 1\ntools: {{'{huge}': {{}}, 1{huge}: {{}}}}\n")]
        {
            let report = Policy::from_yaml("team.yaml", &text).unwrap_err();
            let size =
                report.to_string().len() + report.human(false).len() + report.to_json().to_string().len();
            assert!(size < 20_000, "{size}");
        }
    }
}

mod laws {
    use super::*;
    use proptest::prelude::*;

    const ENTRIES: [&str; 6] = [
        "limits: {max_attempts: 4}",
        "retry: {max_attempts: 5, deadline: 1m}",
        "tools: {http.*: {retry: {max_attempts: 3}}, http.get: {effect: read_only}, \"*\": {on_exhausted: fail}}",
        "models: {\"*\": {retry: {backoff: {kind: fibonacci, base: 1s, jitter: none}}}}",
        "turn: {max_turns: 3}",
        "output: {tool: done}",
    ];

    fn effective(policy: &Policy) -> Value {
        json!([
            policy.explain_tool("http.get").effective(),
            policy.explain_tool("file").effective(),
            policy.explain_model("m").effective(),
            policy.explain_turn().effective(),
            policy.explain_output().unwrap().effective(),
        ])
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn the_order_of_keys_changes_nothing(order in Just(ENTRIES.to_vec()).prop_shuffle()) {
            let whole = policy(&format!("version: 1\n{}\n", ENTRIES.join("\n")));
            let shuffled = policy(&format!("{}\nversion: 1\n", order.join("\n")));
            prop_assert_eq!(effective(&whole), effective(&shuffled));
        }

        #[test]
        fn a_file_split_in_two_says_the_same(first in proptest::collection::vec(any::<bool>(), 6)) {
            let whole = policy(&format!("version: 1\n{}\n", ENTRIES.join("\n")));
            let half = |side: bool| {
                let mine = ENTRIES.iter().zip(&first).filter(|(_, first)| **first == side).map(|(entry, _)| *entry);
                format!("version: 1\n{}\n", mine.collect::<Vec<_>>().join("\n"))
            };
            let split = files(&[("a", &half(true)), ("b", &half(false))]).unwrap();
            prop_assert_eq!(effective(&whole), effective(&split));
        }

        #[test]
        fn any_text_is_a_policy_or_a_report(text in "(version: 1\n)?[a-z:{}\\[\\], \n\"'&*!|>#-]{0,80}") {
            if let Err(report) = Policy::from_yaml("x", &text) {
                prop_assert!(report.has_errors());
                report.human(false);
            }
        }
    }
}

mod schema {
    use super::*;

    /// Whether the schema and the reader take a document, and they must agree.
    fn takes(text: &str) -> bool {
        let document =
            yaml::parse(SourceId(0), text, &mut crate::text::Problems::default()).unwrap().to_json();
        let validator = jsonschema::validator_for(&json_schema()).unwrap();
        let (schema, reader) = (validator.is_valid(&document), Policy::from_yaml("x", text).is_ok());
        assert_eq!(schema, reader, "the schema says {schema}, the reader {reader}: {text}");
        reader
    }

    #[test]
    fn what_is_read_holds_the_schema() {
        assert!(takes(crate::policy::builtin::DEFAULT));
        for text in [
            "version: 1",
            "version: 1\nretry: null\nturn: {max_turns: null}\noutput: null",
            "version: 1\nretry: {max_attempts: unlimited, deadline: 1h 30m, retry_on: {add: [timeout]}, server_delay: {mode: ignore}}",
            "version: 1\nretry: {backoff: {kind: schedule, delays: [0s, 1.5s], jitter: plus_minus, spread: 0.5}}",
            "version: 1\ntools: {a: {breaker: {failures: never}, calls: [{when: 'true', retry: {enabled: false}}], validate: [{name: a, check: 'args.x > 1', message: m}]}}",
            "version: 1\nsession: {slices: {a: {initial: null}, b: {}}, reducers: {bound_feedback: null, r: {on: [tool_failed], slice: a, do: {kind: set, value: event}}}}",
            "version: 1\nerrors: [{status: [429, 5xx], code: a, type: [b], message: c, class: timeout}]",
        ] {
            assert!(takes(text), "{text}");
        }
    }

    #[test]
    fn what_is_refused_breaks_the_schema() {
        for text in [
            "{}",
            "version: 2",
            "version: 1\nretries: {}",
            "version: 1\nretry: {max_attempts: 0}",
            "version: 1\nretry: {max_attempts: forever}",
            "version: 1\nretry: {enabled: 'yes'}",
            "version: 1\nretry: {deadline: 5}",
            "version: 1\nretry: {deadline: '5'}",
            "version: 1\nretry: {deadline: -5s}",
            "version: 1\nretry: {retry_on: timeout}",
            "version: 1\nretry: {retry_on: [timeouts]}",
            "version: 1\nretry: {retry_on: {ad: [timeout]}}",
            "version: 1\nretry: {backoff: {base: 1s}}",
            "version: 1\nretry: {backoff: {kind: exponential, base: 1s, jitter: none}}",
            "version: 1\nretry: {backoff: {kind: exponential, base: 1s, factor: 0.5, jitter: none}}",
            "version: 1\nretry: {backoff: {kind: constant, delay: 1s, step: 1s, jitter: none}}",
            "version: 1\nretry: {backoff: {kind: constant, delay: 1s, jitter: plus_minus}}",
            "version: 1\nretry: {backoff: {kind: constant, delay: 1s, jitter: full, spread: 0.1}}",
            "version: 1\nretry: {backoff: {kind: schedule, delays: [], jitter: none}}",
            "version: 1\nretry: {server_delay: {max: 1s}}",
            "version: 1\nlimits: {max_attempts: null}",
            "version: 1\ntools: {a: null}",
            "version: 1\ntools: {'a**': {}}",
            "version: 1\ntools: {a: {effect: none}}",
            "version: 1\ntools: {a: {calls: [{retry: {}}]}}",
            "version: 1\nsession: {reducers: {r: {on: tool_failed, slice: feedback, do: {kind: keep_last}}}}",
            "version: 1\nerrors: [{status: 99, class: timeout}]",
            "version: 1\nerrors: [{status: 429}]",
        ] {
            assert!(!takes(text), "{text}");
        }
    }

    #[test]
    fn every_object_of_it_is_closed() {
        fn walk(value: &Value, path: &str, open: &mut Vec<String>) {
            if let Value::Object(object) = value {
                if object.get("properties").is_some()
                    && object.get("additionalProperties").is_none()
                    && object.get("type").is_some()
                {
                    open.push(path.to_owned());
                }
                // A condition describes nothing that is written.
                let other = ["examples", "if", "then", "else"];
                let inner = object.iter().filter(|(key, _)| !other.contains(&key.as_str()));
                inner.for_each(|(key, value)| walk(value, &format!("{path}/{key}"), open));
            }
            if let Value::Array(items) = value {
                items.iter().enumerate().for_each(|(i, item)| walk(item, &format!("{path}/{i}"), open));
            }
        }
        let mut open = Vec::new();
        walk(&json_schema(), "", &mut open);
        assert!(open.is_empty(), "{open:?}");
    }
}

#[test]
fn a_reducer_without_an_event_and_one_that_keeps_nothing_are_mistakes() {
    let told = |reducer: &str| {
        let text = format!("version: 1\nsession: {{reducers: {{r: {{{reducer}, slice: feedback}}}}}}\n");
        Policy::from_yaml("a.yaml", &text).unwrap_err().human(false)
    };
    let keep = "do: {kind: keep_last, count: 3}";
    assert!(told(&format!("on: [], {keep}")).contains("the reducer runs on no event"));
    assert!(told("on: tool_failed, do: {kind: keep_last, count: 0}").contains("must be"));
}
