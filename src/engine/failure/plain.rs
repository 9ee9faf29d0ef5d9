//! Bodies that are not JSON: plain text, and HTML pages.

/// The message of a body that is not JSON: the text itself, or for HTML the title or the text without tags.
pub(super) fn plain(body: &str) -> String {
    let body = body.trim();
    // Proxies and load balancers answer with an HTML page whose title names the failure ("502 Bad Gateway").
    if !body.starts_with('<') {
        return body.to_owned();
    }
    match title(body) {
        Some(title) => title.split_whitespace().collect::<Vec<_>>().join(" "),
        None => without_tags(body),
    }
}

fn title(html: &str) -> Option<&str> {
    const START: &str = "<title>";
    // The search is faster than a split that finds nothing.
    let (_, rest) = html.contains(START).then(|| html.split_once(START))??;
    rest.split_once('<').map(|(title, _)| title)
}

/// The words outside of tags, separated by single spaces.
fn without_tags(html: &str) -> String {
    let mut said = String::with_capacity(html.len());
    let (mut inside, mut apart) = (false, false);
    for c in html.chars() {
        // This is not an HTML parser: people and the error table read the result, and it may be approximate.
        match c {
            '<' => (inside, apart) = (true, true),
            '>' => inside = false,
            _ if inside => {}
            c if c.is_whitespace() => apart = true,
            c => {
                if apart && !said.is_empty() {
                    said.push(' ');
                }
                apart = false;
                said.push(c);
            }
        }
    }
    said.shrink_to_fit();
    said
}
