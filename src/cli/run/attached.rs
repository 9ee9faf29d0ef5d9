//! Images and documents that come with a task.

use std::path::PathBuf;

use crate::cli::exit::CommandFailure;
use crate::host::{TaskAttachment, read_file};

/// Reads them.
pub(super) fn read(files: &[PathBuf]) -> Result<Vec<TaskAttachment>, CommandFailure> {
    // One byte more shows that a file is too large.
    let most = u64::try_from(TaskAttachment::MOST_BYTES).unwrap_or(u64::MAX).saturating_add(1);
    let read = |file: &PathBuf| {
        let bytes = read_file(file, most)
            .map_err(|error| CommandFailure::io(format!("cannot read {}", file.display()), error))?;
        let name = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy();
        TaskAttachment::new(&name, bytes)
            .map_err(|error| CommandFailure::Usage(format!("cannot attach {}: {error}", file.display())))
    };
    files.iter().map(read).collect()
}
