//! The beginning of a timeline of a session that goes on.

use std::io::Write;

use unfazed::engine::Work;
use unfazed::host::Past;
use unfazed::time::Instant;

use super::{BOLD, INFO, Timeline, WARN};
use crate::cli::text::one_line;

impl<W: Write + Send> Timeline<W> {
    /// It is that late.
    pub(crate) fn at(&mut self, now: Instant) {
        self.now = now;
    }

    /// Says where the session stood, and which tools nobody knows the outcome of.
    pub(super) fn going_on(&mut self, past: &Past) {
        let count = past.messages.len();
        let plural = if count == 1 { "message" } else { "messages" };
        let text = format!("{BOLD}session {} goes on{BOLD:#}  {count} {plural}", past.state.run);
        self.line("●", INFO, &text);
        if past.is_over() {
            return;
        }
        for work in &past.open {
            match work {
                Work::CallModel(call) => drop(self.names.insert(work.id(), call.target.clone())),
                Work::RunTool(run) => drop(self.names.insert(work.id(), run.tool.clone())),
                _ => {}
            }
        }
        for run in past.unknown() {
            let text = format!(
                "{} was running when the run was broken off; nobody knows what it did",
                one_line(&run.tool)
            );
            self.line("?", WARN, &text);
        }
    }
}
