//! Images and documents in the parts of each dialect, in the places of their marks.

use serde_json::{Value, json};

use super::{Attachment, AttachmentKind, AttachmentSource, Attachments, MarkedPiece, SaidField};
use crate::context::ToolForm;

/// A file must have a name (`File` in `chat_completion_content_part_param.py`); a client need not say one.
const NAMELESS: &str = "document.pdf";
/// What a result says that has no text: a blank one is refused by some servers.
const BELOW: &str = "The result is in the next message.";

impl Attachments {
    /// Puts all of them into a request that has their marks.
    pub(in crate::host::model) fn put(&self, dialect: ToolForm, body: &mut Value) {
        match dialect {
            ToolForm::Chat => self.put_in_chat(body),
            ToolForm::Messages => {
                for message in list(body, "messages") {
                    self.put_in_blocks(message);
                }
            }
            ToolForm::Responses => {
                for item in list(body, "input") {
                    self.put_in_text(dialect, item.get_mut("output"));
                    self.put_in_text(dialect, item.get_mut("content"));
                }
            }
            ToolForm::Gemini => {
                for content in list(body, "contents") {
                    self.put_in_contents(content);
                }
            }
            ToolForm::Converse => {
                for message in list(body, "messages") {
                    self.put_in_converse(message);
                }
            }
        }
    }

    /// The parts that a text with marks is; `None`: it has none.
    fn parts(&self, dialect: ToolForm, text: &str) -> Option<Vec<Value>> {
        let parts = self.pieces(text)?.into_iter().map(|piece| match piece {
            MarkedPiece::Text(text) => text_part(dialect, text),
            MarkedPiece::Attached(attachment) => attachment.part(dialect),
        });
        Some(parts.collect())
    }

    /// A text with marks becomes a list of parts.
    fn put_in_text(&self, dialect: ToolForm, content: Option<&mut Value>) {
        if let Some(content) = content
            && let Some(parts) = content.as_str().and_then(|text| self.parts(dialect, text))
        {
            *content = parts.into();
        }
    }

    /// Results of tools have texts alone there: what else they have is in a message after all of them.
    fn put_in_chat(&self, body: &mut Value) {
        let (mut put, mut below) = (Vec::new(), Vec::new());
        for mut message in taken(body, "messages") {
            if message["role"] == "tool" {
                if let Some((text, parts)) = self.parted(ToolForm::Chat, &message["content"]) {
                    message["content"] = if text.is_empty() { BELOW.into() } else { text.into() };
                    let call = message["tool_call_id"].as_str().unwrap_or_default();
                    below.push(text_part(ToolForm::Chat, &format!("Of the result of {call}:")));
                    below.extend(parts);
                }
            } else {
                put.extend(as_user(&mut below));
                self.put_in_text(ToolForm::Chat, message.get_mut("content"));
            }
            put.push(message);
        }
        put.extend(as_user(&mut below));
        body["messages"] = put.into();
    }

    fn put_in_blocks(&self, message: &mut Value) {
        let mut put = Vec::new();
        for mut block in taken(message, "content") {
            if block["type"] == "tool_result" {
                self.put_in_text(ToolForm::Messages, block.get_mut("content"));
            } else if let Some(parts) = self.parts(ToolForm::Messages, text(&block)) {
                put.extend(parts);
                continue;
            }
            put.push(block);
        }
        message["content"] = put.into();
    }

    /// The blocks of a message, or of the result of a tool in it.
    fn put_in_converse(&self, holder: &mut Value) {
        let mut put = Vec::new();
        for mut block in taken(holder, "content") {
            if let Some(result) = block.get_mut("toolResult") {
                self.put_in_converse(result);
            } else if let Some(parts) = self.parts(ToolForm::Converse, text(&block)) {
                put.extend(parts);
                continue;
            }
            put.push(block);
        }
        holder["content"] = put.into();
    }

    /// What results have besides text stands behind all of them: only newer models have a place for it in a result.
    fn put_in_contents(&self, content: &mut Value) {
        let (mut results, mut below, mut rest) = (Vec::new(), Vec::new(), Vec::new());
        for mut part in taken(content, "parts") {
            let response = part.pointer_mut("/functionResponse/response").and_then(Value::as_object_mut);
            let Some(response) = response else {
                match self.parts(ToolForm::Gemini, text(&part)) {
                    Some(pieces) => rest.extend(pieces),
                    None => rest.push(part),
                }
                continue;
            };
            for said in response.values_mut() {
                if let Some((text, parts)) = self.parted(ToolForm::Gemini, said) {
                    *said = text.into();
                    below.extend(parts);
                }
            }
            results.push(part);
        }
        results.extend(below.into_iter().chain(rest));
        content["parts"] = results.into();
    }

    /// The text of a content with marks, and the parts that are none.
    fn parted(&self, dialect: ToolForm, content: &Value) -> Option<(String, Vec<Value>)> {
        let (mut texts, mut parts) = (Vec::new(), Vec::new());
        for piece in self.pieces(content.as_str()?)? {
            match piece {
                MarkedPiece::Text(text) => texts.push(text),
                MarkedPiece::Attached(attachment) => parts.push(attachment.part(dialect)),
            }
        }
        Some((texts.join(super::GAP), parts))
    }
}

impl Attachment {
    fn part(&self, dialect: ToolForm) -> Value {
        let name = self.name.as_ref().map(|SaidField { value, .. }| value.as_str());
        let is_image = self.kind == AttachmentKind::Image;
        match dialect {
            ToolForm::Chat if is_image => {
                let mut image = json!({"url": self.url()});
                self.set_detail(&mut image);
                json!({"type": "image_url", "image_url": image})
            }
            ToolForm::Chat => {
                let file = json!({"filename": name.unwrap_or(NAMELESS), "file_data": self.url()});
                json!({"type": "file", "file": file})
            }
            ToolForm::Responses if is_image => {
                // The type requires it (`response_input_image_param.py`).
                let mut image = json!({"type": "input_image", "image_url": self.url(), "detail": "auto"});
                self.set_detail(&mut image);
                image
            }
            ToolForm::Responses => match &self.source {
                AttachmentSource::Url { url, .. } => json!({"type": "input_file", "file_url": url}),
                AttachmentSource::Data { .. } => json!({
                    "type": "input_file", "filename": name.unwrap_or(NAMELESS), "file_data": self.url(),
                }),
            },
            ToolForm::Messages => {
                let source = match &self.source {
                    AttachmentSource::Url { url, .. } => json!({"type": "url", "url": url}),
                    AttachmentSource::Data { mime, base64 } => {
                        json!({"type": "base64", "media_type": mime, "data": base64})
                    }
                };
                let kind = if is_image { "image" } else { "document" };
                let mut block = json!({"type": kind, "source": source});
                if let Some(name) = name.filter(|_| !is_image) {
                    block["title"] = name.into();
                }
                block
            }
            ToolForm::Gemini => match &self.source {
                AttachmentSource::Url { mime, url } => {
                    json!({"fileData": {"mimeType": mime, "fileUri": url}})
                }
                AttachmentSource::Data { mime, base64 } => {
                    json!({"inlineData": {"mimeType": mime, "data": base64}})
                }
            },
            ToolForm::Converse => {
                let (AttachmentSource::Data { base64, .. } | AttachmentSource::Url { url: base64, .. }) =
                    &self.source;
                json!({"image": {"format": self.converse_format(), "source": {"bytes": base64}}})
            }
        }
    }

    fn set_detail(&self, image: &mut Value) {
        if let Some(SaidField { value, .. }) = &self.detail {
            image["detail"] = value.as_str().into();
        }
    }

    fn url(&self) -> String {
        match &self.source {
            AttachmentSource::Url { url, .. } => url.clone(),
            AttachmentSource::Data { mime, base64 } => format!("data:{mime};base64,{base64}"),
        }
    }
}

fn text_part(dialect: ToolForm, text: &str) -> Value {
    match dialect {
        ToolForm::Chat | ToolForm::Messages => json!({"type": "text", "text": text}),
        ToolForm::Responses => json!({"type": "input_text", "text": text}),
        ToolForm::Gemini | ToolForm::Converse => json!({ "text": text }),
    }
}

/// What results had besides text, as a message.
fn as_user(below: &mut Vec<Value>) -> Option<Value> {
    let parts = core::mem::take(below);
    (!parts.is_empty()).then(|| json!({"role": "user", "content": parts}))
}

fn text(part: &Value) -> &str {
    part.get("text").and_then(Value::as_str).unwrap_or_default()
}

/// The items of a list, which every request has that was written.
fn list<'v>(value: &'v mut Value, field: &str) -> &'v mut [Value] {
    value.get_mut(field).and_then(Value::as_array_mut).map_or(&mut [], Vec::as_mut_slice)
}

/// The same, taken out of it.
fn taken(value: &mut Value, field: &str) -> Vec<Value> {
    value.get_mut(field).and_then(Value::as_array_mut).map(core::mem::take).unwrap_or_default()
}
