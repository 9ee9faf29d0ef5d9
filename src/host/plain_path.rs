//! Paths as people would write them.

use std::path::{Component, Path, PathBuf};

/// The path without the steps that lead nowhere: `a/../b` is `b`.
pub(super) fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for step in path.components() {
        match step {
            Component::CurDir => {}
            Component::ParentDir if matches!(plain.components().next_back(), Some(Component::Normal(_))) => {
                plain.pop();
            }
            step => plain.push(step),
        }
    }
    plain
}
