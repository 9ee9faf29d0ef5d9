//! Attempts that multiply: of the model, of the tool, and inside what they call.

use indexmap::IndexMap;

use super::{Found, KnownTool, View};
use crate::policy::explain::{self, Kind, Work, Worst};
use crate::policy::form::MergedBlock as _;
use crate::policy::{Bound, Code, Diagnostic, ModelPolicy, Origin, OutputPolicy, ToolPolicy};
use crate::time::Nanos;

/// The largest product for each pair of places that make it.
#[derive(Default)]
pub(super) struct Amplification {
    models: Vec<Layer>,
    found: IndexMap<(Option<Origin>, Origin), Product>,
}

/// What one layer multiplies by.
#[derive(Clone)]
struct Layer {
    subject: String,
    attempts: u32,
    inside: u32,
    /// The turns of the model that it may take.
    turns: u32,
    asleep: Bound,
    origin: Origin,
}

/// All models that may be called in a turn.
struct Models {
    factors: Vec<(u64, String)>,
    asleep: Bound,
    origin: Origin,
}

struct Product {
    all: u64,
    most: u32,
    subject: String,
    factors: Vec<(u64, String)>,
    asleep: Bound,
}

impl Amplification {
    /// Begins a view: its models are not known yet.
    pub(super) fn begin(&mut self) {
        self.models.clear();
    }

    /// Hears a model.
    pub(super) fn model(&mut self, subject: &str, policy: &ModelPolicy, inside: u32) {
        let worst = Worst::of(&policy.retry, Work { asks: true, ..Work::default() });
        let Some(attempts) = worst.calls else { return };
        let inside = inside.saturating_add(1);
        let (subject, asleep) = (subject.to_owned(), worst.asleep);
        let origin = policy.retry.max_attempts.origin;
        self.models.push(Layer { subject, attempts, inside, turns: 1, asleep, origin });
    }

    /// Hears a tool.
    pub(super) fn tool(
        &mut self,
        view: &View<'_>,
        subject: &str,
        policy: &ToolPolicy,
        known: Option<&KnownTool>,
    ) {
        let runs = Worst::of(&policy.retry, explain::work(policy));
        let corrections = Worst::of(&policy.retry, Work { kind: Kind::Correction, ..Work::default() });
        let Some(calls) = runs.calls else { return };
        let inside = known.map_or(1, |tool| tool.inner_retries.saturating_add(1));
        // Corrections of arguments are no runs of the tool, but turns of the model, of which there are so many.
        let most = view.layers.turn().max_turns.get().map_or(u32::MAX, |turns| turns.get());
        let turns = corrections.calls.unwrap_or(u32::MAX).min(most);
        let (attempts, asleep) = (calls.max(turns), explain::add(runs.asleep, corrections.asleep));
        let origin = policy.retry.max_attempts.origin;
        self.layer(view, Layer { subject: subject.to_owned(), attempts, inside, turns, asleep, origin });
    }

    /// Hears the final report.
    pub(super) fn output(&mut self, view: &View<'_>, policy: &OutputPolicy) {
        let worst = Worst::of(&policy.retry, Work { kind: Kind::Report, ..Work::default() });
        let Some(attempts) = worst.calls else { return };
        let (origin, asleep) = (policy.retry.max_attempts.origin, worst.asleep);
        let subject = "the report".to_owned();
        self.layer(view, Layer { subject, attempts, inside: 1, turns: attempts, asleep, origin });
    }

    fn layer(&mut self, view: &View<'_>, layer: Layer) {
        let models = self.models(view);
        let mut factors = models.as_ref().map_or(Vec::new(), |models| models.factors.clone());
        factors.push((layer.attempts.into(), format!("of {}", layer.subject)));
        factors.push((layer.inside.into(), "inside it".to_owned()));
        let all = factors.iter().fold(1_u64, |all, (factor, _)| all.saturating_mul(*factor));
        let most = view.options.most_attempts;
        if all <= u64::from(most) {
            return;
        }
        let turns = match models.as_ref().map(|models| models.asleep) {
            Some(Bound::Within(turn)) => Bound::Within(turn.saturating_mul(layer.turns.into())),
            Some(Bound::Unlimited) => Bound::Unlimited,
            None => Bound::Within(Nanos::ZERO),
        };
        let asleep = explain::add(turns, layer.asleep);
        let key = (models.map(|models| models.origin), layer.origin);
        let product = Product { all, most, subject: layer.subject, factors, asleep };
        match self.found.get_mut(&key) {
            Some(held) if held.all >= all => {}
            Some(held) => *held = product,
            None => drop(self.found.insert(key, product)),
        }
    }

    /// What is called in one turn: all models of the host, one after the other. Selectors stand for models that are
    /// not known, and the one with the most attempts counts.
    fn models(&self, view: &View<'_>) -> Option<Models> {
        let all = |layer: &Layer| u64::from(layer.attempts).saturating_mul(layer.inside.into());
        let worst = self.models.iter().max_by_key(|layer| all(layer))?;
        let origin = worst.origin;
        // Attempts that count together are no more than those of the one that has the most.
        let targets = view.layers.turn().targets.policy()?;
        let together = targets.advance.value.counts_together();
        if together || view.options.models.is_none() || self.models.len() < 2 {
            let attempts = (worst.attempts.into(), format!("of {}", worst.subject));
            let factors = vec![attempts, (worst.inside.into(), "inside its client".to_owned())];
            return Some(Models { factors, asleep: worst.asleep, origin });
        }
        let (count, inside) = (self.models.len(), worst.inside);
        let alike = self.models.iter().all(|layer| layer.inside == inside);
        let sum = |of: &dyn Fn(&Layer) -> u64| self.models.iter().map(of).fold(0, u64::saturating_add);
        let factors = if alike {
            let attempts = sum(&|layer| layer.attempts.into());
            vec![(attempts, format!("of {count} models")), (inside.into(), "inside their clients".to_owned())]
        } else {
            vec![(sum(&all), format!("of {count} models and inside their clients"))]
        };
        let asleep = self.models.iter().map(|layer| layer.asleep);
        let asleep = asleep.fold(Bound::Within(Nanos::ZERO), explain::add);
        Some(Models { factors, asleep, origin })
    }

    /// Says what multiplies to too much.
    pub(super) fn finish(self, found: &mut Found<'_>) {
        for ((model, own), product) in self.found {
            let model = model.and_then(|origin| found.place(origin));
            let own = found.place(own);
            let span = own.or(model).unwrap_or_else(|| found.start());
            let also = model.filter(|model| *model != span);
            found.push(product.problem(span, also));
        }
    }
}

impl Product {
    fn problem(self, span: crate::policy::Span, also: Option<crate::policy::Span>) -> Diagnostic {
        let Self { all, most, subject, factors, asleep } = self;
        let factors: Vec<String> = factors
            .into_iter()
            .filter(|(factor, _)| *factor > 1)
            .map(|(factor, what)| format!("{factor} {what}"))
            .collect();
        let asleep = match asleep {
            Bound::Within(Nanos::ZERO) => String::new(),
            Bound::Within(length) => format!(", and to {} asleep", length.rounded()),
            Bound::Unlimited => ", and to sleep without a bound".to_owned(),
        };
        let message = format!(
            "{subject} may lead to {all} attempts, more than {most}: {}{asleep}",
            factors.join(" x ")
        );
        let problem = Diagnostic::warning(Code::AMPLIFICATION, span, message);
        let problem = also.into_iter().fold(problem, |problem, at| problem.also(at, "attempts of the model"));
        problem.help("lower `max_attempts`, set `limits.max_attempts`, or switch off the retries inside")
    }
}
