//! A declarative policy engine that keeps LLM agents going when tool calls and model turns go wrong.

#[cfg(feature = "host")]
pub mod cases;
pub mod context;
#[cfg(all(doctest, feature = "host"))]
mod doctests;
pub mod engine;
#[cfg(all(feature = "host", any(test, feature = "fuzzing")))]
#[doc(hidden)]
pub mod fuzzing;
#[cfg(feature = "host")]
pub mod host;
pub mod policy;
pub mod repair;
pub mod replay;
pub mod session;
#[cfg(feature = "host")]
pub mod simulate;
#[cfg(feature = "host")]
pub mod store;
pub mod time;
