//! The laws of the merge.

use core::num::NonZeroU32;

use proptest::prelude::*;

use super::*;
use crate::policy::decode::Patch;
use crate::policy::document::ClassList;
use crate::policy::{AttemptLimit, ClassSet, ErrorClass, LayerKind};
use crate::text::{SourceId, Span};

fn classes() -> impl Strategy<Value = ClassSet> {
    proptest::collection::vec(0..ErrorClass::ALL.len(), 0..5)
        .prop_map(|picked| picked.into_iter().map(|i| ErrorClass::ALL[i]).collect())
}

fn patch() -> impl Strategy<Value = Patch<ClassList>> {
    let span = Span::new(SourceId(1), 0, 0);
    prop_oneof![
        Just(Patch::Absent),
        Just(Patch::Null(span)),
        classes().prop_map(move |all| Patch::Set(ClassList::Replace(all), span)),
        (classes(), classes())
            .prop_map(move |(add, remove)| Patch::Set(ClassList::Edit { add, remove }, span)),
    ]
}

/// The word of a layer, numbered by its place so that words can be distinguished.
fn layers() -> impl Strategy<Value = Vec<(Patch<ClassList>, LayerPosition)>> {
    proptest::collection::vec(patch(), 0..8).prop_map(|patches| {
        let numbered = patches.into_iter().enumerate().map(|(i, patch)| {
            let scope = if i < 2 { LayerKind::Builtin } else { LayerKind::Tool };
            let span = Span::new(SourceId(1), u32::try_from(i).unwrap(), 0);
            let patch = match patch {
                // The built-in layers have nothing to go back to.
                Patch::Null(_) if scope == LayerKind::Tool => Patch::Null(span),
                Patch::Absent | Patch::Null(_) => Patch::Absent,
                Patch::Set(value, _) => Patch::Set(value, span),
            };
            (patch, LayerPosition::new(scope, "layer"))
        });
        numbered.collect()
    })
}

fn fold(layers: &[(Patch<ClassList>, LayerPosition)]) -> ValueHistory<ClassList> {
    let mut trail = ValueHistory::default();
    for (patch, at) in layers {
        trail.fold(patch, at);
    }
    trail
}

/// What is said in plain words: replace, edit, or go back to what the built-in layers made of it.
fn expected(layers: &[(Patch<ClassList>, LayerPosition)]) -> Option<ClassSet> {
    let (mut value, mut builtin) = (None, None);
    for (patch, at) in layers {
        value = match patch {
            Patch::Absent => value,
            Patch::Null(_) => builtin,
            Patch::Set(ClassList::Replace(all), _) => Some(*all),
            Patch::Set(ClassList::Edit { add, remove }, _) => {
                let kept = value.unwrap_or_default().iter().filter(|class| !remove.contains(*class));
                Some(kept.chain(add.iter()).collect())
            }
        };
        if at.scope == LayerKind::Builtin {
            builtin = value;
        }
    }
    value
}

proptest! {
    #[test]
    fn the_value_is_what_the_layers_say(layers in layers()) {
        prop_assert_eq!(fold(&layers).get().copied(), expected(&layers));
    }

    #[test]
    fn layers_may_be_joined_in_any_grouping(layers in layers(), a in 0..8_usize, b in 0..8_usize) {
        let (a, b) = (a.min(b).min(layers.len()), a.max(b).min(layers.len()));
        let [x, y, z] = [fold(&layers[..a]), fold(&layers[a..b]), fold(&layers[b..])];
        let left = x.clone().join(&y).join(&z);
        let right = x.join(&y.join(&z));
        prop_assert_eq!(left.value(), right.value());
        prop_assert_eq!(left.contributions(), right.contributions());
        prop_assert_eq!(left.value(), fold(&layers).value());
    }

    #[test]
    fn the_empty_trail_changes_nothing(layers in layers()) {
        let trail = fold(&layers);
        prop_assert_eq!(ValueHistory::default().join(&trail).value(), trail.value());
        prop_assert_eq!(trail.clone().join(&ValueHistory::default()).value(), trail.value());
    }

    #[test]
    fn what_has_lost_can_be_taken_away(layers in layers()) {
        let trail = fold(&layers);
        let lost: Vec<u32> = trail.contributions().iter().filter(|c| !c.won).map(|c| c.origin.at).collect();
        let kept =
            layers.iter().filter(|(patch, _)| patch.span().is_none_or(|span| !lost.contains(&span.start))).cloned();
        let kept: Vec<_> = kept.collect();
        prop_assert_eq!(fold(&kept).get().copied(), trail.get().copied());
    }

    #[test]
    fn the_last_word_that_counts_is_the_origin(layers in layers()) {
        let trail = fold(&layers);
        let last = trail.contributions().into_iter().rfind(|said| said.won);
        if let (Some((_, origin)), Some(last)) = (trail.value(), last)
            && last.set.is_some()
        {
            prop_assert_eq!(origin, last.origin);
        }
    }

    #[test]
    fn a_limit_never_loosens(attempts in 1..50_u32, limit in 1..50_u32) {
        let text = format!("version: 1\nlimits: {{max_attempts: {limit}}}\nretry: {{max_attempts: {attempts}}}\n");
        let policy = crate::policy::Policy::from_yaml("x", &text).unwrap();
        let expected = AttemptLimit::Limited(NonZeroU32::new(attempts.min(limit)).unwrap());
        prop_assert_eq!(policy.model("m").retry.max_attempts.value, expected);
    }
}
