//! Images and documents as each dialect writes them.

use super::fields::{Fields, Unconvertible};
use crate::host::attached::MediaType;
use crate::host::model::media::{Attachment, AttachmentKind, AttachmentSource, SaidField};

/// Files of Google's, which no other provider can open.
const GOOGLE: [&str; 2] =
    ["https://generativelanguage.googleapis.com/", "https://aiplatform.googleapis.com/"];

/// A part of a chat; `None`: it is neither an image nor a document.
pub(super) fn chat(kind: &str, part: &mut Fields) -> Result<Option<Attachment>, Unconvertible> {
    match kind {
        "image_url" => {
            let missing = Unconvertible::malformed(part.path("image_url"), "is missing");
            let mut image = part.object("image_url")?.ok_or(missing)?;
            let url = image.required("url")?;
            let detail = said(&mut image, "detail")?;
            let read = Attachment::of_url(image.path("url"), AttachmentKind::Image, url)?;
            refuse_rest(&image)?;
            Ok(Some(Attachment { detail, ..read }))
        }
        "file" => {
            let missing = Unconvertible::malformed(part.path("file"), "is missing");
            let mut file = part.object("file")?.ok_or(missing)?;
            let name = said(&mut file, "filename")?;
            file.refuse(&["file_id"])?;
            let data = file.required("file_data")?;
            let read = Attachment::of_url(file.path("file_data"), AttachmentKind::Document, data)?;
            refuse_rest(&file)?;
            Ok(Some(Attachment { name, ..read }))
        }
        _ => Ok(None),
    }
}

/// A part of a message or of a result of Responses; `None`: it is neither an image nor a document.
pub(super) fn responses(kind: &str, part: &mut Fields) -> Result<Option<Attachment>, Unconvertible> {
    match kind {
        "input_image" => {
            part.refuse(&["file_id"])?;
            let url = part.required("image_url")?;
            let read = Attachment::of_url(part.path("image_url"), AttachmentKind::Image, url)?;
            Ok(Some(Attachment { detail: said(part, "detail")?, ..read }))
        }
        "input_file" => {
            part.refuse(&["file_id"])?;
            let field = if part.has("file_url") { "file_url" } else { "file_data" };
            let url = part.required(field)?;
            let read = Attachment::of_url(part.path(field), AttachmentKind::Document, url)?;
            Ok(Some(Attachment { name: said(part, "filename")?, ..read }))
        }
        _ => Ok(None),
    }
}

/// A block of Anthropic's; `None`: it is neither an image nor a document.
pub(super) fn messages(kind: &str, block: &mut Fields) -> Result<Option<Attachment>, Unconvertible> {
    let kind = match kind {
        "image" => AttachmentKind::Image,
        "document" => AttachmentKind::Document,
        _ => return Ok(None),
    };
    let missing = Unconvertible::malformed(block.path("source"), "is missing");
    let mut source = block.object("source")?.ok_or(missing)?;
    let read = match source.required("type")?.as_str() {
        "base64" => {
            let (mime, data) = (source.required("media_type")?, source.required("data")?);
            Attachment::of_data(source.path("media_type"), &mime, data)?
        }
        "url" => {
            let url = source.required("url")?;
            Attachment::of_url(source.path("url"), kind, url)?
        }
        // A file that the provider keeps, or a kind that others have not.
        _ => return Err(Unconvertible::new(source.path("type"))),
    };
    if read.kind != kind {
        return Err(Unconvertible::new(source.path("media_type")));
    }
    Ok(Some(Attachment { name: said(block, "title")?, ..read }))
}

/// Bytes of Gemini's.
pub(super) fn gemini_data(data: &mut Fields) -> Result<Attachment, Unconvertible> {
    let (mime, base64) = (data.required("mimeType")?, data.required("data")?);
    let name = said(data, "displayName")?;
    Ok(Attachment { name, ..Attachment::of_data(data.path("mimeType"), &mime, base64)? })
}

/// An address of Gemini's.
pub(super) fn gemini_file(file: &mut Fields) -> Result<Attachment, Unconvertible> {
    let (mime, url) = (file.required("mimeType")?, file.required("fileUri")?);
    let kind = kind_of(&mime).ok_or_else(|| Unconvertible::new(file.path("mimeType")))?;
    if GOOGLE.iter().any(|google| url.starts_with(google)) {
        return Err(Unconvertible::new(file.path("fileUri")));
    }
    let name = said(file, "displayName")?;
    let read = Attachment::of_url(file.path("fileUri"), kind, url)?;
    let AttachmentSource::Url { url, .. } = read.source else {
        return Err(Unconvertible::new(file.path("fileUri")));
    };
    Ok(Attachment { name, source: AttachmentSource::Url { mime: Some(mime), url }, ..read })
}

impl Attachment {
    fn of_data(place: String, mime: &str, base64: String) -> Result<Self, Unconvertible> {
        let mime = mime.to_ascii_lowercase();
        let Some(kind) = kind_of(&mime) else { return Err(Unconvertible::new(place)) };
        let base64 = standard(base64);
        Ok(Self { place, kind, source: AttachmentSource::Data { mime, base64 }, name: None, detail: None })
    }

    /// What an address leads to; the address may be all of it.
    fn of_url(place: String, kind: AttachmentKind, url: String) -> Result<Self, Unconvertible> {
        if let Some((mime, base64)) = of_data_url(&url) {
            let read = Self::of_data(place, mime, base64.to_owned())?;
            return if read.kind == kind { Ok(read) } else { Err(Unconvertible::new(read.place)) };
        }
        if !["https://", "http://"].iter().any(|scheme| url.starts_with(scheme)) {
            return Err(Unconvertible::new(place));
        }
        let mime = type_by_name(&url).map(str::to_owned);
        Ok(Self { place, kind, source: AttachmentSource::Url { mime, url }, name: None, detail: None })
    }
}

fn kind_of(mime: &str) -> Option<AttachmentKind> {
    if MediaType::of_mime(mime) == Some(MediaType::Pdf) {
        return Some(AttachmentKind::Document);
    }
    mime.starts_with("image/").then_some(AttachmentKind::Image)
}

/// The type and the data of a `data:` URL in base64 (RFC 2397).
fn of_data_url(url: &str) -> Option<(&str, &str)> {
    let (head, data) = url.strip_prefix("data:")?.split_once(',')?;
    let head = head.strip_suffix(";base64")?;
    Some((head.split_once(';').map_or(head, |(mime, _)| mime), data))
}

/// Readers of protobuf's JSON take both alphabets of RFC 4648 and no padding, other servers the first one with it.
fn standard(base64: String) -> String {
    let mut base64 =
        if base64.contains(['-', '_']) { base64.replace('-', "+").replace('_', "/") } else { base64 };
    while !base64.len().is_multiple_of(4) {
        base64.push('=');
    }
    base64
}

/// The type by the end of an address's path.
fn type_by_name(url: &str) -> Option<&'static str> {
    let path = url.split(['?', '#']).next()?;
    let (_, end) = path.rsplit('/').next()?.rsplit_once('.')?;
    MediaType::of_extension(&end.to_ascii_lowercase()).map(MediaType::mime)
}

/// A text that not every dialect has. `auto` says nothing.
fn said(fields: &mut Fields, name: &str) -> Result<Option<SaidField>, Unconvertible> {
    let value = fields.text(name)?.filter(|value| value != "auto");
    Ok(value.map(|value| SaidField { path: fields.path(name), value }))
}

/// A field of it that is not known may change what it is.
fn refuse_rest(fields: &Fields) -> Result<(), Unconvertible> {
    if fields.is_empty() { Ok(()) } else { Err(fields.unconvertible()) }
}
