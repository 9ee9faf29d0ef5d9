//! Which diagnostics of `unfazed check` concern which keys: the declarations of the keys say so (`x-checks`).

use std::collections::BTreeSet;

use serde_json::Value;

use super::walk::SchemaWalk;

/// Problems that any key can have.
pub(super) const ANY: &[&str] = &[
    "P0001", "P0002", "P0003", "P0004", "P0005", "P0006", "P0007", "P0008", "P0009", "P0010", "P0011",
    "P0012", "P0101", "P0102", "P0103", "P0104", "P0105", "P0205", "P0301", "W0201", "W0205", "W0208",
    "W0211", "W0299",
];

/// The diagnostics of a key, in their order, each once: its own, and those of its type.
pub(super) fn of_key<'s>(walk: &SchemaWalk<'s>, schema: &'s Value) -> Vec<&'s str> {
    let mut found = BTreeSet::new();
    collect(walk, schema, &mut found);
    found.into_iter().collect()
}

fn collect<'s>(walk: &SchemaWalk<'s>, schema: &'s Value, found: &mut BTreeSet<&'s str>) {
    let resolved = walk.resolved(schema);
    for said in [schema, resolved].into_iter().filter_map(|schema| schema.get(X_CHECKS)?.as_array()) {
        found.extend(said.iter().filter_map(Value::as_str));
    }
    // A mapping has a section of its own, where each of its keys has its row.
    let entries = ["items", "additionalProperties"].into_iter().filter_map(|key| resolved.get(key));
    for branch in walk.branches(resolved).into_iter().chain(entries) {
        collect(walk, branch, found);
    }
}

/// Where the schema has them.
const X_CHECKS: &str = "x-checks";

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::text::Code;

    use super::super::super::pages;
    use super::*;

    /// The codes that are said of keys, each with the names of these.
    fn declared() -> BTreeSet<(String, String)> {
        fn each(name: &str, schema: &Value, found: &mut BTreeSet<(String, String)>) {
            let codes = schema.get(X_CHECKS).and_then(Value::as_array).into_iter().flatten();
            found.extend(codes.filter_map(|code| Some((code.as_str()?.to_owned(), name.to_owned()))));
            for (key, inner) in schema.as_object().into_iter().flatten() {
                let named = matches!(key.as_str(), "properties" | "$defs");
                match inner {
                    Value::Object(fields) if named => {
                        fields.iter().for_each(|(name, inner)| each(name, inner, found));
                    }
                    Value::Array(items) => items.iter().for_each(|inner| each(name, inner, found)),
                    inner => each(name, inner, found),
                }
            }
        }
        let mut found = BTreeSet::new();
        each("", &crate::policy::json_schema_with_checks(), &mut found);
        found
    }

    #[test]
    fn every_problem_concerns_any_key_or_those_that_say_so() {
        let codes: BTreeSet<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();
        let declared = declared();
        let of_keys: BTreeSet<&str> = declared.iter().map(|(code, _)| code.as_str()).collect();
        let any: BTreeSet<&str> = ANY.iter().copied().collect();
        assert!(any.is_disjoint(&of_keys), "{:?}", any.intersection(&of_keys));
        let both: BTreeSet<&str> = any.union(&of_keys).copied().collect();
        assert_eq!(both.difference(&codes).next(), None, "there is no such diagnostic");
        assert_eq!(codes.difference(&both).next(), None, "no key says `Checks:` with it");
    }

    #[test]
    fn the_example_of_a_problem_has_one_of_its_keys() {
        let declared = declared();
        for page in pages::all().filter(|page| !ANY.contains(&page.id)) {
            let mut names = declared.iter().filter(|(code, _)| code == page.id).map(|(_, name)| name);
            // What is said of a type is said of all keys of that type.
            assert!(
                names
                    .any(|name| name.starts_with(char::is_uppercase)
                        || page.body.contains(&format!("{name}:"))),
                "{}",
                page.id
            );
        }
    }
}
