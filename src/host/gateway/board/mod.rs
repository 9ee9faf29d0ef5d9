//! What the gateway shows of itself: its requests in flight, the last decisions about them, and how calls of its models went
//! lately. It is written where requests are carried out, by the directives themselves; no log is read for it.
//!
//! All of it is bounded: requests in flight by the server, the rest here. Nothing of it is what a request or an answer says but
//! the name of the model that was asked for.

mod calls;
mod decision;
mod request;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;

pub(crate) use self::calls::{CallPoint, EVERY};
use self::calls::{EndedCall, RecentCalls};
#[cfg(test)]
use self::decision::DecisionKind;
pub(crate) use self::decision::{Decision, ShownReason};
pub(crate) use self::request::{OpenRequest, RequestFacts, RequestPhase};
use crate::engine::{DecisionReason, Directive};
use crate::host::ModelAttempt;
use crate::host::clock::Clock;
use crate::policy::ErrorClass;
use crate::time::Instant;

/// The most decisions that are kept.
const MOST_DECISIONS: usize = 200;

/// What the gateway shows of itself.
pub(super) struct GatewayBoard {
    clock: Clock,
    began: Instant,
    parts: Mutex<BoardParts>,
}

#[derive(Default)]
struct BoardParts {
    /// The number of the last request.
    last: u64,
    open: BTreeMap<u64, OpenRequest>,
    /// The oldest first.
    decisions: VecDeque<Decision>,
    /// By the names of models.
    calls: BTreeMap<String, RecentCalls>,
    totals: RequestTotals,
}

/// How requests have ended since the start.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct RequestTotals {
    /// With an answer of a model.
    pub(crate) answered: u64,
    /// Without one.
    pub(crate) given_up: u64,
    /// They went to no model: the gateway refused them.
    pub(crate) refused: u64,
    /// Their client went away.
    pub(crate) cancelled: u64,
}

/// What the board says at one time.
pub(super) struct BoardView {
    pub(super) now: Instant,
    pub(super) began: Instant,
    pub(super) totals: RequestTotals,
    pub(super) open: Vec<(u64, OpenRequest)>,
    pub(super) decisions: Vec<Decision>,
    pub(super) calls: BTreeMap<String, Vec<CallPoint>>,
}

/// The place of a request on the board, until it is dropped.
pub(super) struct BoardTicket {
    board: Arc<GatewayBoard>,
    id: u64,
}

impl GatewayBoard {
    /// A board of these models, without requests. Must be made inside a tokio runtime.
    pub(super) fn new<'m>(models: impl IntoIterator<Item = &'m String>) -> Self {
        let clock = Clock::system();
        let calls = models.into_iter().map(|model| (model.clone(), RecentCalls::default())).collect();
        let parts = BoardParts { calls, ..BoardParts::default() };
        Self { clock, began: clock.now(), parts: Mutex::new(parts) }
    }

    /// A request begins.
    pub(super) fn open(board: &Arc<Self>, facts: RequestFacts) -> BoardTicket {
        let now = board.clock.now();
        let mut parts = board.lock();
        parts.last = parts.last.saturating_add(1);
        let id = parts.last;
        parts.open.insert(id, OpenRequest::new(facts, now));
        BoardTicket { board: Arc::clone(board), id }
    }

    /// The gateway refuses a request. `decision`: a limit of its key decided.
    pub(super) fn refused(&self, decision: Option<Decision>) {
        let mut parts = self.lock();
        if let Some(decision) = decision {
            parts.keep(decision);
        }
        parts.totals.refused = parts.totals.refused.saturating_add(1);
    }

    /// A call of a model is over.
    pub(super) fn attempt(&self, attempt: &ModelAttempt) {
        let (now, Some(call)) = (self.clock.now(), EndedCall::of(attempt)) else { return };
        // Those of the file are known from the start: nobody else adds one.
        if let Some(calls) = self.lock().calls.get_mut(&attempt.target) {
            calls.add(call, now);
        }
    }

    /// What it says now.
    pub(super) fn view(&self) -> BoardView {
        let now = self.clock.now();
        let parts = self.lock();
        BoardView {
            now,
            began: self.began,
            totals: parts.totals,
            open: parts.open.iter().map(|(id, request)| (*id, request.clone())).collect(),
            decisions: parts.decisions.iter().cloned().collect(),
            calls: parts.calls.iter().map(|(model, calls)| (model.clone(), calls.since(now))).collect(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BoardParts> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BoardParts {
    fn keep(&mut self, decision: Decision) {
        // A client that asks again and again pushes nothing out.
        let before = self.decisions.iter().position(|before| before.is_again(&decision));
        let times = before.and_then(|place| self.decisions.remove(place)).map_or(0, |before| before.times);
        let decision = Decision { times: decision.times.saturating_add(times), ..decision };
        if self.decisions.len() >= MOST_DECISIONS {
            self.decisions.pop_front();
        }
        self.decisions.push_back(decision);
    }
}

impl BoardTicket {
    /// Something was decided about the request.
    pub(super) fn directive(&self, directive: &Directive) {
        let now = self.board.clock.now();
        let mut parts = self.board.lock();
        let decided = parts.open.get_mut(&self.id).and_then(|request| request.take(directive, self.id, now));
        if let Some(decision) = decided {
            parts.keep(decision);
        }
    }

    /// Its answer is not what it asks for, and by that rule another one may be wanted.
    pub(super) fn refuses(&self, because: &DecisionReason) {
        if let Some(request) = self.board.lock().open.get_mut(&self.id) {
            request.refuses(because);
        }
    }

    /// Its answer passes, though it is not what it asks for.
    pub(super) fn passes(&self, class: ErrorClass, because: &DecisionReason) {
        let now = self.board.clock.now();
        let mut parts = self.board.lock();
        let decided = parts.open.get(&self.id).map(|request| request.passes(class, because, (self.id, now)));
        if let Some(decision) = decided {
            parts.keep(decision);
        }
    }

    /// Its answer goes out piece by piece from now on.
    pub(super) fn streams(&self) {
        let now = self.board.clock.now();
        if let Some(request) = self.board.lock().open.get_mut(&self.id) {
            request.streams(now);
        }
    }

    /// It has ended, with an answer or without.
    pub(super) fn ended(&self, answered: bool) {
        let mut parts = self.board.lock();
        if parts.open.remove(&self.id).is_some() {
            let RequestTotals { answered: good, given_up: bad, .. } = &mut parts.totals;
            let total = if answered { good } else { bad };
            *total = total.saturating_add(1);
        }
    }
}

impl Drop for BoardTicket {
    fn drop(&mut self) {
        let mut parts = self.board.lock();
        if parts.open.remove(&self.id).is_some() {
            parts.totals.cancelled = parts.totals.cancelled.saturating_add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::gateway::quota::KeyRefusal;

    #[test]
    fn decisions_are_bounded_and_refusals_push_nothing_out() {
        let refused = |key: &str, at: u64| {
            let refusal = KeyRefusal {
                rule: "pace.requests",
                value: "2 in 1m".into(),
                place: "gateway.yaml:9:1".into(),
                until: Instant(at),
                is_budget: false,
            };
            Decision::refused(key, "m".into(), &refusal, Instant(at))
        };
        let mut parts = BoardParts::default();
        let other =
            |number| Decision { what: DecisionKind::Retry, request: Some(number), ..refused("", number) };
        parts.keep(other(1));
        for at in 1..=10_000 {
            parts.keep(refused("desk", at));
            parts.keep(refused("shop", at));
        }
        let times: Vec<u64> = parts.decisions.iter().map(|decision| decision.times).collect();
        assert_eq!(times, [1, 10_000, 10_000]);
        (0..1_000).for_each(|number| parts.keep(other(number)));
        assert_eq!(parts.decisions.len(), MOST_DECISIONS);
    }
}
