//! What a search came to, for machines.

use serde_json::{Map, Value, json};

use super::TunedPolicy;
use crate::tune::TunedPoint;

/// One document. Success and calls are in millionths, goodput in thousandths of good answers an hour, times in nanoseconds.
pub(super) fn document(tuned: &TunedPolicy<'_, '_>) -> Value {
    let result = &tuned.result;
    let point = |point: &TunedPoint| {
        let values: Map<String, Value> =
            tuned.values(point).map(|(key, value)| (key.name.clone(), value.into())).collect();
        let each = tuned.scenarios.iter().zip(&point.each);
        let each =
            each.map(|(scenario, measure)| json!({"scenario": scenario.scenario.name(), "measure": measure}));
        json!({"values": values, "measure": point.measure, "scenarios": each.collect::<Vec<_>>()})
    };
    let held_out = tuned
        .held_out
        .iter()
        .map(|(name, [base, chosen])| json!({"scenario": name, "base": base, "chosen": chosen}));
    json!({
        "version": 1,
        "policy": tuned.args.policy,
        "seed": tuned.args.seed,
        "tried": result.tried,
        "base": point(&result.base),
        "chosen": result.chosen.as_ref().map(|chosen| chosen.at),
        "frontier": result.frontier.iter().map(point).collect::<Vec<_>>(),
        "held_out": held_out.collect::<Vec<_>>(),
    })
}
