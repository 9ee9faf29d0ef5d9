//! How far simulations are, at the bottom of a terminal.

use std::time::{Duration, Instant};

use crate::cli::status::StatusLine;
use crate::cli::text::one_line;

/// What is over sooner than this is not spoken of, and the line is drawn no more often.
const EVERY: Duration = Duration::from_millis(200);

/// How far plays are. The line is gone when the value is dropped.
pub(crate) struct PlayProgress {
    status: StatusLine,
    drawn: Instant,
}

impl PlayProgress {
    /// Says it on standard error if that is a terminal.
    pub(crate) fn start() -> Self {
        Self { status: StatusLine::by_hand(), drawn: Instant::now() }
    }

    /// So much of a scenario is over under a policy, in a thousand parts.
    pub(super) fn told(&mut self, scenario: &str, policy: &str, over: u16) {
        self.say(|| line(scenario, policy, over));
    }

    /// Says so now and then.
    pub(crate) fn say(&mut self, line: impl FnOnce() -> String) {
        if self.drawn.elapsed() < EVERY {
            return;
        }
        self.status.say(line());
        self.status.draw();
        self.drawn = Instant::now();
    }
}

impl Drop for PlayProgress {
    fn drop(&mut self) {
        self.status.clear();
    }
}

fn line(scenario: &str, policy: &str, over: u16) -> String {
    let what = format!("{} under {}", one_line(scenario), one_line(policy));
    // Runs that are in flight when the time is over continue to their end.
    if over >= 1_000 { format!("{what}: the last runs") } else { format!("{what}: {} %", over / 10) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_told_how_much_of_the_time_is_over() {
        assert_eq!(line("a.yaml", "p.yaml", 437), "a.yaml under p.yaml: 43 %");
        assert_eq!(line("a.yaml", "p.yaml", 1_000), "a.yaml under p.yaml: the last runs");
    }
}
