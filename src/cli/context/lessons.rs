//! What providers taught in a session about tokens, as its log tells it.

use unfazed::engine::{
    CallModel, Envelope, Event, Failure, FinishReason, KnownWindows, Lesson, Note, Order, Scales,
    TurnMeasure, Work, WorkId,
};
use unfazed::policy::{ErrorClass, Policy, estimated_tokens};

/// The lessons of a session, while its log is read.
#[derive(Default)]
pub(super) struct Lessons {
    /// The conversation as it was measured last.
    measured: TurnMeasure,
    /// The call under way.
    call: Option<Call>,
    /// The most tools a model was shown: a request with fewer teaches nothing about the count.
    most_tools: usize,
    /// The first turn in which only the report is allowed.
    last_from: Option<u32>,
    learned: Vec<(String, Found)>,
}

/// A call of a model with the conversation.
struct Call {
    work: WorkId,
    target: String,
    /// Its tokens by the count here.
    counted: u64,
    /// Whether all tools went with it.
    whole: bool,
}

enum Found {
    Lesson(Lesson),
    /// Only if that is a refusal for the size, which the policy tells.
    Failure(u64, Box<Failure>),
}

impl Lessons {
    pub(super) fn happened(&mut self, envelope: &Envelope) {
        match &envelope.event {
            Event::RunStarted(_) => (self.most_tools, self.last_from) = (0, None),
            Event::ToolsChanged { .. } => self.most_tools = 0,
            Event::TurnPrepared { measure, .. } => self.measured = *measure,
            Event::ModelResponded { work, reply } => {
                let Some(call) = self.call.take_if(|call| call.work == *work) else { return };
                if let Some(usage) = reply.usage.filter(|_| call.whole) {
                    let counted = call.counted;
                    self.learned.push((
                        call.target.clone(),
                        Found::Lesson(Lesson::Counted { counted, reported: usage.input }),
                    ));
                }
                if reply.finish == FinishReason::ContextWindow && reply.calls.is_empty() {
                    let lesson = Lesson::Refused { counted: self.sent(), limit: None, size: None };
                    self.learned.push((call.target, Found::Lesson(lesson)));
                }
            }
            Event::ModelFailed { work, failure } => {
                let Some(call) = self.call.take_if(|call| call.work == *work) else { return };
                let failed = Found::Failure(self.sent(), Box::new(failure.clone()));
                self.learned.push((call.target, failed));
            }
            _ => {}
        }
    }

    pub(super) fn decided(&mut self, order: &Order) {
        match order {
            Order::Note(Note::ContextReduced(told)) => self.measured.message_tokens = told.tokens_after,
            Order::Note(Note::FinalTurn { turn, .. }) => self.last_from = Some(*turn),
            Order::Work(work) => {
                if let Work::CallModel(call) = work {
                    self.called(work.id(), call);
                }
            }
            Order::Note(_) => {}
        }
    }

    fn called(&mut self, work: WorkId, call: &CallModel) {
        self.most_tools = self.most_tools.max(call.tools.len());
        let last = self.last_from.is_some_and(|turn| turn <= call.turn);
        let told = call.guidance.iter().map(|text| estimated_tokens(text));
        self.call = Some(Call {
            work,
            target: call.target.clone(),
            counted: told.fold(self.sent(), u64::saturating_add),
            whole: !last && call.tools.len() == self.most_tools,
        });
    }

    const fn sent(&self) -> u64 {
        self.measured.message_tokens.saturating_add(self.measured.tool_tokens)
    }

    /// What is known after all of them, as the policy learns.
    pub(super) fn learned(self, policy: &Policy) -> (Scales, KnownWindows) {
        let (mut scales, mut windows) = (Scales::default(), KnownWindows::default());
        for (target, found) in self.learned {
            let lesson = match found {
                Found::Lesson(lesson) => lesson,
                Found::Failure(counted, failure) => {
                    if failure.classified(policy).class != ErrorClass::ContextOverflow {
                        continue;
                    }
                    Lesson::of_refusal(counted, &failure)
                }
            };
            lesson.learn(&target, &policy.model(&target), &mut scales, &mut windows);
        }
        (scales, windows)
    }
}
