//! A declarative policy engine that keeps LLM agents going when tool calls and model turns go wrong.
//!
//! A policy says what is retried, how long is waited, the message to the model, when a circuit breaker opens, what the final
//! report must look like, and what the agent remembers. There are four ways in, each a thin layer over the one before;
//! `docs/embedding.md` shows them.
//!
//! | you have | take |
//! |---|---|
//! | nothing yet | `Agent`, the host behind `unfazed run`; `Agent::from_file` runs an agent file |
//! | a loop of your own, in tokio | `Guard` around single calls |
//! | a loop of your own, and a session to keep | `DrivenRun` for tool calls, turns and reports |
//! | another runtime, or none | [`Interpreter`]: events in, directives out |
//! | another language | the command `unfazed step`: the interpreter as a process |
//!
//! ```
//! use unfazed::Policy;
//!
//! let text = "version: 1\ntools: {search: {retry: {max_attempts: 3}}}\n";
//! let policy = Policy::from_yaml("policy.yaml", text)?;
//! let attempts = &policy.tool("search").retry.max_attempts;
//! assert_eq!(attempts.value.limit(), Some(3));
//! // Every value knows where it was written.
//! assert_eq!(policy.place(attempts.origin).to_string(), "policy.yaml:2:40");
//! # Ok::<(), unfazed::Report>(())
//! ```

#![cfg_attr(
    not(feature = "cli"),
    allow(dead_code, unused_imports, reason = "some of it is for the command alone")
)]

pub mod analysis;
#[cfg(feature = "host")]
pub mod cases;
#[cfg(feature = "cli")]
mod cli;
pub mod context;
#[cfg(test)]
mod counted;
mod debug_parts;
#[cfg(all(doctest, feature = "host"))]
mod doctests;
pub mod engine;
mod error_cause;
#[cfg(all(feature = "host", any(test, feature = "fuzzing")))]
#[doc(hidden)]
pub mod fuzzing;
#[cfg(feature = "host")]
pub mod host;
pub mod policy;
pub mod replay;
pub mod session;
#[cfg(feature = "host")]
pub mod simulate;
#[cfg(feature = "host")]
pub mod store;
pub mod text;
pub mod time;
#[cfg(feature = "cli")]
mod tune;

#[cfg(feature = "cli")]
pub use cli::run_command;
pub(crate) use debug_parts::debug_parts;
pub use engine::Interpreter;
pub use error_cause::ErrorCause;
#[cfg(feature = "host")]
pub use host::guard::CallError;
#[cfg(feature = "host")]
pub use host::{Agent, DrivenRun, Guard, ToolError};
pub use policy::Policy;
pub use text::Report;
