//! What an agent file says to `unfazed serve`: the names that clients ask for, and the keys of clients.

use std::collections::{BTreeSet, HashMap};

use indexmap::IndexMap;

use super::AgentFile;
#[cfg(feature = "serve")]
use crate::host::gateway::{Route, RouteTable};
use crate::policy::Selector;
use crate::policy::decode::{DecodedDocument, OneOrMany, Spanned, record};
use crate::text::{Code, Diagnostic, did_you_mean};

/// The length of a SHA-256 as hexadecimal digits.
const DIGITS: usize = 64;

record! {
    /// The key of a client of `unfazed serve`.
    #[part(true)]
    pub(crate) struct GatewayKeyEntry {
        /// The SHA-256 of the key, as 64 hexadecimal digits: `unfazed serve --hash-key` makes a key, and prints it with its hash.
        /// Example: `2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b`
        pub sha256: Spanned<String>,
        /// The routes that the key may use, as they are written under `routes`. Left out: all.
        /// Example: `["gpt-5"]`
        pub routes: Option<OneOrMany<Spanned<String>>>,
        /// Whether the key may read the metrics and the state of a gateway beyond this machine.
        /// Example: `true`
        pub admin: bool = false,
    }
}

/// The models of a route.
pub(crate) type RouteEntry = OneOrMany<Spanned<String>>;

#[cfg(feature = "serve")]
impl AgentFile {
    /// The routes of a file without mistakes.
    pub(crate) fn route_table(&self) -> RouteTable {
        let route = |(name, models): (&String, &RouteEntry)| {
            let models = models.0.iter().map(|model| model.value.clone()).collect();
            Some(Route { pattern: Selector::parse(name).ok()?, models })
        };
        RouteTable::new(self.routes.iter().filter_map(route).collect())
    }
}

/// The mistakes, and the likely ones, in the routes and keys.
pub(super) fn problems(document: &DecodedDocument<AgentFile>) -> Vec<Diagnostic> {
    let file = &document.value;
    let mut problems: Vec<Diagnostic> =
        file.routes.iter().flat_map(|(name, models)| of_route(document, name, models)).collect();
    let mut hashes = HashMap::new();
    for (name, key) in &file.keys {
        problems.extend(of_key(file, key));
        if let Some(other) = hashes.insert(key.sha256.value.to_ascii_lowercase(), name) {
            let message = format!("`{other}` and `{name}` are one key");
            let problem = Diagnostic::error(Code::CONTRADICTION, key.sha256.span, message);
            problems.push(problem.help("give each client a key of its own, or remove one of the two"));
        }
    }
    problems
}

fn of_route(document: &DecodedDocument<AgentFile>, name: &str, models: &RouteEntry) -> Vec<Diagnostic> {
    let file = &document.value;
    let at = || AgentFile::key(document, &["routes", name]);
    let mut problems = Vec::new();
    if let Err(error) = Selector::parse(name) {
        let problem = Diagnostic::error(Code::BAD_VALUE, at(), error.message);
        problems.push(error.help.into_iter().fold(problem, Diagnostic::help));
    }
    if models.0.is_empty() {
        let problem = Diagnostic::error(Code::BAD_VALUE, at(), "the route leads to no model");
        problems.push(problem.help("name the models it leads to, in order of preference"));
    }
    let mut named = BTreeSet::new();
    for model in &models.0 {
        if !named.insert(&*model.value) {
            let message = format!("the route leads to `{}` twice", model.value);
            problems.push(Diagnostic::error(Code::CONTRADICTION, model.span, message));
        }
        if !file.models.contains_key(&model.value) {
            problems.push(unknown("model", model, file.models.keys().map(String::as_str)));
        }
    }
    problems
}

fn of_key(file: &AgentFile, key: &GatewayKeyEntry) -> Vec<Diagnostic> {
    let mut problems = Vec::new();
    let hash = &key.sha256;
    if hash.value.len() != DIGITS || !hash.value.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        // Not shown: it may be the key itself.
        let problem = Diagnostic::error(Code::BAD_VALUE, hash.span, "this is no SHA-256 of a key");
        problems.push(problem.help(
            "a hash has 64 hexadecimal digits; `unfazed serve --hash-key` makes a key, and prints its hash",
        ));
    }
    for route in key.routes.iter().flat_map(|routes| &routes.0) {
        if !file.routes.contains_key(&route.value) {
            problems.push(unknown("route", route, file.routes.keys().map(String::as_str)));
        }
    }
    problems
}

fn unknown<'n>(
    what: &str,
    name: &Spanned<String>,
    known: impl Iterator<Item = &'n str> + Clone,
) -> Diagnostic {
    let message = format!("there is no {what} `{}`", name.value);
    let problem = Diagnostic::error(Code::UNKNOWN_NAME, name.span, message);
    if let Some(near) = did_you_mean(&name.value, known.clone()) {
        return problem.label(format!("did you mean `{near}`?"));
    }
    let known: Vec<&str> = known.collect();
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    problem.help(format!("there are: {known}"))
}

/// The keys by the names of their clients.
#[cfg(feature = "serve")]
pub(crate) type GatewayKeys = IndexMap<String, GatewayKeyEntry>;
