//! Blocks of policy keys, each declared once, in the forms they take: as a file writes them, as the layers make them, and
//! as the interpreter uses them.
//!
//! `#[derive(Block)]` writes the walks over the fields; what is done with them is here and in the modules that use it.

use core::fmt::Debug;
use core::ops::Deref;

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::Value;

use super::decode::{Decode, Described, Object, Patch, Reader};
use super::merge::{AnyTrail, At, Leaf, Trail};
use super::yaml::{Data, Node};
use super::{Setting, Span};

pub(crate) use unfazed_macros::Block;

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Document {}
    impl Sealed for super::Merged {}
    impl Sealed for super::Effective {}
    impl Sealed for super::Nothing {}
}

/// What the fields of a block hold.
pub trait Form: sealed::Sealed + Clone + Debug + 'static {
    /// The value of a key.
    type Of<T: Leaf>: Clone + Debug;
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
pub(crate) enum Nothing {}

impl Form for Document {
    type Of<T: Leaf> = Patch<T>;
    type In<B: Block> = OptionalBlock<B>;
}

impl Form for Merged {
    type Of<T: Leaf> = Trail<T>;
    type In<B: Block> = B;
}

impl Form for Effective {
    type Of<T: Leaf> = Setting<T::Value>;
    type In<B: Block> = B;
}

impl Form for Nothing {
    type Of<T: Leaf> = ();
    type In<B: Block> = ();
}

/// What a key says about itself besides its type and its docs.
#[derive(Debug)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// Which of its values are looser; said of every key whose values have an order.
    pub looser: Option<Looser>,
}

/// Which values of a key are looser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Looser {
    /// What is more in the order of the type.
    More,
    /// What is less.
    Less,
    /// None: a difference is only a difference.
    Neither,
}

impl Key {
    /// A key whose declaration holds together; checked when it is compiled.
    #[must_use]
    pub const fn checked<T: Leaf>(self) -> Self {
        assert!(
            T::ORDERED || self.looser.is_none(),
            "the values of this key have no order, so none of them can be looser"
        );
        assert!(
            !T::ORDERED || self.looser.is_some(),
            "say which values of this key are looser: `#[key(looser = More)]`, `Less` or `Neither`"
        );
        self
    }
}

/// A block of keys. `#[derive(Block)]` writes all of it.
pub trait Block: Clone + Debug + Sized + 'static {
    /// The form it has.
    type Form: Form;
    /// The same block in another form.
    type As<G: Form>: Block<Form = G>;
    /// Its name in the published schema.
    const NAME: &'static str;

    /// Makes one, key by key.
    fn make(maker: &mut impl Make<Self::Form>) -> Self;
    /// Makes the same block in another form.
    fn map<G: Form>(&self, map: &mut impl Map<Self::Form, G>) -> Option<Self::As<G>>;
    /// Merges one more layer into what those below it have made.
    fn fold(merged: &mut Self::As<Merged>, layer: &Self::As<Document>, at: &At);
}

/// Makes the values of a block.
pub trait Make<F: Form> {
    /// The value of a key.
    fn key<T: Leaf>(&mut self, key: &'static Key) -> F::Of<T>;
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
    fn key<T: Leaf>(&mut self, key: &'static Key, from: &F::Of<T>) -> Option<G::Of<T>>;
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
    fn read(&mut self, name: &str, node: &Node, reader: &mut Reader<'_>);
    /// Describes its fields in the schema of a mapping.
    fn describe(object: &mut Object, generator: &mut SchemaGenerator);
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
    fn decode(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        match node.data {
            Data::Null => Some(Self(Some(Box::new(B::make(&mut Unset(node.span)))))),
            Data::Reported => {
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
        let block = generator.subschema_for::<Described<B>>();
        json_schema!({"anyOf": [block, {"type": "null"}]})
    }
}

/// Reads a block from a mapping.
pub(crate) fn decode_block<B: BlockDocument>(node: &Node, reader: &mut Reader<'_>) -> Option<B> {
    decode_fields_of(node, reader, B::ABSENT.clone(), B::FIELDS, B::read)
}

/// Reads the fields of a mapping into `into`, in the order of the text; what is said of an unknown field that can only mean
/// a known one is looked at all the same.
pub(crate) fn decode_fields_of<T>(
    node: &Node,
    reader: &mut Reader<'_>,
    mut into: T,
    fields: &[&'static str],
    read: impl Fn(&mut T, &str, &Node, &mut Reader<'_>),
) -> Option<T> {
    let entries = reader.mapping(node)?;
    for (key, value) in entries {
        let name = &*key.name;
        let name = if fields.contains(&name) {
            name
        } else {
            let Some(meant) = reader.unknown_field(key, fields, entries) else { continue };
            meant
        };
        read(&mut into, name, value, reader);
    }
    Some(into)
}

/// Reads one field; what cannot be read is as if it were left out.
pub(crate) fn read_field<T: Decode + Default>(name: &str, node: &Node, reader: &mut Reader<'_>) -> T {
    reader.value::<T>(node).unwrap_or_else(|| {
        reader.lose(name);
        T::default()
    })
}

/// Every key unset: what `null` means in the place of a block.
struct Unset(Span);

impl Make<Document> for Unset {
    fn key<T: Leaf>(&mut self, _: &'static Key) -> Patch<T> {
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
    fn key<T: Leaf>(&mut self, _: &'static Key) -> Trail<T> {
        Trail::default()
    }

    fn block<B: Block<Form = Merged>>(&mut self, _: &'static str) -> B {
        B::make(self)
    }
}

/// Merges one more layer into what those below it have made.
pub(crate) fn fold<B>(merged: &mut B, layer: &B::As<Document>, at: &At)
where
    B: Block<Form = Merged, As<Merged> = B>,
{
    B::fold(merged, layer, at);
}

/// What is asked of the layers of a block, merged.
pub(crate) trait MergedBlock: Block<Form = Merged> {
    /// The plain values; `None` if the layers leave one open, which the built-in policy does not.
    fn policy(&self) -> Option<Self::As<Effective>> {
        effective(self)
    }

    /// Shows every key with its path.
    fn each(&self, prefix: &str, visit: Visit<'_>) {
        each(self, prefix, visit);
    }
}

impl<B: Block<Form = Merged>> MergedBlock for B {}

fn effective<B: Block<Form = Merged>>(merged: &B) -> Option<B::As<Effective>> {
    struct Values;
    impl Map<Merged, Effective> for Values {
        fn key<T: Leaf>(&mut self, _: &'static Key, trail: &Trail<T>) -> Option<Setting<T::Value>> {
            trail.setting()
        }

        fn block<B: Block<Form = Merged>>(&mut self, _: &'static str, block: &B) -> Option<B::As<Effective>> {
            block.map(self)
        }
    }
    merged.map(&mut Values)
}

/// A visitor of merged keys: the path, the declaration, and what the layers made of it.
pub(crate) type Visit<'v> = &'v mut dyn FnMut(String, &'static Key, &dyn AnyTrail);

fn each<B: Block<Form = Merged>>(block: &B, prefix: &str, visit: Visit<'_>) {
    struct Each<'v> {
        path: Path,
        visit: Visit<'v>,
    }
    impl Map<Merged, Nothing> for Each<'_> {
        fn key<T: Leaf>(&mut self, key: &'static Key, trail: &Trail<T>) -> Option<()> {
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
    block.map(&mut Each { path: Path::under(prefix), visit });
}

/// Every value that a layer writes, with its path, its place and its text; `null` for one that it unsets.
pub(crate) fn entries<B: Block<Form = Document>>(
    block: &B,
    prefix: &str,
    found: &mut Vec<(String, Span, Value)>,
) {
    struct Entries<'f> {
        path: Path,
        found: &'f mut Vec<(String, Span, Value)>,
    }
    impl Map<Document, Nothing> for Entries<'_> {
        fn key<T: Leaf>(&mut self, key: &'static Key, patch: &Patch<T>) -> Option<()> {
            if let Some(span) = patch.span() {
                let shown = patch.as_set().map(Leaf::show).unwrap_or_default();
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
    block.map(&mut Entries { path: Path::under(prefix), found });
}

/// The same layer without the values that are not to be kept, by their paths and places.
pub(crate) fn retain<B>(block: &B, prefix: &str, keep: &mut dyn FnMut(&str, Span) -> bool) -> B
where
    B: Block<Form = Document, As<Document> = B>,
{
    struct Retain<'k> {
        path: Path,
        keep: &'k mut dyn FnMut(&str, Span) -> bool,
    }
    impl Map<Document, Document> for Retain<'_> {
        fn key<T: Leaf>(&mut self, key: &'static Key, patch: &Patch<T>) -> Option<Patch<T>> {
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
    block.map(&mut Retain { path: Path::under(prefix), keep }).unwrap_or_else(|| block.clone())
}

/// Every key of a block with its path.
pub(crate) fn keys<B: Block<Form = Nothing>>(prefix: &str) -> Vec<(String, &'static Key)> {
    struct Keys {
        path: Path,
        found: Vec<(String, &'static Key)>,
    }
    impl Make<Nothing> for Keys {
        fn key<T: Leaf>(&mut self, key: &'static Key) {
            self.found.push((self.path.of(key.name), key));
        }

        fn block<B: Block<Form = Nothing>>(&mut self, name: &'static str) {
            self.path.0.push(name.to_owned());
            B::make(self);
            self.path.0.pop();
        }

        fn several<B: Block<Form = Nothing>>(&mut self) {
            self.block::<B>("*");
        }
    }
    let mut keys = Keys { path: Path::under(prefix), found: Vec::new() };
    B::make(&mut keys);
    keys.found
}

/// The names from the top to a block.
struct Path(Vec<String>);

impl Path {
    fn under(prefix: &str) -> Self {
        Self(if prefix.is_empty() { Vec::new() } else { vec![prefix.to_owned()] })
    }

    fn of(&self, name: &str) -> String {
        let names = self.0.iter().map(String::as_str).chain([name]);
        names.collect::<Vec<_>>().join(".")
    }
}
