//! What is repaired for sure is looked into, and nothing else is repaired.

use super::*;
use crate::policy::Fix;

fn told(text: &str) -> Vec<(String, Option<Fix>)> {
    let report = Policy::from_yaml("x.yaml", text).unwrap_err();
    report.diagnostics().iter().map(|problem| (problem.code.to_string(), problem.fix.clone())).collect()
}

fn codes(text: &str) -> Vec<String> {
    told(text).into_iter().map(|(code, _)| code).collect()
}

/// The text after all repairs, the last first.
fn repaired(text: &str) -> String {
    let mut fixes: Vec<Fix> = told(text).into_iter().filter_map(|(_, fix)| fix).collect();
    fixes.sort_by_key(|fix| core::cmp::Reverse(fix.span));
    fixes.iter().fold(text.to_owned(), |mut text, fix| {
        text.replace_range(fix.span.range(), &fix.text);
        text
    })
}

#[test]
fn the_value_of_a_misspelt_key_is_looked_into() {
    assert_eq!(codes("version: 1\nretrry: {max_attempts: 0}\n"), ["P0101", "P0105"]);
    assert_eq!(
        codes("version: 1\nretry: {backof: {kind: constant, dely: x}}\n"),
        ["P0101", "P0101", "P0106"]
    );
    assert_eq!(codes("version: 1\nretry: {backoff: {knd: constant, delay: x}}\n"), ["P0101", "P0106"]);
    assert_eq!(codes("version: 1\nretry: {backoff: {kind: constnt, delay: x}}\n"), ["P0104", "P0106"]);
    assert_eq!(codes("version: 1\nretry: {by_class: {timeot: {max_attempts: 0}}}\n"), ["P0104", "P0105"]);
}

#[test]
fn a_misspelt_word_beside_a_number_is_repaired() {
    for (text, right) in [
        ("version: 1\ntools: {t: {breaker: {failures: Never}}}\n", "failures: never"),
        ("version: 1\nretry: {deadline: 1m, max_attempts: unlimted}\n", "max_attempts: unlimited"),
    ] {
        assert!(repaired(text).contains(right), "{}", repaired(text));
    }
}

#[test]
fn repairs_bring_up_nothing_new() {
    for text in [
        "version: 1\ntols:\n  a*: {retry: {max_atempts: 2}}\n  '*b': {retry: {max_attempts: 3}}\n",
        "version: 1\nretry: {backof: {knd: constnt, dely: 1s}, max_attempts: 3}\n",
        "version: 1\ntools: {t: {on_exhausted: fial}, u: {efect: read_onyl, effct: read_only}}\n",
    ] {
        let before = codes(text);
        if let Err(report) = Policy::from_yaml("x.yaml", &repaired(text)) {
            for problem in report.diagnostics() {
                assert!(before.contains(&problem.code.to_string()), "{text}: {problem:?}");
            }
        }
    }
}

#[test]
fn what_may_mean_two_things_is_not_repaired() {
    for (text, help) in [
        ("retry: {deadline: 30000}", "write a unit: `30000s` or `30000ms`"),
        ("retry: {deadline: '30000'}", "write a unit: `30000s` or `30000ms`"),
        ("retry: {max_attempts: 010}", "write `10`, or `8` if it is meant as octal"),
    ] {
        let report = Policy::from_yaml("x.yaml", &format!("version: 1\n{text}\n")).unwrap_err();
        let [problem] = report.diagnostics() else { panic!("{report}") };
        assert_eq!((&problem.fix, &problem.help[..]), (&None, &[help.to_owned()][..]));
    }
}

#[test]
fn names_that_yaml_readers_disagree_on_are_quoted() {
    for name in ["010", "yes", "2026-11-21", "1_000", "0b11", "12:30", ".inf", "off"] {
        for (at, text) in [
            ("tool", format!("version: 1\ntools: {{{name}: {{on_exhausted: fail}}}}\n")),
            ("model", format!("version: 1\nmodels: {{{name}: {{}}}}\n")),
            ("profile", format!("version: 1\nprofiles: {{{name}: {{}}}}\n")),
            ("slice", format!("version: 1\nsession: {{slices: {{{name}: {{initial: 0}}}}}}\n")),
            ("data", format!("version: 1\nsession: {{slices: {{s: {{initial: {{{name}: 0}}}}}}}}\n")),
        ] {
            assert_eq!(codes(&text), ["P0006"], "{at} {name}");
            assert!(Policy::from_yaml("x.yaml", &repaired(&text)).is_ok(), "{}", repaired(&text));
        }
    }
    policy(
        "version: 1\nsession: {slices: {n: {initial: 0}}, reducers: {r: {on: tool_failed, slice: n, do: {kind: increment, value: '1'}}}}\n",
    );
}
