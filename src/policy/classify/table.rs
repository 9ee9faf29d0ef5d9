//! The table: rows in their order.

use core::fmt;
use std::sync::{Arc, LazyLock, OnceLock};

use super::index::RowIndex;
use super::{ErrorRow, ErrorTableError, FailureEvidence};

/// The most bytes of texts in a table.
const MOST_BYTES: usize = 4 << 20;

/// An ordered table of error rows; the first that matches decides.
#[derive(Clone, Default)]
pub struct ErrorTable {
    rows: Vec<ErrorRow>,
    /// Made when the first failure is reported: most policies are loaded by those that never ask.
    index: Arc<OnceLock<RowIndex>>,
    /// The rows after these, which all policies share. Made when somebody reads them.
    below: Option<&'static LazyLock<ErrorTable>>,
}

impl ErrorTable {
    /// The table of these rows, in their order.
    ///
    /// # Errors
    /// If the texts are too many to be searched for at once.
    pub fn new(rows: Vec<ErrorRow>) -> Result<Self, ErrorTableError> {
        let texts = rows.iter().flat_map(|row| {
            row.message.iter().chain(&row.detail).chain(row.words.iter().flatten()).map(String::len)
        });
        // The automaton takes several times the room of its texts, and policies may come from strangers.
        if texts.fold(0_usize, usize::saturating_add) > MOST_BYTES {
            return Err(ErrorTableError {
                message: "the error rows hold too many message texts".to_owned(),
                help: Some("remove some, or shorten them".to_owned()),
            });
        }
        Ok(Self { rows, index: Arc::default(), below: None })
    }

    /// The table of these rows, and then those of another table.
    ///
    /// # Errors
    /// If the texts are too many to be searched for at once.
    pub(crate) fn above(
        rows: Vec<ErrorRow>,
        below: &'static LazyLock<Self>,
    ) -> Result<Self, ErrorTableError> {
        Self::new(rows).map(|table| Self { below: Some(below), ..table })
    }

    /// The first row that matches.
    pub fn classify(&self, evidence: &FailureEvidence<'_>) -> Option<&ErrorRow> {
        #[cfg(test)]
        crate::counted::count(crate::counted::Walk::Classify);
        // The rows of the user's files come first, so a built-in row never decides against them.
        let below = || self.below.as_ref().and_then(|below| below.classify_here(evidence));
        self.classify_here(evidence).or_else(below)
    }

    fn classify_here(&self, evidence: &FailureEvidence<'_>) -> Option<&ErrorRow> {
        if self.rows.is_empty() {
            return None;
        }
        self.index.get_or_init(|| RowIndex::new(&self.rows)).first(&self.rows, evidence)
    }

    /// The rows, in their order.
    pub fn rows(&self) -> impl Iterator<Item = &ErrorRow> {
        self.own_rows().chain(self.below.iter().flat_map(|below| &below.rows))
    }

    /// The rows of files: those without the built-in ones, in their order.
    pub(crate) fn own_rows(&self) -> impl Iterator<Item = &ErrorRow> {
        self.rows.iter()
    }
}

impl fmt::Debug for ErrorTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.rows()).finish()
    }
}
