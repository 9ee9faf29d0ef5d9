//! What counting tokens costs: against the tokenizer alone, in a long session, and at first use.

use std::collections::HashSet;
use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use serde_json::json;
use tiktoken_rs::tokenizer::Tokenizer;
use tiktoken_rs::{ChatCompletionRequestMessage, FunctionCall, bpe_for_tokenizer, num_tokens_from_messages};
use unfazed::context::{
    ByteEstimate, CheckedHistory, ModelCatalogue, TokenCounter, TokenEstimator, TokenLedger,
};
use unfazed::host::TiktokenCounter;
use unfazed::policy::Policy;
use unfazed::session::{Message, ToolCall};

/// English, a program and JSON, about 100 KB of each.
fn texts() -> [(&'static str, String); 3] {
    let prose = "The quick brown fox jumps over the lazy dog, and nobody in the whole village took any notice of it.\n";
    let code = "fn total(items: &[Item]) -> u64 {\n    items.iter().map(|item| item.price * item.count).sum()\n}\n\n";
    let row = r#"{"id": 4711, "name": "Widget, large", "tags": ["a", "b7"], "price": 12.50, "stock": null},"#;
    [
        ("prose", prose.repeat(1000)),
        ("code", code.repeat(1000)),
        ("json", format!("[{}{{}}]", row.repeat(1100))),
    ]
}

/// Reports how long each vocabulary takes at its first use, once.
fn first_use(_: &mut Criterion) {
    assert_eq!(TiktokenCounter::loaded(), 0);
    for model in ["gpt-4o", "gpt-4", "gpt-oss-120b"] {
        let counter = TiktokenCounter::for_model(model).unwrap();
        let began = Instant::now();
        black_box(counter.count("hello world"));
        println!("first use of the vocabulary of {model:<14} {:?}", began.elapsed());
    }
    let began = Instant::now();
    black_box(ModelCatalogue::builtin().find("gpt-4o"));
    println!("first use of the catalogue of models      {:?}", began.elapsed());
}

fn counting(c: &mut Criterion) {
    let mut group = c.benchmark_group("count");
    group.sample_size(20).measurement_time(Duration::from_secs(3));
    let counter = TiktokenCounter::for_model("gpt-4o").unwrap();
    let alone = bpe_for_tokenizer(Tokenizer::O200kBase).unwrap();
    let estimator = TokenEstimator::from(&Policy::builtin().model("main").tokens);
    for (name, text) in &texts() {
        group.throughput(Throughput::Bytes(text.len() as u64));
        let none = HashSet::new();
        group.bench_function(format!("{name}, tiktoken-rs alone"), |b| {
            b.iter(|| alone.count(black_box(text), &none).unwrap());
        });
        group.bench_function(format!("{name}, counter"), |b| b.iter(|| counter.count(black_box(text))));
        group.bench_function(format!("{name}, estimate"), |b| b.iter(|| estimator.count(black_box(text))));
    }
    for (name, text) in [
        ("1 MB of one letter", "a".repeat(1_000_000)),
        ("1.5 MB of white space", " ".repeat(1_500_000) + "x"),
        ("50 MB of prose", texts()[0].1.repeat(500)),
    ] {
        group.throughput(Throughput::Bytes(text.len() as u64)).sample_size(10);
        group.bench_function(name, |b| b.iter(|| counter.count(black_box(&text))));
    }
    group.finish();
}

/// The usual way without a ledger: every turn, the whole conversation through the tokenizer.
fn whole(messages: &[Message]) -> Vec<ChatCompletionRequestMessage> {
    let chat = |message: &Message| {
        let (role, calls) = match message {
            Message::System { .. } => ("system", &[][..]),
            Message::User { .. } => ("user", &[][..]),
            Message::Assistant { calls, .. } => ("assistant", &calls[..]),
            Message::Tool { .. } => ("tool", &[][..]),
        };
        let call =
            |call: &ToolCall| FunctionCall { name: call.name.clone(), arguments: call.arguments.clone() };
        ChatCompletionRequestMessage {
            role: role.to_owned(),
            content: Some(message.text().to_owned()),
            tool_calls: calls.iter().map(call).collect(),
            ..ChatCompletionRequestMessage::default()
        }
    };
    messages.iter().map(chat).collect()
}

/// A session of that many messages: questions, calls, results, answers.
fn session(length: usize) -> Vec<Message> {
    let text = &texts()[0].1[..400];
    let message = |number: usize| match number % 4 {
        0 => Message::user(text),
        1 => Message::Assistant {
            text: String::new(),
            calls: vec![ToolCall {
                id: format!("call_{number}"),
                name: "search".into(),
                arguments: json!({"query": text}).to_string(),
            }],
            extra: serde_json::Map::new(),
        },
        2 => Message::Tool {
            call: format!("call_{}", number - 1),
            tool: "search".into(),
            text: text.repeat(3),
            error: false,
            handle: None,
        },
        _ => Message::Assistant { text: text.into(), calls: vec![], extra: serde_json::Map::new() },
    };
    (0..length).map(message).collect()
}

fn turns(c: &mut Criterion) {
    let mut group = c.benchmark_group("turn");
    group.sample_size(30).measurement_time(Duration::from_secs(3));
    let counter = TiktokenCounter::for_model("gpt-4o").unwrap();
    for length in [2_000, 100_000] {
        let messages = session(length);
        let mut ledger = TokenLedger::of(&ByteEstimate, &messages);
        let new = Message::user(&texts()[0].1[..400]);
        if length == 2_000 {
            let messages = whole(&messages);
            group.sample_size(10);
            group.bench_function(format!("{length} messages, tiktoken-rs"), |b| {
                b.iter(|| num_tokens_from_messages("gpt-4o", black_box(&messages)).unwrap());
            });
            group.sample_size(30);
        }
        let mut checked = CheckedHistory::default();
        checked.faults(&messages[..length - 1], false);
        let known = checked;
        group.bench_function(format!("one new message after {length}"), |b| {
            b.iter(|| {
                let mut checked = known;
                ledger.append(&counter, black_box(&new));
                let faults = checked.faults(black_box(&messages), false);
                ledger.measure(faults)
            });
        });
    }
    group.finish();
}

criterion_group!(benches, first_use, counting, turns);
criterion_main!(benches);
