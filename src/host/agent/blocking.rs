//! Decisions that take long are made off the threads of the runtime: other runs continue meanwhile.

use super::{AgentRun, UnderWayWork};
use crate::engine::{Directives, Envelope, Event, ModelReply};
use crate::host::observer::JournalError;
use crate::host::off_thread;

/// Answers of so many bytes are parsed, repaired and validated elsewhere, whatever is in them.
const LONG: usize = 16 << 10;

impl AgentRun<'_> {
    /// As [`take`](Self::take); what takes long is decided on a thread for such work.
    pub(super) async fn take_aside(
        &mut self,
        event: Event,
        work: &mut UnderWayWork,
    ) -> Result<(), JournalError> {
        let directives = if self.takes_long(&event) {
            let envelope = self.write_down(event)?;
            // A reply is paid for: nothing that happens while it is decided may lose it.
            self.written().await?;
            self.telemetry.event(&envelope, self.interpreter.policy());
            let directives = self.decide_aside(envelope).await;
            let directives = self.decided(directives)?;
            self.written().await?;
            directives
        } else {
            self.step(event).await?
        };
        self.set_going(directives, work);
        Ok(())
    }

    async fn decide_aside(&mut self, envelope: Envelope) -> Directives {
        let interpreter = self.interpreter.clone();
        let mut state = std::mem::take(&mut self.state);
        let (state, directives) = off_thread(move || {
            let directives = interpreter.step(&mut state, envelope);
            (state, directives)
        })
        .await;
        self.state = state;
        directives
    }

    /// Whether the answer of a model, or what a planner says of it, may take long to decide.
    fn takes_long(&mut self, event: &Event) -> bool {
        match event {
            Event::ModelResponded { reply, .. } => self.long_reply = self.is_long(reply),
            Event::PlannerDecided { .. } => {}
            _ => return false,
        }
        self.long_reply
    }

    fn is_long(&self, reply: &ModelReply) -> bool {
        let arguments = reply.calls.iter().map(|proposal| proposal.call.arguments.len());
        if arguments.fold(reply.text.len(), usize::saturating_add) > LONG {
            return true;
        }
        let output = self.interpreter.policy().output();
        reply.calls.iter().any(|proposal| {
            let call = &proposal.call;
            let report = output.filter(|output| output.tool.value == call.name);
            let schema = self.interpreter.tools().schema(&call.name);
            let schema = schema.or(report.map(|output| &*output.schema.value));
            schema.filter(|schema| schema.may_be_costly()).is_some_and(|schema| {
                serde_json::from_str(&call.arguments).is_ok_and(|arguments| schema.takes_long(&arguments))
            })
        })
    }
}
