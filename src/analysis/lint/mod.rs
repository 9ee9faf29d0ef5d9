//! Lints: what a policy may say and hardly means. They are looked for on demand, never while loading.
//!
//! Rules are checked at the names they speak of: the tools and models of the host if they are known, else every
//! selector, taken as a name that only selectors match which include it.

mod amplification;
mod arguments;
mod attempts;
mod breakers;
mod classes;
mod conditions;
mod context;
mod found;
mod never;
mod nulls;
mod numbers;
mod of_class;
mod paces;
mod plain;
mod rest;
mod results;
mod rows;
mod run_limits;
mod selectors;
mod steps;
mod suppression;
mod tools;
mod view;
mod waits;
mod witness;
mod words;

use amplification::RetryAmplification;
use arguments::SpokenArguments;
use classes::RaisedClasses;
use found::LintFindings;
use never::NeverRetried;
use of_class::OfClass;
use paces::PoolRates;
use selectors::{NameOwner, SelectorMatches};
use steps::StepTimeouts;
use tools::UnsafeRetries;
use view::{ProfileView, spend, spend_waits, subject};
use words::WrittenValues;

use crate::analysis::explain::{self, AttemptKind, AttemptedWork as Attempted};
use crate::policy::conflict::SearchBudget;
use crate::policy::form::MergedBlock as _;
use crate::policy::layers::PolicyLayers;
use crate::policy::part::{PartKind, chosen};
use crate::policy::{Effect, Findings, Policy};
use crate::text::{Code, Diagnostic, Report};

/// What is known of the host, and what is too much.
#[derive(Clone, Debug)]
pub struct LintOptions {
    /// All tools of the host; `None`: they are not known.
    pub(crate) tools: Option<Vec<KnownTool>>,
    /// The tools an agent has, if nothing else is to be concluded from them than which may say whether another has
    /// acted (`on_uncertain_effect: {kind: verify}`); `None`: they are not known.
    pub(crate) witnesses: Option<Vec<KnownTool>>,
    /// The names selectors are held against, if nothing else is to be concluded from them; `None`: those of `tools` and
    /// `models`.
    pub names: Option<KnownNames>,
    /// All models of the host; `None`: they are not known.
    pub(crate) models: Option<Vec<KnownModel>>,
    /// How often clients of models retry inside each attempt, by default.
    pub inner_retries: u32,
    /// The most attempts that one call may lead to, over all layers.
    pub most_attempts: u32,
    /// The budget that makes the first turn of an agent its final one, as the engine reserves; `None`: there is none, or
    /// no agent is known.
    pub(crate) short_budget: Option<ShortBudget>,
}

/// A budget of a run that leaves an agent nothing before its final turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShortBudget {
    /// The budget: `limits.run.tokens`.
    pub path: String,
    /// What is left of it, and what the first turn would send.
    pub why: String,
}

/// A tool of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KnownTool {
    /// Its name.
    pub name: String,
    /// What it says of itself.
    pub effect: Effect,
    /// How often it retries inside each run.
    pub inner_retries: u32,
    /// The names of its arguments; `None`: they are not known, or it takes others, too.
    pub arguments: Option<Vec<String>>,
    /// The JSON Schema of its arguments, if it is known.
    pub schema: Option<serde_json::Value>,
}

impl KnownTool {
    /// The arguments that a JSON Schema of them names; `None`: it does not say which there are.
    pub(crate) fn arguments_of(schema: &serde_json::Value) -> Option<Vec<String>> {
        const OPEN: [&str; 8] =
            ["$ref", "allOf", "anyOf", "oneOf", "if", "patternProperties", "$dynamicRef", "not"];
        let schema = schema.as_object()?;
        let open =
            schema.get("additionalProperties").is_some_and(|more| *more != serde_json::Value::Bool(false));
        let names = schema.get("properties")?.as_object()?.keys().cloned().collect();
        (!open && !OPEN.iter().any(|word| schema.contains_key(*word))).then_some(names)
    }
}

/// The names of the tools and models of an agent, or of the cases of a test file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownNames {
    /// Who has them, for people: `agent`, `test file`.
    pub owner: &'static str,
    /// The tools; `None`: they are not known.
    pub tools: Option<Vec<String>>,
    /// The models; `None`: they are not known.
    pub models: Option<Vec<String>>,
    /// How many of its names these are.
    pub completeness: NameCompleteness,
    /// Files that other agents use too, so that a name in them may belong to another agent.
    pub shared: Vec<String>,
    /// How the names of further tools begin: those of servers that were not asked. What they may bring is unknown.
    pub unasked: Vec<String>,
}

/// How many of the names that somebody has are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameCompleteness {
    /// All: another name in the owner's own policy file, the topmost one, is an error.
    All,
    /// Others may come, of servers that were not asked: another name is a warning.
    More,
    /// Those that a test needs: only a name that is a slip of one of them is a warning.
    Few,
}

/// A model of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KnownModel {
    /// Its name.
    pub name: String,
    /// How often its client retries inside each attempt.
    pub inner_retries: u32,
}

impl LintOptions {
    /// The default maximum number of attempts that one call may lead to.
    pub const MOST_ATTEMPTS: u32 = 128;
}

impl Default for LintOptions {
    fn default() -> Self {
        Self {
            tools: None,
            witnesses: None,
            names: None,
            models: None,
            inner_retries: 0,
            most_attempts: Self::MOST_ATTEMPTS,
            short_budget: None,
        }
    }
}

impl Policy {
    /// The likely mistakes of the files. With a profile, as it is when that is chosen; without one, in every profile
    /// and in none.
    ///
    /// ```
    /// use unfazed::analysis::LintOptions;
    /// use unfazed::policy::Policy;
    /// let text = "version: 1\nretry: {max_attempts: 2}\ntools: {search: {retry: {max_attempts: 2}}}\n";
    /// let report = Policy::from_yaml("team.yaml", text)?.lint(&LintOptions::default());
    /// assert_eq!(report.diagnostics()[0].code.as_str(), "W0205");
    /// # Ok::<(), unfazed::text::Report>(())
    /// ```
    pub fn lint(&self, options: &LintOptions) -> Report {
        let mut found = LintFindings::new(self.sources());
        let raised = RaisedClasses::of(self.parts());
        let mut lints = LintMemory::new(&raised);
        let mut work = SearchBudget::of_lints();
        let mut go = |layers: &PolicyLayers| {
            let view = ProfileView { layers, options };
            lints.observe(&view, &mut work, &mut found)
        };
        let mut finished = go(self.layers());
        if self.profile().is_none() {
            for profile in self.profiles() {
                finished = finished && go(&PolicyLayers::new(&chosen(self.parts(), Some(profile))));
            }
        }
        classes::check(self.parts(), &mut found);
        numbers::check(self.parts(), &mut found);
        results::check(self.parts(), &mut found);
        nulls::check(self.parts(), &mut found);
        plain::check(self.parts(), &mut found);
        waits::corrections(self.parts(), &mut found);
        rows::check(self, &mut found);
        conditions::check(self.layers(), options, &mut found);
        if finished {
            lints.finish(&self.names_of(options), &mut found);
        }
        self.suppressed(found, options, finished)
    }

    /// The selectors that match none of those names.
    ///
    /// ```
    /// use unfazed::analysis::{NameCompleteness, KnownNames};
    /// use unfazed::policy::Policy;
    /// let names = KnownNames {
    ///     owner: "agent",
    ///     tools: Some(vec!["refund".into()]),
    ///     models: None,
    ///     completeness: NameCompleteness::All,
    ///     shared: Vec::new(),
    ///     unasked: Vec::new(),
    /// };
    /// let policy = Policy::from_yaml("policy.yaml", "version: 1\ntools: {refnd: {effect: read_only}}\n")?;
    /// let report = policy.hold_against(names);
    /// assert_eq!(report.to_string(), "policy.yaml:2:9: error[P0207]: the agent has no tool `refnd` (did you mean `refund`?)");
    /// # Ok::<(), unfazed::text::Report>(())
    /// ```
    pub fn hold_against(&self, names: KnownNames) -> Report {
        let options = LintOptions { names: Some(names), ..LintOptions::default() };
        let (mut found, mut selectors) = (LintFindings::new(self.sources()), SelectorMatches::default());
        selectors.observe(&ProfileView { layers: self.layers(), options: &options });
        for profile in self.profiles().iter().filter(|_| self.profile().is_none()) {
            let layers = PolicyLayers::new(&chosen(self.parts(), Some(profile)));
            selectors.observe(&ProfileView { layers: &layers, options: &options });
        }
        selectors.finish(&self.names_of(&options), &mut found);
        let mut findings = Findings::default();
        let left = suppression::apply(self.sources(), found.into_diagnostics(), |_, _| false);
        // What is wrong with the comments themselves is reported by `check`.
        for problem in left.into_iter().filter(|problem| problem.code != Code::SUPPRESSION) {
            findings.push(problem);
        }
        findings.into_report(self.sources().clone())
    }

    /// Who has the names that selectors are held against, and the file that is theirs alone.
    fn names_of<'o>(&self, options: &'o LintOptions) -> NameOwner<'o> {
        let mut files = self.parts().iter().filter(|part| part.kind == PartKind::File);
        let own = files.next_back().map(|part| part.source).filter(|source| {
            let name = self.sources().get(*source).map_or("", |source| source.name());
            options.names.as_ref().is_some_and(|names| {
                names.completeness == NameCompleteness::All && !names.shared.iter().any(|one| one == name)
            })
        });
        let (name, completeness, unasked) = match &options.names {
            Some(names) => (names.owner, names.completeness, names.unasked.as_slice()),
            None => ("host", NameCompleteness::More, &[][..]),
        };
        NameOwner { name, own, slips: completeness == NameCompleteness::Few, unasked }
    }

    /// What is left when suppressions have had their say.
    fn suppressed(&self, found: LintFindings<'_>, options: &LintOptions, finished: bool) -> Report {
        let crowded = found.crowded();
        let problems = found.into_diagnostics();
        let files: Vec<_> = self.parts().iter().filter(|part| part.kind == PartKind::File).collect();
        // What another file or another profile calls for may not be there now.
        let top = files.last().map(|part| part.source).filter(|_| finished && self.profile().is_none());
        let held = |source, code| {
            let known = Some(source) == top && !crowded.contains(&code);
            known && suppression::decidable(code, options, files.len())
        };
        let mut findings = Findings::default();
        let left: Vec<Diagnostic> = suppression::apply(self.sources(), problems, held);
        for problem in left {
            findings.push(problem);
        }
        findings.into_report(self.sources().clone())
    }
}

/// What the lints remember from view to view.
struct LintMemory<'p> {
    raised: &'p RaisedClasses,
    words: WrittenValues,
    selectors: SelectorMatches,
    amplification: RetryAmplification,
    never: NeverRetried,
    of_class: OfClass,
    steps: StepTimeouts,
    repeats: UnsafeRetries,
    arguments: SpokenArguments,
    /// Those of the view that is looked at.
    paces: PoolRates,
}

impl<'p> LintMemory<'p> {
    fn new(raised: &'p RaisedClasses) -> Self {
        Self {
            raised,
            words: WrittenValues::default(),
            selectors: SelectorMatches::default(),
            amplification: RetryAmplification::default(),
            never: NeverRetried::default(),
            of_class: OfClass::default(),
            steps: StepTimeouts::default(),
            repeats: UnsafeRetries::default(),
            arguments: SpokenArguments::default(),
            paces: PoolRates::default(),
        }
    }

    /// Checks one view. `false`: too much is left to look at.
    fn observe(
        &mut self,
        view: &ProfileView<'_>,
        work: &mut SearchBudget,
        found: &mut LintFindings<'_>,
    ) -> bool {
        self.never.compare(self.words.of_blocks(view));
        if let Some(rules) = view.layers.context().policy() {
            context::check(&rules, found);
        }
        run_limits::check(view, found);
        self.amplification.begin();
        self.paces = PoolRates::default();
        self.models(view, work, found) && self.tools(view, work, found) && {
            self.output(view, found);
            core::mem::take(&mut self.paces).finish(view, found);
            self.selectors.observe(view);
            true
        }
    }

    fn models(
        &mut self,
        view: &ProfileView<'_>,
        work: &mut SearchBudget,
        found: &mut LintFindings<'_>,
    ) -> bool {
        let (windows, limits) = (view.layers.context().policy(), view.layers.run_limits());
        let mut most = None;
        for named in view.models() {
            if !spend(view.layers.model_rules(), named.name, 1, work, found) {
                return false;
            }
            let merged = view.layers.model(named.name);
            if !spend_waits(&merged.retry, work, found) {
                return false;
            }
            self.never.compare(self.words.observe(&mut |visit| merged.each("", visit)));
            let Some(policy) = merged.policy() else { continue };
            let limit = policy.retry.max_attempts.value;
            most = most.max(Some(limit.limit().unwrap_or(u32::MAX)));
            waits::in_step(&policy.retry, found);
            self.of_class.observe(&policy.retry, self.raised.models);
            self.steps.observe(&policy);
            let subject = subject("model", named.name);
            if let Some(rules) = &windows {
                context::check_model(&subject, rules, &policy, found);
            }
            let work = Attempted { asks: true, ..Attempted::default() };
            let attempted = attempts::AttemptSubject { name: &subject, work, timed: true, breaker: None };
            attempts::check(&attempted, &policy.retry, found);
            self.paces.model((named.name, &subject), &policy, &limits, found);
            self.amplification.model(&subject, &policy, view.inner_retries(named.name));
        }
        waits::targets(view, most, found);
        true
    }

    fn tools(
        &mut self,
        view: &ProfileView<'_>,
        work: &mut SearchBudget,
        found: &mut LintFindings<'_>,
    ) -> bool {
        let limits = view.layers.run_limits();
        for named in view.tools() {
            let calls = view.layers.calls(named.name);
            if !spend(view.layers.tool_rules(), named.name, calls.len().saturating_add(1), work, found) {
                return false;
            }
            let above: Vec<_> = calls.iter().map(|(_, above)| above.clone()).collect();
            let merged = view.layers.tool(named.name, &above);
            if !spend_waits(&merged.retry, work, found) {
                return false;
            }
            self.never.compare(self.words.observe(&mut |visit| merged.each("", visit)));
            let plain = if above.is_empty() { merged } else { view.layers.tool(named.name, &[]) };
            let Some(policy) = plain.policy() else { continue };
            let subject = subject("tool", named.name);
            // Of runs that are not repeated anyway that is reported.
            let breaker = (!tools::in_vain(named, &policy, found)).then_some(&policy.breaker);
            let attempted = attempts::AttemptSubject {
                name: &subject,
                work: explain::work(&policy),
                timed: true,
                breaker,
            };
            attempts::check(&attempted, &policy.retry, found);
            self.amplification.tool(view, &subject, &policy, named.known);
            tools::idle_breaker(&subject, &policy, found);
            breakers::check(&subject, &policy, found);
            self.paces.tool((named.name, &subject), &policy, &limits, found);
            witness::check(view, &subject, &policy, found);
            self.arguments.observe(named, &policy, calls.iter().map(|(call, _)| *call));
            self.repeats.observe(named, &policy, &policy.retry, found);
            self.of_class.observe(&policy.retry, self.raised.tools);
            for layer in above {
                let merged = view.layers.tool_retry(named.name, &[layer]);
                if !spend_waits(&merged, work, found) {
                    return false;
                }
                if let Some(retry) = merged.policy() {
                    attempts::check(&attempted, &retry, found);
                    self.repeats.observe(named, &policy, &retry, found);
                    self.of_class.observe(&retry, self.raised.tools);
                }
            }
        }
        true
    }

    fn output(&mut self, view: &ProfileView<'_>, found: &mut LintFindings<'_>) {
        if view.layers.output_wanted().is_some()
            && let Some(policy) = view.layers.output().policy()
        {
            let work = Attempted { kind: AttemptKind::Report, ..Attempted::default() };
            let attempted =
                attempts::AttemptSubject { name: "the report", work, timed: false, breaker: None };
            attempts::check(&attempted, &policy.retry, found);
            self.amplification.output(view, &policy);
            self.of_class.observe(&policy.retry, self.raised.reports);
        }
    }

    /// Reports what only shows after all views.
    fn finish(self, owner: &NameOwner<'_>, found: &mut LintFindings<'_>) {
        self.words.finish(found);
        self.selectors.finish(owner, found);
        self.amplification.finish(found);
        self.never.finish(found);
        self.of_class.finish(found);
        self.steps.finish(found);
        self.repeats.finish(found);
        self.arguments.finish(found);
    }
}

#[cfg(test)]
mod laws;
#[cfg(test)]
mod tests;
