//! The way of requests into the gateway: those for models go straight to it, all others through the router.

use core::convert::Infallible;
use core::task::{Context, Poll};
use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::Method;
use axum::response::Response;
use axum::routing::future::RouteFuture;
use futures_util::future::{BoxFuture, Either};
use tower_service::Service;

use super::server::GatewayServer;
use crate::cli::http::close_refused;
use crate::host::gateway::GatewayEndpoint;

/// What clients reach of the gateway.
///
/// The router would do with all of them: it knows the same addresses. It costs a request a dozen copies and as many allocations.
#[derive(Clone)]
pub(super) struct GatewayEntry {
    server: Arc<GatewayServer>,
    router: Router,
}

impl GatewayEntry {
    pub(super) fn new(server: Arc<GatewayServer>) -> Self {
        let router = Arc::clone(&server).router();
        Self { server, router }
    }
}

impl Service<Request> for GatewayEntry {
    type Response = Response;
    type Error = Infallible;
    type Future = Either<BoxFuture<'static, Result<Response, Infallible>>, RouteFuture<Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let is_asked = |endpoint: &GatewayEndpoint| {
            request.method() == Method::POST && request.uri().path() == endpoint.path
        };
        let Some(endpoint) = GatewayEndpoint::FIXED.into_iter().find(is_asked) else {
            return Either::Right(self.router.call(request));
        };
        let server = Arc::clone(&self.server);
        Either::Left(Box::pin(async move {
            let answer = server.relay(endpoint, request).await;
            Ok(close_refused(answer).await)
        }))
    }
}
