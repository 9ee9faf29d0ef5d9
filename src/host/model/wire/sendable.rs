//! A conversation as a server takes it, whoever wrote it: another provider, an older version, a model that writes broken
//! JSON.
//!
//! Every call has arguments that are an object, a name that can be sent, and an id of its own in the server's form, the
//! same in every turn; its results have the same id and stand in the order of the calls.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};

use serde_json::{Map, Value, json};

use super::ids::IdForm;
use crate::engine::ToolSpec;
use crate::host::model::wire::extras::{CALL_EXTRAS, kept_ids};
use crate::session::{Message, ToolCall, object_arguments};

/// The longest name of a tool that providers take.
const MOST_NAME: usize = 64;

/// The conversation, with what had to be changed. `declared` are the tools of the request: their names are sent as they
/// are.
pub(super) fn sendable<'m>(
    conversation: &'m [Message],
    form: IdForm,
    declared: &[&ToolSpec],
) -> Vec<Cow<'m, Message>> {
    let mut pairs = CallPairs { form, declared, sent: HashSet::new(), open: HashMap::new() };
    let mut messages: Vec<_> = conversation.iter().map(|message| pairs.message(message)).collect();
    in_order(&mut messages);
    messages
}

/// A name with the characters that providers take, and no more of them.
pub(super) fn safe_name(name: &str) -> String {
    // OpenAI and Bedrock take `[a-zA-Z0-9_-]`, at most 64 of them.
    let safe = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' };
    if name.is_empty() { "_".to_owned() } else { name.chars().map(safe).take(MOST_NAME).collect() }
}

/// The arguments of a call as the object that they have to be.
pub(in crate::host::model) fn sent_input(arguments: &str) -> Value {
    serde_json::from_str(&object_arguments(arguments)).unwrap_or_else(|_| json!({}))
}

/// The names of the tools that were called, in order: a history with calls is refused if no tool is declared, and the
/// calls are all that is known of them in a final turn.
pub(super) fn called(conversation: &[Message]) -> BTreeSet<String> {
    let calls = conversation.iter().flat_map(|message| match message {
        Message::Assistant { calls, .. } => calls.as_slice(),
        Message::System { .. } | Message::User { .. } | Message::Tool { .. } => &[],
    });
    calls.map(|call| safe_name(&call.name)).collect()
}

/// Calls and their results, which have one id on the wire.
struct CallPairs<'t> {
    form: IdForm,
    declared: &'t [&'t ToolSpec],
    /// The ids that were sent so far.
    sent: HashSet<String>,
    /// By the id in the conversation: where the last message stands that makes calls of it, and what is sent for them.
    open: HashMap<String, MessageCalls>,
}

/// The calls of one message that have one id.
#[derive(Default)]
struct MessageCalls {
    ids: Vec<String>,
    /// How many of them have a result.
    answered: usize,
}

impl CallPairs<'_> {
    fn message<'m>(&mut self, message: &'m Message) -> Cow<'m, Message> {
        match message {
            Message::System { .. } | Message::User { .. } => Cow::Borrowed(message),
            Message::Assistant { calls, .. } if calls.is_empty() => Cow::Borrowed(message),
            Message::Assistant { text, calls, extra } => {
                let sent = self.calls(calls);
                if sent == *calls {
                    return Cow::Borrowed(message);
                }
                let extra = with_ids(extra.clone(), calls, &sent);
                Cow::Owned(Message::Assistant { text: text.clone(), calls: sent, extra })
            }
            Message::Tool { call, .. } => {
                let sent = self.result(call);
                let mut message = Cow::Borrowed(message);
                if sent != *call
                    && let Message::Tool { call, .. } = message.to_mut()
                {
                    *call = sent;
                }
                message
            }
        }
    }

    fn calls(&mut self, calls: &[ToolCall]) -> Vec<ToolCall> {
        // Providers that number calls from the start in every reply use an id again; results then answer the later call.
        for call in calls {
            self.open.remove(&call.id);
        }
        calls.iter().map(|call| self.call(call)).collect()
    }

    fn call(&mut self, ToolCall { id, name, arguments }: &ToolCall) -> ToolCall {
        let sent = self.free(id);
        self.sent.insert(sent.clone());
        self.open.entry(id.clone()).or_default().ids.push(sent.clone());
        // A declared name must be the one that the request declares, whatever characters it has.
        let named = self.declared.iter().any(|tool| tool.name == *name);
        let name = if named { name.clone() } else { safe_name(name) };
        ToolCall { id: sent, name, arguments: object_arguments(arguments).into_owned() }
    }

    /// The id itself, or what stands for it.
    fn free(&self, id: &str) -> String {
        if self.form.takes(id) && !self.sent.contains(id) {
            return id.to_owned();
        }
        let instead = (0..).map(|number| self.form.instead(id, number));
        instead.into_iter().find(|id| !self.sent.contains(id)).unwrap_or_else(|| id.to_owned())
    }

    /// The id of the call that a result answers. A second result of a call has its id; one that answers none keeps its
    /// own, in the server's form.
    fn result(&mut self, id: &str) -> String {
        if let Some(MessageCalls { ids, answered }) = self.open.get_mut(id) {
            let next = ids.get(*answered).or(ids.last()).cloned();
            *answered = answered.saturating_add(1);
            if let Some(next) = next {
                return next;
            }
        }
        if self.form.takes(id) { id.to_owned() } else { self.form.instead(id, 0) }
    }
}

/// What came with the calls, under their new ids.
fn with_ids(mut extra: Map<String, Value>, calls: &[ToolCall], sent: &[ToolCall]) -> Map<String, Value> {
    let renamed = || calls.iter().zip(sent).filter(|(call, sent)| call.id != sent.id);
    if let Some(Value::Object(extras)) = extra.get_mut(CALL_EXTRAS) {
        for (call, sent) in renamed() {
            if let Some(of_call) = extras.shift_remove(&call.id) {
                extras.insert(sent.id.clone(), of_call);
            }
        }
    }
    let mut renamed: Vec<_> = renamed().collect();
    for id in kept_ids(&mut extra) {
        if let Some(at) = renamed.iter().position(|(call, _)| *id == call.id) {
            *id = renamed.remove(at).1.id.clone().into();
        }
    }
    extra
}

/// Puts the results that follow a message into the order of its calls: xAI expects them so.
fn in_order(messages: &mut [Cow<'_, Message>]) {
    let mut rest = messages;
    while let Some(at) = rest.iter().position(|message| matches!(**message, Message::Tool { .. })) {
        let (before, results) = rest.split_at_mut(at);
        let is_result = |message: &Cow<'_, Message>| matches!(**message, Message::Tool { .. });
        let end = results.iter().position(|message| !is_result(message)).unwrap_or(results.len());
        let (results, after) = results.split_at_mut(end);
        if let Some(Message::Assistant { calls, .. }) = before.last().map(|message| &**message) {
            let place: HashMap<&str, usize> =
                calls.iter().enumerate().map(|(place, call)| (call.id.as_str(), place)).collect();
            results.sort_by_key(|message| match &**message {
                Message::Tool { call, .. } => place.get(call.as_str()).copied().unwrap_or(usize::MAX),
                _ => usize::MAX,
            });
        }
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::is_object;
    use proptest::prelude::*;

    const WORD: IdForm = IdForm::Word { also: "_-", most: 40 };
    const FORMS: [IdForm; 3] = [IdForm::Any, WORD, IdForm::Nine];

    fn assistant(calls: &[(&str, &str)]) -> Message {
        let call = |(id, arguments): &(&str, &str)| ToolCall {
            id: (*id).into(),
            name: "look".into(),
            arguments: (*arguments).into(),
        };
        Message::Assistant { text: String::new(), calls: calls.iter().map(call).collect(), extra: Map::new() }
    }

    fn result(call: &str, text: &str) -> Message {
        Message::Tool {
            call: call.into(),
            tool: "look".into(),
            text: text.into(),
            error: false,
            handle: None,
        }
    }

    #[test]
    fn arguments_that_are_no_mapping_are_shown_as_text() {
        assert_eq!(sent_input(" "), json!({}));
        assert_eq!(sent_input(r#"{"a": [1]}"#), json!({"a": [1]}));
        assert_eq!(sent_input(r#"{"a": "#), json!({"INVALID_JSON": r#"{"a": "#}));
        assert_eq!(sent_input("[1]"), json!({"INVALID_JSON": "[1]"}));
    }

    /// The ids of the calls with those of their results, as they are sent: `calls/results` of each message.
    fn ids(conversation: &[Message], form: IdForm) -> Vec<String> {
        let of = |message: &Cow<'_, Message>| match &**message {
            Message::Assistant { calls, .. } => calls.iter().map(|call| call.id.clone()).collect(),
            Message::Tool { call, .. } => vec![call.clone()],
            _ => Vec::new(),
        };
        sendable(conversation, form, &[]).iter().flat_map(of).collect()
    }

    #[test]
    fn a_sound_conversation_is_not_touched() {
        let conversation =
            [Message::user("go"), assistant(&[("a1B2c3D4e", "{ }")]), result("a1B2c3D4e", "x")];
        for form in FORMS {
            let sent = sendable(&conversation, form, &[]);
            assert!(sent.iter().all(|message| matches!(message, Cow::Borrowed(_))));
        }
    }

    #[test]
    fn ids_that_the_server_refuses_are_changed_in_calls_and_results_alike() {
        let conversation = [
            assistant(&[("functions.look:0", "{}"), ("functions_look:0", "{}"), ("", "{}")]),
            result("", "3"),
            result("functions_look:0", "2"),
            result("functions.look:0", "1"),
        ];
        for form in [WORD, IdForm::Nine] {
            let ids = ids(&conversation, form);
            assert_eq!(ids[..3], ids[3..], "{form:?}");
            assert!(ids.iter().all(|id| form.takes(id)), "{ids:?}");
            assert_eq!(ids[..3].iter().collect::<HashSet<_>>().len(), 3, "{ids:?}");
        }
        let kept = ids(&conversation, IdForm::Any);
        assert_eq!(kept[..2], ["functions.look:0", "functions_look:0"]);
        assert_eq!(kept[2], kept[5]);
    }

    #[test]
    fn ids_that_are_used_again_are_told_apart() {
        let again = [
            assistant(&[("x", "{}"), ("x", "{}")]),
            result("x", "1"),
            result("x", "2"),
            assistant(&[("x", "{}")]),
            result("x", "3"),
        ];
        for form in FORMS {
            let ids = ids(&again, form);
            assert_eq!(ids[..2], ids[2..4], "{form:?}");
            assert_eq!(ids[4], ids[5]);
            assert_eq!(ids.iter().collect::<HashSet<_>>().len(), 3, "{ids:?}");
        }
    }

    #[test]
    fn what_came_with_a_call_goes_with_its_new_id() {
        let Message::Assistant { text, calls, .. } = assistant(&[("a:1", "{}"), ("b", "{}")]) else {
            unreachable!()
        };
        let extra = json!({
            "tool_calls": {"a:1": {"signature": "s"}, "b": {"signature": "t"}},
            "thinking_anthropic": {"items": [{"type": "tool_use", "id": "a:1"}, {"type": "tool_use", "id": "b"}]},
            "output_responses": {"items": [{"type": "reasoning", "id": "b"}, {"type": "function_call", "call_id": "b"}]},
        });
        let conversation = [Message::Assistant { text, calls, extra: extra.as_object().cloned().unwrap() }];
        let sent = sendable(&conversation, WORD, &[]);
        let Message::Assistant { calls, extra, .. } = &*sent[0] else { unreachable!() };
        let id = calls[0].id.as_str();
        assert_ne!(id, "a:1");
        assert_eq!(extra["tool_calls"][id], json!({"signature": "s"}));
        assert_eq!(extra["tool_calls"]["b"], json!({"signature": "t"}));
        assert_eq!(extra["thinking_anthropic"]["items"][0]["id"], json!(id));
        assert_eq!(extra["output_responses"]["items"][1]["call_id"], json!("b"));
    }

    #[test]
    fn an_item_of_a_call_goes_with_its_new_id_and_keeps_its_own() {
        let Message::Assistant { text, calls, .. } = assistant(&[("a:1", "{}")]) else { unreachable!() };
        let kept = json!({"output_responses": {"items": [{"type": "function_call", "id": "fc_1", "call_id": "a:1"}]}});
        let conversation = [Message::Assistant { text, calls, extra: kept.as_object().cloned().unwrap() }];
        let sent = sendable(&conversation, IdForm::WORD, &[]);
        let Message::Assistant { calls, extra, .. } = &*sent[0] else { unreachable!() };
        assert_eq!(
            extra["output_responses"]["items"],
            json!([{"type": "function_call", "id": "fc_1", "call_id": calls[0].id}])
        );
    }

    #[test]
    fn a_name_that_no_provider_takes_is_changed_unless_it_is_declared() {
        let named = |name: &str| {
            let call = ToolCall { id: "a".into(), name: name.into(), arguments: "{}".into() };
            Message::Assistant { text: String::new(), calls: vec![call], extra: Map::new() }
        };
        let spec = ToolSpec {
            name: "web.search".into(),
            description: String::new(),
            parameters: Value::Null,
            effect: None,
        };
        for (name, sent) in
            [("web.search", "web.search"), ("", "_"), ("a b", "a_b"), (&"x".repeat(99), &"x".repeat(64))]
        {
            let conversation = [named(name)];
            let Message::Assistant { calls, .. } = &*sendable(&conversation, WORD, &[&spec])[0] else {
                unreachable!()
            };
            assert_eq!(calls[0].name, *sent);
        }
    }

    proptest! {
        #[test]
        fn whatever_the_conversation_what_is_sent_is_valid_paired_and_stays_so_as_it_grows(
            turns in prop::collection::vec(
                (prop::collection::vec(("[xy.:]{0,2}", "\\{\\}|\\[1\\]|\\{\"a|7|"), 1..4), prop::bool::ANY), 0..6),
        ) {
            let mut all = Vec::new();
            for (calls, backwards) in &turns {
                let calls: Vec<_> = calls.iter().map(|(id, arguments)| (id.as_str(), arguments.as_str())).collect();
                all.push(assistant(&calls));
                let mut results: Vec<_> = calls.iter().map(|(id, _)| result(id, "seen")).collect();
                if *backwards {
                    results.reverse();
                }
                all.extend(results);
            }
            for form in FORMS {
                let whole = sendable(&all, form, &[]);
                let mut seen = HashSet::new();
                let mut due: Vec<String> = Vec::new();
                for message in &whole {
                    match &**message {
                        Message::Assistant { calls, .. } => {
                            prop_assert!(due.is_empty());
                            for call in calls {
                                prop_assert!(is_object(&call.arguments));
                                prop_assert!(form.takes(&call.id));
                                prop_assert!(seen.insert(call.id.clone()), "{} twice", call.id);
                                due.push(call.id.clone());
                            }
                        }
                        Message::Tool { call, .. } => prop_assert_eq!(call, &due.remove(0)),
                        _ => {}
                    }
                }
                // What was sent in one turn is sent in the next one.
                for end in 0..all.len() {
                    if matches!(all.get(end), Some(Message::Assistant { .. })) {
                        prop_assert_eq!(&sendable(&all[..end], form, &[])[..], &whole[..end]);
                    }
                }
            }
        }
    }
}
