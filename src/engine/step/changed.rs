//! The policy or the tools are replaced in the middle of a run.
//!
//! What is in flight stays in flight. What has not begun yet follows the new rules, when it begins.

use super::super::event::ToolFacts;
use super::{RunStep, SplitState};
use crate::engine::ids::ProposalId;

impl RunStep<'_> {
    /// What the tools declare about their effects. What is remembered of tools that were removed is kept: they may come
    /// back.
    pub(super) fn take_effects(&mut self, tools: Vec<ToolFacts>) {
        self.state.context.effects =
            tools.into_iter().filter_map(|tool| Some((tool.name, tool.effect?))).collect();
    }

    /// There is another policy: what does not fit it begins again.
    pub(super) fn policy_changed(&mut self) {
        self.state.slices.complete(self.policy.session());
        let SplitState { mut run, batch, .. } = self.split();
        run.tools.policy_changed(&mut run.out);
        batch.on_policy_changed(&run);
        // All proposals, not only the one of this event: approvals that are due hold for every call that has begun.
        let open: Vec<ProposalId> = self.state.proposals.keys().copied().collect();
        for proposal in open {
            self.current = proposal;
            let SplitState { run, batch, .. } = self.split();
            batch.on_policy_changed(&run);
        }
        self.current = ProposalId::NONE;
        self.final_turn_by_new_rules();
    }
}
