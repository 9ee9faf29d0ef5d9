//! Results of several parts of different kinds, such as MCP servers send, joined to one text within the limit.

use crate::text::visible;

/// What stands before the handle of what is kept and not shown, in the text that says so.
pub const KEPT_UNDER: &str = ": not shown, kept under the handle \"";

/// A part of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContentPart {
    /// Text.
    Text(String),
    /// An image, audio, or other binary content.
    Binary {
        /// The kind: `image`, `audio`, `resource`.
        kind: String,
        /// Its media type, if it says so.
        media_type: String,
        /// The size in bytes.
        bytes: u64,
        /// The handle of the stored content, if it is stored.
        handle: Option<String>,
    },
    /// A text with an address.
    Resource {
        /// Its address.
        uri: String,
        /// The text.
        text: String,
    },
    /// An address of something that is not sent along.
    Link {
        /// The address.
        uri: String,
        /// Its name, if it has one.
        name: String,
        /// The description, if there is one.
        about: String,
    },
    /// Content of an unknown kind.
    Unknown {
        /// The kind.
        kind: String,
        /// The size in bytes.
        bytes: u64,
    },
}

/// Joins the parts to one text: text as it is, other parts as their kind and size. The joined text is cut like any
/// other, so no kind of content avoids the limit.
///
/// ```
/// use unfazed::engine::{ContentPart, content_text};
/// let image = ContentPart::Binary { kind: "image".into(), media_type: "image/png".into(), bytes: 2048, handle: None };
/// let text = content_text([ContentPart::Text("Here it is:".into()), image]);
/// assert_eq!(text, "Here it is:\n[image, image/png, 2048 bytes: not shown]");
/// ```
pub fn content_text(parts: impl IntoIterator<Item = ContentPart>) -> String {
    let mut text = String::new();
    for part in parts {
        // Most results are one text, which is moved, not copied.
        if text.is_empty() {
            text = part.into_text();
        } else {
            text.push('\n');
            text.push_str(&part.into_text());
        }
    }
    text
}

impl ContentPart {
    fn into_text(self) -> String {
        match self {
            Self::Text(text) => text,
            Self::Binary { kind, media_type, bytes, handle } => {
                let named = [&*kind, &*media_type].map(short);
                let named: Vec<&str> =
                    named.iter().map(|name| &**name).filter(|name| !name.is_empty()).collect();
                let kept = handle
                    .map_or_else(|| ": not shown".to_owned(), |handle| format!("{KEPT_UNDER}{handle}\""));
                // A model that reads text cannot use base64, and it costs one token for a few bytes.
                format!("[{}, {bytes} bytes{kept}]", named.join(", "))
            }
            Self::Resource { uri, text } => format!("[{}]\n{text}", short(&uri)),
            Self::Link { uri, name, about } => {
                let name = if name.is_empty() { String::new() } else { format!("{}: ", short(&name)) };
                let about = if about.is_empty() { String::new() } else { format!(": {}", short(&about)) };
                format!("[{name}{}]{about}", short(&uri))
            }
            Self::Unknown { kind, bytes } => format!("[{}, {bytes} bytes: not shown]", short(&kind)),
        }
    }
}

/// A name or an address on one line, with limited length.
fn short(text: &str) -> String {
    // Names come from the tool's server: long ones would avoid the limit, and control characters reach terminals.
    const MOST: usize = 300;
    let text: String = text.chars().take(MOST).collect();
    visible(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_told() {
        let parts = [
            ContentPart::Text("one".into()),
            ContentPart::Binary { kind: "audio".into(), media_type: String::new(), bytes: 7, handle: None },
            ContentPart::Binary {
                kind: "image".into(),
                media_type: "image/png".into(),
                bytes: 8,
                handle: Some("r1-0-0".into()),
            },
            ContentPart::Resource { uri: "file:///a".into(), text: "two".into() },
            ContentPart::Link { uri: "file:///b".into(), name: "b".into(), about: "the second".into() },
            ContentPart::Link { uri: "file:///c".into(), name: String::new(), about: String::new() },
            ContentPart::Unknown { kind: "hologram".into(), bytes: 3 },
        ];
        insta::assert_snapshot!(content_text(parts), @r#"
        one
        [audio, 7 bytes: not shown]
        [image, image/png, 8 bytes: not shown, kept under the handle "r1-0-0"]
        [file:///a]
        two
        [b: file:///b]: the second
        [file:///c]
        [hologram, 3 bytes: not shown]
        "#);
        assert_eq!(content_text([]), "");
    }

    #[test]
    fn names_that_somebody_made_endless_are_short() {
        let link =
            ContentPart::Link { uri: "x".repeat(1_000_000), name: String::new(), about: String::new() };
        assert_eq!(content_text([link]).len(), 302);
    }
}
