//! What came of it, for other programs.

use crate::replay::{DecisionSides, ReplayDifference, ReplayDivergence, ReplayReport};
use serde_json::{Value, json};

use super::{ReplayEntry, decides_again};

/// All of it as one document.
pub(super) fn document(entries: &[ReplayEntry]) -> Value {
    let (mut sessions, mut unusable) = (Vec::new(), Vec::new());
    for entry in entries {
        match &entry.result {
            Ok(found) => sessions.push(session(entry, found)),
            Err(why) => unusable.push(json!({ "id": entry.id, "error": why })),
        }
    }
    json!({ "v": 1, "sessions": sessions, "unusable": unusable })
}

fn session(entry: &ReplayEntry, found: &ReplayReport) -> Value {
    let by = found.by.iter().map(|(policy, from)| {
        let again = decides_again(found, policy, *from);
        json!({ "policy": policy, "from": from, "again": again })
    });
    json!({
        "id": entry.id,
        "title": entry.title,
        "policy": found.policy,
        "decided_by": by.collect::<Vec<_>>(),
        "same_policy": found.by_same(),
        "result": if found.divergence().is_some() { "diverges" } else { "same" },
        "events": found.events,
        "same": found.same,
        "left_out": found.left_out,
        "undecided": found.undecided,
        "passed_over": found.passed_over,
        "divergence": found.divergence().map(divergence),
        "then": found.recorded,
        "now": found.replayed,
        "unchecked_tools": found.unchecked,
    })
}

fn divergence(ReplayDivergence { seq, at, event, policy, difference }: &ReplayDivergence) -> Value {
    let sides = |what: &str, side: &DecisionSides| {
        let field = side.field().map(|(field, _, _)| field);
        json!({ "what": what, "index": side.index, "field": field, "then": side.then, "now": side.now })
    };
    let difference = match difference {
        ReplayDifference::Decision(side) => sides("decision", side),
        ReplayDifference::Because(side) => sides("because", side),
        ReplayDifference::State { then, now } => json!({ "what": "state", "then": then, "now": now }),
    };
    json!({ "seq": seq, "at": at.to_rfc3339(), "event": event, "decided_by": policy, "difference": difference })
}
