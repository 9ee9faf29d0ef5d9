//! The end of the attempts at a model: fallback to another model, the final turn, or failure of the run.

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
use crate::policy::{AboveMax, ErrorClass, ModelPolicy, OnExhausted, RetryPolicy, ServerDelayMode};
use crate::session::{FinalReason, RetryExhausted, StopReason};
use crate::time::Nanos;

impl ModelTurn {
    /// Ends the attempts at this model: the next one is called, or the turn fails.
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
        // The cooldown starts before the next model is chosen, so that the rotation skips this one.
        // A model whose pace is used up works; its pool knows when it may be called again.
        if reason != StopReason::Pace {
            cool_down(&failed, run);
        }
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
            // If each model has its own attempts, the next one starts at 1.
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
        self.conclude(exhausted, decision, why, run)
    }

    /// Ends a turn whose own deadline has passed before the model could be called.
    pub(super) fn not_called(
        &mut self,
        target: &str,
        policy: &ModelPolicy,
        run: &mut RunParts<'_>,
    ) -> NextMachine {
        let (reason, attempts) = (StopReason::Deadline, self.series.failed());
        let action = format!("model {target}");
        let exhausted = RetryExhausted { action, reason, attempts, retry_after: None };
        let mut why = Vec::new();
        let decision = run.decide(&policy.on_exhausted, reason, &mut why);
        self.conclude(exhausted, decision, why, run)
    }

    /// Notes that the attempts are exhausted, and follows the decision; `None`: the planner decides.
    fn conclude(
        &mut self,
        exhausted: RetryExhausted,
        decision: Option<PlannerDecision>,
        why: Vec<DecisionReason>,
        run: &mut RunParts<'_>,
    ) -> NextMachine {
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
        // The budget shortened the reply; another model would get an equally short one.
        let truncated = by_budget && case.class == ErrorClass::TruncatedOutput;
        if truncated || !may(rules, policy, reason, case.class, progress.attempt, late) {
            return None;
        }
        match self.series.rotate(AttemptDisposition::Leave, failed, run) {
            NextTarget::Ask { delay, .. } => Some(delay),
            NextTarget::None | NextTarget::Late => None,
        }
    }

    /// Whether a fallback or the final turn would follow if `no_fallback_on` did not end the turn.
    fn would_go_on(
        &self,
        failed: &FailedCall,
        reason: StopReason,
        by_budget: bool,
        run: &RunParts<'_>,
    ) -> bool {
        let ends = failed.policy.on_exhausted.value == OnExhausted::FinalTurn && !by_budget;
        // Tried on a copy, as the question must not change the rotation.
        ends || self.clone().next_model(failed, reason, by_budget, falls_back_in_any_class, run).is_some()
    }

    /// Handles the end of the attempts by a budget of the run: the final turn follows, after the server delay.
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
                pool: None,
            };
            // The provider requires the delay, so it does not reduce the final turn's share of the time.
            run.spending.ending = Some(run.out.now);
            run.terms.delay.wait(delay, subject, vec![why], run.out.now);
        }
        self.end_with_final_turn(by_budget, run)
    }

    /// Why a budget of the run, not the retry policy, ended the attempts: no time is left for the next one, or too
    /// few tokens for the reply.
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
        // After the final turn nothing follows.
        if run.ending.is_now() {
            return None;
        }
        if case.class == ErrorClass::TruncatedOutput && run.terms.lowered {
            let target = self.series.target(run.targets)?;
            let conversation = self.window.conversation(&self.guidance, run);
            let request = self.window.with_added(target, conversation.tokens, run);
            // The budget has ended the attempts only if it would shorten the next reply as well.
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

    /// The server delay, if the final turn would call the same model before its end and the run has time for the
    /// wait.
    fn wait_before_the_end(&self, failed: &FailedCall, run: &RunParts<'_>) -> Option<(Nanos, StoredReason)> {
        let (now, case) = (run.out.now, &failed.case);
        let rule = failed.policy.retry.for_class(case.class).server_delay;
        // The same rule as for a retry; otherwise the final turn would come before the server accepts calls.
        let asked = case.hint.filter(|_| rule.value.mode != ServerDelayMode::Ignore)?.max(rule.value.min);
        let delay = match rule.value.max.length() {
            // A delay above the policy's maximum is not granted, and the final turn is tried at once.
            Some(most) if asked > most && rule.value.above_max != AboveMax::Clamp => return None,
            most => most.map_or(asked, |most| asked.min(most)),
        };
        // A delay that leaves no time for the next call is useless.
        let starts = now.saturating_add(delay).saturating_add(failed.policy.retry.min_attempt_time.value);
        let is_free = |target: &String| {
            *target != failed.target && !run.models.rests(target, &run.policy().model(target), now)
        };
        let fits = run.run_budget().end_of_all_time().is_none_or(|end| starts < end);
        if delay.is_zero()
            || !fits
            || self.series.too_long(delay, run).is_some()
            // Another model is available, so the final turn can call it now.
            || run.targets.iter().any(is_free)
        {
            return None;
        }
        let fact = format!("the server asks for {asked}");
        Some((delay, StoredReason::new(run.policy(), "retry.server_delay", rule, [fact])))
    }

    /// Handles the planner's decision about the exhausted attempts.
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

    /// Handles a turn without a reply: one more attempt in a final turn, or the end.
    fn give_up(
        &mut self,
        decision: PlannerDecision,
        exhausted: RetryExhausted,
        run: &mut RunParts<'_>,
    ) -> NextMachine {
        // Another turn follows, and the attempts of this one must not count for it.
        self.series.end();
        let again = match decision {
            PlannerDecision::FinalTurn => run.force_final_turn(FinalReason::RetryExhaustion, Vec::new()),
            // A host with its own loop gets the result and decides itself. Within a run the message cannot reach the
            // model, as no model answers.
            PlannerDecision::TellModel if run.context.drive == DriveMode::Calls => {
                return NextMachine::Settled(ProposalResult::NoReply);
            }
            PlannerDecision::TellModel | PlannerDecision::Fail => false,
        };
        if again { NextMachine::Turn } else { NextMachine::fail(exhausted, Vec::new()) }
    }
}
