//! Whether a provider would take a conversation: every call answered, every answer called for, in its place.

use std::collections::HashMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::session::Message;

/// One thing that is wrong with a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// What it is.
    pub kind: FindingKind,
    /// The message it is found in, from 0.
    pub at: usize,
    /// The id of the call.
    pub call: String,
    /// The name of the tool.
    pub tool: String,
}

/// What is wrong with a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    /// A call that no result answers.
    Unanswered,
    /// A call with the id of an earlier call.
    DuplicateCall,
    /// A result that no call asked for.
    OrphanResult,
    /// A second result of the same call.
    DuplicateResult,
    /// A result that answers a call but does not stand right after the message that made it.
    MisplacedResult,
}

/// A call on the way through the conversation.
struct Call<'a> {
    at: usize,
    id: &'a str,
    tool: &'a str,
    answered: bool,
}

/// A result that does not stand right after its call.
struct Stray<'a> {
    at: usize,
    id: &'a str,
    tool: &'a str,
}

/// Everything that is wrong with the calls and results of `messages`, in their order. Takes time in proportion
/// to their number.
///
/// A result is in its place if only results stand between it and the message that made its call. Of calls that
/// share an id, the one a result stands right after is the one it answers.
pub fn findings(messages: &[Message]) -> Vec<Finding> {
    let mut calls: Vec<Call<'_>> = Vec::new();
    let mut strays: Vec<Stray<'_>> = Vec::new();
    let mut found = Vec::new();
    // The calls of each id; and of those, the ones of the last message that made any and still wait.
    let mut by_id: HashMap<&str, Vec<usize>> = HashMap::new();
    let mut open: HashMap<&str, Vec<usize>> = HashMap::new();

    for (at, message) in messages.iter().enumerate() {
        match message {
            Message::Assistant { calls: made, .. } => {
                open.clear();
                for call in made {
                    let index = calls.len();
                    let same = by_id.entry(&call.id).or_default();
                    if !same.is_empty() {
                        found.push(finding(FindingKind::DuplicateCall, at, &call.id, &call.name));
                    }
                    same.push(index);
                    open.entry(&call.id).or_default().push(index);
                    calls.push(Call { at, id: &call.id, tool: &call.name, answered: false });
                }
            }
            Message::Tool { call, tool, .. } => match open.get_mut(call.as_str()) {
                Some(waiting) if waiting.is_empty() => {
                    found.push(finding(FindingKind::DuplicateResult, at, call, tool));
                }
                Some(waiting) => {
                    if let Some(call) = waiting.pop().and_then(|index| calls.get_mut(index)) {
                        call.answered = true;
                    }
                }
                None => strays.push(Stray { at, id: call, tool }),
            },
            Message::System { .. } | Message::User { .. } => open.clear(),
        }
    }
    place(&strays, &mut calls, &mut by_id, &mut found);
    for call in calls.iter().filter(|call| !call.answered) {
        found.push(finding(FindingKind::Unanswered, call.at, call.id, call.tool));
    }
    found.sort_by_key(|finding| (finding.at, finding.kind));
    found
}

/// Finds the call each stray result belongs to, if there is one that nothing else answers.
fn place<'a>(
    strays: &[Stray<'a>],
    calls: &mut [Call<'a>],
    by_id: &mut HashMap<&'a str, Vec<usize>>,
    found: &mut Vec<Finding>,
) {
    for same in by_id.values_mut() {
        same.reverse();
    }
    for stray in strays {
        let kind = match by_id.get_mut(stray.id) {
            None => FindingKind::OrphanResult,
            Some(same) => loop {
                // Each call is looked at once: what is answered is dropped for good.
                let Some(call) = same.pop().and_then(|index| calls.get_mut(index)) else {
                    break FindingKind::DuplicateResult;
                };
                if !call.answered {
                    call.answered = true;
                    break FindingKind::MisplacedResult;
                }
            },
        };
        found.push(finding(kind, stray.at, stray.id, stray.tool));
    }
}

fn finding(kind: FindingKind, at: usize, call: &str, tool: &str) -> Finding {
    Finding { kind, at, call: call.to_owned(), tool: tool.to_owned() }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, at, call, tool } = self;
        let number = at.saturating_add(1);
        match kind {
            FindingKind::Unanswered => {
                write!(f, "message {number}: call `{call}` of tool `{tool}` has no result")
            }
            FindingKind::DuplicateCall => {
                write!(f, "message {number}: call `{call}` of tool `{tool}` has the id of an earlier call")
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
    use super::*;
    use crate::session::ToolCall;
    use proptest::prelude::*;

    /// A conversation in shorthand: `u` user, `a:x,y` assistant calling x and y, `r:x` result of x.
    fn conversation(text: &str) -> Vec<Message> {
        let word = |word: &str| match word.split_once(':') {
            Some(("a", ids)) => assistant(ids.split(',').map(str::to_owned)),
            Some(("r", id)) => result(id),
            None if word == "a" => assistant([]),
            None if word == "u" => Message::user("hi"),
            _ => panic!("what is {word}?"),
        };
        text.split_whitespace().map(word).collect()
    }

    fn assistant(ids: impl IntoIterator<Item = String>) -> Message {
        let call = |id| ToolCall { id, name: "t".into(), arguments: "{}".into() };
        Message::Assistant {
            text: String::new(),
            calls: ids.into_iter().map(call).collect(),
            extra: serde_json::Map::new(),
        }
    }

    fn result(id: &str) -> Message {
        Message::Tool { call: id.to_owned(), tool: "t".into(), text: String::new(), error: false }
    }

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
        assert_eq!(found("r:x a:x"), [at(FindingKind::MisplacedResult, 0, "x")]);
        assert_eq!(found("a:x a:y r:y r:x"), [at(FindingKind::MisplacedResult, 3, "x")]);
    }

    #[test]
    fn a_call_with_the_id_of_another_is_found() {
        assert_eq!(found("a:x r:x a:x r:x"), [at(FindingKind::DuplicateCall, 2, "x")]);
        assert_eq!(found("a:x,x r:x r:x"), [at(FindingKind::DuplicateCall, 0, "x")]);
    }

    #[test]
    fn a_result_answers_the_call_it_stands_after() {
        let expected = [at(FindingKind::Unanswered, 0, "x"), at(FindingKind::DuplicateCall, 1, "x")];
        assert_eq!(found("a:x a:x r:x"), expected);
    }

    #[test]
    fn findings_are_readable() {
        let shown: Vec<_> = ["a:x", "a:x,x r:x r:x", "r:x", "a:x r:x r:x", "a:x u r:x"]
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
        assert_eq!(count(FindingKind::MisplacedResult), 20_001);
        assert_eq!(count(FindingKind::DuplicateResult), 9_999);
    }

    proptest! {
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
            prop_assert_eq!(calls - count(FindingKind::Unanswered), answers);
        }
    }
}
