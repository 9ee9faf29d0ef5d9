//! The use of retry budgets: tokens, or calls and retries within a window.

use core::fmt;
use std::collections::{BTreeMap, VecDeque};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::untold::remember;
use crate::policy::{BudgetScope, ErrorClass, RetryBudget, TokenBudget, WindowBudget};
use crate::time::{Instant, Nanos};

/// The number of parts of a window. A part that is partly older than the window still counts.
// Polly, failsafe-go and tower use ten parts: a sliding window in bounded memory, exact to a tenth.
const PARTS: u64 = 10;
// Ratios are integers. tower truncates a reciprocal: its budgets of 0.6, 0.7 and 0.9 all allow one retry per call.
const WHOLE_PPM: u64 = 1_000_000;

/// The use of all budgets, by account name. Unused budgets are left out.
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
    /// In what all hosts know: how much of what this host had not told is in it.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    #[schemars(skip)]
    reported: usize,
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
    /// Whether all budgets are unused.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Like [`BudgetLedger::refuses`], for an attempt of `action`.
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

    /// Records that the first attempt of `action` has failed.
    pub(super) fn called(&mut self, action: &str, budget: &RetryBudget, now: Instant) {
        self.entry(action, budget, |ledger| ledger.called(budget, now));
    }

    /// Records another attempt of `action` after a failure of `class`.
    pub(super) fn retried(&mut self, action: &str, budget: &RetryBudget, class: ErrorClass, now: Instant) {
        self.entry(action, budget, |ledger| ledger.retried(budget, class, now));
    }

    /// Records that `action` has succeeded; `after` is the class of its last failure, if there was one.
    pub(super) fn succeeded(
        &mut self,
        action: &str,
        budget: &RetryBudget,
        after: Option<ErrorClass>,
        now: Instant,
    ) {
        self.entry(action, budget, |ledger| {
            // A call that was retried was counted at its first failure; a call that succeeded at once is counted
            // here.
            if after.is_none() {
                ledger.called(budget, now);
            }
            ledger.succeeded(budget, after);
        });
    }

    /// The budgets that hosts share: the only ones that outlive a run.
    pub(super) fn shared(&self) -> impl Iterator<Item = (&String, &BudgetLedger)> {
        self.0.iter().filter(|(account, _)| account.starts_with(SHARED))
    }

    /// Replaces a shared budget by the state that all hosts know.
    pub(super) fn set_shared(&mut self, account: String, ledger: BudgetLedger) {
        if account.starts_with(SHARED) {
            let own = self.0.remove(&account).unwrap_or_default();
            self.set(account, own.known_now(ledger));
        }
    }

    /// The use of the budget with this account name.
    pub(super) fn get(&self, account: &str) -> Option<&BudgetLedger> {
        self.0.get(account)
    }

    /// The budgets at the start of the next run.
    pub(super) fn next_run(&self) -> Self {
        Self(self.shared().map(|(account, ledger)| (account.clone(), ledger.clone())).collect())
    }

    fn set(&mut self, account: String, ledger: BudgetLedger) {
        // An unused budget equals a missing one. Leaving it out keeps the state small, whatever the number of tools.
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

/// The prefix of the account names of shared budgets.
const SHARED: &str = "shared ";

/// The account name of a budget; `None`: there is no budget. The name of a shared budget contains its size, because
/// the use of budgets of different sizes cannot be compared.
pub(super) fn account(action: &str, budget: &RetryBudget) -> Option<String> {
    let name = || budget.pool().map_or_else(|| action.to_owned(), |pool| format!("pool {pool}"));
    match (budget, budget.scope()) {
        (RetryBudget::None, _) => None,
        (RetryBudget::Tokens(_) | RetryBudget::Window(_), BudgetScope::Run) => Some(name()),
        // Budgets of different sizes must not be mixed: a host with a smaller budget would refuse retries that the
        // larger one allows.
        (RetryBudget::Tokens(tokens), BudgetScope::Shared) => {
            Some(format!("{SHARED}{} ({} tokens)", name(), tokens.capacity))
        }
        (RetryBudget::Window(window), BudgetScope::Shared) => {
            Some(format!("{SHARED}{} (in {})", name(), window.window))
        }
    }
}

impl BudgetLedger {
    /// Whether the budget is unused and has no changes to report to other hosts.
    pub(crate) fn is_empty(&self) -> bool {
        self.spent == 0 && self.parts.is_empty() && self.untold.is_empty()
    }

    /// Why a retry after a failure of `class` is refused; `None`: the retry is allowed.
    pub(crate) fn refuses(
        &self,
        budget: &RetryBudget,
        class: ErrorClass,
        now: Instant,
    ) -> Option<BudgetShortage> {
        match budget {
            RetryBudget::None => None,
            // Like the retry quota of the AWS SDKs: the class determines the cost, and an empty budget refuses at
            // once instead of blocking.
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

    /// Records that the first attempt of a call has ended.
    pub(crate) fn called(&mut self, budget: &RetryBudget, now: Instant) {
        if let RetryBudget::Window(window) = budget {
            self.draw(budget, LedgerAct::Called { at: now, window: window.window });
        }
    }

    /// Records that a retry after a failure of `class` was granted.
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

    /// Records that a call has succeeded; `after` is the class of the failure before its last retry, if it was
    /// retried.
    pub(crate) fn succeeded(&mut self, budget: &RetryBudget, after: Option<ErrorClass>) {
        if let RetryBudget::Tokens(tokens) = budget {
            // As in the AWS SDKs: a success returns the cost of the last retry, or a little if there was no retry. So
            // the budget refills only while the service works.
            let back = after.map_or(tokens.earn, |class| tokens.cost_after(class));
            self.draw(budget, LedgerAct::GaveBack { tokens: back.into(), of: tokens.capacity.get().into() });
        }
    }

    /// Applies a change. If the budget is shared and the change has an effect, it is kept for other hosts.
    fn draw(&mut self, budget: &RetryBudget, act: LedgerAct) {
        if self.take(act) && budget.scope() == BudgetScope::Shared {
            remember(&mut self.untold, act);
        }
    }

    /// Applies a change from this or another host. Returns whether it had an effect.
    fn take(&mut self, act: LedgerAct) -> bool {
        match act {
            LedgerAct::Took { tokens, of } => {
                // The budget cannot be overdrawn: the debt of one outage would forbid retries long after it.
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

    /// Sets the number of tokens spent of a budget of size `of`. Returns whether anything changed.
    const fn spend(&mut self, spent: u64, of: u64) -> bool {
        let (spent_before, of_before) = (self.spent, self.capacity);
        // An unused budget forgets its size, so that it equals the default and is left out of the state.
        (self.spent, self.capacity) = (spent, if spent == 0 { 0 } else { of });
        self.spent != spent_before || self.capacity != of_before
    }

    /// The state known to other hosts, with the local changes since the last exchange applied.
    pub(super) fn told_to(&self, others: Option<&Self>) -> Self {
        let others = others.cloned().unwrap_or_default();
        let mut all = Self { untold: VecDeque::new(), reported: self.untold.len(), ..others };
        for act in &self.untold {
            all.take(*act);
        }
        all
    }

    /// The form for other hosts.
    pub(super) fn for_others(&self) -> Self {
        Self { reported: 0, ..self.clone() }
    }

    /// What all hosts know, with what has happened here since it was reported.
    pub(super) fn known_now(&self, known: Self) -> Self {
        let reported = known.reported;
        let mut now = Self { reported: 0, ..known };
        for act in self.untold.iter().skip(reported) {
            if now.take(*act) {
                remember(&mut now.untold, *act);
            }
        }
        now
    }

    /// Whether there are changes that other hosts have not received.
    pub(super) fn has_news(&self) -> bool {
        !self.untold.is_empty()
    }

    /// The number of tokens left.
    pub(crate) fn left(&self, tokens: &TokenBudget) -> u64 {
        u64::from(tokens.capacity.get()).saturating_sub(self.spent_of(tokens.capacity.get().into()))
    }

    /// The number of tokens spent of a budget of this size; a budget of another size is a different one.
    const fn spent_of(&self, capacity: u64) -> u64 {
        if self.capacity == capacity { self.spent } else { 0 }
    }

    /// The number of calls and of retries in the window that ends now.
    fn counts(&self, window: &WindowBudget, now: Instant) -> (u64, u64) {
        // The counts of a window of another length cannot be used.
        if self.window != window.window {
            return (0, 0);
        }
        let current = number(window.window, now);
        let counted = self.parts.iter().filter(|part| part.number.saturating_add(PARTS) > current);
        counted.fold((0, 0), |(calls, retries), part| {
            (calls.saturating_add(part.calls.into()), retries.saturating_add(part.retries.into()))
        })
    }

    /// Updates the current part of the window. Removes old parts, and all parts of a window of another length.
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

/// The number of the current part.
fn number(window: Nanos, now: Instant) -> u64 {
    // Parts are aligned to the epoch, so after a jump over many windows all of them are too old. tower starts a part
    // at the time of the call, so its parts drift.
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
        /// For every sequence of changes: never more tokens spent than the budget has, and never more returned than
        /// spent.
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

        /// Within any window there are at most as many retries as the minimum, or the share of the counted calls.
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
