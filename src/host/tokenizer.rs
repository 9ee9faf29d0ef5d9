//! Tokens counted with the vocabularies that are known.

mod runs;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use tiktoken_rs::CoreBPE;
use tiktoken_rs::tokenizer::{Tokenizer, get_tokenizer};

use crate::context::{ByteEstimate, TokenCounter, TokenEstimator};
use crate::policy::{CountBy, TokensPolicy};
use runs::TextPart;

/// A text of more bytes is counted by its beginning: no window is so large that the difference could matter.
const WHOLE: usize = 2 << 20;
/// What the vocabulary cannot take at once is cut into pieces that are no larger, at the ends of lines if it can be.
const PIECE: usize = 64 << 10;
const LARGEST_PIECE: usize = 256 << 10;

/// How many vocabularies are loaded.
static LOADED: AtomicUsize = AtomicUsize::new(0);
/// Which they are.
static WHICH: Mutex<Vec<LoadedVocabulary>> = Mutex::new(Vec::new());

/// Counts with the vocabulary of one model. It is loaded when first used, which takes some tenths of a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TiktokenCounter(LoadedVocabulary);

/// The vocabularies of models that hold a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, unfazed_macros::Named)]
enum LoadedVocabulary {
    O200kHarmony,
    O200kBase,
    Cl100kBase,
}

/// The best counter there is for that model: its own vocabulary if it is known, else the estimate.
pub(crate) fn counter_for(model: &str) -> Box<dyn TokenCounter> {
    match TiktokenCounter::for_model(model) {
        Some(counter) => Box::new(counter),
        None => Box::new(ByteEstimate),
    }
}

/// Counts the tokens of that model as its policy says.
pub fn counter_by(rules: &TokensPolicy, model: &str) -> Arc<dyn TokenCounter> {
    let estimator = TokenEstimator::from(rules);
    match (rules.method.value, TiktokenCounter::for_model(model)) {
        (CountBy::Tokenizer, Some(vocabulary)) => Arc::new(vocabulary),
        (CountBy::Max, Some(vocabulary)) => Arc::new(LargerCount(vocabulary, estimator)),
        (CountBy::Estimate, _) | (_, None) => Arc::new(estimator),
    }
}

impl TiktokenCounter {
    /// The counter for that model, if its vocabulary is known. A provider may stand before the name:
    /// `openai/gpt-4o`.
    pub fn for_model(model: &str) -> Option<Self> {
        let name = model.rsplit('/').next().unwrap_or(model);
        match get_tokenizer(name)? {
            Tokenizer::O200kHarmony => Some(Self(LoadedVocabulary::O200kHarmony)),
            Tokenizer::O200kBase => Some(Self(LoadedVocabulary::O200kBase)),
            Tokenizer::Cl100kBase => Some(Self(LoadedVocabulary::Cl100kBase)),
            // Models that complete texts and call no tools: for them the binary would be 1.7 MB larger.
            Tokenizer::P50kBase | Tokenizer::R50kBase | Tokenizer::P50kEdit | Tokenizer::Gpt2 => None,
        }
    }

    /// How many vocabularies this process has loaded so far.
    pub fn loaded() -> usize {
        LOADED.load(Ordering::Relaxed)
    }

    /// The vocabulary, which is loaded if it is asked for the first time.
    fn vocabulary(self) -> &'static CoreBPE {
        let began = Instant::now();
        let vocabulary = match self.0 {
            LoadedVocabulary::O200kHarmony => tiktoken_rs::o200k_harmony_singleton(),
            LoadedVocabulary::O200kBase => tiktoken_rs::o200k_base_singleton(),
            LoadedVocabulary::Cl100kBase => tiktoken_rs::cl100k_base_singleton(),
        };
        let mut which = WHICH.lock().unwrap_or_else(PoisonError::into_inner);
        if !which.contains(&self.0) {
            which.push(self.0);
            LOADED.store(which.len(), Ordering::Relaxed);
            tracing::debug!(
                vocabulary = self.0.name(),
                took_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
                "a vocabulary is loaded"
            );
        }
        vocabulary
    }
}

impl TokenCounter for TiktokenCounter {
    fn count(&self, text: &str) -> u64 {
        if text.is_empty() {
            return 0;
        }
        let vocabulary = self.vocabulary();
        if text.len() <= WHOLE {
            return counted(vocabulary, text);
        }
        let head = head(text, WHOLE);
        let tokens = u128::from(counted(vocabulary, head));
        let scaled = (tokens * text.len() as u128).div_ceil(head.len() as u128);
        u64::try_from(scaled).unwrap_or(u64::MAX).max(ByteEstimate.count(text))
    }
}

/// Both, of which the larger number counts.
struct LargerCount(TiktokenCounter, TokenEstimator);

impl TokenCounter for LargerCount {
    fn count(&self, text: &str) -> u64 {
        self.0.count(text).max(self.1.count(text))
    }
}

fn counted(vocabulary: &CoreBPE, text: &str) -> u64 {
    if text.len() < runs::LONG {
        return without_runs(vocabulary, text);
    }
    runs::parts(text).map(|part| of_part(vocabulary, part)).sum()
}

/// The tokens of a part. A long run is alike from end to end: those of its beginning tell how many it has.
fn of_part(vocabulary: &CoreBPE, part: TextPart<'_>) -> u64 {
    let TextPart::Run(run) = part else { return without_runs(vocabulary, part.text()) };
    let sample = part.looked_at();
    let tokens = u128::from(without_runs(vocabulary, sample)) * run.len() as u128;
    u64::try_from(tokens.div_ceil(sample.len().max(1) as u128)).unwrap_or(u64::MAX)
}

/// The tokens of a text that has no long run of one character, or of white space.
fn without_runs(vocabulary: &CoreBPE, text: &str) -> u64 {
    whole(vocabulary, text).unwrap_or_else(|| {
        let pieces = TextPieces(text);
        pieces.map(|piece| whole(vocabulary, piece).unwrap_or_else(|| ByteEstimate.count(piece))).sum()
    })
}

/// The tokens of a text; `None`: the vocabulary cannot take it, as a million of white space in a row.
fn whole(vocabulary: &CoreBPE, text: &str) -> Option<u64> {
    // Of the functions that count, this is the only one that reports such a text as an error; the others panic.
    vocabulary.count(text, &HashSet::new()).ok().map(|tokens| tokens as u64)
}

/// A text in pieces. The tokens of those that end with a line, before a letter or a digit, are exactly those of the text;
/// only where no line ends for long is it cut anywhere.
struct TextPieces<'t>(&'t str);

impl<'t> Iterator for TextPieces<'t> {
    type Item = &'t str;

    fn next(&mut self) -> Option<&'t str> {
        if self.0.is_empty() {
            return None;
        }
        let (piece, rest) = self.0.split_at(end_of_piece(self.0));
        self.0 = rest;
        Some(piece)
    }
}

fn end_of_piece(text: &str) -> usize {
    if text.len() <= PIECE {
        return text.len();
    }
    let longest = head(text, LARGEST_PIECE).len();
    let begins_with_a_letter =
        |at: usize| text.get(at..).and_then(|rest| rest.chars().next()).is_some_and(char::is_alphanumeric);
    let bytes = text.as_bytes().iter().enumerate().take(longest).skip(PIECE);
    let mut ends = bytes.filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
    ends.find(|at| begins_with_a_letter(*at)).unwrap_or(longest)
}

/// As much of the beginning of a text as these bytes hold.
fn head(text: &str, most: usize) -> &str {
    let mut ends = (0..=most.min(text.len())).rev();
    ends.find_map(|end| text.get(..end)).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::policy::{Loader, Policy};

    fn gpt_4o() -> &'static CoreBPE {
        TiktokenCounter::for_model("gpt-4o").map(TiktokenCounter::vocabulary).unwrap()
    }

    #[test]
    fn the_vocabulary_is_chosen_by_the_name() {
        for (model, vocabulary) in [
            ("gpt-4o-mini", Some(LoadedVocabulary::O200kBase)),
            ("openai/gpt-4.1", Some(LoadedVocabulary::O200kBase)),
            ("gpt-4-0613", Some(LoadedVocabulary::Cl100kBase)),
            ("openai/gpt-oss-120b", Some(LoadedVocabulary::O200kHarmony)),
            ("claude-sonnet-4-5", None),
            ("text-davinci-003", None),
            ("", None),
        ] {
            assert_eq!(TiktokenCounter::for_model(model), vocabulary.map(TiktokenCounter), "{model}");
        }
    }

    /// The example of "How to count tokens with tiktoken", `OpenAI` cookbook, with what the API counts.
    #[test]
    fn a_request_with_tools_is_counted_as_the_api_does() {
        let body = serde_json::json!({
            "tools": [{"type": "function", "function": {
                "name": "get_current_weather",
                "description": "Get the current weather in a given location",
                "parameters": {"type": "object", "required": ["location"], "properties": {
                    "location": {"type": "string", "description": "The city and state, e.g. San Francisco, CA"},
                    "unit": {"type": "string", "description": "The unit of temperature to return", "enum": ["celsius", "fahrenheit"]},
                }},
            }}],
            "messages": [
                {"role": "system", "content": "You are a helpful assistant that can answer to questions about the weather."},
                {"role": "user", "content": "What's the weather like in San Francisco?"},
            ],
        });
        for (model, counted) in [("gpt-4", 105), ("gpt-4o", 101)] {
            let mut body = body.clone();
            body["model"] = model.into();
            let request = crate::context::RequestTokens::of(&*counter_for(model), &body).unwrap();
            assert_eq!(request.total(), counted, "{model}");
        }
    }

    #[test]
    fn known_texts_have_known_counts() {
        let counter = counter_for("gpt-4");
        assert_eq!(counter.count(""), 0);
        assert_eq!(counter.count("hello world"), 2);
        assert_eq!(counter.count("antidisestablishmentarianism"), 6);
    }

    #[test]
    fn the_marks_of_a_vocabulary_are_text_like_any_other() {
        assert!(counter_for("gpt-4o").count("<|endoftext|>") > 1);
    }

    #[test]
    fn white_space_that_the_vocabulary_cannot_take_at_once_is_counted_by_its_beginning() {
        let text = " ".repeat(1_500_000) + "x";
        let counted = counter_for("gpt-4o").count(&text);
        assert!(counted > 1_500_000 / 256 && counted < ByteEstimate.count(&text), "{counted}");
    }

    #[test]
    fn a_long_run_has_about_as_many_tokens_as_the_vocabulary_finds_in_it() {
        for run in [" ", "a", "=", "\n", "é", "漢", "\t "] {
            let text = run.repeat(9000 / run.len());
            let (exact, counted) = (whole(gpt_4o(), &text).unwrap(), counter_for("gpt-4o").count(&text));
            assert!(
                counted >= exact && counted <= exact + exact / 4 + 8,
                "{run:?}: {counted}, exactly {exact}"
            );
        }
    }

    #[test]
    fn a_text_larger_than_any_window_is_counted_by_its_beginning() {
        let text = "hello world ".repeat(WHOLE / 6);
        let counted = counter_for("gpt-4o").count(&text);
        let words = 2 * (WHOLE as u64 / 6);
        assert!(counted >= ByteEstimate.count(&text) && counted < words * 2, "{counted} of {words}");
    }

    #[test]
    fn a_model_nobody_knows_is_estimated() {
        assert_eq!(
            counter_for("claude-sonnet-4-5").count("one two three"),
            ByteEstimate.count("one two three")
        );
    }

    #[test]
    fn the_policy_says_by_what_is_counted() {
        let text = "antidisestablishmentarianism";
        for (method, expected) in [("tokenizer", 6), ("estimate", 7), ("max", 7)] {
            let policy = format!("version: 1\ncontext: {{tokens: {{method: {method}}}}}\n");
            let policy: Policy = Loader::new().load(vec![("p.yaml".into(), policy)]).unwrap();
            let tokens = counter_by(&policy.model("main").tokens, "gpt-4").count(text);
            assert_eq!(tokens, expected, "{method}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
        #[test]
        fn lines_are_counted_alike_together_and_in_pieces(
            lines in prop::collection::vec("[a-zA-Zé0-9][ -~éß漢]{0,40}", 1..60), times in 1usize..60,
        ) {
            let text = (lines.join("\n") + "\n").repeat(times * 2);
            prop_assert_eq!(TextPieces(&text).collect::<String>(), text.clone());
            let pieces: u64 = TextPieces(&text).map(|piece| whole(gpt_4o(), piece).unwrap()).sum();
            prop_assert_eq!(pieces, whole(gpt_4o(), &text).unwrap());
        }

        #[test]
        fn pieces_are_bounded_and_lose_nothing(
            run in "[a \\n漢=]", times in 0usize..900_000, end in ".{0,3}",
        ) {
            let text = run.repeat(times) + &end;
            let mut length = 0;
            for piece in TextPieces(&text) {
                prop_assert!(!piece.is_empty() && piece.len() <= LARGEST_PIECE);
                length += piece.len();
            }
            prop_assert_eq!(length, text.len());
        }
    }
}
