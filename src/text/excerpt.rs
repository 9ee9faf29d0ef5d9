//! The beginning of a text that may be anything and of any size, for messages.

/// At most `most` characters of `text`, with a mark if some are missing.
pub(crate) fn excerpt(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::excerpt;

    #[test]
    fn what_is_too_long_is_cut_between_characters() {
        assert_eq!(excerpt("größer", 6), "größer");
        assert_eq!(excerpt("größer", 4), "größ…");
    }
}
