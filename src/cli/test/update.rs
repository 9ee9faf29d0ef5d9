//! `--update`: exact numbers that do not hold are written anew.

use std::path::Path;

use super::PlayedFile;
use crate::cli::exit::CommandFailure;
use crate::cli::out;

/// Writes the `delays` and `attempts` that do not hold anew, where that is all that changes. What was written no longer
/// counts as a failure.
pub(super) fn rewrite(path: &Path, bytes: &[u8], played: &mut PlayedFile) -> Result<(), CommandFailure> {
    let Ok(text) = std::str::from_utf8(bytes) else { return Ok(()) };
    // Places are counted behind a byte order mark.
    let (mark, text) = text.strip_prefix('\u{feff}').map_or(("", text), |text| ("\u{feff}", text));
    let mut changes = Vec::new();
    for (_, verdict) in &mut played.verdicts {
        verdict.mismatches.retain(|mismatch| match mismatch.update() {
            Some((range, new)) if plain(text, &range) => {
                changes.push((range, new.to_owned()));
                false
            }
            _ => true,
        });
    }
    if changes.is_empty() {
        return Ok(());
    }
    changes.sort_by_key(|(range, _)| range.start);
    // An alias stands for one text in several cases, and they need not agree.
    let overlap = changes.windows(2).any(|pair| pair[0].0.end > pair[1].0.start);
    if overlap {
        return Err(CommandFailure::Stopped(format!(
            "{}: an expectation that several cases share by an alias cannot be updated; write it out",
            path.display()
        )));
    }
    let count = changes.len();
    let new = apply(text, changes);
    std::fs::write(path, format!("{mark}{new}"))
        .map_err(|error| CommandFailure::io(format!("cannot write {}", path.display()), error))?;
    out::say(&format!("{}: {count} expectation(s) written anew\n", path.display()));
    Ok(())
}

/// Whether the text is on one line and without a comment, so that nothing but the value is lost.
fn plain(text: &str, range: &std::ops::Range<usize>) -> bool {
    text.get(range.clone()).is_some_and(|old| !old.is_empty() && !old.contains(['\n', '#', '&', '*']))
}

fn apply(text: &str, changes: Vec<(std::ops::Range<usize>, String)>) -> String {
    let mut out = text.to_owned();
    for (range, new) in changes.into_iter().rev() {
        out.replace_range(range, &new);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_value_is_written_anew() {
        let text = "delays: [1s, 2s]   # why\nattempts: 3\n";
        let changes = vec![(8..16, "[1s]".to_owned()), (35..36, "2".to_owned())];
        assert_eq!(apply(text, changes), "delays: [1s]   # why\nattempts: 2\n");
    }

    #[test]
    fn a_value_with_a_comment_or_of_several_lines_is_left_alone() {
        assert!(plain("[1s, 2s]", &(0..8)));
        assert!(!plain("[1s, # x\n 2s]", &(0..13)));
        assert!(!plain("- 1s\n- 2s", &(0..9)));
    }
}
