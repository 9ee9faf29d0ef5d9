//! One request of a client as a turn of the guard.

use std::fmt;
use std::future::{Future, poll_fn};
use std::iter;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::stream::unfold;
use futures_util::{FutureExt, StreamExt};
use memchr::memchr_iter;
use reqwest::header::HeaderMap;
use tokio::sync::mpsc;
use tokio_util::sync::WaitForCancellationFutureOwned;
use tracing::Span;

use super::answer::{GatewayAnswer, GatewayBody, gateway_error};
use super::board::BoardTicket;
use super::contract::{AttemptJudge, RequestContract};
use super::due::DueFuture;
use super::endpoint::GatewayEndpoint;
use super::error::GatewayError;
use super::history::{HistoryPiece, RequestHistory};
use super::models::GuardedModels;
use super::progress::CallProgress;
use super::quota::KeyCharge;
use super::request::RequestBody;
use super::said;
use crate::context::TokenEstimator;
use crate::engine::{Failure, ReducePlan};
use crate::host::guard::{CallError, ModelCall, TurnHistory};
use crate::host::model::front::FrontCall;
use crate::host::model::relay::{
    AnswerHead, AnswerSink, RelayFailure, RelayKind, RelayedAnswer, RelayedRequest, ReplyJudge,
};
use crate::host::telemetry::spans;
use crate::policy::{ErrorClass, HistoryCheck, MalformedCalls, Policy};
use crate::session::{ContextReduction, HistorySplice, Message, splice};

/// A request that is relayed.
pub(super) struct RelayedCall {
    pub(super) endpoint: GatewayEndpoint,
    pub(super) body: RequestBody,
    /// What a provider may read.
    pub(super) headers: HeaderMap,
    pub(super) targets: Vec<String>,
    /// The request for models that speak another dialect, if some of the targets do.
    pub(super) front: Option<FrontCall>,
}

/// A request that is relayed, and what came of it so far.
struct OpenCall {
    call: RelayedCall,
    /// The conversation in it, if it has calls or results, or is long.
    history: Option<RequestHistory>,
    /// What it asks of its answer, if it does.
    contract: Option<RequestContract>,
    sink: AnswerSink,
    progress: CallProgress,
    ticket: BoardTicket,
    /// What the key of the client is charged with, if it has limits.
    charge: Option<KeyCharge>,
}

/// The request as it is sent.
#[derive(Clone)]
struct SentRequest {
    open: Arc<OpenCall>,
    /// Its conversation, if it was changed.
    pieces: Option<Vec<HistoryPiece>>,
}

/// Where the conversation is in it.
struct SentHistory;

type TurnResult = Result<RelayedAnswer, CallError<RelayFailure>>;
type TurnFuture = Pin<Box<dyn Future<Output = TurnResult> + Send>>;

/// A stream that goes out.
struct OutgoingStream {
    open: Arc<OpenCall>,
    /// The turn, until it has ended.
    turn: Option<DueFuture<TurnResult>>,
    pieces: mpsc::Receiver<Bytes>,
    events: u64,
    /// How the turn ended, until the client knows it.
    ended: Option<Result<(), GatewayError>>,
    /// Ready when the gateway ends.
    cut: Pin<Box<WaitForCancellationFutureOwned>>,
    /// That of the request, which lasts as long as the stream.
    span: Span,
}

/// Answers a request: with a stream as soon as the content of one has begun, and with anything else when the turn has ended.
pub(super) async fn relay(
    models: &Arc<GuardedModels>,
    call: RelayedCall,
    ticket: BoardTicket,
    charge: Option<KeyCharge>,
) -> GatewayAnswer {
    let (sink, pieces) = AnswerSink::new();
    let cut = || Box::pin(models.cut.clone().cancelled_owned());
    let history = call.history(&models.policy.current());
    let is_answer = call.endpoint.kind == RelayKind::Answer;
    let contract = is_answer
        .then(|| RequestContract::of(call.endpoint.dialect, &call.body, &models.declarations))
        .flatten();
    let progress = CallProgress::default();
    let open = Arc::new(OpenCall { call, history, contract, sink, progress, ticket, charge });
    let mut turn: TurnFuture = Box::pin(turn(Arc::clone(models), Arc::clone(&open)));
    let ended = poll_fn(|context| {
        let polled = turn.as_mut().poll(context).map(Some);
        // The turn alone begins the answer, and it is polled here.
        if polled.is_pending() && open.sink.head().is_some() { Poll::Ready(None) } else { polled }
    });
    let ended = ended.await;
    if let Some(head) = open.sink.head().cloned() {
        let stream = OutgoingStream::new(open, pieces, cut());
        let stream = match &ended {
            // A short stream may have begun and ended at once.
            Some(ended) => stream.after(ended),
            None => stream.of(turn),
        };
        return stream.answer(head);
    }
    let (dialect, progress) = (open.call.endpoint.dialect, &open.progress);
    open.ticket.ended(matches!(ended, Some(Ok(_))));
    match ended {
        Some(Ok(RelayedAnswer { whole: Some(answer), .. })) => GatewayAnswer::whole(answer, progress),
        Some(Ok(RelayedAnswer { whole: None, .. })) | None => {
            let error = GatewayError::of(ErrorClass::NetworkError, None, "the answer has not begun");
            GatewayAnswer::refused(dialect, &error)
        }
        Some(Err(error)) => GatewayAnswer::failed(dialect, error, progress),
    }
}

async fn turn(models: Arc<GuardedModels>, open: Arc<OpenCall>) -> TurnResult {
    let targets = open.call.targets.clone();
    let (told, charged) = (Arc::clone(&open), Arc::clone(&open));
    let drops = models.policy.current().turn().malformed_calls.value == MalformedCalls::Drop;
    let measure = open.history.as_ref().map(|history| history.measure(drops));
    let mut turn = models.guard.turn(SentRequest { open, pieces: None }).targets(targets);
    if let Some(measure) = measure {
        turn = turn.history_within(measure, SentHistory);
    }
    let turn = turn.heard_by(Arc::new(move |directive| {
        told.progress.take(directive);
        told.ticket.directive(directive);
    }));
    // The guard moves it several times before it is polled first.
    let attempt = |asked, request| Box::pin(attempt(Arc::clone(&models), asked, request));
    let ended = turn.call_knowing(RelayedAnswer::known, attempt).await;
    // Nothing is added to what a client says, and none of it is kept.
    drop(models.guard.take_guidance());
    charged.charge(&ended);
    ended
}

/// One attempt at one model.
async fn attempt(
    models: Arc<GuardedModels>,
    asked: ModelCall,
    sent: SentRequest,
) -> Result<RelayedAnswer, RelayFailure> {
    let open = &*sent.open;
    let OpenCall { call, sink, progress, .. } = open;
    if sink.has_begun() {
        // The client has a part of another answer, which this one cannot continue.
        return Err(Failure::of(ErrorClass::Cancelled, "a part of the answer is out").into());
    }
    progress.begin(&asked.target);
    if let Some(charge) = &open.charge {
        open.spend(charge);
        charge.called(models.price(&asked.target));
    }
    let asked_model = models.models.get(&asked.target);
    let own = asked_model.and_then(|model| model.speaks.get(&call.endpoint.dialect));
    let correction = open.contract.as_ref().and_then(|contract| contract.correction(&asked.target));
    let changed = sent.body()?;
    let corrected = own.zip(correction.as_deref()).and_then(|(model, correction)| {
        let (list, elements) = model.written(correction)?;
        changed.as_ref().unwrap_or(&call.body).with_elements(list, &elements)
    });
    let body = corrected.as_ref().or(changed.as_ref()).unwrap_or(&call.body);
    let again = own.is_none() && (changed.is_some() || correction.is_some());
    let front = match call.front.as_ref().filter(|_| again).map(|front| front.again(body.bytes())) {
        Some(front) => {
            Some(front.map_err(|error| sent.unsent(&error))?.followed_by(correction.unwrap_or_default()))
        }
        None => None,
    };
    let front = front.as_ref().or(call.front.as_ref());
    let other = || Some((asked_model?.converting()?, front?));
    let (model, converted) = match (own, other()) {
        (Some(model), _) => (model, None),
        (None, Some((model, front))) => (model, Some(model.convert(front, models.repairs())?)),
        (None, None) => {
            let message = format!("`{}` does not speak `{}`", asked.target, call.endpoint.dialect.name());
            return Err(Failure::of(ErrorClass::NotFound, message).into());
        }
    };
    if let Some(converted) = &converted {
        progress.opened(converted.opened);
        tracing::info!(target = asked.target, left_out = converted.left_out(), "request converted");
    }
    let policy = open.contract.as_ref().map(|_| models.policy.current());
    let judge = open.contract.as_ref().zip(policy.as_ref()).map(|(contract, policy)| AttemptJudge {
        contract,
        policy,
        target: &asked.target,
        sink,
        progress,
        ticket: &open.ticket,
        redactor: model.redactor(),
    });
    let raw = || body.for_model(model.name());
    let request = RelayedRequest {
        body: converted.as_ref().map_or_else(raw, |converted| converted.body.clone()),
        headers: &call.headers,
        kind: call.endpoint.kind,
        stream: call.body.stream(),
        choices: call.body.choices(),
        background: call.body.background(),
        timeouts: asked.timeouts,
        received: &|characters| {
            asked.received(characters);
            open.charge.as_ref().inspect(|charge| charge.relayed(characters));
        },
        converted: converted.as_ref(),
        front: &|| body.front(call.endpoint.dialect),
        repairs: models.repairs(),
        judge: judge.as_ref().map(|judge| judge as &dyn ReplyJudge),
    };
    model.attempt(&request, sink).await
}

impl RelayedCall {
    /// The conversation in it, if the policy wants it looked at.
    fn history(&self, policy: &Policy) -> Option<RequestHistory> {
        let fits = !policy.context().reduce.value.is_empty();
        let looks = fits || policy.history().check.value != HistoryCheck::Never;
        if !looks || self.endpoint.kind != RelayKind::Answer {
            return None;
        }
        let first = self.targets.first().map_or("", String::as_str);
        let counter = TokenEstimator::from(&policy.model(first).tokens);
        RequestHistory::read(self.endpoint.dialect, &self.body, counter, fits)
    }
}

impl SentRequest {
    /// The body with its conversation as it was changed; `None`: it was not.
    fn body(&self) -> Result<Option<RequestBody>, Failure> {
        let OpenCall { call, history, progress, .. } = &*self.open;
        let Some((history, pieces)) = history.as_ref().zip(self.pieces.as_ref()) else { return Ok(None) };
        if pieces.is_empty() {
            return Err(self.unsent("nothing is left of the conversation without what belongs to no call"));
        }
        let body = history.with(pieces).and_then(|body| call.body.with(body).ok());
        if body.is_none() {
            // It goes out as it came, and the answer does not say otherwise.
            progress.unchanged();
        }
        Ok(body)
    }

    /// The failure of a conversation that cannot be sent as it was changed.
    fn unsent(&self, why: impl fmt::Display) -> Failure {
        self.open.progress.unchanged();
        let message = format!("the conversation was repaired, and cannot be sent so: {why}");
        let failure = Failure::of(ErrorClass::InvalidRequest, message);
        Failure { status: Some(400), ..failure }
    }
}

impl TurnHistory<SentRequest> for SentHistory {
    fn messages(&self, request: &SentRequest) -> Vec<Message> {
        let Some(history) = &request.open.history else { return Vec::new() };
        let all = || history.messages(&history.pieces());
        request.pieces.as_ref().map_or_else(all, |pieces| history.messages(pieces))
    }

    fn splice(&self, request: &mut SentRequest, splices: &[HistorySplice]) {
        if let Some(history) = &request.open.history {
            splice(request.pieces.get_or_insert_with(|| history.pieces()), splices);
        }
    }

    fn can_shrink(&self, request: &SentRequest) -> bool {
        request.open.history.as_ref().is_some_and(RequestHistory::can_shrink)
    }

    fn reduced(&self, request: &SentRequest, policy: &Policy, plan: &ReducePlan) -> ContextReduction {
        let Some(history) = &request.open.history else { return ContextReduction::default() };
        match &request.pieces {
            Some(pieces) => history.reduced(policy, plan, pieces),
            None => history.reduced(policy, plan, &history.pieces()),
        }
    }

    /// Nothing is added to a conversation that is left alone: then there is nothing that the model has to know of it.
    fn guide(&self, request: &mut SentRequest, guidance: Vec<Message>) {
        if let Some(pieces) = &mut request.pieces {
            pieces.extend(guidance.into_iter().map(HistoryPiece::from));
        }
    }
}

impl OpenCall {
    /// Charges the key with answers of the model that was called last which were not passed on.
    fn spend(&self, charge: &KeyCharge) {
        charge.spent(self.contract.as_ref().map(RequestContract::take_spent).unwrap_or_default());
    }

    /// Charges the key with what the turn has used.
    fn charge(&self, ended: &TurnResult) {
        let Some(charge) = &self.charge else { return };
        self.spend(charge);
        match ended {
            // A count of tokens uses none.
            Ok(_) if self.call.endpoint.kind == RelayKind::TokenCount => charge.unanswered(),
            Ok(RelayedAnswer { usage: Some(usage), .. }) => charge.answered(*usage),
            Ok(RelayedAnswer { whole: Some(answer), .. }) if self.call.endpoint.kind == RelayKind::Answer => {
                charge.relayed(said::characters(self.call.endpoint.dialect, &answer.body));
            }
            Err(_) if !self.sink.has_begun() => charge.unanswered(),
            // What has gone out is counted.
            Ok(_) | Err(_) => {}
        }
    }
}

impl OutgoingStream {
    fn new(
        open: Arc<OpenCall>,
        pieces: mpsc::Receiver<Bytes>,
        cut: Pin<Box<WaitForCancellationFutureOwned>>,
    ) -> Self {
        Self { open, turn: None, pieces, events: 0, ended: None, cut, span: Span::current() }
    }

    fn of(mut self, turn: TurnFuture) -> Self {
        self.turn = Some(DueFuture::new(turn));
        self
    }

    fn after(mut self, ended: &TurnResult) -> Self {
        self.ends(ended);
        self
    }

    fn ends(&mut self, ended: &TurnResult) {
        self.turn = None;
        self.ended = Some(ended.as_ref().map(drop).map_err(gateway_error));
    }

    fn answer(self, head: AnswerHead) -> GatewayAnswer {
        let open = Arc::clone(&self.open);
        open.ticket.streams();
        let body = unfold(self, |mut stream| async { Some((stream.next().await?, stream)) }).boxed();
        GatewayAnswer::begun(head, GatewayBody::Stream(body), &open.progress)
    }

    /// The next piece; `None`: there is none. The turn runs on while the client waits for it, and stands still while it does
    /// not.
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(piece) = poll_fn(|context| self.poll_piece(context)).await {
            return Some(self.sent(piece));
        }
        let ended = self.ended.take()?;
        self.open.ticket.ended(ended.is_ok());
        // Said last, so that what came before it is whole.
        let Err(error) = ended else { return None };
        spans::failed(&self.span, error.code);
        Some(self.open.call.endpoint.dialect.error_event(&error, self.events))
    }

    /// The next piece of the turn; `None`: it has ended, and all of them are out. Nothing but the turn sends pieces, and it is polled
    /// here: so the channel need not call the task again, and a piece that has just come goes out at once.
    fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if let Ok(piece) = self.pieces.try_recv() {
            return Poll::Ready(Some(piece));
        }
        let Some(turn) = &mut self.turn else { return Poll::Ready(None) };
        if self.cut.as_mut().poll(context).is_ready() {
            (self.turn, self.ended) = (None, Some(Err(GatewayError::shutting_down())));
        } else if let Poll::Ready(ended) = turn.poll_unpin(context) {
            self.ends(&ended);
        }
        match self.pieces.try_recv() {
            Ok(piece) => Poll::Ready(Some(piece)),
            Err(_) if self.turn.is_none() => Poll::Ready(None),
            Err(_) => Poll::Pending,
        }
    }

    /// Counts the events of a piece, in which comments are none: all providers write the data of each on one line.
    fn sent(&mut self, piece: Bytes) -> Bytes {
        let ends = memchr_iter(b'\n', &piece).map(|end| end.saturating_add(1));
        let lines = iter::once(0).chain(ends).filter_map(|start| piece.get(start..));
        let events = lines.filter(|line| line.starts_with(b"data:")).count();
        self.events = self.events.saturating_add(u64::try_from(events).unwrap_or(u64::MAX));
        piece
    }
}

impl Drop for OutgoingStream {
    fn drop(&mut self) {
        // The span of a turn that is cancelled is within that of the request.
        self.turn = None;
        spans::ends(&self.span);
    }
}
