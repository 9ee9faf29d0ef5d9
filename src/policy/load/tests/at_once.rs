//! Every mistake at once, over all stages, and none that only comes of another.

use insta::assert_snapshot;

use super::{files, mistakes};
use crate::analysis::LintOptions;
use crate::policy::Loader;

/// As `check` looks at it.
fn all(text: &str) -> String {
    let loader = Loader::new().every_profile().with_lints(LintOptions::default());
    loader.load(vec![("team.yaml".to_owned(), text)]).unwrap_err().to_string()
}

#[test]
fn a_mistake_does_not_hide_those_of_later_stages() {
    let text = "version: 2\nretry: {enabled: 5}\ntools:\n  \"a*\": {effect: idempotent}\n  \"*b\": {effect: read_only}\nsession: {reducers: {r: {on: tool_failed, slice: none, do: {kind: keep_last, count: 3}}}}\n";
    assert_snapshot!(mistakes(text));
}

#[test]
fn what_is_missing_because_of_a_mistake_is_not_told() {
    // The deadline may bound the attempts.
    for deadline in ["deadline: 5", "deadlin: 5m", "max_time: 5m"] {
        let told = mistakes(&format!("version: 1\nretry: {{max_attempts: unlimited, {deadline}}}\n"));
        assert_eq!(told.lines().count(), 1, "{told}");
    }
    // The more specific selector may decide, and the priority too.
    for decides in ["  ab: {retry: {max_attempts: x}}\n", "  ab: 5\n", "  ab: {priority: high}\n"] {
        let told = mistakes(&format!(
            "version: 1\ntools:\n  \"a*\": {{retry: {{max_attempts: 2}}}}\n  \"*b\": {{retry: {{max_attempts: 3}}}}\n{decides}"
        ));
        assert!(!told.contains("disagree"), "{told}");
    }
    // The slice may be the one that is meant, and may be of that type.
    for slices in ["5", "{n: 5}", "{n: {inital: []}}"] {
        let told = mistakes(&format!(
            "version: 1\nsession: {{slices: {slices}, reducers: {{r: {{on: tool_failed, slice: n, do: {{kind: keep_last, count: 3}}}}}}}}\n"
        ));
        assert_eq!(told.lines().count(), 1, "{told}");
    }
    // The field that is repeated may not be what is inherited.
    let told = all(
        "version: 1\nretry: {max_attempts: 5}\ntools:\n  \"a*\": {retry: {max_attempts: x}}\n  ab: {retry: {max_attempts: 5}}\n",
    );
    assert_eq!(told.lines().count(), 1, "{told}");
}

#[test]
fn lints_are_told_with_mistakes() {
    let text = "version: 1\nretry: {max_attempts: 5, enabled: 1}\ntools:\n  a: {retry: {max_attempts: 5}}\nmodels:\n  m: {retry: {shadow: null}}  # unfazed ignore[W0211] meant\n";
    assert_snapshot!(all(text));
}

#[test]
fn a_file_that_is_no_yaml_ends_alone() {
    let report = files(&[("a.yaml", "version: [\n"), ("b.yaml", "version: 1\nretry: {max_attempts: 0}\n")]);
    assert_snapshot!(report.unwrap_err());
}

#[test]
fn parents_of_a_file_with_mistakes_are_read() {
    let mut find = |_: &str, path: &str| match path {
        "base.yaml" => Ok((path.to_owned(), b"version: 1\nturn: {max_turns: 0}\n".to_vec())),
        _ => Err(format!("cannot read `{path}`")),
    };
    let team =
        "version: 1\nextends: [5, base.yaml, none.yaml, \"https://host/base.yaml\"]\nretry: {enabled: 5}\n";
    let report = Loader::new().load_with(&mut find, vec![("team.yaml".into(), team)]);
    assert_snapshot!(report.unwrap_err());
}

#[test]
fn a_profile_that_is_not_there_hides_nothing() {
    let text = "version: 1\nretry: {enabled: 5}\nprofiles: {night: {turn: {max_turns: 0}}}\n";
    let report = Loader::new().profile("nigt").load(vec![("team.yaml".to_owned(), text)]);
    assert_snapshot!(report.unwrap_err());
}

#[test]
fn a_pool_has_one_shape() {
    let tokens = |capacity: u32| {
        format!("{{retry: {{budget: {{kind: tokens, capacity: {capacity}, pool: shared}}}}}}")
    };
    let base = format!("version: 1\ntools:\n  a: {}\n  b: {}\n", tokens(5), tokens(5));
    let team = format!("version: 1\ntools:\n  a: {}\nmodels:\n  m: {}\n", tokens(5), tokens(9));
    assert_snapshot!(files(&[("base.yaml", &base), ("team.yaml", &team)]).unwrap_err().human(false));
    // What is replaced everywhere is not drawn on.
    let over = format!("version: 1\ntools:\n  a: {}\n  b: {}\n", tokens(9), tokens(9));
    assert!(files(&[("base.yaml", &base), ("team.yaml", &over)]).is_ok());
}

#[test]
fn a_slice_that_is_removed_is_missed_where_it_is() {
    assert_snapshot!(mistakes("version: 1\nsession: {slices: {reducer_errors: null}}\n"));
}

#[test]
fn null_is_offered_where_it_is_taken() {
    let text = "version: 1\nlimits:\n  deadline:\nretry:\n  deadline:\nturn:\nerrors:\n  - class: timeout\n    code:\n";
    let loaded = Loader::new().load(vec![("team.yaml".to_owned(), text)]);
    let report = loaded.unwrap_err();
    let told: Vec<String> = report
        .diagnostics()
        .iter()
        .map(|problem| format!("{}; {}", problem.message, problem.help.join("; ")))
        .collect();
    assert_snapshot!(told.join("\n"));
}

#[test]
fn names_of_other_systems_lead_to_the_field_here() {
    let text = "version: 1\nretry: {retries: 3, timeout: 5s, on: [timeout], multiplier: 2}\ntools:\n  a: {timeout: 5s, when: x}\n  b: {retry: {backoff: {kind: exponential, base: 1s, factor: 2, max_delay: 30s, jitter: none}}}\n";
    let loaded = Loader::new().load(vec![("team.yaml".to_owned(), text)]);
    let report = loaded.unwrap_err();
    let told: Vec<String> = report
        .diagnostics()
        .iter()
        .map(|problem| {
            format!(
                "{}: {}; {}",
                problem.message,
                problem.label.as_deref().unwrap_or_default(),
                problem.help.join("; ")
            )
        })
        .collect();
    assert_snapshot!(told.join("\n"));
}

#[test]
fn scalars_that_readers_disagree_on_are_repaired_as_their_field_wants_them() {
    let text = "version: 1\nretry: {max_attempts: 0b11, deadline: 1:30, enabled: 0o1}\noutput: {tool: yes, description: 2026-11-21, schema: {const: off}}\nerrors: [{code: 010, class: timeout}, {code: on, class: timeout}]\nsession: {slices: {a: {initial: [no]}}}\n";
    let loaded = Loader::new().load(vec![("team.yaml".to_owned(), text)]);
    let report = loaded.unwrap_err();
    let told: Vec<String> = report
        .diagnostics()
        .iter()
        .map(|problem| {
            let fix = problem.fix.as_ref().map(|fix| fix.text.as_str());
            format!("{}: {}", problem.message, fix.unwrap_or("no repair"))
        })
        .collect();
    assert_snapshot!(told.join("\n"));
}

#[test]
fn a_repair_is_offered_only_where_one_thing_can_be_meant() {
    let fix = |text: &str| {
        let report = Loader::new().load(vec![("team.yaml".to_owned(), text.to_owned())]).unwrap_err();
        report.diagnostics()[0].fix.as_ref().map(|fix| fix.text.clone())
    };
    assert_eq!(fix("version: 1\nretry: {max_atempts: 3}\n").as_deref(), Some("max_attempts"));
    assert_eq!(fix("version: 1\nretry: {maxAttemps: 3}\n").as_deref(), Some("max_attempts"));
    // It is there already, or too far away.
    assert_eq!(fix("version: 1\nretry: {max_atempts: 3, max_attempts: 4}\n"), None);
    assert_eq!(fix("version: 1\nretry: {max_atmps: 3}\n"), None);
}

#[test]
fn what_people_write_in_place_of_a_value_leads_to_it() {
    for (text, help) in [
        ("retry: {backoff: expo}", "did you mean `{kind: exponential, ...}`?"),
        ("retry: {backoff: constnt}", "did you mean `{kind: constant, ...}`?"),
        ("retry: {backoff: fast}", "write `{kind: ...}`, with one of"),
        ("retry: {max_attempts: 0}", "`enabled: false` switches retries off"),
        ("limits: {run: {tokens: 100k}}", "write `100000`"),
        ("limits: {run: {tokens: '100,000'}}", "write `100000`"),
    ] {
        let loaded = Loader::new().load(vec![("team.yaml".to_owned(), format!("version: 1\n{text}\n"))]);
        let report = loaded.unwrap_err();
        let [problem] = report.diagnostics() else { panic!("{report}") };
        assert!(problem.help.iter().any(|said| said.contains(help)), "{text}: {:?}", problem.help);
    }
}
