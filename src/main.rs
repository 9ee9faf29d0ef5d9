//! The `unfazed` command.

/// `docs/packaging.md` compares it with that of the system.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    unfazed::run_command()
}
