//! The metrics of a run, served to Prometheus while it continues.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::host::Metrics;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::cli::exit::CommandFailure;

/// What the text is, in the words of its format.
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A server of metrics. Ends when it is dropped.
pub(crate) struct MetricsServer {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl MetricsServer {
    /// Serves `metrics` at `/metrics`. Port 0 is any free one.
    pub(crate) async fn start(address: SocketAddr, metrics: Arc<Metrics>) -> Result<Self, CommandFailure> {
        let refused = |error: io::Error| CommandFailure::Usage(refused(address, &error));
        let listener = TcpListener::bind(address).await.map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        let router = Router::new().route("/metrics", get(exposition)).fallback(elsewhere).with_state(metrics);
        let task = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, router).await {
                tracing::warn!(%error, "the server of metrics ended");
            }
        });
        Ok(Self { address, task })
    }

    /// Where the metrics are.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/metrics", self.address)
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn exposition(State(metrics): State<Arc<Metrics>>) -> impl IntoResponse {
    ([(CONTENT_TYPE, PROMETHEUS)], metrics.prometheus())
}

async fn elsewhere() -> impl IntoResponse {
    (StatusCode::NOT_FOUND, "the metrics are at /metrics\n")
}

fn refused(address: SocketAddr, error: &io::Error) -> String {
    let help = match error.kind() {
        io::ErrorKind::AddrInUse => {
            "it is in use; stop what uses it, or take port 0 for any free one".to_owned()
        }
        io::ErrorKind::AddrNotAvailable => {
            format!("this machine has no address {}; 127.0.0.1 is always there", address.ip())
        }
        io::ErrorKind::PermissionDenied => {
            "you may not listen there; ports below 1024 often need more rights".to_owned()
        }
        _ => crate::host::file_error(error),
    };
    format!("--metrics-addr: metrics cannot be served at {address}: {help}")
}

/// The address of `--metrics-addr`.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    text.trim().parse().map_err(|_| "write an address and a port, such as 127.0.0.1:9464".to_owned())
}
