//! Files that extend others, profiles, and priorities.

use insta::assert_snapshot;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::policy::builtin::BUILTIN_TEXTS;
use crate::policy::{AttemptLimit, LayerKind, Loader, Policy};
use crate::text::Report;

/// Loads `team.yaml`; the others are found from it. The path of a file is its name.
fn load(files: &[(&str, &str)]) -> Result<Policy, Report> {
    load_with(&Loader::new(), files)
}

fn load_with(loader: &Loader, files: &[(&str, &str)]) -> Result<Policy, Report> {
    let find = |path: &str| files.iter().find(|(name, _)| *name == path).map(|(_, text)| *text);
    let mut resolve = |_: &str, path: &str| {
        let text = find(path).ok_or_else(|| format!("cannot read `{path}`: no such file"))?;
        Ok((path.to_owned(), text.as_bytes().to_vec()))
    };
    loader.load_with(&mut resolve, vec![("team.yaml".to_owned(), find("team.yaml").unwrap())])
}

fn policy(files: &[(&str, &str)]) -> Policy {
    load(files).unwrap_or_else(|report| panic!("{}", report.human(false)))
}

fn attempts(policy: &Policy, tool: &str) -> u32 {
    match policy.tool(tool).retry.max_attempts.value {
        AttemptLimit::Limited(count) => count.get(),
        AttemptLimit::Unlimited => 0,
    }
}

fn effective(policy: &Policy) -> Value {
    json!([
        policy.explain_tool("http.get").effective(),
        policy.explain_tool("http.put").effective(),
        policy.explain_tool("file").effective(),
        policy.explain_model("m").effective(),
        policy.explain_turn().effective(),
        policy.explain_output().map(|output| output.effective()),
    ])
}

mod extends {
    use super::*;

    const A: (&str, &str) = ("a.yaml", "version: 1\nretry: {max_attempts: 4, deadline: 1m}\n");
    const B: (&str, &str) = ("b.yaml", "version: 1\nretry: {max_attempts: 5}\nturn: {max_turns: 7}\n");

    #[test]
    fn a_file_stands_above_those_it_extends_and_a_later_parent_above_an_earlier() {
        let team = ("team.yaml", "version: 1\nextends: [a.yaml, b.yaml]\nturn: {max_turns: 8}\n");
        let policy = policy(&[A, B, team]);
        assert_eq!(attempts(&policy, "x"), 5);
        assert_eq!(policy.turn().max_turns.value.get(), 8);
        assert_eq!(policy.place(policy.tool("x").retry.deadline.origin).file, "a.yaml");
    }

    #[test]
    fn one_parent_needs_no_list_and_parents_have_parents() {
        let b = ("b.yaml", "version: 1\nextends: a.yaml\nretry: {max_attempts: 5}\n");
        let policy = policy(&[A, b, ("team.yaml", "version: 1\nextends: b.yaml\n")]);
        assert_eq!(attempts(&policy, "x"), 5);
        assert_eq!(policy.place(policy.tool("x").retry.deadline.origin).file, "a.yaml");
    }

    #[test]
    fn a_file_reached_twice_counts_once_where_it_was_reached_first() {
        let b = ("b.yaml", "version: 1\nextends: a.yaml\nretry: {max_attempts: 5}\n");
        let policy = policy(&[A, b, ("team.yaml", "version: 1\nextends: [b.yaml, a.yaml]\n")]);
        assert_eq!(attempts(&policy, "x"), 5);
        assert_eq!(policy.sources().len(), BUILTIN_TEXTS + 3);
    }

    #[test]
    fn the_built_in_default_is_always_lowest() {
        let team = ("team.yaml", "version: 1\nextends: [a.yaml, 'builtin:default']\n");
        assert_eq!(attempts(&policy(&[A, team]), "x"), 4);
    }

    #[test]
    fn what_cannot_be_extended_is_told_with_the_way_that_leads_there() {
        let told = |files: &[(&str, &str)]| load(files).unwrap_err().human(false);
        assert_snapshot!(
            "missing",
            told(&[
                ("team.yaml", "version: 1\nextends: b.yaml\n"),
                ("b.yaml", "version: 1\nextends: [c.yaml]\n")
            ])
        );
        assert_snapshot!(
            "circle",
            told(&[
                ("team.yaml", "version: 1\nextends: b.yaml\n"),
                ("b.yaml", "version: 1\nextends: [team.yaml]\n")
            ])
        );
        assert_snapshot!("itself", told(&[("team.yaml", "version: 1\nextends: team.yaml\n")]));
        assert_snapshot!(
            "no_builtin",
            told(&[("team.yaml", "version: 1\nextends: ['builtin:defualt', 'builtin:aws']\n")])
        );
        let alone = Policy::from_yaml("team.yaml", "version: 1\nextends: b.yaml\n").unwrap_err();
        assert_snapshot!("alone", alone.human(false));
    }

    #[test]
    fn mistakes_of_parents_are_told_with_those_of_the_file() {
        let files =
            [("team.yaml", "version: 1\nextends: b.yaml\nturn: {max: 1}\n"), ("b.yaml", "version: 2\n")];
        assert_snapshot!(load(&files).unwrap_err());
    }

    #[test]
    fn there_is_an_end_to_it() {
        let mut count = 0;
        let mut endless = |_: &str, path: &str| {
            count += 1;
            Ok((format!("{path}{count}"), b"version: 1\nextends: next".to_vec()))
        };
        let report = Policy::load_with(vec![("team.yaml".into(), "version: 1\nextends: next")], &mut endless);
        let report = report.unwrap_err().to_string();
        assert!(report.contains("a policy of more than 64 files"), "{report}");
    }
}

mod profiles {
    use super::*;

    const TEAM: (&str, &str) = (
        "team.yaml",
        "\
version: 1
retry: {max_attempts: 5, deadline: 2m}
tools:
  http.*: {retry: {max_attempts: 6}}
profiles:
  ci:
    retry: {max_attempts: 1}
    tools:
      http.get: {retry: {max_attempts: 2}}
    output: null
  staging:
    tools:
      http.*: {retry: {max_attempts: 7}}
    turn: {max_turns: 3}
output: {tool: done}
",
    );

    fn with(profile: &str) -> Policy {
        load_with(&Loader::new().profile(profile), &[TEAM]).unwrap()
    }

    #[test]
    fn it_stands_between_the_global_blocks_and_the_selectors() {
        let ci = with("ci");
        assert_eq!(attempts(&ci, "file"), 1, "above the global block");
        assert_eq!(attempts(&ci, "http.put"), 6, "below a selector");
        assert_eq!(attempts(&ci, "http.get"), 2, "its own selectors are selectors like others");
        assert_eq!(ci.tool("file").retry.max_attempts.origin.scope, LayerKind::Profile);
        assert!(ci.output().is_none());
        assert_eq!(
            attempts(&with("staging"), "http.put"),
            7,
            "within one selector it takes precedence over the files"
        );
        assert_eq!(ci.profiles(), ["ci", "staging"]);
        assert_eq!(ci.profile(), Some("ci"));
    }

    #[test]
    fn without_one_there_is_none() {
        let policy = policy(&[TEAM]);
        assert_eq!((attempts(&policy, "file"), attempts(&policy, "http.get")), (5, 6));
        assert!(policy.output().is_some());
        assert_ne!(policy.digest(), with("ci").digest());
    }

    #[test]
    fn profiles_of_one_name_are_one_profile() {
        let base = ("base.yaml", "version: 1\nprofiles: {ci: {retry: {max_attempts: 9, deadline: 9s}}}\n");
        let team =
            ("team.yaml", "version: 1\nextends: base.yaml\nprofiles: {ci: {retry: {max_attempts: 2}}}\n");
        let ci = load_with(&Loader::new().profile("ci"), &[base, team]).unwrap();
        assert_eq!(attempts(&ci, "x"), 2);
        assert_eq!(ci.place(ci.tool("x").retry.deadline.origin).to_string(), "base.yaml:2:52");
    }

    #[test]
    fn explain_names_it() {
        let explained = with("ci").explain_tool("file").get("retry.max_attempts").unwrap().to_string();
        assert_snapshot!(explained, @"
          retry.max_attempts = 1
              won  set 1  profiles.ci.retry  team.yaml:7:27
              lost set 5  retry              team.yaml:2:23
              lost set 4  built-in retry     builtin:default:9:17
        ");
    }

    #[test]
    fn one_that_is_not_there_is_an_error_that_names_those_that_are() {
        let told =
            |profile: &str| load_with(&Loader::new().profile(profile), &[TEAM]).unwrap_err().to_string();
        assert_snapshot!(told("stagin"), @"(choice):1:1: error[P0201]: there is no profile `stagin` (did you mean `staging`?)");
        let report = load_with(&Loader::new().profile("live"), &[TEAM]).unwrap_err();
        assert_eq!(report.diagnostics()[0].help, ["there are `ci`, `staging`"]);
        let flag = Loader::new().profile("stagin").profile_from("`--profile`");
        let report = load_with(&flag, &[TEAM]).unwrap_err().human(false);
        assert_snapshot!(report, @"
        error[P0201]: there is no profile `stagin`, which `--profile` chooses
         |
         = note: did you mean `staging`?
         = help: there are `ci`, `staging`
        ");
    }

    #[test]
    fn mistakes_that_only_show_in_a_profile_are_found_if_asked_for() {
        let team = ("team.yaml", "version: 1\nprofiles: {ci: {retry: {max_attempts: unlimited}}}\n");
        assert!(load(&[team]).is_ok());
        assert_snapshot!(load_with(&Loader::new().every_profile(), &[team]).unwrap_err());
        assert!(load_with(&Loader::new().profile("ci"), &[team]).is_err());
    }
}

mod priorities {
    use super::*;

    fn team(db: &str, delete: &str, more: &str) -> String {
        format!(
            "version: 1\ntools:\n  db.*: {{{db}retry: {{max_attempts: 4}}}}\n  \"*.delete\": {{{delete}retry: {{max_attempts: 1}}}}\n{more}"
        )
    }

    fn of(text: &str) -> u32 {
        attempts(&policy(&[("team.yaml", text)]), "db.delete")
    }

    #[test]
    fn it_decides_between_patterns_that_overlap() {
        assert!(load(&[("team.yaml", &team("", "", ""))]).is_err());
        assert_eq!(of(&team("priority: 1, ", "", "")), 4);
        assert_eq!(of(&team("", "priority: 1, ", "")), 1);
        assert_eq!(of(&team("", "priority: -1, ", "")), 4);
        assert!(load(&[("team.yaml", &team("priority: 1, ", "priority: 1, ", ""))]).is_err());
    }

    #[test]
    fn it_comes_before_specificity() {
        let narrow = "  db.delete: {retry: {max_attempts: 2}}\n";
        assert_eq!(of(&team("priority: 1, ", "", narrow)), 4, "a more specific rule of lower priority loses");
        let narrow = "  db.delete: {priority: 1, retry: {max_attempts: 2}}\n";
        assert_eq!(of(&team("priority: 1, ", "", narrow)), 2, "one of the same priority wins");
        let narrow = "  db.delete: {priority: -1, retry: {max_attempts: 2}}\n";
        assert!(load(&[("team.yaml", &team("", "", narrow))]).is_err(), "what loses decides nothing");
    }

    #[test]
    fn it_belongs_to_the_selector_whichever_file_says_so() {
        let base = ("base.yaml", "version: 1\ntools: {db.*: {priority: 3}}\n");
        let text = format!("extends: base.yaml\n{}", team("", "", ""));
        let loaded = policy(&[base, ("team.yaml", &text)]);
        assert_eq!(attempts(&loaded, "db.delete"), 4);
        let text = format!("extends: base.yaml\n{}", team("priority: null, ", "", ""));
        assert!(load(&[base, ("team.yaml", &text)]).is_err(), "null unsets it");
    }

    #[test]
    fn the_built_in_rules_stay_below() {
        let text = "version: 1\nmodels: {\"*\": {priority: -5, retry: {max_attempts: 9}}}\n";
        let loaded = policy(&[("team.yaml", text)]);
        assert_eq!(loaded.model("m").retry.max_attempts.value.limit(), Some(9));
        assert_snapshot!(loaded.explain_model("m").get("retry.max_attempts").unwrap().to_string(), @r#"
          retry.max_attempts = 9
              won  set 9   models["*"] (priority -5)  team.yaml:2:52
              lost set 16  built-in models["*"]       builtin:default:130:21
              lost set 4   built-in retry             builtin:default:9:17
        "#);
    }
}

/// Top-level entries that can be dealt out to several files.
const ENTRIES: [&str; 9] = [
    "limits: {max_attempts: 4}",
    "retry: {max_attempts: 5, deadline: 1m, retry_on: {add: [timeout]}}",
    "tools: {http.*: {retry: {max_attempts: 3}}, http.get: {effect: read_only}, \"*\": {on_exhausted: fail}}",
    "models: {\"*\": {retry: {backoff: {kind: fibonacci, base: 1s, jitter: none}}}}",
    "turn: {max_turns: 3}",
    "output: {tool: done, retry: {max_attempts: 2}}",
    "session: {slices: {seen: {}}}",
    "errors: [{status: 418, class: timeout}]",
    "profiles: {ci: {retry: {max_attempts: 2}, tools: {file: {retry: {retry_on: {remove: [timeout]}}}}}}",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn splitting_a_file_by_extends_changes_nothing(
        homes in proptest::collection::vec(0..3_usize, ENTRIES.len()), chain: bool, ci: bool,
    ) {
        let loader = || if ci { Loader::new().profile("ci") } else { Loader::new() };
        let text = |head: &str, home: usize| {
            let mine = ENTRIES.iter().zip(&homes).filter(|(_, at)| **at == home).map(|(entry, _)| *entry);
            format!("version: 1\n{head}{}\n", mine.collect::<Vec<_>>().join("\n"))
        };
        let whole = format!("version: 1\n{}\n", ENTRIES.join("\n"));
        let (own, middle) = if chain { ("extends: b\n", "extends: a\n") } else { ("extends: [a, b]\n", "") };
        let (a, b, team) = (text("", 0), text(middle, 1), text(own, 2));
        let split = load_with(&loader(), &[("a", &a), ("b", &b), ("team.yaml", &team)]).unwrap();
        let whole = load_with(&loader(), &[("team.yaml", &whole)]).unwrap();
        prop_assert_eq!(effective(&split), effective(&whole));
        let teapot = crate::policy::FailureEvidence { status: Some(418), ..Default::default() };
        prop_assert_eq!(split.classify(&teapot).class, whole.classify(&teapot).class);
        prop_assert_eq!(split.session().slices.len(), whole.session().slices.len());
    }
}
