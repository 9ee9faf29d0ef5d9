//! What documents say and could not be read. Whatever is looked for afterwards must not be reported if it may be missing
//! for that reason alone.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Selector;

/// The fields that could not be read, by name and place.
#[derive(Clone, Debug, Default)]
pub(crate) struct UnreadFields {
    fields: BTreeSet<UnreadField>,
    file: bool,
}

/// Where something could not be read.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct UnreadScope {
    /// The profile, if it was in one.
    pub(crate) profile: Option<Arc<str>>,
    /// The type of the rules, and their selector, if it was below one.
    pub(crate) selector: Option<(&'static str, Selector)>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct UnreadField {
    name: String,
    within: UnreadScope,
}

/// The selectors below which something was lost that may decide on a value.
#[derive(Debug)]
pub(crate) enum UnreadSelectors<'l> {
    /// Any.
    Everywhere,
    /// These.
    At(Vec<&'l Selector>),
}

impl UnreadFields {
    /// A field could not be read, or an entry of that type.
    pub(crate) fn field(&mut self, name: &str, within: &UnreadScope) {
        self.fields.insert(UnreadField { name: name.to_owned(), within: within.clone() });
    }

    /// A whole file could not be read.
    pub(crate) const fn file(&mut self) {
        self.file = true;
    }

    /// Whether a whole file is not known.
    pub(crate) const fn has_file(&self) -> bool {
        self.file
    }

    /// Whether everything is known.
    pub(crate) fn is_nothing(&self) -> bool {
        !self.file && self.fields.is_empty()
    }

    /// How many fields could not be read.
    pub(crate) fn len(&self) -> usize {
        self.fields.len()
    }

    /// Whether one of them is not known.
    pub(crate) fn any(&self, names: &[&str]) -> bool {
        self.file || self.fields.iter().any(|field| names.contains(&field.name.as_str()))
    }

    /// Whether a field on the way to that value, or the value itself, is not known.
    pub(crate) fn touches(&self, path: &str) -> bool {
        self.file || self.fields.iter().any(|field| has_step(path, &field.name))
    }

    /// Where what rules of a type say of a value, or which of them decides, is not known while a profile is chosen.
    /// `block` holds all rules of that type.
    pub(crate) fn doubt(
        &self,
        path: &str,
        rules: &str,
        block: &str,
        profile: Option<&str>,
    ) -> UnreadSelectors<'_> {
        let mut at = Vec::new();
        // An unread file may say anything of anything.
        if self.file {
            return UnreadSelectors::Everywhere;
        }
        // What is unread in another profile has no effect while this one is chosen.
        let applies = |within: &UnreadScope| within.profile.is_none() || within.profile.as_deref() == profile;
        for UnreadField { name, within } in self.fields.iter().filter(|field| applies(&field.within)) {
            match &within.selector {
                Some((of, selector)) => {
                    // An unread `priority`, or a rule that is unread as a whole, may change every value below its
                    // selector.
                    let whole = name == "priority" || name == rules;
                    let calls = name == "CallRule" && path.starts_with("calls");
                    if *of == rules && (whole || calls || has_step(path, name)) {
                        at.push(selector);
                    }
                }
                None if name == rules || name == block => return UnreadSelectors::Everywhere,
                None => {}
            }
        }
        UnreadSelectors::At(at)
    }
}

/// Whether a field is on the way to a value, or the value itself.
fn has_step(path: &str, name: &str) -> bool {
    path.split(['.', '[', ']', '"']).any(|step| step == name)
}
