//! Histories that providers refuse, for a host that repairs its own conversation.

use super::{Guard, GuardParts, in_span, without_tools};
use crate::context::repair;
use crate::engine::{DirectiveKind, HostSkill, Note, OrphanToolCallsPruned, ReducePlan};
use crate::host::trace;
use crate::policy::{HistoryCheck, Policy};
use crate::session::{ContextReduction, HistorySplice, Message, splice};

/// The way to the conversation in a request.
pub(super) type FindHistory<R> = Box<dyn Fn(&mut R) -> &mut Vec<Message> + Send + Sync>;

/// The conversation in a request, however it is kept there.
pub(in crate::host) trait TurnHistory<R>: Send + Sync {
    /// The messages of it, as they are sent.
    fn messages(&self, request: &R) -> Vec<Message>;

    /// Replaces pieces of it.
    fn splice(&self, request: &mut R, splices: &[HistorySplice]);

    /// Adds what the model is to read besides.
    fn guide(&self, request: &mut R, guidance: Vec<Message>);

    /// Whether messages of it may be left out.
    fn can_shrink(&self, request: &R) -> bool;

    /// What a step of its reduction comes to.
    fn reduced(&self, request: &R, policy: &Policy, plan: &ReducePlan) -> ContextReduction;
}

/// Where the conversation in a request is.
pub(super) enum HistoryPlace<R> {
    /// It is a list in the request.
    List(FindHistory<R>),
    #[cfg_attr(not(feature = "serve"), expect(dead_code, reason = "the gateway alone keeps it otherwise"))]
    Within(Box<dyn TurnHistory<R>>),
}

impl<R: Clone> HistoryPlace<R> {
    pub(super) fn messages(&self, request: &R) -> Vec<Message> {
        match self {
            Self::List(find) => core::mem::take(find(&mut request.clone())),
            Self::Within(history) => history.messages(request),
        }
    }

    pub(super) fn splice(&self, request: &mut R, splices: &[HistorySplice]) {
        match self {
            Self::List(find) => splice(find(request), splices),
            Self::Within(history) => history.splice(request, splices),
        }
    }

    /// What can be done about it.
    pub(super) fn skills(&self, request: &R) -> Vec<HostSkill> {
        match self {
            Self::Within(history) if history.can_shrink(request) => {
                vec![HostSkill::Repair, HostSkill::Reduce]
            }
            // Who keeps a list reduces it before: `Guard::reduce_context`.
            Self::List(_) | Self::Within(_) => vec![HostSkill::Repair],
        }
    }

    pub(super) fn reduced(&self, request: &R, policy: &Policy, plan: &ReducePlan) -> ContextReduction {
        match self {
            Self::List(_) => ContextReduction::default(),
            Self::Within(history) => history.reduced(request, policy, plan),
        }
    }

    pub(super) fn guide(&self, request: &mut R, guidance: Vec<Message>) {
        match self {
            Self::List(find) => find(request).extend(guidance),
            Self::Within(history) => history.guide(request, guidance),
        }
    }
}

impl Guard {
    /// Repairs a conversation before it goes into a request, as `history:` in the policy says: calls without a result,
    /// results without a call, second and misplaced results, and arguments that are no JSON object. `None`: there was
    /// nothing to repair, or the policy does not want it looked at before a call.
    pub fn repair_history(&self, messages: &mut Vec<Message>) -> Option<OrphanToolCallsPruned> {
        let rules = self.inner.live.current();
        let looks = rules.history().check.value == HistoryCheck::BeforeCall;
        looks.then(|| self.inner.repair_history(&rules, messages)).flatten()
    }
}

impl GuardParts {
    fn repair_history(&self, rules: &Policy, messages: &mut Vec<Message>) -> Option<OrphanToolCallsPruned> {
        let history = rules.history();
        let found = repair(messages, history.orphan_calls.value, rules.turn().malformed_calls.value);
        let interpreter = without_tools(rules.clone());
        let mut told = None;
        for directive in self.run.read(|state| interpreter.repair(state, found)).0 {
            match directive.order {
                DirectiveKind::Note(Note::Splice { splices }) => splice(messages, &splices),
                DirectiveKind::Note(Note::Append { message }) => messages.push(message),
                DirectiveKind::Note(Note::OrphanToolCallsPruned(pruned)) => {
                    let because =
                        format!("history.orphan_calls ({})", rules.place(history.orphan_calls.origin));
                    let note = Note::OrphanToolCallsPruned(pruned.clone());
                    in_span(&self.id, rules, || trace::note(note, Some(because)));
                    told = Some(pruned);
                }
                DirectiveKind::Note(_) | DirectiveKind::Work(_) => {}
            }
        }
        told
    }
}
