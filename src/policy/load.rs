//! The policy: files in, effective values out.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, RwLock};

use indexmap::IndexMap;
use serde_json::{Map, Value};

use super::builtin::{BUILTIN_ROWS, BUILTIN_TEXTS};
use super::conflict::{SearchBudget, conflicts};
use super::decode::{self, Patch};
use super::document::PolicyFile;
use super::layers::{CallOverrides, PolicyLayers, unbounded};
use super::part::{PartKind, PolicyPart, ReadPolicy, chosen};
use super::{
    CallOverride, ClassifiedFailure, ContextPolicy, ErrorClass, ErrorTable, FailureEvidence, Findings,
    HistoryPolicy, LayerKind, ModelPolicy, Origin, OutputPolicy, ReducerRule, RunLimits, SessionPolicy,
    SliceRule, ToolPolicy, TurnPolicy, check,
};
use crate::policy::form::MergedBlock as _;
use crate::text::{Code, Diagnostic, Place, Report, SourceId, Sources, Span};

/// Names of tools come from models; no more of them than this are remembered.
const REMEMBERED: usize = 1_024;

/// The rules of an agent, merged from files. Cheap to clone.
#[derive(Clone)]
pub struct Policy(Arc<PolicyParts>);

struct PolicyParts {
    sources: Sources,
    warnings: Option<Report>,
    digest: String,
    profiles: Vec<String>,
    profile: Option<String>,
    /// What the files say; the layers are made of it.
    parts: Vec<PolicyPart>,
    layers: PolicyLayers,
    any_tool: Arc<ToolPolicy>,
    any_model: Arc<ModelPolicy>,
    turn: TurnPolicy,
    run: RunLimits,
    history: HistoryPolicy,
    context: ContextPolicy,
    output: OutputPolicy,
    wants_report: bool,
    session: SessionPolicy,
    errors: ErrorTable,
    tools: RwLock<HashMap<String, Arc<ToolPolicy>>>,
    models: RwLock<HashMap<String, Arc<ModelPolicy>>>,
}

/// How what was read is merged.
#[derive(Clone, Debug, Default)]
pub(crate) struct MergeOptions {
    /// Mistakes are looked for in every profile.
    pub(crate) every_profile: bool,
    /// Mistakes do not keep a policy from being made.
    pub(crate) lenient: bool,
    /// What is looked for in addition to mistakes.
    pub(crate) review: Option<Review>,
}

/// Looks at what could be read of a policy with mistakes, and adds what it finds.
#[derive(Clone)]
#[expect(clippy::type_complexity, reason = "the function is named by this type")]
pub(crate) struct Review(pub(crate) Arc<dyn Fn(&Policy, &mut Findings) + Send + Sync>);

/// The rules for one call.
#[derive(Clone, Debug)]
pub struct CallPolicy {
    /// The rules.
    pub policy: Arc<ToolPolicy>,
    /// Rules for single calls that could not be applied, and why, each with its place.
    pub left_out: Vec<String>,
}

crate::debug_parts!(|this: Review|);

/// The JSON Schema (2020-12) of policy files.
pub fn json_schema() -> Value {
    decode::schema::<PolicyFile>()
}

/// The same, where every key says which diagnostics of `unfazed check` concern it: `x-checks`, a list of codes. For tools
/// that write references; validators need not know the keyword.
pub(crate) fn json_schema_with_checks() -> Value {
    decode::schema_with_checks::<PolicyFile>()
}

impl Policy {
    /// The default that ships with the product, alone.
    pub fn builtin() -> Self {
        static BUILTIN: LazyLock<Policy> = LazyLock::new(|| {
            let loaded = Policy::load(Vec::<(String, String)>::new());
            #[expect(clippy::panic, reason = "the file is part of the program and a test reads it")]
            loaded.unwrap_or_else(|report| panic!("the built-in policy is broken:\n{report}"))
        });
        BUILTIN.clone()
    }

    /// A policy of one file. `name` is what places call it.
    ///
    /// # Errors
    /// Every mistake in it.
    pub fn from_yaml(name: &str, text: &str) -> Result<Self, Report> {
        Self::load(vec![(name.to_owned(), text.as_bytes())])
    }

    /// Merges what was read.
    pub(crate) fn merge(
        read: ReadPolicy,
        options: &MergeOptions,
        mut findings: Findings,
    ) -> Result<Self, Report> {
        let mut work = SearchBudget::new();
        // A mistake in another profile would otherwise show on the day that profile is chosen.
        if options.every_profile {
            for name in &read.profiles {
                if read.profile.as_ref() != Some(name)
                    && !findings.problems().is_overrun()
                    && !work.is_used_up()
                {
                    PolicyParts::check(&read, Some(name), &mut work, &mut findings);
                }
            }
            if read.profile.is_some() {
                PolicyParts::check(&read, None, &mut work, &mut findings);
            }
        }
        let mut inner = match PolicyParts::build(read, &mut work, &mut findings) {
            Ok(inner) => inner,
            Err(sources) => return Err(findings.into_report(*sources)),
        };
        if findings.has_errors() && !options.lenient {
            let sources = inner.sources.clone();
            // Lints look at a policy with mistakes too, so one run shows both. A crowded report is long enough
            // without them.
            if let Some(review) = options
                .review
                .as_ref()
                .filter(|_| !findings.problems().is_crowded() && !findings.problems().is_overrun())
            {
                (review.0)(&Self(Arc::new(inner)), &mut findings);
            }
            return Err(findings.into_report(sources));
        }
        let report = findings.into_report(inner.sources.clone());
        inner.warnings = (!report.is_empty()).then_some(report);
        Ok(Self(Arc::new(inner)))
    }

    #[cfg(feature = "host")]
    /// The policy that parts make which were read before; `None`: there is none.
    pub(crate) fn of_parts(read: ReadPolicy, findings: &mut Findings) -> Option<Self> {
        PolicyParts::build(read, &mut SearchBudget::new(), findings).ok().map(|inner| Self(Arc::new(inner)))
    }

    /// The names of its profiles, in the order of first declaration.
    pub fn profiles(&self) -> &[String] {
        &self.0.profiles
    }

    /// The profile that is chosen.
    pub fn profile(&self) -> Option<&str> {
        self.0.profile.as_deref()
    }

    /// xxh3-128 of the built-in default, all files and the name of the profile, in hex. The same rules, the same decisions.
    pub fn digest(&self) -> &str {
        &self.0.digest
    }

    /// The texts it was read from; the first is the built-in default.
    pub fn sources(&self) -> &Sources {
        &self.0.sources
    }

    /// What is likely not meant, though it can be used; `None`: nothing.
    pub fn warnings(&self) -> Option<&Report> {
        self.0.warnings.as_ref()
    }

    /// Whether single calls of the tool may have layers of their own. If not, [`tool`](Self::tool) holds for all.
    pub fn has_call_rules(&self, name: &str) -> bool {
        self.0.layers.any_calls && !self.0.layers.calls(name).is_empty()
    }

    /// Where a value was written.
    pub fn place(&self, origin: Origin) -> Place {
        self.0.sources.place(origin)
    }

    /// The rules for a tool.
    pub fn tool(&self, name: &str) -> Arc<ToolPolicy> {
        remembered(&self.0.tools, name, || {
            let merged = self.0.layers.tool(name, &[]);
            merged.policy().map_or_else(|| Arc::clone(&self.0.any_tool), Arc::new)
        })
    }

    /// The rules for one call of a tool: those of the tool, of its `calls` whose `when` holds, and the planner's.
    ///
    /// A condition that has no value for these arguments does not hold, and a planner's layer that would let the
    /// attempts continue without end does not apply; either is reported in [`CallPolicy::left_out`].
    pub fn call(&self, name: &str, arguments: &Value, planner: Option<&CallOverride>) -> CallPolicy {
        let (above, mut left_out) = self.above(name, arguments, planner);
        // Most calls have no rules of their own and share the policy of their tool.
        if above.is_empty() {
            return CallPolicy { policy: self.tool(name), left_out };
        }
        let merged = self.0.layers.tool(name, &above).policy();
        let policy = match merged.map(|policy| (unbounded(&policy.retry), policy)) {
            // A condition depends on arguments that a model writes, and no model may make its attempts endless.
            Some((None, policy)) => Arc::new(policy),
            Some((Some(origin), _)) => {
                let place = self.place(origin);
                left_out.push(format!(
                    "{place}: the attempts of this call have no end; set a `deadline`, or a number"
                ));
                self.tool(name)
            }
            None => self.tool(name),
        };
        CallPolicy { policy, left_out }
    }

    /// The layers above the tool's own that concern a call, and what is wrong with those that do not apply.
    pub(crate) fn above<'a>(
        &'a self,
        name: &str,
        arguments: &Value,
        planner: Option<&'a CallOverride>,
    ) -> (Vec<CallOverrides<'a>>, Vec<String>) {
        let (mut above, mut left_out) = (Vec::new(), Vec::new());
        if self.0.layers.any_calls {
            let mut variables = None;
            for (rule, layer) in self.0.layers.calls(name) {
                // The arguments are copied only if some rule asks for them.
                let variables = variables.get_or_insert_with(|| {
                    Map::from_iter([("args".to_owned(), arguments.clone()), ("tool".to_owned(), name.into())])
                });
                match rule.when.value.expr.holds(variables) {
                    Ok(true) => above.push(layer),
                    Ok(false) => {}
                    // Who cannot tell whether a rule is for this call must not loosen anything by it, so only what
                    // tightens is kept.
                    Err(error) => {
                        let place = self.0.sources.place_of(rule.when.span);
                        let tighter = self.0.layers.tightening(name, &above, &layer);
                        let kept: Vec<String> =
                            tighter.entries().into_iter().map(|(path, ..)| format!("`{path}`")).collect();
                        let applies = match kept.as_slice() {
                            [] => "nothing of its layer applies, as nothing tightens".to_owned(),
                            kept => format!("of its layer applies what tightens: {}", kept.join(", ")),
                        };
                        left_out.push(format!(
                            "{place}: `when` has no value for these arguments: {error}; {applies}"
                        ));
                        above.push(tighter);
                    }
                }
            }
        }
        // The planner comes last, as in weakincentives ("Retry Policies"): global defaults, per-tool overrides,
        // per-call overrides of the planner, and the most specific wins.
        above.extend(planner.map(|planner| CallOverrides::planner(&planner.rule)));
        (above, left_out)
    }

    /// The rules for a model.
    pub fn model(&self, name: &str) -> Arc<ModelPolicy> {
        remembered(&self.0.models, name, || {
            self.0.layers.model(name).policy().map_or_else(|| Arc::clone(&self.0.any_model), Arc::new)
        })
    }

    /// The rules for the loop of turns.
    pub fn turn(&self) -> &TurnPolicy {
        &self.0.turn
    }

    /// What a run may spend.
    pub fn run_limits(&self) -> &RunLimits {
        &self.0.run
    }

    /// The rules for the validity of the history.
    pub fn history(&self) -> &HistoryPolicy {
        &self.0.history
    }

    /// What is done so that a conversation stays within the window of a model.
    pub fn context(&self) -> &ContextPolicy {
        &self.0.context
    }

    /// The rules for the final report; `None`: no report is asked for.
    pub fn output(&self) -> Option<&OutputPolicy> {
        Some(&self.0.output).filter(|_| self.0.wants_report)
    }

    /// The rules for a report, whether one is asked for or not.
    pub fn report_rules(&self) -> &OutputPolicy {
        &self.0.output
    }

    /// What the session remembers.
    pub fn session(&self) -> &SessionPolicy {
        &self.0.session
    }

    /// The class of a failure, by the first row of the table that matches.
    pub fn classify(&self, evidence: &FailureEvidence<'_>) -> ClassifiedFailure {
        match self.0.errors.classify(evidence) {
            Some(row) => ClassifiedFailure {
                class: row.class,
                request_at_fault: row.request_at_fault,
                wait: row.wait,
                origin: Some(row.origin),
            },
            None => ClassifiedFailure::certain(ErrorClass::ModelError),
        }
    }

    /// How failures are distinguished.
    pub fn errors(&self) -> &ErrorTable {
        &self.0.errors
    }

    pub(crate) fn layers(&self) -> &PolicyLayers {
        &self.0.layers
    }

    pub(crate) fn parts(&self) -> &[PolicyPart] {
        &self.0.parts
    }
}

/// The same rules, by their digests.
impl PartialEq for Policy {
    fn eq(&self, other: &Self) -> bool {
        // Clones share their parts, and need no look at the digests.
        Arc::ptr_eq(&self.0, &other.0) || self.digest() == other.digest()
    }
}

impl PolicyParts {
    /// Looks for mistakes that show when a profile is chosen.
    fn check(
        read: &ReadPolicy,
        profile: Option<&str>,
        work: &mut SearchBudget,
        findings: &mut Findings,
    ) -> PolicyLayers {
        let parts = chosen(&read.parts, profile);
        check::reducers(&parts, findings);
        let layers = PolicyLayers::new(&parts);
        // `&` and not `&&`: both lists are to be reported.
        if check::within_budget(layers.tool_rules(), findings)
            & check::within_budget(layers.model_rules(), findings)
        {
            conflicts(layers.tool_rules(), profile, work, findings);
            conflicts(layers.model_rules(), profile, work, findings);
            // Attempts without end need the word `unlimited` in some file, and shared budgets the word `pool`. Most
            // policies skip both searches.
            let speaks =
                |word| read.sources.iter().skip(BUILTIN_TEXTS).any(|source| source.text().contains(word));
            if speaks("unlimited") {
                check::endless(&layers, work, findings);
            }
            if speaks("pool") {
                check::pools(&layers, &read.sources, work, findings);
            }
        }
        layers
    }

    /// What files make that may have mistakes, all of which have been found then.
    fn build(
        read: ReadPolicy,
        work: &mut SearchBudget,
        findings: &mut Findings,
    ) -> Result<Self, Box<Sources>> {
        let layers = Self::check(&read, read.profile.as_deref(), work, findings);
        let ReadPolicy { sources, digest, parts, profiles, profile } = read;
        let used = chosen(&parts, profile.as_deref());
        let session = session(&used);
        let errors = if check::rows_within_budget(&used, findings) { errors(&used, findings) } else { None };
        // Any name will do: the built-in default sets every value for all of them.
        let plain = (layers.tool("", &[]).policy(), layers.model("").policy(), layers.turn().policy());
        let blocks = (layers.output().policy(), layers.history().policy(), layers.context().policy());
        let (Some(tool), Some(model), Some(turn), Some(output), Some(history), Some(context)) =
            (plain.0, plain.1, plain.2, blocks.0, blocks.1, blocks.2)
        else {
            if !findings.has_errors() {
                findings.push(unset());
            }
            return Err(Box::new(sources));
        };
        let Some(errors) = errors else { return Err(Box::new(sources)) };
        // The built-in file has values for a report without asking for one.
        let wants_report = layers.output_wanted().is_some();
        let run = layers.run_limits();
        Ok(Self {
            sources,
            warnings: None,
            digest,
            profiles,
            profile,
            parts,
            layers,
            any_tool: Arc::new(tool),
            any_model: Arc::new(model),
            run,
            turn,
            output,
            wants_report,
            history,
            context,
            session,
            errors,
            tools: RwLock::default(),
            models: RwLock::default(),
        })
    }
}

/// The built-in default leaves a value open. A test keeps it from happening.
fn unset() -> Diagnostic {
    let span = Span::new(SourceId(0), 0, 0);
    Diagnostic::error(Code::MISSING_FIELD, span, "the built-in default does not set every value")
}

/// Slices and reducers of all files: merged by name, in the order of first declaration.
fn session(parts: &[&PolicyPart]) -> SessionPolicy {
    let mut slices: IndexMap<String, SliceRule> = IndexMap::new();
    let mut reducers: IndexMap<String, Option<ReducerRule>> = IndexMap::new();
    for part in parts {
        let scope = scope(part);
        let Some(session) = &part.blocks.session else { continue };
        for (name, slice) in &session.slices.0 {
            match slice {
                Patch::Set(slice, _) => {
                    let rule =
                        SliceRule { initial: slice.initial.0.clone(), origin: name.span.origin(scope) };
                    slices.insert(name.value.clone(), rule);
                }
                _ => {
                    slices.shift_remove(&name.value);
                }
            }
        }
        for (name, reducer) in &session.reducers.0 {
            // `null` leaves an empty place, so a reducer that is declared again runs where it ran before.
            let rule = reducer.as_set().map(|reducer| reducer.rule(&name.value, name.span, scope));
            reducers.insert(name.value.clone(), rule);
        }
    }
    SessionPolicy { slices, reducers: reducers.into_values().flatten().collect() }
}

/// The rows of all files: those of later files first, the built-in ones last.
fn errors(parts: &[&PolicyPart], findings: &mut Findings) -> Option<ErrorTable> {
    // The first row that matches decides, so rows of later files come first.
    let rows = parts.iter().rev().flat_map(|part| {
        let scope = scope(part);
        part.blocks.errors.iter().map(move |rule| rule.row(scope))
    });
    match ErrorTable::above(rows.collect(), &BUILTIN_ROWS) {
        Ok(table) => Some(table),
        Err(error) => {
            let last = parts.iter().rev().find_map(|part| part.blocks.errors.last());
            let span = last.map_or(Span::new(SourceId(0), 0, 0), |rule| rule.class.span);
            findings.push(Diagnostic::error(Code::TOO_LARGE, span, error.message).help_if(error.help));
            None
        }
    }
}

/// The scope of blocks outside of selectors.
const fn scope(part: &PolicyPart) -> LayerKind {
    match part.kind {
        PartKind::Builtin => LayerKind::Builtin,
        PartKind::File => LayerKind::Global,
        PartKind::Profile(_) => LayerKind::Profile,
    }
}

/// What was merged once for a name is kept.
fn remembered<T>(
    kept: &RwLock<HashMap<String, Arc<T>>>,
    name: &str,
    merge: impl FnOnce() -> Arc<T>,
) -> Arc<T> {
    // A poisoned lock costs another merge and is no reason to fail.
    if let Ok(kept) = kept.read()
        && let Some(policy) = kept.get(name)
    {
        return Arc::clone(policy);
    }
    let policy = merge();
    // Models invent names. Without a bound they would fill the memory of a long-lived host.
    if let Ok(mut kept) = kept.write()
        && kept.len() < REMEMBERED
    {
        kept.insert(name.to_owned(), Arc::clone(&policy));
    }
    policy
}

crate::debug_parts!(|this: Policy|
    digest: this.digest(),
    files: this.0.sources.iter().map(crate::text::Source::name).collect::<Vec<_>>()
);

#[cfg(test)]
mod tests;
