//! Parts of the state that know their digest until they change: so the digest of the whole costs what has changed, and not
//! what there is.

use core::fmt;
use core::ops::{Deref, DerefMut};
use std::sync::OnceLock;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A part of the state, with its digest as long as nobody has changed it.
#[derive(Clone, Default)]
pub(in crate::engine) struct Tracked<T> {
    value: T,
    digest: OnceLock<u128>,
}

/// What is digested by itself.
pub(in crate::engine) trait Part: Serialize {
    /// The digest: of its JSON, unless it has parts of its own.
    fn digest(&self) -> u128 {
        digest_of_json(self)
    }
}

/// The digest of the JSON of a value.
pub(in crate::engine) fn digest_of_json(value: &(impl Serialize + ?Sized)) -> u128 {
    // Every map in the state is ordered, so the text is canonical.
    xxhash_rust::xxh3::xxh3_128(&serde_json::to_vec(value).unwrap_or_default())
}

/// The digest of parts, each with its number.
pub(in crate::engine) fn digest_of_parts(parts: impl Iterator<Item = (u64, u128)>) -> u128 {
    let mut bytes = Vec::new();
    for (number, digest) in parts {
        bytes.extend(number.to_be_bytes());
        bytes.extend(digest.to_be_bytes());
    }
    xxhash_rust::xxh3::xxh3_128(&bytes)
}

impl<T: Part> Tracked<T> {
    /// The digest of the part.
    pub(in crate::engine) fn digest(&self) -> u128 {
        *self.digest.get_or_init(|| self.value.digest())
    }
}

impl<T> Tracked<T> {
    /// The part, of which nobody has asked the digest yet.
    pub(in crate::engine) const fn new(value: T) -> Self {
        Self { value, digest: OnceLock::new() }
    }
}

impl<T> Deref for Tracked<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for Tracked<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.digest.take();
        &mut self.value
    }
}

impl<T: PartialEq> PartialEq for Tracked<T> {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl<T: fmt::Debug> fmt::Debug for Tracked<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}

impl<T: Serialize> Serialize for Tracked<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value.serialize(serializer)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Tracked<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(deserializer).map(Self::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Part for Vec<u32> {}

    #[test]
    fn a_part_that_changes_has_another_digest() {
        let mut part = Tracked::new(vec![1_u32]);
        let before = part.digest();
        assert_eq!(part.len(), 1);
        part.push(2);
        assert_ne!(part.digest(), before);
        part.pop();
        assert_eq!(part.digest(), before);
    }
}
