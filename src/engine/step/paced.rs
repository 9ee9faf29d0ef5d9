//! Calls that wait for their turn and may start earlier, because another call ended or was withdrawn.

use super::{RunStep, SplitState};
use crate::engine::machine::{NextMachine, WorkPurpose};

impl RunStep<'_> {
    /// Starts waiting calls for which this step has made room, the oldest first, or shortens the wait of the oldest.
    pub(super) fn start_paced(&mut self) {
        while !self.state.is_over()
            && let Some(work) = self.state.pace.next_due(self.state.now)
        {
            let Some((proposal, pending)) = self.state.work.get(work) else { return };
            self.current = proposal;
            let SplitState { mut run, batch, .. } = self.split();
            // Its timer would fire later than the call starts.
            run.drop_work(work);
            let then = match pending {
                WorkPurpose::WaitModel => NextMachine::Call,
                WorkPurpose::WaitTool(slot) => batch.run_tool(slot, Vec::new(), &mut run).into(),
                _ => return,
            };
            self.route(then);
            // A call that started or ended may have freed a permit.
            self.admit_others();
        }
    }
}
