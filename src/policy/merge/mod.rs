//! The fold of layers: what each layer says about a value, and which of them won.

mod trail;

pub(crate) use trail::{AnyTrail, LayerPosition, LayerWord, ValueHistory, WordKind};

#[cfg(test)]
mod tests;
