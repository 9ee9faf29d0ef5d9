//! Conversations that begin, or end, as models of other dialects do not take them.

use super::*;

fn chat(messages: &Value) -> Value {
    json!({"model": "asked", "messages": messages})
}

/// Why models of each dialect cannot have it.
fn refusals(messages: &Value) -> [Option<String>; 5] {
    let call = read(Chat, &chat(messages), false).unwrap();
    [Some(Chat), Some(Responses), Some(Messages), Some(Gemini), None]
        .map(|dialect| call.refused_by(dialect).map(|error| error.to_string()))
}

#[test]
fn one_without_a_text_of_the_user_is_for_models_that_take_it() {
    let why = Some("`messages` has no text of the user, which the model wants".to_owned());
    for messages in [
        json!([{"role": "system", "content": "Be brief."}]),
        json!([{"role": "user", "content": "  "}]),
        json!([{"role": "system", "content": "Be brief."}, {"role": "user", "content": ""}]),
    ] {
        assert_eq!(refusals(&messages), [None, None, why.clone(), why.clone(), why.clone()], "{messages}");
    }
    assert_eq!(refusals(&json!([{"role": "user", "content": "hi"}])), [const { None }; 5]);
}

#[test]
fn a_blank_text_behind_what_the_model_says_has_nobody_continue_it() {
    let said = json!([{"role": "user", "content": "hi"}, {"role": "assistant", "content": "He"}, {"role": "user", "content": " "}]);
    let [chat, _, messages, gemini, _] = refusals(&said);
    assert_eq!(chat, None);
    assert!(messages.unwrap().contains("ends with blank texts") && gemini.is_some());
}

#[test]
fn where_the_model_speaks_first_the_user_opens() {
    let said = chat(&json!([
        {"role": "system", "content": "Be brief."}, {"role": "assistant", "content": "Hello!"},
        {"role": "user", "content": "hi"},
    ]));
    let head = ReplyHead { model: "asked".into(), id: "1".into(), created: 7 };
    let call = FrontCall::read(Chat, said.to_string().as_bytes(), false, head).unwrap();
    for (provider, opened) in [
        (Provider::ANTHROPIC, Some("/messages/0/content/0/text")),
        (Provider::GEMINI, Some("/contents/0/parts/0/text")),
        (Provider::RESPONSES, None),
    ] {
        let fitted = call.fitted(&ModelConfig::new(provider, "m"), &ServerRefusals::default()).unwrap();
        let body: Value = serde_json::from_slice(&fitted.body).unwrap();
        assert_eq!(fitted.opened, opened.is_some(), "{body}");
        if let Some(place) = opened {
            assert_eq!(body.pointer(place), Some(&json!("Continue.")), "{body}");
        }
    }
}

#[test]
fn options_that_no_model_of_the_dialect_takes_are_named() {
    let with = |field: &str, value: Value| {
        let mut body = chat(&json!([{"role": "user", "content": "hi"}]));
        body[field] = value;
        body
    };
    for (provider, said, sent) in [
        (Provider::ANTHROPIC, -1.0, 0.0),
        (Provider::ANTHROPIC, 1.5, 1.0),
        (Provider::RESPONSES, 2.5, 2.0),
        (Provider::RESPONSES, -0.5, 0.0),
    ] {
        let (body, left_out) = fitted(Chat, &with("temperature", json!(said)), provider);
        assert_eq!((&body["temperature"], &*left_out), (&json!(sent), &["temperature".to_owned()][..]));
    }
    let (body, left_out) = fitted(Chat, &with("tool_choice", json!("required")), Provider::ANTHROPIC);
    assert_eq!((body.get("tool_choice"), &*left_out), (None, &["tool_choice".to_owned()][..]));
}
