//! Attempts that multiply: of the model, of the tool, and inside what they call.

use indexmap::IndexMap;

use super::{Found, KnownTool, View};
use crate::policy::explain::{self, Work, Worst};
use crate::policy::{
    Attempts, Bound, Code, Diagnostic, ErrorClass, ModelPolicy, Origin, OutputPolicy, RetryPolicy, ToolPolicy,
};
use crate::time::Nanos;

/// The largest product for each pair of places that make it.
#[derive(Default)]
pub(super) struct Amplification {
    model: Option<Layer>,
    found: IndexMap<(Option<Origin>, Origin), Product>,
}

/// What one layer multiplies by.
#[derive(Clone)]
struct Layer {
    subject: String,
    attempts: u32,
    inside: u32,
    asleep: Bound,
    origin: Origin,
}

struct Product {
    all: u64,
    most: u32,
    subject: String,
    factors: Vec<(u32, String)>,
    asleep: Bound,
}

impl Amplification {
    /// Begins a view: its models are not known yet.
    pub(super) fn begin(&mut self) {
        self.model = None;
    }

    /// Hears a model. The one with the most attempts counts.
    pub(super) fn model(&mut self, subject: &str, policy: &ModelPolicy, inside: u32) {
        let worst = Worst::of(&policy.retry, Work { asks: true, ..Work::default() });
        let Some(attempts) = worst.calls else { return };
        let inside = inside.saturating_add(1);
        let all = |layer: &Layer| layer.attempts.saturating_mul(layer.inside);
        if self.model.as_ref().is_none_or(|held| all(held) < attempts.saturating_mul(inside)) {
            let (subject, asleep) = (subject.to_owned(), worst.asleep);
            let origin = policy.retry.max_attempts.origin;
            self.model = Some(Layer { subject, attempts, inside, asleep, origin });
        }
    }

    /// Hears a tool.
    pub(super) fn tool(
        &mut self,
        view: &View<'_>,
        subject: &str,
        policy: &ToolPolicy,
        known: Option<&KnownTool>,
    ) {
        let worst = Worst::of(&policy.retry, explain::work(policy));
        let Some(runs) = worst.calls else { return };
        let inside = known.map_or(1, |tool| tool.inner_retries.saturating_add(1));
        // Corrections of arguments are no runs of the tool, but turns of the model.
        let attempts = runs.max(corrections(&policy.retry));
        let (origin, asleep) = (policy.retry.max_attempts.origin, worst.asleep);
        self.layer(view, Layer { subject: subject.to_owned(), attempts, inside, asleep, origin });
    }

    /// Hears the final report.
    pub(super) fn output(&mut self, view: &View<'_>, policy: &OutputPolicy) {
        let worst = Worst::of(&policy.retry, Work::default());
        let Some(attempts) = worst.calls else { return };
        let (origin, asleep) = (policy.retry.max_attempts.origin, worst.asleep);
        self.layer(view, Layer { subject: "the report".into(), attempts, inside: 1, asleep, origin });
    }

    fn layer(&mut self, view: &View<'_>, layer: Layer) {
        let mut factors = Vec::new();
        if let Some(model) = &self.model {
            factors.push((model.attempts, format!("of {}", model.subject)));
            factors.push((model.inside, "inside its client".to_owned()));
        }
        factors.push((layer.attempts, format!("of {}", layer.subject)));
        factors.push((layer.inside, "inside it".to_owned()));
        let all = factors.iter().fold(1_u64, |all, (factor, _)| all.saturating_mul(u64::from(*factor)));
        let most = view.options.most_attempts;
        if all <= u64::from(most) {
            return;
        }
        let asleep = match (self.model.as_ref().map(|model| model.asleep), layer.asleep) {
            (Some(Bound::Within(turn)), Bound::Within(own)) => {
                Bound::Within(turn.saturating_mul(layer.attempts.into()).saturating_add(own))
            }
            (None, own) => own,
            _ => Bound::Unlimited,
        };
        let key = (self.model.as_ref().map(|model| model.origin), layer.origin);
        let product = Product { all, most, subject: layer.subject, factors, asleep };
        match self.found.get_mut(&key) {
            Some(held) if held.all >= all => {}
            Some(held) => *held = product,
            None => drop(self.found.insert(key, product)),
        }
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
            Bound::Within(length) => format!(", and to {} asleep", rounded(length)),
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

/// Rounded up to what people read.
fn rounded(length: Nanos) -> Nanos {
    Nanos::from_millis(length.0.div_ceil(1_000_000))
}

/// How often the model may be asked for other arguments.
fn corrections(retry: &RetryPolicy) -> u32 {
    let corrected = retry.enabled.value
        && retry.retry_on.value.contains(ErrorClass::InvalidArgs)
        && !retry.never_retry.value.contains(ErrorClass::InvalidArgs);
    match retry.max_attempts.value {
        Attempts::Limited(attempts) if corrected => attempts.get(),
        _ => 1,
    }
}
