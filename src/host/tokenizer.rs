//! Tokens counted with the vocabularies that are known.

use std::collections::HashSet;

use tiktoken_rs::tokenizer::{Tokenizer, get_tokenizer};

use crate::context::{Estimate, TokenCounter};

/// Counts with the vocabulary of one model. It is loaded when first used, which takes some tenths of a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tiktoken(Tokenizer);

/// The best counter there is for that model: its own vocabulary if it is known, else the estimate.
pub fn counter_for(model: &str) -> Box<dyn TokenCounter> {
    match Tiktoken::for_model(model) {
        Some(counter) => Box::new(counter),
        None => Box::new(Estimate),
    }
}

impl Tiktoken {
    /// The counter for that model, if its vocabulary is known. A provider may stand before the name:
    /// `openai/gpt-4o`.
    pub fn for_model(model: &str) -> Option<Self> {
        let name = model.rsplit('/').next().unwrap_or(model);
        get_tokenizer(name).map(Self)
    }
}

impl TokenCounter for Tiktoken {
    fn count(&self, text: &str) -> u64 {
        // Of the functions that count, this is the only one that reports an endless run of white space as an
        // error; the others panic.
        let counted = tiktoken_rs::bpe_for_tokenizer(self.0)
            .and_then(|vocabulary| vocabulary.count(text, &HashSet::new()))
            .map(|tokens| tokens as u64);
        counted.unwrap_or_else(|_| Estimate.count(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vocabulary_is_chosen_by_the_name() {
        for (model, tokenizer) in [
            ("gpt-4o-mini", Some(Tokenizer::O200kBase)),
            ("openai/gpt-4.1", Some(Tokenizer::O200kBase)),
            ("gpt-4-0613", Some(Tokenizer::Cl100kBase)),
            ("openai/gpt-oss-120b", Some(Tokenizer::O200kHarmony)),
            ("claude-sonnet-4-5", None),
            ("", None),
        ] {
            assert_eq!(Tiktoken::for_model(model), tokenizer.map(Tiktoken), "{model}");
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
    fn what_the_vocabulary_cannot_take_is_estimated() {
        let text = " ".repeat(1_200_000) + "x";
        assert_eq!(counter_for("gpt-4o").count(&text), Estimate.count(&text));
    }

    #[test]
    fn a_model_nobody_knows_is_estimated() {
        assert_eq!(counter_for("claude-sonnet-4-5").count("one two three"), Estimate.count("one two three"));
    }
}
