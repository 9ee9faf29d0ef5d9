//! What scenarios came to, for machines.

use crate::simulate::SimulationFigures;
use serde_json::{Value, json};

use super::PlayedScenario;

/// One document for all scenarios. Lengths of time are whole nanoseconds.
pub(super) fn document(all: &[PlayedScenario]) -> Value {
    let scenarios: Vec<Value> = all.iter().map(scenario).collect();
    json!({"version": 1, "scenarios": scenarios})
}

fn scenario(played: &PlayedScenario) -> Value {
    let scenario = &played.scenario;
    let mut policies: Vec<Value> =
        played.results.iter().map(|(name, figures)| result(name, figures)).collect();
    for (policy, (_, spread)) in policies.iter_mut().zip(&played.spread) {
        policy["over_seeds"] = json!(spread);
    }
    json!({
        "scenario": scenario.name(),
        "about": scenario.about(),
        "agents": scenario.agents(),
        "duration": scenario.duration(),
        "seed": scenario.seed(),
        "policies": policies,
    })
}

fn result(name: &str, figures: &SimulationFigures) -> Value {
    let mut json = json!({
        "policy": name,
        "success": share(figures.success_ppm()),
        "goodput": figures.goodput(),
        "amplification": share(figures.amplification_ppm()),
        "tool_amplification": share(figures.tool_amplification_ppm()),
    });
    if let (Some(all), Ok(Value::Object(figures))) = (json.as_object_mut(), serde_json::to_value(figures)) {
        all.extend(figures);
    }
    json
}

/// Shown, never computed with.
#[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
fn share(ppm: Option<u64>) -> Option<f64> {
    ppm.map(|ppm| ppm as f64 / 1e6)
}
