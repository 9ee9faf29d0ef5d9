//! The end of the attempts at a model: another one is asked, the final turn comes, or the run fails.

use super::super::pending_delay::Subject;
use super::super::run_parts::RunParts;
use super::super::then::Then;
use super::super::work_table::Pending;
use super::ModelTurn;
use super::failure::{FailedCall, cool_down, stop_instead_of};
use crate::engine::because::because;
use crate::engine::directive::{Because, Decision, Note, RetryAction, Settlement};
use crate::engine::event::Drive;
use crate::engine::metric::MetricName;
use crate::engine::reason::Reason;
use crate::engine::retry::{Case, Progress, missed};
use crate::engine::targets::{Fate, Next, goes_on};
use crate::policy::{AboveMax, ErrorClass, OnExhausted, RetryPolicy, ServerDelayMode};
use crate::session::{FinalReason, RetryExhausted, StopReason};
use crate::time::Nanos;

impl ModelTurn {
    /// There is no further attempt at this model: another one is asked, or the turn has no answer.
    pub(super) fn exhausted(
        &mut self,
        failed: FailedCall,
        reason: StopReason,
        run: &mut RunParts<'_>,
    ) -> Then {
        let FailedCall { name, policy, progress, case, .. } = &failed;
        let mut why = match &failed.ended_by {
            Some(ended_by) => vec![ended_by.clone()],
            None => run.why_stopped(name, &policy.retry, *progress, case, reason),
        };
        let attempts = self.series.failed();
        let exhausted = RetryExhausted { action: name.clone(), reason, attempts, retry_after: case.hint };
        run.out.count(MetricName::RetryAttempts, name.clone(), progress.attempt.into());
        run.count_overdrawn(name, reason);
        cool_down(&failed, run);
        let aborts = policy.abort_on.value.contains(case.class);
        if aborts {
            why.push(because(run.policy(), "abort_on", &policy.abort_on, []));
        }
        let by_budget = self.ended_by_budget(&policy.retry, *progress, case, reason, run);
        if let Some(delay) = self.another_model(&failed, reason, by_budget.is_some(), run) {
            if let Some(reason) = stop_instead_of(delay, run) {
                return Then::stopped(reason);
            }
            self.series.wait(delay, run);
            self.tell_retry(&failed, RetryAction::SkipProvider, delay, None, &why, run);
            run.out.note(Note::Exhausted { exhausted, decision: None }, why);
            if !run.policy().turn().targets.advance.value.is_one_series() {
                self.series.end();
            }
            return self.ask_again(failed, delay, Vec::new(), run);
        }
        self.tell_retry(&failed, RetryAction::Abort, Nanos::ZERO, None, &why, run);
        if let Some(by_budget) = by_budget {
            return self.end_by_budget(failed, exhausted, why, by_budget, run);
        }
        let on_exhausted = &failed.policy.on_exhausted;
        // Whatever ends the turn at once would end a last turn, too.
        let decision = if aborts && on_exhausted.value == OnExhausted::FinalTurn {
            Some(Decision::Fail)
        } else {
            run.decide(on_exhausted, &mut why)
        };
        run.out.note(Note::Exhausted { exhausted: exhausted.clone(), decision }, why);
        if let Some(decision) = decision {
            return self.give_up(decision, exhausted, run);
        }
        self.series.consult(exhausted.clone());
        run.consult(Pending::ConsultModel, exhausted);
        Then::Host
    }

    /// The wait before another model is asked instead, if one may be.
    fn another_model(
        &mut self,
        failed: &FailedCall,
        reason: StopReason,
        by_budget: bool,
        run: &RunParts<'_>,
    ) -> Option<Nanos> {
        let FailedCall { policy, progress, case, .. } = failed;
        let late = missed(&policy.retry, *progress, case.run_deadline, run.out.now, Nanos::ZERO);
        let rules = &run.policy().turn().targets;
        let truncated = by_budget && case.class == ErrorClass::TruncatedOutput;
        if truncated || !goes_on(rules, policy, reason, case.class, progress.attempt, late.is_some()) {
            return None;
        }
        match self.series.rotate(Fate::Leave, failed, run) {
            Next::Ask { delay, .. } => Some(delay),
            Next::Nobody | Next::Late => None,
        }
    }

    /// A budget of the run ended the attempts: the final turn comes, after the wait that the provider asked for.
    fn end_by_budget(
        &mut self,
        failed: FailedCall,
        exhausted: RetryExhausted,
        why: Vec<Because>,
        by_budget: Because,
        run: &mut RunParts<'_>,
    ) -> Then {
        let wait = self.wait_before_the_end(&failed, run);
        if let Some((delay, _)) = &wait {
            self.series.wait(*delay, run);
        }
        run.out.note(Note::Exhausted { exhausted, decision: Some(Decision::FinalTurn) }, why);
        if let Some((delay, why)) = wait {
            let subject = Subject {
                name: failed.name,
                attempt: 1,
                max_attempts: None,
                error_type: failed.case.class,
                message: failed.message,
            };
            // The time of the wait is the final turn's own: it has no more at its end for it.
            run.spending.ending = Some(run.out.now);
            run.terms.delay.wait(delay, subject, vec![why], run.out.now);
        }
        self.end_with_final_turn(by_budget, run)
    }

    /// Why the final turn comes now, although the attempts of the turn did not end by themselves: the time of the run
    /// leaves none for the next one, or its budget left the reply too little room.
    fn ended_by_budget(
        &self,
        retry: &RetryPolicy,
        progress: Progress,
        case: &Case,
        reason: StopReason,
        run: &RunParts<'_>,
    ) -> Option<Because> {
        let budget = run.run_budget();
        let limits = budget.limits()?;
        if run.ending.is_now() {
            return None;
        }
        if case.class == ErrorClass::TruncatedOutput && run.terms.lowered {
            let target = self.series.target(run.targets)?;
            let conversation = self.window.conversation(&self.guidance, run);
            let request = self.window.with_added(target, conversation.tokens, run);
            return budget
                .grant(target, request, || conversation)
                .map_or_else(Some, |granted| granted.lowered.map(|(_, why)| why));
        }
        let time = limits.time.as_ref()?;
        if reason != StopReason::Deadline || budget.is_late_anyway(retry, progress, case) {
            return None;
        }
        Some(because(run.policy(), "limits.run.time", time, budget.facts_of_time()))
    }

    /// How long a provider asked to wait, if the final turn would call the same model before that is over and the time of
    /// the run has room for the wait.
    fn wait_before_the_end(&self, failed: &FailedCall, run: &RunParts<'_>) -> Option<(Nanos, Reason)> {
        let (now, case) = (run.out.now, &failed.case);
        let rule = failed.policy.retry.for_class(case.class).server_delay;
        let asked = case.hint.filter(|_| rule.value.mode != ServerDelayMode::Ignore)?.max(rule.value.min);
        let delay = match rule.value.max.length() {
            Some(most) if asked > most && rule.value.above_max != AboveMax::Clamp => return None,
            most => most.map_or(asked, |most| asked.min(most)),
        };
        let starts = now.saturating_add(delay).saturating_add(failed.policy.retry.min_attempt_time.value);
        let is_free = |target: &String| {
            *target != failed.target && !run.models.rests(target, &run.policy().model(target), now)
        };
        let fits = run.run_budget().end_of_all_time().is_none_or(|end| starts < end);
        if delay.is_zero()
            || !fits
            || self.series.too_long(delay, run).is_some()
            || run.targets.iter().any(is_free)
        {
            return None;
        }
        let fact = format!("the server asks for {asked}");
        Some((delay, Reason::new(run.policy(), "retry.server_delay", rule, [fact])))
    }

    /// The planner has decided what is done about the model.
    pub(in crate::engine) fn on_decided(&mut self, decision: Decision, run: &mut RunParts<'_>) -> Then {
        match self.series.take_consulted() {
            Some(exhausted) => self.give_up(decision, exhausted, run),
            None => Then::Host,
        }
    }

    /// What is done when no model answers: one more try in a last turn, or the end.
    fn give_up(&mut self, decision: Decision, exhausted: RetryExhausted, run: &mut RunParts<'_>) -> Then {
        self.series.end();
        let again = match decision {
            Decision::FinalTurn => run.force_last_turn(FinalReason::RetryExhaustion, Vec::new()),
            // A host with its own loop has somebody to tell.
            Decision::TellModel if run.context.drive == Drive::Calls => {
                return Then::Settled(Settlement::NoReply);
            }
            Decision::TellModel | Decision::Fail => false,
        };
        if again { Then::Turn } else { Then::fail(exhausted, Vec::new()) }
    }
}
