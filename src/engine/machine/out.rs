//! The outputs shared by all machines: directives, metrics, and updates of the session.

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

/// The maximum number of reasons per directive; the most decisive come first.
pub(in crate::engine) const MOST_REASONS: usize = 3;

/// The policy and the tools of a step.
#[derive(Clone, Copy)]
pub(in crate::engine) struct StepRules<'a> {
    pub(in crate::engine) policy: &'a Policy,
    pub(in crate::engine) tools: &'a ToolCatalogue,
}

/// The output of a step, lent to one machine after the other. Reducers run at once, because an objection changes the
/// decision of the same step; so the session is only reached through this output.
pub(in crate::engine) struct StepOutput<'a> {
    pub(in crate::engine) rules: StepRules<'a>,
    pub(in crate::engine) now: Instant,
    pub(in crate::engine) slices: &'a mut TrackedPart<SessionSlices>,
    pub(in crate::engine) directives: &'a mut Vec<Directive>,
    /// The proposal of the following directives.
    pub(in crate::engine) of: Option<ProposalRef>,
}

impl StepOutput<'_> {
    /// Adds a note.
    pub(in crate::engine) fn note(&mut self, note: Note, mut because: Vec<DecisionReason>) {
        // Three at most: people read the first reasons, and the counterfactual law requires that each named reason
        // mattered.
        because.truncate(MOST_REASONS);
        self.directives.push(Directive { order: DirectiveKind::Note(note), because, of: self.of });
    }

    /// Attributes the following directives to a call of the proposal.
    pub(in crate::engine) fn about(&mut self, call: usize) {
        if let Some(of) = &mut self.of {
            of.call = u32::try_from(call).ok();
        }
    }

    /// Attributes the following directives to the proposal as a whole.
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
        // A template may fail for a value of this call alone. The model still needs an answer, so it gets the plain
        // error.
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
