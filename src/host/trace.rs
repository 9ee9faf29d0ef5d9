//! One log line for each decision, inside the run's span, which carries the correlation id.

use serde::Serialize;

use crate::engine::{
    ContextReduced, Directive, Note, Order, OrphanToolCallsPruned, Outcome, RetryAction, TurnRetry, Work,
};
use crate::policy::ErrorClass;
use crate::session::{ReportSource, StopReason};

use super::{AttemptStatus, ModelAttempt};

/// Where the lines about calls of models go, so that they can be asked for alone.
const ATTEMPT: &str = "unfazed::attempt";

/// Logs a directive. What goes wrong is a warning, the rest is for those who look closely.
pub(super) fn directive(directive: &Directive) {
    match &directive.order {
        Order::Work(work) => order(work, directive),
        Order::Note(note) => taken(note, directive),
    }
}

/// Logs a call of a model that is over.
pub(super) fn attempt(attempt: &ModelAttempt) {
    macro_rules! line {
        ($level:expr) => {
            tracing::event!(
                target: ATTEMPT,
                $level,
                correlation_id = attempt.correlation_id,
                target_model = attempt.target,
                provider = attempt.provider,
                model = attempt.model,
                turn = attempt.turn,
                attempt = attempt.attempt,
                max_attempts = attempt.max_attempts,
                status = attempt.status.name(),
                error_type = attempt.error_type.map(ErrorClass::name),
                http_status = attempt.http_status,
                latency_ms = attempt.latency_ms,
                input_tokens = attempt.input_tokens,
                output_tokens = attempt.output_tokens,
                cache_read_tokens = attempt.cache_read_tokens,
                cache_write_tokens = attempt.cache_write_tokens,
                reasoning_tokens = attempt.reasoning_tokens,
                cost_usd = attempt.cost_usd.map(tracing::field::display),
                action = attempt.action.map(RetryAction::name),
                delay_ms = attempt.delay_ms,
                next = attempt.next_target,
                reason = attempt.reason.map(StopReason::name),
                "model attempt"
            )
        };
    }
    match attempt.status {
        AttemptStatus::Success => line!(tracing::Level::INFO),
        AttemptStatus::Failed | AttemptStatus::Rejected | AttemptStatus::Cancelled => {
            line!(tracing::Level::WARN);
        }
    }
}

/// Logs what is done about a model call that failed, or that a model is passed over.
pub(super) fn turn_retry(retry: &TurnRetry) {
    tracing::warn!(
        target_model = retry.target,
        next = retry.next_target,
        remaining = retry.remaining,
        error_type = retry.error_type.name(),
        delay_ms = retry.backoff.0 / 1_000_000,
        action = retry.log_message,
        "model retry"
    );
}

/// Logs that what had come of an answer is taken back.
pub(super) fn retracted(target: &str, attempt: u32, received: u64) {
    tracing::warn!(target_model = target, attempt, received, "streamed answer retracted");
}

/// Logs a repair of the history.
pub(super) fn orphans(told: &OrphanToolCallsPruned, because: &str) {
    tracing::warn!(
        pruned_count = told.pruned_count,
        injected_count = told.injected_count,
        dropped_count = told.dropped_count,
        moved_count = told.moved_count,
        malformed_count = told.malformed_count,
        target_model = told.model,
        original_error = told.original_error,
        because,
        "orphan tool calls pruned"
    );
}

/// Logs a reduction of the conversation.
pub(super) fn reduced(told: &ContextReduced, because: &str) {
    tracing::warn!(
        target_model = told.target,
        step = told.step,
        tokens_before = told.tokens_before,
        tokens_after = told.tokens_after,
        shortened = told.shortened,
        left_out = told.left_out,
        because,
        "context reduced"
    );
}

fn order(work: &Work, directive: &Directive) {
    match work {
        Work::PrepareTurn(turn) => tracing::debug!(turn = turn.turn, last = turn.last, "turn"),
        Work::RepairHistory(_) => tracing::debug!(because = %because(directive), "history repair"),
        Work::ReduceContext(work) => {
            let step = work.plan.step.name();
            tracing::debug!(target_model = work.target, step, because = %because(directive), "context reduction");
        }
        Work::Summarize(work) => tracing::debug!(target_model = work.target, turn = work.turn, "summary"),
        Work::CallModel(call) => {
            tracing::debug!(
                target_model = call.target,
                turn = call.turn,
                attempt = call.attempt,
                "model call"
            );
        }
        Work::RunTool(run) => {
            tracing::debug!(tool = run.tool, call = run.call, attempt = run.attempt, "tool run");
        }
        Work::Wait(wait) => tracing::warn!(
            subject = wait.subject,
            error_type = wait.error_type.name(),
            attempt = wait.attempt,
            delay_ms = wait.delay.0 / 1_000_000,
            because = %because(directive),
            "retry after a wait"
        ),
        Work::Ask(ask) => tracing::info!(
            tool = ask.tool,
            call = ask.call,
            question = named(&ask.question),
            because = %because(directive),
            "a person is asked"
        ),
        Work::Consult(consult) => tracing::warn!(action = consult.exhausted.action, "the planner is asked"),
    }
}

fn taken(note: &Note, directive: &Directive) {
    match note {
        Note::Feedback { feedback } => tracing::warn!(
            tool = feedback.tool_name.as_deref(),
            error_type = feedback.error_type.name(),
            attempt = feedback.attempt,
            delay_ms = feedback.next_delay.0 / 1_000_000,
            "retry feedback"
        ),
        Note::ReducerError { error } => {
            tracing::error!(reducer = error.reducer, message = error.message, "reducer error");
        }
        Note::Refused { tool, call, error_type, .. } => {
            tracing::warn!(tool, call, error_type = error_type.name(), because = %because(directive), "tool call refused");
        }
        Note::Repaired { tool, call, repairs } => {
            tracing::info!(tool, call, repairs = %repairs, "JSON repaired");
        }
        Note::ToolEnded { tool, call, attempts, error_type, .. } => {
            tracing::debug!(
                tool,
                call,
                attempts,
                error_type = error_type.map(ErrorClass::name),
                "tool call ended"
            );
        }
        Note::ResultCut { tool, call, unit, shown, total, handle } => {
            let unit = unit.name();
            tracing::info!(tool, call, unit, shown, total, handle, because = %because(directive), "result cut");
        }
        Note::Renamed { call, tool, from } => tracing::info!(tool, call, from, "tool name corrected"),
        Note::EffectChecked { call, tool, by, effect } => {
            tracing::warn!(tool, call, by, effect = named(effect), because = %because(directive), "effect checked");
        }
        Note::RoundsFailed { rounds, .. } => {
            tracing::warn!(rounds, because = %because(directive), "no call went well");
        }
        Note::LeakedCalls { tools } => tracing::warn!(tools = ?tools, "calls in the text of a reply"),
        Note::RejectTurn { error_type, .. } => {
            tracing::warn!(error_type = error_type.name(), "reply rejected");
        }
        Note::TurnRetracted { target, attempt, received } => retracted(target, *attempt, *received),
        Note::Breaker { tool, state, .. } => {
            tracing::warn!(tool, state = named(state), because = %because(directive), "circuit breaker");
        }
        Note::ToolsHidden { tools } => {
            tracing::warn!(tools = ?tools, because = %because(directive), "tools hidden");
        }
        Note::LoopGuard(told) => tracing::warn!(
            tool = told.tool,
            call = told.call,
            pattern = told.pattern.name(),
            length = told.length,
            count = told.count,
            stage = told.stage.name(),
            because = %because(directive),
            "loop guard"
        ),
        Note::TurnRetry(retry) => turn_retry(retry),
        Note::FinalTurn { reason, turn, max_turns } => {
            tracing::warn!(reason = named(reason), turn, max_turns, because = %because(directive), "final turn");
        }
        Note::Exhausted { exhausted, .. } => {
            let last = exhausted.attempts.last().map(|attempt| attempt.error_type.name());
            tracing::error!(
                action = exhausted.action,
                reason = exhausted.reason.name(),
                error_type = last,
                attempts = exhausted.attempts.len(),
                because = %because(directive),
                "attempts exhausted"
            );
        }
        Note::Shadow { action, attempt, error_type, delay } => tracing::warn!(
            action,
            attempt,
            error_type = error_type.name(),
            delay_ms = delay.0 / 1_000_000,
            "another attempt, in shadow only"
        ),
        Note::OutputAccepted { source: source @ ReportSource::Pending, .. } => {
            tracing::warn!(source = named(source), because = %because(directive), "report accepted");
        }
        Note::OutputAccepted { source, .. } => tracing::info!(source = named(source), "report accepted"),
        Note::OutputRefused { attempt, .. } => tracing::warn!(attempt, "report refused"),
        Note::ProposalRefused { proposal, reason, message } => {
            tracing::warn!(proposal = proposal.0, reason = named(reason), message, "proposal refused");
        }
        Note::Settled(settled) => tracing::debug!(
            proposal = settled.proposal.0,
            result = settled.result.name(),
            delay_ms = settled.delay.map(|delay| delay.0 / 1_000_000),
            "proposal settled"
        ),
        Note::Warning { message } => tracing::warn!(message, "warning"),
        Note::Finish { outcome } => finished(outcome),
        Note::OrphanToolCallsPruned(told) => orphans(told, &because(directive)),
        Note::ContextReduced(told) => reduced(told, &because(directive)),
        Note::Append { .. } | Note::Splice { .. } | Note::Metric(_) | Note::Dropped { .. } => {}
    }
}

fn finished(outcome: &Outcome) {
    match outcome {
        Outcome::Reported { .. } => tracing::info!(status = "reported", "run finished"),
        Outcome::Answered { .. } => tracing::info!(status = "answered", "run finished"),
        Outcome::Failed { report, .. } => tracing::error!(
            status = "failed",
            reason = named(&report.reason),
            turns_completed = report.turns_completed,
            final_report_attempts = report.final_report_attempts,
            last_stop_reason = report.last_stop_reason,
            last_error_type = report.last_error_type.map(ErrorClass::name),
            "run finished"
        ),
        Outcome::Stopped { reason, .. } => tracing::warn!(status = "stopped", reason, "run finished"),
    }
}

/// The name that it has in events, too.
fn named(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(name)) => name,
        Ok(value) => value.to_string(),
        Err(_) => String::new(),
    }
}

fn because(directive: &Directive) -> String {
    let rules: Vec<String> =
        directive.because.iter().map(|b| format!("{} = {} ({})", b.rule, b.value, b.place)).collect();
    rules.join(", ")
}
