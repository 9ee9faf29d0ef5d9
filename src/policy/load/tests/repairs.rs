//! What is repaired for sure is looked into, and nothing else is repaired.

use super::*;
use crate::text::Fix;

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
    assert_eq!(
        codes("version: 1\nretry: {backoff: {kind: constnt, delay: x, jitter: none}}\n"),
        ["P0104", "P0106"]
    );
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

#[test]
fn a_key_one_level_too_shallow_is_told_as_that() {
    for text in [
        "version: 1\ntools: {search: {effect: read_only}, max_attempts: 4}\n",
        "version: 1\ntools:\n  search: {effect: read_only}\n  retry: {max_attempts: 4}\n",
        "version: 1\nmodels:\n  m: {retry: {max_attempts: 4}}\n  timeouts: {connect: 1s}\n",
    ] {
        let report = Policy::from_yaml("x.yaml", text).unwrap_err();
        let [problem] = report.diagnostics() else { panic!("{report}") };
        assert!(problem.help[0].contains("is one level too shallow: indent it below"), "{report}");
        assert_eq!(problem.fix, None);
    }
    // A tool may have that name.
    assert!(Policy::from_yaml("x.yaml", "version: 1\ntools: {retry: {effect: read_only}}\n").is_ok());
}

#[test]
fn numbers_of_attempts_are_put_right_with_their_names() {
    for (text, right) in [
        ("version: 1\nretry: {retries: 3}\n", "retry: {max_attempts: 4}"),
        ("version: 1\nretry:\n  max_retries: 0\n", "retry:\n  max_attempts: 1\n"),
        ("version: 1\nretry: {stop_after_attempt: 3}\n", "retry: {max_attempts: 3}"),
        ("version: 1\ntools: {t: {num_retries: 2}}\n", "tools: {t: {retry: {max_attempts: 3}}}"),
    ] {
        let repaired = repaired(text);
        assert!(repaired.contains(right), "{repaired}");
        assert!(Policy::from_yaml("x.yaml", &repaired).is_ok(), "{repaired}");
    }
}

#[test]
fn slips_of_operators_are_repaired() {
    for (slip, right) in [("=<", "<="), ("=>", ">="), ("<>", "!="), ("===", "=="), ("=!", "!=")] {
        let text = |operator: &str| {
            format!(
                "version: 1\ntools: {{t: {{validate: [{{name: n, check: 'args.x {operator} 1', message: m}}]}}}}\n"
            )
        };
        assert_eq!(repaired(&text(slip)), text(right));
    }
}

#[test]
fn the_place_in_a_pattern_is_shown() {
    let text =
        "version: 1\ntools: {t: {validate: [{name: n, check: \"args.x.matches('a(b')\", message: m}]}}\n";
    let report = Policy::from_yaml("x.yaml", text).unwrap_err();
    let span = report.diagnostics()[0].span;
    assert_eq!(&text[span.start as usize..], "(b')\", message: m}]}}\n");
}

#[test]
fn a_version_in_another_spelling_is_repaired() {
    for version in ["v1", "\"1\"", "1.0", "'1.0'"] {
        assert_eq!(repaired(&format!("version: {version}\n")), "version: 1\n");
    }
    assert_eq!(told("version: v2\n")[0].1, None);
}

#[test]
fn secrets_in_messages_are_refused() {
    let text = "version: 1\ntools: {t: {messages: {failed: 'use sk-proj-abcdefgh12345678'}}}\n";
    let report = Policy::from_yaml("x.yaml", text).unwrap_err();
    assert_eq!(report.to_string(), "x.yaml:2:37: error[P0012]: a secret is written into the file");
}
