//! Models that choose themselves: a server has refused to demand a call of one, so no later request does. That a call is forbidden is
//! said all the same.

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Map, Value, json};

use super::place::{at, at_mut, remove};
use crate::engine::Failure;
use crate::host::model::wire::RefusalWords;

/// Where the wire formats say that a call is demanded.
const DEMANDS: [&[&str]; 4] = [
    &["tool_choice"],
    &["toolConfig", "toolChoice"],
    &["toolConfig", "functionCallingConfig"],
    // Anthropic's field behind Converse, which has no word for part of it.
    &["additionalModelRequestFields", "tool_choice"],
];
/// What Anthropic says beside a demand and takes without one (`tool_choice_auto_param.py` of its SDK).
const ONE_CALL: &str = "disable_parallel_tool_use";

/// Whether a model has refused that a call is demanded of it.
#[derive(Debug, Default)]
pub(in crate::host::model) struct RefusedDemand(AtomicBool);

impl RefusedDemand {
    /// Whether it has.
    pub(super) fn is_known(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// A body that demands no call, if it has.
    #[cfg(feature = "serve")]
    pub(in crate::host::model) fn left_out_of(&self, body: Vec<u8>) -> Vec<u8> {
        if !self.is_known() {
            return body;
        }
        let Ok(Value::Object(mut fields)) = serde_json::from_slice(&body) else { return body };
        self.leave_out_of(&mut fields);
        serde_json::to_vec(&fields).unwrap_or(body)
    }

    /// Takes the demand out of a body, if it has. What else is said of calls stays: with `allowedFunctionNames` of Gemini that is
    /// nothing, as they "should only be set when the Mode is ANY or VALIDATED" (`FunctionCallingConfig`).
    pub(super) fn leave_out_of(&self, fields: &mut Map<String, Value>) {
        for place in DEMANDS.into_iter().filter(|_| self.is_known()) {
            let Some(choice) = at(fields, place).filter(|choice| demands(choice)) else { continue };
            let one_call = choice.get(ONE_CALL).cloned();
            match one_call.zip(at_mut(fields, place)) {
                Some((one_call, choice)) => *choice = json!({"type": "auto", ONE_CALL: one_call}),
                None => remove(fields, place),
            }
        }
    }

    /// What a refusal of the body that was sent teaches, in words; `None`: it demands no call, or something else was refused.
    pub(in crate::host::model) fn learn(
        &self,
        model: &str,
        sent: &[u8],
        refusal: &Failure,
    ) -> Option<String> {
        // vLLM answers what a template raises with 500; an error inside a stream has no status.
        let is_refusal = matches!(refusal.status, None | Some(400 | 422 | 500));
        if !is_refusal || !RefusalWords::of(refusal).refuses_demand() {
            return None;
        }
        let place = demand_of(sent)?.join(".");
        // Requests in flight at the same time learn the same.
        self.0.store(true, Ordering::Relaxed);
        Some(format!(
            "`{model}` refused the request, which is sent again without a demand for a call (`{place}`): the model chooses"
        ))
    }
}

/// Whether a body demands a call.
#[cfg(feature = "serve")]
pub(in crate::host::model) fn demands_call(body: &[u8]) -> bool {
    demand_of(body).is_some()
}

/// Where a body demands a call.
fn demand_of(body: &[u8]) -> Option<&'static [&'static str]> {
    let fields: Map<String, Value> = serde_json::from_slice(body).ok()?;
    DEMANDS.into_iter().find(|place| at(&fields, place).is_some_and(demands))
}

/// Whether a choice among tools demands a call: `required`, `{type: any}`, `{any: {}}`, `{mode: ANY}`.
fn demands(choice: &Value) -> bool {
    let mut words = [Some(choice), choice.get("type"), choice.get("mode")].into_iter().flatten();
    match words.find_map(Value::as_str) {
        Some(word) => !["auto", "none", "AUTO", "NONE", "VALIDATED"].contains(&word),
        None => choice.get("auto").is_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAYS: &str = "tool_choice forces tool use is not compatible with this model.";

    fn refused(status: Option<u16>, message: &str) -> Failure {
        Failure { status, message: message.into(), ..Failure::default() }
    }

    fn bytes(body: &Value) -> Vec<u8> {
        serde_json::to_vec(body).unwrap()
    }

    fn left(demand: &RefusedDemand, body: &Value) -> Value {
        let mut fields = body.as_object().cloned().unwrap();
        demand.leave_out_of(&mut fields);
        Value::Object(fields)
    }

    #[test]
    fn a_demand_is_left_out_wherever_it_stands_and_what_forbids_a_call_stays() {
        for (demand, place, other) in [
            (
                json!({"tool_choice": {"type": "any"}}),
                "tool_choice",
                json!({"tool_choice": {"type": "none"}}),
            ),
            (json!({"tool_choice": "required"}), "tool_choice", json!({"tool_choice": "none"})),
            (
                json!({"toolConfig": {"tools": [], "toolChoice": {"tool": {"name": "a"}}}}),
                "toolConfig.toolChoice",
                json!({"toolConfig": {"tools": [], "toolChoice": {"auto": {}}}}),
            ),
            (
                json!({"toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["a"]}}}),
                "toolConfig.functionCallingConfig",
                json!({"toolConfig": {"functionCallingConfig": {"mode": "NONE"}}}),
            ),
            (
                json!({"additionalModelRequestFields": {"top_k": 3, "tool_choice": {"type": "any"}}}),
                "additionalModelRequestFields.tool_choice",
                json!({"additionalModelRequestFields": {"tool_choice": {"type": "none"}}}),
            ),
        ] {
            let (known, refusal) = (RefusedDemand::default(), refused(Some(400), SAYS));
            assert_eq!(known.learn("m", &bytes(&other), &refusal), None, "{other}");
            assert_eq!(left(&known, &demand), demand, "nothing was refused");
            let note = known.learn("m", &bytes(&demand), &refusal).unwrap();
            assert!(note.contains(&format!("(`{place}`)")), "{note}");
            let after = left(&known, &demand);
            assert_eq!(after.pointer(&format!("/{}", place.replace('.', "/"))), None, "{after}");
            assert_eq!(known.learn("m", &bytes(&after), &refusal), None, "it cannot be refused again");
            assert_eq!(left(&known, &other), other);
        }
    }

    #[test]
    fn one_call_at_most_is_still_asked_for() {
        let one_call = |choice: Value| json!({"tool_choice": choice, "top_k": 3});
        let kept = one_call(json!({"type": "auto", "disable_parallel_tool_use": true}));
        for demand in [
            one_call(json!({"type": "any", "disable_parallel_tool_use": true})),
            one_call(json!({"type": "tool", "name": "a", "disable_parallel_tool_use": true})),
        ] {
            let behind = |fields: &Value| json!({"additionalModelRequestFields": fields});
            for (sent, expected) in [(demand.clone(), kept.clone()), (behind(&demand), behind(&kept))] {
                let known = RefusedDemand::default();
                assert!(known.learn("m", &bytes(&sent), &refused(Some(400), SAYS)).is_some(), "{sent}");
                assert_eq!(left(&known, &sent), expected);
                assert_eq!(left(&known, &expected), expected);
            }
        }
    }

    #[test]
    fn only_a_refusal_of_the_demand_teaches_it() {
        let sent = bytes(&json!({"tool_choice": "required"}));
        for (status, message, is_one) in [
            (Some(400), SAYS, true),
            // A template of vLLM, and an error inside a stream of Bedrock's.
            (Some(500), SAYS, true),
            (None, SAYS, true),
            (Some(429), SAYS, false),
            (Some(400), "tool_choice 'specified' is incompatible with thinking enabled", true),
            (
                Some(400),
                "<400> InternalError.Algo.InvalidParameter: The tool_choice parameter does not support being set to required or object in thinking mode",
                true,
            ),
            (Some(400), "This model does not support tools", false),
        ] {
            let note = RefusedDemand::default().learn("m", &sent, &refused(status, message));
            assert_eq!(note.is_some(), is_one, "{status:?} {message}");
        }
    }
}
