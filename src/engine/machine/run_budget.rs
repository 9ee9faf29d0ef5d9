//! The budgets of a run: the rest, the grant for each call, and when the final turn must come.

use super::super::because::because;
use super::super::directive::DecisionReason;
use super::super::reason::StoredReason;
use super::super::retry::{self, AttemptProgress, FailureContext, RetryVerdict};
use super::super::spending::{CallReservation, RatedRequest, RunSpending, TokenRate};
use super::model_health::ModelHealth;
use crate::engine::machine::run_context::RunContext;
use crate::policy::{ContextWindow, Cost, Policy, Price, RetryPolicy, RunLimits, Seed, Setting};
use crate::session::StopReason;
use crate::time::Instant;

const FLOOR: u64 = RunLimits::LEAST_REPLY;

/// The budgets of a run, with the amounts spent.
#[derive(Clone, Copy)]
pub(in crate::engine) struct RunBudget<'a> {
    pub(in crate::engine) policy: &'a Policy,
    pub(in crate::engine) context: &'a RunContext,
    /// The models that may be called.
    pub(in crate::engine) targets: &'a [String],
    pub(in crate::engine) spending: &'a RunSpending,
    pub(in crate::engine) models: &'a ModelHealth,
    /// Whether this is the final turn.
    pub(in crate::engine) is_last: bool,
    pub(in crate::engine) now: Instant,
}

/// The conversation that the final turn would send.
#[derive(Clone, Copy)]
pub(in crate::engine) struct FinalConversation {
    /// The tokens of the conversation, in the host's count.
    pub(in crate::engine) tokens: u64,
    /// Whether the request includes tools.
    pub(in crate::engine) tools: bool,
}

/// The grant for a model call.
pub(in crate::engine) struct GrantedCall {
    pub(in crate::engine) reservation: CallReservation,
    /// The maximum tokens of the reply with the reason, if a budget lowers it.
    pub(in crate::engine) lowered: Option<(u64, DecisionReason)>,
}

/// The rest of a budget in tokens or money.
struct RemainingBudget {
    rule: &'static str,
    shown: Setting<String>,
    left: u64,
    rate: TokenRate,
    /// The highest cost of a token at any model of the run.
    most: TokenRate,
}

impl<'a> RunBudget<'a> {
    /// The effective budgets.
    pub(in crate::engine) fn limits(&self) -> Option<&'a RunLimits> {
        let limits = self.policy.run_limits();
        (!limits.is_empty()).then_some(limits)
    }

    /// Whether the run has any budget.
    pub(in crate::engine) fn has_budget(&self) -> bool {
        self.limits().is_some()
    }

    /// The time after which no work begins: the deadline of the run, or the end of its time budget. Before the final
    /// turn its share is subtracted.
    pub(in crate::engine) fn deadline(&self) -> Option<Instant> {
        [self.context.deadline, self.end_of_time()].into_iter().flatten().min()
    }

    fn end_of_time(&self) -> Option<Instant> {
        // A share of the time is reserved for the final turn; otherwise the last ordinary call could use all of it,
        // and no report would come.
        let time = self.limits()?.time.as_ref()?.value;
        let spending = &self.spending;
        let end = spending.started.saturating_add(time);
        let share = RunLimits::share_of_the_end(time);
        Some(match spending.ending {
            // A call in flight may end late. The final turn then gets its share from that moment, even past the end.
            Some(ending) => end.max(ending.saturating_add(share)),
            // Before the final turn all work ends earlier by its share.
            None => Instant(end.0.saturating_sub(share.0)),
        })
    }

    /// The time after which not even the final turn begins: the deadline of the run, or the end of its time budget.
    pub(in crate::engine) fn end_of_all_time(&self) -> Option<Instant> {
        let time = self.limits().and_then(|limits| limits.time.as_ref());
        let end = time.map(|time| self.spending.started.saturating_add(time.value));
        [self.context.deadline, end].into_iter().flatten().min()
    }

    /// The time budget as the reason that no further call begins; `None`: some of it is left.
    pub(in crate::engine) fn out_of_time(&self) -> Option<StoredReason> {
        let time = self.limits()?.time.as_ref()?;
        let is_over = self.end_of_time()? <= self.now;
        is_over.then(|| StoredReason::new(self.policy, "limits.run.time", time, self.facts_of_time()))
    }

    /// Why only the final turn may begin, or no turn at all, independent of the conversation.
    pub(in crate::engine) fn out_of_budget(&self) -> Option<DecisionReason> {
        let limits = self.limits()?;
        let spending = &self.spending;
        if let Some(why) = self.out_of_time() {
            return Some(why.told(self.policy));
        }
        let calls = limits.model_calls.as_ref()?;
        // One call is reserved for the final turn: a run without calls and without a report has paid for nothing.
        let kept = u32::from(!self.is_last);
        (spending.model_calls.saturating_add(kept) >= calls.value).then(|| {
            let fact = format!("{} calls were made", spending.model_calls);
            because(self.policy, "limits.run.model_calls", calls, [fact])
        })
    }

    /// The grant for the next call of a model with a request of `request` tokens (host's count, known overheads
    /// included), or the reason for a refusal. Before the final turn enough is reserved for it.
    pub(in crate::engine) fn grant(
        &self,
        target: &str,
        request: u64,
        conversation: impl FnOnce() -> FinalConversation,
    ) -> Result<GrantedCall, DecisionReason> {
        // The provider's count is used, since it is billed; the host's count is an estimate.
        let input = self.models.expected(target, request);
        let usual = self.usual_reply(target, input);
        let reservation = CallReservation { target: target.to_owned(), input, output: usual };
        let mut granted = GrantedCall { reservation, lowered: None };
        let Some(limits) = self.limits() else { return Ok(granted) };
        if let Some(why) = self.out_of_budget() {
            return Err(why);
        }
        // A reply below the minimum is not worth its request: a report would be cut at once.
        let floor = FLOOR.min(usual);
        // A summary sends its own request, while the final turn sends the conversation. Enough must be left for the
        // larger one.
        let FinalConversation { tokens, tools } = conversation();
        // Any model may be called in the final turn, so the most expensive one determines the reserve.
        let ahead = self.targets.iter().map(|target| {
            let request = request.max(self.models.with_added(target, tokens, tools));
            self.models.expected(target, request)
        });
        let ahead = ahead.max().unwrap_or(input);
        for purse in self.purses(limits, target)? {
            let call = RatedRequest { tokens: input, rate: purse.rate, floor };
            let end = RatedRequest { tokens: ahead, rate: purse.most, floor };
            let (most, needs) = if self.is_last {
                (call.most_of_final(purse.left), call.needs_as_final())
            } else {
                // An ordinary call leaves enough for the final turn after it.
                (call.most_before(end, purse.left), call.needs_before(end))
            };
            let fact = format!("{} left; {needs}", purse.text());
            let why = || because(self.policy, purse.rule, &purse.shown, [fact.clone()]);
            let Some(most) = most else { return Err(why()) };
            // A shorter reply is better than none: several budgets may apply, and the tightest decides.
            if most < granted.reservation.output {
                granted.reservation.output = most;
                granted.lowered = Some((most, why()));
            }
        }
        Ok(granted)
    }

    /// The maximum reply tokens without a budget: the limit of the model or host, or the rest of the window. If
    /// neither is known, the reserve of the policy.
    fn usual_reply(&self, target: &str, input: u64) -> u64 {
        let policy = self.policy.model(target);
        // A provider refuses a reply limit beyond the window, so the rest of the window is the upper bound.
        let window = match self.models.window(target, &policy).window {
            ContextWindow::Tokens(tokens) => Some(tokens.get().saturating_sub(input)),
            ContextWindow::Unknown => None,
        };
        let own = self.models.longest_reply(target);
        let most = [own, window].into_iter().flatten().min().filter(|most| *most > 0);
        most.unwrap_or_else(|| policy.output_reserve.value.get().into())
    }

    /// The rest of the budgets in tokens and money. A model without a known price cannot be called under a budget of
    /// money.
    fn purses(&self, limits: &'a RunLimits, target: &str) -> Result<Vec<RemainingBudget>, DecisionReason> {
        let spending = &self.spending;
        let mut purses = Vec::new();
        if let Some(tokens) = &limits.tokens {
            purses.push(RemainingBudget {
                rule: "limits.run.tokens",
                shown: tokens.map(|tokens| tokens.to_string()),
                left: tokens
                    .value
                    .saturating_sub(spending.tokens)
                    // The maximum cost of calls in flight counts as spent: otherwise they could exceed the budget
                    // together.
                    .saturating_sub(spending.reserved().total()),
                rate: TokenRate::TOKENS,
                most: TokenRate::TOKENS,
            });
        }
        if let Some(cost) = &limits.cost {
            // A call without a known price cannot be kept within a budget of money, so it is refused; the reason
            // names the missing key.
            let Some(price) = self.price(target) else {
                let fact = format!("the price of {target} is unknown; write `price` for it into the policy");
                return Err(because(self.policy, "limits.run.cost", cost, [fact]));
            };
            let rate = TokenRate::of(price);
            let prices = self.targets.iter().filter_map(|target| self.price(target));
            purses.push(RemainingBudget {
                rule: "limits.run.cost",
                shown: cost.map(|cost| cost.to_string()),
                left: cost.value.0.saturating_sub(spending.picodollars).saturating_sub(self.reserved_cost()),
                rate,
                // The final turn may fall back to the most expensive model of the run.
                most: prices.fold(rate, |most, price| most.max(TokenRate::of(price))),
            });
        }
        Ok(purses)
    }

    /// The maximum cost of the calls in flight, in picodollars.
    fn reserved_cost(&self) -> u64 {
        let kept = self.spending.reserved.values();
        let costs = kept.filter_map(|kept| Some(kept.usage().cost(self.price(&kept.target)?).0));
        // The cost of a model without a price is unknown, not zero; such calls are refused above, so none is in
        // flight.
        costs.fold(0, u64::saturating_add)
    }

    /// The price of a model's tokens, from the policy or else from the host.
    pub(in crate::engine) fn price(&self, target: &str) -> Option<Price> {
        let known = self.policy.model(target).price.value.known();
        known.or_else(|| self.spending.prices.get(target).copied())
    }

    /// The time budget as the reason why the attempts ended; `None` if the deadline would be exceeded without it.
    pub(in crate::engine) fn late_by_budget(
        &self,
        retry: &RetryPolicy,
        progress: AttemptProgress,
        case: &FailureContext,
    ) -> Option<DecisionReason> {
        let time = self.limits()?.time.as_ref()?;
        let late = self.is_late_anyway(retry, progress, case);
        (!late).then(|| because(self.policy, "limits.run.time", time, self.facts_of_time()))
    }

    /// Whether the host's deadline would end the attempts without the time budget.
    pub(in crate::engine) fn is_late_anyway(
        &self,
        retry: &RetryPolicy,
        progress: AttemptProgress,
        case: &FailureContext,
    ) -> bool {
        // Decided again with the host's deadline alone: if it ends the attempts, the budget is not the reason.
        let case = FailureContext { run_deadline: self.context.deadline, ..*case };
        let seed = || Seed::new(self.context.seed, "", "");
        let verdict = retry::decide_unshadowed(retry, progress, case, self.now, seed);
        verdict == RetryVerdict::Stop(StopReason::Deadline)
    }

    pub(in crate::engine) fn facts_of_time(&self) -> [String; 1] {
        [format!("{} are over", self.spending.time(self.now))]
    }

    /// The tokens left for the request of the final turn at a model, in its provider's count, and the budget that
    /// limits them; `None`: no budget does.
    pub(in crate::engine) fn left_for_the_end(
        &self,
        target: &str,
    ) -> Option<(u64, &'static str, Setting<String>)> {
        if !self.is_last {
            return None;
        }
        let purses = self.purses(self.limits()?, target).ok()?;
        let windows = purses.into_iter().map(|purse| {
            let request = RatedRequest { tokens: 0, rate: purse.rate, floor: FLOOR };
            (request.most_of_request(purse.left).saturating_add(FLOOR), purse.rule, purse.shown)
        });
        windows.min_by_key(|(tokens, ..)| *tokens)
    }

    /// The maximum tokens for the results of a reply so that a final turn still fits after them, in the provider's
    /// count, given the tokens of the request; `None`: no budget limits them.
    pub(in crate::engine) fn left_for_results(
        &self,
        target: &str,
        sent: u64,
    ) -> Option<(u64, &'static str, Setting<String>)> {
        let purses = self.purses(self.limits()?, target).ok()?;
        let rooms = purses.into_iter().map(|purse| {
            let request = RatedRequest { tokens: 0, rate: purse.most, floor: FLOOR };
            (request.most_of_request(purse.left).saturating_sub(sent), purse.rule, purse.shown)
        });
        rooms.min_by_key(|(tokens, ..)| *tokens)
    }
}

impl RemainingBudget {
    /// The rest of the budget, for people.
    fn text(&self) -> String {
        if self.rule == "limits.run.cost" {
            format!("{} US dollars are", Cost(self.left))
        } else {
            format!("{} tokens are", self.left)
        }
    }
}
