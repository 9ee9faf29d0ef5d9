//! The policy or the tools are replaced in the middle of a run.
//!
//! What is under way stays under way. What has not begun yet follows the new rules, when it begins.

use super::super::directive::ProposalId;
use super::super::event::ToolFacts;
use super::{Split, Step};

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
        let Split { mut run, batch, .. } = self.split();
        run.tools.policy_changed(&mut run.out);
        batch.on_policy_changed(&run);
        let open: Vec<ProposalId> = self.state.proposals.keys().copied().collect();
        for proposal in open {
            self.current = proposal;
            let Split { run, batch, .. } = self.split();
            batch.on_policy_changed(&run);
        }
        self.current = ProposalId::NONE;
        self.last_turn_by_new_rules();
    }
}
