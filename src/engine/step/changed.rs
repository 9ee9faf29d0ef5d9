//! The policy or the tools are replaced in the middle of a run.
//!
//! What is under way stays under way. What has not begun yet follows the new rules, when it begins.

use super::super::event::ToolFacts;
use super::super::state::SlotPhase;
use super::{Split, Step};
use crate::policy::Approval;

impl Step<'_> {
    /// What the tools declare about their effects. What is remembered of tools that were removed is kept: they may come
    /// back.
    pub(super) fn take_effects(&mut self, tools: Vec<ToolFacts>) {
        self.state.context.effects =
            tools.into_iter().filter_map(|tool| Some((tool.name, tool.effect?))).collect();
    }

    /// There is another policy: what does not fit it begins anew.
    pub(super) fn policy_changed(&mut self) {
        self.state.slices.complete(self.policy.session());
        let Split { mut run, .. } = self.split();
        run.tools.policy_changed(&mut run.out);
        self.approve_again();
        self.last_turn_by_new_rules();
    }

    /// A call that has begun may have begun without approval, or with that of other rules: where the new ones ask for it, a
    /// person is asked before the next attempt.
    fn approve_again(&mut self) {
        for index in 0..self.state.batch.slots.len() {
            let Some(slot) = self.state.batch.slots.get(index) else { return };
            let begun = match &slot.phase {
                SlotPhase::UnderWay | SlotPhase::Doubtful(_) | SlotPhase::Ended(..) => true,
                SlotPhase::Waiting
                | SlotPhase::Unasked
                | SlotPhase::Asked
                | SlotPhase::WithPlanner(_)
                | SlotPhase::ReportWithPlanner
                | SlotPhase::Refused(_)
                | SlotPhase::Invalid(_)
                | SlotPhase::Report(_)
                | SlotPhase::Settled => false,
            };
            let policy = self.tool_policy(&slot.tool, &slot.arguments, slot.planner.as_ref());
            let asks = policy.approval.value == Approval::Always && !self.state.tools.is_agreed(&slot.tool);
            if let Some(slot) = self.state.batch.slots.get_mut(index) {
                slot.to_approve = begun && asks;
            }
        }
    }
}
