//! Calls that have begun and not ended: whatever happens to them, their outcome is reported.

use std::collections::BTreeMap;

use crate::engine::{EffectState, Event, Failure, RunFacts, ToolOutcome, Work, WorkId};
use crate::policy::ErrorClass;

/// Calls of models and tools in flight.
#[derive(Debug, Default)]
pub(super) struct UnderWay(BTreeMap<WorkId, RunningCallee>);

#[derive(Clone, Copy, Debug)]
enum RunningCallee {
    Model,
    Tool,
}

impl UnderWay {
    /// Takes note of work that begins, if it is a call.
    pub(super) fn begun(&mut self, work: &Work) {
        let callee = match work {
            Work::CallModel(_) | Work::Summarize(_) => RunningCallee::Model,
            Work::RunTool(_) => RunningCallee::Tool,
            Work::PrepareTurn(_)
            | Work::RepairHistory(_)
            | Work::ReduceContext(_)
            | Work::Wait(_)
            | Work::Consult(_)
            | Work::Ask(_) => return,
        };
        self.0.insert(work.id(), callee);
    }

    /// Takes note of work that has ended. Returns whether it was a call.
    pub(super) fn ended(&mut self, work: WorkId) -> bool {
        self.0.remove(&work).is_some()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What is reported about calls that were given up in the middle.
    pub(super) fn unknown(&mut self) -> impl Iterator<Item = Event> + use<> {
        std::mem::take(&mut self.0).into_iter().map(|(work, callee)| {
            let failure = |message: &str| Failure::of(ErrorClass::Cancelled, message);
            match callee {
                RunningCallee::Model => Event::ModelFailed { work, failure: failure("the call was dropped") },
                RunningCallee::Tool => {
                    let failure = failure("the run was dropped before it ended");
                    let outcome = ToolOutcome::Failed { failure, effect: EffectState::Unknown };
                    Event::ToolFinished { work, outcome, run: RunFacts::default() }
                }
            }
        })
    }
}
