//! One tool call through the guard beside the same call through backon and tower, in nanoseconds.
//!
//! `cargo bench --bench guard`

mod cases;

use cases::{backon_constant, backon_exponential, bare, guard, now, tower_retry, unfazed};
use criterion::{Criterion, criterion_group, criterion_main};
use std::hint::black_box;

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
        group.finish();
    }
}

criterion_group!(benches, calls);
criterion_main!(benches);
