//! The state shared by the turns and batches of a run, lent to one machine after the other. Each part is changed only
//! by its own methods.

use super::super::because::{ShownValue, because, of_stop};
use super::super::budget::RetryBudgets;
use super::super::directive::{
    ConsultPlanner, DecisionReason, Directive, DirectiveKind, Note, WaitWork, Work,
};
use super::super::event::{FinishReason, ModelReply};
use super::super::failure::Failure;
use super::super::metric::MetricName;
use super::super::repeats::LoopDetector;
use super::super::results_room::weight;
use super::super::retry::{self, AttemptProgress, FailureContext, RetryBlocker, RetryVerdict};
use super::super::spending::{CallReservation, RunSpending};
use super::call_queue::CallQueue;
use super::final_turn::FinalTurn;
use super::model_health::ModelHealth;
use super::out::{MOST_REASONS, StepOutput};
use super::pace_pools::PacePools;
use super::pending_delay::WaitSubject;
use super::run_budget::{GrantedCall, RunBudget};
use super::tool_health::ToolHealth;
use super::turn_loop::TurnLoop;
use super::work_table::{WorkPurpose, WorkTable};
use crate::engine::ask::PlannerDecision;
use crate::engine::ids::{ProposalId, WorkId};
use crate::engine::machine::proposal_terms::ProposalTerms;
use crate::engine::machine::run_context::RunContext;
use crate::engine::tracked::TrackedPart;
use crate::policy::{
    CallOverride, ClassifiedFailure, Effect, ErrorClass, OnExhausted, Policy, RetryBudget, RetryPolicy, Seed,
    Setting, ToolPolicy, estimated_tokens,
};
use crate::session::{FinalReason, Message, RetryExhausted, StopReason, Usage};
use crate::time::{Instant, Nanos};

/// The state shared by the turns and batches of a run.
pub(in crate::engine) struct RunParts<'a> {
    pub(in crate::engine) out: StepOutput<'a>,
    pub(in crate::engine) context: &'a RunContext,
    /// The run's id.
    pub(in crate::engine) id: &'a str,
    /// The number of the current event.
    pub(in crate::engine) event: u64,
    /// The current proposal.
    pub(in crate::engine) proposal: ProposalId,
    /// The conditions of the proposal.
    pub(in crate::engine) terms: &'a mut ProposalTerms,
    /// The models that the proposal may call, in order of preference.
    pub(in crate::engine) targets: &'a [String],
    /// The turn of the proposal; 0 before the first.
    pub(in crate::engine) turn: u32,
    pub(in crate::engine) work: &'a mut WorkTable,
    pub(in crate::engine) queue: &'a mut CallQueue,
    pub(in crate::engine) pace: &'a mut TrackedPart<PacePools>,
    /// The number of batches in the session.
    pub(in crate::engine) batches: &'a mut u64,
    pub(in crate::engine) turns: &'a mut TrackedPart<TurnLoop>,
    pub(in crate::engine) ending: &'a mut FinalTurn,
    pub(in crate::engine) tools: &'a mut TrackedPart<ToolHealth>,
    pub(in crate::engine) models: &'a mut TrackedPart<ModelHealth>,
    pub(in crate::engine) budgets: &'a mut TrackedPart<RetryBudgets>,
    pub(in crate::engine) spending: &'a mut RunSpending,
    pub(in crate::engine) loops: &'a mut TrackedPart<LoopDetector>,
    pub(in crate::engine) last: &'a mut LastSeen,
    /// The tokens used so far.
    pub(in crate::engine) usage: &'a mut Usage,
}

/// The last observations, for the report of a failed run.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(in crate::engine) struct LastSeen {
    /// The last failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::engine) error: Option<(ErrorClass, String)>,
    /// The finish reason of the last reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::engine) finish: Option<FinishReason>,
}

impl LastSeen {
    /// Records a failure.
    pub(in crate::engine) fn failed(&mut self, class: ErrorClass, message: &str) {
        match &mut self.error {
            // The buffer of the earlier message is reused.
            Some((known, text)) => {
                *known = class;
                text.clear();
                text.push_str(message);
            }
            None => self.error = Some((class, message.to_owned())),
        }
    }

    /// Whether nothing was observed.
    pub(in crate::engine) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The context of a failure in a run without a deadline, with the server's advice as far as the policy accepts it.
#[inline]
pub(in crate::engine) fn case_of(
    failure: &Failure,
    classified: ClassifiedFailure,
    retry: &RetryPolicy,
    obstacle: RetryBlocker,
) -> FailureContext {
    let obstacle = obstacle.or_fault_of(classified);
    // Most failures carry no advice, so no rule has to be checked.
    let (hint, assumed, obstacle) = if failure.advises() || classified.wait.is_some() {
        advice_of(failure, classified, retry, obstacle)
    } else {
        (None, false, obstacle)
    };
    FailureContext { class: classified.class, hint, assumed, obstacle, run_deadline: None, correction: false }
}

/// The advice of the server and of the matching error rule: the delay, whether only the rule assumes it, and what
/// forbids another attempt.
#[inline(never)]
fn advice_of(
    failure: &Failure,
    classified: ClassifiedFailure,
    retry: &RetryPolicy,
    obstacle: RetryBlocker,
) -> (Option<Nanos>, bool, RetryBlocker) {
    let rule = &retry.for_class(classified.class).server_delay.value;
    let waits = failure.waits();
    let hint = retry::hint(&waits, classified, rule);
    // Without a delay none is assumed.
    let assumed = hint.is_some() && retry::assumed(&waits, classified, rule);
    let advice = retry::advice(failure.should_retry, rule);
    // The order is the tool's effect, the table's finding about the request, the server's advice: a later one cannot
    // override an earlier one.
    (hint, assumed, obstacle.or_advice(advice))
}

/// Work and messages.
impl<'a> RunParts<'a> {
    /// The policy.
    pub(in crate::engine) const fn policy(&self) -> &'a Policy {
        self.out.rules.policy
    }

    /// Requests work, and registers it under its number.
    pub(in crate::engine) fn ask(
        &mut self,
        pending: WorkPurpose,
        work: impl FnOnce(WorkId) -> Work,
        mut because: Vec<DecisionReason>,
    ) -> WorkId {
        because.truncate(MOST_REASONS);
        let id = self.work.issue(self.proposal, pending);
        let of = self.out.of;
        self.out.directives.push(Directive { order: DirectiveKind::Work(work(id)), because, of });
        id
    }

    /// Requests a wait; the pending work continues when it is over.
    pub(in crate::engine) fn wait(
        &mut self,
        pending: WorkPurpose,
        delay: Nanos,
        subject: WaitSubject,
        why: Vec<DecisionReason>,
    ) -> WorkId {
        // The end is also given as a point in time: a host that resumes waits for the rest, not for the whole delay
        // again.
        let until = self.out.now.saturating_add(delay);
        let wait = |work| {
            Work::Wait(WaitWork {
                work,
                delay,
                until,
                subject: subject.name,
                attempt: subject.attempt,
                max_attempts: subject.max_attempts,
                error_type: subject.error_type,
                message: subject.message,
                pool: subject.pool,
            })
        };
        self.ask(pending, wait, why)
    }

    /// Asks the planner for a decision.
    pub(in crate::engine) fn consult(&mut self, pending: WorkPurpose, exhausted: RetryExhausted) {
        self.ask(pending, |work| Work::Consult(ConsultPlanner { work, exhausted }), Vec::new());
    }

    /// Closes a piece of work whose answer is no longer needed.
    pub(in crate::engine) fn drop_work(&mut self, work: WorkId) {
        // The host may still answer this work; the answer is then ignored with a warning.
        self.work.claim(work);
        self.pace.forget(work);
        self.out.note(Note::Dropped { work }, Vec::new());
    }

    /// Appends a message to the conversation.
    pub(in crate::engine) fn append(&mut self, message: Message) {
        // Counted at once, so that the size of the next request is known before the host measures again.
        self.terms.appended = self.terms.appended.saturating_add(weight(&message));
        self.out.note(Note::Append { message }, Vec::new());
    }
}

/// Attempts.
impl RunParts<'_> {
    /// The seed of the jitter of one series of attempts.
    pub(in crate::engine) fn seed(&self, scope: &str, call: &str) -> Seed {
        Seed::new(self.context.seed, scope, call)
    }

    /// The name of the turn for its jitter seed: turns that a host proposes in parallel have different jitter.
    pub(in crate::engine) fn name_of_turn(&self) -> String {
        match self.proposal {
            ProposalId::NONE => format!("{}-{}", self.id, self.turn),
            // Named by proposal, not by turn: otherwise parallel turns would retry at the same instant.
            proposal => format!("{}-p{proposal}", self.id),
        }
    }

    /// The context of a failure of which only the class is known.
    pub(in crate::engine) fn case(
        &self,
        class: ErrorClass,
        hint: Option<Nanos>,
        obstacle: RetryBlocker,
    ) -> FailureContext {
        FailureContext {
            class,
            hint,
            assumed: false,
            obstacle,
            run_deadline: self.deadline(),
            correction: false,
        }
    }

    /// The context of a failure, with the server's advice as far as the policy accepts it.
    pub(in crate::engine) fn case_of(
        &self,
        failure: &Failure,
        classified: ClassifiedFailure,
        retry: &RetryPolicy,
        obstacle: RetryBlocker,
    ) -> FailureContext {
        FailureContext { run_deadline: self.deadline(), ..case_of(failure, classified, retry, obstacle) }
    }

    /// Decides about another attempt of `action`.
    pub(in crate::engine) fn verdict(
        &mut self,
        action: &str,
        retry: &RetryPolicy,
        progress: AttemptProgress,
        case: &mut FailureContext,
        seed: Seed,
    ) -> RetryVerdict {
        self.budgets.decide(action, retry, progress, case, seed, &mut self.out)
    }

    /// The reasons why no further attempt of `action` is made.
    pub(in crate::engine) fn why_stopped(
        &self,
        action: &str,
        retry: &RetryPolicy,
        progress: AttemptProgress,
        case: &FailureContext,
        reason: StopReason,
    ) -> Vec<DecisionReason> {
        // The retry policy only names its own rules; the budgets are kept elsewhere.
        if reason == StopReason::Budget {
            let overdrawn = self.budgets.overdrawn(action, retry, case.class, self.out.now);
            let fact = overdrawn.map(|overdrawn| overdrawn.to_string());
            return vec![because(self.policy(), "retry.budget", &retry.budget, fact)];
        }
        if reason == StopReason::RunBudget {
            return self.run_budget().out_of_budget().into_iter().collect();
        }
        if reason == StopReason::Deadline
            // The time budget ends attempts like a deadline. The rule that would have left more time must be named,
            // or people change the wrong one.
            && let Some(why) = self.run_budget().late_by_budget(retry, progress, case)
        {
            return [why].into_iter().chain(of_stop(self.policy(), retry, progress, case, reason)).collect();
        }
        of_stop(self.policy(), retry, progress, case, reason)
    }

    /// Charges another attempt of `action` after a failure of `class` to its retry budget.
    pub(in crate::engine) fn charge(&mut self, action: &str, retry: &RetryPolicy, class: ErrorClass) {
        self.budgets.retried(action, &retry.budget.value, class, self.out.now);
    }

    /// Credits a success of `action` to its retry budget; `after` is the class of its last failure, if there was one.
    pub(in crate::engine) fn earn(&mut self, action: &str, budget: &RetryBudget, after: Option<ErrorClass>) {
        self.budgets.succeeded(action, budget, after, self.out.now);
    }

    /// Counts an end of attempts that the retry budget caused.
    pub(in crate::engine) fn count_overdrawn(&mut self, action: &str, reason: StopReason) {
        if reason == StopReason::Budget {
            self.out.count(MetricName::BudgetExhaustedTotal, action.to_owned(), 1);
        }
    }

    /// The policy's decision after exhausted attempts; `None`: the planner decides.
    pub(in crate::engine) fn decide(
        &self,
        on: &Setting<OnExhausted>,
        reason: StopReason,
        why: &mut Vec<DecisionReason>,
    ) -> Option<PlannerDecision> {
        // The deadline came from the host and no value of the policy can be named, so a fact explains the end.
        let by_host = reason == StopReason::Deadline && why.is_empty();
        let fact = by_host.then(|| "the host's deadline leaves no time for another attempt".to_owned());
        why.push(because(self.policy(), "on_exhausted", &on.map(ShownValue), fact));
        match on.value {
            OnExhausted::TellModel => Some(PlannerDecision::TellModel),
            OnExhausted::FinalTurn => Some(PlannerDecision::FinalTurn),
            OnExhausted::Fail => Some(PlannerDecision::Fail),
            OnExhausted::AskPlanner => None,
        }
    }
}

/// Tools.
impl RunParts<'_> {
    /// The rules for one call.
    pub(in crate::engine) fn tool_policy(
        &self,
        tool: &str,
        arguments: &serde_json::Value,
        planner: Option<&CallOverride>,
    ) -> std::sync::Arc<ToolPolicy> {
        self.policy().call(tool, arguments, planner).policy
    }

    /// The effect of a run of the tool: from the policy, or else from the tool's own declaration.
    pub(in crate::engine) fn effect_of(&self, tool: &str, policy: &ToolPolicy) -> Effect {
        policy.effect.value.or_declared(self.context.effects.get(tool).copied())
    }
}

/// The end of the run.
impl RunParts<'_> {
    /// Makes the turn that begins the final turn: the model may only deliver the report.
    pub(in crate::engine) fn begin_final_turn(&mut self, reason: FinalReason, why: Vec<DecisionReason>) {
        // The first announcement counts: the final turn has its share of the time from then on.
        self.spending.ending.get_or_insert(self.out.now);
        let message = self.ending.begin(reason, self.turn, why, &mut self.out);
        self.append(message);
    }

    /// Makes the turn in flight the final turn, whatever was announced.
    pub(in crate::engine) fn end_with_this_turn(&mut self, reason: FinalReason, why: Vec<DecisionReason>) {
        self.spending.ending.get_or_insert(self.out.now);
        let message = self.ending.begin_early(reason, self.turn, why, &mut self.out);
        self.append(message);
    }

    /// Makes the next turn the final turn. `false`: the current turn already is.
    pub(in crate::engine) fn force_final_turn(
        &mut self,
        reason: FinalReason,
        why: Vec<DecisionReason>,
    ) -> bool {
        self.ending.force(reason, self.turn, why, &mut self.out)
    }

    /// The time after which no work begins.
    pub(in crate::engine) fn deadline(&self) -> Option<Instant> {
        [self.run_budget().deadline(), self.terms.deadline].into_iter().flatten().min()
    }

    /// Whether the deadline of the run has passed. The end of the time budget does not count: a final turn follows
    /// it.
    // The host's deadline ends everything. The time budget does not: the final turn has a share after it.
    pub(in crate::engine) fn is_past_deadline(&self) -> bool {
        self.context.deadline.is_some_and(|deadline| deadline <= self.out.now)
    }

    /// Whether the deadline that the host set for the current proposal has passed.
    pub(in crate::engine) fn is_proposal_late(&self) -> bool {
        self.terms.deadline.is_some_and(|deadline| deadline <= self.out.now)
    }
}

/// The budgets of the run.
impl RunParts<'_> {
    /// The budgets of the run, with the amounts spent.
    pub(in crate::engine) fn run_budget(&self) -> RunBudget<'_> {
        RunBudget {
            policy: self.policy(),
            context: self.context,
            targets: self.targets,
            spending: &*self.spending,
            models: &*self.models,
            is_last: self.ending.is_now(),
            now: self.out.now,
        }
    }

    /// Reserves the grant of a model call.
    pub(in crate::engine) fn reserve(&mut self, granted: GrantedCall) {
        self.terms.lowered = granted.lowered.is_some();
        self.spending.reserve(self.proposal, granted.reservation);
    }

    /// Charges an answered call: its usage replaces the reservation. Missing usage is estimated.
    pub(in crate::engine) fn charge_reply(&mut self, reply: &ModelReply) {
        let Some(kept) = self.spending.reserved.remove(&self.proposal) else { return };
        let said = reply.usage.unwrap_or_default();
        // Providers omit usage from some replies, and local servers from all: the reservation and the length of the
        // reply are the best estimates.
        let input = if said.input > 0 { said.input } else { kept.input };
        let output = if said.output > 0 { said.output } else { own_count(reply) };
        self.pace_replied(input, output, &reply.limits);
        self.charge_usage(&kept, Usage { input, output, ..said });
    }

    /// Charges a failed call. An error response costs nothing; a streamed part and a timeout do.
    pub(in crate::engine) fn charge_failure(&mut self, failure: &Failure, class: ErrorClass) {
        self.pace_failed(class, failure);
        let Some(kept) = self.spending.reserved.remove(&self.proposal) else { return };
        // A server that answers with an error has done no billed work. Streamed output, and work in progress at a
        // timeout, was computed.
        let worked = failure.received > 0 || (class == ErrorClass::Timeout && failure.status.is_none());
        if worked {
            // About four characters are a token; never more than was reserved, since the provider stops there.
            let output = failure.received.div_ceil(4).min(kept.output);
            let input = kept.input;
            self.charge_usage(&kept, Usage { input, output, ..Usage::default() });
        }
    }

    /// Charges the call in flight at the end of a run: its usage will not be reported.
    pub(in crate::engine) fn charge_unanswered(&mut self) {
        self.pace_dropped();
        if let Some(kept) = self.spending.reserved.remove(&self.proposal) {
            // The request was read, so its tokens were used; the reply is unknown.
            let input = kept.input;
            self.charge_usage(&kept, Usage { input, ..Usage::default() });
        }
    }

    fn charge_usage(&mut self, kept: &CallReservation, usage: Usage) {
        let price = self.run_budget().price(&kept.target);
        self.spending.charge(usage, price);
    }
}

/// The estimated tokens of a reply: its text, its calls and its reasoning.
fn own_count(reply: &ModelReply) -> u64 {
    let calls = reply.calls.iter().map(|proposal| {
        let call = &proposal.call;
        estimated_tokens(&call.name).saturating_add(estimated_tokens(&call.arguments))
    });
    let own = reply.extra.iter().filter(|(name, _)| *name != Message::ANSWER_FIELDS);
    let extra = own.map(|(_, value)| match value {
        serde_json::Value::String(text) => estimated_tokens(text),
        other => estimated_tokens(&other.to_string()),
    });
    calls.chain(extra).fold(estimated_tokens(&reply.text), u64::saturating_add)
}
