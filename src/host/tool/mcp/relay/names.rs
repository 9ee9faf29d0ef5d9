//! The names by which a client knows the tools, or the prompts, of several servers.
//!
//! The whole name of each is its server's prefix and its own name; no prefix begins another one, so that it says whose it is.
//! A client sees the short name, without the prefix, of what only one server had when the name came up first. From then on the
//! short name is of that server, whatever others have later; where several had it, it is nobody's. While a server has not
//! listed what it has, new names are shown whole: a client may keep a permission by name, and that server may have the same.

use std::collections::{BTreeMap, HashMap};

/// The most short names that are remembered: servers may invent them without end. Others are shown whole.
const MOST_NAMES: usize = 100_000;

/// Which server a short name is of.
#[derive(Debug)]
pub(super) struct SharedNames {
    /// The prefixes of the servers, in their order.
    prefixes: Vec<String>,
    /// `None`: it is nobody's, as several servers had it, or not all had listed theirs.
    owners: HashMap<String, Option<usize>>,
}

impl SharedNames {
    pub(super) fn new(prefixes: Vec<String>) -> Self {
        Self { prefixes, owners: HashMap::new() }
    }

    /// Takes note of what the servers have: each name with the number of its server. `is_complete`: all of them have listed it.
    pub(super) fn learn<'a>(
        &mut self,
        listed: impl IntoIterator<Item = (usize, &'a str)>,
        is_complete: bool,
    ) {
        let mut new: BTreeMap<&str, Option<usize>> = BTreeMap::new();
        for (server, name) in listed {
            if !self.owners.contains_key(name) && !self.is_whole(name) {
                let owner = new.entry(name).or_insert(Some(server));
                *owner = owner.filter(|owner| is_complete && *owner == server);
            }
        }
        for (name, owner) in new {
            if self.owners.len() < MOST_NAMES {
                self.owners.insert(name.to_owned(), owner);
            }
        }
    }

    /// The name that the client sees.
    pub(super) fn shown(&self, server: usize, name: &str) -> String {
        if self.owners.get(name).copied().flatten() == Some(server) {
            return name.to_owned();
        }
        format!("{}{name}", self.prefixes.get(server).map_or("", String::as_str))
    }

    /// The server that the client means by a name, and the server's own name; `None`: none is known.
    pub(super) fn find<'n>(&self, shown: &'n str) -> Option<(usize, &'n str)> {
        if let Some(owner) = self.owners.get(shown) {
            return owner.map(|server| (server, shown));
        }
        let mut prefixes = self.prefixes.iter().enumerate();
        prefixes.find_map(|(server, prefix)| Some((server, shown.strip_prefix(prefix.as_str())?)))
    }

    /// Whether a name begins as whole names do.
    fn is_whole(&self, name: &str) -> bool {
        self.prefixes.iter().any(|prefix| name.starts_with(prefix.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> SharedNames {
        SharedNames::new(vec!["a__".into(), "b__".into()])
    }

    #[test]
    fn only_names_that_two_servers_have_are_shown_whole() {
        let mut names = names();
        names.learn([(0, "read"), (0, "x"), (1, "x"), (1, "write")], true);
        let shown = |server, name| names.shown(server, name);
        assert_eq!(
            [shown(0, "read"), shown(0, "x"), shown(1, "x"), shown(1, "write")],
            ["read", "a__x", "b__x", "write"]
        );
        assert_eq!(names.find("read"), Some((0, "read")));
        assert_eq!(names.find("a__read"), Some((0, "read")), "the whole name is understood, too");
        assert_eq!((names.find("b__x"), names.find("x"), names.find("new")), (Some((1, "x")), None, None));
    }

    #[test]
    fn a_name_that_was_shown_stays_its_servers() {
        let mut names = names();
        names.learn([(0, "x")], true);
        names.learn([(0, "x"), (1, "x")], true);
        assert_eq!((names.shown(0, "x"), names.shown(1, "x")), ("x".into(), "b__x".into()));
        names.learn([(1, "x")], true);
        assert_eq!((names.shown(1, "x"), names.find("x")), ("b__x".into(), Some((0, "x"))));
    }

    #[test]
    fn names_are_whole_while_a_server_has_not_listed_its_own() {
        let mut names = names();
        names.learn([(0, "x")], false);
        names.learn([(0, "x"), (0, "y"), (1, "z")], true);
        let shown = |server, name| names.shown(server, name);
        assert_eq!([shown(0, "x"), shown(0, "y"), shown(1, "z")], ["a__x", "y", "z"]);
        assert_eq!(names.find("x"), None);
    }

    #[test]
    fn a_name_that_looks_like_anothers_whole_name_is_shown_whole() {
        let mut names = names();
        names.learn([(0, "x"), (1, "a__x")], true);
        assert_eq!((names.shown(1, "a__x"), names.find("a__x")), ("b__a__x".into(), Some((0, "x"))));
        assert_eq!(names.find("b__a__x"), Some((1, "a__x")));
    }
}
