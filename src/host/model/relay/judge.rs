//! Who looks at a reply before it is passed on.

use bytes::Bytes;

use crate::engine::{Failure, ModelReply};

/// Holds replies against what their request asks for.
pub(in crate::host) trait ReplyJudge: Sync {
    /// How much of a stream is held back until it has been looked at.
    fn holds(&self) -> HeldPart;

    /// What keeps a client waiting for events that are held back.
    fn still(&self) -> &'static [u8];

    /// Repairs a reply, as far as it goes out in that form. A failure: another one is wanted in its place, if none of it is out.
    fn judge(&self, reply: ModelReply, form: ReplyForm<'_>) -> JudgedReply;
}

/// How much of a stream is held back until it has been looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::host) enum HeldPart {
    #[default]
    Nothing,
    /// Its calls, as they are repaired as a whole.
    Calls,
    /// What comes before its text, and its calls.
    UntilText,
    All,
}

/// How a reply goes out.
pub(in crate::host) enum ReplyForm<'b> {
    /// It is written by what it says.
    Written,
    /// As these bytes.
    Bytes(&'b mut Bytes),
    /// As these events, in which it came: those that are not out yet.
    Events(&'b mut Bytes),
}

/// A reply that was looked at.
pub(in crate::host) struct JudgedReply {
    pub(in crate::host) reply: ModelReply,
    pub(in crate::host) refused: Option<Failure>,
}

impl JudgedReply {
    /// One that nobody looks at.
    pub(super) const fn unseen(reply: ModelReply) -> Self {
        Self { reply, refused: None }
    }
}
