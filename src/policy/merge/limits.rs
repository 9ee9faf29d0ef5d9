//! The second channel: of all layers the tightest limit wins, and no layer can loosen it.

use core::num::NonZeroU32;

use serde_json::Value;

use super::{Leaf, Trail};
use crate::policy::decode::Spanned;
use crate::policy::document::{Classes, Lasting, LimitsRule, RetryPolicy};
use crate::policy::form::{Key, Looser, Merged};
use crate::policy::key_value::KeyValue;
use crate::policy::{Attempts, Bound, ClassSet, Origin};
use crate::time::Nanos;

/// The tightest limits of the layers heard so far, each with the place of the one that set it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Limits {
    max_attempts: Option<Limit<NonZeroU32>>,
    deadline: Option<Limit<Nanos>>,
    total_delay: Option<Limit<Nanos>>,
    attempt_timeout: Option<Limit<Nanos>>,
    never_retry: Vec<Limit<ClassSet>>,
}

/// The key of the classes that are never retried.
static NEVER_RETRY: Key = Key { name: "never_retry", looser: Some(Looser::Less) };

/// A limit and its place.
#[derive(Clone, Copy, Debug)]
struct Limit<T> {
    value: T,
    origin: Origin,
}

impl Limits {
    /// Hears one more layer.
    pub(crate) fn fold(&mut self, rule: &LimitsRule) {
        use crate::policy::Scope::Limit as SCOPE;
        fn tighter<T: Copy + Ord>(held: &mut Option<Limit<T>>, said: Option<Spanned<T>>) {
            let Some(said) = said else { return };
            if held.is_none_or(|held| said.value < held.value) {
                *held = Some(Limit { value: said.value, origin: said.span.origin(SCOPE) });
            }
        }
        let lasting = |said: Option<Spanned<Lasting<Nanos>>>| {
            said.map(|said| Spanned { value: said.value.0, span: said.span })
        };
        tighter(&mut self.max_attempts, rule.max_attempts);
        tighter(&mut self.deadline, lasting(rule.deadline));
        tighter(&mut self.total_delay, rule.total_delay);
        tighter(&mut self.attempt_timeout, lasting(rule.attempt_timeout));
        if let Some(classes) = &rule.never_retry {
            let value = classes.value.iter().copied().collect();
            self.never_retry.push(Limit { value, origin: classes.span.origin(SCOPE) });
        }
    }

    /// Every limit that holds, by its name; the classes of several layers, which count together, one after the other.
    pub(crate) fn each(&self) -> Vec<(&'static str, KeyValue)> {
        let length = |limit: &Limit<Nanos>| {
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
        let never = |limit: &Limit<ClassSet>| {
            ("never_retry", KeyValue::new::<Classes>(&NEVER_RETRY, &limit.value, limit.origin))
        };
        one.chain(self.never_retry.iter().map(never)).collect()
    }

    /// The classes that are never retried, those of all layers together.
    pub(crate) fn never_retry(&self) -> Option<KeyValue> {
        let last = self.never_retry.last()?;
        let all = self.never_retry.iter().fold(ClassSet::EMPTY, |all, limit| all.union(limit.value));
        Some(KeyValue::new::<Classes>(&NEVER_RETRY, &all, last.origin))
    }

    /// The most attempts any layer may ask for.
    pub(crate) fn max_attempts(&self) -> Option<NonZeroU32> {
        self.max_attempts.map(|limit| limit.value)
    }

    /// Holds a merged retry policy to them.
    pub(crate) fn apply(&self, retry: &mut RetryPolicy<Merged>) {
        if let Some(limit) = self.max_attempts {
            attempts(&mut retry.max_attempts, limit);
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

fn attempts(trail: &mut Trail<Attempts>, limit: Limit<NonZeroU32>) {
    let exceeds = match trail.get() {
        Some(Attempts::Limited(attempts)) => *attempts > limit.value,
        Some(Attempts::Unlimited) => true,
        None => false,
    };
    if exceeds {
        trail.tighten(Attempts::Limited(limit.value), limit.origin);
    }
}

fn bound(trail: &mut Trail<impl Leaf<Value = Bound>>, limit: Option<Limit<Nanos>>) {
    let Some(limit) = limit else { return };
    let exceeds = match trail.get() {
        Some(Bound::Within(length)) => *length > limit.value,
        Some(Bound::Unlimited) => true,
        None => false,
    };
    if exceeds {
        trail.tighten(Bound::Within(limit.value), limit.origin);
    }
}

fn classes(trail: &mut Trail<Classes>, limit: Limit<ClassSet>) {
    if let Some(held) = trail.get().copied() {
        let all = held.union(limit.value);
        if all != held {
            trail.tighten(all, limit.origin);
        }
    }
}
