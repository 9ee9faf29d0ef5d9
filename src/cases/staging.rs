//! From a test file to cases that can be played: the policies it names, the tools, and what happens in each case.
//!
//! What is wrong with one case does not hide what is wrong with the others.

use core::num::NonZeroU32;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use indexmap::IndexMap;
use serde_json::json;

use super::claims;
use super::document::{CallCase, CaseRule, TestFile, ToolCase};
use super::message::MessageCase;
use super::outcome::OutcomeRule;
use super::proves::ExternalProof;
use super::reach;
use super::run::{self, CasePlot, CaseSetup, PlannedCall};
use super::suite::{TestCase, TestSuite};
use crate::analysis::{KnownNames, NameCompleteness};
use crate::engine::{KnownWindow, ToolCatalogue, ToolSpec, WindowSource};
use crate::host::scripted::Script;
use crate::policy::decode::{self, Spanned};
use crate::policy::{self, Findings, NamedText, Policy};
use crate::text::{Code, Diagnostic, Report, Sources, Span};
use crate::time::Nanos;

/// Reads the files that test files name. Each policy is loaded once, however many cases it is for.
pub struct SuiteLoader<'a> {
    open: Box<FileOpener<'a>>,
    policies: HashMap<PolicyKey, Policy>,
}

/// Opens a file: the test file that names it, and its path as it is written there. What it is to be called, and its
/// bytes; or why it cannot be read.
type FileOpener<'a> = dyn FnMut(&str, &str) -> Result<(String, Vec<u8>), String> + 'a;

/// The files of a policy, and the profile that is chosen.
type PolicyKey = (Vec<NamedText>, Option<String>);

/// A test file that is being read.
pub(super) struct StagedFile<'a, 'b> {
    loader: &'a mut SuiteLoader<'b>,
    name: &'a str,
    sources: &'a Sources,
    findings: &'a mut Findings,
    reports: Vec<Report>,
}

/// The files of a policy, lowest first.
type PolicyFileList = Vec<NamedText>;

impl<'a> SuiteLoader<'a> {
    /// A loader that opens files by `open`.
    pub fn new(open: impl FnMut(&str, &str) -> Result<(String, Vec<u8>), String> + 'a) -> Self {
        Self { open: Box::new(open), policies: HashMap::new() }
    }

    /// Reads a test file and everything it names.
    ///
    /// # Errors
    /// Every mistake in it, and in the policies it names.
    pub fn read(&mut self, name: &str, bytes: &[u8]) -> Result<TestSuite, Vec<Report>> {
        let (mut sources, mut findings) = (Sources::new(), Findings::default());
        let file = decode::read_into::<TestFile>(&mut sources, &mut findings, name, bytes);
        let mut staging = StagedFile::new(self, name, &sources, &mut findings);
        let suite = file.map(|(_, file)| staging.suite(&file));
        let mut reports = staging.reports();
        if findings.has_errors() {
            reports.insert(0, findings.into_report(sources));
        }
        match suite {
            Some(suite) if reports.is_empty() => Ok(suite),
            _ => Err(reports),
        }
    }
}

crate::debug_parts!(|this: SuiteLoader<'_>| policies: this.policies.len());

impl<'a, 'b> StagedFile<'a, 'b> {
    pub(super) fn new(
        loader: &'a mut SuiteLoader<'b>,
        name: &'a str,
        sources: &'a Sources,
        findings: &'a mut Findings,
    ) -> Self {
        Self { loader, name, sources, findings, reports: Vec::new() }
    }

    /// What is wrong with the files that the test file names.
    pub(super) fn reports(self) -> Vec<Report> {
        self.reports
    }

    /// The cases that can be played; what is wrong with the others is written down.
    pub(super) fn suite(&mut self, file: &TestFile) -> TestSuite {
        // There is nothing else it could be.
        let decode::VersionOne = file.version;
        let files = self.files(file);
        // Also for a file without cases: mistakes in its policy are reported in any event.
        let policy = files.as_ref().and_then(|files| self.policy(files.clone(), file.profile.as_ref()));
        let tools = file.tools.0.as_ref();
        let catalogue = tools.and_then(gather);
        let mut names: HashMap<&str, Span> = HashMap::new();
        let mut cases = Vec::new();
        let mut policies: Vec<Policy> = policy.iter().cloned().collect();
        for Spanned { value, span } in &file.cases.value {
            let Some(rule) = &value.0 else { continue };
            if let Some(first) = names.get(rule.name.value.as_str()) {
                let message = format!("there are two cases `{}`", rule.name.value);
                let problem = Diagnostic::error(Code::DUPLICATE_KEY, rule.name.span, message);
                self.findings.push(problem.also(*first, "the first is here"));
            } else {
                names.insert(&rule.name.value, rule.name.span);
            }
            let plot = self.plot(rule, *span);
            self.numbers(rule);
            // A policy that is broken for all cases is reported once.
            let (Some(files), Some(common)) = (&files, &policy) else { continue };
            let own = rule.inline.as_ref().map(|inline| inline.of(self.name, self.sources));
            let policy = if own.is_none() && rule.profile.is_none() {
                Some(common.clone())
            } else {
                let profile = rule.profile.as_ref().or(file.profile.as_ref());
                self.policy(files.iter().cloned().chain(own).collect(), profile)
            };
            let (Some(tools), Some(catalogue)) = (tools, &catalogue) else { continue };
            let (Some(plot), Some(policy), Some(expect)) = (plot, policy, &rule.expect.0) else { continue };
            policies.push(policy.clone());
            let Some(setup) = Self::setup(rule, tools, catalogue, policy, plot) else { continue };
            self.priced(&setup, rule);
            for problem in reach::impossible(expect, &setup) {
                self.findings.push(problem);
            }
            cases.push(TestCase {
                file: self.name.into(),
                name: rule.name.value.clone(),
                given: rule.given.clone(),
                proves: claims::of_case(&rule.proves, self.sources),
                place: self.sources.place_of(*span),
                setup: Arc::new(setup),
                expect: Arc::new(expect.clone()),
            });
        }
        TestSuite {
            name: self.name.to_owned(),
            about: file.about.clone(),
            documents: claims::documents(&file.documents, self.sources),
            elsewhere: self.elsewhere(file),
            unmet: claims::unmet(&file.unmet, self.sources),
            cases,
            warnings: unknown_tools(file, policies),
        }
    }

    /// Reports a run that is bounded by money with a model whose price nobody says.
    fn priced(&mut self, setup: &CaseSetup, rule: &CaseRule) {
        let CasePlot::Run(_) = setup.plot else { return };
        let models = setup.models.iter().map(|model| (model.as_str(), None));
        let Err(error) = setup.policy.prices(models) else { return };
        let model = error.model;
        let message = format!(
            "the price of the model `{model}` is unknown, and `limits.run.cost` bounds what a run may spend"
        );
        let problem = Diagnostic::error(Code::NO_PRICE, rule.name.span, message);
        self.findings.push(problem.help(format!(
            "write `models: {{{model}: {{price: {{input: 2.50, output: 10}}}}}}` into the policy or under `inline`, in US dollars \
             per million tokens; the budget is at {}",
            error.place
        )));
    }

    /// The statements that tests elsewhere show; a test that is not there is written down.
    fn elsewhere(&mut self, file: &TestFile) -> Vec<ExternalProof> {
        let mut found = Vec::new();
        for rule in &file.tested_elsewhere {
            let Some((name, bytes)) = self.open(&rule.file) else { continue };
            if let Some(problem) = claims::missing(&rule.test, &name, &bytes) {
                self.findings.push(problem);
            }
            let claim = claims::of_test(rule, self.sources);
            found.push(ExternalProof { claim, file: name, test: rule.test.value.clone() });
        }
        found
    }

    /// The files of the policy of all cases; `None`: not all of them are there.
    fn files(&mut self, file: &TestFile) -> Option<PolicyFileList> {
        let paths = file.policy.0.as_ref()?;
        let opened: Vec<_> = paths.0.iter().map(|path| self.open(path)).collect();
        let text = |(name, bytes): (String, Vec<u8>)| NamedText { name, bytes: bytes.into(), before: 0 };
        let complete = opened.iter().all(Option::is_some);
        let mut files: PolicyFileList = opened.into_iter().flatten().map(text).collect();
        if !complete {
            // The layers that are there may hold only together with those that are not.
            let report = policy::Loader::new().incomplete().load_texts(&mut *self.loader.open, &files).err();
            self.reports.extend(report.filter(|report| !report.is_empty()));
            return None;
        }
        files.extend(file.inline.0.as_ref()?.as_ref().map(|inline| inline.of(self.name, self.sources)));
        Some(files)
    }

    fn open(&mut self, path: &Spanned<String>) -> Option<(String, Vec<u8>)> {
        match (self.loader.open)(self.name, &path.value) {
            Ok(found) => Some(found),
            Err(error) => {
                self.findings.push(Diagnostic::error(Code::UNKNOWN_NAME, path.span, error));
                None
            }
        }
    }

    fn policy(&mut self, files: PolicyFileList, profile: Option<&Spanned<String>>) -> Option<Policy> {
        let key = (files, profile.map(|name| name.value.clone()));
        if let Some(policy) = self.loader.policies.get(&key) {
            return Some(policy.clone());
        }
        let loader = match &key.1 {
            Some(name) => policy::Loader::new().profile(name),
            None => policy::Loader::new(),
        };
        match loader.load_texts(&mut *self.loader.open, &key.0) {
            Ok(policy) => {
                self.loader.policies.insert(key, policy.clone());
                Some(policy)
            }
            Err(report) => {
                let missing = profile.and_then(|name| self.no_profile(&key.0, name));
                match missing {
                    Some(problem) => self.findings.push(problem),
                    None => self.reports.push(report),
                }
                None
            }
        }
    }

    /// If a policy cannot be loaded because it does not have that profile: that, with the place that asks for it.
    fn no_profile(&mut self, files: &[NamedText], name: &Spanned<String>) -> Option<Diagnostic> {
        let policy = policy::Loader::new().load_texts(&mut *self.loader.open, files).ok()?;
        let known: Vec<&str> = policy.profiles().iter().map(String::as_str).collect();
        if known.contains(&name.value.as_str()) {
            return None;
        }
        let message = format!("there is no profile `{}`", name.value);
        let problem = Diagnostic::error(Code::UNKNOWN_NAME, name.span, message);
        Some(match crate::text::did_you_mean(&name.value, known.iter().copied()) {
            Some(meant) => problem.meant(name.span, &name.value, meant, known.iter().copied()),
            None if known.is_empty() => problem.help("the policy declares no `profiles`"),
            None => problem.help(format!("there are {}", decode::list(&known))),
        })
    }

    /// Reports numbers that stand twice in a list where each can count but once, and lists without a use.
    fn numbers(&mut self, rule: &CaseRule) {
        let lists = [("order", &rule.order), ("resume_at", &rule.resume_at.0)];
        for (name, list) in lists {
            let mut seen = HashSet::new();
            for number in list.iter().filter(|number| !seen.insert(number.value)) {
                let message = format!("`{name}` names {} twice", number.value);
                let problem = Diagnostic::error(Code::CONTRADICTION, number.span, message);
                self.findings.push(problem.help("remove one of them"));
            }
        }
        if let (Some(first), None, None) = (rule.order.first(), &rule.replies, &rule.script) {
            let message = "`order` is of parallel calls, and here one follows the other";
            let problem = Diagnostic::error(Code::CONTRADICTION, first.span, message);
            self.findings.push(problem.help("remove it, or let a reply of the model make the calls"));
        }
    }

    fn setup(
        rule: &CaseRule,
        common: &IndexMap<String, ToolCase>,
        catalogue: &ToolCatalogue,
        policy: Policy,
        plot: CasePlot,
    ) -> Option<CaseSetup> {
        let mut tools = common.clone();
        for (name, own) in &rule.tools {
            let tool = tools.entry(name.clone()).or_default();
            tool.description = own.description.clone().or(tool.description.take());
            tool.parameters = own.parameters.clone().or(tool.parameters.take());
            tool.effect = own.effect.or(tool.effect);
            tool.outcomes = own.outcomes.clone().or(tool.outcomes.take());
        }
        let mut declared = rule.tools.is_empty();
        if let CasePlot::Calls(calls) = &plot {
            for call in calls {
                declared &= tools.contains_key(&call.tool);
                tools.entry(call.tool.clone()).or_default();
            }
        }
        let catalogue = if declared { catalogue.clone() } else { gather(&tools)? };
        let outcomes =
            tools.iter().filter_map(|(name, tool)| Some((name.clone(), shared(tool.outcomes.as_ref())?)));
        let own = rule.tools.iter().filter(|(_, tool)| tool.outcomes.is_some());
        Some(CaseSetup {
            policy,
            tools: catalogue,
            outcomes: outcomes.collect(),
            own: own.map(|(name, _)| name.clone()).collect(),
            plot,
            windows: rule.windows.iter().map(|(model, tokens)| (model.clone(), served(*tokens))).collect(),
            models: if rule.models.is_empty() { vec!["main".to_owned()] } else { rule.models.clone() },
            system: rule.system.clone(),
            history: rule
                .history
                .iter()
                .flat_map(|history| &history.value)
                .map(MessageCase::message)
                .collect(),
            task: rule.task.clone(),
            order: rule.order.iter().map(|place| place.value.get()).collect(),
            layers: rule.planner.calls.iter().map(|(tool, layer)| (tool.clone(), layer.clone())).collect(),
            decisions: rule.planner.decisions.clone(),
            answers: rule.answers.clone(),
            cancel: rule.cancel,
            stop: rule.stop,
            resume_at: rule.resume_at.0.iter().map(|seq| u64::from(seq.value.get())).collect(),
            start: rule.start.0,
            deadline: rule.deadline,
            seed: rule.seed,
            tokens: rule.tokens,
        })
    }

    /// What happens in a case: exactly one of its four forms.
    fn plot(&mut self, rule: &CaseRule, span: Span) -> Option<CasePlot> {
        let forms = [
            rule.tool.as_ref().map(|tool| tool.span),
            rule.calls.as_ref().map(|calls| calls.span),
            rule.replies.as_ref().map(|replies| replies.span),
            rule.script.as_ref().map(|script| script.span),
        ];
        let forms: Vec<Span> = forms.into_iter().flatten().collect();
        if forms.len() != 1 {
            let at = forms.get(1).copied().unwrap_or(span);
            let message = "a case has exactly one of `tool`, `calls`, `replies` and `script`";
            self.findings.push(Diagnostic::error(Code::CONTRADICTION, at, message));
            return None;
        }
        if rule.tool.is_none() {
            let lost = [
                ("arguments", rule.arguments.as_ref().map(|arguments| arguments.span)),
                ("outcomes", rule.outcomes.as_ref().map(|outcomes| outcomes.span)),
            ];
            for (name, span) in lost.into_iter().filter_map(|(name, span)| Some((name, span?))) {
                let problem = Diagnostic::error(Code::CONTRADICTION, span, format!("`{name}` needs `tool`"));
                self.findings.push(problem.help("give each tool its own under `tools` or `calls`"));
            }
        }
        if let Some(tool) = &rule.tool {
            let call = CallCase {
                tool: tool.clone(),
                arguments: rule.arguments.clone(),
                outcomes: rule.outcomes.clone(),
                after: Nanos::ZERO,
            };
            return Some(CasePlot::Calls(vec![planned(&call)]));
        }
        if let Some(calls) = &rule.calls {
            if calls.value.is_empty() {
                let problem = Diagnostic::error(Code::MISSING_FIELD, calls.span, "the case calls nothing");
                self.findings.push(problem);
            }
            return Some(CasePlot::Calls(calls.value.iter().map(|call| planned(&call.value)).collect()));
        }
        if let Some(replies) = &rule.replies {
            let mut problems = Vec::new();
            let each = replies.value.iter();
            let entries: Vec<_> =
                each.filter_map(|reply| reply.value.entry(reply.span, &mut problems)).collect();
            for problem in problems {
                self.findings.push(problem);
            }
            if replies.value.is_empty() {
                self.findings.push(Diagnostic::error(
                    Code::MISSING_FIELD,
                    replies.span,
                    "the model has no replies",
                ));
            }
            return Some(CasePlot::Run(Arc::new(Script::new(self.name, entries))));
        }
        let (name, bytes) = self.open(rule.script.as_ref()?)?;
        match Script::from_yaml(&name, &bytes) {
            Ok(script) => Some(CasePlot::Run(Arc::new(script))),
            Err(report) => {
                self.reports.push(report);
                None
            }
        }
    }
}

/// The selectors of the policies that are slips of tools of the file, if it says which there are. A test need not have all
/// tools of an agent.
fn unknown_tools(file: &TestFile, policies: Vec<Policy>) -> Vec<Report> {
    let Some(tools) = file.tools.0.as_ref().filter(|tools| !tools.is_empty()) else { return Vec::new() };
    let cases = || file.cases.value.iter().filter_map(|case| case.value.0.as_ref());
    let called = |case: &CaseRule| -> Vec<String> {
        let calls = case.calls.iter().flat_map(|calls| &calls.value).map(|call| &call.value.tool.value);
        calls.chain(case.tool.iter().map(|tool| &tool.value)).chain(case.tools.keys()).cloned().collect()
    };
    let known: Vec<String> = tools.keys().cloned().chain(cases().flat_map(called)).collect();
    let mut seen = HashSet::new();
    let policies = policies.into_iter().filter(|policy| seen.insert(policy.digest().to_owned()));
    let reports = policies.map(|policy| {
        let report = policy.output().map(|output| output.tool.value.clone());
        let readers = known.iter().map(|tool| policy.tool(tool).result.reader.value.clone());
        let names = KnownNames {
            owner: "test file",
            tools: Some(known.iter().cloned().chain(readers).chain(report).collect()),
            models: None,
            completeness: NameCompleteness::Few,
            shared: Vec::new(),
            unasked: Vec::new(),
        };
        policy.hold_against(names)
    });
    reports.filter(|report| !report.is_empty()).collect()
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

fn gather(tools: &IndexMap<String, ToolCase>) -> Option<ToolCatalogue> {
    // What is wrong with a schema was reported where it was read, and the keys of a mapping are not there twice.
    ToolCatalogue::new(tools.iter().map(|(name, rule)| spec(name, rule))).ok()
}

fn spec(name: &str, rule: &ToolCase) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        description: rule.description.clone().unwrap_or_default(),
        parameters: rule
            .parameters
            .as_ref()
            .map_or_else(|| json!({"type": "object"}), |value| value.value.0.clone()),
        effect: rule.effect,
    }
}

/// A window of which the server of a model tells.
fn served(tokens: NonZeroU32) -> KnownWindow {
    KnownWindow { tokens: tokens.into(), source: WindowSource::Server, output: None }
}
