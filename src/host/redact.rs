//! Known secret values, taken out of everything that is reported.

mod aws;

use core::ops::Range;
use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};

use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value};

use super::spelling::spelled;
use crate::engine::{BodyFacts, Failure, ModelReply, PartialHint, ToolOutcome, WaitHint};
use crate::session::Message;
use crate::text::formed;

/// The most characters of a message that are kept.
const MAX_MESSAGE: usize = 2000;
/// What replaces a secret.
const MARK: &str = "[redacted]";
/// A shorter value guards nothing, and replacing it would make messages unreadable.
const SHORTEST: usize = 4;
/// So much of a text that is still to come is held back at most.
const MOST_HELD: usize = 16 << 10;

/// So many keys are remembered of those that came one after the other: an answer may still hold the one before.
const MOST_LEARNED: usize = 8;

/// Secrets that come while a program runs; clones share them.
#[derive(Clone, Debug, Default)]
pub(in crate::host) struct LearnedSecrets(Arc<Mutex<Vec<SecretString>>>);

impl LearnedSecrets {
    /// This one came.
    pub(in crate::host) fn add(&self, secret: SecretString) {
        let mut secrets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !secrets.iter().any(|known| known.expose_secret() == secret.expose_secret()) {
            secrets.insert(0, secret);
            secrets.truncate(MOST_LEARNED);
        }
    }

    fn all(&self) -> Vec<SecretString> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The secrets of one connection, or of one agent.
#[derive(Clone, Debug, Default)]
pub struct SecretRedactor {
    secrets: Vec<SecretString>,
    /// Those that come while it is in use.
    learned: Vec<LearnedSecrets>,
    /// Whether what only has the form of a secret is one.
    forms: bool,
}

impl SecretRedactor {
    /// Takes care of `secrets`.
    pub(crate) fn new(secrets: impl IntoIterator<Item = SecretString>) -> Self {
        // A secret that was read from a file ends with a line break, and whoever prints it leaves that out.
        let trimmed = secrets.into_iter().map(|secret| SecretString::from(secret.expose_secret().trim()));
        let mut secrets: Vec<_> = trimmed.filter(|secret| secret.expose_secret().len() >= SHORTEST).collect();
        // A secret may hold another one. Replaced first, the shorter would leave the rest of the longer.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.expose_secret().len()));
        Self { secrets, learned: Vec::new(), forms: false }
    }

    /// The same for these secrets, in the place of those that were named before.
    pub(in crate::host) fn instead(&self, secrets: impl IntoIterator<Item = SecretString>) -> Self {
        Self { learned: self.learned.clone(), forms: self.forms, ..Self::new(secrets) }
    }

    /// Takes out what is learned there, too.
    pub(in crate::host) fn learning(mut self, learned: impl IntoIterator<Item = LearnedSecrets>) -> Self {
        self.learned.extend(learned);
        self
    }

    /// The same with what was learned so far.
    pub(in crate::host) fn settled(&self) -> Cow<'_, Self> {
        if self.learned.is_empty() {
            return Cow::Borrowed(self);
        }
        Cow::Owned(self.also(self.learned.iter().flat_map(LearnedSecrets::all)))
    }

    /// Takes out what has the form of a secret too, or leaves it.
    pub(crate) fn with_forms(self, forms: bool) -> Self {
        Self { forms, ..self }
    }

    /// These secrets too, and no others that come.
    pub(crate) fn also(&self, secrets: impl IntoIterator<Item = SecretString>) -> Self {
        Self { forms: self.forms, ..Self::new(self.secrets.iter().cloned().chain(secrets)) }
    }

    /// The known secrets, the longest first.
    #[cfg(feature = "serve")]
    pub(crate) fn known(&self) -> impl Iterator<Item = &str> {
        self.secrets.iter().map(ExposeSecret::expose_secret)
    }

    /// The same, but only for known secrets.
    fn of_known(&self) -> Self {
        self.clone().with_forms(false)
    }

    const fn is_idle(&self) -> bool {
        self.secrets.is_empty() && self.learned.is_empty() && !self.forms
    }

    /// `text` without the secrets.
    pub(crate) fn text(&self, text: String) -> String {
        let text = self.settled().secrets.iter().fold(text, |text, secret| {
            let secret = secret.expose_secret();
            // Nearly all texts hold no secret, and those are not copied.
            let text = if text.contains(secret) { text.replace(secret, MARK) } else { text };
            // What a server has answered may be quoted as it came.
            let places = spelled(text.as_bytes(), secret);
            without(text, places)
        });
        if self.forms { without_formed(text) } else { text }
    }

    /// How many bytes at the end of a text may be the beginning of a secret whose rest is still to come.
    pub(crate) fn open_end(&self, text: &str) -> usize {
        let begun = |secret: &SecretString| {
            let secret = secret.expose_secret();
            let starts = secret.char_indices().map(|(at, _)| at).rev();
            starts.into_iter().find(|at| text.ends_with(&secret[..*at])).unwrap_or_default()
        };
        self.settled().secrets.iter().map(begun).max().unwrap_or_default()
    }

    /// How many bytes at the end of a text may become what has the form of a secret, if more of it comes: the last word, with
    /// `Bearer` or the name of a secret of AWS before it, a private key that has not ended, and an address that may have a password and
    /// would be cut.
    pub(crate) fn open_form(&self, text: &str) -> usize {
        if !self.forms {
            return 0;
        }
        let word_at = |text: &str| text.trim_end_matches(|c: char| c.is_ascii_graphic()).len();
        let word = word_at(text);
        let before = text[..word].trim_end();
        let scheme = Some(word_at(before)).filter(|at| is_scheme(&before[*at..]));
        // A private key is long and has line ends, so it is held back until its last line has come.
        let key = text.rfind("-----BEGIN ").filter(|at| !text[*at..].contains("-----END "));
        let from = [scheme, key].into_iter().flatten().fold(word, usize::min);
        let from = aws::held_from(text, open_address(&text[..from]).unwrap_or(from));
        // No more is held back than this: a text without any space is shown all the same.
        Some(text.len() - from).filter(|open| *open <= MOST_HELD).unwrap_or_default()
    }

    /// The failure as it may be shown: without secrets and control characters, and of bounded size. Cut last:
    /// half a secret would not be recognised. What it has of the secrets of `others` then is taken out, too.
    pub(crate) fn failure(&self, failure: Failure, others: Option<&Self>) -> Failure {
        Self::each_text(failure, |text| {
            let shown = presentable(&self.text(text));
            match others {
                Some(others) => others.text(shown),
                None => shown,
            }
        })
    }

    /// The failure without the secrets, else as it is.
    pub(crate) fn texts_of(&self, failure: Failure) -> Failure {
        if self.is_idle() { failure } else { Self::each_text(failure, |text| self.text(text)) }
    }

    /// The outcome of a tool without the secrets.
    pub(crate) fn outcome(&self, outcome: ToolOutcome) -> ToolOutcome {
        match outcome {
            ToolOutcome::Ok { data } => ToolOutcome::Ok { data: self.value(data) },
            ToolOutcome::Done => ToolOutcome::Done,
            ToolOutcome::Failed { failure, effect } => {
                ToolOutcome::Failed { failure: self.texts_of(failure), effect }
            }
        }
    }

    /// A message without the secrets.
    pub(crate) fn message(&self, mut message: Message) -> Message {
        if self.is_idle() {
            return message;
        }
        match &mut message {
            Message::System { text } | Message::User { text, .. } | Message::Tool { text, .. } => {
                *text = self.text(std::mem::take(text));
            }
            Message::Assistant { text, calls, extra } => {
                *text = self.text(std::mem::take(text));
                // Anthropic answers 400 to a thinking block that was changed, so only known secrets are taken out.
                *extra = self.of_known().fields(std::mem::take(extra));
                for call in calls {
                    call.arguments = self.json(std::mem::take(&mut call.arguments));
                }
            }
        }
        message
    }

    /// The reply of a model without the secrets, in its tool calls too.
    pub(crate) fn reply(&self, mut reply: ModelReply) -> ModelReply {
        if self.is_idle() {
            return reply;
        }
        reply.text = self.text(reply.text);
        let known = self.of_known();
        reply.extra = known.fields(reply.extra);
        for proposal in &mut reply.calls {
            let call = &mut proposal.call;
            // Ids have the form of a key by nature; without them results would find no call.
            call.id = known.text(std::mem::take(&mut call.id));
            call.name = known.text(std::mem::take(&mut call.name));
            call.arguments = self.json(std::mem::take(&mut call.arguments));
        }
        reply
    }

    /// A value without the secrets, whether they are keys, texts or numbers.
    fn value(&self, value: Value) -> Value {
        if self.is_idle() {
            return value;
        }
        match value {
            Value::String(text) => Value::String(self.text(text)),
            Value::Array(items) => items.into_iter().map(|item| self.value(item)).collect(),
            Value::Object(fields) => Value::Object(self.fields(fields)),
            // A secret may be all digits.
            Value::Number(number) => {
                let text = number.to_string();
                let clean = self.text(text.clone());
                if clean == text { Value::Number(number) } else { Value::String(clean) }
            }
            plain @ (Value::Null | Value::Bool(_)) => plain,
        }
    }

    fn fields(&self, fields: Map<String, Value>) -> Map<String, Value> {
        fields.into_iter().map(|(key, value)| (self.text(key), self.value(value))).collect()
    }

    /// JSON text, possibly broken. A secret in it may be written with escapes, so it is looked at as values first.
    fn json(&self, text: String) -> String {
        let text = match serde_json::from_str::<Value>(&text) {
            Ok(value) => {
                let clean = self.value(value.clone());
                if clean == value { text } else { clean.to_string() }
            }
            Err(_) => text,
        };
        self.text(text)
    }

    fn each_text(failure: Failure, clean: impl Fn(String) -> String) -> Failure {
        #[cfg(test)]
        crate::counted::count(crate::counted::Walk::Redact);
        Failure {
            class: failure.class,
            status: failure.status,
            code: failure.code.map(&clean),
            kind: failure.kind.map(&clean),
            message: clean(failure.message),
            facts: failure.facts.map(|facts| {
                let BodyFacts { param, details, provider, limit, size } = *facts;
                Box::new(BodyFacts {
                    param: param.map(&clean),
                    details: details.into_iter().map(&clean).collect(),
                    provider: provider.map(&clean),
                    limit,
                    size,
                })
            }),
            retry_after: match failure.retry_after {
                WaitHint::Ignored(reason) => WaitHint::Ignored(clean(reason)),
                WaitHint::Partly(partly) => {
                    WaitHint::Partly(Box::new(PartialHint { ignored: clean(partly.ignored), ..*partly }))
                }
                hint @ (WaitHint::None | WaitHint::Wait(_)) => hint,
            },
            waits: failure.waits,
            should_retry: failure.should_retry,
            limits: failure.limits,
            received: failure.received,
        }
    }
}

/// Text as messages hold it: no control characters, bounded, blank space at the ends gone.
pub(crate) fn presentable(text: &str) -> String {
    // Control characters in a provider's message would be obeyed by the terminal that shows it.
    let mut chars = text.chars().map(|c| if c.is_control() && c != '\n' { ' ' } else { c });
    let mut short: String = chars.by_ref().skip_while(|c| c.is_whitespace()).take(MAX_MESSAGE).collect();
    if chars.any(|c| !c.is_whitespace()) {
        short.pop();
        short.push('…');
    }
    short.truncate(short.trim_end().len());
    short
}

/// Whether a key may follow the word.
fn is_scheme(word: &str) -> bool {
    let word = word.to_ascii_lowercase();
    ["bearer", "basic"].iter().any(|scheme| word.ends_with(scheme))
}

/// Where the address begins in which a text ends, if it may have a password.
fn open_address(text: &str) -> Option<usize> {
    let ends = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '<' | '>' | '`');
    let run = text.rsplit(ends).next()?;
    let mut addresses = run.match_indices("://").map(|(at, sign)| (at, &run[at + sign.len()..]));
    let (at, _) = addresses.find(|(_, rest)| {
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let is_port = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        // A password may hold a `/` that should have been escaped.
        let user = || authority.rsplit_once(':').is_some_and(|(_, port)| !is_port(port));
        authority.len() == rest.len() || authority.contains('@') || user()
    })?;
    Some(text.len() - run.len() + at)
}

/// The text without what has the form of a secret.
fn without_formed(text: String) -> String {
    let found = aws::secrets(&text);
    let text = without(text, found);
    let found = formed(&text);
    without(text, found)
}

/// The text without what stands there.
fn without(text: String, found: Vec<Range<usize>>) -> String {
    if found.is_empty() {
        return text;
    }
    let (mut clean, mut at) = (String::with_capacity(text.len()), 0);
    for range in found {
        clean.push_str(&text[at..range.start]);
        clean.push_str(MARK);
        at = range.end;
    }
    clean + &text[at..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_message_is_cut_between_characters() {
        let cut = presentable(&"é".repeat(3000));
        assert_eq!(cut.chars().count(), MAX_MESSAGE);
        assert!(cut.ends_with("é…"));
        assert_eq!(presentable(&"é".repeat(2000)), "é".repeat(2000));
    }

    #[test]
    fn keys_that_come_later_are_taken_out_from_then_on() {
        let learned = LearnedSecrets::default();
        let redactor = SecretRedactor::new(["sk-0123456".into()]).learning([learned.clone()]);
        assert_eq!(redactor.text("tok-1 sk-0123456".into()), "tok-1 [redacted]");
        learned.add("tok-1".into());
        assert_eq!(redactor.text("tok-1 sk-0123456".into()), "[redacted] [redacted]");
        assert_eq!(redactor.open_end("the tok"), 3);
        // A reply may still hold the one before; the oldest are forgotten.
        (2..=MOST_LEARNED).for_each(|number| learned.add(format!("tok-{number}").into()));
        learned.add("tok-2".into());
        assert_eq!(redactor.text("tok-1".into()), MARK);
        learned.add("tok-new".into());
        assert_eq!(redactor.text("tok-1 tok-2 tok-new".into()), "tok-1 [redacted] [redacted]");
        let settled = redactor.settled().into_owned();
        learned.add("tok-last".into());
        assert_eq!(
            (settled.text("tok-last".into()), redactor.text("tok-last".into())),
            ("tok-last".into(), MARK.into())
        );
    }

    #[test]
    fn control_characters_do_not_reach_a_terminal() {
        assert_eq!(presentable("\u{1b}[31mred\u{7}\n"), "[31mred");
    }

    #[test]
    fn a_secret_is_taken_out_of_every_text_of_a_failure() {
        let redactor = SecretRedactor::new(["sk-0123".into(), "sk-0123456".into()]);
        let failure = Failure {
            code: Some("bad sk-0123".into()),
            kind: Some("sk-0123".into()),
            facts: Some(Box::new(BodyFacts {
                param: Some("sk-0123".into()),
                details: vec!["of-sk-0123".into()],
                provider: Some("sk-0123".into()),
                ..BodyFacts::default()
            })),
            message: "sk-0123456 is wrong, sk-0123 too".into(),
            retry_after: WaitHint::Ignored("`sk-0123` is no date".into()),
            ..Failure::default()
        };
        let clean = redactor.failure(failure, None);
        assert_eq!(clean.message, "[redacted] is wrong, [redacted] too");
        assert_eq!(clean.code.as_deref(), Some("bad [redacted]"));
        assert!(!format!("{clean:?}").contains("0123"));
    }

    #[test]
    fn a_secret_at_the_cut_leaves_no_half() {
        let redactor = SecretRedactor::new(["sk-0123456789".into()]);
        let message = format!("{}sk-0123456789", "x".repeat(1995));
        let clean = redactor.failure(Failure { message, ..Failure::default() }, None);
        assert!(!clean.message.contains("sk-"), "{}", clean.message);
    }

    #[test]
    fn a_secret_is_taken_out_of_replies_and_outcomes() {
        use crate::session::ToolCall;
        let redactor = SecretRedactor::new(["s3cr\"et\n".into(), "12345678".into()]);
        let call = ToolCall { id: "1".into(), name: "t".into(), arguments: r#"{"k":"s3cr\u0022et"}"#.into() };
        let reply =
            ModelReply { text: "it is s3cr\"et".into(), calls: vec![call.into()], ..ModelReply::default() };
        let clean = redactor.reply(reply);
        assert_eq!(clean.text, "it is [redacted]");
        assert_eq!(clean.calls[0].call.arguments, r#"{"k":"[redacted]"}"#);
        let data = serde_json::json!({"a": ["x s3cr\"et"], "s3cr\"et": 12_345_678});
        let ToolOutcome::Ok { data } = redactor.outcome(ToolOutcome::Ok { data }) else { panic!("ok") };
        assert_eq!(data.to_string(), r#"{"a":["x [redacted]"],"[redacted]":"[redacted]"}"#);
    }

    #[test]
    fn what_has_the_form_of_a_secret_is_taken_out_but_of_what_a_provider_signed() {
        let redactor = SecretRedactor::default().with_forms(true);
        let extra = serde_json::json!({"signature": "ghp_1234abcd"}).as_object().cloned().unwrap();
        let reply =
            ModelReply { text: "use ghp_1234abcd!".into(), extra: extra.clone(), ..ModelReply::default() };
        let clean = redactor.reply(reply);
        assert_eq!((clean.text.as_str(), clean.extra), ("use [redacted]!", extra));
    }

    #[test]
    fn an_empty_secret_changes_nothing() {
        assert_eq!(SecretRedactor::new(["".into()]).text("as it is".into()), "as it is");
    }

    proptest::proptest! {
        /// A password is never seen, wherever what begins like an address is cut.
        #[test]
        fn in_pieces_an_address_is_shown_as_it_is_as_a_whole(rest in proptest::collection::vec(
            proptest::sample::select(vec!["ntéd", "me", "ü", "@", ":", "://", "/", "?", "#", " ", "\"", "8080", "https"]),
            0..20,
        )) {
            let redactor = SecretRedactor::default().with_forms(true);
            let (mut shown, mut held, mut whole) = (String::new(), String::new(), String::new());
            for piece in ["https://me:plä"].into_iter().chain(rest) {
                whole += piece;
                let mut text = held + piece;
                held = text.split_off(text.len() - redactor.open_form(&text));
                shown += &redactor.text(text);
            }
            proptest::prop_assert_eq!(shown + &redactor.text(held), redactor.text(whole));
        }
    }
}
