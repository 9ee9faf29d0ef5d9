//! The guard around what rig sends: every request of a model is a turn under the policy.

use std::future::Future;

use bytes::Bytes;
use rig_core::http_client::{
    Error, HttpClientExt, LazyBody, MultipartForm, Request, Response, Result, StreamingResponse,
};
use unfazed::engine::{Failure, ReplyHeaders};
use unfazed::host::Clock;
use unfazed::host::guard::{CallError, ClassifyError, Guard};
use unfazed::policy::{ErrorClass, Policy};

/// An HTTP client of rig's whose requests are made as often as the policy of the guard's first target says.
#[derive(Clone)]
pub(crate) struct Guarded<H> {
    guard: Guard,
    http: H,
}

/// What rig's client says went wrong, and what of it the policy's tables know.
struct Lost {
    failure: Failure,
    error: Error,
}

impl<H> Guarded<H> {
    pub(crate) const fn new(guard: Guard, http: H) -> Self {
        Self { guard, http }
    }
}

impl<H: HttpClientExt + Clone + 'static> HttpClientExt for Guarded<H> {
    fn send<T, U>(
        &self,
        request: Request<T>,
    ) -> impl Future<Output = Result<Response<LazyBody<U>>>> + Send + 'static
    where
        T: Into<Bytes> + Send,
        U: From<Bytes> + Send + 'static,
    {
        let Self { guard, http } = self.clone();
        let turn = guard.turn(request.map(Into::into));
        async move {
            // The body is read here, so that an answer which breaks off is a failure like any other.
            let send = |_, request: Request<Bytes>| async {
                let (parts, body) =
                    http.send::<Bytes, Bytes>(request).await.map_err(Lost::from)?.into_parts();
                Ok::<_, Lost>(Response::from_parts(parts, body.await.map_err(Lost::from)?))
            };
            let answer = turn.call(send).await.map_err(given_up)?;
            Ok(answer.map(|body| -> LazyBody<U> { Box::pin(std::future::ready(Ok(U::from(body)))) }))
        }
    }

    // No request of a model is sent so.
    fn send_multipart<U>(
        &self,
        request: Request<MultipartForm>,
    ) -> impl Future<Output = Result<Response<LazyBody<U>>>> + Send + 'static
    where
        U: From<Bytes> + Send + 'static,
    {
        self.http.send_multipart(request)
    }

    // Until the answer begins; what breaks off later is rig's to tell.
    fn send_streaming<T>(&self, request: Request<T>) -> impl Future<Output = Result<StreamingResponse>> + Send
    where
        T: Into<Bytes> + Send,
    {
        let turn = self.guard.turn(request.map(Into::into));
        async move {
            let send = |_, request: Request<Bytes>| async {
                self.http.send_streaming(request).await.map_err(Lost::from)
            };
            turn.call(send).await.map_err(given_up)
        }
    }
}

/// rig gets the error of the last attempt, as if there had been no guard.
fn given_up(error: CallError<Lost>) -> Error {
    match error {
        CallError::Exhausted(given_up) => match given_up.last {
            Some(lost) => lost.error,
            None => Error::instance(given_up.exhausted),
        },
        CallError::Refused(refusal) => Error::instance(*refusal),
        CallError::Run(error) => Error::instance(*error),
    }
}

impl From<Error> for Lost {
    fn from(error: Error) -> Self {
        let failure = match &error {
            Error::InvalidStatusCodeWithDetails { status, body, headers } => {
                let headers = headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
                let now = || Clock::system().now();
                Failure::from_answer(status.as_u16(), &ReplyHeaders::new(headers), body.as_bytes(), now)
            }
            other => Failure::of(ErrorClass::NetworkError, other.to_string()),
        };
        Self { failure, error }
    }
}

impl ClassifyError for Lost {
    fn class(&self, policy: &Policy) -> ErrorClass {
        self.failure.classified(policy).class
    }

    fn message(&self) -> String {
        self.failure.message.clone()
    }

    fn failure(&self, _policy: &Policy) -> Failure {
        self.failure.clone()
    }
}
