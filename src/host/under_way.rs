//! Calls that have begun and not ended: whatever happens to them, their outcome is told.

use std::collections::BTreeMap;

use crate::engine::{EffectState, Event, Failure, RunFacts, ToolOutcome, Work, WorkId};
use crate::policy::ErrorClass;

/// Calls of models and tools under way.
#[derive(Debug, Default)]
pub(super) struct UnderWay(BTreeMap<WorkId, Callee>);

#[derive(Clone, Copy, Debug)]
enum Callee {
    Model,
    Tool,
}

impl UnderWay {
    /// Takes note of work that begins, if it is a call.
    pub(super) fn begun(&mut self, work: &Work) {
        let callee = match work {
            Work::CallModel(_) | Work::Summarize(_) => Callee::Model,
            Work::RunTool(_) => Callee::Tool,
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

    /// What is told of calls that were given up in the middle.
    pub(super) fn unknown(&mut self) -> impl Iterator<Item = Event> + use<> {
        std::mem::take(&mut self.0).into_iter().map(|(work, callee)| {
            let failure = |message: &str| Failure::of(ErrorClass::Cancelled, message);
            match callee {
                Callee::Model => Event::ModelFailed { work, failure: failure("the call was dropped") },
                Callee::Tool => {
                    let failure = failure("the run was dropped before it ended");
                    let outcome = ToolOutcome::Failed { failure, effect: EffectState::Unknown };
                    Event::ToolFinished { work, outcome, run: RunFacts::default() }
                }
            }
        })
    }
}
