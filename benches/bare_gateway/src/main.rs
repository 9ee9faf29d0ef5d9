//! What `benches/gateway.py` measures `unfazed serve` with: `upstream` stands for a provider, `relay ADDRESS` passes requests on to
//! it with hyper and does nothing else, and `load ADDRESS PATH BODY …`
//! is the client of both.

mod load;
mod relay;
mod upstream;

use std::convert::Infallible;
use std::error::Error;
use std::io::Write;

use bytes::Bytes;
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

/// What goes wrong in a bench ends it.
type BenchError = Box<dyn Error + Send + Sync>;
type AnyBody = UnsyncBoxBody<Bytes, BenchError>;

/// Serves clients at a free port of this machine, and says which.
async fn serve<F>(answer: impl Fn(Request<Incoming>) -> F + Clone + Send + 'static) -> Result<(), BenchError>
where
    F: Future<Output = Result<Response<AnyBody>, BenchError>> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let mut out = std::io::stdout();
    writeln!(out, "{}", listener.local_addr()?)?;
    out.flush()?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let answer = answer.clone();
        tokio::spawn(async move {
            // A connection that breaks is what a fault asks for, or the end of a client.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(answer)).await;
        });
    }
}

/// A body that is there as a whole.
fn whole(text: impl Into<Bytes>) -> AnyBody {
    http_body_util::Full::new(text.into()).map_err(|never: Infallible| match never {}).boxed_unsync()
}

#[tokio::main]
async fn main() -> Result<(), BenchError> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["upstream"] => upstream::run().await,
        ["relay", address] => relay::run(address).await,
        ["load", rest @ ..] => load::run(rest).await,
        _ => Err("usage: bare_gateway upstream | relay ADDRESS | load ADDRESS PATH BODY AT_ONCE REQUESTS SECONDS HEADER…".into()),
    }
}
