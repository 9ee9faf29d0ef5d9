//! Parts of the state with a cached digest, so that the digest of the whole only costs the changed parts.

use core::fmt;
use core::ops::{Deref, DerefMut};
use std::sync::OnceLock;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A part of the state, with its digest until the next change.
#[derive(Clone, Default)]
pub(in crate::engine) struct TrackedPart<T> {
    value: T,
    digest: OnceLock<u128>,
}

/// A part with its own digest.
pub(in crate::engine) trait DigestedPart: Serialize {
    /// The digest: of its JSON, unless the part consists of further parts.
    fn digest(&self) -> u128 {
        digest_of_json(self)
    }
}

/// The digest of the JSON of a value.
pub(in crate::engine) fn digest_of_json(value: &(impl Serialize + ?Sized)) -> u128 {
    // Every map in the state is ordered by its keys, so equal values have equal bytes.
    xxhash_rust::xxh3::xxh3_128(&serde_json::to_vec(value).unwrap_or_default())
}

/// The digest of parts, each with its number.
pub(in crate::engine) fn digest_of_parts(parts: impl Iterator<Item = (u64, u128)>) -> u128 {
    let mut bytes = Vec::new();
    for (number, digest) in parts {
        // The number is included, so that exchanged parts have another digest; big-endian, so that it is the same on
        // every machine.
        bytes.extend(number.to_be_bytes());
        bytes.extend(digest.to_be_bytes());
    }
    xxhash_rust::xxh3::xxh3_128(&bytes)
}

impl<T: DigestedPart> TrackedPart<T> {
    /// The digest of the part.
    pub(in crate::engine) fn digest(&self) -> u128 {
        // Cached until the part is borrowed mutably: a step only costs the parts it changed.
        *self.digest.get_or_init(|| self.value.digest())
    }
}

impl<T> TrackedPart<T> {
    /// Makes a part without a computed digest.
    pub(in crate::engine) const fn new(value: T) -> Self {
        Self { value, digest: OnceLock::new() }
    }
}

impl<T> Deref for TrackedPart<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for TrackedPart<T> {
    fn deref_mut(&mut self) -> &mut T {
        // Any mutable borrow may change the part, so the digest is removed: an extra computation costs time, a
        // missing one would be wrong.
        self.digest.take();
        &mut self.value
    }
}

impl<T: PartialEq> PartialEq for TrackedPart<T> {
    fn eq(&self, other: &Self) -> bool {
        // The digest is derived, so equality does not depend on whether it was computed.
        self.value == other.value
    }
}

impl<T: fmt::Debug> fmt::Debug for TrackedPart<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}

impl<T: Serialize> Serialize for TrackedPart<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value.serialize(serializer)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for TrackedPart<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(deserializer).map(Self::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl DigestedPart for Vec<u32> {}

    #[test]
    fn a_part_that_changes_has_another_digest() {
        let mut part = TrackedPart::new(vec![1_u32]);
        let before = part.digest();
        assert_eq!(part.len(), 1);
        part.push(2);
        assert_ne!(part.digest(), before);
        part.pop();
        assert_eq!(part.digest(), before);
    }
}
