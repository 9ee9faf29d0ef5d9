//! The beginning of a timeline of a session that continues.

use std::io::Write;

use crate::host::SessionCheckpoint;
use crate::time::Instant;

use super::{BOLD, INFO, RunTimeline, WARN};
use crate::cli::text::one_line;

impl<W: Write + Send> RunTimeline<W> {
    /// It is that late.
    pub(crate) fn at(&mut self, now: Instant) {
        self.now = now;
    }

    /// Says where the session stood, and which tools unknown the outcome of.
    pub(super) fn going_on(&mut self, past: &SessionCheckpoint) {
        let count = past.messages.len();
        let plural = if count == 1 { "message" } else { "messages" };
        let text = format!("{BOLD}session {} continues{BOLD:#}  {count} {plural}", past.state.run);
        self.line("●", INFO, &text);
        if past.is_over() {
            return;
        }
        for work in &past.open {
            self.narrator.in_flight(work);
        }
        for run in past.unknown() {
            let text = format!(
                "{} was running when the run was broken off; it is unknown what it did",
                one_line(&run.tool)
            );
            self.line("?", WARN, &text);
        }
    }
}
