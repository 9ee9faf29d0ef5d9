//! A provider that answers what it is given, byte by byte, and keeps what it is sent.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What a provider does with one request.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// Answers with these bytes.
    Sends(Vec<u8>),
    /// The same, and breaks the connection before they are all that it announced.
    Cuts(Vec<u8>),
    /// The same, and waits until nobody listens any more.
    Stays(Vec<u8>),
    /// Waits until the test says so, and then answers with these bytes.
    Waits(Vec<u8>),
    /// Answers with these bytes, which are left as they are.
    Raw(Vec<u8>),
    /// Does that.
    Plays(fn(&mut TcpStream)),
}

/// A provider.
pub(crate) struct Upstream {
    address: SocketAddr,
    /// The requests, with their heads.
    seen: Arc<Mutex<Vec<String>>>,
    /// One for each client that has gone.
    gone: Receiver<()>,
    go: Sender<()>,
}

impl Reply {
    /// An answer of JSON.
    pub(crate) fn json(status: u16, headers: &str, body: &str) -> Self {
        let length = body.len();
        Self::Sends(
            format!("HTTP/1.1 {status} X\r\ncontent-type: application/json\r\n{headers}content-length: {length}\r\n\r\n{body}")
                .into_bytes(),
        )
    }

    /// A stream that ends.
    pub(crate) fn events(events: &str) -> Self {
        Self::Sends(stream(events, true))
    }

    /// One that breaks off.
    pub(crate) fn cut(events: &str) -> Self {
        Self::Cuts(stream(events, false))
    }

    /// The same, and says that it closes the connection: a client that sends its next request on one that closes meanwhile has
    /// an attempt more (RFC 9112, 9.6).
    fn closing(self) -> Self {
        let said = |mut bytes: Vec<u8>| {
            if let Some(end) = bytes.windows(2).position(|pair| pair == b"\r\n") {
                bytes.splice(end..end, *b"\r\nconnection: close");
            }
            bytes
        };
        match self {
            Self::Sends(bytes) => Self::Sends(said(bytes)),
            Self::Cuts(bytes) => Self::Cuts(said(bytes)),
            Self::Stays(bytes) => Self::Stays(said(bytes)),
            Self::Waits(bytes) => Self::Waits(said(bytes)),
            Self::Raw(_) | Self::Plays(_) => self,
        }
    }

    /// One that stays open.
    pub(crate) fn open(events: &str) -> Self {
        Self::Stays(stream(events, false))
    }
}

fn stream(events: &str, ends: bool) -> Vec<u8> {
    let chunk = format!("{:x}\r\n{events}\r\n", events.len());
    let chunk = if events.is_empty() { String::new() } else { chunk };
    let end = if ends { "0\r\n\r\n" } else { "" };
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n{chunk}{end}"
    )
    .into_bytes()
}

impl Upstream {
    /// A provider that gives these replies in turn, the last again and again.
    pub(crate) fn start(replies: impl IntoIterator<Item = Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, seen) = (listener.local_addr().unwrap(), Arc::<Mutex<Vec<String>>>::default());
        let ((leaves, gone), (go, waits)) = (channel(), channel());
        let (replies, kept): (Vec<Reply>, _) = (replies.into_iter().collect(), Arc::clone(&seen));
        let waits = Arc::new(Mutex::new(waits));
        std::thread::spawn(move || {
            let mut replies = replies.into_iter().peekable();
            let mut last = None;
            for stream in listener.incoming().map_while(Result::ok) {
                let reply = replies.next().or_else(|| last.clone()).unwrap();
                last = Some(reply.clone());
                let (kept, leaves, waits) = (Arc::clone(&kept), leaves.clone(), Arc::clone(&waits));
                std::thread::spawn(move || serve(stream, reply, &kept, &leaves, &waits));
            }
        });
        Self { address, seen, gone, go }
    }

    pub(crate) fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// The requests so far.
    pub(crate) fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }

    /// The bodies of the requests so far.
    pub(crate) fn bodies(&self) -> Vec<String> {
        self.seen().iter().map(|seen| seen.split_once("\r\n\r\n").unwrap().1.to_owned()).collect()
    }

    /// Waits until a client of it has gone.
    pub(crate) fn wait_until_gone(&self) {
        self.gone.recv_timeout(Duration::from_secs(20)).expect("the client stays");
    }

    /// Lets one that waits answer.
    pub(crate) fn go(&self) {
        self.go.send(()).unwrap();
    }
}

fn serve(
    mut stream: TcpStream,
    reply: Reply,
    seen: &Mutex<Vec<String>>,
    gone: &Sender<()>,
    waits: &Mutex<Receiver<()>>,
) {
    let Some(request) = request(&mut stream) else { return };
    seen.lock().unwrap().push(request);
    match reply.closing() {
        Reply::Sends(bytes) | Reply::Cuts(bytes) | Reply::Raw(bytes) => {
            let _ = stream.write_all(&bytes);
            let _ = stream.shutdown(Shutdown::Both);
        }
        Reply::Stays(bytes) => {
            let _ = stream.write_all(&bytes);
            while stream.read(&mut [0; 64]).is_ok_and(|read| read > 0) {}
            let _ = gone.send(());
        }
        Reply::Plays(plays) => plays(&mut stream),
        Reply::Waits(bytes) => {
            let _ = waits.lock().unwrap().recv();
            let _ = stream.write_all(&bytes);
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

/// A request with its head; `None`: the client had none.
fn request(stream: &mut TcpStream) -> Option<String> {
    let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        let text = String::from_utf8_lossy(&bytes);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
            if body.len() >= length.unwrap_or(0) {
                return Some(text.into_owned());
            }
        }
        match stream.read(&mut piece) {
            Ok(read) if read > 0 => bytes.extend_from_slice(&piece[..read]),
            _ => return None,
        }
    }
}
