//! The reference host: agents, guards, models over HTTP, MCP servers, sessions and telemetry.

mod agent;
#[cfg(unix)]
mod agent_file;
#[cfg(unix)]
mod bad_input;
#[path = "../cli/command.rs"]
mod command;
mod context;
mod driven;
mod error_sources;
mod errors;
mod flaky;
mod guard;
mod guard_laws;
mod guard_pace;
mod guard_repeats;
mod guard_run;
mod guard_turn;
mod guard_turn_laws;
mod history;
#[cfg(unix)]
mod mcp;
mod models;
mod reload;
#[cfg(unix)]
mod session_kill;
mod session_resume;
mod shared;
#[cfg(unix)]
mod stores;
mod telemetry;
mod token_usages;
mod tool_results;
mod turn_layer;
mod waiting;
mod windows;
mod written_first;
