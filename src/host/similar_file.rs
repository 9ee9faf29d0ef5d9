//! The file that is meant by a path that leads nowhere.

use std::path::{Path, PathBuf};

use super::plain_path::plain;
use crate::text::did_you_mean;

/// So many entries of a folder are looked at for one that may be meant.
const MOST_ENTRIES: usize = 1_000;

/// The file that is most likely meant by a path that leads nowhere: one next to it whose name is near, or one of that name
/// in the folder above or in one below.
pub(crate) fn similar_file(path: &Path) -> Option<PathBuf> {
    let wanted = path.file_name()?.to_str()?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let entries: Vec<PathBuf> = std::fs::read_dir(folder)
        .ok()?
        .take(MOST_ENTRIES)
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    let names: Vec<String> = entries
        .iter()
        .filter(|entry| entry.extension().is_some_and(|end| end == "yaml" || end == "yml") && entry.is_file())
        .filter_map(|entry| Some(entry.file_name()?.to_str()?.to_owned()))
        .collect();
    let stem = |name: &str| name.rsplit_once('.').map_or(name.to_owned(), |(stem, _)| stem.to_owned());
    let same = names.iter().find(|name| stem(name) == wanted || stem(name) == stem(wanted));
    let beside = same.map(String::as_str).or_else(|| did_you_mean(wanted, names.iter().map(String::as_str)));
    if let Some(name) = beside {
        return Some(plain(&path.with_file_name(name)));
    }
    let around = [folder.join("..")].into_iter().chain(entries.into_iter().filter(|entry| entry.is_dir()));
    around.map(|folder| plain(&folder.join(wanted))).find(|path| path.is_file())
}
