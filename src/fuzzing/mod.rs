//! The entry points of the fuzz targets in `fuzz/`: bytes in, and a panic where a law does not hold; and what `benches/decode.rs`
//! measures.
//!
//! Not part of the public interface: they are built with the feature `fuzzing`, and for the tests, which play the seeds
//! of every target.

mod json_repair;
mod policy_text;
mod session_logs;
mod tool_arguments;

#[cfg(feature = "bedrock")]
pub use crate::host::fuzzed::frame_bytes;
pub use crate::host::fuzzed::{DIALECTS, decoded, provider_bodies, sse_bytes, streamed};
pub use json_repair::json_repair;
pub use policy_text::policy_text;
pub use session_logs::session_logs;
pub use tool_arguments::tool_arguments;

#[cfg(test)]
mod tests;
