//! What commands print. A reader that is gone ends the output quietly; output that cannot be written is an error.

use std::io::{ErrorKind, Write};

use super::exit::Failed;

/// Prints text with styles, which are left out where nobody could see them.
pub(crate) fn styled(text: &str) -> Result<(), Failed> {
    print(&mut anstream::stdout().lock(), text)
}

/// Prints text as it is.
pub(crate) fn raw(text: &str) -> Result<(), Failed> {
    print(&mut std::io::stdout().lock(), text)
}

/// How many characters a line of standard output has; `None`: as many as it takes.
pub(crate) fn width() -> Option<usize> {
    let told = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    told.filter(|columns| *columns > 0).or_else(terminal_width)
}

#[cfg(unix)]
fn terminal_width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

#[cfg(not(unix))]
const fn terminal_width() -> Option<usize> {
    None
}

/// Says something on standard error. If nobody listens, nobody can be told that either.
pub(crate) fn say(text: &str) {
    let mut err = anstream::stderr().lock();
    let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
}

fn print(out: &mut impl Write, text: &str) -> Result<(), Failed> {
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failed::io("cannot write to standard output", error))
        }
        _ => Ok(()),
    }
}
