//! The last lines of a run that name something to copy: they fit the terminal, and what is copied is never broken.

use std::path::Path;

use crate::cli::out;

/// The columns before the value of a line.
const BEFORE: usize = 9;

/// Where the session is: its path, or from here where that fits better; its name, which commands take too, where neither
/// fits.
pub(super) fn session(path: &str, id: &str) -> String {
    session_within(path, id, out::width_of_errors())
}

/// How to continue with a run that was cancelled; the command stands on a line of its own where it does not fit beside.
pub(super) fn resume(id: &str, task: &str) -> String {
    resume_within(id, task, out::width_of_errors())
}

fn session_within(path: &str, id: &str, width: Option<usize>) -> String {
    let here = std::env::current_dir().ok();
    let near = here.and_then(|here| Some(Path::new(path).strip_prefix(here).ok()?.display().to_string()));
    let fits = |value: &&str| width.is_none_or(|width| BEFORE + value.chars().count() <= width);
    let value = [Some(path), near.as_deref()].into_iter().flatten().find(fits).unwrap_or(id);
    format!("session  {value}\n")
}

fn resume_within(id: &str, task: &str, width: Option<usize>) -> String {
    let command = format!("unfazed run --resume {id}{task}");
    let fits = width.is_none_or(|width| BEFORE + command.chars().count() <= width);
    if fits { format!("resume   {command}\n") } else { format!("resume\n  {command}\n") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_fit_the_terminal_and_break_nothing() {
        let path = format!("/data/{}/abc.jsonl", "x".repeat(50));
        assert_eq!(session_within(&path, "abc", None), format!("session  {path}\n"));
        assert_eq!(session_within(&path, "abc", Some(60)), "session  abc\n");
        let near = std::env::current_dir().unwrap().join("s/abc.jsonl").display().to_string();
        assert_eq!(session_within(&near, "abc", Some(21)), "session  s/abc.jsonl\n");
        assert_eq!(resume_within("abc", " 'TASK'", Some(60)), "resume   unfazed run --resume abc 'TASK'\n");
        assert_eq!(resume_within("abc", "", Some(30)), "resume\n  unfazed run --resume abc\n");
    }
}
