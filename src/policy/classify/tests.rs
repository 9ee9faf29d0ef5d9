//! Tables hold rows against failures.

use proptest::prelude::*;

use super::*;

fn row(class: ErrorClass) -> ErrorRow {
    ErrorRow {
        status: vec![],
        code: vec![],
        kind: vec![],
        message: vec![],
        words: vec![],
        detail: vec![],
        provider: vec![],
        class,
        request_at_fault: false,
        wait: None,
        origin: Origin::BUILTIN,
    }
}

fn list(items: &[&str]) -> Vec<String> {
    items.iter().map(|&item| item.to_owned()).collect()
}

fn table() -> ErrorTable {
    let statuses = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
    ErrorTable::new(vec![
        ErrorRow {
            status: statuses(&["429"]),
            code: list(&["insufficient_quota"]),
            ..row(ErrorClass::QuotaExceeded)
        },
        ErrorRow {
            status: statuses(&["400", "413"]),
            message: list(&["context length", "too many tokens"]),
            ..row(ErrorClass::ContextOverflow)
        },
        ErrorRow { kind: list(&["overloaded_error"]), ..row(ErrorClass::Overloaded) },
        ErrorRow { message: list(&["überlastet (503)"]), ..row(ErrorClass::Overloaded) },
        ErrorRow { status: statuses(&["429"]), ..row(ErrorClass::RateLimit) },
        ErrorRow { status: statuses(&["5xx"]), ..row(ErrorClass::ModelError) },
    ])
    .unwrap()
}

fn class(evidence: &FailureEvidence<'_>) -> Option<ErrorClass> {
    table().classify(evidence).map(|row| row.class)
}

#[test]
fn every_field_of_a_row_must_match() {
    let limited = FailureEvidence { status: Some(429), ..FailureEvidence::default() };
    assert_eq!(
        class(&FailureEvidence { code: Some("insufficient_quota"), ..limited }),
        Some(ErrorClass::QuotaExceeded)
    );
    assert_eq!(class(&FailureEvidence { code: Some("other"), ..limited }), Some(ErrorClass::RateLimit));
    assert_eq!(
        class(&FailureEvidence { code: Some("insufficient_quota"), ..FailureEvidence::default() }),
        None
    );
    assert_eq!(
        class(&FailureEvidence {
            kind: Some("overloaded_error"),
            status: Some(529),
            ..FailureEvidence::default()
        }),
        Some(ErrorClass::Overloaded)
    );
}

#[test]
fn parts_of_messages_are_found_whatever_their_case() {
    let bad = FailureEvidence {
        status: Some(400),
        message: "Maximum CONTEXT Length is 8192",
        ..FailureEvidence::default()
    };
    assert_eq!(class(&bad), Some(ErrorClass::ContextOverflow));
    assert_eq!(
        class(&FailureEvidence { message: "`context`\n \"LENGTH\"", ..bad }),
        Some(ErrorClass::ContextOverflow)
    );
    assert_eq!(class(&FailureEvidence { message: "contextlength", ..bad }), None);
    assert_eq!(
        class(&FailureEvidence { message: "ÜBERLASTET (503)!", ..FailureEvidence::default() }),
        Some(ErrorClass::Overloaded)
    );
}

#[test]
fn details_are_held_against_each_word_and_a_provider_against_its_name() {
    let table = ErrorTable::new(vec![
        ErrorRow { detail: list(&["perday"]), provider: list(&["google"]), ..row(ErrorClass::QuotaExceeded) },
        ErrorRow { detail: list(&["PerDay", "PerHour"]), ..row(ErrorClass::RateLimit) },
        row(ErrorClass::ModelError),
    ]);
    let table = table.unwrap();
    let details = list(&["other", "RequestsPerDay-Free"]);
    let class = |details, provider| {
        table.classify(&FailureEvidence { details, provider, ..FailureEvidence::default() }).unwrap().class
    };
    assert_eq!(class(&details, Some("Google")), ErrorClass::QuotaExceeded);
    assert_eq!(class(&details, Some("elsewhere")), ErrorClass::RateLimit);
    assert_eq!(class(&details, None), ErrorClass::RateLimit);
    assert_eq!(class(&[], Some("Google")), ErrorClass::ModelError);
}

#[test]
fn the_first_row_wins_and_none_may_match() {
    assert_eq!(
        class(&FailureEvidence { status: Some(503), ..FailureEvidence::default() }),
        Some(ErrorClass::ModelError)
    );
    assert_eq!(class(&FailureEvidence { status: Some(404), ..FailureEvidence::default() }), None);
    assert!(ErrorTable::new(vec![]).unwrap().classify(&FailureEvidence::default()).is_none());
    let all = ErrorTable::new(vec![row(ErrorClass::ModelError)]).unwrap();
    assert_eq!(all.classify(&FailureEvidence::default()).unwrap().class, ErrorClass::ModelError);
}

#[test]
fn words_are_found_in_any_order_and_each_by_one_of_its_phrases() {
    let words = vec![
        list(&["tool result", "tool response"]),
        list(&["without", "no matching"]),
        list(&["tool call", "per day"]),
    ];
    let table = ErrorTable::new(vec![
        ErrorRow { words, ..row(ErrorClass::OrphanToolCall) },
        row(ErrorClass::ModelError),
    ]);
    let table = table.unwrap();
    let class = |message, code| {
        table.classify(&FailureEvidence { code, message, ..FailureEvidence::default() }).unwrap().class
    };
    for message in [
        "a tool_call without its `tool_result`",
        "Tool-Results: there is no matching \"tool call\"",
        "“tool responses” without 'tool calls'",
        "tool result without quota per day",
    ] {
        assert_eq!(class(message, None), ErrorClass::OrphanToolCall, "{message}");
    }
    for message in [
        "a tool call and its tool result",
        "the toolcall without a tool result",
        "tool result without x per days",
    ] {
        assert_eq!(class(message, None), ErrorClass::ModelError, "{message}");
    }
    assert_eq!(class("a tool result without", Some("ToolCallMissing")), ErrorClass::OrphanToolCall);
    assert_eq!(class("a tool result without", Some("tool_call_x")), ErrorClass::OrphanToolCall);
}

#[test]
fn codes_and_types_are_the_same_in_every_spelling() {
    let table = ErrorTable::new(vec![
        ErrorRow {
            code: list(&["invalid_argument"]),
            kind: list(&["Bad.Request"]),
            ..row(ErrorClass::Timeout)
        },
        row(ErrorClass::ModelError),
    ]);
    let table = table.unwrap();
    let class = |code, kind| {
        table
            .classify(&FailureEvidence { code: Some(code), kind: Some(kind), ..FailureEvidence::default() })
            .unwrap()
            .class
    };
    assert_eq!(class("invalid-argument", "bad_request"), ErrorClass::Timeout);
    assert_eq!(class("INVALID_ARGUMENT", "BAD REQUEST"), ErrorClass::Timeout);
    assert_eq!(class("invalid-argument", "other"), ErrorClass::ModelError);
    assert_eq!(class("invalid_arguments", "bad_request"), ErrorClass::ModelError);
}

#[test]
fn a_text_of_marks_alone_is_in_no_message() {
    let rows = vec![
        ErrorRow { message: list(&["'"]), ..row(ErrorClass::Timeout) },
        ErrorRow { words: vec![list(&["-"])], ..row(ErrorClass::Timeout) },
        row(ErrorClass::ModelError),
    ];
    let table = ErrorTable::new(rows).unwrap();
    let found =
        table.classify(&FailureEvidence { message: "it's - x", ..FailureEvidence::default() }).unwrap();
    assert_eq!(found.class, ErrorClass::ModelError);
}

proptest! {
    #[test]
    fn a_part_is_found_exactly_if_the_message_contains_it(message in "[a-cA-C. ]{0,12}", parts in prop::collection::vec("[a-c.]{1,3}", 1..4)) {
        let rows = parts.iter().map(|part| ErrorRow { message: vec![part.clone()], ..row(ErrorClass::Timeout) });
        let table = ErrorTable::new(rows.collect()).unwrap();
        let found = table.classify(&FailureEvidence { message: &message, ..FailureEvidence::default() });
        let text = folded(&format!(" {message} "));
        let expected = parts.iter().find(|part| !folded(part).trim().is_empty() && text.contains(&folded(part)));
        prop_assert_eq!(found.map(|row| &row.message[0]), expected);
    }
}
