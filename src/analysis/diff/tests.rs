//! The statements of a comparison hold for both policies.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use insta::assert_snapshot;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::analysis::PolicyExplanation;
use crate::policy::ErrorClass;
use crate::policy::document::for_all;

const OLD: &str = "\
version: 1
limits: {total_delay: 1m}
retry: {max_attempts: 3, retry_on: [timeout, rate_limit]}
tools:
  http.get: {retry: {max_attempts: 4}}
  http.post: {retry: {max_attempts: 4}}
  http.*: {effect: idempotent}
  '*.delete':
    effect: non_idempotent
    priority: 1
    calls: [{when: args.force, retry: {max_attempts: 1}}]
turn: {max_turns: 10}
session:
  reducers:
    count: {on: tool_failed, slice: feedback, do: {kind: keep_last, count: 3}}
errors:
  - {status: 429, code: [a], class: rate_limit}
";
const NEW: &str = "\
version: 1
limits: {total_delay: 30s}
retry:
  max_attempts: 5
  retry_on: [timeout]
  never_retry: {remove: [auth_error]}
  backoff: {kind: constant, delay: 1s, jitter: none}
tools:
  http.get: {retry: {max_attempts: 4, deadline: 1m}}
  http.*: {effect: idempotent, priority: 2, breaker: {failures: never}}
  '*.delete':
    effect: non_idempotent
    calls: [{when: args.force, retry: {max_attempts: 2}}]
output: {}
session:
  slices: {spent: {initial: 0}}
  reducers:
    count: {on: tool_failed, slice: feedback, do: {kind: keep_last, count: 5}}
errors:
  - {status: 429, code: [a], class: overloaded}
  - {message: [try later], class: overloaded}
";

fn diff(old: &str, new: &str) -> PolicyComparison {
    policy("old.yaml", old).diff(&policy("new.yaml", new), &ComparedNames::default())
}

#[track_caller]
fn policy(name: &str, text: &str) -> Policy {
    Policy::from_yaml(name, text).unwrap_or_else(|report| panic!("{}", report.human(false)))
}

#[test]
fn each_difference_is_told_once_with_its_places_and_its_direction() {
    assert_snapshot!(diff(OLD, NEW).human());
}

#[test]
fn machines_get_every_row() {
    let found =
        diff("version: 1\nretry: {max_attempts: 2}", "version: 1\ntools: {t*: {retry: {max_attempts: 2}}}");
    insta::assert_json_snapshot!(found.to_json());
}

#[test]
fn the_same_rules_in_another_shape_are_no_difference() {
    let one = "version: 1\ntools: {a: {retry: {max_attempts: 2}}, 'b*': {effect: idempotent}}";
    let other = "version: 1\n# Split otherwise.\ntools:\n  'b*': {effect: idempotent}\n  a:\n    retry:\n      max_attempts: 2\n";
    let found = diff(one, other);
    assert!(found.is_empty());
    assert_snapshot!(found.human(), @"no difference: 3 tools and 1 model compared (patterns count as one each), and the turns, the report, the session, the table of errors");
}

#[test]
fn a_layer_for_some_calls_is_compared_with_those_it_holds_for() {
    let plain = "version: 1\ntools: {t: {retry: {max_attempts: 2}}}";
    let call = "version: 1\ntools: {t: {retry: {max_attempts: 2}, calls: [{when: args.x, retry: {max_attempts: 4}}]}}";
    assert_snapshot!(diff(plain, call).human(), @"
    tool t
      when args.x
        looser   retry.max_attempts  2 -> 4  old.yaml:2:35 -> new.yaml:2:84

    1 looser, 0 tighter, 0 changed; 2 tools and 1 model compared
    ");
}

#[test]
fn a_class_without_rules_of_its_own_is_compared_by_those_for_all() {
    let (all, own) = (
        "version: 1\nretry: {max_attempts: 4}",
        "version: 1\nretry: {max_attempts: 4, by_class: {timeout: {max_attempts: 2}}}",
    );
    let found = diff(all, own);
    assert_eq!(found.groups.len(), 1, "{found}");
    let row = &found.groups[0].rows[0];
    assert_eq!(
        (row.field.as_str(), &row.old, &row.new),
        ("retry.by_class.timeout.max_attempts", &Some(json!(4)), &Some(json!(2)))
    );
    assert_eq!(row.verdict, DiffVerdict::Tighter);
    assert!(diff(own, own).is_empty());
}

#[test]
fn the_order_of_layers_for_calls_counts_where_several_hold() {
    let calls = |a: &str, b: &str| format!("version: 1\ntools: {{t: {{calls: [{a}, {b}]}}}}");
    let (one, other) =
        ("{when: args.x, retry: {max_attempts: 2}}", "{when: args.y, retry: {max_attempts: 5}}");
    let found = diff(&calls(one, other), &calls(other, one));
    let rows: Vec<_> = found.groups.iter().flat_map(|group| &group.rows).collect();
    assert_eq!(rows.len(), 1, "{found}");
    assert_eq!(rows[0].when.as_deref(), Some("all of these hold"));
    assert_eq!((&rows[0].old, &rows[0].new), (&Some(json!(5)), &Some(json!(2))));
}

#[test]
fn a_row_that_is_never_reached_does_not_count() {
    let table = |rows: &str| format!("version: 1\nerrors: [{rows}]");
    let (a, b) = ("{status: 429, class: overloaded}", "{status: 429, class: timeout}");
    assert!(diff(&table(a), &table(&format!("{a}, {b}"))).is_empty());
    let moved = diff(
        &table("{status: 418, class: timeout}, {code: x, class: overloaded}"),
        &table("{code: x, class: overloaded}, {status: 418, class: timeout}"),
    );
    assert_eq!(moved.groups[0].rows[0].field, "status: [418], code: [x]");
    assert_eq!(moved.groups[0].rows[0].old, Some(json!("timeout")));
    let apart = ["{status: 418, class: timeout}", "{status: 417, class: overloaded}"];
    let swapped = diff(&table(&apart.join(", ")), &table(&[apart[1], apart[0]].join(", ")));
    assert!(swapped.is_empty(), "{swapped}");
}

#[test]
fn a_row_that_is_split_tells_the_same() {
    let table = |rows: &str| format!("version: 1\nerrors: [{rows}]");
    let one = table("{status: [500, 501], class: timeout}");
    let two = table("{status: 500, class: timeout}, {status: 501, class: timeout}");
    assert!(diff(&one, &two).is_empty());
    assert!(diff(&one, &table("{status: 501, class: timeout}, {status: 500, class: timeout}")).is_empty());
}

#[test]
fn a_row_above_others_differs_where_they_would_tell_another_class() {
    let found = diff("version: 1", "version: 1\nerrors: [{status: 429, class: rate_limit}]");
    let rows = &found.groups[0].rows;
    let quota = rows.iter().find(|row| row.field.contains("billing_hard_limit_reached")).unwrap();
    assert_eq!((&quota.old, &quota.new), (&Some(json!("quota_exceeded")), &Some(json!("rate_limit"))));
}

#[test]
fn a_class_has_the_place_that_explain_tells() {
    let (old, new) = ("version: 1", "version: 1\nretry: {never_retry: {add: [timeout]}}");
    let found = diff(old, new);
    let row =
        found.groups.iter().flat_map(|group| &group.rows).find(|row| row.field == "on timeout").unwrap();
    let explained = |text: &str, name: &str| {
        policy(name, text).explain_tool("t").on_error(ErrorClass::Timeout).reasons[0].at.clone()
    };
    assert_eq!(row.old_at, Some(explained(old, "old.yaml")));
    assert_eq!(row.new_at, Some(explained(new, "new.yaml")));
}

#[test]
fn what_alters_every_class_has_a_row_for_each() {
    let tool = |said: &str| format!("version: 1\ntools: {{t: {{{said}}}}}");
    let shown = |found: &PolicyComparison| -> Vec<String> {
        let all = found.groups.iter().flat_map(|group| &group.rows);
        let told = all.filter(|row| row.field == "on rate_limit");
        told.map(|row| format!("{} -> {}", row.old.clone().unwrap(), row.new.clone().unwrap())).collect()
    };
    let off = diff(&tool(""), &tool("retry: {enabled: false}"));
    assert_eq!(shown(&off), ["\"retried\" -> \"not retried\""]);
    let effect = diff(&tool("effect: read_only"), &tool("effect: non_idempotent"));
    assert_eq!(shown(&effect), ["\"retried\" -> \"retried if not started\""]);
    assert_eq!(shown(&diff(&tool("retry: {max_attempts: 1}"), &tool("retry: {max_attempts: 2}"))), [""; 0]);
}

#[test]
fn patterns_that_meet_in_too_many_ways_are_said_not_to_be_compared() {
    let mut text = "version: 1\ntools:\n".to_owned();
    for i in 0..150 {
        let _ =
            writeln!(text, "  'a{i:03}.*': {{effect: idempotent}}\n  '*.b{i:03}': {{effect: idempotent}}");
    }
    let found = diff(&text, &text);
    assert!(found.is_empty() && found.incomplete);
    assert!(
        found.human().contains("note: patterns match, or conditions hold, in more ways than were compared")
    );
}

#[test]
fn conditions_that_hold_for_too_many_tools_are_said_not_to_be_compared() {
    let text = |attempts: usize, tools: usize| {
        let calls = |i| format!("{{when: args.a == {i}, retry: {{max_attempts: {attempts}}}}}");
        let calls: Vec<String> = (0..100).map(calls).collect();
        let tools: Vec<String> = (0..tools).map(|i| format!("  t{i}: {{effect: idempotent}}\n")).collect();
        format!("version: 1\ntools:\n  '*': {{calls: [{}]}}\n{}", calls.join(", "), tools.concat())
    };
    let found = diff(&text(2, 20), &text(3, 20));
    assert!(!found.incomplete && found.human().contains("a == 99"), "{found}");
    let found = diff(&text(2, 300), &text(3, 300));
    assert!(found.incomplete && found.human().contains("a == 99"), "{found}");
}

/// What an explanation says about a field of a row: its value, or what is done about a class.
fn explained(explanation: &PolicyExplanation, field: &str) -> Option<Value> {
    if let Some(name) = field.strip_prefix("limits.") {
        let limits = explanation.limits.iter().filter(|limit| limit.name == name);
        return limits.map(|limit| limit.value.clone()).reduce(|_, _| Value::Null);
    }
    let Some(class) = field.strip_prefix("on ") else {
        let held = explanation.get(field).or_else(|| explanation.get(&for_all(field)?));
        return held.map(|value| value.value.clone());
    };
    let action = explanation.on_error(ErrorClass::from_name(class)?).action;
    Some(classes::shown(classes::coarse(action)))
}

fn layer() -> impl Strategy<Value = String> {
    let classes = || proptest::sample::select(vec!["timeout", "rate_limit", "auth_error", "execution_error"]);
    let field = prop_oneof![
        (1..5_u32).prop_map(|n| format!("max_attempts: {n}")),
        (1..5_u32).prop_map(|n| format!("deadline: {n}m")),
        classes().prop_map(|class| format!("retry_on: {{add: [{class}]}}")),
        classes().prop_map(|class| format!("never_retry: {{remove: [{class}]}}")),
        Just("backoff: null".to_owned()),
        (1..5_u32).prop_map(|n| format!("by_class: {{timeout: {{max_attempts: {n}}}}}")),
        Just("by_class: null".to_owned()),
        any::<bool>().prop_map(|shadow| format!("shadow: {shadow}")),
    ];
    (field, proptest::option::of(1..4_u32), 0..3_i32).prop_map(|(field, limit, priority)| {
        let limits = limit.map(|n| format!(", limits: {{max_attempts: {n}}}")).unwrap_or_default();
        format!("{{retry: {{{field}}}{limits}, priority: {priority}}}")
    })
}

/// Policies of a few selectors over two letters, with patterns that meet. What is refused is made again.
fn policies() -> impl Strategy<Value = Policy> {
    let selector = "[ab]{0,2}\\*?[ab]{0,2}";
    proptest::collection::btree_map(selector, layer(), 0..5).prop_filter_map("conflicts", |rules| {
        let mut text = "version: 1\ntools:\n  unused: {}\n".to_owned();
        for (selector, layer) in rules {
            let _ = writeln!(text, "  '{selector}': {layer}");
        }
        Policy::from_yaml("x.yaml", &text).ok()
    })
}

/// What the file of a policy says.
fn file(policy: &Policy) -> &str {
    policy.sources().iter().last().map_or("", |source| source.text())
}

fn words() -> Vec<String> {
    let mut all = vec![String::new()];
    for _ in 0..5 {
        let longer: Vec<_> = all.iter().flat_map(|w| ["a", "b"].map(|c| format!("{w}{c}"))).collect();
        all.extend(longer);
    }
    all.sort();
    all.dedup();
    all
}

#[test]
fn patterns_that_decide_together_are_compared_where_they_meet() {
    let both = "version: 1\ntools:\n  'a.*': {retry: {retry_on: {add: [execution_error]}}}\n";
    let old =
        Policy::from_yaml("x.yaml", &format!("{both}  '*.b': {{retry: {{enabled: false}}}}\n")).unwrap();
    let new = Policy::from_yaml("x.yaml", both).unwrap();
    let found = old.diff(&new, &ComparedNames::default());
    let where_they_meet = found.groups.iter().find(|group| {
        group.rows.iter().any(|row| row.field == "on execution_error" && row.verdict == DiffVerdict::Looser)
    });
    let subjects = &where_they_meet.unwrap().subjects;
    assert_eq!(
        subjects.iter().map(|subject| subject.name.as_str()).collect::<Vec<_>>(),
        ["both a.* and *.b"]
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn what_is_said_is_what_explain_says_of_both(old in policies(), new in policies()) {
        let found = old.diff(&new, &ComparedNames::default());
        for group in &found.groups {
            for (subject, row) in group.subjects.iter().flat_map(|s| group.rows.iter().map(move |row| (s, row))) {
                let name = subject.example.as_deref().unwrap_or_default();
                let (was, is) = (old.explain_tool(name), new.explain_tool(name));
                prop_assert_eq!(explained(&was, &row.field), row.old.clone(), "{} of {}", row.field, name);
                prop_assert_eq!(explained(&is, &row.field), row.new.clone(), "{} of {}", row.field, name);
                prop_assert_ne!(&row.old, &row.new);
                if let Some(class) = row.field.strip_prefix("on ").and_then(ErrorClass::from_name) {
                    prop_assert_eq!(Some(&was.on_error(class).reasons[0].at), row.old_at.as_ref());
                }
                if let Some(held) = was.get(&row.field) {
                    prop_assert_eq!(Some(&held.at), row.old_at.as_ref());
                }
            }
        }
    }

    #[test]
    fn no_name_has_a_difference_that_is_not_told(old in policies(), new in policies()) {
        let found = old.diff(&new, &ComparedNames::default());
        let told: BTreeSet<String> =
            found.groups.iter().flat_map(|group| &group.rows).map(|row| format!("{row:?}")).collect();
        let sides = ComparedSides { old: &old, new: &new };
        for name in words() {
            for row in sides.tool(&name, &mut usize::MAX.clone()) {
                prop_assert!(told.contains(&format!("{row:?}")), "{name}: {row:?}\nis not in\n{found}\n{}{}", file(&old), file(&new));
            }
        }
    }

    #[test]
    fn a_policy_does_not_differ_from_itself(policy in policies()) {
        prop_assert!(policy.diff(&policy, &ComparedNames::default()).is_empty());
    }
}

#[test]
fn every_class_is_told_that_another_thing_is_done_about() {
    let all: Vec<_> = ErrorClass::ALL.iter().map(|class| class.name()).collect();
    let text = |list: &str| format!("version: 1\nretry: {{never_retry: [], retry_on: [{list}]}}");
    let found = diff(&text(""), &text(&all.join(", ")));
    let told: Vec<_> =
        found.groups.iter().flat_map(|group| &group.rows).map(|row| row.field.clone()).collect();
    assert_eq!(told, all.iter().map(|class| format!("on {class}")).collect::<Vec<_>>());
}
