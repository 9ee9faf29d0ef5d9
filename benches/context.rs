//! What it costs to find what a reduction of a hundred thousand messages comes to, step by step.

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use unfazed::context::{ByteEstimate, message_tokens, reduce};
use unfazed::engine::ReducePlan;
use unfazed::policy::{Policy, ReduceStep, SizeUnit, TextSize};
use unfazed::session::{Message, ToolCall};

const ROUNDS: usize = 50_000;

/// A task, and rounds of a call and its result.
fn conversation() -> Vec<Message> {
    let round = |id: usize| {
        let call = ToolCall {
            id: format!("call_{id}"),
            name: "lookup".into(),
            arguments: format!("{{\"item\":{id}}}"),
        };
        let text = format!("Item {id} costs 12.50; {}", "there is more to say about it. ".repeat(8));
        [
            Message::Assistant { text: String::new(), calls: vec![call], extra: serde_json::Map::new() },
            Message::Tool {
                call: format!("call_{id}"),
                tool: "lookup".into(),
                text,
                error: false,
                handle: None,
            },
        ]
    };
    let system = Message::System { text: "You look up prices.".into() };
    [system, Message::user("What do they cost?")].into_iter().chain((0..ROUNDS).flat_map(round)).collect()
}

fn steps() -> [ReduceStep; 4] {
    let chars = |count| TextSize { count, unit: SizeUnit::Chars };
    let most = TextSize { count: 1000, unit: SizeUnit::Tokens };
    [
        ReduceStep::Results { keep_last: 6, over: chars(100), show: chars(50) },
        ReduceStep::Drop { keep_last: 10 },
        ReduceStep::Digest { keep_last: 10, most, line: chars(200), result_line: chars(100) },
        ReduceStep::Truncate { keep_last: 6, over: chars(2000), head: chars(1000), tail: chars(500) },
    ]
}

fn planning(c: &mut Criterion) {
    let messages = conversation();
    let weights: Vec<u64> = messages.iter().map(|message| message_tokens(&ByteEstimate, message)).collect();
    let policy = Policy::builtin();
    let mut group = c.benchmark_group("reduce 100 000 messages");
    group.sample_size(10).measurement_time(Duration::from_secs(3));
    for step in steps() {
        // Every result may be shortened; of the messages few are left.
        let aim = 100_000;
        let plan = ReducePlan { number: 1, step, aim, most: aim, input: None, keep_task: true };
        group.bench_with_input(BenchmarkId::from_parameter(plan.step.name()), &plan, |b, plan| {
            b.iter_with_large_drop(|| reduce(&policy, black_box(plan), &messages, &weights, &ByteEstimate));
        });
    }
    group.finish();
}

criterion_group!(benches, planning);
criterion_main!(benches);
