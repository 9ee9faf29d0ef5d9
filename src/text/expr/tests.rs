//! Expressions: what they compute, what they refuse, and what that is called.

use proptest::prelude::*;
use serde_json::json;

use super::*;

const KNOWN: [&str; 2] = ["args", "tool"];

fn vars() -> Map<String, Value> {
    let vars = json!({
        "args": {"qty": 3, "price": 1.5, "big": u64::MAX, "name": "überall", "list": [1, 2, 3], "none": null, "map": {"b": 1, "a": 2}},
        "tool": "http.get",
    });
    vars.as_object().unwrap().clone()
}

fn eval(text: &str) -> Result<Value, String> {
    let expr = Expr::parse(text, &KNOWN).unwrap_or_else(|error| panic!("{text}: {error:?}"));
    expr.eval(&vars()).map_err(|error| match error.help {
        Some(help) => format!("{}; {help}", error.message),
        None => error.message,
    })
}

/// Where it is wrong, what is wrong, and what to do.
fn refused(text: &str) -> String {
    let error = Expr::parse(text, &KNOWN).expect_err(text);
    let at = error
        .at
        .map_or("nowhere".to_owned(), |at| format!("at `{}`", text.get(at).expect("whole characters")));
    format!("{at}: {}; {}", error.message, error.help.unwrap_or_default())
}

#[test]
fn conditions_and_values_are_computed() {
    for (text, value) in [
        ("args.qty > 0 && tool == 'http.get'", json!(true)),
        ("args.qty + 1", json!(4)),
        ("args.qty == 3 && args.price == 1.5 && args.qty < 3.5", json!(true)),
        ("args.big", json!(u64::MAX)),
        ("args.price * 2.0", json!(3.0)),
        ("args.name.size()", json!(7)),
        ("size(args.list)", json!(3)),
        ("2 in args.list && !(9 in args.list)", json!(true)),
        ("'qty' in args && !has(args.nothing)", json!(true)),
        ("args.list.map(x, x * 2)", json!([2, 4, 6])),
        ("args.list.filter(x, x > 1).all(x, x < 9)", json!(true)),
        ("args.qty > 2 ? 'many' : 'few'", json!("many")),
        ("{'b': 1, 'a': [args.none]}", json!({"a": [null], "b": 1})),
        ("string(args.qty) + tool", json!("3http.get")),
        ("type(args.qty) == int", json!(true)),
        ("args.name == \"überall\"", json!(true)),
        ("args.name.contains('all') && tool.startsWith('http')", json!(true)),
        ("args.nothing == 1 || true", json!(true)),
    ] {
        assert_eq!(eval(text), Ok(value), "{text}");
    }
}

#[test]
fn maps_are_walked_and_written_in_the_order_of_their_keys() {
    for _ in 0..20 {
        assert_eq!(eval("args.map.map(key, key)"), Ok(json!(["a", "b"])));
        assert_eq!(eval("args.map").unwrap().to_string(), r#"{"a":2,"b":1}"#);
    }
}

#[test]
fn regular_expressions_are_compiled_once_and_matched() {
    assert_eq!(eval("tool.matches('^http[.]') && matches(args.name, 'ber')"), Ok(json!(true)));
    assert_eq!(eval("args.list.all(x, string(x).matches('^[0-9]$'))"), Ok(json!(true)));
    assert_eq!(eval("args.qty.matches('3')"), Err("`args.qty.matches('3')`: a string is needed".to_owned()));
}

#[test]
fn a_mistake_is_an_error_and_never_false() {
    let texts = [
        "args.qyt > 0",
        "args.qty < 'a'",
        "1 / 0 == 1",
        "args.list[7]",
        "9223372036854775807 + args.qty",
        "args.qty.all(x, x > 0)",
        "args.qty && true",
        "int('x')",
        "args.tool.name",
        "tool.name",
        "tool[0]",
        "-tool",
        "'a' in 3",
        "1.0 / 0.0",
    ];
    insta::assert_snapshot!(texts.map(|text| eval(text).unwrap_err()).join("\n"));
}

#[test]
fn a_condition_must_be_true_or_false() {
    let holds = |text| Expr::parse(text, &KNOWN).unwrap().holds(&vars());
    assert_eq!(holds("args.qty > 0"), Ok(true));
    assert_eq!(
        holds("args.qty").unwrap_err().message,
        "`args.qty`: it is a number, where true or false is needed"
    );
}

#[test]
fn a_variable_nobody_gave_is_an_error() {
    let error = Expr::parse("tool == 'x'", &KNOWN).unwrap().eval(&Map::new()).unwrap_err();
    assert_eq!(error.message, "`tool == 'x'`: `tool` has no value here");
}

#[test]
fn slips_are_named_with_place_and_cure() {
    let texts = [
        "",
        "args.qty = 3",
        "args.qty & 3",
        "args.a and args.b",
        "not args.a",
        "(args.qty > 3",
        "args.qty > 3)",
        "tool == 'http",
        "arg.qty > 3",
        "'ä' == 'ä' && 'ä' == tol",
        "args.ok == True",
        "len(tool) > 3",
        "tool.startswith('a')",
        "startsWith(tool, 'a')",
        "tool.size(1)",
        "args.list.all(x > 1)",
        "has(args)",
        "args.qty >",
        "args.qty 3",
        "args.qty > # 3",
        "99999999999999999999",
        "tool.matches('(')",
        "tool.matches(args.name)",
        "tool.matches('a{500}{500}')",
        "args.?qty",
        "Point{x: 1}",
        "optional.of(1)",
        "args.list.all(x, args.list.all(y, x < y))",
        "'\\q'",
        "user == 1",
        "'ä' == args.é",
        "'ää' 3",
    ];
    insta::assert_snapshot!(texts.map(|text| format!("{text}\n    {}", refused(text))).join("\n"));
}

#[test]
fn hostile_texts_are_refused_on_a_small_stack() {
    let hostile = || {
        for text in [
            format!("{}1{}", "(".repeat(400), ")".repeat(400)),
            format!("{}1{}", "(".repeat(2000), ")".repeat(2000)),
            "(".repeat(1000),
            format!("{}1{}", "[".repeat(400), "]".repeat(400)),
            format!("{}1{}", "{1:".repeat(300), "}".repeat(300)),
            format!("{}true", "!".repeat(1000)),
            format!("{}1", "-".repeat(1000)),
            format!("1{}", "+1".repeat(500)),
            format!("args{}", ".a".repeat(500)),
            format!("args{}", "[0]".repeat(300)),
            format!("true{}", "?true:true".repeat(100)),
            format!("{}true", "true?".repeat(150)),
            format!("true{}", "&&true".repeat(160)),
            format!("[{}]", "1,".repeat(400)),
            format!("args{}", ".all(x,true)".repeat(80)),
            "a".repeat(100_000),
            "args.all(x, args.all(y, args.all(z, true)))".to_owned(),
            "args.map(x, args.map(y, y))".to_owned(),
            "\u{0}".to_owned(),
            "\"\\".to_owned(),
        ] {
            assert!(Expr::parse(&text, &["args"]).is_err(), "{}", &text[..text.len().min(60)]);
        }
    };
    std::thread::Builder::new().stack_size(2 << 20).spawn(hostile).unwrap().join().unwrap();
}

#[test]
fn the_largest_expression_there_is_runs_on_a_small_stack() {
    let largest = || {
        for text in [
            format!("{}1{} == 1", "(".repeat(6), ")".repeat(6)),
            format!("1{} == 32", "+1".repeat(31)),
            format!("args{}", ".a".repeat(64)),
            format!("{}true", "true?true:".repeat(16)),
            format!("{}1{}", "[".repeat(6), "]".repeat(6)),
            format!("true{}", "&&true".repeat(64)),
        ] {
            let expr = Expr::parse(&text, &["args"]).unwrap_or_else(|error| panic!("{text}: {error}"));
            let _ = expr.eval(&vars());
        }
    };
    std::thread::Builder::new().stack_size(2 << 20).spawn(largest).unwrap().join().unwrap();
}

#[test]
fn deep_and_large_data_is_an_error() {
    let expr = Expr::parse("size(args) > 0", &["args"]).unwrap();
    let mut deep = json!(1);
    for _ in 0..200 {
        deep = json!([deep]);
    }
    let of = |args: Value| expr.holds(json!({"args": args}).as_object().unwrap());
    assert_eq!(
        of(deep).unwrap_err().message,
        "`size(args) > 0`: the data is nested too deeply for an expression"
    );
    assert_eq!(
        of(json!(vec![1; 100_001])).unwrap_err().message,
        "`size(args) > 0`: the data is too large for an expression"
    );
    assert_eq!(of(json!([[1], [2]])), Ok(true));
}

proptest! {
    #[test]
    fn no_text_panics(text in "[-a-z()\\[\\]{}'\"\\\\.?:!=<>&|+*/%, 0-9xé\\n]{0,60}|.{0,60}") {
        if let Ok(expr) = Expr::parse(&text, &["args", "x"]) {
            let _ = expr.eval(&vars());
        }
    }

    #[test]
    fn what_is_not_changed_comes_back_as_it_was(number: i64, text in ".{0,20}", flag: bool) {
        let args = json!({"a": number, "b": text, "c": [flag, null, number.unsigned_abs()]});
        let vars = json!({"args": args});
        prop_assert_eq!(Expr::parse("args", &["args"]).unwrap().eval(vars.as_object().unwrap()).unwrap(), args);
    }

    #[test]
    fn a_path_gives_what_the_same_path_gives_within_an_expression(
        number: f64, whole: u64, text in ".{0,9}", keys in prop::collection::vec("[a-zé]{1,3}", 0..5),
    ) {
        let map: Map<String, Value> = keys.iter().map(|key| (key.clone(), json!([whole, {key: number, "b": 1}]))).collect();
        let vars = json!({"args": {"x": {"z": map, "a": text, "y": [whole, number, true, null]}}});
        let of = |text: &str| Expr::parse(text, &["args"]).unwrap().eval(vars.as_object().unwrap()).unwrap();
        for path in ["args", "args.x", "args.x.z", "args.x.y", "args.x.a"] {
            let (named, computed) = (of(path), of(&format!("true ? {path} : args")));
            prop_assert_eq!(named.to_string(), computed.to_string());
        }
    }
}

#[test]
fn a_gate_has_no_result_for_a_value_of_another_type_than_what_is_written_out() {
    let held = |text: &str, args: Value| {
        let vars = Map::from_iter([("args".to_owned(), args)]);
        Expr::parse_gate(text, &["args"]).unwrap().holds(&vars).map_err(|error| error.message)
    };
    let strict = [
        ("args.a == 'x'", json!("x"), json!("y"), json!(["x"])),
        ("'x' == args.a", json!("x"), json!("y"), json!(null)),
        ("args['a'] == 12", json!(12), json!(13), json!("12")),
        ("args.a == -1.5", json!(-1.5), json!(1), json!("-1.5")),
        ("args.a == true", json!(true), json!(false), json!("true")),
        ("args.a in ['x', 'y']", json!("y"), json!("z"), json!({"x": 1})),
        ("args.a in [1, 2.0]", json!(2), json!(3), json!("1")),
        ("!(args.a != 'x')", json!("x"), json!("y"), json!(1)),
    ];
    for (text, yes, no, other) in strict {
        assert_eq!(held(text, json!({ "a": yes })), Ok(true), "{text}");
        assert_eq!(held(text, json!({ "a": no })), Ok(false), "{text}");
        assert!(held(text, json!({ "a": other })).is_err(), "{text}");
        assert!(held(text, json!({})).is_err(), "{text}");
    }
    assert_eq!(
        held("args.a == 12", json!({"a": "12"})).unwrap_err(),
        "`args.a == 12`: `==` does not take string and int"
    );
    // What speaks of the type itself, or of null, has a result.
    for (text, expected) in [
        ("type(args.a) == string && args.a == 'x'", false),
        ("args.a == null || args.a == 'x'", true),
        ("args.a != null && args.a == 'x'", false),
        ("args.a in ['x', 1]", false),
    ] {
        assert_eq!(held(text, json!({"a": null})), Ok(expected), "{text}");
    }
    // One element that is it suffices; else those of another type may have been meant.
    let tags = "args.a.exists(tag, tag == 'x')";
    assert_eq!(held(tags, json!({"a": [1, "x"]})), Ok(true));
    assert!(held(tags, json!({"a": [1, "y"]})).is_err());
}
