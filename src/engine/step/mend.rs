//! Arguments and reports that are not JSON, repaired before anything else looks at them.

use serde::de::IgnoredAny;

use super::super::because::because;
use super::super::directive::Note;
use super::super::event::{FinishReason, ModelReply};
use super::Step;
use crate::repair;
use crate::session::ToolCall;

impl Step<'_> {
    /// Repairs the calls of a reply. In one that was cut at the token limit, what is missing is unknown.
    pub(super) fn mend_reply(&mut self, reply: &mut ModelReply) {
        if reply.finish != FinishReason::Length {
            for proposal in &mut reply.calls {
                self.mend_call(&mut proposal.call);
            }
        }
    }

    /// Repairs the arguments of a call: it goes on as if it had been sent so.
    pub(super) fn mend_call(&mut self, call: &mut ToolCall) {
        if let Some(mended) = self.mend(&call.arguments, &call.name, &call.id) {
            call.arguments = mended;
        }
    }

    /// The text repaired, if it is to be and can be; that is told.
    pub(super) fn mend(&mut self, text: &str, tool: &str, call: &str) -> Option<String> {
        let turn = self.policy.turn();
        let fine = text.trim().is_empty() || serde_json::from_str::<IgnoredAny>(text).is_ok();
        if fine || !turn.repair_json.value {
            return None;
        }
        let repaired = repair::repair_broken(text).ok()?;
        let why = because(self.policy, "turn.repair_json", &turn.repair_json, []);
        let (tool, call) = (tool.to_owned(), call.to_owned());
        self.note(Note::Repaired { tool, call, repairs: repaired.repairs }, vec![why]);
        Some(repaired.value.to_string())
    }
}
