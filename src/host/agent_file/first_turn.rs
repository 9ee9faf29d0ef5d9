//! Whether the budgets of a run leave an agent a turn before its final one: decided by the engine itself, with the
//! instructions, the task and the tools of the agent file.

use super::named::NamedAgent;
use crate::analysis::ShortBudget;
use crate::context::{TokenLedger, overhead};
use crate::engine::{
    DecisionReason, DirectiveKind, Directives, DriveMode, Envelope, Event, Note, RunStarted, State,
    ToolFacts, Work,
};
use crate::host::{Agent, counter_by};
use crate::session::{FinalReason, Message};
use crate::time::Instant;

/// The rules whose reservation depends on what is sent; the others are constants of the policy.
const OF_TOKENS: [&str; 2] = ["limits.run.tokens", "limits.run.cost"];

impl NamedAgent {
    /// The budget that makes the first turn of the agent its final one, if there is one. Tools that servers bring are not
    /// counted: they are known when the agent runs.
    pub(crate) fn short_budget(&self) -> Option<ShortBudget> {
        self.short_budget_of(&Agent::new(self.policy.clone()).tools(self.tools()))
    }

    /// The same of the agent with all of its tools, those of its servers among them.
    pub(super) fn short_budget_of(&self, agent: &Agent) -> Option<ShortBudget> {
        let limits = self.policy.run_limits();
        if limits.tokens.is_none() && limits.cost.is_none() {
            return None;
        }
        let because = first_turn(self, agent)?;
        let told = because.into_iter().find(|because| OF_TOKENS.contains(&because.rule.as_ref()))?;
        Some(ShortBudget { path: told.rule, why: told.facts.join(", ") })
    }
}

/// Why the first turn is the final one; `None`: it is not, or the agent cannot run.
fn first_turn(named: &NamedAgent, agent: &Agent) -> Option<Vec<DecisionReason>> {
    let (interpreter, offered) = (agent.interpreter().ok()?, agent.offered().ok()?);
    let file = &named.file.value;
    let (name, entry) = file.models.first()?;
    let served = entry.facts(name).model;
    let counter = counter_by(&named.policy.model(name).tokens, &served);
    let form = entry.tool_form();
    let task = file.task.as_ref().map(|task| task.value.clone()).unwrap_or_default();
    let prices = file.models.keys().filter_map(|name| Some((name.clone(), named.price(name)?)));
    let overheads = file.models.iter().filter_map(|(name, entry)| {
        Some((name.clone(), overhead(&entry.facts(name).model, !file.system.is_empty())?))
    });
    let mut event = Event::RunStarted(RunStarted {
        run: "check".into(),
        drive: DriveMode::Turns,
        system: file.system.clone(),
        task,
        targets: file.models.keys().cloned().collect(),
        tools: interpreter.tools().iter().map(ToolFacts::from).collect(),
        prices: prices.collect(),
        overheads: overheads.collect(),
        ..RunStarted::default()
    });
    let (mut state, mut messages) = (State::new(), Vec::<Message>::new());
    // Two steps decide: the start, and the first turn with what it would send.
    for seq in 1..=2 {
        let envelope = Envelope { seq, now: Instant(1), event };
        let Directives(directives) = interpreter.step(&mut state, envelope);
        let mut prepare = None;
        for directive in directives {
            match directive.order {
                DirectiveKind::Note(Note::FinalTurn { reason: FinalReason::Budget, .. }) => {
                    return Some(directive.because);
                }
                DirectiveKind::Note(note) => note.apply(&mut messages),
                DirectiveKind::Work(Work::PrepareTurn(turn)) => prepare = Some(turn),
                DirectiveKind::Work(_) => {}
            }
        }
        let mut ledger = TokenLedger::of(&*counter, &messages);
        ledger.set_tools(offered.iter().map(|tool| form.tokens(&*counter, &served, tool)).sum());
        event = prepare?.prepared(ledger.measure(0));
    }
    None
}
