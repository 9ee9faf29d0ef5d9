//! Policy files: those that are named, and those that they extend.

use std::fs;
use std::io::Read;
use std::path::{Component, Path, PathBuf};

use pyo3::prelude::*;

/// The most bytes of a file that are read, as in the host of Rust; the policy names its own, smaller limit.
const MOST: u64 = 64 << 20;

/// The text of a file that is named.
pub(crate) fn named(path: &Path) -> PyResult<(String, Vec<u8>)> {
    let bytes = read(path).map_err(|error| {
        // The type of the exception is that of the kind: `FileNotFoundError`, `PermissionError`.
        std::io::Error::new(error.kind(), format!("cannot read {}: {error}", path.display()))
    })?;
    Ok((path.display().to_string(), bytes))
}

/// The text of the file at `path`, which the file `from` extends.
pub(crate) fn extended(from: &str, path: &str) -> Result<(String, Vec<u8>), String> {
    let folder = Path::new(from).parent().unwrap_or(Path::new(""));
    let path = plain(&folder.join(path));
    match read(&path) {
        Ok(bytes) => Ok((path.display().to_string(), bytes)),
        Err(error) => Err(format!("cannot read `{}`: {error}", path.display())),
    }
}

/// A text has no folder, so nothing is beside it.
pub(crate) fn none_beside_a_text(_: &str, path: &str) -> Result<(String, Vec<u8>), String> {
    Err(format!(
        "`{path}` is a file, and a text extends none: write the policy to a file and load it with `Policy.load`"
    ))
}

fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    // A pipe would be waited for.
    if !fs::metadata(path)?.is_file() {
        return Err(std::io::Error::other("only regular files are read"));
    }
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(MOST).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The path without `.` and, where a folder comes before it, `..`: one file has one name.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if matches!(plain.components().next_back(), Some(Component::Normal(_))) => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    plain
}
