//! The end of the attempts at a model: another one is asked, the final turn comes, or the run fails.

use super::super::pending_delay::WaitSubject;
use super::super::run_parts::RunParts;
use super::super::then::NextMachine;
use super::super::work_table::WorkPurpose;
use super::ModelTurn;
use super::failure::{cool_down, stop_instead_of};
use crate::engine::ask::PlannerDecision;
use crate::engine::because::because;
use crate::engine::directive::{DecisionReason, Note, ProposalResult, RetryAction};
use crate::engine::event::DriveMode;
use crate::engine::machine::failed_call::FailedCall;
use crate::engine::metric::MetricName;
use crate::engine::reason::StoredReason;
use crate::engine::retry::{AttemptProgress, FailureContext, missed};
use crate::engine::targets::{
    AttemptDisposition, FallbackRule, NextTarget, falls_back, falls_back_in_any_class,
};
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
    ) -> NextMachine {
        let FailedCall { name, policy, progress, case, .. } = &failed;
        let mut why = match &failed.ended_by {
            Some(ended_by) => vec![ended_by.clone()],
            None => run.why_stopped(name, &policy.retry, *progress, case, reason),
        };
        let attempts = self.series.failed();
        let exhausted = RetryExhausted { action: name.clone(), reason, attempts, retry_after: case.hint };
        run.out.count(MetricName::RetryAttempts, name.clone(), progress.attempt.into());
        run.count_overdrawn(name, reason);
        // Before another model is chosen, so that the rotation passes this one over.
        cool_down(&failed, run);
        let aborts = policy.no_fallback_on.value.contains(case.class);
        let by_budget = self.ended_by_budget(&policy.retry, *progress, case, reason, run);
        // Named only if it changed the outcome: without a model to fall back to, `no_fallback_on` decided nothing.
        if aborts && self.would_go_on(&failed, reason, by_budget.is_some(), run) {
            why.push(because(run.policy(), "no_fallback_on", &policy.no_fallback_on, []));
        }
        if let Some(delay) = self.next_model(&failed, reason, by_budget.is_some(), falls_back, run) {
            if let Some(reason) = stop_instead_of(delay, run) {
                return NextMachine::stopped(reason);
            }
            self.series.wait(delay, run);
            self.tell_retry(&failed, RetryAction::SkipProvider, delay, None, &why, run);
            run.out.note(Note::Exhausted { exhausted, decision: None }, why);
            // With attempts of its own, the next model starts from the first.
            if !run.policy().turn().targets.fallback.value.is_one_series() {
                self.series.end();
            }
            return self.ask_again(failed, delay, Vec::new(), run);
        }
        self.tell_retry(&failed, RetryAction::Abort, Nanos::ZERO, None, &why, run);
        if let Some(by_budget) = by_budget {
            return self.end_by_budget(failed, exhausted, why, by_budget, run);
        }
        let on_exhausted = &failed.policy.on_exhausted;
        // A class that ends the turn at once, such as a wrong key, would end the final turn as well.
        let decision = if aborts && on_exhausted.value == OnExhausted::FinalTurn {
            Some(PlannerDecision::Fail)
        } else {
            run.decide(on_exhausted, reason, &mut why)
        };
        run.out.note(Note::Exhausted { exhausted: exhausted.clone(), decision }, why);
        if let Some(decision) = decision {
            return self.give_up(decision, exhausted, run);
        }
        self.series.consult(exhausted.clone());
        run.consult(WorkPurpose::ConsultModel, exhausted);
        NextMachine::Host
    }

    /// The wait before the fallback to the next target, if there is one.
    fn next_model(
        &mut self,
        failed: &FailedCall,
        reason: StopReason,
        by_budget: bool,
        may: FallbackRule,
        run: &RunParts<'_>,
    ) -> Option<Nanos> {
        let FailedCall { policy, progress, case, .. } = failed;
        let late = missed(&policy.retry, *progress, case.run_deadline, run.out.now, Nanos::ZERO).is_some();
        let rules = &run.policy().turn().targets;
        // The budget shortened the reply; another model would get as short a one.
        let truncated = by_budget && case.class == ErrorClass::TruncatedOutput;
        if truncated || !may(rules, policy, reason, case.class, progress.attempt, late) {
            return None;
        }
        match self.series.rotate(AttemptDisposition::Leave, failed, run) {
            NextTarget::Ask { delay, .. } => Some(delay),
            NextTarget::None | NextTarget::Late => None,
        }
    }

    /// Whether another model, or the final turn, would come if `no_fallback_on` did not end the turn.
    fn would_go_on(
        &self,
        failed: &FailedCall,
        reason: StopReason,
        by_budget: bool,
        run: &RunParts<'_>,
    ) -> bool {
        let ends = failed.policy.on_exhausted.value == OnExhausted::FinalTurn && !by_budget;
        // Tried on a copy: asking what would have happened must not change the rotation.
        ends || self.clone().next_model(failed, reason, by_budget, falls_back_in_any_class, run).is_some()
    }

    /// A budget of the run ended the attempts: the final turn comes, after the wait that the provider asked for.
    fn end_by_budget(
        &mut self,
        failed: FailedCall,
        exhausted: RetryExhausted,
        why: Vec<DecisionReason>,
        by_budget: DecisionReason,
        run: &mut RunParts<'_>,
    ) -> NextMachine {
        let wait = self.wait_before_the_end(&failed, run);
        if let Some((delay, _)) = &wait {
            self.series.wait(*delay, run);
        }
        run.out.note(Note::Exhausted { exhausted, decision: Some(PlannerDecision::FinalTurn) }, why);
        if let Some((delay, why)) = wait {
            let subject = WaitSubject {
                name: failed.name,
                attempt: 1,
                max_attempts: None,
                error_type: failed.case.class,
                message: failed.message,
            };
            // The wait is asked for by the provider, so it is not taken from the final turn's share of the time.
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
        progress: AttemptProgress,
        case: &FailureContext,
        reason: StopReason,
        run: &RunParts<'_>,
    ) -> Option<DecisionReason> {
        let budget = run.run_budget();
        let limits = budget.limits()?;
        // In the final turn nothing comes after the budget.
        if run.ending.is_now() {
            return None;
        }
        if case.class == ErrorClass::TruncatedOutput && run.terms.lowered {
            let target = self.series.target(run.targets)?;
            let conversation = self.window.conversation(&self.guidance, run);
            let request = self.window.with_added(target, conversation.tokens, run);
            // Only if the next reply would be shortened as well has the budget ended the attempts.
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
    fn wait_before_the_end(&self, failed: &FailedCall, run: &RunParts<'_>) -> Option<(Nanos, StoredReason)> {
        let (now, case) = (run.out.now, &failed.case);
        let rule = failed.policy.retry.for_class(case.class).server_delay;
        // The same rule as for a retry, or the final turn would come before the server takes calls.
        let asked = case.hint.filter(|_| rule.value.mode != ServerDelayMode::Ignore)?.max(rule.value.min);
        let delay = match rule.value.max.length() {
            // A wait that the policy does not grant is not waited for, and the final turn is tried at once.
            Some(most) if asked > most && rule.value.above_max != AboveMax::Clamp => return None,
            most => most.map_or(asked, |most| asked.min(most)),
        };
        // A wait that leaves no time for the call after it is of no use.
        let starts = now.saturating_add(delay).saturating_add(failed.policy.retry.min_attempt_time.value);
        let is_free = |target: &String| {
            *target != failed.target && !run.models.rests(target, &run.policy().model(target), now)
        };
        let fits = run.run_budget().end_of_all_time().is_none_or(|end| starts < end);
        if delay.is_zero()
            || !fits
            || self.series.too_long(delay, run).is_some()
            // Another model is free, and the final turn can ask that one now.
            || run.targets.iter().any(is_free)
        {
            return None;
        }
        let fact = format!("the server asks for {asked}");
        Some((delay, StoredReason::new(run.policy(), "retry.server_delay", rule, [fact])))
    }

    /// The planner has decided what is done about the model.
    pub(in crate::engine) fn on_decided(
        &mut self,
        decision: PlannerDecision,
        run: &mut RunParts<'_>,
    ) -> NextMachine {
        match self.series.take_consulted() {
            Some(exhausted) => self.give_up(decision, exhausted, run),
            None => NextMachine::Host,
        }
    }

    /// What is done when no model answers: one more try in a final turn, or the end.
    fn give_up(
        &mut self,
        decision: PlannerDecision,
        exhausted: RetryExhausted,
        run: &mut RunParts<'_>,
    ) -> NextMachine {
        // What follows is another turn, and the attempts of this one must not count for it.
        self.series.end();
        let again = match decision {
            PlannerDecision::FinalTurn => run.force_final_turn(FinalReason::RetryExhaustion, Vec::new()),
            // A host with its own loop learns that there is no reply and decides itself; inside a run the model
            // cannot be told by a model that does not answer.
            PlannerDecision::TellModel if run.context.drive == DriveMode::Calls => {
                return NextMachine::Settled(ProposalResult::NoReply);
            }
            PlannerDecision::TellModel | PlannerDecision::Fail => false,
        };
        if again { NextMachine::Turn } else { NextMachine::fail(exhausted, Vec::new()) }
    }
}
