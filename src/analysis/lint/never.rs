//! Classes that are to be retried, and are in `never_retry` wherever that would hold.

use indexmap::IndexMap;
use serde_json::Value;

use super::LintFindings;
use crate::policy::decode::list;
use crate::policy::merge::{AnyTrail, LayerWord, WordKind};
use crate::policy::{LayerKind, Origin};
use crate::text::{Code, Diagnostic, Span};

/// What the files' words on `retry_on` name, and whether it is retried at some name.
#[derive(Default)]
pub(super) struct NeverRetried {
    words: IndexMap<Span, NamedClass>,
}

#[derive(Default)]
struct NamedClass {
    classes: IndexMap<String, bool>,
    never: Option<Origin>,
}

/// The two lists of one name.
#[derive(Default)]
pub(super) struct ClassLists {
    named: Vec<(Span, Vec<String>)>,
    never: Option<(Vec<String>, Origin)>,
}

impl ClassLists {
    /// Observes a value, if it is one of the lists.
    pub(super) fn observe(&mut self, path: &str, trail: &dyn AnyTrail, words: &[LayerWord]) {
        if path.ends_with("retry.retry_on") {
            let of_files = words.iter().filter(|word| word.scope != LayerKind::Builtin);
            self.named = of_files.map(|word| (word.span, named(word))).collect();
        } else if path.ends_with("retry.never_retry") {
            self.never = trail.value().map(|(value, origin)| (classes(Some(&value)), origin));
        }
    }
}

impl NeverRetried {
    /// Holds the lists of one name against each other.
    pub(super) fn compare(&mut self, lists: ClassLists) {
        let Some((never, origin)) = lists.never else { return };
        for (span, classes) in lists.named {
            let held = self.words.entry(span).or_default();
            for class in classes {
                let retried = !never.contains(&class);
                if !retried {
                    held.never = Some(origin);
                }
                *held.classes.entry(class).or_default() |= retried;
            }
        }
    }

    /// Says what is never retried.
    pub(super) fn finish(self, found: &mut LintFindings<'_>) {
        for (span, named) in self.words {
            let dead = named.classes.iter().filter(|(_, retried)| !**retried);
            let dead: Vec<&str> = dead.map(|(class, _)| class.as_str()).collect();
            let (Some(never), false) = (named.never, dead.is_empty()) else { continue };
            let message = format!(
                "`retry_on` names {}, which `never_retry` excludes; `never_retry` takes precedence",
                list(&dead)
            );
            let problem = Diagnostic::warning(Code::NEVER_RETRIED, span, message);
            let problem = match found.place(never) {
                Some(at) => problem.also(at, "never retried"),
                None => problem.help("the built-in `never_retry` has the classes that no retry cures"),
            };
            found.push(problem.help("remove it from one of the two: `never_retry: {remove: [...]}`"));
        }
    }
}

/// What a word puts into the list.
fn named(word: &LayerWord) -> Vec<String> {
    let after = classes(word.after.as_ref());
    match word.kind {
        WordKind::Unset => Vec::new(),
        WordKind::Set => after,
        WordKind::Edit => {
            let before = classes(word.before.as_ref());
            after.into_iter().filter(|class| !before.contains(class)).collect()
        }
    }
}

fn classes(list: Option<&Value>) -> Vec<String> {
    let list = list.and_then(Value::as_array).into_iter().flatten();
    list.filter_map(Value::as_str).map(str::to_owned).collect()
}
