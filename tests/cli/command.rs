//! The command, as tests run it: whoever runs them may have settings of their own, and a database of sessions.

use std::path::Path;
use std::process::{Command, Stdio};

/// The command in a folder. It has nothing to read, and nobody's settings.
pub(crate) fn unfazed(folder: &Path, args: &[&str]) -> Command {
    program(env!("CARGO_BIN_EXE_unfazed"), folder, args)
}

/// Another program, which calls the command.
pub(crate) fn program(name: &str, folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(name);
    let ours = |name: &str| name.starts_with("UNFAZED_") || name.starts_with("OTEL_");
    for (name, _) in std::env::vars_os().filter(|(name, _)| ours(&name.to_string_lossy())) {
        command.env_remove(name);
    }
    command.args(args).current_dir(folder).stdin(Stdio::null());
    command
}
