//! The worst case of a retry policy: the attempts as the engine would grant them, counted.
//!
//! The most attempts come from failures that take no time and the shortest waits; the most time waiting from the
//! longest waits that the deadline and `total_delay` still allow.

use core::num::NonZeroU32;

use crate::policy::{
    AboveMax, AttemptLimit, Backoff, BackoffShape, ClassRules, ErrorClass, RetryPolicy, ServerDelayMode,
    TimeBound, WaitBounds,
};
use crate::time::Nanos;

/// So many waits are followed one by one. Beyond them, waits that still grow are counted as if they did not: the
/// figures are then a maximum that is not reached.
const FOLLOWED: u32 = 1_000;
/// Beyond so many, a single wait is taken for the longest there can be.
const ASKED_FOR: u32 = 4_000;

/// The most that one call can cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorstCase {
    /// The most attempts; `None`: unbounded.
    pub calls: Option<u32>,
    /// The longest time waiting by the backoff alone, at most [`Nanos::MAX`].
    pub waiting: TimeBound,
    /// The longest time waiting if the server asks for waits.
    pub waiting_if_asked: TimeBound,
    /// The longest time in attempts.
    pub in_attempts: TimeBound,
    /// The longest time from the first attempt to the end of the last, whatever the server asks for.
    pub total: TimeBound,
    /// The longest single wait by the backoff alone.
    pub wait: TimeBound,
}

/// What is attempted, in addition to the policy.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::analysis) struct AttemptedWork {
    /// What an attempt is.
    pub(in crate::analysis) kind: AttemptKind,
    /// The failures that open the breaker, which ends the attempts.
    pub(in crate::analysis) breaker: Option<NonZeroU32>,
    /// Whether there is another side that may ask to wait.
    pub(in crate::analysis) asks: bool,
}

/// What an attempt is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::analysis) enum AttemptKind {
    /// A call of a model.
    #[default]
    Call,
    /// A run of a tool. Arguments that do not hold are corrected by the model, which is no further run.
    Run,
    /// Arguments for a tool that do not hold. A reply may bring any number of them at the same time.
    Correction,
    /// A report. A reply may bring any number of them at the same time.
    Report,
}

impl AttemptKind {
    /// Whether such attempts end by failures of that class.
    pub(in crate::analysis) const fn fails_with(self, class: ErrorClass) -> bool {
        match (self, class) {
            (Self::Correction, _) => matches!(class, ErrorClass::InvalidArgs | ErrorClass::MalformedToolCall),
            (Self::Run, ErrorClass::InvalidArgs) => false,
            (Self::Call | Self::Run | Self::Report, _) => true,
        }
    }

    /// Whether each further attempt is a correction by the model. Several of them may fall into one moment: what is slept is
    /// then less than what is waited for.
    pub(in crate::analysis) const fn corrects(self) -> bool {
        matches!(self, Self::Correction | Self::Report)
    }

    /// Whether the attempt after such a failure is a correction by the model: after a report, too, that is an attempt of its
    /// turn.
    pub(in crate::analysis) const fn corrects_after(self, class: ErrorClass) -> bool {
        self.corrects() || (matches!(self, Self::Call) && class.is_of_reply())
    }
}

/// The waits that are possible after an attempt.
#[derive(Clone, Copy)]
struct PossibleWaits<'a> {
    retry: &'a RetryPolicy,
    kind: AttemptKind,
    /// Whether a wait may pass while one before it is waited for.
    hides: bool,
    /// Whether the server asks for waits.
    asked: bool,
}

/// How far the waits go.
#[derive(Clone, Copy)]
struct WaitReach {
    /// The most waits; `None`: unbounded.
    waits: Option<u32>,
    waiting: TimeBound,
    /// The longest wait.
    wait: TimeBound,
    /// The most time in attempts that still leaves room for the waits.
    in_attempts: TimeBound,
}

impl WorstCase {
    /// Of what nobody has counted.
    pub(super) const UNBOUNDED: Self = Self {
        calls: None,
        waiting: TimeBound::Unlimited,
        waiting_if_asked: TimeBound::Unlimited,
        in_attempts: TimeBound::Unlimited,
        total: TimeBound::Unlimited,
        wait: TimeBound::Unlimited,
    };

    /// Of that policy.
    pub(in crate::analysis) fn of(retry: &RetryPolicy, work: AttemptedWork) -> Self {
        let waits = PossibleWaits { retry, kind: work.kind, hides: false, asked: false };
        let falls = work.kind.corrects() && waits.rules().any(|rules| falls(&rules.backoff.value));
        let waits = PossibleWaits { hides: falls, ..waits };
        let alone = reach(waits, work);
        let asked = if work.asks { reach(PossibleWaits { asked: true, ..waits }, work) } else { alone };
        let calls = |reach: &WaitReach| reach.waits.map(|waits| waits.saturating_add(1));
        let calls = calls(&alone).zip(calls(&asked)).map(|(alone, asked)| alone.max(asked));
        let in_attempts = larger(alone.in_attempts, asked.in_attempts);
        let waiting_if_asked = larger(alone.waiting, asked.waiting);
        let everything = match (calls, timeout(retry)) {
            (Some(calls), TimeBound::Within(timeout)) => {
                add(waiting_if_asked, TimeBound::Within(timeout.saturating_mul(calls.into())))
            }
            _ => TimeBound::Unlimited,
        };
        let total = smaller(everything, retry.deadline.value);
        Self { calls, waiting: alone.waiting, waiting_if_asked, in_attempts, total, wait: alone.wait }
    }

    /// How many waits [`of`](Self::of) follows, over all rules, and how many are listed.
    pub(in crate::analysis) fn cost(retry: &RetryPolicy) -> usize {
        let waits = PossibleWaits { retry, kind: AttemptKind::Call, hides: false, asked: false };
        let most = match most_attempts(waits) {
            AttemptLimit::Limited(most) => most.get(),
            AttemptLimit::Unlimited => u32::MAX,
        };
        let constant = |backoff: &Backoff| matches!(backoff.shape, BackoffShape::Constant { .. });
        let steady = retry.by_class.is_empty() && constant(&retry.backoff.value);
        let followed = if steady { 1 } else { most.min(FOLLOWED.max(waits.listed())) };
        let whole = |count: u32| usize::try_from(count).unwrap_or(usize::MAX);
        whole(followed).saturating_mul(waits.rules().count()).saturating_add(whole(waits.listed()))
    }

    /// As [`of`](Self::of), where attempts need not wait for each other: no length of time ends them.
    pub(super) fn without_end(retry: &RetryPolicy, work: AttemptedWork) -> Self {
        let mut endless = retry.clone();
        endless.deadline.value = TimeBound::Unlimited;
        endless.total_delay.value = TimeBound::Unlimited;
        Self::of(&endless, work)
    }

    /// The same, if no more is waited for than that.
    #[must_use]
    pub(super) fn within(self, most: TimeBound) -> Self {
        Self {
            waiting: smaller(self.waiting, most),
            waiting_if_asked: smaller(self.waiting_if_asked, most),
            wait: smaller(self.wait, most),
            ..self
        }
    }

    /// The worse of the two, figure by figure.
    #[must_use]
    pub(super) fn or(self, other: Self) -> Self {
        Self {
            calls: self.calls.zip(other.calls).map(|(a, b)| a.max(b)),
            waiting: larger(self.waiting, other.waiting),
            waiting_if_asked: larger(self.waiting_if_asked, other.waiting_if_asked),
            in_attempts: larger(self.in_attempts, other.in_attempts),
            total: larger(self.total, other.total),
            wait: larger(self.wait, other.wait),
        }
    }
}

/// The attempts that the most patient of the rules allow.
fn most_attempts(waits: PossibleWaits<'_>) -> AttemptLimit {
    let all = waits.rules().map(|rules| rules.max_attempts.value);
    all.reduce(|a, b| match (a, b) {
        (AttemptLimit::Limited(a), AttemptLimit::Limited(b)) => AttemptLimit::Limited(a.max(b)),
        _ => AttemptLimit::Unlimited,
    })
    .unwrap_or(AttemptLimit::Limited(NonZeroU32::MIN))
}

fn reach(waits: PossibleWaits<'_>, work: AttemptedWork) -> WaitReach {
    let retry = waits.retry;
    let most = match (most_attempts(waits), work.breaker) {
        (AttemptLimit::Limited(attempts), Some(runs)) => Some(attempts.min(runs)),
        (AttemptLimit::Limited(attempts), None) => Some(attempts),
        (AttemptLimit::Unlimited, runs) => runs,
    };
    let most = most.map(|most| most.get().saturating_sub(1));
    // An attempt starts before the deadline; what is slept in all may reach `total_delay`. What is reported is the length
    // that nothing exceeds, without the nanosecond between the two.
    let before = match retry.deadline.value {
        TimeBound::Within(deadline) => TimeBound::Within(deadline.saturating_sub(Nanos(1))),
        TimeBound::Unlimited => TimeBound::Unlimited,
    };
    // Of attempts at the same moment all waits count for `total_delay`, and only the longest passes.
    let room = match waits.kind {
        AttemptKind::Correction => retry.total_delay.value,
        AttemptKind::Call | AttemptKind::Run | AttemptKind::Report => {
            smaller(before, retry.total_delay.value)
        }
    };
    let most_waiting = match waits.kind {
        AttemptKind::Correction => retry.total_delay.value,
        AttemptKind::Call | AttemptKind::Run | AttemptKind::Report => {
            smaller(retry.deadline.value, retry.total_delay.value)
        }
    };
    let fits = |least: Nanos| !matches!(room, TimeBound::Within(room) if least > room);
    let (mut n, mut least, mut longest) = (0_u32, Nanos::ZERO, TimeBound::Within(Nanos::ZERO));
    let mut one = longest;
    let mut in_attempts = in_attempts(retry, n, least);
    let steady = waits.steady();
    let listed = waits.listed();
    let mut each: Vec<_> =
        waits.rules().map(|rules| (rules, WaitBounds::new(&rules.backoff.value))).collect();
    loop {
        if most.is_some_and(|most| n >= most) {
            break;
        }
        let attempt = n.saturating_add(1);
        // All go one step on; those that grant no further attempt do not count.
        let bounds = each.iter_mut().map(|(rules, waiting)| (*rules, waiting.next()));
        let granted = bounds.filter(|(rules, _)| rules.max_attempts.value.allow_after(attempt));
        let Some((shortest, wait)) = either(granted.filter_map(|(rules, bounds)| waits.after(rules, bounds)))
        else {
            break;
        };
        // Classes with rules of their own drop out one after the other.
        let is_steady = retry.by_class.is_empty() && attempt >= listed && steady == Some((shortest, wait));
        if is_steady || n >= FOLLOWED.max(listed) {
            let reach = rest(
                SettledWaits { retry, n, least, longest, shortest, most, room, most_waiting },
                waits,
                in_attempts,
            );
            let wait = larger(one, smaller(reach.wait, most_waiting));
            return WaitReach { wait: smaller(wait, retry.deadline.value), ..reach };
        }
        let next = least.saturating_add(shortest);
        if !fits(next) {
            break;
        }
        one = larger(one, smaller(wait, less(most_waiting, least)));
        (n, least, longest) = (attempt, next, add(longest, wait));
        in_attempts = larger(in_attempts, self::in_attempts(retry, n, least));
    }
    let (waiting, wait) = (smaller(longest, most_waiting), smaller(one, retry.deadline.value));
    WaitReach { waits: Some(n), waiting, wait, in_attempts }
}

/// Where the waits have got to when the shortest ones no longer change.
#[derive(Clone, Copy)]
struct SettledWaits<'a> {
    retry: &'a RetryPolicy,
    n: u32,
    least: Nanos,
    longest: TimeBound,
    shortest: Nanos,
    most: Option<u32>,
    room: TimeBound,
    most_waiting: TimeBound,
}

fn rest(at: SettledWaits<'_>, waits: PossibleWaits<'_>, so_far: TimeBound) -> WaitReach {
    let fitting = match at.room {
        TimeBound::Within(room) => room.saturating_sub(at.least).0.checked_div(at.shortest.0),
        TimeBound::Unlimited => None,
    };
    let fitting = fitting.map(|more| u32::try_from(more).unwrap_or(u32::MAX));
    let left = at.most.map(|most| most.saturating_sub(at.n));
    let more = [fitting, left].into_iter().flatten().min();
    let all = more.map(|more| at.n.saturating_add(more));
    // The last wait is the longest, or as long as those before it.
    let last = [all.unwrap_or(u32::MAX).max(1), at.n.saturating_add(1)];
    let longest = last.into_iter().filter_map(|attempt| waits.of(attempt)).map(|(_, wait)| wait);
    let wait = longest.fold(TimeBound::Within(Nanos::ZERO), larger);
    let longest = match (wait, more) {
        (TimeBound::Within(Nanos::ZERO), _) | (_, Some(0)) => at.longest,
        (TimeBound::Within(wait), Some(more)) => {
            add(at.longest, TimeBound::Within(wait.saturating_mul(more.into())))
        }
        _ => TimeBound::Unlimited,
    };
    let attempts = match (all, timeout(at.retry)) {
        (Some(all), TimeBound::Within(timeout)) => {
            TimeBound::Within(timeout.saturating_mul(u64::from(all).saturating_add(1)))
        }
        _ => TimeBound::Unlimited,
    };
    let attempts = larger(so_far, smaller(attempts, at.retry.deadline.value));
    WaitReach { waits: all, waiting: smaller(longest, at.most_waiting), wait, in_attempts: attempts }
}

/// The most time in attempts if there are `waits` waits of that length in all.
fn in_attempts(retry: &RetryPolicy, waits: u32, waiting: Nanos) -> TimeBound {
    let all = match timeout(retry) {
        TimeBound::Within(timeout) => {
            TimeBound::Within(timeout.saturating_mul(u64::from(waits).saturating_add(1)))
        }
        TimeBound::Unlimited => TimeBound::Unlimited,
    };
    match retry.deadline.value {
        TimeBound::Within(deadline) => smaller(all, TimeBound::Within(deadline.saturating_sub(waiting))),
        TimeBound::Unlimited => all,
    }
}

/// The longest one attempt may take; a deadline ends it too.
fn timeout(retry: &RetryPolicy) -> TimeBound {
    smaller(retry.attempt_timeout.value, retry.deadline.value)
}

impl<'a> PossibleWaits<'a> {
    /// The rules that hold after a failure of some class that is followed by another attempt.
    fn rules(self) -> impl Iterator<Item = ClassRules<'a>> {
        let (retry, kind) = (self.retry, self.kind);
        let retried = move |class| retry.retries(class) && kind.fails_with(class);
        let others = move |class| retried(class) && retry.by_class.get(class).is_none();
        let any = move |corrects| {
            retry.retry_on.value.iter().any(|class| others(class) && kind.corrects_after(class) == corrects)
        };
        let general = [false, true].into_iter().filter(move |corrects| any(*corrects));
        let general = general.map(move |corrects| (retry.for_others(), corrects));
        let own = retry.by_class.iter().map(|(class, _)| class).filter(move |class| retried(*class));
        let own = own.map(move |class| (retry.for_class(class), kind.corrects_after(class)));
        general.chain(own).map(move |(rules, corrects)| {
            let backoff = if corrects { &retry.correction_backoff } else { rules.backoff };
            ClassRules { backoff, ..rules }
        })
    }

    /// The shortest and the longest wait after `attempt`; `None`: there is none.
    fn of(self, attempt: u32) -> Option<(Nanos, TimeBound)> {
        let granted = self.rules().filter(|rules| rules.max_attempts.value.allow_after(attempt));
        let bounds = |rules: ClassRules<'_>| {
            let backoff = &rules.backoff.value;
            if attempt > ASKED_FOR { backoff.limits() } else { backoff.bounds(attempt) }
        };
        either(granted.filter_map(|rules| self.after(rules, bounds(rules))))
    }

    /// How many waits schedules list at most.
    fn listed(self) -> u32 {
        let listed = self.rules().map(|rules| match &rules.backoff.value.shape {
            BackoffShape::Schedule { delays } => u32::try_from(delays.len()).unwrap_or(u32::MAX),
            _ => 0,
        });
        listed.max().unwrap_or(0)
    }

    /// What the waits become in the end, if they continue for ever.
    fn steady(self) -> Option<(Nanos, TimeBound)> {
        either(self.rules().filter_map(|rules| self.after(rules, rules.backoff.value.limits())))
    }

    /// As [`of`](Self::of), after a failure to which these rules apply, whose backoff alone has these bounds.
    fn after(self, rules: ClassRules<'_>, (min, max): (Nanos, Nanos)) -> Option<(Nanos, TimeBound)> {
        // Of waits at the same moment the longest hides those that come after it.
        let min = if self.hides { Nanos::ZERO } else { min };
        let rule = rules.server_delay.value;
        if !self.asked || rule.mode == ServerDelayMode::Ignore {
            return Some((min, TimeBound::Within(max)));
        }
        let spread = |asked: Nanos| asked.saturating_add(asked.share(rule.spread_ppm));
        let (from, to) = match rule.max {
            TimeBound::Within(most) if rule.min > most && rule.above_max != AboveMax::Clamp => return None,
            TimeBound::Within(most) => (rule.min.min(most), TimeBound::Within(spread(most))),
            TimeBound::Unlimited => (rule.min, TimeBound::Unlimited),
        };
        if rule.mode == ServerDelayMode::Clamp {
            return Some((min, TimeBound::Within(max.saturating_add(rule.margin))));
        }
        // It may also not ask, after some attempts.
        let shortest = if rule.mode == ServerDelayMode::Replace { min.min(from) } else { min };
        Some((shortest, larger(TimeBound::Within(max), to)))
    }
}

/// Whether some wait is shorter than one before it.
fn falls(backoff: &Backoff) -> bool {
    matches!(&backoff.shape, BackoffShape::Schedule { delays } if !delays.is_sorted())
}

/// The shortest of the shortest waits and the longest of the longest.
fn either(waits: impl Iterator<Item = (Nanos, TimeBound)>) -> Option<(Nanos, TimeBound)> {
    waits.reduce(|(a, b), (c, d)| (a.min(c), larger(b, d)))
}

pub(super) fn larger(a: TimeBound, b: TimeBound) -> TimeBound {
    match (a, b) {
        (TimeBound::Within(a), TimeBound::Within(b)) => TimeBound::Within(a.max(b)),
        _ => TimeBound::Unlimited,
    }
}

/// What is left of a length.
fn less(a: TimeBound, b: Nanos) -> TimeBound {
    match a {
        TimeBound::Within(a) => TimeBound::Within(a.saturating_sub(b)),
        TimeBound::Unlimited => a,
    }
}

pub(super) fn smaller(a: TimeBound, b: TimeBound) -> TimeBound {
    match (a, b) {
        (TimeBound::Within(a), TimeBound::Within(b)) => TimeBound::Within(a.min(b)),
        (TimeBound::Unlimited, bound) | (bound, TimeBound::Unlimited) => bound,
    }
}

pub(in crate::analysis) fn add(a: TimeBound, b: TimeBound) -> TimeBound {
    match (a, b) {
        (TimeBound::Within(a), TimeBound::Within(b)) => TimeBound::Within(a.saturating_add(b)),
        _ => TimeBound::Unlimited,
    }
}
