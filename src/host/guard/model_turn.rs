//! One turn of a model that the interpreter decides about.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tracing::Instrument;

use super::attempt::within;
use super::history::HistoryPlace;
use super::model_call::ModelCall;
use super::run::{GuardRun, is_over};
use super::{CallError, ClassifyError, GivenUp, TurnGuard};
use crate::context::{CheckedHistory, estimate_message, repair};
use crate::engine::{
    DirectiveKind, Event, Failure, ModelReply, Note, PlannerDecision, ProposalResult, ReducePlan,
    TurnMeasure, TurnProposal, Work,
};
use crate::policy::{MalformedCalls, Policy};
use crate::session::{ContextReduction, HistorySplice, Message};

/// The request of one turn, as it is sent.
struct Request<'a, R> {
    given: &'a R,
    history: Option<&'a HistoryPlace<R>>,
    /// With its history repaired, or reduced.
    repaired: Option<R>,
}

impl<R: Clone> TurnGuard<R> {
    /// Makes the turn, in the next run of the session if this one has had its final turn and all its turns have ended. `reply`: what
    /// of an answer the interpreter learns. Returns the message of the reply, too, if there is one.
    pub(super) async fn propose<T, E, Fut>(
        &self,
        run: &GuardRun,
        reply: impl Fn(&T) -> ModelReply,
        mut attempt: impl FnMut(ModelCall, R) -> Fut,
    ) -> Result<(T, Option<Message>), CallError<E>>
    where
        E: ClassifyError,
        Fut: Future<Output = Result<T, E>>,
    {
        loop {
            match self.propose_once(run, &reply, &mut attempt).await {
                Err(error) if is_over(&error) && run.end_after_final_turn().await? => {}
                made => return made,
            }
        }
    }

    async fn propose_once<T, E, Fut>(
        &self,
        run: &GuardRun,
        reply: &impl Fn(&T) -> ModelReply,
        attempt: &mut impl FnMut(ModelCall, R) -> Fut,
    ) -> Result<(T, Option<Message>), CallError<E>>
    where
        E: ClassifyError,
        Fut: Future<Output = Result<T, E>>,
    {
        let mut request = Request { given: &self.request, history: self.history.as_ref(), repaired: None };
        let can = self.history.as_ref().map(|history| history.skills(&self.request)).unwrap_or_default();
        let measure = self.measure(&request);
        let turn = TurnProposal { targets: self.targets.clone(), measure, can, ..TurnProposal::default() };
        let mut proposed = run.propose(Event::TurnProposed(turn)).await?.heard_by(self.listener.clone());
        let (mut value, mut last, mut message) = (None, None, None);
        while let Some(directive) = proposed.next().await {
            let work = match directive.order {
                DirectiveKind::Work(work) => work,
                DirectiveKind::Note(Note::Splice { splices }) => {
                    request.splice(&splices);
                    continue;
                }
                DirectiveKind::Note(Note::Append { message: taken }) => {
                    message = Some(taken);
                    continue;
                }
                DirectiveKind::Note(_) => continue,
            };
            let id = work.id();
            let event = match work {
                Work::CallModel(call) => {
                    let guidance = [&*proposed.said.guidance, &*call.guidance].concat();
                    let asked = ModelCall::new(&call, guidance);
                    let received = Arc::clone(&asked.received);
                    let (span, sent) = (proposed.span(id), request.with(&asked.guidance));
                    let attempt = span.in_scope(|| attempt(asked.clone(), sent));
                    let attempt = pin!(attempt.instrument(span));
                    let Some(ended) = proposed.carry_out(id, within(call.timeout, attempt)).await else {
                        continue;
                    };
                    match ended {
                        Ok(answer) => {
                            let reply = reply(&answer);
                            value = Some(answer);
                            call.responded(reply)
                        }
                        Err(cause) => {
                            let mut failure = Failure::from(cause.failure(&self.inner.live.current()));
                            failure.received = failure.received.max(received.load(Ordering::Relaxed));
                            last = cause.into_error();
                            call.failed(failure)
                        }
                    }
                }
                Work::RepairHistory(work) => {
                    let found = request.messages();
                    let repair = repair(&found, work.orphan_calls, work.malformed_calls);
                    work.repaired(repair)
                }
                Work::Wait(wait) => {
                    let sleep = tokio::time::sleep(wait.delay.to_std());
                    if proposed.carry_out(id, sleep).await.is_none() {
                        continue;
                    }
                    wait.fired()
                }
                Work::Consult(consult) => consult.decided(PlannerDecision::TellModel),
                Work::ReduceContext(work) => {
                    let reduction = request.reduced(&self.inner.live.current(), &work.plan);
                    work.reduced(reduction)
                }
                // The guard has said that it can do nothing else.
                Work::PrepareTurn(_) | Work::Summarize(_) | Work::RunTool(_) | Work::Ask(_) => continue,
            };
            run.tell(event)?;
        }
        let settled = proposed.settled()?;
        run.guide(&proposed, settled.guidance.iter().cloned());
        match (&settled.result, value, proposed.said.exhausted.take()) {
            (ProposalResult::Reply { .. }, Some(value), _) => Ok((value, message)),
            (_, _, Some(exhausted)) => {
                let (message, because) = (exhausted.to_string(), core::mem::take(&mut proposed.said.because));
                Err(CallError::Exhausted(Box::new(GivenUp { exhausted, because, message, last })))
            }
            _ => Err(CallError::Refused(Box::new(proposed.refusal(&settled)))),
        }
    }

    /// The size of the request: as the host says, or by its history.
    fn measure(&self, request: &Request<'_, R>) -> Option<TurnMeasure> {
        if self.measure.is_some() || (self.tokens.is_none() && self.history.is_none()) {
            return self.measure;
        }
        let drops = self.inner.live.current().turn().malformed_calls.value == MalformedCalls::Drop;
        let messages = request.messages();
        let estimated = || messages.iter().map(estimate_message).fold(0, u64::saturating_add);
        let (whole, tools) = (self.tokens.unwrap_or_else(estimated), self.inner.tool_tokens());
        let tool_tokens = if self.tokens.is_some() { tools.min(whole) } else { tools };
        Some(TurnMeasure {
            messages: u64::try_from(messages.len()).unwrap_or(u64::MAX),
            message_tokens: if self.tokens.is_some() { whole.saturating_sub(tool_tokens) } else { whole },
            tool_tokens,
            history_faults: CheckedHistory::default().faults(&messages, drops),
            ..TurnMeasure::default()
        })
    }
}

impl<R: Clone> Request<'_, R> {
    /// The conversation in it; none if it is not known where that is.
    fn messages(&self) -> Vec<Message> {
        let now = self.repaired.as_ref().unwrap_or(self.given);
        self.history.map(|history| history.messages(now)).unwrap_or_default()
    }

    /// What a step of its reduction comes to.
    fn reduced(&self, policy: &Policy, plan: &ReducePlan) -> ContextReduction {
        let now = self.repaired.as_ref().unwrap_or(self.given);
        self.history.map(|history| history.reduced(now, policy, plan)).unwrap_or_default()
    }

    fn splice(&mut self, splices: &[HistorySplice]) {
        if let Some(history) = self.history {
            let mut request = self.now();
            history.splice(&mut request, splices);
            self.repaired = Some(request);
        }
    }

    /// As it is sent, with what the model is to read in addition.
    fn with(&self, guidance: &[String]) -> R {
        let mut request = self.now();
        if let Some(history) = self.history.filter(|_| !guidance.is_empty()) {
            let texts = guidance.iter().cloned();
            let guidance = texts.map(|text| Message::User { text, guidance: Some("guidance".into()) });
            history.guide(&mut request, guidance.collect());
        }
        request
    }

    fn now(&self) -> R {
        self.repaired.as_ref().unwrap_or(self.given).clone()
    }
}
