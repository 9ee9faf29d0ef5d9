//! What the library decides without a host: the interpreter, its laws, and policies as they are written.

#[cfg(feature = "cli")]
mod bounds;
#[cfg(feature = "host")]
mod budgets;
#[cfg(feature = "host")]
mod cases;
mod circles;
mod exported;
mod golden_delays;
mod interpreter;
mod json_repair;
#[cfg(feature = "host")]
mod outages;
mod places;
mod purity;
#[cfg(feature = "host")]
mod rules;
mod streams;
#[cfg(feature = "host")]
mod twenty_outages;
mod words;
mod yaml_suite;
