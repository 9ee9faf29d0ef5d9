//! One row of the table.

use core::fmt::Write as _;

use super::StatusPattern;
use crate::policy::{ErrorClass, Origin};
use crate::time::Nanos;

/// A row of the table. It matches if every list that is not empty matches: `words` by all of its elements, the others by
/// any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorRow {
    /// Statuses.
    pub status: Vec<StatusPattern>,
    /// Codes; case and the marks between words make no difference.
    pub code: Vec<String>,
    /// Types; case and the marks between words make no difference.
    pub kind: Vec<String>,
    /// Parts of the message; case, quotes, marks and the amount of space make no difference.
    pub message: Vec<String>,
    /// What the message, the code or the type speaks of, in any order: of each list one phrase.
    pub words: Vec<Vec<String>>,
    /// Parts of one of the details, compared as those of the message are.
    pub detail: Vec<String>,
    /// Names of providers, whatever their case.
    pub provider: Vec<String>,
    /// What the failure is.
    pub class: ErrorClass,
    /// Whether the same bytes will never work at the same place.
    pub request_at_fault: bool,
    /// How long to wait if the server does not say.
    pub wait: Option<Nanos>,
    /// Where the row is written.
    pub origin: Origin,
}

impl ErrorRow {
    /// What it matches, as it would be written: `status: [429], code: [insufficient_quota]`.
    pub fn matcher(&self) -> String {
        let lists = [
            ("status", self.status.iter().map(ToString::to_string).collect()),
            ("code", self.code.clone()),
            ("type", self.kind.clone()),
            ("detail", self.detail.clone()),
            ("provider", self.provider.clone()),
            ("message", self.message.clone()),
            ("words", self.words.iter().map(|concept| written(concept)).collect()),
        ];
        let named = lists.into_iter().filter(|(_, texts)| !texts.is_empty());
        let shown: Vec<_> = named.map(|(name, texts)| format!("{name}: [{}]", texts.join(", "))).collect();
        if shown.is_empty() { "everything".to_owned() } else { shown.join(", ") }
    }

    /// Whether its words tell a failure by what the message states: that something is used up, full, too large or refused.
    /// Other rows read denials themselves: `tool_use` ids that are *not* followed by results.
    pub(crate) const fn states(&self) -> bool {
        use ErrorClass::{AuthError, ContentFilter, ContextOverflow, Overloaded, QuotaExceeded, RateLimit};
        let of_limits = matches!(
            self.class,
            QuotaExceeded | ContextOverflow | RateLimit | Overloaded | ContentFilter | AuthError
        );
        // Without `words` a row quotes a provider's own sentence, and that is evidence whatever surrounds it.
        of_limits && !self.words.is_empty()
    }

    /// What it says of such a failure: `malformed_tool_call, request_at_fault`, `rate_limit, wait 1m`.
    pub fn tells(&self) -> String {
        let mut told = self.class.to_string();
        if self.request_at_fault {
            told += ", request_at_fault";
        }
        if let Some(wait) = self.wait {
            // Writing into a string does not fail.
            let _ = write!(told, ", wait {wait}");
        }
        told
    }
}

/// One phrase as it is, of several a list.
pub(crate) fn written(concept: &[String]) -> String {
    match concept {
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}
