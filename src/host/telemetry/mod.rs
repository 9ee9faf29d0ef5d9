//! What a run tells about itself: metrics and one record for each call of a model, folded from its events and
//! directives.
//!
//! The interpreter counts what only it knows (`Note::Metric`). Everything else follows from what passes by here:
//! latencies from the times of events, sizes from what is sent and comes back. Nothing decides anything.

mod attempt;
mod calls;
#[cfg(feature = "otlp")]
pub(super) mod otel;
mod price;
pub(super) mod spans;

use std::collections::BTreeMap;
use std::sync::Arc;

use tracing::Span;

pub use self::attempt::{AttemptStatus, ModelAttempt};
pub(super) use self::calls::{CallRef, ModelCalls};
pub use self::price::ModelFacts;

use self::calls::TRIGGER;
use self::spans::{BegunCall, RunSpans};
use super::metrics::{MetricId, Metrics};
use super::port::ByteTraffic;
use super::result_length::{json_length, result_length};
use crate::engine::{
    CallModel, Directive, DirectiveKind, Directives, Envelope, Event, Note, Outcome, ProposalRef, RunTool,
    State, SummarizeMessages, ToolOutcome, TurnMeasure, TurnRetry, Work, WorkId,
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
    ended: Vec<EndedCall>,
    spans: RunSpans,
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
    span: Span,
}

/// A call of a model that is over.
#[derive(Debug)]
struct EndedCall {
    attempt: ModelAttempt,
    span: Span,
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
    Tool { tool: String, latency: Nanos, span: Span },
}

impl Telemetry {
    pub(super) fn new(metrics: Arc<Metrics>, models: BTreeMap<String, ModelFacts>) -> Self {
        Self {
            calls: ModelCalls::new(Arc::clone(&metrics), models),
            metrics,
            run: String::new(),
            under_way: BTreeMap::new(),
            ended: Vec::new(),
            spans: RunSpans::new(Span::none()),
            failing: None,
            measure: None,
            tool_tokens: 0,
            forced: None,
            source: None,
            refused: 0,
            cost: None,
        }
    }

    /// The same for a run that the interpreter drives: within this span.
    pub(super) fn within(mut self, run: Span) -> Self {
        self.spans = RunSpans::new(run);
        self
    }

    /// The span of a piece of work.
    pub(super) fn span(&self, work: WorkId) -> Span {
        self.under_way.get(&work).map_or_else(Span::none, |begun| begun.span.clone())
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
    pub(super) fn event(&mut self, Envelope { seq, now, event }: &Envelope, policy: &Policy) {
        (self.measure, self.failing) = (None, None);
        self.spans.event(*seq, event, &self.run);
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
                if let Some(mut ended) = self.model_ended(*work, *now, policy) {
                    if let Some(tokens) = reply.usage {
                        ended.attempt.used(tokens);
                    }
                    #[cfg(feature = "otlp")]
                    otel::finished(&ended.span, &reply.finish);
                    self.ended.push(ended);
                }
            }
            Event::ModelFailed { work, failure } => {
                if let Some(mut ended) = self.model_ended(*work, *now, policy) {
                    ended.attempt.fail(failure.status, failure.message.clone());
                    self.ended.push(ended);
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
            self.spans.decided(directive);
            match &directive.order {
                DirectiveKind::Work(work) => self.begun(work, directive.of, now, policy),
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
        let mut attempts = Vec::new();
        for EndedCall { mut attempt, span } in std::mem::take(&mut self.ended) {
            if let Some(cost) = self.calls.count(&mut attempt) {
                self.cost = Some(self.cost.unwrap_or_default().plus(cost));
            }
            spans::called(&span, &attempt);
            attempts.push(attempt);
        }
        attempts
    }

    /// The failure that the event brought is of that class.
    fn classified(&mut self, class: Option<ErrorClass>) {
        match self.failing.take() {
            Some(FailingWork::Model) => {
                if let Some(EndedCall { attempt, .. }) = self.ended.last_mut() {
                    attempt.error_type = class;
                }
            }
            Some(FailingWork::Tool { tool, latency, span }) => {
                spans::failed(&span, class.map_or("_OTHER", ErrorClass::name));
                self.count_tool(&tool, class, latency);
            }
            None => {}
        }
    }

    fn begun(&mut self, work: &Work, of: Option<ProposalRef>, at: Instant, policy: &Policy) {
        let (what, span) = match work {
            Work::CallModel(CallModel { turn, attempt, max_attempts, target, .. }) => {
                if let Some(TurnMeasure { message_tokens, tool_tokens, .. }) = self.measure {
                    self.calls.remaining(target, message_tokens.saturating_add(tool_tokens), policy);
                }
                let (turn, attempt, max_attempts) = (*turn, *attempt, *max_attempts);
                let span = self.call_span(of, turn, attempt, target, policy);
                let (target, traffic) = (target.clone(), ByteTraffic::default());
                (WorkKind::Model { turn, attempt, max_attempts, target, traffic }, span)
            }
            Work::Summarize(SummarizeMessages { turn, target, .. }) => {
                let span = self.call_span(of, *turn, 1, target, policy);
                let (target, traffic) = (target.clone(), ByteTraffic::default());
                (WorkKind::Model { turn: *turn, attempt: 1, max_attempts: Some(1), target, traffic }, span)
            }
            Work::RunTool(run) => {
                let RunTool { tool, arguments, .. } = run;
                self.metrics.add(MetricId::ToolBytesIn, &[tool], length(json_length(arguments)));
                let what = WorkKind::Tool { tool: tool.clone(), traffic: ByteTraffic::default() };
                (what, self.spans.tool(of, run))
            }
            Work::PrepareTurn(_)
            | Work::RepairHistory(_)
            | Work::ReduceContext(_)
            | Work::Wait(_)
            | Work::Consult(_)
            | Work::Ask(_) => return,
        };
        self.under_way.insert(work.id(), BegunWork { at, what, span });
    }

    /// The span of a call of a model that begins.
    fn call_span(
        &self,
        of: Option<ProposalRef>,
        turn: u32,
        attempt: u32,
        target: &str,
        policy: &Policy,
    ) -> Span {
        // The names cost more than all the rest, and nobody may read them.
        if !spans::may_be_read() {
            return Span::none();
        }
        let [provider, model] = self.calls.names(target, policy);
        self.spans.call(of, &BegunCall { turn, attempt, target, provider: &provider, model: &model })
    }

    fn model_ended(&mut self, work: WorkId, now: Instant, policy: &Policy) -> Option<EndedCall> {
        let BegunWork { at, what: WorkKind::Model { turn, attempt, max_attempts, target, traffic }, span } =
            self.under_way.remove(&work)?
        else {
            return None;
        };
        let which = CallRef { run: &self.run, turn, attempt, max_attempts, target: &target };
        let mut attempt = self.calls.record(&which, now.since(at), policy);
        (attempt.bytes_in, attempt.bytes_out) = (traffic.sent(), traffic.received());
        Some(EndedCall { attempt, span })
    }

    fn tool_ended(&mut self, work: WorkId, outcome: &ToolOutcome, now: Instant) {
        let Some(BegunWork { at, what: WorkKind::Tool { tool, traffic }, span }) =
            self.under_way.remove(&work)
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
            self.failing = Some(FailingWork::Tool { tool, latency, span });
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
        if let Some(BegunWork { at, what: WorkKind::Tool { tool, .. }, span }) = self.under_way.get(&work) {
            let (tool, latency) = (tool.clone(), now.since(*at));
            spans::failed(span, ErrorClass::Cancelled.name());
            self.under_way.remove(&work);
            self.count_tool(&tool, Some(ErrorClass::Cancelled), latency);
        } else if let Some(mut ended) = self.model_ended(work, now, policy) {
            ended.attempt.cancel();
            self.ended.push(ended);
        }
    }

    fn note(&mut self, note: &Note, now: Instant, policy: &Policy) {
        match note {
            Note::Metric(metric) => self.metrics.record(metric),
            Note::Dropped { work } => self.dropped(*work, now, policy),
            Note::TurnRetry(retry) => self.turn_retry(retry, policy),
            Note::RejectTurn { error_type, .. } => {
                if let Some(EndedCall { attempt, .. }) = self.ended.last_mut() {
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
        let Some(EndedCall { attempt, .. }) = self.ended.last_mut() else {
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
        let Some(EndedCall { attempt, .. }) = self.ended.last_mut() else { return };
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

    fn finished(&mut self, outcome: &Outcome, turn: u32) {
        self.spans.finished(match outcome {
            Outcome::Reported { .. } | Outcome::Answered { .. } => None,
            Outcome::Failed { exhausted, .. } => {
                Some(exhausted.attempts.last().map_or("_OTHER", |attempt| attempt.error_type.name()))
            }
            Outcome::Stopped { .. } => Some(ErrorClass::Cancelled.name()),
        });
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
