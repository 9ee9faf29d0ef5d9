//! What providers taught in a session about tokens, as its log tells it.

use std::collections::BTreeMap;

use crate::engine::{
    CallModel, DirectiveKind, Envelope, Event, Failure, FinishReason, KnownWindows, Note, RequestOverhead,
    TokenCalibration, TokenObservation, TurnMeasure, Work, WorkId,
};
use crate::policy::{ErrorClass, Policy, estimated_tokens};

/// The observations of a session, while its log is read.
#[derive(Default)]
pub(super) struct SessionObservations {
    /// The conversation as it was measured last.
    measured: TurnMeasure,
    /// What was known in the run that providers add.
    overheads: BTreeMap<String, RequestOverhead>,
    /// The call in flight.
    call: Option<ModelCall>,
    /// Whether models are not shown all tools: such a request teaches nothing about the count.
    hidden: bool,
    /// The first turn in which only the report is allowed.
    last_from: Option<u32>,
    learned: Vec<(String, FoundObservation)>,
}

/// A call of a model with the conversation.
struct ModelCall {
    work: WorkId,
    target: String,
    /// Its tokens by the count here.
    counted: u64,
    /// Whether all tools went with it.
    whole: bool,
    /// Its tokens without what a model learns besides.
    sent: u64,
}

enum FoundObservation {
    Tokens(TokenObservation),
    /// Only if that is a refusal for the size, which the policy tells.
    Failure(u64, Box<Failure>),
}

impl SessionObservations {
    pub(super) fn happened(&mut self, envelope: &Envelope) {
        match &envelope.event {
            Event::RunStarted(started) => {
                (self.hidden, self.last_from) = (false, None);
                self.overheads.clone_from(&started.overheads);
            }
            Event::TurnPrepared { measure, .. } => self.measured = *measure,
            Event::ModelResponded { work, reply } => {
                let Some(call) = self.call.take_if(|call| call.work == *work) else { return };
                if let Some(usage) = reply.usage.filter(|_| call.whole) {
                    let counted = call.counted;
                    self.learned.push((
                        call.target.clone(),
                        FoundObservation::Tokens(TokenObservation::Counted {
                            counted,
                            reported: usage.input,
                        }),
                    ));
                }
                if reply.finish == FinishReason::ContextWindow && reply.calls.is_empty() {
                    let observation =
                        TokenObservation::Refused { counted: call.sent, limit: None, size: None };
                    self.learned.push((call.target, FoundObservation::Tokens(observation)));
                }
            }
            Event::ModelFailed { work, failure } => {
                let Some(call) = self.call.take_if(|call| call.work == *work) else { return };
                let failed = FoundObservation::Failure(call.sent, Box::new(failure.clone()));
                self.learned.push((call.target, failed));
            }
            _ => {}
        }
    }

    pub(super) fn decided(&mut self, order: &DirectiveKind) {
        match order {
            DirectiveKind::Note(Note::ContextReduced(told)) => {
                self.measured.message_tokens = told.tokens_after;
            }
            DirectiveKind::Note(Note::ToolsHidden { tools }) => self.hidden = !tools.is_empty(),
            DirectiveKind::Note(Note::FinalTurn { turn, .. }) => self.last_from = Some(*turn),
            DirectiveKind::Work(work) => {
                if let Work::CallModel(call) = work {
                    self.called(work.id(), call);
                }
            }
            DirectiveKind::Note(_) => {}
        }
    }

    fn called(&mut self, work: WorkId, call: &CallModel) {
        let last = self.last_from.is_some_and(|turn| turn <= call.turn);
        let TurnMeasure { message_tokens, tool_tokens, .. } = self.measured;
        // In the final turn there is no tool but that of the report.
        let tools = if last { 0 } else { tool_tokens };
        let overhead = self.overheads.get(&call.target).copied().unwrap_or_default();
        let sent = [tools, overhead.of(tools > 0)].into_iter().fold(message_tokens, u64::saturating_add);
        let told = call.guidance.iter().map(|text| estimated_tokens(text));
        self.call = Some(ModelCall {
            work,
            target: call.target.clone(),
            counted: told.fold(sent, u64::saturating_add),
            whole: !last && !self.hidden,
            sent,
        });
    }

    /// What is known after all of them, as the policy learns.
    pub(super) fn learned(self, policy: &Policy) -> (TokenCalibration, KnownWindows) {
        let (mut calibration, mut windows) = (TokenCalibration::default(), KnownWindows::default());
        for (target, found) in self.learned {
            let observation = match found {
                FoundObservation::Tokens(observation) => observation,
                FoundObservation::Failure(counted, failure) => {
                    if failure.classified(policy).class != ErrorClass::ContextOverflow {
                        continue;
                    }
                    TokenObservation::of_refusal(counted, &failure)
                }
            };
            observation.learn(&target, &policy.model(&target), &mut calibration, &mut windows);
        }
        (calibration, windows)
    }
}
