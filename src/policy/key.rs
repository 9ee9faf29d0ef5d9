//! What a key of a policy says about itself.

use super::layer_value::LayerValue;

/// What a key declares in addition to its type and its docs.
#[derive(Debug)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// Which of its values are looser; declared for every key whose values have an order.
    pub looser: Option<Looser>,
}

/// Which values of a key are looser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Looser {
    /// What is more in the order of the type.
    More,
    /// What is less.
    Less,
    /// None: a difference is only a difference.
    Neither,
}

impl Key {
    /// A key whose declaration holds together; checked when it is compiled.
    #[must_use]
    pub const fn checked<T: LayerValue>(self) -> Self {
        assert!(
            T::ORDERED || self.looser.is_none(),
            "the values of this key have no order, so none of them can be looser"
        );
        // Checked by the compiler: a key without a direction would be left out of every comparison of limits.
        assert!(
            !T::ORDERED || self.looser.is_some(),
            "say which values of this key are looser: `#[key(looser = More)]`, `Less` or `Neither`"
        );
        self
    }
}
