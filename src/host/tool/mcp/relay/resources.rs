//! Which of several servers a resource is of: the one that listed its address, or a template that the address matches.

use std::collections::HashMap;

/// The most addresses that are remembered: servers may invent them without end.
const MOST_ADDRESSES: usize = 100_000;

/// What the servers have listed.
#[derive(Debug, Default)]
pub(super) struct SharedResources {
    owners: HashMap<String, usize>,
    /// In the order in which they were listed first.
    templates: Vec<(String, usize)>,
}

impl SharedResources {
    /// Takes note of what the servers list now. Returns the server of each address: the one that had it, if it still lists it, else
    /// the first that lists it.
    pub(super) fn learn<'a>(
        &mut self,
        listed: impl IntoIterator<Item = (usize, &'a str)>,
    ) -> HashMap<&'a str, usize> {
        let mut now: HashMap<&str, usize> = HashMap::new();
        for (server, uri) in listed {
            let had = self.owners.get(uri) == Some(&server);
            now.entry(uri).and_modify(|owner| *owner = if had { server } else { *owner }).or_insert(server);
        }
        for (uri, server) in &now {
            if self.owners.len() < MOST_ADDRESSES || self.owners.contains_key(*uri) {
                self.owners.insert((*uri).to_owned(), *server);
            }
        }
        now
    }

    /// Takes note of a template (RFC 6570) that a server listed. Returns whether it is that server's: the first that lists it has it.
    pub(super) fn learn_template(&mut self, server: usize, template: &str) -> bool {
        if let Some((_, owner)) = self.templates.iter().find(|(known, _)| known == template) {
            return *owner == server;
        }
        if self.templates.len() < MOST_ADDRESSES {
            self.templates.push((template.to_owned(), server));
        }
        true
    }

    /// The server that has a resource, or that template; `None`: none has listed it.
    pub(super) fn find(&self, uri: &str) -> Option<usize> {
        let owner = self.owners.get(uri).copied();
        let of_template = |is_it: &dyn Fn(&str) -> bool| {
            self.templates.iter().find(|(template, _)| is_it(template)).map(|(_, server)| *server)
        };
        owner
            .or_else(|| of_template(&|template| template == uri))
            .or_else(|| of_template(&|template| matches(template, uri)))
    }
}

/// Whether an address may be made of a template: what stands between the variables is in it, in that order. The value of a
/// variable without an operator has no `/` (RFC 6570, section 3.2.2).
fn matches(template: &str, uri: &str) -> bool {
    let Some((start, mut rest)) = template.split_once('{') else { return template == uri };
    let Some(mut left) = uri.strip_prefix(start) else { return false };
    loop {
        let Some((variable, after)) = rest.split_once('}') else { return false };
        let is_simple = variable.starts_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | '%'));
        let fits = |value: &str| !is_simple || !value.contains('/');
        let Some((text, next)) = after.split_once('{') else {
            return left.strip_suffix(after).is_some_and(fits);
        };
        let Some((value, behind)) = left.split_once(text) else { return false };
        if !fits(value) {
            return false;
        }
        (left, rest) = (behind, next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_is_of_the_server_that_listed_it_first() {
        let mut resources = SharedResources::default();
        let of = resources.learn([(0, "file:///a"), (1, "file:///a"), (1, "file:///b")]);
        assert_eq!((of["file:///a"], of["file:///b"]), (0, 1));
        // Where it is listed no more, another server may have it; where it is, it stays.
        assert_eq!(resources.learn([(1, "file:///a")])["file:///a"], 1);
        assert_eq!(resources.learn([(0, "file:///a"), (1, "file:///a")])["file:///a"], 1);
        assert!(resources.learn_template(1, "db://{table}/rows/{id}"));
        assert!(!resources.learn_template(0, "db://{table}/rows/{id}"));
        for (uri, server) in [
            ("file:///a", Some(1)),
            ("file:///b", Some(1)),
            ("db://t/rows/7", Some(1)),
            ("db://{table}/rows/{id}", Some(1)),
            ("db://t/columns/7", None),
            ("http://x", None),
        ] {
            assert_eq!(resources.find(uri), server, "{uri}");
        }
    }

    #[test]
    fn what_stands_between_variables_counts() {
        for (template, uri, does) in [
            ("a/{b}", "a/", true),
            ("a/{b}.txt", "a/x.txt", true),
            ("a/{b}.txt", "a/x.md", false),
            ("{a}{b}", "x", true),
            ("a/{b", "a/x", false),
            ("a", "ab", false),
            ("a/{b}", "a/x/y", false),
            ("a/{+b}", "a/x/y", true),
            ("a{/b*}", "a/x/y", true),
            ("a/{b}/c/{d}", "a/x/y/c/z", false),
        ] {
            assert_eq!(matches(template, uri), does, "{template} {uri}");
        }
    }
}
