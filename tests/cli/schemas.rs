//! The schemas that editors use are fresh, and accept what the product accepts.

use std::fs;
use std::path::Path;

use serde_json::{Map, Value, json};
use unfazed::policy::Policy;

use crate::command;

#[test]
fn the_schemas_are_fresh() {
    let check = command::unfazed(root(), &["schema", "--check", "schemas"]).output().unwrap();
    assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stderr));
}

#[test]
fn an_editor_has_nothing_against_the_files_that_come_with_the_product() {
    for (schema, file) in [
        ("policy", "policies/default.yaml"),
        ("policy", "examples/quickstart/policy.yaml"),
        ("agent", "examples/quickstart/agent.yaml"),
        ("script", "examples/quickstart/model.yaml"),
        ("test", "tests/cases/01-retry.test.yaml"),
        ("test", "tests/cases/09-limits-and-layers.test.yaml"),
        ("test", "tests/cases/10-reports.test.yaml"),
        ("test", "tests/cases/14-cancel-and-resume.test.yaml"),
        ("simulation", "examples/simulations/06-flapping.yaml"),
        ("simulation", "examples/simulations/10-tool-down.yaml"),
    ] {
        let text = fs::read_to_string(root().join(file)).unwrap();
        let value: Value = serde_yaml::from_str(&text).unwrap();
        let problems: Vec<_> = schema_of(schema).iter_errors(&value).map(|e| e.to_string()).collect();
        assert!(problems.is_empty(), "{file}: {problems:#?}");
    }
}

#[test]
fn an_editor_completes_what_a_planner_says_about_a_call() {
    let call = serde_json::json!({"arguments": {"a": 1}, "planner": {"retry": {"max_attempts": 2}}});
    assert!(schema_of("call").is_valid(&call));
    assert!(!schema_of("call").is_valid(&serde_json::json!({"planner": {"retry": {"max_atempts": 2}}})));
}

#[test]
fn an_editor_sees_a_key_that_is_not_known() {
    let policy = serde_json::json!({"version": 1, "retry": {"max_atempts": 3}});
    assert!(!schema_of("policy").is_valid(&policy));
}

#[test]
fn every_field_has_a_description_and_an_example() {
    for name in schemas() {
        let schema = published(&name);
        let mut fields = 0;
        let mut bare = Vec::new();
        each_field(&schema, &mut |path, field| {
            fields += 1;
            for (what, has) in [
                ("description", describes(&schema, field)),
                (
                    "example or default",
                    !examples(&schema, field).is_empty() || field.get("default").is_some(),
                ),
            ] {
                if !has {
                    bare.push(format!("{path}: no {what}"));
                }
            }
        });
        assert!(fields > 5, "{name}: {fields}");
        assert!(bare.is_empty(), "{name}: {bare:#?}");
    }
}

#[test]
fn a_field_with_a_unit_names_it() {
    for name in schemas() {
        let schema = published(&name);
        each_field(&schema, &mut |path, field| {
            let text = field.to_string();
            for (ty, unit) in [
                ("Duration\"", "unit: ms, s, m, h, d"),
                ("Nanoseconds\"", "nanoseconds"),
                ("Instant\"", "nanoseconds"),
            ] {
                if text.contains(ty) && !text.contains("\"properties\"") {
                    let description = field["description"].as_str().unwrap();
                    assert!(description.contains(unit), "{name}: {path}: {description}");
                }
            }
        });
    }
}

/// Strict validators refuse a schema with a format that they do not know, and some know none.
#[test]
fn no_schema_has_a_format() {
    fn formats(schema: &Value, found: &mut Vec<Value>) {
        match schema {
            Value::Object(fields) => {
                found.extend(fields.get("format").filter(|format| format.is_string()).cloned());
                // Examples are no schemas.
                let inner = fields.iter().filter(|(key, _)| *key != "examples");
                inner.for_each(|(_, inner)| formats(inner, found));
            }
            Value::Array(items) => items.iter().for_each(|item| formats(item, found)),
            _ => {}
        }
    }
    for name in schemas() {
        let mut found = Vec::new();
        formats(&published(&name), &mut found);
        assert!(found.is_empty(), "{name}: {found:?}");
    }
}

#[test]
fn every_example_is_one() {
    for name in schemas() {
        let schema = published(&name);
        let mut tried = 0;
        // The definitions are read once: with a copy of them in each field this takes a minute.
        let registry = jsonschema::Registry::new().add("whole:", &schema).unwrap().prepare().unwrap();
        let mut try_out = |path: &str, field: &Value| {
            let alone = field.to_string().replace("\"#/$defs/", "\"whole:#/$defs/");
            let alone = serde_json::from_str(&alone).unwrap();
            let validator = jsonschema::options().with_registry(&registry).build(&alone).unwrap();
            let default = field.get("default").into_iter();
            for example in field["examples"].as_array().into_iter().flatten().chain(default) {
                tried += 1;
                let wrong: Vec<_> = validator.iter_errors(example).map(|error| error.to_string()).collect();
                assert!(wrong.is_empty(), "{name}: {path}: {example}: {wrong:#?}");
            }
        };
        each_field(&schema, &mut try_out);
        try_out("", &schema);
        for (path, def) in schema["$defs"].as_object().unwrap() {
            try_out(path, def);
        }
        assert!(tried > 5, "{name}: {tried}");
    }
}

#[test]
fn the_examples_of_the_policy_language_are_understood() {
    let schema = published("policy");
    let mut tried = 0;
    let mut documents = vec![(schema.clone(), Path::new("").to_owned(), vec![])];
    while let Some((form, path, around)) = documents.pop() {
        for (name, field) in form["properties"].as_object().unwrap() {
            let path = path.join(name);
            // These have a meaning only beside others: files, one of several values, slices.
            let beside = ["extends", "margin", "spread"].contains(&name.as_str());
            if beside || path.starts_with("session/reducers") {
                continue;
            }
            for example in examples(&schema, field) {
                let text = wrap(&schema, &form, &around, name, example).to_string();
                let policy = Policy::from_yaml("example.yaml", &text);
                assert!(policy.is_ok(), "{}: {text}\n{}", path.display(), policy.unwrap_err());
                tried += 1;
            }
            // What is in these has been tried elsewhere.
            if ["profiles", "by_class"].contains(&name.as_str()) {
                continue;
            }
            let inner = resolve(&schema, field);
            let (inner, key) = match inner.get("additionalProperties") {
                Some(values) if values.is_object() => (resolve(&schema, values), Some("search")),
                _ => (inner, None),
            };
            if inner["properties"].is_object() {
                let mut around = around.clone();
                around.push((form.clone(), name.clone(), key));
                documents.push((inner.clone(), path, around));
            }
        }
    }
    assert!(tried > 100, "{tried}");
}

#[test]
fn every_line_of_a_session_holds_its_schema() {
    let sessions = tempfile::tempdir().unwrap();
    let mut run = command::unfazed(root(), &["run", "examples/quickstart/agent.yaml"]);
    let output = run.env("UNFAZED_SESSIONS", sessions.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let log = fs::read_dir(sessions.path()).unwrap().map(|entry| entry.unwrap().path());
    let log = log.filter(|path| path.extension().is_some_and(|it| it == "jsonl")).collect::<Vec<_>>();
    assert_eq!(log.len(), 1, "{log:?}");
    let schema = schema_of("session");
    let mut kinds = Vec::new();
    for line in fs::read_to_string(&log[0]).unwrap().lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let problems: Vec<_> = schema.iter_errors(&line).map(|error| error.to_string()).collect();
        assert!(problems.is_empty(), "{line}: {problems:#?}");
        kinds.push(line["kind"].as_str().unwrap().to_owned());
    }
    for kind in ["session", "event", "directives", "state"] {
        assert!(kinds.iter().any(|found| found == kind), "{kind}");
    }
}

#[test]
fn a_line_that_was_altered_does_not() {
    let schema = schema_of("session");
    let event = json!({"v": 1, "kind": "event", "seq": 7, "now": 9, "event": "timer_fired", "work": 3});
    let refused =
        json!({"directive": "refused", "call": "c", "tool": "t", "error_type": "timeout", "message": "m"});
    let list = json!({"v": 1, "kind": "directives", "seq": 7, "policy": "p", "list": [refused]});
    let altered = |line: &Value, pointer: &str, value: Value| {
        let mut line = line.clone();
        *line.pointer_mut(pointer).unwrap() = value;
        line
    };
    assert!(schema.is_valid(&event) && schema.is_valid(&list));
    for line in [
        altered(&event, "/v", 3.into()),
        altered(&event, "/kind", "dream".into()),
        altered(&event, "/seq", "7".into()),
        altered(&event, "/now", (-1).into()),
        altered(&event, "/event", "timer_fred".into()),
        altered(&event, "/event", "cancelled".into()),
        altered(&list, "/list/0/directive", "refuse".into()),
        altered(&list, "/list/0/error_type", "time_out".into()),
        altered(&list, "/list/0/tool", Value::Null),
        altered(&list, "/list", refused),
    ] {
        assert!(!schema.is_valid(&line), "{line}");
    }
}

/// The policy in which `name` is `value`: the fields that are required beside it, and everything around.
fn wrap(
    schema: &Value,
    form: &Value,
    around: &[(Value, String, Option<&str>)],
    name: &str,
    value: &Value,
) -> Value {
    let beside = |form: &Value, name: &str, value: Value| {
        let required = form["required"].as_array().into_iter().flatten().map(|name| name.as_str().unwrap());
        let of = |name: &str| examples(schema, &form["properties"][name])[0].clone();
        let mut fields: Map<_, _> = required.map(|name| (name.to_owned(), of(name))).collect();
        fields.insert(name.to_owned(), value);
        Value::Object(fields)
    };
    let innermost = beside(form, name, value.clone());
    around.iter().rev().fold(innermost, |value, (form, name, key)| {
        let value = key.map_or_else(|| value.clone(), |key| json!({key: value}));
        beside(form, name, value)
    })
}

/// Every property of every mapping, with its path.
fn each_field(schema: &Value, visit: &mut dyn FnMut(&str, &Value)) {
    fn walk(schema: &Value, path: &str, visit: &mut dyn FnMut(&str, &Value)) {
        match schema {
            Value::Array(forms) => forms.iter().for_each(|form| walk(form, path, visit)),
            Value::Object(schema) => {
                for (key, value) in schema {
                    match key.as_str() {
                        "if" | "then" | "else" | "not" | "examples" => {}
                        "properties" => {
                            for (name, field) in value.as_object().unwrap() {
                                let path = format!("{path}/{name}");
                                visit(&path, field);
                                walk(field, &path, visit);
                            }
                        }
                        _ => walk(value, &format!("{path}/{key}"), visit),
                    }
                }
            }
            _ => {}
        }
    }
    walk(schema, "", visit);
}

/// The schema that is meant: what `$ref` refers to, or the first form that is no bare `null`.
fn resolve<'s>(root: &'s Value, schema: &'s Value) -> &'s Value {
    if let Some(name) = schema["$ref"].as_str() {
        return resolve(root, &root["$defs"][name.strip_prefix("#/$defs/").unwrap()]);
    }
    match schema["anyOf"].as_array() {
        Some(forms) => resolve(root, &forms[0]),
        None => schema,
    }
}

fn describes(root: &Value, field: &Value) -> bool {
    [field, resolve(root, field)]
        .iter()
        .any(|schema| schema["description"].as_str().is_some_and(|it| !it.is_empty()))
}

fn examples<'s>(root: &'s Value, field: &'s Value) -> Vec<&'s Value> {
    let of = |schema: &'s Value| schema["examples"].as_array().map(|given| given.iter().collect::<Vec<_>>());
    // The first word of a choice is one.
    let words = |schema: &'s Value| {
        let words = schema["oneOf"].as_array()?.iter().filter_map(|form| form.get("const"));
        Some(words.take(1).collect::<Vec<_>>()).filter(|words| !words.is_empty())
    };
    let default = |schema: &'s Value| Some(vec![schema.get("default")?]);
    let inner = resolve(root, field);
    let given = of(field).or_else(|| words(field)).or_else(|| default(field));
    given.or_else(|| of(inner)).or_else(|| words(inner)).unwrap_or_default()
}

/// The names of all there are.
fn schemas() -> Vec<String> {
    let files = fs::read_dir(root().join("schemas")).unwrap().map(|file| file.unwrap().file_name());
    let names: Vec<String> = files
        .filter_map(|file| file.to_str().unwrap().strip_suffix(".schema.json").map(str::to_owned))
        .collect();
    assert!(names.len() > 5, "{names:?}");
    names
}

fn published(name: &str) -> Value {
    let text = fs::read_to_string(root().join(format!("schemas/{name}.schema.json"))).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn schema_of(name: &str) -> jsonschema::Validator {
    jsonschema::validator_for(&published(name)).unwrap()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
