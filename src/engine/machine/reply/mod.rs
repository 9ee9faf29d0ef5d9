//! Replies, repaired before anything else looks at them: JSON that is broken, calls in the text, names and arguments.

mod names;
mod unpack;

use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::out::{Out, Rules};
use crate::engine::because::because;
use crate::engine::directive::Note;
use crate::engine::event::{FinishReason, ModelReply, Proposal};
use crate::engine::failure::Failure;
use crate::engine::leaked;
use crate::policy::{ErrorClass, Schema};
use crate::repair::{self, Repair};
use crate::session::{ReducerError, ToolCall};

/// What makes a reply the failure of its attempt before its calls are read; `None`: nothing. `truncated`: it was cut, and
/// that does not make it one.
pub(in crate::engine) fn fault_of(reply: &ModelReply, truncated: bool, output: bool) -> Option<Failure> {
    let (empty, calls) = (reply.is_empty(), !reply.calls.is_empty());
    let (class, text) = match reply.finish {
        FinishReason::ContentFilter if empty => {
            (ErrorClass::ContentFilter, "the provider's filter refused the reply")
        }
        FinishReason::ContentFilter if !calls => (ErrorClass::ContentFilter, reply.text.trim()),
        FinishReason::ContextWindow if !calls => {
            (ErrorClass::ContextOverflow, "the model's window was full before the reply was whole")
        }
        _ if truncated && !output => (ErrorClass::TruncatedOutput, "the reply was cut at the token limit"),
        _ if empty && !truncated && reply.has_reasoning() => {
            (ErrorClass::ReasoningOnly, "the reply is reasoning only, without an answer or a call")
        }
        _ if empty && !truncated => (ErrorClass::EmptyResponse, "the reply is empty"),
        _ => return None,
    };
    Some(Failure::of(class, text))
}

/// What the model is told of a reducer that refused the update about its turn.
pub(in crate::engine) fn reply_refused(error: &ReducerError, out: &mut Out<'_>) -> String {
    let vars = json!({ "tool": "reply", "reducer": error.reducer, "error": error.message });
    out.say(&out.rules.policy.turn().messages.reducer_error, vars)
}

/// Repairs the calls of a reply. In one that may have been cut, what is missing is unknown: nothing is closed there.
pub(in crate::engine) fn repair_reply(reply: &mut ModelReply, out: &mut Out<'_>) {
    let cut = matches!(reply.finish, FinishReason::Length | FinishReason::ContextWindow);
    let whole = reply.finish.is_of_a_whole_reply();
    for proposal in reply.calls.iter_mut().filter(|_| !cut) {
        let ended = whole || is_ended(&proposal.call, out.rules);
        if ended {
            repair_call(&mut proposal.call, out);
        }
    }
}

/// Repairs the arguments of a call: it is used as if it had been sent so.
pub(in crate::engine) fn repair_call(call: &mut ToolCall, out: &mut Out<'_>) {
    if let Some(repaired) = repair_text(&call.arguments, &call.name, &call.id, out) {
        call.arguments = repaired;
    }
    names::correct(call, out);
    unpack::unpack(call, out);
}

/// The text repaired, if the policy wants it and it can be; a note says so.
pub(in crate::engine) fn repair_text(
    text: &str,
    tool: &str,
    call: &str,
    out: &mut Out<'_>,
) -> Option<String> {
    let Rules { policy, .. } = out.rules;
    let repaired = out.rules.repaired(text, tool)?;
    let why = because(policy, "turn.repair_json", &policy.turn().repair_json, []);
    let (tool, call) = (tool.to_owned(), call.to_owned());
    out.note(Note::Repaired { tool, call, repairs: repaired.repairs }, vec![why]);
    Some(repaired.value.to_string())
}

/// Takes calls in the text of a reply for calls, if the policy says so and all of them can be read. `event` is the number
/// of the event, of which their ids are made.
pub(in crate::engine) fn take_leaked_calls(reply: &mut ModelReply, event: u64, out: &mut Out<'_>) {
    let Rules { policy, tools } = out.rules;
    let turn = policy.turn();
    // Servers that leak calls often give no reason why a reply ended; what is found can be read as it is.
    let whole = reply.finish.is_of_a_whole_reply() || reply.finish == FinishReason::Unsaid;
    if !reply.calls.is_empty() || !turn.leaked_calls.value || !whole {
        return;
    }
    let report = policy.output().map(|output| output.tool.value.as_str());
    let known = |name: &str| tools.get(name).is_some() || report == Some(name);
    let Some(found) = leaked::find(&reply.text, &format!("leaked_{event}"), known) else { return };
    let names = found.calls.iter().map(|call| call.name.clone()).collect();
    let why = because(policy, "turn.leaked_calls", &turn.leaked_calls, []);
    out.note(Note::LeakedCalls { tools: names }, vec![why]);
    reply.text = found.text;
    reply.calls = found.calls.into_iter().map(Proposal::from).collect();
    reply.finish = FinishReason::ToolCalls;
}

/// The call that a provider could not read and shows in its error, if it can be one call only: repaired, its arguments hold
/// the schema of one of the tools and of no other. `event` is the number of the event, of which its id is made.
pub(in crate::engine) fn recover(message: &str, event: u64, out: &mut Out<'_>) -> Option<ModelReply> {
    let Rules { policy, tools } = out.rules;
    let turn = policy.turn();
    if !turn.repair_json.value {
        return None;
    }
    let raw = shown_call(message)?;
    // The error does not say whether the reply was cut.
    let found = repair::repair(raw).ok().filter(repair::Repaired::is_certain)?;
    let repair::Repaired { value: arguments, repairs } = found;
    if !arguments.is_object() {
        return None;
    }
    let names = tools.iter().map(|spec| spec.name.as_str());
    let held = names.filter(|name| tools.schema(name).is_some_and(|schema| schema.is_valid(&arguments)));
    let report = policy.output().filter(|output| output.schema.value.is_valid(&arguments));
    let mut fits = held.chain(report.map(|output| output.tool.value.as_str()));
    let (Some(name), None) = (fits.next(), fits.next()) else { return None };
    let call = ToolCall {
        id: format!("recovered_{event}"),
        name: name.to_owned(),
        arguments: arguments.to_string(),
    };
    let why = because(policy, "turn.repair_json", &turn.repair_json, []);
    out.note(Note::Repaired { tool: call.name.clone(), call: call.id.clone(), repairs }, vec![why]);
    Some(ModelReply { calls: vec![call.into()], finish: FinishReason::ToolCalls, ..ModelReply::default() })
}

impl<'a> Rules<'a> {
    /// The text repaired, if the policy wants it and it can be. Without a tool it is a report.
    pub(in crate::engine) fn repaired(self, text: &str, tool: &str) -> Option<repair::Repaired> {
        let fine = text.trim().is_empty() || serde_json::from_str::<IgnoredAny>(text).is_ok();
        if fine || !self.policy.turn().repair_json.value {
            return None;
        }
        let schema = if tool.is_empty() {
            self.policy.output().map(|output| &*output.schema.value)
        } else {
            self.schema_of(tool)
        };
        let holds = |value: &Value| schema.is_some_and(|schema| schema.problems(value).is_empty());
        repair::repair_for(text, &holds).ok()
    }

    /// The schema of what may be called by that name.
    fn schema_of(self, name: &str) -> Option<&'a Schema> {
        let report = self.policy.output().filter(|output| output.tool.value == name);
        report.map(|output| &*output.schema.value).or_else(|| self.tools.schema(name))
    }
}

/// Whether the arguments of a call come to their end without anything that would have to be closed there.
fn is_ended(call: &ToolCall, rules: Rules<'_>) -> bool {
    let closed = [Repair::ClosedAtEnd, Repair::MissingBracket];
    rules
        .repaired(&call.arguments, &call.name)
        .is_none_or(|found| !closed.iter().any(|repair| found.repairs.contains(*repair)))
}

/// The call inside an error of Ollama: `error parsing tool call: raw='{"a": 1', err=unexpected end of JSON input`.
fn shown_call(message: &str) -> Option<&str> {
    let (_, shown) = message.split_once("error parsing tool call: raw='")?;
    shown.rsplit_once("', err=").map(|(raw, _)| raw)
}
