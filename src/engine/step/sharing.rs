//! What other hosts have told of breakers and budgets that are shared.

use super::super::because::because;
use super::super::breaker::Breaker;
use super::super::directive::Note;
use super::super::shared::{SharedKnown, is_shared};
use super::Step;

impl Step<'_> {
    /// From now on this is known. What the policy does not share, or not by these rules, is of no use.
    pub(super) fn shared_changed(&mut self, known: SharedKnown) {
        for (account, ledger) in known.budgets {
            self.state.budgets.set_shared(account, ledger);
        }
        for (tool, breaker) in known.breakers {
            self.take_breaker(tool, breaker);
        }
    }

    fn take_breaker(&mut self, tool: String, breaker: Breaker) {
        let policy = self.policy.tool(&tool);
        if !is_shared(&policy.breaker) || !breaker.fits(&policy.breaker) {
            return;
        }
        let before = self.state.tools.breakers.remove(&tool).unwrap_or_default();
        let stands = |breaker: &Breaker| (breaker.phase(), breaker.open_until());
        let (moved, (state, until)) = (stands(&before) != stands(&breaker), stands(&breaker));
        if !breaker.is_new() {
            self.state.tools.breakers.insert(tool.clone(), breaker);
        }
        // After the end nobody is told.
        if moved && !self.state.is_over() {
            let fact = "what all hosts have counted".to_owned();
            let why = vec![because(self.policy, "breaker.scope", &policy.breaker.scope, [fact])];
            self.note(Note::Breaker { tool, state, until }, why);
        }
    }
}
