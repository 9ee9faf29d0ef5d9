//! What the reference host knows of the size of its conversation: kept up with it, so that a turn costs what is new.

use std::sync::Arc;

use crate::context::{CheckedHistory, TokenCounter, TokenLedger, ToolForm, reduce};
use crate::engine::{ReducePlan, ToolSpec, TurnMeasure};
use crate::policy::Policy;
use crate::session::{ContextReduction, HistorySplice, Message};

/// The sizes of a conversation and of the tools that go with it.
pub(crate) struct ConversationMeasure {
    counter: Arc<dyn TokenCounter>,
    form: ToolForm,
    model: String,
    ledger: TokenLedger,
    checked: CheckedHistory,
}

impl ConversationMeasure {
    /// An empty conversation, counted by `counter`; tools are declared in that form to a model of that name at its server.
    pub(crate) fn new(counter: Arc<dyn TokenCounter>, form: ToolForm, model: &str) -> Self {
        Self {
            counter,
            form,
            model: model.to_owned(),
            ledger: TokenLedger::default(),
            checked: CheckedHistory::default(),
        }
    }

    /// These tools are offered from now on.
    pub(crate) fn set_tools(&mut self, offered: &[ToolSpec]) {
        let each = offered.iter().map(|tool| self.form.tokens(&*self.counter, &self.model, tool));
        self.ledger.set_tools(each.fold(0, u64::saturating_add));
    }

    /// A message was added.
    pub(crate) fn append(&mut self, message: &Message) {
        self.ledger.append(&*self.counter, message);
    }

    /// Pieces of the conversation were replaced.
    pub(crate) fn splice(&mut self, splices: &[HistorySplice]) {
        self.ledger.splice(&*self.counter, splices);
        self.checked.spliced(splices);
    }

    /// This is the conversation from now on.
    pub(crate) fn take_up(&mut self, messages: &[Message]) {
        let tools = self.ledger.tools();
        self.ledger = TokenLedger::of(&*self.counter, messages);
        self.ledger.set_tools(tools);
        self.checked = CheckedHistory::default();
    }

    /// Everything is counted by another counter from now on; tools when they are set.
    pub(crate) fn count_by(&mut self, counter: Arc<dyn TokenCounter>, messages: &[Message]) {
        self.counter = counter;
        self.take_up(messages);
    }

    /// The tokens of the tools.
    pub(crate) const fn tool_tokens(&self) -> u64 {
        self.ledger.tools()
    }

    /// What a step of a reduction comes to. What is known of the messages is not counted again.
    pub(crate) fn reduced(
        &self,
        policy: &Policy,
        plan: &ReducePlan,
        messages: &[Message],
    ) -> ContextReduction {
        reduce(policy, plan, messages, self.ledger.weights(), &*self.counter)
    }

    /// The conversation as it is before a turn. `drops`: calls that cannot be read are to be taken out of it.
    pub(crate) fn of(&mut self, messages: &[Message], drops: bool) -> TurnMeasure {
        let faults = self.checked.faults(messages, drops);
        self.ledger.measure(faults)
    }
}
