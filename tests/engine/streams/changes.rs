//! What changes in the middle of a run: the policy, the tools, the models; and the process that is killed, and resumes.

use unfazed::engine::{
    CallModel, EffectState, Event, Failure, Interpreter, ToolCatalogue, ToolFacts, ToolOutcome, ToolSpec,
    Work,
};
use unfazed::policy::{Effect, ErrorClass, Policy};

use super::host::{Host, tools};
use super::policies::{POLICIES, made};
use super::tape::Tape;

impl Host {
    /// Something changes: one thing or several at once, while the process lives or after it was killed.
    pub(crate) fn change(&mut self, t: &mut Tape) {
        self.changed = true;
        let killed = t.once_in(2);
        if killed {
            let text = serde_json::to_string(&self.state).unwrap();
            self.state = serde_json::from_str(&text).unwrap();
        }
        let what = t.below(7) + 1;
        if what & 1 != 0 {
            self.adopt(made(t.below(POLICIES)).policy.clone());
        }
        if what & 2 != 0 && !self.finished {
            self.tools = other_tools(t);
            let tools = ToolCatalogue::new(self.tools.clone()).unwrap();
            self.interpreter = Interpreter::new(self.interpreter.policy().clone(), tools);
            self.tell(Event::ToolsChanged { tools: self.tools.iter().map(ToolFacts::from).collect() });
        }
        if what & 4 != 0 {
            self.gone = self.targets.iter().copied().filter(|_| t.once_in(3)).collect();
        }
        if killed && !self.finished {
            self.resume();
        }
    }

    /// Another policy takes effect.
    pub(crate) fn adopt(&mut self, policy: Policy) {
        let digest = policy.digest().to_owned();
        self.interpreter = Interpreter::new(policy, self.interpreter.tools().clone());
        self.tell(Event::PolicyChanged { policy: digest });
    }

    /// What was running when the process was killed has an unknown outcome; everything else is done again.
    fn resume(&mut self) {
        for work in std::mem::take(&mut self.open) {
            match work {
                Work::RunTool(run) if !self.finished => {
                    let failure = Failure::of(ErrorClass::ToolUnavailable, "the run was broken off");
                    let effect = EffectState::Unknown;
                    self.tell(run.finished(ToolOutcome::Failed { failure, effect }));
                }
                work if self.state_has(&work) => self.open.push(work),
                _ => {}
            }
        }
        if self.finished {
            self.open.clear();
        }
    }

    /// Whether the state still waits for this work: what one answer leads to may drop it.
    fn state_has(&self, work: &Work) -> bool {
        self.state.is_open(work.id())
    }

    /// A host that runs its own loop has no work left: all calls of the reply have their results.
    pub(crate) fn check_idle(&self) {
        let open = self.state.open_calls().next();
        assert!(open.is_none(), "law 2: nothing is asked for, and calls are open: {open:?}");
    }

    /// An attempt is one that the policy of this moment allows.
    pub(crate) fn check_attempt(&self, call: &CallModel) {
        let together = self.interpreter.policy().turn().targets.fallback.value.counts_together();
        let allowed = together || call.max_attempts.is_none_or(|most| call.attempt <= most);
        assert!(allowed, "law 5: {call:?} is one too many");
    }
}

/// Tools of which some were removed, and some declare another effect.
fn other_tools(t: &mut Tape) -> Vec<ToolSpec> {
    let mut left = Vec::new();
    for mut tool in tools() {
        if t.once_in(3) {
            continue;
        }
        if t.once_in(3) {
            tool.effect = t.of(&[None, Some(Effect::ReadOnly), Some(Effect::NonIdempotent)]);
        }
        left.push(tool);
    }
    left
}
