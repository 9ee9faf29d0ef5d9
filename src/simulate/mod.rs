//! Trying a policy out before something fails: one call or turn with given outcomes, and many agents that share models
//! and tools that fail, in virtual time.
//!
//! Every agent is driven by the interpreter's own `step`; nothing is approximated and nothing sleeps. All that is left to
//! chance is counted from a seed, so that the same scenario and policy come to the same, byte for byte.

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod agent;
mod capacity;
mod chance;
mod check;
mod document;
mod errand;
mod figures;
mod latency;
mod power;
mod scenario;
mod service;
mod shared;
mod story;
#[cfg(test)]
mod tests;
mod world;

pub use figures::SimulationFigures;
pub(crate) use figures::{EndedBy, TimeShare};
pub use scenario::{Scenario, json_schema};
pub(crate) use story::StoryCall;
pub use story::{CallStory, StoryError};
