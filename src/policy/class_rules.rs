//! What is asked of the rules for retries: those for failures of a class.

use super::{AttemptLimit, Backoff, ClassRetry, ErrorClass, RetryPolicy, ServerDelay, Setting, TimeBound};

/// The part of a retry policy that depends on the class of the failure.
#[derive(Clone, Copy, Debug)]
pub struct ClassRules<'p> {
    /// A failure at this attempt of the call, or later, is not followed by another.
    pub max_attempts: &'p Setting<AttemptLimit>,
    /// The delay before the next attempt.
    pub backoff: &'p Setting<Backoff>,
    /// What a delay asked for by the server does.
    pub server_delay: &'p Setting<ServerDelay>,
}

impl RetryPolicy {
    /// The rules for failures of a class.
    #[inline]
    pub fn for_class(&self, class: ErrorClass) -> ClassRules<'_> {
        if self.by_class.is_empty() { self.for_others() } else { self.for_one(class) }
    }

    /// As [`for_class`](Self::for_class). Out of line: few policies have such rules.
    #[inline(never)]
    fn for_one(&self, class: ErrorClass) -> ClassRules<'_> {
        match self.by_class.get(class) {
            Some(ClassRetry { max_attempts, backoff, server_delay }) => {
                ClassRules { max_attempts, backoff, server_delay }
            }
            None => self.for_others(),
        }
    }

    /// The rules for failures of the classes that have none of their own.
    #[inline]
    pub const fn for_others(&self) -> ClassRules<'_> {
        let Self { max_attempts, backoff, server_delay, .. } = self;
        ClassRules { max_attempts, backoff, server_delay }
    }

    /// The same rules, where the waits of a turn have a bound of their own.
    #[must_use]
    pub(crate) fn within(mut self, turn: Setting<TimeBound>) -> Self {
        // A bound for the turn only shortens: two bounds that both hold are as tight as the tighter one.
        let shorter = match (self.total_delay.value.length(), turn.value.length()) {
            (Some(own), Some(turn)) => turn < own,
            (own, turn) => own.is_none() && turn.is_some(),
        };
        if shorter {
            self.total_delay = turn;
        }
        self
    }

    /// The rules for what the model has to correct: it is asked again after a delay of their own.
    pub fn for_correction(&self, class: ErrorClass) -> ClassRules<'_> {
        // In a correction the model is at fault and no server is short of capacity, so the delay has a key of its
        // own.
        ClassRules { backoff: &self.correction_backoff, ..self.for_class(class) }
    }
}
