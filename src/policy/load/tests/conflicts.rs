//! Patterns that overlap, neither more specific, and disagree.

use super::*;

const TWO: &str =
    "version: 1\ntools:\n  db.*: {retry: {max_attempts: 4}}\n  \"*.delete\": {retry: {max_attempts: 1}}\n";

#[test]
fn edits_conflict_only_where_one_removes_what_the_other_adds() {
    let rules = |one: &str, other: &str| {
        let text = format!(
            "version: 1\ntools:\n  \"a*\": {{retry: {{retry_on: {{{one}}}}}}}\n  \"*b\": {{retry: {{retry_on: {{{other}}}}}}}\n"
        );
        Policy::from_yaml("x.yaml", &text)
    };
    let policy = rules("add: [execution_error]", "add: [not_found], remove: [timeout]").unwrap();
    let classes = policy.tool("ab").retry.retry_on.value;
    assert!(classes.contains(ErrorClass::ExecutionError) && classes.contains(ErrorClass::NotFound));
    assert!(!classes.contains(ErrorClass::Timeout));
    assert!(rules("add: [timeout]", "remove: [timeout]").is_err());
}

#[test]
fn an_earlier_file_s_edit_still_counts() {
    let base = "version: 1\ntools: {\"a*\": {retry: {retry_on: {add: [execution_error]}}}}\n";
    let team = "version: 1\ntools: {\"a*\": {retry: {retry_on: {add: [not_found]}}}, \"*b\": {retry: {retry_on: {remove: [execution_error]}}}}\n";
    let files = [("base.yaml", base), ("team.yaml", team)];
    let files = files.map(|(name, text)| (name.to_owned(), text)).to_vec();
    assert!(Policy::load(files).unwrap_err().to_string().contains("P0301"));
}

#[test]
fn rules_for_the_same_calls_conflict_too() {
    let rules = |condition: &str, narrow: &str| {
        let text = format!(
            "version: 1
tools:
  a*: {{calls: [{{when: args.slow, retry: {{max_attempts: 2}}}}]}}
  '*b': {{calls: [{{when: {condition}, retry: {{max_attempts: 1}}}}]}}
{narrow}"
        );
        Policy::from_yaml("x.yaml", &text)
    };
    let report = rules("args.slow", "").unwrap_err().to_string();
    assert!(report.contains("they disagree on `calls[args.slow].retry.max_attempts`"), "{report}");
    assert!(rules("args.fast", "").is_ok(), "it is unknown whether both hold");
    let narrow = "  a*b: {calls: [{when: args.slow, retry: {max_attempts: 3}}]}\n";
    assert!(rules("args.slow", narrow).is_ok());
}

#[test]
fn patterns_that_overlap_and_disagree_are_an_error() {
    assert_snapshot!(Policy::from_yaml("team.yaml", TWO).unwrap_err().human(false));
}

#[test]
fn a_narrower_rule_decides() {
    let policy = policy(&format!("{TWO}  db.delete: {{retry: {{max_attempts: 2}}}}\n"));
    assert_eq!(attempts(&policy, "db.delete"), 2);
}

#[test]
fn patterns_that_agree_or_set_different_values_are_fine() {
    policy(
        "version: 1\ntools:\n  db.*: {retry: {max_attempts: 4}}\n  \"*.delete\": {retry: {max_attempts: 4}, effect: non_idempotent}\n",
    );
}

#[test]
fn every_pattern_is_compared_however_it_begins_and_ends() {
    let conflict = |a: &str, b: &str| {
        let text =
            format!("version: 1\ntools:\n  \"{a}\": {{effect: read_only}}\n  \"{b}\": {{effect: unknown}}\n");
        Policy::from_yaml("x", &text).is_err()
    };
    assert!(conflict("a*", "*b"));
    assert!(conflict("a*b", "*c*"));
    assert!(conflict("ab*", "a*c"));
    assert!(conflict("*bc", "a*c"));
    assert!(!conflict("a*", "b*"));
    assert!(!conflict("*a", "*b"));
    assert!(!conflict("a*", "ab*"));
    assert!(!conflict("a*", "ab"));
}

#[test]
fn they_are_found_across_files_too() {
    let a = "version: 1\nmodels: {gpt-*: {on_exhausted: fail}}";
    let b = "version: 1\nmodels: {\"*-mini\": {on_exhausted: ask_planner}}";
    assert_snapshot!(files(&[("a.yaml", a), ("b.yaml", b)]).unwrap_err());
}

/// The codes of what is reported about a file, in the order of the text.
fn codes(text: &str) -> Vec<String> {
    let report = Policy::from_yaml("x.yaml", text).unwrap_err();
    report.diagnostics().iter().map(|problem| problem.code.to_string()).collect()
}

#[test]
fn a_mistake_elsewhere_hides_no_conflict() {
    for (mistake, code) in [
        ("  t: {retry: {max_attempts: x}}\n", "P0103"),
        ("  t: 5\n", "P0103"),
        ("  t: {priority: x}\n", "P0103"),
        ("  t**: {}\n", "P0110"),
        ("limits: {max_attempts: x}\n", "P0103"),
        ("profiles: {ci: {tools: {db.delete: {retry: {max_attempts: x}}}}}\n", "P0103"),
        ("retrry: {max_attempts: 2}\n", "P0101"),
        ("retry: {max_attempts: x}\n", "P0103"),
    ] {
        let told = codes(&format!("{TWO}{mistake}"));
        let hidden = code == "P0110";
        assert_eq!(told.contains(&"P0301".to_owned()), !hidden, "{mistake}: {told:?}");
        assert!(told.contains(&code.to_owned()), "{mistake}: {told:?}");
    }
}

#[test]
fn what_could_not_be_read_may_decide_a_conflict() {
    for mistake in
        ["  db.delete: {retry: {max_attempts: x}}\n", "  db.delete: 5\n", "  'db.*e': {priority: x}\n"]
    {
        let told = codes(&format!("{TWO}{mistake}"));
        assert!(!told.contains(&"P0301".to_owned()), "{mistake}: {told:?}");
    }
}

#[test]
fn a_value_of_a_class_conflicts_only_where_a_pattern_says_it() {
    let text = "version: 1\ntools:\n  db.*: {retry: {max_attempts: null}}\n  '*.delete': {retry: {max_attempts: 1}}\n  'e*': {retry: {by_class: {timeout: {max_attempts: 2}}}}\n";
    let report = Policy::from_yaml("x.yaml", text).unwrap_err().to_string();
    assert!(report.contains("they disagree on `retry.max_attempts`"), "{report}");
    let both = "`db.*` and `*.delete`";
    assert_eq!(report.matches(both).count(), 1, "{report}");
}

#[test]
fn the_help_says_which_priority_a_narrower_rule_needs() {
    let rules = |extra: &str| {
        format!(
            "version: 1\ntools:\n  a*: {{priority: 1, on_exhausted: fail}}\n  '*b': {{priority: 1, on_exhausted: final_turn}}\n{extra}"
        )
    };
    let help = |text: &str| Policy::from_yaml("x.yaml", text).unwrap_err().diagnostics()[0].help.join("; ");
    assert!(help(&rules("")).contains("under `ab` with `priority: 1` too"), "{}", help(&rules("")));
    assert!(Policy::from_yaml("x.yaml", &rules("  ab: {priority: 1, on_exhausted: fail}\n")).is_ok());
    assert!(help(TWO).contains("under `db.delete` too"), "{}", help(TWO));
}
