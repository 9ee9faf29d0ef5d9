//! Images and documents that a run is given, and those that its tools give: kept as files, and named in texts.

use std::fmt;
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_128;

use super::result_files::ResultFiles;
use crate::engine::{ContentPart, content_text};

/// The most bytes of one file.
pub(super) const MOST_BYTES: usize = 10 * 1024 * 1024;
/// The most files that a run is given.
const MOST_FILES: usize = 20;
/// The most characters of a name.
const LONGEST_NAME: usize = 100;

/// An image or a document that a run is given with its task.
#[derive(Clone)]
pub struct TaskAttachment {
    name: String,
    media: MediaType,
    bytes: Arc<[u8]>,
}

/// A file that no model can be shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AttachmentError {
    /// It is of another type.
    #[error("`{name}` is neither an image (PNG, JPEG, GIF or WebP) nor a PDF, by its content")]
    UnknownType {
        /// What it is called.
        name: String,
    },
    /// It is too large.
    #[error("`{name}` has {bytes} bytes, and an attachment has at most {} MiB", MOST_BYTES / 1024 / 1024)]
    TooLarge {
        /// What it is called.
        name: String,
        /// How large it is.
        bytes: usize,
    },
    /// There are too many of them.
    #[error("there are {count} attachments, and a task has at most {MOST_FILES}")]
    TooMany {
        /// How many.
        count: usize,
    },
    /// It cannot be kept for the models that are asked later.
    #[error("`{name}` cannot be kept: {why}")]
    NotKept {
        /// What it is called.
        name: String,
        /// Why.
        why: String,
    },
}

/// What models can be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MediaType {
    Png,
    Jpeg,
    Gif,
    WebP,
    Pdf,
}

const ALL: [MediaType; 5] =
    [MediaType::Png, MediaType::Jpeg, MediaType::Gif, MediaType::WebP, MediaType::Pdf];

impl MediaType {
    /// The type of a file, by its first bytes.
    pub(super) fn of(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some(Self::Png),
            [0xff, 0xd8, 0xff, ..] => Some(Self::Jpeg),
            [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some(Self::Gif),
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some(Self::WebP),
            [b'%', b'P', b'D', b'F', b'-', ..] => Some(Self::Pdf),
            _ => None,
        }
    }

    pub(super) const fn mime(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Gif => "image/gif",
            Self::WebP => "image/webp",
            Self::Pdf => "application/pdf",
        }
    }

    /// The type of that name.
    pub(super) fn of_mime(mime: &str) -> Option<Self> {
        ALL.into_iter().find(|media| media.mime() == mime)
    }

    /// The type of files whose names end so, in small letters.
    #[cfg(feature = "serve")]
    pub(super) fn of_extension(extension: &str) -> Option<Self> {
        let extension = if extension == "jpg" { "jpeg" } else { extension };
        ALL.into_iter().find(|media| media.subtype() == extension)
    }

    /// What kind of image it is, or `pdf`: also how names of such files end, and how Bedrock calls it (`ImageFormat` of its service
    /// model).
    pub(super) fn subtype(self) -> &'static str {
        self.mime().split_once('/').map_or("", |(_, subtype)| subtype)
    }

    pub(super) const fn is_image(self) -> bool {
        !matches!(self, Self::Pdf)
    }

    const fn kind(self) -> &'static str {
        if self.is_image() { "image" } else { "document" }
    }
}

impl TaskAttachment {
    /// A file with that name. Its content says of what type it is.
    ///
    /// # Errors
    /// It is no PNG, JPEG, GIF, WebP or PDF, or is larger than 10 MiB.
    pub fn new(name: &str, bytes: impl Into<Arc<[u8]>>) -> Result<Self, AttachmentError> {
        let bytes = bytes.into();
        // It stands between brackets and a comma in the texts that models read.
        let tame = |c: char| if c.is_control() || "[],\"".contains(c) { '_' } else { c };
        let name: String = name.chars().take(LONGEST_NAME).map(tame).collect();
        if bytes.len() > MOST_BYTES {
            return Err(AttachmentError::TooLarge { name, bytes: bytes.len() });
        }
        match MediaType::of(&bytes) {
            Some(media) => Ok(Self { name, media, bytes }),
            None => Err(AttachmentError::UnknownType { name }),
        }
    }

    /// The most bytes of one.
    pub const MOST_BYTES: usize = MOST_BYTES;
}

impl fmt::Debug for TaskAttachment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, media, bytes } = self;
        f.debug_struct("TaskAttachment")
            .field("name", name)
            .field("media", media)
            .field("bytes", &bytes.len())
            .finish()
    }
}

/// The files of a run that its conversation names, for the models that can be shown them.
#[derive(Clone, Debug, Default)]
pub struct AttachedFiles(Option<Arc<ResultFiles>>);

impl AttachedFiles {
    pub(super) const fn of(results: Arc<ResultFiles>) -> Self {
        Self(Some(results))
    }

    /// The files under these handles that models can be shown, as many of the first ones as have no more bytes than `most`.
    pub(super) async fn read(&self, handles: Vec<String>, most: usize) -> Vec<(String, MediaType, Vec<u8>)> {
        let Some(results) = self.0.clone() else { return Vec::new() };
        let read = move || {
            let mut left = most;
            let mut files = Vec::new();
            for handle in handles {
                let Some(bytes) = results.bytes(&handle, left.min(MOST_BYTES)) else { continue };
                let Some(media) = MediaType::of(&bytes) else { continue };
                left = left.saturating_sub(bytes.len());
                files.push((handle, media, bytes));
            }
            files
        };
        tokio::task::spawn_blocking(read).await.unwrap_or_default()
    }
}

/// A handle that says what is kept under it: the same file has the same one.
pub(super) fn handle(bytes: &[u8]) -> String {
    format!("a-{:032x}", xxh3_128(bytes))
}

/// Keeps the attachments of a task. Returns the text of the task, which names them.
pub(super) async fn with_attachments(
    task: String,
    attachments: Vec<TaskAttachment>,
    results: &Arc<ResultFiles>,
) -> Result<String, AttachmentError> {
    if attachments.len() > MOST_FILES {
        return Err(AttachmentError::TooMany { count: attachments.len() });
    }
    let mut text = task;
    for TaskAttachment { name, media, bytes } in attachments {
        let (handle, results, size) = (handle(&bytes), Arc::clone(results), bytes.len());
        let named = handle.clone();
        let kept = tokio::task::spawn_blocking(move || results.keep_file(&named, media.mime(), &bytes)).await;
        if let Err(error) = kept.unwrap_or_else(|broken| Err(std::io::Error::other(broken))) {
            return Err(AttachmentError::NotKept { name, why: super::file_error(&error) });
        }
        let part = ContentPart::Binary {
            kind: format!("{} {name}", media.kind()),
            media_type: media.mime().to_owned(),
            bytes: u64::try_from(size).unwrap_or(u64::MAX),
            handle: Some(handle),
        };
        if !text.is_empty() {
            text.push_str("\n\n");
        }
        text.push_str(&content_text([part]));
    }
    Ok(text)
}
