//! What a provider is to keep in its cache of prompts: marked in Anthropic's messages and in chats for models of theirs, and written for
//! Claude behind Bedrock, which keeps nothing without it.

use serde_json::{Value, json};

use super::fields::{Fields, LeftOut};

const MARK: &str = "cache_control";

/// The parts of a request with a mark, by the paths of their marks.
#[derive(Clone, Debug, Default)]
pub(super) struct CacheMarks(LeftOut);

impl CacheMarks {
    /// Takes the mark of a part, if it has one.
    pub(super) fn take(&mut self, part: &mut Fields) {
        if part.take(MARK).is_some_and(|mark| !mark.is_null()) {
            self.0.add(&part.path(MARK));
        }
    }

    /// Marks the same parts of a request of Converse: the tools, the instructions, and the conversation up to the last that the user
    /// says. A cache is looked up from there backwards, so marks before it are not needed (`CachePointBlock` in "Prompt caching" of the
    /// user guide of Bedrock).
    pub(super) fn put(&self, body: &mut Value) {
        let point = || json!({"cachePoint": {"type": "default"}});
        let mark = |place: Option<&mut Value>| {
            if let Some(parts) = place.and_then(Value::as_array_mut).filter(|parts| !parts.is_empty()) {
                parts.push(point());
            }
        };
        if self.is_within("tools") {
            mark(body.pointer_mut("/toolConfig/tools"));
        }
        if self.is_within("system") {
            mark(body.get_mut("system"));
        }
        if self.is_within("messages") {
            let messages = body.get_mut("messages").and_then(Value::as_array_mut);
            let last = messages.and_then(|all| all.iter_mut().rfind(|message| message["role"] == "user"));
            mark(last.and_then(|message| message.get_mut("content")));
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.names().next().is_none()
    }

    /// The paths of the marks.
    pub(super) fn names(&self) -> impl Iterator<Item = &String> {
        self.0.names()
    }

    fn is_within(&self, part: &str) -> bool {
        self.names().any(|path| path.split('.').next() == Some(part))
    }
}
