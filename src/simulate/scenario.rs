//! A scenario that is read: what many agents meet, ready to be played.

use core::num::NonZeroU32;

use serde_json::{Value, json};

use super::check::check;
use super::document::{CapacityFile, MOST_AGENTS, ModelFile, ScenarioFile, ToolFile, WindowFile};
use super::latency::LatencyModel;
use super::limits::{CallUse, ProviderRules, RefusalHint};
use crate::engine::{ToolCatalogue, ToolFacts, ToolSpec, reported};
use crate::policy::decode::{self, DecodedDocument, Spanned, VersionOne};
use crate::policy::{ErrorClass, OpenFraction, PerClass, Policy, UnknownPrice};
use crate::session::Usage;
use crate::text::{Report, SchemaProblem};
use crate::time::Nanos;

/// What many agents meet that share models and tools: how long these take, and when they fail.
///
/// ```
/// use unfazed::policy::Policy;
/// use unfazed::simulate::Scenario;
/// let text = "
/// version: 1
/// agents: 5
/// duration: 1m
/// models: {main: {latency: 2s, faults: {overloaded: 0.2}}}
/// ";
/// let scenario = Scenario::read("busy.yaml", text.as_bytes())?;
/// let figures = scenario.play(&Policy::builtin())?;
/// assert_eq!(figures, scenario.play(&Policy::builtin())?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Scenario {
    pub(super) name: String,
    /// What it says, without its models and tools.
    pub(super) file: ScenarioFile,
    pub(super) models: Vec<ModelRules>,
    pub(super) tools: Vec<ToolRules>,
    pub(super) catalogue: ToolCatalogue,
    /// Whether agents begin runs after `duration`, too.
    open_ended: bool,
}

/// What a service does, be it a model or a tool.
#[derive(Clone, Debug)]
pub(super) struct ServiceRules {
    pub(super) name: String,
    pub(super) latency: LatencyModel,
    pub(super) fails_after: LatencyModel,
    /// How often calls fail by class, in parts per million.
    pub(super) faults: Vec<(ErrorClass, u32)>,
    pub(super) capacity: Option<CapacityFile>,
    pub(super) trace: Vec<Spanned<WindowFile>>,
    /// What a model holds its clients to besides.
    pub(super) provider: ProviderRules,
}

#[derive(Clone, Debug)]
pub(super) struct ModelRules {
    pub(super) service: ServiceRules,
    pub(super) usage: Usage,
    /// Tokens that each further turn adds to the request.
    pub(super) grows: u64,
}

#[derive(Clone, Debug)]
pub(super) struct ToolRules {
    pub(super) service: ServiceRules,
    /// The arguments, in which `{n}` stands for the number of the call.
    pub(super) arguments: String,
    pub(super) result: Value,
    pub(super) facts: ToolFacts,
}

/// The JSON Schema (2020-12) of scenario files.
pub fn json_schema() -> Value {
    decode::schema::<ScenarioFile>()
}

impl Scenario {
    /// The most agents there can be.
    pub const MOST_AGENTS: u32 = MOST_AGENTS;

    /// Reads a scenario. `name` is the file as messages should name it.
    ///
    /// # Errors
    /// Every mistake in it, with its place.
    pub fn read(name: &str, bytes: &[u8]) -> Result<Self, Report> {
        let file = decode::read_with(name, bytes, |file: &DecodedDocument<ScenarioFile>| check(&file.value))?;
        Ok(Self::of(name, file.value))
    }

    fn of(name: &str, mut file: ScenarioFile) -> Self {
        // There is nothing else it could be.
        let VersionOne = file.version;
        let (models, tools) = (core::mem::take(&mut file.models.value), core::mem::take(&mut file.tools));
        let specs = tools.iter().map(|(name, tool)| spec(name, tool));
        // What is wrong with a schema was reported where it was read, and the keys of a mapping are not there twice.
        let catalogue = ToolCatalogue::new(specs).unwrap_or_default();
        let facts: Vec<ToolFacts> = catalogue.iter().map(ToolFacts::from).collect();
        let tools = tools.into_iter().zip(facts);
        Self {
            name: name.to_owned(),
            models: models.into_iter().map(|(name, model)| ModelRules::of(name, model)).collect(),
            tools: tools.map(|((name, tool), facts)| ToolRules::of(name, tool, facts)).collect(),
            catalogue,
            file,
            open_ended: false,
        }
    }

    /// The file, as it was named.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it is about, if it says so.
    pub fn about(&self) -> Option<&str> {
        self.file.about.as_deref()
    }

    /// How many agents there are.
    pub const fn agents(&self) -> u32 {
        self.file.agents.0
    }

    /// How long agents begin new runs.
    pub const fn duration(&self) -> Nanos {
        self.file.duration.0
    }

    /// The seed of all that is left to chance.
    pub const fn seed(&self) -> u64 {
        self.file.seed
    }

    /// The same with another seed.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.file.seed = seed;
        self
    }

    /// The same with so many agents: at least one, at most [`MOST_AGENTS`](Self::MOST_AGENTS).
    #[must_use]
    pub fn with_agents(mut self, agents: u32) -> Self {
        self.file.agents.0 = agents.clamp(1, MOST_AGENTS);
        self
    }

    /// The same with so many runs of each agent, however long they take.
    #[must_use]
    pub fn with_runs(mut self, runs: NonZeroU32) -> Self {
        self.file.runs = Some(runs);
        self.open_ended = true;
        self
    }

    /// So many runs of each agent, if they begin however long they take.
    pub fn fixed_runs(&self) -> Option<u32> {
        self.file.runs.filter(|_| self.open_ended).map(NonZeroU32::get)
    }

    /// Whether an agent that has had so many runs begins another one at a time from the start.
    pub(super) fn has_run_after(&self, runs: u32, at: Nanos) -> bool {
        self.file.runs.is_none_or(|most| runs < most.get()) && (self.open_ended || at < self.duration())
    }

    /// When something of the trace of a model or tool is in flight, as far as agents begin runs: from and to.
    pub fn windows(&self) -> Vec<(Nanos, Nanos)> {
        let models = self.models.iter().map(|model| &model.service);
        let services = models.chain(self.tools.iter().map(|tool| &tool.service));
        let mut windows: Vec<_> = services
            .flat_map(|service| &service.trace)
            .flat_map(|window| window.value.within(self.duration()))
            .collect();
        windows.sort_unstable();
        windows.dedup();
        windows
    }

    /// Whether the policy says what the models cost, if it bounds what a run may: a scenario says nothing of it.
    ///
    /// # Errors
    /// A model whose price is unknown.
    pub(crate) fn prices(&self, policy: &Policy) -> Result<(), UnknownPrice> {
        policy.prices(self.models.iter().map(|model| (model.service.name.as_str(), None)))
    }

    /// What is wrong with the report that is delivered, by the policy's `output`. Unless there is nothing, no run under
    /// that policy ends with a report, whatever models and tools do.
    pub fn problems_of_report(&self, policy: &Policy) -> Vec<SchemaProblem> {
        policy.output().map(|output| reported(output, &self.file.work.report)).unwrap_or_default()
    }
}

impl WindowFile {
    /// So many of its beginnings are shown.
    const MOST_SHOWN: usize = 200;

    const fn length(&self) -> Nanos {
        self.to.value.saturating_sub(self.from)
    }

    /// Whether it is in flight so long after the start.
    pub(super) const fn holds(&self, at: Nanos) -> bool {
        if at.0 < self.from.0 {
            return false;
        }
        let since = at.saturating_sub(self.from);
        let into = match self.every {
            Some(Spanned { value: Nanos(every), .. }) if every > 0 => since.0 % every,
            _ => since.0,
        };
        into < self.length().0
    }

    /// How long ago it ended last.
    pub(super) const fn ended(&self, at: Nanos) -> Option<Nanos> {
        if at.0 < self.to.value.0 {
            return None;
        }
        let since = at.saturating_sub(self.to.value);
        Some(match self.every {
            Some(Spanned { value: Nanos(every), .. }) if every > 0 => Nanos(since.0 % every),
            _ => since,
        })
    }

    fn within(&self, duration: Nanos) -> impl Iterator<Item = (Nanos, Nanos)> {
        let (length, every) = (self.length(), self.every);
        let starts = core::iter::successors(Some(self.from), move |from| {
            every.map(|every| from.saturating_add(every.value))
        });
        let shown = starts.take_while(move |from| *from < duration).take(Self::MOST_SHOWN);
        shown.map(move |from| (from, from.saturating_add(length).min(duration)))
    }
}

impl ServiceRules {
    fn of(
        name: String,
        latency: LatencyModel,
        fails_after: LatencyModel,
        faults: Option<&Spanned<PerClass<OpenFraction>>>,
        capacity: Option<CapacityFile>,
        trace: Vec<Spanned<WindowFile>>,
    ) -> Self {
        let rates = faults.iter().flat_map(|faults| &faults.value.0);
        Self {
            name,
            latency,
            fails_after,
            faults: rates.map(|(class, rate)| (*class, rate.0)).collect(),
            capacity,
            trace,
            provider: ProviderRules::default(),
        }
    }
}

impl ModelRules {
    fn of(name: String, file: ModelFile) -> Self {
        let provider = ProviderRules::of(&file);
        let usage = Usage { input: file.tokens.input, output: file.tokens.output, ..Usage::default() };
        let grows = file.tokens.grows;
        let ModelFile { latency, fails_after, faults, capacity, trace, .. } = file;
        let service = ServiceRules::of(name, latency, fails_after, faults.as_ref(), capacity, trace);
        Self { service: ServiceRules { provider, ..service }, usage, grows }
    }

    /// What a call uses so many turns after the first.
    pub(super) const fn usage_after(&self, turns: u32) -> Usage {
        let grown = self.grows.saturating_mul(turns as u64);
        Usage { input: self.usage.input.saturating_add(grown), ..self.usage }
    }
}

impl ProviderRules {
    fn of(file: &ModelFile) -> Self {
        Self {
            limits: file.limits.all().map(|(unit, limit)| (unit, limit.value)).collect(),
            hint: file.hint.map_or(RefusalHint::Exact, |hint| hint.value),
            hint_factor: file.hint_factor.map(|factor| factor.value),
            count: file.count,
            shedding: file.shedding,
            foreign: file.foreign.map(|foreign| foreign.value),
            foreign_use: CallUse { input: file.tokens.input, output: file.tokens.output },
            sticky: file.sticky.map(|rate| rate.value),
        }
    }
}

impl ToolRules {
    fn of(name: String, file: ToolFile, facts: ToolFacts) -> Self {
        let ToolFile { latency, fails_after, faults, capacity, trace, arguments, result, .. } = file;
        Self {
            service: ServiceRules::of(name, latency, fails_after, faults.as_ref(), capacity, trace),
            arguments: arguments.unwrap_or_else(|| json!({"item": "{n}"})).to_string(),
            result,
            facts: ToolFacts { parameters: None, ..facts },
        }
    }
}

fn spec(name: &str, tool: &ToolFile) -> ToolSpec {
    let parameters = tool.parameters.as_ref().map(|written| written.value.0.clone());
    ToolSpec {
        name: name.to_owned(),
        description: String::new(),
        parameters: parameters.unwrap_or_else(|| json!({"type": "object"})),
        effect: tool.effect,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mistakes(text: &str) -> String {
        Scenario::read("s.yaml", text.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn every_mistake_is_told_at_once_with_its_place() {
        insta::assert_snapshot!(mistakes(
            "version: 1
agents: 200000
duration: 10m
work: {calls: 4294967295}
arival: {kind: together}
models:
  main:
    latency: {kind: uniform, min: 3s, max: 1s}
    faults: {overloaded: 0.8, timeout: 0.4}
    trace:
      - {from: 2m, to: 1m, fault: overloaded}
      - {to: 1m, every: 30s, latency: 9s}
      - {to: 1m, rate: 0.5, latency: 9s}
      - {to: 1m}
      - {to: 1m, fault: circuit_open}
tools:
  search: {faults: {empty_response: 0.1}, latency: fast}
"
        ));
        insta::assert_snapshot!(mistakes("version: 1\nagents: 1\nduration: 1m\nmodels: {}\n"));
    }

    #[test]
    fn limits_that_contradict_each_other_are_told_with_their_places() {
        insta::assert_snapshot!(mistakes(
            "version: 1
agents: 1
duration: 10m
models:
  odd:
    limits:
      requests: {limit: 10, per: 1m, window: fixed, burst: 3}
      input_tokens: {limit: 10000, per: 1m, headers: true}
    hint: none
    hint_factor: 2
    shedding: {above: 20, all: 10}
    sticky: 0.5
  free: {hint: fair, hint_factor: 0, foreign: {calls: 3, per: 1s}, faults: {overloaded: 0.1}}
  unlimited: {hint_factor: 3, foreign: {calls: 3, per: 1s}}
  silent: {capacity: {calls: 5, per: 1m, retry_after: false}, hint: exact}
"
        ));
    }

    #[test]
    fn a_window_comes_back_as_often_as_it_says() {
        let secs = Nanos::from_secs;
        let text = "version: 1\nagents: 1\nduration: 2m\nmodels: {m: {trace: [{from: 10s, to: 20s, every: 50s, fault: overloaded}]}}";
        let scenario = Scenario::read("s.yaml", text.as_bytes()).unwrap();
        let held: Vec<u64> =
            (0..120).filter(|at| scenario.models[0].service.trace[0].value.holds(secs(*at))).collect();
        assert_eq!(held, [10..20, 60..70, 110..120].into_iter().flatten().collect::<Vec<u64>>());
        let shown = [(10, 20), (60, 70), (110, 120)].map(|(from, to)| (secs(from), secs(to)));
        assert_eq!(scenario.windows(), shown);
    }
}
