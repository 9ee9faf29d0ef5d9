//! Questions to the person at the terminal.

use std::io::{BufRead, IsTerminal};

use super::exit::CommandFailure;
use super::out;

/// Discards what the terminal holds of lines typed before a question: they are no answer to it.
pub(crate) fn discard_typed() {
    #[cfg(unix)]
    {
        let stdin = std::io::stdin();
        if stdin.is_terminal()
            && let Err(error) = rustix::termios::tcflush(&stdin, rustix::termios::QueueSelector::IFlush)
        {
            tracing::warn!(error = %error, "what was typed before the question cannot be discarded");
        }
    }
}

/// Asks whether that is to be deleted. Without a terminal nobody can answer.
pub(crate) fn deletes(what: &str, place: &str) -> Result<bool, CommandFailure> {
    if !std::io::stdin().is_terminal() {
        let message = format!(
            "{what} in {place} would be deleted, and there is no terminal to ask on; --yes deletes them without a question"
        );
        return Err(CommandFailure::Usage(message));
    }
    discard_typed();
    out::say_raw(&format!("delete {what} in {place}? [y/N] "));
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    read.map_err(|error| CommandFailure::io("cannot read the answer", error))?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}
