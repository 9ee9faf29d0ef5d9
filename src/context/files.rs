//! The tokens of documents, recordings and films in a request. Their base64 itself is not read by models.

use serde_json::Value;

use super::images::{UNKNOWN_SIZE, decoded, little};
use crate::engine::KEPT_UNDER;

/// The text before base64 in an address.
pub(super) const DATA: &str = "base64,";
/// A page of a document: Anthropic counts 1500 to 3000 tokens for its text, and servers may also show it as an image.
const PAGE: u64 = 3000;
/// The number of bytes per page, for files whose pages cannot be counted.
const BYTES_OF_PAGE: usize = 64 << 10;
/// The tokens of a second of speech, as `OpenAI` counts.
const SECOND: u64 = 10;
/// The bytes of a second of compressed sound, at 128 kbit/s.
const BYTES_OF_SECOND: usize = 16_000;
/// The tokens of a second of film with sound, as Gemini counts.
const SECOND_OF_FILM: u64 = 263;
/// The bytes of a second of film, at 1 Mbit/s.
const BYTES_OF_SECOND_OF_FILM: usize = 125_000;
/// The number of characters of a recording that are examined: its rate is at the start.
const LOOKED_AT: usize = 64;

/// The most files that a message is taken to show: no provider takes more images in a request.
const MOST_SHOWN: usize = 20;

/// The tokens of the images and PDFs that a text says are kept: models are shown them in the place of those words.
pub(super) fn kept_tokens(text: &str) -> u64 {
    let named = text.match_indices(KEPT_UNDER).take(MOST_SHOWN);
    named.filter_map(|(at, _)| kept_file(text.get(..at)?)).fold(0, u64::saturating_add)
}

/// The tokens of a file by what is said of it: `[image a.png, image/png, 8 bytes`.
fn kept_file(said: &str) -> Option<u64> {
    let (_, said) = said.rsplit_once('[')?;
    let mut parts = said.rsplit(", ");
    let bytes: usize = parts.next()?.strip_suffix(" bytes")?.parse().ok()?;
    match parts.next()? {
        "image/png" | "image/jpeg" | "image/gif" | "image/webp" => Some(UNKNOWN_SIZE),
        "application/pdf" => Some(pages_of_size(bytes).saturating_mul(PAGE)),
        _ => None,
    }
}

/// The countable content of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CountedFile<'v> {
    /// So many tokens.
    Tokens(u64),
    /// The tokens of this text.
    Text(String),
    /// The tokens of these parts.
    Parts(&'v Value),
}

/// The countable content of a part that holds or names a file; `None`: it is another kind of part.
pub(super) fn counted(part: &Value) -> Option<CountedFile<'_>> {
    let text = |value: &Value, field: &str| value.get(field).and_then(Value::as_str).map(str::to_owned);
    let data = |value: &Value| file(value.get("file_data").and_then(Value::as_str), None);
    match part.get("type")?.as_str()? {
        "document" => {
            let source = part.get("source")?;
            let data = source.get("data").and_then(Value::as_str);
            Some(match source.get("type").and_then(Value::as_str) {
                Some("text") => CountedFile::Text(data?.to_owned()),
                Some("content") => CountedFile::Parts(source.get("content")?),
                _ => file(data, text(source, "media_type").as_deref()),
            })
        }
        "file" => Some(data(part.get("file").unwrap_or(part))),
        "input_file" => Some(data(part)),
        kind @ ("input_audio" | "audio" | "audio_url") => {
            Some(CountedFile::Tokens(sound_tokens(data_of(part, kind).unwrap_or_default())))
        }
        kind @ ("video" | "video_url" | "input_video") => {
            Some(CountedFile::Tokens(data_of(part, kind).map_or(PAGE, film_tokens)))
        }
        _ => None,
    }
}

/// The base64 of a recording or a film: in the field named like the part, in its source, or in an address.
fn data_of<'v>(part: &'v Value, kind: &str) -> Option<&'v str> {
    let inner = part.get(kind).or_else(|| part.get("source")).unwrap_or(part);
    let address = inner.as_str().or_else(|| inner.get("url")?.as_str());
    let inside = || address?.split_once(DATA).map(|(_, base64)| base64);
    inner.get("data").and_then(Value::as_str).or_else(inside)
}

/// A file in base64, with or without an address prefix; `None`: the file is not included, and counts as one page.
fn file<'v>(data: Option<&str>, kind: Option<&str>) -> CountedFile<'v> {
    // A file that is only named may have any size. One page keeps the count above zero.
    let Some(data) = data else { return CountedFile::Tokens(PAGE) };
    let (before, base64) = data.split_once(DATA).unwrap_or_default();
    let base64 = if base64.is_empty() { data } else { base64 };
    let bytes = decoded(base64.as_bytes());
    let kind = kind.unwrap_or_else(|| before.trim_start_matches("data:"));
    if kind.starts_with("text/") || kind.starts_with("application/json") {
        return CountedFile::Text(String::from_utf8_lossy(&bytes).into_owned());
    }
    CountedFile::Tokens(pages(&bytes).saturating_mul(PAGE))
}

/// The pages of a document: the pages listed in a PDF, or an estimate from its size.
fn pages(bytes: &[u8]) -> u64 {
    let named = if bytes.starts_with(b"%PDF") { named_pages(bytes) } else { 0 };
    if named > 0 { named } else { pages_of_size(bytes.len()) }
}

/// The pages that so many bytes are taken for.
fn pages_of_size(bytes: usize) -> u64 {
    number(bytes.div_ceil(BYTES_OF_PAGE).max(1))
}

/// The pages of a PDF that are uncompressed objects.
fn named_pages(bytes: &[u8]) -> u64 {
    const NAME: &[u8] = b"/Type";
    let names = bytes.windows(NAME.len()).enumerate().filter(|(_, name)| *name == NAME);
    let pages = names.filter(|(at, _)| {
        let rest = bytes.get(at.saturating_add(NAME.len())..).unwrap_or_default();
        // `/Pages` is the tree of pages, not one of them.
        rest.trim_ascii_start()
            .strip_prefix(b"/Page")
            .is_some_and(|rest| rest.first().is_none_or(|next| !next.is_ascii_alphanumeric()))
    });
    number(pages.count())
}

/// The tokens of a recording in base64.
fn sound_tokens(base64: &str) -> u64 {
    let head = decoded(base64.as_bytes().get(..LOOKED_AT).unwrap_or(base64.as_bytes()));
    // In a WAVE file the bytes per second are at offset 28.
    let rate = if head.starts_with(b"RIFF") { little(&head, 28, 4) } else { None };
    let rate = rate.and_then(|rate| usize::try_from(rate).ok()).filter(|rate| *rate > 0);
    // Four characters of base64 are three bytes (RFC 4648).
    let bytes = base64.len().div_ceil(4).saturating_mul(3);
    number(bytes.div_ceil(rate.unwrap_or(BYTES_OF_SECOND)).max(1)).saturating_mul(SECOND)
}

/// The tokens of a film in base64.
fn film_tokens(base64: &str) -> u64 {
    let bytes = base64.len().div_ceil(4).saturating_mul(3);
    number(bytes.div_ceil(BYTES_OF_SECOND_OF_FILM).max(1)).saturating_mul(SECOND_OF_FILM)
}

fn number(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::engine::{ContentPart, content_text};

    /// `%PDF-1.4` with a list of pages and two of them.
    const PDF: &str = "JVBERi0xLjQKPDwvVHlwZS9QYWdlcy9Db3VudCAyPj4KPDwvVHlwZSAvUGFnZS9QYXJlbnQgMSAwIFI+Pgo8PC9UeXBlL1BhZ2U+Pgo=";

    #[test]
    fn the_pages_of_a_document_are_counted() {
        let document = json!({"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": PDF}});
        assert_eq!(counted(&document), Some(CountedFile::Tokens(2 * PAGE)));
        let data = format!("data:application/pdf;base64,{PDF}");
        for part in [
            json!({"type": "file", "file": {"filename": "a.pdf", "file_data": data}}),
            json!({"type": "input_file", "filename": "a.pdf", "file_data": data}),
        ] {
            assert_eq!(counted(&part), Some(CountedFile::Tokens(2 * PAGE)), "{part}");
        }
    }

    #[test]
    fn a_document_whose_pages_are_compressed_is_counted_by_its_size() {
        let data = "A".repeat(1 << 20);
        let document = json!({"type": "document", "source": {"type": "base64", "data": data}});
        assert_eq!(counted(&document), Some(CountedFile::Tokens(12 * PAGE)));
    }

    #[test]
    fn a_file_that_a_text_names_is_counted_by_its_type_and_size() {
        let part = |kind: &str, media_type: &str, bytes| ContentPart::Binary {
            kind: kind.into(),
            media_type: media_type.into(),
            bytes,
            handle: Some("a-1".into()),
        };
        let text = content_text([
            ContentPart::Text("See [this], 9 bytes".into()),
            part("image a.png", "image/png", 8),
            part("document b.pdf", "application/pdf", 3 << 16),
            part("audio", "audio/wav", 900),
        ]);
        assert_eq!(kept_tokens(&text), UNKNOWN_SIZE + 3 * PAGE);
        let images = content_text(vec![part("image", "image/webp", 8); 50]);
        assert_eq!(kept_tokens(&images), 20 * UNKNOWN_SIZE);
        for other in ["[image, image/png, 8 bytes: not shown]", "image/png, 8 bytes", KEPT_UNDER] {
            assert_eq!(kept_tokens(other), 0, "{other}");
        }
    }

    #[test]
    fn a_film_is_counted_by_its_size() {
        let data = "A".repeat(2_000_000);
        for part in [
            json!({"type": "video_url", "video_url": {"url": format!("data:video/mp4;base64,{data}")}}),
            json!({"type": "video", "source": {"type": "base64", "data": data}}),
            json!({"type": "input_video", "input_video": {"data": data}}),
        ] {
            assert_eq!(counted(&part), Some(CountedFile::Tokens(12 * SECOND_OF_FILM)));
        }
        let elsewhere = json!({"type": "video_url", "video_url": {"url": "https://x/y.mp4"}});
        assert_eq!(counted(&elsewhere), Some(CountedFile::Tokens(PAGE)));
    }

    #[test]
    fn a_recording_may_be_named_in_several_ways() {
        let data = "A".repeat(4 << 20);
        for part in [
            json!({"type": "input_audio", "input_audio": {"data": data, "format": "mp3"}}),
            json!({"type": "audio", "source": {"type": "base64", "data": data}}),
            json!({"type": "audio_url", "audio_url": {"url": format!("data:audio/mp3;base64,{data}")}}),
        ] {
            assert_eq!(counted(&part), Some(CountedFile::Tokens(197 * SECOND)), "{}", part["type"]);
        }
    }

    #[test]
    fn a_document_that_is_somewhere_else_is_taken_for_a_page() {
        for part in [
            json!({"type": "document", "source": {"type": "url", "url": "https://x/y.pdf"}}),
            json!({"type": "file", "file": {"file_id": "f1"}}),
            json!({"type": "input_file", "file_url": "https://x/y.pdf"}),
        ] {
            assert_eq!(counted(&part), Some(CountedFile::Tokens(PAGE)), "{part}");
        }
    }

    #[test]
    fn a_document_of_text_is_text() {
        let text = json!({"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "Rain."}});
        assert_eq!(counted(&text), Some(CountedFile::Text("Rain.".into())));
        let text = json!({"type": "file", "file": {"file_data": "data:text/plain;base64,UmFpbi4="}});
        assert_eq!(counted(&text), Some(CountedFile::Text("Rain.".into())));
        let parts = json!({"type": "document", "source": {"type": "content", "content": "Rain."}});
        assert_eq!(counted(&parts), Some(CountedFile::Parts(&json!("Rain."))));
    }

    #[test]
    fn a_recording_is_counted_by_its_seconds() {
        let sound = |data: &str| {
            let part = json!({"type": "input_audio", "input_audio": {"data": data, "format": "x"}});
            assert_eq!(counted(&part), Some(CountedFile::Tokens(sound_tokens(data))));
            sound_tokens(data)
        };
        // 12 kB of unknown format, at 16 kB per second.
        assert_eq!(sound(&"A".repeat(16_000)), 10);
        assert_eq!(sound(&"A".repeat(160_000)), 80);
        // A WAV of 8000 bytes per second: `RIFF`, 24 irrelevant bytes, and the rate.
        let wav = format!("UklGRgAA{}AEAfAAAA", "A".repeat(28));
        let rate = little(&decoded(wav.as_bytes()), 28, 4);
        assert_eq!(rate, Some(8000));
        assert_eq!(sound(&(wav + &"A".repeat(16_000))), 20);
    }

    #[test]
    fn what_is_no_file_is_not_counted_here() {
        for part in
            [json!({"type": "text", "text": "a"}), json!({"type": "document"}), json!({}), json!(null)]
        {
            assert_eq!(counted(&part), None, "{part}");
        }
    }
}
