//! The worst case of a retry policy: the attempts as the engine would grant them, counted.
//!
//! The most attempts come from failures that take no time and the shortest waits; the most time asleep from the
//! longest waits that the deadline and `total_delay` still allow.

use core::num::NonZeroU32;

use crate::policy::{
    AboveMax, Attempts, Backoff, Bound, ClassRules, ErrorClass, RetryPolicy, ServerDelayMode, Shape, Waiting,
};
use crate::time::Nanos;

/// So many waits are followed one by one. Beyond them, waits that still grow are counted as if they did not: the
/// figures are then a maximum that is not reached.
const FOLLOWED: u32 = 1_000;
/// Beyond so many, a single wait is taken for the longest there can be.
const ASKED_FOR: u32 = 4_000;

/// The most that one call can cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Worst {
    /// The most attempts; `None`: unbounded.
    pub calls: Option<u32>,
    /// The longest time asleep by the backoff alone. [`Nanos::MAX`] stands for that long or longer.
    pub asleep: Bound,
    /// The longest time asleep if the other side asks for waits.
    pub asleep_if_asked: Bound,
    /// The longest time in attempts.
    pub in_attempts: Bound,
    /// The longest time from the first attempt to the end of the last, whatever the other side asks for.
    pub total: Bound,
    /// The longest single wait by the backoff alone.
    pub wait: Bound,
}

/// What is attempted, besides the policy.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::policy) struct Work {
    /// What an attempt is.
    pub(in crate::policy) kind: Kind,
    /// The failures that open the breaker, which ends the attempts.
    pub(in crate::policy) breaker: Option<NonZeroU32>,
    /// Whether there is another side that may ask to wait.
    pub(in crate::policy) asks: bool,
}

/// What an attempt is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::policy) enum Kind {
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

impl Kind {
    /// Whether such attempts end by failures of that class.
    pub(in crate::policy) const fn fails_with(self, class: ErrorClass) -> bool {
        match (self, class) {
            (Self::Correction, _) => matches!(class, ErrorClass::InvalidArgs | ErrorClass::MalformedToolCall),
            (Self::Run, ErrorClass::InvalidArgs) => false,
            (Self::Call | Self::Run | Self::Report, _) => true,
        }
    }

    /// Whether each further attempt is a correction by the model. Several of them may fall into one moment: what is slept is
    /// then less than what is waited for.
    pub(in crate::policy) const fn corrects(self) -> bool {
        matches!(self, Self::Correction | Self::Report)
    }

    /// Whether the attempt after such a failure is a correction by the model: after a report, too, that is an attempt of its
    /// turn.
    pub(in crate::policy) const fn corrects_after(self, class: ErrorClass) -> bool {
        self.corrects() || matches!((self, class), (Self::Call, ErrorClass::InvalidOutput))
    }
}

/// The waits that are possible after an attempt.
#[derive(Clone, Copy)]
struct Waits<'a> {
    retry: &'a RetryPolicy,
    kind: Kind,
    /// Whether a wait may pass while one before it is waited for.
    hides: bool,
    /// Whether the other side asks for waits.
    asked: bool,
}

/// How far the waits go.
#[derive(Clone, Copy)]
struct Reach {
    /// The most waits; `None`: unbounded.
    waits: Option<u32>,
    asleep: Bound,
    /// The longest wait.
    wait: Bound,
    /// The most time in attempts that still leaves room for the waits.
    in_attempts: Bound,
}

impl Worst {
    /// Of what nobody has counted.
    pub(super) const UNBOUNDED: Self = Self {
        calls: None,
        asleep: Bound::Unlimited,
        asleep_if_asked: Bound::Unlimited,
        in_attempts: Bound::Unlimited,
        total: Bound::Unlimited,
        wait: Bound::Unlimited,
    };

    /// Of that policy.
    pub(in crate::policy) fn of(retry: &RetryPolicy, work: Work) -> Self {
        let waits = Waits { retry, kind: work.kind, hides: false, asked: false };
        let falls = work.kind.corrects() && waits.rules().any(|rules| falls(&rules.backoff.value));
        let waits = Waits { hides: falls, ..waits };
        let alone = reach(waits, work);
        let asked = if work.asks { reach(Waits { asked: true, ..waits }, work) } else { alone };
        let calls = |reach: &Reach| reach.waits.map(|waits| waits.saturating_add(1));
        let calls = calls(&alone).zip(calls(&asked)).map(|(alone, asked)| alone.max(asked));
        let in_attempts = larger(alone.in_attempts, asked.in_attempts);
        let asleep_if_asked = larger(alone.asleep, asked.asleep);
        let everything = match (calls, timeout(retry)) {
            (Some(calls), Bound::Within(timeout)) => {
                add(asleep_if_asked, Bound::Within(timeout.saturating_mul(calls.into())))
            }
            _ => Bound::Unlimited,
        };
        let total = smaller(everything, retry.deadline.value);
        Self { calls, asleep: alone.asleep, asleep_if_asked, in_attempts, total, wait: alone.wait }
    }

    /// How many waits [`of`](Self::of) follows, over all rules, and how many are listed.
    pub(in crate::policy) fn cost(retry: &RetryPolicy) -> usize {
        let waits = Waits { retry, kind: Kind::Call, hides: false, asked: false };
        let most = match most_attempts(waits) {
            Attempts::Limited(most) => most.get(),
            Attempts::Unlimited => u32::MAX,
        };
        let constant = |backoff: &Backoff| matches!(backoff.shape, Shape::Constant { .. });
        let steady = retry.by_class.is_empty() && constant(&retry.backoff.value);
        let followed = if steady { 1 } else { most.min(FOLLOWED.max(waits.listed())) };
        let whole = |count: u32| usize::try_from(count).unwrap_or(usize::MAX);
        whole(followed).saturating_mul(waits.rules().count()).saturating_add(whole(waits.listed()))
    }

    /// As [`of`](Self::of), where attempts need not wait for each other: no length of time ends them.
    pub(super) fn without_end(retry: &RetryPolicy, work: Work) -> Self {
        let mut endless = retry.clone();
        endless.deadline.value = Bound::Unlimited;
        endless.total_delay.value = Bound::Unlimited;
        Self::of(&endless, work)
    }

    /// The same, if no more is waited for than that.
    #[must_use]
    pub(super) fn within(self, most: Bound) -> Self {
        Self {
            asleep: smaller(self.asleep, most),
            asleep_if_asked: smaller(self.asleep_if_asked, most),
            wait: smaller(self.wait, most),
            ..self
        }
    }

    /// The worse of the two, figure by figure.
    #[must_use]
    pub(super) fn or(self, other: Self) -> Self {
        Self {
            calls: self.calls.zip(other.calls).map(|(a, b)| a.max(b)),
            asleep: larger(self.asleep, other.asleep),
            asleep_if_asked: larger(self.asleep_if_asked, other.asleep_if_asked),
            in_attempts: larger(self.in_attempts, other.in_attempts),
            total: larger(self.total, other.total),
            wait: larger(self.wait, other.wait),
        }
    }
}

/// The attempts that the most patient of the rules allow.
fn most_attempts(waits: Waits<'_>) -> Attempts {
    let all = waits.rules().map(|rules| rules.max_attempts.value);
    all.reduce(|a, b| match (a, b) {
        (Attempts::Limited(a), Attempts::Limited(b)) => Attempts::Limited(a.max(b)),
        _ => Attempts::Unlimited,
    })
    .unwrap_or(Attempts::Limited(NonZeroU32::MIN))
}

fn reach(waits: Waits<'_>, work: Work) -> Reach {
    let retry = waits.retry;
    let most = match (most_attempts(waits), work.breaker) {
        (Attempts::Limited(attempts), Some(runs)) => Some(attempts.min(runs)),
        (Attempts::Limited(attempts), None) => Some(attempts),
        (Attempts::Unlimited, runs) => runs,
    };
    let most = most.map(|most| most.get().saturating_sub(1));
    // An attempt starts before the deadline; what is slept in all may reach `total_delay`. What is told is the length
    // that nothing exceeds, without the nanosecond between the two.
    let before = match retry.deadline.value {
        Bound::Within(deadline) => Bound::Within(deadline.saturating_sub(Nanos(1))),
        Bound::Unlimited => Bound::Unlimited,
    };
    // Of attempts at the same moment all waits count for `total_delay`, and only the longest passes.
    let room = match waits.kind {
        Kind::Correction => retry.total_delay.value,
        Kind::Call | Kind::Run | Kind::Report => smaller(before, retry.total_delay.value),
    };
    let most_asleep = match waits.kind {
        Kind::Correction => retry.total_delay.value,
        Kind::Call | Kind::Run | Kind::Report => smaller(retry.deadline.value, retry.total_delay.value),
    };
    let fits = |least: Nanos| !matches!(room, Bound::Within(room) if least > room);
    let (mut n, mut least, mut longest) = (0_u32, Nanos::ZERO, Bound::Within(Nanos::ZERO));
    let mut one = longest;
    let mut in_attempts = in_attempts(retry, n, least);
    let steady = waits.steady();
    let listed = waits.listed();
    let mut each: Vec<_> = waits.rules().map(|rules| (rules, Waiting::new(&rules.backoff.value))).collect();
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
                Rest { retry, n, least, longest, shortest, most, room, most_asleep },
                waits,
                in_attempts,
            );
            let wait = larger(one, smaller(reach.wait, most_asleep));
            return Reach { wait: smaller(wait, retry.deadline.value), ..reach };
        }
        let next = least.saturating_add(shortest);
        if !fits(next) {
            break;
        }
        one = larger(one, smaller(wait, less(most_asleep, least)));
        (n, least, longest) = (attempt, next, add(longest, wait));
        in_attempts = larger(in_attempts, self::in_attempts(retry, n, least));
    }
    let (asleep, wait) = (smaller(longest, most_asleep), smaller(one, retry.deadline.value));
    Reach { waits: Some(n), asleep, wait, in_attempts }
}

/// Where the waits have got to when the shortest ones no longer change.
#[derive(Clone, Copy)]
struct Rest<'a> {
    retry: &'a RetryPolicy,
    n: u32,
    least: Nanos,
    longest: Bound,
    shortest: Nanos,
    most: Option<u32>,
    room: Bound,
    most_asleep: Bound,
}

fn rest(at: Rest<'_>, waits: Waits<'_>, so_far: Bound) -> Reach {
    let fitting = match at.room {
        Bound::Within(room) => room.saturating_sub(at.least).0.checked_div(at.shortest.0),
        Bound::Unlimited => None,
    };
    let fitting = fitting.map(|more| u32::try_from(more).unwrap_or(u32::MAX));
    let left = at.most.map(|most| most.saturating_sub(at.n));
    let more = [fitting, left].into_iter().flatten().min();
    let all = more.map(|more| at.n.saturating_add(more));
    // The last wait is the longest, or as long as those before it.
    let last = [all.unwrap_or(u32::MAX).max(1), at.n.saturating_add(1)];
    let longest = last.into_iter().filter_map(|attempt| waits.of(attempt)).map(|(_, wait)| wait);
    let wait = longest.fold(Bound::Within(Nanos::ZERO), larger);
    let longest = match (wait, more) {
        (Bound::Within(Nanos::ZERO), _) | (_, Some(0)) => at.longest,
        (Bound::Within(wait), Some(more)) => add(at.longest, Bound::Within(wait.saturating_mul(more.into()))),
        _ => Bound::Unlimited,
    };
    let attempts = match (all, timeout(at.retry)) {
        (Some(all), Bound::Within(timeout)) => {
            Bound::Within(timeout.saturating_mul(u64::from(all).saturating_add(1)))
        }
        _ => Bound::Unlimited,
    };
    let attempts = larger(so_far, smaller(attempts, at.retry.deadline.value));
    Reach { waits: all, asleep: smaller(longest, at.most_asleep), wait, in_attempts: attempts }
}

/// The most time in attempts if there are `waits` waits of that length in all.
fn in_attempts(retry: &RetryPolicy, waits: u32, asleep: Nanos) -> Bound {
    let all = match timeout(retry) {
        Bound::Within(timeout) => Bound::Within(timeout.saturating_mul(u64::from(waits).saturating_add(1))),
        Bound::Unlimited => Bound::Unlimited,
    };
    match retry.deadline.value {
        Bound::Within(deadline) => smaller(all, Bound::Within(deadline.saturating_sub(asleep))),
        Bound::Unlimited => all,
    }
}

/// The longest one attempt may take; a deadline ends it too.
fn timeout(retry: &RetryPolicy) -> Bound {
    smaller(retry.attempt_timeout.value, retry.deadline.value)
}

impl<'a> Waits<'a> {
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
    fn of(self, attempt: u32) -> Option<(Nanos, Bound)> {
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
            Shape::Schedule { delays } => u32::try_from(delays.len()).unwrap_or(u32::MAX),
            _ => 0,
        });
        listed.max().unwrap_or(0)
    }

    /// What the waits become in the end, if they go on for ever.
    fn steady(self) -> Option<(Nanos, Bound)> {
        either(self.rules().filter_map(|rules| self.after(rules, rules.backoff.value.limits())))
    }

    /// As [`of`](Self::of), after a failure to which these rules apply, whose backoff alone has these bounds.
    fn after(self, rules: ClassRules<'_>, (min, max): (Nanos, Nanos)) -> Option<(Nanos, Bound)> {
        // Of waits at the same moment the longest hides those that come after it.
        let min = if self.hides { Nanos::ZERO } else { min };
        let rule = rules.server_delay.value;
        if !self.asked || rule.mode == ServerDelayMode::Ignore {
            return Some((min, Bound::Within(max)));
        }
        let spread = |asked: Nanos| asked.saturating_add(asked.share(rule.spread_ppm));
        let (from, to) = match rule.max {
            Bound::Within(most) if rule.min > most && rule.above_max != AboveMax::Clamp => return None,
            Bound::Within(most) => (rule.min.min(most), Bound::Within(spread(most))),
            Bound::Unlimited => (rule.min, Bound::Unlimited),
        };
        if rule.mode == ServerDelayMode::Clamp {
            return Some((min, Bound::Within(max.saturating_add(rule.margin))));
        }
        // It may also not ask, after some attempts.
        let shortest = if rule.mode == ServerDelayMode::Replace { min.min(from) } else { min };
        Some((shortest, larger(Bound::Within(max), to)))
    }
}

/// Whether some wait is shorter than one before it.
fn falls(backoff: &Backoff) -> bool {
    matches!(&backoff.shape, Shape::Schedule { delays } if !delays.is_sorted())
}

/// The shortest of the shortest waits and the longest of the longest.
fn either(waits: impl Iterator<Item = (Nanos, Bound)>) -> Option<(Nanos, Bound)> {
    waits.reduce(|(a, b), (c, d)| (a.min(c), larger(b, d)))
}

pub(super) fn larger(a: Bound, b: Bound) -> Bound {
    match (a, b) {
        (Bound::Within(a), Bound::Within(b)) => Bound::Within(a.max(b)),
        _ => Bound::Unlimited,
    }
}

/// What is left of a length.
fn less(a: Bound, b: Nanos) -> Bound {
    match a {
        Bound::Within(a) => Bound::Within(a.saturating_sub(b)),
        Bound::Unlimited => a,
    }
}

pub(super) fn smaller(a: Bound, b: Bound) -> Bound {
    match (a, b) {
        (Bound::Within(a), Bound::Within(b)) => Bound::Within(a.min(b)),
        (Bound::Unlimited, bound) | (bound, Bound::Unlimited) => bound,
    }
}

pub(in crate::policy) fn add(a: Bound, b: Bound) -> Bound {
    match (a, b) {
        (Bound::Within(a), Bound::Within(b)) => Bound::Within(a.saturating_add(b)),
        _ => Bound::Unlimited,
    }
}
