//! The tokens of an image from its size, by the provider's rule.

/// The rule for counting an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ImageRule {
    /// `OpenAI`'s rule: 85 tokens, and 170 for each tile of 512 × 512 pixels.
    Tiles,
    /// Anthropic's rule: one token for 750 pixels.
    Pixels,
}

/// The tokens of an image of which nothing is known: the most that Anthropic counts, more than `OpenAI` does for a usual one.
pub(super) const UNKNOWN_SIZE: u64 = 1600;
/// The number of characters of a base64 image that are examined: its size is at the start.
const LOOKED_AT: usize = 64 << 10;

impl ImageRule {
    /// The tokens of an image of this size; for an unknown size, those of a usual image. `low`: the model sees the
    /// image with low detail, if there is such an option.
    pub(super) fn tokens(self, size: Option<(u32, u32)>, low: bool) -> u64 {
        let size = size.map(|(width, height)| (u64::from(width.max(1)), u64::from(height.max(1))));
        match self {
            // OpenAI, "Images and vision": low detail costs the base tokens alone.
            Self::Tiles if low => 85,
            Self::Tiles => size.map_or(4, tiles).saturating_mul(170).saturating_add(85),
            Self::Pixels => size.map_or(UNKNOWN_SIZE, pixels),
        }
    }
}

/// The tiles of an image scaled to fit 2048 × 2048 pixels, with its shorter side at most 768.
fn tiles(size: (u64, u64)) -> u64 {
    // OpenAI, "Images and vision": first into a square of 2048 pixels, then the shorter side to 768.
    let (width, height) = shrunk(size, size.0.max(size.1), 2048);
    let (width, height) = shrunk((width, height), width.min(height), 768);
    width.div_ceil(512).saturating_mul(height.div_ceil(512))
}

/// The tokens of an image; Anthropic scales larger images to fit 1568 pixels and 1600 tokens.
fn pixels(size: (u64, u64)) -> u64 {
    // Anthropic, "Vision": width · height / 750, after scaling down to 1568 pixels at the longer side.
    let (width, height) = shrunk(size, size.0.max(size.1), 1568);
    width.saturating_mul(height).div_ceil(750).min(UNKNOWN_SIZE)
}

/// The size scaled so that `side` is at most `most`.
fn shrunk((width, height): (u64, u64), side: u64, most: u64) -> (u64, u64) {
    if side <= most {
        return (width, height);
    }
    let scaled = |length: u64| length.saturating_mul(most).checked_div(side).unwrap_or(length).max(1);
    (scaled(width), scaled(height))
}

/// The size of a base64 image: PNG, GIF, JPEG or `WebP`.
pub(super) fn image_size(base64: &str) -> Option<(u32, u32)> {
    let bytes = decoded(base64.as_bytes().get(..LOOKED_AT).unwrap_or(base64.as_bytes()));
    size_of(&bytes)
}

fn size_of(bytes: &[u8]) -> Option<(u32, u32)> {
    match bytes {
        // PNG: width and height are the first fields of the IHDR chunk.
        [0x89, b'P', b'N', b'G', ..] => Some((number(bytes, 16, 4)?, number(bytes, 20, 4)?)),
        // GIF: the logical screen, least significant byte first.
        [b'G', b'I', b'F', ..] => Some((little(bytes, 6, 2)?, little(bytes, 8, 2)?)),
        [0xff, 0xd8, ..] => jpeg(bytes),
        [b'R', b'I', b'F', b'F', ..] => webp(bytes),
        _ => None,
    }
}

/// The size in a JPEG: reads its segments up to the start of a frame.
fn jpeg(bytes: &[u8]) -> Option<(u32, u32)> {
    let mut at = 2_usize;
    loop {
        let (marker, kind) = (*bytes.get(at)?, *bytes.get(at.checked_add(1)?)?);
        if marker != 0xff {
            return None;
        }
        // Any number of fill bytes may precede a marker (ITU-T T.81, B.1.1.2).
        if kind == 0xff {
            at = at.checked_add(1)?;
            continue;
        }
        // SOF0 to SOF15 begin a frame. C4, C8 and CC in between are DHT, JPG and DAC (ITU-T T.81, table B.1).
        if matches!(kind, 0xc0..=0xcf) && !matches!(kind, 0xc4 | 0xc8 | 0xcc) {
            return Some((number(bytes, at.checked_add(7)?, 2)?, number(bytes, at.checked_add(5)?, 2)?));
        }
        let length = usize::try_from(number(bytes, at.checked_add(2)?, 2)?).ok()?;
        // The length includes its own two bytes. A smaller one would stop the progress of the loop.
        at = at.checked_add(2)?.checked_add(length.max(2))?;
    }
}

fn webp(bytes: &[u8]) -> Option<(u32, u32)> {
    match bytes.get(12..16)? {
        // RFC 9649: sizes are stored minus one in VP8X and VP8L, and unchanged in VP8.
        b"VP8X" => Some((little(bytes, 24, 3)?.checked_add(1)?, little(bytes, 27, 3)?.checked_add(1)?)),
        b"VP8L" => {
            let both = little(bytes, 21, 4)?;
            Some(((both & 0x3fff).checked_add(1)?, ((both >> 14) & 0x3fff).checked_add(1)?))
        }
        b"VP8 " => Some((little(bytes, 26, 2)? & 0x3fff, little(bytes, 28, 2)? & 0x3fff)),
        _ => None,
    }
}

/// The big-endian number in these bytes.
fn number(bytes: &[u8], at: usize, length: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(length)?)?;
    Some(bytes.iter().fold(0_u32, |number, byte| number << 8 | u32::from(*byte)))
}

/// The little-endian number in these bytes.
pub(super) fn little(bytes: &[u8], at: usize, length: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(length)?)?;
    Some(bytes.iter().rev().fold(0_u32, |number, byte| number << 8 | u32::from(*byte)))
}

/// The bytes of a base64 text, up to the first invalid character.
pub(super) fn decoded(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let (mut held, mut bits) = (0_u32, 0_u32);
    for digit in text.iter().filter(|digit| !digit.is_ascii_whitespace()) {
        let Some(digit) = digit_of(*digit) else { break };
        held = (held << 6 | u32::from(digit)) & 0xff_ffff;
        bits = bits.saturating_add(6);
        if bits >= 8 {
            bits = bits.saturating_sub(8);
            bytes.extend(u8::try_from((held >> bits) & 0xff));
        }
    }
    bytes
}

const fn digit_of(digit: u8) -> Option<u8> {
    match digit {
        b'A'..=b'Z' => Some(digit.saturating_sub(b'A')),
        b'a'..=b'z' => Some(digit.saturating_sub(b'a').saturating_add(26)),
        b'0'..=b'9' => Some(digit.saturating_sub(b'0').saturating_add(52)),
        // Both alphabets of RFC 4648, sections 4 and 5.
        b'+' | b'-' => Some(62),
        b'/' | b'_' => Some(63),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn tiles_are_counted_after_the_image_was_made_to_fit() {
        for (size, tokens) in [
            (Some((1024, 1024)), 765),
            (Some((2048, 4096)), 1105),
            (Some((512, 512)), 255),
            (Some((0, 0)), 255),
            (None, 765),
        ] {
            assert_eq!(ImageRule::Tiles.tokens(size, false), tokens, "{size:?}");
            assert_eq!(ImageRule::Tiles.tokens(size, true), 85);
        }
    }

    #[test]
    fn pixels_are_counted_up_to_what_is_shown() {
        for (size, tokens) in
            [(Some((200, 200)), 54), (Some((1000, 1000)), 1334), (Some((8000, 6000)), 1600), (None, 1600)]
        {
            assert_eq!(ImageRule::Pixels.tokens(size, false), tokens, "{size:?}");
        }
    }

    #[test]
    fn the_size_stands_at_the_beginning_of_an_image() {
        let png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
        assert_eq!(image_size(png), Some((1, 1)));
        let gif = "R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7";
        assert_eq!(image_size(gif), Some((1, 1)));
        let jpeg = [0xff, 0xd8, 0xff, 0xe0, 0, 4, 1, 2, 0xff, 0xc0, 0, 11, 8, 2, 128, 3, 0, 1];
        assert_eq!(size_of(&jpeg), Some((768, 640)));
        let webp = b"RIFF\0\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0\x7f\x02\0\xdf\x01\0";
        assert_eq!(size_of(webp), Some((640, 480)));
        for none in ["", "hello", "/9j/", "not base64!"] {
            assert_eq!(image_size(none), None, "{none}");
        }
    }

    proptest! {
        #[test]
        fn no_image_is_too_odd(bytes in prop::collection::vec(any::<u8>(), 0..200), kind in 0usize..4) {
            let magic: &[u8] = [&b"\x89PNG"[..], b"GIF8", b"\xff\xd8", b"RIFFxxxxWEBPVP8L"][kind];
            let size = size_of(&[magic, &bytes].concat());
            for rule in [ImageRule::Tiles, ImageRule::Pixels] {
                prop_assert!(rule.tokens(size, false) <= 20_000);
            }
        }
    }
}
