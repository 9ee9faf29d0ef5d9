//! A candidate: which value each key has, and the policy that makes of it.

use super::key::{KeyPlace, TunedKey};
use super::layer::LayerNode;
use crate::policy::{Policy, Seed};
use crate::text::Report;

/// The values of all keys by their numbers; `None`: as the policy has it.
pub(crate) type TunePoint = Vec<Option<usize>>;

/// Makes a policy of the one that is tuned and one more layer above it.
type LayerLoader<'a> = dyn Fn(&str) -> Result<Policy, Report> + 'a;

/// A policy whose keys can be given other values.
pub(crate) struct TuneSubject<'a> {
    pub(crate) base: Policy,
    pub(crate) keys: Vec<TunedKey>,
    places: Vec<KeyPlace>,
    load: Box<LayerLoader<'a>>,
}

/// A point, and its policy.
pub(crate) struct TuneCandidate {
    pub(crate) point: TunePoint,
    pub(crate) policy: Policy,
}

impl<'a> TuneSubject<'a> {
    /// `load` makes the policy with one more layer above it.
    pub(crate) fn new(
        base: Policy,
        keys: Vec<TunedKey>,
        load: impl Fn(&str) -> Result<Policy, Report> + 'a,
    ) -> Self {
        let places = keys.iter().map(|key| key.place(&base)).collect();
        Self { base, keys, places, load: Box::new(load) }
    }

    /// The policy as it is.
    pub(crate) fn unchanged(&self) -> TuneCandidate {
        TuneCandidate { point: vec![None; self.keys.len()], policy: self.base.clone() }
    }

    /// What is wrong with the values of a key; `None`: nothing, or only together with the present values of other keys.
    pub(crate) fn problem(&self, key: usize) -> Option<(usize, Report)> {
        let (mut first, count) = (None, self.keys[key].values.len());
        for value in 0..count {
            let mut point = vec![None; self.keys.len()];
            point[key] = Some(value);
            match (self.load)(&self.text(&point)) {
                // One good value shows that the key is there.
                Ok(_) if !self.shares_a_block(key) => {}
                Ok(_) => return None,
                Err(report) => first = first.or(Some((value, report))),
            }
        }
        first
    }

    /// Whether another key is inside the same block, so that their values have to fit each other.
    fn shares_a_block(&self, key: usize) -> bool {
        let others = self.places.iter().enumerate().filter(|(other, _)| *other != key);
        others.into_iter().any(|(_, place)| place.block == self.places[key].block)
    }

    /// The layer of a point.
    pub(crate) fn layer(&self, point: &[Option<usize>]) -> LayerNode {
        let mut layer = LayerNode::default();
        for ((place, key), value) in self.places.iter().zip(&self.keys).zip(point) {
            if let Some(value) = value {
                place.put(&mut layer, &key.values[*value]);
            }
        }
        layer
    }

    /// The value of a key without the layer, as it is written.
    pub(crate) fn before(&self, key: usize) -> Option<String> {
        self.places[key].before().map(crate::policy::display::flow)
    }

    /// The path of the block in which a key is written.
    pub(crate) fn block(&self, key: usize) -> &[String] {
        &self.places[key].block
    }

    /// The candidate of a point; `None`: its values contradict each other, or there is a warning that the policy is without.
    pub(crate) fn candidate(&self, point: TunePoint) -> Option<TuneCandidate> {
        let policy = (self.load)(&self.text(&point)).ok()?;
        let warnings = |policy: &Policy| policy.warnings().map_or(0, |report| report.count().1);
        (warnings(&policy) <= warnings(&self.base)).then_some(TuneCandidate { point, policy })
    }

    fn text(&self, point: &[Option<usize>]) -> String {
        let LayerNode::Map(mut fields) = self.layer(point) else { return String::new() };
        fields.insert("version".into(), LayerNode::Text("1".into()));
        LayerNode::Map(fields).flow()
    }

    /// A random point, the same for the same seed and number.
    pub(crate) fn random(&self, seed: u64, number: u32) -> TunePoint {
        let chance = Seed::new(seed, "point", &number.to_string());
        let each = self.keys.iter().zip(0..);
        // Every key may stay as it is, as often as it gets one certain value.
        each.map(|(key, draw)| below(chance.draw(draw), key.values.len() + 1).checked_sub(1)).collect()
    }

    /// The child of two points: each key is of either, and one to three keys get a value near by or any other.
    pub(crate) fn child(&self, parents: [&TunePoint; 2], seed: u64, number: u32) -> TunePoint {
        let chance = Seed::new(seed, "child", &number.to_string());
        let mut draws = (0..).map(|draw| chance.draw(draw));
        let mut draw = |most: usize| below(draws.next().unwrap_or_default(), most);
        let keys = self.keys.len();
        let is_crossed = draw(3) == 0;
        let of = |own: usize, other: usize| {
            if is_crossed && other == 1 { parents[1][own] } else { parents[0][own] }
        };
        let mut point: TunePoint = (0..keys).map(|key| of(key, draw(2))).collect();
        for _ in 0..=draw(3) {
            let key = draw(keys);
            let values = self.keys[key].values.len();
            let step = draw(4);
            point[key] = match (point[key], step) {
                (Some(value), 0) => Some(value.saturating_sub(1)),
                (Some(value), 1) => Some((value + 1).min(values - 1)),
                (_, 2) => None,
                _ => Some(draw(values)),
            };
        }
        point
    }
}

/// A number below `most`.
fn below(draw: u64, most: usize) -> usize {
    let most = u128::try_from(most).unwrap_or_default();
    usize::try_from((u128::from(draw) * most) >> 64).unwrap_or_default()
}
