//! Work is set going: each piece ends with the event that answers it.

use std::sync::Arc;

use super::AgentRun;
use super::recordable::recordable;
use crate::context::repair;
use crate::engine::{
    CallModel, EffectState, Event, Failure, RunTool, SummarizeMessages, ToolOutcome, WaitWork, Work,
};
use crate::host::approver::answered;
use crate::host::aside::{ProgressChannel, ProgressReporter};
use crate::host::attached::AttachedFiles;
use crate::host::port::{BoxFuture, ByteTraffic, ModelRequest, ToolInput};
use crate::host::reduce::{reduced, summarized};
use crate::host::results::kept;
use crate::policy::{ErrorClass, MalformedCalls};
use crate::session::Message;

impl AgentRun<'_> {
    /// Sets a piece of work going.
    pub(super) fn begin(&mut self, work: Work) -> BoxFuture<'static, Event> {
        let traffic = self.telemetry.traffic(work.id());
        match work {
            Work::PrepareTurn(prepare) => {
                let drops = self.interpreter.policy().turn().malformed_calls.value == MalformedCalls::Drop;
                Box::pin(std::future::ready(prepare.prepared(self.measure.of(&self.messages, drops))))
            }
            Work::RepairHistory(work) => {
                let found = repair(&self.messages, work.orphan_calls, work.malformed_calls);
                Box::pin(std::future::ready(work.repaired(found)))
            }
            Work::ReduceContext(work) => {
                let event = reduced(self.interpreter.policy(), work, &self.messages, &self.measure);
                Box::pin(std::future::ready(event))
            }
            Work::Summarize(work) => self.summarize(work, traffic),
            Work::CallModel(call) => self.call_model(call, traffic),
            Work::RunTool(run) => self.run_tool(run, traffic),
            Work::Wait(wait) => sleep(wait),
            Work::Consult(consult) => {
                let decision = self.agent.planner.on_exhausted(&consult.exhausted);
                Box::pin(std::future::ready(consult.decided(decision)))
            }
            Work::Ask(ask) => answered(Arc::clone(&self.agent.approver), ask, self.stop.clone()),
        }
    }

    fn call_model(&self, call: CallModel, traffic: ByteTraffic) -> BoxFuture<'static, Event> {
        let named = self.agent.models.iter().find(|(name, _)| *name == call.target);
        let model = named.map(|(_, model)| Arc::clone(model));
        let offered = Arc::clone(&self.offered);
        let messages = Arc::clone(&self.messages);
        let planner = Arc::clone(&self.agent.planner);
        let redactor = Arc::clone(&self.agent.redactor);
        let (cancel, streamed) = (self.stop.clone(), self.streamed.clone());
        let files = AttachedFiles::of(Arc::clone(&self.results));
        Box::pin(async move {
            let Some(model) = model else {
                let message = format!("there is no model `{}`", call.target);
                return call.failed(Failure::of(ErrorClass::NotFound, message));
            };
            let told = Message::of_guidance(&call.guidance);
            let with_guidance =
                told.map(|told| messages.iter().cloned().chain([told]).collect::<Vec<Message>>());
            let request = ModelRequest {
                messages: with_guidance.as_deref().unwrap_or(&messages),
                tools: offered.iter().filter(|spec| call.tools.contains(&spec.name)).collect(),
                tool_choice: call.tool_choice.clone(),
                max_output: call.max_output,
                timeout: call.timeout.map(Into::into),
                timeouts: call.timeouts,
                streamed,
                traffic,
                files,
                cancel,
            };
            match model.call_redacted(request, &redactor).await {
                Ok(mut reply) => {
                    for proposal in &mut reply.calls {
                        if let Some(layer) = planner.for_call(&proposal.call) {
                            proposal.policy = Some(layer);
                        }
                    }
                    call.responded(reply)
                }
                Err(failure) => call.failed(failure),
            }
        })
    }

    fn summarize(&self, work: SummarizeMessages, traffic: ByteTraffic) -> BoxFuture<'static, Event> {
        let named = self.agent.models.iter().find(|(name, _)| *name == work.target);
        let model = named.map(|(_, model)| Arc::clone(model));
        let (cancel, redactor) = (self.stop.clone(), Arc::clone(&self.agent.redactor));
        Box::pin(summarized(work, model, redactor, traffic, cancel))
    }

    fn run_tool(&self, run: RunTool, traffic: ByteTraffic) -> BoxFuture<'static, Event> {
        let tool = self.tools.get(&run.tool).map(Arc::clone);
        let (cancel, clock, results) = (self.stop.clone(), self.clock, Arc::clone(&self.results));
        let redactor = Arc::clone(&self.agent.redactor);
        let most = self.journal.most_of_a_result();
        let handle = run.spill.as_ref().map(|spill| spill.handle.as_str());
        let aside = |asides: &ProgressChannel| asides.of(&run.call, &run.tool, handle, &results);
        let aside = self.asides.as_ref().map_or_else(ProgressReporter::default, aside);
        Box::pin(async move {
            let Some(tool) = tool else {
                let failure =
                    Failure::of(ErrorClass::ToolUnavailable, format!("there is no tool `{}`", run.tool));
                let effect = EffectState::NotStarted;
                return run.finished(ToolOutcome::Failed { failure, effect });
            };
            let input = ToolInput {
                arguments: &run.arguments,
                attempt: run.attempt,
                idempotency_key: &run.idempotency_key,
                timeout: run.timeout.map(Into::into),
                cancel,
                aside,
            };
            let began = clock.now();
            let (outcome, mut facts) = tool.run_told(input).await;
            facts.duration = Some(clock.now().since(began));
            let mut outcome = redactor.outcome(outcome);
            if let Some(spill) = &run.spill {
                (outcome, facts.handle) = kept(results, outcome, spill.clone()).await;
            }
            run.finished_with(recordable(outcome, most, &traffic), facts)
        })
    }
}

/// Waits. The interpreter never asks for a wait of no time, so there is no timer without need.
fn sleep(wait: WaitWork) -> BoxFuture<'static, Event> {
    Box::pin(async move {
        tokio::time::sleep(wait.delay.to_std()).await;
        wait.fired()
    })
}
