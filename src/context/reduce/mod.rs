//! Reductions of a conversation. In every step a call and its results stay together.

mod digest;
mod draft;
mod plain;
mod results;
mod summary;
mod truncate;
mod units;

use serde_json::{Map, Value, json};

use super::counter::TokenCounter;
use crate::engine::ReducePlan;
use crate::policy::{Policy, ReduceStep, Setting};
use crate::session::{ContextReduction, Message};
use crate::text::Template;

use draft::ReducedDraft;

/// Computes one step of a reduction. `weights` are the tokens of each message, as
/// [`message_tokens`](super::message_tokens) counts them; rewritten texts are counted by `counter`. Takes time in
/// proportion to the number of messages and to the length of the texts that are cut.
///
/// The instructions at the head, the note about dropped messages, and the last messages stay, and so does the last
/// message of the user if the plan says so. Only the last resort (`truncate`) cuts those, too, if necessary; if even
/// that is not enough, [`ContextReduction::lacking`] says why.
///
/// ```
/// use unfazed::context::{ByteEstimate, message_tokens, reduce};
/// use unfazed::engine::ReducePlan;
/// use unfazed::policy::{Policy, ReduceStep};
/// use unfazed::session::{Message, splice};
///
/// let mut messages: Vec<Message> = (0..100).map(|n| Message::user(format!("Number {n}."))).collect();
/// let weights: Vec<u64> = messages.iter().map(|message| message_tokens(&ByteEstimate, message)).collect();
/// let plan =
///     ReducePlan { number: 1, step: ReduceStep::Drop { keep_last: 5 }, aim: 200, most: 200, input: None, keep_task: false };
/// let reduction = reduce(&Policy::builtin(), &plan, &messages, &weights, &ByteEstimate);
/// splice(&mut messages, &reduction.splices);
/// assert!(reduction.message_tokens <= 200);
/// assert_eq!(messages.last(), Some(&Message::user("Number 99.")));
/// ```
pub fn reduce(
    policy: &Policy,
    plan: &ReducePlan,
    messages: &[Message],
    weights: &[u64],
    counter: &dyn TokenCounter,
) -> ContextReduction {
    let mut draft = ReducedDraft::new(policy, plan, messages, weights, counter);
    if draft.tokens() > plan.aim {
        match plan.step {
            ReduceStep::Results { over, show, .. } => draft.shorten_results(over, show),
            ReduceStep::Drop { .. } => draft.drop_oldest(),
            ReduceStep::Digest { most, line, result_line, .. } => draft.digest(most, line, result_line),
            ReduceStep::Summary { most, .. } => draft.summarize(most),
            ReduceStep::Truncate { over, head, tail, .. } => draft.truncate(over, head, tail),
        }
    }
    draft.finish()
}

/// Renders a text of the policy; empty if it cannot be rendered.
fn say(template: &Setting<Template>, vars: Value) -> String {
    let vars = match vars {
        Value::Object(vars) => vars,
        _ => Map::new(),
    };
    template.value.render(&vars).unwrap_or_default()
}

/// The text that replaces the part that was cut.
fn cut_notice(policy: &Policy, tokens: u64) -> String {
    say(&policy.context().messages.cut, json!({ "tokens": tokens }))
}

fn number(many: usize) -> u64 {
    u64::try_from(many).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
