//! One problem in a document: what, where, and what to do about it.

use core::fmt;

use super::Span;
use super::did_you_mean::is_certain;
use super::secret::{MARK, SHORTEST};

/// One problem in a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The stable code.
    pub code: Code,
    /// How bad it is.
    pub severity: Severity,
    /// Where it is.
    pub span: Span,
    /// What is wrong, in one line.
    pub message: String,
    /// The words next to the place.
    pub label: Option<String>,
    /// Other places that belong to it, each with what it is.
    pub also: Vec<(Span, String)>,
    /// What to do.
    pub help: Vec<String>,
    /// A replacement of text that repairs it.
    pub(crate) fix: Option<Fix>,
}

/// A replacement of text that repairs a problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fix {
    /// What is replaced.
    pub span: Span,
    /// What that does, if the label does not say it already.
    pub title: Option<String>,
    /// By what it is replaced.
    pub text: String,
}

/// How bad a problem is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, unfazed_macros::Named)]
pub enum Severity {
    /// The document cannot be used.
    Error,
    /// The document can be used, but likely does not do what is meant.
    Warning,
}

/// The stable code of a kind of problem. Codes are never given a new meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Code(&'static str);

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $name:ident = $code:literal,)+) => {
        impl Code {
            $($(#[doc = $doc])+ pub const $name: Self = Self($code);)+

            /// Every code of this module.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];
        }
    };
}

codes! {
    /// The text is not YAML.
    SYNTAX = "P0001",
    /// A mapping has a key twice.
    DUPLICATE_KEY = "P0002",
    /// A merge key `<<`.
    MERGE_KEY = "P0003",
    /// A key that is not a string.
    KEY_TYPE = "P0004",
    /// A YAML tag.
    TAG = "P0005",
    /// A scalar that YAML readers disagree on.
    AMBIGUOUS = "P0006",
    /// More than one document in a file.
    SEVERAL_DOCUMENTS = "P0007",
    /// The document exceeds a budget.
    TOO_LARGE = "P0008",
    /// The document is nested too deeply.
    TOO_DEEP = "P0009",
    /// The file is not UTF-8 text.
    ENCODING = "P0010",
    /// A key or list entry without a value.
    BLANK = "P0011",
    /// A key or password that is written into the file.
    SECRET = "P0012",
    /// A field that does not exist.
    UNKNOWN_FIELD = "P0101",
    /// A required field is not there.
    MISSING_FIELD = "P0102",
    /// A value of the wrong type.
    WRONG_TYPE = "P0103",
    /// A value that is not one of those allowed.
    BAD_VALUE = "P0104",
    /// A value outside its range.
    OUT_OF_RANGE = "P0105",
    /// A duration that cannot be read.
    DURATION = "P0106",
    /// A CEL expression that cannot be used.
    EXPRESSION = "P0107",
    /// A template that cannot be used.
    TEMPLATE = "P0108",
    /// A JSON Schema that cannot be used.
    SCHEMA = "P0109",
    /// A selector that cannot be used.
    SELECTOR = "P0110",
    /// A name that refers to nothing.
    UNKNOWN_NAME = "P0201",
    /// Rules that cannot hold together.
    CONTRADICTION = "P0202",
    /// Attempts without end.
    UNBOUNDED = "P0203",
    /// A file that cannot be extended.
    EXTENDS = "P0204",
    /// A comment that should suppress a warning and cannot.
    SUPPRESSION = "P0205",
    /// A budget of money, and a model without a price.
    NO_PRICE = "P0206",
    /// A tool or model that the agent does not have.
    NO_SUCH_NAME = "P0207",
    /// Two patterns overlap and disagree.
    CONFLICT = "P0301",
    /// A value that is never in effect.
    SHADOWED = "W0201",
    /// Attempts that multiply across layers.
    AMPLIFICATION = "W0202",
    /// An attempt that can never start.
    UNREACHABLE_ATTEMPT = "W0203",
    /// A selector that matches nothing.
    DEAD_SELECTOR = "W0204",
    /// A value that repeats what is inherited.
    NO_OP = "W0205",
    /// A class that is retried and that nobody raises.
    UNRAISED_CLASS = "W0206",
    /// Retries of a tool that must not act twice.
    NON_IDEMPOTENT = "W0207",
    /// A value that more specific rules of earlier files keep out.
    BLOCKED = "W0208",
    /// A breaker that attempts alone never open.
    IDLE_BREAKER = "W0209",
    /// Work without a bound.
    WITHOUT_BOUND = "W0210",
    /// A `null` that unsets nothing.
    IDLE_NULL = "W0211",
    /// A shortest wait that is longer than the longest.
    UPSIDE_DOWN = "W0212",
    /// A delay above its cap.
    ABOVE_CAP = "W0213",
    /// A retry that no budget ever grants.
    NEVER_GRANTED = "W0214",
    /// A class that is to be retried and never is.
    NEVER_RETRIED = "W0215",
    /// Rules for a class that never decide.
    DEAD_CLASS_RULE = "W0216",
    /// An expression about an argument that the tool does not have.
    UNKNOWN_ARGUMENT = "W0217",
    /// An attempt that may take as long as all attempts together.
    LATE_TIMEOUT = "W0218",
    /// An error row that is never reached.
    DEAD_ROW = "W0219",
    /// A breaker that opens for no time.
    NO_PAUSE = "W0220",
    /// A condition that is always the same.
    CONSTANT = "W0221",
    /// A rule for single calls that says nothing.
    EMPTY_RULE = "W0222",
    /// Rules for retries next to the one that disables them.
    SWITCHED_OFF = "W0223",
    /// A class that a list names twice.
    NAMED_TWICE = "W0224",
    /// Two validators of one name.
    SAME_NAME = "W0225",
    /// A timeout of a step that the end of the whole call comes before.
    LATE_STEP = "W0226",
    /// An error row that hides what the built-in table tells of quotas.
    HIDDEN_QUOTA = "W0227",
    /// A breaker whose window never holds what opens it.
    IDLE_WINDOW = "W0230",
    /// A stage of a loop guard that a later one comes before.
    LATE_STAGE = "W0231",
    /// Probes of a breaker that never lets one through.
    NO_PROBE = "W0232",
    /// Results that are kept where none is too large.
    NEVER_SPILLS = "W0234",
    /// A size of results that the notice fills.
    NOTICE_ALONE = "W0235",
    /// A tool that is to say whether another has acted, and cannot.
    NO_WITNESS = "W0239",
    /// A model that is not called before the conversation is reduced.
    LATE_REDUCTION = "W0245",
    /// A window that leaves no room for messages.
    NO_ROOM = "W0246",
    /// A reduction that ends where the next one begins.
    SHORT_REDUCTION = "W0247",
    /// A step of a reduction that leaves more than it cuts.
    UNCUT = "W0248",
    /// A breaker that opens for all hosts, and for ever.
    OPEN_FOR_ALL = "W0249",
    /// A budget of a run that is too small for one turn.
    SMALL_BUDGET = "W0256",
    /// Waits that many clients make at the same moments.
    IN_STEP = "W0260",
    /// A rule for waits or targets that decides nothing.
    DECIDES_NOTHING = "W0261",
    /// A condition that has no value for arguments the tool's schema allows.
    NO_VALUE = "W0266",
    /// A pace whose calls never wait.
    NO_TURN = "W0270",
    /// Two rates of one pool.
    TWO_RATES = "W0271",
    /// A budget of a run that a pace never lets it use.
    IDLE_BUDGET = "W0272",
    /// A suppression of a warning that is not there.
    UNUSED_SUPPRESSION = "W0299",
}

impl Code {
    /// A code of another kind of document, such as `A0101`.
    pub const fn new(code: &'static str) -> Self {
        Self(code)
    }

    /// As it is printed.
    pub const fn as_str(self) -> &'static str {
        self.0
    }

    /// Whether it is of a lint: a warning that a comment may suppress.
    pub fn is_lint(self) -> bool {
        self.0.starts_with('W')
    }
}

/// Longer secrets may be cut in messages; so many characters of one stay at least.
const BEGINNING: usize = 20;
/// The longest message, label or help, and the longest repair, in bytes.
const LONGEST: usize = 2_000;

impl Diagnostic {
    /// Limits the length: texts are cut, and a longer repair is left out.
    pub(crate) fn capped(mut self) -> Self {
        cut(&mut self.message);
        self.label.iter_mut().chain(&mut self.help).for_each(cut);
        self.also.iter_mut().for_each(|(_, label)| cut(label));
        self.fix = self.fix.filter(|fix| fix.text.len() <= LONGEST);
        self
    }

    /// Without secrets, also where only the beginning of one is left, and without a repair that holds one.
    pub(crate) fn without(mut self, secrets: &[&str]) -> Self {
        let cuts = |said: &mut String| {
            if let Some(clean) = without_cut(said, secrets) {
                *said = clean;
            }
        };
        for secret in secrets {
            // A message may quote the beginning of a secret, and that is enough to try the rest.
            let begins =
                secret.char_indices().nth(BEGINNING).map(|(at, _)| secret.get(..at).unwrap_or_default());
            for text in [Some(*secret), begins].into_iter().flatten() {
                let clean = |said: &mut String| {
                    if said.contains(text) {
                        *said = said.replace(text, MARK);
                    }
                };
                clean(&mut self.message);
                self.label.iter_mut().chain(&mut self.help).for_each(clean);
                self.also.iter_mut().for_each(|(_, label)| clean(label));
                // A repair is written into the file, where `[hidden]` would replace the secret for good.
                self.fix = self.fix.filter(|fix| !fix.text.contains(text));
            }
        }
        cuts(&mut self.message);
        self.label.iter_mut().chain(&mut self.help).for_each(cuts);
        self.also.iter_mut().for_each(|(_, label)| cuts(label));
        self
    }

    /// An error at that place.
    pub fn error(code: Code, span: Span, message: impl Into<String>) -> Self {
        Self {
            code,
            severity: Severity::Error,
            span,
            message: message.into(),
            label: None,
            also: Vec::new(),
            help: Vec::new(),
            fix: None,
        }
    }

    /// A warning at that place.
    pub fn warning(code: Code, span: Span, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(code, span, message) }
    }

    /// With words next to the place.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// With another place that belongs to it.
    #[must_use]
    pub fn also(mut self, span: Span, label: impl Into<String>) -> Self {
        self.also.push((span, label.into()));
        self
    }

    /// With what to do.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help.push(help.into());
        self
    }

    /// With what to do, if anything is known.
    #[must_use]
    pub fn help_if(mut self, help: Option<impl Into<String>>) -> Self {
        self.help.extend(help.map(Into::into));
        self
    }

    /// With a replacement of text that repairs it, and what that does.
    #[must_use]
    pub fn fix(mut self, span: Span, title: impl Into<String>, text: impl Into<String>) -> Self {
        self.fix = Some(Fix { span, title: Some(title.into()), text: text.into() });
        self
    }

    /// With a replacement of text that repairs it, where the label says what that is.
    #[must_use]
    pub(crate) fn fix_as(mut self, span: Span, text: impl Into<String>) -> Self {
        self.fix = Some(Fix { span, title: None, text: text.into() });
        self
    }

    /// With what was probably meant by what was `found` there, of all that is known; and with the repair if nothing
    /// else can be meant.
    #[must_use]
    pub fn meant<'a>(
        mut self,
        span: Span,
        found: &str,
        meant: &str,
        known: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        self.label = Some(format!("did you mean `{meant}`?"));
        // `check --fix` applies every repair, so what is only likely stays a suggestion.
        if is_certain(found, meant, known) {
            self.fix = Some(Fix { span, title: None, text: meant.to_owned() });
        }
        self
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A text without the beginning of a secret that it was cut in; `None`: there is none.
fn without_cut(text: &str, secrets: &[&str]) -> Option<String> {
    let (at, _) = text.match_indices("...").chain(text.match_indices('…')).find(|(at, _)| {
        let before = text.get(..*at).unwrap_or_default();
        secrets.iter().any(|secret| begun(before, secret).is_some())
    })?;
    let (before, after) = text.split_at_checked(at)?;
    let longest = secrets.iter().filter_map(|secret| begun(before, secret)).max()?;
    let kept = before.get(..before.len().saturating_sub(longest))?;
    Some(format!("{kept}{MARK}{after}"))
}

/// How much of a secret's beginning a text ends with.
fn begun(text: &str, secret: &str) -> Option<usize> {
    let ends = secret.char_indices().map(|(at, _)| at).take(BEGINNING.saturating_add(1));
    ends.filter(|at| *at >= SHORTEST && text.ends_with(secret.get(..*at).unwrap_or_default())).max()
}

fn cut(text: &mut String) {
    let end = (LONGEST..text.len()).find(|at| text.is_char_boundary(*at));
    if let Some(end) = end {
        text.truncate(end);
        text.push_str("...");
    }
}
