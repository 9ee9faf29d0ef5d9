//! Reading a file that somebody names: nothing that may never end, or never begin, is opened.

use std::fs::FileType;
use std::io::{Error, Read};
use std::path::Path;

/// The most bytes of a file that are read where nothing less is asked for; loaders have their own, smaller limits and name them.
pub(super) const MOST: u64 = 64 << 20;

/// Reads the first `most` bytes of a regular file.
///
/// # Errors
/// It cannot be read, or it is a folder, a pipe, a device or a socket.
pub(crate) fn read_file(path: &Path, most: u64) -> Result<Vec<u8>, Error> {
    let kind = std::fs::metadata(path)?.file_type();
    if !kind.is_file() {
        return Err(Error::other(format!("it is {}; only regular files are read", describe(kind))));
    }
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn describe(kind: FileType) -> &'static str {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        if kind.is_fifo() {
            return "a named pipe";
        }
        if kind.is_char_device() || kind.is_block_device() {
            return "a device";
        }
        if kind.is_socket() {
            return "a socket";
        }
    }
    if kind.is_dir() { "a folder" } else { "no regular file" }
}
