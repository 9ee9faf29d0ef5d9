//! How often something happens that is to happen once, counted on the thread of a test.

use std::cell::Cell;

/// What is counted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Walk {
    /// A failure is held against the table of errors.
    Classify,
    /// The texts of a failure are searched for secrets.
    Redact,
    /// A value is measured by the host, which reads it.
    Measure,
    /// A value is measured by the interpreter, which cuts it.
    Size,
}

thread_local! {
    static WALKS: Cell<[u32; 4]> = const { Cell::new([0; 4]) };
}

/// It happens.
pub(crate) fn count(walk: Walk) {
    let mut walks = WALKS.get();
    walks[walk as usize] += 1;
    WALKS.set(walks);
}

/// How often it has happened since this was called last.
pub(crate) fn taken(walk: Walk) -> u32 {
    let mut walks = WALKS.get();
    let taken = std::mem::take(&mut walks[walk as usize]);
    WALKS.set(walks);
    taken
}
