//! What the turns and batches of a run share, lent to one machine after the other: each part is changed only by its own
//! methods.

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

/// What the turns and batches of a run share.
pub(in crate::engine) struct RunParts<'a> {
    pub(in crate::engine) out: StepOutput<'a>,
    pub(in crate::engine) context: &'a RunContext,
    /// The run's id.
    pub(in crate::engine) id: &'a str,
    /// The number of the event that is decided about.
    pub(in crate::engine) event: u64,
    /// The proposal that all this is for.
    pub(in crate::engine) proposal: ProposalId,
    /// What holds for it.
    pub(in crate::engine) terms: &'a mut ProposalTerms,
    /// The models it may call, in order of preference.
    pub(in crate::engine) targets: &'a [String],
    /// Its turn; 0 before the first.
    pub(in crate::engine) turn: u32,
    pub(in crate::engine) work: &'a mut WorkTable,
    pub(in crate::engine) queue: &'a mut CallQueue,
    /// How many batches there were in the session.
    pub(in crate::engine) batches: &'a mut u64,
    pub(in crate::engine) turns: &'a mut TrackedPart<TurnLoop>,
    pub(in crate::engine) ending: &'a mut FinalTurn,
    pub(in crate::engine) tools: &'a mut TrackedPart<ToolHealth>,
    pub(in crate::engine) models: &'a mut TrackedPart<ModelHealth>,
    pub(in crate::engine) budgets: &'a mut TrackedPart<RetryBudgets>,
    pub(in crate::engine) spending: &'a mut RunSpending,
    pub(in crate::engine) loops: &'a mut TrackedPart<LoopDetector>,
    pub(in crate::engine) last: &'a mut LastSeen,
    /// Tokens so far.
    pub(in crate::engine) usage: &'a mut Usage,
}

/// What was seen last, for the report of a run that fails.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(in crate::engine) struct LastSeen {
    /// The last failure there was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::engine) error: Option<(ErrorClass, String)>,
    /// How the last reply ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::engine) finish: Option<FinishReason>,
}

impl LastSeen {
    /// Something has failed.
    pub(in crate::engine) fn failed(&mut self, class: ErrorClass, message: &str) {
        match &mut self.error {
            // Where there is one already, its room is used again.
            Some((known, text)) => {
                *known = class;
                text.clear();
                text.push_str(message);
            }
            None => self.error = Some((class, message.to_owned())),
        }
    }

    /// Whether nothing was seen.
    pub(in crate::engine) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The case of a failure in a run without a deadline: with what the server says about retries, as far as the policy listens.
#[inline]
pub(in crate::engine) fn case_of(
    failure: &Failure,
    classified: ClassifiedFailure,
    retry: &RetryPolicy,
    obstacle: RetryBlocker,
) -> FailureContext {
    let obstacle = obstacle.or_fault_of(classified);
    // Most failures bring no advice with them, and there is nothing to hold against the rules.
    let (hint, assumed, obstacle) = if failure.advises() || classified.wait.is_some() {
        advice_of(failure, classified, retry, obstacle)
    } else {
        (None, false, obstacle)
    };
    FailureContext { class: classified.class, hint, assumed, obstacle, run_deadline: None, correction: false }
}

/// What the server and the row of the error table advise: the wait, whether only the row says so, and what forbids another
/// attempt.
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
    // Without a hint nothing is assumed about one.
    let assumed = hint.is_some() && retry::assumed(&waits, classified, rule);
    let advice = retry::advice(failure.should_retry, rule);
    // What the tool knows of its effects, then what the table knows of the request, then the server's advice: the
    // earlier one cannot be outweighed by the later.
    (hint, assumed, obstacle.or_advice(advice))
}

/// Work and messages.
impl<'a> RunParts<'a> {
    /// The policy.
    pub(in crate::engine) const fn policy(&self) -> &'a Policy {
        self.out.rules.policy
    }

    /// Asks for work, which is known by its number from now on.
    pub(in crate::engine) fn ask(
        &mut self,
        pending: WorkPurpose,
        work: impl FnOnce(WorkId) -> Work,
        mut because: Vec<DecisionReason>,
    ) {
        because.truncate(MOST_REASONS);
        let work = work(self.work.issue(self.proposal, pending));
        let of = self.out.of;
        self.out.directives.push(Directive { order: DirectiveKind::Work(work), because, of });
    }

    /// Asks for a wait; whatever is pending continues when it is over.
    pub(in crate::engine) fn wait(
        &mut self,
        pending: WorkPurpose,
        delay: Nanos,
        subject: WaitSubject,
        why: Vec<DecisionReason>,
    ) {
        // The end is a point in time as well: a host that resumes waits for what is left, not for the whole delay
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
            })
        };
        self.ask(pending, wait, why);
    }

    /// Asks the planner.
    pub(in crate::engine) fn consult(&mut self, pending: WorkPurpose, exhausted: RetryExhausted) {
        self.ask(pending, |work| Work::Consult(ConsultPlanner { work, exhausted }), Vec::new());
    }

    /// Closes a piece of work that nobody waits for any more.
    pub(in crate::engine) fn drop_work(&mut self, work: WorkId) {
        // The host may still answer this work; dropped, the answer is one that nobody asked for, and changes nothing.
        self.work.claim(work);
        self.out.note(Note::Dropped { work }, Vec::new());
    }

    /// Puts a message into the conversation.
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

    /// The turn, for the seed of its jitter: turns that a host proposes side by side do not draw the same.
    pub(in crate::engine) fn name_of_turn(&self) -> String {
        match self.proposal {
            ProposalId::NONE => format!("{}-{}", self.id, self.turn),
            // By the proposal, not by the turn: turns side by side would retry in the same instant otherwise.
            proposal => format!("{}-p{proposal}", self.id),
        }
    }

    /// The case of a failure of which nothing but its class is known.
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

    /// The case of a failure: with what the server says about retries, as far as the policy listens.
    pub(in crate::engine) fn case_of(
        &self,
        failure: &Failure,
        classified: ClassifiedFailure,
        retry: &RetryPolicy,
        obstacle: RetryBlocker,
    ) -> FailureContext {
        FailureContext { run_deadline: self.deadline(), ..case_of(failure, classified, retry, obstacle) }
    }

    /// Decides about another attempt at `action`.
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

    /// Why no further attempt at `action` is made.
    pub(in crate::engine) fn why_stopped(
        &self,
        action: &str,
        retry: &RetryPolicy,
        progress: AttemptProgress,
        case: &FailureContext,
        reason: StopReason,
    ) -> Vec<DecisionReason> {
        // The retry policy names its own rules alone; these two are kept elsewhere.
        if reason == StopReason::Budget {
            let overdrawn = self.budgets.overdrawn(action, retry, case.class, self.out.now);
            let fact = overdrawn.map(|overdrawn| overdrawn.to_string());
            return vec![because(self.policy(), "retry.budget", &retry.budget, fact)];
        }
        if reason == StopReason::RunBudget {
            return self.run_budget().out_of_budget().into_iter().collect();
        }
        if reason == StopReason::Deadline
            // The time of the run ends attempts as a deadline does. The rule that would have left more time has to be
            // named, or people change the wrong one.
            && let Some(why) = self.run_budget().late_by_budget(retry, progress, case)
        {
            return [why].into_iter().chain(of_stop(self.policy(), retry, progress, case, reason)).collect();
        }
        of_stop(self.policy(), retry, progress, case, reason)
    }

    /// Another attempt at `action` is made after a failure of that class.
    pub(in crate::engine) fn charge(&mut self, action: &str, retry: &RetryPolicy, class: ErrorClass) {
        self.budgets.retried(action, &retry.budget.value, class, self.out.now);
    }

    /// `action` has succeeded; `after` is the class of its last failure, if it had one.
    pub(in crate::engine) fn earn(&mut self, action: &str, budget: &RetryBudget, after: Option<ErrorClass>) {
        self.budgets.succeeded(action, budget, after, self.out.now);
    }

    /// Counts an end for which the budget is the reason.
    pub(in crate::engine) fn count_overdrawn(&mut self, action: &str, reason: StopReason) {
        if reason == StopReason::Budget {
            self.out.count(MetricName::BudgetExhaustedTotal, action.to_owned(), 1);
        }
    }

    /// What the policy decides when attempts are used up; `None`: the planner decides.
    pub(in crate::engine) fn decide(
        &self,
        on: &Setting<OnExhausted>,
        reason: StopReason,
        why: &mut Vec<DecisionReason>,
    ) -> Option<PlannerDecision> {
        // The deadline came from the host: there is no value of the policy to name, so the fact says it.
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

    /// What a run of the tool does to the world: the policy's word, or the tool's own where the policy has none.
    pub(in crate::engine) fn effect_of(&self, tool: &str, policy: &ToolPolicy) -> Effect {
        match policy.effect.value {
            // Where the policy says nothing, the tool's own declaration counts: MCP servers send `readOnlyHint` and
            // `idempotentHint` with their tools.
            Effect::Unknown => self.context.effects.get(tool).copied().unwrap_or(Effect::Unknown),
            known => known,
        }
    }
}

/// The end of the run.
impl RunParts<'_> {
    /// The turn that begins is the last: the model has nothing but the report to deliver.
    pub(in crate::engine) fn begin_final_turn(&mut self, reason: FinalReason, why: Vec<DecisionReason>) {
        // The first announcement counts: the final turn keeps its share of the time from then on.
        self.spending.ending.get_or_insert(self.out.now);
        let message = self.ending.begin(reason, self.turn, why, &mut self.out);
        self.append(message);
    }

    /// The turn in flight is the last: it has nothing but the report to deliver, whatever was announced.
    pub(in crate::engine) fn end_with_this_turn(&mut self, reason: FinalReason, why: Vec<DecisionReason>) {
        self.spending.ending.get_or_insert(self.out.now);
        let message = self.ending.begin_early(reason, self.turn, why, &mut self.out);
        self.append(message);
    }

    /// The next turn is the last. `false`: this one is already.
    pub(in crate::engine) fn force_final_turn(
        &mut self,
        reason: FinalReason,
        why: Vec<DecisionReason>,
    ) -> bool {
        self.ending.force(reason, self.turn, why, &mut self.out)
    }

    /// After this nothing begins.
    pub(in crate::engine) fn deadline(&self) -> Option<Instant> {
        [self.run_budget().deadline(), self.terms.deadline].into_iter().flatten().min()
    }

    /// Whether the deadline of the run has passed; the end of its time has a final turn before it.
    // The host's deadline ends everything. The budget of time does not: the final turn has a share behind it.
    pub(in crate::engine) fn is_past_deadline(&self) -> bool {
        self.context.deadline.is_some_and(|deadline| deadline <= self.out.now)
    }
}

/// The budgets of the run.
impl RunParts<'_> {
    /// The budgets of the run, next to what it has spent.
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

    /// A call of a model is made.
    pub(in crate::engine) fn reserve(&mut self, granted: GrantedCall) {
        self.terms.lowered = granted.lowered.is_some();
        self.spending.reserve(self.proposal, granted.reservation);
    }

    /// The call in flight was answered: what it used takes the place of what was kept for it. What nobody reports is
    /// counted here.
    pub(in crate::engine) fn charge_reply(&mut self, reply: &ModelReply) {
        let Some(kept) = self.spending.reserved.remove(&self.proposal) else { return };
        let said = reply.usage.unwrap_or_default();
        // Providers leave usage out of some replies, and local servers out of all: what was reserved and what came
        // are the best known.
        let input = if said.input > 0 { said.input } else { kept.input };
        let output = if said.output > 0 { said.output } else { own_count(reply) };
        self.charge_usage(&kept, Usage { input, output, ..said });
    }

    /// The call in flight failed. An error that a server answers with costs nothing; what was streamed before, and what
    /// took too long, did.
    pub(in crate::engine) fn charge_failure(&mut self, failure: &Failure, class: ErrorClass) {
        let Some(kept) = self.spending.reserved.remove(&self.proposal) else { return };
        // A server that answers with an error has done no work that it bills. What was streamed, or was still running
        // at a timeout, was computed.
        let worked = failure.received > 0 || (class == ErrorClass::Timeout && failure.status.is_none());
        if worked {
            // About four characters are a token; never more than was reserved, since the provider cuts there.
            let output = failure.received.div_ceil(4).min(kept.output);
            let input = kept.input;
            self.charge_usage(&kept, Usage { input, output, ..Usage::default() });
        }
    }

    /// The run ends while a call is in flight: nobody will say what it used.
    pub(in crate::engine) fn charge_unanswered(&mut self) {
        if let Some(kept) = self.spending.reserved.remove(&self.proposal) {
            // The request was read, so its tokens were used; of a reply nothing is known.
            let input = kept.input;
            self.charge_usage(&kept, Usage { input, ..Usage::default() });
        }
    }

    fn charge_usage(&mut self, kept: &CallReservation, usage: Usage) {
        let price = self.run_budget().price(&kept.target);
        self.spending.charge(usage, price);
    }
}

/// The tokens of a reply, where nobody reports them: those of its text, its calls and its reasoning.
fn own_count(reply: &ModelReply) -> u64 {
    let calls = reply.calls.iter().map(|proposal| {
        let call = &proposal.call;
        estimated_tokens(&call.name).saturating_add(estimated_tokens(&call.arguments))
    });
    let extra = reply.extra.values().map(|value| match value {
        serde_json::Value::String(text) => estimated_tokens(text),
        other => estimated_tokens(&other.to_string()),
    });
    calls.chain(extra).fold(estimated_tokens(&reply.text), u64::saturating_add)
}
