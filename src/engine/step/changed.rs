//! Replaces the policy or the tools during a run.
//!
//! Work in flight continues. Work that has not started follows the new rules.

use super::super::event::ToolFacts;
use super::{RunStep, SplitState};
use crate::engine::ids::ProposalId;

impl RunStep<'_> {
    /// Takes the declared effects of the tools. The state of removed tools is kept: they may return.
    pub(super) fn take_effects(&mut self, tools: Vec<ToolFacts>) {
        self.state.context.effects =
            tools.into_iter().filter_map(|tool| Some((tool.name, tool.effect?))).collect();
    }

    /// Applies a new policy: state that does not fit it is reset.
    pub(super) fn policy_changed(&mut self) {
        self.state.slices.complete(self.policy.session());
        let SplitState { mut run, batch, .. } = self.split();
        run.tools.policy_changed(&mut run.out);
        batch.on_policy_changed(&run);
        // All proposals, not only that of this event: required approvals apply to every call in progress.
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
