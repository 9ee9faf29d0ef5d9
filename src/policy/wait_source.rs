//! Where a server says how long to wait, and which of these places a policy listens to.

use super::WaitSource;

/// The places that count, in their order; each once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitSources([Option<WaitSource>; 5]);

impl WaitSource {
    /// Every place, in the order in which they count if a policy says nothing.
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
