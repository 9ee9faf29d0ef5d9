//! Where the policy wants a person to agree: the client is asked to ask (`elicitation/create`).

use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;

use super::message::RpcMessage;
use super::{RelayApproval, RelayParts};
use crate::engine::{ApprovalAnswer, ApprovalQuestion, AskPerson};
use crate::policy::UnansweredMode;
use crate::text::visible;

/// What the person said.
#[derive(Deserialize)]
struct ElicitResult {
    action: String,
}

/// The answer to a question.
pub(super) async fn answer(relay: &Arc<RelayParts>, ask: &AskPerson) -> ApprovalAnswer {
    match relay.approve {
        RelayApproval::Yes if ask.question == ApprovalQuestion::Run => return ApprovalAnswer::Approve,
        RelayApproval::Yes | RelayApproval::No => return ApprovalAnswer::Refuse,
        RelayApproval::Ask if !relay.client().can_elicit => return nobody(relay, ask),
        RelayApproval::Ask => {}
    }
    let schema = json!({ "type": "object", "properties": {} });
    let params = json!({ "message": question(ask, relay), "requestedSchema": schema });
    let answer = relay.ask_client("elicitation/create", &params.to_string()).await;
    let answer = answer.as_deref().map(RpcMessage::parse);
    let Some(Ok(RpcMessage::Answer { outcome: Ok(result), .. })) = answer else { return nobody(relay, ask) };
    let read: Option<ElicitResult> = serde_json::from_str(result.get()).ok();
    let answer = read.map_or(ApprovalAnswer::None, |ElicitResult { action }| answer_of(&action));
    of_person(answer, relay, ask)
}

/// What an action of the client says: `cancel` and unknown ones are no answer.
pub(super) fn answer_of(action: &str) -> ApprovalAnswer {
    match action {
        "accept" => ApprovalAnswer::Approve,
        "decline" => ApprovalAnswer::Refuse,
        _ => ApprovalAnswer::None,
    }
}

/// What the policy learns of an answer.
pub(super) fn of_person(answer: ApprovalAnswer, relay: &RelayParts, ask: &AskPerson) -> ApprovalAnswer {
    if answer == ApprovalAnswer::None { nobody(relay, ask) } else { answer }
}

/// Where nobody can be asked nothing is approved, whatever the policy makes of silence: who wrote `unanswered: approve` meant
/// a person who was asked.
fn nobody(relay: &RelayParts, ask: &AskPerson) -> ApprovalAnswer {
    match (ask.question, relay.policy.current().turn().approval.unanswered.value) {
        (ApprovalQuestion::Run, UnansweredMode::Approve) => ApprovalAnswer::Refuse,
        (ApprovalQuestion::Run, UnansweredMode::Refuse) | (ApprovalQuestion::RunAgain, _) => {
            ApprovalAnswer::None
        }
    }
}

/// The whole call: whoever agrees must have seen what to, and nothing that is made to look otherwise.
pub(super) fn question(ask: &AskPerson, relay: &RelayParts) -> String {
    let shown = relay.shown_tool(&ask.tool);
    let (tool, message) = (visible(shown.as_deref().unwrap_or(&ask.tool)), visible(&ask.message));
    let arguments = format!("{:#}", ask.arguments);
    let arguments: Vec<_> = arguments.lines().map(visible).collect();
    let arguments = arguments.join("\n");
    match ask.question {
        ApprovalQuestion::Run => format!("Run {tool} with these arguments?\n{arguments}"),
        ApprovalQuestion::RunAgain => {
            format!("{tool} failed and may have had side effects: {message}\nRun it again?\n{arguments}")
        }
    }
}
