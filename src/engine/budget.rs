//! What has been drawn on a retry budget: tokens, or calls and retries of the last while.

use core::fmt;
use std::collections::{BTreeMap, VecDeque};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::untold::remember;
use crate::policy::{BudgetScope, ErrorClass, RetryBudget, TokenBudget, WindowBudget};
use crate::time::{Instant, Nanos};

/// A window is counted in so many parts; what is older than the window by less than one of them may still count.
// Ten parts are what Polly, failsafe-go and tower use: a sliding window in bounded memory, exact to a tenth.
const PARTS: u64 = 10;
// Ratios are integers. tower takes a reciprocal and truncates it: its budgets of 0.6, 0.7 and 0.9 all allow a retry
// for each call.
const WHOLE_PPM: u64 = 1_000_000;

/// What has been drawn on the budgets of all actions, by the names they are kept under. Those that are whole are left
/// out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct RetryBudgets(BTreeMap<String, BudgetLedger>);

/// What has been drawn on one budget. An empty one stands for a budget that is whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct BudgetLedger {
    /// Tokens taken and not given back.
    /// Example: `42`
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    spent: u64,
    /// How many tokens there were when they were taken.
    /// Example: `500`
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    capacity: u64,
    /// The window that is counted.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    window: Nanos,
    /// Its parts, oldest first; those in which nothing happened are left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    parts: Vec<WindowPart>,
    /// What has happened to it, of those that hosts share, and the others do not know yet.
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    #[schemars(skip)]
    untold: VecDeque<LedgerAct>,
}

/// What happened in one part of a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "LedgerPart")]
struct WindowPart {
    /// Its number since the epoch.
    /// Example: `1763768419`
    number: u64,
    /// Calls that ended in it.
    /// Example: `12`
    calls: u32,
    /// Retries that were granted in it.
    /// Example: `3`
    retries: u32,
}

/// What happens to a budget, with all it takes to draw it on another ledger of the same budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum LedgerAct {
    /// Tokens are taken.
    Took { tokens: u64, of: u64 },
    /// Tokens are given back.
    GaveBack { tokens: u64, of: u64 },
    /// The first attempt of a call has ended.
    Called { at: Instant, window: Nanos },
    /// A retry has been granted.
    Retried { at: Instant, window: Nanos },
}

/// Why a budget has no retry left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BudgetShortage {
    /// There are fewer tokens than a retry takes.
    Tokens {
        /// What is there.
        left: u64,
        /// What a retry takes.
        cost: u32,
    },
    /// There were too many retries for so few calls.
    Window {
        /// The retries.
        retries: u64,
        /// The calls.
        calls: u64,
    },
}

impl RetryBudgets {
    /// Whether nothing is drawn on any.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// As [`BudgetLedger::refuses`], for an attempt at `action`.
    pub(super) fn refuses(
        &self,
        action: &str,
        budget: &RetryBudget,
        class: ErrorClass,
        now: Instant,
    ) -> Option<BudgetShortage> {
        let whole = BudgetLedger::default();
        self.0.get(&account(action, budget)?).unwrap_or(&whole).refuses(budget, class, now)
    }

    /// The first attempt at `action` has failed.
    pub(super) fn called(&mut self, action: &str, budget: &RetryBudget, now: Instant) {
        self.entry(action, budget, |ledger| ledger.called(budget, now));
    }

    /// Another attempt at `action` is made after a failure of that class.
    pub(super) fn retried(&mut self, action: &str, budget: &RetryBudget, class: ErrorClass, now: Instant) {
        self.entry(action, budget, |ledger| ledger.retried(budget, class, now));
    }

    /// `action` has succeeded; `after` is the class of its last failure, if it had one.
    pub(super) fn succeeded(
        &mut self,
        action: &str,
        budget: &RetryBudget,
        after: Option<ErrorClass>,
        now: Instant,
    ) {
        self.entry(action, budget, |ledger| {
            // A call that was retried has been counted with its first failure; one that went well at once is counted
            // here.
            if after.is_none() {
                ledger.called(budget, now);
            }
            ledger.succeeded(budget, after);
        });
    }

    /// Those that hosts share: all that is known of them beyond a run.
    pub(super) fn shared(&self) -> impl Iterator<Item = (&String, &BudgetLedger)> {
        self.0.iter().filter(|(account, _)| account.starts_with(SHARED))
    }

    /// This is what hosts know of one that they share.
    pub(super) fn set_shared(&mut self, account: String, ledger: BudgetLedger) {
        if account.starts_with(SHARED) {
            self.set(account, ledger);
        }
    }

    /// What is drawn on the one of that name.
    pub(super) fn get(&self, account: &str) -> Option<&BudgetLedger> {
        self.0.get(account)
    }

    /// As they are before the first event of the next run.
    pub(super) fn next_run(&self) -> Self {
        Self(self.shared().map(|(account, ledger)| (account.clone(), ledger.clone())).collect())
    }

    fn set(&mut self, account: String, ledger: BudgetLedger) {
        // A budget that is whole equals one that was never used: leaving it out keeps the state small, however many
        // tools there are.
        if ledger.is_empty() {
            self.0.remove(&account);
        } else {
            self.0.insert(account, ledger);
        }
    }

    fn entry(&mut self, action: &str, budget: &RetryBudget, entry: impl FnOnce(&mut BudgetLedger)) {
        let Some(account) = account(action, budget) else { return };
        let mut ledger = self.0.remove(&account).unwrap_or_default();
        entry(&mut ledger);
        self.set(account, ledger);
    }
}

/// What the names of budgets begin with that hosts share.
const SHARED: &str = "shared ";

/// The name under which a budget is kept; `None`: there is no budget. The name of a shared one contains its shape: what
/// is drawn on one of another shape cannot be compared.
pub(super) fn account(action: &str, budget: &RetryBudget) -> Option<String> {
    let name = || budget.pool().map_or_else(|| action.to_owned(), |pool| format!("pool {pool}"));
    match (budget, budget.scope()) {
        (RetryBudget::None, _) => None,
        (RetryBudget::Tokens(_) | RetryBudget::Window(_), BudgetScope::Run) => Some(name()),
        // Stores of different sizes must not be mixed: a host with a smaller one would refuse
        // for what the larger one can bear.
        (RetryBudget::Tokens(tokens), BudgetScope::Shared) => {
            Some(format!("{SHARED}{} ({} tokens)", name(), tokens.capacity))
        }
        (RetryBudget::Window(window), BudgetScope::Shared) => {
            Some(format!("{SHARED}{} (in {})", name(), window.window))
        }
    }
}

impl BudgetLedger {
    /// Whether nothing is drawn on it, and nothing is to be reported to others.
    pub(crate) fn is_empty(&self) -> bool {
        self.spent == 0 && self.parts.is_empty() && self.untold.is_empty()
    }

    /// Why a retry after a failure of that class is refused; `None`: it is not.
    pub(crate) fn refuses(
        &self,
        budget: &RetryBudget,
        class: ErrorClass,
        now: Instant,
    ) -> Option<BudgetShortage> {
        match budget {
            RetryBudget::None => None,
            // The retry quota of the AWS SDKs: the class decides the price, and an empty store refuses at once
            // instead of blocking.
            RetryBudget::Tokens(tokens) => {
                let cost = tokens.cost_after(class);
                let left = self.left(tokens);
                (u64::from(cost) > left).then_some(BudgetShortage::Tokens { left, cost })
            }
            RetryBudget::Window(window) => {
                let (calls, retries) = self.counts(window, now);
                // An agent makes few calls, so a share of them alone grants nothing (failsafe-go#106): `min` is a
                // floor. Google's SRE book ("Handling Overload") sets the share to 10 %.
                let share = calls.saturating_mul(window.ratio_ppm.into()).div_euclid(WHOLE_PPM);
                (retries >= share.max(window.min.into())).then_some(BudgetShortage::Window { retries, calls })
            }
        }
    }

    /// The first attempt of a call has ended.
    pub(crate) fn called(&mut self, budget: &RetryBudget, now: Instant) {
        if let RetryBudget::Window(window) = budget {
            self.draw(budget, LedgerAct::Called { at: now, window: window.window });
        }
    }

    /// A retry after a failure of that class has been granted.
    pub(crate) fn retried(&mut self, budget: &RetryBudget, class: ErrorClass, now: Instant) {
        let act = match budget {
            RetryBudget::None => return,
            RetryBudget::Tokens(tokens) => {
                let (tokens, of) = (tokens.cost_after(class).into(), tokens.capacity.get().into());
                LedgerAct::Took { tokens, of }
            }
            RetryBudget::Window(window) => LedgerAct::Retried { at: now, window: window.window },
        };
        self.draw(budget, act);
    }

    /// A call has succeeded; `after` is the class of the failure its last retry followed, if it was retried.
    pub(crate) fn succeeded(&mut self, budget: &RetryBudget, after: Option<ErrorClass>) {
        if let RetryBudget::Tokens(tokens) = budget {
            // As in the AWS SDKs: a success gives back what the last retry cost, and a little if it needed none. So
            // the store refills only while the service works.
            let back = after.map_or(tokens.earn, |class| tokens.cost_after(class));
            self.draw(budget, LedgerAct::GaveBack { tokens: back.into(), of: tokens.capacity.get().into() });
        }
    }

    /// Does it, and keeps in mind what others need to know. What changes nothing they need not know.
    fn draw(&mut self, budget: &RetryBudget, act: LedgerAct) {
        if self.take(act) && budget.scope() == BudgetScope::Shared {
            remember(&mut self.untold, act);
        }
    }

    /// Takes what happened here, or on another host. Returns whether it changes anything.
    fn take(&mut self, act: LedgerAct) -> bool {
        match act {
            LedgerAct::Took { tokens, of } => {
                // The store cannot be overdrawn: debts of one outage would forbid retries long after it.
                self.spend(self.spent_of(of).saturating_add(tokens).min(of), of)
            }
            LedgerAct::GaveBack { tokens, of } => self.spend(self.spent_of(of).saturating_sub(tokens), of),
            LedgerAct::Called { at, window } => {
                self.write(window, at, |part| part.calls = part.calls.saturating_add(1));
                true
            }
            LedgerAct::Retried { at, window } => {
                self.write(window, at, |part| part.retries = part.retries.saturating_add(1));
                true
            }
        }
    }

    /// So much of a store of that size is spent now. Returns whether that is news.
    const fn spend(&mut self, spent: u64, of: u64) -> bool {
        let (spent_before, of_before) = (self.spent, self.capacity);
        // A store that is whole forgets its size, so that it equals the default and is left out of the state.
        (self.spent, self.capacity) = (spent, if spent == 0 { 0 } else { of });
        self.spent != spent_before || self.capacity != of_before
    }

    /// What others know, and what has happened here since they were informed.
    pub(super) fn told_to(&self, others: Option<&Self>) -> Self {
        let mut all = Self { untold: VecDeque::new(), ..others.cloned().unwrap_or_default() };
        for act in &self.untold {
            all.take(*act);
        }
        all
    }

    /// Whether something has happened that others need to know.
    pub(super) fn has_news(&self) -> bool {
        !self.untold.is_empty()
    }

    /// The tokens that are there.
    pub(crate) fn left(&self, tokens: &TokenBudget) -> u64 {
        u64::from(tokens.capacity.get()).saturating_sub(self.spent_of(tokens.capacity.get().into()))
    }

    /// What is taken of a store of that size; one of another size is another store.
    const fn spent_of(&self, capacity: u64) -> u64 {
        if self.capacity == capacity { self.spent } else { 0 }
    }

    /// Calls and retries in the window that ends now.
    fn counts(&self, window: &WindowBudget, now: Instant) -> (u64, u64) {
        // Another window counted other calls: its numbers mean nothing here.
        if self.window != window.window {
            return (0, 0);
        }
        let current = number(window.window, now);
        let counted = self.parts.iter().filter(|part| part.number.saturating_add(PARTS) > current);
        counted.fold((0, 0), |(calls, retries), part| {
            (calls.saturating_add(part.calls.into()), retries.saturating_add(part.retries.into()))
        })
    }

    /// Writes into the part of the window that is now. What is too old is forgotten, and so is another window.
    fn write(&mut self, window: Nanos, now: Instant, entry: impl FnOnce(&mut WindowPart)) {
        if self.window != window {
            self.window = window;
            self.parts.clear();
        }
        let number = number(window, now);
        self.parts.retain(|part| part.number.saturating_add(PARTS) > number);
        if let Some(part) = self.parts.iter_mut().find(|part| part.number == number) {
            return entry(part);
        }
        let mut part = WindowPart { number, ..WindowPart::default() };
        entry(&mut part);
        if part.calls > 0 || part.retries > 0 {
            self.parts.push(part);
        }
    }
}

/// The number of the part that is now.
fn number(window: Nanos, now: Instant) -> u64 {
    // Parts are aligned to the epoch, so a jump over many windows finds all of them too old. tower starts a part at
    // the time of the call, and its parts drift.
    now.0.div_euclid(window.0.div_euclid(PARTS).max(1))
}

impl fmt::Display for BudgetShortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tokens { left, cost } => write!(f, "{left} tokens are left, and a retry takes {cost}"),
            Self::Window { retries, calls } => write!(f, "{retries} retries of {calls} calls"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ErrorClass::{RateLimit, Timeout};
    use proptest::prelude::*;
    use std::num::NonZeroU32;

    /// The quota of the AWS SDKs, as of 2026.
    fn tokens(capacity: u32) -> RetryBudget {
        RetryBudget::Tokens(TokenBudget {
            capacity: NonZeroU32::new(capacity).unwrap(),
            cost: 14,
            cost_of: [(RateLimit, 5)].into(),
            earn: 1,
            pool: None,
            scope: BudgetScope::Run,
        })
    }

    fn window(ratio_ppm: u32, min: u32) -> RetryBudget {
        let (window, scope) = (Nanos::from_secs(10), BudgetScope::Run);
        RetryBudget::Window(WindowBudget { window, ratio_ppm, min, pool: None, scope })
    }

    const fn secs(secs: u64) -> Instant {
        Instant(secs * 1_000_000_000)
    }

    #[test]
    fn a_retry_costs_what_its_class_costs_until_nothing_is_left() {
        let (budget, mut ledger) = (tokens(30), BudgetLedger::default());
        ledger.retried(&budget, Timeout, secs(0));
        ledger.retried(&budget, RateLimit, secs(0));
        assert_eq!(ledger.refuses(&budget, RateLimit, secs(0)), None);
        let overdrawn = BudgetShortage::Tokens { left: 11, cost: 14 };
        assert_eq!(ledger.refuses(&budget, Timeout, secs(0)), Some(overdrawn));
    }

    #[test]
    fn a_success_gives_back_what_its_last_retry_took() {
        let (budget, mut ledger) = (tokens(500), BudgetLedger::default());
        ledger.retried(&budget, Timeout, secs(0));
        ledger.succeeded(&budget, Some(Timeout));
        assert!(ledger.is_empty());
        ledger.retried(&budget, RateLimit, secs(0));
        ledger.succeeded(&budget, None);
        assert_eq!(ledger.spent, 4);
    }

    #[test]
    fn retries_are_a_share_of_the_calls_with_a_floor() {
        let (budget, mut ledger) = (window(200_000, 1), BudgetLedger::default());
        assert_eq!(ledger.refuses(&budget, Timeout, secs(0)), None, "the floor");
        ledger.retried(&budget, Timeout, secs(0));
        assert!(ledger.refuses(&budget, Timeout, secs(0)).is_some());
        (0..10).for_each(|_| ledger.called(&budget, secs(1)));
        assert_eq!(ledger.refuses(&budget, Timeout, secs(1)), None, "a fifth of ten calls");
        ledger.retried(&budget, Timeout, secs(1));
        let overdrawn = BudgetShortage::Window { retries: 2, calls: 10 };
        assert_eq!(ledger.refuses(&budget, Timeout, secs(1)), Some(overdrawn));
    }

    #[test]
    fn what_is_older_than_the_window_is_forgotten_however_long_nothing_happened() {
        let (budget, mut ledger) = (window(1, 1), BudgetLedger::default());
        ledger.retried(&budget, Timeout, secs(5));
        assert!(ledger.refuses(&budget, Timeout, secs(14)).is_some());
        assert_eq!(ledger.refuses(&budget, Timeout, secs(15)), None);
        assert_eq!(ledger.refuses(&budget, Timeout, secs(1_000_000)), None);
        ledger.called(&budget, secs(1_000_000));
        assert_eq!(ledger.parts.len(), 1);
    }

    #[test]
    fn a_retry_that_costs_nothing_is_no_news() {
        let RetryBudget::Tokens(tokens) = tokens(500) else { unreachable!() };
        let cost_of = [(RateLimit, 0)].into();
        let budget = RetryBudget::Tokens(TokenBudget { cost_of, scope: BudgetScope::Shared, ..tokens });
        let mut ledger = BudgetLedger::default();
        ledger.retried(&budget, RateLimit, secs(0));
        assert_eq!(ledger, BudgetLedger::default());
        ledger.retried(&budget, Timeout, secs(0));
        ledger.retried(&budget, RateLimit, secs(0));
        assert_eq!(ledger.untold.len(), 1);
    }

    #[test]
    fn another_store_begins_anew() {
        let (small, mut ledger) = (tokens(14), BudgetLedger::default());
        ledger.retried(&small, Timeout, secs(0));
        assert!(ledger.refuses(&small, Timeout, secs(0)).is_some());
        assert_eq!(ledger.refuses(&tokens(20), Timeout, secs(0)), None);
    }

    #[test]
    fn another_window_begins_anew() {
        let (ten, mut ledger) = (window(1, 1), BudgetLedger::default());
        ledger.retried(&ten, Timeout, secs(5));
        let RetryBudget::Window(ten) = ten else { unreachable!() };
        let other = RetryBudget::Window(WindowBudget { window: Nanos::from_secs(60), ..ten });
        assert_eq!(ledger.refuses(&other, Timeout, secs(5)), None);
    }

    proptest! {
        /// Whatever happens, in whatever order: never more tokens taken than there are, and never more given back.
        #[test]
        fn a_store_is_never_overdrawn(capacity in 1u32..200, acts in proptest::collection::vec(0u8..4, 0..200)) {
            let (budget, mut ledger) = (tokens(capacity), BudgetLedger::default());
            for act in acts {
                let class = if act % 2 == 0 { Timeout } else { RateLimit };
                if act >= 2 {
                    ledger.succeeded(&budget, (act == 2).then_some(class));
                } else if ledger.refuses(&budget, class, secs(0)).is_none() {
                    ledger.retried(&budget, class, secs(0));
                }
                prop_assert!(ledger.spent <= capacity.into());
            }
        }

        /// Within any window there are at most as many retries as the floor, or the share of the calls that were counted.
        #[test]
        fn a_window_never_grants_more_than_its_share(
            acts in proptest::collection::vec((0u64..3, proptest::bool::ANY), 0..200), min in 0u32..4,
        ) {
            let (budget, mut ledger) = (window(100_000, min), BudgetLedger::default());
            let (mut now, mut granted, mut calls) = (0, Vec::new(), Vec::new());
            for (later, retry) in acts {
                now += later;
                if !retry {
                    ledger.called(&budget, secs(now));
                    calls.push(now);
                } else if ledger.refuses(&budget, Timeout, secs(now)).is_none() {
                    ledger.retried(&budget, Timeout, secs(now));
                    granted.push(now);
                    let recent = |times: &[u64]| times.iter().filter(|at| **at + 10 > now).count();
                    prop_assert!(recent(&granted) <= (recent(&calls) / 10).max(min as usize));
                }
            }
        }
    }
}
