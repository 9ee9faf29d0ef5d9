//! What is different for failures of some classes, and how layers of it are merged.

use insta::assert_snapshot;
use proptest::prelude::*;

use super::{files, policy};
use crate::policy::{ErrorClass, Policy};

fn attempts(policy: &Policy, tool: &str, class: ErrorClass) -> Option<u32> {
    policy.tool(tool).retry.for_class(class).max_attempts.value.limit()
}

#[test]
fn the_word_of_a_higher_layer_on_all_stands_above_the_word_of_a_lower_one_on_a_class() {
    let policy = policy(
        "version: 1\nretry: {max_attempts: 2, by_class: {timeout: {max_attempts: 5}}}\ntools: {a: {retry: {max_attempts: 3}}}\n",
    );
    assert_eq!(attempts(&policy, "b", ErrorClass::Timeout), Some(5));
    assert_eq!(attempts(&policy, "b", ErrorClass::Overloaded), Some(2));
    assert_eq!(attempts(&policy, "a", ErrorClass::Timeout), Some(3));
}

#[test]
fn null_takes_back_what_is_said_of_a_class_and_nothing_else() {
    let base = "version: 1\nretry: {max_attempts: 2, by_class: {timeout: {max_attempts: 5}, overloaded: {max_attempts: 6}}}\n";
    for (above, timeout, overloaded) in
        [("{timeout: null}", 2, 6), ("{timeout: {max_attempts: null}}", 2, 6), ("null", 2, 2), ("{}", 5, 6)]
    {
        let above = format!("version: 1\nretry: {{by_class: {above}}}\n");
        let policy = files(&[("base.yaml", base), ("team.yaml", &above)]).unwrap();
        assert_eq!(attempts(&policy, "a", ErrorClass::Timeout), Some(timeout), "{above}");
        assert_eq!(attempts(&policy, "a", ErrorClass::Overloaded), Some(overloaded), "{above}");
    }
}

#[test]
fn patterns_that_disagree_on_a_class_are_an_error_also_if_one_speaks_of_all() {
    let text = "version: 1\ntools:\n  db.*: {retry: {by_class: {timeout: {max_attempts: 5}}}}\n  \"*.delete\": {retry: {max_attempts: 1}}\n";
    assert_snapshot!(Policy::from_yaml("team.yaml", text).unwrap_err().human(false));
    let decided = format!("{text}  db.delete: {{retry: {{max_attempts: 2}}}}\n");
    assert_eq!(attempts(&policy(&decided), "db.delete", ErrorClass::Timeout), Some(2));
}

#[test]
fn attempts_without_end_need_a_deadline_for_a_class_too() {
    let text = "version: 1\nretry: {by_class: {timeout: {max_attempts: unlimited}}}\n";
    assert_snapshot!(Policy::from_yaml("team.yaml", text).unwrap_err().human(false));
}

#[test]
fn mistakes_are_told_at_their_place() {
    let text = "version: 1\nretry:\n  by_class: {time_out: {max_attempts: 2}, timeout: {retry_on: []}}\n  budget: {kind: tokens, capacity: 0, cost_of: {rate_limits: 1}}\n  server_delay: {mode: clamp}\nmodels:\n  m: {retry: {budget: {kind: window, window: 0s, ratio: 2}, server_delay: {mode: floor, margin: 1s}}}\n";
    assert_snapshot!(Policy::from_yaml("team.yaml", text).unwrap_err().human(false));
}

#[test]
fn what_a_class_has_of_its_own_is_explained() {
    let policy = policy(
        "version: 1\nretry:\n  backoff: {kind: constant, delay: 1s, jitter: none}\n  by_class: {rate_limit: {backoff: {kind: constant, delay: 9s, jitter: none}}}\ntools:\n  a: {retry: {max_attempts: 5, by_class: {rate_limit: {max_attempts: 7}}}}\n",
    );
    let explained = policy.explain_tool("a").values;
    let own: Vec<String> = explained
        .iter()
        .filter(|value| value.path.contains("by_class"))
        .map(|value| format!("{} = {} of {} said", value.path, value.value, value.contributions.len()))
        .collect();
    assert_snapshot!(own.join("\n"), @r#"
    retry.by_class.rate_limit.max_attempts = 7 of 3 said
    retry.by_class.rate_limit.backoff = {"kind":"constant","delay":"9s","jitter":"none"} of 4 said
    "#);
}

/// What a layer says: of all classes, and of one.
type LayerWords = (Option<u32>, Option<u32>);

proptest! {
    /// Layer by layer, and within one the word on the class above the word on all: the last word counts.
    #[test]
    fn the_last_word_counts(layers in proptest::collection::vec((proptest::option::of(1u32..9), proptest::option::of(1u32..9)), 1..5)) {
        let text = |(all, one): &LayerWords| {
            let all = all.map(|n| format!("max_attempts: {n}, ")).unwrap_or_default();
            let one = one.map(|n| format!("by_class: {{timeout: {{max_attempts: {n}}}}}")).unwrap_or_default();
            format!("version: 1\nretry: {{{all}{one}}}\n")
        };
        let texts: Vec<String> = layers.iter().map(text).collect();
        let named: Vec<(&str, &str)> = texts.iter().map(|text| ("layer.yaml", text.as_str())).collect();
        let policy = files(&named).unwrap();
        let last = layers.iter().flat_map(|(all, one)| [all, one]).filter_map(|said| *said).next_back();
        // Below the user's files: four attempts for all.
        prop_assert_eq!(attempts(&policy, "a", ErrorClass::Timeout), Some(last.unwrap_or(4)));
    }
}
