//! The guard of one turn of a model.

use std::future::Future;
use std::sync::Arc;

use super::history::HistoryPlace;
#[cfg(feature = "serve")]
use super::history::TurnHistory;
use super::model_call::ModelCall;
use super::run::TurnListener;
use super::{CallError, ClassifyError, GuardParts};
use crate::engine::{ModelReply, TurnMeasure};
use crate::session::{Message, Usage};

/// The guard of one turn of a model.
///
/// ```
/// use unfazed::context::estimate_message;
/// use unfazed::engine::{Failure, ModelReply};
/// use unfazed::host::{Guard, GuardConfig};
/// use unfazed::policy::Policy;
/// use unfazed::session::Message;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let guard = Guard::new(GuardConfig::new(Policy::builtin()).targets(["main", "spare"]));
/// let request = vec![Message::user("Find a flight.")];
/// let tokens = request.iter().map(estimate_message).sum();
/// let turn = guard.turn(request).tokens(tokens).history(|request| request);
/// let reply = turn.call_with_usage(
///     |reply: &ModelReply| reply.usage,
///     |target, request| async move {
///         let text = format!("{target} was sent {} message", request.len());
///         Ok::<_, Failure>(ModelReply { text, ..ModelReply::default() })
///     },
/// );
/// assert_eq!(reply.await.unwrap().text, "main was sent 1 message");
/// # }
/// ```
pub struct TurnGuard<R> {
    pub(super) inner: Arc<GuardParts>,
    pub(super) request: R,
    pub(super) targets: Vec<String>,
    pub(super) tokens: Option<u64>,
    /// The size of the request; `None`: it is estimated from what is known of it.
    pub(super) measure: Option<TurnMeasure>,
    pub(super) history: Option<HistoryPlace<R>>,
    pub(super) listener: Option<TurnListener>,
}

/// Without the request, which may hold what the user said.
impl<R> core::fmt::Debug for TurnGuard<R> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("TurnGuard")
            .field("run", &self.inner.id)
            .field("tokens", &self.tokens)
            .finish_non_exhaustive()
    }
}

impl<R: Clone> TurnGuard<R> {
    pub(super) const fn new(inner: Arc<GuardParts>, request: R) -> Self {
        let targets = Vec::new();
        Self { inner, request, targets, tokens: None, measure: None, history: None, listener: None }
    }

    /// Offers the request to these models alone, in order of preference; without this, or without any, to those of the guard. A
    /// name that the guard does not have is refused.
    #[must_use]
    pub fn targets<T: Into<String>>(mut self, targets: impl IntoIterator<Item = T>) -> Self {
        self.targets = targets.into_iter().map(Into::into).collect();
        self
    }

    /// Says how many tokens the request has, those of its tools among them, and without what a provider adds. Models are
    /// passed over whose window is too small for it, for what their provider is documented to add, and for the
    /// `output_reserve`; without this, and without [`history`](Self::history), its size is unknown. What providers say when they
    /// refuse a request, and the tokens they report, is learned for later turns, as `tokens.learn` in the policy says.
    /// [`measure`](crate::context::measure) counts them, and [`RequestTokens::sent`](crate::context::RequestTokens::sent)
    /// those of a body.
    #[must_use]
    pub const fn tokens(mut self, tokens: u64) -> Self {
        self.tokens = Some(tokens);
        self
    }

    /// Says where the conversation is in the request. What of it providers refuse is repaired as `history:` in the policy
    /// says, before the first call or once after a refusal, and what the model is to read besides is added at its end: in what is
    /// sent, the host's own conversation stays as it is. [`Guard::repair_history`](super::Guard::repair_history) repairs that.
    #[must_use]
    pub fn history(mut self, find: impl Fn(&mut R) -> &mut Vec<Message> + Send + Sync + 'static) -> Self {
        self.history = Some(HistoryPlace::List(Box::new(find)));
        self
    }

    /// The same for a conversation that is no list of messages in the request, with its size.
    #[cfg(feature = "serve")]
    pub(in crate::host) fn history_within(
        mut self,
        measure: TurnMeasure,
        history: impl TurnHistory<R> + 'static,
    ) -> Self {
        (self.measure, self.history) = (Some(measure), Some(HistoryPlace::Within(Box::new(history))));
        self
    }

    /// Tells the listener of every directive about the turn.
    #[cfg(feature = "serve")]
    pub(in crate::host) fn heard_by(mut self, listener: TurnListener) -> Self {
        self.listener = Some(listener);
        self
    }

    /// Offers the request to the targets in order, each as often as its policy allows.
    ///
    /// # Errors
    /// [`CallError::Exhausted`] with the attempts at the last target, if no target answered; [`CallError::Refused`] if the run
    /// ends before one does.
    pub async fn call<T, E, F, Fut>(&self, run: F) -> Result<T, CallError<E>>
    where
        E: ClassifyError,
        F: FnMut(String, R) -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        self.call_with_usage(|_| None, run).await
    }

    /// The same, and `usage` says how many tokens a reply took: for records, metrics, costs and budgets.
    ///
    /// # Errors
    /// Those of [`call`](Self::call).
    pub async fn call_with_usage<T, E, F, Fut>(
        &self,
        usage: impl Fn(&T) -> Option<Usage>,
        mut run: F,
    ) -> Result<T, CallError<E>>
    where
        E: ClassifyError,
        F: FnMut(String, R) -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        self.call_as(usage, |call, request| run(call.target, request)).await
    }

    /// The same, and `run` knows what the policy wants of the call: which tools it may show, what the model reads besides, how much
    /// of the answer there may be. An answer that is streamed says how much has [come](ModelCall::received).
    ///
    /// # Errors
    /// Those of [`call`](Self::call).
    pub async fn call_as<T, E, F, Fut>(
        &self,
        usage: impl Fn(&T) -> Option<Usage>,
        run: F,
    ) -> Result<T, CallError<E>>
    where
        E: ClassifyError,
        F: FnMut(ModelCall, R) -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        let reply = |value: &T| ModelReply { usage: usage(value), ..ModelReply::default() };
        self.call_knowing(reply, run).await
    }

    /// The same with what else is known of the reply besides its usage.
    pub(in crate::host) async fn call_knowing<T, E, F, Fut>(
        &self,
        known: impl Fn(&T) -> ModelReply,
        run: F,
    ) -> Result<T, CallError<E>>
    where
        E: ClassifyError,
        F: FnMut(ModelCall, R) -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        let reply = |value: &T| ModelReply { opaque: true, ..known(value) };
        let (value, _) = self.propose(&self.inner.run, reply, run).await?;
        Ok(value)
    }

    /// The same for a reply that is looked at, as in a run: one that is empty or cut is another attempt, calls that are in its
    /// text or cannot be read are repaired.
    ///
    /// # Errors
    /// Those of [`call`](Self::call).
    pub async fn reply<E, F, Fut>(&self, run: F) -> Result<ModelReply, CallError<E>>
    where
        E: ClassifyError,
        F: FnMut(ModelCall, R) -> Fut,
        Fut: Future<Output = Result<ModelReply, E>>,
    {
        let (mut reply, message) = self.propose(&self.inner.run, ModelReply::clone, run).await?;
        if let Some(Message::Assistant { text, calls, extra }) = message {
            reply.text = text;
            reply.calls = calls.into_iter().map(Into::into).collect();
            reply.extra = extra;
        }
        Ok(reply)
    }
}
