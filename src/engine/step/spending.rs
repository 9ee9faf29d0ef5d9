//! The budgets of a run: what each call may have of them, what it used, and when the final turn has to come.

use serde_json::json;

use super::super::because::because;
use super::super::directive::Because;
use super::super::event::{Drive, ModelReply, TurnMeasure};
use super::super::failure::Failure;
use super::super::reason::Reason;
use super::super::results_room::weight;
use super::super::retry::{self, Case, Progress, Verdict};
use super::super::spending::{Rate, Request, Reservation};
use super::super::state::{Refusal, Slot};
use super::Step;
use crate::policy::{
    ContextWindow, Cost, ErrorClass, Price, RetryPolicy, RunLimits, Seed, Setting, estimated_tokens,
};
use crate::session::{FinalReason, Message, StopReason, Usage};
use crate::time::Instant;

const FLOOR: u64 = RunLimits::LEAST_REPLY;

/// What a call of a model may have.
pub(super) struct Granted {
    reservation: Reservation,
    /// The most tokens of its reply, where that is less than it would have without a budget, and why.
    pub(super) lowered: Option<(u64, Because)>,
}

/// A budget that is counted in tokens or money, and what is left of it.
struct Purse {
    rule: &'static str,
    shown: Setting<String>,
    left: u64,
    rate: Rate,
    /// The most that a token takes at any model of the run.
    most: Rate,
}

impl<'a> Step<'a> {
    /// The budgets that hold. Whoever drives the turns itself does not ask for calls of models here.
    fn limits(&self) -> Option<&'a RunLimits> {
        let limits = self.policy.run_limits();
        (self.state.context.drive == Drive::Turns && !limits.is_empty()).then_some(limits)
    }

    /// Whether the run has a budget of anything.
    pub(super) fn has_budget(&self) -> bool {
        self.limits().is_some()
    }

    /// After this nothing begins: the deadline of the run, or the end of its time; before the final turn without the share
    /// of that.
    pub(super) fn deadline(&self) -> Option<Instant> {
        [self.state.context.deadline, self.end_of_time()].into_iter().flatten().min()
    }

    fn end_of_time(&self) -> Option<Instant> {
        let time = self.limits()?.time.as_ref()?.value;
        let spending = &self.state.spending;
        let end = spending.started.saturating_add(time);
        let share = RunLimits::share_of_the_end(time);
        Some(match spending.ending {
            // What a call under way takes too long does not take the final turn its share.
            Some(ending) => end.max(ending.saturating_add(share)),
            None => Instant(end.0.saturating_sub(share.0)),
        })
    }

    /// When everything is over, the final turn too: the deadline of the run, or the end of its time.
    pub(super) fn end_of_all_time(&self) -> Option<Instant> {
        let time = self.limits().and_then(|limits| limits.time.as_ref());
        let end = time.map(|time| self.state.spending.started.saturating_add(time.value));
        [self.state.context.deadline, end].into_iter().flatten().min()
    }

    /// Why only the final turn may begin, or not even that, whatever the conversation is.
    pub(super) fn out_of_budget(&self) -> Option<Because> {
        let limits = self.limits()?;
        let spending = &self.state.spending;
        if let (Some(time), Some(end)) = (&limits.time, self.end_of_time())
            && end <= self.state.now
        {
            let fact = format!("{} are over", spending.time(self.state.now));
            return Some(because(self.policy, "limits.run.time", time, [fact]));
        }
        let calls = limits.model_calls.as_ref()?;
        let kept = u32::from(!self.state.ending.is_now());
        (spending.model_calls.saturating_add(kept) >= calls.value).then(|| {
            let fact = format!("{} calls were made", spending.model_calls);
            because(self.policy, "limits.run.model_calls", calls, [fact])
        })
    }

    /// What the next call of that model may have, with a request of so many tokens by the host's count, what is known to be
    /// added among them; or why it is not made. Before the final turn enough for that one is left.
    pub(super) fn granted(&self, target: &str, request: u64) -> Result<Granted, Because> {
        let input = self.state.models.expected(target, request);
        let usual = self.usual_reply(target, input);
        let reservation = Reservation { target: target.to_owned(), input, output: usual };
        let mut granted = Granted { reservation, lowered: None };
        let Some(limits) = self.limits() else { return Ok(granted) };
        if let Some(why) = self.out_of_budget() {
            return Err(why);
        }
        let floor = FLOOR.min(usual);
        // A summary has a request of its own; the final turn has the conversation.
        let conversation = self.counted_now();
        let ahead = self.state.context.targets.iter().map(|target| {
            let request = request.max(self.with_added(target, conversation));
            self.state.models.expected(target, request)
        });
        let ahead = ahead.max().unwrap_or(input);
        for purse in self.purses(limits, target)? {
            let call = Request { tokens: input, rate: purse.rate, floor };
            let end = Request { tokens: ahead, rate: purse.most, floor };
            let (most, needs) = if self.state.ending.is_now() {
                (call.most_of_final(purse.left), call.needs_as_final())
            } else {
                (call.most_before(end, purse.left), call.needs_before(end))
            };
            let fact = format!("{} left; {needs}", purse.text());
            let why = || because(self.policy, purse.rule, &purse.shown, [fact.clone()]);
            let Some(most) = most else { return Err(why()) };
            if most < granted.reservation.output {
                granted.reservation.output = most;
                granted.lowered = Some((most, why()));
            }
        }
        Ok(granted)
    }

    /// The most tokens of a reply without a budget: what the model or the host grants it, or what the window has left. If
    /// neither is known, what the policy keeps for it.
    fn usual_reply(&self, target: &str, input: u64) -> u64 {
        let policy = self.policy.model(target);
        let window = match self.state.models.window(target, &policy).window {
            ContextWindow::Tokens(tokens) => Some(tokens.get().saturating_sub(input)),
            ContextWindow::Unknown => None,
        };
        let own = self.state.models.longest_reply(target);
        let most = [own, window].into_iter().flatten().min().filter(|most| *most > 0);
        most.unwrap_or_else(|| policy.output_reserve.value.get().into())
    }

    /// What is left of the budgets that tokens draw on. A model whose price nobody knows cannot be called under one of
    /// money.
    fn purses(&self, limits: &'a RunLimits, target: &str) -> Result<Vec<Purse>, Because> {
        let spending = &self.state.spending;
        let mut purses = Vec::new();
        if let Some(tokens) = &limits.tokens {
            purses.push(Purse {
                rule: "limits.run.tokens",
                shown: tokens.map(|tokens| tokens.to_string()),
                left: tokens.value.saturating_sub(spending.tokens),
                rate: Rate::TOKENS,
                most: Rate::TOKENS,
            });
        }
        if let Some(cost) = &limits.cost {
            let Some(price) = self.price(target) else {
                let fact = format!("the price of {target} is unknown; write `price` for it into the policy");
                return Err(because(self.policy, "limits.run.cost", cost, [fact]));
            };
            let rate = Rate::of(price);
            let prices = self.state.context.targets.iter().filter_map(|target| self.price(target));
            purses.push(Purse {
                rule: "limits.run.cost",
                shown: cost.map(|cost| cost.to_string()),
                left: cost.value.0.saturating_sub(spending.picodollars),
                rate,
                most: prices.fold(rate, |most, price| most.max(Rate::of(price))),
            });
        }
        Ok(purses)
    }

    /// What the tokens of a model cost: what the policy says, or else what the host found out.
    fn price(&self, target: &str) -> Option<Price> {
        let known = self.policy.model(target).price.value.known();
        known.or_else(|| self.state.spending.prices.get(target).copied())
    }

    /// The tokens of the request of the next attempt, by the host's count.
    pub(super) fn counted_now(&self) -> u64 {
        let measured = self.state.model_turn.reductions.measured.map(|measure| self.measured(measure));
        let counted = measured.map_or(0, |m| m.message_tokens.saturating_add(m.tool_tokens));
        let told = self.state.model_turn.guidance.iter().map(|guidance| estimated_tokens(&guidance.text));
        told.fold(counted.saturating_add(self.state.spending.appended), u64::saturating_add)
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
        let price = self.price(&kept.target);
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
        self.begin_last_turn(FinalReason::Budget, vec![why]);
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
        let limits = self.limits()?;
        if self.state.ending.is_now() {
            return None;
        }
        if case.class == ErrorClass::TruncatedOutput && self.state.spending.lowered {
            let target = self.state.target()?;
            return self
                .granted(target, self.with_added(target, self.counted_now()))
                .map_or_else(Some, |granted| granted.lowered.map(|(_, why)| why));
        }
        let time = limits.time.as_ref()?;
        if reason != StopReason::Deadline || self.is_late_anyway(retry, progress, case) {
            return None;
        }
        Some(because(self.policy, "limits.run.time", time, self.facts_of_time()))
    }

    /// Why a deadline ended the attempts: the time of the run, or `None` if it would have been over without a budget.
    pub(super) fn late_by_budget(
        &self,
        retry: &RetryPolicy,
        progress: Progress,
        case: &Case,
    ) -> Option<Because> {
        let time = self.limits()?.time.as_ref()?;
        let late = self.is_late_anyway(retry, progress, case);
        (!late).then(|| because(self.policy, "limits.run.time", time, self.facts_of_time()))
    }

    /// Whether attempts end by a deadline though the time of the run had no end.
    fn is_late_anyway(&self, retry: &RetryPolicy, progress: Progress, case: &Case) -> bool {
        let case = Case { run_deadline: self.state.context.deadline, ..*case };
        let seed = || Seed::new(self.state.context.seed, "", "");
        let verdict = retry::in_earnest(retry, progress, case, self.state.now, seed);
        verdict == Verdict::Stop(StopReason::Deadline)
    }

    fn facts_of_time(&self) -> [String; 1] {
        [format!("{} are over", self.state.spending.time(self.state.now))]
    }

    /// What is left for the request of the final turn at that model, in tokens as its provider counts them, and the
    /// budget that says so; `None`: no budget does.
    pub(super) fn left_for_the_end(&self, target: &str) -> Option<(u64, &'static str, Setting<String>)> {
        if !self.state.ending.is_now() {
            return None;
        }
        let purses = self.purses(self.limits()?, target).ok()?;
        let windows = purses.into_iter().map(|purse| {
            let request = Request { tokens: 0, rate: purse.rate, floor: FLOOR };
            (request.most_of_request(purse.left).saturating_add(FLOOR), purse.rule, purse.shown)
        });
        windows.min_by_key(|(tokens, ..)| *tokens)
    }

    /// How many tokens the results of a reply may have so that a final turn still fits after them, as the provider counts
    /// them, after a conversation of that size; `None`: no budget says so.
    pub(super) fn left_for_results(
        &self,
        target: &str,
        measure: TurnMeasure,
    ) -> Option<(u64, &'static str, Setting<String>)> {
        let purses = self.purses(self.limits()?, target).ok()?;
        let counted = measure.message_tokens.saturating_add(measure.tool_tokens);
        let sent = self.sent(target, counted);
        let rooms = purses.into_iter().map(|purse| {
            let request = Request { tokens: 0, rate: purse.most, floor: FLOOR };
            (request.most_of_request(purse.left).saturating_sub(sent), purse.rule, purse.shown)
        });
        rooms.min_by_key(|(tokens, ..)| *tokens)
    }

    /// Why a call does not run: all calls of tools there may be have run. Then the next turn is the final one.
    pub(super) fn no_calls_left(&mut self, slot: &Slot) -> Option<Refusal> {
        let most = self.limits()?.tool_calls.as_ref()?;
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

impl Purse {
    /// What is left, for people.
    fn text(&self) -> String {
        if self.rule == "limits.run.cost" {
            format!("{} US dollars are", Cost(self.left))
        } else {
            format!("{} tokens are", self.left)
        }
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
