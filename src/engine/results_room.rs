//! The tokens that the results of one reply share.

use serde::{Deserialize, Serialize};

use crate::policy::{SizeUnit, TextSize, estimated_tokens};
use crate::session::Message;

/// The minimum size of a cut result, enough for the notice.
const LEAST: u64 = 32;

/// The tokens left for results. Every waiting call has an equal share; the part that a result does not use is
/// available to later ones. Results are taken in the order of the calls, so shares do not depend on which call ends
/// first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RoomForResults {
    /// The estimated tokens left.
    pub(super) left: u64,
    /// The number of calls without a result.
    pub(super) calls: u64,
}

impl RoomForResults {
    /// `left` tokens for the results of `calls` calls.
    pub(super) fn of(left: u64, calls: usize) -> Self {
        Self { left, calls: u64::try_from(calls).unwrap_or(u64::MAX) }
    }

    /// The maximum size of the next result's text.
    pub(super) fn share(self) -> TextSize {
        // An equal share of the rest: the unused part of a small result is available to later ones.
        let each = self.left.checked_div(self.calls.max(1)).unwrap_or(self.left);
        // A message costs tokens beyond its text.
        let besides = weight(&Message::user(""));
        TextSize { count: each.saturating_sub(besides).max(LEAST), unit: SizeUnit::Tokens }
    }

    /// Subtracts the result of one more call.
    pub(super) fn take(&mut self, result: &Message) {
        self.left = self.left.saturating_sub(weight(result));
        self.calls = self.calls.saturating_sub(1);
    }
}

/// The estimated tokens of a message.
pub(super) fn weight(message: &Message) -> u64 {
    message.tokens(&estimated_tokens)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn result(text: String) -> Message {
        Message::Tool { call: "c".into(), tool: "look".into(), text, error: false, handle: None }
    }

    #[test]
    fn each_call_has_an_equal_part_and_what_one_leaves_is_for_the_others() {
        let mut room = RoomForResults::of(400, 4);
        assert_eq!(room.share().count, 96);
        room.take(&result("x".repeat(4 * 36)));
        assert_eq!((room.left, room.share().count), (360, 116));
    }

    #[test]
    fn where_nothing_is_left_there_is_room_for_a_line() {
        assert_eq!(RoomForResults::of(0, 3).share().count, LEAST);
        assert_eq!(RoomForResults::of(0, 0).share().count, LEAST);
    }

    proptest! {
        #[test]
        fn results_within_their_shares_never_have_more_than_the_room_together(
            room in 1000_u64..100_000, wanted in prop::collection::vec(0_u64..50_000, 1..25),
        ) {
            let mut shared = RoomForResults::of(room, wanted.len());
            let mut all = 0;
            for tokens in wanted {
                let shown = tokens.min(shared.share().count);
                let shown = result("x".repeat(usize::try_from(shown * 4).unwrap()));
                all += weight(&shown);
                shared.take(&shown);
            }
            prop_assert!(all <= room, "{all} of {room}");
        }
    }
}
