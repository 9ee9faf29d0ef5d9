//! Blocks of policy keys, each declared once, in the forms they take: as a file writes them, as the layers make them, and
//! as the interpreter uses them.
//!
//! `#[derive(Block)]` writes the walks over the fields; what is done with them is here and in the modules that use it.

use core::fmt::Debug;
use core::ops::Deref;

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::Value;

use super::Setting;
use super::decode::{Decode, NodeReader, ObjectSchema, Patch, SchemaOf};
use super::key::Key;
use super::layer_value::LayerValue;
use super::merge::{AnyTrail, LayerPosition, ValueHistory};
use crate::text::Span;
use crate::text::yaml::{YamlData, YamlNode};

pub(crate) use unfazed_macros::Block;

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Document {}
    impl Sealed for super::Merged {}
    impl Sealed for super::Effective {}
    impl Sealed for super::NoForm {}
}

/// What the fields of a block hold.
pub trait Form: sealed::Sealed + Clone + Debug + 'static {
    /// The value of a key.
    type Of<T: LayerValue>: Clone + Debug;
    /// A block within the block.
    type In<B: Block>: Clone + Debug;
}

/// As one layer writes it: left out, `null`, or a value with its place.
#[derive(Clone, Debug)]
pub enum Document {}

/// What every layer wrote, lowest first, and which of it counts.
#[derive(Clone, Debug)]
pub enum Merged {}

/// Plain values, each with its origin.
#[derive(Clone, Debug)]
pub enum Effective {}

/// Nothing: for walks over the keys themselves.
#[derive(Clone, Debug)]
pub(crate) enum NoForm {}

impl Form for Document {
    type Of<T: LayerValue> = Patch<T>;
    type In<B: Block> = OptionalBlock<B>;
}

impl Form for Merged {
    type Of<T: LayerValue> = ValueHistory<T>;
    type In<B: Block> = B;
}

impl Form for Effective {
    type Of<T: LayerValue> = Setting<T::Value>;
    type In<B: Block> = B;
}

impl Form for NoForm {
    type Of<T: LayerValue> = ();
    type In<B: Block> = ();
}

/// A block of keys. `#[derive(Block)]` writes all of it.
pub trait Block: Clone + Debug + Sized + 'static {
    /// The form it has.
    type Form: Form;
    /// The same block in another form.
    type As<G: Form>: Block<Form = G>;

    /// Makes one, key by key.
    fn make(maker: &mut impl Make<Self::Form>) -> Self;
    /// Makes the same block in another form.
    fn map<G: Form>(&self, map: &mut impl Map<Self::Form, G>) -> Option<Self::As<G>>;
    /// Merges one more layer into what those below it have made.
    fn fold(merged: &mut Self::As<Merged>, layer: &Self::As<Document>, at: &LayerPosition);
}

/// Makes the values of a block.
pub trait Make<F: Form> {
    /// The value of a key.
    fn key<T: LayerValue>(&mut self, key: &'static Key) -> F::Of<T>;
    /// A block within the block.
    fn block<B: Block<Form = F>>(&mut self, name: &'static str) -> F::In<B>;
    /// A block of which there may be several, by name; there is none yet.
    fn several<B: Block<Form = F>>(&mut self) {}
    /// Where the whole block is written as `null`.
    fn unset(&self) -> Option<Span> {
        None
    }
}

/// Makes the values of a block from those of another form. `None` ends the walk.
pub trait Map<F: Form, G: Form> {
    /// The value of a key.
    fn key<T: LayerValue>(&mut self, key: &'static Key, from: &F::Of<T>) -> Option<G::Of<T>>;
    /// A block within the block.
    fn block<B: Block<Form = F>>(&mut self, name: &'static str, from: &F::In<B>) -> Option<G::In<B::As<G>>>;
}

/// A block as a layer writes it.
pub trait BlockDocument: Block<Form = Document> + Decode {
    /// One that says nothing.
    const ABSENT: &'static Self;
    /// The names of its keys and blocks.
    const FIELDS: &'static [&'static str];

    /// Reads the field of that name.
    fn read(&mut self, name: &str, node: &YamlNode, reader: &mut NodeReader<'_>);
    /// Describes its fields in the schema of a mapping.
    fn describe(object: &mut ObjectSchema, generator: &mut SchemaGenerator);
}

/// A block within a block, as a layer writes it; `null` unsets all of it. Most rules leave most of their blocks out, and a
/// policy may have tens of thousands of rules: what is left out takes one word.
#[derive(Clone, Debug)]
pub struct OptionalBlock<B>(Option<Box<B>>);

impl<B> OptionalBlock<B> {
    /// One that is left out.
    pub const ABSENT: Self = Self(None);

    /// What is written.
    pub fn written(&self) -> Option<&B> {
        self.0.as_deref()
    }
}

impl<B: Clone> OptionalBlock<B> {
    /// What becomes of it if it is written.
    #[cfg(feature = "host")]
    pub(crate) fn map_written(&self, change: impl FnOnce(&B) -> B) -> Self {
        Self(self.written().map(|block| Box::new(change(block))))
    }
}

impl<B> Default for OptionalBlock<B> {
    fn default() -> Self {
        Self::ABSENT
    }
}

impl<B: BlockDocument> Deref for OptionalBlock<B> {
    type Target = B;

    fn deref(&self) -> &B {
        self.0.as_deref().unwrap_or(B::ABSENT)
    }
}

impl<B: BlockDocument> Decode for OptionalBlock<B> {
    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        match node.data {
            // `null` in the place of a block unsets each of its keys, so lower layers cannot show through some of
            // them.
            YamlData::Null => Some(Self(Some(Box::new(B::make(&mut UnsetMaker(node.span)))))),
            // The reader has reported it; that `null` would do is still worth saying.
            YamlData::Reported => {
                reader.takes_null(node);
                None
            }
            _ => B::decode(node, reader).map(|block| Self(Some(Box::new(block)))),
        }
    }

    fn absent() -> Option<Self> {
        Some(Self::ABSENT)
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        let block = generator.subschema_for::<SchemaOf<B>>();
        json_schema!({"anyOf": [block, {"type": "null"}]})
    }
}

/// Reads a block from a mapping.
pub(crate) fn decode_block<B: BlockDocument>(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<B> {
    decode_fields_of(node, reader, B::ABSENT.clone(), B::FIELDS, B::read)
}

/// Reads the fields of a mapping into `into`, in the order of the text.
pub(crate) fn decode_fields_of<T>(
    node: &YamlNode,
    reader: &mut NodeReader<'_>,
    mut into: T,
    fields: &[&'static str],
    read: impl Fn(&mut T, &str, &YamlNode, &mut NodeReader<'_>),
) -> Option<T> {
    let entries = reader.mapping(node)?;
    for (key, value) in entries {
        if let Some(name) = reader.field(key, fields, entries) {
            read(&mut into, name, value, reader);
        }
    }
    Some(into)
}

/// Reads one field; what cannot be read is as if it were left out.
pub(crate) fn read_field<T: Decode + Default>(name: &str, node: &YamlNode, reader: &mut NodeReader<'_>) -> T {
    // One key that cannot be read must not hide the mistakes in the others.
    reader.value::<T>(node).unwrap_or_else(|| {
        reader.lose(name);
        T::default()
    })
}

/// Every key unset: what `null` means in the place of a block.
struct UnsetMaker(Span);

impl Make<Document> for UnsetMaker {
    fn key<T: LayerValue>(&mut self, _: &'static Key) -> Patch<T> {
        Patch::Null(self.0)
    }

    fn block<B: Block<Form = Document>>(&mut self, _: &'static str) -> OptionalBlock<B> {
        OptionalBlock(Some(Box::new(B::make(self))))
    }

    fn unset(&self) -> Option<Span> {
        Some(self.0)
    }
}

/// No layer has written anything.
pub(crate) struct NoLayer;

impl Make<Merged> for NoLayer {
    fn key<T: LayerValue>(&mut self, _: &'static Key) -> ValueHistory<T> {
        ValueHistory::default()
    }

    fn block<B: Block<Form = Merged>>(&mut self, _: &'static str) -> B {
        B::make(self)
    }
}

/// Merges one more layer into what those below it have made.
pub(crate) fn fold<B>(merged: &mut B, layer: &B::As<Document>, at: &LayerPosition)
where
    B: Block<Form = Merged, As<Merged> = B>,
{
    B::fold(merged, layer, at);
}

/// What is asked of the layers of a block, merged.
pub(crate) trait MergedBlock: Block<Form = Merged> {
    /// The plain values; `None` if the layers leave one open, which the built-in policy does not.
    fn policy(&self) -> Option<Self::As<Effective>> {
        struct ValueMaker;
        impl Map<Merged, Effective> for ValueMaker {
            fn key<T: LayerValue>(
                &mut self,
                _: &'static Key,
                trail: &ValueHistory<T>,
            ) -> Option<Setting<T::Value>> {
                trail.setting()
            }

            fn block<B: Block<Form = Merged>>(
                &mut self,
                _: &'static str,
                block: &B,
            ) -> Option<B::As<Effective>> {
                block.map(self)
            }
        }
        self.map(&mut ValueMaker)
    }

    /// Shows every key with its path.
    fn each(&self, prefix: &str, visit: KeyVisit<'_>) {
        struct KeyVisitor<'v> {
            path: KeyPath,
            visit: KeyVisit<'v>,
        }
        impl Map<Merged, NoForm> for KeyVisitor<'_> {
            fn key<T: LayerValue>(&mut self, key: &'static Key, trail: &ValueHistory<T>) -> Option<()> {
                // A value that a class only inherits is shown once, at the key for all classes.
                if !trail.is_inherited() {
                    (self.visit)(self.path.of(key.name), key, trail);
                }
                Some(())
            }

            fn block<B: Block<Form = Merged>>(&mut self, name: &'static str, block: &B) -> Option<()> {
                self.path.0.push(name.to_owned());
                block.map(self);
                self.path.0.pop();
                Some(())
            }
        }
        self.map(&mut KeyVisitor { path: KeyPath::under(prefix), visit });
    }
}

impl<B: Block<Form = Merged>> MergedBlock for B {}

/// A visitor of merged keys: the path, the declaration, and what the layers made of it.
pub(crate) type KeyVisit<'v> = &'v mut dyn FnMut(String, &'static Key, &dyn AnyTrail);

/// Every value that a layer writes, with its path, its place and its text; `null` for one that it unsets.
pub(crate) fn entries<B: Block<Form = Document>>(
    block: &B,
    prefix: &str,
    found: &mut Vec<(String, Span, Value)>,
) {
    struct EntryMaker<'f> {
        path: KeyPath,
        found: &'f mut Vec<(String, Span, Value)>,
    }
    impl Map<Document, NoForm> for EntryMaker<'_> {
        fn key<T: LayerValue>(&mut self, key: &'static Key, patch: &Patch<T>) -> Option<()> {
            if let Some(span) = patch.span() {
                let shown = patch.as_set().map(LayerValue::show).unwrap_or_default();
                self.found.push((self.path.of(key.name), span, shown));
            }
            Some(())
        }

        fn block<B: Block<Form = Document>>(
            &mut self,
            name: &'static str,
            block: &OptionalBlock<B>,
        ) -> Option<()> {
            if let Some(block) = block.written() {
                self.path.0.push(name.to_owned());
                block.map(self);
                self.path.0.pop();
            }
            Some(())
        }
    }
    block.map(&mut EntryMaker { path: KeyPath::under(prefix), found });
}

/// The same layer without the values that are not to be kept, by their paths and places.
pub(crate) fn retain<B>(block: &B, prefix: &str, keep: &mut dyn FnMut(&str, Span) -> bool) -> B
where
    B: Block<Form = Document, As<Document> = B>,
{
    struct RetainMapper<'k> {
        path: KeyPath,
        keep: &'k mut dyn FnMut(&str, Span) -> bool,
    }
    impl Map<Document, Document> for RetainMapper<'_> {
        fn key<T: LayerValue>(&mut self, key: &'static Key, patch: &Patch<T>) -> Option<Patch<T>> {
            let kept = patch.span().is_some_and(|span| (self.keep)(&self.path.of(key.name), span));
            Some(if kept { patch.clone() } else { Patch::Absent })
        }

        fn block<B: Block<Form = Document>>(
            &mut self,
            name: &'static str,
            block: &OptionalBlock<B>,
        ) -> Option<OptionalBlock<B::As<Document>>> {
            let Some(block) = block.written() else { return Some(OptionalBlock::ABSENT) };
            self.path.0.push(name.to_owned());
            let kept = block.map(self);
            self.path.0.pop();
            Some(OptionalBlock(kept.map(Box::new)))
        }
    }
    // No value of a layer is missing, so the walk does not end early.
    block.map(&mut RetainMapper { path: KeyPath::under(prefix), keep }).unwrap_or_else(|| block.clone())
}

/// Every key of a block with its path.
pub(crate) fn keys<B: Block<Form = NoForm>>(prefix: &str) -> Vec<(String, &'static Key)> {
    struct KeyList {
        path: KeyPath,
        found: Vec<(String, &'static Key)>,
    }
    impl Make<NoForm> for KeyList {
        fn key<T: LayerValue>(&mut self, key: &'static Key) {
            self.found.push((self.path.of(key.name), key));
        }

        fn block<B: Block<Form = NoForm>>(&mut self, name: &'static str) {
            self.path.0.push(name.to_owned());
            B::make(self);
            self.path.0.pop();
        }

        fn several<B: Block<Form = NoForm>>(&mut self) {
            self.block::<B>("*");
        }
    }
    let mut keys = KeyList { path: KeyPath::under(prefix), found: Vec::new() };
    B::make(&mut keys);
    keys.found
}

/// The names from the top to a block.
struct KeyPath(Vec<String>);

impl KeyPath {
    fn under(prefix: &str) -> Self {
        Self(if prefix.is_empty() { Vec::new() } else { vec![prefix.to_owned()] })
    }

    fn of(&self, name: &str) -> String {
        let names = self.0.iter().map(String::as_str).chain([name]);
        names.collect::<Vec<_>>().join(".")
    }
}
