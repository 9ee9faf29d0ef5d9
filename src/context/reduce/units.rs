//! Units of a conversation that stay together: a message with calls, and the results of these.

use core::ops::Range;

use crate::context::history::{HistoryScan, ResultFate};
use crate::session::Message;

/// The units of a conversation, in order. Together they are the whole conversation.
pub(super) fn units(messages: &[Message], scan: HistoryScan<'_>) -> Vec<Range<usize>> {
    let mut ends: Vec<usize> = (1..=messages.len()).collect();
    let mut caller = None;
    let mut results = scan.results.into_iter();
    for (at, message) in messages.iter().enumerate() {
        match message {
            Message::Assistant { .. } => caller = Some(at),
            Message::Tool { .. } => {
                let from = match results.next().map(|result| result.fate) {
                    Some(ResultFate::Misplaced(from)) => Some(from),
                    // A second result belongs beside the first.
                    Some(ResultFate::InPlace | ResultFate::Duplicate) => caller,
                    Some(ResultFate::Orphan) | None => None,
                };
                if let Some(end) = from.and_then(|from| ends.get_mut(from)) {
                    *end = (*end).max(at.saturating_add(1));
                }
            }
            Message::System { .. } | Message::User { .. } => caller = None,
        }
    }
    let mut units: Vec<Range<usize>> = Vec::new();
    let mut open: Option<Range<usize>> = None;
    for (at, end) in ends.into_iter().enumerate() {
        match &mut open {
            // A misplaced result joins everything between it and its call into one unit.
            Some(unit) if at < unit.end => unit.end = unit.end.max(end),
            _ => units.extend(open.replace(at..end)),
        }
    }
    units.extend(open);
    units
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::history::scan;
    use crate::context::history::shorthand::conversation;

    fn found(text: &str) -> Vec<Range<usize>> {
        let messages = conversation(text);
        units(&messages, scan(&messages))
    }

    #[test]
    fn a_call_stays_with_its_results() {
        assert_eq!(found("u a:x,y r:x r:y a u"), [0..1, 1..4, 4..5, 5..6]);
    }

    #[test]
    fn what_stands_between_a_call_and_its_result_stays_with_them() {
        assert_eq!(found("a:x u a:y r:y r:x u"), [0..5, 5..6]);
    }

    #[test]
    fn what_belongs_to_nothing_stands_alone() {
        assert_eq!(found("r:x a:y u r:z"), [0..1, 1..2, 2..3, 3..4]);
        assert!(found("").is_empty());
    }
}
