//! The command, as people and other programs use it.

#[cfg(unix)]
mod ai_agent;
mod attach;
mod check;
mod check_fix;
#[cfg(feature = "otlp")]
mod collector;
mod command;
mod conformance;
mod connections;
#[cfg(unix)]
mod context_command;
#[cfg(unix)]
mod desk;
mod examples;
#[cfg(all(unix, feature = "otlp"))]
mod exported;
mod guide;
#[cfg(unix)]
mod headers;
#[cfg(unix)]
mod killed_responses;
mod manual;
#[cfg(unix)]
mod mcp;
mod models_command;
mod policy_commands;
mod quickstart;
mod replay;
mod repository;
#[cfg(unix)]
mod run_telemetry;
mod schemas;
#[cfg(unix)]
mod serve;
#[cfg(unix)]
mod session_commands;
mod simulate;
mod step;
#[cfg(target_os = "linux")]
mod stop;
mod test_command;
#[cfg(unix)]
mod tools_command;
mod tune;
#[cfg(unix)]
mod usage;
#[path = "../host/waiting.rs"]
#[expect(dead_code, reason = "the tests of stores need more of it")]
mod waiting;
mod wasm;
