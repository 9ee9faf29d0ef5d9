//! How failures are distinguished by the rows of files.

use super::*;

fn class(status: u16, code: &str, kind: &str, message: &str) -> ErrorClass {
    let some = |text: &'static str| (!text.is_empty()).then_some(text);
    let (code, kind) = (code.to_owned().leak(), kind.to_owned().leak());
    let status = (status != 0).then_some(status);
    let evidence =
        FailureEvidence { status, code: some(code), kind: some(kind), message, ..FailureEvidence::default() };
    Policy::builtin().classify(&evidence).class
}

#[test]
fn provider_errors_have_the_class_they_mean() {
    use ErrorClass::*;
    for (status, code, kind, message, expected) in [
        (401, "invalid_api_key", "invalid_request_error", "Incorrect API key provided", AuthError),
        (401, "", "authentication_error", "", AuthError),
        (400, "", "", "API key not valid. Please pass a valid API key.", AuthError),
        (403, "", "permission_error", "", PermissionDenied),
        (403, "", "", "", PermissionDenied),
        (402, "", "", "", QuotaExceeded),
        (429, "insufficient_quota", "insufficient_quota", "You exceeded your current quota", QuotaExceeded),
        (429, "credit_balance_exhausted", "", "", QuotaExceeded),
        (400, "", "invalid_request_error", "Your credit balance is too low to access the API", QuotaExceeded),
        (400, "", "", "You have reached your specified API usage limits.", QuotaExceeded),
        (429, "", "billing_error", "", QuotaExceeded),
        (429, "rate_limit_exceeded", "tokens", "Please try again in 2s", RateLimit),
        (429, "", "rate_limit_error", "", RateLimit),
        (429, "", "", "Resource exhausted. Please try again later.", RateLimit),
        (0, "slow_down", "", "", RateLimit),
        (503, "", "", "", Overloaded),
        (529, "", "overloaded_error", "Overloaded", Overloaded),
        (0, "server_is_overloaded", "", "", Overloaded),
        (429, "", "invalid_request_error", "Service tier capacity exceeded for this model.", Overloaded),
        (400, "context_length_exceeded", "", "", ContextOverflow),
        (400, "", "exceed_context_size_error", "", ContextOverflow),
        (413, "", "", "", ContextOverflow),
        (400, "", "", "This model's maximum context length is 8192 tokens.", ContextOverflow),
        (400, "", "", "prompt is too long: 209303 tokens > 200000 maximum", ContextOverflow),
        (
            400,
            "",
            "",
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'.",
            OrphanToolCall,
        ),
        (
            400,
            "",
            "",
            "messages.3: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_x.",
            OrphanToolCall,
        ),
        (400, "", "", "No tool output found for function call call_x.", OrphanToolCall),
        (400, "content_policy_violation", "", "", ContentFilter),
        (400, "", "", "Output blocked by content filtering policy", ContentFilter),
        (500, "", "", "error parsing tool call: raw='{', err=unexpected end", MalformedToolCall),
        (404, "model_not_found", "invalid_request_error", "", NotFound),
        (404, "", "not_found_error", "", NotFound),
        (404, "", "", "", NotFound),
        (408, "", "", "", Timeout),
        (504, "", "", "", Timeout),
        (0, "", "timeout_error", "", Timeout),
        (502, "", "", "", NetworkError),
        (400, "", "invalid_request_error", "messages: at least one message is required", InvalidRequest),
        (422, "", "", "Input should be less than or equal to 2", InvalidRequest),
        (0, "", "invalid_request_error", "", InvalidRequest),
        (409, "", "conflict_error", "", InvalidRequest),
        (500, "", "server_error", "", ModelError),
        (418, "", "", "", InvalidRequest),
        (507, "", "", "", ModelError),
        (0, "", "", "something new", ModelError),
    ] {
        assert_eq!(class(status, code, kind, message), expected, "{status} {code} {kind} {message}");
    }
}

/// No row is hidden by those before it, and no element of a row is.
#[test]
fn every_row_is_reached_by_all_it_names() {
    fn or_none<T>(all: Vec<T>) -> Vec<Option<T>> {
        if all.is_empty() { vec![None] } else { all.into_iter().map(Some).collect() }
    }
    let policy = Policy::builtin();
    assert!(policy.0.errors.rows().count() > 20);
    for row in policy.0.errors.rows() {
        let statuses =
            row.status.iter().map(|status| status.to_string().replace('x', "0").parse::<u16>().unwrap());
        for status in or_none(statuses.collect()) {
            for code in or_none(row.code.iter().map(String::as_str).collect()) {
                for kind in or_none(row.kind.iter().map(String::as_str).collect()) {
                    for message in or_none(row.message.iter().map(String::as_str).collect()) {
                        for detail in or_none(row.detail.clone()) {
                            let words = row.words.iter().filter_map(|concept| concept.first().cloned());
                            let words = words.collect::<Vec<_>>().join(" - ");
                            let message = &format!("{} - {words}", message.unwrap_or_default());
                            let details = detail.into_iter().collect::<Vec<_>>();
                            let provider = row.provider.first().map(String::as_str);
                            let evidence =
                                FailureEvidence { status, code, kind, message, details: &details, provider };
                            let found = policy.classify(&evidence);
                            // Phrases that an earlier row of the same class has too hide nothing.
                            if row.words.is_empty() {
                                assert_eq!(found.origin.unwrap(), row.origin, "{evidence:?}");
                            } else {
                                assert_eq!(found.class, row.class, "{evidence:?}");
                            }
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn a_request_that_is_wrong_in_itself_is_sent_once() {
    let policy = Policy::builtin();
    assert!(policy.model("m").retry.never_retry.value.contains(ErrorClass::InvalidRequest));
    assert!(policy.tool("t").retry.never_retry.value.contains(ErrorClass::InvalidRequest));
}

#[test]
fn a_row_of_a_file_comes_before_the_built_in_ones_and_a_later_file_before_an_earlier() {
    let row = |class: &str| format!("version: 1\nerrors: [{{status: 4xx, class: {class}}}]\n");
    let policy = files(&[("a", &row("timeout")), ("b", &row("overloaded"))]).unwrap();
    let of =
        |status| policy.classify(&FailureEvidence { status: Some(status), ..FailureEvidence::default() });
    let found = of(429);
    assert_eq!(found.class, ErrorClass::Overloaded);
    assert_eq!(policy.place(found.origin.unwrap()).to_string(), "b:2:31");
    assert_eq!(of(500).class, ErrorClass::ModelError);
}
