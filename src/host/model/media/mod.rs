//! Images and documents of a request. In the texts of the neutral form a mark stands for each; it is replaced once the request
//! is written for a model (`written.rs`).

mod kept;
mod written;

use core::hash::{Hash, Hasher};

use xxhash_rust::xxh3::Xxh3;

pub(super) use self::kept::{RefusedMedia, ShownConversation};
use crate::context::ToolForm;
use crate::host::attached::MediaType;

/// Begins and ends a mark: a character that has no meaning (the private use area of Unicode).
const EDGE: char = '\u{F8FF}';
/// What stands between two texts, and so around a mark.
const GAP: &str = "\n\n";

/// The images and documents of a request, by the number in their marks.
#[derive(Debug, Default)]
pub(in crate::host::model) struct Attachments(Vec<(String, Attachment)>);

/// An image or a document.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::host::model) struct Attachment {
    /// Where it is in the request.
    pub(in crate::host::model) place: String,
    pub(in crate::host::model) kind: AttachmentKind,
    pub(in crate::host::model) source: AttachmentSource,
    /// How it is called.
    pub(in crate::host::model) name: Option<SaidField>,
    /// With how much detail the model sees it.
    pub(in crate::host::model) detail: Option<SaidField>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::host::model) enum AttachmentKind {
    Image,
    Document,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::host::model) enum AttachmentSource {
    Data { mime: String, base64: String },
    Url { mime: Option<String>, url: String },
}

/// A field that not every dialect has.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::host::model) struct SaidField {
    pub(in crate::host::model) path: String,
    pub(in crate::host::model) value: String,
}

/// A piece of a text that has marks.
#[derive(Debug, PartialEq, Eq)]
enum MarkedPiece<'a> {
    Text(&'a str),
    Attached(&'a Attachment),
}

impl Attachments {
    /// Keeps an attachment; what is returned stands for it in a text.
    pub(in crate::host::model) fn mark(&mut self, attachment: Attachment) -> String {
        let number = self.0.len();
        // A text of the client that looks like a mark is none: the digest says so.
        let mut digest = Xxh3::new();
        attachment.hash(&mut digest);
        let mark = format!("{EDGE}{number}:{:016x}{EDGE}", digest.finish());
        self.0.push((mark.clone(), attachment));
        mark
    }

    pub(in crate::host::model) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The place of one that a model of that dialect cannot have.
    #[cfg(feature = "serve")]
    pub(in crate::host::model) fn refused_by(&self, dialect: ToolForm) -> Option<&str> {
        let refused = |attachment: &&Attachment| !attachment.fits(dialect);
        let attachment = self.0.iter().map(|(_, attachment)| attachment).find(refused)?;
        Some(&attachment.place)
    }

    /// The fields of attachments that a dialect does not have.
    #[cfg(feature = "serve")]
    pub(in crate::host::model) fn left_out(&self, dialect: ToolForm) -> impl Iterator<Item = &str> {
        let fields = self.0.iter().flat_map(move |(_, attachment)| {
            let name = attachment.name.as_ref().filter(|_| !attachment.keeps_name(dialect));
            let has_detail = matches!(dialect, ToolForm::Chat | ToolForm::Responses);
            name.into_iter().chain(attachment.detail.as_ref().filter(|_| !has_detail))
        });
        fields.map(|field| &*field.path)
    }

    /// The pieces of a text; `None`: it has no mark.
    fn pieces<'a>(&'a self, text: &'a str) -> Option<Vec<MarkedPiece<'a>>> {
        let (mut pieces, mut rest, mut searched) = (Vec::new(), text, 0);
        while let Some(at) = rest.get(searched..)?.find(EDGE).map(|at| at.saturating_add(searched)) {
            let (before, marked) = rest.split_at(at);
            let Some((mark, attachment)) = self.begins(marked) else {
                searched = at.saturating_add(EDGE.len_utf8());
                continue;
            };
            let before = before.strip_suffix(GAP).unwrap_or(before);
            pieces.extend((!before.is_empty()).then_some(MarkedPiece::Text(before)));
            pieces.push(MarkedPiece::Attached(attachment));
            let after = marked.strip_prefix(mark).unwrap_or_default();
            (rest, searched) = (after.strip_prefix(GAP).unwrap_or(after), 0);
        }
        if pieces.is_empty() {
            return None;
        }
        pieces.extend((!rest.is_empty()).then_some(MarkedPiece::Text(rest)));
        Some(pieces)
    }

    /// The mark that a text begins with.
    fn begins(&self, text: &str) -> Option<(&str, &Attachment)> {
        let number: usize = text.strip_prefix(EDGE)?.split_once(':')?.0.parse().ok()?;
        let (mark, attachment) = self.0.get(number)?;
        text.starts_with(mark.as_str()).then_some((mark, attachment))
    }
}

impl Attachment {
    /// Whether the dialect has a part for it.
    fn fits(&self, dialect: ToolForm) -> bool {
        match (dialect, &self.source) {
            // `File` in `chat_completion_content_part_param.py` of OpenAI's SDK has no address.
            (ToolForm::Chat, AttachmentSource::Url { .. }) => self.kind == AttachmentKind::Image,
            // `FileData` in `types.py` of google-genai: the type is required.
            (ToolForm::Gemini, AttachmentSource::Url { mime, .. }) => mime.is_some(),
            (ToolForm::Converse, _) => self.converse_format().is_some(),
            _ => true,
        }
    }

    /// The format of an image as Bedrock names it (`ImageFormat` of its service model); `None`: it takes no such thing. An address
    /// there is one of S3's.
    fn converse_format(&self) -> Option<&'static str> {
        let AttachmentSource::Data { mime, .. } = &self.source else { return None };
        MediaType::of_mime(mime).filter(|media| media.is_image()).map(MediaType::subtype)
    }

    /// Whether the dialect has a field for its name.
    #[cfg(feature = "serve")]
    const fn keeps_name(&self, dialect: ToolForm) -> bool {
        let is_document = matches!(self.kind, AttachmentKind::Document);
        let has_address = matches!(self.source, AttachmentSource::Url { .. });
        match dialect {
            ToolForm::Chat | ToolForm::Messages => is_document,
            ToolForm::Responses => is_document && !has_address,
            ToolForm::Gemini | ToolForm::Converse => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(url: &str) -> Attachment {
        let source = AttachmentSource::Url { mime: None, url: url.into() };
        Attachment { place: "p".into(), kind: AttachmentKind::Image, source, name: None, detail: None }
    }

    #[test]
    fn a_text_is_parted_at_its_marks_and_at_nothing_that_looks_like_one() {
        let mut all = Attachments::default();
        let (one, other) = (all.mark(image("a")), all.mark(image("a")));
        assert_ne!(one, other);
        let forged = format!("{EDGE}0:0000000000000000{EDGE}{EDGE}7:{EDGE}");
        assert_eq!(all.pieces(&forged), None);
        let text = format!("{forged}{GAP}{one}{GAP}{other}{GAP}b\n");
        let a = image("a");
        let attached = || MarkedPiece::Attached(&a);
        let expected = vec![MarkedPiece::Text(&forged), attached(), attached(), MarkedPiece::Text("b\n")];
        assert_eq!(all.pieces(&text), Some(expected));
    }
}
