//! What went wrong with a file, in plain words.

use std::io;

/// Why a file cannot be read or written, without the numbers of the system.
pub(crate) fn file_error(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "there is no such file".to_owned(),
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        io::ErrorKind::IsADirectory => "it is a folder".to_owned(),
        io::ErrorKind::NotADirectory => "a part of its path is no folder".to_owned(),
        io::ErrorKind::StorageFull => "the disk is full".to_owned(),
        io::ErrorKind::ReadOnlyFilesystem => {
            "nothing can be written there: the file system is read-only".to_owned()
        }
        _ => without_number(&error.to_string()).to_owned(),
    }
}

/// What a system says, without the number that it gives to it.
pub(crate) fn without_number(said: &str) -> &str {
    said.split(" (os error").next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_file_has_no_number_of_the_system() {
        let error = std::fs::read("no/such/file").unwrap_err();
        assert_eq!(file_error(&error), "there is no such file");
    }
}
