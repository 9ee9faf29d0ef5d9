//! The second channel: of all layers the tightest limit wins, and no layer can loosen it.

use core::num::NonZeroU32;

use serde_json::Value;

use crate::policy::decode::Spanned;
use crate::policy::document::{ClassList, LimitsRule, NonZeroTime, RetryPolicy};
use crate::policy::form::Merged;
use crate::policy::key::{Key, Looser};
use crate::policy::key_value::KeyValue;
use crate::policy::layer_value::LayerValue;
use crate::policy::merge::ValueHistory;
use crate::policy::{AttemptLimit, ClassSet, Origin, TimeBound};
use crate::time::Nanos;

/// The tightest limits of the layers so far, each with the place of the one that set it.
#[derive(Clone, Debug, Default)]
pub(crate) struct TightestLimits {
    max_attempts: Option<PlacedLimit<NonZeroU32>>,
    deadline: Option<PlacedLimit<Nanos>>,
    total_delay: Option<PlacedLimit<Nanos>>,
    attempt_timeout: Option<PlacedLimit<Nanos>>,
    never_retry: Vec<PlacedLimit<ClassSet>>,
}

/// The key of the classes that are never retried.
static NEVER_RETRY: Key = Key { name: "never_retry", looser: Some(Looser::Less) };

/// A limit and its place.
#[derive(Clone, Copy, Debug)]
struct PlacedLimit<T> {
    value: T,
    origin: Origin,
}

impl TightestLimits {
    /// Adds one more layer.
    pub(crate) fn fold(&mut self, rule: &LimitsRule) {
        use crate::policy::LayerKind::Limit as SCOPE;
        fn tighter<T: Copy + Ord>(held: &mut Option<PlacedLimit<T>>, said: Option<Spanned<T>>) {
            let Some(said) = said else { return };
            // At a tie the earlier layer keeps its place, so reports do not change when a later file repeats a
            // limit.
            if held.is_none_or(|held| said.value < held.value) {
                *held = Some(PlacedLimit { value: said.value, origin: said.span.origin(SCOPE) });
            }
        }
        let lasting = |said: Option<Spanned<NonZeroTime<Nanos>>>| {
            said.map(|said| Spanned { value: said.value.0, span: said.span })
        };
        tighter(&mut self.max_attempts, rule.max_attempts);
        tighter(&mut self.deadline, lasting(rule.deadline));
        tighter(&mut self.total_delay, rule.total_delay);
        tighter(&mut self.attempt_timeout, lasting(rule.attempt_timeout));
        // Deny lists of several layers add up, because their union is the tightest of them.
        if let Some(classes) = &rule.never_retry {
            let value = classes.value.iter().copied().collect();
            self.never_retry.push(PlacedLimit { value, origin: classes.span.origin(SCOPE) });
        }
    }

    /// Every limit that holds, by its name; the classes of several layers, which count together, one after the other.
    pub(crate) fn each(&self) -> Vec<(&'static str, KeyValue)> {
        let length = |limit: &PlacedLimit<Nanos>| {
            KeyValue::limit(limit.value, Value::from(limit.value.to_string()), limit.origin)
        };
        let attempts = self
            .max_attempts
            .map(|limit| KeyValue::limit(limit.value, limit.value.get().into(), limit.origin));
        let one = [
            ("max_attempts", attempts),
            ("deadline", self.deadline.as_ref().map(length)),
            ("total_delay", self.total_delay.as_ref().map(length)),
            ("attempt_timeout", self.attempt_timeout.as_ref().map(length)),
        ];
        let one = one.into_iter().filter_map(|(name, limit)| limit.map(|limit| (name, limit)));
        let never = |limit: &PlacedLimit<ClassSet>| {
            ("never_retry", KeyValue::new::<ClassList>(&NEVER_RETRY, &limit.value, limit.origin))
        };
        one.chain(self.never_retry.iter().map(never)).collect()
    }

    /// The classes that are never retried, those of all layers together.
    pub(crate) fn never_retry(&self) -> Option<KeyValue> {
        let last = self.never_retry.last()?;
        let all = self.never_retry.iter().fold(ClassSet::EMPTY, |all, limit| all.union(limit.value));
        Some(KeyValue::new::<ClassList>(&NEVER_RETRY, &all, last.origin))
    }

    /// The most attempts any layer may ask for.
    pub(crate) fn max_attempts(&self) -> Option<NonZeroU32> {
        self.max_attempts.map(|limit| limit.value)
    }

    /// Holds a merged retry policy to them.
    pub(crate) fn apply(&self, retry: &mut RetryPolicy<Merged>) {
        // As in gRPC (proposal A6), the ceiling cuts the value and does not refuse the policy that asks for more.
        if let Some(limit) = self.max_attempts {
            attempts(&mut retry.max_attempts, limit);
            // A class with its own number of attempts must not escape the limit.
            retry.by_class.max_attempts().for_each(|trail| attempts(trail, limit));
        }
        bound(&mut retry.deadline, self.deadline);
        bound(&mut retry.total_delay, self.total_delay);
        bound(&mut retry.attempt_timeout, self.attempt_timeout);
        for limit in &self.never_retry {
            classes(&mut retry.never_retry, *limit);
        }
    }
}

fn attempts(trail: &mut ValueHistory<AttemptLimit>, limit: PlacedLimit<NonZeroU32>) {
    let exceeds = match trail.get() {
        Some(AttemptLimit::Limited(attempts)) => *attempts > limit.value,
        Some(AttemptLimit::Unlimited) => true,
        None => false,
    };
    if exceeds {
        trail.tighten(AttemptLimit::Limited(limit.value), limit.origin);
    }
}

fn bound(trail: &mut ValueHistory<impl LayerValue<Value = TimeBound>>, limit: Option<PlacedLimit<Nanos>>) {
    let Some(limit) = limit else { return };
    let exceeds = match trail.get() {
        Some(TimeBound::Within(length)) => *length > limit.value,
        Some(TimeBound::Unlimited) => true,
        None => false,
    };
    if exceeds {
        trail.tighten(TimeBound::Within(limit.value), limit.origin);
    }
}

fn classes(trail: &mut ValueHistory<ClassList>, limit: PlacedLimit<ClassSet>) {
    if let Some(held) = trail.get().copied() {
        // A tightening that changes nothing must not take the place of the layer that set the value.
        let all = held.union(limit.value);
        if all != held {
            trail.tighten(all, limit.origin);
        }
    }
}
