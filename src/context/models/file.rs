//! The file format of a catalogue of models.

use std::sync::Arc;

use super::{ListedValue, ModelCatalogue};
use crate::policy::decode::{self, VersionOne, record};
use crate::policy::{Price, PriceEntry};
use crate::text::Report;

record! {
    /// A catalogue of models.
    struct CatalogueFile {
        /// The version of the format; always 1.
        version: VersionOne,
        /// Where the values are from.
        source: Option<String>,
        /// The day on which they were looked up.
        as_of: Option<String>,
        /// The models.
        models: Vec<CatalogueRow> = Vec::new(),
        /// What the tokens of models cost.
        prices: Vec<PriceRow> = Vec::new(),
    }
}

record! {
    /// Models with the same limits.
    struct CatalogueRow {
        /// The beginnings of their names.
        names: Vec<String>,
        /// The tokens of a request and its reply together.
        window: u64,
        /// The most tokens of a reply.
        output: Option<u64>,
        /// Where these values are from; without it, what the file says.
        source: Option<String>,
        /// The day on which they were looked up; without it, what the file says.
        as_of: Option<String>,
    }
}

record! {
    /// Models whose tokens cost the same.
    struct PriceRow {
        /// Their whole names.
        names: Vec<String>,
        /// What their tokens cost.
        price: PriceEntry,
        /// Where these values are from; without it, what the file says.
        source: Option<String>,
        /// The day on which they were looked up; without it, what the file says.
        as_of: Option<String>,
    }
}

impl ModelCatalogue {
    /// Reads a catalogue in the format of the built-in one.
    ///
    /// # Errors
    /// All errors in the file.
    pub fn read(name: &str, bytes: &[u8]) -> Result<Self, Report> {
        let file = decode::read::<CatalogueFile>(name, bytes)?.value;
        let VersionOne = file.version;
        let of_file = source(file.source.as_ref(), file.as_of.as_ref());
        let of_row = |own: &Option<String>, as_of: &Option<String>| match (own, as_of) {
            (None, None) => of_file.clone(),
            (own, as_of) => {
                source(own.as_ref().or(file.source.as_ref()), as_of.as_ref().or(file.as_of.as_ref()))
            }
        };
        let mut catalogue = Self::default();
        for row in &file.models {
            let source = of_row(&row.source, &row.as_of);
            for name in &row.names {
                catalogue.insert(name, row.window, row.output, source.as_ref());
            }
        }
        for row in &file.prices {
            let source = of_row(&row.source, &row.as_of);
            for name in &row.names {
                let listed = ListedValue { value: Price::from(&row.price), source: source.clone() };
                catalogue.prices.insert(name.to_lowercase(), listed);
            }
        }
        Ok(catalogue)
    }
}

/// The source of values and their date.
fn source(source: Option<&String>, as_of: Option<&String>) -> Option<Arc<str>> {
    match (source, as_of) {
        (Some(source), Some(as_of)) => Some(format!("{source}, {as_of}").into()),
        (Some(one), None) | (None, Some(one)) => Some(one.as_str().into()),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{BUILTIN, BUILTIN_NAME};
    use super::*;

    #[test]
    fn the_built_in_catalogue_can_be_read_and_says_each_name_once() {
        let catalogue = ModelCatalogue::read(BUILTIN_NAME, BUILTIN.as_bytes()).unwrap();
        assert!(catalogue.limits.len() > 400, "{}", catalogue.limits.len());
        let file = decode::read::<CatalogueFile>(BUILTIN_NAME, BUILTIN.as_bytes()).unwrap().value;
        assert_eq!(file.models.iter().map(|row| row.names.len()).sum::<usize>(), catalogue.limits.len());
        assert_eq!(file.prices.iter().map(|row| row.names.len()).sum::<usize>(), catalogue.prices.len());
        for row in &file.models {
            assert!(row.window >= 1024 && row.output.is_some_and(|output| output <= row.window), "{row:?}");
        }
        for (name, listed) in &catalogue.prices {
            let Price { input, output, cache_read, cache_write, .. } = listed.value;
            assert!(input > 0 && input <= output, "{name}");
            assert!(
                cache_read.is_none_or(|read| read < input) && cache_write.is_none_or(|write| write > input),
                "{name}"
            );
            assert!(catalogue.find(name).is_some(), "the window of {name} is not known");
        }
    }

    #[test]
    fn a_row_says_where_its_values_are_from_or_the_file_does() {
        let text =
            b"version: 1\nsource: house\nas_of: \"2026-11-26\"\nmodels:\n  - {names: [a], window: 5}\n  \
            - {names: [b], window: 5, as_of: \"2026-12-01\"}\nprices:\n  \
            - {names: [a-1], price: {input: 1, output: 2}, source: invoice}\n";
        let catalogue = ModelCatalogue::read("m.yaml", text).unwrap();
        assert_eq!(catalogue.limits_entry("a-1").unwrap().source, Some("house, 2026-11-26"));
        assert_eq!(catalogue.limits_entry("b").unwrap().source, Some("house, 2026-12-01"));
        let price = catalogue.price_entry("x/A-1").unwrap();
        assert_eq!(
            (price.name, price.value.input, price.source),
            ("a-1", 1_000_000, Some("invoice, 2026-11-26"))
        );
        let none =
            ModelCatalogue::read("m.yaml", b"version: 1\nmodels: [{names: [a], window: 5}]\n").unwrap();
        assert_eq!(none.limits_entry("a").unwrap().source, None);
    }
}
