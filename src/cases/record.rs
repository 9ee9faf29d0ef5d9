//! What happened in a case, in the order it happened.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::engine::{
    DecisionReason, Directive, DirectiveKind, Envelope, Event, ModelReply, Note, Outcome, State, ToolOutcome,
    Work,
};
use crate::session::{Message, StopReason};
use crate::time::{Instant, Nanos};

/// What happened in a case.
#[derive(Debug)]
pub(crate) struct CaseRecord {
    start: Instant,
    /// Events and directives, in order.
    pub(crate) moments: Vec<RecordedMoment>,
    pub(crate) because: Vec<DecisionReason>,
    pub(crate) delays: Vec<Nanos>,
    pub(crate) waits: Vec<Value>,
    pub(crate) calls: Vec<Value>,
    pub(crate) refused: Vec<Value>,
    pub(crate) feedback: Vec<Value>,
    pub(crate) model_calls: u32,
    pub(crate) messages: Vec<Message>,
    pub(crate) state: State,
    pub(crate) elapsed: Nanos,
    pub(crate) ending: CaseEnding,
    /// What the case itself lacks, or says without a use.
    pub(crate) problems: Vec<CaseProblem>,
    /// What was scripted and never came to be: outcomes, replies, decisions.
    pub(crate) unused: Vec<String>,
    /// The tools that calls were proposed of.
    pub(crate) tools: BTreeSet<String>,
    /// Whether the interpreter ran the loop of turns.
    pub(crate) turns: bool,
}

/// What is wrong with the case itself.
#[derive(Debug)]
pub(crate) struct CaseProblem {
    /// What it takes.
    pub(crate) expected: &'static str,
    /// What is not so.
    pub(crate) found: String,
}

/// One event or directive.
#[derive(Debug)]
pub(crate) struct RecordedMoment {
    /// From the start.
    pub(crate) at: Nanos,
    /// Whether it is a directive.
    pub(crate) directive: bool,
    /// As hosts see it.
    pub(crate) json: Value,
}

/// How it ended.
#[derive(Clone, Debug)]
pub(crate) struct CaseEnding {
    pub(crate) status: &'static str,
    pub(crate) reason: Option<String>,
    pub(crate) output: Option<Value>,
}

impl CaseRecord {
    pub(crate) fn new(start: Instant) -> Self {
        Self {
            start,
            moments: Vec::new(),
            because: Vec::new(),
            delays: Vec::new(),
            waits: Vec::new(),
            calls: Vec::new(),
            refused: Vec::new(),
            feedback: Vec::new(),
            model_calls: 0,
            messages: Vec::new(),
            state: State::new(),
            elapsed: Nanos::ZERO,
            ending: CaseEnding { status: "unfinished", reason: None, output: None },
            problems: Vec::new(),
            unused: Vec::new(),
            tools: BTreeSet::new(),
            turns: false,
        }
    }

    /// The case cannot continue.
    pub(crate) fn problem(&mut self, found: String) {
        self.problems.push(CaseProblem { expected: "it can be played to its end", found });
    }

    /// The case says what never comes to be.
    pub(crate) fn unreached(&mut self, found: String) {
        self.problems.push(CaseProblem { expected: "it gets there", found });
    }

    pub(crate) fn resumed(&mut self, seq: u64) {
        let at = self.moments.last().map_or(Nanos::ZERO, |moment| moment.at);
        self.moments.push(RecordedMoment {
            at,
            directive: false,
            json: json!({"event": "resumed", "seq": seq}),
        });
    }

    pub(crate) fn event(&mut self, envelope: &Envelope) {
        let at = envelope.now.since(self.start);
        match &envelope.event {
            Event::ModelResponded { reply: ModelReply { calls, .. }, .. }
            | Event::ToolsProposed { calls, .. } => {
                self.tools.extend(calls.iter().map(|proposal| proposal.call.name.clone()));
            }
            Event::ToolFinished { outcome: ToolOutcome::Ok { data }, .. } => {
                self.ending.output = Some(data.clone());
            }
            _ => {}
        }
        let json = serde_json::to_value(envelope).unwrap_or_default();
        self.moments.push(RecordedMoment { at, directive: false, json });
    }

    pub(crate) fn directive(&mut self, now: Instant, directive: &Directive) {
        let at = now.since(self.start);
        self.because.extend(directive.because.iter().cloned());
        match &directive.order {
            DirectiveKind::Work(work) => self.work(at, work),
            DirectiveKind::Note(note) => self.note(note),
        }
        let json = serde_json::to_value(directive).unwrap_or_default();
        self.moments.push(RecordedMoment { at, directive: true, json });
    }

    fn work(&mut self, at: Nanos, work: &Work) {
        match work {
            Work::PrepareTurn(_) => self.turns = true,
            Work::CallModel(_) | Work::Summarize(_) => {
                self.model_calls = self.model_calls.saturating_add(1);
            }
            Work::RunTool(run) => self.calls.push(json!({
                "tool": run.tool, "attempt": run.attempt, "max_attempts": run.max_attempts,
                "arguments": run.arguments, "timeout": run.timeout.map(|timeout| timeout.to_string()),
                "idempotency_key": run.idempotency_key, "call": run.call, "at": at.to_string(),
            })),
            Work::Wait(wait) => {
                self.delays.push(wait.delay);
                self.waits.push(json!({
                    "subject": wait.subject, "delay": wait.delay.to_string(), "attempt": wait.attempt,
                    "max_attempts": wait.max_attempts, "error_type": wait.error_type, "message": wait.message,
                    "at": at.to_string(),
                }));
            }
            Work::RepairHistory(_) | Work::ReduceContext(_) | Work::Consult(_) | Work::Ask(_) => {}
        }
    }

    fn note(&mut self, note: &Note) {
        let said = |status, reason: Option<String>| CaseEnding { status, reason, output: None };
        match note {
            Note::Feedback { feedback } => {
                self.feedback.push(serde_json::to_value(feedback).unwrap_or_default());
            }
            Note::Refused { call, tool, error_type, message } => {
                self.ending = said("refused", Some(error_type.name().to_owned()));
                self.refused
                    .push(json!({"call": call, "tool": tool, "error_type": error_type, "message": message}));
            }
            Note::ToolEnded { error_type: None, .. } => {
                self.ending.status = "ok";
                self.ending.reason = None;
            }
            Note::ToolEnded { error_type: Some(_), .. } => {
                self.ending = said("failed", None);
            }
            Note::Exhausted { exhausted, .. } => {
                self.ending = said(failed(exhausted.reason), Some(reason(exhausted.reason)));
            }
            Note::Finish { outcome } => {
                self.ending = match outcome {
                    Outcome::Reported { output } => {
                        CaseEnding { status: "reported", reason: None, output: Some(output.clone()) }
                    }
                    Outcome::Answered { text } => {
                        CaseEnding { status: "answered", reason: None, output: Some(text.as_str().into()) }
                    }
                    Outcome::Failed { exhausted, .. } => {
                        // The reason that was given when the attempts ended says more than that they did.
                        let known = self.ending.reason.take().filter(|_| self.ending.output.is_none());
                        let status = match (self.ending.status, known.is_some()) {
                            (status @ ("failed" | "retry_exhausted"), true) => status,
                            _ => failed(exhausted.reason),
                        };
                        said(status, known.or_else(|| Some(reason(exhausted.reason))))
                    }
                    Outcome::Stopped { reason, .. } => said("stopped", Some(reason.clone())),
                };
            }
            // The others use nothing that a policy must have.
            _ => {}
        }
    }

    pub(crate) fn end(&mut self, state: State, messages: Vec<Message>, elapsed: Nanos) {
        self.state = state;
        self.messages = messages;
        self.elapsed = elapsed;
    }

    /// What the model learns, by others than itself.
    pub(crate) fn told(&self) -> Vec<&str> {
        let told = self.messages.iter().filter(|message| !matches!(message, Message::Assistant { .. }));
        told.map(Message::text).collect()
    }
}

fn failed(reason: StopReason) -> &'static str {
    if reason.used_up() { "retry_exhausted" } else { "failed" }
}

fn reason(reason: StopReason) -> String {
    serde_json::to_value(reason).ok().and_then(|name| Some(name.as_str()?.to_owned())).unwrap_or_default()
}
