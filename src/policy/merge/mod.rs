//! The fold of layers: what each layer says about a value, which of them won, and what the limits made of it.

mod layer;
mod limits;
mod trail;

pub(crate) use layer::layer;
pub(crate) use limits::Limits;
pub(crate) use trail::{AnyTrail, At, Leaf, Trail, Word, WordKind, ordered, plain_leaf};

#[cfg(test)]
mod tests;
