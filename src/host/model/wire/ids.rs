//! Ids of tool calls: each call of a conversation has one of its own, whatever its provider sent, in a form that the
//! server takes.

use std::collections::HashSet;

use xxhash_rust::xxh3::Xxh3Default;

use crate::session::Message;

/// The digits that stand for an id that cannot be sent.
const DIGITS: [u8; 62] = *b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// How many of them: two ids in 10^16 stand for the same ones, and that is looked for.
const DIGEST: usize = 9;

/// The ids that a server takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum IdForm {
    /// Whatever it is, unless it is empty.
    #[default]
    Any,
    /// ASCII letters, digits and these, and at most so many.
    Word { also: &'static str, most: usize },
    /// Nine ASCII letters or digits: Mistral's template raises on any other id.
    Nine,
}

impl IdForm {
    /// What Anthropic, Bedrock and `OpenAI`'s Responses take.
    // `^[a-zA-Z0-9_-]+$` at Anthropic; 64 characters at Bedrock, and for `call_id` at OpenAI (openai/codex#14355).
    pub(super) const WORD: Self = Self::Word { also: "_-", most: 64 };

    /// What all take that say what they take, but for Mistral.
    #[cfg(feature = "serve")]
    pub(in crate::host::model) const SHORT: Self = Self::Word { also: "_-", most: 40 };

    /// Whether an id is one that can be sent.
    pub(in crate::host::model) fn takes(self, id: &str) -> bool {
        match self {
            Self::Any => !id.trim().is_empty(),
            Self::Word { also, most } => {
                let allowed = |c: char| c.is_ascii_alphanumeric() || also.contains(c);
                !id.is_empty() && id.len() <= most && id.chars().all(allowed)
            }
            Self::Nine => id.len() == DIGEST && id.bytes().all(|byte| byte.is_ascii_alphanumeric()),
        }
    }

    /// The id that is sent in the place of another one: the same for the same id in every turn. `number`: how many of
    /// these were taken.
    pub(in crate::host::model) fn instead(self, id: &str, number: u64) -> String {
        let mut hasher = Xxh3Default::new();
        hasher.update(id.as_bytes());
        hasher.update(&number.to_le_bytes());
        let mut rest = hasher.digest();
        let mut digit = || {
            let digit = usize::try_from(rest % 62).unwrap_or_default();
            rest /= 62;
            DIGITS.get(digit).copied().map_or('0', char::from)
        };
        // A digest and not the beginning of the id: two ids may begin alike, and results would answer the wrong
        // call.
        let digest: String = (0..DIGEST).map(|_| digit()).collect();
        let (also, most) = match self {
            Self::Nine => return digest,
            Self::Any => ("_-", 40),
            Self::Word { also, most } => (also, most),
        };
        // Readable: what can be sent of it, and then the digest.
        let readable = |c: char| if c.is_ascii_alphanumeric() || also.contains(c) { c } else { '_' };
        let kept: String = id.trim().chars().map(readable).take(most.saturating_sub(DIGEST + 1)).collect();
        if kept.is_empty() { format!("call_{digest}") } else { format!("{kept}_{digest}") }
    }
}

/// The ids that are taken.
pub(super) struct CallIds(HashSet<String>);

impl CallIds {
    /// Those of a conversation.
    pub(super) fn of(conversation: &[Message]) -> Self {
        let calls = conversation.iter().filter_map(|message| match message {
            Message::Assistant { calls, .. } => Some(calls),
            Message::System { .. } | Message::User { .. } | Message::Tool { .. } => None,
        });
        Self(calls.flatten().map(|call| call.id.clone()).collect())
    }

    /// The id of the next call: what was sent for it, unless that is nothing or taken.
    pub(super) fn next(&mut self, sent: Option<String>) -> String {
        let id = sent.filter(|id| !id.is_empty() && !self.0.contains(id)).unwrap_or_else(|| self.free());
        self.0.insert(id.clone());
        id
    }

    /// The same conversation always gives the same id.
    fn free(&self) -> String {
        let mut number = self.0.len();
        loop {
            number += 1;
            let id = format!("call_{number}");
            if !self.0.contains(&id) {
                return id;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const WORD: IdForm = IdForm::Word { also: "_-", most: 40 };

    #[test]
    fn what_is_sent_instead_of_an_id_is_one_that_is_taken_and_says_which_it_was() {
        assert!(WORD.instead("functions.look:0", 0).starts_with("functions_look_0_"));
        assert!(WORD.instead("", 0).starts_with("call_"));
        assert_eq!(WORD.instead(&"x".repeat(2000), 0).len(), 40);
    }

    proptest! {
        #[test]
        fn an_id_in_the_place_of_another_has_the_form_and_stays_the_same(id in "\\PC{0,80}", number in 0u64..3) {
            for form in [IdForm::Any, WORD, IdForm::Nine] {
                let instead = form.instead(&id, number);
                prop_assert!(form.takes(&instead), "{instead}");
                prop_assert_eq!(&instead, &form.instead(&id, number));
                prop_assert_ne!(&instead, &form.instead(&id, number + 1));
            }
        }
    }
}
