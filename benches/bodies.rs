//! Error bodies of two kilobytes in every form that providers write, for the benches of classification.

use unfazed::engine::ReplyHeaders;
use unfazed::policy::ErrorClass;

/// A name, a status, its body and the class of the failure.
type Body = (&'static str, u16, fn() -> String, ErrorClass);

pub(crate) const BODIES: [Body; 7] = [
    ("a quota of Gemini", 429, quota, ErrorClass::QuotaExceeded),
    ("a limit of OpenAI", 429, openai, ErrorClass::RateLimit),
    ("a window of Anthropic", 400, anthropic, ErrorClass::ContextOverflow),
    ("an orphan of Bedrock", 400, bedrock, ErrorClass::OrphanToolCall),
    ("a router's", 429, router, ErrorClass::RateLimit),
    ("a page of HTML", 502, page, ErrorClass::NetworkError),
    ("nothing known", 500, unknown, ErrorClass::ModelError),
];

/// The headers that come with each.
pub(crate) fn headers() -> ReplyHeaders {
    ReplyHeaders::new([("retry-after", &b"2"[..]), ("date", b"Fri, 20 Nov 2026 10:00:00 GMT")])
}

/// Google's answer to a quota that is used up, filled up to two kilobytes.
fn quota() -> String {
    let links =
        (0..14).map(|i| format!(r#"{{"description":"Learn more {i}","url":"https://x.dev/quotas/{i}"}}"#));
    let links = links.collect::<Vec<_>>().join(",");
    format!(
        r#"{{"error":{{"code":429,"status":"RESOURCE_EXHAUSTED","message":"{}","details":[
        {{"@type":"type.googleapis.com/google.rpc.Help","links":[{links}]}},
        {{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{{"quotaId":"RequestsPerDay-FreeTier"}}]}},
        {{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"58s"}}]}}}}"#,
        "You exceeded your current quota, please check your plan and billing details. ".repeat(9),
    )
}

/// A message of this beginning, filled up to two kilobytes. It holds a number, so that waits and sizes are looked for.
fn message(start: &str) -> String {
    start.to_owned()
        + &" The page of limits, sent at 12:30, says what else may be tried, and when.".repeat(25)
}

/// A failure that no row but the last knows, of the same size.
fn unknown() -> String {
    format!(r#"{{"error":{{"message":"{}","type":"odd"}}}}"#, message("Something went wrong here."))
}

fn openai() -> String {
    let text = message("Rate limit reached for requests per min: Limit 3, Used 3. Please try again in 20s.");
    format!(
        r#"{{"error":{{"message":"{text}","type":"requests","param":null,"code":"rate_limit_exceeded"}}}}"#
    )
}

fn anthropic() -> String {
    let text = message("prompt is too long: 209303 tokens > 200000 maximum");
    format!(
        r#"{{"type":"error","error":{{"type":"invalid_request_error","message":"{text}"}},"request_id":"req_1"}}"#
    )
}

fn bedrock() -> String {
    format!(r#"{{"message":"{}"}}"#, message("Expected toolResult blocks at messages.2.content"))
}

/// What a provider said, as JSON in a text inside the answer of a router.
fn router() -> String {
    let raw = openai().replace('"', r#"\""#);
    format!(
        r#"{{"error":{{"code":429,"message":"Provider returned error","metadata":{{"raw":"{raw}","provider_name":"OpenAI"}}}}}}"#
    )
}

/// A page without a title, whose tags have to be taken out.
fn page() -> String {
    format!("<html><h1>502 Bad Gateway</h1>{}</html>", "<p>the <b>server</b> has no answer</p>\n".repeat(48))
}
