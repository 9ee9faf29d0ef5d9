//! The built-in error tables, held against the bodies that providers really send: `tests/errors/*.yaml`, one file for
//! each provider.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use serde::Deserialize;
use unfazed::engine::{Failure, ReplyHeaders};
use unfazed::policy::{ErrorClass, ErrorRow, FailureEvidence, Policy};
use unfazed::time::Instant;

/// An answer, and what it means.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Example {
    /// The status; 200: an error inside an answer, or inside a stream.
    status: u16,
    /// Bedrock's header `x-amzn-errortype`.
    #[serde(default)]
    errortype: Option<String>,
    body: String,
    class: ErrorClass,
    #[serde(default)]
    request_at_fault: bool,
    #[serde(default)]
    limit: Option<u64>,
    #[serde(default)]
    size: Option<u64>,
    /// What is waited if the server does not say.
    #[serde(default)]
    wait: Option<String>,
}

impl Example {
    /// As the host reads it.
    fn failure(&self) -> Failure {
        if self.status == 200 {
            let json =
                serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body));
            return Failure::inside_success(&json).unwrap_or_else(|| panic!("no error: {}", self.body));
        }
        let kind = self.errortype.as_deref().unwrap_or_default();
        let headers = ReplyHeaders::new([("x-amzn-errortype", kind.as_bytes())]);
        Failure::from_answer(self.status, &headers, self.body.as_bytes(), Instant::default)
    }
}

/// All examples, each with the file it stands in.
fn examples() -> Vec<(String, Example)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/errors");
    let mut paths: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let mut all = Vec::new();
    for path in paths {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let text = fs::read_to_string(&path).unwrap();
        let file: Vec<Example> =
            serde_yaml::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        all.extend(file.into_iter().map(|example| (name.clone(), example)));
    }
    all
}

#[test]
fn every_body_has_the_class_it_means() {
    let policy = Policy::builtin();
    let mut wrong = Vec::new();
    for (file, example) in examples() {
        let failure = example.failure();
        let found = failure.classified(&policy);
        let got = (found.class, found.request_at_fault, failure.limit(), failure.size());
        let expected = (example.class, example.request_at_fault, example.limit, example.size);
        let wait = found.wait.map(|wait| wait.to_string());
        if got != expected || (example.wait.is_some() && example.wait != wait) {
            let row = found.origin.map(|row| policy.place(row).to_string());
            wrong.push(format!("{file}: {}\n  {got:?}, not {expected:?}, by {row:?}", example.body));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_word_of_every_row_has_an_example() {
    let policy = Policy::builtin();
    let told: Vec<_> = examples()
        .iter()
        .map(|(_, example)| example.failure())
        .filter_map(|failure| Some((failure.classified(&policy).origin?, failure)))
        .collect();
    let rows = policy.errors().rows().collect::<Vec<_>>();
    assert!(rows.len() > 200, "only {} rows were found", rows.len());
    let without = rows.iter().flat_map(|row| {
        let of_row = told.iter().filter(|(origin, _)| *origin == row.origin);
        let failures: Vec<_> = of_row.map(|(_, failure)| failure).collect();
        let place = policy.place(row.origin).to_string();
        unseen(row, &failures).into_iter().map(move |word| format!("{place} {word}"))
    });
    let without: Vec<_> = without.collect();
    assert!(without.is_empty(), "no example for\n{}", without.join("\n"));
}

/// As texts are compared: letters and digits, whatever their case.
fn folded(text: &str) -> String {
    let plain = text.to_lowercase().replace(|c: char| !c.is_alphanumeric(), " ");
    plain.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What of a row none of the failures has that it tells.
fn unseen(row: &ErrorRow, failures: &[&Failure]) -> Vec<String> {
    let evidence: Vec<_> = failures.iter().map(|failure| failure.evidence()).collect();
    let within = |text: &str, part: &str| folded(text).contains(folded(part).trim());
    let same = |known: Option<&str>, name: &str| known.is_some_and(|known| folded(known) == folded(name));
    let seen = |word: &str, sees: &dyn Fn(&FailureEvidence<'_>) -> bool| {
        (!evidence.iter().any(sees)).then(|| word.to_owned())
    };
    let statuses = row.status.iter().filter_map(|pattern| {
        seen(&pattern.to_string(), &|facts| facts.status.is_some_and(|status| pattern.matches(status)))
    });
    let codes = row.code.iter().filter_map(|code| seen(code, &|facts| same(facts.code, code)));
    let kinds = row.kind.iter().filter_map(|kind| seen(kind, &|facts| same(facts.kind, kind)));
    let messages = row.message.iter().filter_map(|part| seen(part, &|facts| within(facts.message, part)));
    let details = row
        .detail
        .iter()
        .filter_map(|part| seen(part, &|facts| facts.details.iter().any(|word| within(word, part))));
    let nothing = failures.is_empty().then(|| row.matcher());
    nothing.into_iter().chain(statuses).chain(codes).chain(kinds).chain(messages).chain(details).collect()
}

#[test]
fn every_provider_has_examples() {
    let files: HashSet<String> = examples().into_iter().map(|(file, _)| file).collect();
    let tables = Path::new(env!("CARGO_MANIFEST_DIR")).join("policies/errors");
    for table in fs::read_dir(tables).unwrap() {
        let name = table.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned();
        assert!(files.contains(&name), "no file tests/errors/{name}.yaml");
    }
}

#[test]
fn quota_is_told_from_a_rate_limit_whatever_the_status() {
    let policy = Policy::builtin();
    // A 402 may tell it by the status alone.
    let by_words = |example: &Example| example.class == ErrorClass::QuotaExceeded && example.status != 402;
    for (file, example) in examples().iter().filter(|(_, example)| by_words(example)) {
        for status in [400, 403, 429, 500, 503] {
            let failure = Failure { status: Some(status), ..example.failure() };
            let told = failure.classified(&policy).class;
            assert_eq!(told, ErrorClass::QuotaExceeded, "{file} {status}: {}", example.body);
        }
    }
}

#[test]
fn a_status_that_is_certain_keeps_its_class_whatever_else_is_spoken_of() {
    const SPOKEN_OF: [&str; 14] = [
        "credit balance",
        "billing",
        "usage limit",
        "monthly limit",
        "quota of requests per day",
        "account suspended",
        "top up your wallet",
        "content moderation",
        "guardrail",
        "content filter",
        "unsafe content",
        "context window",
        "prompt cache",
        "conversation history",
    ];
    let says = [
        (401, "Incorrect API key provided. For the {} see the documentation", ErrorClass::AuthError),
        (404, "The model 'acme {}' was not found: check the limit", ErrorClass::NotFound),
        (414, "Request-URI Too Long: /v1/{}", ErrorClass::InvalidRequest),
        (500, "Internal error in the {} module: exceeded recursion", ErrorClass::ModelError),
        (502, "upstream connect error: {} endpoint unreachable", ErrorClass::NetworkError),
        (503, "The {} service is unavailable, no requests can be used", ErrorClass::Overloaded),
        (529, "Overloaded. The {} is not affected, not even if exceeded", ErrorClass::Overloaded),
    ];
    let policy = Policy::builtin();
    let mut wrong = Vec::new();
    for (status, text, class) in says {
        for words in SPOKEN_OF {
            let message = text.replace("{}", words);
            let failure = Failure { status: Some(status), message, ..Failure::default() };
            let found = failure.classified(&policy);
            if found.class != class {
                let row = found.origin.map(|row| policy.place(row).to_string());
                wrong.push(format!("{failure}: {}, by {row:?}", found.class));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_words_tell_no_status_changes() {
    let policy = Policy::builtin();
    let certain = [ErrorClass::ContextOverflow, ErrorClass::OrphanToolCall, ErrorClass::MalformedToolCall];
    let mut held = 0;
    for (file, example) in examples() {
        let class = |status| Failure { status, ..example.failure() }.classified(&policy).class;
        // Told by the words alone, and not by the status they came with.
        if certain.contains(&example.class) && class(None) == example.class {
            held += 1;
            for status in [400, 413, 422, 500, 503] {
                assert_eq!(class(Some(status)), example.class, "{file} {status}: {}", example.body);
            }
        }
    }
    assert!(held > 60, "only {held} examples are reported by words");
}
