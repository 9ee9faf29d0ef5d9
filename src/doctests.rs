//! The Rust of the guide, compiled and run with the tests of the documentation.

/// `docs/embedding.md`.
#[doc = include_str!("../docs/embedding.md")]
pub struct Embedding;

/// `docs/mcp.md`.
#[cfg(feature = "mcp")]
#[doc = include_str!("../docs/mcp.md")]
pub struct Relay;
