//! The lock of a log, held by its writer.

use std::fs::{File, TryLockError};
use std::thread;
use std::time::Duration;

/// The number of attempts to take a lock, and the pause between them.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(5);

/// Takes the lock. A child process holds all files of the host, and so their locks, until it runs another program
/// (fork(2), flock(2)): a lock that is not free is tried again for a short time.
pub(super) fn lock(file: &File) -> Result<(), TryLockError> {
    for _ in 1..TRIES {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => thread::sleep(PAUSE),
            decided => return decided,
        }
    }
    file.try_lock()
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_lock_that_is_held_for_a_moment_is_no_other_writer() {
        let file = tempfile::NamedTempFile::new().unwrap();
        // Like a child process that does not yet run another program.
        let held = file.reopen().unwrap();
        held.lock().unwrap();
        let begun = Instant::now();
        let holder = thread::spawn(move || {
            while begun.elapsed() < PAUSE * 2 {
                std::hint::spin_loop();
            }
            drop(held);
        });
        lock(file.as_file()).unwrap();
        holder.join().unwrap();
        let other = file.reopen().unwrap();
        assert!(matches!(lock(&other), Err(TryLockError::WouldBlock)));
    }
}
