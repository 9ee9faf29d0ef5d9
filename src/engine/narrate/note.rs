//! Notes in words.

use super::phrase::{action, attempt, brief, classified, count, quoted, short_name, word};
use super::{Narration, Narrator, Severity};
use crate::engine::ask::PlannerDecision;
use crate::engine::breaker::BreakerPhase;
use crate::engine::directive::{
    DecisionReason, Note, OrphanToolCallsPruned, Outcome, RetryAction, SettledProposal, TurnRetry,
};
use crate::engine::failure::EffectState;
use crate::engine::machine::NO_PROBE_FOR;
use crate::engine::reduce::ContextReduced;
use crate::engine::repeats::{LoopPattern, LoopRepetition, LoopStage};
use crate::policy::ErrorClass;
use crate::session::{FailureReport, FinalReason, Message, ReportSource, RetryExhausted, RetryFeedback};
use crate::time::Instant;

#[expect(clippy::too_many_lines, reason = "one arm for each note")]
pub(super) fn narrate(narrator: &mut Narrator, note: &Note, because: &[DecisionReason]) -> Narration {
    match note {
        Note::Append { message } => appended(message),
        Note::Splice { .. } => trace("splice", "pieces of the conversation", "are replaced"),
        Note::Metric(metric) => trace("metric", metric.name.name(), "is counted"),
        Note::Dropped { .. } => trace("dropped", "a piece of work", "is no longer needed"),
        Note::OrphanToolCallsPruned(told) => repaired_history(told),
        Note::ContextReduced(told) => reduced(told),
        Note::Feedback { feedback } => feedback_on(narrator, feedback),
        Note::ReducerError { error } => {
            let subject = format!("reducer {}", short_name(&error.reducer));
            Narration::new(Severity::Error, "✗", "reducer error", subject, "failed")
                .detail(brief(&error.message))
                .fact("reducer", &error.reducer)
                .fact("message", &error.message)
        }
        Note::Refused { tool, call, error_type, message } => {
            // The feedback before it named the problems of the arguments; the log would repeat them.
            let told = matches!(error_type, ErrorClass::InvalidArgs | ErrorClass::MalformedToolCall);
            let verb = format!("does not run ({error_type})");
            warn("⊘", "tool call refused", short_name(tool), verb)
                .detail(if told { String::new() } else { brief(message) })
                .fact("tool", tool)
                .fact("call", call)
                .fact("error_type", error_type.name())
        }
        Note::Repaired { tool, call, repairs } => {
            let of = if tool.is_empty() { "the report".to_owned() } else { short_name(tool) };
            let subject = format!("the JSON for {of}");
            Narration::new(Severity::Info, "✎", "JSON repaired", subject, "is repaired")
                .detail(repairs.to_string())
                .fact("tool", tool)
                .fact("call", call)
                .fact("repairs", repairs.to_string())
        }
        Note::LeakedCalls { tools } => {
            warn("✎", "calls in the text of a reply", "tool calls in text", "are taken as calls")
                .detail(brief(&tools.join(", ")))
                .fact("tools", tools.join(", "))
        }
        Note::Renamed { tool, call, from } => {
            let verb = format!("is corrected to {}", short_name(tool));
            Narration::new(Severity::Info, "~", "tool name corrected", short_name(from), verb)
                .fact("tool", tool)
                .fact("call", call)
                .fact("from", from)
        }
        Note::EffectChecked { tool, call, by, effect } => {
            warn("?", "effect checked", short_name(tool), checked(by, *effect))
                .fact("tool", tool)
                .fact("call", call)
                .fact("by", by)
                .fact("effect", word(effect))
        }
        Note::RoundsFailed { rounds, message } => {
            let verb = format!("has succeeded in {}", count(u64::from(*rounds), "round"));
            warn("!", "no call went well", "no call", verb).detail(brief(message)).fact("rounds", *rounds)
        }
        Note::ToolEnded { tool, call, attempts, error_type, .. } => {
            let subject = format!("{} {}", short_name(tool), short_name(call));
            let verb = if error_type.is_some() { "failed" } else { "succeeded" };
            Narration::new(Severity::Debug, "─", "tool call ended", subject, verb)
                .minor()
                .detail(error_type.map_or("", ErrorClass::name))
                .fact("tool", tool)
                .fact("call", call)
                .fact("attempts", *attempts)
                .known("error_type", error_type.map(ErrorClass::name))
        }
        Note::ResultCut { tool, call, unit, shown, total, handle } => {
            let kept = if handle.is_some() { "; the whole is kept" } else { "" };
            let verb = format!("is cut to {shown} of {total} {}{kept}", unit.name());
            let subject = format!("the result of {}", short_name(tool));
            Narration::new(Severity::Info, "✂", "result cut", subject, verb)
                .fact("tool", tool)
                .fact("call", call)
                .fact("unit", unit.name())
                .fact("shown", *shown)
                .fact("total", *total)
                .known("handle", handle.as_deref())
        }
        Note::RejectTurn { error_type, .. } => warn("⊘", "reply rejected", "the reply", "is rejected")
            .detail(error_type.name())
            .fact("error_type", error_type.name()),
        Note::TurnRetracted { target, attempt, received } => {
            let verb = format!("is taken back: {}", count(*received, "character"));
            let subject = format!("the incomplete answer of {}", short_name(target));
            warn("⊘", "streamed answer retracted", subject, verb)
                .fact("target_model", target)
                .fact("attempt", *attempt)
                .fact("received", *received)
        }
        Note::TurnRetry(retry) => retried(narrator, retry),
        Note::Breaker { tool, state, until } => {
            let verb = breaker(*state, *until, narrator.now, because);
            warn("⚡", "circuit breaker", format!("breaker of {}", short_name(tool)), verb)
                .fact("tool", tool)
                .fact("state", word(state))
        }
        Note::ToolsHidden { tools } => hidden(tools),
        Note::LoopGuard(told) => repeats(told),
        Note::Exhausted { exhausted, decision } => gives_up(narrator, exhausted, *decision),
        Note::Shadow { action: of, attempt, error_type, delay } => {
            let verb = format!("would be retried after {}, but the policy is in shadow", delay.rounded());
            warn("○", "another attempt, in shadow only", action(of), verb)
                .fact("action", of)
                .fact("attempt", *attempt)
                .fact("error_type", error_type.name())
                .fact("delay_ms", delay.millis())
        }
        Note::FinalTurn { reason, turn, max_turns } => {
            let verb = format!("is the final turn, instead of turn {max_turns}");
            warn("⊘", "final turn", format!("turn {turn}"), verb)
                .only_if(*reason != FinalReason::MaxTurns)
                .detail(reason.name())
                .fact("reason", word(reason))
                .fact("turn", *turn)
                .fact("max_turns", *max_turns)
        }
        Note::OutputAccepted { source, .. } => {
            let (severity, verb) = match source {
                ReportSource::Pending => (Severity::Warn, "is accepted: the text of an earlier reply"),
                _ => (Severity::Info, "is accepted"),
            };
            Narration::new(severity, "✓", "report accepted", "the report", verb)
                .good()
                .fact("source", word(source))
        }
        Note::OutputRefused { attempt, message, .. } => {
            // The same failure occurs as feedback and as a refusal; it is narrated once.
            let message = if narrator.is_new_failure(message) { brief(message) } else { String::new() };
            warn("⊘", "report refused", "the report", "is refused").detail(message).fact("attempt", *attempt)
        }
        Note::Settled(settled) => settles(settled),
        Note::ProposalRefused { proposal, reason, message } => {
            warn("⊘", "proposal refused", format!("proposal {proposal}"), "is refused")
                .detail(brief(message))
                .fact("proposal", proposal.0)
                .fact("reason", word(reason))
                .fact("message", message)
        }
        Note::Warning { message } => {
            warn("!", "warning", "warning", "").detail(brief(message)).fact("message", message)
        }
        Note::Finish { outcome } => finished(outcome),
    }
}

fn warn(
    sign: &'static str,
    title: &'static str,
    subject: impl Into<String>,
    verb: impl Into<String>,
) -> Narration {
    Narration::new(Severity::Warn, sign, title, subject, verb)
}

fn trace(title: &'static str, subject: &str, verb: &str) -> Narration {
    Narration::new(Severity::Trace, "·", title, subject, verb).silent()
}

fn appended(message: &Message) -> Narration {
    let told = trace("message", "the conversation", "grows by a message");
    match message {
        Message::User { text, .. } | Message::Tool { text, .. } => Narration {
            subject: "the model".to_owned(),
            verb: "reads".to_owned(),
            detail: quoted(text),
            ..told.minor()
        },
        Message::System { .. } | Message::Assistant { .. } => told,
    }
}

fn repaired_history(told: &OrphanToolCallsPruned) -> Narration {
    let done = [
        (told.pruned_count, "call", "removed"),
        (told.injected_count, "result", "added"),
        (told.dropped_count, "result", "removed"),
        (told.moved_count, "result", "moved to the call"),
        (told.malformed_count, "call", "with malformed arguments"),
    ];
    let done = done.into_iter().filter(|(number, ..)| *number > 0);
    let done: Vec<String> =
        done.map(|(number, what, how)| format!("{} {how}", count(number, what))).collect();
    warn("✎", "orphan tool calls pruned", "the history", "is repaired")
        .detail(done.join(", "))
        .fact("pruned_count", told.pruned_count)
        .fact("injected_count", told.injected_count)
        .fact("dropped_count", told.dropped_count)
        .fact("moved_count", told.moved_count)
        .fact("malformed_count", told.malformed_count)
        .known("target_model", told.model.as_deref())
        .known("original_error", told.original_error.as_deref())
}

fn reduced(told: &ContextReduced) -> Narration {
    let ContextReduced { target, step, tokens_before, tokens_after, shortened, left_out } = told;
    let verb = format!("is reduced from {tokens_before} to {tokens_after} tokens ({step})");
    warn("✎", "context reduced", "the conversation", verb)
        .fact("target_model", target)
        .fact("step", step)
        .fact("tokens_before", *tokens_before)
        .fact("tokens_after", *tokens_after)
        .fact("shortened", *shortened)
        .fact("left_out", *left_out)
}

fn feedback_on(narrator: &mut Narrator, feedback: &RetryFeedback) -> Narration {
    let RetryFeedback { tool_name, error_type, message, next_delay, .. } = feedback;
    let of = tool_name.as_deref().map_or_else(|| "the report".to_owned(), short_name);
    let verb = format!("after {}", attempt(feedback.attempt, feedback.max_attempts));
    let message = if narrator.is_new_failure(message) { message } else { "" };
    warn("↺", "retry feedback", format!("feedback on {of}"), verb)
        .detail(classified(error_type.name(), message))
        .known("tool", tool_name.as_deref())
        .fact("error_type", error_type.name())
        .fact("attempt", feedback.attempt)
        .fact("delay_ms", next_delay.millis())
}

/// The words for the result of an effect verification.
fn checked(by: &str, effect: EffectState) -> String {
    let by = if by.is_empty() { "the user".to_owned() } else { short_name(by) };
    match effect {
        EffectState::NotStarted => format!("had no side effects, says {by}; it may run again"),
        EffectState::Committed => format!("had its side effects, says {by}"),
        EffectState::Started | EffectState::Unknown => {
            "may have had side effects and does not run again".to_owned()
        }
    }
}

fn retried(narrator: &mut Narrator, retry: &TurnRetry) -> Narration {
    let skips = retry.action == RetryAction::SkipProvider;
    narrator.next_target = retry.next_target.as_deref().filter(|_| skips).map(short_name);
    let target = short_name(&retry.target);
    let verb = match (&narrator.next_target, retry.action) {
        (Some(next), _) => format!("falls back to {next}"),
        (None, RetryAction::Retry) => "is retried".to_owned(),
        (None, RetryAction::SkipProvider | RetryAction::Abort) => "gets no further attempt".to_owned(),
    };
    let too_large = retry.is_passed_over();
    let told = warn("⊘", "model retry", format!("model {target}"), verb)
        .only_if(too_large)
        .detail(if too_large { brief(&retry.log_message) } else { retry.error_type.name().to_owned() })
        .fact("target_model", &retry.target)
        .known("next", retry.next_target.as_deref())
        .fact("remaining", retry.remaining)
        .fact("error_type", retry.error_type.name())
        .fact("delay_ms", retry.backoff.millis())
        .fact("action", &retry.log_message);
    // The wait, or the end of the attempts, repeats this in the next line.
    if skips { told } else { told.silent() }
}

impl TurnRetry {
    /// The same with its line for logs: the other fields in words, and why the call failed or the model is skipped.
    #[must_use]
    pub(in crate::engine) fn logged(self, reason: &str) -> Self {
        let Self { target, error_type, backoff, .. } = &self;
        let log_message = if self.is_passed_over() {
            format!("{target} is passed over: {reason}")
        } else {
            let then = match (self.action, &self.next_target) {
                (RetryAction::Abort, _) | (_, None) => "no further attempt".to_owned(),
                (RetryAction::SkipProvider, Some(next)) => format!("{next} is asked instead"),
                (RetryAction::Retry, Some(next)) if backoff.is_zero() => format!("{next} is asked at once"),
                (RetryAction::Retry, Some(next)) => format!("{next} is asked after {backoff}"),
            };
            format!("{target}: {error_type}: {reason}; {then}")
        };
        Self { log_message, ..self }
    }

    /// Whether the model was skipped because the conversation was too large.
    fn is_passed_over(&self) -> bool {
        self.sources.iter().any(|rule| rule == "context_window")
    }
}

fn breaker(
    state: BreakerPhase,
    until: Option<Instant>,
    now: Option<Instant>,
    because: &[DecisionReason],
) -> String {
    match (state, until) {
        (BreakerPhase::Open, None) => format!("opens for {}", lifetime(because)),
        (BreakerPhase::Open, Some(until)) => match now {
            Some(now) => format!("opens for {}", until.since(now).rounded()),
            None => format!("opens until {}", until.to_rfc3339()),
        },
        (BreakerPhase::HalfOpen, _) => "lets a probe through".to_owned(),
        (BreakerPhase::Closed, _) => "closes".to_owned(),
    }
}

/// How long an open breaker admits no probe.
fn lifetime(because: &[DecisionReason]) -> &str {
    let mut facts = because
        .iter()
        .filter(|because| because.rule == "breaker.open_for")
        .flat_map(|because| &because.facts);
    facts.find_map(|fact| fact.strip_prefix(NO_PROBE_FOR)).unwrap_or("the rest of the run")
}

fn hidden(tools: &[String]) -> Narration {
    let verb =
        if tools.is_empty() { "are all shown to models again" } else { "are hidden from models for now" };
    warn("⚡", "tools hidden", "tools", verb).detail(brief(&tools.join(", "))).fact("tools", tools.join(", "))
}

fn repeats(told: &LoopRepetition) -> Narration {
    let LoopRepetition { tool, call, pattern, length, count, stage } = told;
    let name = short_name(tool);
    let (subject, verb) = match pattern {
        LoopPattern::SameCall => (name, format!("was called {count} times in the same way")),
        LoopPattern::Cycle => (format!("the same {length} calls"), format!("were made {count} times over")),
        LoopPattern::SameResult => {
            (format!("the same call of {name}"), format!("had the same result {count} times"))
        }
        LoopPattern::SameError => (name, format!("failed {count} times in the same way")),
    };
    let then = match stage {
        LoopStage::Nudge => "the model gets a warning",
        LoopStage::Block => "the call does not run",
        LoopStage::FinalTurn => "the call does not run, and the final turn follows",
    };
    warn("↻", "loop guard", subject, verb)
        .detail(then)
        .fact("tool", tool)
        .fact("call", call)
        .fact("pattern", pattern.name())
        .fact("length", *length)
        .fact("count", *count)
        .fact("stage", stage.name())
}

fn gives_up(
    narrator: &mut Narrator,
    exhausted: &RetryExhausted,
    decision: Option<PlannerDecision>,
) -> Narration {
    let RetryExhausted { action: of, reason, attempts, .. } = exhausted;
    let then = match (decision, narrator.next_target.take()) {
        (Some(PlannerDecision::TellModel), _) if of.starts_with("model ") => "the run ends".to_owned(),
        (Some(PlannerDecision::TellModel), _) => "the model gets the failure".to_owned(),
        (Some(PlannerDecision::FinalTurn), _) => "the final turn follows".to_owned(),
        (Some(PlannerDecision::Fail), _) => "the run ends".to_owned(),
        (None, Some(next)) => format!("fallback to model {next}"),
        (None, None) => "the planner decides".to_owned(),
    };
    let number = u64::try_from(attempts.len()).unwrap_or(u64::MAX);
    let verb = format!("is given up after {}", count(number, "attempt"));
    Narration::new(Severity::Error, "✗", "attempts exhausted", action(of), verb)
        .detail(format!("{}; {then}", reason.name()))
        .fact("action", of)
        .fact("reason", reason.name())
        .known("error_type", attempts.last().map(|attempt| attempt.error_type.name()))
        .fact("attempts", number)
}

fn settles(settled: &SettledProposal) -> Narration {
    let subject = format!("proposal {}", settled.proposal);
    Narration::new(Severity::Debug, "─", "proposal settled", subject, "is settled")
        .silent()
        .detail(settled.result.name())
        .fact("proposal", settled.proposal.0)
        .fact("result", settled.result.name())
        .known("delay_ms", settled.delay.map(crate::time::Nanos::millis))
}

fn finished(outcome: &Outcome) -> Narration {
    let end = |severity, verb| {
        Narration::new(severity, "●", "run finished", "the run", verb).fact("status", status(outcome))
    };
    match outcome {
        Outcome::Reported { .. } => end(Severity::Info, "ends with a report").good(),
        Outcome::Answered { .. } => end(Severity::Info, "ends with an answer").good(),
        Outcome::Failed { report, .. } => {
            let FailureReport { reason, turns_completed, final_report_attempts, .. } = report;
            end(Severity::Error, "has failed")
                .fact("reason", word(reason))
                .fact("turns_completed", *turns_completed)
                .fact("final_report_attempts", *final_report_attempts)
                .known("last_stop_reason", report.last_stop_reason.as_deref())
                .known("last_error_type", report.last_error_type.map(ErrorClass::name))
        }
        Outcome::Stopped { reason, .. } => {
            end(Severity::Warn, "is stopped").detail(brief(reason)).fact("reason", reason)
        }
    }
}

/// The status as in records.
const fn status(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Reported { .. } => "reported",
        Outcome::Answered { .. } => "answered",
        Outcome::Failed { .. } => "failed",
        Outcome::Stopped { .. } => "stopped",
    }
}
