//! What an agent file says to `unfazed serve`: the names that clients ask for, and the keys of clients.

use core::num::NonZeroU64;
use std::collections::{BTreeSet, HashMap};

use indexmap::IndexMap;

use super::{AgentFile, START};
#[cfg(feature = "serve")]
use crate::host::gateway::{KeyBudget, KeyRule, KeyRules, Placed, Route, RouteTable};
use crate::policy::decode::{DecodedDocument, OneOrMany, Spanned, record};
use crate::policy::{CostLimit, NonZeroTime, PaceLimit, Selector};
use crate::text::{Code, Diagnostic, Span, did_you_mean};
use crate::time::Nanos;

/// The length of a SHA-256 as hexadecimal digits.
const DIGITS: usize = 64;

record! {
    /// The key of a client of `unfazed serve`.
    #[part(true)]
    pub(crate) struct GatewayKeyEntry {
        /// The SHA-256 of the key, as 64 hexadecimal digits: `unfazed serve --hash-key` makes a key, and prints it with its hash.
        /// Example: `2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b`
        pub sha256: Spanned<String>,
        /// The routes that the key may use: their names as they are written under `routes`, or patterns that these match. Left
        /// out: all.
        /// Example: `["gpt-*"]`
        pub routes: Option<OneOrMany<Spanned<String>>>,
        /// Whether the key may read the metrics and the state of a gateway beyond this machine.
        /// Example: `true`
        pub admin: bool = false,
        /// How often the key may ask. Beyond that its requests are refused with status 429.
        pub pace: KeyPaceEntry = KeyPaceEntry { requests: None, tokens: None },
        /// What the key may spend in each period. What it has spent survives a restart.
        pub budget: Option<Spanned<KeyBudgetEntry>>,
    }
}

record! {
    /// How often a key may ask.
    /// Example: `{"requests": {"limit": 60, "per": "1m"}}`
    pub(crate) struct KeyPaceEntry {
        /// How many requests may begin in a period, or `unlimited`.
        /// Example: `{"limit": 60, "per": "1m"}`
        pub requests: Option<Spanned<PaceLimit>>,
        /// How many tokens requests and answers may use in a period, or `unlimited`. They are estimated when a request begins, and
        /// corrected by its usage.
        /// Example: `{"limit": 100000, "per": "1m"}`
        pub tokens: Option<Spanned<PaceLimit>>,
    }
}

record! {
    /// What a key may spend in each period.
    /// Example: `{"per": "1d", "tokens": 2000000, "cost": 5}`
    pub(crate) struct KeyBudgetEntry {
        /// The period. Periods are counted from 1970 in UTC: one of `1d` begins at midnight.
        /// Example: `1d`
        pub per: NonZeroTime<Nanos>,
        /// The most requests.
        /// Example: `10000`
        pub requests: Option<Spanned<NonZeroU64>>,
        /// The most tokens of requests and answers together.
        /// Example: `2000000`
        pub tokens: Option<Spanned<NonZeroU64>>,
        /// The most US dollars. Every model that the key may use needs a price.
        /// Checks: P0206.
        /// Example: `5`
        pub cost: Option<Spanned<CostLimit>>,
    }
}

impl GatewayKeyEntry {
    /// The names, and patterns of names, of the routes that the key may use; `None`: all.
    pub(crate) fn allowed_routes(&self) -> Option<Vec<Selector>> {
        let routes = self.routes.as_ref()?.0.iter();
        Some(routes.filter_map(|route| Selector::parse(&route.value).ok()).collect())
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

/// The limits of the keys of a file without mistakes.
#[cfg(feature = "serve")]
pub(super) fn key_rules(document: &DecodedDocument<AgentFile>) -> KeyRules {
    let rules = document.value.keys.iter().map(|(name, key)| (name.clone(), key_rule(document, key)));
    rules.filter(|(_, rule)| rule.is_limited()).collect()
}

#[cfg(feature = "serve")]
fn key_rule(document: &DecodedDocument<AgentFile>, key: &GatewayKeyEntry) -> KeyRule {
    let place = |span| document.sources().place_of(span).to_string();
    let rate = |limit: &Option<Spanned<PaceLimit>>| {
        let limit = limit.as_ref()?;
        Some(Placed { value: limit.value.rate()?, place: place(limit.span) })
    };
    let count = |limit: &Option<Spanned<NonZeroU64>>| {
        let limit = limit.as_ref()?;
        Some(Placed { value: limit.value.get(), place: place(limit.span) })
    };
    let budget = key.budget.as_ref().map(|budget| {
        let KeyBudgetEntry { per, requests, tokens, cost } = &budget.value;
        let cost = cost.as_ref().map(|cost| Placed { value: cost.value.0, place: place(cost.span) });
        KeyBudget { per: per.0, requests: count(requests), tokens: count(tokens), cost }
    });
    KeyRule { requests: rate(&key.pace.requests), tokens: rate(&key.pace.tokens), budget }
}

/// A key with a budget of money.
pub(super) struct KeyWithCosts<'f> {
    pub(super) name: &'f str,
    /// Where the budget is written.
    pub(super) cost: Span,
    /// The models that it may use.
    pub(super) models: BTreeSet<&'f str>,
}

/// The keys with a budget of money.
pub(super) fn keys_with_costs(file: &AgentFile) -> impl Iterator<Item = KeyWithCosts<'_>> {
    file.keys.iter().filter_map(|(name, key)| {
        let cost = key.budget.as_ref()?.value.cost.as_ref()?.span;
        let allowed = key.allowed_routes();
        let may = |route: &str| {
            allowed.as_ref().is_none_or(|allowed| allowed.iter().any(|name| name.matches(route)))
        };
        let routes = file.routes.iter().filter(|(route, _)| may(route));
        let models = routes.flat_map(|(_, models)| &models.0).map(|model| &*model.value).collect();
        Some(KeyWithCosts { name, cost, models })
    })
}

/// The mistakes, and the likely ones, in the routes and keys.
pub(super) fn problems(document: &DecodedDocument<AgentFile>) -> Vec<Diagnostic> {
    let file = &document.value;
    let mut problems: Vec<Diagnostic> =
        file.routes.iter().flat_map(|(name, models)| of_route(document, name, models)).collect();
    problems.extend(no_route(document));
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

/// A file that says who may use a gateway, or how it is secured, and has nothing that could be asked for.
fn no_route(document: &DecodedDocument<AgentFile>) -> Option<Diagnostic> {
    let file = &document.value;
    let at = ["routes", "keys", "tls"].map(|key| AgentFile::key(document, &[key]));
    let at = at.into_iter().find(|at| *at != START).filter(|_| file.routes.is_empty())?;
    let problem = Diagnostic::error(Code::MISSING_FIELD, at, "the gateway has no route");
    Some(problem.help("write the names that clients ask for under `routes`, as `gpt-5: main`"))
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
        // What is wrong with a model that is there was said.
        let is_written = || AgentFile::key(document, &["models", &model.value]) != START;
        if !file.models.contains_key(&model.value) && !is_written() {
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
    if let Some(Spanned { value: KeyBudgetEntry { requests: None, tokens: None, cost: None, .. }, span }) =
        &key.budget
    {
        let problem = Diagnostic::error(Code::MISSING_FIELD, *span, "the budget bounds nothing");
        problems.push(problem.help("give it `requests`, `tokens` or `cost`"));
    }
    for route in key.routes.iter().flat_map(|routes| &routes.0) {
        let names = file.routes.keys().map(String::as_str);
        match Selector::parse(&route.value) {
            Ok(selector) if names.clone().any(|name| selector.matches(name)) => {}
            Ok(_) => problems.push(unknown("route", route, names)),
            Err(error) => {
                let problem = Diagnostic::error(Code::BAD_VALUE, route.span, error.message);
                problems.push(error.help.into_iter().fold(problem, Diagnostic::help));
            }
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

/// The keys of a file, and what they may use.
#[cfg(feature = "serve")]
#[derive(Default)]
pub(crate) struct LimitedKeys {
    pub(crate) keys: GatewayKeys,
    pub(crate) rules: KeyRules,
}

#[cfg(feature = "serve")]
impl LimitedKeys {
    /// The keys of a file without mistakes.
    pub(super) fn of(document: &DecodedDocument<AgentFile>) -> Self {
        Self { keys: document.value.keys.clone(), rules: key_rules(document) }
    }

    /// Whether any of them has a budget.
    pub(crate) fn have_budgets(&self) -> bool {
        self.rules.values().any(|rule| rule.budget.is_some())
    }
}
