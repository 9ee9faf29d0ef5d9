//! Two texts as a unified diff, which `patch -p0` takes.

use std::fmt::Write as _;

/// The lines shown before and after a change.
const AROUND: usize = 3;
/// Texts with more lines that differ are shown as one change.
const MOST_STEPS: usize = 1_000;

/// What becomes of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DiffStep {
    Keep,
    Remove,
    Add,
}

/// The changes of a file; nothing if there are none.
pub(super) fn diff(name: &str, old: &str, new: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) =
        (old.split_inclusive('\n').collect(), new.split_inclusive('\n').collect());
    let steps = steps(&old, &new);
    let mut out = String::new();
    for hunk in hunks(&steps) {
        if out.is_empty() {
            out = format!("--- {name}\n+++ {name}\n");
        }
        let before = &steps[..hunk.start];
        let (mut from, mut to) = (count(before, DiffStep::Add), count(before, DiffStep::Remove));
        let steps = &steps[hunk];
        let (lines, others) = (count(steps, DiffStep::Add), count(steps, DiffStep::Remove));
        // Writing into a string does not fail.
        let _ = writeln!(out, "@@ -{} +{} @@", range(from, lines), range(to, others));
        for step in steps {
            let (sign, line) = match step {
                DiffStep::Keep => (' ', old[from]),
                DiffStep::Remove => ('-', old[from]),
                DiffStep::Add => ('+', new[to]),
            };
            from += usize::from(*step != DiffStep::Add);
            to += usize::from(*step != DiffStep::Remove);
            let end = if line.ends_with('\n') { "" } else { "\n\\ No newline at end of file\n" };
            let _ = write!(out, "{sign}{line}{end}");
        }
    }
    out
}

/// How many lines a text has of what is neither only in the other.
fn count(steps: &[DiffStep], except: DiffStep) -> usize {
    steps.iter().filter(|step| **step != except).count()
}

fn range(before: usize, lines: usize) -> String {
    match lines {
        0 => format!("{before},0"),
        1 => format!("{}", before + 1),
        _ => format!("{},{lines}", before + 1),
    }
}

/// The steps that are shown together.
fn hunks(steps: &[DiffStep]) -> Vec<std::ops::Range<usize>> {
    let mut hunks: Vec<std::ops::Range<usize>> = Vec::new();
    for (at, _) in steps.iter().enumerate().filter(|(_, step)| **step != DiffStep::Keep) {
        let (start, end) = (at.saturating_sub(AROUND), (at + 1 + AROUND).min(steps.len()));
        match hunks.last_mut() {
            Some(last) if start <= last.end => last.end = end,
            _ => hunks.push(start..end),
        }
    }
    hunks
}

/// The fewest steps from one text to the other (Myers, "An O(ND) Difference Algorithm and Its Variations", 1986).
fn steps(old: &[&str], new: &[&str]) -> Vec<DiffStep> {
    let most = (old.len() + new.len()).min(MOST_STEPS);
    // The furthest line of `old` on each diagonal, after each number of changes.
    let mut furthest = vec![0_usize; 2 * most + 3];
    let mut trail = Vec::new();
    for changes in 0..=most {
        trail.push(furthest.clone());
        for diagonal in (0..=2 * changes).step_by(2) {
            let at = most + 1 + diagonal - changes;
            let added = diagonal == 0 || (diagonal != 2 * changes && furthest[at - 1] < furthest[at + 1]);
            let mut x = if added { furthest[at + 1] } else { furthest[at - 1] + 1 };
            // `y` is `x` less the diagonal; before the first line of `new` there is nothing.
            let Some(mut y) = (x + most + 1).checked_sub(at) else { continue };
            while x < old.len() && y < new.len() && old[x] == new[y] {
                (x, y) = (x + 1, y + 1);
            }
            furthest[at] = x;
            if x == old.len() && y == new.len() {
                return back(&trail, most, old.len(), new.len());
            }
        }
    }
    let whole =
        std::iter::repeat_n(DiffStep::Remove, old.len()).chain(std::iter::repeat_n(DiffStep::Add, new.len()));
    whole.collect()
}

/// The way that led to the ends of both texts.
fn back(trail: &[Vec<usize>], most: usize, mut x: usize, mut y: usize) -> Vec<DiffStep> {
    let mut steps = Vec::new();
    for (changes, furthest) in trail.iter().enumerate().rev() {
        let at = x + most + 1 - y;
        let lowest = at + changes == most + 1;
        let highest = at == most + 1 + changes;
        let added = lowest || (!highest && furthest[at - 1] < furthest[at + 1]);
        let came = if added { at + 1 } else { at - 1 };
        let (before_x, before_y) =
            if changes == 0 { (0, 0) } else { (furthest[came], furthest[came] + most + 1 - came) };
        while x > before_x && y > before_y {
            steps.push(DiffStep::Keep);
            (x, y) = (x - 1, y - 1);
        }
        if changes > 0 {
            steps.push(if added { DiffStep::Add } else { DiffStep::Remove });
            (x, y) = (before_x, before_y);
        }
    }
    steps.reverse();
    steps
}

#[cfg(test)]
mod tests {
    use super::diff;
    use proptest::prelude::*;

    #[test]
    fn changes_are_shown_with_the_lines_around_them() {
        let old = "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\nk\nl\n";
        let new = "a\nb\nC\nd\ne\nf\ng\nh\ni\nj\nk";
        assert_eq!(
            diff("x.yaml", old, new),
            "--- x.yaml\n+++ x.yaml\n@@ -1,6 +1,6 @@\n a\n b\n-c\n+C\n d\n e\n f\n@@ -8,5 +8,4 @@\n h\n i\n j\n-k\n-l\n+k\n\\ No newline at end of file\n"
        );
        assert_eq!(diff("x.yaml", old, old), "");
    }

    /// The lines of the new text, by the old one and the diff.
    fn patched(old: &str, diff: &str) -> String {
        let lines: Vec<&str> = old.split_inclusive('\n').collect();
        let (mut new, mut at) = (String::new(), 0);
        for line in diff.split_inclusive('\n').skip(2) {
            match line.split_at(1) {
                ("@", _) => {
                    let from = line.split([' ', ',']).nth(1).unwrap().trim_start_matches('-');
                    let from = from.parse::<usize>().unwrap();
                    let empty = line.split(' ').nth(1).unwrap().ends_with(",0");
                    let until = if empty { from } else { from - 1 };
                    new.extend(lines[at..until].iter().copied());
                    at = until;
                }
                (" ", text) => {
                    assert_eq!(lines[at], text);
                    new.push_str(text);
                    at += 1;
                }
                ("-", text) => {
                    assert_eq!(lines[at], text);
                    at += 1;
                }
                (_, text) => new.push_str(text),
            }
        }
        new.extend(lines[at..].iter().copied());
        new
    }

    proptest! {
        #[test]
        fn the_diff_leads_from_one_text_to_the_other(old in "([ab]\n){0,12}", new in "([abc]\n){0,12}") {
            prop_assert_eq!(patched(&old, &diff("x", &old, &new)), new);
        }
    }
}
