//! What has been drawn on a retry budget: tokens, or calls and retries of the last while.

use core::fmt;
use std::collections::{BTreeMap, VecDeque};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::shared::remember;
use crate::policy::{Budget, BudgetScope, ErrorClass, TokenBudget, WindowBudget};
use crate::time::{Instant, Nanos};

/// A window is counted in so many parts; what is older than the window by less than one of them may still count.
const PARTS: u64 = 10;
const WHOLE_PPM: u64 = 1_000_000;

/// What has been drawn on the budgets of all actions, by the names they are kept under. Those that are whole are left
/// out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Budgets(BTreeMap<String, Ledger>);

/// What has been drawn on one budget. An empty one stands for a budget that is whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ledger {
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
    parts: Vec<Part>,
    /// What has happened to it, of those that hosts share, and the others are not told yet.
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    #[schemars(skip)]
    untold: VecDeque<LedgerAct>,
}

/// What happened in one part of a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "LedgerPart")]
struct Part {
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
    /// It is not made after all.
    TakenBack { at: Instant, window: Nanos },
}

/// Why a budget has no retry left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overdrawn {
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

impl Budgets {
    /// Whether nothing is drawn on any.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// As [`Ledger::refuses`], for an attempt at `action`.
    pub fn refuses(
        &self,
        action: &str,
        budget: &Budget,
        class: ErrorClass,
        now: Instant,
    ) -> Option<Overdrawn> {
        let whole = Ledger::default();
        self.0.get(&account(action, budget)?).unwrap_or(&whole).refuses(budget, class, now)
    }

    /// The first attempt at `action` has failed.
    pub fn called(&mut self, action: &str, budget: &Budget, now: Instant) {
        self.entry(action, budget, |ledger| ledger.called(budget, now));
    }

    /// Another attempt at `action` is made after a failure of that class.
    pub fn retried(&mut self, action: &str, budget: &Budget, class: ErrorClass, now: Instant) {
        self.entry(action, budget, |ledger| ledger.retried(budget, class, now));
    }

    /// The attempt that was granted last, after a failure of that class, is not made after all.
    pub fn taken_back(&mut self, action: &str, budget: &Budget, class: ErrorClass, now: Instant) {
        self.entry(action, budget, |ledger| ledger.taken_back(budget, class, now));
    }

    /// `action` has succeeded; `after` is the class of its last failure, if it had one.
    pub fn succeeded(&mut self, action: &str, budget: &Budget, after: Option<ErrorClass>, now: Instant) {
        self.entry(action, budget, |ledger| {
            if after.is_none() {
                ledger.called(budget, now);
            }
            ledger.succeeded(budget, after);
        });
    }

    /// Those that hosts share: all that is known of them beyond a run.
    pub(super) fn shared(&self) -> impl Iterator<Item = (&String, &Ledger)> {
        self.0.iter().filter(|(account, _)| account.starts_with(SHARED))
    }

    /// This is what hosts know of one that they share.
    pub(super) fn set_shared(&mut self, account: String, ledger: Ledger) {
        if account.starts_with(SHARED) {
            self.set(account, ledger);
        }
    }

    /// What is drawn on the one of that name.
    pub(super) fn get(&self, account: &str) -> Option<&Ledger> {
        self.0.get(account)
    }

    /// As they are before the first event of the next run.
    pub(super) fn next_run(&self) -> Self {
        Self(self.shared().map(|(account, ledger)| (account.clone(), ledger.clone())).collect())
    }

    fn set(&mut self, account: String, ledger: Ledger) {
        if ledger.is_empty() {
            self.0.remove(&account);
        } else {
            self.0.insert(account, ledger);
        }
    }

    fn entry(&mut self, action: &str, budget: &Budget, entry: impl FnOnce(&mut Ledger)) {
        let Some(account) = account(action, budget) else { return };
        let mut ledger = self.0.remove(&account).unwrap_or_default();
        entry(&mut ledger);
        self.set(account, ledger);
    }
}

/// What the names of budgets begin with that hosts share.
const SHARED: &str = "shared ";

/// Under which name a budget is kept; `None`: there is none to keep. Of those that hosts share the shape belongs to the name:
/// what is drawn on one of another shape is of no use.
pub(super) fn account(action: &str, budget: &Budget) -> Option<String> {
    let name = || budget.pool().map_or_else(|| action.to_owned(), |pool| format!("pool {pool}"));
    match (budget, budget.scope()) {
        (Budget::None, _) => None,
        (Budget::Tokens(_) | Budget::Window(_), BudgetScope::Run) => Some(name()),
        (Budget::Tokens(tokens), BudgetScope::Shared) => {
            Some(format!("{SHARED}{} ({} tokens)", name(), tokens.capacity))
        }
        (Budget::Window(window), BudgetScope::Shared) => {
            Some(format!("{SHARED}{} (in {})", name(), window.window))
        }
    }
}

impl Ledger {
    /// Whether nothing is drawn on it, and nothing is to be told to others.
    pub fn is_empty(&self) -> bool {
        self.spent == 0 && self.parts.is_empty() && self.untold.is_empty()
    }

    /// Why a retry after a failure of that class is refused; `None`: it is not.
    pub fn refuses(&self, budget: &Budget, class: ErrorClass, now: Instant) -> Option<Overdrawn> {
        match budget {
            Budget::None => None,
            Budget::Tokens(tokens) => {
                let cost = tokens.cost_after(class);
                let left = self.left(tokens);
                (u64::from(cost) > left).then_some(Overdrawn::Tokens { left, cost })
            }
            Budget::Window(window) => {
                let (calls, retries) = self.counts(window, now);
                let share = calls.saturating_mul(window.ratio_ppm.into()).div_euclid(WHOLE_PPM);
                (retries >= share.max(window.min.into())).then_some(Overdrawn::Window { retries, calls })
            }
        }
    }

    /// The first attempt of a call has ended.
    pub fn called(&mut self, budget: &Budget, now: Instant) {
        if let Budget::Window(window) = budget {
            self.draw(budget, LedgerAct::Called { at: now, window: window.window });
        }
    }

    /// A retry after a failure of that class has been granted.
    pub fn retried(&mut self, budget: &Budget, class: ErrorClass, now: Instant) {
        let act = match budget {
            Budget::None => return,
            Budget::Tokens(tokens) => {
                let (tokens, of) = (tokens.cost_after(class).into(), tokens.capacity.get().into());
                LedgerAct::Took { tokens, of }
            }
            Budget::Window(window) => LedgerAct::Retried { at: now, window: window.window },
        };
        self.draw(budget, act);
    }

    /// The retry that was granted last, after a failure of that class, is not made after all.
    pub fn taken_back(&mut self, budget: &Budget, class: ErrorClass, now: Instant) {
        match budget {
            Budget::None => {}
            Budget::Tokens(_) => self.succeeded(budget, Some(class)),
            Budget::Window(window) => {
                self.draw(budget, LedgerAct::TakenBack { at: now, window: window.window });
            }
        }
    }

    /// A call has succeeded; `after` is the class of the failure its last retry followed, if it was retried.
    pub fn succeeded(&mut self, budget: &Budget, after: Option<ErrorClass>) {
        if let Budget::Tokens(tokens) = budget {
            let back = after.map_or(tokens.earn, |class| tokens.cost_after(class));
            self.draw(budget, LedgerAct::GaveBack { tokens: back.into(), of: tokens.capacity.get().into() });
        }
    }

    /// Does it, and keeps in mind what others are to be told. What changes nothing they need not know.
    fn draw(&mut self, budget: &Budget, act: LedgerAct) {
        if self.take(act) && budget.scope() == BudgetScope::Shared {
            remember(&mut self.untold, act);
        }
    }

    /// Takes what happened here, or on another host. Returns whether it changes anything.
    fn take(&mut self, act: LedgerAct) -> bool {
        match act {
            LedgerAct::Took { tokens, of } => {
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
            LedgerAct::TakenBack { at, window } => {
                let mut changes = false;
                self.write(window, at, |part| {
                    changes = part.retries > 0;
                    part.retries = part.retries.saturating_sub(1);
                });
                changes
            }
        }
    }

    /// So much of a store of that size is spent now. Returns whether that is news.
    const fn spend(&mut self, spent: u64, of: u64) -> bool {
        let (spent_before, of_before) = (self.spent, self.capacity);
        (self.spent, self.capacity) = (spent, if spent == 0 { 0 } else { of });
        self.spent != spent_before || self.capacity != of_before
    }

    /// What others know, and what has happened here since they were told.
    pub(super) fn told_to(&self, others: Option<&Self>) -> Self {
        let mut all = Self { untold: VecDeque::new(), ..others.cloned().unwrap_or_default() };
        for act in &self.untold {
            all.take(*act);
        }
        all
    }

    /// Whether something has happened that others are to be told.
    pub(super) fn has_news(&self) -> bool {
        !self.untold.is_empty()
    }

    /// The tokens that are there.
    pub fn left(&self, tokens: &TokenBudget) -> u64 {
        u64::from(tokens.capacity.get()).saturating_sub(self.spent_of(tokens.capacity.get().into()))
    }

    /// What is taken of a store of that size; one of another size is another store.
    const fn spent_of(&self, capacity: u64) -> u64 {
        if self.capacity == capacity { self.spent } else { 0 }
    }

    /// Calls and retries in the window that ends now.
    fn counts(&self, window: &WindowBudget, now: Instant) -> (u64, u64) {
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
    fn write(&mut self, window: Nanos, now: Instant, entry: impl FnOnce(&mut Part)) {
        if self.window != window {
            self.window = window;
            self.parts.clear();
        }
        let number = number(window, now);
        self.parts.retain(|part| part.number.saturating_add(PARTS) > number);
        if let Some(part) = self.parts.iter_mut().find(|part| part.number == number) {
            return entry(part);
        }
        let mut part = Part { number, ..Part::default() };
        entry(&mut part);
        if part.calls > 0 || part.retries > 0 {
            self.parts.push(part);
        }
    }
}

/// The number of the part that is now.
fn number(window: Nanos, now: Instant) -> u64 {
    now.0.div_euclid(window.0.div_euclid(PARTS).max(1))
}

impl fmt::Display for Overdrawn {
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
    fn tokens(capacity: u32) -> Budget {
        Budget::Tokens(TokenBudget {
            capacity: NonZeroU32::new(capacity).unwrap(),
            cost: 14,
            cost_of: [(RateLimit, 5)].into(),
            earn: 1,
            pool: None,
            scope: BudgetScope::Run,
        })
    }

    fn window(ratio_ppm: u32, min: u32) -> Budget {
        let (window, scope) = (Nanos::from_secs(10), BudgetScope::Run);
        Budget::Window(WindowBudget { window, ratio_ppm, min, pool: None, scope })
    }

    const fn secs(secs: u64) -> Instant {
        Instant(secs * 1_000_000_000)
    }

    #[test]
    fn a_retry_costs_what_its_class_costs_until_nothing_is_left() {
        let (budget, mut ledger) = (tokens(30), Ledger::default());
        ledger.retried(&budget, Timeout, secs(0));
        ledger.retried(&budget, RateLimit, secs(0));
        assert_eq!(ledger.refuses(&budget, RateLimit, secs(0)), None);
        let overdrawn = Overdrawn::Tokens { left: 11, cost: 14 };
        assert_eq!(ledger.refuses(&budget, Timeout, secs(0)), Some(overdrawn));
    }

    #[test]
    fn a_success_gives_back_what_its_last_retry_took() {
        let (budget, mut ledger) = (tokens(500), Ledger::default());
        ledger.retried(&budget, Timeout, secs(0));
        ledger.succeeded(&budget, Some(Timeout));
        assert!(ledger.is_empty());
        ledger.retried(&budget, RateLimit, secs(0));
        ledger.succeeded(&budget, None);
        assert_eq!(ledger.spent, 4);
    }

    #[test]
    fn a_retry_that_is_not_made_costs_nothing() {
        for budget in [tokens(30), window(1, 1)] {
            let mut ledger = Ledger::default();
            ledger.called(&budget, secs(0));
            let before = ledger.clone();
            ledger.retried(&budget, Timeout, secs(0));
            ledger.taken_back(&budget, Timeout, secs(0));
            assert_eq!(ledger, before);
        }
    }

    #[test]
    fn retries_are_a_share_of_the_calls_with_a_floor() {
        let (budget, mut ledger) = (window(200_000, 1), Ledger::default());
        assert_eq!(ledger.refuses(&budget, Timeout, secs(0)), None, "the floor");
        ledger.retried(&budget, Timeout, secs(0));
        assert!(ledger.refuses(&budget, Timeout, secs(0)).is_some());
        (0..10).for_each(|_| ledger.called(&budget, secs(1)));
        assert_eq!(ledger.refuses(&budget, Timeout, secs(1)), None, "a fifth of ten calls");
        ledger.retried(&budget, Timeout, secs(1));
        let overdrawn = Overdrawn::Window { retries: 2, calls: 10 };
        assert_eq!(ledger.refuses(&budget, Timeout, secs(1)), Some(overdrawn));
    }

    #[test]
    fn what_is_older_than_the_window_is_forgotten_however_long_nothing_happened() {
        let (budget, mut ledger) = (window(1, 1), Ledger::default());
        ledger.retried(&budget, Timeout, secs(5));
        assert!(ledger.refuses(&budget, Timeout, secs(14)).is_some());
        assert_eq!(ledger.refuses(&budget, Timeout, secs(15)), None);
        assert_eq!(ledger.refuses(&budget, Timeout, secs(1_000_000)), None);
        ledger.called(&budget, secs(1_000_000));
        assert_eq!(ledger.parts.len(), 1);
    }

    #[test]
    fn a_retry_that_costs_nothing_is_no_news() {
        let Budget::Tokens(tokens) = tokens(500) else { unreachable!() };
        let cost_of = [(RateLimit, 0)].into();
        let budget = Budget::Tokens(TokenBudget { cost_of, scope: BudgetScope::Shared, ..tokens });
        let mut ledger = Ledger::default();
        ledger.retried(&budget, RateLimit, secs(0));
        assert_eq!(ledger, Ledger::default());
        ledger.retried(&budget, Timeout, secs(0));
        ledger.retried(&budget, RateLimit, secs(0));
        assert_eq!(ledger.untold.len(), 1);
    }

    #[test]
    fn another_store_begins_anew() {
        let (small, mut ledger) = (tokens(14), Ledger::default());
        ledger.retried(&small, Timeout, secs(0));
        assert!(ledger.refuses(&small, Timeout, secs(0)).is_some());
        assert_eq!(ledger.refuses(&tokens(20), Timeout, secs(0)), None);
    }

    #[test]
    fn another_window_begins_anew() {
        let (ten, mut ledger) = (window(1, 1), Ledger::default());
        ledger.retried(&ten, Timeout, secs(5));
        let Budget::Window(ten) = ten else { unreachable!() };
        let other = Budget::Window(WindowBudget { window: Nanos::from_secs(60), ..ten });
        assert_eq!(ledger.refuses(&other, Timeout, secs(5)), None);
    }

    proptest! {
        /// Whatever happens, in whatever order: never more tokens taken than there are, and never more given back.
        #[test]
        fn a_store_is_never_overdrawn(capacity in 1u32..200, acts in proptest::collection::vec(0u8..4, 0..200)) {
            let (budget, mut ledger) = (tokens(capacity), Ledger::default());
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
            let (budget, mut ledger) = (window(100_000, min), Ledger::default());
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
