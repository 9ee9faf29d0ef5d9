//! The body of a response as what its sender wrote: the codings of its `Content-Encoding` undone (RFC 9110, section 8.4),
//! piece by piece as the bytes arrive, however they are cut.
//!
//! A body that decodes to far more than was sent costs no memory: pieces are small, and whoever reads them counts them.
//! `reqwest` could do it, but then every client of the program would, and it knows neither several codings nor the
//! raw deflate that some servers send.

use std::error::Error;
use std::fmt;
use std::io::{self, Cursor};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use async_compression::tokio::bufread::{
    BrotliDecoder, DeflateDecoder, GzipDecoder, ZlibDecoder, ZstdDecoder,
};
use async_compression::zstd::DParameter;
use bytes::{Bytes, BytesMut};
use futures_util::stream::poll_fn;
use futures_util::{StreamExt, TryStreamExt};
use reqwest::Response;
use reqwest::header::{CONTENT_ENCODING, HeaderMap, HeaderValue};
use tokio::io::{AsyncBufRead, AsyncRead, AsyncReadExt, BufReader};
use tokio_util::io::StreamReader;

use crate::host::model::failure::cause;

/// What is asked for.
pub(in crate::host) const ACCEPTED: HeaderValue = HeaderValue::from_static("gzip, deflate, br, zstd");
/// The most codings on top of each other.
const MOST_CODINGS: usize = 4;
/// The most bytes of one piece.
const PIECE: usize = 16 * 1024;
/// The largest window of zstd, as a power of two: 8 MiB, which RFC 9659 allows on the web.
const ZSTD_WINDOW: u32 = 23;
/// So many bytes tell what a body is.
const HEAD: usize = 4;

/// A body that is read.
pub(in crate::host) struct HttpBody {
    source: BodySource,
    /// Whether the last byte has come: who misses one then misses it for good.
    ended: Arc<AtomicBool>,
}

enum BodySource {
    /// Nothing of it has been read, and no header says that it is encoded.
    Unread(Response),
    /// As it was sent.
    Plain(Response),
    /// Nothing of it has been read: what its first bytes are decides too.
    Coded(Vec<BodyCoding>, ByteStream),
    Decoded(ByteStream),
    Ended,
}

type ByteStream = Box<dyn AsyncBufRead + Send + Unpin>;

/// A coding of bodies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BodyCoding {
    Gzip,
    Deflate,
    Brotli,
    Zstd,
}

/// A body that cannot be read to its end.
#[derive(Debug)]
pub(in crate::host) enum BodyError {
    /// The connection broke, or what was sent ends too early.
    Broken(String),
    /// The bytes are not what the headers say.
    Undecodable(String),
}

impl HttpBody {
    /// The body of that response.
    ///
    /// # Errors
    /// A coding that was not asked for.
    pub(in crate::host) fn of(response: Response) -> Result<Self, BodyError> {
        let codings = codings(response.headers())?;
        let ended = Arc::new(AtomicBool::new(false));
        let source = if codings.is_empty() {
            BodySource::Unread(response)
        } else {
            BodySource::Coded(codings, bytewise(Bytes::new(), response, &ended))
        };
        Ok(Self { source, ended })
    }

    /// The first piece of a body of which no header says that it is encoded, unless its bytes say so.
    async fn first(&mut self) -> Result<Option<Bytes>, BodyError> {
        let BodySource::Unread(response) = &mut self.source else { return Ok(None) };
        let first = response.chunk().await.map_err(|error| BodyError::Broken(cause(&error)))?;
        let BodySource::Unread(response) = std::mem::replace(&mut self.source, BodySource::Ended) else {
            return Ok(first);
        };
        let Some((coding, first)) =
            first.as_ref().and_then(|first| Some((unannounced(first)?, first.clone())))
        else {
            self.source = BodySource::Plain(response);
            return Ok(first);
        };
        self.source = BodySource::Coded(vec![coding], bytewise(first, response, &self.ended));
        Ok(None)
    }

    /// The next piece; `None`: it has ended.
    ///
    /// # Errors
    /// The connection broke, or the bytes cannot be decoded.
    pub(in crate::host) async fn chunk(&mut self) -> Result<Option<Bytes>, BodyError> {
        if matches!(self.source, BodySource::Unread(_)) {
            let first = self.first().await?;
            if first.is_some() || matches!(self.source, BodySource::Plain(_)) {
                return Ok(first);
            }
        }
        if let BodySource::Coded(codings, reader) = &mut self.source {
            let (codings, mut reader) =
                (std::mem::take(codings), std::mem::replace(reader, Box::new(tokio::io::empty())));
            // RFC 9110, section 8.4: codings stand in the order in which they were applied, so the last is undone
            // first.
            for coding in codings.into_iter().rev() {
                reader = decoded(reader, coding).await.map_err(|error| self.error(&error))?;
            }
            self.source = BodySource::Decoded(reader);
        }
        match &mut self.source {
            BodySource::Plain(response) => {
                response.chunk().await.map_err(|error| BodyError::Broken(cause(&error)))
            }
            BodySource::Decoded(reader) => {
                // Decoding from memory never waits by itself. Without this, the time limits of the call would not
                // get their turn.
                tokio::task::consume_budget().await;
                let mut piece = BytesMut::with_capacity(PIECE);
                let read = reader.read_buf(&mut piece).await;
                let read = read.map_err(|error| self.error(&error))?;
                Ok((read > 0).then(|| piece.freeze()))
            }
            BodySource::Unread(_) | BodySource::Coded(..) | BodySource::Ended => Ok(None),
        }
    }

    /// A decoder that has read the last byte and is not done misses some.
    fn error(&self, error: &io::Error) -> BodyError {
        let of_connection = error.get_ref().and_then(|inner| inner.downcast_ref::<reqwest::Error>());
        match of_connection {
            Some(inner) => BodyError::Broken(cause(inner)),
            // A decoder that wants more bytes when there are none was cut off; its own message would say something
            // else.
            None if self.ended.load(Ordering::Relaxed) || error.kind() == io::ErrorKind::UnexpectedEof => {
                BodyError::Broken("what was sent ends too early".to_owned())
            }
            None => {
                BodyError::Undecodable(format!("the answer cannot be decoded as its headers say: {error}"))
            }
        }
    }
}

/// The bytes of a response, behind those that have been read of it; `ended`: the last has come.
fn bytewise(read: Bytes, response: Response, ended: &Arc<AtomicBool>) -> ByteStream {
    let at_the_end = Arc::clone(ended);
    let end = poll_fn(move |_| {
        at_the_end.store(true, Ordering::Relaxed);
        Poll::Ready(None)
    });
    let stream = response.bytes_stream().map_err(io::Error::other).chain(end);
    Box::new(Cursor::new(read).chain(StreamReader::new(Box::pin(stream))))
}

/// The coding whose mark bytes begin with. Some proxies take the header away and leave the body as it is; no JSON, no
/// event and no page begins so.
fn unannounced(bytes: &[u8]) -> Option<BodyCoding> {
    match bytes {
        [0x1f, 0x8b, ..] | [0x1f] => Some(BodyCoding::Gzip),
        [0x28, 0xb5, ..] | [0x28] => Some(BodyCoding::Zstd),
        _ => None,
    }
}

/// The codings in the order in which they were put on.
fn codings(headers: &HeaderMap) -> Result<Vec<BodyCoding>, BodyError> {
    let mut codings = Vec::new();
    for line in headers.get_all(CONTENT_ENCODING) {
        for name in String::from_utf8_lossy(line.as_bytes()).split(',') {
            codings.extend(match name.trim().to_ascii_lowercase().as_str() {
                "" | "identity" | "none" => None,
                // RFC 9110, section 8.4.1.3: `x-gzip` is to be read as `gzip`.
                "gzip" | "x-gzip" => Some(BodyCoding::Gzip),
                "deflate" => Some(BodyCoding::Deflate),
                "br" => Some(BodyCoding::Brotli),
                "zstd" => Some(BodyCoding::Zstd),
                other => {
                    let shown: String = other.chars().filter(|c| !c.is_control()).take(40).collect();
                    let what = format!("the answer is encoded as `{shown}`, which was not asked for");
                    return Err(BodyError::Undecodable(what));
                }
            });
        }
    }
    // Each coding may multiply the size, so a handful of bytes could become terabytes.
    if codings.len() > MOST_CODINGS {
        let what = format!("the answer is encoded {} times over", codings.len());
        return Err(BodyError::Undecodable(what));
    }
    Ok(codings)
}

/// What is left when one coding is undone. Proxies forget to take the header away when they decode: what does not begin
/// like a coding that has a mark is not in it.
async fn decoded(mut reader: ByteStream, coding: BodyCoding) -> io::Result<ByteStream> {
    let mut head = Vec::with_capacity(HEAD);
    while head.len() < HEAD {
        let mut byte = [0];
        if reader.read(&mut byte).await? == 0 {
            break;
        }
        head.extend_from_slice(&byte);
    }
    let (zlib, empty) = (is_zlib(&head), head.is_empty());
    let marked = match coding {
        BodyCoding::Gzip => head.starts_with(&[0x1f, 0x8b]),
        // A frame, or one that is to be passed over (RFC 8878, section 3.1.2).
        BodyCoding::Zstd => {
            head.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) || matches!(head[..], [0x50..=0x5f, 0x2a, 0x4d, 0x18])
        }
        BodyCoding::Deflate | BodyCoding::Brotli => true,
    };
    let whole = Cursor::new(head).chain(reader);
    if empty || !marked {
        return Ok(Box::new(whole));
    }
    Ok(match coding {
        BodyCoding::Gzip => {
            let mut gzip = GzipDecoder::new(whole);
            // RFC 1952, section 2.2: a gzip file may have several members.
            gzip.multiple_members(true);
            buffered(gzip)
        }
        // RFC 9110, section 8.4.1.2: `deflate` means the zlib format, and some servers send raw deflate.
        BodyCoding::Deflate if zlib => buffered(ZlibDecoder::new(whole)),
        BodyCoding::Deflate => buffered(DeflateDecoder::new(whole)),
        BodyCoding::Brotli => buffered(BrotliDecoder::new(whole)),
        BodyCoding::Zstd => {
            let mut zstd = ZstdDecoder::with_params(whole, &[DParameter::window_log_max(ZSTD_WINDOW)]);
            zstd.multiple_members(true);
            buffered(zstd)
        }
    })
}

fn buffered(reader: impl AsyncRead + Send + Unpin + 'static) -> ByteStream {
    Box::new(BufReader::with_capacity(PIECE, reader))
}

/// Whether bytes begin like zlib's (RFC 1950): deflate, a window it can have, and a check over both.
fn is_zlib(head: &[u8]) -> bool {
    let [method, flags, ..] = head else { return false };
    method & 0x0f == 8 && method >> 4 <= 7 && u16::from_be_bytes([*method, *flags]) % 31 == 0
}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Broken(what) => write!(f, "the connection broke in the middle of the answer: {what}"),
            Self::Undecodable(what) => f.write_str(what),
        }
    }
}

impl Error for BodyError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(lines: &[&str]) -> Result<Vec<BodyCoding>, String> {
        let mut map = HeaderMap::new();
        for line in lines {
            map.append(CONTENT_ENCODING, line.parse().unwrap());
        }
        codings(&map).map_err(|error| error.to_string())
    }

    #[test]
    fn codings_are_read_from_one_line_or_many_in_their_order() {
        assert_eq!(of(&[]), Ok(vec![]));
        assert_eq!(of(&["identity", " "]), Ok(vec![]));
        assert_eq!(
            of(&["X-GZip, br", "zstd"]),
            Ok(vec![BodyCoding::Gzip, BodyCoding::Brotli, BodyCoding::Zstd])
        );
        assert_eq!(
            of(&["compress"]),
            Err("the answer is encoded as `compress`, which was not asked for".into())
        );
        assert_eq!(of(&["gzip,gzip,gzip,gzip,gzip"]), Err("the answer is encoded 5 times over".into()));
    }

    const TEXT: &str =
        "data: {\"choices\":[{\"delta\":{\"content\":\"Zwölf Boxkämpfer\"}}]}\n\ndata: [DONE]\n\n";
    /// A header, and the codings that it says.
    const ALL: [(&str, &str); 9] = [
        ("identity", ""),
        ("gzip", "g"),
        ("x-gzip", "gg"),
        ("deflate", "z"),
        ("deflate", "d"),
        ("br", "b"),
        ("zstd", "s"),
        ("gzip, br", "g|b"),
        ("deflate, zstd, gzip", "d|s|g"),
    ];

    /// Encodes: `g` gzip, `z` zlib, `d` deflate, `b` brotli, `s` zstd; `gg` is two members, `|` one coding on top of
    /// another.
    async fn encoded(text: &[u8], codings: &str) -> Vec<u8> {
        use async_compression::tokio::bufread as with;
        let mut bytes = text.to_vec();
        for coding in codings.split('|').filter(|coding| !coding.is_empty()) {
            let mut all = Vec::new();
            let (first, second) = bytes.split_at(if coding == "gg" { bytes.len() / 2 } else { bytes.len() });
            for part in [first, second].into_iter().filter(|part| !part.is_empty()) {
                match coding {
                    "g" | "gg" => drop(with::GzipEncoder::new(part).read_to_end(&mut all).await.unwrap()),
                    "z" => drop(with::ZlibEncoder::new(part).read_to_end(&mut all).await.unwrap()),
                    "d" => drop(with::DeflateEncoder::new(part).read_to_end(&mut all).await.unwrap()),
                    "b" => drop(
                        with::BrotliEncoder::with_quality(part, async_compression::Level::Fastest)
                            .read_to_end(&mut all)
                            .await
                            .unwrap(),
                    ),
                    _ => drop(with::ZstdEncoder::new(part).read_to_end(&mut all).await.unwrap()),
                }
            }
            bytes = all;
        }
        bytes
    }

    fn response(header: &str, pieces: Vec<Vec<u8>>) -> Response {
        let stream = futures_util::stream::iter(pieces.into_iter().map(Ok::<_, io::Error>));
        let body = reqwest::Body::wrap_stream(stream);
        http::Response::builder().header(CONTENT_ENCODING, header).body(body).unwrap().into()
    }

    async fn read(header: &str, pieces: Vec<Vec<u8>>) -> Result<Vec<u8>, BodyError> {
        let mut body = HttpBody::of(response(header, pieces))?;
        let mut all = Vec::new();
        while let Some(piece) = body.chunk().await? {
            assert!(piece.len() <= PIECE);
            all.extend_from_slice(&piece);
        }
        Ok(all)
    }

    #[tokio::test]
    async fn every_coding_is_undone_however_its_bytes_are_cut() {
        for (header, codings) in ALL {
            let bytes = encoded(TEXT.as_bytes(), codings).await;
            for at in 0..=bytes.len() {
                let (first, second) = bytes.split_at(at);
                let read = read(header, vec![first.to_vec(), second.to_vec()]).await.unwrap();
                assert_eq!(String::from_utf8_lossy(&read), TEXT, "{header} cut at {at}");
            }
            let each = bytes.iter().map(|byte| vec![*byte]).collect();
            assert_eq!(read(header, each).await.unwrap(), TEXT.as_bytes(), "{header}");
        }
    }

    #[tokio::test]
    async fn what_was_sent_is_read_before_the_rest_comes() {
        use tokio::io::AsyncWriteExt as _;
        for (header, codings) in [("gzip", "g"), ("deflate", "z"), ("br", "b"), ("zstd", "s")] {
            let mut flushed = Vec::new();
            macro_rules! flush {
                ($encoder:ident) => {{
                    let mut encoder = async_compression::tokio::write::$encoder::new(&mut flushed);
                    encoder.write_all(TEXT.as_bytes()).await.unwrap();
                    encoder.flush().await.unwrap();
                }};
            }
            match codings {
                "g" => flush!(GzipEncoder),
                "z" => flush!(ZlibEncoder),
                "b" => flush!(BrotliEncoder),
                _ => flush!(ZstdEncoder),
            }
            let stream = futures_util::stream::once(std::future::ready(Ok::<_, io::Error>(flushed)));
            let stream = stream.chain(futures_util::stream::pending());
            let response = http::Response::builder().header(CONTENT_ENCODING, header);
            let mut body =
                HttpBody::of(response.body(reqwest::Body::wrap_stream(stream)).unwrap().into()).unwrap();
            let mut all = Vec::new();
            while all.len() < TEXT.len() {
                let piece = tokio::time::timeout(std::time::Duration::from_secs(5), body.chunk()).await;
                all.extend_from_slice(&piece.unwrap_or_else(|_| panic!("{header} waits")).unwrap().unwrap());
            }
            assert_eq!(all, TEXT.as_bytes(), "{header}");
        }
    }

    #[tokio::test]
    async fn a_body_that_ends_too_early_is_broken_and_one_of_other_bytes_cannot_be_decoded() {
        for (header, codings) in ALL.into_iter().skip(1) {
            let bytes = encoded(TEXT.as_bytes(), codings).await;
            for end in 1..bytes.len() {
                // Between two members nothing is missing that could be known.
                match read(header, vec![bytes[..end].to_vec()]).await {
                    Ok(read) if read.len() < TEXT.len() => {
                        let whole_member = codings == "gg";
                        let no_mark = end < HEAD;
                        assert!(
                            whole_member || no_mark,
                            "{header} ends at {end} of {}: {} bytes",
                            bytes.len(),
                            read.len()
                        );
                    }
                    // It is reported, or only a checksum is missing.
                    Err(BodyError::Broken(_)) | Ok(_) => {}
                    Err(error) => panic!("{header} ends at {end}: {error}"),
                }
            }
            let mut flipped = bytes.clone();
            let middle = flipped.len() / 2;
            flipped[middle] ^= 0xff;
            if let Ok(read) = read(header, vec![flipped]).await {
                assert_ne!(read, TEXT.as_bytes(), "{header}");
            }
        }
    }

    #[tokio::test]
    async fn what_a_proxy_has_decoded_already_is_taken_as_it_is() {
        for header in ["gzip", "zstd", "gzip, gzip"] {
            assert_eq!(read(header, vec![TEXT.into()]).await.unwrap(), TEXT.as_bytes());
        }
        let once = encoded(TEXT.as_bytes(), "g").await;
        assert_eq!(read("gzip, gzip", vec![once]).await.unwrap(), TEXT.as_bytes());
        for (header, _) in ALL {
            assert_eq!(read(header, vec![]).await.unwrap(), b"");
        }
    }

    #[tokio::test]
    async fn a_body_that_grows_without_end_comes_in_small_pieces() {
        let zeros = vec![0; 2 * 1024 * 1024];
        for (header, codings) in [("gzip, gzip", "g|g"), ("br", "b"), ("zstd", "s"), ("deflate", "z|")] {
            let bytes = encoded(&zeros, codings).await;
            assert!(bytes.len() < zeros.len() / 500, "{header}: {}", bytes.len());
            let mut body = HttpBody::of(response(header, vec![bytes])).unwrap();
            let mut read = 0;
            while let Some(piece) = body.chunk().await.unwrap() {
                assert!(piece.len() <= PIECE);
                read += piece.len();
                if read > zeros.len() / 2 {
                    break;
                }
            }
        }
    }

    #[test]
    fn zlib_is_told_from_raw_deflate() {
        assert!(is_zlib(&[0x78, 0x9c]) && is_zlib(&[0x78, 0x01]) && is_zlib(&[0x48, 0x89]));
        assert!(!is_zlib(&[0xcb, 0x48]) && !is_zlib(&[0x78]) && !is_zlib(&[0xab, 0x56]));
    }
}
