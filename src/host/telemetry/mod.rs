//! What a run tells about itself: metrics and one record for each call of a model, folded from its events and
//! directives.
//!
//! The interpreter counts what only it knows (`Note::Metric`). Everything else follows from what passes by here:
//! latencies from the times of events, sizes from what is sent and comes back. Nothing decides anything.

mod attempt;
mod price;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use self::attempt::{AttemptStatus, ModelAttempt};
pub use self::price::{Cost, ModelFacts, Price};
use super::metrics::{Meter, Metrics};
use crate::engine::{
    CallModel, Directives, Envelope, Event, Failure, ModelReply, Note, Order, Outcome, RetryAction, RunTool,
    ToolOutcome, TurnMeasure, TurnRetry, Work, WorkId,
};
use crate::policy::{ContextWindow, ErrorClass, Policy, Provider};
use crate::session::{FinalReason, ReportSource, RetryExhausted, Usage};
use crate::time::{Instant, Nanos};

/// What the conventions for generative AI call a call of a model.
const CHAT: &str = "chat";
/// When the guard of the context looks: before a turn.
const TRIGGER: &str = "turn_preflight";

/// Watches one run.
#[derive(Debug)]
pub(super) struct Telemetry {
    metrics: Arc<Metrics>,
    models: BTreeMap<String, ModelFacts>,
    run: String,
    under_way: BTreeMap<WorkId, Begun>,
    /// The calls whose end the event under way has told.
    ended: Vec<ModelAttempt>,
    /// What the turn was measured to be, while it begins.
    measure: Option<TurnMeasure>,
    forced: Option<FinalReason>,
    source: Option<ReportSource>,
    refused: u64,
    cost: Option<Cost>,
}

/// Work that was set going.
#[derive(Debug)]
struct Begun {
    at: Instant,
    what: What,
}

#[derive(Debug)]
enum What {
    Model { turn: u32, attempt: u32, max_attempts: Option<u32>, target: String },
    Tool { tool: String },
}

impl Telemetry {
    pub(super) fn new(metrics: Arc<Metrics>, models: BTreeMap<String, ModelFacts>) -> Self {
        Self {
            metrics,
            models,
            run: String::new(),
            under_way: BTreeMap::new(),
            ended: Vec::new(),
            measure: None,
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

    /// An event is about to be taken.
    pub(super) fn event(&mut self, Envelope { now, event, .. }: &Envelope, policy: &Policy) {
        self.measure = None;
        match event {
            Event::RunStarted(started) => self.run.clone_from(&started.run),
            Event::TurnPrepared { measure, .. } => self.measure = Some(*measure),
            Event::ModelResponded { work, reply } => {
                if let Some(mut attempt) = self.model_ended(*work, *now, policy) {
                    replied(&mut attempt, reply);
                    self.ended.push(attempt);
                }
            }
            Event::ModelFailed { work, failure } => {
                if let Some(mut attempt) = self.model_ended(*work, *now, policy) {
                    failed(&mut attempt, failure, policy);
                    self.ended.push(attempt);
                }
            }
            Event::ToolFinished { work, outcome } => self.tool_ended(*work, outcome, *now, policy),
            Event::HistoryRepaired { .. }
            | Event::TimerFired { .. }
            | Event::PlannerDecided { .. }
            | Event::ToolsProposed { .. }
            | Event::OutputProposed { .. }
            | Event::PolicyChanged { .. }
            | Event::StopRequested { .. }
            | Event::Cancelled { .. } => {}
        }
    }

    /// The event was taken at that time, in that turn, and this is what it led to. Returns the calls that are over.
    pub(super) fn directives(
        &mut self,
        directives: &Directives,
        now: Instant,
        turn: u32,
        policy: &Policy,
    ) -> Vec<ModelAttempt> {
        for directive in &directives.0 {
            match &directive.order {
                Order::Work(work) => self.begun(work, now, policy),
                Order::Note(Note::Finish { outcome }) => {
                    self.cut_off(now, policy);
                    self.finished(outcome, turn);
                }
                Order::Note(note) => self.note(note, policy),
            }
        }
        let mut ended = std::mem::take(&mut self.ended);
        for attempt in &mut ended {
            self.count_attempt(attempt);
        }
        ended
    }

    fn begun(&mut self, work: &Work, at: Instant, policy: &Policy) {
        let what = match work {
            Work::CallModel(CallModel { turn, attempt, max_attempts, target, .. }) => {
                self.count_remaining(target, policy);
                let (turn, attempt, max_attempts) = (*turn, *attempt, *max_attempts);
                What::Model { turn, attempt, max_attempts, target: target.clone() }
            }
            Work::RunTool(RunTool { tool, arguments, .. }) => {
                self.metrics.add(Meter::ToolBytesIn, &[tool], length(&arguments.to_string()));
                What::Tool { tool: tool.clone() }
            }
            Work::PrepareTurn(_) | Work::RepairHistory(_) | Work::Wait(_) | Work::Consult(_) => return,
        };
        self.under_way.insert(work.id(), Begun { at, what });
    }

    fn model_ended(&mut self, work: WorkId, now: Instant, policy: &Policy) -> Option<ModelAttempt> {
        let Begun { at, what: What::Model { turn, attempt, max_attempts, target } } =
            self.under_way.remove(&work)?
        else {
            return None;
        };
        let [provider, model] = self.names(&target, policy);
        Some(ModelAttempt {
            correlation_id: self.run.clone(),
            turn,
            attempt,
            max_attempts,
            target,
            provider,
            model,
            status: AttemptStatus::Success,
            latency_ms: millis(now.since(at)),
            latency: now.since(at),
            error_type: None,
            http_status: None,
            message: String::new(),
            input_tokens: None,
            output_tokens: None,
            cache_read_tokens: None,
            cache_write_tokens: None,
            cost_usd: None,
            action: None,
            delay_ms: 0,
            next_target: None,
            reason: None,
        })
    }

    fn tool_ended(&mut self, work: WorkId, outcome: &ToolOutcome, now: Instant, policy: &Policy) {
        let Some(Begun { at, what: What::Tool { tool } }) = self.under_way.remove(&work) else { return };
        let (class, bytes) = match outcome {
            ToolOutcome::Ok { data } => {
                (None, data.as_str().map_or_else(|| length(&data.to_string()), length))
            }
            ToolOutcome::Failed { failure, .. } => {
                (Some(failure.classified(policy).class), length(&failure.message))
            }
        };
        self.metrics.add(Meter::ToolBytesOut, &[&tool], bytes);
        self.count_tool(&tool, class, now.since(at));
    }

    /// The run ends before this work does.
    fn cut_off(&mut self, now: Instant, policy: &Policy) {
        let left: Vec<WorkId> = self.under_way.keys().copied().collect();
        for work in left {
            if let Some(Begun { at, what: What::Tool { tool } }) = self.under_way.get(&work) {
                let (tool, latency) = (tool.clone(), now.since(*at));
                self.under_way.remove(&work);
                self.count_tool(&tool, Some(ErrorClass::Cancelled), latency);
            } else if let Some(mut attempt) = self.model_ended(work, now, policy) {
                attempt.status = AttemptStatus::Cancelled;
                attempt.error_type = Some(ErrorClass::Cancelled);
                self.ended.push(attempt);
            }
        }
    }

    fn note(&mut self, note: &Note, policy: &Policy) {
        match note {
            Note::Metric(metric) => self.metrics.record(metric),
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
            Note::Append { .. }
            | Note::Splice { .. }
            | Note::OrphanToolCallsPruned(_)
            | Note::Feedback { .. }
            | Note::ReducerError { .. }
            | Note::Refused { .. }
            | Note::Repaired { .. }
            | Note::LeakedCalls { .. }
            | Note::TurnRetracted { .. }
            | Note::ToolEnded { .. }
            | Note::Breaker { .. }
            | Note::Shadow { .. }
            | Note::Dropped { .. }
            | Note::Warning { .. }
            | Note::Finish { .. } => {}
        }
    }

    fn turn_retry(&mut self, retry: &TurnRetry, policy: &Policy) {
        let Some(attempt) = self.ended.last_mut() else {
            // No call has ended: the model was passed over before it was asked.
            if retry.error_type == ErrorClass::ContextOverflow {
                let [provider, model] = self.names(&retry.target, policy);
                let labels = [retry.target.as_str(), &provider, &model, TRIGGER, "skipped_provider"];
                self.metrics.add(Meter::ContextGuardEvents, &labels, 1);
            }
            return;
        };
        attempt.reject(retry.error_type);
        attempt.action = Some(retry.action);
        attempt.delay_ms = millis(retry.backoff);
        attempt.next_target.clone_from(&retry.next_target);
        if retry.action != RetryAction::Abort {
            let labels =
                [attempt.target.as_str(), &attempt.provider, &attempt.model, retry.error_type.name()];
            self.metrics.add(Meter::LlmRetries, &labels, 1);
        }
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
            self.metrics.add(Meter::ContextGuardEvents, &labels, 1);
        }
        if turn < max_turns {
            self.metrics.add(Meter::RetryCollapses, &[final_reason(reason)], 1);
        }
    }

    fn finished(&self, outcome: &Outcome, turn: u32) {
        let (source, status) = match outcome {
            Outcome::Reported { .. } => (self.source.map_or("tool-call", report_source), "success"),
            Outcome::Answered { .. } => ("text", "success"),
            Outcome::Failed { .. } | Outcome::Stopped { .. } => ("synthetic", "failure"),
        };
        let forced = self.forced.map_or("none", final_reason);
        self.metrics.add(Meter::FinalReports, &[source, status, forced], 1);
        let accepted = u64::from(matches!(outcome, Outcome::Reported { .. }));
        self.metrics.add(Meter::FinalReportAttempts, &[], self.refused.saturating_add(accepted));
        self.metrics.add(Meter::FinalReportTurns, &[], turn.into());
    }

    fn count_remaining(&self, target: &str, policy: &Policy) {
        let Some(measure) = self.measure else { return };
        let rules = policy.model(target);
        if let ContextWindow::Tokens(window) = rules.context_window.value {
            let used = measure.message_tokens.saturating_add(measure.tool_tokens);
            let reserve = u64::from(rules.output_reserve.value.get());
            let [provider, model] = self.names(target, policy);
            let left = window.get().saturating_sub(used).saturating_sub(reserve);
            self.metrics.add(Meter::ContextRemaining, &[target, &provider, &model], left);
        }
    }

    fn count_tool(&self, tool: &str, class: Option<ErrorClass>, latency: Nanos) {
        let status = class.map_or("success", |_| "failed");
        self.metrics.add(Meter::ToolInvocations, &[tool, status], 1);
        self.metrics.add(Meter::ToolLatency, &[tool, status], latency.0);
        let error = class.map_or("", ErrorClass::name);
        self.metrics.add(Meter::GenAiToolDuration, &[tool, error], latency.0);
        if class.is_some() {
            self.metrics.add(Meter::ToolErrors, &[tool, error], 1);
        }
    }

    fn count_attempt(&mut self, attempt: &mut ModelAttempt) {
        let metrics = Arc::clone(&self.metrics);
        let names = [attempt.target.as_str(), &attempt.provider, &attempt.model];
        let [target, provider, model] = names;
        let status = [target, provider, model, attempt.status.name()];
        metrics.add(Meter::LlmRequests, &status, 1);
        metrics.add(Meter::LlmLatency, &status, attempt.latency.0);
        let error = attempt.error_name();
        if !error.is_empty() {
            metrics.add(Meter::LlmErrors, &[target, provider, model, error], 1);
        }
        // The conventions know errors of the call only: a reply that is not what was due is none.
        let call = if attempt.status == AttemptStatus::Rejected { "" } else { error };
        metrics.add(Meter::GenAiOperationDuration, &[CHAT, provider, model, call], attempt.latency.0);
        let Some(tokens) = tokens_of(attempt) else { return };
        for (meter, count) in [
            (Meter::LlmPromptTokens, tokens.input),
            (Meter::LlmCompletionTokens, tokens.output),
            (Meter::LlmCacheReadTokens, tokens.cache_read),
            (Meter::LlmCacheWriteTokens, tokens.cache_write),
        ] {
            metrics.add(meter, &names, count);
        }
        for (kind, count) in [("input", tokens.input), ("output", tokens.output)] {
            metrics.add(Meter::GenAiTokenUsage, &[CHAT, provider, model, kind], count);
        }
        if let Some(price) = self.models.get(target).and_then(|facts| facts.price) {
            let cost = price.of(tokens);
            metrics.add(Meter::LlmCost, &names, cost.0);
            self.cost = Some(self.cost.unwrap_or_default().plus(cost));
            attempt.cost_usd = Some(cost);
        }
    }

    /// Who serves a model, and its name there. What the policy calls the provider goes first.
    fn names(&self, target: &str, policy: &Policy) -> [String; 2] {
        let facts = self.models.get(target).cloned().unwrap_or_default();
        let provider = match &policy.model(target).provider.value {
            Provider::Named(name) => name.to_string(),
            Provider::Own => facts.provider,
        };
        [provider, facts.model]
    }
}

fn replied(attempt: &mut ModelAttempt, reply: &ModelReply) {
    let Some(tokens) = reply.usage else { return };
    attempt.input_tokens = Some(tokens.input);
    attempt.output_tokens = Some(tokens.output);
    attempt.cache_read_tokens = Some(tokens.cache_read).filter(|tokens| *tokens > 0);
    attempt.cache_write_tokens = Some(tokens.cache_write).filter(|tokens| *tokens > 0);
}

fn failed(attempt: &mut ModelAttempt, failure: &Failure, policy: &Policy) {
    attempt.status = AttemptStatus::Failed;
    attempt.error_type = Some(failure.classified(policy).class);
    attempt.http_status = failure.status;
    attempt.message.clone_from(&failure.message);
}

fn tokens_of(attempt: &ModelAttempt) -> Option<Usage> {
    Some(Usage {
        input: attempt.input_tokens?,
        output: attempt.output_tokens?,
        cache_read: attempt.cache_read_tokens.unwrap_or(0),
        cache_write: attempt.cache_write_tokens.unwrap_or(0),
    })
}

const fn millis(length: Nanos) -> u64 {
    length.0 / 1_000_000
}

fn length(text: &str) -> u64 {
    u64::try_from(text.len()).unwrap_or(u64::MAX)
}

const fn final_reason(reason: FinalReason) -> &'static str {
    match reason {
        FinalReason::MaxTurns => "max_turns",
        FinalReason::Context => "context",
        FinalReason::RetryExhaustion => "retry_exhaustion",
        FinalReason::ReportAttempt => "report_attempt",
        FinalReason::UserStop => "user_stop",
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
