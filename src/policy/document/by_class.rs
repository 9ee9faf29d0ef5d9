//! Values by error class: `by_class` of a retry policy, `cost_of` of a budget.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value};

use super::backoff::WrittenBackoff;
use super::retry::{MergedGeneral, RetryLayer};
use crate::policy::decode::{Decode, Described, Patch, Reader, record};
use crate::policy::merge::{At, Block, Layer, Leaf, Trail, Under, Visit, path};
use crate::policy::yaml::Node;
use crate::policy::{Attempts, ClassRetry, ErrorClass, ServerDelay, Span};

record! {
    /// What is different for failures of one class.
    #[derive(Default)]
    #[part(true)]
    pub(crate) struct ClassLayer {
        /// A failure of this class at this attempt of the call, or later, is not followed by another.
        /// Example: `2`
        pub(crate) max_attempts: Patch<Attempts> = Patch::Absent,
        /// The delay after a failure of this class.
        pub(crate) backoff: Patch<WrittenBackoff> = Patch::Absent,
        /// What a delay asked for by the other side does to the wait after a failure of this class.
        pub(crate) server_delay: Patch<ServerDelay> = Patch::Absent,
    }
}

/// What the layers make of it.
#[derive(Clone, Debug)]
struct MergedClass {
    max_attempts: Trail<Attempts>,
    backoff: Trail<WrittenBackoff>,
    server_delay: Trail<ServerDelay>,
}

/// A mapping from error classes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PerClass<T>(pub(crate) Vec<(ErrorClass, T)>);

/// What is different for failures of some classes.
#[derive(Clone, Debug, Default)]
pub(crate) struct ByClass {
    /// Forgets what the layers below say of any class.
    unset: Option<Span>,
    own: PerClass<Block<ClassLayer>>,
}

/// The classes any layer names, each with what the layers make of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct MergedByClass(Vec<(ErrorClass, MergedClass)>);

impl<T> Default for PerClass<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Decode> Decode for PerClass<T> {
    fn decode(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let names: Vec<&str> = ErrorClass::ALL.iter().map(|class| class.name()).collect();
        let mut read = Vec::new();
        for (key, value) in reader.mapping(node)? {
            let class = ErrorClass::from_name(&key.name);
            let class =
                class.or_else(|| reader.choice(key.span, &key.name, &names).and_then(ErrorClass::from_name));
            read.push(class.zip(reader.value::<T>(value)));
        }
        read.into_iter().collect::<Option<_>>().map(Self)
    }

    fn absent() -> Option<Self> {
        Some(Self::default())
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        let value = generator.subschema_for::<Described<T>>();
        let of = |class: &ErrorClass| {
            let mut value = value.clone();
            value.insert("description".into(), class.meaning().into());
            (class.name().to_owned(), value.to_value())
        };
        json_schema!({
            "type": "object",
            "properties": ErrorClass::ALL.iter().map(of).collect::<Map<_, _>>(),
            "additionalProperties": false,
        })
    }
}

impl Decode for ByClass {
    fn decode(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        PerClass::decode(node, reader).map(|own| Self { unset: None, own })
    }

    fn absent() -> Option<Self> {
        Some(Self::default())
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        PerClass::<Block<ClassLayer>>::schema(generator)
    }
}

impl Layer for ClassLayer {
    const ABSENT: &'static Self =
        &Self { max_attempts: Patch::Absent, backoff: Patch::Absent, server_delay: Patch::Absent };

    fn unset(span: Span) -> Self {
        Self { max_attempts: Patch::Null(span), backoff: Patch::Null(span), server_delay: Patch::Null(span) }
    }

    fn retain(&mut self, prefix: &str, keep: &dyn Fn(&str) -> bool) {
        if !keep(&path(prefix, "max_attempts")) {
            self.max_attempts = Patch::Absent;
        }
        if !keep(&path(prefix, "backoff")) {
            self.backoff = Patch::Absent;
        }
        if !keep(&path(prefix, "server_delay")) {
            self.server_delay = Patch::Absent;
        }
    }

    fn entries(&self, under: &Under<'_>, found: &mut Vec<(String, Span, Value)>) {
        fn entry<T: Leaf>(said: &Patch<T>) -> Option<(Span, Value)> {
            Some((said.span()?, said.as_set().map(Leaf::show).unwrap_or_default()))
        }
        let leaves = [
            ("max_attempts", entry(&self.max_attempts)),
            ("backoff", entry(&self.backoff)),
            ("server_delay", entry(&self.server_delay)),
        ];
        let said = leaves.into_iter().filter_map(|(leaf, said)| said.map(|said| (leaf, said)));
        found.extend(said.map(|(leaf, (span, value))| (under.path(leaf), span, value)));
    }
}

impl Layer for ByClass {
    const ABSENT: &'static Self = &Self { unset: None, own: PerClass(Vec::new()) };

    fn unset(span: Span) -> Self {
        Self { unset: Some(span), own: PerClass::default() }
    }

    /// To forget what the layers below say has no direction.
    fn retain(&mut self, prefix: &str, keep: &dyn Fn(&str) -> bool) {
        self.unset = None;
        for (class, layer) in &mut self.own.0 {
            layer.retain(&path(prefix, class.name()), keep);
        }
    }

    fn entries(&self, under: &Under<'_>, found: &mut Vec<(String, Span, Value)>) {
        for (class, layer) in &self.own.0 {
            layer.entries(&under.field(class.name()), found);
        }
    }
}

impl ByClass {
    /// Whether it forgets what the layers below say.
    pub(crate) const fn is_unset(&self) -> bool {
        self.unset.is_some()
    }

    /// The classes it names.
    fn classes(&self) -> impl Iterator<Item = ErrorClass> {
        self.own.0.iter().map(|(class, _)| *class)
    }

    /// What it says of each class.
    pub(crate) fn layers(&self) -> impl Iterator<Item = (ErrorClass, &ClassLayer)> + Clone {
        self.own.0.iter().map(|(class, layer)| (*class, &**layer))
    }

    /// Where it forgets what the layers below say.
    pub(crate) const fn unset_at(&self) -> Option<Span> {
        self.unset
    }

    fn get(&self, class: ErrorClass) -> Option<&ClassLayer> {
        self.own.0.iter().find(|(named, _)| *named == class).map(|(_, layer)| &**layer)
    }
}

impl MergedByClass {
    /// Classes that are named for the first time start from what has held for all so far.
    pub(crate) fn begin(&mut self, layer: &ByClass, general: &MergedGeneral) {
        for class in layer.classes() {
            if !self.0.iter().any(|(known, _)| *known == class) {
                self.0.push((class, MergedClass::of(general)));
            }
        }
    }

    /// Hears one more layer, of which `general` has heard already. What a layer says of one class stands above what
    /// it says of all, and below what any higher layer says of all.
    pub(crate) fn fold(&mut self, layer: &RetryLayer, general: &MergedGeneral, at: &At) {
        for (class, merged) in &mut self.0 {
            merged.max_attempts.fold(&layer.max_attempts, at);
            merged.backoff.fold(&layer.backoff, at);
            merged.server_delay.fold(&layer.server_delay, at);
            let own = &*layer.by_class;
            if own.unset.is_some() {
                *merged = MergedClass::of(general);
            }
            if let Some(own) = own.get(*class) {
                let at = At { name: format!("{} by_class.{class}", at.name).into(), ..at.clone() };
                hear(&mut merged.max_attempts, &own.max_attempts, &general.max_attempts, &at);
                hear(&mut merged.backoff, &own.backoff, &general.backoff, &at);
                hear(&mut merged.server_delay, &own.server_delay, &general.server_delay, &at);
            }
        }
    }

    /// Shows what is different from `general`.
    pub(crate) fn each(&self, general: &MergedGeneral, prefix: &str, visit: Visit<'_>) {
        for (class, merged) in &self.0 {
            let prefix = path(prefix, class.name());
            if merged.max_attempts.differs(&general.max_attempts) {
                visit(path(&prefix, "max_attempts"), &merged.max_attempts);
            }
            if merged.backoff.differs(&general.backoff) {
                visit(path(&prefix, "backoff"), &merged.backoff);
            }
            if merged.server_delay.differs(&general.server_delay) {
                visit(path(&prefix, "server_delay"), &merged.server_delay);
            }
        }
    }

    /// The most attempts of each class, for limits.
    pub(crate) fn max_attempts(&mut self) -> impl Iterator<Item = &mut Trail<Attempts>> {
        self.0.iter_mut().map(|(_, merged)| &mut merged.max_attempts)
    }

    /// The plain values.
    pub(crate) fn policy(&self) -> Option<Box<[ClassRetry]>> {
        let class = |(class, merged): &(ErrorClass, MergedClass)| {
            Some(ClassRetry {
                class: *class,
                max_attempts: merged.max_attempts.setting()?,
                backoff: merged.backoff.setting()?,
                server_delay: merged.server_delay.setting()?,
            })
        };
        self.0.iter().map(class).collect()
    }
}

impl MergedClass {
    fn of(general: &MergedGeneral) -> Self {
        Self {
            max_attempts: general.max_attempts.clone(),
            backoff: general.backoff.clone(),
            server_delay: general.server_delay.clone(),
        }
    }
}

/// What a layer says of one class; `null` goes back to what holds for all.
fn hear<T: Leaf>(trail: &mut Trail<T>, said: &Patch<T>, general: &Trail<T>, at: &At) {
    match said {
        Patch::Null(_) => trail.clone_from(general),
        Patch::Absent | Patch::Set(..) => trail.fold(said, at),
    }
}

/// Whether the path is that of a value for one class; then the path of the same value for all.
pub(crate) fn for_all(path: &str) -> Option<String> {
    let (before, rest) = path.split_once(".by_class.")?;
    let (_, leaf) = rest.split_once('.')?;
    Some(format!("{before}.{leaf}"))
}
