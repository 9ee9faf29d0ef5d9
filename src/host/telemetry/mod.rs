//! What a run tells about itself: metrics and one record for each call of a model, folded from its events and
//! directives.
//!
//! The interpreter counts what only it knows (`Note::Metric`). Everything else follows from what passes by here:
//! latencies from the times of events, sizes from what is sent and comes back. Nothing decides anything.

mod attempt;
mod calls;
mod price;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use self::attempt::{AttemptStatus, ModelAttempt};
pub(super) use self::calls::{CallRef, ModelCalls};
pub use self::price::ModelFacts;

use self::calls::TRIGGER;
use super::metrics::{MetricId, Metrics};
use super::port::ByteTraffic;
use super::result_length::{json_length, result_length};
use crate::engine::{
    CallModel, Directive, DirectiveKind, Directives, Envelope, Event, Note, Outcome, RunTool, State,
    SummarizeMessages, ToolOutcome, TurnMeasure, TurnRetry, Work, WorkId,
};
use crate::policy::Cost;
use crate::policy::{ErrorClass, Policy};
use crate::session::{FinalReason, ReportSource, RetryExhausted};
use crate::time::{Instant, Nanos};

/// Watches one run.
#[derive(Debug)]
pub(super) struct Telemetry {
    metrics: Arc<Metrics>,
    calls: ModelCalls,
    run: String,
    under_way: BTreeMap<WorkId, BegunWork>,
    /// The calls whose end the event in flight has told.
    ended: Vec<ModelAttempt>,
    /// What the event in flight has ended by a failure.
    failing: Option<FailingWork>,
    /// What the turn was measured to be, while it begins.
    measure: Option<TurnMeasure>,
    /// The tokens of the tools, as they were measured last.
    tool_tokens: u64,
    forced: Option<FinalReason>,
    source: Option<ReportSource>,
    refused: u64,
    cost: Option<Cost>,
}

/// Work that was set going.
#[derive(Debug)]
struct BegunWork {
    at: Instant,
    what: WorkKind,
}

#[derive(Debug)]
enum WorkKind {
    Model { turn: u32, attempt: u32, max_attempts: Option<u32>, target: String, traffic: ByteTraffic },
    Tool { tool: String, traffic: ByteTraffic },
}

/// Work that failed, until its class is known.
#[derive(Debug)]
enum FailingWork {
    Model,
    Tool { tool: String, latency: Nanos },
}

impl Telemetry {
    pub(super) fn new(metrics: Arc<Metrics>, models: BTreeMap<String, ModelFacts>) -> Self {
        Self {
            calls: ModelCalls::new(Arc::clone(&metrics), models),
            metrics,
            run: String::new(),
            under_way: BTreeMap::new(),
            ended: Vec::new(),
            failing: None,
            measure: None,
            tool_tokens: 0,
            forced: None,
            source: None,
            refused: 0,
            cost: None,
        }
    }

    /// What the calls of the run cost so far; `None`: no price is known.
    pub(super) const fn cost(&self) -> Option<Cost> {
        self.cost
    }

    /// A run continues that began elsewhere.
    pub(super) fn goes_on(&mut self, run: &str) {
        run.clone_into(&mut self.run);
    }

    /// Where the bytes of a call of a model, or of the result of a tool, are counted.
    pub(super) fn traffic(&self, work: WorkId) -> ByteTraffic {
        match self.under_way.get(&work) {
            Some(BegunWork {
                what: WorkKind::Model { traffic, .. } | WorkKind::Tool { traffic, .. },
                ..
            }) => traffic.clone(),
            None => ByteTraffic::default(),
        }
    }

    /// An event is about to be taken.
    pub(super) fn event(&mut self, Envelope { now, event, .. }: &Envelope, policy: &Policy) {
        (self.measure, self.failing) = (None, None);
        match event {
            Event::RunStarted(started) => self.run.clone_from(&started.run),
            Event::TurnPrepared { measure, .. } => {
                self.measure = Some(*measure);
                self.tool_tokens = measure.tool_tokens;
            }
            // The call that follows is of what is left.
            Event::ContextReduced { reduction, .. } => {
                let (message_tokens, tool_tokens) = (reduction.message_tokens, self.tool_tokens);
                self.measure = Some(TurnMeasure { message_tokens, tool_tokens, ..TurnMeasure::default() });
            }
            Event::ModelResponded { work, reply } => {
                if let Some(mut attempt) = self.model_ended(*work, *now, policy) {
                    if let Some(tokens) = reply.usage {
                        attempt.used(tokens);
                    }
                    self.ended.push(attempt);
                }
            }
            Event::ModelFailed { work, failure } => {
                if let Some(mut attempt) = self.model_ended(*work, *now, policy) {
                    attempt.fail(failure.status, failure.message.clone());
                    self.ended.push(attempt);
                    self.failing = Some(FailingWork::Model);
                }
            }
            Event::ToolFinished { work, outcome, .. } => self.tool_ended(*work, outcome, *now),
            // The others begin and end no call.
            _ => {}
        }
    }

    /// The event was taken at that time, with that state, and this is what it led to. Returns the calls that are over.
    pub(super) fn directives(
        &mut self,
        directives: &Directives,
        now: Instant,
        state: &State,
        policy: &Policy,
    ) -> Vec<ModelAttempt> {
        self.classified(state.failure_class());
        for directive in &directives.0 {
            match &directive.order {
                DirectiveKind::Work(work) => self.begun(work, now, policy),
                DirectiveKind::Note(Note::Finish { outcome }) => {
                    self.cut_off(now, policy);
                    self.finished(outcome, state.turn);
                }
                DirectiveKind::Note(note) => self.note(note, now, policy),
            }
        }
        // What is done about a refused history is decided when it has been looked at.
        let looks = |directive: &Directive| {
            matches!(directive.order, DirectiveKind::Work(Work::RepairHistory(_) | Work::ReduceContext(_)))
        };
        if directives.0.iter().any(looks) {
            return Vec::new();
        }
        let mut ended = std::mem::take(&mut self.ended);
        for attempt in &mut ended {
            if let Some(cost) = self.calls.count(attempt) {
                self.cost = Some(self.cost.unwrap_or_default().plus(cost));
            }
        }
        ended
    }

    /// The failure that the event brought is of that class.
    fn classified(&mut self, class: Option<ErrorClass>) {
        match self.failing.take() {
            Some(FailingWork::Model) => {
                if let Some(attempt) = self.ended.last_mut() {
                    attempt.error_type = class;
                }
            }
            Some(FailingWork::Tool { tool, latency }) => self.count_tool(&tool, class, latency),
            None => {}
        }
    }

    fn begun(&mut self, work: &Work, at: Instant, policy: &Policy) {
        let what = match work {
            Work::CallModel(CallModel { turn, attempt, max_attempts, target, .. }) => {
                if let Some(TurnMeasure { message_tokens, tool_tokens, .. }) = self.measure {
                    self.calls.remaining(target, message_tokens.saturating_add(tool_tokens), policy);
                }
                let (turn, attempt, max_attempts) = (*turn, *attempt, *max_attempts);
                let (target, traffic) = (target.clone(), ByteTraffic::default());
                WorkKind::Model { turn, attempt, max_attempts, target, traffic }
            }
            Work::Summarize(SummarizeMessages { turn, target, .. }) => {
                let (target, traffic) = (target.clone(), ByteTraffic::default());
                WorkKind::Model { turn: *turn, attempt: 1, max_attempts: Some(1), target, traffic }
            }
            Work::RunTool(RunTool { tool, arguments, .. }) => {
                self.metrics.add(MetricId::ToolBytesIn, &[tool], length(json_length(arguments)));
                WorkKind::Tool { tool: tool.clone(), traffic: ByteTraffic::default() }
            }
            Work::PrepareTurn(_)
            | Work::RepairHistory(_)
            | Work::ReduceContext(_)
            | Work::Wait(_)
            | Work::Consult(_)
            | Work::Ask(_) => return,
        };
        self.under_way.insert(work.id(), BegunWork { at, what });
    }

    fn model_ended(&mut self, work: WorkId, now: Instant, policy: &Policy) -> Option<ModelAttempt> {
        let BegunWork { at, what: WorkKind::Model { turn, attempt, max_attempts, target, traffic } } =
            self.under_way.remove(&work)?
        else {
            return None;
        };
        let which = CallRef { run: &self.run, turn, attempt, max_attempts, target: &target };
        let mut attempt = self.calls.record(&which, now.since(at), policy);
        (attempt.bytes_in, attempt.bytes_out) = (traffic.sent(), traffic.received());
        Some(attempt)
    }

    fn tool_ended(&mut self, work: WorkId, outcome: &ToolOutcome, now: Instant) {
        let Some(BegunWork { at, what: WorkKind::Tool { tool, traffic } }) = self.under_way.remove(&work)
        else {
            return;
        };
        let bytes = match (outcome, traffic.received()) {
            // Whoever ran the tool has not measured the result.
            (ToolOutcome::Ok { data }, 0) => length(result_length(data)),
            (ToolOutcome::Ok { .. }, measured) => measured,
            (ToolOutcome::Done, _) => 0,
            (ToolOutcome::Failed { failure, .. }, _) => length(failure.message.len()),
        };
        self.metrics.add(MetricId::ToolBytesOut, &[&tool], bytes);
        let latency = now.since(at);
        if matches!(outcome, ToolOutcome::Failed { .. }) {
            self.failing = Some(FailingWork::Tool { tool, latency });
        } else {
            self.count_tool(&tool, None, latency);
        }
    }

    /// The run ends before this work does.
    fn cut_off(&mut self, now: Instant, policy: &Policy) {
        let left: Vec<WorkId> = self.under_way.keys().copied().collect();
        for work in left {
            self.dropped(work, now, policy);
        }
    }

    /// Nobody waits for this work any more.
    fn dropped(&mut self, work: WorkId, now: Instant, policy: &Policy) {
        if let Some(BegunWork { at, what: WorkKind::Tool { tool, .. } }) = self.under_way.get(&work) {
            let (tool, latency) = (tool.clone(), now.since(*at));
            self.under_way.remove(&work);
            self.count_tool(&tool, Some(ErrorClass::Cancelled), latency);
        } else if let Some(mut attempt) = self.model_ended(work, now, policy) {
            attempt.cancel();
            self.ended.push(attempt);
        }
    }

    fn note(&mut self, note: &Note, now: Instant, policy: &Policy) {
        match note {
            Note::Metric(metric) => self.metrics.record(metric),
            Note::Dropped { work } => self.dropped(*work, now, policy),
            Note::TurnRetry(retry) => self.turn_retry(retry, policy),
            Note::RejectTurn { error_type, .. } => {
                if let Some(attempt) = self.ended.last_mut() {
                    attempt.reject(*error_type);
                }
            }
            Note::Exhausted { exhausted, .. } => self.exhausted(exhausted),
            Note::FinalTurn { reason, turn, max_turns } => self.final_turn(*reason, *turn, *max_turns),
            Note::OutputRefused { .. } => self.refused = self.refused.saturating_add(1),
            Note::OutputAccepted { source, .. } => self.source = Some(*source),
            // No metric and no call is about the others.
            _ => {}
        }
    }

    fn turn_retry(&mut self, retry: &TurnRetry, policy: &Policy) {
        let Some(attempt) = self.ended.last_mut() else {
            // No call has ended: the model was passed over before it was asked.
            if retry.error_type == ErrorClass::ContextOverflow {
                self.calls.passed_over(&retry.target, policy);
            }
            return;
        };
        attempt.reject(retry.error_type);
        attempt.then(retry.action, retry.backoff, retry.next_target.clone());
    }

    fn exhausted(&mut self, exhausted: &RetryExhausted) {
        let Some(attempt) = self.ended.last_mut() else { return };
        if exhausted.action == "output"
            && let Some(last) = exhausted.attempts.last()
        {
            attempt.reject(last.error_type);
        }
        if attempt.status != AttemptStatus::Success {
            attempt.reason = Some(exhausted.reason);
        }
    }

    fn final_turn(&mut self, reason: FinalReason, turn: u32, max_turns: u32) {
        self.forced = Some(reason);
        if reason == FinalReason::Context {
            let labels = ["", "", "", TRIGGER, "forced_final"];
            self.metrics.add(MetricId::ContextGuardEvents, &labels, 1);
        }
        if turn < max_turns {
            self.metrics.add(MetricId::RetryCollapses, &[final_reason(reason)], 1);
        }
    }

    fn finished(&self, outcome: &Outcome, turn: u32) {
        let (source, status) = match outcome {
            Outcome::Reported { .. } => (self.source.map_or("tool-call", report_source), "success"),
            Outcome::Answered { .. } => ("text", "success"),
            Outcome::Failed { .. } | Outcome::Stopped { .. } => ("synthetic", "failure"),
        };
        let forced = self.forced.map_or("none", final_reason);
        self.metrics.add(MetricId::FinalReports, &[source, status, forced], 1);
        let accepted = u64::from(matches!(outcome, Outcome::Reported { .. }));
        self.metrics.add(MetricId::FinalReportAttempts, &[], self.refused.saturating_add(accepted));
        self.metrics.add(MetricId::FinalReportTurns, &[], turn.into());
    }

    fn count_tool(&self, tool: &str, class: Option<ErrorClass>, latency: Nanos) {
        let status = class.map_or("success", |_| "failed");
        self.metrics.add(MetricId::ToolInvocations, &[tool, status], 1);
        self.metrics.add(MetricId::ToolLatency, &[tool, status], latency.0);
        let error = class.map_or("", ErrorClass::name);
        self.metrics.add(MetricId::GenAiToolDuration, &[tool, error], latency.0);
        if class.is_some() {
            self.metrics.add(MetricId::ToolErrors, &[tool, error], 1);
        }
    }
}

fn length(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

const fn final_reason(reason: FinalReason) -> &'static str {
    match reason {
        FinalReason::MaxTurns => "max_turns",
        FinalReason::Context => "context",
        FinalReason::RetryExhaustion => "retry_exhaustion",
        FinalReason::ReportAttempt => "report_attempt",
        FinalReason::Loop => "loop",
        FinalReason::UserStop => "user_stop",
        FinalReason::Budget => "budget",
    }
}

const fn report_source(source: ReportSource) -> &'static str {
    match source {
        ReportSource::ToolCall => "tool-call",
        ReportSource::Text => "text",
        ReportSource::Pending => "pending",
        ReportSource::Host => "host",
    }
}
