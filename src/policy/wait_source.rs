//! Where a server says how long to wait, and which of these places a policy listens to.

use super::decode::choice;

choice! {
    /// Where a server says how long to wait.
    pub enum WaitSource {
        /// `x-should-retry`: `false` ends the attempts at this target; after `true` what would be `invalid_request`
        /// is `model_error`.
        ShouldRetry = "should_retry",
        /// `retry-after-ms`, `x-ms-retry-after-ms`, `retry-after`.
        // OpenAI's SDK reads `retry-after-ms` before `retry-after` (RFC 9110, section 10.2.3); Azure's also the
        // `x-ms-` form.
        Header = "header",
        /// A field of the body (`RetryInfo`, `retry_after`), or a number in its text: the longest of them.
        Body = "body",
        /// The end of a limit of which nothing is left (`x-ratelimit-reset*`, `anthropic-*-reset`, `RateLimit`).
        // `RateLimit` is that of draft-ietf-httpapi-ratelimit-headers.
        Reset = "reset",
        /// `wait` of the row of `errors` by which the failure is classified; never longer than `max`.
        Row = "row",
    }
}

/// The places that count, in their order; each once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitSources([Option<WaitSource>; 5]);

impl WaitSource {
    /// Every place, in the order in which they count if a policy says nothing.
    // OpenAI's SDK obeys `x-should-retry` first, then the headers with a delay. A row of the error table is only our
    // own estimate and comes last.
    pub const ALL: [Self; 5] = [Self::ShouldRetry, Self::Header, Self::Body, Self::Reset, Self::Row];
}

impl WaitSources {
    /// All of them.
    pub const ALL: Self = Self([
        Some(WaitSource::ShouldRetry),
        Some(WaitSource::Header),
        Some(WaitSource::Body),
        Some(WaitSource::Reset),
        Some(WaitSource::Row),
    ]);

    /// These, in this order; `None`: one of them comes twice.
    pub fn new(sources: &[WaitSource]) -> Option<Self> {
        let mut all = Self([None; 5]);
        for source in sources {
            if all.contains(*source) {
                return None;
            }
            *all.0.iter_mut().find(|place| place.is_none())? = Some(*source);
        }
        Some(all)
    }

    /// In their order.
    pub fn iter(&self) -> impl Iterator<Item = WaitSource> {
        self.0.iter().flatten().copied()
    }

    /// Whether one of them counts.
    pub fn contains(&self, source: WaitSource) -> bool {
        self.0.contains(&Some(source))
    }
}

impl Default for WaitSources {
    fn default() -> Self {
        Self::ALL
    }
}
