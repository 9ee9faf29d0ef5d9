//! A collector of OpenTelemetry: it takes what is exported over HTTP, and decodes it by the messages that OTLP is made of.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::Metric;
use prost::Message;

/// A collector.
pub(crate) struct Collector {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<Export>>>,
    status: Arc<AtomicU16>,
}

/// One request.
#[derive(Clone)]
struct Export {
    head: String,
    body: Vec<u8>,
}

/// A span, as tests look at it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SeenSpan {
    pub(crate) name: String,
    pub(crate) trace: String,
    pub(crate) id: String,
    /// Empty if it has none.
    pub(crate) parent: String,
    /// When it ended, in nanoseconds.
    pub(crate) ended: u64,
    /// As OTLP counts them: 1 internal, 2 server, 3 client.
    pub(crate) kind: i32,
    /// 0 unset, 2 error.
    pub(crate) status: i32,
    pub(crate) attributes: BTreeMap<String, String>,
    /// With their attributes.
    pub(crate) events: Vec<(String, BTreeMap<String, String>)>,
}

impl Collector {
    pub(crate) fn start() -> Self {
        Self::without("")
    }

    /// One that answers with status 405 at that path.
    pub(crate) fn without(path: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (seen, status) = (Arc::<Mutex<Vec<Export>>>::default(), Arc::new(AtomicU16::new(200)));
        let (kept, answers) = (Arc::clone(&seen), Arc::clone(&status));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (kept, answers) = (Arc::clone(&kept), Arc::clone(&answers));
                std::thread::spawn(move || serve(stream, &kept, &answers, path));
            }
        });
        Self { address, seen, status }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// It refuses the next request with that status of HTTP.
    pub(crate) fn refuse_next(&self, status: u16) {
        self.status.store(status, Ordering::Relaxed);
    }

    /// The heads of the requests so far that it took.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.seen.lock().unwrap().iter().map(|export| export.head.clone()).collect()
    }

    /// Whether anything that was exported has that text in it.
    pub(crate) fn has_text(&self, text: &str) -> bool {
        let seen = self.seen.lock().unwrap();
        seen.iter().any(|export| export.body.windows(text.len()).any(|piece| piece == text.as_bytes()))
    }

    fn bodies(&self, path: &str) -> Vec<Vec<u8>> {
        let seen = self.seen.lock().unwrap();
        let at = seen.iter().filter(|export| export.head.starts_with(&format!("POST {path} ")));
        at.map(|export| export.body.clone()).collect()
    }

    fn traces(&self) -> Vec<ExportTraceServiceRequest> {
        let bodies = self.bodies("/v1/traces");
        bodies.iter().map(|body| ExportTraceServiceRequest::decode(body.as_slice()).unwrap()).collect()
    }

    /// The attributes of who has sent spans.
    pub(crate) fn resource(&self) -> BTreeMap<String, String> {
        let traces = self.traces();
        attributes(&traces[0].resource_spans[0].resource.as_ref().unwrap().attributes)
    }

    /// The spans so far, in the order in which they began.
    pub(crate) fn spans(&self) -> Vec<SeenSpan> {
        let traces = self.traces().into_iter().flat_map(|request| request.resource_spans);
        let mut spans: Vec<_> = traces.flat_map(|of| of.scope_spans).flat_map(|of| of.spans).collect();
        spans.sort_by_key(|span| span.start_time_unix_nano);
        assert!(spans.iter().all(|span| span.start_time_unix_nano <= span.end_time_unix_nano));
        let seen = spans.iter().map(|span| SeenSpan {
            name: span.name.clone(),
            trace: hex(&span.trace_id),
            id: hex(&span.span_id),
            parent: hex(&span.parent_span_id),
            ended: span.end_time_unix_nano,
            kind: span.kind,
            status: span.status.as_ref().map_or(0, |status| status.code),
            attributes: attributes(&span.attributes),
            events: span.events.iter().map(|e| (e.name.clone(), attributes(&e.attributes))).collect(),
        });
        seen.collect()
    }

    /// The same when there is one of that name.
    pub(crate) fn spans_with(&self, name: &str) -> Vec<SeenSpan> {
        let until = Instant::now() + Duration::from_secs(30);
        loop {
            let spans = self.spans();
            if spans.iter().any(|span| span.name == name) {
                return spans;
            }
            assert!(Instant::now() < until, "no `{name}` in {spans:#?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The metrics of the last export of some.
    pub(crate) fn metrics(&self) -> Vec<Metric> {
        let bodies = self.bodies("/v1/metrics");
        let last = ExportMetricsServiceRequest::decode(bodies.last().unwrap().as_slice()).unwrap();
        last.resource_metrics.into_iter().flat_map(|of| of.scope_metrics).flat_map(|of| of.metrics).collect()
    }
}

impl SeenSpan {
    pub(crate) fn attribute(&self, name: &str) -> &str {
        self.attributes.get(name).map_or("", String::as_str)
    }

    pub(crate) fn event(&self, name: &str) -> &BTreeMap<String, String> {
        let found = self.events.iter().find(|(known, _)| known == name);
        &found.unwrap_or_else(|| panic!("no `{name}` in {self:#?}")).1
    }
}

/// The only span of that name.
pub(crate) fn only<'a>(spans: &'a [SeenSpan], name: &str) -> &'a SeenSpan {
    let found: Vec<&SeenSpan> = spans.iter().filter(|span| span.name == name).collect();
    assert_eq!(found.len(), 1, "`{name}` in {spans:#?}");
    found[0]
}

/// The names of spans, each behind those of the spans that it is in.
pub(crate) fn tree(spans: &[SeenSpan]) -> Vec<String> {
    fn path(spans: &[SeenSpan], span: &SeenSpan) -> String {
        let parent = spans.iter().find(|other| other.id == span.parent);
        let before = parent.map_or_else(String::new, |parent| format!("{} > ", path(spans, parent)));
        before + &span.name
    }
    spans.iter().map(|span| path(spans, span)).collect()
}

fn attributes(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |value: &Option<AnyValue>| value.as_ref().map_or_else(String::new, text);
    attributes.iter().map(|attribute| (attribute.key.clone(), text(&attribute.value))).collect()
}

fn text(value: &AnyValue) -> String {
    match value.value.as_ref().unwrap() {
        any_value::Value::StringValue(text) => text.clone(),
        any_value::Value::IntValue(number) => number.to_string(),
        any_value::Value::BoolValue(flag) => flag.to_string(),
        any_value::Value::ArrayValue(list) => list.values.iter().map(text).collect::<Vec<_>>().join(", "),
        other => format!("{other:?}"),
    }
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn serve(mut stream: TcpStream, seen: &Mutex<Vec<Export>>, status: &AtomicU16, without: &str) {
    while let Some(export) = request(&mut stream) {
        let is_absent = !without.is_empty() && export.head.starts_with(&format!("POST {without} "));
        let status = if is_absent { 405 } else { status.swap(200, Ordering::Relaxed) };
        if status == 200 {
            seen.lock().unwrap().push(export);
        }
        let answer = format!("HTTP/1.1 {status} X\r\nretry-after: 0\r\ncontent-length: 0\r\n\r\n");
        if stream.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

fn request(stream: &mut TcpStream) -> Option<Export> {
    let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
            let length = head.lines().find_map(|line| {
                line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse::<usize>().ok()
            });
            let body = &bytes[end + 4..];
            if body.len() >= length.unwrap_or(0) {
                return Some(Export { head, body: body.to_vec() });
            }
        }
        match stream.read(&mut piece) {
            Ok(read) if read > 0 => bytes.extend_from_slice(&piece[..read]),
            _ => return None,
        }
    }
}
