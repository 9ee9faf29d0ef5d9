//! Ids of tool calls: each call of a conversation has one of its own, whatever its provider sent.

use std::collections::HashSet;

use crate::session::Message;

/// The ids that are taken.
pub(super) struct Ids(HashSet<String>);

impl Ids {
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
