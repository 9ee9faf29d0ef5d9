//! The Rust of the guide, compiled and run with the tests of the documentation.

/// `docs/embedding.md`.
#[doc = include_str!("../docs/embedding.md")]
pub struct Embedding;
