//! One value and everything that layers set for it.

use std::sync::Arc;

use serde_json::Value;

use crate::policy::decode::Patch;
use crate::policy::key::Key;
use crate::policy::key_value::KeyValue;
use crate::policy::layer_value::LayerValue;
use crate::policy::{LayerKind, Origin, Selector, Setting};
use crate::text::Span;

/// A layer that speaks: its kind, its name for people, the part it is of, by the order of precedence, and the selector
/// it is under.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerPosition {
    pub(crate) scope: LayerKind,
    pub(crate) name: Arc<str>,
    pub(crate) part: usize,
    pub(crate) selector: Option<Selector>,
}

/// One layer's word on a value.
#[derive(Clone, Debug)]
pub(crate) struct TrailStep<T> {
    /// `None`: forget what is inherited.
    pub(crate) set: Option<T>,
    pub(crate) layer: Arc<str>,
    pub(crate) origin: Origin,
    pub(crate) end: u32,
    pub(crate) part: usize,
    pub(crate) selector: Option<Selector>,
}

/// A value and everything that layers set for it, lowest layer first. The empty trail is the identity of the merge.
#[derive(Clone, Debug)]
pub struct ValueHistory<T: LayerValue> {
    steps: Vec<TrailStep<T>>,
    value: Option<(T::Value, Origin)>,
    /// What the built-in layers made of it; what `null` goes back to.
    builtin: Option<(T::Value, Origin)>,
    /// What it was before a limit made it tighter.
    capped_from: Option<T::Value>,
    /// Whether no layer has a word on this value of its own: it is that of a more general one.
    inherited: bool,
}

/// A contribution for people: `add [..] remove [..]`, the layer, the place, and whether it still counts.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ShownContribution {
    pub(crate) won: bool,
    pub(crate) set: Option<Value>,
    pub(crate) layer: Arc<str>,
    pub(crate) origin: Origin,
}

/// One layer's word, and the value before and after it.
#[derive(Clone, Debug)]
pub(crate) struct LayerWord {
    pub(crate) kind: WordKind,
    pub(crate) layer: Arc<str>,
    pub(crate) scope: LayerKind,
    pub(crate) span: Span,
    pub(crate) part: usize,
    /// The selector it is under.
    pub(crate) selector: Option<Selector>,
    /// The word that made the value before it, by its number.
    pub(crate) from: Option<usize>,
    pub(crate) before: Option<Value>,
    pub(crate) after: Option<Value>,
}

/// What a word does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WordKind {
    /// Forgets what is inherited.
    Unset,
    /// Replaces what is inherited.
    Set,
    /// Changes what is inherited.
    Edit,
}

/// A trail of whatever type, for people.
pub(crate) trait AnyTrail {
    /// The value of the key that the trail is of.
    fn key_value(&self, key: &Key) -> Option<KeyValue>;
    /// The effective value.
    fn value(&self) -> Option<(Value, Origin)>;
    /// Every contribution, lowest layer first.
    fn contributions(&self) -> Vec<ShownContribution>;
    /// The value before a limit made it tighter.
    fn capped_from(&self) -> Option<Value>;
    /// Every layer's word, lowest first, without the limits; nothing if only the built-in layers speak. What was
    /// before and after a built-in word is not told.
    fn words(&self) -> Vec<LayerWord>;
}

impl<T: LayerValue> Default for ValueHistory<T> {
    fn default() -> Self {
        Self { steps: Vec::new(), value: None, builtin: None, capped_from: None, inherited: false }
    }
}

impl<T: LayerValue> ValueHistory<T> {
    /// Adds one more layer.
    pub(crate) fn fold(&mut self, patch: &Patch<T>, at: &LayerPosition) {
        let (set, span) = match patch {
            Patch::Absent => return,
            Patch::Null(span) => (None, *span),
            Patch::Set(value, span) => (Some(value.clone()), *span),
        };
        let (layer, origin) = (Arc::clone(&at.name), span.origin(at.scope));
        let selector = at.selector.clone();
        self.push(TrailStep { set, layer, origin, end: span.end, part: at.part, selector });
    }

    fn push(&mut self, step: TrailStep<T>) {
        match &step.set {
            Some(leaf) => {
                let value = leaf.over(self.value.as_ref().map(|(value, _)| value));
                self.value = Some((value, step.origin));
            }
            // `null` goes back to the default and not to nothing, because the engine needs a value for every key.
            None => self.value.clone_from(&self.builtin),
        }
        // Kept apart, because `null` in any later layer goes back to it.
        if step.origin.scope == LayerKind::Builtin {
            self.builtin.clone_from(&self.value);
        }
        self.steps.push(step);
    }

    /// This, then everything in `above`.
    #[cfg(test)]
    pub(crate) fn join(mut self, above: &Self) -> Self {
        above.steps.iter().cloned().for_each(|step| self.push(step));
        self
    }

    /// The same for a more special subject, for which no layer has set anything yet.
    pub(crate) fn inherited(&self) -> Self {
        Self { inherited: true, ..self.clone() }
    }

    /// Whether no layer has a word on this value of its own.
    pub(crate) const fn is_inherited(&self) -> bool {
        self.inherited
    }

    /// Adds what a layer has for this subject itself.
    pub(crate) fn fold_own(&mut self, patch: &Patch<T>, at: &LayerPosition) {
        self.inherited &= matches!(patch, Patch::Absent);
        self.fold(patch, at);
    }

    /// The value before and after a limit; `None`: no layer has set it.
    pub(crate) fn get(&self) -> Option<&T::Value> {
        self.value.as_ref().map(|(value, _)| value)
    }

    /// A limit makes it tighter.
    pub(crate) fn tighten(&mut self, value: T::Value, origin: Origin) {
        // Several limits may tighten one value in turn. People are shown the value before the first of them.
        if let Some((from, _)) = self.value.replace((value, origin)) {
            self.capped_from.get_or_insert(from);
        }
    }

    /// The effective value with its origin.
    pub(crate) fn setting(&self) -> Option<Setting<T::Value>> {
        self.value.clone().map(|(value, origin)| Setting::new(value, origin))
    }

    /// The first step that still counts: the last one that keeps nothing from below. After a `null`, that is the
    /// step of the built-in layers it goes back to.
    fn won(&self) -> Vec<bool> {
        let is_builtin = |step: &TrailStep<T>| step.origin.scope == LayerKind::Builtin;
        // `add` and `remove` build on what is below, so the words that count begin with the last full value.
        let starts = |step: &TrailStep<T>| step.set.as_ref().is_none_or(|leaf| !leaf.keeps());
        let start = self.steps.iter().rposition(starts).unwrap_or(0);
        // After a `null` the built-in words count again, and nothing in between.
        let unset = self.steps.get(start).is_some_and(|step| step.set.is_none());
        let builtin = self.steps.iter().rposition(|step| is_builtin(step) && starts(step)).unwrap_or(0);
        let counts =
            |(i, step): (usize, &TrailStep<T>)| i >= start || (unset && is_builtin(step) && i >= builtin);
        self.steps.iter().enumerate().map(counts).collect()
    }
}

impl<T: LayerValue> AnyTrail for ValueHistory<T> {
    fn key_value(&self, key: &Key) -> Option<KeyValue> {
        self.value.as_ref().map(|(value, origin)| KeyValue::new::<T>(key, value, *origin))
    }

    fn value(&self) -> Option<(Value, Origin)> {
        self.value.as_ref().map(|(value, origin)| (T::show_value(value), *origin))
    }

    fn contributions(&self) -> Vec<ShownContribution> {
        let shown = self.won().into_iter().zip(&self.steps).map(|(won, step)| ShownContribution {
            won,
            set: step.set.as_ref().map(LayerValue::show),
            layer: Arc::clone(&step.layer),
            origin: step.origin,
        });
        shown.collect()
    }

    fn capped_from(&self) -> Option<Value> {
        self.capped_from.as_ref().map(T::show_value)
    }

    fn words(&self) -> Vec<LayerWord> {
        // A value that only the built-in layers set needs no story: nobody wrote it.
        if self.steps.iter().all(|step| step.origin.scope == LayerKind::Builtin) {
            return Vec::new();
        }
        let (mut trail, mut from, mut builtin) = (Self::default(), None, None);
        let mut words = Vec::with_capacity(self.steps.len());
        for (number, step) in self.steps.iter().enumerate() {
            let is_builtin = step.origin.scope == LayerKind::Builtin;
            // Values of built-in layers are not shown as before and after, because nobody can change them.
            let shown = |trail: &Self| trail.get().filter(|_| !is_builtin).map(T::show_value);
            let before = shown(&trail);
            trail.push(step.clone());
            words.push(LayerWord {
                kind: step.kind(),
                layer: Arc::clone(&step.layer),
                scope: step.origin.scope,
                span: Span::new(step.origin.source, step.origin.at, step.end),
                part: step.part,
                selector: step.selector.clone(),
                from,
                before,
                after: shown(&trail),
            });
            // After a `null` the next word builds on the built-in value again, so it is named as the word before.
            from = if step.set.is_some() { Some(number) } else { builtin };
            if is_builtin {
                builtin = from;
            }
        }
        words
    }
}

impl<T: LayerValue> TrailStep<T> {
    fn kind(&self) -> WordKind {
        match &self.set {
            None => WordKind::Unset,
            Some(leaf) if leaf.is_edit() => WordKind::Edit,
            Some(_) => WordKind::Set,
        }
    }
}

impl LayerPosition {
    pub(crate) fn new(scope: LayerKind, name: impl Into<Arc<str>>) -> Self {
        Self { scope, name: name.into(), part: 0, selector: None }
    }

    /// The same layer, of that part.
    #[must_use]
    pub(crate) fn of(self, part: usize) -> Self {
        Self { part, ..self }
    }

    /// The same layer, under that selector.
    #[must_use]
    pub(crate) fn under(self, selector: &Selector) -> Self {
        Self { selector: Some(selector.clone()), ..self }
    }
}
