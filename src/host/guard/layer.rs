//! The guard of a turn as a layer of tower services.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tower_layer::Layer;
use tower_service::Service;

use super::{CallError, ClassifyError, Guard, ModelCall};
use crate::session::Usage;

/// Says how many tokens a response took.
type ReadUsage<T> = Arc<dyn Fn(&T) -> Option<Usage> + Send + Sync>;

/// What the service under a [`TurnLayer`] is called with: one attempt at one model.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TurnAttempt<R> {
    /// The model, the attempt, and what the policy wants of it.
    pub call: ModelCall,
    /// The request that the service over the layer was called with.
    pub request: R,
}

/// A [`tower_layer::Layer`]: each call of the service is a turn of a [`Guard`], with its retries, waits, fallback and budgets.
///
/// The service below is cloned for each attempt and is called when it is ready: what it answers when it is not (a limit, a shed load)
/// counts as an attempt that failed. A call that is dropped is withdrawn. The errors below are [`ClassifyError`]; those of layers that box
/// theirs (a timeout, a shed load) are mapped to one, with `map_err` of their builder.
///
/// ```
/// use tower::{Service, ServiceBuilder, ServiceExt, service_fn};
/// use unfazed::host::guard::{TurnAttempt, TurnLayer};
/// use unfazed::policy::{ErrorClass, Policy};
/// use unfazed::host::{Guard, GuardConfig};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let guard = Guard::new(GuardConfig::new(Policy::builtin()).targets(["main", "spare"]));
/// let model = service_fn(|attempt: TurnAttempt<String>| async move {
///     match &*attempt.call.target {
///         "main" => Err((ErrorClass::AuthError, "the key is not valid")),
///         spare => Ok(format!("{spare} answers {}", attempt.request)),
///     }
/// });
/// let mut service = ServiceBuilder::new().layer(TurnLayer::new(guard)).service(model);
/// let answer = service.ready().await.unwrap().call("hello".to_owned()).await;
/// assert_eq!(answer.unwrap(), "spare answers hello");
/// # }
/// ```
pub struct TurnLayer<T> {
    guard: Guard,
    usage: Option<ReadUsage<T>>,
}

impl<T> TurnLayer<T> {
    /// The layer of that guard. Services that it makes are one run, as the calls of the guard are.
    pub const fn new(guard: Guard) -> Self {
        Self { guard, usage: None }
    }

    /// Says how many tokens a response took: for records, metrics, costs and budgets.
    #[must_use]
    pub fn usage(mut self, usage: impl Fn(&T) -> Option<Usage> + Send + Sync + 'static) -> Self {
        self.usage = Some(Arc::new(usage));
        self
    }
}

impl<T> Clone for TurnLayer<T> {
    fn clone(&self) -> Self {
        Self { guard: self.guard.clone(), usage: self.usage.clone() }
    }
}

impl<T> core::fmt::Debug for TurnLayer<T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("TurnLayer").field("guard", &self.guard).finish_non_exhaustive()
    }
}

impl<S, T> Layer<S> for TurnLayer<T> {
    type Service = TurnService<S, T>;

    fn layer(&self, inner: S) -> Self::Service {
        TurnService { layer: self.clone(), inner }
    }
}

/// The service that a [`TurnLayer`] makes of another.
pub struct TurnService<S, T> {
    layer: TurnLayer<T>,
    inner: S,
}

impl<S: Clone, T> Clone for TurnService<S, T> {
    fn clone(&self) -> Self {
        Self { layer: self.layer.clone(), inner: self.inner.clone() }
    }
}

impl<S, T> core::fmt::Debug for TurnService<S, T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("TurnService").field("layer", &self.layer).finish_non_exhaustive()
    }
}

impl<S, R> Service<R> for TurnService<S, S::Response>
where
    S: Service<TurnAttempt<R>> + Clone + Send + 'static,
    S::Response: Send + 'static,
    S::Error: ClassifyError + Send + Sync + 'static,
    S::Future: Send,
    R: Clone + Send + Sync + 'static,
{
    type Response = S::Response;
    type Error = CallError<S::Error>;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    /// Always ready: whether the service below is, each attempt asks.
    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: R) -> Self::Future {
        let (Self { layer, inner }, usage) = (self.clone(), self.layer.usage.clone());
        Box::pin(async move {
            let turn = layer.guard.turn(request);
            let read = |response: &S::Response| usage.as_ref().and_then(|usage| usage(response));
            let attempt = move |call, request| {
                // A clone of its own: one that is ready holds what it has reserved until it is called or dropped.
                let mut service = inner.clone();
                async move {
                    poll_fn(|cx| service.poll_ready(cx)).await?;
                    service.call(TurnAttempt { call, request }).await
                }
            };
            turn.call_as(read, attempt).await
        })
    }
}
