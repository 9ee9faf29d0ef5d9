//! Thinking of earlier replies that a server has refused: it is left out of all requests that follow, and what the model thinks later
//! goes back as it came.
//!
//! Claude 5.5 ties a block to all that preceded it (anomalyco/opencode#48637), so one that follows a reduced conversation is refused and
//! those that were made since are not. The blocks are the same behind Anthropic's own API and behind Converse.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use serde_json::{Map, Value, json};

use crate::host::model::wire::RefusalWords;

/// The most blocks that are remembered.
const MOST: usize = 4096;
/// Where it is said whether the model thinks.
const SWITCHES: [&str; 2] = ["/thinking", "/additionalModelRequestFields/thinking"];

/// The thinking that a server has refused.
#[derive(Debug, Default)]
pub(super) struct RefusedThoughts {
    blocks: Mutex<BTreeSet<u64>>,
    /// Whether calls without thinking before them have been refused, however the model was asked to think.
    wants_it_first: AtomicBool,
}

impl RefusedThoughts {
    /// Whether anything was refused.
    pub(super) fn any(&self) -> bool {
        self.wants_it_first.load(Ordering::Relaxed) || !self.blocks().is_empty()
    }

    /// Leaves out of a body what was refused. The model does not think where its last calls have no thinking then and the API demands
    /// it.
    pub(super) fn leave_out_of(&self, body: &mut Value) {
        let refused = self.blocks();
        if let Some(messages) = body.get_mut("messages").and_then(Value::as_array_mut) {
            for message in &mut *messages {
                if let Some(blocks) = message.get_mut("content").and_then(Value::as_array_mut) {
                    blocks.retain(|block| !is_thinking(block) || !refused.contains(&mark(block)));
                }
            }
            let sent = messages.len();
            // A message of nothing is refused.
            messages.retain(|message| blocks(message).is_none_or(|blocks| !blocks.is_empty()));
            if messages.len() < sent {
                // "A conversation must alternate between user and assistant roles" (langchain-ai/langchain-aws#130).
                messages.dedup_by(|next, last| joins(last, next));
            }
        }
        if self.must_not_think(body)
            && let Some(switch) = SWITCHES.into_iter().find(|switch| body.pointer(switch).is_some())
            && let Some(thinking) = body.pointer_mut(switch)
        {
            *thinking = json!({"type": "disabled"});
        }
    }

    /// What a refusal of that body teaches, in words; `None`: nothing new about thinking.
    pub(super) fn learn(&self, fields: &Map<String, Value>, words: &RefusalWords) -> Option<String> {
        // "Expected `thinking` or `redacted_thinking`, but found `tool_use`" (anomalyco/opencode#3077).
        let wants_it_first = words.says(&["but found"]);
        // "Invalid `signature` in `thinking` block", "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be
        // modified", "When thinking is disabled, an `assistant` message in the final position cannot contain `thinking`"
        // (tailcallhq/forgecode#1853).
        let refuses_it = words.says(&["signature", "cannot be modified", "cannot contain"]);
        if !words.says(&["thinking"]) || !(wants_it_first || refuses_it) {
            return None;
        }
        let mut body = Value::Object(fields.clone());
        let thought = thinks(&body).is_some();
        let is_new = wants_it_first && !self.wants_it_first.swap(true, Ordering::Relaxed);
        // Where the last calls have thinking, it is not the kind that was missed.
        let refused = (refuses_it || !lacks_thinking(&body)) && self.refuse(&body);
        self.leave_out_of(&mut body);
        let is_off = thought && thinks(&body).is_none();
        let off = "without `thinking` while its last calls have none";
        match (refused, is_off) {
            (true, true) => Some(format!("without the thinking of earlier replies, and {off}")),
            (true, false) => Some("without the thinking of earlier replies".to_owned()),
            (false, true) if is_new => Some(off.to_owned()),
            (false, _) => None,
        }
    }

    /// Remembers the thinking in a body; whether any of it was not known.
    fn refuse(&self, body: &Value) -> bool {
        let messages = body.get("messages").and_then(Value::as_array);
        let sent = messages.into_iter().flatten().filter_map(blocks).flatten();
        let mut refused = self.blocks();
        let known = refused.len();
        // More are not remembered: the refusal is an answer then, and no request is sent for ever.
        refused.extend(sent.filter(|block| is_thinking(block)).map(mark).take(MOST.saturating_sub(known)));
        refused.len() > known
    }

    /// "When `thinking` is enabled, a final `assistant` message must start with a thinking block (preceeding the lastmost set of
    /// `tool_use` and `tool_result` blocks)". What is adaptive need not, unless the server has said so.
    fn must_not_think(&self, body: &Value) -> bool {
        let wants_it_first = self.wants_it_first.load(Ordering::Relaxed);
        thinks(body).is_some_and(|kind| wants_it_first || kind == "enabled") && lacks_thinking(body)
    }

    fn blocks(&self) -> std::sync::MutexGuard<'_, BTreeSet<u64>> {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How the model is asked to think; `None`: it is not.
fn thinks(body: &Value) -> Option<&str> {
    let thinking = SWITCHES.into_iter().find_map(|switch| body.pointer(switch));
    thinking?.get("type")?.as_str().filter(|kind| *kind != "disabled")
}

/// Whether the last reply has calls and does not begin with thinking.
fn lacks_thinking(body: &Value) -> bool {
    let messages = body.get("messages").and_then(Value::as_array);
    let last = messages.into_iter().flatten().rfind(|message| message["role"] == "assistant");
    last.and_then(blocks).is_some_and(|blocks| {
        let begins = blocks.first().is_some_and(is_thinking);
        !begins && blocks.iter().any(|block| block["type"] == "tool_use" || block.get("toolUse").is_some())
    })
}

fn blocks(message: &Value) -> Option<&Vec<Value>> {
    message.get("content").and_then(Value::as_array)
}

/// Lets a message of the user say what the next one says, if that is the user's too.
fn joins(last: &mut Value, next: &mut Value) -> bool {
    if [&*last, next].iter().any(|message| message["role"] != "user") {
        return false;
    }
    let [Some(said), Some(more)] = [last, next].map(|message| message.get_mut("content")?.as_array_mut())
    else {
        return false;
    };
    said.append(more);
    true
}

fn is_thinking(block: &Value) -> bool {
    ["thinking", "redacted_thinking"].iter().any(|kind| block["type"] == *kind)
        || block.get("reasoningContent").is_some()
}

/// By what a block is known again: it goes back as it came.
fn mark(block: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    block.to_string().hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Failure;

    const BOUND: &str = "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation.";
    const FIRST: &str =
        "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`.";

    fn thought(signature: &str) -> Value {
        json!({"type": "thinking", "thinking": "hm", "signature": signature})
    }

    fn body(thinking: &str, replies: &[Value]) -> Value {
        let reply = |block: &Value| {
            let call = json!({"type": "tool_use", "id": "a", "name": "look", "input": {}});
            let content = if block.is_null() { json!([call]) } else { json!([block, call]) };
            json!({"role": "assistant", "content": content})
        };
        let messages: Vec<Value> = replies.iter().map(reply).collect();
        json!({"thinking": {"type": thinking}, "messages": messages})
    }

    fn learn(thoughts: &RefusedThoughts, sent: &Value, message: &str) -> Option<String> {
        let refusal = Failure { status: Some(400), message: message.into(), ..Failure::default() };
        thoughts.learn(sent.as_object().unwrap(), &RefusalWords::of(&refusal))
    }

    fn left(thoughts: &RefusedThoughts, mut sent: Value) -> Value {
        thoughts.leave_out_of(&mut sent);
        sent
    }

    #[test]
    fn no_more_are_remembered_than_may_be_and_the_refusal_counts_then() {
        let thoughts = RefusedThoughts::default();
        let all: Vec<Value> = (0..MOST).map(|at| thought(&at.to_string())).collect();
        assert!(learn(&thoughts, &body("adaptive", &all), BOUND).is_some());
        assert_eq!(learn(&thoughts, &body("adaptive", &[thought("more")]), BOUND), None);
        assert_eq!(left(&thoughts, body("adaptive", &all[..1])), body("adaptive", &[Value::Null]));
    }

    #[test]
    fn blocks_that_were_refused_are_left_out_and_later_ones_are_not() {
        let thoughts = RefusedThoughts::default();
        let sent = body("adaptive", &[thought("a"), thought("b")]);
        let told = "without the thinking of earlier replies";
        assert_eq!(learn(&thoughts, &sent, BOUND).as_deref(), Some(told));
        let later = body("adaptive", &[thought("a"), thought("b"), thought("c")]);
        let expected = body("adaptive", &[Value::Null, Value::Null, thought("c")]);
        assert_eq!(left(&thoughts, later), expected);
        assert_eq!(learn(&thoughts, &left(&thoughts, sent), BOUND), None, "nothing is left to be refused");
        // The later one may be refused too, once the conversation is reduced again.
        assert_eq!(learn(&thoughts, &expected, BOUND).as_deref(), Some(told));
    }

    #[test]
    fn a_model_whose_last_calls_lost_their_thinking_does_not_think_where_the_api_demands_it() {
        let thoughts = RefusedThoughts::default();
        let note = learn(&thoughts, &body("enabled", &[thought("a")]), BOUND).unwrap();
        assert!(note.ends_with(", and without `thinking` while its last calls have none"), "{note}");
        assert_eq!(left(&thoughts, body("enabled", &[thought("a")])), body("disabled", &[Value::Null]));
        let later = body("enabled", &[Value::Null, thought("b")]);
        assert_eq!(left(&thoughts, later.clone()), later);
    }

    #[test]
    fn calls_that_have_to_begin_with_thinking_switch_it_off_while_they_do_not() {
        let thoughts = RefusedThoughts::default();
        let sent = body("adaptive", &[thought("a"), Value::Null]);
        assert_eq!(
            learn(&thoughts, &sent, FIRST).as_deref(),
            Some("without `thinking` while its last calls have none")
        );
        assert_eq!(left(&thoughts, sent.clone()), body("disabled", &[thought("a"), Value::Null]));
        assert_eq!(learn(&thoughts, &sent, FIRST), None);
        let later = body("adaptive", &[Value::Null, thought("b")]);
        assert_eq!(left(&thoughts, later.clone()), later);
    }

    #[test]
    fn the_blocks_of_converse_are_known_too() {
        let thoughts = RefusedThoughts::default();
        let reasoning = json!({"reasoningContent": {"reasoningText": {"text": "hm", "signature": "a"}}});
        let call = json!({"toolUse": {"toolUseId": "a", "name": "look", "input": {}}});
        let of = |content: Value, kind: &str| {
            json!({
                "messages": [{"role": "assistant", "content": content}],
                "additionalModelRequestFields": {"thinking": {"type": kind}},
            })
        };
        let sent = of(json!([reasoning, call]), "enabled");
        let says = format!("The model returned the following errors: {BOUND}");
        assert!(learn(&thoughts, &sent, &says).is_some());
        assert_eq!(left(&thoughts, sent), of(json!([call]), "disabled"));
        let alone = json!({"messages": [{"role": "assistant", "content": [reasoning]}]});
        assert_eq!(left(&thoughts, alone), json!({"messages": []}));
    }

    #[test]
    fn what_the_user_says_on_both_sides_of_thinking_alone_is_one_message() {
        let thoughts = RefusedThoughts::default();
        let user = |content: Value| json!({"role": "user", "content": content});
        let said = |text: &str| json!({"type": "text", "text": text});
        let result = json!({"type": "tool_result", "tool_use_id": "a"});
        let alone = json!({"role": "assistant", "content": [thought("a")]});
        let answer = json!({"role": "assistant", "content": [said("Yes.")]});
        let sent = json!({"thinking": {"type": "adaptive"}, "messages": [
            user(json!([result])), alone, user(json!([said("go on")])), answer, user(json!([said("and?")])),
        ]});
        assert!(learn(&thoughts, &sent, BOUND).is_some());
        let expected = json!({"thinking": {"type": "adaptive"}, "messages": [
            user(json!([result, said("go on")])), answer, user(json!([said("and?")])),
        ]});
        assert_eq!(left(&thoughts, sent), expected);
    }

    #[test]
    fn other_refusals_say_nothing_of_it() {
        for message in
            ["`thinking.budget_tokens` must be less than `max_tokens`", "Invalid signature of the request"]
        {
            let sent = body("enabled", &[thought("a")]);
            assert_eq!(learn(&RefusedThoughts::default(), &sent, message), None, "{message}");
        }
    }
}
