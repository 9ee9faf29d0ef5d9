//! Samples of what models write, each with the one thing it can mean, or the reason it is refused.

use serde_json::{Value, json};

use super::*;

#[track_caller]
fn repaired(text: &str, value: &Value, repairs: &str) {
    match repair(text) {
        Ok(found) => {
            assert_eq!((&found.value, found.repairs.to_string().as_str()), (value, repairs), "{text}");
        }
        Err(refusal) => panic!("{text}: {refusal}"),
    }
}

#[track_caller]
fn refused(text: &str, reason: RefusalReason) {
    match repair(text) {
        Ok(found) => panic!("{text}: taken as {} ({})", found.value, found.repairs),
        Err(refusal) => assert_eq!(refusal.reason, reason, "{text}: {refusal}"),
    }
}

#[test]
fn json_stays_what_it_is() {
    for text in [r#"{"a": "```\n{...}, True // x"}"#, "[]", " 1 ", r#""it's""#, r#"{"a": "b\\c"}"#] {
        repaired(text, &serde_json::from_str(text).unwrap(), "");
    }
}

#[test]
fn fences_are_taken_off() {
    let a = json!({"a": 1});
    repaired("```json\n{\"a\": 1}\n```", &a, "code_fence");
    repaired("```{\"a\": 1}```", &a, "code_fence");
    repaired("```json\n{\"a\": 1}", &a, "code_fence");
    repaired("{\"a\": 1}\n```", &a, "code_fence");
    repaired("```json\n{\"a\": 1\n```", &a, "code_fence, missing_bracket");
    repaired("Here it is:\n```json\n{\"a\": 1}\n```\nDone.", &a, "text_around, code_fence");
    repaired("{\"a\": \"```x```\",}", &json!({"a": "```x```"}), "trailing_comma");
}

#[test]
fn text_around_the_value_is_left_out() {
    let a = json!({"a": [1]});
    repaired("Sure! The arguments are {\"a\": [1]}", &a, "text_around");
    repaired("{\"a\": [1]} I hope this helps.", &a, "text_around");
    repaired("{\"a\": [1]}</tool_call>", &a, "text_around");
    repaired("\u{feff}{\"a\": [1]}", &a, "text_around");
    repaired("\u{c}{\"a\": [1]}", &a, "text_around");
    repaired("{\"a\": [1]}\u{b}", &a, "text_around");
    repaired("Note: it's done. The \"arguments\" are: {\"a\": [1]}", &a, "text_around");
    repaired("{\"a\": [1]} Note: x. Also: y", &a, "text_around");
    refused("path: /tmp, options: {\"a\": 1}", RefusalReason::UnclearSurroundings);
    refused("path: /tmp\noptions: {\"a\": 1}", RefusalReason::UnclearSurroundings);
    refused("{\"a\": 1}, \"b\": 2}", RefusalReason::UnclearSurroundings);
    refused("{\"a\": 1} see 3]", RefusalReason::UnclearSurroundings);
    refused("I cannot do that.", RefusalReason::NoValue);
    refused("", RefusalReason::NoValue);
}

#[test]
fn there_is_one_value() {
    repaired("{\"a\": 1}\n{\"a\": 1}", &json!({"a": 1}), "repeated_value");
    refused("{\"a\": 1}\n{\"a\": 2}", RefusalReason::TwoValues);
    refused("{\"a\": 1} and {\"a\": ", RefusalReason::TwoValues);
    refused("use [search] with {\"a\": 1}", RefusalReason::TwoValues);
    refused("use [search] now", RefusalReason::NoValue);
}

#[test]
fn commas_too_many_or_too_few() {
    repaired("{\"a\": [1, 2,],}", &json!({"a": [1, 2]}), "trailing_comma");
    repaired("{\"a\": 1},", &json!({"a": 1}), "trailing_comma");
    repaired("{\"a\": 1,, \"b\": 2}", &json!({"a": 1, "b": 2}), "extra_comma");
    repaired("{\"a\": 1 \"b\": 2}", &json!({"a": 1, "b": 2}), "missing_comma");
    repaired("{\"a\": \"x\"\n \"b\": 2}", &json!({"a": "x", "b": 2}), "missing_comma");
    repaired("[{\"a\": 1} {\"a\": 2}]", &json!([{"a": 1}, {"a": 2}]), "missing_comma");
    repaired("{\"a\": \"x\" \"b\": 2}", &json!({"a": "x", "b": 2}), "missing_comma");
    repaired("{\"a\":\"x\"\"b\":2}", &json!({"a": "x", "b": 2}), "missing_comma");
    repaired("[\"a\" \"b\" 3]", &json!(["a", "b", 3]), "missing_comma");
    repaired("[1\n2]", &json!([1, 2]), "missing_comma");
    repaired("{a: 1\nb: 2}", &json!({"a": 1, "b": 2}), "missing_comma, unquoted_key");
    repaired("[1,, 2]", &json!([1, 2]), "extra_comma");
    repaired("[\"a\",, [\"b\"]]", &json!(["a", ["b"]]), "extra_comma");
    refused("{\"k\": \"v\", [\"x\"] }", RefusalReason::UnclearQuotes);
}

#[test]
fn numbers_and_literals_with_blanks_between_them_are_a_list() {
    repaired("{\"ids\": [1 -2 3.5]}", &json!({"ids": [1, -2, 3.5]}), "missing_comma");
    repaired("[true null, 1 False]", &json!([true, null, 1, false]), "missing_comma, python_literal");
    refused("[10 000]", RefusalReason::Unexpected);
    refused("[1 2 x]", RefusalReason::Unexpected);
    refused("{\"a\": 1 2}", RefusalReason::Unexpected);
}

#[test]
fn a_comma_before_the_first_member_is_left_out_if_all_brackets_are_there() {
    repaired("[, 1]", &json!([1]), "extra_comma");
    repaired("{\"a\": {, \"b\": 1}, \"c\": 2}", &json!({"a": {"b": 1}, "c": 2}), "extra_comma");
    refused("{\"limit\": {, \"b\": []}", RefusalReason::MismatchedBrackets);
    refused("[,]", RefusalReason::MissingValue);
    refused("[,, 1]", RefusalReason::MissingValue);
}

#[test]
fn a_colon_is_put_in_between_a_key_and_a_whole_value() {
    repaired("{\"a\" \"b\", \"c\" 1}", &json!({"a": "b", "c": 1}), "missing_colon");
    repaired(
        "{\"a\" \"say \\\"b\\\"\\n\", c: 1}",
        &json!({"a": "say \"b\"\n", "c": 1}),
        "missing_colon, unquoted_key",
    );
    refused("{\"a\", \"b\": 1}", RefusalReason::NotAMember);
    refused("{\"a\" \"b\": 1}", RefusalReason::NotAMember);
}

#[test]
fn brackets_too_few() {
    repaired("{\"a\": {\"b\": [true", &json!({"a": {"b": [true]}}), "missing_bracket");
    repaired("{\"a\": \"x\"", &json!({"a": "x"}), "missing_bracket");
    repaired("\"a\": \"x\", \"b\": 1}", &json!({"a": "x", "b": 1}), "missing_bracket");
    repaired("{\"a\": [1, 2}", &json!({"a": [1, 2]}), "mismatched_bracket");
    repaired("{\"a\": [\"x\"}]", &json!({"a": ["x"]}), "mismatched_bracket");
}

#[test]
fn brackets_in_the_middle_are_put_right_where_all_others_then_match() {
    let one = json!({"x": {"a": [1, 2]}, "b": 3});
    for (text, repairs) in [
        ("{\"x\": {\"a\": [1, 2}, \"b\": 3}", "missing_bracket"),
        ("{\"x\": {\"a\": [1, 2}}, \"b\": 3}", "mismatched_bracket"),
        ("{\"x\": {\"a\": [1, 2]], \"b\": 3}", "mismatched_bracket"),
    ] {
        repaired(text, &one, repairs);
    }
    let list = json!({"l": [{"a": "x"}, {"a": "y"}], "n": 1});
    repaired("{\"l\": [{\"a\": \"x\", {\"a\": \"y\"}], \"n\": 1}", &list, "missing_bracket");
    repaired("{\"l\": [{\"a\": \"x\"}, {\"a\": \"y\"], \"n\": 1}", &list, "missing_bracket");
    repaired("{\"l\": [{\"a\": \"x\"}, {\"a\": \"y\"}, \"n\": 1}", &list, "missing_bracket");
    repaired("{\"l\": [{\"a\": \"x\"}, {\"a\": \"y\"}}, \"n\": 1}", &list, "mismatched_bracket");
    refused("{\"l\": [1}, \"m\": {\"a\": 2, \"n\": 3}", RefusalReason::MismatchedBrackets);
    // Which of them is too many?
    refused("{\"x\": [[1, 2]]], \"b\": 3}", RefusalReason::MismatchedBrackets);
    refused("{\"l\": {\"a\": 1, {\"b\": 2}}", RefusalReason::NotAMember);
}

#[test]
fn brackets_too_many() {
    repaired("{\"a\": 1}}", &json!({"a": 1}), "extra_bracket");
    repaired("{{\"a\": 1}}", &json!({"a": 1}), "extra_bracket");
    repaired("{\"a\": {{\"b\": 1}}, \"c\": 2}", &json!({"a": {"b": 1}, "c": 2}), "extra_bracket");
    refused("{\"a\": 1}}, \"b\": 2}", RefusalReason::UnclearSurroundings);
}

#[test]
fn what_is_cut_off_where_nothing_tells_what_was_meant_is_not_made_up() {
    refused("{\"path\": \"a\\", RefusalReason::CutInString);
    refused("{\"path\": \"a\\u00", RefusalReason::CutInString);
    refused("{\"path\": \"C:\\x\\\"}", RefusalReason::CutInString);
    // Of a path, and of a text.
    refused(r#"{"path": "\\\\server\x64"}"#, RefusalReason::UnclearEscapes);
    repaired(r#"{"a": "caf\xe9"}"#, &json!({"a": "café"}), "bad_escape");
    refused(r#"{"path": "C:\x64\bin"}"#, RefusalReason::UnclearEscapes);
    refused(r#"{"path": "D:\xab\xcd"}"#, RefusalReason::UnclearEscapes);
    repaired(r"{'a': '\x41'}", &json!({"a": "A"}), "single_quotes, bad_escape");
    refused(r#"{"a": "b'}"#, RefusalReason::CutInString);
    // Another quote than the first may have ended the string: the rest is no part of it.
    for text in [
        r#"{"path": “x", "overwrite": false}"#,
        r#"{"path": 'x", "overwrite": false}"#,
        r#"{"path": 'x, "overwrite": false}"#,
        r#"{"path": 'x", "over,write" : false}"#,
        r#"{'a': "x', 'b': 2}"#,
    ] {
        refused(text, RefusalReason::CutInString);
    }
    refused(r#"{"a": "x', "b": 2}"#, RefusalReason::UnclearQuotes);
    refused(r#"{"a": "x”, "b": 2}"#, RefusalReason::UnclearQuotes);
    refused("{\"path\": \"", RefusalReason::CutInString);
    refused("{\"code\": \"f() {}", RefusalReason::CutInString);
    refused("{\"list\": [\"x\", \"y}", RefusalReason::CutInString);
    refused("{\"pa", RefusalReason::CutInString);
    refused("{\"limit\": tru", RefusalReason::CutInScalar);
    refused("{\"limit\": 1.5e", RefusalReason::CutInScalar);
    refused("{\"limit\": 1", RefusalReason::CutInScalar);
    refused("[1, -2.5", RefusalReason::CutInScalar);
    assert!(repair_for("{\"limit\": 1", &|_| true).is_err());
    repaired("{\"limit\": 1\n", &json!({"limit": 1}), "missing_bracket");
    refused("{\"limit\":", RefusalReason::CutOff);
    refused("{\"limit\"", RefusalReason::NotAMember);
    refused("{", RefusalReason::CutOff);
    refused("[\n", RefusalReason::CutOff);
}

#[test]
fn what_is_closed_at_the_end_is_not_certain_and_a_schema_decides() {
    for (text, value) in [
        ("{\"path\": \"/etc/pass", json!({"path": "/etc/pass"})),
        ("{\"path\": \"/etc/pass}", json!({"path": "/etc/pass"})),
        ("{\"path\": [\"a\", \"b\n]\n}\n```", json!({"path": ["a", "b"]})),
        ("{\"a\": 1,", json!({"a": 1})),
        ("{\"a\": [", json!({"a": []})),
    ] {
        let found = repair(text).unwrap();
        assert_eq!((&found.value, found.is_certain()), (&value, false), "{text}");
        assert_eq!(repair_for(text, &|_| true).unwrap().value, value, "{text}");
        assert_eq!(repair_for(text, &|_| false).unwrap_err().reason, RefusalReason::NotDecided, "{text}");
    }
    assert!(repair_for("{\"a\": 1,}", &|_| false).unwrap().is_certain());
}

#[test]
fn a_schema_decides_between_two_readings_of_which_one_holds() {
    for (text, first, second) in [
        ("{\"n\": 12\"}", json!(12), json!("12")),
        ("{\"n\": \"a b\"\", \"m\": 1}", json!("a b"), json!("a b\"")),
        ("{\"n\": true\"}", json!(true), json!("true")),
        ("{\"n\": 007}", json!(7), json!("007")),
        ("{\"n\": +1}", json!(1), json!("+1")),
        ("{\"n\": 1_000}", json!(1000), json!("1_000")),
        ("{\"n\": 0x1F}", json!(31), json!("0x1F")),
        ("{\"n\": yes}", json!(true), json!("yes")),
        ("{\"n\": NULL}", json!(null), json!("NULL")),
        ("{\"n\": 1, \"n\": 2,}", json!(1), json!(2)),
    ] {
        assert!(repair(text).is_err(), "{text}");
        for value in [first, second] {
            let found = repair_for(text, &|found| found["n"] == value).unwrap();
            assert!(found.repairs.contains(RepairKind::ChosenBySchema), "{text}");
            assert_eq!(found.value["n"], value, "{text}");
        }
        for holds in [true, false] {
            assert!(repair_for(text, &|_| holds).is_err(), "{text}");
        }
    }
}

/// `012` is 12 or 10, and no schema tells which; but one that takes texts alone leaves no doubt.
#[test]
fn a_number_that_may_be_octal_is_a_text_or_refused() {
    for text in ["{\"n\": 012}", "{\"n\": +010}", "{\"n\": 0_12}"] {
        assert!(repair_for(text, &|_| true).is_err(), "{text}");
        assert!(repair_for(text, &|found| found["n"].is_u64()).is_err(), "{text}");
        assert!(repair_for(text, &|found| found["n"].as_u64().is_some_and(|n| n < 12)).is_err(), "{text}");
        assert!(repair_for(text, &|found| found["n"].is_string()).unwrap().value["n"].is_string(), "{text}");
    }
    // One number to everybody.
    for (text, number) in [("{\"n\": 007}", 7), ("{\"n\": 089}", 89), ("{\"n\": 00}", 0)] {
        assert_eq!(repair_for(text, &|found| found["n"].is_u64()).unwrap().value, json!({"n": number}));
    }
}

#[test]
fn quotes_too_many() {
    let path = json!({"destination": "/Users/x"});
    repaired("{\"destination\":\"\"/Users/x\"}", &path, "doubled_quote");
    repaired("{\"destination\":\"/Users/x\"\"}", &path, "doubled_quote");
    repaired("{\"destination\":\"\"/Users/x\"\"}", &path, "doubled_quote");
    repaired("{\"\"destination\"\":\"/Users/x\"}", &path, "doubled_quote");
    repaired("{\"a\": \"\", \"b\": \"\",}", &json!({"a": "", "b": ""}), "trailing_comma");
}

#[test]
fn quotes_too_few() {
    repaired("{\"a\": x y\", \"b\": 1}", &json!({"a": "x y", "b": 1}), "missing_quote");
    repaired("{a\": 1}", &json!({"a": 1}), "missing_quote");
    repaired("{\"a: 1, \"b\": 2}", &json!({"a": 1, "b": 2}), "missing_quote");
    refused("[\"a, \"b\", \"c\"]", RefusalReason::UnclearQuotes);
}

#[test]
fn a_text_without_its_last_quote_ends_before_the_next_key() {
    let two = json!({"a": "x, y", "b": 1});
    repaired("{\"a\": \"x, y, \"b\": 1}", &two, "missing_quote");
    repaired("{\"a\": \"x, y,\n\"b\": 1}", &two, "missing_quote");
    repaired("[{\"a\": \"x},{\"a\": 1}]", &json!([{"a": "x"}, {"a": 1}]), "missing_quote");
    repaired("{\"a\": [\"x],\"b\": 1}", &json!({"a": ["x"], "b": 1}), "missing_quote");
    refused("{\"a\": \"x = {1, \"b\": 1}", RefusalReason::UnclearQuotes);
    refused("{\"a\": \"x, \"b\": []", RefusalReason::MismatchedBrackets);
    refused("{\"a\": \"x, \"b\": \"y \"z\"\"}", RefusalReason::UnclearQuotes);
    refused("{\"a\": \"x, \"b\": \"y\"\"}", RefusalReason::UnclearQuotes);
}

#[test]
fn a_text_of_a_list_may_lack_its_first_quote() {
    repaired("[\"a\", b\", \"c\"]", &json!(["a", "b", "c"]), "missing_quote");
    repaired("[\"a\", b\", c d\"]", &json!(["a", "b", "c d"]), "missing_quote");
    refused("[\",\"\"]", RefusalReason::UnclearQuotes);
    refused("[0, a\", \"b\"]", RefusalReason::UnclearQuotes);
}

#[test]
fn quotes_inside_a_text_belong_to_it_where_they_are_pairs() {
    repaired("{\"a\": \"say \"hi\" to all\"}", &json!({"a": "say \"hi\" to all"}), "unescaped_quote");
    repaired("{\"a\": \"say \"hi\"\"}", &json!({"a": "say \"hi\""}), "unescaped_quote");
    repaired("{\"size\": \"10 inch\"\"}", &json!({"size": "10 inch"}), "doubled_quote");
    refused("{\"size\": \"5'10\"\", \"w\": 3}", RefusalReason::UnclearQuotes);
    refused("{\"a\": \"v\"al\"ue\"}", RefusalReason::UnclearQuotes);
    repaired("{\"code\": \"print(\"hi\")\"}", &json!({"code": "print(\"hi\")"}), "unescaped_quote");
    refused("{\"a\": \"\"yes\", he said\"}", RefusalReason::UnclearQuotes);
    refused("{\"a\": \"5\" disk\"}", RefusalReason::UnclearQuotes);
    refused("{\"a\": \"foo\" + \"bar\"}", RefusalReason::UnclearQuotes);
    refused("{\"code\": \"f(\"a\", \"b\")\"}", RefusalReason::UnclearQuotes);
    refused("{\"code\": \"d = {\"a\": \"x\", \"b\": 1}\"}", RefusalReason::UnclearQuotes);
}

#[test]
fn other_languages() {
    let value = json!({"a": true, "b": [false, null], "c_d": "it's"});
    repaired("{'a': True, 'b': [False, None], \"c_d\": \"it's\"}", &value, "single_quotes, python_literal");
    repaired("{a: true, b: [false, null], c_d: \"it's\"}", &value, "unquoted_key");
    repaired("{'a': 'it\\'s'}", &json!({"a": "it's"}), "single_quotes");
    repaired("{'a': 'x \"y\"'}", &json!({"a": "x \"y\""}), "single_quotes");
    repaired("None", &Value::Null, "python_literal");
    refused("{'a': 'it's'}", RefusalReason::UnclearQuotes);
    repaired("{“a”: “x \"y\"”, ‘b’: ”z”}", &json!({"a": "x \"y\"", "b": "z"}), "smart_quotes");
    repaired("{2: 2, ünï: 1, a.b: 3}", &json!({"2": 2, "ünï": 1, "a.b": 3}), "unquoted_key");
    refused("{‘a’: ‘it’s’}", RefusalReason::UnclearQuotes);
    refused("{\"a\": NaN}", RefusalReason::NotAValue);
    refused("{\"a\": 0x1F}", RefusalReason::TwoReadings);
    refused("{\"a\": undefined}", RefusalReason::NotAValue);
}

#[test]
fn words_without_quotes_are_a_text_where_they_can_be_nothing_else() {
    for text in [
        "hello",
        "New York",
        "hello world!",
        "2024-01-01",
        "12:30",
        "0.0.1",
        "30s",
        "746de9ad-d4ff-4c66-97d7-00a92ad46967",
        "https://example.com/a?b=c",
        "a@b.org",
        "/tmp/x",
    ] {
        repaired(&format!("{{\"a\": {text}, \"b\": 1}}"), &json!({"a": text, "b": 1}), "unquoted_text");
    }
    repaired("[x, y z // last\n]", &json!(["x", "y z"]), "comment, unquoted_text");
    repaired("{a: b \"c\": 1}", &json!({"a": "b", "c": 1}), "missing_comma, unquoted_key, unquoted_text");
    for text in
        ["hello, world", "x: y", "f(x)", "/re/", "1/3", "10n", "null and void", "wait...", "a \"b\"", "it's"]
    {
        assert!(repair(&format!("{{\"a\": {text}, \"b\": 1}}")).is_err(), "{text}");
    }
}

#[test]
fn a_number_is_completed_where_only_a_digit_is_missing() {
    repaired("[.5, -.5, 1.]", &json!([0.5, -0.5, 1.0]), "number_form");
    refused("[1.5.]", RefusalReason::NotAValue);
    refused("[.]", RefusalReason::NotAValue);
    refused("[.12345678901234567890123]", RefusalReason::NumberChanges);
}

#[test]
fn json_that_was_escaped_once_too_often() {
    let value = json!({"a": "x \"y\"\n", "b": [1]});
    let once = value.to_string();
    repaired(&once.replace('\\', "\\\\").replace('"', "\\\""), &value, "escaped_text");
    repaired("{\\n  \"a\": [1,\\n 2]\\n}", &json!({"a": [1, 2]}), "escaped_text");
    refused("{\\\"a\\\": \"b\"}", RefusalReason::NotAMember);
}

#[test]
fn comments_are_left_out() {
    let value = json!({"a": "http://x", "b": 1});
    repaired("{ // first\n \"a\": \"http://x\", /* second */ \"b\": 1 # third\n}", &value, "comment");
    refused("{\"a\": 1 /* }", RefusalReason::OpenComment);
    refused("{\"a\": 1 // }", RefusalReason::MismatchedBrackets);
}

#[test]
fn ellipses_are_left_out_where_a_member_is_due() {
    repaired("[1, 2, ...]", &json!([1, 2]), "ellipsis");
    repaired("{\"a\": \"...\", ...}", &json!({"a": "..."}), "ellipsis");
    repaired("[…, 3]", &json!([3]), "ellipsis");
    refused("{\"a\": ...}", RefusalReason::NotAValue);
    refused("[1, ...", RefusalReason::CutOff);
}

#[test]
fn control_characters_inside_strings_are_kept() {
    repaired("{\"a\": \"x\n\ty\"}", &json!({"a": "x\n\ty"}), "control_character");
}

#[test]
fn backslashes_are_kept_where_they_are_no_escapes() {
    repaired(r#"{"a": "C:\Users\x"}"#, &json!({"a": "C:\\Users\\x"}), "bad_escape");
    repaired(r#"{"a": "\d+\.\w"}"#, &json!({"a": "\\d+\\.\\w"}), "bad_escape");
    repaired(r#"{"a": "it\'s \x41"}"#, &json!({"a": "it's A"}), "bad_escape");
    repaired("{\"a\": \"x\\\ny\"}", &json!({"a": "x\ny"}), "bad_escape");
    repaired(r#"{"a": "\ud83d\ude00",}"#, &json!({"a": "😀"}), "trailing_comma");
    refused(r#"{"a": "C:\new\Users"}"#, RefusalReason::UnclearEscapes);
    refused(r#"{"a": "C:\dir\", "b": "x"}"#, RefusalReason::UnclearQuotes);
    refused(r#"{"a": "\ud83d"}"#, RefusalReason::LoneSurrogate);
}

#[test]
fn a_key_comes_once() {
    refused("{\"a\": 1, \"a\": 2,}", RefusalReason::DuplicateKey);
    repaired("{\"a\": [1], a: [1]}", &json!({"a": [1]}), "unquoted_key, repeated_key");
}

#[test]
fn a_refusal_says_why_and_where() {
    let refusal = repair("{\"a\": NaN}").unwrap_err();
    assert_eq!(refusal.to_string(), "neither a string in quotes, a number nor a literal at byte 6");
}

#[test]
fn a_backslash_before_a_quotation_mark_of_any_kind_escapes_it() {
    repaired("{\"a\": \"\\“b\\”\"}", &json!({"a": "“b”"}), "bad_escape");
    repaired("{“a”: “\\”b\\””}", &json!({"a": "”b”"}), "smart_quotes, bad_escape");
    repaired("{\"a\": \"it\\’s\"}", &json!({"a": "it’s"}), "bad_escape");
}

#[test]
fn minus_zero_is_the_integer_zero() {
    let found = repair("{'a': -0, 'b': -0}").unwrap();
    assert_eq!(found.value.to_string(), r#"{"a":0,"b":0}"#);
    assert_eq!(found.repairs.to_string(), "single_quotes");
}

#[test]
fn the_schema_moves_a_bracket_that_is_missing_if_one_place_alone_holds() {
    let wants = |wanted: &'static [&'static str]| {
        move |value: &Value| wanted.iter().any(|text| serde_json::from_str::<Value>(text).unwrap() == *value)
    };
    let repaired = |text: &str, wanted| repair_for(text, &wants(wanted));
    let moved = |text: &str, wanted: &'static [&'static str]| {
        let found = repaired(text, wanted).unwrap();
        assert!(found.repairs.contains(RepairKind::ChosenBySchema), "{text}: {}", found.repairs);
        assert_eq!(found.value.to_string(), wanted[0], "{text}");
    };
    moved(r#"{"a": {"b": 1, "c": 2}"#, &[r#"{"a":{"b":1},"c":2}"#]);
    moved(r#"{"a": {"b": {"x": 1}, "c": 2}"#, &[r#"{"a":{"b":{"x":1}},"c":2}"#]);
    moved(r"{'a': {'b': {'x': 1, 'c': 2, 'd': 3}", &[r#"{"a":{"b":{"x":1}},"c":2,"d":3}"#]);
    moved(r#"{"a": {"b": {"x": 1, "c": 2, "d": 3}"#, &[r#"{"a":{"b":{"x":1},"c":2},"d":3}"#]);
    moved(r#"[{"a": {"b": 1, "c": 2}]"#, &[r#"[{"a":{"b":1},"c":2}]"#]);
    moved(r"[[1, 2, [3]]", &["[[1,2],[3]]"]);

    // The end holds: it is not asked further.
    let end =
        repaired(r#"{"a": {"b": 1, "c": 2}"#, &[r#"{"a":{"b":1,"c":2}}"#, r#"{"a":{"b":1},"c":2}"#]).unwrap();
    assert_eq!(end.value.to_string(), r#"{"a":{"b":1,"c":2}}"#);
    // Two places hold, or none: what was read stays, and breaks the schema.
    for wanted in [&[r#"{"a":{"b":1},"c":2,"d":3}"#, r#"{"a":{"b":1,"c":2},"d":3}"#][..], &[]] {
        let found = repaired(r#"{"a": {"b": 1, "c": 2, "d": 3}"#, wanted).unwrap();
        assert!(!found.repairs.contains(RepairKind::ChosenBySchema));
    }
    // More places than are tried.
    let many = format!(r#"{{"a": {{"b": 1{}, "c": 2}}"#, r#", "b": 1"#.repeat(300));
    assert!(
        !repair_for(&many, &|value| value.get("c").is_some())
            .is_ok_and(|found| found.value.get("c").is_some())
    );
}
