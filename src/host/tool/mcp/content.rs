//! What a tool of a server answered, as something the model may read: text or JSON.

use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde_json::Value;

use super::{base64, failure};
use crate::engine::{ContentPart, ToolOutcome, content_text};
use crate::host::tool::process::capture::CaptureHead;
use crate::host::{ProgressReporter, ToolError};

/// The result, of which at most `most` bytes are kept, or the failure it tells of. What is no text goes to `aside`.
pub(super) async fn read(
    result: &CallToolResult,
    most: usize,
    aside: &ProgressReporter,
) -> Result<Value, ToolError> {
    if result.is_error == Some(true) {
        let mut text = whole(result, most, aside).await;
        if text.is_empty() {
            text = result.structured_content.as_ref().map(ToString::to_string).unwrap_or_default();
        }
        return Err(failure::of_result(&text));
    }
    match &result.structured_content {
        Some(data) if !data.is_null() && says_the_same(&result.content, data) => Ok(structured(data, most)),
        _ => Ok(Value::String(whole(result, most, aside).await)),
    }
}

/// Whether the text next to structured content says the same, for clients that do not know it (the specification of 2025-06-18,
/// "Structured Content"). The kit in Python writes a text for each element of a list, and puts what is no object into a field.
fn says_the_same(content: &[ContentBlock], data: &Value) -> bool {
    let texts: Option<Vec<&str>> = content
        .iter()
        .map(|block| match block {
            ContentBlock::Text(text) => Some(text.text.as_str()),
            _ => None,
        })
        .collect();
    let is = |text: &str, data: &Value| {
        data.as_str() == Some(text) || serde_json::from_str::<Value>(text).is_ok_and(|said| said == *data)
    };
    let inner = data.as_object().filter(|fields| fields.len() == 1).and_then(|fields| fields.values().next());
    texts.is_some_and(|texts| {
        let each = |list: &Vec<Value>| {
            list.len() == texts.len() && texts.iter().zip(list).all(|(text, value)| is(text, value))
        };
        let said =
            |data: &Value| matches!(&*texts, [text] if is(text, data)) || data.as_array().is_some_and(each);
        texts.is_empty() || said(data) || inner.is_some_and(said)
    })
}

fn structured(data: &Value, most: usize) -> Value {
    let text = data.to_string();
    if text.len() <= most && ToolOutcome::too_deep(data).is_none() {
        return data.clone();
    }
    Value::String(cut(text, most))
}

/// All of it as text: one part after the other, each on lines of its own.
async fn whole(result: &CallToolResult, most: usize, aside: &ProgressReporter) -> String {
    let mut parts = Vec::new();
    for block in &result.content {
        parts.push(part(block, aside).await);
    }
    if let Some(data) = result.structured_content.as_ref().filter(|data| !data.is_null()) {
        let says_it = |part: &ContentPart| match part {
            ContentPart::Text(text) => serde_json::from_str::<Value>(text).is_ok_and(|said| said == *data),
            _ => false,
        };
        // Next to an image, say, no text need say the same.
        if result.is_error != Some(true) && !parts.iter().any(says_it) {
            parts.push(ContentPart::Text(data.to_string()));
        }
    }
    cut(content_text(parts), most)
}

async fn part(block: &ContentBlock, aside: &ProgressReporter) -> ContentPart {
    match block {
        ContentBlock::Text(text) => ContentPart::Text(text.text.clone()),
        ContentBlock::Image(image) => blob("image", &image.mime_type, &image.data, aside).await,
        ContentBlock::Audio(audio) => blob("audio", &audio.mime_type, &audio.data, aside).await,
        ContentBlock::Resource(embedded) => match &embedded.resource {
            ResourceContents::TextResourceContents { uri, text, .. } => {
                ContentPart::Resource { uri: uri.clone(), text: text.clone() }
            }
            ResourceContents::BlobResourceContents { uri, mime_type, blob: data, .. } => {
                let kind = mime_type.as_deref().unwrap_or_default();
                blob(&format!("resource {uri}"), kind, data, aside).await
            }
            _ => unknown(block),
        },
        ContentBlock::ResourceLink(link) => {
            let kind = link.mime_type.iter().cloned();
            let size = link.size.iter().map(|size| format!("{size} bytes"));
            let about: Vec<String> = kind.chain(size).chain(link.description.clone()).collect();
            ContentPart::Link { uri: link.uri.clone(), name: link.name.clone(), about: about.join(", ") }
        }
        _ => unknown(block),
    }
}

/// What is not text is named, not shown: its bytes would mean nothing to the model and fill its window.
async fn blob(kind: &str, media_type: &str, written: &str, aside: &ProgressReporter) -> ContentPart {
    let decoded = base64::decode(written);
    let bytes = decoded.as_ref().map_or(written.len(), Vec::len);
    let handle = match decoded {
        Some(decoded) => aside.keep(media_type, decoded).await,
        None => None,
    };
    ContentPart::Binary {
        kind: kind.to_owned(),
        media_type: media_type.to_owned(),
        bytes: u64::try_from(bytes).unwrap_or(u64::MAX),
        handle,
    }
}

fn unknown(block: &ContentBlock) -> ContentPart {
    let written = serde_json::to_value(block).unwrap_or_default();
    let kind = written.get("type").and_then(Value::as_str).unwrap_or("something unknown").to_owned();
    ContentPart::Unknown { kind, bytes: u64::try_from(written.to_string().len()).unwrap_or(u64::MAX) }
}

pub(super) fn cut(text: String, most: usize) -> String {
    if text.len() <= most {
        return text;
    }
    let mut kept = CaptureHead::new(most);
    kept.push(text.as_bytes());
    let (kept, seen) = (kept.text(), text.len());
    format!("{kept}\n[cut: the tool gave {seen} bytes, the first {most} are shown]")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{EffectState, ToolOutcome};
    use crate::policy::ErrorClass;
    use futures_util::FutureExt;
    use serde_json::json;

    /// Where nothing is kept nothing is waited for.
    fn read_json(result: Value, most: usize) -> Result<Value, ToolError> {
        let result = serde_json::from_value(result).unwrap();
        read(&result, most, &ProgressReporter::default()).now_or_never().unwrap()
    }

    #[test]
    fn structured_content_beside_what_is_no_text_is_told_as_text_unless_a_text_says_it() {
        let image = json!({"type": "image", "data": "AAEC", "mimeType": "image/png"});
        let result = json!({"content": [image], "structuredContent": {"a": [1]}});
        let told = "[image, image/png, 3 bytes: not shown]\n{\"a\":[1]}";
        assert_eq!(read_json(result, 1000), Ok(json!(told)));
        let text = json!({"type": "text", "text": "{ \"a\": [1] }"});
        let result = json!({"content": [image, text], "structuredContent": {"a": [1]}});
        let told = "[image, image/png, 3 bytes: not shown]\n{ \"a\": [1] }";
        assert_eq!(read_json(result, 1000), Ok(json!(told)));
    }

    #[test]
    fn base64_of_nothing_is_never_shown() {
        let broken = json!({"type": "audio", "data": "###secret###", "mimeType": "audio/wav"});
        let told = json!("[audio, audio/wav, 12 bytes: not shown]");
        assert_eq!(read_json(json!({"content": [broken]}), 1000), Ok(told));
    }

    #[test]
    fn no_kind_of_content_gets_around_the_cap() {
        let long = "x".repeat(10_000);
        for block in [
            json!({"type": "text", "text": long}),
            json!({"type": "resource", "resource": {"uri": "file:///a", "text": long}}),
            json!({"type": "resource", "resource": {"uri": long, "blob": "AAEC", "mimeType": long}}),
            json!({"type": "resource_link", "uri": long, "name": long, "description": long}),
            json!({"type": "image", "data": long, "mimeType": long}),
        ] {
            let result = json!({"content": [block, block], "structuredContent": {"a": long}});
            let Ok(Value::String(text)) = read_json(result, 100) else { panic!("text") };
            assert!(text.len() < 200 && text.contains("\n[cut: the tool gave "), "{text}");
        }
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
    fn text_that_says_something_else_than_structured_content_is_read_too() {
        let read = |texts: Value, data: Value| {
            let texts = texts.as_array().unwrap().iter();
            let content: Vec<_> = texts.map(|text| json!({"type": "text", "text": text})).collect();
            read_json(json!({"content": content, "structuredContent": data}), 1000).unwrap()
        };
        let rows = json!({"rows": 2});
        assert_eq!(read(json!(["Two rows."]), rows.clone()), json!("Two rows.\n{\"rows\":2}"));
        for (texts, same) in [
            (json!([]), rows.clone()),
            (json!(["{ \"rows\": 2 }"]), rows),
            (json!(["7"]), json!({"result": 7})),
            (json!(["a", "{\"b\":1}"]), json!({"result": ["a", {"b": 1}]})),
        ] {
            assert_eq!(read(texts, same.clone()), same);
        }
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
        insta::assert_snapshot!(text, @r#"
        see:
        [image, image/png, 8 bytes: not shown]
        [audio, audio/wav, 4 bytes: not shown]
        [file:///a.txt]
        A
        [resource file:///b, 3 bytes: not shown]
        [c: file:///c]: 7 bytes, the third
        {"a":1}
        "#);
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
