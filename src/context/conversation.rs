//! A conversation that a host keeps: its size, kept up with it, so that a turn costs what is new, and the answers to the work that
//! needs nothing else.

use std::sync::Arc;

use super::{CheckedHistory, TokenCounter, TokenLedger, ToolForm, reduce, repair};
use crate::engine::{Event, ReducePlan, ToolSpec, TurnMeasure, Work};
use crate::policy::{MalformedCalls, Policy};
use crate::session::{ContextReduction, HistorySplice, Message};

/// The sizes of a conversation and of the tools that go with it.
pub struct ConversationMeasure {
    counter: Arc<dyn TokenCounter>,
    form: ToolForm,
    model: String,
    ledger: TokenLedger,
    checked: CheckedHistory,
}

impl core::fmt::Debug for ConversationMeasure {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        // The messages themselves are the host's.
        f.debug_struct("ConversationMeasure").field("model", &self.model).finish_non_exhaustive()
    }
}

impl ConversationMeasure {
    /// An empty conversation, counted by `counter`; tools are declared in that form to a model of that name at its server.
    pub fn new(counter: Arc<dyn TokenCounter>, form: ToolForm, model: &str) -> Self {
        Self {
            counter,
            form,
            model: model.to_owned(),
            ledger: TokenLedger::default(),
            checked: CheckedHistory::default(),
        }
    }

    /// These tools are offered from now on.
    pub fn set_tools(&mut self, offered: &[ToolSpec]) {
        let each = offered.iter().map(|tool| self.form.tokens(&*self.counter, &self.model, tool));
        self.ledger.set_tools(each.fold(0, u64::saturating_add));
    }

    /// A message was added.
    pub fn append(&mut self, message: &Message) {
        self.ledger.append(&*self.counter, message);
    }

    /// Pieces of the conversation were replaced.
    pub fn splice(&mut self, splices: &[HistorySplice]) {
        self.ledger.splice(&*self.counter, splices);
        self.checked.spliced(splices);
    }

    /// This is the conversation from now on.
    pub fn take_up(&mut self, messages: &[Message]) {
        let tools = self.ledger.tools();
        self.ledger = TokenLedger::of(&*self.counter, messages);
        self.ledger.set_tools(tools);
        self.checked = CheckedHistory::default();
    }

    /// Everything is counted by another counter from now on; tools when they are set.
    pub fn count_by(&mut self, counter: Arc<dyn TokenCounter>, messages: &[Message]) {
        self.counter = counter;
        self.take_up(messages);
    }

    /// The tokens of the tools.
    pub const fn tool_tokens(&self) -> u64 {
        self.ledger.tools()
    }

    /// What a step of a reduction comes to. What is known of the messages is not counted again.
    pub fn reduced(&self, policy: &Policy, plan: &ReducePlan, messages: &[Message]) -> ContextReduction {
        reduce(policy, plan, messages, self.ledger.weights(), &*self.counter)
    }

    /// The conversation as it is before a turn. `drops`: calls that cannot be read are to be taken out of it.
    pub fn of(&mut self, messages: &[Message], drops: bool) -> TurnMeasure {
        let faults = self.checked.faults(messages, drops);
        self.ledger.measure(faults)
    }

    /// The event that answers a piece of work which needs the conversation alone; `None`: it needs more.
    pub fn answer(&mut self, work: &Work, messages: &[Message], policy: &Policy) -> Option<Event> {
        let id = work.id();
        Some(match work {
            Work::PrepareTurn(_) => {
                let drops = policy.turn().malformed_calls.value == MalformedCalls::Drop;
                Event::TurnPrepared { work: id, measure: self.of(messages, drops) }
            }
            Work::RepairHistory(work) => {
                let repair = repair(messages, work.orphan_calls, work.malformed_calls);
                Event::HistoryRepaired { work: id, repair }
            }
            Work::ReduceContext(work) => {
                Event::ContextReduced { work: id, reduction: self.reduced(policy, &work.plan, messages) }
            }
            Work::Summarize(_)
            | Work::CallModel(_)
            | Work::RunTool(_)
            | Work::Wait(_)
            | Work::Consult(_)
            | Work::Ask(_) => return None,
        })
    }
}
