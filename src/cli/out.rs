//! What commands print. A reader that is gone ends the output quietly; output that cannot be written is an error.

use std::fmt::Display;
use std::io::{ErrorKind, Write};
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};

use super::exit::{CommandFailure, ExitStatus};
use super::text::wrap;

/// So many columns to the right of the beginning of a line stands the rest of it.
const MORE: usize = 4;

const BAD: Style = AnsiColor::Red.on_default().bold();

/// Prints text with styles, which are left out where nobody could see them. A line that is wider than the terminal is
/// wrapped, its rest a little to the right of its beginning.
pub(crate) fn styled(text: &str) -> Result<(), CommandFailure> {
    print(&mut anstream::stdout().lock(), &fitting(text, width()))
}

/// Text whose lines are no wider than that.
fn fitting(text: &str, width: Option<usize>) -> String {
    let Some(width) = width else { return text.to_owned() };
    let mut fitting = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let (line, end) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
        let blanks = line.chars().take_while(|c| *c == ' ').count();
        let margin = " ".repeat((blanks + MORE).min(width / 2));
        fitting.push_str(&wrap(line, width, &margin));
        fitting.push_str(end);
    }
    fitting
}

/// Prints text as it is.
pub(crate) fn raw(text: &str) -> Result<(), CommandFailure> {
    print(&mut std::io::stdout().lock(), text)
}

/// How many characters a line of standard output has; `None`: as many as it takes.
pub(crate) fn width() -> Option<usize> {
    told_width().or_else(|| terminal_width(std::io::stdout()))
}

/// How many characters a line of standard error has; `None`: as many as it takes.
pub(crate) fn width_of_errors() -> Option<usize> {
    told_width().or_else(|| terminal_width(std::io::stderr()))
}

fn told_width() -> Option<usize> {
    let told = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    told.filter(|columns| *columns > 0)
}

#[cfg(unix)]
fn terminal_width(terminal: impl std::os::fd::AsFd) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(terminal).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

#[cfg(not(unix))]
fn terminal_width<T>(_terminal: T) -> Option<usize> {
    None
}

/// Says something on standard error, in lines that fit a terminal. If nobody listens, that cannot be reported either.
pub(crate) fn say(text: &str) {
    write_error(&fitting(text, width_of_errors()));
}

/// Prints an error and ends with `exit`. What has been printed already is not printed again.
pub(crate) fn complain(error: &dyn Display, exit: ExitStatus) -> ExitCode {
    tell(error);
    exit.into()
}

/// Prints an error, unless it was printed already.
pub(crate) fn tell(error: &dyn Display) {
    let text = error.to_string();
    if !text.is_empty() {
        say(&format!("{BAD}error{BAD:#}: {text}\n"));
    }
}

/// Says something on standard error as it is: what people copy.
pub(crate) fn say_raw(text: &str) {
    write_error(text);
}

fn write_error(text: &str) {
    let mut err = anstream::stderr().lock();
    let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
}

fn print(out: &mut impl Write, text: &str) -> Result<(), CommandFailure> {
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(CommandFailure::io("cannot write to standard output", error))
        }
        _ => Ok(()),
    }
}
