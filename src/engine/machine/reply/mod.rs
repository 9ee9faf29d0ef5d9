//! Repairs replies before they are processed: broken JSON, tool calls in text, tool names and arguments.

mod names;
mod unpack;

use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::out::{StepOutput, StepRules};
use crate::engine::because::because;
use crate::engine::directive::Note;
use crate::engine::event::{FinishReason, ModelReply, ProposedCall};
use crate::engine::failure::Failure;
use crate::engine::text_calls;
use crate::policy::{Effect, ErrorClass};
use crate::session::{ReducerError, ToolCall};
use crate::text::Schema;
use crate::text::repair::{self, RepairKind};

/// The failure of a reply before its calls are read; `None`: the reply is acceptable. `truncated`: the reply was cut.
pub(in crate::engine) fn fault_of(reply: &ModelReply, truncated: bool, output: bool) -> Option<Failure> {
    let (empty, calls) = (reply.is_empty(), !reply.calls.is_empty());
    let (class, text) = match reply.finish {
        // With this reason an empty reply was refused as a whole; a remaining text may be shown to people.
        FinishReason::ContentFilter if empty => {
            (ErrorClass::ContentFilter, "the provider's filter refused the reply")
        }
        FinishReason::ContentFilter if !calls => (ErrorClass::ContentFilter, reply.text.trim()),
        // Anthropic ends with `model_context_window_exceeded` and status 200: it is an overflow, which a smaller
        // conversation cures, not a retry.
        FinishReason::ContextWindow if !calls => {
            (ErrorClass::ContextOverflow, "the model's window was full before the reply was whole")
        }
        // A partial answer is not accepted. If a report is required, the text is handled as a text instead, so that
        // the model is asked for the report.
        _ if truncated && !output => (ErrorClass::TruncatedOutput, "the reply was cut at the token limit"),
        // Reasoning alone is no answer, and the same request brings the same reply (ai-agent has its own guidance for
        // this).
        _ if empty && !truncated && reply.has_reasoning() => {
            (ErrorClass::ReasoningOnly, "the reply is reasoning only, without an answer or a call")
        }
        _ if empty && !truncated => (ErrorClass::EmptyResponse, "the reply is empty"),
        // The piece of the reply that had it is lost.
        _ if reply.calls.iter().any(|proposal| proposal.call.name.trim().is_empty()) => {
            (ErrorClass::MalformedToolCall, "a call of the reply has no name")
        }
        _ => return None,
    };
    Some(Failure::of(class, text))
}

/// The text for the model about a reducer that refused the update for its turn.
pub(in crate::engine) fn reply_refused(error: &ReducerError, out: &mut StepOutput<'_>) -> String {
    let vars = json!({ "tool": "reply", "reducer": error.reducer, "error": error.message });
    out.say(&out.rules.policy.turn().messages.reducer_error, vars)
}

/// Repairs the calls of a reply. In a reply that may be cut, nothing is closed, because the missing part is unknown.
pub(in crate::engine) fn repair_reply(reply: &mut ModelReply, out: &mut StepOutput<'_>) {
    repair_calls(reply, |_| true, out);
}

/// The same, of those calls alone.
pub(in crate::engine) fn repair_calls(
    reply: &mut ModelReply,
    which: impl Fn(&ToolCall) -> bool,
    out: &mut StepOutput<'_>,
) {
    // Any part of a cut call may be missing: closing its brackets would run a tool with half of its arguments.
    let cut = matches!(reply.finish, FinishReason::Length | FinishReason::ContextWindow);
    let whole = reply.finish.is_of_a_whole_reply();
    for proposal in reply.calls.iter_mut().filter(|proposal| !cut && which(&proposal.call)) {
        // Without a finish reason, a call is repaired only if nothing needs closing at its end.
        let ended = whole || is_ended(&proposal.call, out.rules);
        if ended {
            repair_call(&mut proposal.call, out);
        }
    }
}

/// Repairs the arguments of a call in place.
pub(in crate::engine) fn repair_call(call: &mut ToolCall, out: &mut StepOutput<'_>) {
    if let Some(repaired) = repair_text(&call.arguments, &call.name, &call.id, out) {
        call.arguments = repaired;
    }
    // The name is corrected first, since arguments are unpacked by the schema of the tool.
    names::correct(call, out);
    unpack::unpack(call, out);
}

/// The repaired text, if the policy allows the repair and it succeeds; a note reports it.
pub(in crate::engine) fn repair_text(
    text: &str,
    tool: &str,
    call: &str,
    out: &mut StepOutput<'_>,
) -> Option<String> {
    let StepRules { policy, .. } = out.rules;
    let repaired = out.rules.repaired(text, tool)?;
    let why = because(policy, "turn.repair_json", &policy.turn().repair_json, []);
    let (tool, call) = (tool.to_owned(), call.to_owned());
    out.note(Note::Repaired { tool, call, repairs: repaired.repairs }, vec![why]);
    Some(repaired.value.to_string())
}

/// Converts calls in the text of a reply into tool calls, if the policy allows it and all of them can be read.
/// `event` is the number of the event, from which the ids of the calls are made.
pub(in crate::engine) fn take_leaked_calls(reply: &mut ModelReply, event: u64, out: &mut StepOutput<'_>) {
    let StepRules { policy, tools } = out.rules;
    let turn = policy.turn();
    // Servers that leave calls in the text often send no finish reason, so a missing reason does not prevent the
    // search.
    let whole = reply.finish.is_of_a_whole_reply() || reply.finish == FinishReason::Unsaid;
    // Real calls take precedence: text beside them that looks like a call is a quotation.
    if !reply.calls.is_empty() || !turn.text_tool_calls.value || !whole {
        return;
    }
    let report = policy.output().map(|output| output.tool.value.as_str());
    // Only known names count; otherwise any JSON in an answer would run.
    let known = |name: &str| tools.get(name).is_some() || report == Some(name);
    let schema = |name: &str| out.rules.schema_of(name);
    let ids = format!("leaked_{event}");
    let Some(found) = text_calls::find(&reply.text, &ids, known, schema) else { return };
    let names = found.calls.iter().map(|call| call.name.clone()).collect();
    let why = because(policy, "turn.text_tool_calls", &turn.text_tool_calls, []);
    out.note(Note::LeakedCalls { tools: names }, vec![why]);
    reply.text = found.text;
    reply.calls = found.calls.into_iter().map(ProposedCall::from).collect();
    reply.finish = FinishReason::ToolCalls;
}

/// The call that a provider could not parse and quotes in its error, if it is unambiguous: the repaired arguments are
/// valid for exactly one tool. `event` is the number of the event, from which the id of the call is made.
pub(in crate::engine) fn recover(message: &str, event: u64, out: &mut StepOutput<'_>) -> Option<ModelReply> {
    let StepRules { policy, tools } = out.rules;
    let turn = policy.turn();
    if !turn.repair_json.value {
        return None;
    }
    let raw = shown_call(message)?;
    // The error does not show whether the reply was cut, so only repairs that add nothing at the end are certain.
    let found = repair::repair(raw).ok().filter(repair::RepairedJson::is_certain)?;
    let repair::RepairedJson { value: arguments, repairs } = found;
    if !arguments.is_object() {
        return None;
    }
    let names = tools.iter().map(|spec| spec.name.as_str());
    // The error names no tool. The tool is known only if the arguments are valid for exactly one schema.
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

impl<'a> StepRules<'a> {
    /// The repaired text, if the policy allows the repair and it succeeds. Without a tool the text is a report.
    pub(in crate::engine) fn repaired(self, text: &str, tool: &str) -> Option<repair::RepairedJson> {
        // Text that parses is never changed; a repair may only turn a failure into a call.
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
        let found = repair::repair_for(text, &holds).ok()?;
        // The end of a text may be missing though the schema holds. What cannot be undone does not run with half of a path.
        let declared = self.tools.get(tool).and_then(|spec| spec.effect);
        let acts = || self.policy.tool(tool).effect.value.or_declared(declared) == Effect::NonIdempotent;
        (found.is_certain() || !acts()).then_some(found)
    }

    /// The schema of the tool or report with this name.
    fn schema_of(self, name: &str) -> Option<&'a Schema> {
        let report = self.policy.output().filter(|output| output.tool.value == name);
        report.map(|output| &*output.schema.value).or_else(|| self.tools.schema(name))
    }
}

/// Whether the arguments of a call end without anything left to close.
fn is_ended(call: &ToolCall, rules: StepRules<'_>) -> bool {
    let closed = [RepairKind::ClosedAtEnd, RepairKind::MissingBracket];
    rules
        .repaired(&call.arguments, &call.name)
        .is_none_or(|found| !closed.iter().any(|repair| found.repairs.contains(*repair)))
}

/// The call quoted in an error of Ollama: `error parsing tool call: raw='{"a": 1', err=unexpected end of JSON input`.
fn shown_call(message: &str) -> Option<&str> {
    // Ollama's format; the search is for the last `err=`, since the arguments may contain a quote.
    let (_, shown) = message.split_once("error parsing tool call: raw='")?;
    shown.rsplit_once("', err=").map(|(raw, _)| raw)
}
