//! What a host may know of the state that begins calls of tools by itself, and what it tells it of them.

use super::State;

impl State {
    /// Whether a call of the tool may begin, and go well at once, without a change of what is known here: no failure is
    /// known, and no other call is in flight.
    pub fn is_quiet(&self, tool: &str) -> bool {
        // A success ends what is known of failures, and calls in flight may fill the breaker: both need a step.
        self.tools.is_quiet(tool) && self.is_quiet_otherwise(tool)
    }

    /// The same, but for what is known of the health of the tool.
    pub(in crate::engine) fn is_quiet_otherwise(&self, tool: &str) -> bool {
        self.queue.is_free(tool) && !self.loops.has_failed(tool)
    }

    /// Whether the run continues whatever is called: it has no deadline, and its end is not near.
    pub fn is_open_ended(&self) -> bool {
        // Near its end a run may refuse calls or announce the final turn; only a step decides about that.
        !self.is_over()
            && !self.run.is_empty()
            && self.closing.is_none()
            && self.context.deadline.is_none()
            && !self.ending.is_near()
            && self.ending.stop().is_none()
    }

    /// Whether something is known that is forgotten with the next turn. Any call may begin one, where the host proposes none.
    pub fn knows_for_turn(&self) -> bool {
        self.tools.knows_for_turn()
    }

    /// How many batches of calls there were.
    pub const fn batches(&self) -> u64 {
        self.batches
    }

    /// So many calls of the tool that the host has begun by itself have a place from now on.
    pub fn occupy(&mut self, tool: &str, calls: u32) {
        for _ in 0..calls {
            self.queue.enter(tool);
        }
    }

    /// The host has counted so many batches by itself.
    pub fn count_batches(&mut self, batches: u64) {
        // Numbers are never given twice, or two calls would have one idempotency key.
        self.batches = self.batches.max(batches);
    }
}
