//! Coverage in the format of lcov, which editors and CI read.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::cases::PolicyCoverage;

pub(super) fn document(coverage: &PolicyCoverage) -> String {
    let mut files: BTreeMap<String, BTreeMap<u32, u32>> = BTreeMap::new();
    for leaf in coverage.leaves() {
        let lines = files.entry(leaf.place.file).or_default();
        // A line with several values is covered as well as the least of them.
        lines
            .entry(leaf.place.line)
            .and_modify(|cases| *cases = leaf.cases.min(*cases))
            .or_insert(leaf.cases);
    }
    let mut out = String::new();
    for (file, lines) in files {
        let _ = writeln!(out, "TN:\nSF:{file}");
        for (line, cases) in &lines {
            let _ = writeln!(out, "DA:{line},{cases}");
        }
        let hit = lines.values().filter(|cases| **cases > 0).count();
        let _ = writeln!(out, "LF:{}\nLH:{hit}\nend_of_record", lines.len());
    }
    out
}
