//! The token count of a conversation, with each message counted once.

use core::ops::Range;

use super::counter::TokenCounter;
use super::tokens::message_tokens;
use crate::engine::TurnMeasure;
use crate::session::{HistorySplice, Message};

/// The tokens of every message of a conversation, and of the tools that go with it. It follows the conversation: what is
/// new in it is counted, the rest is known.
///
/// ```
/// use unfazed::context::{ByteEstimate, TokenLedger};
/// use unfazed::session::Message;
/// let mut ledger = TokenLedger::of(&ByteEstimate, &[Message::user("12345678")]);
/// ledger.append(&ByteEstimate, &Message::user("1234"));
/// assert_eq!(ledger.weights(), [6, 5]);
/// assert_eq!(ledger.messages(), 11);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenLedger {
    weights: Vec<u64>,
    messages: u64,
    tools: u64,
}

impl TokenLedger {
    /// The ledger of a conversation.
    pub fn of(counter: &dyn TokenCounter, messages: &[Message]) -> Self {
        let mut ledger = Self::default();
        for message in messages {
            ledger.append(counter, message);
        }
        ledger
    }

    /// The ledger of a conversation whose messages have known token counts.
    pub fn of_weights(weights: Vec<u64>) -> Self {
        let messages = weights.iter().copied().fold(0, u64::saturating_add);
        Self { weights, messages, tools: 0 }
    }

    /// Counts an appended message.
    pub fn append(&mut self, counter: &dyn TokenCounter, message: &Message) {
        let tokens = message_tokens(counter, message);
        self.messages = self.messages.saturating_add(tokens);
        self.weights.push(tokens);
    }

    /// Applies replacements of messages, as by [`splice`](crate::session::splice). Only inserted messages are
    /// counted.
    pub fn splice(&mut self, counter: &dyn TokenCounter, splices: &[HistorySplice]) {
        // From the last to the first, so that indices stay valid.
        for HistorySplice { at, remove, insert } in splices.iter().rev() {
            let from = (*at).min(self.weights.len());
            let to = from.saturating_add(*remove).min(self.weights.len());
            let put: Vec<u64> = insert.iter().map(|message| message_tokens(counter, message)).collect();
            let come = put.iter().copied().fold(0, u64::saturating_add);
            let gone = self.weights.splice(from..to, put).fold(0, u64::saturating_add);
            self.messages = self.messages.saturating_sub(gone).saturating_add(come);
        }
    }

    /// Sets the tokens of the tools.
    pub const fn set_tools(&mut self, tokens: u64) {
        self.tools = tokens;
    }

    /// The tokens of every message, in order.
    pub fn weights(&self) -> &[u64] {
        &self.weights
    }

    /// The tokens of these messages.
    pub fn sum(&self, range: Range<usize>) -> u64 {
        self.weights.get(range).unwrap_or_default().iter().copied().fold(0, u64::saturating_add)
    }

    /// The tokens of all messages.
    pub const fn messages(&self) -> u64 {
        self.messages
    }

    /// The tokens of the tools.
    pub const fn tools(&self) -> u64 {
        self.tools
    }

    /// The measure of the conversation for the interpreter, with the number of faults that providers would find.
    pub fn measure(&self, history_faults: u64) -> TurnMeasure {
        TurnMeasure {
            messages: u64::try_from(self.weights.len()).unwrap_or(u64::MAX),
            message_tokens: self.messages,
            tool_tokens: self.tools,
            history_faults,
            ..TurnMeasure::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::{AtomicU64, Ordering};

    use proptest::prelude::*;

    use super::*;
    use crate::context::ByteEstimate;
    use crate::session::splice;

    /// Counts its calls.
    #[derive(Default)]
    struct CountedCalls(AtomicU64);

    impl TokenCounter for CountedCalls {
        fn count(&self, text: &str) -> u64 {
            self.0.fetch_add(1, Ordering::Relaxed);
            ByteEstimate.count(text)
        }
    }

    fn messages(texts: &[String]) -> Vec<Message> {
        texts.iter().map(Message::user).collect()
    }

    #[test]
    fn a_message_is_counted_once() {
        let asked = CountedCalls::default();
        let mut ledger = TokenLedger::of(&asked, &messages(&vec!["one".to_owned(); 100]));
        ledger.append(&asked, &Message::user("two"));
        ledger.splice(&asked, &[HistorySplice { at: 3, remove: 90, insert: vec![Message::user("three")] }]);
        assert_eq!(asked.0.load(Ordering::Relaxed), 102);
        assert_eq!(ledger.weights().len(), 12);
    }

    #[test]
    fn a_splice_beyond_the_end_takes_what_is_there() {
        let mut ledger = TokenLedger::of(&ByteEstimate, &messages(&["a".to_owned()]));
        ledger.splice(&ByteEstimate, &[HistorySplice { at: 9, remove: usize::MAX, insert: vec![] }]);
        ledger.splice(&ByteEstimate, &[HistorySplice { at: 0, remove: usize::MAX, insert: vec![] }]);
        assert_eq!(ledger, TokenLedger::default());
    }

    proptest! {
        #[test]
        fn whichever_way_a_conversation_came_about_its_ledger_is_the_same(
            before in prop::collection::vec(".{0,20}", 0..12),
            cuts in prop::collection::vec((0usize..4, 0usize..3, prop::collection::vec(".{0,9}", 0..3)), 0..4),
            after in prop::collection::vec(".{0,20}", 0..4),
        ) {
            let mut conversation = messages(&before);
            let mut ledger = TokenLedger::of(&ByteEstimate, &conversation);
            let (mut splices, mut at) = (Vec::new(), 0);
            for (gap, remove, insert) in cuts {
                let from = at + gap;
                if from + remove > conversation.len() {
                    break;
                }
                splices.push(HistorySplice { at: from, remove, insert: messages(&insert) });
                at = from + remove;
            }
            splice(&mut conversation, &splices);
            ledger.splice(&ByteEstimate, &splices);
            for text in &after {
                conversation.push(Message::user(text));
                ledger.append(&ByteEstimate, &Message::user(text));
            }
            prop_assert_eq!(&ledger, &TokenLedger::of(&ByteEstimate, &conversation));
            prop_assert_eq!(ledger.messages(), ledger.sum(0..conversation.len()));
        }
    }
}
