//! How much of a conversation was found to be in order, so that a turn costs what is new in it.

use super::history::findings;
use crate::session::{Message, Splice};

/// The beginning of a conversation in which nothing was wrong. It follows the conversation, as a
/// [`Ledger`](super::Ledger) does.
///
/// ```
/// use unfazed::context::Checked;
/// use unfazed::session::Message;
/// let mut checked = Checked::default();
/// assert_eq!(checked.faults(&[Message::user("Hello.")]), 0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    sound: usize,
}

impl Checked {
    /// How many [`findings`] a conversation has that is the one before with messages added at its end. Where everything
    /// was in order before, only those are looked at: every call before them has its result, so a result among them that
    /// answers none of their own calls is one finding, whatever came before.
    pub fn faults(&mut self, messages: &[Message]) -> u64 {
        let found = match messages.get(self.sound..) {
            Some(new) => findings(new).len(),
            // It is another conversation.
            None => findings(messages).len(),
        };
        if found == 0 {
            self.sound = messages.len();
        }
        u64::try_from(found).unwrap_or(u64::MAX)
    }

    /// Pieces of the conversation were replaced. What stands behind the first of them is looked at again, and all that
    /// stands before it, for a call and its results may stand on both sides.
    pub fn spliced(&mut self, splices: &[Splice]) {
        if splices.iter().any(|splice| splice.at < self.sound) {
            self.sound = 0;
        }
    }
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
        let mut checked = Checked::default();
        assert_eq!(checked.faults(&messages), 0);
        let splices = [Splice { at: 2, remove: 1, insert: vec![] }];
        splice(&mut messages, &splices);
        checked.spliced(&splices);
        assert_eq!(checked.faults(&messages), 1);
    }

    proptest! {
        #[test]
        fn a_conversation_that_grows_has_the_findings_it_has_as_a_whole(
            words in prop::collection::vec("u|a|a:[xy](,[xyz])?|r:[xyz]", 0..20),
            turns in prop::collection::vec(0usize..4, 0..20),
        ) {
            let all = conversation(&words.join(" "));
            let (mut checked, mut end) = (Checked::default(), 0);
            for more in turns {
                end = (end + more).min(all.len());
                let now = &all[..end];
                prop_assert_eq!(checked.faults(now), findings(now).len() as u64);
            }
        }
    }
}
