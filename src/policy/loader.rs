//! From files to a policy: those that are named, those they extend, and the profile that is chosen.

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use xxhash_rust::xxh3::Xxh3;

use super::Findings;
use super::builtin::{BUILTIN_TEXTS, DEFAULT, DEFAULT_NAME, PRESETS, TABLES};
use super::decode;
use super::document::{FileHeader, ParentFile, PolicyBlocks, PolicyFile};
use super::load::{MergeOptions, Policy, Review};
use super::part::{PartKind, PolicyPart, ReadPolicy};
use crate::text::did_you_mean::closest;
use crate::text::source::CHOICE;
use crate::text::{Code, Diagnostic, Report, SourceId, Sources, Span};

/// The most files of a policy, those that are extended included.
const MOST_FILES: usize = 64;

/// Finds a file that another one extends: given the name of that one and the path it says, the name of the file and
/// its bytes. The same file always has the same name.
pub(crate) type FileResolver<'r> = dyn FnMut(&str, &str) -> Result<(String, Vec<u8>), String> + 'r;

/// Loads policies: with files that others extend, and with a profile.
///
/// ```
/// use unfazed::policy::Loader;
/// let base = "version: 1\nretry: {max_attempts: 5}";
/// let team = "version: 1\nextends: base.yaml\nprofiles: {ci: {turn: {max_turns: 3}}}";
/// let mut find = |_from: &str, path: &str| Ok((path.to_owned(), base.as_bytes().to_vec()));
/// let policy = Loader::new().profile("ci").load_with(&mut find, vec![("team.yaml".into(), team)])?;
/// assert_eq!(policy.turn().max_turns.value.get(), 3);
/// # Ok::<(), unfazed::text::Report>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Loader {
    profile: Option<String>,
    /// What chose it: `--profile`.
    profile_from: Option<String>,
    incomplete: bool,
    merging: MergeOptions,
}

/// A text to be read: its name, its bytes, and how many lines come before it in the file it is a part of.
#[cfg(feature = "host")]
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct NamedText {
    pub(crate) name: String,
    pub(crate) bytes: Arc<[u8]>,
    pub(crate) before: u32,
}

// A text may have secrets in it.
#[cfg(feature = "host")]
crate::debug_parts!(|this: NamedText| name: this.name, bytes: this.bytes.len(), before: this.before);

/// What every policy begins with. It is read once.
static BASE: LazyLock<Option<BaseFile>> = LazyLock::new(|| {
    let mut reading = ReadingFiles::new(None);
    reading.builtin();
    let ReadingFiles { sources, findings, digest, parts, .. } = reading;
    // If the built-in files are broken, the next load reads them again and reports their mistakes.
    (!findings.has_errors()).then_some(BaseFile { sources, digest, parts })
});

struct BaseFile {
    sources: Sources,
    digest: Xxh3,
    parts: Vec<PolicyPart>,
}

impl Loader {
    /// Loads policies without a profile.
    pub fn new() -> Self {
        Self::default()
    }

    /// Chooses the profile of that name.
    #[must_use]
    pub fn profile(mut self, name: impl Into<String>) -> Self {
        self.profile = Some(name.into());
        self
    }

    /// Says what chose the profile, a flag or a setting, to those who look for one that is not there.
    #[must_use]
    pub fn profile_from(mut self, what: impl Into<String>) -> Self {
        self.profile_from = Some(what.into());
        self
    }

    /// Looks for mistakes in every profile, not only in the one that is chosen.
    #[must_use]
    pub const fn every_profile(mut self) -> Self {
        self.merging.every_profile = true;
        self
    }

    /// Has the rest of a policy that cannot be used looked at, for findings to report with its mistakes.
    pub(crate) fn with_review(mut self, review: Review) -> Self {
        self.merging.review = Some(review);
        self
    }

    /// Tells the mistakes of each file alone, because another one of the same policy is not there. No policy is
    /// made of them; the report may be empty.
    #[must_use]
    pub const fn incomplete(mut self) -> Self {
        self.incomplete = true;
        self
    }

    /// Makes a policy of what could be read, whatever is wrong with the rest. It is to be compared with, not to be used.
    #[must_use]
    pub const fn lenient(mut self) -> Self {
        self.merging.lenient = true;
        self
    }

    /// A policy of several files, named and in load order, of which none extends another.
    ///
    /// # Errors
    /// Every mistake in all of them.
    pub fn load<T: AsRef<[u8]>>(&self, files: Vec<(String, T)>) -> Result<Policy, Report> {
        self.read(None, files.into_iter().map(|(name, bytes)| (name, bytes, 0)))
    }

    /// A policy of several files, named and in load order, and of those they extend.
    ///
    /// # Errors
    /// Every mistake in all of them.
    pub fn load_with<T: AsRef<[u8]>>(
        &self,
        resolve: &mut FileResolver<'_>,
        files: Vec<(String, T)>,
    ) -> Result<Policy, Report> {
        // The lifetime in the trait object is invariant, so a closure of our own replaces it.
        let mut resolve = |from: &str, path: &str| resolve(from, path);
        let files = files.into_iter().map(|(name, bytes)| (name, bytes, 0));
        self.read(Some(&mut resolve), files)
    }

    /// A policy of several texts, of which some are parts of files.
    ///
    /// # Errors
    /// Every mistake in all of them.
    #[cfg(feature = "host")]
    pub(crate) fn load_texts(
        &self,
        resolve: &mut FileResolver<'_>,
        texts: &[NamedText],
    ) -> Result<Policy, Report> {
        let mut resolve = |from: &str, path: &str| resolve(from, path);
        let files = texts.iter().map(|text| (text.name.as_str(), &*text.bytes, text.before));
        self.read(Some(&mut resolve), files)
    }

    fn read<'r, N: AsRef<str>, T: AsRef<[u8]>>(
        &self,
        resolve: Option<&'r mut FileResolver<'r>>,
        files: impl Iterator<Item = (N, T, u32)>,
    ) -> Result<Policy, Report> {
        let mut reading = ReadingFiles::new(resolve);
        reading.begin();
        if self.incomplete {
            reading.findings.lose_file();
        }
        for (name, bytes, before) in files {
            // A file that another one extends is read once, below that one.
            if !reading.reached.contains(name.as_ref()) {
                reading.file(name.as_ref(), bytes.as_ref(), before);
            }
        }
        let ReadingFiles { sources, mut findings, mut digest, parts, profiles, .. } = reading;
        // Rules are checked together, and where a file is missing a rule may only seem to be wrong.
        if findings.lost().has_file() || findings.problems().is_crowded() {
            return Err(findings.into_report(sources));
        }
        // The same files decide differently under another profile, so its name is a part of the digest.
        if let Some(name) = &self.profile {
            // The word keeps a profile `x` apart from a file that says `x`.
            hash(&mut digest, b"profile");
            hash(&mut digest, name.as_bytes());
            if !profiles.contains(name) && !findings.lost().any(&["profiles"]) {
                findings.push(no_profile(name, self.profile_from.as_deref(), &profiles));
            }
        }
        let digest = format!("{:032x}", digest.digest128());
        let read = ReadPolicy { sources, digest, parts, profiles, profile: self.profile.clone() };
        Policy::merge(read, &self.merging, findings)
    }
}

impl Policy {
    /// A policy of several files, named and in load order. Reading files is the host's business.
    ///
    /// # Errors
    /// Every mistake in all of them.
    pub fn load<T: AsRef<[u8]>>(files: Vec<(String, T)>) -> Result<Self, Report> {
        Loader::new().load(files)
    }

    /// A policy of several files and those they extend. See [`Loader`] for profiles.
    ///
    /// # Errors
    /// Every mistake in all of them.
    pub fn load_with<T: AsRef<[u8]>>(
        files: Vec<(String, T)>,
        resolve: &mut FileResolver<'_>,
    ) -> Result<Self, Report> {
        Loader::new().load_with(resolve, files)
    }
}

/// Files as they are read, parents before those that extend them.
struct ReadingFiles<'r> {
    sources: Sources,
    findings: Findings,
    resolve: Option<&'r mut FileResolver<'r>>,
    digest: Xxh3,
    parts: Vec<PolicyPart>,
    profiles: Vec<String>,
    /// The files that others extend, by name.
    reached: BTreeSet<String>,
    /// The files that are being read, each extended by the one before it; and where that one says so.
    chain: Vec<(String, Option<Span>)>,
}

impl<'r> ReadingFiles<'r> {
    fn new(resolve: Option<&'r mut FileResolver<'r>>) -> Self {
        Self {
            sources: Sources::new(),
            findings: Findings::default(),
            resolve,
            digest: Xxh3::new(),
            parts: Vec::new(),
            profiles: Vec::new(),
            reached: BTreeSet::new(),
            chain: Vec::new(),
        }
    }

    /// Takes what every policy begins with.
    fn begin(&mut self) {
        let Some(base) = &*BASE else { return self.builtin() };
        self.sources = base.sources.clone();
        self.digest = base.digest.clone();
        self.parts.clone_from(&base.parts);
    }

    fn builtin(&mut self) {
        hash(&mut self.digest, DEFAULT.as_bytes());
        let read =
            decode::read_shipped::<PolicyFile>(&mut self.sources, &mut self.findings, DEFAULT_NAME, DEFAULT);
        for (name, text) in TABLES {
            hash(&mut self.digest, text.as_bytes());
            self.sources.add(*name, *text);
        }
        let Some((source, file)) = read else { return };
        let blocks = Arc::new(file.split().1);
        self.parts.push(PolicyPart { kind: PartKind::Builtin, source, blocks });
    }

    fn file(&mut self, name: &str, bytes: &[u8], before: u32) {
        self.chain.push((name.to_owned(), None));
        self.open(name, bytes, before);
        self.chain.pop();
    }

    /// Reads the file at the end of the chain, and before it those it extends.
    fn open(&mut self, name: &str, bytes: &[u8], before: u32) {
        let Some((source, header, blocks)) = self.decoded(name, bytes, before) else {
            self.findings.lose_file();
            return;
        };
        // Parents come first, so that the file that extends them overrides them.
        for parent in &header.extends {
            self.parent(name, parent);
        }
        hash(&mut self.digest, bytes);
        self.parts.push(PolicyPart { kind: PartKind::File, source, blocks });
        for (name, blocks) in header.profiles {
            if !self.profiles.contains(&name) {
                self.profiles.push(name.clone());
            }
            self.parts.push(PolicyPart { kind: PartKind::Profile(name), source, blocks: Arc::new(blocks) });
        }
    }

    /// What a file itself says. The blocks are large: none are kept on the stack while the files it extends are read.
    fn decoded(
        &mut self,
        name: &str,
        bytes: &[u8],
        before: u32,
    ) -> Option<(SourceId, FileHeader, Arc<PolicyBlocks>)> {
        let read = decode::read_into::<PolicyFile>(&mut self.sources, &mut self.findings, name, bytes);
        self.sources.put_below(before);
        let (source, file) = read?;
        let (header, blocks) = file.split();
        Some((source, header, Arc::new(blocks)))
    }

    fn parent(&mut self, child: &str, parent: &ParentFile) {
        let (path, span) = (parent.value.as_str(), parent.span);
        if path.starts_with("builtin:") {
            return self.preset(path, span);
        }
        // Loading does no network I/O: rules must not change because a server does.
        if path.contains("://") {
            let message = format!("`{path}` is an address, and only files are extended");
            let problem = Diagnostic::error(Code::EXTENDS, span, message);
            self.findings.push(problem.help("fetch it beforehand, and name the file"));
            self.findings.lose_file();
            return;
        }
        let Some(resolve) = self.resolve.as_mut() else {
            let message =
                "`extends` needs someone who reads files, and this policy was loaded from texts alone";
            let problem = Diagnostic::error(Code::EXTENDS, span, message);
            self.findings.push(problem.help("load it with `Policy::load_with`, or give all files in order"));
            self.findings.lose_file();
            return;
        };
        if self.sources.len() >= BUILTIN_TEXTS.saturating_add(MOST_FILES) {
            let message = format!("a policy of more than {MOST_FILES} files");
            self.findings.push(Diagnostic::error(Code::TOO_LARGE, span, message));
            self.findings.lose_file();
            return;
        }
        let (name, bytes) = match resolve(child, path) {
            Ok(found) => found,
            Err(error) => {
                let problem = Diagnostic::error(Code::EXTENDS, span, error);
                self.findings.push(self.with_chain(problem, path));
                self.findings.lose_file();
                return;
            }
        };
        // A file on the way here is a circle. A file that was read before is not: two files may extend the same one.
        if self.chain.iter().any(|(open, _)| *open == name) {
            let problem = Diagnostic::error(Code::EXTENDS, span, format!("`{name}` extends itself"));
            self.findings.push(self.with_chain(problem, &name).label("this closes the circle"));
            return;
        }
        // It is read once, at its lowest place, so that everything that extends it overrides it.
        if !self.reached.insert(name.clone()) {
            return;
        }
        self.chain.push((name.clone(), Some(span)));
        self.open(&name, &bytes, 0);
        self.chain.pop();
    }

    /// A policy that ships with the product, and is extended by name.
    fn preset(&mut self, name: &str, span: Span) {
        if name == DEFAULT_NAME {
            // It is the lowest layer of every policy.
            return;
        }
        let Some((name, text)) = PRESETS.iter().find(|(known, _)| *known == name) else {
            self.findings.push(no_builtin(name, span));
            self.findings.lose_file();
            return;
        };
        if self.reached.insert((*name).to_owned()) {
            self.chain.push(((*name).to_owned(), Some(span)));
            self.open(name, text.as_bytes(), 0);
            self.chain.pop();
        }
    }

    /// The way that leads to a parent, and where each file on it says so.
    fn with_chain(&self, problem: Diagnostic, last: &str) -> Diagnostic {
        let names: Vec<&str> = self.chain.iter().map(|(name, _)| name.as_str()).chain([last]).collect();
        // A chain of one step says no more than the place does.
        let chain = (names.len() > 2).then(|| format!("the chain is {}", names.join(" -> ")));
        let mut problem = problem.help_if(chain);
        for (name, at) in &self.chain {
            if let Some(at) = at {
                problem = problem.also(*at, format!("`{name}` is extended here"));
            }
        }
        problem
    }
}

fn no_builtin(path: &str, span: Span) -> Diagnostic {
    let problem = Diagnostic::error(Code::UNKNOWN_NAME, span, format!("there is no `{path}`"));
    let known: Vec<&'static str> =
        [DEFAULT_NAME].into_iter().chain(PRESETS.iter().map(|(name, _)| *name)).collect();
    // People write `builtin:preset/x` and `builtin:x` where `builtin:presets/x` is meant.
    let last = |path: &'static str| path.rsplit(['/', ':']).next().unwrap_or(path);
    let name = path.rsplit(['/', ':']).next().unwrap_or(path);
    let near = closest(name, known.iter().copied().map(last));
    match near.and_then(|near| known.iter().copied().find(|known| last(known) == near)) {
        Some(meant) if name == last(meant) => {
            problem.label(format!("did you mean `{meant}`?")).fix(span, "write its whole name", meant)
        }
        Some(meant) => problem.meant(span, path, meant, known.iter().copied()),
        None => problem.help(format!("there are {}", decode::list(&known))),
    }
}

/// The name is in no file: no text is shown with it.
fn no_profile(name: &str, from: Option<&str>, profiles: &[String]) -> Diagnostic {
    let chosen = from.map(|from| format!(", which {from} chooses")).unwrap_or_default();
    let message = format!("there is no profile `{name}`{chosen}");
    let problem = Diagnostic::error(Code::UNKNOWN_NAME, Span::new(CHOICE, 0, 0), message);
    let known: Vec<&str> = profiles.iter().map(String::as_str).collect();
    let problem = match closest(name, known.iter().copied()) {
        Some(meant) => problem.label(format!("did you mean `{meant}`?")),
        None => problem,
    };
    match known.as_slice() {
        [] => problem.help("no file declares `profiles`"),
        [one] => problem.help(format!("there is `{one}`")),
        _ => problem.help(format!("there are {}", decode::list(&known))),
    }
}

fn hash(digest: &mut Xxh3, bytes: &[u8]) {
    // The length comes first. Without it, moving text from the end of one file to the start of the next would not
    // change the digest.
    digest.update(&u64::try_from(bytes.len()).unwrap_or(u64::MAX).to_le_bytes());
    digest.update(bytes);
}

#[cfg(test)]
mod tests;
