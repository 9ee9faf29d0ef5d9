//! What a policy costs: loading one of usual size and a megabyte with ten thousand selectors, beside `serde_yaml` and
//! `jsonschema`, which know the shape of it alone; and resolving one tool among ten thousand selectors.

use std::fmt::Write as _;
use std::hint::black_box;
use std::time::Duration;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use jsonschema::Validator;
use serde_json::Value;
use unfazed::policy::Policy;

/// 10 000 selectors: names, patterns by their beginning, patterns by their end; about a megabyte.
fn text() -> String {
    let mut text = String::from("version: 1\nretry: {max_attempts: 4, deadline: 5m}\ntools:\n");
    for i in 0..10_000 {
        let selector = match i % 10 {
            0..7 => format!("service{i}.get"),
            7 | 8 => format!("service{i}.*"),
            _ => format!("*.delete{i}"),
        };
        let attempts = i % 7 + 1;
        let rule = match i % 10 {
            9 => "{effect: non_idempotent, on_exhausted: fail, retry: {emit_feedback: true}}".to_owned(),
            _ => format!(
                "{{retry: {{max_attempts: {attempts}, total_delay: 30s, deadline: 2m}}, limits: {{max_attempts: 9}}}}"
            ),
        };
        // Writing into a string does not fail.
        let _ = writeln!(text, "  \"{selector}\": {rule}");
    }
    text
}

/// The usual way without a policy engine: the file is read as a value, and the value held against a schema.
fn by_schema(text: &str, validator: &Validator) -> Value {
    let value: Value = serde_yaml::from_str(text).unwrap();
    assert!(validator.is_valid(&value));
    value
}

fn load(c: &mut Criterion) {
    let schema = unfazed::policy::json_schema();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let mut group = c.benchmark_group("policy");
    group.sample_size(20).measurement_time(Duration::from_secs(6));
    let usual = include_str!("../examples/quickstart/policy.yaml");
    for (name, text) in [("the quickstart's policy", usual), ("10000 selectors", &text())] {
        group.throughput(Throughput::Bytes(text.len() as u64));
        group.bench_function(format!("load {name}"), |b| {
            b.iter(|| Policy::from_yaml("bench.yaml", black_box(text)).unwrap());
        });
        group.bench_function(format!("load {name}, serde_yaml and jsonschema"), |b| {
            b.iter(|| by_schema(black_box(text), &validator));
        });
        group.bench_function(format!("load {name}, serde_yaml and jsonschema compiled for it"), |b| {
            b.iter(|| by_schema(black_box(text), &jsonschema::validator_for(&schema).unwrap()));
        });
    }
    group.finish();
}

fn resolve(c: &mut Criterion) {
    let text = text();
    let mut group = c.benchmark_group("policy");
    // What has been resolved once is remembered: only the first time counts, so each name is new to its policy.
    let names: Vec<String> =
        (0..900).map(|i| format!("service{}.delete{}", i * 10 + 7, i * 10 + 9)).collect();
    group.sample_size(20).measurement_time(Duration::from_secs(4));
    group.throughput(Throughput::Elements(names.len() as u64));
    group.bench_function("resolve 900 tools of 10000 selectors", |b| {
        b.iter_batched(
            || Policy::from_yaml("bench.yaml", &text).unwrap(),
            |policy| {
                for name in &names {
                    black_box(policy.tool(name));
                }
                policy
            },
            BatchSize::LargeInput,
        );
    });
    group.finish();
}

criterion_group!(benches, load, resolve);
criterion_main!(benches);
