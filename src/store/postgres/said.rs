//! The searchable text of a session: the messages of the user, models and tools, in lower case.

use crate::engine::{DirectiveKind, Note, Record, RecordLine};
use crate::session::Message;

/// The text in every line that appends a message.
const APPENDS: &str = r#""directive":"append""#;

/// The messages in a record.
pub(super) fn said(line: &RecordLine) -> Vec<String> {
    // Few lines contain a message, and only those are parsed.
    if !line.as_str().contains(APPENDS) {
        return Vec::new();
    }
    let Ok(Record::Directives { list, .. }) = Record::parse(line.as_str().as_bytes()) else {
        return Vec::new();
    };
    let messages = list.0.iter().filter_map(|directive| match &directive.order {
        DirectiveKind::Note(Note::Append { message }) => Some(message),
        _ => None,
    });
    messages.flat_map(texts).filter(|text| !text.is_empty()).map(folded).collect()
}

/// The searchable texts of a message. Instructions are left out, as they are the same in every session.
fn texts(message: &Message) -> Vec<&str> {
    match message {
        Message::System { .. } => Vec::new(),
        Message::User { text, .. } | Message::Tool { text, .. } => vec![text],
        Message::Assistant { text, calls, .. } => {
            std::iter::once(text.as_str()).chain(calls.iter().map(|call| call.arguments.as_str())).collect()
        }
    }
}

/// Lower case, without zero characters, which the database cannot store.
pub(super) fn folded(text: &str) -> String {
    // Character by character: `str::to_lowercase` writes a final sigma differently, so a word would depend on the
    // text after it.
    text.chars().flat_map(char::to_lowercase).map(|c| if c == '\0' { '\u{fffd}' } else { c }).collect()
}

/// A `like` pattern that finds the text anywhere.
pub(super) fn pattern(text: &str) -> String {
    let mut pattern = String::from("%");
    for c in folded(text).chars() {
        // Wildcards of `like` in the text are searched literally.
        if matches!(c, '%' | '_' | '\\') {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern.push('%');
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_finds_the_text_and_nothing_else() {
        assert_eq!(pattern("50%_\\ÄΣ\0"), "%50\\%\\_\\\\äσ\u{fffd}%");
    }
}
