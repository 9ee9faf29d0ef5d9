//! Remembers the valid start of a conversation, so that each turn only checks new messages.

use super::history::{findings, malformed};
use crate::session::{HistorySplice, Message};

/// The start of a conversation that was found valid. It follows the conversation, like a
/// [`TokenLedger`](super::TokenLedger).
///
/// ```
/// use unfazed::context::CheckedHistory;
/// use unfazed::session::Message;
/// let mut checked = CheckedHistory::default();
/// assert_eq!(checked.faults(&[Message::user("Hello.")], false), 0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckedHistory {
    sound: usize,
    /// Whether malformed calls counted as faults.
    drops: bool,
}

impl CheckedHistory {
    /// The number of [`findings`] in a conversation to which messages were appended since the last check. After a
    /// valid start only the new messages are checked: every call before them has its result, so a result among them
    /// that answers none of their own calls is one finding in any case.
    ///
    /// Calls whose arguments are no JSON object are sent with replaced arguments. If the policy `drops` them, each
    /// counts.
    pub fn faults(&mut self, messages: &[Message], drops: bool) -> u64 {
        // Under other rules other calls count, so all messages are checked again.
        if self.drops != drops {
            *self = Self { drops, ..Self::default() };
        }
        // A conversation shorter than before is another one.
        let new = messages.get(self.sound..).unwrap_or(messages);
        let found = history_faults(new, drops);
        if found == 0 {
            self.sound = messages.len();
        }
        found
    }

    /// Handles replaced messages. If one of them is in the valid start, everything is checked again, because a call
    /// and its results may be on both sides of the replacement.
    pub fn spliced(&mut self, splices: &[HistorySplice]) {
        if splices.iter().any(|splice| splice.at < self.sound) {
            self.sound = 0;
        }
    }
}

/// The number of [`findings`] in a conversation, wherever its messages are; if the policy `drops` them, with the calls whose
/// arguments are no JSON object.
pub fn history_faults<'a, M>(messages: M, drops: bool) -> u64
where
    M: IntoIterator<Item = &'a Message> + Clone,
{
    let malformed = if drops { malformed(messages.clone()) } else { 0 };
    u64::try_from(findings(messages).len()).unwrap_or(u64::MAX).saturating_add(malformed)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::history::shorthand::conversation;
    use super::*;
    use crate::session::splice;

    #[test]
    fn a_piece_that_is_replaced_is_looked_at_again() {
        let mut messages = conversation("u a:x r:x u");
        let mut checked = CheckedHistory::default();
        assert_eq!(checked.faults(&messages, false), 0);
        let splices = [HistorySplice { at: 2, remove: 1, insert: vec![] }];
        splice(&mut messages, &splices);
        checked.spliced(&splices);
        assert_eq!(checked.faults(&messages, false), 1);
    }

    proptest! {
        #[test]
        fn a_conversation_that_grows_has_the_findings_it_has_as_a_whole(
            words in prop::collection::vec("u|a|a:[xy](,[xyz])?|r:[xyz]", 0..20),
            turns in prop::collection::vec(0usize..4, 0..20),
        ) {
            let all = conversation(&words.join(" "));
            let (mut checked, mut end) = (CheckedHistory::default(), 0);
            for more in turns {
                end = (end + more).min(all.len());
                let now = &all[..end];
                prop_assert_eq!(checked.faults(now, false), findings(now).len() as u64);
            }
        }
    }
}
