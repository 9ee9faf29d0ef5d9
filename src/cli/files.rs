//! Reading what the user names on the command line.

use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};

use super::exit::CommandFailure;

/// The largest file that is read at all; loaders have their own, smaller limits and name them.
const MOST: u64 = 64 << 20;

/// Reads a file whole.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, CommandFailure> {
    bytes(path).map_err(|error| {
        let near = crate::host::similar_file(path).filter(|_| error.kind() == ErrorKind::NotFound);
        match near {
            Some(near) => CommandFailure::Usage(format!(
                "cannot read {}: {}; did you mean {}?",
                path.display(),
                crate::host::file_error(&error),
                near.display()
            )),
            None => CommandFailure::io(format!("cannot read {}", path.display()), error),
        }
    })
}

/// Reads a file whole. Whatever is no file may never end, or never begin; it is not even opened.
pub(crate) fn bytes(path: &Path) -> Result<Vec<u8>, Error> {
    crate::host::read_file(path, MOST)
}

/// Whether a name that may be something else is meant to be that of a file.
pub(crate) fn is_meant(name: &str) -> bool {
    let ends = ["yaml", "yml", "json", "jsonl"];
    let path = Path::new(name);
    path.components().count() > 1 || path.extension().is_some_and(|end| ends.iter().any(|one| end == *one))
}

/// The files named by `paths`: a folder stands for all `.yaml` and `.yml` files below it, in order of name. With
/// what could not be looked into.
pub(crate) fn expand(paths: &[PathBuf]) -> (Vec<PathBuf>, Vec<CommandFailure>) {
    let (mut files, mut failed) = (Vec::new(), Vec::new());
    for path in paths {
        if path.is_dir() {
            walk(path, &mut files, &mut failed);
        } else {
            files.push(path.clone());
        }
    }
    (files, failed)
}

/// The path that is the same however the file is named.
pub(crate) fn one(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_path_buf())
}

fn walk(dir: &Path, files: &mut Vec<PathBuf>, failed: &mut Vec<CommandFailure>) {
    let entries = std::fs::read_dir(dir).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let entries = match entries {
        Ok(entries) => entries,
        Err(error) => {
            return failed
                .push(CommandFailure::io(format!("cannot read the folder {}", dir.display()), error));
        }
    };
    let mut paths: Vec<_> = entries.into_iter().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        let hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        if hidden {
            continue;
        }
        // Symbolic links to folders are not followed: they may lead in circles.
        if path.is_dir() && !path.is_symlink() {
            walk(&path, files, failed);
        } else if path.is_file() && path.extension().is_some_and(|ext| ext == "yaml" || ext == "yml") {
            files.push(path);
        }
    }
}
