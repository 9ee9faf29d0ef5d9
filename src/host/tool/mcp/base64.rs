//! Bytes that stand in JSON as base64.

/// The bytes; `None`: it is no base64. Both alphabets are read, with or without padding.
pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut held, mut bits) = (0_u32, 0_u32);
    for byte in text.trim_end().trim_end_matches('=').bytes().filter(|byte| !byte.is_ascii_whitespace()) {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        };
        held = (held << 6 | u32::from(value)) & 0xffff;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push(u8::try_from(held >> bits & 0xff).unwrap_or_default());
        }
    }
    // One character alone is no byte.
    (bits < 6).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_and_what_is_none_is_not() {
        for (text, bytes) in [
            ("", &b""[..]),
            ("iVBORw0KGgo=", b"\x89PNG\r\n\x1a\n"),
            ("AAEC", &[0, 1, 2]),
            ("_-8", &[0xff, 0xef]),
            ("QU\nJD\n", b"ABC"),
        ] {
            assert_eq!(decode(text).as_deref(), Some(bytes), "{text}");
        }
        for text in ["A", "AAECA", "no!", "ü"] {
            assert_eq!(decode(text), None, "{text}");
        }
    }
}
