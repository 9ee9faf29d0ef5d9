//! The budgets of a run: what is left of them, what each call may have, and when the final turn has to come.

use super::super::because::because;
use super::super::directive::Because;
use super::super::retry::{self, Case, Progress, Verdict};
use super::super::spending::{Rate, Request, Reservation, Spending};
use super::super::state::RunContext;
use super::model_health::ModelHealth;
use crate::policy::{ContextWindow, Cost, Policy, Price, RetryPolicy, RunLimits, Seed, Setting};
use crate::session::StopReason;
use crate::time::Instant;

const FLOOR: u64 = RunLimits::LEAST_REPLY;

/// The budgets of a run, beside what the run has spent of them.
#[derive(Clone, Copy)]
pub(in crate::engine) struct RunBudget<'a> {
    pub(in crate::engine) policy: &'a Policy,
    pub(in crate::engine) context: &'a RunContext,
    /// The models that may be called.
    pub(in crate::engine) targets: &'a [String],
    pub(in crate::engine) spending: &'a Spending,
    pub(in crate::engine) models: &'a ModelHealth,
    /// Whether this is the final turn.
    pub(in crate::engine) is_last: bool,
    pub(in crate::engine) now: Instant,
}

/// The conversation that the final turn would send.
#[derive(Clone, Copy)]
pub(in crate::engine) struct Conversation {
    /// Its tokens, by the host's count.
    pub(in crate::engine) tokens: u64,
    /// Whether it is sent with tools.
    pub(in crate::engine) tools: bool,
}

/// What a call of a model may have.
pub(in crate::engine) struct Granted {
    pub(in crate::engine) reservation: Reservation,
    /// The most tokens of its reply, where that is less than it would have without a budget, and why.
    pub(in crate::engine) lowered: Option<(u64, Because)>,
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

impl<'a> RunBudget<'a> {
    /// The budgets that hold.
    pub(in crate::engine) fn limits(&self) -> Option<&'a RunLimits> {
        let limits = self.policy.run_limits();
        (!limits.is_empty()).then_some(limits)
    }

    /// Whether the run has a budget of anything.
    pub(in crate::engine) fn has_budget(&self) -> bool {
        self.limits().is_some()
    }

    /// After this nothing begins: the deadline of the run, or the end of its time; before the final turn without the share
    /// of that.
    pub(in crate::engine) fn deadline(&self) -> Option<Instant> {
        [self.context.deadline, self.end_of_time()].into_iter().flatten().min()
    }

    fn end_of_time(&self) -> Option<Instant> {
        let time = self.limits()?.time.as_ref()?.value;
        let spending = &self.spending;
        let end = spending.started.saturating_add(time);
        let share = RunLimits::share_of_the_end(time);
        Some(match spending.ending {
            // What a call under way takes too long does not take the final turn its share.
            Some(ending) => end.max(ending.saturating_add(share)),
            None => Instant(end.0.saturating_sub(share.0)),
        })
    }

    /// When everything is over, the final turn too: the deadline of the run, or the end of its time.
    pub(in crate::engine) fn end_of_all_time(&self) -> Option<Instant> {
        let time = self.limits().and_then(|limits| limits.time.as_ref());
        let end = time.map(|time| self.spending.started.saturating_add(time.value));
        [self.context.deadline, end].into_iter().flatten().min()
    }

    /// Why only the final turn may begin, or not even that, whatever the conversation is.
    pub(in crate::engine) fn out_of_budget(&self) -> Option<Because> {
        let limits = self.limits()?;
        let spending = &self.spending;
        if let (Some(time), Some(end)) = (&limits.time, self.end_of_time())
            && end <= self.now
        {
            let fact = format!("{} are over", spending.time(self.now));
            return Some(because(self.policy, "limits.run.time", time, [fact]));
        }
        let calls = limits.model_calls.as_ref()?;
        let kept = u32::from(!self.is_last);
        (spending.model_calls.saturating_add(kept) >= calls.value).then(|| {
            let fact = format!("{} calls were made", spending.model_calls);
            because(self.policy, "limits.run.model_calls", calls, [fact])
        })
    }

    /// What the next call of that model may have, with a request of so many tokens by the host's count, what is known to be
    /// added among them; or why it is not made. Before the final turn enough for that one is left.
    pub(in crate::engine) fn grant(
        &self,
        target: &str,
        request: u64,
        conversation: impl FnOnce() -> Conversation,
    ) -> Result<Granted, Because> {
        let input = self.models.expected(target, request);
        let usual = self.usual_reply(target, input);
        let reservation = Reservation { target: target.to_owned(), input, output: usual };
        let mut granted = Granted { reservation, lowered: None };
        let Some(limits) = self.limits() else { return Ok(granted) };
        if let Some(why) = self.out_of_budget() {
            return Err(why);
        }
        let floor = FLOOR.min(usual);
        // A summary has a request of its own; the final turn has the conversation.
        let Conversation { tokens, tools } = conversation();
        let ahead = self.targets.iter().map(|target| {
            let request = request.max(self.models.with_added(target, tokens, tools));
            self.models.expected(target, request)
        });
        let ahead = ahead.max().unwrap_or(input);
        for purse in self.purses(limits, target)? {
            let call = Request { tokens: input, rate: purse.rate, floor };
            let end = Request { tokens: ahead, rate: purse.most, floor };
            let (most, needs) = if self.is_last {
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
        let window = match self.models.window(target, &policy).window {
            ContextWindow::Tokens(tokens) => Some(tokens.get().saturating_sub(input)),
            ContextWindow::Unknown => None,
        };
        let own = self.models.longest_reply(target);
        let most = [own, window].into_iter().flatten().min().filter(|most| *most > 0);
        most.unwrap_or_else(|| policy.output_reserve.value.get().into())
    }

    /// What is left of the budgets that tokens draw on. A model whose price nobody knows cannot be called under one of
    /// money.
    fn purses(&self, limits: &'a RunLimits, target: &str) -> Result<Vec<Purse>, Because> {
        let spending = &self.spending;
        let mut purses = Vec::new();
        if let Some(tokens) = &limits.tokens {
            purses.push(Purse {
                rule: "limits.run.tokens",
                shown: tokens.map(|tokens| tokens.to_string()),
                left: tokens
                    .value
                    .saturating_sub(spending.tokens)
                    .saturating_sub(spending.reserved().total()),
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
            let prices = self.targets.iter().filter_map(|target| self.price(target));
            purses.push(Purse {
                rule: "limits.run.cost",
                shown: cost.map(|cost| cost.to_string()),
                left: cost.value.0.saturating_sub(spending.picodollars).saturating_sub(self.reserved_cost()),
                rate,
                most: prices.fold(rate, |most, price| most.max(Rate::of(price))),
            });
        }
        Ok(purses)
    }

    /// What the calls under way may cost, in picodollars.
    fn reserved_cost(&self) -> u64 {
        let kept = self.spending.reserved.values();
        let costs = kept.filter_map(|kept| Some(kept.usage().cost(self.price(&kept.target)?).0));
        costs.fold(0, u64::saturating_add)
    }

    /// What the tokens of a model cost: what the policy says, or else what the host found out.
    pub(in crate::engine) fn price(&self, target: &str) -> Option<Price> {
        let known = self.policy.model(target).price.value.known();
        known.or_else(|| self.spending.prices.get(target).copied())
    }

    /// Why a deadline ended the attempts: the time of the run, or `None` if it would have been over without a budget.
    pub(in crate::engine) fn late_by_budget(
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
    pub(in crate::engine) fn is_late_anyway(
        &self,
        retry: &RetryPolicy,
        progress: Progress,
        case: &Case,
    ) -> bool {
        let case = Case { run_deadline: self.context.deadline, ..*case };
        let seed = || Seed::new(self.context.seed, "", "");
        let verdict = retry::in_earnest(retry, progress, case, self.now, seed);
        verdict == Verdict::Stop(StopReason::Deadline)
    }

    pub(in crate::engine) fn facts_of_time(&self) -> [String; 1] {
        [format!("{} are over", self.spending.time(self.now))]
    }

    /// What is left for the request of the final turn at that model, in tokens as its provider counts them, and the
    /// budget that says so; `None`: no budget does.
    pub(in crate::engine) fn left_for_the_end(
        &self,
        target: &str,
    ) -> Option<(u64, &'static str, Setting<String>)> {
        if !self.is_last {
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
    /// them, after a request of so many; `None`: no budget says so.
    pub(in crate::engine) fn left_for_results(
        &self,
        target: &str,
        sent: u64,
    ) -> Option<(u64, &'static str, Setting<String>)> {
        let purses = self.purses(self.limits()?, target).ok()?;
        let rooms = purses.into_iter().map(|purse| {
            let request = Request { tokens: 0, rate: purse.most, floor: FLOOR };
            (request.most_of_request(purse.left).saturating_sub(sent), purse.rule, purse.shown)
        });
        rooms.min_by_key(|(tokens, ..)| *tokens)
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
