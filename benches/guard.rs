//! One tool call through the guard beside the same call through backon, tower, tokio-retry and failsafe, in nanoseconds.
//!
//! `cargo bench --bench guard`

mod cases;

use cases::{
    backon_constant, backon_exponential, bare, failsafe, guard, guarded_by_failsafe, now, tokio_retry,
    tower_retry, unfazed,
};
use criterion::{Criterion, criterion_group, criterion_main};
use serde_json::json;
use std::hint::black_box;
use unfazed::engine::{ToolCatalogue, ToolSpec};
use unfazed::host::{Guard, GuardConfig, ToolError};
use unfazed::policy::Policy;

fn calls(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let _inside = runtime.enter();
    let (small, default) = (guard(cases::POLICY), guard(cases::DEFAULTS));
    for (name, failures) in [("success", 0), ("one retry", 1)] {
        let mut group = criterion.benchmark_group(name);
        group.bench_function("bare", |b| b.iter(|| now(bare(black_box(failures)))));
        group.bench_function("unfazed", |b| b.iter(|| now(unfazed(&small, black_box(failures)))));
        group.bench_function("unfazed, default policy", |b| {
            b.iter(|| now(unfazed(&default, black_box(failures))));
        });
        group.bench_function("backon constant", |b| b.iter(|| now(backon_constant(black_box(failures)))));
        group.bench_function("backon exponential", |b| {
            b.iter(|| now(backon_exponential(black_box(failures))));
        });
        group.bench_function("tower", |b| b.iter(|| now(tower_retry(black_box(failures)))));
        if failures == 0 {
            // The one waits for a timer before it retries, the other does not retry.
            group.bench_function("tokio-retry", |b| b.iter(|| now(tokio_retry(black_box(failures)))));
            let breaker = failsafe();
            group.bench_function("failsafe", |b| {
                b.iter(|| now(guarded_by_failsafe(&breaker, black_box(failures))));
            });
        }
        group.finish();
    }
}

/// One call with an argument of 1 KB: held against a schema, looked at by the loop guard, and let through by a breaker that
/// knows of a failure, so that nothing is taken the short way.
fn validated(criterion: &mut Criterion) {
    const POLICY: &str = "
version: 1
tools:
  order:
    effect: read_only
    breaker: {failures: 1000, count: {kind: cumulative}}
    loop_guard: {same_call: {nudge: never, block: never, final_turn: never}}
    retry: {max_attempts: 1}
";
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let _inside = runtime.enter();
    let items = json!({
        "type": "array",
        "items": {
            "type": "object",
            "properties": {"id": {"type": "integer", "minimum": 1}, "name": {"type": "string", "maxLength": 40}},
            "required": ["id", "name"],
            "additionalProperties": false,
        },
    });
    let properties = json!({"city": {"type": "string"}, "note": {"type": "string"}, "items": items});
    let parameters = json!({"type": "object", "properties": properties, "required": ["city", "items"]});
    let spec = ToolSpec { name: "order".into(), description: String::new(), parameters, effect: None };
    let policy = Policy::from_yaml("bench.yaml", POLICY).unwrap_or_else(|report| panic!("{report}"));
    let tools = ToolCatalogue::new([spec]).expect("a schema");
    let order = Guard::new(GuardConfig::new(policy).tools(tools)).tool("order");
    let items: Vec<_> =
        (1..=16).map(|id| json!({"id": id, "name": format!("article number {id}")})).collect();
    let args = json!({"city": "Zurich", "note": "n".repeat(413), "items": items});
    assert!((1000..1100).contains(&args.to_string().len()), "{}", args.to_string().len());
    let failed = now(order.call(&args, |_, _| std::future::ready(Err::<(), _>(ToolError::failed("once")))));
    assert!(failed.is_err());
    criterion.bench_function("validation, breaker and loop guard on 1 KB", |b| {
        b.iter(|| now(order.call(black_box(&args), |_, _| std::future::ready(Ok::<_, ToolError>(())))));
    });
}

criterion_group!(benches, calls, validated);
criterion_main!(benches);
