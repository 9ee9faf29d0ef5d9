//! Values as layers write them.

use core::cmp::Ordering;
use core::fmt;

use serde_json::Value;

use super::decode::Decode;

/// A value of a layer, as it is written. Most replace what is inherited; some edit it.
pub trait LayerValue: Decode + Clone + fmt::Debug + PartialEq + 'static {
    /// What comes out of the merge.
    type Value: Clone + fmt::Debug + 'static;

    /// Whether values can be more or less than others.
    const ORDERED: bool = false;

    /// Which of two values is more; `None`: neither.
    fn compare(_: &Self::Value, _: &Self::Value) -> Option<Ordering> {
        None
    }

    /// What this makes of what is inherited.
    fn over(&self, below: Option<&Self::Value>) -> Self::Value;

    /// Whether it needs what is inherited.
    fn is_edit(&self) -> bool {
        false
    }

    /// Whether a part of what is inherited stays.
    fn keeps(&self) -> bool {
        self.is_edit()
    }

    /// As it is written, for comparison and for people.
    fn show(&self) -> Value;

    /// What came out, for people.
    fn show_value(value: &Self::Value) -> Value;
}

/// A value that replaces what is inherited; `$show` makes JSON of it. `ordered`: by its own order.
macro_rules! plain_leaf {
    ($($ty:ty => $show:expr $(, $ordered:ident)?);+ $(;)?) => {$(
        impl $crate::policy::layer_value::LayerValue for $ty {
            type Value = Self;

            $($crate::policy::layer_value::$ordered!();)?

            fn over(&self, _: Option<&Self>) -> Self {
                self.clone()
            }

            fn show(&self) -> serde_json::Value {
                Self::show_value(self)
            }

            fn show_value(value: &Self) -> serde_json::Value {
                let show: fn(&Self) -> serde_json::Value = $show;
                show(value)
            }
        }
    )+};
}

/// Values compare by the order of their type.
macro_rules! ordered {
    () => {
        const ORDERED: bool = true;

        fn compare(a: &Self::Value, b: &Self::Value) -> Option<core::cmp::Ordering> {
            a.partial_cmp(b)
        }
    };
}

pub(crate) use {ordered, plain_leaf};
