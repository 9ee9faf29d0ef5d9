//! Answers that are images alone: they are answers, though they have no text.

/// The text of an answer; of one that is images alone, what stands for them. Each would be paid for again if the answer passed for an empty
/// one.
pub(super) fn or_images(text: String, images: usize) -> String {
    match images {
        _ if !text.trim().is_empty() => text,
        0 => text,
        1 => "[an image]".to_owned(),
        many => format!("[{many} images]"),
    }
}
