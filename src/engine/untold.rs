//! Changes kept until other hosts have received them.

use std::collections::VecDeque;

/// The maximum number of kept changes. Older ones are lost.
// An unreachable store must not fill the memory; the oldest changes matter least when it answers.
const MOST_UNTOLD: usize = 1000;

/// Keeps a change for other hosts.
pub(super) fn remember<T>(untold: &mut VecDeque<T>, act: T) {
    if untold.len() >= MOST_UNTOLD {
        untold.pop_front();
    }
    untold.push_back(act);
}
