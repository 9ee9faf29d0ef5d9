//! What all gateways know of a key, and which writes of each of them are in it.
//!
//! A write may be kept though its answer is lost, and others may write after it. So each names itself, and what is kept names the
//! last write of each gateway: what one gateway has used is added once, however often the answers are lost, and whether or not its
//! process lives.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::key_use::KeyUse;
use crate::host::new_uuid;

/// So many gateways are named: those that wrote last. What another one has written without an answer may be added twice.
const WRITERS: usize = 32;
/// So many writes without an answer are remembered: those of a place that can be read but not written, with one a second.
const UNANSWERED: usize = 16;

/// What all know of a key, as it is written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct WrittenUse {
    pub(super) used: KeyUse,
    /// The gateways that wrote last, each with its last write.
    by: Vec<(u64, u64)>,
}

/// What all knew last of a key, as one gateway knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct KnownUse {
    pub(super) version: u64,
    written: WrittenUse,
    /// What this gateway has written since and not seen answered: one of it may be there.
    unanswered: Vec<(u64, KeyUse)>,
    /// What was used when a process before wrote it down. Writes that are unknown here came later, and have all of it.
    kept: Option<KeyUse>,
}

/// What the others may not know, as it survives the process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct UnsharedUse {
    /// The gateway, which whoever reads it is from now on.
    pub(super) gateway: u64,
    pub(super) keys: BTreeMap<String, UnsharedKey>,
}

/// The same of one key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct UnsharedKey {
    pub(super) used: KeyUse,
    pub(super) known: KnownUse,
}

/// The name of a gateway, or of a write.
pub(super) fn new_name() -> u64 {
    new_uuid().as_u64_pair().1
}

impl WrittenUse {
    pub(super) fn value(&self) -> Value {
        json!({ "version": 1, "used": self.used, "by": self.by })
    }

    pub(super) fn read(value: &Value) -> Option<Self> {
        Self::deserialize(value).ok().filter(|_| value.get("version") == Some(&json!(1)))
    }

    /// What is written next by that gateway.
    fn followed_by(&self, used: KeyUse, gateway: u64, write: u64) -> Self {
        let others = self.by.iter().filter(|(writer, _)| *writer != gateway).copied();
        let mut by: Vec<_> = others.chain([(gateway, write)]).collect();
        by.drain(..by.len().saturating_sub(WRITERS));
        Self { used, by }
    }

    fn last_of(&self, gateway: u64) -> Option<u64> {
        self.by.iter().find(|(writer, _)| *writer == gateway).map(|(_, write)| *write)
    }
}

impl KnownUse {
    /// What all know now.
    pub(super) fn new(version: u64, written: WrittenUse) -> Self {
        Self { version, written, ..Self::default() }
    }

    /// What a process before has written down, with what was used by then.
    pub(super) fn kept(self, used: KeyUse) -> Self {
        Self { kept: Some(used), ..self }
    }

    /// That is about to be written. Returns the value.
    pub(super) fn write(&mut self, used: &KeyUse, gateway: u64, write: u64) -> Value {
        if self.unanswered.len() >= UNANSWERED {
            self.unanswered.remove(0);
        }
        self.unanswered.push((write, used.clone()));
        self.written.followed_by(used.clone(), gateway, write).value()
    }

    /// It was written, as the next version.
    pub(super) fn answered(&mut self, used: KeyUse, gateway: u64, write: u64) {
        let written = self.written.followed_by(used, gateway, write);
        *self = Self::new(self.version.saturating_add(1), written);
    }

    /// What of this gateway is in what is found now.
    pub(super) fn before(&self, found: &WrittenUse, gateway: u64) -> &KeyUse {
        let last = found.last_of(gateway);
        let unanswered = self.unanswered.iter().find(|(write, _)| Some(*write) == last);
        match (unanswered, &self.kept) {
            (Some((_, used)), _) => used,
            (None, Some(kept)) if last.is_some() && last != self.written.last_of(gateway) => kept,
            _ => &self.written.used,
        }
    }
}
