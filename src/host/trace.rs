//! One log line for each decision, inside the run's span, which carries the correlation id.

use crate::engine::{Directive, Note, Order, Work};
use crate::policy::ErrorClass;

/// Logs a directive. What goes wrong is a warning, the rest is for those who look closely.
pub(super) fn directive(directive: &Directive) {
    match &directive.order {
        Order::Work(work) => order(work, directive),
        Order::Note(note) => taken(note, directive),
    }
}

fn order(work: &Work, directive: &Directive) {
    match work {
        Work::PrepareTurn(turn) => tracing::debug!(turn = turn.turn, last = turn.last, "turn"),
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
        Note::LeakedCalls { tools } => tracing::warn!(tools = ?tools, "calls in the text of a reply"),
        Note::RejectTurn { error_type, .. } => {
            tracing::warn!(error_type = error_type.name(), "reply rejected");
        }
        Note::TurnRetracted { target, attempt, received } => {
            tracing::warn!(target_model = target, attempt, received, "streamed answer retracted");
        }
        Note::Breaker { tool, state, .. } => {
            tracing::warn!(tool, state = ?state, because = %because(directive), "circuit breaker");
        }
        Note::TurnRetry(retry) => tracing::warn!(
            target_model = retry.target,
            next = retry.next_target,
            remaining = retry.remaining,
            error_type = retry.error_type.name(),
            delay_ms = retry.backoff.0 / 1_000_000,
            action = retry.log_message,
            "model retry"
        ),
        Note::FinalTurn { reason, turn, max_turns } => {
            tracing::warn!(reason = ?reason, turn, max_turns, because = %because(directive), "final turn");
        }
        Note::Exhausted { exhausted, .. } => {
            tracing::error!(action = exhausted.action, reason = exhausted.reason.name(), because = %because(directive), "attempts exhausted");
        }
        Note::Shadow { action, attempt, error_type, delay } => tracing::warn!(
            action,
            attempt,
            error_type = error_type.name(),
            delay_ms = delay.0 / 1_000_000,
            "another attempt, in shadow only"
        ),
        Note::OutputAccepted { .. } => tracing::info!("report accepted"),
        Note::OutputRefused { attempt, .. } => tracing::warn!(attempt, "report refused"),
        Note::Warning { message } => tracing::warn!(message, "warning"),
        Note::Finish { .. } => tracing::info!("run finished"),
        Note::Append { .. } | Note::Metric(_) | Note::Dropped { .. } => {}
    }
}

fn because(directive: &Directive) -> String {
    let rules: Vec<String> =
        directive.because.iter().map(|b| format!("{} = {} ({})", b.rule, b.value, b.place)).collect();
    rules.join(", ")
}
