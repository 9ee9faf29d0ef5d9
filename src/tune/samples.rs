//! What recorded sessions say of models and tools: when each was called, how long it took, and how it ended.

use std::collections::HashMap;

use indexmap::IndexMap;
use serde_json::Value;

use crate::engine::{
    Directive, DirectiveKind, Event, Note, Outcome, Record, ToolOutcome, WaitHint, Work, WorkId,
};
use crate::policy::{Effect, ErrorClass, Policy};
use crate::time::Nanos;

/// A call of a model or a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CallSample {
    /// In nanoseconds of the clock of the session.
    pub(super) at: u64,
    pub(super) took: u64,
    /// How it failed, and the wait that the server asked for; `None`: it did not.
    pub(super) failed: Option<(ErrorClass, Option<Nanos>)>,
}

impl CallSample {
    pub(super) const fn end(&self) -> u64 {
        self.at.saturating_add(self.took)
    }
}

/// The calls of a model or a tool.
#[derive(Debug, Default)]
pub(super) struct ServiceSamples {
    pub(super) calls: Vec<CallSample>,
    /// The tokens of each answer: in and out.
    pub(super) tokens: Vec<(u64, u64)>,
    pub(super) effect: Option<Effect>,
    /// What a tool was called with last.
    pub(super) arguments: Option<Value>,
}

/// What was recorded.
#[derive(Debug, Default)]
pub(crate) struct SessionSamples {
    pub(super) models: IndexMap<String, ServiceSamples>,
    pub(super) tools: IndexMap<String, ServiceSamples>,
    /// The beginning of each run.
    pub(super) runs: Vec<u64>,
    /// The tool calls of each run.
    pub(super) calls: Vec<u64>,
    /// The tool calls of each reply that has some.
    pub(super) parallel: Vec<u64>,
    /// The last report.
    pub(super) report: Option<Value>,
    pub(super) end: u64,
}

/// The calls in flight of one session.
#[derive(Default)]
pub(crate) struct OpenSession {
    now: u64,
    open: HashMap<WorkId, OpenCall>,
}

struct OpenCall {
    at: u64,
    is_model: bool,
    name: String,
}

impl SessionSamples {
    /// Takes a record of a session. Failures are classified by `policy`.
    pub(crate) fn take(&mut self, session: &mut OpenSession, record: Record, policy: &Policy) {
        match record {
            Record::Event(envelope) => {
                session.now = envelope.now.0;
                self.end = self.end.max(session.now);
                self.event(session, &envelope.event, policy);
            }
            Record::Directives { list, .. } => {
                list.0.into_iter().for_each(|directive| self.directive(session, directive));
            }
            Record::Session(_) | Record::State { .. } => {}
        }
    }

    fn event(&mut self, session: &mut OpenSession, event: &Event, policy: &Policy) {
        match event {
            Event::RunStarted(started) => {
                self.runs.push(session.now);
                self.calls.push(0);
                for target in &started.targets {
                    self.models.entry(target.clone()).or_default();
                }
                for tool in &started.tools {
                    self.tools.entry(tool.name.clone()).or_default().effect = tool.effect;
                }
            }
            Event::ModelResponded { work, reply } => {
                let calls = u64::try_from(reply.calls.len()).unwrap_or(u64::MAX);
                self.parallel.extend((calls > 0).then_some(calls));
                if let Some(calls_of_run) = self.calls.last_mut() {
                    *calls_of_run = calls_of_run.saturating_add(calls);
                }
                if let Some(model) = self.ended(session, *work, None) {
                    model.tokens.extend(reply.usage.map(|usage| (usage.input, usage.output)));
                }
            }
            Event::ModelFailed { work, failure }
            | Event::ToolFinished { work, outcome: ToolOutcome::Failed { failure, .. }, .. } => {
                let hint = match &failure.retry_after {
                    WaitHint::Wait(wait) => Some(*wait),
                    WaitHint::Partly(partly) => Some(partly.wait),
                    WaitHint::None | WaitHint::Ignored(_) => None,
                };
                let class = failure.classified(policy).class;
                // What the host took back says nothing of the service.
                let failed = (class != ErrorClass::Cancelled).then_some((class, hint));
                if failed.is_some() {
                    let _ = self.ended(session, *work, failed);
                }
            }
            Event::ToolFinished { work, outcome: ToolOutcome::Ok { .. } | ToolOutcome::Done, .. } => {
                let _ = self.ended(session, *work, None);
            }
            _ => {}
        }
    }

    fn directive(&mut self, session: &mut OpenSession, directive: Directive) {
        let work = match directive.order {
            DirectiveKind::Work(work) => work,
            DirectiveKind::Note(Note::Finish { outcome: Outcome::Reported { output } }) => {
                self.report = Some(output);
                return;
            }
            DirectiveKind::Note(_) => return,
        };
        let id = work.id();
        let (is_model, name) = match work {
            Work::CallModel(call) => (true, call.target),
            Work::RunTool(run) => {
                self.tools.entry(run.tool.clone()).or_default().arguments = Some(run.arguments);
                (false, run.tool)
            }
            _ => return,
        };
        session.open.insert(id, OpenCall { at: session.now, is_model, name });
    }

    fn ended(
        &mut self,
        session: &mut OpenSession,
        work: WorkId,
        failed: Option<(ErrorClass, Option<Nanos>)>,
    ) -> Option<&mut ServiceSamples> {
        let OpenCall { at, is_model, name } = session.open.remove(&work)?;
        let services = if is_model { &mut self.models } else { &mut self.tools };
        let service = services.entry(name).or_default();
        service.calls.push(CallSample { at, took: session.now.saturating_sub(at), failed });
        is_model.then_some(service)
    }
}
