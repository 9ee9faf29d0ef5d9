//! Attempts that multiply: of the model, of the tool, and inside what they call.

use indexmap::IndexMap;

use super::{KnownTool, LintFindings, ProfileView};
use crate::analysis::explain::{self, AttemptKind, AttemptedWork, WorstCase};
use crate::policy::form::MergedBlock as _;
use crate::policy::{ModelPolicy, Origin, OutputPolicy, TimeBound, ToolPolicy};
use crate::text::{Code, Diagnostic};
use crate::time::Nanos;

/// The largest product for each pair of places that make it.
#[derive(Default)]
pub(super) struct RetryAmplification {
    models: Vec<AmplifyingLayer>,
    found: IndexMap<(Option<Origin>, Origin), AttemptProduct>,
}

/// What one layer multiplies by.
#[derive(Clone)]
struct AmplifyingLayer {
    subject: String,
    attempts: u32,
    inside: u32,
    /// The turns of the model that it may take.
    turns: u32,
    waiting: TimeBound,
    origin: Origin,
}

/// All models that may be called in a turn.
struct TurnModels {
    factors: Vec<(u64, String)>,
    waiting: TimeBound,
    origin: Origin,
}

struct AttemptProduct {
    all: u64,
    most: u32,
    subject: String,
    factors: Vec<(u64, String)>,
    waiting: TimeBound,
}

impl RetryAmplification {
    /// Begins a view: its models are not known yet.
    pub(super) fn begin(&mut self) {
        self.models.clear();
    }

    /// Observes a model.
    pub(super) fn model(&mut self, subject: &str, policy: &ModelPolicy, inside: u32) {
        let worst = WorstCase::of(&policy.retry, AttemptedWork { asks: true, ..AttemptedWork::default() });
        let Some(attempts) = worst.calls else { return };
        let inside = inside.saturating_add(1);
        let (subject, waiting) = (subject.to_owned(), worst.waiting);
        let origin = policy.retry.max_attempts.origin;
        self.models.push(AmplifyingLayer { subject, attempts, inside, turns: 1, waiting, origin });
    }

    /// Observes a tool.
    pub(super) fn tool(
        &mut self,
        view: &ProfileView<'_>,
        subject: &str,
        policy: &ToolPolicy,
        known: Option<&KnownTool>,
    ) {
        let runs = WorstCase::of(&policy.retry, explain::work(policy));
        let corrections = WorstCase::of(
            &policy.retry,
            AttemptedWork { kind: AttemptKind::Correction, ..AttemptedWork::default() },
        );
        let Some(calls) = runs.calls else { return };
        let inside = known.map_or(1, |tool| tool.inner_retries.saturating_add(1));
        // Corrections of arguments are no runs of the tool, but turns of the model, of which there are so many.
        let most = view.layers.turn().max_turns.get().map_or(u32::MAX, |turns| turns.get());
        let turns = corrections.calls.unwrap_or(u32::MAX).min(most);
        let (attempts, waiting) = (calls.max(turns), explain::add(runs.waiting, corrections.waiting));
        let origin = policy.retry.max_attempts.origin;
        self.layer(
            view,
            AmplifyingLayer { subject: subject.to_owned(), attempts, inside, turns, waiting, origin },
        );
    }

    /// Observes the final report.
    pub(super) fn output(&mut self, view: &ProfileView<'_>, policy: &OutputPolicy) {
        let worst = WorstCase::of(
            &policy.retry,
            AttemptedWork { kind: AttemptKind::Report, ..AttemptedWork::default() },
        );
        let Some(attempts) = worst.calls else { return };
        let (origin, waiting) = (policy.retry.max_attempts.origin, worst.waiting);
        let subject = "the report".to_owned();
        self.layer(view, AmplifyingLayer { subject, attempts, inside: 1, turns: attempts, waiting, origin });
    }

    fn layer(&mut self, view: &ProfileView<'_>, layer: AmplifyingLayer) {
        let models = self.models(view);
        let mut factors = models.as_ref().map_or(Vec::new(), |models| models.factors.clone());
        factors.push((layer.attempts.into(), format!("of {}", layer.subject)));
        factors.push((layer.inside.into(), "inside it".to_owned()));
        let all = factors.iter().fold(1_u64, |all, (factor, _)| all.saturating_mul(*factor));
        let most = view.options.most_attempts;
        if all <= u64::from(most) {
            return;
        }
        let turns = match models.as_ref().map(|models| models.waiting) {
            Some(TimeBound::Within(turn)) => TimeBound::Within(turn.saturating_mul(layer.turns.into())),
            Some(TimeBound::Unlimited) => TimeBound::Unlimited,
            None => TimeBound::Within(Nanos::ZERO),
        };
        let waiting = explain::add(turns, layer.waiting);
        let key = (models.map(|models| models.origin), layer.origin);
        let product = AttemptProduct { all, most, subject: layer.subject, factors, waiting };
        match self.found.get_mut(&key) {
            Some(held) if held.all >= all => {}
            Some(held) => *held = product,
            None => drop(self.found.insert(key, product)),
        }
    }

    /// What is called in one turn: all models of the host, one after the other. Selectors stand for models that are
    /// not known, and the one with the most attempts counts.
    fn models(&self, view: &ProfileView<'_>) -> Option<TurnModels> {
        let all = |layer: &AmplifyingLayer| u64::from(layer.attempts).saturating_mul(layer.inside.into());
        let worst = self.models.iter().max_by_key(|layer| all(layer))?;
        let origin = worst.origin;
        // Attempts that count together are no more than those of the one that has the most.
        let targets = view.layers.turn().targets.policy()?;
        let together = targets.fallback.value.counts_together();
        if together || view.options.models.is_none() || self.models.len() < 2 {
            let attempts = (worst.attempts.into(), format!("of {}", worst.subject));
            let factors = vec![attempts, (worst.inside.into(), "inside its client".to_owned())];
            return Some(TurnModels { factors, waiting: worst.waiting, origin });
        }
        let (count, inside) = (self.models.len(), worst.inside);
        let alike = self.models.iter().all(|layer| layer.inside == inside);
        let sum =
            |of: &dyn Fn(&AmplifyingLayer) -> u64| self.models.iter().map(of).fold(0, u64::saturating_add);
        let factors = if alike {
            let attempts = sum(&|layer| layer.attempts.into());
            vec![(attempts, format!("of {count} models")), (inside.into(), "inside their clients".to_owned())]
        } else {
            vec![(sum(&all), format!("of {count} models and inside their clients"))]
        };
        let waiting = self.models.iter().map(|layer| layer.waiting);
        let waiting = waiting.fold(TimeBound::Within(Nanos::ZERO), explain::add);
        Some(TurnModels { factors, waiting, origin })
    }

    /// Says what multiplies to too much.
    pub(super) fn finish(self, found: &mut LintFindings<'_>) {
        for ((model, own), product) in self.found {
            let model = model.and_then(|origin| found.place(origin));
            let own = found.place(own);
            let span = own.or(model).unwrap_or_else(|| found.start());
            let also = model.filter(|model| *model != span);
            found.push(product.problem(span, also));
        }
    }
}

impl AttemptProduct {
    fn problem(self, span: crate::text::Span, also: Option<crate::text::Span>) -> Diagnostic {
        let Self { all, most, subject, factors, waiting } = self;
        let factors: Vec<String> = factors
            .into_iter()
            .filter(|(factor, _)| *factor > 1)
            .map(|(factor, what)| format!("{factor} {what}"))
            .collect();
        let waiting = match waiting {
            TimeBound::Within(Nanos::ZERO) => String::new(),
            TimeBound::Within(length) => format!(", and to {} waiting", length.rounded()),
            TimeBound::Unlimited => ", and to waits without a bound".to_owned(),
        };
        let message = format!(
            "{subject} may lead to {all} attempts, more than {most}: {}{waiting}",
            factors.join(" x ")
        );
        let problem = Diagnostic::warning(Code::AMPLIFICATION, span, message);
        let problem = also.into_iter().fold(problem, |problem, at| problem.also(at, "attempts of the model"));
        problem.help("lower `max_attempts`, set `limits.max_attempts`, or switch off the retries inside")
    }
}
