//! What the refusals of a server have taught of the requests that it takes. Each converted request has a wire format of its
//! own: what one has learned, those that follow know too.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use crate::engine::Failure;
use crate::host::model::dropped::{LearnedLimit, RefusedDemand};
use crate::host::model::system_role::SystemRole;
use crate::host::model::wire::{RefusalWords, WireFormat, unquoted};

/// The most options that the refusals of a server are kept of: clients choose the words.
const MOST_REFUSED: usize = 32;
/// What stands for `strict` of tools where a refusal names it.
const STRICT: &str = "strict";

/// The refusals that have taught something, with what each has taught, in words.
#[derive(Debug, Default)]
pub(super) struct ServerRefusals {
    forms: Mutex<Vec<(String, Failure)>>,
    /// The options of clients that it does not take.
    pub(super) options: RefusedOptions,
    pub(super) system: SystemRole,
    pub(super) demand: RefusedDemand,
    pub(super) limit: LearnedLimit,
}

/// A request that was refused.
pub(super) struct RefusedRequest<'r> {
    pub(super) body: &'r [u8],
    pub(super) format: &'r dyn WireFormat,
    /// The options in it that not every server takes.
    pub(super) options: &'r [SentOption],
    /// Whether it has instructions in a role of their own.
    pub(super) instructs: bool,
}

/// An option as it was sent: a name that refusals have for it, and the word that it says if it is one of a few, or what it may be
/// refused beside.
pub(super) type SentOption = (&'static str, Option<String>);

/// The options that a server has refused.
#[derive(Debug, Default)]
pub(super) struct RefusedOptions(Mutex<BTreeSet<SentOption>>);

impl ServerRefusals {
    /// Lets a format know all of them.
    pub(super) fn teach(&self, format: &dyn WireFormat) {
        for (_, refusal) in self.forms.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            // One that is about an option which this request does not have teaches nothing here.
            let _ = format.learn(refusal);
        }
    }

    /// What a refusal of a request teaches, in words; `None`: nothing new.
    pub(super) fn learn(
        &self,
        model: &str,
        request: &RefusedRequest<'_>,
        refusal: &Failure,
    ) -> Option<String> {
        let refusal = &unquoted(refusal, request.body);
        let note = self.system.learn(model, request.instructs, refusal);
        let note = note.or_else(|| self.learn_form(request.format, refusal));
        // "Forced function calling (mode = ANY) with a response mime type: 'application/json' is unsupported" (Google): the form is left
        // out beside tools, and requests without one may demand a call as before.
        let is_of_form = RefusalWords::of(refusal).says(&["response mime type"]);
        let note =
            note.or_else(|| if is_of_form { None } else { self.demand.learn(model, request.body, refusal) });
        let note = note.or_else(|| self.limit.learn(model, request.body, refusal));
        note.or_else(|| self.options.learn(model, request.options, refusal))
    }

    fn learn_form(&self, format: &dyn WireFormat, refusal: &Failure) -> Option<String> {
        let note = format.learn(refusal)?;
        let mut known = self.forms.lock().unwrap_or_else(PoisonError::into_inner);
        // Requests in flight at the same time learn the same.
        if !known.iter().any(|(words, _)| *words == note) {
            known.push((note.clone(), refusal.clone()));
        }
        Some(note)
    }
}

impl RefusedOptions {
    pub(super) fn has(&self, option: &SentOption) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(option)
    }

    /// Whether tools may be strict.
    pub(super) fn takes_strict(&self) -> bool {
        !self.has(&(STRICT, None))
    }

    /// What stands for strict tools among what was sent.
    pub(super) const fn strict() -> SentOption {
        (STRICT, None)
    }

    /// What stands for the temperature among what was sent.
    pub(super) const fn temperature() -> SentOption {
        ("temperature", None)
    }

    /// Which of the options that were sent a refusal is about, in words; `None`: none of them.
    fn learn(&self, model: &str, sent: &[SentOption], refusal: &Failure) -> Option<String> {
        if !matches!(refusal.status, Some(400 | 422)) {
            return None;
        }
        let words = RefusalWords::of(refusal);
        // Other schemas may be taken.
        if words.says(&["invalid schema for response_format"]) {
            return None;
        }
        let faults = [
            "invalid schema",
            "invalid json schema",
            "schema keyword",
            "unsupported keyword",
            "recursi",
            "too deep",
        ];
        let is_of_one = words.says(&faults);
        let is_schema =
            |beside: &Option<String>| beside.as_deref().is_some_and(|beside| beside.starts_with("schema"));
        let option = sent.iter().find(|(name, beside)| {
            words.refuses_option() && words.name_option(name) && !(is_of_one && is_schema(beside))
        })?;
        let mut refused = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if refused.len() >= MOST_REFUSED && !refused.contains(option) {
            return None;
        }
        // Requests in flight at the same time learn the same.
        refused.insert(option.clone());
        Some(format!("`{model}` refused the request, which is sent again without `{}`", option.0))
    }
}
