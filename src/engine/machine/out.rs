//! What every machine may do in addition to changing its own state: write directives and metrics, and update the session.

use serde_json::Value;

use super::super::catalogue::ToolCatalogue;
use super::super::directive::{DecisionReason, Directive, DirectiveKind, Note, ProposalRef};
use super::super::metric::{Metric, MetricName};
use super::super::problems::told;
use super::super::reflect::reflect;
use crate::engine::tracked::TrackedPart;
use crate::policy::{Policy, Setting};
use crate::session::SessionSlices;
use crate::text::Template;
use crate::time::Instant;

/// The most reasons that a directive names: the first are those that decided most.
pub(in crate::engine) const MOST_REASONS: usize = 3;

/// What a step decides by.
#[derive(Clone, Copy)]
pub(in crate::engine) struct StepRules<'a> {
    pub(in crate::engine) policy: &'a Policy,
    pub(in crate::engine) tools: &'a ToolCatalogue,
}

/// The output of a step, lent to one machine after the other. Reducers run at once, as an objection changes the decision of
/// the same step: so the session is reached through it, and through nothing else.
pub(in crate::engine) struct StepOutput<'a> {
    pub(in crate::engine) rules: StepRules<'a>,
    pub(in crate::engine) now: Instant,
    pub(in crate::engine) slices: &'a mut TrackedPart<SessionSlices>,
    pub(in crate::engine) directives: &'a mut Vec<Directive>,
    /// The proposal that directives are about.
    pub(in crate::engine) of: Option<ProposalRef>,
}

impl StepOutput<'_> {
    /// Adds a note.
    pub(in crate::engine) fn note(&mut self, note: Note, mut because: Vec<DecisionReason>) {
        // Three at most: people read the first reasons, and the counterfactual law holds each named one to the
        // decision.
        because.truncate(MOST_REASONS);
        self.directives.push(Directive { order: DirectiveKind::Note(note), because, of: self.of });
    }

    /// What follows is about a call of the proposal.
    pub(in crate::engine) fn about(&mut self, call: usize) {
        if let Some(of) = &mut self.of {
            of.call = u32::try_from(call).ok();
        }
    }

    /// What follows is about the proposal as a whole.
    pub(in crate::engine) fn about_all(&mut self) {
        if let Some(of) = &mut self.of {
            of.call = None;
        }
    }

    /// Adds a warning.
    pub(in crate::engine) fn warn(&mut self, message: impl Into<String>) {
        self.note(Note::Warning { message: message.into() }, Vec::new());
    }

    /// Adds to a metric.
    pub(in crate::engine) fn count(&mut self, name: MetricName, subject: String, value: u64) {
        self.note(Note::Metric(Metric { name, subject, value }), Vec::new());
    }

    /// Renders a text for the model.
    pub(in crate::engine) fn say(&mut self, template: &Setting<Template>, vars: Value) -> String {
        let Value::Object(mut vars) = vars else { return String::new() };
        reflect(&template.value, &mut vars, self.slices);
        // A template may fail for a value of this call alone. The model still needs an answer, so the plain error
        // takes its place.
        match told(self.rules.policy, &template.value, &vars) {
            Ok(text) => text,
            Err(error) => {
                let place = self.rules.policy.place(template.origin);
                self.warn(format!("{place}: the message cannot be rendered: {error}"));
                vars.get("error").and_then(Value::as_str).unwrap_or("the call was not accepted").to_owned()
            }
        }
    }
}
