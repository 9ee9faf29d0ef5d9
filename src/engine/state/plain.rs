//! Queries and updates for a host that starts tool calls itself.

use super::State;

impl State {
    /// Whether a call of the tool can start, and succeed at once, without a change of the state: no failure is
    /// remembered, and no other call is in flight.
    pub fn is_quiet(&self, tool: &str) -> bool {
        // A success resets failures, and calls in flight may reach the breaker's threshold: both need a step.
        self.tools.is_quiet(tool) && self.is_quiet_otherwise(tool)
    }

    /// The same, without the health of the tool.
    pub(in crate::engine) fn is_quiet_otherwise(&self, tool: &str) -> bool {
        self.queue.is_free(tool) && !self.loops.has_failed(tool)
    }

    /// Whether no call can end the run: it has no deadline, and its end is not near.
    pub fn is_open_ended(&self) -> bool {
        // Near its end a run may refuse calls or announce the final turn; only a step decides about that.
        !self.is_over()
            && !self.run.is_empty()
            && self.closing.is_none()
            && self.context.deadline.is_none()
            && !self.ending.is_near()
            && self.ending.stop().is_none()
    }

    /// Whether there is state that the next turn resets. Without proposed turns, any call may begin one.
    pub fn knows_for_turn(&self) -> bool {
        self.tools.knows_for_turn()
    }

    /// The number of batches so far.
    pub const fn batches(&self) -> u64 {
        self.batches
    }

    /// Counts `calls` permits of the tool for calls that the host has started itself.
    pub fn occupy(&mut self, tool: &str, calls: u32) {
        for _ in 0..calls {
            self.queue.enter(tool);
        }
    }

    /// Takes over the batch number that the host has reached.
    pub fn count_batches(&mut self, batches: u64) {
        // Numbers are unique, or two calls would have one idempotency key.
        self.batches = self.batches.max(batches);
    }
}
