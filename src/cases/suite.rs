//! A test file, read and ready to be played.

use std::collections::HashMap;
use std::sync::Arc;

use indexmap::IndexMap;
use serde_json::json;

use super::compare::{Mismatch, compare};
use super::coverage::Coverage;
use super::document::{CallCase, CaseRule, TestFile, ToolCase};
use super::expect::ExpectRule;
use super::inline::Inline;
use super::outcome::OutcomeRule;
use super::run::{self, PlannedCall, Plot, Setup};
use super::timeline::{Line, timeline};
use crate::engine::{Catalogue, CatalogueError, ToolSpec};
use crate::host::scripted::Script;
use crate::policy::decode::{self, Document, Spanned};
use crate::policy::{self, Code, Diagnostic, Place, Policy, Report, Span};
use crate::time::Nanos;

/// Reads the files that test files name. Each policy is loaded once, however many cases it is for.
pub struct Loader<'a> {
    open: Box<Open<'a>>,
    policies: HashMap<PolicyKey, Policy>,
}

/// Opens a file: the test file that names it, and its path as it is written there. What it is to be called, and its
/// bytes; or why it cannot be read.
type Open<'a> = dyn FnMut(&str, &str) -> Result<(String, Vec<u8>), String> + 'a;

/// The files of a policy, and the profile that is chosen.
type PolicyKey = (Vec<(String, Vec<u8>)>, Option<String>);

/// The cases of one test file.
#[derive(Clone, Debug)]
pub struct Suite {
    name: String,
    about: Option<String>,
    cases: Vec<Case>,
}

/// One case.
#[derive(Clone, Debug)]
pub struct Case {
    file: Arc<str>,
    name: String,
    given: Option<String>,
    place: Place,
    setup: Arc<Setup>,
    expect: Arc<ExpectRule>,
}

/// What became of a case.
#[derive(Debug)]
pub struct Verdict {
    /// Every expectation that was not met; empty: the case passes.
    pub mismatches: Vec<Mismatch>,
    /// What happened; only of a case that does not pass.
    pub timeline: Vec<Line>,
}

impl<'a> Loader<'a> {
    /// A loader that opens files by `open`.
    pub fn new(open: impl FnMut(&str, &str) -> Result<(String, Vec<u8>), String> + 'a) -> Self {
        Self { open: Box::new(open), policies: HashMap::new() }
    }

    /// Reads a test file and everything it names.
    ///
    /// # Errors
    /// Every mistake in it, and in the policies it names.
    pub fn read(&mut self, name: &str, bytes: &[u8]) -> Result<Suite, Vec<Report>> {
        let (document, report) = decode::read_and::<TestFile>(name, bytes, |_| Vec::new());
        let reports: Vec<Report> = report.into_iter().collect();
        // Without one of these the cases would be read with another policy.
        let astray = |document: &Document<TestFile>| {
            document.lost().any(&["policy", "inline", "profile", "tools", "version"])
        };
        let Some(document) = document.filter(|document| !astray(document)) else { return Err(reports) };
        let mut reading = Reading { loader: self, name, document: &document, problems: Vec::new(), reports };
        let suite = reading.suite();
        let Reading { problems, mut reports, .. } = reading;
        if !problems.is_empty() {
            reports.insert(0, document.report(problems));
        }
        match suite {
            Some(suite) if reports.is_empty() => Ok(suite),
            _ => Err(reports),
        }
    }
}

impl core::fmt::Debug for Loader<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Loader").field("policies", &self.policies.len()).finish_non_exhaustive()
    }
}

impl Suite {
    /// The test file, as it was named.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What its cases are about, if it says so.
    pub fn about(&self) -> Option<&str> {
        self.about.as_deref()
    }

    /// Its cases, in order.
    pub fn cases(&self) -> &[Case] {
        &self.cases
    }
}

impl Case {
    /// What it shows.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The situation in words, if it is told.
    pub fn given(&self) -> Option<&str> {
        self.given.as_deref()
    }

    /// Where it is written.
    pub const fn place(&self) -> &Place {
        &self.place
    }

    /// Plays it. The same case always has the same verdict.
    pub fn run(&self) -> Verdict {
        self.run_with(None)
    }

    /// Plays it and counts what it covers.
    pub fn run_counted(&self, coverage: &mut Coverage) -> Verdict {
        self.run_with(Some(coverage))
    }

    fn run_with(&self, coverage: Option<&mut Coverage>) -> Verdict {
        let record = run::run(&self.setup);
        if let Some(coverage) = coverage {
            coverage.add(&self.file, &self.setup, &record);
        }
        let mismatches = compare(&self.expect, &record);
        let timeline = if mismatches.is_empty() { Vec::new() } else { timeline(&record) };
        Verdict { mismatches, timeline }
    }
}

impl Verdict {
    /// Whether all that was expected came.
    pub const fn passed(&self) -> bool {
        self.mismatches.is_empty()
    }
}

impl Mismatch {
    /// The bytes of the test file that would have to be written anew for it to hold, and their new text; only of
    /// numbers and lists that are exact.
    pub fn update(&self) -> Option<(core::ops::Range<usize>, &str)> {
        let (span, text) = self.fix.as_ref()?;
        Some((span.range(), text))
    }
}

/// A test file that is being read.
struct Reading<'a, 'b> {
    loader: &'a mut Loader<'b>,
    name: &'a str,
    document: &'a Document<TestFile>,
    problems: Vec<Diagnostic>,
    reports: Vec<Report>,
}

impl Reading<'_, '_> {
    fn suite(&mut self) -> Option<Suite> {
        let document = self.document;
        let file = &document.value;
        // There is nothing else it could be.
        let decode::VersionOne = file.version;
        let mut layers = Vec::new();
        for path in &file.policy.0 {
            let (name, bytes) = self.open(path)?;
            layers.push((name, bytes));
        }
        layers.extend(file.inline.as_ref().map(|inline| self.layer(inline)));
        // Also for a file without cases: what is wrong with its policy is said in any event.
        let policy = self.policy(layers.clone(), file.profile.clone())?;
        let catalogue = self.catalogue(&file.tools)?;
        let mut cases = Vec::new();
        for case in &file.cases.value.0 {
            let rule = &case.value;
            let own = rule.inline.as_ref().map(|inline| self.layer(inline));
            let profile = rule.profile.as_ref().or(file.profile.as_ref());
            let policy = if own.is_none() && rule.profile.is_none() {
                Some(policy.clone())
            } else {
                self.policy(layers.iter().cloned().chain(own).collect(), profile.cloned())
            };
            self.problems.extend(rule.expect.value.problems(rule.expect.span));
            let setup = policy.and_then(|policy| self.setup(file, case, policy, &catalogue));
            cases.extend(setup.map(|setup| Case {
                file: self.name.into(),
                name: rule.name.value.clone(),
                given: rule.given.clone(),
                place: document.sources().place_of(case.span),
                setup: Arc::new(setup),
                expect: Arc::new(rule.expect.value.clone()),
            }));
        }
        Some(Suite { name: self.name.to_owned(), about: file.about.clone(), cases })
    }

    fn open(&mut self, path: &Spanned<String>) -> Option<(String, Vec<u8>)> {
        match (self.loader.open)(self.name, &path.value) {
            Ok(found) => Some(found),
            Err(error) => {
                self.problems.push(Diagnostic::error(Code::UNKNOWN_NAME, path.span, error));
                None
            }
        }
    }

    fn layer(&self, inline: &Inline) -> (String, Vec<u8>) {
        (self.name.to_owned(), inline.text.clone().into_bytes())
    }

    fn policy(&mut self, layers: Vec<(String, Vec<u8>)>, profile: Option<String>) -> Option<Policy> {
        let key = (layers, profile);
        if let Some(policy) = self.loader.policies.get(&key) {
            return Some(policy.clone());
        }
        let loader = match &key.1 {
            Some(name) => policy::Loader::new().profile(name),
            None => policy::Loader::new(),
        };
        match loader.load_with(&mut *self.loader.open, key.0.clone()) {
            Ok(policy) => {
                self.loader.policies.insert(key, policy.clone());
                Some(policy)
            }
            Err(report) => {
                self.reports.push(report);
                None
            }
        }
    }

    fn catalogue(&mut self, tools: &IndexMap<String, ToolCase>) -> Option<Catalogue> {
        match Catalogue::new(tools.iter().map(|(name, rule)| spec(name, rule))) {
            Ok(catalogue) => Some(catalogue),
            Err(CatalogueError::Schema { tool, source }) => {
                let named = tools.get(&tool).and_then(|rule| rule.parameters.as_ref());
                let span = named.map_or(Span::new(policy::SourceId(0), 0, 0), |value| value.span);
                let message = format!("this is not a JSON Schema: {source}");
                self.problems.push(Diagnostic::error(Code::SCHEMA, span, message));
                None
            }
            // The keys of a mapping are not there twice.
            Err(CatalogueError::Duplicate(_)) => None,
        }
    }

    fn setup(
        &mut self,
        file: &TestFile,
        case: &Spanned<CaseRule>,
        policy: Policy,
        common: &Catalogue,
    ) -> Option<Setup> {
        let rule = &case.value;
        let plot = self.plot(case)?;
        let mut tools = file.tools.clone();
        for (name, own) in &rule.tools {
            let tool = tools.entry(name.clone()).or_default();
            tool.description = own.description.clone().or(tool.description.take());
            tool.parameters = own.parameters.clone().or(tool.parameters.take());
            tool.effect = own.effect.or(tool.effect);
            tool.outcomes = own.outcomes.clone().or(tool.outcomes.take());
        }
        let mut declared = rule.tools.is_empty();
        if let Plot::Calls(calls) = &plot {
            for call in calls {
                declared &= tools.contains_key(&call.tool);
                tools.entry(call.tool.clone()).or_default();
            }
        }
        let catalogue = if declared { common.clone() } else { self.catalogue(&tools)? };
        let outcomes =
            tools.iter().filter_map(|(name, tool)| Some((name.clone(), shared(tool.outcomes.as_ref())?)));
        Some(Setup {
            policy,
            tools: catalogue,
            outcomes: outcomes.collect(),
            plot,
            models: if rule.models.is_empty() { vec!["main".to_owned()] } else { rule.models.clone() },
            system: rule.system.clone(),
            task: rule.task.clone(),
            order: rule.order.iter().map(|place| place.get()).collect(),
            layers: rule.planner.calls.iter().map(|(tool, layer)| (tool.clone(), layer.clone())).collect(),
            decisions: rule.planner.decisions.clone(),
            cancel: rule.cancel,
            resume_at: rule.resume_at.0.iter().map(|seq| u64::from(seq.get())).collect(),
            start: rule.start.0,
            deadline: rule.deadline,
            seed: rule.seed,
        })
    }

    /// What happens in a case: exactly one of its four forms.
    fn plot(&mut self, case: &Spanned<CaseRule>) -> Option<Plot> {
        let rule = &case.value;
        let forms = [
            rule.tool.as_ref().map(|tool| tool.span),
            rule.calls.as_ref().map(|calls| calls.span),
            rule.replies.as_ref().map(|replies| replies.span),
            rule.script.as_ref().map(|script| script.span),
        ];
        let forms: Vec<Span> = forms.into_iter().flatten().collect();
        if forms.len() != 1 {
            let at = forms.get(1).copied().unwrap_or(case.span);
            let message = "a case has exactly one of `tool`, `calls`, `replies` and `script`";
            self.problems.push(Diagnostic::error(Code::CONTRADICTION, at, message));
            return None;
        }
        if rule.tool.is_none() {
            let lost = [
                ("arguments", rule.arguments.as_ref().map(|arguments| arguments.span)),
                ("outcomes", rule.outcomes.as_ref().map(|outcomes| outcomes.span)),
            ];
            for (name, span) in lost.into_iter().filter_map(|(name, span)| Some((name, span?))) {
                let problem = Diagnostic::error(Code::CONTRADICTION, span, format!("`{name}` needs `tool`"));
                self.problems.push(problem.help("give each tool its own under `tools` or `calls`"));
            }
        }
        if let Some(tool) = &rule.tool {
            let call = CallCase {
                tool: tool.clone(),
                arguments: rule.arguments.clone(),
                outcomes: rule.outcomes.clone(),
                after: Nanos::ZERO,
            };
            return Some(Plot::Calls(vec![planned(&call)]));
        }
        if let Some(calls) = &rule.calls {
            if calls.value.is_empty() {
                let problem = Diagnostic::error(Code::MISSING_FIELD, calls.span, "the case calls nothing");
                self.problems.push(problem);
            }
            return Some(Plot::Calls(calls.value.iter().map(|call| planned(&call.value)).collect()));
        }
        if let Some(replies) = &rule.replies {
            let entries: Vec<_> = replies
                .value
                .iter()
                .filter_map(|reply| reply.value.entry(reply.span, &mut self.problems))
                .collect();
            if replies.value.is_empty() {
                self.problems.push(Diagnostic::error(
                    Code::MISSING_FIELD,
                    replies.span,
                    "the model has no replies",
                ));
            }
            return Some(Plot::Run(Arc::new(Script::new(self.name, entries))));
        }
        let (name, bytes) = self.open(rule.script.as_ref()?)?;
        match Script::from_yaml(&name, &bytes) {
            Ok(script) => Some(Plot::Run(Arc::new(script))),
            Err(report) => {
                self.reports.push(report);
                None
            }
        }
    }
}

fn planned(call: &CallCase) -> PlannedCall {
    PlannedCall {
        tool: call.tool.value.clone(),
        arguments: run::arguments(call.arguments.as_ref().map(|arguments| &arguments.value)),
        outcomes: shared(call.outcomes.as_ref()),
        after: call.after,
    }
}

fn shared(outcomes: Option<&Spanned<Vec<OutcomeRule>>>) -> Option<Arc<[OutcomeRule]>> {
    outcomes.map(|outcomes| outcomes.value.as_slice().into())
}

fn spec(name: &str, rule: &ToolCase) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        description: rule.description.clone().unwrap_or_default(),
        parameters: rule
            .parameters
            .as_ref()
            .map_or_else(|| json!({"type": "object"}), |value| value.value.clone()),
        effect: rule.effect,
    }
}
