//! What a tool of a server answered, as something the model may read: text or JSON.

use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde_json::Value;

use super::failure;
use crate::host::ToolError;
use crate::host::tool::process::capture::Head;
use crate::host::tool::process::output::{MAX_DEPTH, shallow};

/// The result, of which at most `most` bytes are kept, or the failure it tells of.
pub(super) fn read(result: &CallToolResult, most: usize) -> Result<Value, ToolError> {
    if result.is_error == Some(true) {
        let mut text = blocks(&result.content, most);
        if text.is_empty() {
            text = result.structured_content.as_ref().map(ToString::to_string).unwrap_or_default();
        }
        return Err(failure::of_result(&text));
    }
    // The text next to structured content says the same for clients that do not know it.
    let only_text = result.content.iter().all(|block| matches!(block, ContentBlock::Text(_)));
    match &result.structured_content {
        Some(data) if only_text && !data.is_null() => Ok(structured(data, most)),
        _ => Ok(Value::String(blocks(&result.content, most))),
    }
}

fn structured(data: &Value, most: usize) -> Value {
    let text = data.to_string();
    if text.len() <= most && shallow(data, MAX_DEPTH) {
        return data.clone();
    }
    let mut kept = Head::new(most);
    kept.push(text.as_bytes());
    Value::String(marked(&kept))
}

/// All blocks one after the other, each on lines of its own.
fn blocks(content: &[ContentBlock], most: usize) -> String {
    let mut kept = Head::new(most);
    for (number, block) in content.iter().enumerate() {
        if number > 0 {
            kept.push(b"\n");
        }
        match block {
            ContentBlock::Text(text) => kept.push(text.text.as_bytes()),
            ContentBlock::Image(image) => kept.push(blob("image", &image.mime_type, &image.data).as_bytes()),
            ContentBlock::Audio(audio) => kept.push(blob("audio", &audio.mime_type, &audio.data).as_bytes()),
            ContentBlock::Resource(embedded) => match &embedded.resource {
                ResourceContents::TextResourceContents { uri, mime_type, text, .. } => {
                    let kind = mime_type.as_ref().map(|kind| format!(", {kind}")).unwrap_or_default();
                    kept.push(format!("[resource {uri}{kind}]\n").as_bytes());
                    kept.push(text.as_bytes());
                }
                ResourceContents::BlobResourceContents { uri, mime_type, blob: data, .. } => {
                    let kind = mime_type.as_deref().unwrap_or("of unknown type");
                    kept.push(blob(&format!("resource {uri}"), kind, data).as_bytes());
                }
                _ => kept.push(b"[resource of a kind that is not known]"),
            },
            ContentBlock::ResourceLink(link) => {
                let kind = link.mime_type.as_ref().map(|kind| format!(", {kind}")).unwrap_or_default();
                let size = link.size.map(|size| format!(", {size} bytes")).unwrap_or_default();
                let about = link.description.as_ref().map(|text| format!(": {text}")).unwrap_or_default();
                kept.push(format!("[link to {}: {}{kind}{size}]{about}", link.name, link.uri).as_bytes());
            }
            _ => kept.push(b"[content of a kind that is not known]"),
        }
    }
    marked(&kept)
}

fn marked(kept: &Head) -> String {
    match kept.cut() {
        None => kept.text(),
        Some((most, seen)) => {
            format!("{}\n[cut: the tool gave {seen} bytes, the first {most} are shown]", kept.text())
        }
    }
}

/// What is not text is named, not shown: its bytes would mean nothing to the model and fill its window.
fn blob(what: &str, kind: &str, base64: &str) -> String {
    let written = base64.trim_end().trim_end_matches('=').len();
    format!("[{what}, {kind}, {} bytes]", written.saturating_mul(3) / 4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{EffectState, ToolOutcome};
    use crate::policy::ErrorClass;
    use serde_json::json;

    fn read_json(result: Value, most: usize) -> Result<Value, ToolError> {
        read(&serde_json::from_value(result).unwrap(), most)
    }

    #[test]
    fn text_is_text() {
        let result = json!({"content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]});
        assert_eq!(read_json(result, 100), Ok(json!("one\ntwo")));
        assert_eq!(read_json(json!({"content": []}), 100), Ok(json!("")));
    }

    #[test]
    fn structured_content_goes_before_its_text() {
        let result =
            json!({"content": [{"type": "text", "text": "{\"a\":1}"}], "structuredContent": {"a": 1}});
        assert_eq!(read_json(result, 100), Ok(json!({"a": 1})));
    }

    #[test]
    fn what_is_not_text_is_described() {
        let result = json!({"content": [
            {"type": "text", "text": "see:"},
            {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"},
            {"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"},
            {"type": "resource", "resource": {"uri": "file:///a.txt", "mimeType": "text/plain", "text": "A"}},
            {"type": "resource", "resource": {"uri": "file:///b", "blob": "AAEC"}},
            {"type": "resource_link", "uri": "file:///c", "name": "c", "size": 7, "description": "the third"},
        ], "structuredContent": {"a": 1}});
        let Ok(Value::String(text)) = read_json(result, 1000) else { panic!("text") };
        insta::assert_snapshot!(text, @r"
        see:
        [image, image/png, 8 bytes]
        [audio, audio/wav, 4 bytes]
        [resource file:///a.txt, text/plain]
        A
        [resource file:///b, of unknown type, 3 bytes]
        [link to c: file:///c, 7 bytes]: the third
        ");
    }

    #[test]
    fn a_large_result_is_cut_and_says_so() {
        let result = json!({"content": [{"type": "text", "text": "ü".repeat(1000)}]});
        let Ok(Value::String(text)) = read_json(result, 5) else { panic!("text") };
        assert_eq!(text, "üü\n[cut: the tool gave 2000 bytes, the first 5 are shown]");
        let result = json!({"content": [], "structuredContent": {"a": "x".repeat(100)}});
        let Ok(Value::String(text)) = read_json(result, 10) else { panic!("text") };
        assert!(text.starts_with("{\"a\":\"xxxx\n[cut: "), "{text}");
    }

    #[test]
    fn an_error_result_is_a_failure() {
        let result = json!({"content": [{"type": "text", "text": "no such item"}], "isError": true});
        let outcome = ToolOutcome::from(read_json(result, 100));
        let ToolOutcome::Failed { failure, effect } = outcome else { panic!("failed") };
        assert_eq!(failure.class, Some(ErrorClass::ExecutionError));
        assert_eq!((failure.message.as_str(), effect), ("no such item", EffectState::Started));
    }
}
