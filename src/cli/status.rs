//! One line at the bottom of a terminal that says what is going on right now.

use std::io::{IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use unfazed::time::Nanos;

/// What goes on, shown while it goes on. On anything but a terminal it shows nothing.
#[derive(Clone)]
pub(crate) struct Status {
    shared: Option<Arc<Mutex<Shared>>>,
}

struct Shared {
    text: String,
    since: Instant,
    until: Option<Instant>,
    shown: bool,
}

impl Status {
    /// Shows the line on standard error if that is a terminal; redraws it until the value is dropped everywhere.
    pub(crate) fn start() -> Self {
        if !std::io::stderr().is_terminal() {
            return Self { shared: None };
        }
        let shared = Shared { text: String::new(), since: Instant::now(), until: None, shown: false };
        let shared = Arc::new(Mutex::new(shared));
        let weak = Arc::downgrade(&shared);
        tokio::spawn(async move {
            let mut tick = tokio::time::interval(Duration::from_millis(100));
            loop {
                tick.tick().await;
                let Some(shared) = weak.upgrade() else { return };
                draw(&mut shared.lock().unwrap_or_else(PoisonError::into_inner));
            }
        });
        Self { shared: Some(shared) }
    }

    /// Says what goes on and for how long already.
    pub(crate) fn set(&self, text: String) {
        self.replace(text, None);
    }

    /// Says what is waited for and how much longer.
    pub(crate) fn count_down(&self, text: String, delay: Nanos) {
        self.replace(text, Some(Instant::now() + delay.to_std()));
    }

    /// Takes the line away, so that something else can be printed.
    pub(crate) fn clear(&self) {
        if let Some(shared) = &self.shared {
            let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
            erase(&mut shared);
            shared.text.clear();
        }
    }

    fn replace(&self, text: String, until: Option<Instant>) {
        if let Some(shared) = &self.shared {
            let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
            shared.text = text;
            shared.since = Instant::now();
            shared.until = until;
        }
    }
}

fn draw(shared: &mut Shared) {
    if shared.text.is_empty() {
        return;
    }
    let time = match shared.until {
        Some(until) => format!("{:.1}s left", until.saturating_duration_since(Instant::now()).as_secs_f64()),
        None => format!("{:.1}s", shared.since.elapsed().as_secs_f64()),
    };
    let _ = write!(std::io::stderr(), "\r\x1b[2K           {}  {time}", shared.text);
    let _ = std::io::stderr().flush();
    shared.shown = true;
}

fn erase(shared: &mut Shared) {
    if shared.shown {
        let _ = write!(std::io::stderr(), "\r\x1b[2K");
        shared.shown = false;
    }
}
