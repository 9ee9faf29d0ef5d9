//! The page that shows what the gateway does, and what a browser may do with it: nothing but run its own script, and ask this
//! gateway for its state.

use std::sync::LazyLock;

use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{SHA256, digest};

/// One file, so that nothing has to be built or fetched for it.
const PAGE: &str = include_str!("page.html");
const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");

/// What a browser may do with the page. Its script and its style are named by their hashes: whatever else gets into it, does
/// not run.
static POLICY: LazyLock<String> = LazyLock::new(|| {
    let [script, style] = ["script", "style"].map(hash_of);
    format!(
        "default-src 'none'; script-src '{script}'; style-src '{style}'; connect-src 'self'; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )
});

/// The page.
pub(super) fn page() -> Response {
    let policy =
        HeaderValue::from_str(&POLICY).unwrap_or_else(|_| HeaderValue::from_static("default-src 'none'"));
    let response = ([(CONTENT_TYPE, HTML), (CONTENT_SECURITY_POLICY, policy)], PAGE).into_response();
    private(response)
}

/// The same answer, for whoever asked for it alone.
pub(super) fn private(mut response: Response) -> Response {
    let only_same: HeaderName = HeaderName::from_static("cross-origin-resource-policy");
    response.headers_mut().extend([
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        (only_same, HeaderValue::from_static("same-origin")),
    ]);
    response
}

/// The hash of what stands in the page's only element of that name, as a policy of browsers names it.
fn hash_of(element: &str) -> String {
    let inside = PAGE
        .split_once(&format!("<{element}>"))
        .and_then(|(_, rest)| rest.split_once(&format!("</{element}>")));
    let text = inside.map_or("", |(text, _)| text);
    format!("sha256-{}", STANDARD.encode(digest(&SHA256, text.as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_one_script_and_one_style_and_names_nothing_elsewhere() {
        for once in ["<script", "<style", "</script>", "</style>"] {
            assert_eq!(PAGE.matches(once).count(), 1, "{once}");
        }
        // What a browser would refuse, or would take for HTML.
        for never in
            [" style=", " onclick", "innerHTML", "insertAdjacentHTML", "document.write", "src=", "href="]
        {
            assert!(!PAGE.contains(never), "{never}");
        }
        let elsewhere = PAGE.replace("http://www.w3.org/2000/svg", "");
        assert!(!elsewhere.contains("://"), "an address");
        assert!(!POLICY.contains("unsafe") && POLICY.matches("sha256-").count() == 2, "{}", *POLICY);
    }
}
