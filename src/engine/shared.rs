//! What hosts share: breakers and budgets whose scope is `shared`.
//!
//! The state of a run has them as it has all others, and decides by what it knows. What happens to one is kept in mind until
//! the others are told. To tell them, it is done again on what they know: so nothing is lost, whoever comes first, and all
//! see what one breaker would have seen to which everything had happened in that order. The host carries it from one to the
//! other and brings what came of it back as an event.

use std::collections::{BTreeMap, VecDeque};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Interpreter;
use super::breaker::Breaker;
use super::budget::{Ledger, account};
use super::log::RecordError;
use super::state::State;
use crate::policy::{Budget, BreakerPolicy, BreakerScope, BudgetScope};

/// So much is kept in mind for others while they cannot be told. Of what is older they never hear.
const MOST_UNTOLD: usize = 1000;

/// What all hosts know of breakers and budgets that they share, with everything that has happened to them in this run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SharedKnown {
    /// Breakers, by the names of their tools.
    /// Example: `{"search": {"failures": 2, "phase": "closed"}}`
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub breakers: BTreeMap<String, Breaker>,
    /// What is drawn on budgets, by the names they are kept under.
    /// Example: `{"shared tool search (500 tokens)": {"spent": 14, "capacity": 500}}`
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub budgets: BTreeMap<String, Ledger>,
}

/// A breaker or a budget that hosts share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sharing {
    /// The name under which hosts keep it. It speaks of its rules too: hosts with other rules share another one.
    pub key: String,
    what: What,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum What {
    /// The breaker of that tool.
    Breaker(String),
    /// The budget of that name.
    Budget(String),
}

/// What others know of one thing that is shared, and what has happened to it here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedPart {
    known: Known,
    has_news: bool,
    differs: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Known {
    Breaker(String, Breaker),
    Budget(String, Ledger),
}

impl Interpreter {
    /// Everything that is shared under this policy: of all tools, of the models of the run, and of its report.
    pub fn sharing(&self, state: &State) -> Vec<Sharing> {
        let (policy, mut all) = (self.policy(), Vec::new());
        let mut budget = |action: &str, budget: &Budget| {
            all.extend(account(action, budget).filter(|_| budget.scope() == BudgetScope::Shared));
        };
        for tool in self.tools().names() {
            budget(&format!("tool {tool}"), &policy.tool(tool).retry.budget.value);
        }
        for target in &state.targets {
            budget(&format!("model {target}"), &policy.model(target).retry.budget.value);
        }
        if let Some(output) = policy.output() {
            budget("output", &output.retry.budget.value);
        }
        // Those that only some calls draw on.
        all.extend(state.budgets.shared().map(|(account, _)| account.clone()));
        all.sort();
        all.dedup();
        let breakers = self.tools().names().filter_map(|tool| self.shared_breaker(tool));
        breakers.chain(all.into_iter().map(Sharing::budget)).collect()
    }

    /// What has happened to something that others are to be told.
    pub fn untold(&self, state: &State) -> Vec<Sharing> {
        let breakers = state.breakers.iter().filter(|(_, breaker)| breaker.has_news());
        let breakers = breakers.filter_map(|(tool, _)| self.shared_breaker(tool));
        let budgets = state.budgets.shared().filter(|(_, ledger)| ledger.has_news());
        breakers.chain(budgets.map(|(account, _)| Sharing::budget(account.clone()))).collect()
    }

    /// What others know of it (`None`: nothing), and all that has happened to it in this run.
    ///
    /// # Errors
    /// What the others have written is nothing that can be known of it.
    pub fn told(
        &self,
        state: &State,
        sharing: &Sharing,
        others: Option<&Value>,
    ) -> Result<SharedPart, RecordError> {
        let unreadable = |error: serde_json::Error| RecordError::Malformed(error.to_string());
        Ok(match &sharing.what {
            What::Breaker(tool) => {
                let others = others.map(Breaker::deserialize).transpose().map_err(unreadable)?;
                let ours = state.breakers.get(tool).cloned().unwrap_or_default();
                let all = ours.told_to(others.as_ref(), &self.policy().tool(tool).breaker);
                let (has_news, differs) = (ours.has_news(), all != ours);
                SharedPart { known: Known::Breaker(tool.clone(), all), has_news, differs }
            }
            What::Budget(account) => {
                let others = others.map(Ledger::deserialize).transpose().map_err(unreadable)?;
                let ours = state.budgets.get(account).cloned().unwrap_or_default();
                let all = ours.told_to(others.as_ref());
                let (has_news, differs) = (ours.has_news(), all != ours);
                SharedPart { known: Known::Budget(account.clone(), all), has_news, differs }
            }
        })
    }

    fn shared_breaker(&self, tool: &str) -> Option<Sharing> {
        let policy = &self.policy().tool(tool).breaker;
        is_shared(policy).then(|| Sharing {
            key: format!("breaker {tool} ({})", Breaker::rules_of(policy)),
            what: What::Breaker(tool.to_owned()),
        })
    }
}

/// Whether hosts share the breaker, and it ever opens.
pub(super) const fn is_shared(policy: &BreakerPolicy) -> bool {
    matches!(policy.scope.value, BreakerScope::Shared) && policy.failures.value.is_some()
}

impl Sharing {
    fn budget(account: String) -> Self {
        Self { key: account.replacen("shared", "budget", 1), what: What::Budget(account) }
    }
}

impl SharedPart {
    /// Whether others are to be told.
    pub const fn has_news(&self) -> bool {
        self.has_news
    }

    /// Whether the run knows something else, or has told the others something.
    pub const fn differs(&self) -> bool {
        self.differs
    }

    /// As the others are told.
    pub fn value(&self) -> Value {
        let value = match &self.known {
            Known::Breaker(_, breaker) => serde_json::to_value(breaker.without_probes()),
            Known::Budget(_, ledger) => serde_json::to_value(ledger),
        };
        value.unwrap_or_default()
    }
}

impl SharedKnown {
    /// With this one too.
    pub fn add(&mut self, part: SharedPart) {
        match part.known {
            Known::Breaker(tool, breaker) => drop(self.breakers.insert(tool, breaker)),
            Known::Budget(account, ledger) => drop(self.budgets.insert(account, ledger)),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.breakers.is_empty() && self.budgets.is_empty()
    }
}

/// Keeps in mind what others are to be told.
pub(super) fn remember<T>(untold: &mut VecDeque<T>, act: T) {
    if untold.len() >= MOST_UNTOLD {
        untold.pop_front();
    }
    untold.push_back(act);
}
