use crate::text::Problems;
use crate::text::{Sources, yaml};

/// What is said of the only mistake in a text, where, and the text with its repair.
fn slip(text: &str) -> (String, String, Option<String>) {
    let (mut sources, mut problems) = (Sources::new(), Problems::default());
    yaml::load(&mut sources, &mut problems, "a.yaml", text.as_bytes());
    let report = problems.into_report(sources);
    let [problem] = report.diagnostics() else { panic!("{report}") };
    let place = report.sources().place_of(problem.span);
    let fixed = problem.fix.as_ref().map(|fix| {
        let mut fixed = text.to_owned();
        fixed.replace_range(fix.span.range(), &fix.text);
        fixed
    });
    (format!("{}:{} {}", place.line, place.column, problem.message), problem.help.join("; "), fixed)
}

#[test]
fn a_bracket_that_is_never_closed_is_shown_where_it_opens() {
    for (text, place, fixed) in [
        ("a: {b: 1\nc: 2\n", "1:4", Some("a: {b: 1}\nc: 2\n")),
        ("a:\n  b: [x, y  # two\n  c: 2\n", "2:6", Some("a:\n  b: [x, y]  # two\n  c: 2\n")),
        ("a: 1\nb: {c: 1\n", "2:4", Some("a: 1\nb: {c: 1}\n")),
        ("a: {b: {c: 1}\nd: {e: 2}\n", "1:4", None),
        ("a: {b: [1, 2}\n", "1:8", None),
        ("a: 'it''s {'\nb: {c: \"}\"\n", "2:4", None),
        ("a: |\n  {\nb: [\n", "3:4", None),
    ] {
        let (said, _, repaired) = slip(text);
        let bracket = if text.contains('[') { '[' } else { '{' };
        assert_eq!(said, format!("{place} `{bracket}` is never closed"), "{text}");
        assert_eq!(repaired.as_deref(), fixed, "{text}");
    }
    assert_eq!(slip("a: \"b\nc: 1\n").0, "1:4 the text that begins here has no end");
}

#[test]
fn commas_of_a_collection_are_put_where_they_belong() {
    for (text, said, fixed) in [
        ("a: {b: 1,, c: 2}\n", "1:10 there is no entry before this `,`", Some("a: {b: 1, c: 2}\n")),
        ("a: [b, , c]\n", "1:8 there is no entry before this `,`", Some("a: [b,  c]\n")),
        ("a: {b: \"c\" d: e}\n", "1:12 a `,` is missing before `d`", Some("a: {b: \"c\", d: e}\n")),
        ("a: {b: {c: 1} d: e}\n", "1:15 a `,` is missing before `d`", Some("a: {b: {c: 1}, d: e}\n")),
        ("a: {\n  b: 1\n  c: 2\n}\n", "3:3 a `,` is missing before `c`", Some("a: {\n  b: 1,\n  c: 2\n}\n")),
        ("- {b: c d: 'e'}\n", "1:9 a `,` is missing before `d`", Some("- {b: c, d: 'e'}\n")),
        (
            "a: {b: 1; c: 2; d: 3}\n",
            "1:9 a `;` separates no entries of `{…}`",
            Some("a: {b: 1, c: 2, d: 3}\n"),
        ),
        ("a: {b: 'x; y: z'; c: 2}\n", "1:10 a `;` separates no entries of `{…}`", None),
    ] {
        let (found, _, repaired) = slip(text);
        assert_eq!(found, said, "{text}");
        assert_eq!(repaired.as_deref(), fixed, "{text}");
    }
}

#[test]
fn a_text_that_begins_as_an_anchor_or_an_alias_is_quoted() {
    for (text, fixed) in [
        ("a: *bold* text\n", Some("a: '*bold* text'\n")),
        ("a: &amp; more\n", Some("a: '&amp; more'\n")),
        ("a: *gone\n", None),
    ] {
        assert_eq!(slip(text).2.as_deref(), fixed, "{text}");
    }
}

#[test]
fn a_value_with_a_colon_is_quoted_unless_it_may_be_a_mapping() {
    for (text, fixed) in [
        ("failed: It failed: try again\n", Some("failed: 'It failed: try again'\n")),
        (
            "a:\n  - b: It's so: yes, \"so\"  # why\n",
            Some("a:\n  - b: \"It's so: yes, \\\"so\\\"\"  # why\n"),
        ),
        ("retry: max_attempts: 3\n", None),
    ] {
        let (said, help, repaired) = slip(text);
        assert!(said.contains("holds `: `, which begins a mapping"), "{said}");
        assert_eq!(repaired.as_deref(), fixed, "{text}");
        assert_eq!(help.contains("if it is a mapping"), fixed.is_none(), "{help}");
    }
}

#[test]
fn a_value_that_ends_before_its_line_is_quoted_if_it_can_only_be_a_text() {
    for (text, end, fixed) in [
        ("a: {{ turn }} is last\n", '}', Some("a: '{{ turn }} is last'\n")),
        ("a:\n  - b: {{ turn }}'s end  # why\n", '}', Some("a:\n  - b: \"{{ turn }}'s end\"  # why\n")),
        ("a: 'It's over'\nb: 1\n", '\'', Some("a: \"It's over\"\nb: 1\n")),
        ("a: \"Last\" turn\n", '"', None),
        ("a: [last] turn\n", ']', None),
        ("a: {b: c} d\n", '}', None),
    ] {
        let (said, help, repaired) = slip(text);
        assert!(
            said.ends_with(&format!("the value ends at `{end}`, and more follows on its line")),
            "{said}"
        );
        assert_eq!(repaired.as_deref(), fixed, "{text}");
        assert_eq!(help.is_empty(), fixed.is_some(), "{text}: {help}");
    }
    assert!(slip("a: | text\n").0.contains("`|` begins a text on the lines below"));
}

#[test]
fn a_key_with_a_colon_is_quoted_unless_it_may_be_two_keys() {
    for (text, fixed) in [
        ("a:\n  Well: try again:  # why\n    b: 1\n", Some("a:\n  'Well: try again':  # why\n    b: 1\n")),
        ("retry: backoff:\n  kind: constant\n", None),
    ] {
        let (said, help, repaired) = slip(text);
        assert!(said.contains("this key holds `: `"), "{said}");
        assert_eq!(repaired.as_deref(), fixed, "{text}");
        assert_eq!(help.is_empty(), fixed.is_some(), "{help}");
    }
}

#[test]
fn a_space_that_is_missing_after_a_colon_is_put_there() {
    for (text, fixed) in [
        ("retry:\n  max_attempts:3\n  deadline: 1m\n", "retry:\n  max_attempts: 3\n  deadline: 1m\n"),
        ("version:1\nretry: {}\n", "version: 1\nretry: {}\n"),
        ("a: {b:3}\n", "a: {b: 3}\n"),
    ] {
        let (said, _, repaired) = slip(text);
        assert!(said.contains("a space is missing after"), "{said}");
        assert_eq!(repaired.as_deref(), Some(fixed));
    }
}

#[test]
fn a_line_that_fits_no_level_is_told_the_levels_there_are() {
    let (said, help, fixed) = slip("a:\n  b: 1\n    c: 2\nd: 3\n");
    assert_eq!(said, "3:5 this line is indented more than the one above it, which has a value already");
    assert_eq!(help, "indent it by 2, in line with `b`");
    assert_eq!(fixed.as_deref(), Some("a:\n  b: 1\n  c: 2\nd: 3\n"));
    let (said, help, fixed) = slip("a:\n    b: 1\n  c: 2\n");
    assert_eq!(said, "3:3 this line is indented by 2, which matches no line above it");
    assert_eq!(help, "indent it by 0, in line with `a`, or by 4, in line with `b`");
    assert_eq!(fixed, None);
}

#[test]
fn tabs_become_spaces_if_their_width_makes_no_difference() {
    let (said, _, fixed) = slip("a:\n\tb: 1 # one\n\tc: 2\nd: 3\n");
    assert_eq!(said, "2:1 a tab indents this line");
    assert_eq!(fixed.as_deref(), Some("a:\n  b: 1 # one\n  c: 2\nd: 3\n"));
    assert_eq!(slip("a:\n  b:\n\tc: 2\n").2, None, "it is below `a` or below `b`");
}

#[test]
fn a_key_that_says_the_same_twice_loses_its_second_entry() {
    for (text, fixed) in [
        ("a: 1\nb:\n  c: 2\nb:\n  c: 2\nd: 3\n", Some("a: 1\nb:\n  c: 2\nd: 3\n")),
        ("a: {b: 1, b: 1}\n", Some("a: {b: 1}\n")),
        ("a: 1\na: 2\n", None),
        ("a: 1\na: 1  # why\n", None),
    ] {
        let (said, _, repaired) = slip(text);
        assert!(said.contains("duplicate key"), "{said}");
        assert_eq!(repaired.as_deref(), fixed, "{text}");
    }
}

#[test]
fn no_text_makes_the_search_fail_or_take_long() {
    let deep = "[".repeat(60);
    for text in [
        "",
        "\t",
        "{",
        "}",
        "'",
        "a: '",
        "\u{feff}{",
        "- - - {",
        "a:\n\t\n\tb",
        "? {",
        "é: {ü",
        "a: |",
        ": :",
        &deep,
    ] {
        let (mut sources, mut problems) = (Sources::new(), Problems::default());
        yaml::load(&mut sources, &mut problems, "a.yaml", text.as_bytes());
    }
}

#[test]
fn a_tab_below_a_value_is_named_on_its_own_line() {
    let (said, help, _) = slip("version: 1\n\tretry: {}\n");
    assert_eq!((said.as_str(), help.contains("spaces")), ("2:1 a tab indents this line", true));
}

#[test]
fn a_pattern_that_reads_as_an_alias_is_quoted() {
    for (text, fixed) in [
        ("tools:\n  *: {a: 1}\n", "tools:\n  '*': {a: 1}\n"),
        ("tools:\n  *_get:\n    a: 1\n", "tools:\n  '*_get':\n    a: 1\n"),
        ("a:\n  b: 1\n  *_get: 2  # why\n", "a:\n  b: 1\n  '*_get': 2  # why\n"),
        ("a:\n  b:\n    c: 1\n  *:\n    c: 2\n", "a:\n  b:\n    c: 1\n  '*':\n    c: 2\n"),
        ("- *_get: 1\n", "- '*_get': 1\n"),
        ("a: {*: 1}\n", "a: {'*': 1}\n"),
        ("a: {b: 1, *_get: {c: 1}}\n", "a: {b: 1, '*_get': {c: 1}}\n"),
        ("a: {b: 1,\n  *x*:y: 2}\n", "a: {b: 1,\n  '*x*:y': 2}\n"),
    ] {
        let (said, _, repaired) = slip(text);
        assert!(said.ends_with(" `*` begins an alias unless it is quoted"), "{text}: {said}");
        assert_eq!(repaired.as_deref(), Some(fixed));
    }
    assert!(slip("a: *x\n").0.contains("no anchor"));
    assert_eq!(slip("a: &x b\nc:\n  d: 1\n  *x: e\n").2, None, "an alias may be meant");
}

#[test]
fn a_text_that_begins_with_a_sign_is_quoted_where_its_end_is_certain() {
    for (text, fixed) in [
        ("a: @b's # why\n", Some("a: \"@b's\" # why\n")),
        ("a: `b` is {{ c }}, so\n", Some("a: '`b` is {{ c }}, so'\n")),
        ("a: %b\n  c\nd: 1\n", Some("a: '%b\n  c'\nd: 1\n")),
        ("a: {b: @c d}\n", Some("a: {b: '@c d'}\n")),
        ("a: {b: `c` d, e: 1}\n", Some("a: {b: '`c` d', e: 1}\n")),
        ("a: [@b, c]\n", Some("a: ['@b', c]\n")),
        ("a: {b: @c, d}\n", None),
        ("a: {b: @{{ c }}}\n", None),
        ("a: @b\n  c: 1\n", None),
        ("a: @b # why\n  c\n", None),
    ] {
        let (said, help, repaired) = slip(text);
        assert!(said.contains("unless it is quoted"), "{text}: {said}");
        assert_eq!(repaired.as_deref(), fixed, "{text}");
        assert_eq!(help.is_empty(), fixed.is_some(), "{help}");
    }
}

#[test]
fn a_text_of_several_lines_is_quoted_as_a_whole() {
    for (text, fixed) in [
        ("a: it Failed: so\n  again\nb: 1\n", Some("a: 'it Failed: so\n  again'\nb: 1\n")),
        ("a: it Failed: so # why\n  again\n", None),
        ("a: {{ b }} c\n  again\n", None),
    ] {
        assert_eq!(slip(text).2.as_deref(), fixed, "{text}");
    }
}

#[test]
fn an_assignment_becomes_a_key_with_its_value() {
    for (text, fixed) in [
        ("a: {b = 3}\n", Some("a: {b: 3}\n")),
        ("a: {b=3, c: 1}\n", Some("a: {b: 3, c: 1}\n")),
        ("a: {c: 1, b = \"x y\"} # why\n", Some("a: {c: 1, b: \"x y\"} # why\n")),
        ("a: {b = [c, d]}\n", Some("a: {b: [c, d]}\n")),
        ("a:\n  b = 3 # why\n  c: 1\n", Some("a:\n  b: 3 # why\n  c: 1\n")),
        ("a: {b: 1, b = 3}\n", None),
        ("a: {b == 3}\n", None),
        ("a: {b = c\"}\n", None),
    ] {
        assert_eq!(slip(text).2.as_deref(), fixed, "{text}");
    }
}

#[test]
fn a_quote_within_quotes_is_told_what_to_write() {
    for (text, help) in [
        (
            "a: \"it's \"bad\"\"\n",
            "write `\"it's \\\"bad\\\"\"` if the first and the last quote hold the text; quote all of it, `\"\\\"it's \\\"bad\\\"\\\"\"`, if they belong to it",
        ),
        (
            "a: 'b' and 'c'\n",
            "write `\"b' and 'c\"` if the first and the last quote hold the text; quote all of it, `\"'b' and 'c'\"`, if they belong to it",
        ),
        ("a: \"b\" c\n", "quote all of it, `'\"b\" c'`, or none"),
    ] {
        let (_, said, fixed) = slip(text);
        assert_eq!((said.as_str(), fixed), (help, None), "{text}");
    }
}
