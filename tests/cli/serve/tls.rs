//! A gateway that speaks TLS.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use reqwest::Certificate;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tokio_rustls::TlsConnector;

use super::{CHAT, Gateway, POLICY, Reply, Upstream, client, one, said};
use crate::command;

const PATIENCE: Duration = Duration::from_secs(30);
const TLS: &str = "tls: {certificate: cert.pem, key: key.pem}\n";
const ASK: &str = r#"{"model":"main"}"#;
/// The SHA-256 of `sesame`.
const SESAME: &str = "d0c04f4b1951e4aeaaec8223ed2039e542f3aae805a6fa7f6d794e5afff5d272";

/// Certificates that `make.sh` beside them has made; each is its own issuer.
fn made(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/serve/certificates").join(name)
}

/// A client that trusts that certificate alone.
fn trusting(name: &str) -> reqwest::Client {
    let pem = fs::read(made(&format!("{name}.pem"))).unwrap();
    client().add_root_certificate(Certificate::from_pem(&pem).unwrap()).build().unwrap()
}

/// Puts a certificate and a key into the folder, under the names of the gateway's file.
fn put(folder: &Path, certificate: &str, key: &str) {
    fs::copy(made(&format!("{certificate}.pem")), folder.join("cert.pem")).unwrap();
    fs::copy(made(&format!("{key}.key")), folder.join("key.pem")).unwrap();
}

impl Gateway {
    /// A gateway with that certificate.
    fn secured(certificate: &str, file: &str, address: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        put(folder.path(), certificate, certificate);
        fs::write(folder.path().join("policy.yaml"), POLICY).unwrap();
        let text = format!("version: 1\npolicy: policy.yaml\n{file}{TLS}");
        fs::write(folder.path().join("gateway.yaml"), text).unwrap();
        Self::spawned(folder, &["serve", "gateway.yaml", "--addr", address])
    }

    fn has_said(&self, text: &str) -> usize {
        self.said.lock().unwrap().iter().filter(|line| line.contains(text)).count()
    }

    pub(super) async fn wait_until_said(&self, text: &str) {
        let began = Instant::now();
        while self.has_said(text) == 0 {
            assert!(began.elapsed() < PATIENCE, "{text}: {:?}", self.said.lock().unwrap());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn asked(&self, http: &reqwest::Client) -> Result<u16, reqwest::Error> {
        let asked = http.post(format!("{}{CHAT}", self.url)).body(ASK).send().await;
        asked.map(|answer| answer.status().as_u16())
    }
}

#[tokio::test]
async fn answers_come_whole_and_streamed() {
    let events = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"}}]}\n\n\
                  data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    let upstream = Upstream::start([Reply::json(200, "", &said("hello")), Reply::events(events)]);
    let gateway = Gateway::secured("first", &one("openai", &upstream), "127.0.0.1:0");
    assert!(gateway.url.starts_with("https://127.0.0.1:"), "{}", gateway.url);
    let http = trusting("first");
    let ask = |body: &'static str| http.post(format!("{}{CHAT}", gateway.url)).body(body).send();
    let whole = ask(ASK).await.unwrap();
    assert_eq!((whole.status().as_u16(), whole.text().await.unwrap()), (200, said("hello")));
    let streamed = ask(r#"{"model":"main","stream":true}"#).await.unwrap();
    assert_eq!((streamed.status().as_u16(), streamed.text().await.unwrap()), (200, events.to_owned()));
    // Who does not trust it, gets nothing.
    assert!(gateway.asked(&trusting("second")).await.unwrap_err().is_connect());
    assert_eq!(upstream.seen().len(), 2);
}

#[tokio::test]
async fn what_is_no_handshake_ends_cleanly_and_others_are_served() {
    let upstream = Upstream::start([Reply::json(200, "", &said("hello"))]);
    let gateway = Gateway::secured("first", &one("openai", &upstream), "127.0.0.1:0");
    let plain = gateway.http.post(format!("http://{}{CHAT}", gateway.address())).body(ASK);
    let refused = plain.send().await.unwrap();
    assert_eq!(refused.status().as_u16(), 400);
    assert_eq!(refused.text().await.unwrap(), "This address speaks TLS: write https:// before it.\n");
    for garbage in [&b"\x16\x03\x01\x00\x05hello"[..], b"\x00\x00\x00\x00", b"ssh-2.0\r\n", b"\x16\x03", b""]
    {
        let mut stream = TcpStream::connect(gateway.address()).unwrap();
        stream.write_all(garbage).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        // An alert, or nothing, and the end.
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.len() < 16, "{answer:?}");
    }
    // One that never says anything keeps nobody out.
    let _silent = TcpStream::connect(gateway.address()).unwrap();
    assert_eq!(gateway.asked(&trusting("first")).await.unwrap(), 200);
    assert_eq!(gateway.said.lock().unwrap().len(), 0, "{:?}", gateway.said.lock().unwrap());
    assert_eq!(upstream.seen().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_sends_no_more_gets_its_answer() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let Reply::Sends(answer) = Reply::json(200, "", &said("hello")) else { unreachable!() };
    let upstream = Upstream::start([Reply::Waits(answer)]);
    let gateway = Gateway::secured("first", &one("openai", &upstream), "127.0.0.1:0");
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(made("first.pem")).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.unwrap().with_root_certificates(roots).with_no_client_auth();
    let socket = tokio::net::TcpStream::connect(gateway.address()).await.unwrap();
    let connecting = TlsConnector::from(Arc::new(config)).connect("127.0.0.1".try_into().unwrap(), socket);
    let mut stream = connecting.await.unwrap();
    let length = ASK.len();
    let request = format!("POST {CHAT} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n{ASK}");
    stream.write_all(request.as_bytes()).await.unwrap();
    // It says so in TLS, and then in TCP.
    stream.shutdown().await.unwrap();
    let mut probe = [0; 25];
    stream.read_exact(&mut probe).await.unwrap();
    assert_eq!(&probe, b"HTTP/1.1 100 Continue\r\n\r\n");
    upstream.go();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let answer = answer.trim_start_matches("HTTP/1.1 100 Continue\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with(&said("hello")), "{answer}");
}

#[tokio::test]
async fn beyond_this_machine_it_warns_of_nothing() {
    let upstream = Upstream::start([Reply::json(200, "", &said("hello"))]);
    let keys = format!("keys: {{desk: {{sha256: {SESAME}}}}}\n");
    let gateway = Gateway::secured("first", &(one("openai", &upstream) + &keys), "0.0.0.0:0");
    assert_eq!(gateway.has_said("unencrypted"), 0);
    let port = gateway.url.rsplit_once(':').unwrap().1;
    let asked = trusting("first").post(format!("https://localhost:{port}{CHAT}")).body(ASK);
    assert_eq!(asked.bearer_auth("sesame").send().await.unwrap().status().as_u16(), 200);
}

#[tokio::test]
async fn a_renewed_certificate_is_taken_and_a_bad_one_is_not() {
    let upstream = Upstream::start([Reply::json(200, "", &said("hello"))]);
    let gateway = Gateway::secured("first", &one("openai", &upstream), "127.0.0.1:0");
    let folder = gateway.folder.path();
    // The key of another certificate, one that has expired, and no certificate at all.
    put(folder, "second", "first");
    gateway.wait_until_said("does not belong to the certificate").await;
    put(folder, "expired", "expired");
    gateway.wait_until_said("expired: it was valid until 2020-01-01T00:00:00Z").await;
    fs::remove_file(folder.join("cert.pem")).unwrap();
    gateway.wait_until_said("cannot read the certificate").await;
    assert_eq!(gateway.has_said("the certificate before stays"), 3, "{:?}", gateway.said.lock().unwrap());
    assert_eq!(gateway.asked(&trusting("first")).await.unwrap(), 200);

    put(folder, "second", "second");
    gateway.wait_until_said("the certificate is read again").await;
    assert_eq!(gateway.asked(&trusting("second")).await.unwrap(), 200);
    assert!(gateway.asked(&trusting("first")).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_in_flight_end_and_new_ones_are_turned_away() {
    let answer = said("late");
    let late = format!("HTTP/1.1 200 X\r\ncontent-length: {}\r\n\r\n{answer}", answer.len()).into_bytes();
    let upstream = Upstream::start([Reply::Waits(late)]);
    let mut gateway = Gateway::secured("first", &one("openai", &upstream), "127.0.0.1:0");
    gateway.http = trusting("first");
    let (http, url) = (gateway.http.clone(), format!("{}{CHAT}", gateway.url));
    let asked = tokio::spawn(async move { http.post(url).body(ASK).send().await.unwrap().text().await });
    while upstream.seen().is_empty() {
        tokio::task::yield_now().await;
    }
    gateway.signal("-TERM");
    gateway.wait_until_stopping().await;
    upstream.go();
    assert_eq!(asked.await.unwrap().unwrap(), answer);
    assert_eq!(gateway.child.wait().unwrap().code(), Some(0));
}

#[test]
fn files_that_are_no_certificate_are_found_at_their_places() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let file = format!(
        "version: 1\nmodels: {{main: {{api: openai, base_url: 'http://127.0.0.1:9/v1', model: m}}}}\nroutes: {{main: main}}\n{TLS}"
    );
    fs::write(folder.join("gateway.yaml"), &file).unwrap();
    let run = |args: &[&str]| {
        let output = command::unfazed(folder, args).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
    };
    let check = || run(&["check", "gateway.yaml", "--format", "short"]);
    let (code, missing) = check();
    assert!(
        code == 1
            && missing.contains("gateway.yaml:4:20: error[P0201]: cannot read the certificate cert.pem")
            && missing.contains("gateway.yaml:4:35: error[P0201]: cannot read the private key key.pem"),
        "{missing}"
    );
    put(folder, "first", "second");
    for (code, mismatch) in [check(), run(&["serve", "gateway.yaml", "--addr", "127.0.0.1:0"])] {
        let told = "the private key key.pem does not belong to the certificate cert.pem";
        assert!(code == 1 && mismatch.contains(told) && mismatch.contains("gateway.yaml:4:35"), "{mismatch}");
    }
    put(folder, "expired", "expired");
    let (code, expired) = check();
    assert!(
        code == 1
            && expired.contains("gateway.yaml:4:20: error[P0104]: the certificate cert.pem has expired"),
        "{expired}"
    );
    put(folder, "first", "first");
    assert_eq!(check().0, 0, "{}", check().1);
    // Beside other mistakes it is looked at, too.
    fs::write(folder.join("gateway.yaml"), file.replace("main: main", "main: mian")).unwrap();
    put(folder, "expired", "expired");
    let (_, both) = check();
    assert!(both.contains("there is no model `mian`") && both.contains("has expired"), "{both}");
}

#[tokio::test]
async fn an_expired_certificate_is_served_with_a_warning() {
    let upstream = Upstream::start([Reply::json(200, "", &said("hello"))]);
    let gateway = Gateway::secured("expired", &one("openai", &upstream), "127.0.0.1:0");
    assert_eq!(
        gateway.has_said("has expired: it was valid until 2020-01-01T00:00:00Z; clients refuse it"),
        1
    );
    assert!(gateway.asked(&trusting("expired")).await.is_err());
    let careless = client().danger_accept_invalid_certs(true).build().unwrap();
    assert_eq!(gateway.asked(&careless).await.unwrap(), 200);
}
