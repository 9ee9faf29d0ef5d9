//! The further choices of an answer: a reply has the first one alone, and who asked for several gets them all.

use std::collections::BTreeMap;

/// The most choices that are kept apart. Servers give 128 at most.
const MOST: usize = 1024;

/// The choices of an answer besides the first.
#[derive(Debug, Default)]
pub(super) struct FurtherChoices {
    /// How many choices were asked for; `None`: the first alone counts.
    asked: Option<u64>,
    /// Those that have begun, and whether they have ended.
    begun: BTreeMap<u64, bool>,
}

impl FurtherChoices {
    /// So many choices were asked for, and all of them count.
    pub(super) const fn ask(&mut self, choices: u64) {
        self.asked = Some(choices);
    }

    /// A piece of a choice has come. Says whether it counts.
    pub(super) fn take(&mut self, index: u64, has_ended: bool) -> bool {
        if self.asked.is_some() && self.begun.len() < MOST {
            *self.begun.entry(index).or_default() |= has_ended;
        }
        self.asked.is_some()
    }

    /// Whether one of them has begun and not ended.
    pub(super) fn is_open(&self) -> bool {
        self.begun.values().any(|has_ended| !has_ended)
    }

    /// Whether nothing more of them can come. A server may give fewer than it was asked for, which its end alone tells.
    pub(super) fn are_whole(&self) -> bool {
        let begun = u64::try_from(self.begun.len()).unwrap_or(u64::MAX);
        !self.is_open() && self.asked.is_none_or(|asked| begun.saturating_add(1) >= asked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_have_begun_and_all_that_were_asked_for_have_to_end() {
        let mut choices = FurtherChoices::default();
        assert!(!choices.take(1, false) && choices.are_whole(), "the first alone counts");
        choices.ask(3);
        assert!(!choices.are_whole() && !choices.is_open());
        assert!(choices.take(1, false) && choices.is_open());
        choices.take(1, true);
        assert!(!choices.is_open() && !choices.are_whole(), "the third is to come");
        choices.take(2, true);
        choices.take(2, false);
        assert!(choices.are_whole());
        choices.take(3, false);
        assert!(!choices.are_whole(), "one more than were asked for");
    }
}
