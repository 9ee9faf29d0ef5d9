//! Which models a client gets by the name that it asks for.

use crate::policy::Selector;

/// The routes, by the names that clients ask for.
#[derive(Clone, Debug, Default)]
pub(crate) struct RouteTable {
    routes: Vec<Route>,
    /// Their names, as they were written.
    names: Vec<Selector>,
}

/// One of them.
#[derive(Clone, Debug)]
pub(crate) struct Route {
    pub(crate) pattern: Selector,
    /// The models, in order of preference.
    pub(crate) models: Vec<String>,
}

impl RouteTable {
    /// A table of these.
    pub(crate) fn new(mut routes: Vec<Route>) -> Self {
        let names = routes.iter().map(|route| route.pattern.clone()).collect();
        // The most specific comes first; of those that are alike the one that was written first.
        routes.sort_by(|one, other| other.pattern.cmp(&one.pattern));
        Self { routes, names }
    }

    /// The most specific route for a name. `may`: whether the client may use the route.
    pub(crate) fn find(&self, name: &str, may: impl Fn(&str) -> bool) -> Option<&Route> {
        let route = self.routes.iter().find(|route| route.pattern.matches(name));
        route.filter(|route| may(route.pattern.as_str()))
    }

    /// The names of those that the client may use.
    pub(crate) fn names<'r>(&'r self, may: impl Fn(&str) -> bool + 'r) -> impl Iterator<Item = &'r Selector> {
        self.names.iter().filter(move |name| may(name.as_str()))
    }
}
