//! Turns that the server pauses between the steps of its own tools: sent back as they came, they are continued (Anthropic, "Handling
//! stop reasons").

use std::borrow::Cow;

use serde_json::{Value, json};

use crate::engine::{Failure, FinishReason, ModelReply};
use crate::host::model::wire::answer_fields::join;
use crate::host::model::wire::extras::{ISSUER, ITEMS, KEPT};
use crate::host::model::wire::finish::not_whole;
use crate::host::model::wire::pieces::LENGTH;
use crate::session::Message;

/// The reason of a turn that was paused.
pub(super) const PAUSE: &str = "pause_turn";
/// The most pieces of one turn: each is paid for, with all before it.
const MOST: usize = 16;

/// The pieces of a turn that have come.
#[derive(Debug, Default)]
pub(crate) struct PausedTurn(Vec<ModelReply>);

impl PausedTurn {
    /// The conversation, with the pieces behind it.
    pub(crate) fn behind<'m>(&self, conversation: &'m [Message]) -> Cow<'m, [Message]> {
        if self.0.is_empty() {
            return Cow::Borrowed(conversation);
        }
        let said = |reply: &ModelReply| Message::Assistant {
            text: reply.text.clone(),
            calls: Vec::new(),
            extra: reply.extra.clone(),
        };
        Cow::Owned(conversation.iter().cloned().chain(self.0.iter().map(said)).collect())
    }

    /// The whole turn, if this reply is its last piece.
    ///
    /// # Errors
    /// The turn was paused too often.
    pub(crate) fn take(&mut self, reply: ModelReply) -> Result<Option<ModelReply>, Failure> {
        let is_paused = matches!(&reply.finish, FinishReason::Other(reason) if reason == PAUSE);
        if !is_paused {
            return Ok(Some(std::mem::take(&mut self.0).into_iter().rev().fold(reply, joined)));
        }
        if self.0.len() >= MOST {
            return Err(not_whole(PAUSE, PAUSE));
        }
        self.0.push(reply);
        Ok(None)
    }
}

/// A turn of which `later` is all that follows `earlier`.
fn joined(later: ModelReply, earlier: ModelReply) -> ModelReply {
    let issuer = [&later, &earlier].into_iter().find_map(|reply| reply.extra.get(KEPT)?.get(ISSUER).cloned());
    let items: Vec<Value> = [&earlier, &later].into_iter().flat_map(items).collect();
    let mut extra = earlier.extra;
    join(&mut extra, later.extra, false, 0);
    if let Some(issuer) = issuer {
        extra.insert(KEPT.to_owned(), json!({ ISSUER: issuer, ITEMS: items }));
    }
    let usage = match (earlier.usage, later.usage) {
        (Some(first), Some(second)) => Some(first.plus(second)),
        (first, second) => first.or(second),
    };
    ModelReply {
        text: earlier.text + &later.text,
        calls: [earlier.calls, later.calls].concat(),
        notes: [earlier.notes, later.notes].concat(),
        usage,
        extra,
        ..later
    }
}

/// The places of what a reply has, kept or not.
fn items(reply: &ModelReply) -> Vec<Value> {
    if let Some(Value::Array(items)) = reply.extra.get(KEPT).and_then(|kept| kept.get(ITEMS)) {
        return items.clone();
    }
    let text = json!({"type": "text", LENGTH: reply.text.chars().count()});
    let calls = reply.calls.iter().map(|proposal| json!({"type": "tool_use", "id": proposal.call.id}));
    Some(text).filter(|_| !reply.text.is_empty()).into_iter().chain(calls).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::model::wire::extras::{ANSWER_FIELDS, FIELDS};
    use crate::session::{ToolCall, Usage};

    fn piece(text: &str, kept: Option<Value>, finish: FinishReason) -> ModelReply {
        let extra = kept.map(|items| (KEPT.to_owned(), json!({ ISSUER: "here", ITEMS: items })));
        let usage = Some(Usage { input: 5, output: 2, ..Usage::default() });
        ModelReply {
            text: text.into(),
            extra: extra.into_iter().collect(),
            finish,
            usage,
            ..ModelReply::default()
        }
    }

    fn paused() -> FinishReason {
        FinishReason::Other(PAUSE.into())
    }

    #[test]
    fn a_paused_turn_goes_back_and_is_one_reply_in_the_end() {
        let search = json!({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}});
        let mut turn = PausedTurn::default();
        let conversation = [Message::user("go")];
        assert!(matches!(turn.behind(&conversation), Cow::Borrowed(_)));
        let first = piece("Let me see. ", Some(json!([{"type": "text", "chars": 12}, search])), paused());
        assert_eq!(turn.take(first), Ok(None));
        let Message::Assistant { text, extra, .. } = &turn.behind(&conversation)[1] else { unreachable!() };
        assert_eq!((text.as_str(), &extra[KEPT][ITEMS][1]), ("Let me see. ", &search));
        let call = ToolCall { id: "a".into(), name: "look".into(), arguments: "{}".into() };
        let last = piece("Found.", None, FinishReason::ToolCalls);
        let whole = turn.take(ModelReply { calls: vec![call.into()], ..last }).unwrap().unwrap();
        assert_eq!((whole.text.as_str(), whole.calls.len()), ("Let me see. Found.", 1));
        assert_eq!(whole.finish, FinishReason::ToolCalls);
        assert_eq!(whole.usage.unwrap(), Usage { input: 10, output: 4, ..Usage::default() });
        let places = json!([
            {"type": "text", "chars": 12}, search, {"type": "text", "chars": 6}, {"type": "tool_use", "id": "a"},
        ]);
        assert_eq!(whole.extra[KEPT], json!({ ISSUER: "here", ITEMS: places }));
    }

    #[test]
    fn what_each_piece_says_beside_the_message_is_said_of_the_turn() {
        let saying = |fields: Value, finish: FinishReason| {
            let said = json!({ ISSUER: "here", FIELDS: fields });
            let extra = [(ANSWER_FIELDS.to_owned(), said)].into_iter().collect();
            ModelReply { extra, ..piece("", None, finish) }
        };
        let mut turn = PausedTurn::default();
        for (searched, edits) in [(1, 2), (2, 0)] {
            let fields = json!({"container": {"id": "c"}, "edits": {"done": edits}, "searched": searched});
            assert_eq!(turn.take(saying(fields, paused())), Ok(None));
        }
        let last = saying(json!({"edits": {"kept": 3}, "searched": null}), FinishReason::Stop);
        let whole = turn.take(last).unwrap().unwrap();
        let fields = json!({"container": {"id": "c"}, "edits": {"done": 0, "kept": 3}, "searched": 2});
        assert_eq!(whole.extra[ANSWER_FIELDS], json!({ ISSUER: "here", FIELDS: fields }));
    }

    #[test]
    fn a_turn_that_never_ends_is_a_failure() {
        let mut turn = PausedTurn::default();
        for _ in 0..MOST {
            assert_eq!(turn.take(piece("", None, paused())), Ok(None));
        }
        assert_eq!(turn.take(piece("", None, paused())).unwrap_err().code.as_deref(), Some(PAUSE));
    }
}
