//! Bodies that are no JSON: plain text, and pages of HTML.

/// What a body that is no JSON says: the text itself; of a page of HTML the title, or what is left without tags.
pub(crate) fn plain(body: &str) -> String {
    let body = body.trim();
    if !body.starts_with('<') {
        return body.to_owned();
    }
    let title = body.split_once("<title>").and_then(|(_, rest)| rest.split_once('<'));
    let text = title.map_or_else(|| without_tags(body), |(title, _)| title.to_owned());
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn without_tags(html: &str) -> String {
    let mut inside = false;
    html.chars()
        .filter_map(|c| match c {
            '<' => {
                inside = true;
                Some(' ')
            }
            '>' => {
                inside = false;
                None
            }
            c => (!inside).then_some(c),
        })
        .collect()
}
