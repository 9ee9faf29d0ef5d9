//! Repairs a conversation so that providers accept it.

use std::collections::HashMap;

use super::{CallState, HistoryCall, HistoryResult, ResultFate, is_malformed, scan_without};
use crate::policy::{MalformedCalls, OrphanCalls};
use crate::session::{HistoryRepair, HistorySplice, InjectedResult, Message, ToolCall, object_arguments};

/// The replacements after which [`findings`](super::findings) reports no fault. Takes time in proportion to the
/// number of messages, and changes nothing but calls and results:
///
/// - A call without a result is removed, or gets one, as `orphans` says. Other calls of its message stay, and so does
///   its text; a message left with neither is removed.
/// - A result without a call and a second result are removed.
/// - A result in the wrong place is moved to its call.
/// - Of two calls of a message with one id, the second is removed.
/// - A call whose arguments are no JSON object gets an object, as [`object_arguments`] writes it; or it is removed with
///   its results, as `malformed` says.
///
/// ```
/// use unfazed::context::{findings, repair};
/// use unfazed::policy::{MalformedCalls, OrphanCalls};
/// use unfazed::session::{Message, splice};
///
/// let orphan = Message::Tool { call: "call_1".into(), tool: "look".into(), text: "12".into(), error: false, handle: None };
/// let mut messages = vec![Message::user("What does it cost?"), orphan];
/// let repair = repair(&messages, OrphanCalls::Inject, MalformedCalls::Answer);
/// splice(&mut messages, &repair.splices);
/// assert_eq!((messages.len(), repair.dropped), (1, 1));
/// assert!(findings(&messages).is_empty());
/// ```
pub fn repair(messages: &[Message], orphans: OrphanCalls, malformed: MalformedCalls) -> HistoryRepair {
    let scan = scan_without(messages, |call| malformed == MalformedCalls::Drop && is_malformed(call));
    let mut moved: HashMap<usize, Vec<&Message>> = HashMap::new();
    for result in &scan.results {
        if let ResultFate::Misplaced(to) = result.fate {
            moved.entry(to).or_default().extend(messages.get(result.at));
        }
    }
    let mut surgery = HistoryRepairer {
        calls: scan.calls.iter(),
        results: scan.results.iter(),
        orphans,
        moved,
        due: Vec::new(),
        repair: HistoryRepair::default(),
    };
    for (at, message) in messages.iter().enumerate() {
        match message {
            Message::Assistant { text, calls, .. } => {
                surgery.close(at);
                surgery.assistant(at, message, text, calls);
            }
            Message::Tool { .. } => surgery.tool(at),
            Message::System { .. } | Message::User { .. } => surgery.close(at),
        }
    }
    surgery.close(messages.len());
    surgery.repair
}

/// A repair in flight.
struct HistoryRepairer<'s, 'm> {
    /// The calls and the results not processed yet.
    calls: core::slice::Iter<'s, HistoryCall<'m>>,
    results: core::slice::Iter<'s, HistoryResult<'m>>,
    orphans: OrphanCalls,
    /// Results that belong to the message with this index.
    moved: HashMap<usize, Vec<&'m Message>>,
    /// The results to insert after those already in place.
    due: Vec<MissingResult<'m>>,
    repair: HistoryRepair,
}

/// A result to insert.
enum MissingResult<'m> {
    Moved(&'m Message),
    Unknown(&'m ToolCall),
}

impl<'m> HistoryRepairer<'_, 'm> {
    fn assistant(&mut self, at: usize, message: &Message, text: &str, calls: &'m [ToolCall]) {
        // Inserted after the results already in place, so that those need not be moved.
        self.due = self.moved.remove(&at).unwrap_or_default().into_iter().map(MissingResult::Moved).collect();
        self.repair.moved = self.repair.moved.saturating_add(self.due.len());
        let (mut kept, mut sound) = (Vec::with_capacity(calls.len()), true);
        for call in calls {
            let state = self.calls.next().map(|call| call.state);
            match (state, self.orphans) {
                // The result is inserted without a text, which the interpreter writes from the policy.
                (Some(CallState::Unanswered), OrphanCalls::Inject) => {
                    self.due.push(MissingResult::Unknown(call));
                }
                // SwarmSDK, "Orphan Tool Call Recovery": the call is removed, and its message stays if it has a text.
                (Some(CallState::Unanswered), OrphanCalls::Prune) | (Some(CallState::Duplicate), _) => {
                    self.repair.pruned.push(call.clone());
                    continue;
                }
                (Some(CallState::Malformed), _) => {
                    self.repair.malformed = self.repair.malformed.saturating_add(1);
                    continue;
                }
                _ => {}
            }
            let mut call = call.clone();
            // Anthropic, Gemini and Bedrock take arguments as an object, so other text cannot be sent.
            if is_malformed(&call) {
                self.repair.malformed = self.repair.malformed.saturating_add(1);
                call.arguments = object_arguments(&call.arguments).into_owned();
                sound = false;
            }
            kept.push(call);
        }
        if sound && kept.len() == calls.len() {
            return;
        }
        self.take_out(at);
        // Mistral, Cohere and Moonshot refuse an assistant message with neither text nor calls.
        if kept.is_empty() && text.trim().is_empty() {
            return;
        }
        let mut left = message.clone();
        if let Message::Assistant { calls, .. } = &mut left {
            *calls = kept;
        }
        self.put_in(left);
    }

    fn tool(&mut self, at: usize) {
        match self.results.next().map(|result| result.fate) {
            Some(ResultFate::Orphan | ResultFate::Duplicate) => {
                self.repair.dropped = self.repair.dropped.saturating_add(1);
                self.take_out(at);
            }
            Some(ResultFate::Misplaced(_)) => self.take_out(at),
            Some(ResultFate::InPlace) | None => {}
        }
    }

    /// Inserts the missing results at the end of a message's results.
    fn close(&mut self, at: usize) {
        let due = std::mem::take(&mut self.due);
        if !due.is_empty() {
            self.open(at);
        }
        for due in due {
            match due {
                MissingResult::Moved(message) => self.put_in(message.clone()),
                MissingResult::Unknown(ToolCall { id, name, .. }) => {
                    let splice = self.repair.splices.len().saturating_sub(1);
                    let message = self.repair.splices.last().map_or(0, |last| last.insert.len());
                    let result = InjectedResult { call: id.clone(), tool: name.clone(), splice, message };
                    self.repair.injected.push(result);
                    let (call, tool) = (id.clone(), name.clone());
                    self.put_in(Message::Tool { call, tool, text: String::new(), error: true, handle: None });
                }
            }
        }
    }

    /// Begins a replacement at this place.
    fn open(&mut self, at: usize) {
        // Adjacent changes become one splice. Places are those of the conversation before the repair.
        let end = self.repair.splices.last().map(|last| last.at.saturating_add(last.remove));
        if end != Some(at) {
            self.repair.splices.push(HistorySplice { at, remove: 0, insert: Vec::new() });
        }
    }

    fn take_out(&mut self, at: usize) {
        self.open(at);
        if let Some(last) = self.repair.splices.last_mut() {
            last.remove = last.remove.saturating_add(1);
        }
    }

    fn put_in(&mut self, message: Message) {
        if let Some(last) = self.repair.splices.last_mut() {
            last.insert.push(message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::findings;
    use super::super::shorthand::{conversation, shorthand};
    use super::*;
    use crate::session::splice;
    use proptest::prelude::*;
    use serde_json::Map;

    const BOTH: [OrphanCalls; 2] = [OrphanCalls::Prune, OrphanCalls::Inject];

    fn repaired(text: &str, orphans: OrphanCalls) -> String {
        let mut messages = conversation(text);
        let repair = repair(&messages, orphans, MalformedCalls::Answer);
        splice(&mut messages, &repair.splices);
        shorthand(&messages)
    }

    fn pruned(text: &str) -> String {
        repaired(text, OrphanCalls::Prune)
    }

    fn injected(text: &str) -> String {
        repaired(text, OrphanCalls::Inject)
    }

    #[test]
    fn a_call_without_a_result_is_taken_out_or_gets_one() {
        assert_eq!(pruned("u a:x u"), "u u");
        assert_eq!(injected("u a:x u"), "u a:x unknown:x u");
        assert_eq!(injected("u a:x"), "u a:x unknown:x");
    }

    #[test]
    fn what_a_message_says_stays() {
        assert_eq!(pruned("u s:x u"), "u s u");
    }

    #[test]
    fn a_call_that_has_a_result_stays() {
        assert_eq!(pruned("u a:x,y r:x u"), "u a:x r:x u");
        assert_eq!(injected("u a:x,y r:y u"), "u a:x,y r:y unknown:x u");
    }

    #[test]
    fn results_that_answer_nothing_are_taken_out() {
        for text in ["u r:x a", "u a:y r:y r:x a", "r:x r:x u"] {
            assert!(!pruned(text).contains("r:x"), "{text}");
        }
        assert_eq!(pruned("a:x r:x u r:x a"), "a:x r:x u a");
    }

    #[test]
    fn a_result_in_the_wrong_place_is_moved_to_its_call() {
        for orphans in BOTH {
            assert_eq!(repaired("a:x,y r:y u r:x a", orphans), "a:x,y r:y r:x u a");
            assert_eq!(repaired("a:x a:y r:y r:x", orphans), "a:x r:x a:y r:y");
        }
    }

    #[test]
    fn a_message_between_a_call_and_its_result_may_go() {
        assert_eq!(pruned("a:x a:y r:x u"), "a:x r:x u");
    }

    #[test]
    fn ids_may_be_used_again() {
        assert_eq!(pruned("a:x r:x a:x r:x a"), "a:x r:x a:x r:x a");
        assert_eq!(injected("a:x u a:x r:x a"), "a:x unknown:x u a:x r:x a");
    }

    #[test]
    fn the_second_call_of_an_id_goes_whatever_is_done_about_others() {
        assert_eq!(injected("a:x,x,y r:x r:x"), "a:x,y r:x unknown:y");
    }

    #[test]
    fn what_the_provider_wants_to_see_again_stays_with_its_message_and_goes_with_it() {
        let signed = |text: &str| Message::Assistant {
            text: text.into(),
            calls: vec![ToolCall { id: "x".into(), name: "t".into(), arguments: "{}".into() }],
            extra: Map::from_iter([("thinking".to_owned(), "…".into())]),
        };
        let left = |text| {
            repair(&[signed(text)], OrphanCalls::Prune, MalformedCalls::Answer).splices[0].insert.clone()
        };
        assert!(matches!(&left("Let me see.")[..], [Message::Assistant { extra, .. }] if extra.len() == 1));
        assert_eq!(left(" \n"), []);
    }

    /// A conversation in which the arguments of these calls are broken.
    fn broken(text: &str, ids: &[&str]) -> Vec<Message> {
        let mut messages = conversation(text);
        for message in &mut messages {
            let Message::Assistant { calls, .. } = message else { continue };
            for call in calls.iter_mut().filter(|call| ids.contains(&call.id.as_str())) {
                call.arguments = "[[,".into();
            }
        }
        messages
    }

    #[test]
    fn arguments_that_are_no_object_become_one_and_all_else_stays() {
        for orphans in BOTH {
            let mut messages = broken("u a:x,y r:x r:y a", &["y"]);
            let before = messages.clone();
            let made = repair(&messages, orphans, MalformedCalls::Answer);
            assert_eq!((made.malformed, made.pruned.len(), made.dropped), (1, 0, 0));
            splice(&mut messages, &made.splices);
            let Message::Assistant { calls, .. } = &messages[1] else { unreachable!() };
            assert_eq!((&*calls[0].arguments, &*calls[1].arguments), ("{}", r#"{"INVALID_JSON":"[[,"}"#));
            assert_eq!((&messages[..1], &messages[2..]), (&before[..1], &before[2..]));
            assert!(repair(&messages, orphans, MalformedCalls::Answer).is_empty());
        }
    }

    #[test]
    fn calls_that_cannot_be_read_are_taken_out_with_their_results_where_the_policy_says_so() {
        for (text, expected) in [
            ("u a:x,y r:x r:y a", "u a:x r:x a"),
            ("u a:y r:y u", "u u"),
            ("u s:y r:y u", "u s u"),
            ("u a:y u r:y", "u u"),
            ("u a:y", "u"),
            ("a:z r:z a:y r:y a:z r:z", "a:z r:z a:z r:z"),
        ] {
            let mut messages = broken(text, &["y"]);
            let made = repair(&messages, OrphanCalls::Inject, MalformedCalls::Drop);
            assert_eq!((made.malformed, made.pruned.len()), (1, 0), "{text}");
            splice(&mut messages, &made.splices);
            assert_eq!(shorthand(&messages), expected, "{text}");
        }
    }

    #[test]
    fn it_is_told_what_was_done() {
        let made = repair(&conversation("r:z a:x,y u r:x"), OrphanCalls::Inject, MalformedCalls::Answer);
        assert_eq!((made.dropped, made.moved, made.pruned.len()), (1, 1, 0));
        let expected = InjectedResult { call: "y".into(), tool: "t".into(), splice: 1, message: 1 };
        assert_eq!(made.injected, [expected]);
        let made = repair(&conversation("a:x u a:y u"), OrphanCalls::Prune, MalformedCalls::Answer);
        assert_eq!(made.pruned.iter().map(|call| call.id.as_str()).collect::<Vec<_>>(), ["x", "y"]);
    }

    #[test]
    fn a_long_history_takes_its_time_only_once() {
        let text = "u a:x,y r:x r:z r:x ".repeat(20_000) + "u " + &"r:y ".repeat(20_000);
        let mut messages = conversation(&text);
        assert!(messages.len() > 100_000);
        let repair = repair(&messages, OrphanCalls::Inject, MalformedCalls::Answer);
        splice(&mut messages, &repair.splices);
        assert_eq!((repair.injected.len(), repair.moved), (19_999, 1));
        assert_eq!(findings(&messages), []);
    }

    /// Everything but calls and results.
    fn said(messages: &[Message]) -> Vec<String> {
        let texts = messages.iter().filter(|message| !matches!(message, Message::Tool { .. }));
        texts.map(|message| message.text().to_owned()).filter(|text| !text.is_empty()).collect()
    }

    proptest! {
        #[test]
        fn what_is_repaired_is_accepted_and_says_the_same(
            words in proptest::collection::vec("u|a|s|[as]:[xyz](,[xyz]){0,2}|r:[xyz]|r:[xyz]", 0..16),
            inject: bool,
        ) {
            let orphans = BOTH[usize::from(inject)];
            let before = conversation(&words.join(" "));
            let made = repair(&before, orphans, MalformedCalls::Answer);
            prop_assert_eq!(made.is_empty(), findings(&before).is_empty());
            let mut after = before.clone();
            splice(&mut after, &made.splices);
            prop_assert_eq!(findings(&after), []);
            prop_assert!(repair(&after, orphans, MalformedCalls::Answer).is_empty());
            prop_assert_eq!(said(&after), said(&before));
            for result in &made.injected {
                let put_in = &made.splices[result.splice].insert[result.message];
                let at = matches!(put_in, Message::Tool { call, .. } if *call == result.call);
                prop_assert!(at, "{:?} is not {:?}", put_in, result);
            }
        }
    }
}
