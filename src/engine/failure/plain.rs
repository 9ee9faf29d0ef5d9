//! Bodies that are no JSON: plain text, and pages of HTML.

/// What a body that is no JSON says: the text itself; of a page of HTML the title, or what is left without tags.
pub(super) fn plain(body: &str) -> String {
    let body = body.trim();
    // Proxies and load balancers answer with a page of HTML, whose title says what happened ("502 Bad Gateway").
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
    // Asking whether it is there is faster than splitting a page that has none.
    let (_, rest) = html.contains(START).then(|| html.split_once(START))??;
    rest.split_once('<').map(|(title, _)| title)
}

/// The words outside of tags, one blank space apart.
fn without_tags(html: &str) -> String {
    let mut said = String::with_capacity(html.len());
    let (mut inside, mut apart) = (false, false);
    for c in html.chars() {
        // No parser of HTML: what is left is for people and for the table of words, and may be approximate.
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
