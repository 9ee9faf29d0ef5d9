//! What calls of models and tools take of the budgets of a run, and the final turn that comes when a budget ends.

use serde_json::json;

use super::super::because::because;
use super::super::directive::Because;
use super::super::event::{ModelReply, TurnMeasure};
use super::super::failure::Failure;
use super::super::machine::{Conversation, Granted, RunBudget};
use super::super::reason::Reason;
use super::super::results_room::weight;
use super::super::retry::{Case, Progress};
use super::super::spending::Reservation;
use super::super::state::{Refusal, Slot, State};
use super::Step;
use crate::policy::{ErrorClass, RetryPolicy, estimated_tokens};
use crate::session::{FinalReason, Message, StopReason, Usage};
use crate::time::Instant;

impl Step<'_> {
    /// The tokens of the request of the next attempt, by the host's count.
    pub(super) fn counted_now(&self) -> u64 {
        let measured = self.state.model_turn.reductions.measured.map(|measure| self.measured(measure));
        let counted = measured.map_or(0, |m| m.message_tokens.saturating_add(m.tool_tokens));
        let told = self.state.model_turn.guidance.iter().map(|guidance| estimated_tokens(&guidance.text));
        told.fold(counted.saturating_add(self.state.spending.appended), u64::saturating_add)
    }

    /// The conversation that the final turn would send.
    pub(super) fn conversation(&self) -> Conversation {
        Conversation { tokens: self.counted_now(), tools: self.sends_tools() }
    }

    /// The budgets of the run.
    pub(super) fn run_budget(&self) -> RunBudget<'_> {
        let State { context, spending, models, ending, now, .. } = &*self.state;
        RunBudget { policy: self.policy, context, spending, models, is_last: ending.is_now(), now: *now }
    }

    /// After this nothing begins.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.run_budget().deadline()
    }

    /// A message came into the conversation after it was measured.
    pub(super) fn appended(&mut self, message: &Message) {
        let tokens = weight(message);
        self.state.spending.appended = self.state.spending.appended.saturating_add(tokens);
    }

    /// A call is made.
    pub(super) fn reserve(&mut self, granted: Granted) {
        let spending = &mut self.state.spending;
        spending.model_calls = spending.model_calls.saturating_add(1);
        spending.lowered = granted.lowered.is_some();
        spending.reserved = Some(granted.reservation);
    }

    /// The call under way was answered: what it used takes the place of what was kept for it. What nobody reports is
    /// counted here.
    pub(super) fn charge_reply(&mut self, reply: &ModelReply) {
        let Some(kept) = self.state.spending.reserved.take() else { return };
        let said = reply.usage.unwrap_or_default();
        let input = if said.input > 0 { said.input } else { kept.input };
        let output = if said.output > 0 { said.output } else { own_count(reply) };
        self.charge_usage(&kept, Usage { input, output, ..said });
    }

    /// The call under way failed. An error that a server answers with costs nothing; what was streamed before, and what
    /// took too long, did.
    pub(super) fn charge_failure(&mut self, failure: &Failure) {
        let Some(kept) = self.state.spending.reserved.take() else { return };
        let class = failure.classified(self.policy).class;
        let worked = failure.received > 0 || (class == ErrorClass::Timeout && failure.status.is_none());
        if worked {
            let output = failure.received.div_ceil(4).min(kept.output);
            let input = kept.input;
            self.charge_usage(&kept, Usage { input, output, ..Usage::default() });
        }
    }

    /// The run ends while a call is under way: nobody will say what it used.
    pub(super) fn charge_unanswered(&mut self) {
        if let Some(kept) = self.state.spending.reserved.take() {
            let input = kept.input;
            self.charge_usage(&kept, Usage { input, ..Usage::default() });
        }
    }

    fn charge_usage(&mut self, kept: &Reservation, usage: Usage) {
        let price = self.run_budget().price(&kept.target);
        self.state.spending.charge(usage, price);
    }

    /// There is not enough left for this turn as it is: it is the final one; or the next one is, if a model was called in
    /// this one, so that the attempts of a turn are no more than they may be.
    pub(super) fn final_turn_now(&mut self, why: Because) {
        self.state.model_turn.series = None;
        if self.state.model_turn.asked_turn == self.state.turn {
            self.force_last_turn(FinalReason::Budget, vec![why]);
            return self.next_turn_when_due();
        }
        self.end_with_this_turn(FinalReason::Budget, vec![why]);
        let measure = self.state.model_turn.reductions.measured.unwrap_or_default();
        let appended = core::mem::take(&mut self.state.spending.appended);
        let message_tokens = measure.message_tokens.saturating_add(appended);
        self.begin_turn(TurnMeasure { message_tokens, ..measure });
    }

    /// Why the final turn comes now, although the attempts of the turn did not end by themselves: the time of the run
    /// leaves none for the next one, or its budget left the reply too little room.
    pub(super) fn ended_by_budget(
        &self,
        retry: &RetryPolicy,
        progress: Progress,
        case: &Case,
        reason: StopReason,
    ) -> Option<Because> {
        let budget = self.run_budget();
        let limits = budget.limits()?;
        if self.state.ending.is_now() {
            return None;
        }
        if case.class == ErrorClass::TruncatedOutput && self.state.spending.lowered {
            let target = self.state.target()?;
            return budget
                .grant(target, self.with_added(target, self.counted_now()), || self.conversation())
                .map_or_else(Some, |granted| granted.lowered.map(|(_, why)| why));
        }
        let time = limits.time.as_ref()?;
        if reason != StopReason::Deadline || budget.is_late_anyway(retry, progress, case) {
            return None;
        }
        Some(because(self.policy, "limits.run.time", time, budget.facts_of_time()))
    }

    /// Why a call does not run: all calls of tools there may be have run. Then the next turn is the final one.
    pub(super) fn no_calls_left(&mut self, slot: &Slot) -> Option<Refusal> {
        let most = self.run_budget().limits()?.tool_calls.as_ref()?;
        let made = self.state.spending.tool_calls;
        if made < most.value {
            return None;
        }
        let fact = format!("{made} calls of tools have run");
        let why = Reason::new(self.policy, "limits.run.tool_calls", most, [fact]);
        let text = &self.policy.turn().calls.no_calls_left_message;
        let text = self.say(text, json!({ "tool": slot.tool, "most": most.value }));
        self.force_last_turn(FinalReason::Budget, vec![why.clone().told(self.policy)]);
        Some(Refusal { class: ErrorClass::ToolUnavailable, text, because: vec![why] })
    }

    /// A call of a tool begins.
    pub(super) const fn count_tool_call(&mut self) {
        let spending = &mut self.state.spending;
        spending.tool_calls = spending.tool_calls.saturating_add(1);
    }

    /// A call of a tool that was counted does not run after all.
    pub(super) const fn uncount_tool_call(&mut self) {
        let spending = &mut self.state.spending;
        spending.tool_calls = spending.tool_calls.saturating_sub(1);
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
