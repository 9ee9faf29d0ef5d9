//! Calls of tools that cost no step: where the rules leave the first attempt to the host, and the run has nothing to remember
//! about the tool.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::engine::State;
use crate::policy::ToolPolicy;

/// Set in a cell: the run counts the calls of the tool, and decides about all.
const KNOWN: u64 = 1 << 63;
/// Set in a cell: a failure of the tool is known, and no further call begins without a look at the run.
const CLOSED: u64 = 1 << 62;
/// So many attempts are counted without a lock.
const FEW: usize = 4;

/// All tools there are guards of, and whether calls may begin without a look at the run.
#[derive(Default)]
pub(super) struct PlainTools {
    open: AtomicBool,
    /// How many calls there were, each a batch for itself.
    calls: AtomicU64,
    cells: Mutex<BTreeMap<Arc<str>, Arc<ToolCell>>>,
}

/// What costs a call of a tool no step.
pub(super) struct ToolCell {
    /// Calls under way that the run does not count, and whether more may begin; or [`KNOWN`].
    word: AtomicU64,
    /// Calls that went well after one attempt, two and so on, not yet in the metrics.
    few: [AtomicU64; FEW],
    /// How many went well after how many more, not yet in the metrics.
    later: Mutex<BTreeMap<u64, u64>>,
    /// Waits of no length, not yet in the metrics.
    no_waits: AtomicU64,
}

/// What was counted of a tool.
pub(super) struct Ended {
    /// How many calls went well after how many attempts.
    pub(super) attempts: BTreeMap<u64, u64>,
    /// Waits of no length.
    pub(super) no_waits: u64,
}

impl PlainTools {
    pub(super) fn cell(&self, tool: &Arc<str>) -> Arc<ToolCell> {
        let mut cells = self.cells();
        Arc::clone(cells.entry(Arc::clone(tool)).or_insert_with(|| {
            let (few, later, no_waits) = Default::default();
            Arc::new(ToolCell { word: AtomicU64::new(KNOWN), few, later, no_waits })
        }))
    }

    /// Whether calls may begin without a look at the run.
    #[inline]
    pub(super) fn are_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    /// The number of the next call.
    #[inline]
    pub(super) fn next_call(&self) -> u64 {
        self.calls.fetch_add(1, Ordering::Relaxed).wrapping_add(1)
    }

    /// There were so many calls before: of a run that is continued.
    pub(super) fn count_from(&self, calls: u64) {
        self.calls.fetch_max(calls, Ordering::Relaxed);
    }

    /// The state has changed; nobody changes it meanwhile.
    pub(super) fn publish(&self, state: &State) {
        self.open.store(state.is_open_ended() && !state.knows_for_turn(), Ordering::Release);
        for (tool, cell) in &*self.cells() {
            cell.open(|| state.is_quiet(tool));
        }
    }

    /// The run decides about all calls from now on, and counts those under way; those of tools that it has nothing to remember about
    /// may begin without it again once it is [published](Self::publish).
    pub(super) fn hand_over(&self, state: &mut State) {
        for (tool, cell) in &*self.cells() {
            cell.hand_over(tool, state);
        }
    }

    /// What was counted of each tool since this was asked last.
    pub(super) fn take_ended(&self) -> Vec<(Arc<str>, Ended)> {
        self.cells().iter().map(|(tool, cell)| (Arc::clone(tool), cell.take_ended())).collect()
    }

    fn cells(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Arc<ToolCell>>> {
        self.cells.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ToolCell {
    /// A call begins, if the run need not know of it: of at most so many.
    #[inline]
    pub(super) fn enter(&self, most: u64) -> bool {
        let next = |word: u64| (word < most).then(|| word.wrapping_add(1));
        self.word.fetch_update(Ordering::AcqRel, Ordering::Acquire, next).is_ok()
    }

    /// It ends, and the run need not know of it. `false`: a failure is known, or the run counts it.
    #[inline]
    pub(super) fn leave_unseen(&self) -> bool {
        let next = |word: u64| (word & (KNOWN | CLOSED) == 0).then(|| word.saturating_sub(1));
        self.word.fetch_update(Ordering::AcqRel, Ordering::Acquire, next).is_ok()
    }

    /// It ends. `false`: the run counts it.
    pub(super) fn leave(&self) -> bool {
        let next = |word: u64| match word & KNOWN {
            0 if word & !CLOSED == 0 => Some(word),
            0 => Some(word.wrapping_sub(1)),
            _ => None,
        };
        self.word.fetch_update(Ordering::AcqRel, Ordering::Acquire, next).is_ok()
    }

    /// A call of the tool has failed: no further one begins unseen.
    pub(super) fn close(&self) {
        self.word.fetch_or(CLOSED, Ordering::AcqRel);
    }

    /// Calls may begin unseen again, if none is under way and the run [is quiet](State::is_quiet) about the tool. Whoever asks has
    /// the run locked.
    #[inline]
    pub(super) fn open(&self, is_quiet: impl FnOnce() -> bool) {
        let word = self.word.load(Ordering::Acquire);
        if (word == KNOWN || word == CLOSED) && is_quiet() {
            // Nobody else changes it meanwhile.
            self.word.store(0, Ordering::Release);
        }
    }

    /// The run decides about all calls of the tool from now on, and counts those under way.
    pub(super) fn hand_over(&self, tool: &str, state: &mut State) {
        let word = self.word.swap(KNOWN, Ordering::AcqRel);
        if word & KNOWN == 0 {
            state.occupy(tool, u32::try_from(word & !CLOSED).unwrap_or(u32::MAX));
        }
    }

    /// An attempt follows at once.
    pub(super) fn waited_not(&self) {
        self.no_waits.fetch_add(1, Ordering::Relaxed);
    }

    /// A call went well after so many attempts.
    #[inline]
    pub(super) fn succeeded(&self, attempts: u32) {
        let place = usize::try_from(attempts).unwrap_or(usize::MAX).wrapping_sub(1);
        if let Some(few) = self.few.get(place) {
            few.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let mut later = self.later.lock().unwrap_or_else(PoisonError::into_inner);
        let calls = later.entry(attempts.into()).or_default();
        *calls = calls.saturating_add(1);
    }

    fn take_ended(&self) -> Ended {
        let mut attempts = std::mem::take(&mut *self.later.lock().unwrap_or_else(PoisonError::into_inner));
        attempts.extend((1..).zip(self.few.iter().map(|few| few.swap(0, Ordering::Relaxed))));
        Ended { attempts, no_waits: self.no_waits.swap(0, Ordering::Relaxed) }
    }
}

/// As many calls as may be in flight while no failure is known: those whose failures the breaker bears, and no more than the
/// policy lets run at once.
pub(super) fn most_at_once(policy: &ToolPolicy) -> u64 {
    let (failures, concurrency) = (policy.breaker.failures.value, policy.concurrency.value.limit());
    let concurrency = concurrency.and_then(NonZeroU32::new);
    [failures, concurrency].into_iter().flatten().min().map_or(CLOSED, |most| u64::from(most.get()))
}
