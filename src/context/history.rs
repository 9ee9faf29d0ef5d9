//! Validates a conversation as providers do: every call answered, every result requested, and in order.

mod repair;
#[cfg(test)]
pub(super) mod shorthand;

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::session::{Message, ToolCall, is_object};

pub use repair::repair;

/// A fault of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryFinding {
    /// The kind of the fault.
    pub kind: FindingKind,
    /// The index of the message, from 0.
    pub at: usize,
    /// The id of the call.
    pub call: String,
    /// The name of the tool.
    pub tool: String,
}

/// The kind of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    /// A call without a result.
    Unanswered,
    /// A call with the id of another call of its message.
    DuplicateCall,
    /// A result without a call before it.
    OrphanResult,
    /// A second result of the same call.
    DuplicateResult,
    /// A result that does not directly follow the message with its call.
    MisplacedResult,
}

/// A call, and its state.
pub(super) struct HistoryCall<'a> {
    /// The index of its message.
    pub(super) at: usize,
    pub(super) id: &'a str,
    pub(super) tool: &'a str,
    pub(super) state: CallState,
}

/// The state of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallState {
    Unanswered,
    Answered,
    /// An earlier call of its message has the same id.
    Duplicate,
    /// The call is removed with its results: its arguments are no JSON object.
    Malformed,
}

/// A result, and its state.
pub(super) struct HistoryResult<'a> {
    pub(super) at: usize,
    pub(super) id: &'a str,
    pub(super) tool: &'a str,
    pub(super) fate: ResultFate,
}

/// The state of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResultFate {
    InPlace,
    /// The result answers a call of this message, but is elsewhere.
    Misplaced(usize),
    Orphan,
    Duplicate,
}

/// All calls and all results of a conversation, each in their order.
#[derive(Default)]
pub(super) struct HistoryScan<'a> {
    pub(super) calls: Vec<HistoryCall<'a>>,
    pub(super) results: Vec<HistoryResult<'a>>,
}

/// Finds the last call with an id. A result nearly always answers the last message with calls; an index of all calls
/// is built only for other results.
#[derive(Default)]
struct CallFinder<'a> {
    index: BTreeMap<&'a str, usize>,
    /// The number of indexed calls.
    indexed: usize,
}

/// The maximum number of calls of a message that are searched linearly.
const FEW: usize = 16;

impl<'a> CallFinder<'a> {
    /// The index of the last call with this id. `from`: the first call of the last message.
    fn find(&mut self, calls: &[HistoryCall<'a>], from: usize, id: &str) -> Option<usize> {
        let near = calls.get(from..).unwrap_or_default();
        // Most messages have few calls, and a linear search costs less than an index.
        if near.len() <= FEW
            && let Some(place) = near.iter().position(|call| call.id == id)
        {
            return from.checked_add(place);
        }
        for (number, call) in calls.iter().enumerate().skip(self.indexed) {
            // The second call with an id is removed, so its results belong to the first.
            if !matches!(call.state, CallState::Duplicate) {
                self.index.insert(call.id, number);
            }
        }
        self.indexed = calls.len();
        self.index.get(id).copied()
    }

    /// Whether the message whose calls begin at `from` already has a call with this id.
    fn is_twice(&mut self, calls: &[HistoryCall<'a>], from: usize, id: &str) -> bool {
        let near = calls.get(from..).unwrap_or_default();
        if near.len() <= FEW {
            return near.iter().any(|call| call.id == id);
        }
        self.find(calls, from, id).is_some_and(|number| number >= from)
    }
}

/// Determines the state of every call and result.
pub(super) fn scan<'a>(messages: impl IntoIterator<Item = &'a Message>) -> HistoryScan<'a> {
    scan_without(messages, |_| false)
}

/// The same, with some calls removed: results of these calls have no call.
pub(super) fn scan_without<'a>(
    messages: impl IntoIterator<Item = &'a Message>,
    taken_out: impl Fn(&ToolCall) -> bool,
) -> HistoryScan<'a> {
    let mut scan = HistoryScan::default();
    let mut finder = CallFinder::default();
    // `from`: the first call of the last message with calls. `open`: that message, while its results may still
    // follow.
    let (mut from, mut open) = (0, None);
    for (at, message) in messages.into_iter().enumerate() {
        match message {
            Message::Assistant { calls, .. } => {
                open = Some(at);
                if !calls.is_empty() {
                    from = scan.calls.len();
                }
                for call in calls {
                    let ToolCall { id, name, .. } = call;
                    let state = if finder.is_twice(&scan.calls, from, id) {
                        // Anthropic: "`tool_use` ids must be unique".
                        CallState::Duplicate
                    } else if taken_out(call) {
                        CallState::Malformed
                    } else {
                        CallState::Unanswered
                    };
                    scan.calls.push(HistoryCall { at, id, tool: name, state });
                }
            }
            Message::Tool { call: id, tool, .. } => {
                let found = finder.find(&scan.calls, from, id);
                let fate = match found.and_then(|number| scan.calls.get_mut(number)) {
                    // OpenAI: "messages with role 'tool' must be a response to a preceeding message with
                    // 'tool_calls'".
                    None => ResultFate::Orphan,
                    Some(call) if call.state == CallState::Malformed => ResultFate::Orphan,
                    // Anthropic: "each tool_use must have a single result".
                    Some(call) if call.state != CallState::Unanswered => ResultFate::Duplicate,
                    Some(call) => {
                        call.state = CallState::Answered;
                        // OpenAI and Anthropic require all results directly after the message with the calls.
                        if open == Some(call.at) {
                            ResultFate::InPlace
                        } else {
                            ResultFate::Misplaced(call.at)
                        }
                    }
                };
                scan.results.push(HistoryResult { at, id, tool, fate });
            }
            Message::System { .. } | Message::User { .. } => open = None,
        }
    }
    scan
}

/// The faults of the calls and results of `messages`, in order. Takes time in proportion to their number.
///
/// A result is in its place if only results are between it and the message with its call. Some providers number calls
/// from the start in every reply and so reuse ids: a result answers the last message before it that has a call with
/// its id.
pub fn findings<'a>(messages: impl IntoIterator<Item = &'a Message>) -> Vec<HistoryFinding> {
    let scan = scan(messages);
    let calls = scan.calls.iter().filter_map(|call| {
        let kind = match call.state {
            CallState::Answered | CallState::Malformed => return None,
            CallState::Unanswered => FindingKind::Unanswered,
            CallState::Duplicate => FindingKind::DuplicateCall,
        };
        Some(finding(kind, call.at, call.id, call.tool))
    });
    let results = scan.results.iter().filter_map(|result| {
        let kind = match result.fate {
            ResultFate::InPlace => return None,
            ResultFate::Misplaced(_) => FindingKind::MisplacedResult,
            ResultFate::Orphan => FindingKind::OrphanResult,
            ResultFate::Duplicate => FindingKind::DuplicateResult,
        };
        Some(finding(kind, result.at, result.id, result.tool))
    });
    let mut found: Vec<HistoryFinding> = calls.chain(results).collect();
    found.sort_by_key(|finding| (finding.at, finding.kind));
    found
}

/// The number of calls in `messages` whose arguments are no JSON object, so that they cannot be sent unchanged.
pub(super) fn malformed<'a>(messages: impl IntoIterator<Item = &'a Message>) -> u64 {
    let calls = messages.into_iter().flat_map(|message| match message {
        Message::Assistant { calls, .. } => calls.as_slice(),
        Message::System { .. } | Message::User { .. } | Message::Tool { .. } => &[],
    });
    u64::try_from(calls.filter(|call| is_malformed(call)).count()).unwrap_or(u64::MAX)
}

/// Whether the arguments of a call are no JSON object. Empty arguments count as an empty object.
fn is_malformed(call: &ToolCall) -> bool {
    !call.arguments.trim().is_empty() && !is_object(&call.arguments)
}

/// The number of faulty calls and results in `messages`.
pub(super) fn faults<'a>(messages: impl IntoIterator<Item = &'a Message>) -> u64 {
    scan(messages).faults()
}

impl HistoryScan<'_> {
    /// The number of faulty calls and results.
    pub(super) fn faults(&self) -> u64 {
        let calls = self.calls.iter().filter(|call| call.state != CallState::Answered).count();
        let results = self.results.iter().filter(|result| result.fate != ResultFate::InPlace).count();
        u64::try_from(calls.saturating_add(results)).unwrap_or(u64::MAX)
    }
}

fn finding(kind: FindingKind, at: usize, call: &str, tool: &str) -> HistoryFinding {
    HistoryFinding { kind, at, call: call.to_owned(), tool: tool.to_owned() }
}

impl fmt::Display for HistoryFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, at, call, tool } = self;
        let number = at.saturating_add(1);
        match kind {
            FindingKind::Unanswered => {
                write!(f, "message {number}: call `{call}` of tool `{tool}` has no result")
            }
            FindingKind::DuplicateCall => {
                write!(
                    f,
                    "message {number}: call `{call}` of tool `{tool}` has the id of another call of the message"
                )
            }
            FindingKind::OrphanResult => {
                write!(
                    f,
                    "message {number}: the result of tool `{tool}` answers `{call}`, which nobody called"
                )
            }
            FindingKind::DuplicateResult => {
                write!(f, "message {number}: the result of tool `{tool}` answers `{call}` a second time")
            }
            FindingKind::MisplacedResult => {
                write!(
                    f,
                    "message {number}: the result of tool `{tool}` does not stand right after its call `{call}`"
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::shorthand::conversation;
    use super::*;
    use proptest::prelude::*;

    fn found(text: &str) -> Vec<(FindingKind, usize, String)> {
        findings(&conversation(text)).into_iter().map(|f| (f.kind, f.at, f.call)).collect()
    }

    fn at(kind: FindingKind, at: usize, call: &str) -> (FindingKind, usize, String) {
        (kind, at, call.to_owned())
    }

    #[test]
    fn a_conversation_in_order_has_no_findings() {
        for text in ["", "u", "u a", "u a:x,y r:y r:x a u", "u a:x r:x a:y r:y a"] {
            assert_eq!(found(text), [], "{text}");
        }
    }

    #[test]
    fn a_call_without_a_result_is_found() {
        assert_eq!(found("u a:x,y r:x u"), [at(FindingKind::Unanswered, 1, "y")]);
        assert_eq!(found("u a:x"), [at(FindingKind::Unanswered, 1, "x")]);
    }

    #[test]
    fn a_result_without_a_call_is_found() {
        assert_eq!(found("u r:x a"), [at(FindingKind::OrphanResult, 1, "x")]);
        assert_eq!(found("a:x r:x r:y"), [at(FindingKind::OrphanResult, 2, "y")]);
    }

    #[test]
    fn a_second_result_is_found() {
        assert_eq!(found("a:x r:x r:x"), [at(FindingKind::DuplicateResult, 2, "x")]);
        assert_eq!(found("a:x r:x u r:x"), [at(FindingKind::DuplicateResult, 3, "x")]);
    }

    #[test]
    fn a_result_in_the_wrong_place_is_found_and_still_answers() {
        assert_eq!(found("a:x u r:x"), [at(FindingKind::MisplacedResult, 2, "x")]);
        assert_eq!(found("a:x a:y r:y r:x"), [at(FindingKind::MisplacedResult, 3, "x")]);
    }

    #[test]
    fn a_call_with_the_id_of_another_of_its_message_is_found() {
        let expected = [at(FindingKind::DuplicateCall, 0, "x"), at(FindingKind::DuplicateResult, 2, "x")];
        assert_eq!(found("a:x,x r:x r:x"), expected);
    }

    #[test]
    fn a_result_answers_the_last_call_of_its_id() {
        assert_eq!(found("a:x r:x a:x r:x"), []);
        assert_eq!(found("a:x a:x r:x"), [at(FindingKind::Unanswered, 0, "x")]);
        assert_eq!(found("a:x a:x r:x r:x").len(), 2);
    }

    // In a history cut at its head, an old result may come before a new call with the same id.
    #[test]
    fn a_result_never_answers_a_call_after_it() {
        let expected = [at(FindingKind::OrphanResult, 0, "x"), at(FindingKind::Unanswered, 1, "x")];
        assert_eq!(found("r:x a:x"), expected);
    }

    #[test]
    fn findings_are_readable() {
        let shown: Vec<_> = ["a:x", "a:x,x r:x", "r:x", "a:x r:x r:x", "a:x u r:x"]
            .map(|text| findings(&conversation(text)).iter().map(ToString::to_string).collect::<String>())
            .into();
        insta::assert_snapshot!(shown.join("\n"));
    }

    #[test]
    fn a_long_history_takes_its_time_only_once() {
        let ids = "x,".repeat(50_000) + "x";
        let text = format!("a:{ids} {} u {}", "r:x ".repeat(30_000), "r:x ".repeat(30_000));
        let found = findings(&conversation(&text));
        let count = |kind| found.iter().filter(|finding| finding.kind == kind).count();
        assert_eq!(count(FindingKind::DuplicateCall), 50_000);
        assert_eq!(count(FindingKind::DuplicateResult), 59_999);
    }

    /// The index of the call that a result answers, found by a simple search.
    fn asked_by(messages: &[Message], result: usize) -> Option<usize> {
        let Message::Tool { call: id, .. } = &messages[result] else { return None };
        let makes = |message: &Message| matches!(message, Message::Assistant { calls, .. } if calls.iter().any(|call| call.id == *id));
        messages[..result].iter().rposition(makes)
    }

    proptest! {
        #[test]
        fn a_result_belongs_to_the_call_that_a_slow_search_finds(
            words in proptest::collection::vec("u|a|a:[a-e](,[a-z]){0,20}|r:[a-z]|r:[a-e]", 0..30),
        ) {
            let messages = conversation(&words.join(" "));
            for result in scan(&messages).results {
                let asked = asked_by(&messages, result.at);
                match result.fate {
                    ResultFate::Orphan => prop_assert_eq!(asked, None),
                    ResultFate::Misplaced(at) => prop_assert_eq!(asked, Some(at)),
                    ResultFate::InPlace => {
                        let at = asked.unwrap();
                        let between = messages[at + 1..result.at].iter();
                        let nothing_else = between.clone().all(|message| matches!(message, Message::Tool { .. }));
                        prop_assert!(nothing_else);
                    }
                    ResultFate::Duplicate => {
                        let at = asked.unwrap();
                        let twin = |message: &Message| matches!(message, Message::Tool { call, .. } if call == result.id);
                        prop_assert!(messages[at + 1..result.at].iter().any(twin));
                    }
                }
            }
        }

        #[test]
        fn every_call_and_result_is_accounted_for(words in proptest::collection::vec("u|a|a:[xy](,[xyz])?|r:[xyz]", 0..12)) {
            let messages = conversation(&words.join(" "));
            let found = findings(&messages);
            let count = |kind| found.iter().filter(|finding| finding.kind == kind).count();
            let calls: usize = messages.iter().map(|message| match message {
                Message::Assistant { calls, .. } => calls.len(),
                _ => 0,
            }).sum();
            let results = messages.iter().filter(|message| matches!(message, Message::Tool { .. })).count();
            let answers = results - count(FindingKind::OrphanResult) - count(FindingKind::DuplicateResult);
            prop_assert_eq!(calls - count(FindingKind::Unanswered) - count(FindingKind::DuplicateCall), answers);
        }
    }
}
