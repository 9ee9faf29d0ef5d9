//! Names of tools that other servers refuse: what is sent in their place, and the way back.

use std::collections::BTreeMap;

use xxhash_rust::xxh3::xxh3_64;

/// The longest name that all servers take, and so much of a longer one stays readable.
const MOST: usize = 64;
const READABLE: usize = 47;

/// The names that were replaced, by what is sent.
#[derive(Debug, Default)]
pub(super) struct ToolNames(BTreeMap<String, String>);

impl ToolNames {
    /// The name that is sent.
    pub(super) fn sent(&mut self, name: String) -> String {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        if !name.is_empty() && name.len() <= MOST && name.chars().all(allowed) {
            return name;
        }
        let readable = name.chars().map(|c| if allowed(c) { c } else { '_' }).take(READABLE);
        // A digest of all of it: two names may begin alike.
        let sent = format!("{}_{:016x}", readable.collect::<String>(), xxh3_64(name.as_bytes()));
        self.0.insert(sent.clone(), name);
        sent
    }

    /// Puts the client's own name in the place of the one that was sent.
    pub(super) fn restore(&self, name: &mut String) {
        if let Some(own) = self.0.get(name) {
            own.clone_into(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_told_apart_and_found_again() {
        let mut names = ToolNames::default();
        let long = |end: &str| format!("{}{end}", "mcp__server__".repeat(8));
        let (one, other) = (names.sent(long("a")), names.sent(long("b")));
        assert!(one.len() <= MOST && other.len() <= MOST && one != other);
        let mut back = one;
        names.restore(&mut back);
        assert_eq!(back, long("a"));
        assert_eq!(names.sent("look".into()), "look");
        let mut dotted = names.sent("a.b".into());
        assert!(!dotted.contains('.'));
        names.restore(&mut dotted);
        assert_eq!(dotted, "a.b");
    }
}
