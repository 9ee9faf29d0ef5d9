//! From what a provider or a tool reported to an error class, by a table that is data.

use core::fmt;
use core::str::FromStr;
use std::sync::Arc;

use super::excerpt::excerpt;
use super::texts::Texts;
use super::{ErrorClass, Origin};

/// What is known of a failure.
#[derive(Clone, Copy, Debug, Default)]
pub struct Evidence<'a> {
    /// The HTTP status.
    pub status: Option<u16>,
    /// The error code in the body.
    pub code: Option<&'a str>,
    /// The error type in the body, or the kind of a tool's error.
    pub kind: Option<&'a str>,
    /// The message.
    pub message: &'a str,
    /// The words of the body's detail fields.
    pub details: &'a [String],
    /// The provider, if the body names it.
    pub provider: Option<&'a str>,
}

/// A row of the table. It matches if every list that is not empty has an element that matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorRow {
    /// Statuses.
    pub status: Vec<StatusPattern>,
    /// Codes, compared exactly.
    pub code: Vec<String>,
    /// Types, compared exactly.
    pub kind: Vec<String>,
    /// Parts of the message, whatever their case.
    pub message: Vec<String>,
    /// Parts of one of the details, whatever their case.
    pub detail: Vec<String>,
    /// Names of providers, whatever their case.
    pub provider: Vec<String>,
    /// What the failure is.
    pub class: ErrorClass,
    /// Whether the same bytes will never work at the same place.
    pub request_at_fault: bool,
    /// Where the row is written.
    pub origin: Origin,
}

/// One status, or all of a hundred: `429`, `5xx`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StatusPattern {
    /// This status.
    Exact(u16),
    /// Every status with this first digit.
    Hundred(u8),
}

/// An ordered table of error rows; the first that matches decides.
#[derive(Clone)]
pub struct ErrorTable {
    rows: Vec<ErrorRow>,
    messages: Parts,
    details: Parts,
    /// The rows after these, which several tables may share.
    below: Option<Arc<ErrorTable>>,
}

/// The texts that all rows look for in a field, searched for at once.
#[derive(Clone)]
struct Parts {
    texts: Texts,
    /// For each row, the number of its first text.
    first: Vec<usize>,
}

/// The class of a failure, and the row that says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Classified {
    /// The class.
    pub class: ErrorClass,
    /// Whether the request itself is at fault: the same bytes will never work at the same place.
    pub request_at_fault: bool,
    /// The row of the table; `None` if no row matches, which the built-in table does not let happen, or if the
    /// class is certain without it.
    pub origin: Option<Origin>,
}

/// What is wrong with a row or a table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ErrorTableError {
    /// What is wrong.
    pub message: String,
    /// What to write instead.
    pub help: Option<String>,
}

impl ErrorTable {
    /// The table of these rows, in their order.
    ///
    /// # Errors
    /// If the message parts are too many to be searched for at once.
    pub fn new(rows: Vec<ErrorRow>) -> Result<Self, ErrorTableError> {
        let messages = Parts::new(rows.iter().map(|row| row.message.as_slice()))?;
        let details = Parts::new(rows.iter().map(|row| row.detail.as_slice()))?;
        Ok(Self { rows, messages, details, below: None })
    }

    /// The table of these rows, and then those of another table.
    ///
    /// # Errors
    /// If the message parts are too many to be searched for at once.
    pub(crate) fn above(rows: Vec<ErrorRow>, below: Arc<Self>) -> Result<Self, ErrorTableError> {
        Self::new(rows).map(|table| Self { below: Some(below), ..table })
    }

    /// The first row that matches.
    pub fn classify(&self, evidence: &Evidence<'_>) -> Option<&ErrorRow> {
        let below = || self.below.as_ref().and_then(|below| below.classify_here(evidence));
        self.classify_here(evidence).or_else(below)
    }

    fn classify_here(&self, evidence: &Evidence<'_>) -> Option<&ErrorRow> {
        // The texts are searched once, and only if a row that matches otherwise asks for it.
        let mut messages = Search::new(&self.messages, core::slice::from_ref(&evidence.message));
        let mut details = Search::new(&self.details, evidence.details);
        let named = |name: &String| evidence.provider.is_some_and(|known| known.eq_ignore_ascii_case(name));
        self.rows.iter().enumerate().find_map(|(number, row)| {
            let matches =
                any(&row.status, |pattern| evidence.status.is_some_and(|status| pattern.matches(status)))
                    && any(&row.code, |code| evidence.code == Some(code))
                    && any(&row.kind, |kind| evidence.kind == Some(kind))
                    && any(&row.provider, named)
                    && (row.detail.is_empty() || details.finds(number, row.detail.len()))
                    && (row.message.is_empty() || messages.finds(number, row.message.len()));
            matches.then_some(row)
        })
    }

    /// The rows, in their order.
    pub fn rows(&self) -> impl Iterator<Item = &ErrorRow> {
        self.rows.iter().chain(self.below.iter().flat_map(|below| &below.rows))
    }
}

impl Parts {
    fn new<'r>(rows: impl Iterator<Item = &'r [String]> + Clone) -> Result<Self, ErrorTableError> {
        let texts: Vec<_> = rows.clone().flatten().map(String::as_str).collect();
        let texts = Texts::new(&texts).ok_or_else(|| ErrorTableError {
            message: "the error rows hold too many message texts".to_owned(),
            help: Some("remove some, or shorten them".to_owned()),
        })?;
        let first = rows.scan(0_usize, |next, row| {
            let first = *next;
            *next = next.saturating_add(row.len());
            Some(first)
        });
        Ok(Self { first: first.collect(), texts })
    }
}

/// The texts of a failure, searched when the first row asks.
struct Search<'a, T> {
    parts: &'a Parts,
    texts: &'a [T],
    found: Option<Vec<bool>>,
}

impl<'a, T: AsRef<str>> Search<'a, T> {
    const fn new(parts: &'a Parts, texts: &'a [T]) -> Self {
        Self { parts, texts, found: None }
    }

    /// Whether one of the texts holds one of the `count` parts of a row.
    fn finds(&mut self, row: usize, count: usize) -> bool {
        let found = self.found.get_or_insert_with(|| self.parts.texts.found_in(self.texts));
        let Some(first) = self.parts.first.get(row).copied() else { return false };
        found.get(first..first.saturating_add(count)).is_some_and(|found| found.contains(&true))
    }
}

impl Classified {
    /// A class that needs no table.
    pub const fn certain(class: ErrorClass) -> Self {
        Self { class, request_at_fault: false, origin: None }
    }
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
        ];
        let named = lists.into_iter().filter(|(_, texts)| !texts.is_empty());
        let shown: Vec<_> = named.map(|(name, texts)| format!("{name}: [{}]", texts.join(", "))).collect();
        if shown.is_empty() { "everything".to_owned() } else { shown.join(", ") }
    }

    /// What it says of such a failure: `malformed_tool_call, request_at_fault`.
    pub fn tells(&self) -> String {
        let fault = if self.request_at_fault { ", request_at_fault" } else { "" };
        format!("{}{fault}", self.class)
    }
}

/// Whether the list is empty or one of it matches.
fn any<T>(list: &[T], matches: impl Fn(&T) -> bool) -> bool {
    list.is_empty() || list.iter().any(matches)
}

impl StatusPattern {
    /// Whether `status` is meant.
    pub fn matches(self, status: u16) -> bool {
        match self {
            Self::Exact(exact) => status == exact,
            Self::Hundred(hundred) => status / 100 == u16::from(hundred),
        }
    }
}

impl FromStr for StatusPattern {
    type Err = ErrorTableError;

    fn from_str(text: &str) -> Result<Self, ErrorTableError> {
        let exact = text.parse::<u16>().ok().filter(|status| (100..=599).contains(status) && text.len() == 3);
        let hundred = text.strip_suffix("xx").and_then(|digit| digit.parse::<u8>().ok());
        let hundred = hundred.filter(|digit| (1..=5).contains(digit) && text.len() == 3).map(Self::Hundred);
        exact.map(Self::Exact).or(hundred).ok_or_else(|| ErrorTableError {
            message: format!("`{}` is not an HTTP status", excerpt(text, 40)),
            help: Some("write a status such as `429`, or a hundred of them such as `5xx`".to_owned()),
        })
    }
}

impl fmt::Display for StatusPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(status) => write!(f, "{status}"),
            Self::Hundred(hundred) => write!(f, "{hundred}xx"),
        }
    }
}

impl fmt::Debug for ErrorTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.rows()).finish()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn row(class: ErrorClass) -> ErrorRow {
        ErrorRow {
            status: vec![],
            code: vec![],
            kind: vec![],
            message: vec![],
            detail: vec![],
            provider: vec![],
            class,
            request_at_fault: false,
            origin: Origin::BUILTIN,
        }
    }

    fn list(items: &[&str]) -> Vec<String> {
        items.iter().map(|&item| item.to_owned()).collect()
    }

    fn table() -> ErrorTable {
        let statuses = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        ErrorTable::new(vec![
            ErrorRow {
                status: statuses(&["429"]),
                code: list(&["insufficient_quota"]),
                ..row(ErrorClass::QuotaExceeded)
            },
            ErrorRow {
                status: statuses(&["400", "413"]),
                message: list(&["context length", "too many tokens"]),
                ..row(ErrorClass::ContextOverflow)
            },
            ErrorRow { kind: list(&["overloaded_error"]), ..row(ErrorClass::Overloaded) },
            ErrorRow { message: list(&["überlastet (503)"]), ..row(ErrorClass::Overloaded) },
            ErrorRow { status: statuses(&["429"]), ..row(ErrorClass::RateLimit) },
            ErrorRow { status: statuses(&["5xx"]), ..row(ErrorClass::ModelError) },
        ])
        .unwrap()
    }

    fn class(evidence: &Evidence<'_>) -> Option<ErrorClass> {
        table().classify(evidence).map(|row| row.class)
    }

    #[test]
    fn what_is_no_status_is_shown_cut_if_it_is_long() {
        let refused = "4".repeat(100).parse::<StatusPattern>().unwrap_err();
        assert_eq!(refused.message, format!("`{}…` is not an HTTP status", "4".repeat(40)));
    }

    #[test]
    fn every_field_of_a_row_must_match() {
        let limited = Evidence { status: Some(429), ..Evidence::default() };
        assert_eq!(
            class(&Evidence { code: Some("insufficient_quota"), ..limited }),
            Some(ErrorClass::QuotaExceeded)
        );
        assert_eq!(class(&Evidence { code: Some("other"), ..limited }), Some(ErrorClass::RateLimit));
        assert_eq!(class(&Evidence { code: Some("insufficient_quota"), ..Evidence::default() }), None);
        assert_eq!(
            class(&Evidence { kind: Some("overloaded_error"), status: Some(529), ..Evidence::default() }),
            Some(ErrorClass::Overloaded)
        );
    }

    #[test]
    fn parts_of_messages_are_found_whatever_their_case() {
        let bad =
            Evidence { status: Some(400), message: "Maximum CONTEXT Length is 8192", ..Evidence::default() };
        assert_eq!(class(&bad), Some(ErrorClass::ContextOverflow));
        assert_eq!(class(&Evidence { message: "context  length", ..bad }), None);
        assert_eq!(
            class(&Evidence { message: "ÜBERLASTET (503)!", ..Evidence::default() }),
            Some(ErrorClass::Overloaded)
        );
    }

    #[test]
    fn details_are_held_against_each_word_and_a_provider_against_its_name() {
        let table = ErrorTable::new(vec![
            ErrorRow {
                detail: list(&["perday"]),
                provider: list(&["google"]),
                ..row(ErrorClass::QuotaExceeded)
            },
            ErrorRow { detail: list(&["PerDay", "PerHour"]), ..row(ErrorClass::RateLimit) },
            row(ErrorClass::ModelError),
        ]);
        let table = table.unwrap();
        let details = list(&["other", "RequestsPerDay-Free"]);
        let class = |details, provider| {
            table.classify(&Evidence { details, provider, ..Evidence::default() }).unwrap().class
        };
        assert_eq!(class(&details, Some("Google")), ErrorClass::QuotaExceeded);
        assert_eq!(class(&details, Some("elsewhere")), ErrorClass::RateLimit);
        assert_eq!(class(&details, None), ErrorClass::RateLimit);
        assert_eq!(class(&[], Some("Google")), ErrorClass::ModelError);
    }

    #[test]
    fn the_first_row_wins_and_none_may_match() {
        assert_eq!(
            class(&Evidence { status: Some(503), ..Evidence::default() }),
            Some(ErrorClass::ModelError)
        );
        assert_eq!(class(&Evidence { status: Some(404), ..Evidence::default() }), None);
        assert!(ErrorTable::new(vec![]).unwrap().classify(&Evidence::default()).is_none());
        let all = ErrorTable::new(vec![row(ErrorClass::ModelError)]).unwrap();
        assert_eq!(all.classify(&Evidence::default()).unwrap().class, ErrorClass::ModelError);
    }

    #[test]
    fn a_status_is_a_number_or_a_hundred() {
        for text in ["429", "5xx"] {
            assert_eq!(text.parse::<StatusPattern>().unwrap().to_string(), text);
        }
        for text in ["", "42", "600", "9xx", "0xx", "5XX", "55xx", "+5xx", "+429", "xx", "4x", "-1"] {
            assert!(text.parse::<StatusPattern>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_part_is_found_exactly_if_the_message_contains_it(message in "[a-cA-C. ]{0,12}", parts in prop::collection::vec("[a-c.]{1,3}", 1..4)) {
            let rows = parts.iter().map(|part| ErrorRow { message: vec![part.clone()], ..row(ErrorClass::Timeout) });
            let table = ErrorTable::new(rows.collect()).unwrap();
            let found = table.classify(&Evidence { message: &message, ..Evidence::default() });
            let expected = parts.iter().find(|part| message.to_lowercase().contains(*part));
            prop_assert_eq!(found.map(|row| &row.message[0]), expected);
        }
    }
}
