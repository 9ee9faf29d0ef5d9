//! What others need to know, kept until they do.

use std::collections::VecDeque;

/// So much is kept for others while they cannot be reached. What is older never reaches them.
// An unreachable store must not fill the memory; what is oldest matters least by the time it answers.
const MOST_UNTOLD: usize = 1000;

/// Keeps in mind what others need to know.
pub(super) fn remember<T>(untold: &mut VecDeque<T>, act: T) {
    if untold.len() >= MOST_UNTOLD {
        untold.pop_front();
    }
    untold.push_back(act);
}
