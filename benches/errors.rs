//! What it costs to tell a failure: an error body of two kilobytes, read into facts and held against the built-in
//! tables. The last row is the worst case: every row before it is asked.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use unfazed::engine::{Failure, Headers};
use unfazed::policy::{ErrorClass, Policy};
use unfazed::time::Instant;

/// Google's answer to a quota that is used up, filled up to two kilobytes.
fn quota() -> String {
    let links =
        (0..14).map(|i| format!(r#"{{"description":"Learn more {i}","url":"https://x.dev/quotas/{i}"}}"#));
    let links = links.collect::<Vec<_>>().join(",");
    format!(
        r#"{{"error":{{"code":429,"status":"RESOURCE_EXHAUSTED","message":"{}","details":[
        {{"@type":"type.googleapis.com/google.rpc.Help","links":[{links}]}},
        {{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{{"quotaId":"RequestsPerDay-FreeTier"}}]}},
        {{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"58s"}}]}}}}"#,
        "You exceeded your current quota, please check your plan and billing details. ".repeat(9),
    )
}

/// A failure that no row but the last knows, of the same size.
fn unknown() -> String {
    format!(r#"{{"error":{{"message":"{}","type":"odd"}}}}"#, "something else went wrong here. ".repeat(62))
}

fn classify(c: &mut Criterion) {
    let policy = Policy::builtin();
    let headers = Headers::new([("retry-after", &b"2"[..]), ("date", b"Fri, 20 Nov 2026 10:00:00 GMT")]);
    let mut group = c.benchmark_group("errors");
    let cases = [
        ("classify 2 KB, a quota", 429, quota(), ErrorClass::QuotaExceeded),
        ("classify 2 KB, nothing known", 500, unknown(), ErrorClass::ModelError),
    ];
    for (name, status, body, class) in cases {
        assert!((1800..2400).contains(&body.len()), "{} bytes", body.len());
        let told = || {
            let failure =
                Failure::from_answer(status, &headers, black_box(body.as_bytes()), Instant::default);
            failure.classified(&policy).class
        };
        assert_eq!(told(), class);
        group.throughput(Throughput::Bytes(body.len() as u64));
        group.bench_function(name, |b| b.iter(told));
    }
    group.finish();
}

criterion_group!(benches, classify);
criterion_main!(benches);
