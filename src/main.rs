//! The `unfazed` command.

fn main() -> std::process::ExitCode {
    unfazed::run_command()
}
