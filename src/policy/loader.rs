//! From files to a policy: those that are named, those they extend, and the profile that is chosen.

use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

use xxhash_rust::xxh3::Xxh3;

use super::builtin::{BUILTIN_TEXTS, DEFAULT, DEFAULT_NAME, PRESETS, TABLES};
use super::decode;
use super::did_you_mean::closest;
use super::document::{Blocks, Header, Parent, PolicyFile};
use super::source::CHOICE;
use super::{Code, Diagnostic, Findings, LintOptions, Policy, Report, SourceId, Sources, Span};

/// The most files of a policy, those that are extended included.
const MOST_FILES: usize = 64;

/// Finds a file that another one extends: given the name of that one and the path it says, the name of the file and
/// its bytes. The same file always has the same name.
pub type Resolve<'r> = dyn FnMut(&str, &str) -> Result<(String, Vec<u8>), String> + 'r;

/// Loads policies: with files that others extend, and with a profile.
///
/// ```
/// use unfazed::policy::Loader;
/// let base = "version: 1\nretry: {max_attempts: 5}";
/// let team = "version: 1\nextends: base.yaml\nprofiles: {ci: {turn: {max_turns: 3}}}";
/// let mut find = |_from: &str, path: &str| Ok((path.to_owned(), base.as_bytes().to_vec()));
/// let policy = Loader::new().profile("ci").load_with(&mut find, vec![("team.yaml".into(), team)])?;
/// assert_eq!(policy.turn().max_turns.value.get(), 3);
/// # Ok::<(), unfazed::policy::Report>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Loader {
    profile: Option<String>,
    /// What chose it: `--profile`.
    profile_from: Option<String>,
    every_profile: bool,
    lints: Option<LintOptions>,
    incomplete: bool,
    lenient: bool,
}

/// What was read, ready to be merged.
pub(super) struct Read {
    pub(super) sources: Sources,
    pub(super) digest: String,
    pub(super) parts: Vec<Part>,
    /// The names of all profiles, in the order of first declaration.
    pub(super) profiles: Vec<String>,
    /// The profile that is chosen.
    pub(super) profile: Option<String>,
}

/// The blocks of a file or of a profile in it, and what they are.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) kind: PartKind,
    /// The text it was read from.
    pub(super) source: SourceId,
    pub(super) blocks: Arc<Blocks>,
}

/// A text to be read: its name, its bytes, and how many lines come before it in the file it is a part of.
#[cfg(feature = "host")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Text {
    pub(crate) name: String,
    pub(crate) bytes: Arc<[u8]>,
    pub(crate) before: u32,
}

/// What every policy begins with. It is read once.
static BASE: LazyLock<Option<Base>> = LazyLock::new(|| {
    let mut reading = Reading::new(None);
    reading.builtin();
    let Reading { sources, findings, digest, parts, .. } = reading;
    // What is wrong with it is told by whoever reads it in vain.
    (!findings.has_errors()).then_some(Base { sources, digest, parts })
});

struct Base {
    sources: Sources,
    digest: Xxh3,
    parts: Vec<Part>,
}

/// What a set of blocks is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PartKind {
    /// The built-in default.
    Builtin,
    /// A file.
    File,
    /// A profile of that name.
    Profile(String),
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
        self.every_profile = true;
        self
    }

    /// Tells with the mistakes of a policy that cannot be used what [`Policy::lint`] finds in the rest of it.
    #[must_use]
    pub fn with_lints(mut self, options: LintOptions) -> Self {
        self.lints = Some(options);
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
    #[cfg(feature = "host")]
    pub(crate) const fn lenient(mut self) -> Self {
        self.lenient = true;
        self
    }

    /// Whether mistakes keep a policy from being made.
    pub(super) const fn is_lenient(&self) -> bool {
        self.lenient
    }

    /// Whether mistakes are looked for in every profile.
    pub(super) const fn checks_every_profile(&self) -> bool {
        self.every_profile
    }

    /// What is looked for besides mistakes.
    pub(super) const fn lints(&self) -> Option<&LintOptions> {
        self.lints.as_ref()
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
        resolve: &mut Resolve<'_>,
        files: Vec<(String, T)>,
    ) -> Result<Policy, Report> {
        // Its bound is invariant; a closure of our own has one that fits.
        let mut resolve = |from: &str, path: &str| resolve(from, path);
        let files = files.into_iter().map(|(name, bytes)| (name, bytes, 0));
        self.read(Some(&mut resolve), files)
    }

    /// A policy of several texts, of which some are parts of files.
    ///
    /// # Errors
    /// Every mistake in all of them.
    #[cfg(feature = "host")]
    pub(crate) fn load_texts(&self, resolve: &mut Resolve<'_>, texts: &[Text]) -> Result<Policy, Report> {
        let mut resolve = |from: &str, path: &str| resolve(from, path);
        let files = texts.iter().map(|text| (text.name.as_str(), &*text.bytes, text.before));
        self.read(Some(&mut resolve), files)
    }

    fn read<'r, N: AsRef<str>, T: AsRef<[u8]>>(
        &self,
        resolve: Option<&'r mut Resolve<'r>>,
        files: impl Iterator<Item = (N, T, u32)>,
    ) -> Result<Policy, Report> {
        let mut reading = Reading::new(resolve);
        reading.begin();
        if self.incomplete {
            reading.findings.lose_file();
        }
        for (name, bytes, before) in files {
            // What another file extends has its place below that one.
            if !reading.reached.contains(name.as_ref()) {
                reading.file(name.as_ref(), bytes.as_ref(), before);
            }
        }
        let Reading { sources, mut findings, mut digest, parts, profiles, .. } = reading;
        // Rules are judged together, and those of a whole file are not there.
        if findings.lost().has_file() || findings.is_crowded() {
            return Err(findings.into_report(sources));
        }
        if let Some(name) = &self.profile {
            hash(&mut digest, b"profile");
            hash(&mut digest, name.as_bytes());
            if !profiles.contains(name) && !findings.lost().any(&["profiles"]) {
                findings.push(no_profile(name, self.profile_from.as_deref(), &profiles));
            }
        }
        let digest = format!("{:032x}", digest.digest128());
        let read = Read { sources, digest, parts, profiles, profile: self.profile.clone() };
        Policy::merge(read, self, findings)
    }
}

/// The parts that have their say when that profile is chosen, lowest first: profiles stand above all files.
pub(super) fn chosen<'p>(parts: &'p [Part], profile: Option<&str>) -> Vec<&'p Part> {
    let files = parts.iter().filter(|part| !matches!(part.kind, PartKind::Profile(_)));
    let above =
        parts.iter().filter(|part| matches!(&part.kind, PartKind::Profile(name) if profile == Some(name)));
    files.chain(above).collect()
}

/// Files as they are read, parents before those that extend them.
struct Reading<'r> {
    sources: Sources,
    findings: Findings,
    resolve: Option<&'r mut Resolve<'r>>,
    digest: Xxh3,
    parts: Vec<Part>,
    profiles: Vec<String>,
    /// The files that others extend, by name.
    reached: HashSet<String>,
    /// The files that are being read, each extended by the one before it; and where that one says so.
    chain: Vec<(String, Option<Span>)>,
}

impl<'r> Reading<'r> {
    fn new(resolve: Option<&'r mut Resolve<'r>>) -> Self {
        Self {
            sources: Sources::new(),
            findings: Findings::default(),
            resolve,
            digest: Xxh3::new(),
            parts: Vec::new(),
            profiles: Vec::new(),
            reached: HashSet::new(),
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
        let Some((source, mut blocks)) = self.ours(DEFAULT_NAME, DEFAULT) else { return };
        for (name, text) in TABLES {
            if let Some((_, table)) = self.ours(name, text) {
                blocks.errors.extend(table.errors);
            }
        }
        self.parts.push(Part { kind: PartKind::Builtin, source, blocks: Arc::new(blocks) });
    }

    /// A text that ships with the product.
    fn ours(&mut self, name: &str, text: &str) -> Option<(SourceId, Blocks)> {
        hash(&mut self.digest, text.as_bytes());
        let (source, file) =
            decode::read_into::<PolicyFile>(&mut self.sources, &mut self.findings, name, text.as_bytes())?;
        Some((source, file.split().1))
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
        for parent in &header.extends {
            self.parent(name, parent);
        }
        hash(&mut self.digest, bytes);
        self.parts.push(Part { kind: PartKind::File, source, blocks });
        for (name, blocks) in header.profiles {
            if !self.profiles.contains(&name) {
                self.profiles.push(name.clone());
            }
            self.parts.push(Part { kind: PartKind::Profile(name), source, blocks: Arc::new(blocks) });
        }
    }

    /// What a file itself says. The blocks are large: none are kept on the stack while the files it extends are read.
    fn decoded(&mut self, name: &str, bytes: &[u8], before: u32) -> Option<(SourceId, Header, Arc<Blocks>)> {
        let read = decode::read_into::<PolicyFile>(&mut self.sources, &mut self.findings, name, bytes);
        self.sources.put_below(before);
        let (source, file) = read?;
        let (header, blocks) = file.split();
        Some((source, header, Arc::new(blocks)))
    }

    fn parent(&mut self, child: &str, parent: &Parent) {
        let (path, span) = (parent.value.as_str(), parent.span);
        if path.starts_with("builtin:") {
            return self.preset(path, span);
        }
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
        if self.chain.iter().any(|(open, _)| *open == name) {
            let problem = Diagnostic::error(Code::EXTENDS, span, format!("`{name}` extends itself"));
            self.findings.push(self.with_chain(problem, &name).label("this closes the circle"));
            return;
        }
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
        // Of a single step nothing is to be told that the place does not say.
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
    // `builtin:preset/x` and `builtin:x` are slips of the same.
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
    digest.update(&u64::try_from(bytes.len()).unwrap_or(u64::MAX).to_le_bytes());
    digest.update(bytes);
}

#[cfg(test)]
mod tests;
