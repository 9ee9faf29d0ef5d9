//! Each lint by what it finds and by what it leaves alone.

use std::fmt::Write as _;

use super::*;
use crate::policy::Loader;

mod paces;
mod plain;
mod values;

fn linted(files: &[&str], options: &LintOptions) -> Report {
    let named =
        |(number, text): (usize, &&str)| (format!("{}.yaml", ["a", "b", "c"][number]), (*text).to_owned());
    let policy = Policy::load(files.iter().enumerate().map(named).collect());
    policy.unwrap_or_else(|report| panic!("{}", report.human(false))).lint(options)
}

/// The findings about these layers.
fn lint(files: &[&str]) -> String {
    linted(files, &LintOptions::default()).to_string()
}

/// The findings about one file after `version: 1`.
fn one(text: &str) -> String {
    lint(&[&format!("version: 1\n{text}")])
}

fn tool(name: &str, effect: Effect, inner_retries: u32) -> KnownTool {
    KnownTool { name: name.into(), effect, inner_retries, arguments: None, schema: None }
}

fn tools(names: &[&str]) -> LintOptions {
    let tools = names.iter().map(|name| tool(name, Effect::Unknown, 0)).collect();
    let models = vec![KnownModel { name: "main".into(), inner_retries: 0 }];
    LintOptions { tools: Some(tools), models: Some(models), ..LintOptions::default() }
}

mod shadowed {
    use super::*;
    use insta::assert_snapshot;

    #[test]
    fn a_default_that_every_kind_of_work_replaces_is_never_in_effect() {
        let all = "retry: {max_attempts: 2}\ntools: {\"*\": {retry: {max_attempts: 3}}}\nmodels: {\"*\": {retry: {max_attempts: 4}}}\n";
        assert_snapshot!(one(all), @"a.yaml:2:23: warning[W0201]: `retry.max_attempts` never takes effect: it is overridden wherever it would apply (never takes effect)");
        let report = format!("{all}output: {{schema: {{type: object}}}}\n");
        assert_eq!(one(&report), "", "the report takes it");
        let replaced = format!("{all}output: {{retry: {{max_attempts: 5}}}}\n");
        assert!(one(&replaced).contains("W0201"));
    }

    #[test]
    fn an_edit_or_a_condition_above_it_replaces_nothing() {
        assert_eq!(
            one(
                "tools: {t: {retry: {retry_on: [timeout]}, calls: [{when: args.x == 1, retry: {retry_on: [rate_limit]}}]}}\n"
            ),
            ""
        );
        assert_eq!(
            one(
                "retry: {retry_on: [timeout]}\ntools: {\"*\": {retry: {retry_on: {add: [execution_error]}}}}\nmodels: {\"*\": {retry: {retry_on: {add: [model_error]}}}}\n"
            ),
            ""
        );
    }

    #[test]
    fn a_higher_priority_shadows_a_narrower_rule() {
        let said =
            one("tools:\n  \"*\": {priority: 1, on_exhausted: fail}\n  t: {on_exhausted: final_turn}\n");
        assert_snapshot!(said, @r#"a.yaml:4:21: warning[W0201]: `tools["t"].on_exhausted` never takes effect: it is overridden wherever it would apply (never takes effect)"#);
        assert_eq!(
            one("tools:\n  \"s*\": {priority: 1, on_exhausted: fail}\n  t: {on_exhausted: final_turn}\n"),
            ""
        );
    }

    #[test]
    fn a_later_file_is_meant_to_replace() {
        let base = "version: 1\ntools: {t: {retry: {max_attempts: 2}}}\n";
        assert_eq!(lint(&[base, "version: 1\ntools: {t: {retry: {max_attempts: 1}}}\n"]), "");
    }

    #[test]
    fn a_profile_is_meant_to_replace() {
        assert_eq!(one("retry: {max_attempts: 5}\nprofiles: {ci: {retry: {max_attempts: 1}}}\n"), "");
    }

    #[test]
    fn known_tools_tell_that_nobody_takes_a_value() {
        let text =
            "version: 1\ntools:\n  \"h.*\": {on_exhausted: fail}\n  h.get: {on_exhausted: final_turn}\n";
        assert_eq!(linted(&[text], &tools(&["h.get", "h.put"])).to_string(), "");
        let said = linted(&[text], &tools(&["h.get"])).to_string();
        assert!(said.starts_with("a.yaml:3:25: warning[W0201]"), "{said}");
    }
}

mod repeated {
    use super::*;
    use insta::assert_snapshot;

    #[test]
    fn a_value_that_is_inherited_anyway_is_told_with_both_places() {
        let text = "version: 1\nretry: {max_attempts: 2}\ntools:\n  t:\n    retry: {max_attempts: 2}\n";
        assert_snapshot!(linted(&[text], &LintOptions::default()).human(false));
    }

    #[test]
    fn an_edit_that_changes_nothing_is_told() {
        let said = one("retry: {retry_on: [timeout]}\ntools: {t: {retry: {retry_on: {add: [timeout]}}}}\n");
        assert_snapshot!(said, @r#"a.yaml:3:31: warning[W0205]: `tools["t"].retry.retry_on` is redundant: the list is [timeout] already"#);
        assert_eq!(
            one("retry: {retry_on: [timeout]}\ntools: {t: {retry: {retry_on: {add: [execution_error]}}}}\n"),
            ""
        );
    }

    #[test]
    fn the_built_in_value_may_be_said_aloud() {
        assert_eq!(one("retry: {max_attempts: 3}\nturn: {max_turns: 12}\n"), "");
    }

    #[test]
    fn what_a_later_file_says_may_have_been_said_before() {
        let base = "version: 1\ntools: {t: {retry: {max_attempts: 2}}}\n";
        assert_eq!(lint(&[base, "version: 1\nretry: {max_attempts: 2}\n"]), "");
        assert!(
            lint(&["version: 1\nretry: {max_attempts: 2}\n", base]).contains("b.yaml:2:35: warning[W0205]")
        );
    }

    #[test]
    fn a_rule_between_makes_it_a_change() {
        assert_eq!(
            one(
                "retry: {max_attempts: 2}\ntools:\n  \"h.*\": {retry: {max_attempts: 1}}\n  h.get: {retry: {max_attempts: 2}}\n"
            ),
            ""
        );
    }

    #[test]
    fn a_priority_may_make_a_pattern_matter_for_some_names() {
        assert_eq!(
            one(
                "retry: {max_attempts: 3}\ntools:\n  \"h.*\": {retry: {max_attempts: 2}}\n  \"*.get\": {priority: 1, retry: {max_attempts: 3}}\n"
            ),
            ""
        );
    }

    #[test]
    fn a_call_that_says_what_holds_for_all_calls_is_told() {
        let said = one(
            "tools: {t: {retry: {max_attempts: 2}, calls: [{when: args.x == 1, retry: {max_attempts: 2}}]}}\n",
        );
        assert!(
            said.contains(r#"`tools["t"].calls[0].retry.max_attempts` is redundant: it inherits 2 already"#),
            "{said}"
        );
    }
}

mod idle_nulls {
    use super::*;

    #[test]
    fn a_null_over_nothing_is_told() {
        assert_eq!(
            one("tools: {t: {retry: {max_attempts: null}}}\n"),
            r#"a.yaml:2:35: warning[W0211]: `tools["t"].retry.max_attempts` is unset, and no file sets it below (unsets nothing)"#
        );
        assert_eq!(one("retry: {max_attempts: 5}\ntools: {t: {retry: {max_attempts: null}}}\n"), "");
    }

    #[test]
    fn a_null_for_a_whole_block_unsets_something_if_one_value_is_set() {
        assert_eq!(one("retry: {max_attempts: 5}\ntools: {t: {retry: null}}\n"), "");
        assert_eq!(one("tools: {t: {retry: null}}\n").matches("W0211").count(), 1);
    }
}

mod out_of_reach {
    use super::*;
    use insta::assert_snapshot;

    const BASE: &str =
        "version: 1\nretry: {max_attempts: 3}\ntools: {\"pay.*\": {retry: {max_attempts: 1}}}\n";

    #[test]
    fn a_default_that_a_narrower_rule_of_an_earlier_file_keeps_out_is_told_with_both_places() {
        let team = "version: 1\nretry: {max_attempts: 6}\n";
        assert_snapshot!(linted(&[BASE, team], &LintOptions::default()).human(false));
    }

    #[test]
    fn a_file_that_knows_the_narrower_rule_is_left_alone() {
        let team = "version: 1\nretry: {max_attempts: 6}\ntools: {\"pay.*\": {retry: {max_attempts: 2}}}\n";
        assert_eq!(lint(&[BASE, team]), "");
        assert_eq!(lint(&[BASE, "version: 1\nretry: {deadline: 1m}\n"]), "");
    }

    #[test]
    fn one_file_may_have_rules_and_exceptions() {
        assert_eq!(lint(&[BASE]), "");
    }
}

mod amplified {
    use super::*;
    use insta::assert_snapshot;

    #[test]
    fn attempts_of_model_tool_and_what_is_inside_are_multiplied() {
        let text = "version: 1\nmodels: {\"*\": {retry: {max_attempts: 4}}}\ntools:\n  t: {breaker: {failures: never}, retry: {max_attempts: 13}}\n";
        let options = |inside| {
            let models = vec![KnownModel { name: "main".into(), inner_retries: 0 }];
            let tools = vec![tool("t", Effect::ReadOnly, inside)];
            LintOptions { tools: Some(tools), models: Some(models), ..LintOptions::default() }
        };
        assert_eq!(linted(&[text], &options(1)).to_string(), "");
        assert_snapshot!(linted(&[text], &options(2)).human(false));
        let more = LintOptions { most_attempts: 156, ..options(2) };
        assert_eq!(linted(&[text], &more).to_string(), "");
    }

    #[test]
    fn the_built_in_numbers_are_no_amplification() {
        assert_eq!(lint(&["version: 1\n"]), "");
        let client = LintOptions { inner_retries: 9, ..LintOptions::default() };
        assert!(
            linted(&["version: 1\n"], &client)
                .to_string()
                .starts_with("a.yaml:1:1: warning[W0202]: tools may lead to 640 attempts")
        );
    }

    #[test]
    fn all_models_of_the_host_are_called_in_a_turn() {
        let text = "version: 1\nmodels: {\"*\": {retry: {max_attempts: 4}}, spare: {retry: {max_attempts: 7}}}\ntools:\n  t: {breaker: {failures: never}, retry: {max_attempts: 13}}\n";
        let options = |inside| {
            let models = ["main", "spare"].map(|name| KnownModel {
                name: name.into(),
                inner_retries: if name == "main" { 0 } else { inside },
            });
            let tools = vec![tool("t", Effect::ReadOnly, 0)];
            LintOptions { tools: Some(tools), models: Some(models.to_vec()), ..LintOptions::default() }
        };
        let said = |inside| linted(&[text], &options(inside)).to_string();
        assert!(
            said(0).contains("143 attempts, more than 128: 11 of 2 models x 13 of tool `t`"),
            "{}",
            said(0)
        );
        assert!(said(1).contains(": 18 of 2 models and inside their clients x 13 of"), "{}", said(1));
    }

    #[test]
    fn corrections_are_turns_of_the_model_with_waits_of_their_own() {
        let text = |most: &str| {
            format!(
                "models: {{\"*\": {{retry: {{max_attempts: 11, backoff: {{kind: constant, delay: 1s, jitter: full}}}}}}}}
tools: {{t: {{breaker: {{failures: 1}}, retry: {{correction_backoff: {{kind: constant, delay: 1m}}, by_class: {{invalid_args: {{max_attempts: {most}}}}}}}}}}}
limits: {{total_delay: 20m}}
"
            )
        };
        let said = one(&text("13"));
        assert!(
            said.contains("132 attempts, more than 128: 11 of models x 12 of tool `t`, and to 14m waiting"),
            "{said}"
        );
        let endless = text("unlimited").replace("total_delay: 20m", "deadline: 20m");
        let said = one(&endless);
        assert!(said.contains("132 attempts, more than 128: 11 of models x 12 of tool `t`"), "{said}");
    }

    #[test]
    fn the_report_multiplies_too() {
        let said = one("models: {\"*\": {retry: {max_attempts: 10}}}\noutput: {retry: {max_attempts: 13}}\n");
        assert!(
            said.contains(
                "the report may lead to 130 attempts, more than 128: 10 of models x 13 of the report"
            ),
            "{said}"
        );
    }
}

mod attempts_that_cannot_start {
    use super::*;
    use insta::assert_snapshot;

    #[test]
    fn waits_longer_than_the_deadline_are_added_up() {
        let retry = |deadline: &str| {
            one(&format!(
                "models: {{t: {{retry: {{max_attempts: 5, deadline: {deadline}, backoff: {{kind: exponential, base: 1s, factor: 2, jitter: none}}}}}}}}  # unfazed: ignore[W0260] in a test\n"
            ))
        };
        assert_snapshot!(retry("5s"), @"a.yaml:2:36: warning[W0203]: attempt 4 of 5 of model `t` can never start: the waits before it take at least 7s, and `deadline` is 5s (only 3 can start)");
        assert_eq!(retry("15001ms"), "");
        assert!(retry("15s").contains("attempt 5 of 5"), "at the deadline is too late");
    }

    #[test]
    fn the_longest_time_of_waiting_is_kept_whole() {
        let retry = |total: &str| {
            one(&format!(
                "limits: {{total_delay: {total}}}\nretry: {{max_attempts: 3, backoff: {{kind: constant, delay: 10s, jitter: none}}}}  # unfazed: ignore[W0260] in a test\n"
            ))
        };
        assert_eq!(retry("20s"), "");
        assert!(retry("19s").contains("`total_delay` is 19s"), "{}", retry("19s"));
    }

    #[test]
    fn jitter_may_be_short_and_what_is_switched_off_is_not_counted() {
        assert_eq!(
            one(
                "retry: {max_attempts: 7, deadline: 1s, backoff: {kind: constant, delay: 1s, jitter: full}}\n"
            ),
            ""
        );
        let off = one(
            "retry: {enabled: false, max_attempts: 9, deadline: 1s, backoff: {kind: constant, delay: 1s, jitter: none}}\n",
        );
        assert!(!off.contains("W0203"), "{off}");
    }
    #[test]
    fn the_breaker_opens_before_runs_that_are_asked_for() {
        let tool = |rules: &str| one(&format!("tools: {{t: {{{rules}}}}}\n"));
        assert_snapshot!(tool("retry: {max_attempts: 7}"), @"a.yaml:2:35: warning[W0203]: run 6 of 7 of a call of tool `t` can never start: the breaker opens after 5 failures in a row");
        assert_snapshot!(tool("breaker: {failures: 2}, retry: {max_attempts: 3}"), @"a.yaml:2:59: warning[W0203]: run 3 of 3 of a call of tool `t` can never start: the breaker opens after 2 failures in a row");
        assert_snapshot!(tool("calls: [{when: args.x == 1, retry: {max_attempts: 6}}]"), @"a.yaml:2:63: warning[W0203]: run 6 of 6 of a call of tool `t` can never start: the breaker opens after 5 failures in a row");
        assert_snapshot!(tool("retry: {by_class: {timeout: {max_attempts: 6}}}"), @"a.yaml:2:56: warning[W0203]: run 6 of 6 of a call of tool `t` can never start: the breaker opens after 5 failures in a row");
        for fine in [
            "retry: {max_attempts: 3}",
            "breaker: {failures: 2}",
            "breaker: {failures: never}, retry: {max_attempts: 5}",
            "breaker: {failures: 5}, retry: {max_attempts: 5}",
            "retry: {max_attempts: 5, retry_on: [invalid_args, malformed_tool_call]}",
            "retry: {by_class: {invalid_args: {max_attempts: 6}}}",
        ] {
            assert_eq!(tool(fine), "", "{fine}");
        }
        assert_eq!(one("retry: {max_attempts: 7}\n"), "", "what holds for all is not about tools");
    }
}

mod dead_selectors {
    use super::*;
    use insta::assert_snapshot;

    #[test]
    fn a_selector_that_matches_no_tool_is_told_with_what_was_meant() {
        let text = "version: 1\ntools:\n  serach: {on_exhausted: fail}\n  \"db.*\": {on_exhausted: fail}\n  \"s*\": {on_exhausted: fail}\nmodels: {mian: {on_exhausted: final_turn}}\n";
        let said = linted(&[text], &tools(&["search"])).to_string();
        let dead: Vec<_> = said.lines().filter(|line| line.contains("W0204")).collect();
        assert_snapshot!(dead.join("\n"), @r"
        a.yaml:3:3: warning[W0204]: the host has no tool `serach` (did you mean `search`?)
        a.yaml:4:3: warning[W0204]: `db.*` matches no tool of the host
        a.yaml:6:10: warning[W0204]: the host has no model `mian` (did you mean `main`?)
        ");
    }

    #[test]
    fn nothing_is_dead_where_nobody_knows_the_tools() {
        assert_eq!(one("tools: {serach: {on_exhausted: fail}}\n"), "");
    }
}

mod classes {
    use super::*;

    #[test]
    fn a_class_that_this_kind_of_work_never_fails_with_is_told() {
        assert_eq!(
            one("tools: {t: {retry: {retry_on: [timeout, text_only]}}}\n"),
            "a.yaml:2:31: warning[W0206]: `retry_on` names `text_only`, which never occurs: no tool fails with it"
        );
        assert!(
            one("models: {m: {retry: {retry_on: {add: [invalid_args]}}}}\n").contains("no model fails with")
        );
        assert!(one("output: {retry: {retry_on: [rate_limit]}}\n").contains("no report fails with"));
        assert_eq!(one("tools: {t: {retry: {retry_on: [timeout, execution_error]}}}\n"), "");
    }

    #[test]
    fn a_global_list_is_for_all_kinds_of_work() {
        assert_eq!(one("retry: {retry_on: [invalid_args, rate_limit, text_only]}\n"), "");
        assert!(
            one("retry: {retry_on: [circuit_open, rate_limit]}\n")
                .contains("no tool, model or report fails with")
        );
    }

    #[test]
    fn an_error_row_makes_models_fail_with_a_class() {
        let models = "models: {m: {retry: {retry_on: {add: [execution_error]}}}}\n";
        assert!(one(models).contains("W0206"));
        assert_eq!(one(&format!("{models}errors: [{{code: only_words, class: execution_error}}]\n")), "");
    }
}

mod non_idempotent {
    use super::*;
    use insta::assert_snapshot;

    #[test]
    fn a_rule_that_repeats_what_must_not_act_twice_is_told() {
        let text = "version: 1\ntools:\n  pay:\n    effect: non_idempotent\n    retry: {max_attempts: 3}\n";
        assert_snapshot!(linted(&[text], &LintOptions::default()).human(false));
    }

    #[test]
    fn the_host_may_know_the_effect() {
        let text = "version: 1\ntools: {pay: {retry: {retry_on: {add: [execution_error]}}}}\n";
        let known =
            |effect| LintOptions { tools: Some(vec![tool("pay", effect, 0)]), ..LintOptions::default() };
        assert!(linted(&[text], &known(Effect::NonIdempotent)).to_string().contains("W0207"));
        assert_eq!(linted(&[text], &known(Effect::Idempotent)).to_string(), "");
    }

    #[test]
    fn a_wider_rule_is_not_about_this_tool() {
        let wider = "tools:\n  \"h.*\": {retry: {max_attempts: 3}}\n  h.post: {effect: non_idempotent}\n";
        assert_eq!(one(wider), "");
        let whole = "tools: {\"h.*\": {effect: non_idempotent, retry: {max_attempts: 3}}}\n";
        assert!(one(whole).contains("a failed run of tools `h.*`"));
    }

    #[test]
    fn a_rule_for_all_tools_is_not_about_this_one() {
        assert_eq!(
            one(
                "retry: {max_attempts: 5}\ntools: {\"*\": {retry: {retry_on: [timeout]}}, pay: {effect: non_idempotent}}\n"
            ),
            ""
        );
    }

    #[test]
    fn no_retries_and_corrections_alone_are_fine() {
        assert_eq!(one("tools: {pay: {effect: non_idempotent, retry: {max_attempts: 1}}}\n"), "");
        assert_eq!(
            one(
                "tools: {pay: {effect: non_idempotent, retry: {max_attempts: 3, retry_on: [invalid_args]}}}\n"
            ),
            ""
        );
    }
}

mod breakers {
    use super::*;
    use insta::assert_snapshot;

    #[test]
    fn a_breaker_that_the_end_of_the_run_forestalls_is_told() {
        let tool = |failures: u32| {
            one(&format!(
                "tools: {{t: {{retry: {{max_attempts: 4}}, on_exhausted: fail, breaker: {{failures: {failures}}}}}}}\n"
            ))
        };
        assert_snapshot!(tool(5), @"a.yaml:2:79: warning[W0209]: the breaker of tool `t` waits for 5 failures, and the run ends after 4 of one call");
        assert_eq!(tool(4), "");
        assert_eq!(
            one("tools: {t: {breaker: {failures: 9}}}\n"),
            "",
            "the model continues, and calls it again"
        );
        assert_eq!(
            one("tools: {t: {on_exhausted: fail, retry: {max_attempts: 2}}}\n"),
            "",
            "the number is built in"
        );
    }
}

mod without_bound {
    use super::*;

    #[test]
    fn attempts_without_a_pause_have_no_number() {
        let retry = |jitter: &str| {
            one(&format!(
                "models: {{m: {{retry: {{max_attempts: unlimited, deadline: 5m, backoff: {{kind: constant, delay: 1m, jitter: {jitter}}}}}}}}}\n"
            ))
        };
        assert!(
            retry("full")
                .starts_with("a.yaml:2:36: warning[W0210]: the number of attempts of model `m` is unbounded"),
            "{}",
            retry("full")
        );
        assert_eq!(retry("equal"), "");
    }

    #[test]
    fn waits_the_other_side_asks_for_need_an_end() {
        assert!(
            one("models: {m: {retry: {server_delay: {mode: floor}}}}\n")
                .contains("may make model `m` wait without a bound")
        );
        assert_eq!(one("models: {m: {retry: {server_delay: {mode: floor, max: 5m}}}}\n"), "");
        assert_eq!(one("models: {m: {retry: {server_delay: {mode: floor}, total_delay: 5m}}}\n"), "");
    }

    #[test]
    fn an_attempt_needs_an_end() {
        assert!(
            one("tools: {t: {retry: {attempt_timeout: unlimited}}}\n")
                .contains("an attempt of tool `t` has no time limit")
        );
        assert_eq!(one("tools: {t: {retry: {attempt_timeout: unlimited, deadline: 1h}}}\n"), "");
        assert_eq!(
            one("output: {retry: {attempt_timeout: unlimited}}\n"),
            "",
            "a correction takes no time of its own"
        );
    }
}

mod suppressed {
    use super::*;
    use insta::assert_snapshot;

    const REPEATED: &str = "version: 1\nretry: {max_attempts: 2}\ntools:\n  t:\n";

    fn comment(above: &str, behind: &str) -> String {
        lint(&[&format!("{REPEATED}    {above}\n    retry: {{max_attempts: 2}} {behind}\n")])
    }

    #[test]
    fn a_comment_with_a_reason_suppresses_what_stands_below_or_before_it() {
        assert!(comment("", "").contains("W0205"));
        assert_eq!(comment("# unfazed: ignore[W0205] it must stay if the default changes", ""), "");
        assert_eq!(comment("", "# unfazed: ignore[W0205] it must stay"), "");
        assert_eq!(comment("# unfazed: ignore[W0205] it must stay\n    # if the default changes", ""), "");
    }

    #[test]
    fn a_suppression_needs_a_reason_and_a_lint_that_is_there() {
        assert_snapshot!(comment("# unfazed: ignore[W0205]", ""), @r#"
        a.yaml:5:7: error[P0205]: a suppression needs a reason
        a.yaml:6:27: warning[W0205]: `tools["t"].retry.max_attempts` is redundant: it inherits 2 already
        "#);
        let wrong = "version: 1 # unfazed: ignore[W0250] why\n# unfazed: ignore[P0101] why\n# unfazed: ignore W0205\n# unfazed: ignore[W0205 why\n";
        assert_snapshot!(lint(&[wrong]), @r"
        a.yaml:1:30: error[P0205]: there is no lint `W0250` (did you mean `W0205`?)
        a.yaml:2:19: error[P0205]: `P0101` cannot be suppressed
        a.yaml:3:3: error[P0205]: this comment is for `unfazed check`, but its directive is unknown
        a.yaml:4:3: error[P0205]: the list of lints has no end
        ");
    }

    #[test]
    fn what_suppresses_nothing_is_told() {
        let said = comment("# unfazed: ignore[W0205, W0203] it must stay", "");
        assert_snapshot!(said, @"a.yaml:5:30: warning[W0299]: this suppression is unused: there is no W0203 here");
    }

    #[test]
    fn nobody_says_so_who_cannot_know() {
        let text = "version: 1\n# unfazed: ignore[W0204, W0208] for other hosts\nretry: {max_attempts: 2}\n";
        assert_eq!(lint(&[text]), "");
        assert!(linted(&[text], &tools(&[])).to_string().contains("there is no W0204"));
        assert!(lint(&["version: 1\n", text]).contains("there is no W0208"));
    }

    #[test]
    fn a_file_below_others_may_suppress_what_is_only_there_without_them() {
        let base =
            format!("{REPEATED}    retry: {{max_attempts: 2}}  # unfazed: ignore[W0205] it must stay\n");
        assert_eq!(lint(&[&base]), "");
        let said = lint(&[&base, "version: 1\nretry: {max_attempts: 6}\n"]);
        assert!(!said.contains("W0299"), "{said}");
    }

    #[test]
    fn text_that_looks_like_a_comment_is_text() {
        let text = "turn:\n  messages:\n    empty: |\n      # unfazed: ignore[W0205]\n    text_only: 'a # unfazed: nonsense'\n";
        assert_eq!(one(text), "");
    }

    #[test]
    fn a_list_below_its_key_may_have_the_comment_above_the_key() {
        let text = |comment: &str| {
            format!("tools:\n  t:\n    retry:\n      {comment}\n      retry_on:\n        - text_only\n")
        };
        assert!(one(&text("")).contains("W0206"));
        assert_eq!(one(&text("# unfazed: ignore[W0206] a guard raises it")), "");
    }

    #[test]
    fn many_comments_in_a_row_are_read() {
        let comments = "# nothing\n".repeat(500);
        assert_eq!(
            lint(&[&format!(
                "{REPEATED}    # unfazed: ignore[W0205] why\n{comments}    retry: {{max_attempts: 2}}\n"
            )]),
            ""
        );
    }
}

#[test]
fn every_profile_is_looked_at_unless_one_is_chosen() {
    let text =
        "version: 1\nprofiles: {ci: {tools: {t: {retry: {retry_on: [text_only], max_attempts: null}}}}}\n";
    assert_eq!(lint(&[text]).matches("profiles.ci.").count(), 1);
    let chosen = Loader::new().profile("ci").load(vec![("a.yaml".into(), text)]).unwrap();
    assert!(chosen.lint(&LintOptions::default()).to_string().contains("W0211"));
}

#[test]
fn the_built_in_policy_needs_no_reproach() {
    assert!(Policy::builtin().lint(&LintOptions::default()).is_empty());
    let text = include_str!("../../../policies/default.yaml");
    assert_eq!(lint(&[text]), "", "nor does it as a file");
    for (name, table) in crate::policy::builtin::TABLES {
        assert_eq!(lint(&[table]), "", "{name}");
    }
}

#[test]
fn ten_thousand_selectors_are_looked_at_in_a_moment() {
    let mut text = String::from("version: 1\ntools:\n");
    for i in 0..10_000 {
        let (selector, rule) = match i % 10 {
            0..7 => (format!("s{i}"), "retry: {max_attempts: 2, total_delay: 30s}"),
            7 | 8 => (format!("p{i}.*"), "retry: {max_attempts: 3, deadline: 30s}"),
            _ => (format!("*.e{i}"), "effect: read_only"),
        };
        writeln!(text, "  \"{selector}\": {{{rule}}}").unwrap();
    }
    let policy = Policy::from_yaml("a.yaml", &text).unwrap_or_else(|report| panic!("{report}"));
    let started = std::time::Instant::now();
    let report = policy.lint(&LintOptions::default());
    assert!(report.is_empty(), "{report}");
    assert!(started.elapsed().as_secs() < 120, "{:?}", started.elapsed());
}

#[test]
fn too_many_patterns_that_match_the_same_names_are_told_and_not_waited_for() {
    let mut text = String::from("version: 1\ntools:\n");
    for i in 0..9_000 {
        writeln!(text, "  \"*x{i}*\": {{on_exhausted: fail}}").unwrap();
    }
    let report = Policy::from_yaml("a.yaml", &text).unwrap().lint(&LintOptions::default());
    assert!(report.to_string().contains("a.yaml:1:1: warning[P0008]: too many patterns"), "{report}");
}
