//! Shared breakers, budgets, paces and outages reported by other hosts.

use super::super::because::because;
use super::super::breaker::CircuitBreaker;
use super::super::directive::Note;
use super::{RunStep, SplitState};
use crate::engine::shared_known::SharedKnown;

impl RunStep<'_> {
    /// Takes the shared state. Entries that the policy does not share under these rules are ignored.
    pub(super) fn shared_changed(&mut self, known: SharedKnown) {
        for (account, ledger) in known.budgets {
            self.state.budgets.set_shared(account, ledger);
        }
        for (tool, breaker) in known.breakers {
            self.take_breaker(tool, breaker);
        }
        let now = self.state.now;
        for (pool, pace) in known.paces {
            self.state.pace.set_shared(&pool, pace, now);
        }
        for (name, until) in known.outages.cooldowns {
            self.state.models.set_cooldown(name, until, now);
        }
        for (name, outage) in known.outages.pools {
            self.state.pace.set_outage(&name, outage, now);
        }
    }

    fn take_breaker(&mut self, tool: String, breaker: CircuitBreaker) {
        // Read before the state is split: notes after the end would be in no log.
        let is_over = self.state.is_over();
        let SplitState { run, .. } = self.split();
        let (tools, mut out) = (run.tools, run.out);
        let moved = tools.take_shared(&tool, breaker, out.rules);
        // Notes after the end have no reader.
        if moved && !is_over {
            let breaker = tools.breaker(&tool).cloned().unwrap_or_default();
            let (state, until) = (breaker.phase(), breaker.open_until());
            let policy = out.rules.policy.tool(&tool);
            let fact = "what all hosts have counted".to_owned();
            let why = vec![because(out.rules.policy, "breaker.scope", &policy.breaker.scope, [fact])];
            out.note(Note::Breaker { tool, state, until }, why);
        }
    }
}
