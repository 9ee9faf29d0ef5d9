//! A layer: a record whose fields are left out, unset or set, and what becomes of it in the merge.

use std::borrow::Cow;
use std::ops::Deref;

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::Value;

use super::AnyTrail;
use crate::policy::Span;
use crate::policy::decode::{Decode, Described, Reader};
use crate::policy::yaml::{Data, Node};

/// A record of a layer.
pub(crate) trait Layer: Decode + Default + 'static {
    /// One that says nothing.
    const ABSENT: &'static Self;

    /// Every value unset: what `null` in place of the whole record means.
    fn unset(span: Span) -> Self;

    /// Forgets the values whose paths are not to be kept.
    fn retain(&mut self, prefix: &str, keep: &dyn Fn(&str) -> bool);

    /// Every value it speaks of, with its path, its place and its text.
    fn entries(&self, under: &Under<'_>, found: &mut Vec<(String, Span, Value)>);
}

/// A record within a record; `null` unsets all of it. Most rules leave most of their blocks out, and a policy may have
/// tens of thousands of rules: what is left out takes one word.
#[derive(Clone, Debug)]
pub(crate) struct Block<T>(Option<Box<T>>);

impl<T> Block<T> {
    /// One that is left out.
    pub(crate) const ABSENT: Self = Self(None);
}

impl<T: Layer> Block<T> {
    /// Every value of it unset.
    pub(crate) fn unset(span: Span) -> Self {
        Self(Some(Box::new(T::unset(span))))
    }

    /// Forgets the values whose paths are not to be kept.
    pub(crate) fn retain(&mut self, prefix: &str, keep: &dyn Fn(&str) -> bool) {
        if let Some(written) = &mut self.0 {
            written.retain(prefix, keep);
        }
    }
}

impl<T> Default for Block<T> {
    fn default() -> Self {
        Self::ABSENT
    }
}

impl<T: Layer> Deref for Block<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_deref().unwrap_or(T::ABSENT)
    }
}

impl<T: Layer> Decode for Block<T> {
    fn decode(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        match node.data {
            Data::Null => Some(Self::unset(node.span)),
            Data::Reported => {
                reader.takes_null(node);
                None
            }
            _ => T::decode(node, reader).map(|written| Self(Some(Box::new(written)))),
        }
    }

    fn absent() -> Option<Self> {
        Some(Self::ABSENT)
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        let block = generator.subschema_for::<Described<T>>();
        json_schema!({"anyOf": [block, {"type": "null"}]})
    }
}

/// What is seen of a merged record: every trail with its path.
pub(crate) type Visit<'v> = &'v mut dyn FnMut(String, &dyn AnyTrail);

/// What a layer stands under; written out only for what it says.
#[derive(Clone, Copy)]
pub(crate) struct Under<'u> {
    above: Option<&'u Under<'u>>,
    name: &'u str,
}

impl<'u> Under<'u> {
    /// Nothing.
    pub(crate) const TOP: Self = Self::new("");

    /// A name.
    pub(crate) const fn new(name: &'u str) -> Self {
        Self { above: None, name }
    }

    /// A field below.
    pub(crate) fn field(&'u self, field: &'static str) -> Self {
        Self { above: Some(self), name: crate::policy::decode::field_name(field) }
    }

    /// The path of a field.
    pub(crate) fn path(&self, field: &'static str) -> String {
        path(&self.written(), field)
    }

    fn written(&self) -> Cow<'u, str> {
        match self.above.map(Self::written) {
            Some(above) if !above.is_empty() => Cow::Owned(format!("{above}.{}", self.name)),
            _ => Cow::Borrowed(self.name),
        }
    }
}

/// The path of a field.
pub(crate) fn path(prefix: &str, field: &'static str) -> String {
    let field = crate::policy::decode::field_name(field);
    if prefix.is_empty() { field.to_owned() } else { format!("{prefix}.{field}") }
}

/// Declares a layer and what it is merged into. `leaves` are values, `blocks` are layers within it, `within` are
/// layers whose merge is written by hand, `rest` are fields that are not merged.
macro_rules! layer {
    ($(#[doc = $doc:literal])* $vis:vis struct $name:ident => $merged:ident {
        leaves { $($(#[doc = $leaf_doc:literal])* $leaf:ident : $leaf_ty:ty),* $(,)? }
        $(blocks { $($(#[doc = $block_doc:literal])* $block:ident : $block_ty:ty => $block_merged:ty),* $(,)? })?
        $(within { $($(#[doc = $within_doc:literal])* $within:ident : $within_ty:ty),* $(,)? })?
        $(rest { $($(#[doc = $rest_doc:literal])* $rest:ident : $rest_ty:ty = $rest_default:expr),* $(,)? })?
    }) => {
        $crate::policy::decode::record! {
            $(#[doc = $doc])*
            #[part(true)]
            $vis struct $name {
                $($(#[doc = $leaf_doc])* $vis $leaf: $crate::policy::decode::Patch<$leaf_ty>,)*
                $($($(#[doc = $block_doc])* $vis $block: $crate::policy::merge::Block<$block_ty>,)*)?
                $($($(#[doc = $within_doc])* $vis $within: $crate::policy::merge::Block<$within_ty>,)*)?
                $($($(#[doc = $rest_doc])* $vis $rest: $rest_ty = $rest_default,)*)?
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::NOTHING
            }
        }

        impl $name {
            const NOTHING: Self = Self {
                $($leaf: $crate::policy::decode::Patch::Absent,)*
                $($($block: $crate::policy::merge::Block::ABSENT,)*)?
                $($($within: $crate::policy::merge::Block::ABSENT,)*)?
                $($($rest: $rest_default,)*)?
            };
        }

        impl $crate::policy::merge::Layer for $name {
            const ABSENT: &'static Self = &Self::NOTHING;

            fn unset(span: $crate::policy::Span) -> Self {
                Self {
                    $($leaf: $crate::policy::decode::Patch::Null(span),)*
                    $($($block: $crate::policy::merge::Block::unset(span),)*)?
                    $($($within: $crate::policy::merge::Block::unset(span),)*)?
                    $($($rest: $rest_default,)*)?
                }
            }

            fn retain(&mut self, prefix: &str, keep: &dyn Fn(&str) -> bool) {
                $(if !keep(&$crate::policy::merge::path(prefix, stringify!($leaf))) {
                    self.$leaf = $crate::policy::decode::Patch::Absent;
                })*
                $($(self.$block.retain(&$crate::policy::merge::path(prefix, stringify!($block)), keep);)*)?
                $($(self.$within.retain(&$crate::policy::merge::path(prefix, stringify!($within)), keep);)*)?
            }

            fn entries(
                &self,
                under: &$crate::policy::merge::Under<'_>,
                found: &mut Vec<(String, $crate::policy::Span, serde_json::Value)>,
            ) {
                $(if let Some(span) = self.$leaf.span() {
                    let shown = self.$leaf.as_set().map($crate::policy::merge::Leaf::show);
                    let path = under.path(stringify!($leaf));
                    found.push((path, span, shown.unwrap_or_default()));
                })*
                $($($crate::policy::merge::Layer::entries(
                    &*self.$block,
                    &under.field(stringify!($block)),
                    found,
                );)*)?
                $($($crate::policy::merge::Layer::entries(
                    &*self.$within,
                    &under.field(stringify!($within)),
                    found,
                );)*)?
            }
        }

        /// The layers of it, merged.
        #[derive(Clone, Debug, Default)]
        $vis struct $merged {
            $($vis $leaf: $crate::policy::merge::Trail<$leaf_ty>,)*
            $($($vis $block: $block_merged,)*)?
        }

        impl $merged {
            /// Hears one more layer.
            $vis fn fold(&mut self, layer: &$name, at: &$crate::policy::merge::At) {
                $(self.$leaf.fold(&layer.$leaf, at);)*
                $($(self.$block.fold(&layer.$block, at);)*)?
            }

            /// Shows every value with its path.
            $vis fn each(&self, prefix: &str, visit: $crate::policy::merge::Visit<'_>) {
                $(visit($crate::policy::merge::path(prefix, stringify!($leaf)), &self.$leaf);)*
                $($(self.$block.each(&$crate::policy::merge::path(prefix, stringify!($block)), visit);)*)?
            }
        }
    };
}

pub(crate) use layer;
