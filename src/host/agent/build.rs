//! How an agent is put together.

use core::time::Duration;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::Agent;
use crate::ErrorCause;
use crate::context::{TokenCounter, overhead};
use crate::engine::{Interpreter, KnownWindow, RequestOverhead, ToolCatalogue, ToolSpec};
use crate::host::approver::Approver;
use crate::host::clock::Clock;
use crate::host::observer::Planner;
use crate::host::port::{Model, ToolSource};
use crate::host::result_files::ResultFiles;
use crate::host::results::with_readers;
use crate::host::shared::SharedState;
use crate::host::task::RunError;
use crate::host::tool::Tools;
use crate::host::{Metrics, ModelFacts, counter_by};
use crate::policy::{Policy, Price, UnknownPrice};

impl Agent {
    /// Adds a model under the name the policy's selectors match. The first is preferred.
    #[must_use]
    pub fn model(mut self, name: impl Into<String>, model: impl Model + 'static) -> Self {
        self.models.push((name.into(), Arc::new(model)));
        self
    }

    /// Says what telemetry tells about the model of that name: who serves it, as what, at which price.
    #[must_use]
    pub fn facts(mut self, name: impl Into<String>, facts: ModelFacts) -> Self {
        self.facts.insert(name.into(), facts);
        self
    }

    /// Counts into these metrics, which others may read while runs continue. Without it each run has its own.
    #[must_use]
    pub fn metrics(mut self, metrics: Arc<Metrics>) -> Self {
        self.metrics = Some(metrics);
        self
    }

    /// Sets the tools.
    #[must_use]
    pub fn tools(mut self, tools: Tools) -> Self {
        self.tools = tools;
        self
    }

    /// Adds tools that may change while a run continues, after those that do not. They are looked at before every turn.
    #[must_use]
    pub fn tool_source(mut self, source: impl ToolSource + 'static) -> Self {
        self.sources.push(Arc::new(source));
        self
    }

    /// All tools as they are now.
    pub(super) fn all_tools(&self) -> Tools {
        let changing = self.sources.iter().flat_map(|source| source.tools());
        self.tools.iter().map(Arc::clone).chain(changing).collect()
    }

    /// Which tools the sources have, for a run that looks whether they are others.
    pub(super) fn versions(&self) -> Vec<u64> {
        self.sources.iter().map(|source| source.version()).collect()
    }

    /// Every tool a model may be shown as things are now, the one that reads kept results and the report's among them.
    ///
    /// # Errors
    /// Tools that cannot be used together, or not under the policy.
    pub fn offered(&self) -> Result<Vec<ToolSpec>, RunError> {
        let (_, policy) = self.policy.numbered();
        let results = Arc::new(ResultFiles::new(None));
        let catalogue = with_readers(&self.all_tools(), &policy, &results).catalogue()?;
        catalogue.fits(&policy)?;
        Ok(super::offered(&Interpreter::new(policy, catalogue)).to_vec())
    }

    /// Sets who decides where the policy says `ask_planner`, and who may give single calls a layer of their own.
    #[must_use]
    pub fn planner(mut self, planner: impl Planner + 'static) -> Self {
        self.planner = Arc::new(planner);
        self
    }

    /// Sets who is asked where the policy wants a person to agree. Without it nobody is, and the policy says what that
    /// means (`turn.approval.unanswered`).
    #[must_use]
    pub fn approver(mut self, approver: impl Approver + 'static) -> Self {
        self.approver = Arc::new(approver);
        self
    }

    /// Sets how tokens are counted. Without it they are counted as the policy says for the first model; its vocabulary is
    /// known by its [`facts`](Self::facts).
    #[must_use]
    pub fn counter(mut self, counter: Box<dyn TokenCounter>) -> Self {
        self.counter = Some(counter.into());
        self
    }

    /// Says how large the window of the model of that name is, and how that is known. The policy's `context_window` overrides
    /// it.
    #[must_use]
    pub fn window(mut self, name: impl Into<String>, window: KnownWindow) -> Self {
        self.windows.insert(name.into(), window);
        self
    }

    /// The effective policy.
    pub(in crate::host) fn policy(&self) -> Policy {
        self.policy.current()
    }

    /// The prices of the models that are known by their facts.
    pub(super) fn prices(&self) -> BTreeMap<String, Price> {
        self.facts.iter().filter_map(|(name, facts)| Some((name.clone(), facts.price?))).collect()
    }

    /// Whether every model has a price, if the policy bounds what a run may cost.
    pub(super) fn prices_for(&self, policy: &Policy) -> Result<(), UnknownPrice> {
        let known = self.prices();
        policy.prices(self.models.iter().map(|(name, _)| (name.as_str(), known.get(name).copied())))
    }

    /// Whether a policy can be used with these tools and the models there are.
    pub(super) fn fits(&self, policy: &Policy, tools: &ToolCatalogue) -> Result<(), ErrorCause> {
        tools.fits(policy)?;
        Ok(self.prices_for(policy)?)
    }

    /// What telemetry says of the models: the price is the one that the policy says, if it says one.
    pub(super) fn facts_under(&self, policy: &Policy) -> BTreeMap<String, ModelFacts> {
        let mut facts = self.facts.clone();
        for (name, _) in &self.models {
            if let Some(price) = policy.model(name).price.value.known() {
                facts.entry(name.clone()).or_default().price = Some(price);
            }
        }
        facts
    }

    /// How tokens are counted under a policy.
    pub(super) fn counter_under(&self, policy: &Policy) -> Arc<dyn TokenCounter> {
        let first = self.models.first().map_or("", |(name, _)| name);
        self.counter.clone().unwrap_or_else(|| counter_by(&policy.model(first).tokens, self.first_model()))
    }

    /// The first model, by its name at its server.
    pub(super) fn first_model(&self) -> &str {
        let first = self.models.first().and_then(|(name, _)| self.facts.get(name));
        first.map_or("", |facts| &facts.model)
    }

    /// What is known that the models' providers add to each request. `system`: it has instructions.
    pub(super) fn overheads(&self, system: bool) -> BTreeMap<String, RequestOverhead> {
        let added = self.models.iter().filter_map(|(name, _)| {
            let served = self.facts.get(name).map_or(name, |facts| &facts.model);
            Some((name.clone(), overhead(served, system)?))
        });
        added.collect()
    }

    /// Keeps results that are too large for the model in this folder, where the policy says so (`result.overflow: spill`);
    /// without it, in a private one that is gone after the run.
    #[must_use]
    pub fn results(mut self, folder: impl Into<PathBuf>) -> Self {
        self.results = Some(folder.into());
        self
    }

    /// Shares breakers and budgets with all agents that have the same `shared`, where the policy says so (`scope: shared`).
    /// Without it a run counts by itself, and its session continues with it.
    #[must_use]
    pub fn shared(mut self, shared: Arc<dyn SharedState>) -> Self {
        self.shared = Some(shared);
        self
    }

    /// Takes the time from this clock instead of the system's.
    #[must_use]
    pub const fn clock(mut self, clock: Clock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Sets how long work in flight may take to end after its run has, before it is dropped; without it, 5 s. It should
    /// be longer than the grace of every tool.
    #[must_use]
    pub const fn drain(mut self, longest: Duration) -> Self {
        self.drain = longest;
        self
    }
}
