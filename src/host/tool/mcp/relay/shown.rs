//! Which tools a client was shown, so that it learns when they are others.

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use xxhash_rust::xxh3::xxh3_64;

/// Tools by their names, each with a digest of its declaration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ShownTools {
    tools: BTreeMap<String, u64>,
    /// Further pages of the list were not asked for.
    has_more: bool,
}

impl ShownTools {
    /// Adds a tool, unless there is one of that name. Returns whether it was added.
    pub(super) fn add(&mut self, name: &str, declaration: &RawValue) -> bool {
        let is_new = !self.tools.contains_key(name);
        if is_new {
            self.tools.insert(name.to_owned(), digest(declaration));
        }
        is_new
    }

    /// Whether there is that tool, declared like that.
    pub(super) fn has(&self, name: &str, declaration: &RawValue) -> bool {
        self.tools.get(name) == Some(&digest(declaration))
    }

    /// Whether the list has further pages.
    pub(super) const fn has_more(&mut self, has_more: bool) {
        self.has_more = has_more;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// Whether a client that was shown these would be shown others now.
    pub(super) fn differ_from(&self, now: &Self) -> bool {
        let is_same = |(name, digest): (&String, &u64)| now.tools.get(name) == Some(digest);
        !self.tools.iter().all(is_same) || (!self.has_more && self.tools.len() != now.tools.len())
    }
}

fn digest(declaration: &RawValue) -> u64 {
    xxh3_64(declaration.get().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(tools: &[(&str, &str)], has_more: bool) -> ShownTools {
        let mut shown = ShownTools::default();
        for (name, declaration) in tools {
            let declaration = RawValue::from_string((*declaration).to_owned()).unwrap();
            assert!(shown.add(name, &declaration));
            assert!(!shown.add(name, &declaration), "a name is a tool's alone");
        }
        shown.has_more(has_more);
        shown
    }

    #[test]
    fn tools_are_others_if_one_has_come_or_gone_or_is_declared_otherwise() {
        let before = shown(&[("a", "1"), ("b", "2")], false);
        assert!(!before.differ_from(&shown(&[("b", "2"), ("a", "1")], false)));
        assert!(before.differ_from(&shown(&[("a", "1")], false)));
        assert!(before.differ_from(&shown(&[("a", "1"), ("b", "3")], false)));
        let more = shown(&[("a", "1"), ("b", "2"), ("c", "3")], false);
        assert!(before.differ_from(&more));
        assert!(!shown(&[("a", "1")], true).differ_from(&more), "the rest may be on further pages");
    }
}
