//! Simulation of a policy: one call or turn with given outcomes, or many agents that share failing models and tools,
//! in virtual time.
//!
//! Every agent is driven by the interpreter's own `step`; nothing is approximated, and no real time passes. All
//! random numbers come from a seed, so that the same scenario and policy have the same result, byte for byte.

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod agent;
mod capacity;
mod chance;
mod check;
mod document;
mod errand;
mod figures;
mod latency;
mod limits;
mod power;
mod scenario;
mod service;
mod shared;
mod shedding;
mod story;
#[cfg(test)]
mod tests;
mod world;

pub use figures::SimulationFigures;
pub(crate) use figures::{EndedBy, TimeShare};
pub use scenario::{Scenario, json_schema};
pub(crate) use story::StoryCall;
pub use story::{CallStory, StoryError};
