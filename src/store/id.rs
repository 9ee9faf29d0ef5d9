//! The ids of sessions, which are restricted because they name files.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::host::new_uuid;

const MAX_CHARS: usize = 128;

/// The id of a session: letters, digits, `.`, `_` and `-`, not beginning with a dot, at most 128 characters. No id
/// leads out of a folder.
///
/// ```
/// use unfazed::store::SessionId;
/// assert!("2026-11-21_trip".parse::<SessionId>().is_ok());
/// assert!("../other".parse::<SessionId>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SessionId(String);

/// Why a text cannot be the id of a session.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SessionIdError {
    /// The text is empty.
    #[error("a session id cannot be empty")]
    Empty,
    /// The text is too long; its length in characters.
    #[error("a session id has at most {MAX_CHARS} characters, this one has {0}")]
    Long(usize),
    /// The text begins with a dot.
    #[error("the session id {0:?} begins with a dot; begin it with a letter or digit")]
    Dot(String),
    /// The text contains a character that is not allowed.
    #[error("the session id {id:?} has the character {found:?}; use letters a-z, digits, `.`, `_` and `-`")]
    Character {
        /// The id.
        id: String,
        /// The character.
        found: char,
    },
}

impl SessionId {
    /// A new id: a UUID of version 7. Later ones sort after earlier ones.
    pub fn generate() -> Self {
        Self(new_uuid().to_string())
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for SessionId {
    type Err = SessionIdError;

    fn from_str(id: &str) -> Result<Self, Self::Err> {
        Self::try_from(id.to_owned())
    }
}

impl TryFrom<String> for SessionId {
    type Error = SessionIdError;

    fn try_from(id: String) -> Result<Self, Self::Error> {
        if id.is_empty() {
            return Err(SessionIdError::Empty);
        }
        if id.len() > MAX_CHARS {
            return Err(SessionIdError::Long(id.chars().count()));
        }
        // Safe in file names on every system, in addresses, and in shells.
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if let Some(found) = id.chars().find(|c| !allowed(*c)) {
            return Err(SessionIdError::Character { id, found });
        }
        // `.`, `..` and hidden files.
        if id.starts_with('.') {
            return Err(SessionIdError::Dot(id));
        }
        Ok(Self(id))
    }
}

impl From<SessionId> for String {
    fn from(id: SessionId) -> Self {
        id.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn generated_ids_are_valid_and_in_order() {
        let ids: Vec<_> = (0..100).map(|_| SessionId::generate()).collect();
        assert!(ids.is_sorted());
        assert!(ids.iter().all(|id| id.as_str().parse::<SessionId>().as_ref() == Ok(id)));
    }

    #[test]
    fn what_cannot_be_an_id_is_explained() {
        let long = "x".repeat(129);
        let shown: Vec<_> =
            ["", &long, ".hidden", "..", "a/b", "../../etc/passwd", "a\\b", "a b", "a\0", "ü"]
                .map(|id| id.parse::<SessionId>().unwrap_err().to_string())
                .into();
        insta::assert_snapshot!(shown.join("\n"));
    }

    #[test]
    fn ids_in_data_are_checked_as_well() {
        assert!(serde_json::from_str::<SessionId>(r#""fine""#).is_ok());
        assert!(serde_json::from_str::<SessionId>(r#""../fine""#).is_err());
    }

    proptest! {
        #[test]
        fn no_id_leads_out_of_its_folder(text in any::<String>()) {
            if let Ok(id) = text.parse::<SessionId>() {
                let path = std::path::Path::new("sessions").join(format!("{id}.jsonl"));
                prop_assert_eq!(path.parent(), Some(std::path::Path::new("sessions")));
            }
        }
    }
}
