//! Responses that the server keeps: a request names the last one, and sends only what came after it.
//!
//! Nothing but the conversation tells whether it may. With a reply its id is kept and the digest of all that it ends, so a
//! history that was repaired or reduced since, a reply that was changed, and one of another model are seen, in a session that
//! is resumed too.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use serde_json::{Map, Value, json};
use xxhash_rust::xxh3::xxh3_128;

use crate::engine::{Failure, ModelReply};
use crate::host::model::wire::extras::{ISSUER, ITEMS, RESPONSE};
use crate::session::{Message, ToolCall};

/// The fields of what is kept of a response: its id, and the digest of the conversation up to it.
const ID: &str = "id";
const DIGEST: &str = "conversation";
/// So many responses are remembered that a server no longer has.
const MOST_LOST: usize = 64;

/// What a server has said of responses that it does not have.
#[derive(Debug, Default)]
pub(crate) struct LostResponses {
    /// It does not continue any.
    all: AtomicBool,
    ids: Mutex<Vec<String>>,
}

/// A response that the server keeps.
pub(super) struct KeptResponse<'m> {
    pub(super) id: &'m str,
    /// Where its message stands.
    pub(super) at: usize,
}

/// Notes in a reply which response it is.
pub(super) fn mark(reply: &mut ModelReply, id: &str, issuer: &str, conversation: &[Message]) {
    let calls: Vec<&ToolCall> = reply.calls.iter().map(|proposal| &proposal.call).collect();
    let Some(digest) = digest(conversation, &reply.text, &calls, &reply.extra) else { return };
    let kept = reply.extra.entry(RESPONSE).or_insert_with(|| json!({ ISSUER: issuer }));
    if let Some(kept) = kept.as_object_mut() {
        kept.insert(ID.to_owned(), id.into());
        kept.insert(DIGEST.to_owned(), digest.into());
    }
}

/// The response that a conversation continues, if this one sent it last and nothing has changed since.
pub(super) fn kept_response<'m>(
    conversation: &'m [Message],
    issuer: &str,
    lost: &LostResponses,
) -> Option<KeptResponse<'m>> {
    let is_reply = |message: &Message| matches!(message, Message::Assistant { .. });
    let at = conversation.iter().rposition(is_reply)?;
    let Message::Assistant { text, calls, extra } = conversation.get(at)? else { return None };
    let kept = extra.get(RESPONSE)?;
    let (id, known) = (kept.get(ID)?.as_str()?, kept.get(DIGEST)?.as_str()?);
    let follows = conversation.len() > at.saturating_add(1);
    if !follows || kept.get(ISSUER)?.as_str()? != issuer || lost.has(id) {
        return None;
    }
    let calls: Vec<&ToolCall> = calls.iter().collect();
    let same = digest(conversation.get(..at)?, text, &calls, extra)? == known;
    same.then_some(KeptResponse { id, at })
}

/// The digest of a conversation and the reply that it led to.
fn digest(before: &[Message], text: &str, calls: &[&ToolCall], extra: &Map<String, Value>) -> Option<String> {
    let items = extra.get(RESPONSE).and_then(|kept| kept.get(ITEMS));
    let bytes = serde_json::to_vec(&(before, text, calls, items)).ok()?;
    Some(format!("{:032x}", xxh3_128(&bytes)))
}

impl LostResponses {
    fn has(&self, id: &str) -> bool {
        self.all.load(Ordering::Relaxed) || self.ids().iter().any(|lost| lost == id)
    }

    /// What a refusal teaches of the responses that the server has, in words; `None`: nothing new.
    pub(super) fn learn(&self, failure: &Failure, model: &str) -> Option<String> {
        if !refuses_previous(failure) {
            return None;
        }
        let Some(id) = named(&failure.message) else {
            let is_new = !self.all.swap(true, Ordering::Relaxed);
            return is_new.then(|| {
                format!("`{model}` continues no response; the whole conversation is sent from now on")
            });
        };
        let mut ids = self.ids();
        if ids.iter().any(|lost| lost == id) {
            return None;
        }
        ids.insert(0, id.to_owned());
        ids.truncate(MOST_LOST);
        Some(format!("`{model}` no longer has the response `{id}`; the whole conversation is sent"))
    }

    fn ids(&self) -> std::sync::MutexGuard<'_, Vec<String>> {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a request was refused for the response that it names.
fn refuses_previous(failure: &Failure) -> bool {
    let code = failure.code.as_deref() == Some("previous_response_not_found");
    // A stream says it without a status.
    if !matches!(failure.status, Some(400 | 404 | 422)) {
        return code && failure.status.is_none();
    }
    // OpenAI: 400 `previous_response_not_found`, "Previous response with id 'resp_…' not found." (openai/openai-python#2213).
    // One without data retention keeps none; servers that do not know the field name it.
    let param = failure.facts.as_ref().and_then(|facts| facts.param.as_deref());
    let says = failure.message.to_lowercase();
    code || param == Some("previous_response_id")
        || ["previous response", "previous_response"].iter().any(|words| says.contains(words))
}

/// The id of a response in a message.
fn named(message: &str) -> Option<&str> {
    let from = message.get(message.find("resp_")?..)?;
    let end =
        from.find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '_' | '-')).unwrap_or(from.len());
    from.get(..end).filter(|id| id.len() > "resp_".len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(conversation: &[Message]) -> Message {
        let mut reply = ModelReply { text: "yes".into(), ..ModelReply::default() };
        mark(&mut reply, "resp_1", "host main", conversation);
        Message::Assistant { text: reply.text, calls: Vec::new(), extra: reply.extra }
    }

    fn continued(conversation: &[Message], lost: &LostResponses) -> Option<usize> {
        kept_response(conversation, "host main", lost).map(|kept| kept.at)
    }

    fn refusal(status: u16, message: &str) -> Failure {
        Failure { status: Some(status), message: message.into(), ..Failure::default() }
    }

    #[test]
    fn only_a_conversation_that_did_not_change_is_continued() {
        let lost = LostResponses::default();
        let before = [Message::System { text: "be brief".into() }, Message::user("go")];
        let all = [&before[..], &[reply(&before), Message::user("and?")]].concat();
        assert_eq!(continued(&all, &lost), Some(2));
        let written = serde_json::to_string(&all).unwrap();
        assert_eq!(continued(&serde_json::from_str::<Vec<Message>>(&written).unwrap(), &lost), Some(2));
        // Nothing follows; something is gone; something is said otherwise; another one replied later.
        assert_eq!(continued(&all[..3], &lost), None);
        assert_eq!(continued(&all[1..], &lost), None);
        let mut changed = all.clone();
        changed[1] = Message::user("stop");
        assert_eq!(continued(&changed, &lost), None);
        let mut changed = all.clone();
        if let Message::Assistant { text, .. } = &mut changed[2] {
            text.push('!');
        }
        assert_eq!(continued(&changed, &lost), None);
        let other = Message::Assistant { text: "no".into(), calls: Vec::new(), extra: Map::new() };
        assert_eq!(continued(&[&all[..], &[other, Message::user("so?")]].concat(), &lost), None);
        assert!(kept_response(&all, "other main", &lost).is_none());
    }

    #[test]
    fn a_response_that_is_gone_is_not_named_again() {
        let lost = LostResponses::default();
        let all = [Message::user("go"), reply(&[Message::user("go")]), Message::user("and?")];
        assert_eq!(lost.learn(&refusal(400, "the model is overloaded"), "m"), None);
        assert_eq!(lost.learn(&refusal(503, "previous response"), "m"), None);
        let gone = refusal(404, "Previous response with id 'resp_1' not found.");
        assert!(lost.learn(&gone, "m").unwrap().contains("no longer has the response `resp_1`"));
        assert_eq!((lost.learn(&gone, "m"), continued(&all, &lost)), (None, None));
        let unknown = refusal(400, "Unknown parameter: 'previous_response_id'.");
        let all_lost = LostResponses::default();
        assert_eq!(continued(&all, &all_lost), Some(1));
        assert!(all_lost.learn(&unknown, "m").unwrap().contains("continues no response"));
        assert_eq!((all_lost.learn(&unknown, "m"), continued(&all, &all_lost)), (None, None));
    }
}
