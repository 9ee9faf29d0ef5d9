//! One log line for each decision, inside the run's span, which carries the correlation id.

use tracing::level_filters::LevelFilter;
use tracing::{Level, Value};

use crate::engine::{Directive, DirectiveKind, Fact, Narration, Narrator, Note, RetryAction, Severity};
use crate::policy::ErrorClass;
use crate::session::StopReason;

use super::{AttemptStatus, ModelAttempt};

/// Where the lines about calls of models go, so that they can be asked for alone.
const ATTEMPT: &str = "unfazed::attempt";

/// The fields that log lines may have: all facts of narrations, by name.
macro_rules! with_fields {
    ($line:ident) => {
        $line! {
            action attempt attempts by call count delay_ms dropped_count effect error_type
            final_report_attempts from handle injected_count last last_error_type last_stop_reason left_out
            length malformed_count max_turns message moved_count next original_error pattern proposal
            pruned_count question reason received reducer remaining repairs result rounds shortened shown
            source stage state status step subject target_model tokens_after tokens_before tool tools total
            turn turns_completed unit
        }
    };
}

/// Whether anybody reads log lines.
#[inline]
pub(super) fn is_read() -> bool {
    LevelFilter::current() != LevelFilter::OFF
}

/// Logs a directive. What goes wrong is a warning, the rest is for those who look closely.
pub(super) fn directive(directive: &Directive) {
    if !is_read() {
        return;
    }
    let because: Vec<String> =
        directive.because.iter().map(|b| format!("{} = {} ({})", b.rule, b.value, b.place)).collect();
    let told = Narrator::default().directive(directive);
    log(&told, Some(because.join(", ").as_str()).filter(|because| !because.is_empty()));
}

/// Logs a note that no interpreter gave.
#[expect(clippy::needless_pass_by_value, reason = "callers make the reasons for the line alone")]
pub(super) fn note(note: Note, because: Option<String>) {
    if is_read() {
        let directive = Directive { order: DirectiveKind::Note(note), because: Vec::new(), of: None };
        log(&Narrator::default().directive(&directive), because.as_deref());
    }
}

fn log(told: &Narration, because: Option<&str>) {
    let because = because.map(tracing::field::display);
    let fact = |name: &str| told.facts.iter().find(|(known, _)| *known == name).map(|(_, fact)| value(fact));
    macro_rules! line {
        ($level:expr; $($field:ident)*) => {
            tracing::event!($level, $($field = fact(stringify!($field)),)* because, "{}", told.title)
        };
    }
    macro_rules! trace { ($($field:ident)*) => { line!(Level::TRACE; $($field)*) }; }
    macro_rules! debug { ($($field:ident)*) => { line!(Level::DEBUG; $($field)*) }; }
    macro_rules! info { ($($field:ident)*) => { line!(Level::INFO; $($field)*) }; }
    macro_rules! warn { ($($field:ident)*) => { line!(Level::WARN; $($field)*) }; }
    macro_rules! error { ($($field:ident)*) => { line!(Level::ERROR; $($field)*) }; }
    match told.severity {
        Severity::Trace => with_fields!(trace),
        Severity::Debug => with_fields!(debug),
        Severity::Info => with_fields!(info),
        Severity::Warn => with_fields!(warn),
        Severity::Error => with_fields!(error),
    }
}

fn value(fact: &Fact) -> &dyn Value {
    match fact {
        Fact::Text(text) => text,
        Fact::Number(number) => number,
        Fact::Flag(flag) => flag,
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
        AttemptStatus::Success => line!(Level::INFO),
        AttemptStatus::Failed | AttemptStatus::Rejected | AttemptStatus::Cancelled => {
            line!(Level::WARN);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::every_directive;

    macro_rules! names {
        ($($field:ident)*) => { const FIELDS: &[&str] = &[$(stringify!($field)),*]; };
    }
    with_fields!(names);

    #[test]
    fn every_fact_of_a_narration_is_a_field_of_its_log_line() {
        for directive in every_directive() {
            let told = Narrator::default().directive(&directive);
            for (name, _) in told.facts {
                assert!(FIELDS.contains(&name), "{name} of `{}`", told.title);
            }
        }
    }
}
