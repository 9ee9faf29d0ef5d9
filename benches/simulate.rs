//! How many decisions a second a simulation makes: without failures, with three of ten calls failing, and with all.
//!
//! `cargo bench --bench simulate`. For a profile of ten rounds of a case, without measuring:
//! `valgrind --tool=callgrind BINARY --profile "three of ten fail"`.

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group};
use unfazed::policy::Policy;
use unfazed::simulate::{Scenario, SimulationFigures};

const WORK: &str = "version: 1
agents: 50
duration: 10m
work: {calls: 6}
tools: {search: {effect: read_only, latency: 300ms}, save: {effect: idempotent, latency: 300ms}}
";

/// The cases: what they are called, and what the model does in them.
const CASES: [(&str, &str); 3] = [
    ("nothing fails", "models: {main: {latency: 3s}}"),
    ("three of ten fail", "models: {main: {latency: 3s, faults: {overloaded: 0.3}}}"),
    ("all fail", "models: {main: {latency: 3s, faults: {overloaded: 1}}}"),
];

fn scenario(models: &str) -> Scenario {
    let text = format!("{WORK}{models}\n");
    Scenario::read("bench.yaml", text.as_bytes()).unwrap_or_else(|report| panic!("{report}"))
}

fn play(scenario: &Scenario, policy: &Policy) -> SimulationFigures {
    scenario.play(policy).expect("no tool has the report's name")
}

fn bench(c: &mut Criterion) {
    let policy = Policy::builtin();
    let mut group = c.benchmark_group("decisions");
    group.sample_size(10).measurement_time(Duration::from_secs(3));
    for (name, models) in CASES {
        let scenario = scenario(models);
        group.throughput(Throughput::Elements(play(&scenario, &policy).decisions));
        group.bench_function(name, |b| b.iter(|| play(black_box(&scenario), &policy)));
    }
    group.finish();
}

/// Plays one case, for a profiler.
fn profiled(wanted: &str) {
    let models = CASES.iter().find(|(name, _)| *name == wanted).expect("the name of a case").1;
    let (scenario, policy) = (scenario(models), Policy::builtin());
    let (mut steps, mut decisions) = (0, 0);
    for seed in 0..10 {
        let figures = play(&scenario.clone().with_seed(seed), &policy);
        (steps, decisions) = (steps + figures.steps, decisions + figures.decisions);
    }
    println!("{steps} steps, {decisions} decisions");
}

criterion_group!(benches, bench);

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if let [_, flag, name, ..] = args.as_slice()
        && flag == "--profile"
    {
        return profiled(name);
    }
    benches();
    Criterion::default().configure_from_args().final_summary();
}
