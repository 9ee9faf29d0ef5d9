//! Why a run has failed, and with which code it ends.

use crate::engine::Outcome;
use crate::policy::ErrorClass;
use crate::session::{FailureReason, FailureReport, FinalReason, RetryExhausted, StopReason};

use crate::cli::exit::ExitStatus;

/// The exit code of a run, from the most particular reason to the most general.
pub(crate) fn exit(outcome: &Outcome) -> ExitStatus {
    match outcome {
        Outcome::Reported { .. } | Outcome::Answered { .. } => ExitStatus::Clean,
        Outcome::Stopped { .. } => ExitStatus::Cancelled,
        Outcome::Failed { exhausted, report } => failed(exhausted, report),
    }
}

/// What a run that failed has failed for, in words. Of a run without an answer no attempt tells.
pub(crate) fn why(exhausted: &RetryExhausted, report: &FailureReport) -> String {
    if exhausted.action != "run" || !exhausted.attempts.is_empty() {
        return exhausted.to_string();
    }
    match (exhausted.reason, report.forced_final_reason) {
        _ if report.reason == FailureReason::BudgetExhausted => {
            "its budget (`limits.run`) has too little left for another call, and there is no answer"
                .to_owned()
        }
        (StopReason::Deadline, _) => "its deadline has passed".to_owned(),
        (StopReason::Attempts, Some(FinalReason::MaxTurns)) => {
            format!("all turns are used up ({} of {})", report.turns_completed, report.max_turns)
        }
        (StopReason::Attempts, Some(_)) => "the final turn brought no answer".to_owned(),
        (reason, _) => reason.name().to_owned(),
    }
}

fn failed(exhausted: &RetryExhausted, report: &FailureReport) -> ExitStatus {
    // Whoever stops a run and gets no report in its final turn has stopped it all the same.
    if report.forced_final_reason == Some(FinalReason::UserStop) {
        return ExitStatus::Cancelled;
    }
    let last = exhausted.attempts.last().map(|attempt| attempt.error_type);
    match last.filter(|_| exhausted.action.starts_with("model ")) {
        Some(ErrorClass::AuthError | ErrorClass::PermissionDenied) => return ExitStatus::Auth,
        Some(ErrorClass::QuotaExceeded) => return ExitStatus::Quota,
        Some(ErrorClass::ContextOverflow | ErrorClass::TruncatedOutput) => return ExitStatus::TokenLimit,
        _ => {}
    }
    if report.forced_final_reason == Some(FinalReason::Context) {
        return ExitStatus::TokenLimit;
    }
    match report.reason {
        FailureReason::BudgetExhausted => ExitStatus::Budget,
        FailureReason::DeadlineExceeded => ExitStatus::Deadline,
        FailureReason::MaxTurnsExhausted => ExitStatus::MaxTurns,
        FailureReason::SessionFailed | FailureReason::Stopped if exhausted.reason.used_up() => {
            ExitStatus::Retries
        }
        FailureReason::SessionFailed | FailureReason::Stopped => ExitStatus::Problem,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::AttemptRecord;
    use crate::time::{Instant, Nanos};

    fn outcome(action: &str, stop: StopReason, class: ErrorClass, reason: FailureReason) -> Outcome {
        let attempt = AttemptRecord {
            attempt: 1,
            error_type: class,
            message: String::new(),
            at: Instant(0),
            delay: Nanos::ZERO,
        };
        let exhausted = RetryExhausted {
            action: action.into(),
            reason: stop,
            attempts: vec![attempt],
            retry_after: None,
        };
        let report = FailureReport {
            reason,
            text: String::new(),
            turns_completed: 1,
            max_turns: 1,
            final_report_attempts: 0,
            forced_final_reason: None,
            last_stop_reason: None,
            last_error_type: Some(class),
            last_error: None,
        };
        Outcome::Failed { exhausted, report }
    }

    #[test]
    fn the_last_failure_of_the_model_says_why() {
        use ErrorClass as C;
        use FailureReason as R;
        use StopReason as S;
        for (action, stop, class, reason, expected) in [
            ("model main", S::NotRetryable, C::AuthError, R::SessionFailed, ExitStatus::Auth),
            ("model main", S::NeverRetry, C::QuotaExceeded, R::SessionFailed, ExitStatus::Quota),
            ("model main", S::RequestAtFault, C::ContextOverflow, R::SessionFailed, ExitStatus::TokenLimit),
            ("model main", S::Attempts, C::RateLimit, R::SessionFailed, ExitStatus::Retries),
            ("model main", S::ServerDelay, C::RateLimit, R::SessionFailed, ExitStatus::Retries),
            ("model main", S::Deadline, C::RateLimit, R::DeadlineExceeded, ExitStatus::Deadline),
            ("model main", S::Deadline, C::RateLimit, R::BudgetExhausted, ExitStatus::Budget),
            ("model main", S::NeverRetry, C::AuthError, R::BudgetExhausted, ExitStatus::Auth),
            ("run", S::RunBudget, C::Timeout, R::BudgetExhausted, ExitStatus::Budget),
            ("model main", S::NotRetryable, C::InvalidRequest, R::SessionFailed, ExitStatus::Problem),
            ("output", S::Attempts, C::InvalidOutput, R::MaxTurnsExhausted, ExitStatus::MaxTurns),
            ("output", S::Attempts, C::InvalidOutput, R::SessionFailed, ExitStatus::Retries),
            // A tool that is refused says nothing about the key of the model.
            ("tool search", S::NotRetryable, C::AuthError, R::SessionFailed, ExitStatus::Problem),
        ] {
            assert_eq!(exit(&outcome(action, stop, class, reason)), expected, "{action} {stop:?} {class}");
        }
    }

    #[test]
    fn a_run_that_was_stopped_and_gave_no_report_is_cancelled() {
        let mut outcome =
            outcome("run", StopReason::Attempts, ErrorClass::InvalidOutput, FailureReason::MaxTurnsExhausted);
        if let Outcome::Failed { report, .. } = &mut outcome {
            report.forced_final_reason = Some(FinalReason::UserStop);
        }
        assert_eq!(exit(&outcome), ExitStatus::Cancelled);
    }

    #[test]
    fn a_run_that_is_out_of_turns_says_so() {
        let mut outcome =
            outcome("run", StopReason::Attempts, ErrorClass::TextOnly, FailureReason::MaxTurnsExhausted);
        let Outcome::Failed { exhausted, report } = &mut outcome else { return };
        exhausted.attempts.clear();
        report.forced_final_reason = Some(FinalReason::MaxTurns);
        assert_eq!(why(exhausted, report), "all turns are used up (1 of 1)");
        report.forced_final_reason = Some(FinalReason::Loop);
        assert_eq!(why(exhausted, report), "the final turn brought no answer");
        exhausted.reason = StopReason::Deadline;
        assert_eq!(why(exhausted, report), "its deadline has passed");
    }

    #[test]
    fn a_last_turn_forced_by_the_context_is_a_token_limit() {
        let mut outcome =
            outcome("output", StopReason::Attempts, ErrorClass::InvalidOutput, FailureReason::SessionFailed);
        if let Outcome::Failed { report, .. } = &mut outcome {
            report.forced_final_reason = Some(FinalReason::Context);
        }
        assert_eq!(exit(&outcome), ExitStatus::TokenLimit);
    }
}
