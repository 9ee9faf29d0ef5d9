//! Whether the budgets of a run leave an agent a turn before its final one: decided by the engine itself, with the
//! instructions, the task and the tools of the agent file.

use std::path::Path;

use unfazed::context::{Ledger, ModelCatalogue, ToolForm, overhead};
use unfazed::engine::{
    Because, Directives, Drive, Envelope, Event, Note, Order, RunStarted, State, ToolFacts, Work,
};
use unfazed::host::agent_file::{AgentFile, ModelEntry};
use unfazed::host::{Agent, counter_by};
use unfazed::policy::{Policy, ShortBudget};
use unfazed::session::{FinalReason, Message};
use unfazed::time::Instant;

use crate::cli::named::{self, Named};

/// The rules whose reservation depends on what is sent; the others are constants of the policy.
const OF_TOKENS: [&str; 2] = ["limits.run.tokens", "limits.run.cost"];

/// The budget that makes the first turn of the agent its final one, if there is one. Tools that servers bring are not
/// counted: they are known when the agent runs.
pub(in crate::cli) fn short_budget(named: &Named, path: &Path) -> Option<ShortBudget> {
    let file = &named.file.value;
    let tools = crate::cli::run::tools(file, path.parent().unwrap_or(Path::new("")));
    let agent = Agent::new(named.policy.clone()).tools(tools);
    short_budget_of(&agent, &named.policy, file, named.models.as_ref())
}

/// The same of an agent with all of its tools, those of its servers among them.
pub(in crate::cli) fn short_budget_of(
    agent: &Agent,
    policy: &Policy,
    file: &AgentFile,
    models: Option<&ModelCatalogue>,
) -> Option<ShortBudget> {
    let limits = policy.run_limits();
    if limits.tokens.is_none() && limits.cost.is_none() {
        return None;
    }
    let because = first_turn(agent, policy, file, models)?;
    let told = because.into_iter().find(|because| OF_TOKENS.contains(&because.rule.as_ref()))?;
    Some(ShortBudget { path: told.rule, why: told.facts.join(", ") })
}

/// Why the first turn is the final one; `None`: it is not, or the agent cannot run.
fn first_turn(
    agent: &Agent,
    policy: &Policy,
    file: &AgentFile,
    models: Option<&ModelCatalogue>,
) -> Option<Vec<Because>> {
    let (interpreter, offered) = (agent.interpreter().ok()?, agent.offered().ok()?);
    let (name, entry) = file.models.first()?;
    let served = entry.facts(name).model;
    let counter = counter_by(&policy.model(name).tokens, &served);
    let form = match entry {
        ModelEntry::Anthropic { .. } => ToolForm::Messages,
        _ => ToolForm::Chat,
    };
    let task = file.task.as_ref().map(|task| task.value.clone()).unwrap_or_default();
    let prices = file
        .models
        .iter()
        .filter_map(|(name, entry)| Some((name.clone(), named::price(entry, name, models)?)));
    let overheads = file.models.iter().filter_map(|(name, entry)| {
        Some((name.clone(), overhead(&entry.facts(name).model, !file.system.is_empty())?))
    });
    let mut event = Event::RunStarted(RunStarted {
        run: "check".into(),
        drive: Drive::Turns,
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
                Order::Note(Note::FinalTurn { reason: FinalReason::Budget, .. }) => {
                    return Some(directive.because);
                }
                Order::Note(note) => note.apply(&mut messages),
                Order::Work(Work::PrepareTurn(turn)) => prepare = Some(turn),
                Order::Work(_) => {}
            }
        }
        let mut ledger = Ledger::of(&*counter, &messages);
        ledger.set_tools(offered.iter().map(|tool| form.tokens(&*counter, &served, tool)).sum());
        event = prepare?.prepared(ledger.measure(0));
    }
    None
}
