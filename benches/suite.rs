//! What a thousand test cases cost, from text to verdict: with a policy they share, and with one of its own each.

use std::fmt::Write as _;
use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use unfazed::cases::SuiteLoader;

const CASES: usize = 1_000;

const POLICY: &str = "
version: 1
tools:
  search:
    effect: read_only
    breaker: {failures: never}
    retry: {max_attempts: 4, backoff: {kind: exponential, base: 1s, factor: 2, jitter: none}}
";

/// A case of a call, or of a run with a model; `own` is what it says besides.
fn case(text: &mut String, number: usize, own: &str) {
    // Writing into a string does not fail.
    let _ = write!(text, "  - name: case {number}\n{own}");
    text.push_str(match number % 3 {
        0 => {
            "    tool: search
    outcomes: [rate_limit x9]
    expect: {attempts: 4, final: retry_exhausted, reason: attempts}
"
        }
        1 => {
            "    tool: search
    outcomes: [429 retry-after 3, timeout takes 2s, ok]
    expect: {attempts: 3, final: ok, why: {max_attempts: tool}}
"
        }
        _ => {
            "    tools: {search: {outcomes: [{ok: {hits: 2}}]}}
    replies:
      - calls: [{name: search, arguments: {query: lamp}}]
      - text: There are two.
    expect: {calls: [search], turns: 2, final: answered}
"
        }
    });
}

fn shared() -> String {
    let mut text = String::from("version: 1\npolicy: policy.yaml\ncases:\n");
    (0..CASES).for_each(|number| case(&mut text, number, ""));
    text
}

fn inline() -> String {
    let mut text = String::from("version: 1\npolicy: policy.yaml\ncases:\n");
    for number in 0..CASES {
        let own =
            format!("    inline:\n      tools: {{search: {{retry: {{total_delay: {}s}}}}}}\n", 100 + number);
        case(&mut text, number, &own);
    }
    text
}

/// Reads and plays them all.
fn play(text: &str) -> usize {
    let open = |_: &str, path: &str| Ok((path.to_owned(), POLICY.as_bytes().to_vec()));
    let suite = SuiteLoader::new(open).read("bench.test.yaml", text.as_bytes());
    let suite = suite.unwrap_or_else(|reports| panic!("{}", reports[0]));
    suite.cases().iter().filter(|case| case.run().passed()).count()
}

fn bench(c: &mut Criterion) {
    let mut group = c.benchmark_group("cases");
    group.sample_size(10).measurement_time(Duration::from_secs(5));
    group.throughput(Throughput::Elements(CASES as u64));
    for (name, text) in [("1000 with one policy", shared()), ("1000 with a policy each", inline())] {
        assert_eq!(play(&text), CASES, "{name}");
        group.bench_function(name, |b| b.iter(|| play(black_box(&text))));
    }
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
