//! The effect of each reduction step on a conversation, and the laws that hold for all steps.

use proptest::prelude::*;
use serde_json::Map;

use super::units::units;
use super::*;
use crate::context::history::{faults, scan, shorthand::conversation};
use crate::context::{ByteEstimate, TokenCounter, message_tokens};
use crate::policy::{SizeUnit, TextSize};
use crate::session::{LEFT_OUT, ToolCall, splice};

const fn chars(count: u64) -> TextSize {
    TextSize { count, unit: SizeUnit::Chars }
}

fn call(id: usize) -> Message {
    let call = ToolCall { id: format!("c{id}"), name: "look".into(), arguments: "{\"a\":1}".into() };
    Message::Assistant { text: String::new(), calls: vec![call], extra: Map::new() }
}

fn result(id: usize, text: impl Into<String>) -> Message {
    Message::Tool {
        call: format!("c{id}"),
        tool: "look".into(),
        text: text.into(),
        error: false,
        handle: None,
    }
}

fn system(text: &str) -> Message {
    Message::System { text: text.into() }
}

fn weights(messages: &[Message]) -> Vec<u64> {
    messages.iter().map(|message| message_tokens(&ByteEstimate, message)).collect()
}

fn tokens(messages: &[Message]) -> u64 {
    weights(messages).iter().sum()
}

/// The tokens of the note about `count` dropped messages.
fn to_tell(count: usize) -> u64 {
    let text = say(&Policy::builtin().context().messages.dropped, json!({ "count": count }));
    message_tokens(&ByteEstimate, &draft::told(text))
}

fn plan(step: ReduceStep, aim: u64) -> ReducePlan {
    ReducePlan { number: 1, step, aim, most: aim, input: None, keep_task: true }
}

fn made(messages: &[Message], plan: &ReducePlan) -> (Vec<Message>, ContextReduction) {
    let reduction = reduce(&Policy::builtin(), plan, messages, &weights(messages), &ByteEstimate);
    let mut after = messages.to_vec();
    splice(&mut after, &reduction.splices);
    assert_eq!(tokens(&after), reduction.message_tokens);
    assert_eq!(number(after.len()), reduction.messages);
    (after, reduction)
}

const TRUNCATE: ReduceStep =
    ReduceStep::Truncate { keep_last: 6, over: chars(2000), head: chars(1000), tail: chars(500) };
const DIGEST: ReduceStep = ReduceStep::Digest {
    keep_last: 4,
    most: TextSize { count: 500, unit: SizeUnit::Tokens },
    line: chars(80),
    result_line: chars(60),
};

/// A task, and `rounds` calls with results of `length` characters.
fn run(rounds: usize, length: usize) -> Vec<Message> {
    let mut messages = vec![system("You look things up."), Message::user("What does item 42 cost?")];
    for id in 0..rounds {
        messages.extend([call(id), result(id, format!("{id} {}", "x".repeat(length)))]);
    }
    messages
}

#[test]
fn old_results_are_shortened_and_new_ones_stay() {
    let step = ReduceStep::Results { keep_last: 4, over: chars(100), show: chars(20) };
    let (after, reduction) = made(&run(4, 4000), &plan(step, 100));
    let lengths: Vec<bool> = after.iter().map(|message| message.text().len() > 1000).collect();
    assert_eq!(lengths, [false, false, false, false, false, false, false, true, false, true]);
    assert!(after[3].text().ends_with(&"x".repeat(18)), "{}", after[3].text());
    assert_eq!((reduction.shortened, reduction.dropped), (2, 0));
}

/// The same, with each whole result stored.
fn kept(mut messages: Vec<Message>) -> Vec<Message> {
    let mut number = 0;
    for message in &mut messages {
        if let Message::Tool { handle, .. } = message {
            number += 1;
            *handle = Some(format!("r{number}-0"));
        }
    }
    messages
}

const READS_ALL: &str = "[`read_result` reads all of it: handle `r1-0`]";

#[test]
fn a_shortened_result_that_is_kept_says_how_all_of_it_is_read() {
    let step = ReduceStep::Results { keep_last: 4, over: chars(100), show: chars(20) };
    let (after, _) = made(&kept(run(4, 4000)), &plan(step, 100));
    assert!(after[3].text().ends_with(READS_ALL), "{}", after[3].text());
    assert!(matches!(&after[3], Message::Tool { handle: Some(handle), .. } if handle == "r1-0"));
}

#[test]
fn a_cut_result_that_is_kept_says_how_all_of_it_is_read_however_often_it_is_cut() {
    let messages = kept(run(1, 50_000));
    let (after, _) = made(&messages, &plan(TRUNCATE, 7000));
    assert!(after[3].text().contains(READS_ALL), "{}", after[3].text());
    let (after, _) = made(&after, &plan(TRUNCATE, 200));
    assert!(after[3].text().contains(READS_ALL), "{}", after[3].text());
    let (after, _) = made(&kept(run(8, 50_000)), &plan(TRUNCATE, 90_000));
    assert!(after[3].text().contains(READS_ALL), "{}", after[3].text());
}

#[test]
fn the_line_about_a_result_that_is_kept_says_how_all_of_it_is_read() {
    let (after, _) = made(&kept(run(5, 400)), &plan(DIGEST, 500));
    let digest = after.iter().find(|message| message.text().contains("returned")).unwrap().text();
    let line = digest.lines().find(|line| line.contains("returned: 0 ")).unwrap();
    assert!(line.ends_with(READS_ALL), "{digest}");
}

#[test]
fn a_result_of_before_results_had_handles_is_read() {
    let old = serde_json::json!({"role": "tool", "call": "c0", "tool": "look", "text": "12"});
    let read: Message = serde_json::from_value(old.clone()).unwrap();
    assert_eq!(read, result(0, "12"));
    assert_eq!(serde_json::to_value(&read).unwrap().get("handle"), None);
}

#[test]
fn no_more_results_are_shortened_than_it_takes() {
    let messages = run(9, 4000);
    let step = ReduceStep::Results { keep_last: 4, over: chars(100), show: chars(20) };
    let (_, reduction) = made(&messages, &plan(step, tokens(&messages) - 900));
    assert_eq!(reduction.shortened, 1);
}

#[test]
fn the_oldest_are_left_out_but_for_the_instructions_and_what_the_user_said_last() {
    let (after, reduction) = made(&run(10, 400), &plan(ReduceStep::Drop { keep_last: 4 }, 100));
    assert_eq!(reduction.dropped, 16);
    assert_eq!(after[0], system("You look things up."));
    assert_eq!(after[1], Message::user("What does item 42 cost?"));
    assert!(after[2].text().contains("left out"));
    assert_eq!(after[3], call(8));
    assert_eq!(after.len(), 7);
}

#[test]
fn what_the_user_said_last_goes_if_nothing_says_that_it_stays() {
    let plan = ReducePlan { keep_task: false, ..plan(ReduceStep::Drop { keep_last: 4 }, 100) };
    let (after, _) = made(&run(10, 400), &plan);
    assert!(!after.contains(&Message::user("What does item 42 cost?")));
}

#[test]
fn a_digest_has_a_line_for_each_message_and_grows_with_the_next() {
    let (mut after, _) = made(&run(5, 400), &plan(DIGEST, 500));
    let digest = |messages: &[Message]| {
        let is_digest = |message: &&Message| matches!(message, Message::User { guidance: Some(_), .. });
        messages.iter().find(is_digest).unwrap().text().to_owned()
    };
    let first = digest(&after);
    assert!(first.contains("- assistant: [calls look({\"a\":1})]\n- look returned: 0 xxx"), "{first}");
    assert_eq!(first.matches("returned").count(), 3);
    after.extend([call(7), result(7, "y".repeat(800)), call(8), result(8, "y".repeat(800))]);
    let (after, _) = made(&after, &plan(DIGEST, 620));
    let second = digest(&after);
    assert_eq!(second.matches("returned").count(), 5, "{second}");
    assert!(second.starts_with(first.lines().next().unwrap()));
}

#[test]
fn a_digest_never_has_more_than_its_most() {
    let messages = run(400, 400);
    let (after, _) = made(&messages, &plan(DIGEST, 1600));
    let digest = after.iter().find(|message| message.text().contains("- …")).unwrap();
    assert!(message_tokens(&ByteEstimate, digest) <= 1600 / 4 + 40);
    let last = digest.text().lines().last().unwrap();
    let number = |text: &str| text.split(' ').find_map(|word| word.parse::<usize>().ok()).unwrap();
    let first_kept = after.iter().find(|message| matches!(message, Message::Tool { .. })).unwrap();
    assert_eq!(number(last) + 1, number(first_kept.text()), "the newest lines stay");
}

#[test]
fn a_large_text_is_cut_in_its_middle() {
    let mut messages = run(8, 10);
    messages[3] = result(0, format!("begin{}end", "x".repeat(50_000)));
    let (after, reduction) = made(&messages, &plan(TRUNCATE, 2000));
    let cut = after[3].text();
    assert!(cut.starts_with("beginx") && cut.ends_with("xend") && cut.contains("were cut out"), "{cut}");
    assert_eq!((reduction.shortened, reduction.dropped), (1, 0));
}

// Ten results of 50 000 characters, of which six are kept, in a window of 8192 tokens.
#[test]
fn what_is_kept_is_cut_where_there_is_no_other_way() {
    let (after, reduction) = made(&run(10, 50_000), &plan(TRUNCATE, 7000));
    assert!(reduction.message_tokens <= 7000 && reduction.lacking.is_none());
    assert_eq!(after[0], system("You look things up."));
    assert_eq!(after[1], Message::user("What does item 42 cost?"));
    assert_eq!(after.iter().filter(|message| matches!(message, Message::Tool { .. })).count(), 3);
}

#[test]
fn the_instructions_are_cut_last_of_all() {
    let mut messages = run(1, 10);
    messages[0] = system(&"Look closely. ".repeat(2000));
    let (after, reduction) = made(&messages, &plan(TRUNCATE, 500));
    assert!(reduction.message_tokens <= 500);
    assert!(after[0].text().starts_with("Look closely.") && after[0].text().contains("were cut out"));
}

/// A call with `length` characters of arguments, which cannot be cut.
fn large_call(id: usize, length: usize) -> Message {
    let arguments = format!("{{\"text\":\"{}\"}}", "x".repeat(length));
    let call = ToolCall { id: format!("c{id}"), name: "look".into(), arguments };
    Message::Assistant { text: String::new(), calls: vec![call], extra: Map::new() }
}

#[test]
fn calls_that_are_kept_are_left_out_before_the_instructions_are_cut() {
    let mut messages = run(0, 0);
    messages.extend([large_call(0, 11_000), result(0, "done"), large_call(1, 11_000), result(1, "done")]);
    let most = tokens(&messages) - 5;
    let (after, reduction) = made(&messages, &plan(TRUNCATE, most));
    assert_eq!((reduction.lacking, reduction.dropped), (None, 2));
    assert_eq!(after[..2], messages[..2]);
    assert!(after[2].text().starts_with("[Earlier messages were left out"), "{after:?}");
    assert_eq!(after[3..], messages[4..]);
}

#[test]
fn what_tells_of_earlier_messages_is_left_out_no_more_than_the_instructions() {
    let told = Message::User { text: "The key is 42.".into(), guidance: Some(LEFT_OUT.into()) };
    let mut messages = vec![system("You look things up."), told.clone(), Message::user("What does it cost?")];
    messages.extend([large_call(0, 11_000), result(0, "done"), large_call(1, 11_000), result(1, "done")]);
    let (after, reduction) = made(&messages, &plan(TRUNCATE, tokens(&messages) - 5));
    assert_eq!((reduction.lacking, reduction.dropped), (None, 2));
    assert_eq!(after[1], told);
}

#[test]
fn it_is_said_what_cannot_be_cut() {
    let arguments = format!("{{\"text\":\"{}\"}}", "x".repeat(90_000));
    let call = ToolCall { id: "c".into(), name: "write".into(), arguments };
    let messages = [
        Message::user("Write it."),
        Message::Assistant { text: String::new(), calls: vec![call], extra: Map::new() },
        Message::Tool {
            call: "c".into(),
            tool: "write".into(),
            text: "done".into(),
            error: false,
            handle: None,
        },
    ];
    let (_, reduction) = made(&messages, &plan(TRUNCATE, 1000));
    let lacking = reduction.lacking.unwrap();
    assert!(lacking.starts_with("what cannot be cut or left out has 32"), "{lacking}");
    assert!(lacking.ends_with("and there is room for 1000"));
}

#[test]
fn one_result_of_fifty_megabytes_fits() {
    let mut messages = run(1, 10);
    messages[3] = result(0, "x ".repeat(25_000_000));
    let (_, reduction) = made(&messages, &plan(TRUNCATE, 1000));
    assert!(reduction.message_tokens <= 1000 && reduction.lacking.is_none());
}

#[test]
fn nothing_is_done_where_nothing_is_gained() {
    let messages = run(1, 10);
    for step in [DIGEST, ReduceStep::Drop { keep_last: 1 }] {
        let (after, reduction) = made(&messages, &plan(step, tokens(&messages) - 1));
        assert_eq!((after, reduction.splices), (messages.clone(), vec![]));
    }
}

#[test]
fn a_hundred_thousand_messages_take_their_time_only_once() {
    let messages = run(50_000, 20);
    for step in [DIGEST, TRUNCATE, ReduceStep::Drop { keep_last: 4 }] {
        let (_, reduction) = made(&messages, &plan(step, 10_000));
        assert!(reduction.message_tokens <= 10_000);
    }
}

#[test]
fn a_model_is_asked_to_sum_up_what_is_left_out() {
    let most = TextSize { count: 200, unit: SizeUnit::Tokens };
    let step = ReduceStep::Summary { keep_last: 4, most, model: None, input_ppm: 800_000 };
    let (after, reduction) = made(&run(10, 400), &plan(step.clone(), 1000));
    let asked = reduction.summarize.unwrap();
    assert!(
        asked.prompt.contains("assistant calls look({\"a\":1})\nlook returned: 0 xxx"),
        "{}",
        asked.prompt
    );
    assert_eq!((asked.tokens, asked.cut), (ByteEstimate.count(&asked.prompt), 0));
    assert_eq!(after[2].text().lines().count(), 1);
    // A request that is too large for its model has the newest messages.
    let plan = ReducePlan { input: Some(500), ..plan(step, 1000) };
    let asked = made(&run(10, 400), &plan).1.summarize.unwrap();
    assert!(asked.tokens <= 500 + 40 && asked.cut > 100, "{asked:?}");
    assert!(asked.prompt.contains("were cut out") && !asked.prompt.contains("returned: 0 xxx"));
}

#[test]
fn of_a_message_that_alone_is_too_large_to_be_summed_up_its_beginning_is() {
    let most = TextSize { count: 200, unit: SizeUnit::Tokens };
    let step = ReduceStep::Summary { keep_last: 1, most, model: None, input_ppm: 800_000 };
    let messages = [Message::user("Begin. ".repeat(600)), Message::user("And now?")];
    let plan = ReducePlan { input: Some(200), ..plan(step, 300) };
    let asked = made(&messages, &plan).1.summarize.unwrap();
    assert!(asked.tokens <= 200 && asked.cut > 500, "{asked:?}");
    assert!(
        asked.prompt.contains("were cut out") && asked.prompt.contains("\nuser: Begin. Begin."),
        "{asked:?}"
    );
    assert!(asked.prompt.ends_with('…'), "{asked:?}");
    // Nothing would be left of the request, so there is none.
    let plan = ReducePlan { input: Some(20), ..plan };
    let (after, reduction) = made(&messages, &plan);
    assert!(reduction.summarize.is_none() && after[0].text().contains("left out"), "{after:?}");
}

#[test]
fn what_is_not_summed_up_is_counted_without_how_all_of_it_is_read() {
    let most = TextSize { count: 200, unit: SizeUnit::Tokens };
    let step = ReduceStep::Summary { keep_last: 4, most, model: None, input_ppm: 800_000 };
    let messages = kept(run(10, 400));
    let all = made(&messages, &plan(step.clone(), 1000)).1.summarize.unwrap();
    let some = made(&messages, &ReducePlan { input: Some(500), ..plan(step, 1000) }).1.summarize.unwrap();
    let lines = |prompt: &str| -> Vec<String> {
        let lines = prompt
            .lines()
            .filter(|line| ["look returned", "assistant calls"].iter().any(|what| line.starts_with(what)));
        lines.map(|line| line.split(" [").next().unwrap().to_owned()).collect()
    };
    let (all, shown) = (lines(&all.prompt), lines(&some.prompt));
    assert!(!shown.is_empty() && shown.len() < all.len());
    let left_out = &all[..all.len() - shown.len()];
    assert_eq!(some.cut, left_out.iter().map(|line| ByteEstimate.count(line) + 1).sum::<u64>());
}

fn any_message() -> impl Strategy<Value = Vec<Message>> {
    let text = prop_oneof![Just(0_usize), 1..60_usize, 500..9000_usize]
        .prop_map(|length| "word ".repeat(length / 5));
    let results = proptest::collection::vec(text.clone(), 0..4);
    let round = (0..4_usize, text, results, prop_oneof![3 => Just(0_usize), 1 => 500..9000_usize]).prop_map(
        |(kind, said, results, written)| match kind {
            0 => vec![Message::user(said)],
            1 => vec![system(&said)],
            2 => vec![Message::User { text: said, guidance: Some("text_only".into()) }],
            _ => {
                let calls = (0..results.len()).map(|id| ToolCall {
                    id: format!("c{id}"),
                    name: "look".into(),
                    arguments: format!("{{\"text\":\"{}\"}}", "x".repeat(written)),
                });
                let calls = calls.collect();
                let assistant = Message::Assistant { text: said, calls, extra: Map::new() };
                let results = results.into_iter().enumerate().map(|(id, text)| result(id, text));
                core::iter::once(assistant).chain(results).collect()
            }
        },
    );
    proptest::collection::vec(round, 0..14).prop_map(|rounds| rounds.concat())
}

fn any_step() -> impl Strategy<Value = ReduceStep> {
    (0..5_usize, 1..8_u32, 1..400_u64).prop_map(|(kind, keep_last, size)| match kind {
        0 => ReduceStep::Results { keep_last, over: chars(size), show: chars(size / 2 + 1) },
        1 => ReduceStep::Drop { keep_last },
        2 => {
            ReduceStep::Digest { keep_last, most: chars(size * 4), line: chars(size), result_line: chars(60) }
        }
        3 => ReduceStep::Summary { keep_last, most: chars(size), model: None, input_ppm: 800_000 },
        _ => ReduceStep::Truncate { keep_last, over: chars(size), head: chars(size / 2 + 1), tail: chars(9) },
    })
}

proptest! {
    #[test]
    fn a_call_and_its_result_are_never_parted(messages in any_message(), step in any_step(), aim in 1..4000_u64) {
        let (after, reduction) = made(&messages, &plan(step, aim));
        prop_assert_eq!(faults(&after), 0);
        prop_assert_eq!(reduction.history_faults, 0);
        prop_assert!(reduction.splices.is_empty() || reduction.message_tokens < tokens(&messages));
    }

    #[test]
    fn what_was_wrong_before_is_not_made_worse(
        words in proptest::collection::vec("u|a|s|[as]:[xyz](,[xyz]){0,2}|r:[xyz]|r:[xyz]", 0..16),
        step in any_step(),
        aim in 1..200_u64,
    ) {
        let before = conversation(&words.join(" "));
        let (after, _) = made(&before, &plan(step, aim));
        prop_assert!(faults(&after) <= faults(&before));
    }

    #[test]
    fn the_last_resort_fits_or_says_why_not(messages in any_message(), keep_last in 1..8_u32, aim in 1..4000_u64) {
        let step = ReduceStep::Truncate { keep_last, over: chars(100), head: chars(50), tail: chars(20) };
        let (after, reduction) = made(&messages, &plan(step, aim));
        prop_assert_eq!(reduction.message_tokens <= aim, reduction.lacking.is_none());
        let head = |messages: &[Message]| {
            messages.iter().take_while(|message| matches!(message, Message::System { .. })).count()
        };
        prop_assert!(head(&after) >= head(&messages), "instructions were left out");
        if reduction.lacking.is_some() {
            // The instructions, the note, the last message of the user, and the last unit.
            let pieces = units(&after, scan(&after));
            let others = pieces.split_last().map_or(&[][..], |(_, others)| others);
            let asked = after.iter().rposition(|message| matches!(message, Message::User { guidance: None, .. }));
            let told = |message: &Message| matches!(message, Message::User { guidance: Some(slug), .. } if slug == LEFT_OUT);
            let could: Vec<Message> = others
                .iter()
                .cloned()
                .flatten()
                .filter(|at| *at >= head(&messages) && Some(*at) != asked && !told(&after[*at]))
                .map(|at| after[at].clone())
                .collect();
            // Nothing is dropped if the note would take as many tokens.
            let gained = tokens(&could).saturating_sub(to_tell(could.len()));
            prop_assert_eq!(gained, 0, "{:?} could be left out: {:?}", could, &reduction.lacking);
            prop_assert!(could.is_empty() || reduction.splices.is_empty());
        }
    }

    #[test]
    fn reductions_come_to_an_end(messages in any_message(), step in any_step(), aim in 1..4000_u64) {
        let mut messages = messages;
        let mut rounds = 0;
        loop {
            let (after, reduction) = made(&messages, &plan(step.clone(), aim));
            if reduction.splices.is_empty() {
                break;
            }
            messages = after;
            rounds += 1;
            prop_assert!(rounds <= 6, "still shrinking after {} rounds", rounds);
        }
    }
}
