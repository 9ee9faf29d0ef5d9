//! Requests of other programs, relayed to a model: the bytes of a request go out as they are, and those of the answer come
//! back as they are. The wire format only says what they mean: whether an answer is one, where its content begins, and
//! whether it has ended.

mod address;
mod beside;
mod converted;
mod events;
mod failure;
mod headers;
mod judge;
mod mask;
mod sink;
mod verdict;

use std::borrow::Cow;

use bytes::{Bytes, BytesMut};
use reqwest::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Response, StatusCode};
use serde::Deserialize;
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::address::RelayAddresses;
pub(in crate::host) use self::converted::ConvertedRequest;
use self::events::RelayedEvents;
pub(in crate::host) use self::failure::RelayFailure;
pub(in crate::host) use self::headers::passed_on;
use self::headers::{of_any_dialect, passed_back};
pub(in crate::host) use self::judge::{HeldPart, JudgedReply, ReplyForm, ReplyJudge};
use self::mask::AnswerMask;
pub(in crate::host) use self::sink::AnswerSink;
use self::verdict::{checked, fault_of};
use super::answer::{MOST_LOOKS, announces_events, begins_stream, is_framed, is_whole};
use super::body::HttpBody;
use super::config::ModelConfig;
use super::failure::unreadable;
use super::front::{FittedRequest, FrontCall, Unconvertible};
use super::headers::ConfigError;
use super::refusals::{RefusedRequest, ServerRefusals};
use super::renewed::HeldKey;
use super::sent::SentBody;
use super::transport::{LAST_BYTES, ModelTransport, TAIL, broken, error_body};
use super::wire::WireFormat;
use super::within::MovingLimit;
use super::{failure as facts, within};
use crate::engine::{CallTimeouts, Failure, ModelReply, ProviderLimit, ToolChoice};
use crate::host::AttachedFiles;
use crate::host::model::wire::objects::of_objects;
use crate::host::port::{ByteTraffic, ModelRequest};
use crate::host::redact::SecretRedactor;
use crate::session::{Message, Usage};
use crate::time::Nanos;

/// The most bytes of an answer that is not streamed.
const MAX_WHOLE: usize = 64 << 20;
/// So much of a stream is held back until its content begins: what is held can still be another attempt's.
const MAX_HELD: usize = 256 << 10;
/// How long, at most, the tokens and the end are waited for that follow the reason to stop: clients wait for them too.
const LATE: Nanos = Nanos::from_secs(30);
/// The most tokens that one answer counts, in each direction: far above the window of any model. More is an error of the provider,
/// which would stop a key and its metrics for good.
const MOST_TOKENS: u64 = 1_000_000_000;
/// Claude stops so between the steps of its own tools, and the client continues: an answer, though not the end of one.
const PAUSE: &str = "pause_turn";
/// How a response in the background stands that has not ended.
const IN_BACKGROUND: [&str; 2] = ["queued", "in_progress"];

/// A model that requests are relayed to.
pub(in crate::host) struct RelayedModel {
    transport: ModelTransport,
    addresses: RelayAddresses,
    format: Box<dyn WireFormat>,
    /// Headers of the provider that a client may say otherwise.
    defaults: Vec<HeaderName>,
    model: String,
    /// The configuration, but for what is secret: by it requests of other dialects are written.
    plain: ModelConfig,
    /// What its refusals have taught of these.
    refusals: ServerRefusals,
}

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RelayKind {
    /// An answer of the model.
    Answer,
    /// Texts as vectors.
    Embeddings,
    /// How many tokens a request has.
    TokenCount,
}

/// One attempt at a request.
pub(in crate::host) struct RelayedRequest<'a> {
    pub(in crate::host) body: SentBody,
    /// What the client says that a provider may read.
    pub(in crate::host) headers: &'a HeaderMap,
    pub(in crate::host) kind: RelayKind,
    pub(in crate::host) stream: bool,
    /// How many choices the client asks for.
    pub(in crate::host) choices: u64,
    /// Whether the client comes back for the answer.
    pub(in crate::host) background: bool,
    pub(in crate::host) timeouts: CallTimeouts,
    /// Learns how many characters of the answer have come once some are out.
    pub(in crate::host) received: &'a (dyn Fn(u64) + Send + Sync),
    /// The request, if it was converted: then the answer is, too.
    pub(in crate::host) converted: Option<&'a ConvertedRequest<'a>>,
    /// Reads the request, for an answer that is written anew though it was not converted.
    pub(in crate::host) front: &'a (dyn Fn() -> Result<FrontCall, Unconvertible> + Send + Sync),
    /// Whether broken arguments of calls are repaired then.
    pub(in crate::host) repairs: bool,
    /// Who looks at the answer before it is passed on, if it has to hold.
    pub(in crate::host) judge: Option<&'a dyn ReplyJudge>,
}

/// The beginning of an answer.
#[derive(Clone, Debug)]
pub(in crate::host) struct AnswerHead {
    pub(in crate::host) status: StatusCode,
    /// What the client may read of it.
    pub(in crate::host) headers: HeaderMap,
}

/// An answer that has come as a whole.
#[derive(Clone, Debug)]
pub(in crate::host) struct WholeAnswer {
    pub(in crate::host) head: AnswerHead,
    pub(in crate::host) body: Bytes,
}

impl WholeAnswer {
    /// The same without secrets, of which its headers have none.
    fn masked(self, mask: &AnswerMask<'_>) -> Self {
        Self { head: self.head, body: mask.masked(self.body) }
    }
}

/// What came of an attempt that went well.
pub(in crate::host) struct RelayedAnswer {
    pub(in crate::host) usage: Option<Usage>,
    /// The limits that its headers state.
    pub(in crate::host) limits: Vec<ProviderLimit>,
    /// The answer; `None`: it went out piece by piece.
    pub(in crate::host) whole: Option<WholeAnswer>,
}

impl RelayedAnswer {
    fn new(usage: Option<Usage>, whole: Option<WholeAnswer>) -> Self {
        let usage = usage.and_then(plausible);
        Self { usage, limits: Vec::new(), whole }
    }

    /// The same without secrets.
    fn masked(mut self, mask: &AnswerMask<'_>) -> Self {
        self.whole = self.whole.map(|answer| answer.masked(mask));
        self
    }

    /// What the policy learns of it.
    pub(in crate::host) fn known(&self) -> ModelReply {
        ModelReply { usage: self.usage, limits: self.limits.clone(), ..ModelReply::default() }
    }
}

/// What can be true of what a provider says of one answer. No request is without a token: one that counts none has said nothing.
fn plausible(said: Usage) -> Option<Usage> {
    let most = |count: u64| count.min(MOST_TOKENS);
    (said.total() > 0).then(|| Usage {
        input: most(said.input),
        output: most(said.output),
        cache_read: most(said.cache_read),
        cache_write: most(said.cache_write),
        reasoning: most(said.reasoning),
    })
}

/// An answer that is being read.
struct OpenAnswer<'a> {
    request: &'a RelayedRequest<'a>,
    mask: &'a AnswerMask<'a>,
    sink: &'a AnswerSink,
    head: AnswerHead,
    /// As the provider sent them.
    headers: HeaderMap,
    body: HttpBody,
    /// When the first content is due.
    first_content: Option<Instant>,
    /// How long its next piece is waited for.
    limit: MovingLimit,
}

impl RelayedModel {
    /// Sets up the connection; nothing is sent yet.
    ///
    /// # Errors
    /// The configuration cannot be used.
    pub(in crate::host) fn new(config: ModelConfig) -> Result<Self, ConfigError> {
        config.check()?;
        let transport = ModelTransport::new(&config)?;
        let defaults = config.provider.headers.iter().map(|(name, _)| HeaderName::from_static(name));
        let (defaults, model) = (defaults.collect(), config.model.clone());
        let addresses = RelayAddresses::of(&config)?;
        // The clients have the conversations, and no message of theirs says which response it was.
        let config = ModelConfig { auto_previous_response_id: false, ..config };
        let plain = ModelConfig { api_key: None, renewed_key: None, headers: Vec::new(), ..config.clone() };
        let format = (config.provider.format)(config);
        Ok(Self { transport, addresses, format, defaults, model, plain, refusals: ServerRefusals::default() })
    }

    /// The model's name on its server.
    pub(in crate::host) fn name(&self) -> &str {
        &self.model
    }

    /// These messages as the list of a request in the dialect of this model has them, and the name of the list; `None`: they cannot
    /// be written.
    pub(in crate::host) fn written(&self, messages: &[Message]) -> Option<(&'static str, Vec<Value>)> {
        // A conversation begins with what the user says.
        let all: Vec<Message> = [Message::user("-")].into_iter().chain(messages.iter().cloned()).collect();
        let request = ModelRequest {
            messages: &all,
            tools: Vec::new(),
            tool_choice: ToolChoice::Auto,
            max_output: None,
            timeout: None,
            timeouts: CallTimeouts::default(),
            streamed: None,
            traffic: ByteTraffic::default(),
            files: AttachedFiles::default(),
            cancel: CancellationToken::new(),
        };
        let mut body: Value = serde_json::from_slice(&self.format.write(&request).ok()?).ok()?;
        let list = ["messages", "input", "contents"].into_iter().find(|list| body.get(list).is_some())?;
        let Value::Array(elements) = body.get_mut(list)?.take() else { return None };
        Some((list, elements.into_iter().skip(1).collect()))
    }

    /// A client's request as this model takes it. `repairs`: whether broken arguments of calls in the answer are repaired.
    ///
    /// # Errors
    /// It cannot be written.
    pub(in crate::host) fn convert<'a>(
        &self,
        front: &'a FrontCall,
        repairs: bool,
    ) -> Result<ConvertedRequest<'a>, Failure> {
        let fitted = front.fitted(&self.plain, &self.refusals);
        let fitted = fitted.map_err(|error| unreadable(format!("the request cannot be written: {error}")))?;
        let FittedRequest { body, format, left_out, sent, opened, instructs } = fitted;
        Ok(ConvertedRequest { body: body.into(), front, format, left_out, opened, instructs, sent, repairs })
    }

    /// What takes the secrets of the connection out.
    pub(in crate::host) fn redactor(&self) -> Cow<'_, SecretRedactor> {
        self.transport.redactor()
    }

    /// Sends the request once, and one that was converted again as often as a refusal teaches how the server wants it. What is
    /// streamed goes into `sink` from its first content on.
    ///
    /// # Errors
    /// There is no answer, it is a refusal, or it breaks off. Without the secrets of the connection.
    pub(in crate::host) async fn attempt(
        &self,
        request: &RelayedRequest<'_>,
        sink: &AnswerSink,
    ) -> Result<RelayedAnswer, RelayFailure> {
        let mut rewritten: Option<ConvertedRequest<'_>> = None;
        loop {
            let key = self.key().await?;
            let redactor = self.transport.redactor();
            let mask = AnswerMask::new(&redactor);
            let converted = rewritten.as_ref().or(request.converted);
            let body = converted.map_or_else(|| request.body.clone(), |converted| converted.body.clone());
            let relayed = RelayedRequest { body, converted, ..*request };
            let answer = self.answer(&relayed, key.as_ref(), sink, &mask).await;
            let again = match (&answer, converted) {
                (Err(refused), Some(converted)) if !sink.has_begun() => {
                    self.rewritten(converted, &refused.failure)
                }
                _ => None,
            };
            if again.is_some() {
                rewritten = again;
                continue;
            }
            match answer {
                Ok(answer) => return Ok(answer.masked(&mask)),
                Err(refused) if !self.renews(key.as_ref(), &refused.failure, sink).await? => {
                    return Err(refused.redacted(&redactor, &mask).sent_as(converted));
                }
                Err(_) => {}
            }
        }
    }

    /// The key for a request, if it is one that is asked for again.
    async fn key(&self) -> Result<Option<HeldKey>, RelayFailure> {
        self.transport.key().await.map_err(|failure| self.unkeyed(failure))
    }

    /// Whether the request is sent again because its key was refused and there is another one.
    async fn renews(
        &self,
        key: Option<&HeldKey>,
        refusal: &Failure,
        sink: &AnswerSink,
    ) -> Result<bool, RelayFailure> {
        if sink.has_begun() {
            return Ok(false);
        }
        let note = self.transport.renews(key, refusal).await.map_err(|failure| self.unkeyed(failure))?;
        if let Some(note) = &note {
            self.transport.says_again(note);
        }
        Ok(note.is_some())
    }

    /// The failure of a request that has no key.
    fn unkeyed(&self, failure: Failure) -> RelayFailure {
        self.transport.redactor().failure(failure, None).into()
    }

    /// The request as a refusal teaches that the server wants it; `None`: it teaches nothing.
    fn rewritten<'a>(
        &self,
        converted: &ConvertedRequest<'a>,
        refusal: &Failure,
    ) -> Option<ConvertedRequest<'a>> {
        let body = converted.body.clone().whole();
        let ConvertedRequest { format, sent: options, instructs, .. } = converted;
        let refused = RefusedRequest { body: &body, format: &**format, options, instructs: *instructs };
        // A refusal of the form is no failed attempt.
        let note = self.refusals.learn(&self.model, &refused, refusal)?;
        self.transport.says_again(&note);
        self.convert(converted.front, converted.repairs).ok()
    }

    async fn answer(
        &self,
        request: &RelayedRequest<'_>,
        key: Option<&HeldKey>,
        sink: &AnswerSink,
        mask: &AnswerMask<'_>,
    ) -> Result<RelayedAnswer, RelayFailure> {
        let limit = request.timeouts.first_token.filter(|_| request.stream);
        let first_content = limit.and_then(|limit| Instant::now().checked_add(limit.to_std()));
        let (body, headers) = (request.body.clone(), self.transport.keyed(key, self.headers(request)));
        let address = self.addresses.of_request(request);
        let sent = self.transport.send_to(address, body, headers, first_content, request.timeouts);
        let response = sent.await?;
        let headers = mask.headers(passed_back(response.headers()));
        let mut head = AnswerHead { status: response.status(), headers };
        if !response.status().is_success() {
            let mut refused = refused(head, response, request.timeouts.idle).await;
            // It is in another dialect than the client's.
            refused.answer = refused.answer.filter(|_| request.converted.is_none());
            return Err(refused);
        }
        if let Some(converted) = request.converted {
            head.headers = converted.front.headers(head.headers, &converted.left_out);
        }
        let headers = response.headers().clone();
        let body = HttpBody::of(response).map_err(|error| broken(&error))?;
        let limit = MovingLimit::default();
        let mut open = OpenAnswer { request, mask, sink, head, headers, body, first_content, limit };
        // Of an answer that is not streamed the headers are the beginning.
        let first = if request.stream {
            open.chunk(first_content, within::no_first_token).await?
        } else {
            open.chunk(open.idle(), within::stalled).await?
        };
        let limits = facts::stated_limits(&open.headers);
        let answer = if request.kind == RelayKind::Answer {
            match open.begun(first).await? {
                (first, streams) if request.converted.is_none() && streams != request.stream => {
                    Box::pin(self.in_other_form(open, first, streams)).await
                }
                // It is much larger than all else here, and most answers are none.
                (first, true) => Box::pin(open.stream(&*self.format, first)).await,
                (first, false) => open.whole(&*self.format, first).await,
            }
        } else {
            open.figures(first).await
        };
        answer.map(|answer| RelayedAnswer { limits, ..answer })
    }

    /// A stream for a client that wants the whole, or the reverse: it is written as the client asked for, since the SDKs read an answer
    /// of the other form as an empty one.
    async fn in_other_form(
        &self,
        open: OpenAnswer<'_>,
        first: Option<Bytes>,
        streams: bool,
    ) -> Result<RelayedAnswer, RelayFailure> {
        let front = (open.request.front)().map_err(|error| {
            let form = if streams { "a stream, which was not" } else { "no stream, which was" };
            unreadable(format!("the answer is {form} asked for, and cannot be written as the other: {error}"))
        })?;
        let converted = ConvertedRequest {
            body: SentBody::default(),
            front: &front,
            format: (self.plain.provider.format)(self.plain.clone()),
            left_out: Vec::new(),
            opened: false,
            instructs: false,
            sent: Vec::new(),
            repairs: open.request.repairs,
        };
        let (body, converted) = (SentBody::default(), Some(&converted));
        let request = RelayedRequest { body, converted, ..*open.request };
        let mut open = OpenAnswer { request: &request, ..open };
        open.head.headers = front.headers(open.head.headers, &[]);
        if streams { open.stream(&*self.format, first).await } else { open.whole(&*self.format, first).await }
    }

    /// The headers of a request: the file's own take precedence over the client's.
    fn headers(&self, request: &RelayedRequest<'_>) -> HeaderMap {
        let mut headers = request.headers.clone();
        if request.converted.is_some() {
            headers = of_any_dialect(&headers);
        }
        for (name, value) in self.transport.headers() {
            if !(headers.contains_key(name) && self.defaults.contains(name)) {
                headers.insert(name.clone(), value.clone());
            }
        }
        let accept = if request.stream { "text/event-stream, application/json" } else { "application/json" };
        headers.insert(ACCEPT, HeaderValue::from_static(accept));
        // The bytes pass as they are, and the client may not know the coding.
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        headers
    }
}

impl OpenAnswer<'_> {
    /// The next piece, within that time.
    async fn chunk(
        &mut self,
        until: Option<Instant>,
        late: fn(CallTimeouts) -> Failure,
    ) -> Result<Option<Bytes>, Failure> {
        let chunk = match until {
            Some(until) => self.limit.within(until, self.body.chunk()).await,
            None => Some(self.body.chunk().await),
        };
        let chunk = chunk.ok_or_else(|| late(self.request.timeouts))?;
        chunk.map_err(|error| broken(&error))
    }

    /// Until when the rest of an answer is waited for that has said why it stops.
    fn late(&self) -> Option<Instant> {
        let idle = self.request.timeouts.idle.unwrap_or(LATE);
        Instant::now().checked_add(idle.min(LATE).to_std().max(TAIL))
    }

    fn idle(&self) -> Option<Instant> {
        self.request.timeouts.idle.and_then(|limit| Instant::now().checked_add(limit.to_std()))
    }

    /// As much of an answer as tells whether it is a stream of events, and whether it is one. Some servers do not announce one, and
    /// some announce one that is not.
    async fn begun(&mut self, first: Option<Bytes>) -> Result<(Option<Bytes>, bool), Failure> {
        if is_framed(&self.headers) {
            return Ok((first, true));
        }
        let (announced, mut looks) = (announces_events(&self.headers), MOST_LOOKS);
        let Some(mut start) = first else { return Ok((None, announced)) };
        loop {
            match begins_stream(announced, &start) {
                Some(streams) => return Ok((Some(start), streams)),
                None if is_whole(&start, &mut looks) => return Ok((Some(start), false)),
                None => {}
            }
            let Some(piece) = self.chunk(self.idle(), within::stalled).await? else {
                return Ok((Some(start), announced));
            };
            start = [start, piece].concat().into();
        }
    }

    /// An answer that is not streamed. It is looked at before it is passed on.
    async fn whole(
        self,
        format: &dyn WireFormat,
        first: Option<Bytes>,
    ) -> Result<RelayedAnswer, RelayFailure> {
        let RelayedRequest { converted, background, judge, .. } = *self.request;
        let (mut answer, headers) = self.read(first).await?;
        if converted.is_none() && announces_events(&headers) {
            answer.head.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        let Some(converted) = converted else {
            let read = match (format.read(&answer.body, &headers, &[]), judge) {
                (Ok(reply), Some(judge)) => {
                    let JudgedReply { reply, refused } =
                        judge.judge(reply, ReplyForm::Bytes(&mut answer.body));
                    if let Some(failure) = refused {
                        return Err(RelayFailure::with(failure, Some(answer)));
                    }
                    Ok(reply)
                }
                (read, _) => read,
            };
            return match unless_continued(read.and_then(checked), background) {
                Ok(reply) => settled(reply, answer).map_err(|failure| *failure),
                Err(failure) => Err(RelayFailure::with(failure, readable_answer(answer, &headers))),
            };
        };
        let reply = format.read(&answer.body, &headers, converted.front.conversation())?;
        let JudgedReply { reply, refused } = converted.settled(reply, judge)?;
        let answer = converted.whole(answer.head, &reply);
        if let Some(failure) = refused {
            return Err(RelayFailure::with(failure, Some(answer)));
        }
        settled(Some(reply), answer).map_err(|failure| *failure)
    }

    /// Vectors, or a number of tokens: an answer if it is an object of JSON that says of no error.
    async fn figures(self, first: Option<Bytes>) -> Result<RelayedAnswer, RelayFailure> {
        let (answer, headers) = self.read(first).await?;
        let figures: Figures = serde_json::from_slice(super::wire::without_mark(&answer.body))
            .map_err(|error| unreadable(format!("the answer cannot be read: {error}")))?;
        if figures.error.is_some_and(|error| !error.is_null()) {
            // Some servers say so with status 200: what the body says decides.
            let failure = facts::from_status(StatusCode::OK, &headers, &answer.body);
            return Err(RelayFailure::with(failure, Some(answer)));
        }
        let input = figures.usage.and_then(|usage| usage.prompt_tokens);
        let usage = input.map(|input| Usage { input, ..Usage::default() });
        Ok(RelayedAnswer::new(usage, Some(answer)))
    }

    /// All of an answer, and the headers of the provider.
    async fn read(mut self, first: Option<Bytes>) -> Result<(WholeAnswer, HeaderMap), RelayFailure> {
        let first = first.unwrap_or_default();
        let Some(second) = self.chunk(self.idle(), within::stalled).await? else {
            // Most answers are one piece, which is not copied.
            return Ok((WholeAnswer { head: self.head, body: first }, self.headers));
        };
        let (mut body, mut next) = (BytesMut::from(first), Some(second));
        while let Some(piece) = next {
            if body.len().saturating_add(piece.len()) > MAX_WHOLE {
                let most = MAX_WHOLE >> 20;
                return Err(unreadable(format!("the answer is larger than {most} MiB")).into());
            }
            body.extend_from_slice(&piece);
            next = self.chunk(self.idle(), within::stalled).await?;
        }
        Ok((WholeAnswer { head: self.head, body: body.freeze() }, self.headers))
    }

    /// A stream. Until its content begins all of it is held back.
    async fn stream(
        mut self,
        format: &dyn WireFormat,
        first: Option<Bytes>,
    ) -> Result<RelayedAnswer, RelayFailure> {
        let RelayedRequest { converted, judge, choices, .. } = *self.request;
        let mut events = RelayedEvents::new(format.begin(), converted, self.mask, choices)
            .of(&self.headers)
            .judged_by(judge);
        let (mut next, mut has_begun, mut whole_until) = (first, false, None);
        while let Some(bytes) = next {
            let taken = events.push(&bytes, &self.headers);
            if !has_begun && (events.may_begin() || events.held() > MAX_HELD) {
                has_begun = true;
                self.sink.begin(self.head.clone());
            }
            if has_begun {
                (self.request.received)(events.fresh());
                self.sink.piece(events.next_piece()).await?;
            }
            taken?;
            if events.is_done() {
                break;
            }
            // Calls are converted as a whole, so they may come for a while before anything is out.
            let has_come = has_begun || events.received() > 0;
            let (until, late): (_, fn(CallTimeouts) -> Failure) = if events.is_whole() {
                // Counted once, so a server that only keeps the line open cannot prolong it.
                (*whole_until.get_or_insert_with(|| self.late()), within::stalled)
            } else if has_come {
                (self.idle(), within::stalled)
            } else {
                (self.first_content, within::no_first_token)
            };
            // A timeout never fires while bytes are always there, and comments without end are no content.
            if !has_come && until.is_some_and(|until| until <= Instant::now()) {
                return Err(late(self.request.timeouts).into());
            }
            next = match self.chunk(until, late).await {
                Ok(next) => next,
                // What is missing can no longer change the answer.
                Err(_) if events.is_whole() => None,
                Err(failure) => return Err(failure.into()),
            };
        }
        let finished = events.finish(&self.headers);
        let refused = events.refused().filter(|_| !has_begun);
        let finished = if has_begun || converted.is_some() || refused.is_some() {
            finished
        } else {
            finished.and_then(checked)
        };
        // A dialect that has no word for it would be continued by nobody.
        let finished =
            if converted.is_some() { finished.map(Some) } else { unless_continued(finished, false) };
        let reply = match finished {
            Ok(reply) => reply,
            Err(failure) if has_begun || converted.is_some() => return Err(failure.into()),
            Err(failure) => {
                let answer = WholeAnswer { head: self.head, body: events.held_back() };
                return Err(RelayFailure::with(failure, Some(answer)));
            }
        };
        let rest = events.held_back();
        if let Some(failure) = refused {
            return Err(RelayFailure::with(failure, Some(WholeAnswer { head: self.head, body: rest })));
        }
        if !has_begun {
            return settled(reply, WholeAnswer { head: self.head, body: rest }).map_err(|failure| *failure);
        }
        self.sink.piece(rest).await?;
        if events.is_done() {
            // So that the connection can be used again.
            if let Ok(Ok(Some(rest))) = tokio::time::timeout(LAST_BYTES, self.body.chunk()).await {
                events.leave_out(&rest);
            }
        }
        Ok(RelayedAnswer::new(reply.and_then(|reply| reply.usage), None))
    }
}

/// What is looked at of vectors and numbers of tokens.
#[derive(Deserialize)]
#[serde(remote = "Self")]
struct Figures {
    #[serde(default)]
    error: Option<Value>,
    #[serde(default)]
    usage: Option<FiguresUsage>,
}

#[derive(Deserialize)]
#[serde(remote = "Self")]
struct FiguresUsage {
    #[serde(default)]
    prompt_tokens: Option<u64>,
}

/// The failure of a response with an error status.
async fn refused(head: AnswerHead, response: Response, idle: Option<Nanos>) -> RelayFailure {
    let (status, headers) = (response.status(), response.headers().clone());
    let body = error_body(response, idle, |_| ()).await;
    let failure = facts::from_status(status, &headers, super::wire::without_mark(&body));
    RelayFailure::with(failure, Some(WholeAnswer { head, body: body.into() }))
}

/// The answer, if a client can read it: JSON that says of no error.
fn readable_answer(answer: WholeAnswer, headers: &HeaderMap) -> Option<WholeAnswer> {
    let value: Value = serde_json::from_slice(super::wire::without_mark(&answer.body)).ok()?;
    (value.is_object() && facts::inside_success(&value, headers).is_none()).then_some(answer)
}

/// The reply; `None`: it is to be continued, by the client or in the background, which for an agent is no answer.
fn unless_continued(
    read: Result<ModelReply, Failure>,
    background: bool,
) -> Result<Option<ModelReply>, Failure> {
    match read {
        Err(Failure { code: Some(code), .. })
            if code == PAUSE || (background && IN_BACKGROUND.contains(&&*code)) =>
        {
            Ok(None)
        }
        read => read.map(Some),
    }
}

/// The answer, unless it says nothing.
fn settled(reply: Option<ModelReply>, answer: WholeAnswer) -> Result<RelayedAnswer, Box<RelayFailure>> {
    let Some(reply) = reply else { return Ok(RelayedAnswer::new(None, Some(answer))) };
    match fault_of(&reply) {
        Some(failure) => Err(Box::new(RelayFailure::with(failure, Some(answer)))),
        None => Ok(RelayedAnswer::new(reply.usage, Some(answer))),
    }
}

of_objects!(Figures, FiguresUsage);

#[cfg(test)]
mod tests;
