//! File names of a policy: the same files may have had other names when the session was recorded.

use std::collections::BTreeMap;

use crate::engine::{DirectiveKind, Directives, Note};

/// The earlier names of a policy's files. A session that was resumed from another folder has several for each.
#[derive(Debug, Default)]
pub(super) struct PolicyNames {
    /// The latest recorded name, by the present name.
    then: BTreeMap<String, String>,
}

impl PolicyNames {
    /// Replaces the file names in `now` by those in `then`, if the rest of a place is equal.
    pub(super) fn name_as(&mut self, then: &Directives, now: &mut Directives) {
        for (then, now) in then.0.iter().zip(&mut now.0) {
            if let (
                DirectiveKind::Note(Note::Warning { message: then }),
                DirectiveKind::Note(Note::Warning { message: now }),
            ) = (&then.order, &mut now.order)
            {
                self.name_in(then, now);
            }
            for (then, now) in then.because.iter().zip(&mut now.because) {
                let (then, now) = (&then.place, &mut now.place);
                if (then.line, then.column) == (now.line, now.column) {
                    self.name(&then.file, &mut now.file);
                }
            }
        }
    }

    /// Replaces the file name of a warning that begins with a place.
    fn name_in(&mut self, then: &str, now: &mut String) {
        let (Some((file, rest)), Some((named, same))) = (placed(then), placed(now)) else { return };
        if rest == same {
            let mut name = named.to_owned();
            self.name(file, &mut name);
            *now = name + rest;
        }
    }

    /// Replaces one file name by the recorded one. Two files never get the same name.
    fn name(&mut self, then: &str, now: &mut String) {
        // Nearly every reason is in a known file.
        if self.then.get(now.as_str()).is_some_and(|name| name == then) {
            then.clone_into(now);
            return;
        }
        let is_of_another = self.then.iter().any(|(file, name)| file != now && name == then);
        if is_of_another {
            if let Some(name) = self.then.get(now) {
                now.clone_from(name);
            }
        } else {
            self.then.insert(core::mem::replace(now, then.to_owned()), then.to_owned());
        }
    }
}

/// The file of a text that begins with a place, and the rest: `:3:12: ` and what follows.
fn placed(text: &str) -> Option<(&str, &str)> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.match_indices(':').find_map(|(at, _)| {
        let (file, rest) = text.split_at_checked(at)?;
        let mut parts = rest.splitn(4, ':').skip(1);
        let (line, column, text) = (parts.next()?, parts.next()?, parts.next()?);
        (is_number(line) && is_number(column) && text.starts_with(' ')).then_some((file, rest))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_a_place_is_what_stands_before_line_and_column() {
        assert_eq!(placed("p.yaml:3:12: no: value"), Some(("p.yaml", ":3:12: no: value")));
        assert_eq!(placed("C:\\p.yaml:3:12: no"), Some(("C:\\p.yaml", ":3:12: no")));
        assert_eq!(placed("event 3: nobody asked"), None);
    }

    #[test]
    fn a_file_may_be_named_otherwise_later_and_no_two_files_get_one_name() {
        let mut files = PolicyNames::default();
        let mut named = |then: &str, now: &str| {
            let mut name = now.to_owned();
            files.name(then, &mut name);
            name
        };
        assert_eq!(named("a.yaml", "/srv/a.yaml"), "a.yaml");
        assert_eq!(named("a.yaml", "/srv/b.yaml"), "/srv/b.yaml");
        assert_eq!(named("../a.yaml", "/srv/a.yaml"), "../a.yaml");
    }

    #[test]
    fn a_warning_is_the_same_whatever_the_file_is_called() {
        let mut files = PolicyNames::default();
        let mut now = "/srv/a.yaml:3:12: the message cannot be rendered".to_owned();
        files.name_in("a.yaml:3:12: the message cannot be rendered", &mut now);
        assert_eq!(now, "a.yaml:3:12: the message cannot be rendered");
        files.name_in("a.yaml:4:12: another one", &mut now);
        assert_eq!(now, "a.yaml:3:12: the message cannot be rendered");
    }
}
