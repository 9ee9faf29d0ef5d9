//! Images and documents, from each dialect to each other one.

use serde_json::{Value, json};

use super::{Chat, GatewayDialect, Gemini, Messages, Responses, fitted, read};
use crate::host::model::config::Provider;

/// Standard base64, with a digit that its other alphabet writes otherwise.
const PNG: &str = "iVBORw0KGgo+";
const DATA_URL: &str = "data:image/png;base64,iVBORw0KGgo+";
const PDF_URL: &str = "data:application/pdf;base64,JVBERi0x";

/// What a user says: a text, an image, another text and a document.
fn shown(dialect: GatewayDialect) -> Value {
    match dialect {
        Chat => json!({"messages": [{"role": "user", "content": [
            {"type": "text", "text": "What is"},
            {"type": "image_url", "image_url": {"url": DATA_URL, "detail": "low"}},
            {"type": "text", "text": "this, and"},
            {"type": "file", "file": {"file_data": PDF_URL, "filename": "a.pdf"}},
        ]}]}),
        Responses => json!({"input": [{"role": "user", "content": [
            {"type": "input_text", "text": "What is"},
            {"type": "input_image", "image_url": DATA_URL, "detail": "low"},
            {"type": "input_text", "text": "this, and"},
            {"type": "input_file", "file_data": PDF_URL, "filename": "a.pdf"},
        ]}]}),
        Messages => json!({"messages": [{"role": "user", "content": [
            {"type": "text", "text": "What is"},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
            {"type": "text", "text": "this, and"},
            {"type": "document", "title": "a.pdf",
                "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0x"}},
        ]}]}),
        Gemini => json!({"contents": [{"role": "user", "parts": [
            {"text": "What is"},
            {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo-"}},
            {"text": "this, and"},
            {"inline_data": {"mime_type": "application/pdf", "data": "JVBERi0x", "display_name": "a.pdf"}},
        ]}]}),
    }
}

/// Where a request has the parts of the only message.
const PARTS: [(GatewayDialect, &Provider, &str); 4] = [
    (Chat, Provider::OPENAI, "/messages/0/content"),
    (Responses, Provider::RESPONSES, "/input/0/content"),
    (Messages, Provider::ANTHROPIC, "/messages/0/content"),
    (Gemini, Provider::GEMINI, "/contents/0/parts"),
];

#[test]
fn a_document_of_plain_text_is_a_text() {
    let source = json!({"type": "text", "media_type": "text/plain", "data": "It rains."});
    let user = json!([
        {"type": "document", "source": source, "title": "weather.txt", "citations": {"enabled": true}},
        {"type": "document", "source": source}, {"type": "text", "text": "?"},
    ]);
    let body = json!({"max_tokens": 9, "messages": [{"role": "user", "content": user}]});
    let (body, left_out) = fitted(Messages, &body, Provider::OPENAI);
    assert_eq!(body["messages"][0]["content"], "weather.txt\n\nIt rains.\n\nIt rains.\n\n?");
    assert_eq!(left_out, ["messages.content.citations"]);
}

#[test]
fn an_image_and_a_document_are_parts_of_each_dialect_in_their_order() {
    for (from, ..) in PARTS {
        for (to, provider, parts) in PARTS {
            let (body, left_out) = fitted(from, &shown(from), provider);
            let mut expected = shown(to);
            if to == Gemini {
                let document = json!({"inlineData": {"mimeType": "application/pdf", "data": "JVBERi0x"}});
                expected["contents"][0]["parts"][1]["inlineData"]["data"] = PNG.into();
                expected["contents"][0]["parts"][3] = document;
            }
            // Only the dialects of OpenAI know details.
            let of_openai = |dialect| matches!(dialect, Chat | Responses);
            let place = match to {
                Chat => "/messages/0/content/1/image_url",
                _ => "/input/0/content/1",
            };
            if let (false, Some(Value::Object(image))) = (of_openai(from), expected.pointer_mut(place)) {
                image.remove("detail");
                if to == Responses {
                    image.insert("detail".into(), "auto".into());
                }
            }
            assert_eq!(body.pointer(parts), expected.pointer(parts), "{from:?} to {to:?}");
            let detail = left_out.iter().any(|field| field.ends_with("detail"));
            assert_eq!(detail, of_openai(from) && !of_openai(to), "{from:?} to {to:?}: {left_out:?}");
            let name = left_out
                .iter()
                .any(|field| ["filename", "title", "displayName"].iter().any(|end| field.ends_with(end)));
            assert_eq!(name, to == Gemini, "{from:?} to {to:?}: {left_out:?}");
        }
    }
}

#[test]
fn an_address_stays_one() {
    let url = "https://h/a/b.JPG?x=1";
    let body = json!({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}]});
    for (provider, place, part) in [
        (
            Provider::ANTHROPIC,
            "/messages/0/content",
            json!([{"type": "image", "source": {"type": "url", "url": url}}]),
        ),
        (
            Provider::RESPONSES,
            "/input/0/content",
            json!([{"type": "input_image", "image_url": url, "detail": "auto"}]),
        ),
        (
            Provider::GEMINI,
            "/contents/0/parts",
            json!([{"fileData": {"mimeType": "image/jpeg", "fileUri": url}}]),
        ),
    ] {
        assert_eq!(fitted(Chat, &body, provider).0.pointer(place), Some(&part));
    }
    let file =
        json!({"contents": [{"parts": [{"fileData": {"mimeType": "image/png", "fileUri": "https://h/x"}}]}]});
    let image = json!([{"type": "image_url", "image_url": {"url": "https://h/x"}}]);
    assert_eq!(fitted(Gemini, &file, Provider::OPENAI).0.pointer("/messages/0/content"), Some(&image));
}

/// Two results, of which the first has an image, and what the user says then.
fn results() -> Value {
    let image =
        json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}});
    json!({"messages": [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": [
            {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}},
            {"type": "tool_use", "id": "toolu_2", "name": "look", "input": {}},
        ]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "toolu_1", "content": [image]},
            {"type": "tool_result", "tool_use_id": "toolu_2", "content": [{"type": "text", "text": "two"}]},
            {"type": "text", "text": "and?"},
        ]},
    ]})
}

#[test]
fn an_image_of_a_result_stays_in_it_where_the_dialect_can_say_so() {
    let (body, _) = fitted(Messages, &results(), Provider::RESPONSES);
    let image = json!({"type": "input_image", "image_url": DATA_URL, "detail": "auto"});
    assert_eq!(body["input"][3]["output"], json!([image]));
    assert_eq!(body["input"][4]["output"], "two");

    let (body, _) = fitted(Messages, &results(), Provider::ANTHROPIC);
    let source = json!({"type": "base64", "media_type": "image/png", "data": PNG});
    let place = "/messages/2/content/0/content";
    assert_eq!(body.pointer(place), Some(&json!([{"type": "image", "source": source}])));

    let (body, _) = fitted(Messages, &results(), Provider::GEMINI);
    let parts = &body["contents"][2]["parts"];
    assert_eq!(parts[0]["functionResponse"]["response"], json!({"output": ""}));
    assert_eq!(parts[1]["functionResponse"]["response"], json!({"output": "two"}));
    let image = json!({"inlineData": {"mimeType": "image/png", "data": PNG}});
    assert_eq!((&parts[2], &parts[3]), (&image, &json!({"text": "and?"})));
}

#[test]
fn an_image_of_a_result_follows_all_results_of_a_chat() {
    let (body, _) = fitted(Messages, &results(), Provider::OPENAI);
    let messages = body["messages"].as_array().unwrap();
    let result = |at: usize| (&messages[at]["role"], &messages[at]["content"]);
    assert_eq!(result(2), (&json!("tool"), &json!("The result is in the next message.")));
    assert_eq!(result(3), (&json!("tool"), &json!("two")));
    let image = json!({"type": "image_url", "image_url": {"url": DATA_URL}});
    let of_call = json!({"type": "text", "text": "Of the result of toolu_1:"});
    assert_eq!(result(4), (&json!("user"), &json!([of_call, image])));
    assert_eq!(result(5), (&json!("user"), &json!("and?")));
}

#[test]
fn results_of_gemini_and_of_responses_have_images_too() {
    let data = json!({"inlineData": {"mimeType": "image/png", "data": PNG}});
    let response = json!({"name": "look", "response": {"output": "x"}, "parts": [data]});
    let call = json!({"functionCall": {"name": "look", "args": {}}});
    let body = json!({"contents": [
        {"role": "user", "parts": [{"text": "go"}]}, {"role": "model", "parts": [call]},
        {"role": "user", "parts": [{"functionResponse": response}]},
    ]});
    let source = json!({"type": "base64", "media_type": "image/png", "data": PNG});
    let content = json!([{"type": "text", "text": "x"}, {"type": "image", "source": source}]);
    let place = "/messages/2/content/0/content";
    assert_eq!(fitted(Gemini, &body, Provider::ANTHROPIC).0.pointer(place), Some(&content));
    let output = json!([{"type": "input_text", "text": "x"}, {"type": "input_image", "image_url": DATA_URL}]);
    let body = json!({"input": [
        {"role": "user", "content": "go"},
        {"type": "function_call", "call_id": "a", "name": "look", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "a", "output": output},
    ]});
    assert_eq!(fitted(Responses, &body, Provider::ANTHROPIC).0.pointer(place), Some(&content));
}

#[test]
fn what_only_the_provider_can_open_is_refused_with_its_place() {
    let chat = |part: Value| json!({"messages": [{"role": "user", "content": [part]}]});
    let input = |part: Value| json!({"input": [{"role": "user", "content": [part]}]});
    let gemini = |part: Value| json!({"contents": [{"parts": [part]}]});
    for (dialect, body, place) in [
        (
            Chat,
            chat(json!({"type": "file", "file": {"file_id": "f"}})),
            "`messages[0].content[0].file.file_id` ",
        ),
        (Chat, chat(json!({"type": "input_audio", "input_audio": {}})), "`messages[0].content[0].type` "),
        (
            Chat,
            chat(json!({"type": "image_url", "image_url": {"url": PDF_URL}})),
            "`messages[0].content[0].image_url.url` ",
        ),
        (
            Chat,
            chat(json!({"type": "file", "file": {"file_data": "data:text/csv;base64,YQ=="}})),
            "`messages[0].content[0].file.file_data` ",
        ),
        (
            Chat,
            json!({"messages": [{"role": "system", "content": [{"type": "image_url"}]}]}),
            "`messages[0].content[0].type` ",
        ),
        (Responses, input(json!({"type": "input_image", "file_id": "f"})), "`input[0].content[0].file_id` "),
        (
            Messages,
            chat(json!({"type": "image", "source": {"type": "file", "file_id": "f"}})),
            "`messages[0].content[0].source.type` ",
        ),
        (
            Gemini,
            gemini(json!({"inlineData": {"mimeType": "audio/wav", "data": "YQ=="}})),
            "`contents[0].parts[0].inlineData.mimeType` ",
        ),
        (
            Gemini,
            gemini(json!({"fileData": {"mimeType": "image/png", "fileUri":
                "https://generativelanguage.googleapis.com/v1beta/files/x"}})),
            "`contents[0].parts[0].fileData.fileUri` ",
        ),
        (
            Gemini,
            gemini(json!({"fileData": {"mimeType": "image/png", "fileUri": "gs://b/x"}})),
            "`contents[0].parts[0].fileData.fileUri` ",
        ),
    ] {
        let error = read(dialect, &body, false).unwrap_err();
        assert!(error.starts_with(place), "{error}");
    }
}

#[test]
fn a_model_whose_dialect_cannot_say_it_is_not_asked() {
    let part = |url: &str| json!({"type": "document", "source": {"type": "url", "url": url}});
    let body = |url: &str| json!({"messages": [{"role": "user", "content": [part(url)]}]});
    let refused = |url: &str, dialect| {
        let call = read(Messages, &body(url), false).unwrap();
        call.refused_by(dialect).map(|error| error.to_string())
    };
    let place = "`messages[0].content[0].source.url` ";
    assert!(refused("https://h/a.pdf", Some(Chat)).unwrap().starts_with(place));
    assert!(refused("https://h/a", Some(Gemini)).unwrap().starts_with(place));
    assert!(refused("https://h/a.pdf", None).unwrap().starts_with(place));
    assert_eq!(refused("https://h/a.pdf", Some(Gemini)), None);
    assert_eq!(refused("https://h/a", Some(Responses)), None);
    let file = fitted(Messages, &body("https://h/a"), Provider::RESPONSES).0;
    let expected = json!([{"type": "input_file", "file_url": "https://h/a"}]);
    assert_eq!(file.pointer("/input/0/content"), Some(&expected));
}

#[test]
#[cfg(feature = "bedrock")]
fn images_reach_bedrock_as_blocks_where_they_were() {
    let image = |mime: &str| json!({"type": "image", "source": {"type": "base64", "media_type": mime, "data": "AA=="}});
    let text = |text: &str| json!({"type": "text", "text": text});
    let body = |mime: &str| {
        json!({"max_tokens": 9, "messages": [
            {"role": "user", "content": [text("look"), image(mime), text("here")]},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "look", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": [text("seen"), image(mime)]}]},
        ]})
    };
    for (mime, format) in
        [("image/png", "png"), ("image/jpeg", "jpeg"), ("image/gif", "gif"), ("image/webp", "webp")]
    {
        let sent = fitted(Messages, &body(mime), Provider::BEDROCK).0;
        let image = json!({"image": {"format": format, "source": {"bytes": "AA=="}}});
        let said = json!([{"text": "look"}, image, {"text": "here"}]);
        assert_eq!(sent["messages"][0]["content"], said);
        assert_eq!(
            sent["messages"][2]["content"][0]["toolResult"]["content"],
            json!([{"text": "seen"}, image])
        );
    }
    let refused = |mime: &str| read(Messages, &body(mime), false).unwrap().refused_by(None).is_some();
    assert_eq!((refused("image/png"), refused("image/tiff")), (false, true));
}
