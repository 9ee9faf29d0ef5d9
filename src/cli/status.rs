//! One line at the bottom of a terminal that says what is going on right now.

use std::io::{IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use unfazed::time::Nanos;

/// How long something is typed no further before it is said for how long.
const PAUSE: Duration = Duration::from_secs(1);

/// What goes on, shown while it goes on. On anything but a terminal it shows nothing.
#[derive(Clone)]
pub(crate) struct Status {
    shared: Option<Arc<Mutex<Shared>>>,
}

struct Shared {
    terminal: Box<dyn Write + Send>,
    text: String,
    since: Instant,
    time: Time,
    shown: bool,
}

/// Which time is told.
#[derive(Clone, Copy)]
enum Time {
    /// For how long it goes on already.
    Since,
    /// The same, but only of a pause.
    Pause,
    /// How much longer it is waited for.
    Until(Instant),
    /// None.
    Never,
}

impl Status {
    /// Shows the line on standard error if that is a terminal; redraws it until the value is dropped everywhere.
    pub(crate) fn start() -> Self {
        if !std::io::stderr().is_terminal() {
            return Self::none();
        }
        let status = Self::on(std::io::stderr());
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
        if std::io::stderr().is_terminal() { Self::on(std::io::stderr()) } else { Self::none() }
    }

    /// Shows nothing.
    pub(crate) const fn none() -> Self {
        Self { shared: None }
    }

    /// Shows the line on that terminal, whenever it is drawn.
    pub(crate) fn on(terminal: impl Write + Send + 'static) -> Self {
        let (terminal, text) = (Box::new(terminal), String::new());
        let shared = Shared { terminal, text, since: Instant::now(), time: Time::Since, shown: false };
        Self { shared: Some(Arc::new(Mutex::new(shared))) }
    }

    /// Draws the line as it is now.
    pub(crate) fn draw(&self) {
        if let Some(shared) = &self.shared {
            draw(&mut shared.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Says what goes on and for how long already.
    pub(crate) fn set(&self, text: String) {
        self.replace(text, Time::Since);
    }

    /// Says what goes on, and no time.
    pub(crate) fn say(&self, text: String) {
        self.replace(text, Time::Never);
    }

    /// Says what has been typed of a line so far.
    pub(crate) fn typed(&self, line: String) {
        self.replace(line, Time::Pause);
    }

    /// Says what is waited for and how much longer.
    pub(crate) fn count_down(&self, text: String, delay: Nanos) {
        self.replace(text, Time::Until(Instant::now() + delay.to_std()));
    }

    /// Takes the line away, so that something else can be printed.
    pub(crate) fn clear(&self) {
        if let Some(shared) = &self.shared {
            let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
            erase(&mut shared);
            shared.text.clear();
        }
    }

    fn replace(&self, text: String, time: Time) {
        if let Some(shared) = &self.shared {
            let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
            shared.text = text;
            shared.since = Instant::now();
            shared.time = time;
        }
    }
}

fn draw(shared: &mut Shared) {
    if shared.text.is_empty() {
        return;
    }
    let since = shared.since.elapsed();
    let time = match shared.time {
        Time::Until(until) => {
            format!("  {:.1}s left", until.saturating_duration_since(Instant::now()).as_secs_f64())
        }
        Time::Pause if since < PAUSE => String::new(),
        Time::Never => String::new(),
        Time::Since | Time::Pause => format!("  {:.1}s", since.as_secs_f64()),
    };
    let _ = write!(shared.terminal, "\r\x1b[2K           {}{time}", shared.text);
    let _ = shared.terminal.flush();
    shared.shown = true;
}

fn erase(shared: &mut Shared) {
    if shared.shown {
        let _ = write!(shared.terminal, "\r\x1b[2K");
        shared.shown = false;
    }
}
