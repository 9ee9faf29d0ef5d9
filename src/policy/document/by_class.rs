//! Values by error class: `by_class` of a retry policy, `cost_of` of a budget.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::Map as JsonMap;

use super::backoff::WrittenBackoff;
use crate::policy::decode::{Decode, NodeReader, ObjectSchema, SchemaOf};
use crate::policy::form::{
    Block, BlockDocument, Document, Effective, Form, Make, Map, Merged, OptionalBlock,
};
use crate::policy::merge::{LayerPosition, ValueHistory};
use crate::policy::{AttemptLimit, ErrorClass, ServerDelay};
use crate::text::Span;
use crate::text::yaml::YamlNode;

/// What is different for failures of one class.
#[derive(Clone, Debug, Block)]
pub struct ClassRetry<F: Form = Effective> {
    /// A failure of this class at this attempt of the call, or later, is not followed by another.
    /// Example: `2`
    #[key(looser = More)]
    pub max_attempts: F::Of<AttemptLimit>,
    /// The delay after a failure of this class.
    pub backoff: F::Of<WrittenBackoff>,
    /// What a delay asked for by the server does to the wait after a failure of this class.
    pub server_delay: F::Of<ServerDelay>,
}

/// A mapping from error classes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PerClass<T>(pub(crate) Vec<(ErrorClass, T)>);

/// What is different for failures of some classes. Its keys are the classes, so its walks are written by hand.
#[derive(Clone, Debug)]
pub struct ByClass<F: Form = Effective> {
    /// Forgets what the layers below say of any class.
    unset: Option<Span>,
    pub(super) own: Vec<(ErrorClass, F::In<ClassRetry<F>>)>,
}

impl<T> Default for PerClass<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Decode> Decode for PerClass<T> {
    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        let names: Vec<&str> = ErrorClass::ALL.iter().map(|class| class.name()).collect();
        let mut read = Vec::new();
        for (key, value) in reader.mapping(node)? {
            let class = ErrorClass::from_name(&key.name);
            let class =
                class.or_else(|| reader.choice(key.span, &key.name, &names).and_then(ErrorClass::from_name));
            // Every entry is read before one of them counts, so that all mistakes are reported.
            read.push(class.zip(reader.value::<T>(value)));
        }
        read.into_iter().collect::<Option<_>>().map(Self)
    }

    fn absent() -> Option<Self> {
        Some(Self::default())
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        let value = generator.subschema_for::<SchemaOf<T>>();
        let of = |class: &ErrorClass| {
            let mut value = value.clone();
            value.insert("description".into(), class.meaning().into());
            (class.name().to_owned(), value.to_value())
        };
        json_schema!({
            "type": "object",
            "properties": ErrorClass::ALL.iter().map(of).collect::<JsonMap<_, _>>(),
            "additionalProperties": false,
        })
    }
}

impl<F: Form> Block for ByClass<F> {
    type Form = F;
    type As<G: Form> = ByClass<G>;
    /// No class has rules of its own yet.
    fn make(maker: &mut impl Make<F>) -> Self {
        maker.several::<ClassRetry<F>>();
        Self { unset: maker.unset(), own: Vec::new() }
    }

    fn map<G: Form>(&self, map: &mut impl Map<F, G>) -> Option<ByClass<G>> {
        let own = self
            .own
            .iter()
            .map(|(class, rules)| Some((*class, map.block::<ClassRetry<F>>(class.name(), rules)?)));
        Some(ByClass { unset: None, own: own.collect::<Option<_>>()? })
    }

    /// Not without what holds for all classes: see `fold_with_classes`.
    fn fold(_: &mut ByClass<Merged>, _: &ByClass<Document>, _: &LayerPosition) {}
}

impl BlockDocument for ByClass<Document> {
    const ABSENT: &'static Self = &Self { unset: None, own: Vec::new() };
    const FIELDS: &'static [&'static str] = &[];

    fn read(&mut self, _: &str, _: &YamlNode, _: &mut NodeReader<'_>) {}

    fn describe(_: &mut ObjectSchema, _: &mut SchemaGenerator) {}
}

impl Decode for ByClass<Document> {
    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        PerClass::decode(node, reader).map(|own| Self { unset: None, own: own.0 })
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        PerClass::<OptionalBlock<ClassRetry<Document>>>::schema(generator)
    }
}

impl ByClass<Document> {
    /// Whether it forgets what the layers below say.
    pub(crate) const fn is_unset(&self) -> bool {
        self.unset.is_some()
    }

    /// What it says of each class.
    pub(crate) fn layers(&self) -> impl Iterator<Item = (ErrorClass, &ClassRetry<Document>)> + Clone {
        self.own.iter().map(|(class, layer)| (*class, &**layer))
    }

    /// Where it forgets what the layers below say.
    pub(crate) const fn unset_at(&self) -> Option<Span> {
        self.unset
    }

    pub(super) fn get(&self, class: ErrorClass) -> Option<&ClassRetry<Document>> {
        self.own.iter().find(|(named, _)| *named == class).map(|(_, layer)| &**layer)
    }
}

impl ByClass<Merged> {
    /// The most attempts of each class, for limits.
    pub(crate) fn max_attempts(&mut self) -> impl Iterator<Item = &mut ValueHistory<AttemptLimit>> {
        self.own.iter_mut().map(|(_, rules)| &mut rules.max_attempts)
    }
}

impl FromIterator<(ErrorClass, ClassRetry)> for ByClass {
    fn from_iter<I: IntoIterator<Item = (ErrorClass, ClassRetry)>>(own: I) -> Self {
        Self { unset: None, own: own.into_iter().collect() }
    }
}

impl ByClass {
    /// Whether no class has rules of its own.
    pub const fn is_empty(&self) -> bool {
        self.own.is_empty()
    }

    /// The rules of a class; `None`: those for all hold.
    pub fn get(&self, class: ErrorClass) -> Option<&ClassRetry> {
        self.own.iter().find(|(named, _)| *named == class).map(|(_, rules)| rules)
    }

    /// The classes that have rules of their own, each with all its values: those that hold for all, too.
    pub fn iter(&self) -> impl Iterator<Item = (ErrorClass, &ClassRetry)> + Clone {
        self.own.iter().map(|(class, rules)| (*class, rules))
    }

    /// The rules of each class, to change them.
    pub(crate) fn rules_mut(&mut self) -> impl Iterator<Item = &mut ClassRetry> {
        self.own.iter_mut().map(|(_, rules)| rules)
    }
}

/// Whether the path is that of a value for one class; then the path of the same value for all.
pub(crate) fn for_all(path: &str) -> Option<String> {
    let (before, rest) = path.split_once(".by_class.")?;
    let (_, leaf) = rest.split_once('.')?;
    Some(format!("{before}.{leaf}"))
}
