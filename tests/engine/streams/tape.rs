//! A tape of choices: whatever is random in a test is read from it, so that a failing case shrinks. Beyond its end
//! every choice is the first one, which is always the harmless one.

pub(crate) struct Tape {
    choices: Vec<u16>,
    at: usize,
}

impl Tape {
    pub(crate) const fn new(choices: Vec<u16>) -> Self {
        Self { choices, at: 0 }
    }

    /// A long tape made of a number.
    pub(crate) fn from_seed(seed: u64) -> Self {
        let mut state = seed;
        let next = || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            u16::try_from(mixed >> 48).unwrap_or(u16::MAX)
        };
        Self::new(core::iter::repeat_with(next).take(2000).collect())
    }

    /// So many choices of it.
    pub(crate) fn rest(mut self, most: usize) -> Vec<u16> {
        self.choices.truncate(most);
        self.choices
    }

    pub(crate) const fn is_over(&self) -> bool {
        self.at >= self.choices.len()
    }

    /// A number below `most`.
    pub(crate) fn below(&mut self, most: usize) -> usize {
        let choice = self.choices.get(self.at).copied().unwrap_or(0);
        self.at += 1;
        usize::from(choice) % most.max(1)
    }

    pub(crate) fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    /// True once in so many times.
    pub(crate) fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == times - 1
    }
}
