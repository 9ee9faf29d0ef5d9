//! A value of some key, for people and for comparison with another value of the same key.

use core::any::Any;
use core::cmp::Ordering;

use serde_json::Value;

use super::Origin;
use crate::policy::key::{Key, Looser};
use crate::policy::layer_value::LayerValue;

/// A value of some key.
pub(crate) struct KeyValue {
    /// As policies write it.
    pub(crate) shown: Value,
    /// Where it comes from.
    pub(crate) origin: Origin,
    value: Box<dyn Any>,
    compare: ValueOrder,
    looser: Option<Looser>,
}

/// Which of two values of one type is more; `None`: neither.
type ValueOrder = fn(&dyn Any, &dyn Any) -> Option<Ordering>;

impl KeyValue {
    /// The value of a key.
    pub(crate) fn new<T: LayerValue>(key: &Key, value: &T::Value, origin: Origin) -> Self {
        Self {
            shown: T::show_value(value),
            origin,
            value: Box::new(value.clone()),
            compare: |a, b| T::compare(a.downcast_ref()?, b.downcast_ref()?),
            looser: key.looser,
        }
    }

    /// A limit: where there is none, everything is allowed.
    pub(crate) fn limit<V: PartialOrd + 'static>(value: V, shown: Value, origin: Origin) -> Self {
        let compare: ValueOrder = |a, b| a.downcast_ref::<V>()?.partial_cmp(b.downcast_ref()?);
        Self { shown, origin, value: Box::new(value), compare, looser: Some(Looser::More) }
    }

    /// Whether `new` is looser (`Greater`) or tighter (`Less`) than `old`; `None`: neither. What is left out is a limit that
    /// there is not.
    pub(crate) fn loosened(old: Option<&Self>, new: Option<&Self>) -> Option<Ordering> {
        let (old, new) = match (old, new) {
            (None, None) => return Some(Ordering::Equal),
            (None, Some(_)) => return Some(Ordering::Less),
            (Some(_), None) => return Some(Ordering::Greater),
            (Some(old), Some(new)) => (old, new),
        };
        let more = (new.compare)(&*new.value, &*old.value)?;
        match new.looser? {
            Looser::More => Some(more),
            Looser::Less => Some(more.reverse()),
            Looser::Neither => None,
        }
    }
}

crate::debug_parts!(|this: KeyValue| shown: this.shown, origin: this.origin);
