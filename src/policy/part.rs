//! The parts of a policy: what its files and their profiles say, as it was read.

use std::sync::Arc;

use super::document::PolicyBlocks;
use crate::text::{SourceId, Sources};

/// The blocks of a file or of a profile in it, and what they are.
#[derive(Clone, Debug)]
pub(crate) struct PolicyPart {
    pub(crate) kind: PartKind,
    /// The text it was read from.
    pub(crate) source: SourceId,
    pub(crate) blocks: Arc<PolicyBlocks>,
}

/// What a set of blocks is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PartKind {
    /// The built-in default.
    Builtin,
    /// A file.
    File,
    /// A profile of that name.
    Profile(String),
}

/// What was read, ready to be merged.
pub(crate) struct ReadPolicy {
    pub(crate) sources: Sources,
    pub(crate) digest: String,
    pub(crate) parts: Vec<PolicyPart>,
    /// The names of all profiles, in the order of first declaration.
    pub(crate) profiles: Vec<String>,
    /// The profile that is chosen.
    pub(crate) profile: Option<String>,
}

/// The parts that have their say when that profile is chosen, lowest first: profiles take precedence over all files.
pub(crate) fn chosen<'p>(parts: &'p [PolicyPart], profile: Option<&str>) -> Vec<&'p PolicyPart> {
    let files = parts.iter().filter(|part| !matches!(part.kind, PartKind::Profile(_)));
    // A profile is chosen by hand, so it also wins over files that are loaded after its own.
    let above =
        parts.iter().filter(|part| matches!(&part.kind, PartKind::Profile(name) if profile == Some(name)));
    files.chain(above).collect()
}
