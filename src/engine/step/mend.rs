//! Arguments and reports that are not JSON, repaired before anything else looks at them.

use serde::de::IgnoredAny;
use serde_json::Value;

use super::super::because::because;
use super::super::directive::Note;
use super::super::event::{FinishReason, ModelReply, Proposal};
use super::super::leaked;
use super::Step;
use crate::repair::{self, Repair};
use crate::session::ToolCall;

impl Step<'_> {
    /// Repairs the calls of a reply. In one that may have been cut, what is missing is unknown: nothing is closed there.
    pub(super) fn mend_reply(&mut self, reply: &mut ModelReply) {
        let cut = matches!(reply.finish, FinishReason::Length | FinishReason::ContextWindow);
        let whole = reply.finish.is_of_a_whole_reply();
        for proposal in reply.calls.iter_mut().filter(|_| !cut) {
            let ended = whole || self.is_ended(&proposal.call);
            if ended {
                self.mend_call(&mut proposal.call);
            }
        }
    }

    /// Whether the arguments of a call come to their end without anything that would have to be closed there.
    fn is_ended(&self, call: &ToolCall) -> bool {
        let closed = [Repair::ClosedAtEnd, Repair::MissingBracket];
        self.repaired(&call.arguments, &call.name)
            .is_none_or(|found| !closed.iter().any(|repair| found.repairs.contains(*repair)))
    }

    /// Takes calls that stand in the text of a reply for calls, if the policy says so and all of them can be read.
    pub(super) fn take_leaked_calls(&mut self, reply: &mut ModelReply) {
        let turn = self.policy.turn();
        // Servers that leak calls often give no reason why a reply ended; what is found can be read as it is.
        let whole = reply.finish.is_of_a_whole_reply() || reply.finish == FinishReason::Unsaid;
        if !reply.calls.is_empty() || !turn.leaked_calls.value || !whole {
            return;
        }
        let report = self.policy.output().map(|output| output.tool.value.as_str());
        let known = |name: &str| self.tools.get(name).is_some() || report == Some(name);
        let Some(found) = leaked::find(&reply.text, &format!("leaked_{}", self.state.seq), known) else {
            return;
        };
        let tools = found.calls.iter().map(|call| call.name.clone()).collect();
        let why = because(self.policy, "turn.leaked_calls", &turn.leaked_calls, []);
        self.note(Note::LeakedCalls { tools }, vec![why]);
        reply.text = found.text;
        reply.calls = found.calls.into_iter().map(Proposal::from).collect();
        reply.finish = FinishReason::ToolCalls;
    }

    /// Repairs the arguments of a call: it goes on as if it had been sent so.
    pub(super) fn mend_call(&mut self, call: &mut ToolCall) {
        if let Some(mended) = self.mend(&call.arguments, &call.name, &call.id) {
            call.arguments = mended;
        }
        self.correct_name(call);
        self.unpack(call);
    }

    /// The text repaired, if it is to be and can be; that is told.
    pub(super) fn mend(&mut self, text: &str, tool: &str, call: &str) -> Option<String> {
        let turn = self.policy.turn();
        let repaired = self.repaired(text, tool)?;
        let why = because(self.policy, "turn.repair_json", &turn.repair_json, []);
        let (tool, call) = (tool.to_owned(), call.to_owned());
        self.note(Note::Repaired { tool, call, repairs: repaired.repairs }, vec![why]);
        Some(repaired.value.to_string())
    }

    /// The text repaired, if it is to be and can be. Without a tool it is a report.
    pub(super) fn repaired(&self, text: &str, tool: &str) -> Option<repair::Repaired> {
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

    /// The call that a provider could not read and shows in its error, if it can be one call only: repaired, its
    /// arguments hold the schema of one of the tools and of no other.
    pub(super) fn recover(&mut self, message: &str) -> Option<ModelReply> {
        let turn = self.policy.turn();
        if !turn.repair_json.value {
            return None;
        }
        let raw = shown_call(message)?;
        // Nobody says whether the reply was cut.
        let found = repair::repair(raw).ok().filter(repair::Repaired::is_certain)?;
        let repair::Repaired { value: arguments, repairs } = found;
        if !arguments.is_object() {
            return None;
        }
        let tools = self.tools.iter().map(|spec| spec.name.as_str());
        let held =
            tools.filter(|name| self.tools.schema(name).is_some_and(|schema| schema.is_valid(&arguments)));
        let output = self.policy.output();
        let report = output.filter(|output| output.schema.value.is_valid(&arguments));
        let mut fits = held.chain(report.map(|output| output.tool.value.as_str()));
        let (Some(name), None) = (fits.next(), fits.next()) else { return None };
        let call = ToolCall {
            id: format!("recovered_{}", self.state.seq),
            name: name.to_owned(),
            arguments: arguments.to_string(),
        };
        let why = because(self.policy, "turn.repair_json", &turn.repair_json, []);
        self.note(Note::Repaired { tool: call.name.clone(), call: call.id.clone(), repairs }, vec![why]);
        Some(ModelReply {
            calls: vec![call.into()],
            finish: FinishReason::ToolCalls,
            ..ModelReply::default()
        })
    }
}

/// The call inside an error of Ollama: `error parsing tool call: raw='{"a": 1', err=unexpected end of JSON input`.
fn shown_call(message: &str) -> Option<&str> {
    let (_, shown) = message.split_once("error parsing tool call: raw='")?;
    shown.rsplit_once("', err=").map(|(raw, _)| raw)
}
