//! What was found out once and need not be found out again.

/// What can be found out again from what the state has: so it is neither written down nor compared.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) struct Memo<T>(pub(in crate::engine) Option<T>);

impl<T> Default for Memo<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> PartialEq for Memo<T> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
