//! The names by which a client knows the tools, or the prompts, of several servers.
//!
//! The whole name of each is its server's prefix and its own name; no prefix begins another one, so that it says whose it is.
//! A client sees the short name, without the prefix, of what only one server had when the name came up first. From then on the
//! short name is of that server, whatever others have later; where several had it, it is nobody's. While a server has not
//! listed what it has, new names are shown whole: a client may keep a permission by name, and that server may have the same.
//!
//! A whole name that is longer than providers take ends with a digest in the place of the rest: they refuse a request with one that is
//! longer, and with it all tools.

use std::collections::{BTreeMap, HashMap};

use crate::host::tool::mcp::declare::{MOST_NAME, with_digest};

/// The most short names that are remembered: servers may invent them without end. Others are shown whole.
const MOST_NAMES: usize = 100_000;

/// Which server a short name is of.
#[derive(Debug)]
pub(super) struct SharedNames {
    /// The prefixes of the servers, in their order.
    prefixes: Vec<String>,
    /// `None`: it is nobody's, as several servers had it, or not all had listed theirs.
    owners: HashMap<String, Option<usize>>,
    /// Whose whole names end with a digest, or look as if they did, and the servers' own names.
    cut: HashMap<String, (usize, String)>,
}

impl SharedNames {
    pub(super) fn new(prefixes: Vec<String>) -> Self {
        Self { prefixes, owners: HashMap::new(), cut: HashMap::new() }
    }

    /// Takes note of what the servers have: each name with the number of its server. `is_complete`: all of them have listed it.
    pub(super) fn learn<'a>(
        &mut self,
        listed: impl IntoIterator<Item = (usize, &'a str)>,
        is_complete: bool,
    ) {
        let mut new: BTreeMap<&str, Option<usize>> = BTreeMap::new();
        for (server, name) in listed {
            let whole = self.whole(server, name);
            if is_cut(&whole) && self.cut.len() < MOST_NAMES {
                self.cut.insert(whole, (server, name.to_owned()));
            }
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
        self.whole(server, name)
    }

    /// The server that the client means by a name, and the server's own name; `None`: none is known.
    pub(super) fn find<'n>(&'n self, shown: &'n str) -> Option<(usize, &'n str)> {
        if let Some(owner) = self.owners.get(shown) {
            return owner.map(|server| (server, shown));
        }
        if is_cut(shown) {
            return self.cut.get(shown).map(|(server, name)| (*server, name.as_str()));
        }
        let mut prefixes = self.prefixes.iter().enumerate();
        prefixes.find_map(|(server, prefix)| Some((server, shown.strip_prefix(prefix.as_str())?)))
    }

    /// A name with the prefix of its server.
    fn whole(&self, server: usize, name: &str) -> String {
        let whole = format!("{}{name}", self.prefixes.get(server).map_or("", String::as_str));
        if whole.chars().count() > MOST_NAME { with_digest(&whole, |c| c) } else { whole }
    }

    /// Whether a name begins as whole names do.
    fn is_whole(&self, name: &str) -> bool {
        self.prefixes.iter().any(|prefix| name.starts_with(prefix.as_str()))
    }
}

/// Whether a whole name looks as if it ended with a digest.
fn is_cut(whole: &str) -> bool {
    let digest = whole.rsplit_once('_').map_or("", |(_, digest)| digest);
    let is_digest = digest.len() == 8 && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_digest && whole.chars().count() == MOST_NAME
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

    #[test]
    fn a_whole_name_that_is_too_long_is_cut_and_stays_one_of_its_own() {
        let mut names = names();
        let (one, two) = ("x".repeat(62), format!("{}y", "x".repeat(61)));
        let digest_like = format!("{}_0123abcd", "y".repeat(52));
        names.learn([(0, &*one), (0, &*two), (1, &*one), (1, &*two), (1, &*digest_like)], true);
        let shown = [names.shown(0, &one), names.shown(0, &two), names.shown(1, &one)];
        assert!(shown.iter().all(|name| name.len() == MOST_NAME), "{shown:?}");
        assert!(shown[0].starts_with("a__xxx") && shown[0] != shown[1], "{shown:?}");
        assert_eq!((names.find(&shown[0]), names.find(&shown[1])), (Some((0, &*one)), Some((0, &*two))));
        assert_eq!(names.find(&shown[2]), Some((1, &*one)));
        // What only looks like one is found all the same, and what is not known yet is nobody's.
        assert_eq!(names.find(&format!("b__{digest_like}")), Some((1, &*digest_like)));
        assert_eq!(names.find(&format!("a__{digest_like}")), None);
    }
}
