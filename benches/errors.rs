//! What it costs to tell a failure: an error body of two kilobytes, read into facts and held against the built-in
//! tables, in every form that providers write. What nothing is known of is asked of every row. Counted in instructions
//! by `benches/instructions.sh`.

mod bodies;

use std::hint::black_box;

use bodies::{BODIES, headers};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use unfazed::engine::Failure;
use unfazed::policy::Policy;
use unfazed::time::Instant;

fn classify(c: &mut Criterion) {
    let policy = Policy::builtin();
    let headers = headers();
    let mut group = c.benchmark_group("classify 2 KB");
    for (name, status, body, class) in BODIES {
        let body = body();
        assert!((1800..2400).contains(&body.len()), "{name}: {} bytes", body.len());
        let classify = || {
            let failure =
                Failure::from_answer(status, &headers, black_box(body.as_bytes()), Instant::default);
            failure.classified(&policy).class
        };
        assert_eq!(classify(), class);
        group.throughput(Throughput::Bytes(body.len() as u64));
        group.bench_function(name, |b| b.iter(classify));
    }
    group.finish();
}

criterion_group!(benches, classify);
criterion_main!(benches);
