//! A repair of the conversation: removed and inserted messages.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::message::{Message, ToolCall};

/// One piece of a conversation that is replaced by another. Several of them are in the order of their places, and do
/// not overlap; all places are those before the first is made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HistorySplice {
    /// The place of the first message that is taken out, from 0; without any, the place before which is put in.
    /// Example: `3`
    pub at: usize,
    /// How many messages are taken out.
    /// Example: `1`
    pub remove: usize,
    /// What is put in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub insert: Vec<Message>,
}

/// What it takes to make a conversation one that providers accept, and what that does.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HistoryRepair {
    /// The replacements.
    pub splices: Vec<HistorySplice>,
    /// The calls that are taken out, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pruned: Vec<ToolCall>,
    /// The results that are put in, in the order of their calls. Their texts are still to be written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub injected: Vec<InjectedResult>,
    /// How many results are taken out: those that answer no call, and second ones.
    /// Example: `1`
    #[serde(default)]
    pub dropped: usize,
    /// How many results are moved to their call.
    /// Example: `1`
    #[serde(default)]
    pub moved: usize,
    /// How many calls have arguments that are no JSON object: they get some that are, or are taken out.
    /// Example: `1`
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    pub malformed: usize,
}

/// A result that is put in for a call that has none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InjectedResult {
    /// The id of the call.
    /// Example: `call_1`
    pub call: String,
    /// The name of the tool.
    /// Example: `lookup_price`
    pub tool: String,
    /// Which of the splices it is in, from 0.
    /// Example: `0`
    pub splice: usize,
    /// Which of the messages of that splice it is, from 0.
    /// Example: `0`
    pub message: usize,
}

impl HistoryRepair {
    /// Whether no repair is needed.
    pub const fn is_empty(&self) -> bool {
        self.splices.is_empty()
    }

    /// Writes the texts of the inserted results.
    pub fn write(&mut self, text: &mut dyn FnMut(&InjectedResult) -> String) {
        for result in &self.injected {
            let splice = self.splices.get_mut(result.splice);
            let message = splice.and_then(|splice| splice.insert.get_mut(result.message));
            if let Some(Message::Tool { text: empty, .. }) = message {
                *empty = text(result);
            }
        }
    }
}

/// Applies replacements to a conversation. Places beyond its end are skipped.
pub fn splice<M: From<Message>>(messages: &mut Vec<M>, splices: &[HistorySplice]) {
    let mut rest = std::mem::take(messages).into_iter();
    let mut at = 0_usize;
    // All places refer to the conversation before the change, so one pass makes every replacement.
    for HistorySplice { at: place, remove, insert } in splices {
        messages.extend(rest.by_ref().take(place.saturating_sub(at)));
        rest.by_ref().take(*remove).for_each(drop);
        messages.extend(insert.iter().cloned().map(M::from));
        // Places from a foreign log may overlap; removed messages are skipped.
        at = at.max(*place).saturating_add(*remove);
    }
    messages.extend(rest);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(splices: &[(usize, usize, &[&str])]) -> String {
        let mut messages: Vec<_> = ["a", "b", "c", "d"].map(Message::user).into();
        let insert = |texts: &[&str]| texts.iter().copied().map(Message::user).collect();
        let made = splices.iter().map(|(at, remove, texts)| HistorySplice {
            at: *at,
            remove: *remove,
            insert: insert(texts),
        });
        splice(&mut messages, &made.collect::<Vec<_>>());
        messages.iter().map(Message::text).collect()
    }

    #[test]
    fn places_are_those_before_the_first_replacement() {
        assert_eq!(texts(&[(0, 1, &[]), (2, 1, &["x", "y"]), (4, 0, &["z"])]), "bxydz");
        assert_eq!(texts(&[(0, 0, &["x"]), (0, 4, &[])]), "x");
        assert_eq!(texts(&[]), "abcd");
    }

    #[test]
    fn places_that_are_not_there_do_no_harm() {
        assert_eq!(texts(&[(9, 9, &["x"])]), "abcdx");
        assert_eq!(texts(&[(2, usize::MAX, &[]), (0, 0, &["x"])]), "abx");
    }

    #[test]
    fn only_results_that_were_put_in_get_a_text() {
        let tool = |text: &str| Message::Tool {
            call: "x".into(),
            tool: "look".into(),
            text: text.into(),
            error: true,
            handle: None,
        };
        let mut repair = HistoryRepair {
            splices: vec![HistorySplice { at: 0, remove: 0, insert: vec![tool(""), tool("")] }],
            injected: vec![InjectedResult { call: "x".into(), tool: "look".into(), splice: 0, message: 1 }],
            ..HistoryRepair::default()
        };
        repair.write(&mut |result| format!("{} is unknown", result.tool));
        assert_eq!(repair.splices[0].insert, [tool(""), tool("look is unknown")]);
    }
}
