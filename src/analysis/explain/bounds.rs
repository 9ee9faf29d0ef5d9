//! The bounds of a run: how often models are called at most, and how long is slept for them, the report and corrections;
//! and of each call of a tool, how often it runs and how long is slept between. How many calls of a reply run
//! `turn.calls.max` says.
//!
//! A run has at most `turn.max_turns` turns. Where a report is due, the last one is repeated for as many attempts as
//! the report has. In each turn one model replies, after every other one may have been called until its attempts were
//! used up; where the attempts at all of them count together, those are all. Arguments that do not hold are corrected in a
//! later turn, and the longest wait of those of one reply comes before it; the final turn runs no tools. Besides, the call of a
//! turn is made once more after a repair of the history, and after a reduction, that its provider's refusal led to. Budgets
//! of the run (`limits.run`) bound all of it, and `turn.total_delay` and `turn.run_delay` the waits for models.

use core::fmt;

use serde_json::{Value, json};

use super::render::{exact, length};
use super::worst::{AttemptKind, AttemptedWork, WorstCase, add, larger, smaller};
use super::{EffectiveLimit, worst_run};
use crate::analysis::names::ComparedNames;
use crate::analysis::names::{self, NamedPattern};
use crate::policy::{
    Advance, AfterEffect, Effect, HistoryCheck, OnExhausted, Policy, ReduceStep, RetryPolicy, RunLimits,
    Setting, TimeBound, ToolPolicy,
};
use crate::text::{Place, columns, padded};
use crate::time::Nanos;

/// The most that anything can cost.
#[derive(Clone, Debug)]
pub struct CostBounds {
    /// The most turns.
    pub turns: u32,
    /// Where that is written.
    pub turns_at: Place,
    /// The most time spent waiting for models in a turn and in a run, with their rules and places.
    pub delays: [(&'static str, TimeBound, Place); 2],
    /// The budgets of the run, which hold whatever the rest comes to.
    pub(crate) budgets: Vec<EffectiveLimit>,
    /// The run as a whole.
    pub run: RunBounds,
    /// The most attempts at the report, and the time waiting between them; `None`: no report is asked for.
    pub report: Option<WorstCase>,
    /// Each model.
    pub models: Vec<ModelBounds>,
    /// Each tool.
    pub tools: Vec<ToolBounds>,
    /// The attempts a tool makes itself in each run, as the host says.
    pub inner: u32,
}

/// The most that a run can cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunBounds {
    /// Replies of models; `None`: unbounded.
    pub replies: Option<u64>,
    /// Calls of models, those for summaries among them; `None`: unbounded.
    pub calls: Option<u64>,
    /// Calls for summaries of what reductions leave out; `None`: unbounded.
    pub summaries: Option<u64>,
    /// Calls that are made once more because the conversation was repaired or reduced after a provider had refused it;
    /// `None`: unbounded.
    pub repeats: Option<u64>,
    /// The time waiting between calls of models, attempts at the report, and before turns that correct arguments, by the
    /// backoff alone.
    pub waiting: TimeBound,
    /// The same if the server asks for waits.
    pub waiting_if_asked: TimeBound,
    /// The part of it before turns that correct arguments.
    pub correcting: TimeBound,
}

/// The most that a model can cost.
#[derive(Clone, Debug)]
pub struct ModelBounds {
    /// The model, or a pattern.
    pub name: String,
    /// The worst case of one turn.
    pub turn: WorstCase,
    /// The most replies in a run; `None`: unbounded.
    pub replies: Option<u64>,
    /// The most calls in a run in which it is the only model; `None`: unbounded.
    pub calls: Option<u64>,
}

/// The most that a tool can cost.
#[derive(Clone, Debug)]
pub struct ToolBounds {
    /// The tool, or a pattern.
    pub name: String,
    /// The worst case of one call. A model may ask for any number of calls in a reply.
    pub call: WorstCase,
    /// The longest wait before a turn that corrects its arguments.
    pub correction: TimeBound,
    /// The most calls of models in a turn, those that are given up in it among them; `None`: unbounded.
    pub in_turn: Option<u64>,
    /// The attempts the tool makes itself in each run, as the host says.
    pub inner: u32,
    /// Calls of models in a turn, times runs of a call, times the tool's own attempts; `None`: unbounded.
    pub product: Option<u64>,
    /// The most runs in a run of the agent, however many calls its replies ask for; `None`: unbounded.
    pub runs: Option<u64>,
    /// The tool that is run to find out whether a run of this one has acted; `None`: none is.
    pub checks: Option<VerifierRuns>,
}

/// Runs of another tool that find out whether a run that failed has acted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifierRuns {
    /// The tool.
    pub tool: String,
    /// The most runs of it for one call; `None`: unbounded.
    pub runs: Option<u32>,
}

impl Policy {
    /// The most that a run can cost, with these tools and models; for a kind without names, with those the policy
    /// speaks of. `inner` is how many attempts a tool makes itself in each run.
    pub fn bounds(&self, of: &ComparedNames, inner: u32) -> CostBounds {
        let all = |given: &[String], found: &dyn Fn() -> Vec<NamedPattern>| -> Vec<(String, String)> {
            if given.is_empty() {
                return found().into_iter().map(|named| (named.shown, named.example)).collect();
            }
            given.iter().map(|name| (name.clone(), name.clone())).collect()
        };
        let models = all(&of.models, &|| names::models(self, self, &[]).all);
        let tools = all(&of.tools, &|| names::tools(self, self, &[]).all);
        let ModelWaiting { turn: in_turn, run: in_run } = ModelWaiting::of(self);
        let turns = self.turn().max_turns;
        let repeats = self.repeats();
        let budget = self.run_limits();
        let as_report = AttemptedWork { kind: AttemptKind::Report, ..AttemptedWork::default() };
        let report = self.output().map(|output| WorstCase::of(&output.retry, as_report));
        let replies = replies(turns.value.get(), report.as_ref());
        // Attempts at several models need not wait for each other, so that no length of time bounds their number.
        let targets = &self.turn().targets;
        let together = of.models.len() > 1 && targets.fallback.value.is_one_series();
        let mut most = models.iter().map(|(_, example)| most_attempts(&self.model(example).retry));
        let most = match targets.fallback.value {
            Advance::Rotate => most.try_fold(0, |all: u64, most| all.checked_add(most?)),
            Advance::Exhausted | Advance::Attempt | Advance::Skip => {
                most.try_fold(0, |all: u64, most| Some(all.max(most?)))
            }
        };
        let most = most.filter(|_| together);
        let models: Vec<_> = models
            .into_iter()
            .map(|(name, example)| {
                let policy = self.model(&example);
                let work = AttemptedWork { asks: true, ..AttemptedWork::default() };
                let turn = if together {
                    WorstCase::without_end(&policy.retry, work).within(in_turn)
                } else {
                    WorstCase::of(&policy.retry.clone().within(self.turn().total_delay), work)
                };
                let calls =
                    product([replies, turn.calls.map(|calls| u64::from(calls).saturating_add(repeats))]);
                let calls = no_more(calls, budget.model_calls);
                ModelBounds { name, turn, replies, calls }
            })
            .collect();
        // Names that stand for many may be several models; they are taken as one.
        let turn = if of.models.is_empty() {
            ReplyBounds::of_one(models.iter().map(|model| model.turn).reduce(WorstCase::or))
        } else {
            ReplyBounds::of_all(&models, most)
        };
        let turn = ReplyBounds {
            calls: turn.calls.map(|calls| calls.saturating_add(repeats)),
            waiting: smaller(turn.waiting, in_turn),
            waiting_if_asked: smaller(turn.waiting_if_asked, in_turn),
        };
        let in_turn = turn.calls;
        let models: Vec<_> = models.into_iter().map(|model| model.with_repeats(repeats)).collect();
        // The final turn runs no tools.
        let with_tools = Some(u64::from(turns.value.get()).saturating_sub(1));
        let most = self.turn().calls.max.value.limit().map(u64::from);
        let tools: Vec<_> = tools
            .into_iter()
            .map(|(name, example)| {
                let (call, correction) = self.worst_call(&example);
                let each = call.calls.map(u64::from);
                let runs = product([with_tools, most, each]);
                let granted = budget.tool_calls.and_then(|most| product([Some(most.value.into()), each]));
                let runs = [runs, granted].into_iter().flatten().min();
                let product = product([in_turn, call.calls.map(u64::from), Some(u64::from(inner))]);
                let checks = VerifierRuns::of(&self.tool(&example), &call);
                ToolBounds { name, call, correction, in_turn, inner, product, runs, checks }
            })
            .collect();
        let corrected = tools.iter().fold(ZERO, |longest, tool| larger(longest, tool.correction));
        let run = RunParts {
            replies,
            turn,
            report: report.as_ref().zip(self.output().map(|o| passes(o.on_exhausted.value))),
            summaries: no_more(product([replies, Some(2), Some(self.summaries())]), budget.model_calls),
            repeats: no_more(product([replies, Some(repeats)]), budget.model_calls),
            budget: budget.clone(),
            waits: in_run,
            correcting: times(corrected, with_tools),
        };
        CostBounds {
            turns: turns.value.get(),
            turns_at: self.place(turns.origin),
            delays: ModelWaiting::places(self),
            budgets: self.budgets(),
            run: run.bounds(),
            report,
            tools,
            models,
            inner,
        }
    }

    /// How often the call of a turn may be made once more, in addition to its attempts: after a repair of the history, and after a
    /// reduction, that a refusal of its provider led to.
    fn repeats(&self) -> u64 {
        let context = self.context();
        let repaired = self.history().check.value != HistoryCheck::Never;
        let reduced = context.compact_on_overflow.value && !context.reduce.value.is_empty();
        u64::from(repaired).saturating_add(u64::from(reduced))
    }

    /// How often one reduction may ask for a summary. A turn has one before its call, and one after a refusal.
    fn summaries(&self) -> u64 {
        let steps = self.context().reduce.value.iter();
        let asks = steps.filter(|step| matches!(step, ReduceStep::Summary { .. }));
        u64::try_from(asks.count()).unwrap_or(u64::MAX)
    }

    /// The worst case of one call of a tool, whichever of its `calls` hold, and the longest wait for a correction.
    fn worst_call(&self, name: &str) -> (WorstCase, TimeBound) {
        let layers: Vec<_> = self.layers().calls(name).into_iter().map(|(_, above)| above).collect();
        let policy = self.tool(name);
        let corrected = |policy: &ToolPolicy| WorstCase::of(&policy.retry, CORRECTION);
        let correction = self.worst(name, &layers, corrected(&policy), &corrected);
        (self.worst(name, &layers, worst_run(&policy), &worst_run), correction.wait)
    }
}

impl VerifierRuns {
    /// A failure is looked into only where another attempt may follow it.
    fn of(policy: &ToolPolicy, call: &WorstCase) -> Option<Self> {
        let AfterEffect::Verify(check) = &policy.on_uncertain_effect.value else { return None };
        let harmless = matches!(policy.effect.value, Effect::ReadOnly | Effect::Idempotent);
        let runs = call.calls.map(|calls| calls.saturating_sub(1));
        (!harmless && runs != Some(0)).then(|| Self { tool: check.tool.clone(), runs })
    }
}

/// How long models may be waited for.
struct ModelWaiting {
    turn: TimeBound,
    run: TimeBound,
}

impl ModelWaiting {
    fn of(policy: &Policy) -> Self {
        let turn = policy.turn();
        Self { turn: turn.total_delay.value, run: turn.run_delay.value }
    }

    fn places(policy: &Policy) -> [(&'static str, TimeBound, Place); 2] {
        let turn = policy.turn();
        let place = |name, most: Setting<TimeBound>| (name, most.value, policy.place(most.origin));
        [place("turn.total_delay", turn.total_delay), place("turn.run_delay", turn.run_delay)]
    }
}

/// Arguments that are corrected.
const CORRECTION: AttemptedWork = AttemptedWork { kind: AttemptKind::Correction, breaker: None, asks: false };

/// The most that one reply may cost, of all models together.
#[derive(Clone, Copy)]
struct ReplyBounds {
    /// Calls; `None`: unbounded.
    calls: Option<u64>,
    waiting: TimeBound,
    waiting_if_asked: TimeBound,
}

/// The most attempts that any class of failures has, be it retried or not: where attempts count together, one that is left for
/// another model counts, too.
fn most_attempts(retry: &RetryPolicy) -> Option<u64> {
    let own = retry.by_class.iter().map(|(_, own)| own.max_attempts.value.limit());
    let limits = own.chain([retry.max_attempts.value.limit()]);
    limits.map(|limit| limit.map(u64::from)).try_fold(0, |most, limit| Some(most.max(limit?)))
}

impl ReplyBounds {
    fn of_one(worst: Option<WorstCase>) -> Self {
        let Some(WorstCase { calls, waiting, waiting_if_asked, .. }) = worst else {
            return Self { calls: None, waiting: ZERO, waiting_if_asked: ZERO };
        };
        Self { calls: calls.map(u64::from), waiting, waiting_if_asked }
    }

    /// Each model is called until it is given up. `together`: their attempts count together, and are no more than that.
    fn of_all(models: &[ModelBounds], together: Option<u64>) -> Self {
        let mut calls = models.iter().map(|model| model.turn.calls.map(u64::from));
        let each = calls.try_fold(0_u64, |sum, calls| Some(sum.saturating_add(calls?)));
        let calls = match (each, together) {
            (Some(each), Some(most)) => Some(each.min(most)),
            (each, most) => each.or(most),
        };
        let waiting = |figure: fn(&WorstCase) -> TimeBound| {
            models.iter().fold(ZERO, |sum, model| add(sum, figure(&model.turn)))
        };
        Self {
            calls,
            waiting: waiting(|worst| worst.waiting),
            waiting_if_asked: waiting(|worst| worst.waiting_if_asked),
        }
    }
}

/// What the bounds of a run are made of.
struct RunParts<'a> {
    replies: Option<u64>,
    /// What each reply may cost.
    turn: ReplyBounds,
    /// The report, and how often its attempts may start again.
    report: Option<(&'a WorstCase, u64)>,
    /// The calls for summaries.
    summaries: Option<u64>,
    /// The calls that are made once more.
    repeats: Option<u64>,
    /// What the run may spend.
    budget: RunLimits,
    /// The most time spent waiting for models.
    waits: TimeBound,
    /// The waits for corrections.
    correcting: TimeBound,
}

impl RunParts<'_> {
    fn bounds(&self) -> RunBounds {
        let waiting = |turn: TimeBound, figure: fn(&WorstCase) -> TimeBound| {
            let report = self.report.map_or(ZERO, |(report, passes)| times(figure(report), Some(passes)));
            add(add(smaller(times(turn, self.replies), self.waits), report), self.correcting)
        };
        // No wait goes beyond the time of the run.
        let in_time = |waiting: TimeBound| match (waiting, &self.budget.time) {
            (TimeBound::Within(waiting), Some(time)) => TimeBound::Within(waiting.min(time.value)),
            (TimeBound::Unlimited, Some(time)) => TimeBound::Within(time.value),
            (waiting, None) => waiting,
        };
        let waiting_if_asked = in_time(waiting(self.turn.waiting_if_asked, |worst| worst.waiting_if_asked));
        let waiting = in_time(waiting(self.turn.waiting, |worst| worst.waiting));
        RunBounds {
            // Every reply takes a call.
            replies: no_more(self.replies, self.budget.model_calls),
            calls: no_more(
                product([self.replies, self.turn.calls])
                    .zip(self.summaries)
                    .map(|(calls, summaries)| calls.saturating_add(summaries)),
                self.budget.model_calls,
            ),
            summaries: self.summaries,
            repeats: self.repeats,
            waiting_if_asked: larger(waiting, waiting_if_asked),
            waiting,
            correcting: in_time(self.correcting),
        }
    }
}

/// No more than the budget of the run grants.
fn no_more(count: Option<u64>, budget: Option<Setting<u32>>) -> Option<u64> {
    let most = budget.map(|most| u64::from(most.value));
    [count, most].into_iter().flatten().min()
}

const ZERO: TimeBound = TimeBound::Within(Nanos::ZERO);

/// The most replies: the final turn is repeated for each attempt at the report.
fn replies(turns: u32, report: Option<&WorstCase>) -> Option<u64> {
    let again = match report {
        Some(report) => report.calls?.saturating_sub(1),
        None => 0,
    };
    Some(u64::from(turns).saturating_add(again.into()))
}

/// How often attempts may be used up: a final turn has its own.
const fn passes(on_exhausted: OnExhausted) -> u64 {
    match on_exhausted {
        OnExhausted::FinalTurn | OnExhausted::AskPlanner => 2,
        OnExhausted::TellModel | OnExhausted::Fail => 1,
    }
}

fn product<const N: usize>(factors: [Option<u64>; N]) -> Option<u64> {
    factors.into_iter().try_fold(1_u64, |product, factor| Some(product.saturating_mul(factor?)))
}

fn times(length: TimeBound, factor: Option<u64>) -> TimeBound {
    match (length, factor) {
        (TimeBound::Within(Nanos::ZERO), _) => ZERO,
        (TimeBound::Within(length), Some(factor)) => TimeBound::Within(length.saturating_mul(factor)),
        _ => TimeBound::Unlimited,
    }
}

impl fmt::Display for CostBounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "bounds of a run: calls of models, and the time waiting for models, the report and corrections"
        )?;
        writeln!(f, "\n  turns           {}  turn.max_turns  {}", self.turns, self.turns_at)?;
        let waits =
            self.delays.iter().zip(["turn", "run"]).filter(|(wait, _)| wait.1 != TimeBound::Unlimited);
        for ((name, most, at), of) in waits {
            writeln!(f, "  {:14}  {} in a {of}  {name}  {at}", "longest waits", length(*most))?;
        }
        for EffectiveLimit { name, value, at, .. } in &self.budgets {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            writeln!(f, "  {:14}  {value}  limits.{name}  {at}", "budget")?;
        }
        let report = self.report.map(|report| count(report.calls.map(u64::from)));
        let last = report.map_or(String::new(), |attempts| {
            format!("  the final turn has {attempts} attempts at the report")
        });
        writeln!(f, "  model replies   {}{last}", count(self.run.replies))?;
        writeln!(f, "  model calls     {}", count(self.run.calls))?;
        if self.run.summaries != Some(0) {
            writeln!(f, "  summaries       {}, which are among the calls", count(self.run.summaries))?;
        }
        if self.run.repeats != Some(0) {
            writeln!(
                f,
                "  repeats         {}, which are among the calls: after a repair or a reduction that a refusal led to",
                count(self.run.repeats)
            )?;
        }
        write!(f, "  waiting         {}", length(self.run.waiting))?;
        if self.run.waiting_if_asked != self.run.waiting {
            write!(f, ", {} if the server asks for a delay", length(self.run.waiting_if_asked))?;
        }
        if self.run.correcting != ZERO {
            write!(
                f,
                "\n  {:14}  of it {} before turns that correct arguments",
                "",
                length(self.run.correcting)
            )?;
        }
        writeln!(f, "; waits of tools are not in it: those are by call, below")?;
        let mut rows = vec![["model", "calls in a turn", "in a run", "waiting in a turn"].map(str::to_owned)];
        rows.extend(self.models.iter().map(|model| {
            [
                model.name.clone(),
                count(model.turn.calls.map(u64::from)),
                count(model.calls),
                length(model.turn.waiting),
            ]
        }));
        table(f, &rows)?;
        let head =
            ["tool", "runs of a call", "in a run", "waiting in a call", "before a correction", "product"];
        let mut rows = vec![head.map(str::to_owned)];
        rows.extend(self.tools.iter().map(|tool| {
            [
                tool.name.clone(),
                count(tool.call.calls.map(u64::from)),
                count(tool.runs),
                length(tool.call.waiting),
                length(tool.correction),
                count(tool.product),
            ]
        }));
        table(f, &rows)?;
        writeln!(f)?;
        for tool in &self.tools {
            if let Some(VerifierRuns { tool: other, runs }) = &tool.checks {
                let runs = count(runs.map(u64::from));
                let name = &tool.name;
                writeln!(
                    f,
                    "  {name}: `{other}` runs besides, to find out whether a run has acted: {runs} for each call"
                )?;
            }
        }
        writeln!(
            f,
            "  product: model calls in a turn x runs of a call x {} in each run, by the tool itself",
            self.inner
        )?;
        writeln!(
            f,
            "  in a run: runs of a call x `turn.calls.max` x each turn but the last; the waits between them are by call,\n  \
             as calls wait at the same time; a breaker ends only runs that fail"
        )
    }
}

/// Columns, the first to the left, the others to the right.
fn table<const N: usize>(f: &mut fmt::Formatter<'_>, rows: &[[String; N]]) -> fmt::Result {
    writeln!(f)?;
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| columns(cell)).max();
    let widths: Vec<usize> = (0..N).map(|column| width(column).unwrap_or(0)).collect();
    for row in rows {
        for (i, (cell, width)) in row.iter().zip(&widths).enumerate() {
            // Only names may hold characters of other widths than one column.
            if i == 0 { write!(f, "  {}", padded(cell, *width))? } else { write!(f, "  {cell:>width$}")? }
        }
        writeln!(f)?;
    }
    Ok(())
}

fn count(count: Option<u64>) -> String {
    count.map_or_else(|| "unbounded".to_owned(), |count| count.to_string())
}

impl CostBounds {
    /// For people.
    pub fn human(&self) -> String {
        self.to_string()
    }

    /// For machines; null is unbounded. `format` counts up when a field is removed or changes its meaning.
    pub fn to_json(&self) -> Value {
        json!({
            "format": 1,
            "turns": {"value": self.turns, "at": self.turns_at},
            "delays": self.delays.iter().map(|(name, most, at)| json!({"name": name, "value": exact(*most), "at": at})).collect::<Vec<_>>(),
            "budgets": self.budgets.iter().map(|limit| json!({"name": limit.name, "value": limit.value, "at": limit.at})).collect::<Vec<_>>(),
            "run": {
                "replies": self.run.replies,
                "calls": self.run.calls,
                "summaries": self.run.summaries,
                "repeats": self.run.repeats,
                "waiting": exact(self.run.waiting),
                "waiting_if_asked": exact(self.run.waiting_if_asked),
                "correcting": exact(self.run.correcting),
            },
            "report": self.report.as_ref().map(worst_json),
            "models": self.models.iter().map(ModelBounds::to_json).collect::<Vec<_>>(),
            "tools": self.tools.iter().map(ToolBounds::to_json).collect::<Vec<_>>(),
            "inner": self.inner,
        })
    }
}

impl fmt::Display for ModelBounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (calls, replies) = (count(self.calls), count(self.replies));
        let in_turn = count(self.turn.calls.map(u64::from));
        writeln!(
            f,
            "  in a run with no other model: {replies} replies x {in_turn} calls = {calls} calls at most"
        )
    }
}

impl fmt::Display for ToolBounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (in_turn, runs) = (count(self.in_turn), count(self.call.calls.map(u64::from)));
        let (inner, product) = (self.inner, count(self.product));
        writeln!(
            f,
            "  retry amplification: {in_turn} model calls in a turn x {runs} runs x {inner} by the tool itself = {product}"
        )
    }
}

impl ModelBounds {
    /// As many calls of a turn may be made once more.
    fn with_repeats(mut self, repeats: u64) -> Self {
        let repeats = u32::try_from(repeats).unwrap_or(u32::MAX);
        self.turn.calls = self.turn.calls.map(|calls| calls.saturating_add(repeats));
        self
    }

    /// For machines.
    pub fn to_json(&self) -> Value {
        json!({"name": self.name, "turn": worst_json(&self.turn), "replies": self.replies, "calls": self.calls})
    }
}

impl ToolBounds {
    /// For machines. `runs` are those in a run.
    pub fn to_json(&self) -> Value {
        let call = worst_json(&self.call);
        let (in_turn, inner, product) = (self.in_turn, self.inner, self.product);
        let correction = exact(self.correction);
        let checks = self.checks.as_ref().map(|checks| json!({"tool": checks.tool, "runs": checks.runs}));
        json!({"name": self.name, "call": call, "correction": correction, "in_turn": in_turn, "inner": inner, "product": product, "runs": self.runs, "checks": checks})
    }
}

fn worst_json(worst: &WorstCase) -> Value {
    json!({
        "calls": worst.calls,
        "waiting": exact(worst.waiting),
        "waiting_if_asked": exact(worst.waiting_if_asked),
        "in_attempts": exact(worst.in_attempts),
        "total": exact(worst.total),
    })
}
