//! What reading foreign text costs: repair of JSON, beside the crate `jsonrepair`, and streams of events.

mod broken;

use std::hint::black_box;
use std::time::Duration;

use broken::arguments;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use unfazed::host::SseParser;
use unfazed::text::repair::repair;

fn repairs(c: &mut Criterion) {
    let mut group = c.benchmark_group("repair");
    group.sample_size(30).measurement_time(Duration::from_secs(2));
    let megabyte = 1_000_000;
    let texts = [
        ("arguments of 1 KB", arguments(1000)),
        ("arguments of 100 KB", arguments(100_000)),
        ("one brace missing after 100 KB", {
            let text = format!(
                "{{\"text\": {:?}, \"list\": [{}]}}",
                "words ".repeat(10_000),
                "12345, ".repeat(5700) + "1"
            );
            text[..text.len() - 1].to_owned()
        }),
        ("1 MB of brackets", "[".repeat(megabyte)),
        ("1 MB of pairs of brackets", format!("[{}", "[],".repeat(megabyte / 3))),
        ("1 MB of quotes", format!("{{\"a\": \"{}", "\"".repeat(megabyte))),
        ("1 MB of inner quotes", format!("{{\"a\": \"{}", "x \"y\" ".repeat(megabyte / 6))),
    ];
    for (name, text) in &texts {
        group.throughput(Throughput::Bytes(text.len() as u64));
        group.bench_function(*name, |b| b.iter(|| repair(black_box(text)).is_ok()));
    }
    // What is nested ever deeper ends the process there: it is recursive.
    for (name, text) in &texts[..3] {
        let options = jsonrepair::Options::default();
        group.throughput(Throughput::Bytes(text.len() as u64));
        group.bench_function(format!("{name}, jsonrepair"), |b| {
            b.iter(|| jsonrepair::repair_to_value(black_box(text), &options).is_ok());
        });
    }
    group.finish();
}

fn events(c: &mut Criterion) {
    let mut group = c.benchmark_group("sse");
    group.sample_size(30).measurement_time(Duration::from_secs(2));
    let chunk = |text: &str| {
        format!(
            "data: {{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1764000000,\"model\":\"m\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}},\"finish_reason\":null}}]}}\n\n"
        )
    };
    let part = |text: &str| {
        format!(
            "event: response.output_text.delta\ndata: {{\"type\":\"response.output_text.delta\",\"item_id\":\"msg_1\",\"output_index\":0,\"content_index\":0,\"delta\":\"{text}\",\"logprobs\":[],\"sequence_number\":7,\"obfuscation\":\"a1b2c3\"}}\n\n"
        )
    };
    let gemini = |text: &str| {
        format!(
            "data: {{\"candidates\":[{{\"content\":{{\"role\":\"model\",\"parts\":[{{\"text\":\"{text}\"}}]}},\"index\":0}}],\"usageMetadata\":{{\"promptTokenCount\":9,\"totalTokenCount\":9}},\"modelVersion\":\"m\",\"responseId\":\"r\"}}\r\n\r\n"
        )
    };
    let streams = [
        ("20000 events of a chat", chunk(" word").repeat(20_000)),
        ("20000 events of a response", part(" word").repeat(20_000)),
        ("20000 chunks of Gemini", gemini(" word").repeat(20_000)),
        ("20 events of 100 KB", chunk(&"word ".repeat(20_000)).repeat(20)),
        ("20000 keep-alive comments", ": OPENROUTER PROCESSING\r\n\r\n".repeat(20_000)),
    ];
    for (name, stream) in &streams {
        group.throughput(Throughput::Bytes(stream.len() as u64));
        group.bench_function(*name, |b| {
            let mut events = Vec::new();
            b.iter(|| {
                let mut parser = SseParser::default();
                for bytes in black_box(stream).as_bytes().chunks(1400) {
                    parser.push(bytes, &mut events).unwrap();
                    events.clear();
                }
            });
        });
    }
    group.finish();
}

criterion_group!(benches, repairs, events);
criterion_main!(benches);
