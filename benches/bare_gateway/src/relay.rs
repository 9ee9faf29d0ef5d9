//! The least that a gateway can do: requests go out and answers come back as they are, over connections that are kept.

use http_body_util::BodyExt;
use hyper::Request;
use hyper::body::Incoming;
use hyper::header::HOST;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

use crate::BenchError;

/// Passes requests on to that address.
pub(crate) async fn run(address: &str) -> Result<(), BenchError> {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    let client: Client<_, Incoming> = Client::builder(TokioExecutor::new()).build(connector);
    let upstream = format!("http://{address}");
    crate::serve(move |request| {
        let (client, upstream) = (client.clone(), upstream.clone());
        async move {
            let (head, body) = request.into_parts();
            let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
            let mut passed = Request::new(body);
            *passed.method_mut() = head.method;
            *passed.uri_mut() = format!("{upstream}{path}").parse()?;
            *passed.headers_mut() = head.headers;
            passed.headers_mut().remove(HOST);
            let answer = client.request(passed).await?;
            Ok(answer.map(|body| body.map_err(Into::into).boxed_unsync()))
        }
    })
    .await
}
