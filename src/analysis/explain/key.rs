//! One value of an explanation, or one block of them.

use super::{ExplainedValue, PolicyExplanation};
use crate::policy::ErrorClass;
use crate::text::did_you_mean::closest;

/// Rules of single classes, and the fields they have.
const BY_CLASS: &str = "by_class";
const OF_CLASSES: &[&str] = &["max_attempts", "backoff", "server_delay"];

/// Where the budgets of a run are written.
const BUDGETS: &str = "limits.run";

/// A path that leads to no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{subject} has no `{key}`{help}")]
pub(crate) struct UnknownKey {
    subject: String,
    key: String,
    help: String,
}

impl PolicyExplanation {
    /// The value at a path alone, `retry.max_attempts`, or all values of a block, `retry`. Of a class of errors,
    /// `by_class.timeout` or `retry.by_class.timeout.backoff`, what holds for it, though it be what holds for all.
    ///
    /// # Errors
    /// If the path leads to no value.
    pub(crate) fn only(&self, key: &str) -> Result<Self, UnknownKey> {
        let of_classes = key.strip_prefix("retry.").unwrap_or(key).strip_prefix(BY_CLASS);
        let values = match of_classes {
            Some("") => self.inside("retry.by_class"),
            Some(rest) if rest.starts_with('.') => self.of_class(rest.trim_start_matches('.')),
            _ => self.inside(key),
        };
        if (key == BUDGETS || key.starts_with("limits.run.")) && values.is_empty() {
            return Err(UnknownKey {
                subject: "the run".to_owned(),
                key: key.to_owned(),
                help: ": no file sets a budget".to_owned(),
            });
        }
        if key.is_empty() || values.is_empty() {
            return Err(self.unknown(key));
        }
        // They stand at the top of a policy, whatever was asked about.
        if values.iter().all(|value| value.path.starts_with(BUDGETS)) {
            return Ok(Self::of("the run".to_owned(), Vec::new(), values));
        }
        Ok(Self {
            rules: self.rules.clone(),
            together: self.together.clone(),
            ..Self::of(self.subject.clone(), self.path.clone(), values)
        })
    }

    fn inside(&self, key: &str) -> Vec<ExplainedValue> {
        let inside =
            |path: &str| path.strip_prefix(key).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        self.values.iter().chain(&self.budgets).filter(|value| inside(&value.path)).cloned().collect()
    }

    /// `timeout`, `timeout.backoff`: what the class has of its own, else what holds for all classes.
    fn of_class(&self, path: &str) -> Vec<ExplainedValue> {
        let (class, field) = path.split_once('.').unwrap_or((path, ""));
        if ErrorClass::parse(class).is_err() {
            return Vec::new();
        }
        let of_field = |name: &&str| field.is_empty() || *name == field;
        let held = |name: &str| {
            let own = self.inside(&format!("retry.by_class.{class}.{name}"));
            if own.is_empty() { self.inside(&format!("retry.{name}")) } else { own }
        };
        OF_CLASSES.iter().copied().filter(of_field).flat_map(held).collect()
    }

    fn unknown(&self, key: &str) -> UnknownKey {
        let paths = || self.values.iter().map(|value| value.path.as_str());
        // Many leave out the block, and mean the one field of that name.
        let field = paths().find(|path| path.rsplit_once('.').is_some_and(|(_, field)| field == key));
        let with = |help: String| UnknownKey { subject: self.subject.clone(), key: key.to_owned(), help };
        if key.ends_with(BY_CLASS) {
            return with("; no class of errors has rules of its own".to_owned());
        }
        let class = key.strip_prefix("retry.").unwrap_or(key).strip_prefix("by_class.");
        let class = class.map(|rest| rest.split_once('.').map_or(rest, |(class, _)| class));
        if let Some(Err(error)) = class.map(ErrorClass::parse) {
            return with(format!("; {error}"));
        }
        let help = match field.or_else(|| closest(key, paths())) {
            Some(meant) => format!(" (did you mean `{meant}`?)"),
            None => format!("; there are {}", paths().collect::<Vec<_>>().join(", ")),
        };
        with(help)
    }
}
