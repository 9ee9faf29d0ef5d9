//! Files that a run keeps and that its texts name, as parts of the requests of models that take such ones.
//!
//! The conversation says of each that it is kept, and where ([`crate::engine::KEPT_UNDER`]). So logs, sizes and reductions know
//! texts alone, and a model that takes no such thing reads that there is one that it is not shown.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::header::HeaderMap;
use serde_json::Value;

use super::{Attachment, AttachmentKind, AttachmentSource, Attachments, SaidField};
use crate::context::ToolForm;
use crate::engine::{Failure, KEPT_UNDER, ModelReply};
use crate::host::attached::{AttachedFiles, MediaType};
use crate::host::model::wire::{RefusalWords, StreamDecoder, WireFormat};
use crate::host::port::ModelRequest;
use crate::session::Message;

/// The most files of one request, and the most bytes of them: no provider takes more than 20 images, or bodies of more than 32 MiB. Those
/// that the conversation names last count first.
const MOST_FILES: usize = 20;
const MOST_BYTES: usize = 20 * 1024 * 1024;

/// What a model has refused to be shown.
#[derive(Debug, Default)]
pub(in crate::host::model) struct RefusedMedia {
    images: AtomicBool,
    documents: AtomicBool,
}

/// A conversation that names files, in the wire format of a model: their bytes are in the requests.
pub(in crate::host::model) struct ShownConversation<'a> {
    format: &'a dyn WireFormat,
    form: ToolForm,
    refused: &'a RefusedMedia,
    model: &'a str,
    /// The files, by the handles under which they are kept.
    files: Vec<(String, MediaType, Vec<u8>)>,
}

impl RefusedMedia {
    const fn of(&self, kind: AttachmentKind) -> &AtomicBool {
        match kind {
            AttachmentKind::Image => &self.images,
            AttachmentKind::Document => &self.documents,
        }
    }

    fn has(&self, kind: AttachmentKind) -> bool {
        self.of(kind).load(Ordering::Relaxed)
    }
}

impl<'a> ShownConversation<'a> {
    /// Reads the files that a conversation names; `None`: it names none.
    pub(in crate::host::model) async fn read(
        messages: &[Message],
        files: &AttachedFiles,
        (format, form): (&'a dyn WireFormat, ToolForm),
        (model, refused): (&'a str, &'a RefusedMedia),
    ) -> Option<Self> {
        let mut handles: Vec<String> = Vec::new();
        for handle in messages.iter().rev().filter_map(shown_text).flat_map(named) {
            if handles.len() < MOST_FILES && !handles.contains(&handle.handle) {
                handles.push(handle.handle);
            }
        }
        if handles.is_empty() {
            return None;
        }
        let files = files.read(handles, MOST_BYTES).await;
        (!files.is_empty()).then_some(Self { format, form, refused, model, files })
    }

    /// The messages with marks in the places of the files that the model takes, and the files.
    fn marked(&self, messages: &[Message]) -> (Vec<Message>, Attachments) {
        let mut attachments = Attachments::default();
        let mut messages = messages.to_vec();
        for message in &mut messages {
            if let Message::User { text, .. } | Message::Tool { text, .. } = message
                && let Some(marked) = self.marked_text(text, &mut attachments)
            {
                *text = marked;
            }
        }
        (messages, attachments)
    }

    fn marked_text(&self, text: &str, attachments: &mut Attachments) -> Option<String> {
        let (mut marked, mut from) = (String::new(), 0);
        for named in named(text) {
            let Some(attachment) = self.attachment(&named) else { continue };
            marked.push_str(text.get(from..named.at.start)?);
            marked.push_str(&attachments.mark(attachment));
            from = named.at.end;
        }
        if from == 0 {
            return None;
        }
        marked.push_str(text.get(from..)?);
        Some(marked)
    }

    /// The file that a text names, if it is there and the model takes it.
    fn attachment(&self, named: &NamedFile) -> Option<Attachment> {
        let (_, media, bytes) = self.files.iter().find(|(handle, ..)| *handle == named.handle)?;
        let kind = kind_of(*media);
        let source = AttachmentSource::Data { mime: media.mime().to_owned(), base64: STANDARD.encode(bytes) };
        let name = named.name.clone().map(|value| SaidField { path: String::new(), value });
        let attachment = Attachment { place: String::new(), kind, source, name, detail: None };
        (self.takes(*media) && !self.refused.has(kind)).then_some(attachment)
    }

    /// Whether the dialect has a part for such files, and the server is not known to refuse it.
    fn takes(&self, media: MediaType) -> bool {
        // Bedrock has other rules for documents.
        media.is_image() || (self.form != ToolForm::Converse && self.format.takes_documents())
    }
}

impl WireFormat for ShownConversation<'_> {
    fn write(&self, request: &ModelRequest<'_>) -> serde_json::Result<Vec<u8>> {
        let (messages, attachments) = self.marked(request.messages);
        let body = self.format.write(&ModelRequest { messages: &messages, ..request.clone() })?;
        if attachments.is_empty() {
            return Ok(body);
        }
        let mut body: Value = serde_json::from_slice(&body)?;
        attachments.put(self.form, &mut body);
        serde_json::to_vec(&body)
    }

    fn read(
        &self,
        body: &[u8],
        headers: &HeaderMap,
        conversation: &[Message],
    ) -> Result<ModelReply, Failure> {
        self.format.read(body, headers, conversation)
    }

    fn begin(&self) -> Box<dyn StreamDecoder> {
        self.format.begin()
    }

    fn sent<'m>(&self, conversation: &'m [Message]) -> Cow<'m, [Message]> {
        let (marked, _) = self.marked(conversation);
        Cow::Owned(marked)
    }

    fn left_out(&self, conversation: &[Message]) -> Vec<String> {
        let mut left_out = self.format.left_out(conversation);
        if self.files.iter().any(|(_, media, _)| !self.takes(*media)) {
            left_out.push(format!("`{}` is not shown documents, which it does not take", self.model));
        }
        left_out
    }

    fn learn(&self, failure: &Failure) -> Option<String> {
        if let Some(learned) = self.format.learn(failure) {
            return Some(learned);
        }
        let kind = refused_kind(failure)?;
        let sent = self.files.iter().any(|(_, media, _)| kind_of(*media) == kind);
        if !sent || self.refused.of(kind).swap(true, Ordering::Relaxed) {
            return None;
        }
        let what = match kind {
            AttachmentKind::Image => "images",
            AttachmentKind::Document => "documents",
        };
        Some(format!("`{}` refused the request, which is sent again without {what}", self.model))
    }
}

const fn kind_of(media: MediaType) -> AttachmentKind {
    if media.is_image() { AttachmentKind::Image } else { AttachmentKind::Document }
}

/// What a model says that it cannot be shown: "does not support image input", "No endpoints found that support image input", "is not a
/// multimodal model", "At most 0 image(s) may be provided", "file content is not supported". That something is wrong with an image
/// is another thing.
fn refused_kind(failure: &Failure) -> Option<AttachmentKind> {
    if !matches!(failure.status, Some(400 | 404 | 415 | 422 | 500 | 501)) {
        return None;
    }
    let said = failure.message.to_ascii_lowercase();
    let says = |any: &[&str]| any.iter().any(|words| said.contains(words));
    let refuses = RefusalWords::of(failure).refuses()
        || says(&[
            "no endpoints found that support",
            "not a multimodal",
            "at most 0 image",
            "missing data required for image",
        ]);
    if !refuses {
        return None;
    }
    if says(&["image", "multimodal", "vision"]) {
        return Some(AttachmentKind::Image);
    }
    says(&["document", "file", "pdf"]).then_some(AttachmentKind::Document)
}

/// The text of a message that may name files: what a model says names nothing.
fn shown_text(message: &Message) -> Option<&str> {
    match message {
        Message::User { text, .. } | Message::Tool { text, .. } => Some(text),
        Message::System { .. } | Message::Assistant { .. } => None,
    }
}

/// A place where a text says that something is kept: `[image a.png, image/png, 8 bytes: not shown, kept under the handle "a-1"]`.
#[derive(Debug, PartialEq, Eq)]
struct NamedFile {
    at: core::ops::Range<usize>,
    handle: String,
    /// How the file is called, if it says so.
    name: Option<String>,
}

/// Those places.
fn named(text: &str) -> Vec<NamedFile> {
    text.match_indices(KEPT_UNDER)
        .filter_map(|(at, words)| {
            let (before, after) = (text.get(..at)?, text.get(at.saturating_add(words.len())..)?);
            let begin = before.rfind(['[', '\n']).filter(|begin| before[*begin..].starts_with('['))?;
            let (handle, _) = after.split_once("\"]")?;
            let is_handle = handle.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
            if !is_handle {
                return None;
            }
            let end = at.saturating_add(words.len()).saturating_add(handle.len()).saturating_add(2);
            let (said, _) = before.get(begin.saturating_add(1)..)?.split_once(',')?;
            let name = said.split_once(' ').map(|(_, name)| Cow::Borrowed(name).into_owned());
            Some(NamedFile { at: begin..end, handle: handle.to_owned(), name })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::host::model::fuzzed::{messages, request, responses};
    use crate::host::model::wire::responses::ResponsesFormat;

    fn handles(text: &str) -> Vec<(String, Option<String>)> {
        named(text).into_iter().map(|named| (named.handle, named.name)).collect()
    }

    #[test]
    fn a_file_is_named_by_a_line_that_says_where_it_is_kept() {
        let text = "see:\n[image, image/png, 8 bytes: not shown, kept under the handle \"r1-0-0\"]\n\
                    [document a b.pdf, application/pdf, 9 bytes: not shown, kept under the handle \"a-07\"] end";
        let expected = [("r1-0-0".to_owned(), None), ("a-07".to_owned(), Some("a b.pdf".to_owned()))];
        assert_eq!(handles(text), expected);
        assert_eq!(text.get(named(text)[1].at.end..), Some(" end"));
        for other in [
            "[image, image/png, 8 bytes: not shown]",
            "image, image/png, 8 bytes: not shown, kept under the handle \"r1\"]",
            "[image, image/png\n, 8 bytes: not shown, kept under the handle \"r1\"]",
            "[image, image/png, 8 bytes: not shown, kept under the handle \"../x\"]",
            "[image, image/png, 8 bytes: not shown, kept under the handle \"r1",
        ] {
            assert_eq!(handles(other), [], "{other}");
        }
    }

    #[test]
    fn what_a_request_with_files_leaves_out_is_said_too() {
        let (format, refused) = (messages(), RefusedMedia::default());
        let (model, form) = ("main", ToolForm::Messages);
        let shown = ShownConversation { format: &format, form, refused: &refused, model, files: Vec::new() };
        let extra = json!({"reasoning_content": "hm"}).as_object().cloned().unwrap();
        let said = [Message::Assistant { text: "Hi".into(), calls: Vec::new(), extra }];
        assert_eq!(shown.left_out(&said).len(), 1);
    }

    #[test]
    fn a_conversation_with_files_is_continued_until_they_are_refused() {
        let (format, refused) = (ResponsesFormat { continues: true, ..responses() }, RefusedMedia::default());
        let files = vec![("a-1".to_owned(), MediaType::Png, b"png".to_vec())];
        let (model, form) = ("main", ToolForm::Responses);
        let shown = ShownConversation { format: &format, form, refused: &refused, model, files };
        let text = "see: [image, image/png, 3 bytes: not shown, kept under the handle \"a-1\"]";
        let mut conversation = vec![Message::user(text)];
        let output = json!([{"type": "message", "content": [{"type": "output_text", "text": "A fox."}]}]);
        let body = json!({"id": "resp_1", "status": "completed", "output": output}).to_string();
        let reply = format.read(body.as_bytes(), &HeaderMap::new(), &shown.sent(&conversation)).unwrap();
        let said = Message::Assistant { text: reply.text, calls: Vec::new(), extra: reply.extra };
        conversation.extend([said, Message::user("Sure?")]);
        let sent = || {
            let body = shown.write(&request(&conversation)).unwrap();
            let body: Value = serde_json::from_slice(&body).unwrap();
            (body["previous_response_id"].clone(), body["input"].as_array().unwrap().len())
        };
        assert_eq!(sent(), (json!("resp_1"), 1));
        // The server has the image, and is no longer to see it.
        refused.images.store(true, Ordering::Relaxed);
        assert_eq!(sent(), (Value::Null, 3));
    }

    #[test]
    fn a_refusal_is_of_images_or_of_documents_and_a_broken_image_is_none() {
        let kind = |status: u16, message: &str| {
            refused_kind(&Failure { status: Some(status), message: message.into(), ..Failure::default() })
        };
        for message in [
            "This model does not support image input.",
            "No endpoints found that support image input",
            "m is not a multimodal model",
            "At most 0 image(s) may be provided in one request.",
        ] {
            assert_eq!(kind(404, message), Some(AttachmentKind::Image), "{message}");
        }
        assert_eq!(kind(400, "file content is not supported"), Some(AttachmentKind::Document));
        for (status, message) in [
            (400, "Could not process image"),
            (429, "image input is not supported"),
            (400, "unknown field: seed"),
        ] {
            assert_eq!(kind(status, message), None, "{message}");
        }
    }
}
