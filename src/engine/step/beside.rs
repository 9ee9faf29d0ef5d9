//! Functions for a host with its own loop apart from steps: texts of the policy, repairs of a history outside of
//! turns, and context budgets.

use serde_json::Value;

use super::super::directive::{Directive, DirectiveKind, Directives, Note};
use super::super::measure::TurnMeasure;
use super::super::orphans;
use super::super::problems::told;
use super::super::reduce::ReducePlan;
use super::super::reflect::reflect;
use super::super::room::ContextBudget;
use super::super::state::State;
use super::Interpreter;
use crate::policy::{ContextWindow, ErrorClass, Setting};
use crate::session::{HistoryRepair, Message};
use crate::text::Template;

impl Interpreter {
    /// Renders a text of the policy for the model with these variables and the session's data, or the error of the
    /// template.
    pub fn say(&self, state: &State, template: &Template, vars: Value) -> String {
        let Value::Object(mut vars) = vars else { return String::new() };
        reflect(template, &mut vars, state.slices());
        told(&self.policy, template, &vars).unwrap_or_else(|error| error.to_string())
    }

    /// Whether a conversation must be reduced before it is sent to the model: fewer tokens of its window are free
    /// than `context.compact_at_free`. `false` for a model whose window is unknown.
    pub fn is_short_of_room(&self, state: &State, target: &str, measure: TurnMeasure) -> bool {
        let room = self.room(state, target, measure);
        room.is_some_and(|room| room.is_short(self.policy.context()))
    }

    /// The plan of a step of `context.reduce`, by its index, for a conversation of this size and this model; `None`:
    /// no reduction is needed. `tools`: the tokens in addition to the conversation.
    pub fn reduce_plan(
        &self,
        state: &State,
        target: &str,
        tools: TurnMeasure,
        message_tokens: u64,
        step: usize,
    ) -> Option<ReducePlan> {
        let context = self.policy.context();
        let rule = context.reduce.value.get(step)?;
        let number = u32::try_from(step).ok()?.checked_add(1)?;
        let (room, calibration) = (self.room(state, target, tools)?, state.calibration());
        let plan = room.plan(context, number, rule, calibration.part(target, message_tokens), false)?;
        let [aim, most] = [plan.aim, plan.most].map(|tokens| calibration.counted(target, tokens));
        Some(ReducePlan { aim, most, ..plan })
    }

    /// The context budget of a model.
    fn room(&self, state: &State, target: &str, measure: TurnMeasure) -> Option<ContextBudget> {
        let model = self.policy.model(target);
        let (known, measure) =
            (state.windows().of(target, &model), state.calibration().measured(target, measure));
        let ContextWindow::Tokens(window) = known.window else { return None };
        let room = ContextBudget::of(self.policy.context(), &model, window.get(), measure);
        Some(if known.has_own_reserve(measure) { room } else { room.with_half_for_the_reply() })
    }

    /// The directives for faults that [`repair`](crate::context::repair) found in a history outside of turns: the
    /// splices, the record of the repair, and the text for the model. The state does not change.
    pub fn repair(&self, state: &State, mut repair: HistoryRepair) -> Directives {
        if repair.is_empty() {
            return Directives::default();
        }
        let rules = self.policy.history();
        let mut say = |template: &Setting<Template>, vars| self.say(state, &template.value, vars);
        orphans::write(rules, &mut repair, &mut say);
        let reminder = orphans::reminder(rules, &repair.pruned, &mut say);
        let told = orphans::told(&repair, None);
        let guidance = Some(ErrorClass::OrphanToolCall.name().to_owned());
        let message = reminder.map(|text| Message::User { text, guidance });
        let notes = [Note::Splice { splices: repair.splices }, Note::OrphanToolCallsPruned(told)];
        let notes = notes.into_iter().chain(message.map(|message| Note::Append { message }));
        let directive = |note| Directive { order: DirectiveKind::Note(note), because: Vec::new(), of: None };
        Directives(notes.map(directive).collect())
    }
}
