//! One line at the bottom of a terminal that says what is going on right now.

use std::io::{IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::text::columns;
use crate::time::Nanos;

use super::out;
use super::text::fit;

/// What stands before the text of the line, unless the terminal is narrow.
const MARGIN: &str = "           ";
/// Terminals of fewer columns are narrow.
const NARROW: usize = 60;
/// How long something is typed no further before it is said for how long.
const PAUSE: Duration = Duration::from_secs(1);

/// What continues, shown while it continues. On anything but a terminal it shows nothing.
#[derive(Clone)]
pub(crate) struct StatusLine {
    shared: Option<Arc<Mutex<SharedStatus>>>,
}

struct SharedStatus {
    terminal: Box<dyn Write + Send>,
    text: String,
    since: Instant,
    time: ShownTime,
    /// The columns of the terminal now; `None`: unknown.
    width: TerminalWidth,
    /// The columns of the line that is shown; 0: none is.
    shown: usize,
}

/// How many columns a terminal has now: its window may have been resized since the last line.
type TerminalWidth = fn() -> Option<usize>;

/// Which time is reported.
#[derive(Clone, Copy)]
enum ShownTime {
    /// For how long it continues already.
    Since,
    /// The same, but only of a pause.
    Pause,
    /// How much longer it is waited for.
    Until(Instant),
    /// None.
    Never,
}

impl StatusLine {
    /// Shows the line on standard error if that is a terminal; redraws it until the value is dropped everywhere.
    pub(crate) fn start() -> Self {
        if !std::io::stderr().is_terminal() {
            return Self::none();
        }
        let status = Self::on(std::io::stderr(), out::width_of_errors);
        let weak = status.shared.as_ref().map(Arc::downgrade).unwrap_or_default();
        tokio::spawn(async move {
            let mut tick = tokio::time::interval(Duration::from_millis(100));
            loop {
                tick.tick().await;
                let Some(shared) = weak.upgrade() else { return };
                draw(&mut shared.lock().unwrap_or_else(PoisonError::into_inner));
            }
        });
        status
    }

    /// Shows the line on standard error if that is a terminal, whenever it is drawn.
    pub(crate) fn by_hand() -> Self {
        if std::io::stderr().is_terminal() {
            Self::on(std::io::stderr(), out::width_of_errors)
        } else {
            Self::none()
        }
    }

    /// Shows nothing.
    pub(crate) const fn none() -> Self {
        Self { shared: None }
    }

    /// Shows the line on that terminal of that width, whenever it is drawn.
    pub(crate) fn on(terminal: impl Write + Send + 'static, width: TerminalWidth) -> Self {
        let (terminal, text) = (Box::new(terminal), String::new());
        let shared =
            SharedStatus { terminal, text, since: Instant::now(), time: ShownTime::Since, width, shown: 0 };
        Self { shared: Some(Arc::new(Mutex::new(shared))) }
    }

    /// Draws the line as it is now.
    pub(crate) fn draw(&self) {
        if let Some(shared) = &self.shared {
            draw(&mut shared.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Says what continues and for how long already.
    pub(crate) fn set(&self, text: String) {
        self.replace(text, ShownTime::Since);
    }

    /// Says what continues, and no time.
    pub(crate) fn say(&self, text: String) {
        self.replace(text, ShownTime::Never);
    }

    /// Says what has been typed of a line so far.
    pub(crate) fn typed(&self, line: String) {
        self.replace(line, ShownTime::Pause);
    }

    /// Says what is waited for and how much longer.
    pub(crate) fn count_down(&self, text: String, delay: Nanos) {
        self.replace(text, ShownTime::Until(Instant::now() + delay.to_std()));
    }

    /// Takes the line away, so that something else can be printed.
    pub(crate) fn clear(&self) {
        if let Some(shared) = &self.shared {
            let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
            erase(&mut shared);
            shared.text.clear();
        }
    }

    fn replace(&self, text: String, time: ShownTime) {
        if let Some(shared) = &self.shared {
            let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
            shared.text = text;
            shared.since = Instant::now();
            shared.time = time;
        }
    }
}

fn draw(shared: &mut SharedStatus) {
    if shared.text.is_empty() {
        return;
    }
    let since = shared.since.elapsed();
    let time = match shared.time {
        ShownTime::Until(until) => {
            format!("  {:.1}s left", until.saturating_duration_since(Instant::now()).as_secs_f64())
        }
        ShownTime::Pause if since < PAUSE => String::new(),
        ShownTime::Never => String::new(),
        ShownTime::Since | ShownTime::Pause => format!("  {:.1}s", since.as_secs_f64()),
    };
    // A line as wide as the terminal would wrap on some of them.
    let room = (shared.width)().map_or(usize::MAX, |width| width.saturating_sub(1));
    let margin = if room < NARROW { "" } else { MARGIN };
    let text = fit(&format!("{margin}{}", shared.text), room.saturating_sub(columns(&time)));
    erase(shared);
    let _ = write!(shared.terminal, "\r\x1b[2K{text}{time}");
    let _ = shared.terminal.flush();
    shared.shown = columns(&text) + columns(&time);
}

fn erase(shared: &mut SharedStatus) {
    if shared.shown == 0 {
        return;
    }
    // In a terminal that was made more specific since, the line takes several rows.
    let rows = (shared.width)().map_or(1, |width| shared.shown.div_ceil(width.max(1)));
    let _ = match rows {
        0 | 1 => write!(shared.terminal, "\r\x1b[2K"),
        rows => write!(shared.terminal, "\r\x1b[{}A\x1b[J", rows - 1),
    };
    shared.shown = 0;
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[derive(Clone, Default)]
    struct StatusTerminal(Arc<Mutex<Vec<u8>>>);

    impl Write for StatusTerminal {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl StatusTerminal {
        fn taken(&self) -> String {
            String::from_utf8(std::mem::take(&mut self.0.lock().unwrap())).unwrap()
        }
    }

    #[test]
    fn the_line_fits_a_terminal_that_is_resized() {
        static COLUMNS: AtomicUsize = AtomicUsize::new(80);
        let terminal = StatusTerminal::default();
        let status = StatusLine::on(terminal.clone(), || Some(COLUMNS.load(Ordering::Relaxed)));
        status.say(format!("waiting for model {}", "long-name-".repeat(20)));
        status.draw();
        let line = terminal.taken();
        let line = line.strip_prefix("\r\u{1b}[2K").unwrap();
        assert_eq!(columns(line), 79);
        assert!(line.ends_with('…'), "{line}");
        // Narrower than the line that is shown: both of its rows are erased.
        COLUMNS.store(50, Ordering::Relaxed);
        status.draw();
        let line = terminal.taken();
        let line = line.strip_prefix("\r\u{1b}[1A\u{1b}[J\r\u{1b}[2K").unwrap();
        assert_eq!(columns(line), 49);
        status.clear();
        assert_eq!(terminal.taken(), "\r\u{1b}[2K");
    }
}
