//! One value of an explanation, or one block of them.

use super::Explanation;
use crate::policy::did_you_mean::closest;

/// A path that leads to no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{subject} has no `{key}`{help}")]
pub struct UnknownKey {
    subject: String,
    key: String,
    help: String,
}

impl Explanation {
    /// The value at a path alone, `retry.max_attempts`, or all values of a block, `retry`.
    ///
    /// # Errors
    /// If the path leads to no value.
    pub fn only(&self, key: &str) -> Result<Self, UnknownKey> {
        let inside =
            |path: &str| path.strip_prefix(key).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        let values: Vec<_> = self.values.iter().filter(|value| inside(&value.path)).cloned().collect();
        if key.is_empty() || values.is_empty() {
            return Err(self.unknown(key));
        }
        Ok(Self {
            subject: self.subject.clone(),
            values,
            delays: None,
            limits: Vec::new(),
            conditional: Vec::new(),
            left_out: Vec::new(),
            planner: None,
            path: self.path.clone(),
            rules: self.rules.clone(),
        })
    }

    fn unknown(&self, key: &str) -> UnknownKey {
        let paths = || self.values.iter().map(|value| value.path.as_str());
        // Many leave out the block, and mean the one field of that name.
        let field = paths().find(|path| path.rsplit_once('.').is_some_and(|(_, field)| field == key));
        let help = match field.or_else(|| closest(key, paths())) {
            Some(meant) => format!(" (did you mean `{meant}`?)"),
            None => format!("; there are {}", paths().collect::<Vec<_>>().join(", ")),
        };
        UnknownKey { subject: self.subject.clone(), key: key.to_owned(), help }
    }
}
